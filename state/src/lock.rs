//! The lock of a key: the kernel's, on a file that is never renamed nor removed.
//!
//! The kernel gives a lock back when its process ends, however that was. Whether a process of some number is
//! alive says nothing: numbers come again, and a container does not see its neighbours'. What stands in the file
//! is for people.

use std::io;
use std::path::Path;

use gabion_disk::{Access, Disk, DiskFile, Identity, read_full, write_all};

use crate::machine::Machine;

/// Bytes for whoever holds it, in a file that is as long from the start.
pub const LEN: usize = 256;

/// What somebody does who makes the files of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A new key is made, with its state and its anchors.
    NewKey,
    /// Files of a backup are written again.
    Restore,
}

impl Work {
    /// What stands in the file until the private key is there.
    fn text(self) -> &'static str {
        match self {
            Work::NewKey => "a key is being made",
            Work::Restore => "a key is being restored",
        }
    }
}

/// The lock, held.
pub struct Lock {
    file: Box<dyn DiskFile>,
    identity: Identity,
}

/// The result of an attempt to take the lock.
pub enum LockAttempt {
    /// The lock was free.
    Acquired(Lock),
    /// Somebody else has it.
    Busy(String),
}

impl Lock {
    /// Takes it, if nobody has it.
    pub fn try_take(disk: &dyn Disk, path: &Path) -> io::Result<LockAttempt> {
        let file = disk.open(path, Access::Write)?;
        if !file.try_lock()? {
            return Ok(LockAttempt::Busy(holder(&*file)));
        }
        let lock = Lock { identity: file.identity()?, file };
        // The name may have gone to another file while this one was opened.
        match lock.is_in_place(disk, path)? {
            true => Ok(LockAttempt::Acquired(lock)),
            false => Err(io::Error::other("the lock's file was replaced")),
        }
    }

    /// Makes the file, and takes it. Where that fails, a file of this name may be somebody else's.
    pub fn create(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open(path, Access::New)?;
        // Somebody may clean up meanwhile, who took it for what was left of a process that is gone.
        let lock = Lock { identity: file.identity()?, file };
        match lock.file.try_lock()? && lock.is_in_place(disk, path)? {
            true => Ok(lock),
            false => Err(io::Error::other("somebody else makes a key of this name")),
        }
    }

    /// Says what is done under it, until [`Lock::finish`].
    pub fn begin(&self, work: Work) -> io::Result<()> {
        self.write(work.text())
    }

    /// Says that it is done.
    pub fn finish(&self) -> io::Result<()> {
        self.write("")
    }

    /// What was begun under it and not finished, when its file was written last.
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

    /// Whether the name still is this file's.
    pub fn is_in_place(&self, disk: &dyn Disk, path: &Path) -> io::Result<bool> {
        Ok(disk.identity(path)? == self.identity)
    }

    /// Gives it back. Dropped instead, it stays with a child that was forked meanwhile.
    pub fn release(self) {
        // It is closed in any case.
        let _ = self.file.unlock();
    }

    /// Writes down who holds it. Nothing depends on that.
    pub fn sign(&self, machine: &dyn Machine) {
        let pid = machine.process().map_or(0, |process| process.0);
        let mut text = format!("process {pid} on {}", machine.host()).into_bytes();
        text.resize(LEN, b' ');
        let _ = write_all(&*self.file, &text, 0);
    }
}

/// Returns the holder of a lock, if there is one. It asks for no right to write, and gives back at once what it had to take.
pub fn current_holder(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    let file = disk.open(path, Access::Read)?;
    if !file.try_lock()? {
        return Ok(Some(holder(&*file)));
    }
    file.unlock().map(|()| None)
}

/// Who signed a lock's file last.
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
