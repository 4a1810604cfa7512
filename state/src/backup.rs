//! A key's files in one: for another disk, not for signing twice.
//!
//! A backup has no anchor. Restored where the anchors are, it goes on only if nothing was signed since it was made;
//! else, and where they are not, [`crate::recover`] has to be told how much to burn.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use gabion_engine::keys::stateful::{LedgerError, digest_of};
use zeroize::Zeroizing;

use crate::disk::{Access, Disk, read_full, write_all};
use crate::files::{Paths, Surroundings, failed, folder_of, put_file, read_file};
use crate::keys::{check_no_part, make_files, remove_unfinished, write_new};
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
    paths.check_there(disk, &[&paths.state, &paths.log, &paths.lock])?;
    let lock = Lock::try_take(disk, &paths.lock).map_err(|error| failed(&paths.lock, &error))?;
    let lock = match lock {
        Tried::Busy(holder) => return Err(LedgerError::Held(holder)),
        Tried::Held(lock) => lock,
    };
    let written = read_all(disk, &paths).and_then(|bytes| write_whole(disk, out, &bytes));
    lock.release();
    written
}

/// Writes a new file, durably, under its name only when all of it is there. A part of a backup is none: it has another
/// name, FILE.part, by which the next one removes it where a process was killed.
fn write_whole(disk: &dyn Disk, out: &Path, bytes: &[u8]) -> Result<(), LedgerError> {
    let at = |error: io::Error| failed(out, &error);
    if disk.identity(out).is_ok() {
        return Err(at(ErrorKind::AlreadyExists.into()));
    }
    let mut part = out.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let at_part = |error: io::Error| failed(&part, &error);
    match Lock::try_take(disk, &part) {
        Ok(Tried::Busy(_)) => {
            return Err(LedgerError::Held("a process that writes this backup".to_owned()));
        }
        Ok(Tried::Held(lock)) => {
            let removed = remove_part(disk, &part);
            lock.release();
            removed.map_err(at_part)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(at_part(error)),
    }
    let lock = Lock::create(disk, &part).map_err(at_part)?;
    let written = disk.open(&part, Access::Write).and_then(|file| {
        write_all(&*file, bytes, 0)?;
        file.sync()?;
        disk.rename_new(&part, out)
    });
    let written = match written {
        Err(error) => {
            let _ = disk.remove(&part);
            Err(at(error))
        }
        Ok(()) => disk.sync_folder(folder_of(out)).map_err(|error| {
            // Nobody knows whether its name will be there.
            let _ = disk.remove(out);
            at(error)
        }),
    };
    lock.release();
    written
}

/// Removes what a process left that was killed while it wrote a backup, and nothing else.
fn remove_part(disk: &dyn Disk, part: &Path) -> io::Result<()> {
    let file = disk.open(part, Access::Read)?;
    let mut begins = [0; MAGIC.len()];
    let len = read_full(&*file, &mut begins, 0)?;
    // What was not written yet when the power went is zeros.
    match begins[..len] == MAGIC[..len] || begins.iter().all(|byte| *byte == 0) {
        true => disk.remove(part),
        false => Err(io::Error::other("it is in the way, and is no part of a backup")),
    }
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
    check_no_part(disk, &paths)?;
    make_files(around, &paths, Work::Restoring, |made| {
        write_file(disk, &paths.log, log, made)?;
        write_file(disk, &paths.state, state, made)?;
        // The private key comes last, and whole.
        put_file(disk, &paths.key, secret, false).map_err(|error| failed(&paths.key, &error))?;
        made.push(paths.key.clone());
        Ok(())
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
