//! File systems and files, call by call.
//!
//! Each call of [`Disk`] and [`DiskFile`] is a point where a power cut, a full disk, a failing device or another
//! process may strike; tests put a simulated disk here, which does all of that. What retries and what loops is
//! above it, in [`write_all`] and [`read_full`].

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::process::{Resource, getrlimit};

/// Which file a name or a handle stands for: its device and its number there.
pub type Identity = (u64, u64);

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read what is there.
    Read,
    /// To read and write what is there.
    Write,
    /// A new file, which nobody but its owner may read; none may be there.
    New,
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a folder, where there is none, that nobody but its owner may look into.
    ///
    /// # Errors
    /// The system's.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name, in place of what has it.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name, which nothing may have.
    ///
    /// # Errors
    /// The system's; [`ErrorKind::AlreadyExists`].
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Which file has this name; links are followed.
    ///
    /// # Errors
    /// The system's.
    fn identity(&self, path: &Path) -> io::Result<Identity>;

    /// The name of a file or folder without links.
    ///
    /// # Errors
    /// The system's.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Whether other machines may see the same file system.
    ///
    /// # Errors
    /// The system's.
    fn is_network(&self, path: &Path) -> io::Result<bool>;

    /// Bytes that this process may still write to the file system of a folder, by its word. None where that is not known.
    ///
    /// # Errors
    /// The system's.
    fn free(&self, folder: &Path) -> io::Result<Option<u64>> {
        let _ = folder;
        Ok(None)
    }
}

/// A file that is open.
pub trait DiskFile: Send {
    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some bytes.
    ///
    /// # Errors
    /// The system's.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes what was written durable, and the length. After an error nobody knows what is on the disk, and
    /// another call that succeeds says nothing about it.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Bytes of the file.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Takes the kernel's lock on the file, until the handle is closed; whether nobody else has it.
    ///
    /// # Errors
    /// The system's.
    fn try_lock(&self) -> io::Result<bool>;

    /// Gives the lock back, also where a forked child has the same handle still.
    ///
    /// # Errors
    /// The system's.
    fn unlock(&self) -> io::Result<()>;

    /// Which file it is.
    ///
    /// # Errors
    /// The system's.
    fn identity(&self) -> io::Result<Identity>;
}

/// Writes all of it. An interrupted call is made again; a file that takes no byte is an error.
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

/// Reads as many bytes as there are, up to the length of `bytes`; how many came.
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

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Read);
        match access {
            Access::New => options.create_new(true).mode(0o600),
            // A pipe under this name would have the caller wait for whoever writes into it.
            Access::Read | Access::Write => options.custom_flags(OFlags::NONBLOCK.bits() as i32),
        };
        let file = above_streams(&options, path)?;
        let about = file.metadata()?;
        match about.is_file() {
            true => Ok(Box::new(RealFile { identity: identity_of(&about), file: Arc::new(file) })),
            false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        // At no moment is it open to others, whatever the umask.
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
            // NFS and others know no such flag, and have links.
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

/// The number of standard error, the last of the standard streams.
const LAST_STREAM: i32 = 2;

/// Opens a file under a number that is none of a standard stream. A program that closed these goes on to write into them, and
/// the kernel gives the lowest number that is free.
fn above_streams(options: &OpenOptions, path: &Path) -> io::Result<File> {
    // What is free is taken until the file is open: at no moment does anybody write into it.
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
        // There was no /dev/null.
        false => Ok(fcntl_dupfd_cloexec(&file, LAST_STREAM + 1)?.into()),
    }
}

/// Numbers of file systems that several machines see (statfs(2), linux/magic.h, stat of GNU coreutils): NFS, SMB, SMB2, CIFS,
/// 9P, Ceph, AFS twice, Coda, Lustre, GFS2, OCFS2, GPFS, BeeGFS, PanFS, SNFS, NCP, ACFS, IBRIX; those of virtual machines'
/// hosts: VirtualBox, VMware, Parallels; and FUSE, whose locks may be local to a machine whatever is behind it (sshfs,
/// virtiofs, GlusterFS, s3fs).
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

/// A file, and which one it is: a program that closes numbers that are not its own may have opened another under this one.
struct RealFile {
    file: Arc<File>,
    identity: Identity,
}

impl RealFile {
    /// The file, as long as its number is its own.
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
            // What somebody holds is never closed: the number is another's.
            std::mem::forget(Arc::clone(&self.file));
        }
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.own()?.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // Beyond RLIMIT_FSIZE a signal comes first (setrlimit(2)), and ends a process that expects none: a program that a
        // library of ours was loaded into.
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
        // It was given back with the number, and another's file may have a lock of its own.
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
