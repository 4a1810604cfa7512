//! A server in a separate process, and its figures as read from outside.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gabion_kms_client::{Client, Settings};
use gabion_kms_server::config::Config;
use gabion_kms_server::dev::Dev;
use gabion_kms_server::{SealSetup, ServiceHost};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::fill;
use crate::Error;

/// A server process, killed when dropped.
pub struct ServerProcess {
    child: Child,
    folder: tempfile::TempDir,
    task: Task,
    settings: Settings,
}

/// The configuration of the server process.
#[derive(Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    has_core: bool,
    /// The requests that the server coalesces, as in the configuration.
    coalesce: String,
    /// Keys to make first; they are named by [`fill::name`].
    keys: usize,
    /// The token of an existing store.
    token: Option<String>,
}

/// The address and credentials that the process prints once it serves.
#[derive(Serialize, Deserialize)]
struct ServerInfo {
    address: String,
    token: String,
    ca_file: PathBuf,
}

/// A file that opens the store again; the store ends with the measurement.
const PASSPHRASE: &str = "of a measurement";

/// About how long a disk is idle between two syncs of requests that one client sends, and a client while the disk is not.
pub const PAUSE: Duration = Duration::from_micros(300);

/// The store's file.
const STORE: &str = "store";

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

fn not_ready(error: impl std::fmt::Display) -> Error {
    Error::NotReady(error.to_string())
}

