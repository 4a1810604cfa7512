//! Reading inputs and writing outputs: `-`, size limits, and nothing half-written.

use std::fs::{File, Permissions};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Largest key, ciphertext or signature file that is read, 1 MiB: a hundred times the largest of
/// any algorithm here, so that a mistyped name does not fill the memory.
pub const SMALL_MAX: u64 = 1 << 20;
/// Largest message or vector file that is read, 2 GiB: both are kept in memory.
pub const LARGE_MAX: u64 = 1 << 31;

/// Whether a path stands for standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// The name of an input or output for messages.
pub fn shown(path: &Path, standard: &str) -> String {
    if is_standard(path) { standard.to_owned() } else { path.display().to_string() }
}

/// Reads a file, or standard input for `-`; wiped when dropped, since it may hold a key.
///
/// # Errors
/// [`Failure::Usage`] when it cannot be read or has more than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let name = shown(path, "standard input");
    let cannot = |cause| Failure::Usage(format!("cannot read {name}: {cause}"));
    let source: Box<dyn Read> = if is_standard(path) {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(cannot)?)
    };
    let mut bytes = Zeroizing::new(Vec::new());
    source.take(limit + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > limit {
        return Err(Failure::Usage(format!(
            "{name} has more than {limit} bytes; nothing of that size is expected here"
        )));
    }
    Ok(bytes)
}

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner alone: mode 0600.
    Secret,
    /// Whom the umask lets: mode 0666 less the umask.
    Public,
}

/// An output that is complete on disk but not yet in its place.
pub struct Output {
    place: Place,
}

enum Place {
    /// A temporary file beside `path`, and whether it may replace what is there.
    File { file: NamedTempFile, path: PathBuf, replace: bool },
    /// Standard output, a device or a pipe: written when committed.
    Stream { bytes: Zeroizing<Vec<u8>>, path: PathBuf },
}

impl Output {
    /// Writes `bytes` beside `path`, ready to be moved there by [`Output::commit`].
    ///
    /// Dropping the value instead leaves nothing behind. `-` is standard output.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the folder is not writable, or `path` exists and `replace` is not
    /// set.
    pub fn prepare(
        path: &Path,
        bytes: &[u8],
        access: Access,
        replace: bool,
    ) -> Result<Output, Failure> {
        // A device or a pipe is written to; replacing /dev/null by a file would be a bad surprise.
        let existing = std::fs::metadata(path).ok();
        if existing.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(Failure::Usage(format!("{} is a folder", path.display())));
        }
        if is_standard(path) || existing.as_ref().is_some_and(|found| !found.is_file()) {
            let bytes = Zeroizing::new(bytes.to_vec());
            return Ok(Output { place: Place::Stream { bytes, path: path.to_owned() } });
        }
        if existing.is_some() && !replace {
            return Err(exists(path));
        }
        // Through a symbolic link, so that the link stays and its target is replaced.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(Failure::Usage(format!(
                "cannot write {}: there is no folder {}",
                path.display(),
                folder.display()
            )));
        }
        let mode = match access {
            Access::Secret => 0o600,
            Access::Public => 0o666,
        };
        let write = || -> std::io::Result<NamedTempFile> {
            let mut file = tempfile::Builder::new()
                .prefix(".gabion-")
                .permissions(Permissions::from_mode(mode))
                .tempfile_in(folder)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        let file = write().map_err(|cause| cannot_write(&path, &cause))?;
        Ok(Output { place: Place::File { file, path, replace } })
    }

    /// Moves the output to its place in one step.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot be moved or written.
    pub fn commit(self) -> Result<(), Failure> {
        match self.place {
            Place::Stream { bytes, path } if is_standard(&path) => {
                let mut out = std::io::stdout().lock();
                out.write_all(&bytes)
                    .and_then(|()| out.flush())
                    .map_err(|cause| cannot_write(Path::new("standard output"), &cause))
            }
            Place::Stream { bytes, path } => std::fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|mut file| file.write_all(&bytes))
                .map_err(|cause| cannot_write(&path, &cause)),
            Place::File { file, path, replace: true } => {
                file.persist(&path).map(drop).map_err(|cause| cannot_write(&path, &cause.error))
            }
            // Refuses atomically, also when the file came into being after the check.
            Place::File { file, path, replace: false } => {
                file.persist_noclobber(&path).map(drop).map_err(|cause| {
                    if cause.error.kind() == std::io::ErrorKind::AlreadyExists {
                        return exists(&path);
                    }
                    cannot_write(&path, &cause.error)
                })
            }
        }
    }
}

fn exists(path: &Path) -> Failure {
    Failure::Usage(format!(
        "{} exists and is not overwritten; choose another name, or --force to replace it",
        path.display()
    ))
}

