//! Resolves output paths before anything is written.
//!
//! ```text
//!   path ─ each part from an open folder ─┬─ link   followed, unless a stranger may have put it there
//!                                         ├─ /proc/self/fd/N (/dev/stdout, /dev/fd/N)  Descriptor
//!                                         ├─ device, pipe, socket                      Device
//!                                         └─ file, or nothing                          Slot: folder, name
//! ```
//!
//! The folder stays open, and the file is created in it by name, so that no other user can insert
//! another folder or link between the check and the write. Two places are the same file if they
//! have the same name in the same folder, or the same device and inode, regardless of the spelling
//! of their paths.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::ffi;

/// Maximum number of links in a path, as in Linux.
const LINKS_MAX: usize = 40;

/// How folders are opened that are used only to resolve names.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// The device and inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    device: u64,
    inode: u64,
}

impl Id {
    /// Returns the id in a `stat` result.
    #[allow(clippy::unnecessary_cast)] // The fields have other types on other systems.
    pub fn of(stat: &Stat) -> Id {
        Id { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }
}

/// A name in an open folder.
#[derive(Debug)]
pub struct Slot {
    /// The folder.
    pub folder: OwnedFd,
    /// The name in it.
    pub name: OsString,
    folder_id: Id,
    found: Option<Id>,
}

impl Slot {
    /// Returns the file that has the name now.
    pub fn now(&self) -> Option<Id> {
        let stat = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.ok().map(|stat| Id::of(&stat))
    }

    /// Returns whether the name was taken when it was resolved.
    pub fn is_taken(&self) -> bool {
        self.found.is_some()
    }

    /// Removes the name.
    pub fn remove(&self) {
        // A failure is ignored: this runs while another failure is handled.
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
    }

    /// Opens the file with this name for writing.
    pub fn open(&self) -> std::io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        if self.found != Some(Id::of(&rustix::fs::fstat(&file)?)) {
            return Err(std::io::Error::other("another file came into its place"));
        }
        Ok(File::from(file))
    }
}

/// The target of an output.
#[derive(Debug)]
pub enum Target {
    /// A copy of an open file descriptor of this process, and its number.
    Descriptor { number: i32, file: OwnedFd, id: Id, is_device: bool },
    /// A device, pipe or socket, which is written to and never replaced.
    Device { slot: Slot, is_device: bool },
    /// A regular file, which may exist or not.
    Slot(Slot),
}

/// An output's target, and the path that named it.
#[derive(Debug)]
pub struct Place {
    /// The option that named it.
    pub option: &'static str,
    /// The path on the command line.
    pub path: PathBuf,
    /// The target.
    pub target: Target,
}

impl Place {
    /// Resolves a path; `-` is standard output.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a folder, for a path with missing folders, and for a link or pipe
    /// that another user may have put there.
    pub fn find(option: &'static str, path: &Path) -> Result<Place, Failure> {
        let target = if super::is_dash(path) { descriptor(1) } else { Walk::resolve(path) };
        let target = target.map_err(|reason| {
            let name = super::shown(path, "standard output");
            Failure::Usage(format!("cannot write {name}: {reason}"))
        })?;
        Ok(Place { option, path: path.to_owned(), target })
    }

    /// Returns the marks that identify the target. Two places with a common mark are the same file,
    /// and one output would be lost.
    ///
    /// Two names of a terminal or of /dev/null are harmless; using one descriptor twice is not.
    pub fn marks(&self) -> Vec<Mark> {
        let by_name = match &self.target {
            Target::Descriptor { number, .. } => Some(Mark::Descriptor(*number)),
            Target::Slot(slot) => Some(Mark::Name(slot.folder_id, slot.name.clone())),
            Target::Device { .. } => None,
        };
        by_name.into_iter().chain(self.target.persistent_id().map(Mark::File)).collect()
    }

