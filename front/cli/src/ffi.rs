//! The only `unsafe` code of the command line: operating system settings.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Lets a write to a closed pipe end the process, as for every Unix filter.
///
/// Rust's start-up code ignores the signal, and `println!` would panic instead. Call this function
/// before starting any thread.
pub fn end_quietly_when_the_reader_is_gone() {
    // SAFETY: sets a default action; no handler runs, and no other thread exists yet.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Makes a write to a closed pipe an error again, for commands that must clean up after themselves.
pub fn go_on_when_the_reader_is_gone() {
    // SAFETY: sets the action `ignore`; no handler runs.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Ignores signals that would end a server without a drain, from its start until it waits for them.
/// Signals that request termination and those of crashes keep their effect. Signals that are
/// already ignored or handled are not changed.
///
/// `hangup` states whether SIGHUP is ignored too.
pub fn ignore_stray_signals(hangup: bool) {
    let mut signals =
        vec![libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF];
    signals.extend([libc::SIGIO, libc::SIGXCPU, libc::SIGXFSZ]);
    if hangup {
        signals.push(libc::SIGHUP);
    }
    #[cfg(target_os = "linux")]
    signals.extend(
        [libc::SIGPWR, libc::SIGSTKFLT].into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()),
    );
    for signal in signals {
        // SAFETY: sets the action `ignore` where the default would end the process; no handler
        // runs.
        unsafe {
            if libc::signal(signal, libc::SIG_IGN) == libc::SIG_ERR {
                continue;
            }
        }
    }
}

/// Returns CLOCK_MONOTONIC in microseconds, the unit that systemd expects.
pub fn monotonic_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the given structure, which is live for the call.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
    }
    let of = |value: i64| u64::try_from(value).unwrap_or_default();
    of(now.tv_sec) * 1_000_000 + of(now.tv_nsec) / 1000
}

/// Makes the kernel kill the child when the thread that starts it ends for any reason.
///
/// A server started by this process must not outlive it, even if this process is killed.
#[cfg(target_os = "linux")]
pub fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    // SAFETY: between fork and exec only prctl runs, which is async-signal-safe and allocates
    // nothing.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Does nothing: this system has no such setting. The caller must kill the child when it is done.
#[cfg(not(target_os = "linux"))]
pub fn die_with_parent(_: &mut Command) {}

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Duplicates an open descriptor that other code owns.
///
/// # Errors
/// The system's, in particular if the number is not an open descriptor.
pub fn duplicate(number: RawFd) -> std::io::Result<OwnedFd> {
    if number < 0 {
        return Err(std::io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the descriptor is borrowed only for this call, which returns an error if it is not
    // open; the number -1, which the type forbids, is excluded above.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}

/// The end of a pipe that a signal handler writes one byte to; -1 before the pipe exists and after
/// the write.
static INTERRUPT: AtomicI32 = AtomicI32::new(-1);

/// Runs `clean_up` in a new thread when the first SIGINT, SIGTERM or SIGHUP arrives. Call this
/// function at most once.
///
/// # Errors
/// Returns the system's error if the pipe or the thread cannot be created.
pub fn when_interrupted(clean_up: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    extern "C" fn wake(_: libc::c_int) {
        let pipe = INTERRUPT.swap(-1, Ordering::AcqRel);
        if pipe >= 0 {
            // SAFETY: `write` may be called in a signal handler. The pipe is never closed, and has
            // room for its only byte, so that the call neither blocks nor changes errno.
            unsafe {
                libc::write(pipe, b"!".as_ptr().cast(), 1);
            }
        }
    }
    let (mut woken, wakes) = std::io::pipe()?;
    let waits = move || {
        if woken.read_exact(&mut [0]).is_ok() {
            clean_up();
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(waits)?;
    INTERRUPT.store(wakes.into_raw_fd(), Ordering::Release);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the structure is plain data whose zeros are valid, and lives for the call; the
        // handler calls what handlers may call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = wake as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, null_mut());
        }
    }
    Ok(())
}

/// Maximum number of unfinished named files at a time; a command has two outputs.
const REMOVALS: usize = 4;

/// The files to remove; entries are never freed, since a handler may be reading one.
static TO_REMOVE: [AtomicPtr<FolderEntry>; REMOVALS] =
    [const { AtomicPtr::new(null_mut()) }; REMOVALS];

/// The name of a file in an open folder.
struct FolderEntry {
    folder: RawFd,
    name: CString,
}

/// Registers a file for removal when a signal ends this process.
#[derive(Debug)]
pub struct Removal {
    entry: *mut FolderEntry,
}

impl Removal {
    /// Registers a file until [`Removal::is_done`]; the folder must stay open for as long.
    pub fn when_a_signal_comes(folder: RawFd, name: CString) -> Removal {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT]
                .into_iter()
                .chain([libc::SIGPIPE, libc::SIGXFSZ, libc::SIGXCPU])
            {
                handle(signal);
            }
        });
        let entry = Box::into_raw(Box::new(FolderEntry { folder, name }));
        for place in &TO_REMOVE {
            let free =
                place.compare_exchange(null_mut(), entry, Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                break;
            }
        }
        Removal { entry }
    }

    /// Unregisters the file: its name is gone, or must be kept.
    pub fn is_done(&self) {
        for place in &TO_REMOVE {
            let _ =
                place.compare_exchange(self.entry, null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Removes unfinished files. May be called in signal handlers, such as that of [`Removal`].
pub fn remove_temporary_files() {
    for place in &TO_REMOVE {
        let entry = place.swap(null_mut(), Ordering::AcqRel);
        if entry.is_null() {
            continue;
        }
        // SAFETY: entries are made by `Box::into_raw` and never freed; `unlinkat` may be called in
        // a signal handler, and returns an error for a descriptor that is not open.
        unsafe {
            libc::unlinkat((*entry).folder, (*entry).name.as_ptr(), 0);
        }
    }
}

/// Installs the handler if the signal would end the process; an ignored or handled signal is not
/// changed.
fn handle(signal: libc::c_int) {
    extern "C" fn remove_and_end(signal: libc::c_int) {
        remove_temporary_files();
        // SAFETY: both may be called in a handler. The signal is raised again when this handler
        // returns, and then ends the process as it would have without the handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    // SAFETY: both structures are plain data whose zeros are valid, and live for the calls; the
    // handler calls what handlers may call.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut now) != 0
            || now.sa_sigaction != libc::SIG_DFL
        {
            return;
        }
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = remove_and_end as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(signal, &ours, null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The environment variable with the signal that the child raises.
    const CHILD: &str = "GABION_TEST_RAISE";

    /// Runs itself as a child, because the handler stays installed and ends the process.
    #[test]
    fn each_signal_that_interrupts_runs_the_clean_up() {
        if let Some(signal) = std::env::var(CHILD).ok().and_then(|signal| signal.parse().ok()) {
            when_interrupted(|| std::process::exit(130)).unwrap();
            // SAFETY: the handler for this signal was just set, and calls what handlers may call.
            unsafe { libc::raise(signal) };
            std::thread::sleep(std::time::Duration::from_secs(20));
            std::process::exit(1);
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let name = "ffi::tests::each_signal_that_interrupts_runs_the_clean_up";
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", name]).env(CHILD, signal.to_string());
            assert_eq!(child.output().unwrap().status.code(), Some(130), "signal {signal}");
        }
    }
}
