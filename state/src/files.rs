//! The files of a key, and the errors about them.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_disk::{Access, Disk, DiskFile, RealDisk, read_full, write_all};
use gabion_engine::keys::stateful::{LedgerError, digest_of};
use gabion_engine::{Entropy, OsEntropy};
use zeroize::Zeroizing;

use crate::anchor::{Verdict, default_path};
use crate::machine::{MACHINE_ID, Machine, ThisMachine};
use crate::record::{Head, KeyId, Lifecycle, STATE_MAGIC, Stamp, State};
use crate::slots::{BLOCK, Slots};

/// The environment of a ledger: disk, machine and entropy.
#[derive(Clone)]
pub struct Environment {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// The source of stamps.
    pub entropy: Arc<dyn Entropy + Send + Sync>,
}

impl Environment {
    /// Returns the environment of this machine and its operating system.
    pub fn real() -> Self {
        Environment {
            disk: Arc::new(RealDisk),
            machine: Arc::new(ThisMachine),
            entropy: Arc::new(OsEntropy),
        }
    }
}

/// The files of a key.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The private key; never changes.
    pub key: PathBuf,
    /// The state: which indexes are used.
    pub state: PathBuf,
    /// The log of all signatures.
    pub log: PathBuf,
    /// Cached trees, which can be computed again.
    pub trees: PathBuf,
    /// The lock.
    pub lock: PathBuf,
    /// The progress of a key generation.
    pub part: PathBuf,
}

