//! A server: its sockets, its threads, and how it ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

use crate::error::Error;
use crate::keeper::Keeper;
use crate::listen::{self, Bound};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TLS 1.3 at an address. Port 0: any that is free.
    Tls(SocketAddr),
    /// A socket of this machine, which its owner alone may use.
    Unix(PathBuf),
}

/// How a server is set up.
#[derive(Clone)]
pub struct Options {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Its certificate; [`Listen::Tls`] needs it.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Most bytes of a request's body.
    pub body_max: usize,
    /// Most connections at a time. More of them wait.
    pub connections_max: usize,
    /// How long requests may take that are there when it ends.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: Vec::new(),
            tls: None,
            body_max: 1 << 20,
            connections_max: 1024,
            drain: Duration::from_secs(8),
        }
    }
}

/// A server that serves, until it is dropped or stopped.
pub struct Server {
    runtime: Option<Runtime>,
    state: Arc<State>,
    addresses: Vec<Listen>,
    connections: Arc<Semaphore>,
    connections_max: usize,
    drain: Duration,
    end: watch::Sender<bool>,
}

/// What requests share.
pub struct State {
    pub keeper: Arc<Keeper>,
    pub body_max: usize,
    is_draining: AtomicBool,
    /// What ids of requests begin with, so that two runs of a server have none in common.
    run: u32,
    requests: AtomicU64,
    /// Answers by the first digit of their status, from 1.
    answers: [AtomicU64; 5],
}

/// Threads that compute and wait for disks, at most.
const WORKERS: usize = 64;

/// How long threads that still compute are waited for, after the drain.
const END: Duration = Duration::from_secs(1);

impl Server {
    /// Starts one. It serves when this returns.
    ///
    /// # Errors
    /// An address without TLS, none at all; sockets that can't be had.
    pub fn start(keeper: Arc<Keeper>, options: &Options) -> Result<Self, Error> {
        let needs_tls = options.listen.iter().any(|listen| matches!(listen, Listen::Tls(_)));
        if options.listen.is_empty() || (needs_tls && options.tls.is_none()) {
            let why =
                "a server needs an address, and a certificate for it: it is never an open one";
            return Err(Error::Settings(why.to_owned()));
        }
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .thread_name("gabion-kms")
            .max_blocking_threads(WORKERS)
            .build()
            .map_err(Error::system("start threads"))?;
        let state = Arc::new(State::new(keeper, options.body_max)?);
        let connections = Arc::new(Semaphore::new(options.connections_max));
        let (end, ended) = watch::channel(false);
        let mut addresses = Vec::new();
        for listen in &options.listen {
            let _within = runtime.enter();
            let bound = Bound::new(listen, options.tls.clone())?;
            addresses.push(bound.address()?);
            let (state, connections) = (state.clone(), connections.clone());
            runtime.spawn(listen::accept(bound, state, connections, ended.clone()));
        }
        let (connections_max, drain) = (options.connections_max, options.drain);
        let runtime = Some(runtime);
        Ok(Server { runtime, state, addresses, connections, connections_max, drain, end })
    }

    /// Where it listens, with the ports that it got.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Serves until the process is asked to end (SIGTERM, SIGINT), then as [`Self::stop`]. `tell` is called when the
    /// process no longer ends otherwise.
    ///
    /// # Errors
    /// The signals can't be had.
    pub fn serve(self, tell: impl FnOnce()) -> Result<(), Error> {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(asked_to_end(tell)).map_err(Error::system("wait for signals"))?;
        }
        self.stop();
        Ok(())
    }

    /// Takes no new connection, answers the requests that are there, and ends.
    pub fn stop(mut self) {
        self.ended();
    }

    fn ended(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        self.state.is_draining.store(true, Ordering::Release);
        // Nobody listens where there is no socket any more.
        let _ = self.end.send(true);
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let drained = async {
            tokio::time::timeout(self.drain, self.connections.acquire_many(all)).await.is_ok()
        };
        runtime.block_on(drained);
        runtime.shutdown_timeout(END);
        for address in &self.addresses {
            if let Listen::Unix(path) = address {
                // Whoever took its place since then has made a file of its own there; so be it.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended();
    }
}

impl State {
    fn new(keeper: Arc<Keeper>, body_max: usize) -> Result<Self, Error> {
        let mut run = [0; 4];
        getrandom::fill(&mut run).map_err(|error| Error::Settings(error.to_string()))?;
        Ok(State {
            keeper,
            body_max,
            is_draining: AtomicBool::new(false),
            run: u32::from_le_bytes(run),
            requests: AtomicU64::new(0),
            answers: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// A name for a request that no other one has.
    pub fn request_id(&self) -> String {
        format!("{:08x}-{:x}", self.run, self.requests.fetch_add(1, Ordering::Relaxed))
    }

    pub fn count(&self, status: u16) {
        let place = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Why it serves no requests.
    pub fn reasons(&self) -> Vec<&'static str> {
        let sealed = self.keeper.verbs().err().map(|problem| problem.code);
        let draining = self.is_draining.load(Ordering::Acquire).then_some("draining");
        sealed.into_iter().chain(draining).collect()
    }

    /// What the server counted, in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let mut text = "# TYPE kms_http_answers_total counter\n".to_owned();
        for (place, count) in self.answers.iter().enumerate() {
            let (class, count) = (place + 1, count.load(Ordering::Relaxed));
            text.push_str(&format!("kms_http_answers_total{{status=\"{class}xx\"}} {count}\n"));
        }
        text
    }
}

async fn asked_to_end(tell: impl FnOnce()) -> std::io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tell();
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}
