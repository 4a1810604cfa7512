//! Temporary files that become outputs when they are complete.
//!
//! If the file system supports it (`O_TMPFILE`), the file has no name until it is complete, so
//! nothing is left behind when the process ends for any reason. Otherwise, and while another file
//! is being replaced, it has an unguessable name, which is removed first if a signal ends the
//! process.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use gabion_engine::{Entropy, OsEntropy};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::place::{Id, Slot, Target};
use crate::ffi;

/// A temporary file that becomes an output.
#[derive(Debug)]
pub struct TemporaryFile {
    file: File,
    name: Option<Name>,
}

impl TemporaryFile {
    /// Writes bytes to a temporary file in the folder of a slot.
    pub fn write(slot: &Slot, mode: u32, bytes: &[u8]) -> io::Result<TemporaryFile> {
        let mut unfinished = TemporaryFile::new(slot, mode)?;
        unfinished.file.write_all(bytes)?;
        unfinished.file.sync_all()?;
        Ok(unfinished)
    }

    fn new(slot: &Slot, mode: u32) -> io::Result<TemporaryFile> {
        match without_name(slot, mode) {
            Some(file) => Ok(TemporaryFile { file, name: None }),
            None => TemporaryFile::with_name(slot, mode),
        }
    }

    /// Creates a file with a temporary name, for file systems without unnamed files.
    fn with_name(slot: &Slot, mode: u32) -> io::Result<TemporaryFile> {
        let name = Name::new(slot)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(&slot.folder, &name.name, flags, Mode::from_raw_mode(mode as _))?;
        Ok(TemporaryFile { file: File::from(file), name: Some(name) })
    }

    /// Returns the file's id.
    pub fn id(&self) -> io::Result<Id> {
        Ok(Id::of(&rustix::fs::fstat(&self.file)?))
    }

    /// Gives the file its name, which must be free.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], or the system's error.
    pub fn place(&mut self, slot: &Slot) -> io::Result<()> {
        match self.name.take() {
            None => link(&self.file, slot, &slot.name),
            Some(name) => name.rename(slot, true),
        }
    }

    /// Gives the file its name in one step, replacing the existing file.
    pub fn replace(&mut self, slot: &Slot) -> io::Result<()> {
        let name = match self.name.take() {
            Some(name) => name,
            None => {
                let name = Name::new(slot)?;
                link(&self.file, slot, name.name.as_os_str())?;
                name
            }
        };
        name.rename(slot, false)
    }
}

/// Checks that the target accepts at least `bytes` bytes, by creating and removing a file in its
/// folder.
pub fn probe(target: &Target, bytes: usize) -> io::Result<()> {
    match target {
        Target::Slot(slot) => TemporaryFile::new(slot, 0o600)?.file.write_all(&vec![0; bytes]),
        // Data written to a pipe or device cannot be taken back.
        Target::Descriptor { .. } | Target::Device { .. } => Ok(()),
    }
}

/// Creates a file without a name, if the file system supports this and can name it later.
#[cfg(target_os = "linux")]
fn without_name(slot: &Slot, mode: u32) -> Option<File> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&slot.folder, ".", flags, Mode::from_raw_mode(mode)).ok()?;
    let file = File::from(file);
    rustix::fs::stat(by_number(&file)).is_ok().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn without_name(_: &Slot, _: u32) -> Option<File> {
    None
}

