//! `gabion kms serve`: runs the service with a configuration file.

use std::path::PathBuf;

use gabion_kms_server::config::Config;
use gabion_kms_server::memory::{self, Lock};
use gabion_kms_server::{Server, ServiceHost};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;
use crate::ffi;

/// Run the key management server
///
/// Example:
///   gabion kms serve --config kms.toml
///
/// `gabion kms init` creates the store. The server starts sealed and waits for `gabion kms unseal`,
/// unless the configuration names a passphrase file. SIGTERM stops it within 10 seconds, after
/// pending requests are answered. SIGHUP reloads the certificate, its private key, the client
/// authorities and the revocations. kms/server/kms.toml describes all settings.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    // A client that disconnects early must not end the server.
    ffi::go_on_when_the_reader_is_gone();
    // Signals are ignored from here on. A reload requested before the files are read needs no
    // action.
    ffi::ignore_stray_signals(true);
    let config = Config::read(&args.config)?;
    let mut options = config.options()?;
    options.monotonic_us = Some(ffi::monotonic_us);
    if let Some(tls) = &options.tls {
        tls.reporting(|line| eprintln!("{line}"));
    }
    let wanted = (options.connections_max, options.local_connections_max);
    let (open, local) = room(wanted.0, wanted.1);
    if (open, local) != wanted {
        eprintln!(
            "warning: this process may open too few files for {} connections (limits.connections) and {} of this machine \
             (limits.local_connections); it takes {open} and {local}, and more wait",
            wanted.0, wanted.1
        );
        (options.connections_max, options.local_connections_max) = (open, local);
    }
    let lock = guarded(config.memory.allow_unlocked)?;
    let host = ServiceHost::open_logging(&config, |line| eprintln!("{line}"))?;
    let host = host.with_memory(&lock, config.memory.allow_unlocked).making_own_keys();
    let server = Server::start(host.into(), &options)?;
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    server.serve(|| {
        eprintln!("serving at {}", addresses.join(", "));
        true
    })?;
    Ok(0)
}

/// Disables core dumps and locks the process memory before a key is loaded.
fn guarded(is_allowed: bool) -> Result<Lock, Failure> {
    if !memory::no_dumps() {
        eprintln!("warning: core dumps of this process can't be switched off");
    }
    let lock = memory::lock_process();
    if let Lock::Unlocked(why) = &lock {
        let to_do = "run it with LimitMEMLOCK=infinity (systemd) or `ulimit -l unlimited`, or switch swap off";
        if memory::is_swap_on() && !is_allowed {
            return Err(Failure::NotReady(format!(
                "memory_not_locked: keys may be swapped, since {why}; {to_do}, or set memory.allow_unlocked = true"
            )));
        }
        eprintln!("warning: memory_not_locked: {why}; {to_do}");
    }
    Ok(lock)
}

/// Maximum number of open files other than connections: store, audit log and its archive, backups,
/// sockets.
const FILES: u64 = 64;

/// Limits the numbers of remote and local connections to the available file descriptors, raising
/// the soft limit if possible (often 1024 by default). Without free descriptors, the audit log
/// could not be written.
fn room(open: usize, local: usize) -> (usize, usize) {
    let before = getrlimit(Resource::Nofile);
    let wanted =
        u64::try_from(open.saturating_add(local)).unwrap_or(u64::MAX).saturating_add(FILES);
    let may = wanted.min(before.maximum.unwrap_or(u64::MAX));
    if before.current.is_some_and(|current| current < may) {
        // If the limit cannot be raised, the current one applies.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(may), ..before });
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    divided(usize::try_from(now.saturating_sub(FILES)).unwrap_or(usize::MAX), open, local)
}

/// Divides the available descriptors: local connections get at least a quarter, if they need that
/// many.
fn divided(left: usize, open: usize, local: usize) -> (usize, usize) {
    let of_local = local.min((left / 4).max(1)).max(left.saturating_sub(open).min(local));
    (open.min(left.saturating_sub(of_local).max(1)), of_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_divided_so_that_no_kind_goes_without() {
        for (left, divides) in [
            (5000, (1024, 256)),
            (1280, (1024, 256)),
            (960, (720, 240)),
            (100, (75, 25)),
            (4, (3, 1)),
            (0, (1, 1)),
        ] {
            assert_eq!(divided(left, 1024, 256), divides, "{left}");
        }
        assert_eq!(divided(100, 10, 256), (10, 90));
        assert_eq!(divided(100, 1024, 5), (95, 5));
    }
}
