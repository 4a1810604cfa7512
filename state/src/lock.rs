//! The lock of a key: the kernel's, on a file that is never renamed nor removed.
//!
//! The kernel gives a lock back when its process ends, however that was. Whether a process of some number is
//! alive says nothing: numbers come again, and a container does not see its neighbours'. What stands in the file
//! is for people.

use std::io;
use std::path::Path;

use crate::disk::{Access, Disk, DiskFile, Identity, read_full, write_all};
use crate::machine::Machine;

/// Bytes for whoever holds it, in a file that is as long from the start.
pub const LEN: usize = 256;
/// What stands in the file as long as its key is being made.
const UNFINISHED: &str = "a key is being made";

/// The lock, held.
pub struct Lock {
    file: Box<dyn DiskFile>,
    identity: Identity,
}

/// What became of trying to take it.
pub enum Tried {
    /// It is held.
    Held(Lock),
    /// Somebody else has it.
    Busy(String),
}

impl Lock {
    /// Takes it, if nobody has it.
    pub fn try_take(disk: &dyn Disk, path: &Path) -> io::Result<Tried> {
        let file = disk.open(path, Access::Write)?;
        if !file.try_lock()? {
            return Ok(Tried::Busy(holder(&*file)));
        }
        let lock = Lock { identity: file.identity()?, file };
        // The name may have gone to another file while this one was opened.
        match lock.is_in_place(disk, path)? {
            true => Ok(Tried::Held(lock)),
            false => Err(io::Error::other("the lock's file was replaced")),
        }
    }

    /// Makes the file, and takes it; it says that a key is being made until [`Lock::finish`]. `made` is called when
    /// the file is there.
    pub fn create(disk: &dyn Disk, path: &Path, made: impl FnOnce()) -> io::Result<Self> {
        let file = disk.open(path, Access::New)?;
        made();
        // Somebody may clean up meanwhile, who took it for what was left of a process that is gone.
        let lock = Lock { identity: file.identity()?, file };
        if !lock.file.try_lock()? || !lock.is_in_place(disk, path)? {
            return Err(io::Error::other("somebody else makes a key of this name"));
        }
        lock.write(UNFINISHED)?;
        Ok(lock)
    }

    /// Says that the key is made, and gives the lock back.
    pub fn finish(self) -> io::Result<()> {
        self.write("")?;
        self.release();
        Ok(())
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

/// Who has a lock, where somebody has. It asks for no right to write, and gives back at once what it had to take.
pub fn holder_now(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    let file = disk.open(path, Access::Read)?;
    if !file.try_lock()? {
        return Ok(Some(holder(&*file)));
    }
    file.unlock().map(|()| None)
}

/// Whether a key was being made when the file was written last.
pub fn is_unfinished(file: &dyn DiskFile) -> bool {
    holder(file) == UNFINISHED
}

/// Who signed a lock's file last.
pub fn holder(file: &dyn DiskFile) -> String {
    let mut text = [0; LEN];
    let read = read_full(file, &mut text, 0).unwrap_or(0);
    let text: String = String::from_utf8_lossy(&text[..read])
        .trim_matches([' ', '\0'])
        .chars()
        .filter(|character| !character.is_control())
        .collect();
    if text.is_empty() { "another process".to_owned() } else { text }
}
