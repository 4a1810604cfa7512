//! A real disk for tests that counts calls, makes them fail, or runs another process in between.

pub mod faulty;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::{Access, Disk, DiskFile, Identity, RealDisk};

/// A call of a disk. The hook runs before it, or after it for `AfterOpen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCall {
    /// A file is opened.
    Open(Access),
    /// A file was opened and has not been used yet.
    AfterOpen(Access),
    /// An open file is synced.
    Sync,
    /// A lock is released.
    Unlock,
    /// A folder is created.
    MakeFolder,
    /// A folder is synced.
    SyncFolder,
    /// A file is renamed; the path is the old one.
    Rename,
    /// A file is removed.
    Remove,
    /// The identity of a file is requested.
    Identity,
    /// The canonical path of a file is requested.
    Canonical,
    /// The caller asks whether a folder is on a network file system.
    IsNetwork,
}

/// A function to run at each call. Its error becomes the call's.
pub type Hook = Arc<dyn Fn(DiskCall, &Path) -> io::Result<()> + Send + Sync>;

/// The operating system's disk with a hook at each call.
#[derive(Clone)]
pub struct HookedDisk {
    hook: Hook,
    /// The only folder that counts as a network file system.
    network: Option<PathBuf>,
    /// A link that looks like a separate folder, as a second mount of a folder does.
    mount: Option<PathBuf>,
}

impl HookedDisk {
    /// Returns a disk that calls `hook`.
    pub fn new(hook: impl Fn(DiskCall, &Path) -> io::Result<()> + Send + Sync + 'static) -> Self {
        HookedDisk { hook: Arc::new(hook), network: None, mount: None }
    }

    /// Returns this disk with a folder on a network file system, or a link that looks like a mount
    /// point.
    pub fn with_mounts(self, network: Option<PathBuf>, mount: Option<PathBuf>) -> Self {
        HookedDisk { network, mount, ..self }
    }

    /// Returns a disk that calls `act` once, at the first such call for a file whose name has this
    /// suffix.
    pub fn with_hook_once(
        (at, ending): (DiskCall, &'static str),
        act: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Self {
        let act = Mutex::new(Some(act));
        HookedDisk::new(move |now, path| {
            let name = path.as_os_str().as_encoded_bytes();
            if now != at || !name.ends_with(ending.as_bytes()) {
                return Ok(());
            }
            let act = act.lock().unwrap_or_else(PoisonError::into_inner).take();
            act.map_or(Ok(()), |act| act())
        })
    }

    fn call_hook(&self, at: DiskCall, path: &Path) -> io::Result<()> {
        (self.hook)(at, path)
    }
}

impl Disk for HookedDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.call_hook(DiskCall::Open(access), path)?;
        let file = RealDisk.open(path, access)?;
        self.call_hook(DiskCall::AfterOpen(access), path)?;
        Ok(Box::new(HookedFile { file, path: path.to_owned(), hook: Arc::clone(&self.hook) }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.call_hook(DiskCall::MakeFolder, path)?;
        RealDisk.make_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.call_hook(DiskCall::SyncFolder, path)?;
        RealDisk.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call_hook(DiskCall::Rename, from)?;
        RealDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call_hook(DiskCall::Rename, from)?;
        RealDisk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call_hook(DiskCall::Remove, path)?;
        RealDisk.remove(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.call_hook(DiskCall::Identity, path)?;
        RealDisk.identity(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.call_hook(DiskCall::Canonical, path)?;
        match self.mount.as_ref().is_some_and(|mount| path.starts_with(mount)) {
            true => std::fs::metadata(path).map(|_| path.to_owned()),
            false => RealDisk.canonical(path),
        }
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        self.call_hook(DiskCall::IsNetwork, path)?;
        match &self.network {
            Some(network) => Ok(RealDisk.canonical(path)?.starts_with(network)),
            None => RealDisk.is_network(path),
        }
    }

    fn free(&self, folder: &Path) -> io::Result<Option<u64>> {
        RealDisk.free(folder)
    }
}

struct HookedFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    hook: Hook,
}

impl DiskFile for HookedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (self.hook)(DiskCall::Sync, &self.path)?;
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        (self.hook)(DiskCall::Unlock, &self.path)?;
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }
}
