//! What a state may be bound to: the machine, its boot, the process.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gabion_engine::keys::stateful::digest_of;
use gabion_engine::{forks, rights};
use once_cell::race::OnceBox;

/// A process and what tells it from those that it was forked from.
pub type Process = (u32, u64);

/// Where a machine has its name.
pub(crate) const MACHINE_ID: &str = "/etc/machine-id";
/// The name of all machines without one.
pub const NO_MACHINE: [u8; 32] = [0; 32];

/// Where this code runs.
pub trait Machine: Send + Sync {
    /// Names this boot of the machine. All that say nothing about it are one.
    fn boot(&self) -> [u8; 32];

    /// Names the machine. All without a name are one, and are called by zeros.
    ///
    /// # Errors
    /// If there is a name and it can't be read: nothing is known of the machine then.
    fn id(&self) -> io::Result<[u8; 32]>;

    /// The process. None where forks can't be told.
    fn process(&self) -> Option<Process>;

    /// Seconds since 1970, by a clock that may be wrong. Nothing depends on it.
    fn now(&self) -> u64;

    /// What people call the machine.
    fn host(&self) -> String;

    /// Where the anchors of whoever signs are. None where there is no home, or the environment is not to be
    /// trusted.
    fn anchors(&self) -> Option<PathBuf>;

    /// Waits for a moment.
    fn pause(&self, time: Duration);
}

/// The one that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn boot(&self) -> [u8; 32] {
        const PATH: &str = "/proc/sys/kernel/random/boot_id";
        // Every signature asks: a file that is kept open is asked again by two calls of the kernel, not by six.
        static BOOT_ID: OnceBox<Option<KernelFile>> = OnceBox::new();
        let kept = BOOT_ID.get_or_init(|| Box::new(KernelFile::open(PATH)));
        match kept.as_ref().and_then(KernelFile::read) {
            Some(text) => digest(&text),
            // All that say nothing are one boot.
            None => digest_of_file(PATH).unwrap_or_default(),
        }
    }

    fn id(&self) -> io::Result<[u8; 32]> {
        digest_of_file(MACHINE_ID)
    }

    fn process(&self) -> Option<Process> {
        forks::token().map(|token| (std::process::id(), token))
    }

    fn now(&self) -> u64 {
        // A clock before 1970 is as good as any other.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }

    fn host(&self) -> String {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim().to_owned()
    }

    fn anchors(&self) -> Option<PathBuf> {
        if rights::is_privileged() {
            return None;
        }
        let folder =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = folder("XDG_STATE_HOME")
            .or_else(|| folder("HOME").map(|home| home.join(".local").join("state")))?;
        Some(home.join("gabion").join("anchors"))
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A small file of the kernel's that stays open. Its text is read each time, since a process may be frozen and go on
/// after the machine started again.
struct KernelFile {
    file: File,
    /// Device and number: a program that closes descriptors that are not its own may have opened another there.
    identity: (u64, u64),
}

impl KernelFile {
    fn open(path: &str) -> Option<KernelFile> {
        let file = File::open(path).ok()?;
        let identity = Self::identity(&file)?;
        Some(KernelFile { file, identity })
    }

    fn identity(file: &File) -> Option<(u64, u64)> {
        file.metadata().ok().map(|about| (about.dev(), about.ino()))
    }

    /// None where the descriptor is no longer this file's, or it says nothing.
    fn read(&self) -> Option<Vec<u8>> {
        if Self::identity(&self.file)? != self.identity {
            return None;
        }
        let mut text = [0; 64];
        let len = self.file.read_at(&mut text, 0).ok()?;
        (0 < len && len < text.len()).then(|| text[..len].to_vec())
    }
}

/// The digest of what a file says, zeros if there is no such file. The machine's own number is nobody's business: systemd asks
/// that it is not written anywhere as it is.
fn digest_of_file(path: &str) -> io::Result<[u8; 32]> {
    match std::fs::read(path) {
        Ok(text) => Ok(digest(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(NO_MACHINE),
        Err(error) => Err(error),
    }
}

/// All zeros for a text that says nothing.
fn digest(text: &[u8]) -> [u8; 32] {
    match text.trim_ascii() {
        [] => [0; 32],
        text => digest_of(&[b"gabion state ", text].concat()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_kept_open_is_read_again_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boot");
        fs::write(&path, "one\n").unwrap();
        let kept = KernelFile::open(path.to_str().unwrap()).unwrap();
        assert_eq!(kept.read().unwrap(), b"one\n");
        fs::write(&path, "two").unwrap();
        assert_eq!(kept.read().unwrap(), b"two");
        fs::write(&path, "").unwrap();
        assert!(kept.read().is_none());
        fs::write(&path, [b'x'; 64]).unwrap();
        assert!(kept.read().is_none(), "a text that may have been cut");
    }

    #[test]
    fn replaced_descriptor_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["boot", "other"].map(|name| folder.path().join(name));
        paths.iter().for_each(|path| fs::write(path, "text").unwrap());
        let mut kept = KernelFile::open(paths[0].to_str().unwrap()).unwrap();
        // As a program does that closes every descriptor and opens files of its own.
        kept.file = File::open(&paths[1]).unwrap();
        assert!(kept.read().is_none());
    }

    /// A machine whose name can't be read at the moment is not one without a name.
    #[test]
    fn a_name_that_cannot_be_read_is_an_error_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine-id");
        assert_eq!(digest_of_file(path.to_str().unwrap()).unwrap(), NO_MACHINE);
        fs::write(&path, "").unwrap();
        assert_eq!(digest_of_file(path.to_str().unwrap()).unwrap(), NO_MACHINE);
        fs::write(&path, "0123\n").unwrap();
        assert_ne!(digest_of_file(path.to_str().unwrap()).unwrap(), NO_MACHINE);
        assert!(digest_of_file(folder.path().to_str().unwrap()).is_err(), "a folder can't be read");
    }

    #[test]
    fn the_boot_is_that_of_the_kernel() {
        assert_eq!(ThisMachine.boot(), digest_of_file("/proc/sys/kernel/random/boot_id").unwrap());
        assert_eq!(ThisMachine.boot(), ThisMachine.boot());
        assert_ne!(ThisMachine.boot(), [0; 32]);
    }
}
