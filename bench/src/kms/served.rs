//! A server in a process of its own, and what is read of it from outside.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gabion_kms_client::{Client, Settings};
use gabion_kms_server::config::Config;
use gabion_kms_server::dev::Dev;
use gabion_kms_server::{Initial, Keeper};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A server, which ends with this.
pub struct Served {
    child: Child,
    folder: tempfile::TempDir,
    settings: Settings,
}

/// What the process is told to serve.
#[derive(Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    is_durable: bool,
    has_core: bool,
}

/// What it says once it serves.
#[derive(Serialize, Deserialize)]
struct Said {
    address: String,
    token: String,
    ca_file: PathBuf,
}

/// A file that opens the store again; the store ends with the measurement.
const PASSPHRASE: &str = "of a measurement";

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

fn not_ready(error: impl std::fmt::Display) -> Error {
    Error::NotReady(error.to_string())
}

impl Served {
    /// Starts this program once more, as a server.
    pub fn start(is_durable: bool, has_core: bool) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(not_ready)?;
        let task = Task { folder: folder.path().to_owned(), is_durable, has_core };
        let task = serde_json::to_string(&task).map_err(failed)?;
        let program = std::env::current_exe().map_err(not_ready)?;
        let child = Command::new(program)
            .args(["bench", "kms", "--task", &task])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(not_ready)?;
        // From here on it is ended whatever happens.
        let nowhere = Settings {
            addresses: Vec::new(),
            token: None,
            authorities: None,
            certificate: None,
            patience: Duration::from_secs(30),
        };
        let mut served = Served { child, folder, settings: nowhere };
        let out =
            served.child.stdout.take().ok_or_else(|| not_ready("the server has no output"))?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(not_ready)?;
        let said: Said = serde_json::from_str(&line)
            .map_err(|_| not_ready("the server ended before it served"))?;
        served.settings.addresses = vec![said.address.parse().map_err(not_ready)?];
        served.settings.token = Some(said.token.into());
        served.settings.authorities = Some(said.ca_file);
        Ok(served)
    }

    pub fn client(&self) -> Result<Client, Error> {
        Client::new(&self.settings).map_err(not_ready)
    }

    /// Time of processors that it has taken so far.
    pub fn cpu_ns(&self) -> Result<u64, Error> {
        crate::machine::cpu_ns_of(self.child.id()).ok_or_else(|| failed("the server has ended"))
    }

    /// Writes as many bytes as a use's record has into a file beside its log, whose bytes were written before, and has them
    /// synced, so many times.
    pub fn sync_again_and_again(&self, times: usize, ns: &mut Vec<u64>) -> Result<(), Error> {
        use std::os::unix::fs::FileExt;
        const RECORD: usize = 640;
        let path = self.folder.path().join("probe");
        let mut file = fs::OpenOptions::new();
        let file = file.create(true).truncate(false).read(true).write(true).open(path);
        let file = file.map_err(not_ready)?;
        if file.metadata().map_err(not_ready)?.len() == 0 {
            (&file).write_all(&vec![0; RECORD * times]).map_err(not_ready)?;
            file.sync_all().map_err(not_ready)?;
        }
        for place in 0..times {
            let start = Instant::now();
            file.write_all_at(&[1; RECORD], (place * RECORD) as u64).map_err(not_ready)?;
            file.sync_data().map_err(not_ready)?;
            ns.push(start.elapsed().as_nanos() as u64);
        }
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves what `task` says, which [`measure`](super::measure) wrote, until it is killed. `say` gets a line once it serves.
///
/// # Errors
/// `Usage` when the task is none; `NotReady` where there is no server.
pub fn serve(task: &str, say: impl FnOnce(&str)) -> Result<(), Error> {
    let task: Task = serde_json::from_str(task)
        .map_err(|cause| Error::Usage(format!("that is no task of `bench kms`: {cause}")))?;
    // Whoever measures may be killed, and nobody else would end this.
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(not_ready)?;
    let _pinned = on_core(0, task.has_core);
    let config = configured(&task.folder, task.is_durable)?;
    let initial =
        Initial { shares: 1, threshold: 1, passphrase: Some(PASSPHRASE), certificate: None };
    let token = Keeper::init(&config, &initial, |_| Ok::<_, gabion_kms_server::Error>(()));
    let keeper = Keeper::open(&config).map_err(not_ready)?;
    let server = Dev::over(([127, 0, 0, 1], 0).into(), keeper, token.map_err(not_ready)?);
    let server = server.map_err(not_ready)?;
    let said = Said {
        address: server.address().to_owned(),
        token: server.token().to_owned(),
        ca_file: server.authorities().to_owned(),
    };
    let line = serde_json::to_string(&said).map_err(failed)?;
    server.serve(|| say(&line)).map_err(not_ready)
}

fn configured(folder: &Path, is_durable: bool) -> Result<Config, Error> {
    let at = |name: &str| format!("{:?}", folder.join(name));
    let passphrase = folder.join("passphrase");
    private(&passphrase, PASSPHRASE).map_err(not_ready)?;
    let text = format!(
        "listen = [\"unix:/none\"]\n[store]\npath = {}\n[audit]\nfolder = {}\ndurable = {is_durable}\n\
         [seal]\npassphrase_file = {passphrase:?}\n[tokens]\nadministration_needs_certificate = false\n",
        at("store"),
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

/// That this thread, and those that it starts, run on one core only. It ends with this.
pub struct OnCore(Option<CpuSet>);

/// Goes to a core, where that is wanted and there are several.
pub fn on_core(core: usize, is_wanted: bool) -> OnCore {
    let all = sched_getaffinity(None).ok().filter(|all| is_wanted && all.count() > 1);
    let mut one = CpuSet::new();
    let cores = 0..CpuSet::MAX_CPU;
    let wanted = all.and_then(|all| cores.filter(|at| all.is_set(*at)).nth(core));
    if let Some(wanted) = wanted {
        one.set(wanted);
        if sched_setaffinity(None, &one).is_ok() {
            return OnCore(all);
        }
    }
    OnCore(None)
}

impl Drop for OnCore {
    fn drop(&mut self) {
        if let Some(all) = &self.0 {
            let _ = sched_setaffinity(None, all);
        }
    }
}
