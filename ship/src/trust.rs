//! Checks who may change the files and folders that this program builds in or runs from.
//!
//! ```text
//!   /  ->  home  ->  me  ->  .cache  -> .. ->  bundle-V  ->  bin, lib, ssl
//!   each: owned by this user or root, writable by no one else; folders like /tmp: sticky bit
//! ```
//!
//! A user who can write to or rename one of these folders decides what runs. Checking only the
//! bundle would not protect it after the check.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::{Error, Result};

/// The variable that accepts any owner, for containers whose folders belong to a user outside.
pub const ANY_OWNER_VARIABLE: &str = "GABION_OPENSSL_ANY_OWNER";

const OTHERS_MAY_WRITE: u32 = 0o022;
const GROUP_MAY_WRITE: u32 = 0o020;
const STICKY: u32 = 0o1000;
/// The user id that a user namespace shows for an unmapped owner.
const UNMAPPED: u32 = 65534;

/// Returns the user id of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the group id of this process.
pub(crate) fn group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Rejects a folder that another user could replace, or whose future contents another user could
/// replace.
///
/// # Errors
/// [`Error::NotReady`], naming the folder and the fix.
pub(crate) fn check_folder(folder: &Path) -> Result<()> {
    let real = folder.canonicalize().map_err(|cause| Error::io("cannot read", folder, cause))?;
    real.ancestors().try_for_each(|part| check(part, true))
}

/// Rejects a file that another user could change or replace.
///
/// # Errors
/// Fails like [`check_folder`].
pub(crate) fn check_file(file: &Path) -> Result<()> {
    let real = file.canonicalize().map_err(|cause| Error::io("cannot read", file, cause))?;
    check(&real, false)?;
    real.ancestors().skip(1).try_for_each(|part| check(part, true))
}

/// Rejects a folder if another user could change it or one of its direct entries.
///
/// # Errors
/// Fails like [`check_folder`]. A missing folder is not an error here.
pub(crate) fn check_contents(folder: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    check_folder(folder)?;
    let inside = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    for entry in entries.flatten() {
        let path = entry.path();
        // A dangling link is not loaded.
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
    // With the sticky bit, only the owner of an entry and the owner of the folder can rename or
    // remove it.
    let guarded = is_folder && data.mode() & STICKY != 0;
    let mut others = data.mode() & OTHERS_MAY_WRITE;
    if others == GROUP_MAY_WRITE && is_private_group(&data) {
        others = 0;
    }
    if others != 0 && !guarded {
        return Err(Error::NotReady(format!(
            "others may write to {0} (mode {1:o}) and thus control what is built or run there; fix it \
             with `chmod go-w {0}`, or choose another place",
            path.display(),
            data.mode() & 0o7777
        )));
    }
    if is_trusted(data.uid()) || std::env::var_os(ANY_OWNER_VARIABLE).is_some_and(|v| v == "1") {
        return Ok(());
    }
    Err(Error::NotReady(format!(
        "{} belongs to user {}, who could replace what is built or run there; user {} accepts its own \
         and root's only. Choose another place, or set {ANY_OWNER_VARIABLE}=1 where that user is you \
         outside of this container",
        path.display(),
        data.uid(),
        user()
    )))
}

/// Returns whether the group is private to the owner: distributions give each user a group with the
/// same number, and a umask that makes files writable by it.
fn is_private_group(data: &Metadata) -> bool {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    data.gid() == data.uid() && has_no_members(&groups, data.gid())
}

/// Returns whether `/etc/group` lists no members of a group.
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

/// Returns whether all users are mapped here; in a user namespace most users, including the real
/// root, are not.
fn sees_every_user() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .map_or(true, |map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Opens the file `path` for locking, creating it if it is missing.
///
/// The file is never written to. Links, files of other users and special files are rejected: in a
/// shared folder another user may have put them there.
///
/// # Errors
/// [`Error::Io`] if it cannot be opened, [`Error::NotReady`] if it is not a regular file of this
/// user.
pub(crate) fn open_lock(path: &Path) -> Result<File> {
    // Opening a pipe only for writing would block.
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
        "{} is not a file of this user (it is a link, or another user's file); remove it, or choose \
         another place",
        path.display()
    )))
}

fn is_ours(data: &Metadata) -> bool {
    data.is_file() && data.nlink() == 1 && data.uid() == user()
}

/// Removes the write permission of others from a folder of this user. Does nothing to other users'
/// folders.
pub(crate) fn tighten(folder: &Path) {
    let Ok(data) = std::fs::symlink_metadata(folder) else { return };
    if data.is_dir() && data.uid() == user() && data.mode() & OTHERS_MAY_WRITE != 0 {
        let mode = data.mode() & 0o7777 & !OTHERS_MAY_WRITE;
        // If this fails, the check that follows rejects the folder.
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode));
    }
}

/// While this value lives, nothing that this process or its children create is writable by others.
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

/// Creates a folder with an unguessable name that only this user can enter.
///
/// # Errors
/// [`Error::Io`] if it cannot be created.
pub(crate) fn private_folder(parent: &Path, prefix: &str) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .rand_bytes(16)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(|cause| Error::io("cannot make a folder in", parent, cause))
}

/// Returns the entries in `parent` that start with `prefix` and belong to this user.
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
