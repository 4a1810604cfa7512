//! A key's files in one: for another disk, not for signing twice.
//!
//! A backup has no anchor. Restored where the anchors are, it goes on only if nothing was signed since it was made;
//! else, and where they are not, [`crate::recover`] has to be told how much to burn.

use std::path::{Path, PathBuf};

use gabion_engine::keys::stateful::{LedgerError, digest_of};
use zeroize::Zeroizing;

use crate::disk::Disk;
use crate::files::{Paths, Surroundings, failed, folder_of, read_file};
use crate::keys::{make_files, remove_unfinished, write_new};
use crate::lock::{Lock, Tried, Work};
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
    let lock = match lock {
        Tried::Busy(holder) => return Err(LedgerError::Held(holder)),
        Tried::Held(lock) => lock,
    };
    let written = read_all(disk, &paths).and_then(|bytes| {
        let mut made = Vec::new();
        let written = write_file(disk, out, &bytes, &mut made);
        if written.is_err() && !made.is_empty() {
            // A part of a backup is none.
            let _ = disk.remove(out);
        }
        written
    });
    lock.release();
    written
}

/// Writes the files of a key from a backup. What a process left that was killed at it is removed first.
///
/// # Errors
/// [`LedgerError::Place`] if it is damaged, or has the name of one of the files; if one of them is there already, or
/// can't be written. Then none is.
pub fn restore(around: &Surroundings, backup: &Path, key: &Path) -> Result<(), LedgerError> {
    let disk = &*around.disk;
    let misplaced = |reason: &str| LedgerError::Place(format!("{}: {reason}", backup.display()));
    let bytes = read_file(disk, backup, u64::MAX).map_err(|error| failed(backup, &error))?;
    let files = taken_apart(&bytes);
    let [secret, state, log] = files.ok_or_else(|| misplaced("it is no whole backup"))?;
    let paths = Paths::of(key);
    let id = disk.identity(backup).map_err(|error| failed(backup, &error))?;
    if paths.all().iter().any(|path| disk.identity(path).is_ok_and(|other| other == id)) {
        return Err(misplaced("it has the name of a file of the key"));
    }
    remove_unfinished(around, &paths)?;
    make_files(around, &paths, Work::Restoring, |made| {
        // The private key comes last.
        let files = [(&paths.log, log), (&paths.state, state), (&paths.key, secret)];
        files.iter().try_for_each(|(path, bytes)| write_file(disk, path, bytes, made))
    })
}

/// All that a backup has, in memory that is wiped, of which none is copied when it grows.
fn read_all(disk: &dyn Disk, paths: &Paths) -> Result<Zeroizing<Vec<u8>>, LedgerError> {
    let read =
        |path: &PathBuf| read_file(disk, path, u64::MAX).map_err(|error| failed(path, &error));
    let files = [read(&paths.key)?, read(&paths.state)?, read(&paths.log)?];
    let len = MAGIC.len() + files.iter().map(|file| 8 + file.len()).sum::<usize>() + 32;
    let mut bytes = Zeroizing::new(Vec::with_capacity(len));
    bytes.extend_from_slice(&MAGIC);
    for file in &files {
        bytes.extend_from_slice(&(file.len() as u64).to_be_bytes());
        bytes.extend_from_slice(file);
    }
    let sum = digest_of(&bytes);
    bytes.extend_from_slice(&sum);
    Ok(bytes)
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

/// Writes a new file, durably.
fn write_file(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    made: &mut Vec<PathBuf>,
) -> Result<(), LedgerError> {
    write_new(disk, path, bytes, made)?;
    let folder = folder_of(path);
    disk.sync_folder(folder).map_err(|error| failed(folder, &error))
}