    /// Returns whether the output is a terminal.
    pub fn is_terminal(&self) -> bool {
        use std::io::IsTerminal;
        match &self.target {
            Target::Descriptor { file, .. } => file.is_terminal(),
            Target::Device { slot, is_device: true } => {
                slot.open().is_ok_and(|file| file.is_terminal())
            }
            _ => false,
        }
    }
}

/// Returns the mark of the file that an input is read from; `-` is standard input.
pub fn mark_of_input(input: &Path) -> Option<Mark> {
    let stat = if super::is_dash(input) {
        rustix::fs::fstat(std::io::stdin())
    } else {
        rustix::fs::stat(input)
    };
    // Writing to a pipe, socket or device does not destroy data that was read from it.
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    stat.ok().filter(is_file).map(|stat| Mark::File(Id::of(&stat)))
}

/// An identity of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// A name in a folder, existing or not.
    Name(Id, OsString),
    /// An existing file.
    File(Id),
    /// An open file descriptor of this process.
    Descriptor(i32),
}

impl Target {
    /// Returns the id of an existing file that stores or forwards what is written to it.
    fn persistent_id(&self) -> Option<Id> {
        match self {
            Target::Descriptor { is_device: true, .. } | Target::Device { is_device: true, .. } => {
                None
            }
            Target::Descriptor { id, .. } => Some(*id),
            Target::Device { slot, .. } | Target::Slot(slot) => slot.found,
        }
    }
}

/// Returns whether a path names standard input: `-`, `/dev/stdin` and so on.
pub fn is_standard_input(path: &Path) -> bool {
    let is_zero = |target| matches!(target, Target::Descriptor { number: 0, .. });
    super::is_dash(path) || Walk::resolve(path).is_ok_and(is_zero)
}

/// Duplicates an open descriptor of this process.
fn descriptor(number: i32) -> Result<Target, String> {
    let file = ffi::duplicate(number).map_err(|cause| super::words(&cause))?;
    let stat = rustix::fs::fstat(&file).map_err(words)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    Ok(Target::Descriptor { number, file, id: Id::of(&stat), is_device })
}

fn words(cause: Errno) -> String {
    super::words(&cause.into())
}

/// A path that is being resolved: the resolved part, and the remaining parts in reverse order.
struct Walk {
    folder: OwnedFd,
    stat: Stat,
    walked: PathBuf,
    rest: Vec<OsString>,
    links: usize,
}

impl Walk {
    /// Resolves a path, following symbolic links.
    fn resolve(path: &Path) -> Result<Target, String> {
        let (folder, stat) = open(rustix::fs::CWD, OsStr::new(".")).map_err(words)?;
        let mut walk = Walk { folder, stat, walked: PathBuf::new(), rest: Vec::new(), links: 0 };
        walk.go_on_with(path);
        while let Some(part) = walk.rest.pop() {
            if let Some(target) = walk.step(&part)? {
                return Ok(target);
            }
        }
        Err("it is a folder".to_owned())
    }

    /// Adds the parts of a path before the remaining ones.
    fn go_on_with(&mut self, path: &Path) {
        // For `name/`, the name must be a folder.
        if path.as_os_str().as_bytes().ends_with(b"/") {
            self.rest.push(".".into());
        }
        let parts: Vec<OsString> = path.components().map(|part| part.as_os_str().into()).collect();
        self.rest.extend(parts.into_iter().rev());
    }

