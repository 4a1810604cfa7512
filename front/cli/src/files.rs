//! Reads inputs and writes outputs: `-`, size limits, and no partial files.
//!
//! Outputs take three steps. Each may fail and leaves nothing behind: [`places`] resolves the
//! paths, [`Output::prepare`] writes temporary files next to them, [`commit`] gives those their
//! names.

mod place;
mod temporary;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use zeroize::Zeroizing;

use crate::failure::{self, Failure};
pub(crate) use place::Target;
use place::{Id, Mark};
pub use place::{Place, is_standard_input, mark_of_input};
use temporary::TemporaryFile;

/// Maximum size of key, ciphertext and signature files, 1 MiB: a hundred times the largest of any
/// algorithm, so that a mistyped name does not exhaust memory.
pub const SMALL_MAX: u64 = 1 << 20;
/// Maximum size of message and vector files, 2 GiB: both are kept in memory.
pub const LARGE_MAX: u64 = 1 << 31;

/// Returns whether a path stands for standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the name of an input or output for messages, with control characters escaped.
pub fn shown(path: &Path, standard: &str) -> String {
    if is_dash(path) { standard.to_owned() } else { failure::spelt(&path.display().to_string()) }
}

/// Returns the system's error text, without the error number.
pub fn words(cause: &std::io::Error) -> String {
    failure::plain(&cause.to_string())
}

/// Reads a file, or standard input for `-`. The buffer is wiped when dropped, since it may hold a
/// key.
///
/// # Errors
/// [`Failure::Usage`] if the file cannot be read or has more than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let name = shown(path, "standard input");
    let cannot =
        |cause: std::io::Error| Failure::Usage(format!("cannot read {name}: {}", words(&cause)));
    let source: Box<dyn Read> = if is_standard_input(path) {
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

/// Data from a file or standard input.
pub enum Input {
    /// The complete data.
    Short(Zeroizing<Vec<u8>>),
    /// Data above the size limit: a reader of all of it, and its length if known.
    Long(Box<dyn Read>, Option<u64>),
}

/// Opens a file, or standard input for `-`, and reads it if it has at most `short` bytes.
///
/// # Errors
/// [`Failure::Usage`] if it cannot be read.
pub fn open(path: &Path, short: u64) -> Result<Input, Failure> {
    let name = shown(path, "standard input");
    let cannot =
        |cause: std::io::Error| Failure::Usage(format!("cannot read {name}: {}", words(&cause)));
    let (mut source, length): (Box<dyn Read>, _) = if is_standard_input(path) {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let file = File::open(path).map_err(cannot)?;
        let about = file.metadata().map_err(cannot)?;
        (Box::new(file), about.is_file().then_some(about.len()))
    };
    let mut bytes = Zeroizing::new(Vec::new());
    source.by_ref().take(short + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 <= short {
        return Ok(Input::Short(bytes));
    }
    // Files without a length, such as those in /proc, report 0.
    let length = length.filter(|length| *length > short);
    let first = std::io::Cursor::new(std::mem::take(&mut *bytes));
    Ok(Input::Long(Box::new(first.chain(source)), length))
}

impl Input {
    /// Returns a reader of the complete data.
    pub fn into_reader(self) -> Box<dyn Read> {
        match self {
            Input::Short(bytes) => Box::new(std::io::Cursor::new(bytes)),
            Input::Long(reader, _) => reader,
        }
    }
}

/// Returns the text without a leading byte order mark, which some editors write and RFC 8259,
/// section 8.1, allows JSON readers to ignore.
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// The access rights of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only the owner: mode 0600.
    Secret,
    /// Mode 0666, restricted by the umask.
    Public,
}

/// The handling of an existing output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverwritePolicy {
    /// The file is kept and the command fails; the default without `--force`.
    Keep,
    /// The file is replaced, but kept if the new one cannot be written.
    Replace,
}

