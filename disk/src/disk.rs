//! The traits for file systems and files.
//!
//! At each call of [`Disk`] and [`DiskFile`], a power failure, a full disk, a failing device or
//! another process may interfere; a simulated disk in tests does all of this. Retries and loops are
//! built on top, in [`write_all`] and [`read_full`].

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::process::{Resource, getrlimit};

/// The identity of a file: its device and inode.
pub type Identity = (u64, u64);

/// The mode for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read an existing file.
    Read,
    /// Read and write an existing file.
    Write,
    /// Create a new file that only its owner can read; it must not exist.
    New,
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;

    /// Creates a folder that only its owner can access, if it does not exist.
    ///
    /// # Errors
    /// The system's.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Renames a file, replacing an existing one.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a file; fails if the new name exists.
    ///
    /// # Errors
    /// The system's; [`ErrorKind::AlreadyExists`].
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the identity of the file with this name, following symbolic links.
    ///
    /// # Errors
    /// The system's.
    fn identity(&self, path: &Path) -> io::Result<Identity>;

    /// Returns the path with symbolic links resolved.
    ///
    /// # Errors
    /// The system's.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns whether the file system may be shared with other machines.
    ///
    /// # Errors
    /// The system's.
    fn is_network(&self, path: &Path) -> io::Result<bool>;

    /// Returns the number of bytes that this process may still write to the file system of a
    /// folder, as reported by it, or `None` if that is unknown.
    ///
    /// # Errors
    /// The system's.
    fn free(&self, folder: &Path) -> io::Result<Option<u64>> {
        let _ = folder;
        Ok(None)
    }
}

/// An open file.
pub trait DiskFile: Send {
    /// Reads some bytes. Returns 0 at the end of the file.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some bytes and returns their number.
    ///
    /// # Errors
    /// The system's.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes the written data and the file length durable. After an error the content of the disk
    /// is unknown, and a later successful call does not change that.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Takes the kernel's lock on the file until the handle is closed. Returns whether it was free.
    ///
    /// # Errors
    /// The system's.
    fn try_lock(&self) -> io::Result<bool>;

    /// Releases the lock, even if a forked child still has the same handle.
    ///
    /// # Errors
    /// The system's.
    fn unlock(&self) -> io::Result<()>;

    /// Returns the identity of the file.
    ///
    /// # Errors
    /// The system's.
    fn identity(&self) -> io::Result<Identity>;
}

/// Writes all bytes. Interrupted calls are repeated; a call that writes nothing is an error.
///
/// # Errors
/// The system's.
pub fn write_all(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written.min(bytes.len())..];
                offset += written as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
///
/// # Errors
/// The system's.
pub fn read_full(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Read);
        match access {
            Access::New => options.create_new(true).mode(0o600),
            // Without this flag, opening a pipe would block until it has a writer.
            Access::Read | Access::Write => options.custom_flags(OFlags::NONBLOCK.bits() as i32),
        };
        let file = above_streams(&options, path)?;
        let about = file.metadata()?;
        match about.is_file() {
            true => Ok(Box::new(RealFile { identity: identity_of(&about), file: Arc::new(file) })),
            false => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        // The mode is set at creation, so the folder is never open to others, whatever the umask.
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(0o700)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match retry_on_intr(|| renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)) {
            // NFS and other file systems do not support the flag, but hard links.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                std::fs::hard_link(from, to)?;
                std::fs::remove_file(from)
            }
            renamed => Ok(renamed?),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        Ok(identity_of(&std::fs::metadata(path)?))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        let kind = retry_on_intr(|| rustix::fs::statfs(path))?.f_type as u64 & 0xffff_ffff;
        Ok(NETWORKS.contains(&kind))
    }

    fn free(&self, folder: &Path) -> io::Result<Option<u64>> {
        let said = retry_on_intr(|| rustix::fs::statvfs(folder))?;
        Ok(Some(said.f_bavail.saturating_mul(said.f_frsize)))
    }
}

/// The highest descriptor number of the standard streams.
const LAST_STREAM: i32 = 2;

/// Opens a file with a descriptor above those of the standard streams. The kernel uses the lowest
/// free number; in a program that closed the standard streams but still writes to them, such a file
/// would be overwritten.
fn above_streams(options: &OpenOptions, path: &Path) -> io::Result<File> {
    // Occupies the free low numbers until the file is open, so that no output can reach it.
    let mut taken = Vec::new();
    while taken.len() <= LAST_STREAM as usize {
        match File::open("/dev/null") {
            Ok(null) if null.as_raw_fd() <= LAST_STREAM => taken.push(null),
            Ok(_) | Err(_) => break,
        }
    }
    let file = options.open(path)?;
    match file.as_raw_fd() > LAST_STREAM {
        true => Ok(file),
        // /dev/null could not be opened.
        false => Ok(fcntl_dupfd_cloexec(&file, LAST_STREAM + 1)?.into()),
    }
}

/// Magic numbers of file systems that several machines can access (statfs(2), linux/magic.h, stat
/// of GNU coreutils): NFS, SMB, SMB2, CIFS, 9P, Ceph, AFS (two numbers), Coda, Lustre, GFS2, OCFS2,
/// GPFS, BeeGFS, PanFS, SNFS, NCP, ACFS, IBRIX; the shared folders of VirtualBox, VMware and
/// Parallels; and FUSE, whose locks may be local to a machine for any backend (sshfs, virtiofs,
/// GlusterFS, s3fs).
const NETWORKS: [u64; 23] = [
    0x4750_4653,
    0x1983_0326,
    0xaad7_aaea,
    0xbeef_dead,
    0x564c,
    0x6163_6673,
    0x0131_11a8,
    0x786f_4256,
    0xbacb_acbc,
    0x7c7c_6673,
    0x6573_5546,
    0x6969,
    0x517b,
    0xfe53_4d42,
    0xff53_4d42,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x6b41_4653,
    0x7375_7245,
    0x0bd0_0bd0,
    0x0116_1970,
    0x7461_636f,
];

fn identity_of(about: &Metadata) -> Identity {
    (about.dev(), about.ino())
}

/// An open file and its identity: a program that closes unknown descriptors may have opened another
/// file under this number.
struct RealFile {
    file: Arc<File>,
    identity: Identity,
}

impl RealFile {
    /// Returns the file, if the descriptor still refers to it.
    fn own(&self) -> io::Result<&File> {
        match self.identity()? == self.identity {
            true => Ok(&self.file),
            false => Err(io::Error::other("another file has its number by now")),
        }
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        if self.own().is_err() {
            // The number belongs to another file now, so it must not be closed.
            std::mem::forget(Arc::clone(&self.file));
        }
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.own()?.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // Beyond RLIMIT_FSIZE, the kernel would first send a signal (setrlimit(2)), which ends a
        // program that does not expect it, such as one that has loaded this code as a library.
        let end = offset.saturating_add(bytes.len() as u64);
        match getrlimit(Resource::Fsize).current {
            Some(most) if end > most => Err(Errno::FBIG.into()),
            Some(_) | None => self.own()?.write_at(bytes, offset),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.own()?.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let file = self.own()?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::WouldBlock) => return Ok(false),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn unlock(&self) -> io::Result<()> {
        // The lock was released with the descriptor; the other file under this number may have a
        // lock itself.
        let Ok(file) = self.own() else { return Ok(()) };
        loop {
            match file.unlock() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                unlocked => return unlocked,
            }
        }
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok(identity_of(&self.file.metadata()?))
    }
}
