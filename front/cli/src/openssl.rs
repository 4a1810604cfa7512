//! Runs the bundle's `openssl` command, with a time limit and guaranteed cleanup.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use gabion_provider_stats::{self as stats, STATS_VARIABLE, Snapshot};
use gabion_ship::environment::{FipsMode, Settings};

use crate::ffi;

/// Time limit of one command: a hundred times the slowest of ours.
const LIMIT: Duration = Duration::from_secs(30);
/// The beginning of the error message if no temporary folder can be created.
pub const NO_PLACE: &str = "cannot make a temporary folder";
/// Polling interval of a running command.
const POLL: Duration = Duration::from_millis(2);

/// The bundle with Gabion's provider preferred, and a folder for the files that commands write.
pub struct Openssl<'a> {
    settings: &'a Settings,
    folder: tempfile::TempDir,
}

/// The output of a finished command.
struct CommandOutput {
    /// Whether it exited with status 0.
    ok: bool,
    /// Its standard output.
    out: String,
    /// Its standard error.
    err: String,
}

impl<'a> Openssl<'a> {
    /// Creates a temporary folder, which is removed on drop.
    ///
    /// # Errors
    /// A sentence, if no temporary folder can be created.
    pub fn new(settings: &'a Settings) -> Result<Openssl<'a>, String> {
        let folder = tempfile::Builder::new()
            .prefix("gabion-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|cause| format!("{NO_PLACE}: {cause}"))?;
        remove_when_interrupted(folder.path());
        Ok(Openssl { settings, folder })
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command that runs in the folder, prefers Gabion's provider and writes its counters
    /// to the file `stats`.
    fn command(&self, arguments: &[&str], stats: Option<&str>) -> Command {
        let mut command = Command::new(self.settings.layout.openssl());
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.envs(self.settings.variables(FipsMode::Off));
        match stats {
            Some(name) => command.env(STATS_VARIABLE, self.file(name)),
            None => command.env_remove(STATS_VARIABLE),
        };
        command
    }

    /// Runs a command to completion.
    ///
    /// # Errors
    /// A sentence, if it does not start, fails, or takes longer than 30 seconds.
    pub fn run(&self, arguments: &[&str], stats: Option<&str>) -> Result<String, String> {
        let finished = self.finish(self.command(arguments, stats), LIMIT)?;
        if finished.ok {
            return Ok(finished.out);
        }
        Err(format!("openssl {} failed: {}", arguments.join(" "), last_words(&finished.err)))
    }

    /// Runs a command without Gabion's provider, so that OpenSSL's own code is used.
    ///
    /// # Errors
    /// Fails like [`Self::run`], with another time limit.
    pub fn run_stock(&self, arguments: &[&str], limit: Duration) -> Result<String, String> {
        let mut command = self.command(arguments, None);
        // The bundle's own openssl.cnf, which does not load Gabion.
        command.env_remove("OPENSSL_CONF");
        let finished = self.finish(command, limit)?;
        if finished.ok {
            return Ok(finished.out);
        }
        Err(format!("openssl {} failed: {}", arguments.join(" "), last_words(&finished.err)))
    }

    fn finish(&self, command: Command, limit: Duration) -> Result<CommandOutput, String> {
        let mut running = RunningCommand::start(command, &self.file("command"))?;
        let ok = running.wait(limit)?.success();
        Ok(CommandOutput { ok, out: running.out(), err: running.err() })
    }

    /// Starts a command and leaves it running.
    ///
    /// # Errors
    /// A sentence, if it does not start.
    pub fn start(&self, arguments: &[&str], stats: &str) -> Result<RunningCommand, String> {
        RunningCommand::start(self.command(arguments, Some(stats)), &self.file("server"))
    }

    /// Reads the counters in the file `name`. They are zero if no command loaded Gabion's provider.
    ///
    /// # Errors
    /// A sentence, if the file is damaged.
    pub fn counters(&self, name: &str) -> Result<Snapshot, String> {
        let file = self.file(name);
        if !file.exists() {
            return Ok(Snapshot::default());
        }
        stats::read(&file).map_err(|cause| cause.to_string())
    }
}

/// Set when the user interrupts the process: from then on nothing is started, and no failure is
/// reported.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Blocks after an interrupt, because failures from then on are caused by it.
fn hold_if_interrupted() {
    while INTERRUPTED.load(Ordering::Acquire) {
        std::thread::park_timeout(POLL);
    }
}

impl Drop for Openssl<'_> {
    fn drop(&mut self) {
        hold_if_interrupted();
    }
}

/// Removes the folder, which contains keys, when the user interrupts the process.
fn remove_when_interrupted(folder: &Path) {
    static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    static HANDLER: Once = Once::new();
    if let Ok(mut folders) = FOLDERS.lock() {
        folders.push(folder.to_owned());
    }
    HANDLER.call_once(|| {
        let clean_up = || {
            INTERRUPTED.store(true, Ordering::Release);
            ffi::remove_temporary_files();
            for folder in FOLDERS.lock().iter().flat_map(|folders| folders.iter()) {
                // A command that is still running may create a file during the removal.
                for _ in 0..50 {
                    if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
                        break;
                    }
                    std::thread::sleep(POLL);
                }
            }
            // The exit code that shells expect of an interrupted command; child processes die with
            // this one.
            std::process::exit(130);
        };
        // Without the handler, an interrupt still ends the process but leaves the folder behind,
        // which is no reason to fail.
        let _ = ffi::when_interrupted(clean_up);
    });
}

/// Returns the lines of an error output that state the reason, joined into one.
fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => "it printed no message".to_owned(),
        lines => lines[lines.len().saturating_sub(2)..].join(" | "),
    }
}

