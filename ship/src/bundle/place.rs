//! Manages the folder around a bundle: locking, staging, and restoring the old bundle after a
//! failed build.
//!
//! ```text
//!   PARENT/.bundle-V.lock                one build at a time; never written to, never followed
//!   PARENT/.bundle-V.building-RANDOM/    0700: source, objects, log, and the staged tree
//!   PARENT/bundle-V                      appears by rename, with gabion-bundle.json inside
//!   PARENT/bundle-V.log                  of a build that failed
//! ```
//!
//! A parent folder in which other users can replace entries is rejected. In a folder like `/tmp`,
//! where they can only add entries, existing entries are never entered, followed or written to.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Layout;
use crate::{Error, Result, trust};

/// Number of lines of a failed program's output in its error message.
const LOG_TAIL_LINES: usize = 25;

/// The folder around the bundle, locked against concurrent builds.
pub(super) struct Place {
    parent: PathBuf,
    name: String,
    /// Held open for its lock, which the system releases when the process ends.
    _lock: File,
}

impl Place {
    /// Locks the bundle's place and removes leftovers of killed builds.
    pub(super) fn claim(layout: &Layout) -> Result<Self> {
        let prefix = layout.prefix();
        let parent = prefix.parent().unwrap_or(Path::new("/")).to_path_buf();
        let name = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
        std::fs::create_dir_all(&parent)
            .map_err(|cause| Error::io("cannot make the folder", &parent, cause))?;
        // Created by an older Gabion, whose builds did not restrict the umask.
        for folder in super::cache_folders().iter().filter(|folder| parent.starts_with(folder)) {
            trust::tighten(folder);
        }
        trust::check_folder(&parent)?;
        let lock_path = parent.join(format!(".{name}.lock"));
        let lock = trust::open_lock(&lock_path)?;
        if lock.try_lock().is_err() {
            eprintln!("another build of {} is running; waiting for it", prefix.display());
            lock.lock().map_err(|cause| Error::io("cannot lock", &lock_path, cause))?;
        }
        let place = Place { parent, name, _lock: lock };
        for leftover in trust::own_entries(&place.parent, &place.staging_prefix()) {
            // The build that created it is dead: a live one would hold the lock.
            let _ = std::fs::remove_dir_all(leftover);
        }
        Ok(place)
    }

    fn staging_prefix(&self) -> String {
        format!(".{}.building-", self.name)
    }

    /// Runs `work` in a new folder, which is removed afterwards; its log is kept if it fails.
    pub(super) fn with_staging<T>(&self, work: impl FnOnce(&Path, &Log) -> Result<T>) -> Result<T> {
        let staging = trust::private_folder(&self.parent, &self.staging_prefix())?;
        let kept = self.parent.join(format!("{}.log", self.name));
        let log = Log::create(staging.path().join("log"), kept.clone())?;
        let result = work(staging.path(), &log);
        if result.is_err() {
            // A rename replaces a planted link and does not follow it.
            let _ = std::fs::rename(&log.path, &kept);
        } else if is_ours(&kept) {
            let _ = std::fs::remove_file(&kept);
        }
        result
    }
}

/// Returns whether a file (or the link itself) belongs to this user.
fn is_ours(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|data| data.uid() == trust::user())
}

/// Moves a staged tree into place. An older bundle is first moved into the staging folder, which is
/// deleted later.
pub(super) fn move_into_place(staging: &Path, tree: &Layout, layout: &Layout) -> Result<()> {
    let prefix = layout.prefix();
    let aside = staging.join("replaced");
    let rename = |from: &Path, to: &Path| {
        std::fs::rename(from, to).map_err(|cause| Error::io("cannot move to", to, cause))
    };
    let had_one = std::fs::symlink_metadata(prefix).is_ok();
    if had_one {
        rename(prefix, &aside)?;
    }
    rename(tree.prefix(), prefix).inspect_err(|_| {
        if had_one {
            // Restore the old bundle; the first error is the one to report.
            let _ = std::fs::rename(&aside, prefix);
        }
    })
}

/// The log file of a build; its last lines become the error message if a program fails.
pub(super) struct Log {
    path: PathBuf,
    /// The path of the log after a failed build.
    kept: PathBuf,
    file: File,
}

impl Log {
    fn create(path: PathBuf, kept: PathBuf) -> Result<Self> {
        let file =
            File::create_new(&path).map_err(|cause| Error::io("cannot write", &path, cause))?;
        Ok(Log { path, kept, file })
    }

    pub(super) fn run(&self, command: &mut Command) -> Result<()> {
        self.run_watched(command, |_| {})
    }

    /// Runs a program with its output in the log, and passes each line to `watch`.
    pub(super) fn run_watched(
        &self,
        command: &mut Command,
        mut watch: impl FnMut(&str),
    ) -> Result<()> {
        let name = command.get_program().to_string_lossy().into_owned();
        let log_error = |cause| Error::io("cannot write", &self.path, cause);
        let start_error = |cause| Error::Program(format!("cannot run {name}: {cause}"));
        let mut log = self.file.try_clone().map_err(log_error)?;
        // One pipe for both streams keeps error messages next to the output they belong to.
        let (output, input) = std::io::pipe().map_err(start_error)?;
        command.stdin(Stdio::null()).stdout(input.try_clone().map_err(start_error)?).stderr(input);
        // OpenSSL's build must not use the make flags and job server of a caller (`make run` uses
        // this program).
        command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
        let mut child = command.spawn().map_err(start_error)?;
        // The command still holds this process's ends of the pipe; once they are closed, the output
        // ends with the child.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for line in BufReader::new(output).split(b'\n') {
            let Ok(mut line) = line else { break };
            watch(&String::from_utf8_lossy(&line));
            line.push(b'\n');
            log.write_all(&line).map_err(log_error)?;
        }
        let status = child
            .wait()
            .map_err(|cause| Error::Program(format!("cannot wait for {name}: {cause}")))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Program(format!(
            "{name} failed ({status}); the whole log is {}, and ends with:\n{}",
            self.kept.display(),
            self.tail()
        )))
    }

    fn tail(&self) -> String {
        let text = std::fs::read(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_reported_with_the_end_of_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(folder.path().join("log"), "/kept".into()).unwrap();
        let mut lines = 0;
        let mut script = Command::new("sh");
        script.args(["-c", "for i in $(seq 40); do echo line $i; done; echo sorry >&2; exit 7"]);
        let error = log.run_watched(&mut script, |_| lines += 1).unwrap_err().to_string();
        assert_eq!(lines, 41);
        assert!(error.contains("exit status: 7"), "{error}");
        assert!(error.contains("sorry") && !error.contains("line 3\n"), "{error}");
    }
}