    fn step(&mut self, part: &OsStr) -> Result<Option<Target>, String> {
        let is_root = Path::new(part).components().next() == Some(Component::RootDir);
        if is_root || part == "." || part == ".." {
            return self.enter(part).map(|()| None);
        }
        let is_last = self.rest.is_empty();
        let stat = match rustix::fs::statat(&self.folder, part, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if self.is_of_descriptors() => {
                return Err("nothing is open under that number".to_owned());
            }
            Err(Errno::NOENT) if is_last => return self.file(part, None),
            Err(Errno::NOENT) => {
                return Err(format!(
                    "the folder {} does not exist",
                    self.walked.join(part).display()
                ));
            }
            Err(cause) => return Err(words(cause)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.follow(part, &stat),
            FileType::Directory => self.enter(part).map(|()| None),
            _ if !is_last => Err(format!("{} is not a folder", self.walked.join(part).display())),
            FileType::RegularFile => self.file(part, Some(Id::of(&stat))),
            kind => {
                self.refuse_a_strangers(part, &stat, "is a pipe, socket or device")?;
                let slot = self.slot(part, Some(Id::of(&stat)))?;
                Ok(Some(Target::Device { slot, is_device: kind == FileType::CharacterDevice }))
            }
        }
    }

    fn enter(&mut self, part: &OsStr) -> Result<(), String> {
        let (folder, stat) = open(&self.folder, part).map_err(words)?;
        (self.folder, self.stat) = (folder, stat);
        self.walked.push(part);
        Ok(())
    }

    fn file(&self, name: &OsStr, found: Option<Id>) -> Result<Option<Target>, String> {
        Ok(Some(Target::Slot(self.slot(name, found)?)))
    }

    fn slot(&self, name: &OsStr, found: Option<Id>) -> Result<Slot, String> {
        let folder = self.folder.try_clone().map_err(|cause| super::words(&cause))?;
        Ok(Slot { folder, name: name.to_owned(), folder_id: Id::of(&self.stat), found })
    }

    fn follow(&mut self, link: &OsStr, stat: &Stat) -> Result<Option<Target>, String> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err("it leads through too many links".to_owned());
        }
        if self.is_of_descriptors() {
            let number = link.to_str().and_then(|number| number.parse().ok());
            return descriptor(number.ok_or("it names no file descriptor")?).map(Some);
        }
        self.refuse_a_strangers(link, stat, "is a link")?;
        let target = rustix::fs::readlinkat(&self.folder, link, Vec::new()).map_err(words)?;
        self.go_on_with(Path::new(&OsString::from_vec(target.into_bytes())));
        Ok(None)
    }

    /// Returns whether the folder is /proc/self/fd, whose entries are not links by name.
    fn is_of_descriptors(&self) -> bool {
        ["/proc/self/fd", "/proc/thread-self/fd"].iter().any(|folder| {
            rustix::fs::stat(*folder).is_ok_and(|stat| Id::of(&stat) == Id::of(&self.stat))
        })
    }

    /// Protects against links and pipes planted in folders such as /tmp, where every user can
    /// create files and only owners can rename them. Rejects entries that belong neither to this
    /// user nor to the owner of the folder, as `fs.protected_symlinks` and `fs.protected_fifos` do
    /// if they are set. Otherwise their creator would decide where the output goes.
    fn refuse_a_strangers(&self, part: &OsStr, stat: &Stat, what: &str) -> Result<(), String> {
        const STICKY: u32 = 0o1002; // S_ISVTX, S_IWOTH
        #[allow(clippy::unnecessary_cast)] // u16 on other systems
        let everybody_writes = self.stat.st_mode as u32 & STICKY == STICKY;
        let owner = stat.st_uid;
        if !everybody_writes || owner == ffi::effective_user() || owner == self.stat.st_uid {
            return Ok(());
        }
        let name = self.walked.join(part);
        Err(format!(
            "{} {what} of another user (id {owner}), in a folder where everybody may put one; name a file in a \
             folder of your own",
            name.display()
        ))
    }
}

