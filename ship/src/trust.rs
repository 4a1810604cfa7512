//! Who may change a file or a folder that this program builds in or runs from.
//!
//! ```text
//!   /  ->  home  ->  me  ->  .cache  -> .. ->  bundle-V  ->  bin, lib, ssl
//!   each: mine or root's, and writable by nobody else; a folder like /tmp by its sticky bit
//! ```
//!
//! Whoever may write into one of them, or rename it, decides what runs: a check of the bundle alone
//! would say nothing of the moment after it.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::{Error, Result};

/// Names the switch that takes any owner, for containers whose folders belong to a user outside.
pub const ANY_OWNER_VARIABLE: &str = "GABION_OPENSSL_ANY_OWNER";

const OTHERS_MAY_WRITE: u32 = 0o022;
const GROUP_MAY_WRITE: u32 = 0o020;
const STICKY: u32 = 0o1000;
/// The owner that a user namespace shows where the real one is not mapped into it.
const UNMAPPED: u32 = 65534;

/// The user that this process runs as.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The group that this process runs as.
pub(crate) fn group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Refuses `folder` when somebody else could replace it, or what is made in it later.
///
/// # Errors
/// [`Error::NotReady`], naming the folder that is at fault, and how to mend it.
pub(crate) fn check_folder(folder: &Path) -> Result<()> {
    let real = folder.canonicalize().map_err(|cause| Error::io("cannot read", folder, cause))?;
    real.ancestors().try_for_each(|part| check(part, true))
}

/// Refuses a file that somebody else could change or replace.
///
/// # Errors
/// As [`check_folder`].
pub(crate) fn check_file(file: &Path) -> Result<()> {
    let real = file.canonicalize().map_err(|cause| Error::io("cannot read", file, cause))?;
    check(&real, false)?;
    real.ancestors().skip(1).try_for_each(|part| check(part, true))
}

/// Refuses a folder, or anything that lies directly in it, that somebody else could change.
///
/// # Errors
/// As [`check_folder`]; a folder that is not there is for others to miss.
pub(crate) fn check_contents(folder: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    check_folder(folder)?;
    let inside = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    for entry in entries.flatten() {
        let path = entry.path();
        // A link to nothing is loaded by nobody.
        let Ok(real) = path.canonicalize() else { continue };
        if real.parent() == Some(&inside) {
            check(&real, real.is_dir())?;
        } else {
            check_file(&real)?;
        }
    }
    Ok(())
}

fn check(path: &Path, is_folder: bool) -> Result<()> {
    let data = std::fs::metadata(path).map_err(|cause| Error::io("cannot read", path, cause))?;
    // Sticky: what is in it can be renamed and removed by its owner and the folder's only.
    let guarded = is_folder && data.mode() & STICKY != 0;
    let mut others = data.mode() & OTHERS_MAY_WRITE;
    if others == GROUP_MAY_WRITE && is_private_group(&data) {
        others = 0;
    }
    if others != 0 && !guarded {
        return Err(Error::NotReady(format!(
            "others may write to {0} (mode {1:o}), and so decide what is built or run there; mend it \
             with `chmod go-w {0}`, or choose another place",
            path.display(),
            data.mode() & 0o7777
        )));
    }
    if is_trusted(data.uid()) || std::env::var_os(ANY_OWNER_VARIABLE).is_some_and(|v| v == "1") {
        return Ok(());
    }
    Err(Error::NotReady(format!(
        "{} belongs to user {}, who could replace what is built or run there; user {} takes its own \
         and root's only. Choose another place, or set {ANY_OWNER_VARIABLE}=1 where that user is you \
         outside of this container",
        path.display(),
        data.uid(),
        user()
    )))
}

/// Whether the group is the owner's alone: distributions give each user one of the same number, and an
/// umask that lets it write.
fn is_private_group(data: &Metadata) -> bool {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    data.gid() == data.uid() && has_no_members(&groups, data.gid())
}

/// Whether `/etc/group` names no members of a group, besides its own user's name.
fn has_no_members(groups: &str, gid: u32) -> bool {
    groups.lines().all(|line| {
        let mut fields = line.split(':');
        let (name, number, members) = (fields.next(), fields.nth(1), fields.next());
        number.and_then(|number| number.parse().ok()) != Some(gid)
            || members.is_none_or(|members| members.is_empty() || Some(members) == name)
    })
}

fn is_trusted(owner: u32) -> bool {
    owner == user() || owner == 0 || owner == UNMAPPED && !sees_every_user()
}