impl ServerProcess {
    /// Starts this program once more, as a server, which makes so many keys first.
    pub fn start(has_core: bool, keys: usize, coalesce: &str) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(not_ready)?;
        let (coalesce, token) = (coalesce.to_owned(), None);
        let task = Task { folder: folder.path().to_owned(), has_core, coalesce, keys, token };
        let nowhere = Settings {
            addresses: Vec::new(),
            token: None,
            authorities: None,
            certificate: None,
            timeout: Duration::from_secs(30),
        };
        // From here on it is ended whatever happens.
        let mut served =
            ServerProcess { child: spawn_server(&task)?, folder, task, settings: nowhere };
        served.hear()?;
        Ok(served)
    }

    /// Ends it. The store stays.
    pub fn end(&mut self) {
        // Killing a process that has ended already is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Restarts the server over the same store.
    pub fn restart(&mut self) -> Result<(), Error> {
        let token = self.settings.token.as_ref().map(|token| token.to_string());
        self.task = Task { keys: 0, token, ..self.task.clone() };
        self.child = spawn_server(&self.task)?;
        self.hear()
    }

    /// Waits until it serves.
    fn hear(&mut self) -> Result<(), Error> {
        let out = self.child.stdout.take();
        let out = out.ok_or_else(|| not_ready("the server has no output"))?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(not_ready)?;
        let said: ServerInfo = serde_json::from_str(&line)
            .map_err(|_| not_ready("the server ended before it served"))?;
        self.settings.addresses = vec![said.address.parse().map_err(not_ready)?];
        self.settings.token = Some(said.token.into());
        self.settings.authorities = Some(said.ca_file);
        Ok(())
    }

    pub fn client(&self) -> Result<Client, Error> {
        Client::new(&self.settings).map_err(not_ready)
    }

    /// Time of processors that it has taken so far.
    pub fn cpu_ns(&self) -> Result<u64, Error> {
        crate::cpu_time::cpu_ns_of(self.child.id()).ok_or_else(|| failed("the server has ended"))
    }

    /// Time that its threads were ready and had no processor, so far.
    pub fn waited_ns(&self) -> Result<u64, Error> {
        let ended = || failed("the server has ended");
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let of_thread = |thread: fs::DirEntry| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        // The file of a thread that has just ended is missing.
        Ok(threads.map_err(|_| ended())?.flatten().filter_map(of_thread).sum())
    }

    /// KiB of memory that it has.
    pub fn resident_kib(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    }

    /// Writes as many bytes as a use's record has into a file in the log's folder, whose bytes were
    /// written before, and syncs it, `times` times. It runs on the server's core, since a disk's
    /// interrupts go to one of them, and with one client it pauses in between as long as the client
    /// does between the syncs of its requests.
    pub fn sync_again_and_again(&self, times: usize, ns: &mut Vec<u64>) -> Result<(), Error> {
        use std::os::unix::fs::FileExt;
        const RECORD: usize = 640;
        let _pinned = pin_to_core(0, self.task.has_core);
        let path = self.folder.path().join("probe");
        let mut file = fs::OpenOptions::new();
        let file = file.create(true).truncate(false).read(true).write(true).open(path);
        let file = file.map_err(not_ready)?;
        if file.metadata().map_err(not_ready)?.len() == 0 {
            (&file).write_all(&vec![0; RECORD * times]).map_err(not_ready)?;
            file.sync_all().map_err(not_ready)?;
        }
        for place in 0..times {
            if self.task.has_core {
                std::thread::sleep(PAUSE);
            }
            let start = Instant::now();
            file.write_all_at(&[1; RECORD], (place * RECORD) as u64).map_err(not_ready)?;
            file.sync_data().map_err(not_ready)?;
            ns.push(start.elapsed().as_nanos() as u64);
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts this program as a server.
fn spawn_server(task: &Task) -> Result<Child, Error> {
    let text = serde_json::to_string(task).map_err(failed)?;
    let program = std::env::current_exe().map_err(not_ready)?;
    let mut command = Command::new(program);
    command.args(["kms", "--task", &text]);
    // It is killed at the end; its temporary files go with the folder.
    command.env("TMPDIR", &task.folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(not_ready)
}

/// Serves the `task` that [`measure`](super::measure) wrote, until it is killed. `say` receives a
/// line once it serves.
///
/// # Errors
/// `Usage` if the task is malformed; `NotReady` if the server does not start.
pub fn serve(task: &str, say: impl FnOnce(&str)) -> Result<(), Error> {
    let task: Task = serde_json::from_str(task)
        .map_err(|cause| Error::Usage(format!("that is no task of `bench kms`: {cause}")))?;
    // If the measuring process is killed, this one has to end too.
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(not_ready)?;
    let _pinned = pin_to_core(0, task.has_core);
    let config = configuration(&task.folder)?;
    let token = match task.token {
        Some(token) => token.into(),
        None => {
            let passphrase = Some(PASSPHRASE);
            let initial = SealSetup {
                shares: 1,
                threshold: 1,
                passphrase,
                certificate: None,
                lifetime_s: None,
                holders: &[],
            };
            private(&passphrase_file(&task.folder), PASSPHRASE).map_err(not_ready)?;
            let hand_out = |_| Ok::<_, gabion_kms_server::Error>(());
            let token = ServiceHost::init(&config, &initial, hand_out).map_err(not_ready)?;
            fill::keys(&task.folder.join(STORE), PASSPHRASE, task.keys)?;
            token
        }
    };
    let host = ServiceHost::open(&config).map_err(not_ready)?;
    let coalesce = task.coalesce.parse().map_err(failed)?;
    let server = Dev::over(([127, 0, 0, 1], 0).into(), host, token, coalesce);
    let server = server.map_err(not_ready)?;
    let said = ServerInfo {
        address: server.address().to_owned(),
        token: server.token().to_owned(),
        ca_file: server.authorities().to_owned(),
    };
    let line = serde_json::to_string(&said).map_err(failed)?;
    let tell = || {
        say(&line);
        true
    };
    server.serve(tell).map_err(not_ready)
}

fn passphrase_file(folder: &Path) -> PathBuf {
    folder.join("passphrase")
}

/// Returns the configuration of a server whose files are in `folder`.
fn configuration(folder: &Path) -> Result<Config, Error> {
    let at = |name: &str| format!("{:?}", folder.join(name));
    let passphrase = passphrase_file(folder);
    let text = format!(
        "listen = [\"unix:/none\"]\n[store]\npath = {}\n[audit]\nfolder = {}\n\
         [seal]\npassphrase_file = {passphrase:?}\n[tokens]\nadministration_needs_certificate = false\n",
        at(STORE),
        at("audit"),
    );
    text.parse().map_err(failed)
}

/// A file that its owner alone may read.
fn private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// Keeps this thread, and threads that it starts, on one core until dropped.
pub struct CorePin(Option<CpuSet>);

/// Pins this thread to a core if `is_wanted` and there are several.
pub fn pin_to_core(core: usize, is_wanted: bool) -> CorePin {
    let all = sched_getaffinity(None).ok().filter(|all| is_wanted && all.count() > 1);
    let mut one = CpuSet::new();
    let cores = 0..CpuSet::MAX_CPU;
    let wanted = all.and_then(|all| cores.filter(|at| all.is_set(*at)).nth(core));
    if let Some(wanted) = wanted {
        one.set(wanted);
        if sched_setaffinity(None, &one).is_ok() {
            return CorePin(all);
        }
    }
    CorePin(None)
}

impl Drop for CorePin {
    fn drop(&mut self) {
        if let Some(all) = &self.0 {
            let _ = sched_setaffinity(None, all);
        }
    }
}
