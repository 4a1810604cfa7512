//! A key's files in one: for another disk, not for signing twice.
//!
//! A backup has no anchor. Restored where the anchors are, it goes on only if nothing was signed since it was made;
//! else, and where they are not, [`crate::recover`] has to be told how much to burn.

use std::io;
use std::path::Path;

use gabion_engine::keys::stateful::{LedgerError, digest_of};
use zeroize::Zeroizing;

use crate::disk::{Access, Disk, write_all};
use crate::files::{Paths, Surroundings, failed, read_file, unsafe_state};
use crate::lock::{self, Lock, Tried};
use crate::record::Reader;

const MAGIC: [u8; 8] = *b"gabback1";

/// Writes a backup of a key's files, durably, while nobody signs.
///
/// # Errors
/// If somebody signs; if there is a file `out`; if a file can't be read or written.
pub fn backup(around: &Surroundings, key: &Path, out: &Path) -> Result<(), LedgerError> {
    let disk = &*around.disk;
    let paths = Paths::of_existing(disk, key)?;
    let lock = Lock::try_take(disk, &paths.lock).map_err(|error| failed(&paths.lock, &error))?;
    if let Tried::Busy(holder) = lock {
        return Err(LedgerError::Held(holder));
    }
    let mut bytes = Zeroizing::new(MAGIC.to_vec());
    for path in [&paths.key, &paths.state, &paths.log] {
        let file = read_file(disk, path, u64::MAX).map_err(|error| failed(path, &error))?;
        bytes.extend_from_slice(&(file.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&file);
    }
    let sum = digest_of(&bytes);
    bytes.extend_from_slice(&sum);
    write_files(disk, &[(out, &bytes)])
}

/// Writes the files of a key from a backup.
///
/// # Errors
/// If it is damaged; if one of the files is there already, or can't be written. Then none is.
pub fn restore(around: &Surroundings, backup: &Path, key: &Path) -> Result<(), LedgerError> {
    let disk = &*around.disk;
    let bytes = read_file(disk, backup, u64::MAX).map_err(|error| failed(backup, &error))?;
    let files = taken_apart(&bytes);
    let [secret, state, log] =
        files.ok_or_else(|| unsafe_state(backup, "it is no whole backup"))?;
    let paths = Paths::of(key);
    let held = [b' '; lock::LEN];
    write_files(
        disk,
        &[(&paths.lock, &held), (&paths.log, log), (&paths.state, state), (&paths.key, secret)],
    )
}

fn taken_apart(bytes: &[u8]) -> Option<[&[u8]; 3]> {
    let (said, sum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    let mut reader = Reader(said);
    if digest_of(said) != sum || reader.array()? != MAGIC {
        return None;
    }
    let mut file = || {
        let len = usize::try_from(reader.u64()?).ok()?;
        reader.bytes(len)
    };
    Some([file()?, file()?, file()?])
}

/// Writes new files, all or none.
fn write_files(disk: &dyn Disk, files: &[(&Path, &[u8])]) -> Result<(), LedgerError> {
    let mut made = 0;
    let written = files.iter().try_for_each(|(path, bytes)| {
        let at = |error: io::Error| failed(path, &error);
        let file = disk.open(path, Access::New).map_err(at)?;
        made += 1;
        write_all(&*file, bytes, 0).and_then(|()| file.sync()).map_err(at)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        disk.sync_folder(folder).map_err(at)
    });
    if written.is_err() {
        for (path, _) in files[..made].iter().rev() {
            // A rest without a key signs nothing.
            let _ = disk.remove(path);
        }
    }
    written
}
