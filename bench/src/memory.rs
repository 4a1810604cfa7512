//! The memory of a TLS connection: heap and stack of each side, in a separate process.
//!
//! ```text
//!  parent, the peer <──socket──> child, the side that is measured
//!                                   heap: a preloaded library counts malloc and its relatives
//!                                   stack: painted before, looked at afterwards
//! ```
//!
//! A child makes two connections in one thread: the first sets up what OpenSSL sets up once, the
//! second is the `connection` that is reported, from `SSL_new` to `SSL_free` with a full handshake
//! and one message each way. `process` is everything from before libcrypto is loaded.

mod child;
mod rows;
mod stack;
mod table;

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use child::run_child;
pub use gabion_rows::connections::{Memory as Row, Side, Usage};
pub use table::render;

use crate::Error;
use crate::machine::Machine;
use crate::ossl::{self, Certificate, Context, Endpoint, Key, Ossl};
use crate::outcome::{self, Outcome};
use crate::pairs;
use crate::tls::{self, Credentials, Provider};
use crate::wire::{self, Mode, Table};
use rows::RowPlan;

/// The library that counts, as build.rs compiled it.
const PROBE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/heap-probe.so"));
/// Longest time that a child may take to connect.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The options of a measurement.
#[derive(Debug, Clone)]
pub struct Config {
    /// The prefix of the OpenSSL installation.
    pub prefix: PathBuf,
    /// Folder of provider modules; `None` means `lib/ossl-modules` of the prefix.
    pub modules: Option<PathBuf>,
    /// The providers, one row each.
    pub providers: Vec<Provider>,
    /// The rows to measure.
    pub table: Table,
    /// A program and its first arguments that, with one more argument, passes that argument to
    /// [`run_child`] and prints the result.
    pub child: Vec<String>,
}

/// The side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Accepts connections and has a certificate.
    Server,
    /// Connects and verifies.
    Client,
}

/// The task of a child, passed as one JSON object in its last argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    prefix: PathBuf,
    modules: Option<PathBuf>,
    provider: Provider,
    /// Whether TLS signature schemes without a settled codepoint are wanted.
    drafts: bool,
    group: String,
    role: Role,
    /// Folder of `root.der`, `leaf.der` and `leaf.key`.
    credentials: PathBuf,
    /// The port on which the parent listens.
    port: u16,
}

/// The answer of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    connection: Usage,
    process: Usage,
}

/// Measures every row of the tables asked for, in their order, for each provider.
///
/// # Errors
/// `NotReady` when OpenSSL or a provider does not load or a child does not start, `Failed` when
/// a connection fails that should not.
pub fn measure(config: &Config) -> Result<Vec<Row>, Error> {
    let prefix = std::fs::canonicalize(&config.prefix).unwrap_or_else(|_| config.prefix.clone());
    let ossl = Ossl::load(&prefix)?;
    let folder = tempfile::Builder::new()
        .prefix("gabion-memory-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .and_then(|folder| {
            std::fs::write(folder.path().join("heap-probe.so"), PROBE)?;
            Ok(folder)
        })
        .map_err(|cause| Error::NotReady(format!("no place for temporary files: {cause}")))?;
    let machine = Machine::detect();
    let mut rows = Vec::new();
    for wanted in rows::planned(config.table) {
        for provider in &config.providers {
            let drafts = wanted.signature.is_some_and(pairs::is_draft_in_tls);
            let context = tls::context_for(*provider, ossl, config.modules.as_deref(), drafts)?;
            let bench = Bench { config, prefix: &prefix, folder: folder.path(), context, drafts };
            let (status, note, sides) = outcome::fields(bench.row(&wanted, *provider)?);
            let [server, client] = sides.map_or([None, None], |sides| sides.map(Some));
            rows.push(Row {
                table: wanted.table,
                cipher: wire::CIPHER.to_owned(),
                old_authentication: wanted.old.map(|old| old.authentication.to_owned()),
                old_key_exchange: wanted.old.map(|old| old.key_exchange.to_owned()),
                authentication: wanted.signature.map(str::to_owned),
                key_exchange: wanted.group.map(str::to_owned),
                mode: Mode::Server,
                chain: 1,
                status,
                note: note.or_else(|| wanted.note.map(str::to_owned)),
                server,
                client,
                provider: *provider,
                openssl: ossl.version().to_owned(),
                machine: machine.clone(),
            });
        }
    }
    Ok(rows)
}

/// The data that all children of one provider share.
struct Bench<'a> {
    config: &'a Config,
    prefix: &'a Path,
    folder: &'a Path,
    context: Context,
    drafts: bool,
}

