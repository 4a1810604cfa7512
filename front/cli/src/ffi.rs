//! The command line's only `unsafe`: settings of the operating system.

use std::process::Command;

/// Lets a write to a closed pipe end the process, as it ends every Unix filter.
///
/// Rust's start-up code ignores the signal, and `println!` would panic instead. Call it before any
/// thread is started.
pub fn end_quietly_when_the_reader_is_gone() {
    // SAFETY: sets a default action; no handler runs, and no other thread exists yet.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Makes a write to a closed pipe an error again, for a command that must clean up after itself.
pub fn go_on_when_the_reader_is_gone() {
    // SAFETY: sets the action `ignore`; no handler runs.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Has the kernel kill the child when the thread that starts it ends, however it ends.
///
/// A server that we start must not outlive us, not even when we are killed ourselves.
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

/// Other systems have no such setting; whoever starts a child kills it when done.
#[cfg(not(target_os = "linux"))]
pub fn die_with_parent(_: &mut Command) {}
