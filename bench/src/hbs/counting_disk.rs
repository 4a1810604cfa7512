//! The operating system's disk, which counts syncs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gabion_disk::{Access, Disk, DiskFile, Identity, RealDisk};

/// The operating system's disk. It counts the syncs of files and folders that it is asked for.
#[derive(Clone, Default)]
pub struct CountingDisk {
    syncs: Arc<AtomicU64>,
}

impl CountingDisk {
    /// Returns the number of syncs so far, those of clones included.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }
}

impl Disk for CountingDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CountingFile { file: RealDisk.open(path, access)?, disk: self.clone() }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.count();
        RealDisk.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        RealDisk.identity(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.canonical(path)
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        RealDisk.is_network(path)
    }

    fn free(&self, folder: &Path) -> io::Result<Option<u64>> {
        RealDisk.free(folder)
    }
}

struct CountingFile {
    file: Box<dyn DiskFile>,
    disk: CountingDisk,
}

impl DiskFile for CountingFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.count();
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }
}

#[cfg(test)]
mod tests {
    use gabion_disk::write_all;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn syncs_of_files_and_folders_are_counted() {
        let (folder, disk) = (TempDir::new().unwrap(), CountingDisk::default());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        let file = shared.open(&first, Access::New).unwrap();
        write_all(&*file, b"bytes", 0).unwrap();
        assert_eq!(disk.syncs(), 0);
        file.sync().unwrap();
        assert_eq!(disk.syncs(), 1);
        shared.rename_new(&first, &second).unwrap();
        shared.sync_folder(folder.path()).unwrap();
        assert_eq!(disk.syncs(), 2);
    }
}
