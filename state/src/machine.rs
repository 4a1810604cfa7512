//! The environment that a state is bound to: the machine, its boot, and the process.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gabion_engine::keys::stateful::digest_of;
use gabion_engine::{forks, rights};
use once_cell::race::OnceBox;

/// A process id with a token that distinguishes it from the process it was forked from.
pub type Process = (u32, u64);

/// The file with the machine's id.
pub(crate) const MACHINE_ID: &str = "/etc/machine-id";
/// The id used on machines without one.
pub const NO_MACHINE: [u8; 32] = [0; 32];

/// The machine that runs this code.
pub trait Machine: Send + Sync {
    /// Returns an id of the current boot; constant on systems that do not provide one.
    fn boot(&self) -> [u8; 32];

    /// Returns the id of the machine; zeros if it has no id.
    ///
    /// # Errors
    /// If there is an id that cannot be read: the machine is then unknown.
    fn id(&self) -> io::Result<[u8; 32]>;

    /// Returns the process, or `None` if forks cannot be detected.
    fn process(&self) -> Option<Process>;

    /// Returns the seconds since 1970. The clock may be wrong; only log entries use it.
    fn now(&self) -> u64;

    /// Returns the host name.
    fn host(&self) -> String;

    /// Returns the folder of the user's anchors. `None` if there is no home, or the environment is
    /// not trusted.
    fn anchors(&self) -> Option<PathBuf>;

    /// Sleeps for a moment.
    fn pause(&self, time: Duration);
}

/// The machine that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn boot(&self) -> [u8; 32] {
        const PATH: &str = "/proc/sys/kernel/random/boot_id";
        // Read for every signature: keeping the file open needs two system calls instead of six.
        static BOOT_ID: OnceBox<Option<KernelFile>> = OnceBox::new();
        let kept = BOOT_ID.get_or_init(|| Box::new(KernelFile::open(PATH)));
        match kept.as_ref().and_then(KernelFile::read) {
            Some(text) => digest(&text),
            // Systems without a boot id count as one boot.
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
        // The clock may be before 1970.
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

/// A small kernel file that is kept open. It is read each time, because a process may be frozen and
/// resumed after the machine has rebooted.
struct KernelFile {
    file: File,
    /// Device and inode: a program that closes unknown descriptors may have opened another file
    /// under this number.
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

    /// Returns the content. `None` if the descriptor now refers to another file, or the file is
    /// empty.
    fn read(&self) -> Option<Vec<u8>> {
        if Self::identity(&self.file)? != self.identity {
            return None;
        }
        let mut text = [0; 64];
        let len = self.file.read_at(&mut text, 0).ok()?;
        (0 < len && len < text.len()).then(|| text[..len].to_vec())
    }
}

/// Returns the digest of a file's content; zeros if the file is missing. The machine id is hashed
/// because systemd requires that it is not disclosed.
fn digest_of_file(path: &str) -> io::Result<[u8; 32]> {
    match std::fs::read(path) {
        Ok(text) => Ok(digest(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(NO_MACHINE),
        Err(error) => Err(error),
    }
}

/// Returns the digest of a text; zeros if it is empty.
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
        // Simulates a program that closes every descriptor and then opens files.
        kept.file = File::open(&paths[1]).unwrap();
        assert!(kept.read().is_none());
    }

    /// A machine whose id cannot be read now must not count as a machine without an id.
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
