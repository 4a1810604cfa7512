//! Protection of a whole process with secrets. Commands call these functions; libraries do not.

use std::fs;

/// Whether all memory of the process is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// All memory of the process, present and future, is locked and never swapped.
    Whole,
    /// The memory is not locked, for the reason given.
    Unlocked(String),
}

/// The right to lock memory without a limit (capabilities(7)).
#[cfg(target_os = "linux")]
const CAP_IPC_LOCK: u32 = 14;

/// Locks all current and future memory of the process, page by page on first use. If the limit of
/// locked memory (RLIMIT_MEMLOCK) is finite, nothing is locked: a partly locked process would fail
/// at the limit.
#[cfg(target_os = "linux")]
pub fn lock_process() -> Lock {
    use rustix::mm::{MlockAllFlags, mlockall};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // Raise the soft limit as far as allowed.
    let before = getrlimit(Resource::Memlock);
    let _ = setrlimit(Resource::Memlock, Rlimit { current: before.maximum, ..before });
    let limit = getrlimit(Resource::Memlock).current;
    if let Some(bytes) = limit.filter(|_| !has_right(CAP_IPC_LOCK)) {
        return Lock::Unlocked(format!(
            "it may lock {} KiB of memory (RLIMIT_MEMLOCK); expected no limit",
            bytes >> 10
        ));
    }
    match mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT) {
        Ok(()) => Lock::Whole,
        Err(error) => Lock::Unlocked(format!("the system does not lock its memory: {error}")),
    }
}

/// Only Linux can lock future memory on first use.
#[cfg(not(target_os = "linux"))]
pub fn lock_process() -> Lock {
    Lock::Unlocked("this system does not lock the memory of a process as a whole".to_owned())
}

/// Excludes the process from core dumps, and its memory from other processes of the same user
/// (`PR_SET_DUMPABLE`). Returns whether that succeeded.
#[cfg(target_os = "linux")]
pub fn no_dumps() -> bool {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

    // The core size limit alone is not enough: programs that receive core dumps through a pipe
    // ignore it (core(5)).
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()
}

/// Sets only the core size limit.
#[cfg(not(target_os = "linux"))]
pub fn no_dumps() -> bool {
    use rustix::process::{Resource, Rlimit, setrlimit};

    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).is_ok()
}

/// Returns whether swap is enabled. Also true if that cannot be determined.
pub fn is_swap_on() -> bool {
    // The first line is the table's header (proc(5)).
    fs::read_to_string("/proc/swaps").map_or(true, |table| table.lines().count() > 1)
}

#[cfg(target_os = "linux")]
fn has_right(right: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|rights| rights >> right & 1 == 1)
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;
    use crate::memory::Pages;

    /// The action of a child process that runs one test of this file.
    const CHILD: &str = "GABION_TEST_DUMPS";

    /// Returns bytes that do not occur in the program.
    fn mixed(bytes: &[u8; 32], with: u8) -> Vec<u8> {
        bytes.iter().map(|byte| byte ^ with).collect()
    }

    const ON_PAGES: &[u8; 32] = b"this one is on pages of its own.";
    const ON_HEAP: &[u8; 32] = b"and that one is where most are..";

    fn has(bytes: &[u8], wanted: &[u8]) -> bool {
        bytes.windows(wanted.len()).any(|part| part == wanted)
    }

    #[test]
    fn core_dumps_contain_no_secrets() {
        if let Ok(what) = std::env::var(CHILD) {
            let mut pages = Pages::new(32).unwrap();
            // Copy byte by byte: a copy of 32 bytes stays in an AVX-512 register, which a core dump
            // contains, too.
            for (to, from) in pages.bytes_mut().unwrap().iter_mut().zip(ON_PAGES) {
                *to = std::hint::black_box(from ^ 0x55);
            }
            let heap = mixed(ON_HEAP, 0x55);
            if what == "none" {
                assert!(no_dumps());
            }
            std::hint::black_box((&pages, &heap));
            std::process::abort();
        }
        let name = "memory::process::tests::core_dumps_contain_no_secrets";
        let run = |what: &str| {
            let folder = tempfile::tempdir().unwrap();
            let status = Command::new("sh")
                .args(["-c", "ulimit -c unlimited; exec \"$0\" --exact \"$1\""])
                .arg(std::env::current_exe().unwrap())
                .arg(name)
                .env(CHILD, what)
                .current_dir(folder.path())
                .output()
                .unwrap()
                .status;
            let files = fs::read_dir(folder.path()).unwrap();
            let cores: Vec<Vec<u8>> =
                files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
            assert_eq!(status.signal(), Some(6), "{what}: {status:?}");
            (status.core_dumped(), cores)
        };
        let (is_dumped, cores) = run("usual");
        for core in &cores {
            assert!(has(core, &mixed(ON_HEAP, 0x55)), "a core without its heap");
            assert!(!has(core, &mixed(ON_PAGES, 0x55)));
        }
        if !is_dumped || cores.is_empty() {
            eprintln!("not tested: the system keeps no core where the process is");
        }
        assert_eq!(run("none"), (false, Vec::new()));
    }

    /// Later allocations are locked, too; with a finite limit nothing is locked.
    #[test]
    fn a_process_is_locked_as_a_whole_or_says_why_not() {
        if std::env::var_os(CHILD).is_none() {
            let name = "memory::process::tests::a_process_is_locked_as_a_whole_or_says_why_not";
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env(CHILD, "lock")
                .output()
                .unwrap();
            assert!(child.status.success(), "{child:?}");
            return;
        }
        let locked = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap()
        };
        match lock_process() {
            Lock::Whole => {
                let before = locked();
                assert!(before > 0);
                let more = vec![1_u8; 32 << 20];
                std::hint::black_box(&more);
                assert!(locked() >= before + (32 << 10), "{before} KiB, then {}", locked());
            }
            Lock::Unlocked(why) => {
                assert!(why.contains("RLIMIT_MEMLOCK") || why.contains("does not lock"), "{why}");
                assert_eq!(locked(), 0);
            }
        }
    }
}