fn by_number(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn link(file: &File, slot: &Slot, name: &std::ffi::OsStr) -> io::Result<()> {
    let (here, follow) = (rustix::fs::CWD, AtFlags::SYMLINK_FOLLOW);
    Ok(rustix::fs::linkat(here, by_number(file), &slot.folder, name, follow)?)
}

/// A name that is removed when this value is dropped, or when a signal ends the process.
#[derive(Debug)]
struct Name {
    folder: std::os::fd::OwnedFd,
    name: OsString,
    removal: ffi::Removal,
}

impl Name {
    /// Reserves an unguessable name for a new file.
    fn new(slot: &Slot) -> io::Result<Name> {
        let mut random = [0; 12];
        OsEntropy.fill(&mut random).map_err(|cause| io::Error::other(cause.to_string()))?;
        let name = OsString::from(format!(".gabion-{}", base16ct::lower::encode_string(&random)));
        let folder = slot.folder.try_clone()?;
        let text = CString::new(name.as_bytes())?;
        let removal = ffi::Removal::when_a_signal_comes(folder.as_raw_fd(), text);
        Ok(Name { folder, name, removal })
    }

    fn rename(self, slot: &Slot, keep: bool) -> io::Result<()> {
        let (from, to): (BorrowedFd<'_>, _) = (self.folder.as_fd(), slot.folder.as_fd());
        if !keep {
            return Ok(rustix::fs::renameat(from, &self.name, to, &slot.name)?);
        }
        match no_replace(from, &self.name, to, &slot.name) {
            // Without atomic renaming, a link is created, which fails if the name is taken.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                Ok(rustix::fs::linkat(from, &self.name, to, &slot.name, AtFlags::empty())?)
            }
            done => Ok(done?),
        }
    }
}

#[cfg(target_os = "linux")]
fn no_replace(
    from: BorrowedFd<'_>,
    old: &OsString,
    to: BorrowedFd<'_>,
    new: &OsString,
) -> Result<(), Errno> {
    rustix::fs::renameat_with(from, old, to, new, rustix::fs::RenameFlags::NOREPLACE)
}

#[cfg(not(target_os = "linux"))]
fn no_replace(
    _: BorrowedFd<'_>,
    _: &OsString,
    _: BorrowedFd<'_>,
    _: &OsString,
) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

impl Drop for Name {
    fn drop(&mut self) {
        // The name no longer exists if the file was renamed.
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        self.removal.is_done();
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Place;
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;

    const CHILD: &str = "GABION_TEST_UNFINISHED";

    fn slot(path: &Path) -> Slot {
        match Place::find("--out", path).unwrap().target {
            Target::Slot(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    fn names(folder: &Path) -> Vec<OsString> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_named_file_is_placed_and_replaces_as_one_without_a_name_does() {
        let home = tempfile::tempdir().unwrap();
        let slot = slot(&home.path().join("out"));
        type Make = fn(&Slot) -> TemporaryFile;
        let makes: [Make; 2] = [
            |slot| TemporaryFile::write(slot, 0o600, b"").unwrap(),
            |slot| TemporaryFile::with_name(slot, 0o600).unwrap(),
        ];
        for make in makes {
            let mut first = make(&slot);
            first.place(&slot).unwrap();
            assert_eq!(slot.now(), Some(first.id().unwrap()));
            let refused = make(&slot).place(&slot).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(slot.now(), Some(first.id().unwrap()));
            let mut second = make(&slot);
            second.replace(&slot).unwrap();
            assert_eq!(slot.now(), Some(second.id().unwrap()));
            drop(make(&slot));
            assert_eq!(names(home.path()), ["out"], "no other file");
            std::fs::remove_file(home.path().join("out")).unwrap();
        }
    }

    /// Runs itself as a child that a signal ends while a file is incomplete.
    #[test]
    fn a_signal_leaves_no_unfinished_file_and_ends_the_process() {
        if let Some(folder) = std::env::var_os(CHILD) {
            let slot = slot(&Path::new(&folder).join("key"));
            let mut unfinished = TemporaryFile::with_name(&slot, 0o600).unwrap();
            unfinished.file.write_all(b"secret").unwrap();
            let signal = std::env::var("GABION_TEST_SIGNAL").unwrap();
            let id = std::process::id().to_string();
            std::process::Command::new("kill").args(["-s", &signal, &id]).status().unwrap();
            std::thread::sleep(std::time::Duration::from_secs(20));
            panic!("still here");
        }
        let this =
            "files::temporary::tests::a_signal_leaves_no_unfinished_file_and_ends_the_process";
        for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
            let home = tempfile::tempdir().unwrap();
            // Processes that a shell starts in the background ignore SIGINT, and so do their
            // children.
            let mut child = std::process::Command::new("env");
            child.arg(format!("--default-signal={signal}")).arg(std::env::current_exe().unwrap());
            child.args(["--exact", this]).env(CHILD, home.path()).env("GABION_TEST_SIGNAL", signal);
            let output = child.output().unwrap();
            assert_eq!(output.status.signal(), Some(number), "{signal}: {output:?}");
            assert_eq!(names(home.path()), [""; 0], "{signal}");
        }
    }
}