impl Paths {
    /// Returns the file paths of a key with this name, whether they exist or not.
    pub fn new(key: &Path) -> Self {
        let beside = |ending: &str| {
            let mut name = key.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Paths {
            key: key.to_owned(),
            state: beside(".state"),
            log: beside(".log"),
            trees: beside(".trees"),
            lock: beside(".lock"),
            part: beside(".part"),
        }
    }

    /// Returns the file paths of an existing key, with symbolic links in its name resolved.
    pub fn resolve_existing(disk: &dyn Disk, key: &Path) -> Result<Self, LedgerError> {
        Ok(Self::new(&disk.canonical(key).map_err(|error| failed(key, &error))?))
    }

    /// Returns all paths.
    pub fn all(&self) -> [&Path; 6] {
        [&self.key, &self.state, &self.log, &self.lock, &self.trees, &self.part]
    }

    /// Returns the temporary names of files that are being written. The next writer removes
    /// leftovers.
    pub fn unfinished(&self) -> [PathBuf; 3] {
        [&self.key, &self.trees, &self.part].map(|path| temporary_path(path))
    }

    /// Returns the command that makes a key usable again if its state may be outdated or it left
    /// this home.
    pub fn recovery_command(&self, lifecycle: Lifecycle) -> String {
        let key = quote(&self.key);
        let takes_back = format!(
            "if it is to sign here again and no other copy of it is left, `gabion hbs recover {key} --burn N \
             --i-have-destroyed-every-other-copy` takes it back"
        );
        match lifecycle {
            Lifecycle::Active => format!(
                "`gabion hbs recover {key} --burn N` makes it usable again if no other copy signs; N must exceed the number \
                 of signatures made without these files"
            ),
            Lifecycle::HandingOver => format!(
                "`gabion hbs backup {key} --hand-over --out FILE` completes the backup; {takes_back}"
            ),
            Lifecycle::HandedOver => {
                format!("sign on the other host, or with a new key; {takes_back}")
            }
            Lifecycle::Retired => "generate a new key with `gabion hbs keygen`".to_owned(),
        }
    }

    /// Returns the error for a state that must not be used until it is recovered.
    pub(crate) fn unsafe_until_recovered(&self, path: &Path, reason: &str) -> LedgerError {
        unsafe_state(path, &format!("{reason}; {}", self.recovery_command(Lifecycle::Active)))
    }

    /// Returns the error for a file (usually an anchor) that forbids signing, or `None` if it does
    /// not.
    pub(crate) fn refusal_of(&self, file: &Path, verdict: Verdict) -> Option<LedgerError> {
        let reason = verdict.refusal()?;
        let way_on = self.recovery_command(verdict.lifecycle());
        Some(unsafe_state(file, &format!("{reason}; {way_on}")))
    }

    /// Rejects a key whose state records that it left.
    pub(crate) fn check_active(&self, lifecycle: Lifecycle) -> Result<(), LedgerError> {
        self.refusal_of(&self.state, Verdict::KeyLeft(lifecycle)).map_or(Ok(()), Err)
    }

    /// Fails if one of the files required for signing is missing.
    pub(crate) fn check_present(
        &self,
        disk: &dyn Disk,
        files: &[&Path],
    ) -> Result<(), LedgerError> {
        let is_lost = |path: &&&Path| {
            disk.identity(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        let Some(path) = files.iter().find(is_lost) else { return Ok(()) };
        Err(match **path == *self.state {
            true => unsafe_state(path, &format!("{IS_LOST}; {STATE_BACK}")),
            false => self.unsafe_until_recovered(path, IS_LOST),
        })
    }

    /// Returns the folder of the key.
    pub fn folder(&self) -> &Path {
        folder_of(&self.key)
    }
}

/// The message for a missing file of a key.
pub(crate) const IS_LOST: &str =
    "it is missing: the key was copied without its state, or the state was lost";
/// The state is the only record of the used indexes.
const STATE_BACK: &str = "put it back, or restore a backup of the key by `gabion hbs restore FILE --out NEW`, and burn what \
    was signed since by `gabion hbs recover NEW --burn N`";

/// Quotes a path for a shell.
fn quote(path: &Path) -> String {
    let name = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@%:,".contains(&byte);
    match !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain) {
        true => name,
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

/// Returns the folder that contains a file.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Draws the stamp of a new generation.
pub fn new_stamp(environment: &Environment) -> Result<Stamp, LedgerError> {
    let mut stamp = [0; 16];
    let drawn = environment.entropy.fill(&mut stamp);
    drawn.map_err(|error| LedgerError::Unavailable(error.to_string()))?;
    Ok(stamp)
}

/// The identity of a key or sector, which its state must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyIdentity {
    /// The public key. The sectors of a key share it.
    pub public: Vec<u8>,
    /// The indexes of the key or sector.
    pub indexes: Range<u64>,
}

impl KeyIdentity {
    /// Rejects the state of another key or sector. Call it while holding the key's lock, because
    /// the file may be replaced otherwise.
    pub(crate) fn check_state(&self, paths: &Paths, head: &Head) -> Result<(), LedgerError> {
        check_key(paths, head, &self.public)?;
        check_indexes(paths, &(head.first..head.end), &self.indexes)
    }
}

/// Rejects a state that does not belong to the key with this public key.
pub fn check_key(paths: &Paths, head: &Head, public: &[u8]) -> Result<(), LedgerError> {
    check_id(paths, &head.key, public)
}

/// Rejects the state of another key, given the key's id.
pub fn check_id(paths: &Paths, key: &KeyId, public: &[u8]) -> Result<(), LedgerError> {
    match *key == digest_of(public) {
        true => Ok(()),
        false => Err(unsafe_state(&paths.state, OTHER_KEY)),
    }
}

/// Rejects a state that belongs to another sector than the private key.
pub fn check_indexes(
    paths: &Paths,
    of_state: &Range<u64>,
    of_key: &Range<u64>,
) -> Result<(), LedgerError> {
    match of_state == of_key {
        true => Ok(()),
        false => Err(unsafe_state(&paths.state, OTHER_SECTOR)),
    }
}

const OTHER_SECTOR: &str =
    "it is the state of another sector; restore the state that was made with this key";

const OTHER_KEY: &str = "it is the state of another key; put back the one that was made with this key, or restore a backup of it \
    by `gabion hbs restore FILE --out NEW`";

/// Returns the error of a failed operation on a file.
pub fn failed(path: &Path, error: &io::Error) -> LedgerError {
    LedgerError::Unavailable(format!("{}: {error}", path.display()))
}

/// Returns the machine's id.
pub(crate) fn machine_id(machine: &dyn Machine) -> Result<[u8; 32], LedgerError> {
    machine.id().map_err(|error| {
        LedgerError::Unavailable(format!(
            "{MACHINE_ID}: {error}; it says whether the key was made on this machine: make it readable and run the command again"
        ))
    })
}

/// Returns the error for an unreadable log: without it, the used indexes are unknown.
pub(crate) fn unreadable_log(path: &Path, error: &io::Error) -> LedgerError {
    unsafe_state(
        path,
        &format!("it can't be read ({error}); make it readable and run the command again"),
    )
}

/// Returns the error for a state that must not be used.
pub fn unsafe_state(path: &Path, reason: &str) -> LedgerError {
    LedgerError::Unsafe(format!("{}: {reason}", path.display()))
}

/// Reads KEY.state.
pub fn read_state(
    disk: &dyn Disk,
    paths: &Paths,
    access: Access,
) -> Result<(Head, Slots, State), LedgerError> {
    let at = |error: io::Error| failed(&paths.state, &error);
    let damaged = || unsafe_state(&paths.state, &format!("it is damaged; {STATE_BACK}"));
    let file = disk.open(&paths.state, access).map_err(at)?;
    let mut head = vec![0; BLOCK as usize];
    read_full(&*file, &mut head, 0).map_err(at)?;
    let head = Head::decode(&head).ok_or_else(damaged)?;
    let (slots, newest) = Slots::open(file, BLOCK, STATE_MAGIC).map_err(at)?;
    let state = newest.and_then(|record| State::from_record(&record, &head.key));
    let state = state.ok_or_else(damaged)?;
    let is_sound = (head.first..=head.end).contains(&state.next);
    if is_sound { Ok((head, slots, state)) } else { Err(damaged()) }
}

/// Reads a file, which may be secret. A file longer than `most` is rejected before memory is
/// allocated, and failed allocations are errors, since another user may control the file.
pub fn read_file(disk: &dyn Disk, path: &Path, most: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = disk.open(path, Access::Read)?;
    let len = file.size()?;
    let len = usize::try_from(len).ok().filter(|_| len <= most).ok_or(ErrorKind::FileTooLarge)?;
    let mut bytes = Zeroizing::new(Vec::new());
    bytes.try_reserve_exact(len).map_err(|_| ErrorKind::OutOfMemory)?;
    bytes.resize(len, 0);
    match read_full(&*file, &mut bytes, 0)? == bytes.len() {
        true => Ok(bytes),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Chunk size for copying. The size of a log has no limit.
pub const CHUNK: usize = 256 << 10;

/// Reads a short part of a file, which may be secret.
pub fn read_range(file: &dyn DiskFile, range: &Range<u64>) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; (range.end - range.start) as usize]);
    match read_full(file, &mut bytes, range.start)? == bytes.len() {
        true => Ok(bytes),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Copies a part of a file into a new one, durably.
pub fn copy_file(
    disk: &dyn Disk,
    from: &dyn DiskFile,
    range: &Range<u64>,
    path: &Path,
    made: &mut Vec<PathBuf>,
) -> Result<(), LedgerError> {
    let at = |error: io::Error| failed(path, &error);
    let file = disk.open(path, Access::New).map_err(at)?;
    made.push(path.to_owned());
    let mut offset = range.start;
    while offset < range.end {
        let now = offset..range.end.min(offset + CHUNK as u64);
        let bytes = read_range(from, &now).map_err(at)?;
        write_all(&*file, &bytes, offset - range.start).map_err(at)?;
        offset = now.end;
    }
    file.sync().map_err(at)?;
    let folder = folder_of(path);
    disk.sync_folder(folder).map_err(|error| failed(folder, &error))
}

/// Returns the temporary path of a file while it is written.
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    PathBuf::from(new)
}

/// Writes a file durably and atomically. Replaces an existing file if `replaces` is true, and fails
/// otherwise. Readers see the old content or the complete new content.
pub fn write_file(disk: &dyn Disk, path: &Path, bytes: &[u8], replaces: bool) -> io::Result<()> {
    let new = temporary_path(path);
    // A leftover of a killed process.
    let _ = disk.remove(&new);
    let written = disk.open(&new, Access::New).and_then(|file| {
        write_all(&*file, bytes, 0)?;
        file.sync()?;
        match replaces {
            true => disk.rename(&new, path),
            false => disk.rename_new(&new, path),
        }
    });
    if written.is_err() {
        let _ = disk.remove(&new);
        return written;
    }
    let synced = disk.sync_folder(folder_of(path));
    if synced.is_err() && !replaces {
        // After the error it is unknown whether the name exists on the disk.
        let _ = disk.remove(path);
    }
    synced
}

/// Rejects a file or folder on a network file system, unless the key's owner allowed it. For a
/// missing file, checks the folder above.
pub fn check_network(
    environment: &Environment,
    place: &Path,
    is_allowed: bool,
) -> Result<(), LedgerError> {
    if is_allowed {
        return Ok(());
    }
    let mut nearest = place;
    let is_network = loop {
        match (environment.disk.is_network(nearest), nearest.parent()) {
            (Err(error), Some(above)) if error.kind() == ErrorKind::NotFound => nearest = above,
            (is_network, _) => break is_network.map_err(|error| failed(nearest, &error))?,
        }
    };
    if is_network {
        let reason = "other machines see this file system or may do so (as with FUSE), and its locks and syncs may not \
            hold; keep key and anchors on a local disk, or make the key with --allow-nfs";
        return Err(unsafe_state(nearest, reason));
    }
    Ok(())
}

/// Checks all existing files of a key with [`check_network`]: each may be a symbolic link to
/// another file system.
pub fn check_places(
    environment: &Environment,
    paths: &Paths,
    is_allowed: bool,
) -> Result<(), LedgerError> {
    let places = [paths.folder(), &paths.state, &paths.log, &paths.lock];
    places.into_iter().try_for_each(|place| check_network(environment, place, is_allowed))
}

/// Returns the anchor names for the head: absolute paths, or the empty string for the default
/// place.
pub fn anchor_names(anchors: &[PathBuf]) -> Result<Vec<String>, LedgerError> {
    if anchors.is_empty() {
        return Ok(vec![String::new()]);
    }
    let name = |anchor: &PathBuf| {
        let absolute = std::path::absolute(anchor).map_err(|error| failed(anchor, &error))?;
        let name = absolute.to_str().filter(|name| !name.contains('\n'));
        let name = name.ok_or_else(|| failed(anchor, &ErrorKind::InvalidFilename.into()))?;
        Ok(name.to_owned())
    };
    anchors.iter().map(name).collect()
}

/// Returns the paths of a key's anchors, including the default one.
pub fn anchor_paths(
    machine: &dyn Machine,
    names: &[String],
    key: &KeyId,
    first: u64,
) -> Result<Vec<PathBuf>, LedgerError> {
    let place = |name: &String| match (name.is_empty(), machine.anchors()) {
        (false, _) => Ok(PathBuf::from(name)),
        (true, Some(anchors)) => Ok(default_path(&anchors, key, first)),
        (true, None) => Err(LedgerError::Unsafe(NO_HOME.to_owned())),
    };
    names.iter().map(place).collect()
}

const NO_HOME: &str =
    "no home folder is known for its anchor; set HOME or XDG_STATE_HOME, or name an anchor file";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        for (name, typed) in [
            ("/keys/k-1.prv", "/keys/k-1.prv"),
            ("my key", "'my key'"),
            ("it's", r"'it'\''s'"),
            ("-k", "'-k'"),
            ("$k", "'$k'"),
            ("", "''"),
        ] {
            assert_eq!(quote(Path::new(name)), typed);
        }
    }
}
