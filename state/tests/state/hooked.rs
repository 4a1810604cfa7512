//! A real disk on which something happens at a call: somebody else is quicker, or the call fails.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gabion_state::{Access, Disk, DiskFile, Identity, RealDisk, Surroundings};

/// A call that something may happen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A file was opened, and nothing was done with it yet.
    Opened(Access),
    /// A file is about to be synced.
    Sync,
    /// A lock was given back.
    Unlocked,
}

/// What happens; an error is the call's.
pub type Hook = Arc<dyn Fn(At, &Path) -> io::Result<()> + Send + Sync>;

/// The disk.
#[derive(Clone)]
pub struct Hooked {
    hook: Hook,
    /// A folder that other machines see.
    network: Option<PathBuf>,
    /// A link that looks like a folder of its own, as a folder does that is mounted a second time.
    mount: Option<PathBuf>,
}

impl Hooked {
    /// These surroundings, on such a disk.
    pub fn around(
        around: &Surroundings,
        hook: impl Fn(At, &Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Surroundings {
        let hooked = Hooked { hook: Arc::new(hook), network: None, mount: None };
        Surroundings { disk: Arc::new(hooked), ..around.clone() }
    }

    /// The same where a folder is one of the network, or a link a mount.
    pub fn places(
        around: &Surroundings,
        network: Option<PathBuf>,
        mount: Option<PathBuf>,
    ) -> Surroundings {
        let hooked = Hooked { hook: Arc::new(|_, _| Ok(())), network, mount };
        Surroundings { disk: Arc::new(hooked), ..around.clone() }
    }

    /// The same, where something happens once: at the first such call of a file whose name ends so.
    pub fn once(
        around: &Surroundings,
        (at, ending): (At, &'static str),
        act: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Surroundings {
        let act = Mutex::new(Some(act));
        Hooked::around(around, move |now, path| {
            let is_it = now == at && path.to_str().unwrap().ends_with(ending);
            let act = if is_it { act.lock().unwrap().take() } else { None };
            act.map_or(Ok(()), |act| act())
        })
    }
}

impl Disk for Hooked {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let file = RealDisk.open(path, access)?;
        (self.hook)(At::Opened(access), path)?;
        Ok(Box::new(HookedFile { file, path: path.to_owned(), hook: Arc::clone(&self.hook) }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
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
        match self.mount.as_ref().is_some_and(|mount| path.starts_with(mount)) {
            true => std::fs::metadata(path).map(|_| path.to_owned()),
            false => RealDisk.canonical(path),
        }
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        let name = RealDisk.canonical(path)?;
        Ok(self.network.as_ref().is_some_and(|network| name.starts_with(network)))
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
        (self.hook)(At::Sync, &self.path)?;
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        (self.hook)(At::Unlocked, &self.path)?;
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }
}