/// The option `--force` of all commands that write keys, secrets, ciphertexts or signatures.
#[derive(Clone, Copy, clap::Args)]
pub struct Force {
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

impl Force {
    /// Returns the policy for existing files.
    pub fn existing(self) -> OverwritePolicy {
        if self.force { OverwritePolicy::Replace } else { OverwritePolicy::Keep }
    }
}

/// Resolves output paths. Fails if an output would overwrite an input or another output, under any
/// spelling of its path, or an existing file unless `existing` allows that.
///
/// # Errors
/// [`Failure::Usage`], naming the options.
pub fn places<const N: usize>(
    outputs: [(&'static str, &Path); N],
    inputs: &[(&str, &Path)],
    existing: OverwritePolicy,
) -> Result<[Place; N], Failure> {
    let places = places_of(outputs, inputs, &[], existing)?;
    // One place per output.
    places.try_into().map_err(|_| Failure::Usage("outputs were lost".to_owned()))
}

/// Resolves any number of output paths. The command must not write the files in `taken`, whether
/// they exist or not.
///
/// # Errors
/// Fails like [`places`].
pub fn places_of<'a>(
    outputs: impl IntoIterator<Item = (&'static str, &'a Path)>,
    inputs: &[(&str, &Path)],
    taken: &[(&str, &Path)],
    existing: OverwritePolicy,
) -> Result<Vec<Place>, Failure> {
    let mut known: HashMap<Mark, String> = HashMap::new();
    for (option, path) in inputs.iter().chain(taken) {
        known.extend(place::mark_of_input(path).map(|mark| (mark, (*option).to_owned())));
    }
    for (option, path) in taken {
        // A path that cannot be resolved cannot be overwritten either.
        let marks = Place::find("", path).map(|place| place.marks()).unwrap_or_default();
        known.extend(marks.into_iter().map(|mark| (mark, (*option).to_owned())));
    }
    let mut places: Vec<Place> = Vec::new();
    for (option, path) in outputs {
        let place = Place::find(option, path)?;
        let marks = place.marks();
        if let Some(other) = marks.iter().find_map(|mark| known.get(mark)) {
            return Err(same_file(&place, other));
        }
        known.extend(marks.into_iter().map(|mark| (mark, option.to_owned())));
        places.push(place);
    }
    for place in &places {
        if existing == OverwritePolicy::Keep
            && matches!(&place.target, Target::Slot(slot) if slot.is_taken())
        {
            return Err(exists(&place.path));
        }
    }
    Ok(places)
}

/// Checks that outputs of `bytes` bytes each can be written, before anything irreversible happens.
///
/// # Errors
/// [`Failure`] if one cannot be written.
pub fn probe(places: &[Place], bytes: usize) -> Result<(), Failure> {
    let tried = |place: &Place| {
        temporary::probe(&place.target, bytes).map_err(|cause| cannot_write(&place.path, &cause))
    };
    places.iter().try_for_each(tried)
}

/// Returns the failure for two options that name the same file.
fn same_file(place: &Place, other: &str) -> Failure {
    let (option, path) = (place.option, shown(&place.path, "standard output"));
    Failure::Usage(match option == other {
        true => format!("{path} is named twice, by {option}; expected it once"),
        false => format!("{option} and {other} name the same file, {path}; expected two"),
    })
}

/// An output that is complete on the disk but does not have its name yet.
#[derive(Debug)]
pub struct Output {
    place: Place,
    content: Content,
    existing: OverwritePolicy,
}

#[derive(Debug)]
enum Content {
    /// A temporary file in the folder of the output.
    File(TemporaryFile),
    /// Data for standard output, a device or a pipe; written when committed.
    Stream(Zeroizing<Vec<u8>>),
}

impl Output {
    /// Writes `bytes` to a temporary file, which [`commit`] renames.
    ///
    /// Dropping the value instead leaves nothing behind.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be written.
    pub fn prepare(
        place: Place,
        bytes: &[u8],
        access: Access,
        existing: OverwritePolicy,
    ) -> Result<Output, Failure> {
        let content = match &place.target {
            // Devices and pipes are written to and never replaced by a file: think of /dev/null.
            Target::Descriptor { .. } | Target::Device { .. } => {
                Content::Stream(Zeroizing::new(bytes.to_vec()))
            }
            Target::Slot(slot) => {
                let mode = match access {
                    Access::Secret => 0o600,
                    Access::Public => 0o666,
                };
                let written = TemporaryFile::write(slot, mode, bytes);
                Content::File(written.map_err(|cause| cannot_write(&place.path, &cause))?)
            }
        };
        Ok(Output { place, content, existing })
    }

    /// Commits the output; `made` are the files that were committed just before.
    fn commit(&mut self, made: &[CommittedFile]) -> Result<Option<CommittedFile>, Failure> {
        let (Content::File(file), Target::Slot(slot)) = (&mut self.content, &self.place.target)
        else {
            return Ok(None);
        };
        let path = &self.place.path;
        let there = slot.now();
        // On a case-insensitive file system, only the created file shows that two names are the
        // same.
        if let Some(made) = made.iter().find(|made| Some(made.id) == there) {
            return Err(same_file(&self.place, made.option));
        }
        let put = match self.existing {
            OverwritePolicy::Replace => file.replace(slot),
            // Fails atomically, even if the file was created after the check.
            OverwritePolicy::Keep => file.place(slot),
        };
        put.and_then(|()| file.id())
            .map(|id| {
                Some(CommittedFile { option: self.place.option, id, replaced: there.is_some() })
            })
            .map_err(|cause| match cause.kind() {
                std::io::ErrorKind::AlreadyExists => exists(path),
                _ => cannot_write(path, &cause),
            })
    }

    /// Writes to a target that is not a file.
    fn send(&self) -> Result<(), Failure> {
        let Content::Stream(bytes) = &self.content else { return Ok(()) };
        match &self.place.target {
            Target::Descriptor { number: 1, .. } => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Target::Descriptor { file, .. } => {
                file.try_clone().map(File::from).and_then(|mut file| file.write_all(bytes))
            }
            Target::Device { slot, .. } | Target::Slot(slot) => {
                slot.open().and_then(|mut file| file.write_all(bytes))
            }
        }
        .map_err(|cause| {
            cannot_write(Path::new(&shown(&self.place.path, "standard output")), &cause)
        })
    }
}

/// A committed output.
struct CommittedFile {
    option: &'static str,
    id: Id,
    replaced: bool,
}

/// Commits outputs, each in one step: first files, then devices, pipes and standard output.
///
/// # Errors
/// [`Failure`] if one cannot be committed. Then all newly created files are removed; a file that
/// was already replaced stays replaced.
pub fn commit(outputs: impl IntoIterator<Item = Output>) -> Result<(), Failure> {
    let mut outputs: Vec<Output> = outputs.into_iter().collect();
    let mut made: Vec<CommittedFile> = Vec::new();
    let mut places: Vec<usize> = Vec::new();
    let mut go = || -> Result<(), Failure> {
        for (at, output) in outputs.iter_mut().enumerate() {
            if let Some(file) = output.commit(&made)? {
                made.push(file);
                places.push(at);
            }
        }
        outputs.iter().try_for_each(Output::send)
    };
    let done = go();
    if done.is_err() {
        for (made, at) in made.iter().zip(places) {
            if let Target::Slot(slot) = &outputs[at].place.target
                && !made.replaced
                && slot.now() == Some(made.id)
            {
                slot.remove();
            }
        }
    }
    done
}

fn exists(path: &Path) -> Failure {
    Failure::Usage(format!(
        "{} exists and is not overwritten; choose another name, or --force to replace it",
        shown(path, "standard output")
    ))
}

fn cannot_write(path: &Path, cause: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let text = format!("cannot write {}: {}", shown(path, "standard output"), words(cause));
    match cause.kind() {
        // The command is correct, but the machine has a problem.
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Failure::NotReady(text)
        }
        _ if cause.raw_os_error() == Some(libc::EIO) => Failure::NotReady(text),
        _ => Failure::Usage(text),
    }
}

/// Fails if an output is a terminal, which may interpret binary data as commands.
///
/// # Errors
/// [`Failure::Usage`] if an output is a terminal.
pub fn not_a_terminal<'a>(outputs: impl IntoIterator<Item = &'a Place>) -> Result<(), Failure> {
    match outputs.into_iter().find(|place| place.is_terminal()) {
        Some(Place { option, .. }) => Err(Failure::Usage(format!(
            "binary output is not written to a terminal; name a file with {option}, or redirect \
             standard output"
        ))),
        None => Ok(()),
    }
}

