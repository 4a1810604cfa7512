//! The bundle's `openssl` command, run with a time limit and never left behind.

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

/// Longest time that one command may take: a hundred times what the slowest of ours takes.
const LIMIT: Duration = Duration::from_secs(30);
/// How the sentence begins that says that there is no place for temporary files.
pub const NO_PLACE: &str = "cannot make a temporary folder";
/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(2);

/// The bundle with our provider preferred, and a folder for what commands write.
pub struct Openssl<'a> {
    settings: &'a Settings,
    folder: tempfile::TempDir,
}

/// The output of a finished command.
pub struct CommandOutput {
    /// Whether it ended with status 0.
    pub ok: bool,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl<'a> Openssl<'a> {
    /// A folder for this process, removed when dropped.
    ///
    /// # Errors
    /// A sentence, when there is no place for temporary files.
    pub fn new(settings: &'a Settings) -> Result<Openssl<'a>, String> {
        let folder = tempfile::Builder::new()
            .prefix("gabion-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|cause| format!("{NO_PLACE}: {cause}"))?;
        remove_when_interrupted(folder.path());
        Ok(Openssl { settings, folder })
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command in the folder, with our provider preferred; it counts into the file `stats`.
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

    /// Runs the command to its end.
    ///
    /// # Errors
    /// A sentence, when it does not start, fails, or takes more than half a minute.
    pub fn run(&self, arguments: &[&str], stats: Option<&str>) -> Result<String, String> {
        let finished = self.finish(self.command(arguments, stats), LIMIT)?;
        if finished.ok {
            return Ok(finished.out);
        }
        Err(format!("openssl {} failed: {}", arguments.join(" "), last_words(&finished.err)))
    }

    /// Runs the command without our provider, so that OpenSSL's own is used.
    ///
    /// # Errors
    /// As [`Self::run`], with another limit.
    pub fn run_stock(&self, arguments: &[&str], limit: Duration) -> Result<String, String> {
        let mut command = self.command(arguments, None);
        // The bundle's own openssl.cnf: what a user without Gabion has.
        command.env_remove("OPENSSL_CONF");
        let finished = self.finish(command, limit)?;
        if finished.ok {
            return Ok(finished.out);
        }
        Err(format!("openssl {} failed: {}", arguments.join(" "), last_words(&finished.err)))
    }

    /// Runs the command in the environment of the mode that is set, to its end or the limit's, and gives
    /// what it said whatever came of it.
    ///
    /// # Errors
    /// A sentence, when it does not start.
    pub fn ask(&self, arguments: &[&str], limit: Duration) -> Result<CommandOutput, String> {
        let mut running = self.start_client(arguments)?;
        let (ok, err) = match running.wait(limit) {
            Ok(status) => (status.success(), running.err()),
            Err(_) => (false, format!("no answer within {} s", limit.as_secs())),
        };
        Ok(CommandOutput { ok, out: running.out(), err })
    }

    /// Starts the command in the environment of the mode that is set, and leaves it running.
    ///
    /// # Errors
    /// A sentence, when it does not start.
    pub fn start_client(&self, arguments: &[&str]) -> Result<RunningCommand, String> {
        let mut command = self.command(arguments, None);
        command.envs(self.settings.variables(self.settings.mode));
        RunningCommand::start(command, &self.file("client"))
    }

    fn finish(&self, command: Command, limit: Duration) -> Result<CommandOutput, String> {
        let mut running = RunningCommand::start(command, &self.file("command"))?;
        let ok = running.wait(limit)?.success();
        Ok(CommandOutput { ok, out: running.out(), err: running.err() })
    }

    /// Starts the command and leaves it running.
    ///
    /// # Errors
    /// A sentence, when it does not start.
    pub fn start(&self, arguments: &[&str], stats: &str) -> Result<RunningCommand, String> {
        RunningCommand::start(self.command(arguments, Some(stats)), &self.file("server"))
    }

    /// Reads the counters in the file `name`; they are zero if no command loaded our provider.
    ///
    /// # Errors
    /// A sentence, when the file is damaged.
    pub fn counters(&self, name: &str) -> Result<Snapshot, String> {
        let file = self.file(name);
        if !file.exists() {
            return Ok(Snapshot::default());
        }
        stats::read(&file).map_err(|cause| cause.to_string())
    }
}

/// Set when the user interrupts us: nothing more is started, or reported as a failure.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Lets an interrupt take its course: what fails meanwhile fails because of it.
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

/// Has the folder removed when the user interrupts us: keys lie in it.
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
                // A command that still runs may put a file there in the middle of it.
                for _ in 0..50 {
                    if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
                        break;
                    }
                    std::thread::sleep(POLL);
                }
            }
            // What a shell expects of an interrupted command; children die with this process.
            std::process::exit(130);
        };
        // Without a handler an interrupt still ends us, and leaves the folder: no reason to stop.
        let _ = ffi::when_interrupted(clean_up);
    });
}

/// The lines of an error output that say why, in one line.
fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => "it said nothing".to_owned(),
        lines => lines[lines.len().saturating_sub(2)..].join(" | "),
    }
}

/// A command that runs; killed and reaped when dropped, and by the kernel when we are killed.
pub struct RunningCommand {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl RunningCommand {
    /// Starts a command whose output goes to files: a pipe that nobody empties would stop it.
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

    /// Its standard output so far.
    pub fn out(&self) -> String {
        read(&self.out)
    }

    /// Its standard error so far.
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

    /// Waits until a line of its output begins with `word`, and gives the rest of the line.
    ///
    /// # Errors
    /// A sentence, when it ends first or takes more than half a minute.
    pub fn line(&mut self, word: &str) -> Result<String, String> {
        let start = Instant::now();
        loop {
            let ended = !matches!(self.child.try_wait(), Ok(None));
            // A line counts once its end was written.
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
        // Both fail only for a child that has ended and was waited for.
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
