//! Backups: a key's files in one file, for use on another disk but never for signing an index
//! twice.
//!
//! A backup contains no anchor. After restoring it next to its anchors, the key is usable only if
//! nothing was signed since the backup. Otherwise, or without the anchors, [`crate::recover`] needs
//! to know how many indexes to burn.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_disk::{Access, Disk, DiskFile, read_full, write_all};
use gabion_engine::keys::stateful::LedgerError;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::anchor::{Anchor, FileAnchor, verdict};
use crate::files::{
    CHUNK, Environment, Paths, anchor_paths, copy_file, failed, folder_of, read_range, read_state,
    write_file,
};
use crate::key_file::FILE_MAX;
use crate::keys::{check_no_part, make_files, remove_unfinished};
use crate::lock::{Lock, LockAttempt, Work};
use crate::record::Lifecycle;

const MAGIC: [u8; 8] = *b"gabback1";

/// Writes a backup of a key's files, durably. The key cannot sign meanwhile.
///
/// # Errors
/// If the key is in use; if it was handed over or retired here; if the file `out` exists; if a file
/// cannot be read or written.
pub fn backup(environment: &Environment, key: &Path, out: &Path) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let paths = Paths::resolve_existing(disk, key)?;
    let lock = take_lock(environment, &paths)?;
    let written =
        check_active(environment, &paths).and_then(|()| write_whole(disk, out, &paths, || Ok(())));
    lock.release();
    written
}

/// Takes the lock of a key, and checks that no file of it is missing.
pub(crate) fn take_lock(environment: &Environment, paths: &Paths) -> Result<Lock, LedgerError> {
    let disk = &*environment.disk;
    paths.check_present(disk, &[&paths.state, &paths.log, &paths.lock])?;
    match Lock::try_take(disk, &paths.lock) {
        Ok(LockAttempt::Acquired(lock)) => Ok(lock),
        Ok(LockAttempt::Busy(holder)) => Err(LedgerError::Held(holder)),
        Err(error) => Err(failed(&paths.lock, &error)),
    }
}

/// Rejects a key that left this home: its files here are older than the indexes that may be signed
/// elsewhere.
fn check_active(environment: &Environment, paths: &Paths) -> Result<(), LedgerError> {
    let (head, _, state) = match read_state(&*environment.disk, paths, Access::Read) {
        // A key with a damaged state or lost anchors is backed up unchanged.
        Err(LedgerError::Unsafe(_)) => return Ok(()),
        read => read?,
    };
    paths.check_active(state.lifecycle)?;
    for path in anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)? {
        let mark = FileAnchor::new(Arc::clone(&environment.disk), path.clone()).read();
        let mark = mark.map_err(|error| failed(&path, &error))?;
        let verdict = mark.map(|mark| verdict(&mark, &state, &head.key));
        let gone = verdict.filter(|verdict| verdict.lifecycle() != Lifecycle::Active);
        if let Some(refused) = gone.and_then(|gone| paths.refusal_of(&path, gone)) {
            return Err(refused);
        }
    }
    Ok(())
}

