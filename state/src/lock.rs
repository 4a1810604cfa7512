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
