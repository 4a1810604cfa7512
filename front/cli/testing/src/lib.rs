//! Runs the built `gabion` and `gabion-bench`, and the bundle's `openssl`, in a folder of their own.

#![allow(clippy::unwrap_used, clippy::new_without_default, missing_docs)] // A panic is how a test fails.

pub mod pages;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const ALGORITHMS: [&str; 6] =
    ["ML-KEM-512", "ML-KEM-768", "ML-KEM-1024", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"];

pub fn is_kem(algorithm: &str) -> bool {
    algorithm.starts_with("ML-KEM")
}

/// The exit code and output of a command.
#[derive(Debug)]
pub struct CommandResult {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl CommandResult {
    pub fn of(output: Output) -> CommandResult {
        CommandResult {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn ok(self) -> CommandResult {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Checks the exit code, and that the message is one and not a panic.
    #[track_caller]
    pub fn fails(self, code: i32) -> CommandResult {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains("error:") && !self.err.contains("panicked"), "{self:?}");
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> CommandResult {
        assert!(self.err.contains(words), "no `{words}` in {:?}", self.err);
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap()
    }
}

/// A folder that is removed when the test ends.
pub struct Work {
    folder: tempfile::TempDir,
}

impl Work {
    pub fn new() -> Work {
        let work = Work { folder: tempfile::tempdir().unwrap() };
        // In a subfolder, so that the test also owns the parent folder.
        std::fs::create_dir(work.path("")).unwrap();
        work
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    pub fn folder(&self) -> PathBuf {
        self.path("")
    }

    /// Returns the folder for anchors of keys: outside of the user's home, and not below a key.
    pub fn state_home(&self) -> PathBuf {
        self.folder.path().join("state-home")
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// `gabion`, to be run in the folder.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        self.program("gabion", arguments)
    }

    /// `gabion-bench`, to be run in the folder.
    pub fn bench_command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        self.program("gabion-bench", arguments)
    }

    fn program<S: AsRef<OsStr>>(&self, name: &str, arguments: &[S]) -> Command {
        let mut command = Command::new(program(name));
        command.args(arguments).current_dir(self.folder()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.state_home());
        command
    }

    pub fn gabion<S: AsRef<OsStr>>(&self, arguments: &[S]) -> CommandResult {
        CommandResult::of(self.command(arguments).output().unwrap())
    }

    pub fn bench<S: AsRef<OsStr>>(&self, arguments: &[S]) -> CommandResult {
        CommandResult::of(self.bench_command(arguments).output().unwrap())
    }

    /// `gabion` with something on its standard input.
    pub fn gabion_fed<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> CommandResult {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may end before it has read everything; that is for the caller to judge.
        let _ = child.stdin.take().unwrap().write_all(input);
        CommandResult::of(child.wait_with_output().unwrap())
    }

    /// The bundle's own openssl, without our provider.
    pub fn openssl(&self, arguments: &[&str]) -> CommandResult {
        let mut command = Command::new(bundle().unwrap().join("bin/openssl"));
        command.args(arguments).current_dir(self.folder()).stdin(Stdio::null());
        command.env_remove("OPENSSL_CONF").env_remove("OPENSSL_MODULES");
        CommandResult::of(command.output().unwrap())
    }
}

/// Returns the path of a program of the workspace: `target/debug/NAME` for a test in `target/debug/deps`.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join(name);
    assert!(program.exists(), "{} is missing; build the workspace", program.display());
    program
}

/// Returns every command, found like users do: in the help of its parent command. `run` runs one.
pub fn commands(run: &dyn Fn(&[String]) -> CommandResult, above: &[String]) -> Vec<Vec<String>> {
    let help = run(&[above, &["--help".to_owned()]].concat()).ok().text();
    let mut all = vec![above.to_vec()];
    // Commands stand between the usage and the options, below one heading or several.
    let list = help.split_once("\nUsage:").map_or("", |(_, rest)| rest);
    let below = list
        .lines()
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(char::is_alphabetic))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    for name in below {
        all.extend(commands(run, &[above, &[name.to_owned()]].concat()));
    }
    all
}

/// Returns the lines of a help text's first example, and checks that they stand before the usage.
pub fn example(help: &str) -> String {
    let before = help.split("\nUsage:").next().unwrap();
    let (_, after) = before.split_once("Example").unwrap_or_else(|| panic!("no example: {help}"));
    let (_, after) = after.split_once('\n').unwrap();
    after.lines().take_while(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
}

/// Returns whether the long checks run, which `script/test --all` asks for by `GABION_TEST_ALL`. If not, prints that
/// `what` was not run.
pub fn runs_long_checks(what: &str) -> bool {
    let asked = std::env::var_os("GABION_TEST_ALL").is_some_and(|value| !value.is_empty());
    if !asked {
        eprintln!("not run: {what}; script/test --all runs it");
    }
    asked
}

/// The finished bundle, if there is one; tests that need it say so and pass without, or fail where
/// `GABION_TEST_NEEDS_BUNDLE` is set.
pub fn bundle() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let prefix = match set("GABION_OPENSSL_PREFIX") {
        Some(prefix) => PathBuf::from(prefix),
        None => {
            set("HOME")?;
            gabion_ship::bundle::Layout::newest_finished().ok()?.prefix().to_path_buf()
        }
    };
    let there = prefix.join("bin/openssl").is_file();
    let needed = std::env::var_os("GABION_TEST_NEEDS_BUNDLE").is_some();
    assert!(there || !needed, "no OpenSSL bundle in {}", prefix.display());
    if !there {
        eprintln!("skipped: no OpenSSL bundle in {}", prefix.display());
    }
    there.then_some(prefix)
}

/// Returns a folder of published vectors: in `GABION_VECTORS`, or next to the repository.
pub fn vectors(name: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("GABION_VECTORS").filter(|value| !value.is_empty()) {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/vectors"),
    };
    let folder = root.join(name);
    if !folder.is_dir() {
        eprintln!("skipped: no vectors in {}", folder.display());
        return None;
    }
    Some(folder.canonicalize().unwrap())
}