/// Whether every user has a number here; in a user namespace most have not, root outside neither.
fn sees_every_user() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .map_or(true, |map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Opens the file `path`, made where it is not there, for its lock.
///
/// Nothing of it is written. A link is not followed, a file of somebody else and what is no file are
/// refused: in a shared folder anybody may have put them there.
///
/// # Errors
/// [`Error::Io`] when it cannot be opened, [`Error::NotReady`] when it is not a file of ours.
pub(crate) fn open_lock(path: &Path) -> Result<File> {
    // Of a pipe, opening for writing alone would wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|cause| Error::io("cannot open for its lock", path, cause))?;
    let data = file.metadata().map_err(|cause| Error::io("cannot read", path, cause))?;
    if is_ours(&data) {
        return Ok(file);
    }
    Err(Error::NotReady(format!(
        "{} is not a file that this user made (it is a link's or somebody else's); remove it, or choose \
         another place",
        path.display()
    )))
}

fn is_ours(data: &Metadata) -> bool {
    data.is_file() && data.nlink() == 1 && data.uid() == user()
}

/// Takes from a folder of ours that others may write to it. Does nothing to somebody else's.
pub(crate) fn tighten(folder: &Path) {
    let Ok(data) = std::fs::symlink_metadata(folder) else { return };
    if data.is_dir() && data.uid() == user() && data.mode() & OTHERS_MAY_WRITE != 0 {
        let mode = data.mode() & 0o7777 & !OTHERS_MAY_WRITE;
        // What could not be mended is refused by the check that follows.
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode));
    }
}

/// While it lives, nothing that this process or its children make is writable by others.
pub(crate) struct OwnerWrites {
    before: Mode,
}

impl OwnerWrites {
    pub(crate) fn begin() -> Self {
        let before = rustix::process::umask(Mode::from_raw_mode(OTHERS_MAY_WRITE));
        rustix::process::umask(before | Mode::from_raw_mode(OTHERS_MAY_WRITE));
        OwnerWrites { before }
    }
}

impl Drop for OwnerWrites {
    fn drop(&mut self) {
        rustix::process::umask(self.before);
    }
}

/// A new folder of a name that nobody can guess, which this user alone may enter.
///
/// # Errors
/// [`Error::Io`] when it cannot be made.
pub(crate) fn private_folder(parent: &Path, prefix: &str) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .rand_bytes(16)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(|cause| Error::io("cannot make a folder in", parent, cause))
}

/// What in `parent` begins with `prefix` and is this user's.
pub(crate) fn own_entries(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let own = entries.filter(|entry| {
        entry.file_name().to_string_lossy().starts_with(prefix)
            && entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == user())
    });
    own.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_and_so_is_all_below() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let file = inner.join("file");
        std::fs::write(&file, "x").unwrap();
        set_mode(&file, 0o644);
        for (mode, sound) in [(0o755, true), (0o700, true), (0o777, false), (0o757, false)] {
            set_mode(folder.path(), mode);
            assert_eq!(check_folder(&inner).is_ok(), sound, "{mode:o}");
            assert_eq!(check_file(&file).is_ok(), sound, "{mode:o}");
            assert_eq!(check_contents(&inner).is_ok(), sound, "{mode:o}");
        }
        set_mode(folder.path(), 0o1777);
        assert!(check_folder(&inner).is_ok(), "sticky");
        set_mode(&file, 0o666);
        assert!(check_file(&file).is_err() && check_contents(&inner).is_err());
        set_mode(folder.path(), 0o755);
    }

    #[test]
    fn a_group_may_write_when_it_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        set_mode(folder.path(), 0o775);
        let data = std::fs::metadata(folder.path()).unwrap();
        assert_eq!(check_folder(folder.path()).is_ok(), is_private_group(&data));
        if user() == 0 {
            std::os::unix::fs::chown(folder.path(), None, Some(12345)).unwrap();
            assert!(check_folder(folder.path()).is_err());
        }
        let groups = "root:x:0:\nstaff:x:50:me,you\nme:x:1000:me\nopen:x:1001:you\n";
        for (gid, alone) in [(0, true), (50, false), (1000, true), (1001, false), (7, true)] {
            assert_eq!(has_no_members(groups, gid), alone, "{gid}");
        }
    }

    #[test]
    fn links_are_checked_at_their_target() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::write(open.join("file"), "x").unwrap();
        let own = folder.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(open.join("file"), own.join("link")).unwrap();
        set_mode(&own, 0o755);
        set_mode(&open.join("file"), 0o644);
        set_mode(&open, 0o755);
        assert!(check_contents(&own).is_ok());
        set_mode(&open, 0o777);
        assert!(check_contents(&own).is_err());
    }

    #[test]
    fn a_lock_is_neither_a_link_nor_a_pipe_and_keeps_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let (lock, link, target) =
            (folder.path().join("lock"), folder.path().join("link"), folder.path().join("diary"));
        std::fs::write(&target, "mine").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(open_lock(&link).is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"mine");
        drop(open_lock(&lock).unwrap());
        std::fs::write(&lock, "kept").unwrap();
        drop(open_lock(&lock).unwrap());
        assert_eq!(std::fs::read(&lock).unwrap(), b"kept");
        let twin = folder.path().join("twin");
        std::fs::hard_link(&target, &twin).unwrap();
        assert!(open_lock(&twin).is_err(), "a hard link to a file elsewhere");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success() && open_lock(&pipe).is_err());
    }

    #[test]
    fn a_private_folder_is_new_and_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (
            private_folder(folder.path(), ".x.building-").unwrap(),
            private_folder(folder.path(), ".x.building-").unwrap(),
        );
        assert_ne!(one.path(), two.path());
        assert_eq!(std::fs::metadata(one.path()).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(own_entries(folder.path(), ".x.building-").len(), 2);
        std::os::unix::fs::symlink("/", folder.path().join(".x.building-link")).unwrap();
        assert_eq!(own_entries(folder.path(), ".x.building-").len(), 2, "links are no folders");
    }
}
