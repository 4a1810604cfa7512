//! A file system in memory, for logs that are not written to any disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_disk::{Access, Disk, DiskFile, Identity};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Files in memory.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    kept: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    files: BTreeMap<PathBuf, (u64, Bytes)>,
    folders: BTreeSet<PathBuf>,
    made: u64,
}

impl MemoryDisk {
    fn kept(&self) -> MutexGuard<'_, MemoryState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the total size of all files in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let len = |bytes: &Bytes| bytes.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.kept().files.values().map(|(_, bytes)| len(bytes)).sum()
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut kept = self.kept();
        let (number, bytes) = match (kept.files.get(path), access) {
            (Some(_), Access::New) => return Err(ErrorKind::AlreadyExists.into()),
            (Some((number, bytes)), Access::Read | Access::Write) => (*number, bytes.clone()),
            (None, Access::Read | Access::Write) => return Err(ErrorKind::NotFound.into()),
            (None, Access::New) => {
                kept.made += 1;
                let file = (kept.made, Bytes::default());
                kept.files.insert(path.to_owned(), file.clone());
                file
            }
        };
        Ok(Box::new(MemoryFile { number, bytes }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.kept().folders.insert(path.to_owned());
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut kept = self.kept();
        let file = kept.files.remove(from).ok_or(ErrorKind::NotFound)?;
        kept.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut kept = self.kept();
        if kept.files.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = kept.files.remove(from).ok_or(ErrorKind::NotFound)?;
        kept.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.kept().files.remove(path).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let kept = self.kept();
        match (kept.files.get(path), kept.folders.contains(path)) {
            (Some((number, _)), _) => Ok((1, *number)),
            (None, true) => Ok((2, 0)),
            (None, false) => Err(ErrorKind::NotFound.into()),
        }
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.identity(path).map(|_| path.to_owned())
    }

    fn is_network(&self, _: &Path) -> io::Result<bool> {
        Ok(false)
    }
}

struct MemoryFile {
    number: u64,
    bytes: Bytes,
}

impl MemoryFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<usize> {
        let (mut bytes, end) = (self.bytes(), offset as usize + new.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(new);
        Ok(new.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    /// Always succeeds: no other process can access the memory.
    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok((1, self.number))
    }
}