/// Fails if more than one input is standard input.
///
/// # Errors
/// [`Failure::Usage`], naming the options.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn one(path: &Path, existing: OverwritePolicy) -> Result<Place, Failure> {
        places([("--out", path)], &[], existing).map(|[place]| place)
    }

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_is_not_overwritten_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let write = |bytes: &[u8], existing| {
            let output = Output::prepare(one(&path, existing)?, bytes, Access::Secret, existing)?;
            assert_eq!(names(folder.path()), usize::from(path.exists()), "it has no name yet");
            commit([output])
        };
        write(b"one", OverwritePolicy::Keep).unwrap();
        assert!(matches!(write(b"two", OverwritePolicy::Keep), Err(Failure::Usage(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write(b"three", OverwritePolicy::Replace).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), 1, "no temporary file");
    }

    #[test]
    fn a_disk_that_is_full_is_no_mistake_of_the_command_line() {
        let code = |number| {
            let cause = std::io::Error::from_raw_os_error(number);
            let failure = cannot_write(Path::new("/out/key"), &cause);
            assert!(!failure.to_string().contains("os error"), "{failure}");
            failure.exit_code()
        };
        assert_eq!([libc::ENOSPC, libc::EDQUOT, libc::EIO, libc::EFBIG].map(code), [3; 4]);
        assert_eq!([libc::EACCES, libc::EROFS, libc::ENOENT].map(code), [2; 3]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_kept_and_the_pair_with_it_undone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (key, public) = (at("key"), at("pub"));
        let outputs = || {
            let places = places([("--out", &key), ("--pub", &public)], &[], OverwritePolicy::Keep)?;
            let prepare =
                |place| Output::prepare(place, b"new", Access::Public, OverwritePolicy::Keep);
            places.into_iter().map(prepare).collect::<Result<Vec<Output>, Failure>>()
        };
        let pair = outputs().unwrap();
        std::fs::write(&public, b"theirs").unwrap();
        assert!(commit(pair).is_err());
        assert_eq!(std::fs::read(&public).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), 1, "no key without its other half, no temporary file");
        std::fs::remove_file(&public).unwrap();
        commit(outputs().unwrap()).unwrap();
        assert_eq!(names(folder.path()), 2);
    }

    /// On such a file system, only the first created file shows that two names are the same.
    #[test]
    fn names_that_turn_out_to_be_one_file_lose_neither_output() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let places = [("--out", &at("k")), ("--pub", &at("K"))]
            .map(|(option, path)| Place::find(option, path).unwrap());
        let prepare =
            |place| Output::prepare(place, b"new", Access::Public, OverwritePolicy::Replace);
        let [mut first, mut second] = places.map(|place| prepare(place).unwrap());
        let made = first.commit(&[]).unwrap().unwrap();
        std::fs::hard_link(at("k"), at("K")).unwrap();
        let error = second.commit(&[made]).err().unwrap().to_string();
        assert!(error.starts_with("--pub and --out name the same file"), "{error}");
        assert_eq!(std::fs::read(at("k")).unwrap(), b"new");
    }

    #[test]
    fn devices_stay_devices_and_links_stay_links() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &Path| {
            let place = one(path, OverwritePolicy::Replace).unwrap();
            let output = Output::prepare(place, b"new", Access::Public, OverwritePolicy::Replace);
            commit(output).unwrap();
        };
        write(Path::new("/dev/null"));
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for _ in 0..2 {
            write(&link);
            assert_eq!(std::fs::read(&target).unwrap(), b"new");
            assert!(std::fs::symlink_metadata(&link).unwrap().file_type().is_symlink());
            std::fs::write(&target, b"old").unwrap();
        }
    }

    #[test]
    fn inputs_and_outputs_may_not_be_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, b"key").unwrap();
        let other = folder.path().join(".").join("key");
        let dash = Path::new("-");
        let find = |out, input| places([("--out", out)], &[input], OverwritePolicy::Replace);
        assert!(find(&other, ("--key", path.as_path())).is_err());
        assert!(find(dash, ("FILE", dash)).is_ok());
        assert!(
            places([("--out", dash), ("--secret", dash)], &[], OverwritePolicy::Replace).is_err()
        );
        assert!(one_standard_input(&[("--key", true), ("FILE", true)]).is_err());
        assert!(one_standard_input(&[("--key", true), ("FILE", false)]).is_ok());
        assert!(is_standard_input(Path::new("/dev/stdin")) && !is_standard_input(&path));
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        std::fs::write(&path, [7; 10]).unwrap();
        assert_eq!(read(&path, 10).unwrap().len(), 10);
        assert!(matches!(read(&path, 9), Err(Failure::Usage(_))));
        let text = read(folder.path(), 9).unwrap_err().to_string();
        assert!(text.ends_with("Is a directory"), "{text}");
    }
}