fn cannot_write(path: &Path, cause: &std::io::Error) -> Failure {
    // An error of the temporary file names that file, which nobody asked for.
    let cause = match cause.raw_os_error() {
        Some(_) => cause.to_string(),
        None => cause.kind().to_string(),
    };
    Failure::Usage(format!("cannot write {}: {cause}", path.display()))
}

/// Refuses an output that would overwrite an input or another output.
///
/// # Errors
/// [`Failure::Usage`] naming both options; `-` may stand for at most one output.
pub fn distinct(outputs: &[(&str, &Path)], inputs: &[(&str, &Path)]) -> Result<(), Failure> {
    for (at, (name, path)) in outputs.iter().enumerate() {
        let others = outputs[..at].iter().chain(inputs.iter().filter(|_| !is_standard(path)));
        for (other_name, other) in others {
            if same_file(path, other) {
                return Err(Failure::Usage(format!(
                    "{name} and {other_name} name the same file, {}; expected two",
                    shown(path, "standard output")
                )));
            }
        }
    }
    Ok(())
}

/// Refuses to write bytes to a terminal, which may take some of them for commands.
///
/// # Errors
/// [`Failure::Usage`] naming the option, where an output is standard output and that a terminal.
pub fn not_a_terminal(outputs: &[(&str, &Path)]) -> Result<(), Failure> {
    match outputs.iter().find(|(_, path)| is_standard(path)) {
        Some((name, _)) if std::io::stdout().is_terminal() => Err(Failure::Usage(format!(
            "binary output is not written to a terminal; name a file with {name}, or redirect \
             standard output"
        ))),
        _ => Ok(()),
    }
}

/// Refuses that two inputs both come from standard input.
///
/// # Errors
/// [`Failure::Usage`] naming the options.
pub fn one_standard_input(inputs: &[(&str, bool)]) -> Result<(), Failure> {
    let names: Vec<&str> = inputs.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    if names.len() > 1 {
        return Err(Failure::Usage(format!(
            "{} can't all be standard input; name files for all but one",
            names.join(" and ")
        )));
    }
    Ok(())
}

fn same_file(a: &Path, b: &Path) -> bool {
    if a == b {
        return true;
    }
    // Only files can be lost; two names of one terminal or of /dev/null are harmless.
    let full = |path: &Path| {
        std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        std::fs::canonicalize(path).ok()
    };
    matches!((full(a), full(b)), (Some(a), Some(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_overwritten_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let write = |bytes: &[u8], replace| {
            Output::prepare(&path, bytes, Access::Secret, replace).and_then(Output::commit)
        };
        write(b"one", false).unwrap();
        assert!(matches!(write(b"two", false), Err(Failure::Usage(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write(b"three", true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file");
    }

    #[test]
    fn a_refusal_names_the_output_and_no_temporary_file() {
        let plain = std::io::Error::from_raw_os_error(13);
        let named = std::io::Error::new(plain.kind(), "Permission denied at /out/.gabion-x1y2");
        for cause in [plain, named] {
            let Failure::Usage(text) = cannot_write(Path::new("/out/key"), &cause) else {
                panic!("not a usage error");
            };
            assert!(
                text.to_lowercase().starts_with("cannot write /out/key: permission denied"),
                "{text}"
            );
            assert!(!text.contains(".gabion-"), "{text}");
        }
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let output = Output::prepare(&path, b"new", Access::Public, false).unwrap();
        std::fs::write(&path, b"theirs").unwrap();
        assert!(output.commit().is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file");
    }

    #[test]
    fn devices_stay_devices_and_links_stay_links() {
        let folder = tempfile::tempdir().unwrap();
        let null = Output::prepare(Path::new("/dev/null"), b"x", Access::Public, true).unwrap();
        null.commit().unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, b"old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let output = Output::prepare(&link, b"new", Access::Public, true).unwrap();
        output.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert!(std::fs::symlink_metadata(&link).unwrap().file_type().is_symlink());
    }

    #[test]
    fn inputs_and_outputs_may_not_be_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, b"key").unwrap();
        let other = folder.path().join(".").join("key");
        assert!(distinct(&[("--out", &other)], &[("--key", &path)]).is_err());
        let dash = Path::new("-");
        assert!(distinct(&[("--out", dash)], &[("FILE", dash)]).is_ok());
        assert!(distinct(&[("--out", dash), ("--secret", dash)], &[]).is_err());
        assert!(one_standard_input(&[("--key", true), ("FILE", true)]).is_err());
        assert!(one_standard_input(&[("--key", true), ("FILE", false)]).is_ok());
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        std::fs::write(&path, [7; 10]).unwrap();
        assert_eq!(read(&path, 10).unwrap().len(), 10);
        assert!(matches!(read(&path, 9), Err(Failure::Usage(_))));
        assert!(matches!(read(folder.path(), 9), Err(Failure::Usage(_))));
    }
}
