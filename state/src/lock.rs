//! The lock of a key: a kernel lock on a file that is never renamed or removed. Network file
//! systems and FUSE, whose locks may not hold, are refused unless the key's owner allowed them.
//!
//! The kernel releases the lock when the process ends for any reason. Process ids cannot be used
//! instead: they are reused, and containers do not see each other's processes. The content of the
//! file is only for people. A forked child inherits the lock, so each use also compares the process
//! ([`Machine::process`]). Keys are not opened on systems where forks cannot be detected.

use std::io;
use std::path::Path;

use gabion_disk::{Access, Disk, DiskFile, Identity, read_full, write_all};

use crate::machine::Machine;

/// Length in bytes of the text about the holder; the file has this length from the start.
pub const LEN: usize = 256;

/// The work of a process that creates the files of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Creating a new key with its state and anchors.
    NewKey,
    /// Restoring the files from a backup.
    Restore,
}

impl Work {
    /// Returns the text in the file until the private key exists.
    fn text(self) -> &'static str {
        match self {
            Work::NewKey => "a key is being made",
            Work::Restore => "a key is being restored",
        }
    }
}

/// The lock, held until it is released or dropped.
pub struct Lock {
    file: Box<dyn DiskFile>,
    identity: Identity,
}

/// The result of an attempt to take the lock.
pub enum LockAttempt {
    /// The lock was free.
    Acquired(Lock),
    /// Another process holds the lock; with a text about it.
    Busy(String),
}

impl Lock {
    /// Takes the lock if it is free.
    pub fn try_take(disk: &dyn Disk, path: &Path) -> io::Result<LockAttempt> {
        let file = disk.open(path, Access::Write)?;
        if !file.try_lock()? {
            return Ok(LockAttempt::Busy(holder(&*file)));
        }
        let lock = Lock { identity: file.identity()?, file };
        // The file may have been replaced while this one was opened.
        match lock.is_in_place(disk, path)? {
            true => Ok(LockAttempt::Acquired(lock)),
            false => Err(io::Error::other("the lock's file was replaced")),
        }
    }

    /// Creates the lock file and takes the lock. If this fails, an existing file may belong to
    /// another process.
    pub fn create(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open(path, Access::New)?;
        // Another process may have removed the file as a leftover of a dead process.
        let lock = Lock { identity: file.identity()?, file };
        match lock.file.try_lock()? && lock.is_in_place(disk, path)? {
            true => Ok(lock),
            false => Err(io::Error::other("another process is making a key with this name")),
        }
    }

    /// Records in the file the work in progress, until [`Lock::finish`].
    pub fn begin(&self, work: Work) -> io::Result<()> {
        self.write(work.text())
    }

    /// Records that the work is finished.
    pub fn finish(&self) -> io::Result<()> {
        self.write("")
    }

    /// Returns the work that was started and not finished when the file was last written.
    pub fn unfinished(&self) -> Option<Work> {
        let said = holder(&*self.file);
        [Work::NewKey, Work::Restore].into_iter().find(|work| work.text() == said)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut text = text.as_bytes().to_vec();
        text.resize(LEN, b' ');
        write_all(&*self.file, &text, 0)?;
        self.file.sync()
    }

    /// Returns whether the name still refers to this file.
    pub fn is_in_place(&self, disk: &dyn Disk, path: &Path) -> io::Result<bool> {
        Ok(disk.identity(path)? == self.identity)
    }

    /// Releases the lock. If it is dropped instead, a child forked meanwhile keeps it.
    pub fn release(self) {
        // The file is closed in any case.
        let _ = self.file.unlock();
    }

    /// Records the holder in the file, for information only.
    pub fn sign(&self, machine: &dyn Machine) {
        let pid = machine.process().map_or(0, |process| process.0);
        let mut text = format!("process {pid} on {}", machine.host()).into_bytes();
        text.resize(LEN, b' ');
        let _ = write_all(&*self.file, &text, 0);
    }
}

/// Returns the current holder of a lock, if any. Needs no write permission, and briefly takes the
/// lock to test it.
pub fn current_holder(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    let file = disk.open(path, Access::Read)?;
    if !file.try_lock()? {
        return Ok(Some(holder(&*file)));
    }
    file.unlock().map(|()| None)
}

/// Returns the holder recorded in a lock file.
fn holder(file: &dyn DiskFile) -> String {
    let mut text = [0; LEN];
    let read = read_full(file, &mut text, 0).unwrap_or(0);
    let text: String = String::from_utf8_lossy(&text[..read])
        .trim_matches([' ', '\0'])
        .chars()
        .filter(|character| !character.is_control())
        .collect();
    if text.is_empty() { "another process".to_owned() } else { text }
}