/// A running command, killed and reaped on drop, or killed by the kernel if this process dies.
pub struct RunningCommand {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl RunningCommand {
    /// Starts a command whose output goes to files: it would block on a pipe that is not read.
    fn start(mut command: Command, place: &Path) -> Result<RunningCommand, String> {
        hold_if_interrupted();
        let (out, err) = (place.with_extension("out"), place.with_extension("err"));
        let program = command.get_program().to_string_lossy().into_owned();
        let cannot = |cause| format!("cannot run {program}: {cause}");
        let (out_file, err_file) =
            (File::create(&out).map_err(cannot)?, File::create(&err).map_err(cannot)?);
        command.stdout(out_file).stderr(err_file);
        ffi::die_with_parent(&mut command);
        let child = command.spawn().map_err(cannot)?;
        Ok(RunningCommand { child, out, err })
    }

    /// Returns its standard output so far.
    pub fn out(&self) -> String {
        read(&self.out)
    }

    /// Returns its standard error so far.
    pub fn err(&self) -> String {
        read(&self.err)
    }

    fn wait(&mut self, limit: Duration) -> Result<ExitStatus, String> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Err(cause) => return Err(format!("cannot wait for openssl: {cause}")),
                Ok(None) if start.elapsed() > limit => {
                    return Err(format!("openssl took more than {} s", limit.as_secs()));
                }
                Ok(None) => std::thread::sleep(POLL),
            }
        }
    }

    /// Waits for an output line that starts with `word` and returns the rest of the line.
    ///
    /// # Errors
    /// A sentence, if the command ends first or takes longer than 30 seconds.
    pub fn line(&mut self, word: &str) -> Result<String, String> {
        let start = Instant::now();
        loop {
            let ended = !matches!(self.child.try_wait(), Ok(None));
            // Only complete lines count.
            let out = self.out();
            let found = out.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(rest) = found.filter_map(|line| line.strip_prefix(word)).next() {
                return Ok(rest.trim().to_owned());
            }
            if ended || start.elapsed() > LIMIT {
                return Err(format!("the server did not start: {}", last_words(&self.err())));
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // Both fail only for a child that has already ended and been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, place: &Path) -> RunningCommand {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        RunningCommand::start(command, place).unwrap()
    }

    #[test]
    fn a_slow_command_is_stopped_and_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let mut running = shell("sleep 60", &folder.path().join("x"));
        assert!(running.wait(Duration::from_millis(50)).is_err());
        let id = running.child.id();
        drop(running);
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "still there");
    }

    #[test]
    fn a_line_is_waited_for_and_an_early_end_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("x");
        let mut running = shell("sleep 0.05; echo one; echo ACCEPT here; sleep 60", &place);
        assert_eq!(running.line("ACCEPT").unwrap(), "here");
        let mut running = shell("echo why >&2; exit 1", &place);
        assert!(running.line("ACCEPT").unwrap_err().contains("why"));
    }
}