/// Writes a new backup durably. It gets its name only when it is complete and `before_name`
/// succeeded. Until then it is named FILE.part, which the next call removes if a process was
/// killed.
pub(crate) fn write_whole(
    disk: &dyn Disk,
    out: &Path,
    paths: &Paths,
    before_name: impl FnOnce() -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let at = |error: io::Error| failed(out, &error);
    if disk.identity(out).is_ok() {
        return Err(at(ErrorKind::AlreadyExists.into()));
    }
    let mut part = out.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let at_part = |error: io::Error| failed(&part, &error);
    match Lock::try_take(disk, &part) {
        Ok(LockAttempt::Busy(_)) => {
            return Err(LedgerError::Held("a process that writes this backup".to_owned()));
        }
        Ok(LockAttempt::Acquired(lock)) => {
            let removed = remove_part(disk, &part);
            lock.release();
            removed.map_err(at_part)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(at_part(error)),
    }
    let lock = Lock::create(disk, &part).map_err(at_part)?;
    let file = disk.open(&part, Access::Write).map_err(at);
    let written = file.and_then(|file| {
        write_all_of(disk, paths, &*file, out)?;
        file.sync().map_err(at)?;
        before_name()?;
        disk.rename_new(&part, out).map_err(at)
    });
    let written = match written {
        Err(error) => {
            let _ = disk.remove(&part);
            Err(error)
        }
        Ok(()) => disk.sync_folder(folder_of(out)).map_err(|error| {
            // After the error it is unknown whether the name exists on the disk.
            let _ = disk.remove(out);
            at(error)
        }),
    };
    lock.release();
    written
}

/// Returns whether a file is a complete backup of the current files of a key.
pub(crate) fn is_backup_of(
    disk: &dyn Disk,
    out: &Path,
    paths: &Paths,
) -> Result<bool, LedgerError> {
    let at = |error: io::Error| failed(out, &error);
    let backup = match disk.open(out, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        backup => backup.map_err(at)?,
    };
    let Some(ranges) = find_sections(&*backup).map_err(at)? else { return Ok(false) };
    for (range, path) in ranges.iter().zip([&paths.key, &paths.state, &paths.log]) {
        let at_file = |error: io::Error| failed(path, &error);
        let file = disk.open(path, Access::Read).map_err(at_file)?;
        let len = range.end - range.start;
        if file.size().map_err(at_file)? != len {
            return Ok(false);
        }
        for start in (0..len).step_by(CHUNK) {
            let now = start..len.min(start + CHUNK as u64);
            let of_backup = range.start + now.start..range.start + now.end;
            if read_range(&*file, &now).map_err(at_file)?
                != read_range(&*backup, &of_backup).map_err(at)?
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Syncs a backup and its name.
pub(crate) fn sync_backup(disk: &dyn Disk, out: &Path) -> Result<(), LedgerError> {
    let file = disk.open(out, Access::Read).map_err(|error| failed(out, &error))?;
    file.sync().and_then(|()| disk.sync_folder(folder_of(out))).map_err(|error| failed(out, &error))
}

/// Removes the partial backup of a killed process, and nothing else.
fn remove_part(disk: &dyn Disk, part: &Path) -> io::Result<()> {
    let file = disk.open(part, Access::Read)?;
    let mut begins = [0; MAGIC.len()];
    let len = read_full(&*file, &mut begins, 0)?;
    // Data that was not written before a power failure reads as zeros.
    match begins[..len] == MAGIC[..len] || begins.iter().all(|byte| *byte == 0) {
        true => disk.remove(part),
        false => Err(io::Error::other("the file exists and is not a partial backup")),
    }
}

/// Restores the files of a key from a backup. Leftovers of a killed process are removed first.
///
/// # Errors
/// [`LedgerError::Place`] if the backup is damaged or has the name of one of the files, or if one
/// of the files exists or cannot be written. No file is created then.
pub fn restore(environment: &Environment, backup: &Path, key: &Path) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let misplaced = |reason: &str| LedgerError::Place(format!("{}: {reason}", backup.display()));
    let at = |error: io::Error| failed(backup, &error);
    let file = disk.open(backup, Access::Read).map_err(at)?;
    let files = find_sections(&*file).map_err(at)?;
    let [secret, state, log] = files.ok_or_else(|| misplaced("it is not a complete backup"))?;
    let secret = read_range(&*file, &secret).map_err(at)?;
    let paths = Paths::new(key);
    let id = disk.identity(backup).map_err(|error| failed(backup, &error))?;
    if paths.all().iter().any(|path| disk.identity(path).is_ok_and(|other| other == id)) {
        return Err(misplaced("it has the name of a file of the key"));
    }
    remove_unfinished(environment, &paths)?;
    check_no_part(disk, &paths)?;
    make_files(environment, &paths, Work::Restore, |made| {
        copy_file(disk, &*file, &log, &paths.log, made)?;
        copy_file(disk, &*file, &state, &paths.state, made)?;
        // The private key is written last and atomically.
        write_file(disk, &paths.key, &secret, false).map_err(|error| failed(&paths.key, &error))?;
        made.push(paths.key.clone());
        Ok(())
    })
}

/// Writes a backup through a buffer that is wiped.
struct Writer<'a> {
    file: &'a dyn DiskFile,
    len: u64,
    bytes: Zeroizing<Vec<u8>>,
    sum: Sha256,
}

impl Writer<'_> {
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.bytes.len() == CHUNK {
                self.flush()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.bytes.len()));
            self.bytes.extend_from_slice(now);
            self.sum.update(now);
            bytes = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        write_all(self.file, &self.bytes, self.len)?;
        self.len += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}

/// Writes the content of a backup.
fn write_all_of(
    disk: &dyn Disk,
    paths: &Paths,
    file: &dyn DiskFile,
    out: &Path,
) -> Result<(), LedgerError> {
    let at = |error: io::Error| failed(out, &error);
    let bytes = Zeroizing::new(Vec::with_capacity(CHUNK));
    let mut backup = Writer { file, len: 0, bytes, sum: Sha256::new() };
    backup.put(&MAGIC).map_err(at)?;
    let mut chunk = Zeroizing::new(vec![0; CHUNK]);
    for path in [&paths.key, &paths.state, &paths.log] {
        let at_file = |error: io::Error| failed(path, &error);
        let file = disk.open(path, Access::Read).map_err(at_file)?;
        let len = file.size().map_err(at_file)?;
        backup.put(&len.to_be_bytes()).map_err(at)?;
        let mut offset = 0;
        while offset < len {
            let now = &mut chunk[..(len - offset).min(CHUNK as u64) as usize];
            if read_full(&*file, now, offset).map_err(at_file)? < now.len() {
                return Err(at_file(ErrorKind::UnexpectedEof.into()));
            }
            backup.put(now).map_err(at)?;
            offset += now.len() as u64;
        }
    }
    let sum = backup.sum.clone().finalize();
    backup.put(&sum).and_then(|()| backup.flush()).map_err(at)
}

/// Finds the private key, the state and the log in a backup. Returns `None` if it is incomplete.
fn find_sections(file: &dyn DiskFile) -> io::Result<Option<[Range<u64>; 3]>> {
    let Some(end) = file.size()?.checked_sub(32) else { return Ok(None) };
    let mut sum = Sha256::new();
    let (mut offset, mut chunk) = (0, Zeroizing::new(vec![0; CHUNK]));
    while offset < end {
        let now = &mut chunk[..(end - offset).min(CHUNK as u64) as usize];
        if read_full(file, now, offset)? < now.len() {
            return Ok(None);
        }
        sum.update(&*now);
        offset += now.len() as u64;
    }
    let (mut said, mut magic) = ([0; 32], [0; MAGIC.len()]);
    if read_full(file, &mut said, end)? < said.len() || sum.finalize()[..] != said {
        return Ok(None);
    }
    read_full(file, &mut magic, 0)?;
    let (mut at, mut files) = (MAGIC.len() as u64, [0..0, 0..0, 0..0]);
    for range in &mut files {
        let mut len = [0; 8];
        read_full(file, &mut len, at)?;
        let start = at + 8;
        match start.checked_add(u64::from_be_bytes(len)).filter(|stop| *stop <= end) {
            Some(stop) => *range = start..stop,
            None => return Ok(None),
        }
        at = range.end;
    }
    let secret = &files[0];
    Ok((magic == MAGIC && secret.end - secret.start <= FILE_MAX).then_some(files))
}