impl Bench<'_> {
    /// Server and client of a row.
    fn row(&self, wanted: &RowPlan, provider: Provider) -> Result<Outcome<[Side; 2]>, Error> {
        let (Some(group), Some(signature)) = (wanted.group, wanted.signature) else {
            return Ok(outcome::no_successor());
        };
        let peers = self.peers(group, signature);
        let peers = match outcome::unless_missing(peers, group, signature)? {
            Ok(peers) => peers,
            Err(missing) => return Ok(Err(missing)),
        };
        let side = |role: Role, old: Option<Usage>| -> Result<Side, Error> {
            let answer = self.side(group, provider, role, &peers)?;
            Ok(Side { old, connection: answer.connection, process: answer.process })
        };
        let server = side(Role::Server, wanted.old.map(|old| old.server))?;
        let client = side(Role::Client, wanted.old.map(|old| old.client))?;
        Ok(Ok([server, client]))
    }

    /// Makes both ends for the parent, server first; the credentials are written to files.
    fn peers(&self, group: &str, signature: &str) -> Result<[Endpoint; 2], ossl::Error> {
        let context = &self.context;
        let signature = pairs::signature(signature)
            .ok_or_else(|| ossl::Error::Call(format!("no signature is called {signature}")))?;
        let made = Credentials::make_in(context, signature)?;
        for (name, der) in
            [("root.der", &made.root), ("leaf.der", &made.leaf), ("leaf.key", &made.leaf_key)]
        {
            std::fs::write(self.folder.join(name), der)
                .map_err(|cause| ossl::Error::NotReady(format!("writing {name}: {cause}")))?;
        }
        let key = Key::from_der(context, &made.leaf_key)?;
        let leaf = Certificate::from_der(context, &made.leaf)?;
        let root = Certificate::from_der(context, &made.root)?;
        Ok([
            Endpoint::server(context, group, Some(wire::CIPHER), &key, &leaf)?,
            Endpoint::client(context, group, Some(wire::CIPHER), &root)?,
        ])
    }

    /// Runs a child as one side and plays the other.
    fn side(
        &self,
        group: &str,
        provider: Provider,
        role: Role,
        [server, client]: &[Endpoint; 2],
    ) -> Result<Answer, Error> {
        let broken = |cause: std::io::Error| Error::Failed(format!("a socket failed: {cause}"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(broken)?;
        let task = Task {
            prefix: self.prefix.to_path_buf(),
            modules: self.config.modules.clone(),
            provider,
            drafts: self.drafts,
            group: group.to_owned(),
            role,
            credentials: self.folder.to_path_buf(),
            port: listener.local_addr().map_err(broken)?.port(),
        };
        let mut running = ChildProcess::start(self.config, self.folder, &task)?;
        for _ in 0..child::CONNECTIONS {
            let socket = running.accept(&listener)?;
            let spoken = match role {
                Role::Server => wire::ask(client, &socket),
                Role::Client => wire::serve(server, &socket),
            };
            if let Err(error) = spoken {
                // The child knows more, when it fails too.
                return Err(running.finish().err().unwrap_or_else(|| error.into()));
            }
        }
        running.finish()
    }
}

/// A child process, killed when dropped.
struct ChildProcess(Child);

impl ChildProcess {
    fn start(config: &Config, folder: &Path, task: &Task) -> Result<ChildProcess, Error> {
        let not_started = |text: String| Error::NotReady(format!("a child of {text}"));
        let Some((program, arguments)) = config.child.split_first() else {
            return Err(not_started("no program cannot start".to_owned()));
        };
        let task = serde_json::to_string(task)
            .map_err(|cause| not_started(format!("{program} cannot be told its task: {cause}")))?;
        Command::new(program)
            .args(arguments)
            .arg(task)
            .env("LD_PRELOAD", folder.join("heap-probe.so"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(ChildProcess)
            .map_err(|cause| not_started(format!("{program} did not start: {cause}")))
    }

    /// The child's next connection.
    fn accept(&mut self, listener: &TcpListener) -> Result<TcpStream, Error> {
        let broken = |cause: std::io::Error| Error::Failed(format!("a socket failed: {cause}"));
        listener.set_nonblocking(true).map_err(broken)?;
        let start = Instant::now();
        loop {
            match listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(false).map_err(broken)?;
                    return Ok(socket);
                }
                Err(cause) if cause.kind() != std::io::ErrorKind::WouldBlock => {
                    return Err(broken(cause));
                }
                Err(_) => {}
            }
            let ended = self.0.try_wait().map_err(broken)?.is_some();
            if ended || start.elapsed() > TIMEOUT {
                let silent = || Error::Failed("a child did not connect".into());
                return Err(self.answer().err().unwrap_or_else(silent));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end, and reads the child's answer.
    fn finish(mut self) -> Result<Answer, Error> {
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer, Error> {
        let mut said = [String::new(), String::new()];
        // A child's output fits into a pipe; a child that hangs still has to be killed.
        let start = Instant::now();
        while self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            if start.elapsed() > TIMEOUT {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(out) = &mut self.0.stdout {
            let _ = out.read_to_string(&mut said[0]);
        }
        if let Some(err) = &mut self.0.stderr {
            let _ = err.read_to_string(&mut said[1]);
        }
        serde_json::from_str(said[0].trim()).map_err(|_| {
            let why = said[1].trim();
            Error::Failed(format!("a measured process failed: {why}"))
        })
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // It has ended, or has to.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