fn open(folder: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<(OwnedFd, Stat)> {
    // A link that replaces the inspected folder is not followed.
    let folder = rustix::fs::openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    let stat = rustix::fs::fstat(&folder)?;
    Ok((folder, stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn same(a: &Path, b: &Path) -> bool {
        let place = |path| Place::find("--out", path).unwrap();
        let (a, b) = (place(a).marks(), place(b).marks());
        a.iter().any(|mark| b.contains(mark))
    }

    #[test]
    fn a_file_that_is_not_there_is_known_by_every_spelling() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        symlink("a/b", at("folder")).unwrap();
        symlink("a/b/k", at("link")).unwrap();
        symlink(at("link"), at("link2")).unwrap();
        let k = at("a/b/k");
        for other in
            ["a/b/./k", "a//b/k", "a/b/../b/k", "folder/k", "folder/../b/k", "link", "link2"]
        {
            assert!(same(&k, &at(other)), "{other}");
        }
        for other in ["a/k", "a/b/K", "k", "folder/../k"] {
            assert!(!same(&k, &at(other)), "{other}");
        }
    }

    #[test]
    fn a_file_that_is_there_is_known_by_its_inode() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::write(at("k"), b"k").unwrap();
        std::fs::hard_link(at("k"), at("hard")).unwrap();
        std::fs::write(at("other"), b"k").unwrap();
        assert!(same(&at("k"), &at("hard")) && !same(&at("k"), &at("other")));
        let place = Place::find("--out", &at("hard")).unwrap();
        let is_read_from = |name| place.marks().contains(&mark_of_input(&at(name)).unwrap());
        assert!(is_read_from("k") && !is_read_from("other"));
    }

    #[test]
    fn descriptors_have_many_names_and_devices_lose_nothing() {
        let dash = Path::new("-");
        for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1"] {
            let name = Path::new(name);
            assert!(same(dash, name), "{name:?}");
            assert!(matches!(
                Place::find("--out", name).unwrap().target,
                Target::Descriptor { number: 1, .. }
            ));
        }
        assert!(!same(Path::new("/dev/null"), Path::new("/dev/null")));
        assert!(Place::find("--out", Path::new("/dev/fd/999")).is_err());
    }

    #[test]
    fn output_paths_that_are_not_files_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::write(at("file"), b"").unwrap();
        symlink("loop", at("loop")).unwrap();
        for (name, words) in [
            ("", "it is a folder"),
            ("new/", "does not exist"),
            ("no/k", "does not exist"),
            ("file/k", "is not a folder"),
            ("file/", "is not a folder"),
            ("loop", "too many links"),
        ] {
            let error = Place::find("--out", &at(name)).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("os error"), "{name}: {error}");
        }
    }

    /// Needs root, to create a file of another user.
    #[test]
    fn a_strangers_link_is_not_followed_where_everybody_may_put_one() {
        if ffi::effective_user() != 0 {
            return eprintln!("skipped: needs root to make another user's link");
        }
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::create_dir_all(at("mine")).unwrap();
        std::fs::create_dir(at("tmp")).unwrap();
        std::fs::write(at("mine/key"), b"key").unwrap();
        symlink("../mine/key", at("tmp/file")).unwrap();
        symlink("../mine", at("tmp/folder")).unwrap();
        let names = ["tmp/file", "tmp/folder/key", "tmp/folder/new"];
        let mode = |mode| {
            std::fs::set_permissions(at("tmp"), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let own = |id| {
            for name in ["tmp/file", "tmp/folder"] {
                std::os::unix::fs::lchown(at(name), Some(id), None).unwrap();
            }
        };
        let refused = |name: &&str| {
            Place::find("--out", &at(name))
                .is_err_and(|failure| failure.to_string().contains("another user"))
        };
        mode(0o1777);
        assert_eq!(names.iter().filter(|name| refused(name)).count(), 0, "one's own links");
        own(12345);
        assert_eq!(names.iter().filter(|name| refused(name)).count(), 3);
        mode(0o755);
        assert_eq!(names.iter().filter(|name| refused(name)).count(), 0, "nobody else's folder");
        mode(0o1777);
        // The folder's owner could do worse than put a link there.
        std::os::unix::fs::chown(at("tmp"), Some(12345), None).unwrap();
        assert_eq!(names.iter().filter(|name| refused(name)).count(), 0, "the owner's links");
    }
}
