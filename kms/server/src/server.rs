//! A server: its sockets, its threads, and how it ends.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use rustix::process::Signal;
use tokio::runtime::{self, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

use crate::error::Error;
use crate::http::RequestContext;
use crate::http::openapi;
use crate::lifecycle::checkpoint_copies::CheckpointMirror;
use crate::lifecycle::panics::BackgroundThread;
use crate::lifecycle::rotation::Rotation;
use crate::lifecycle::service_host::ServiceHost;
use crate::lifecycle::state::State;
use crate::lifecycle::systemd;
use crate::listen::{self, Listener};
use crate::net::options::{Listen, Options};
use crate::net::tls::Tls;

/// A server that serves, until it is dropped or stopped.
pub struct Server {
    runtime: Option<Runtime>,
    state: Arc<State>,
    addresses: Vec<Listen>,
    pools: Vec<ConnectionPool>,
    drain: Duration,
    end: watch::Sender<bool>,
    /// Tells the audit log that time passes.
    clock: Option<Ticker>,
    /// Looks at the files of TLS.
    tls_clock: Option<Ticker>,
    tls: Option<Arc<Tls>>,
    monotonic_us: Option<fn() -> u64>,
    /// Writes checkpoints to their second place.
    mirror: Option<CheckpointMirror>,
    /// Rotates keys that are due.
    rotation: Option<Rotation>,
}

/// The connections that a kind of listener may have.
struct ConnectionPool {
    most: usize,
    left: Arc<Semaphore>,
}

/// A thread that calls a function each second and at its end, until it is dropped.
struct Ticker {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

/// Threads that compute, wait for disks and for their turn, at most: more than can wait for a turn, so that whoever has nobody
/// before it finds one.
const WORKERS: usize = 256;

/// How often the audit log's checkpoint is made.
const TICK: Duration = Duration::from_secs(1);

/// How long threads that still compute are waited for, after the drain.
const END: Duration = Duration::from_secs(1);

impl Server {
    /// Starts one. It serves when this returns.
    ///
    /// # Errors
    /// An address without TLS, none at all; sockets that can't be had.
    pub fn start(host: Arc<ServiceHost>, options: &Options) -> Result<Self, Error> {
        let needs_tls = options.listen.iter().any(|listen| matches!(listen, Listen::Tls(_)));
        if options.listen.is_empty() || (needs_tls && options.tls.is_none()) {
            let why =
                "a server needs an address, and a certificate for it: it is never an open one";
            return Err(Error::Settings(why.to_owned()));
        }
        check_threads()?;
        let runtime = runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("gabion-kms")
            .max_blocking_threads(WORKERS)
            .build()
            .map_err(Error::system("start threads"))?;
        let shared = RequestContext::new(host, options, openapi::text())?;
        let state = shared.state.clone();
        // Whoever fills those that others reach keeps nobody of this machine out.
        let [open, local] =
            [options.connections_max, options.local_connections_max].map(ConnectionPool::new);
        let (end, ended) = watch::channel(false);
        let mut addresses = Vec::new();
        for listen in &options.listen {
            let _within = runtime.enter();
            let bound = Listener::new(listen, options.tls.clone())?;
            addresses.push(bound.address()?);
            let pool = if bound.is_local() { &local } else { &open };
            let (shared, connections) = (shared.clone(), pool.left.clone());
            runtime.spawn(listen::accept(bound, shared, connections, ended.clone()));
        }
        let (host, last) = (state.host.clone(), state.host.clone());
        let clock = Ticker::start(
            "gabion-kms-clock",
            move || host.maintenance.tick(),
            move || last.maintenance.last_tick(),
        );
        let clock = Some(clock?);
        let tls = options.tls.clone();
        let tls_clock = match tls.clone().filter(|tls| tls.has_files()) {
            None => None,
            Some(tls) => {
                let panics = state.host.maintenance.panics().clone();
                let look = move || _ = panics.catch(BackgroundThread::Tls, || tls.look());
                Some(Ticker::start("gabion-kms-tls", look, || {})?)
            }
        };
        let mirror = start_mirror(&state.host)?;
        let rotation = Some(Rotation::start(state.host.clone())?);
        let (pools, drain) = (vec![open, local], options.drain);
        let runtime = Some(runtime);
        let monotonic_us = options.monotonic_us;
        Ok(Server {
            runtime,
            state,
            addresses,
            pools,
            drain,
            end,
            clock,
            tls_clock,
            tls,
            monotonic_us,
            mirror,
            rotation,
        })
    }

    /// Where it listens, with the ports that it got.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Serves until the process is asked to end (SIGTERM, SIGINT, SIGQUIT), then as [`Self::stop`]. SIGHUP has the files of TLS
    /// read again; without such files it asks to end, unless it was ignored at the start (`nohup`). SIGUSR1, SIGUSR2, SIGALRM and
    /// others that would end the process do nothing. `tell` is called when the process no longer ends otherwise, and says
    /// whether to go on; whoever is at NOTIFY_SOCKET (systemd) is told, too.
    ///
    /// # Errors
    /// The signals can't be had.
    pub fn serve(self, tell: impl FnOnce() -> bool) -> Result<(), Error> {
        if let Some(runtime) = &self.runtime {
            let tell = || {
                systemd::tell("READY=1");
                tell()
            };
            let asked = self.wait_for_end_signal(tell);
            runtime.block_on(asked).map_err(Error::system("wait for signals"))?;
        }
        systemd::tell("STOPPING=1");
        self.stop();
        Ok(())
    }

    /// Takes no new connection, answers the requests that are there, and ends.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        self.state.drain();
        if let Some(rotation) = &self.rotation {
            rotation.stop();
        }
        // Nobody listens where there is no socket any more.
        let _ = self.end.send(true);
        let drained = async {
            for pool in &self.pools {
                pool.empty().await;
            }
        };
        // With what is there still it ends all the same.
        let _ = runtime.block_on(async { tokio::time::timeout(self.drain, drained).await });
        runtime.shutdown_timeout(END);
        self.rotation = None;
        // The last of it was told by now.
        self.clock = None;
        self.tls_clock = None;
        self.mirror = None;
        for address in &self.addresses {
            if let Listen::Unix(path) = address {
                // Whoever took its place since then has made a file of its own there; so be it.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Starts the copying of checkpoints, if the configuration names a second folder for them.
fn start_mirror(host: &Arc<ServiceHost>) -> Result<Option<CheckpointMirror>, Error> {
    let Some(folder) = host.seal.mirror_folder() else { return Ok(None) };
    let failures = host.maintenance.mirror_failures().clone();
    let panics = host.maintenance.panics().clone();
    let seal = host.seal.clone();
    let newest = move || seal.checkpoint();
    CheckpointMirror::start(folder.to_owned(), newest, failures, panics).map(Some)
}

impl ConnectionPool {
    fn new(most: usize) -> Self {
        ConnectionPool { most, left: Arc::new(Semaphore::new(most)) }
    }

    /// Waits until nobody is there.
    async fn empty(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        let _ = self.left.acquire_many(all).await;
    }
}

impl Ticker {
    fn start(
        name: &str,
        tick: impl Fn() + Send + 'static,
        last: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            while stopped.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                tick();
            }
            last();
        };
        let thread = Builder::new().name(name.to_owned()).spawn(run);
        Ok(Ticker { stop, thread: Some(thread.map_err(Error::system("start a thread"))?) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        // One that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Threads of a server beside those that move bytes: the clock, TLS's files, copies of checkpoints, rotation, and one that computes.
const OTHERS: usize = 5;

/// Refuses a system that gives fewer threads than a server needs: tokio panics where it gets none.
fn check_threads() -> Result<(), Error> {
    let many = thread::available_parallelism().map_or(1, usize::from) + OTHERS;
    let gate = Mutex::new(());
    let all_at_once = thread::scope(|scope| {
        let _held = gate.lock();
        let wait = || drop(gate.lock());
        (0..many).try_for_each(|_| Builder::new().spawn_scoped(scope, wait).map(drop))
    });
    let what =
        format!("start {many} threads (RLIMIT_NPROC, or pids.max, which systemd calls TasksMax)");
    all_at_once.map_err(Error::system(what))
}

/// Signals that would end the process and ask for nothing. A store that may not grow (RLIMIT_FSIZE) is full, and no reason to
/// end: somebody is told of it instead of nobody.
const IGNORED: &[Signal] = &[
    Signal::XFSZ,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
    #[cfg(target_os = "linux")]
    Signal::POWER,
    #[cfg(target_os = "linux")]
    Signal::STKFLT,
    Signal::XCPU,
];

impl Server {
    async fn wait_for_end_signal(&self, tell: impl FnOnce() -> bool) -> std::io::Result<()> {
        let of = |one: Signal| signal(SignalKind::from_raw(one.as_raw()));
        let _ignored = IGNORED.iter().map(|one| of(*one)).collect::<Result<Vec<_>, _>>()?;
        let (mut term, mut int) = (of(Signal::TERM)?, of(Signal::INT)?);
        let mut quit = of(Signal::QUIT)?;
        let has_no_files = self.tls.as_ref().is_some_and(|tls| !tls.has_files());
        let mut hup = match has_no_files && is_ignored(Signal::HUP) {
            true => None,
            false => Some(of(Signal::HUP)?),
        };
        if !tell() {
            return Ok(());
        }
        loop {
            let hung_up = async {
                match &mut hup {
                    Some(hup) => hup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = term.recv() => return Ok(()),
                _ = int.recv() => return Ok(()),
                _ = quit.recv() => return Ok(()),
                _ = hung_up => if has_no_files { return Ok(()) } else { self.reload() },
            }
        }
    }

    /// Reads the files of TLS again. Called on the thread that waits for signals, which may wait for a disk.
    fn reload(&self) {
        if let Some(clock) = self.monotonic_us {
            systemd::tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", clock()));
        }
        if let Some(tls) = &self.tls {
            self.state.host.maintenance.panics().catch(BackgroundThread::Tls, || tls.reload());
        }
        if self.monotonic_us.is_some() {
            systemd::tell("READY=1");
        }
    }
}

/// Whether the process was started with a signal ignored, and it still is. Known on Linux only.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set >> (signal.as_raw() - 1) & 1 == 1
}
