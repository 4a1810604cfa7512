//! `gabion kms serve`: the service, by a configuration.

use std::path::PathBuf;

use gabion_kms_server::config::Config;
use gabion_kms_server::memory::{self, Lock};
use gabion_kms_server::{Keeper, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;
use crate::ffi;

/// Serve the keys of a store
///
/// Example:
///   gabion kms serve --config kms.toml
///
/// `gabion kms init` makes the store. Waits sealed for `gabion kms unseal`, unless the configuration names a file with the
/// passphrase. SIGTERM ends it within 10 seconds, after what it was asked is answered. docs/kms.md has every key.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    // Or whoever hangs up early ends it.
    ffi::go_on_when_the_reader_is_gone();
    let config = Config::read(&args.config)?;
    let mut options = config.options()?;
    let room = room(options.connections_max);
    if room < options.connections_max {
        eprintln!(
            "warning: this process may open too few files for {} connections (limits.connections); it takes {room}, and more wait",
            options.connections_max
        );
        options.connections_max = room;
    }
    let lock = guarded(config.memory.allow_unlocked)?;
    let keeper = Keeper::open(&config)?.with_memory(&lock, config.memory.allow_unlocked);
    let server = Server::start(keeper.into(), &options)?;
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    server.serve(|| eprintln!("serving at {}", addresses.join(", ")))?;
    Ok(0)
}

/// Keeps the process out of core dumps, and locks its memory before a key is in it.
fn guarded(is_allowed: bool) -> Result<Lock, Failure> {
    if !memory::no_dumps() {
        eprintln!("warning: core dumps of this process can't be switched off");
    }
    let lock = memory::lock_process();
    if let Lock::Not(why) = &lock {
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

/// Files beside those of connections, at most: the store's, the log's and its archive's, a backup's, sockets.
const FILES: u64 = 64;

/// For how many of so many connections there is room: each is a file, of which a process may have 1024 where nobody says more. Where
/// there are none left, the log can't be written.
fn room(connections: usize) -> usize {
    let before = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(FILES);
    let may = wanted.min(before.maximum.unwrap_or(u64::MAX));
    if before.current.is_some_and(|current| current < may) {
        // Where it can't be raised, it stays what it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(may), ..before });
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = usize::try_from(now.saturating_sub(FILES)).unwrap_or(usize::MAX);
    connections.min(left.max(1))
}
