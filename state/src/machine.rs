//! What a state may be bound to: the machine, its boot, the process.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gabion_engine::keys::stateful::digest_of;
use gabion_engine::{forks, rights};

/// A process and what tells it from those that it was forked from.
pub type Process = (u32, u64);

/// Where this code runs.
pub trait Machine: Send + Sync {
    /// Names this boot of the machine. All that say nothing about it are one.
    fn boot(&self) -> [u8; 32];

    /// Names the machine. All without a name are one.
    fn id(&self) -> [u8; 32];

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
        named("/proc/sys/kernel/random/boot_id")
    }

    fn id(&self) -> [u8; 32] {
        named("/etc/machine-id")
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
        if rights::exceed_the_callers() {
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

/// The digest of what a file says. The machine's own number is nobody's business: systemd asks that it is not
/// written anywhere as it is.
fn named(path: &str) -> [u8; 32] {
    match std::fs::read(path) {
        Ok(text) if !text.trim_ascii().is_empty() => {
            digest_of(&[b"gabion state ", text.trim_ascii()].concat())
        }
        _ => [0; 32],
    }
}
