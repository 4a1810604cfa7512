//! The server: its sockets, its threads, and its shutdown.

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

/// A running server, until it is dropped or stopped.
pub struct Server {
    runtime: Option<Runtime>,
    state: Arc<State>,
    addresses: Vec<Listen>,
    pools: Vec<ConnectionPool>,
    drain: Duration,
    end: watch::Sender<bool>,
    /// Calls the service's periodic tasks.
    clock: Option<Ticker>,
    /// Checks the TLS files for changes.
    tls_clock: Option<Ticker>,
    tls: Option<Arc<Tls>>,
    monotonic_us: Option<fn() -> u64>,
    /// Copies checkpoints to the second folder.
    mirror: Option<CheckpointMirror>,
    /// Rotates keys that are due.
    rotation: Option<Rotation>,
}

/// The connection permits of a kind of listener.
struct ConnectionPool {
    most: usize,
    left: Arc<Semaphore>,
}

/// A thread that calls a function each second and once at its end, until it is dropped.
struct Ticker {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

/// The maximum number of threads that compute, wait for disks or wait for a slot: more than can
/// wait for a slot, so that a tenant without waiting requests always gets one.
const WORKERS: usize = 256;

/// The interval of the audit log's checkpoints.
const TICK: Duration = Duration::from_secs(1);

/// How long to wait after the drain for threads that still compute.
const END: Duration = Duration::from_secs(1);

impl Server {
    /// Starts a server. It serves when this returns.
    ///
    /// # Errors
    /// A network address without TLS; no address; sockets that cannot be opened.
    pub fn start(host: Arc<ServiceHost>, options: &Options) -> Result<Self, Error> {
        let needs_tls = options.listen.iter().any(|listen| matches!(listen, Listen::Tls(_)));
        if options.listen.is_empty() || (needs_tls && options.tls.is_none()) {
            let why = "a server needs an address, and a certificate for network addresses";
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
        // Network connections that use up their limit do not keep local ones out.
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

    /// Returns the addresses, with the actual ports.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Serves until the process gets SIGTERM, SIGINT or SIGQUIT, then shuts down like
    /// [`Self::stop`]. SIGHUP reloads the TLS files; without such files it shuts down, unless it
    /// was ignored at the start (`nohup`). SIGUSR1, SIGUSR2, SIGALRM and other signals that would
    /// end the process are ignored. `tell` is called when the signal handlers are installed, and
    /// returns whether to go on. The process at NOTIFY_SOCKET (systemd) is notified, too.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
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

    /// Stops accepting connections, answers current requests, and ends.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        self.state.drain();
        if let Some(rotation) = &self.rotation {
            rotation.stop();
        }
        // After this all listening sockets are closed.
        let _ = self.end.send(true);
        let drained = async {
            for pool in &self.pools {
                pool.empty().await;
            }
        };
        // After the drain time the server ends even with running requests.
        let _ = runtime.block_on(async { tokio::time::timeout(self.drain, drained).await });
        runtime.shutdown_timeout(END);
        self.rotation = None;
        // The last periodic run was made by now.
        self.clock = None;
        self.tls_clock = None;
        self.mirror = None;
        for address in &self.addresses {
            if let Listen::Unix(path) = address {
                // If another server has replaced the socket file since then, its file is removed,
                // which is accepted.
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

    /// Waits until there are no connections.
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
        // A panicked thread has reported that.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// The number of threads of a server other than those that move bytes: periodic tasks, TLS files,
/// copies of checkpoints, rotation, and one blocking thread.
const OTHERS: usize = 5;

/// Fails if the system cannot create as many threads as a server needs: tokio panics in that case.
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

/// Signals that would end the process without reason. For example, SIGXFSZ only means that the
/// store may not grow (RLIMIT_FSIZE): writing then fails with an error that is reported.
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

    /// Reloads the TLS files. Called on the thread that waits for signals, which may block.
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

/// Returns whether the process was started with a signal ignored, and it still is. Always false on
/// systems other than Linux.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set >> (signal.as_raw() - 1) & 1 == 1
}
