//! Operations on a key's files other than signing: create, inspect, recover.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_disk::{Access, Disk};
use gabion_engine::keys::stateful::{LedgerError, Remaining, digest_of};

use crate::anchor::{Anchor, FileAnchor, Verdict, verdict};
use crate::files::{
    Environment, IS_LOST, KeyIdentity, Paths, anchor_names, anchor_paths, check_id, check_network,
    check_places, copy_file, failed, folder_of, machine_id, new_stamp, read_state, unreadable_log,
    unsafe_state, write_file,
};
use crate::history::torn_tail_message;
use crate::lock::{self, Lock, LockAttempt, Work};
use crate::log::{End, Log, note};
use crate::machine::{MACHINE_ID, NO_MACHINE};
use crate::part::Part;
use crate::record::{Head, KeyId, Lifecycle, NO_STAMP, STATE_MAGIC, State};
use crate::slots::Slots;
use crate::witnesses::{NewestState, Witness, raise_or_make, read_anchors};

/// A new key, for which a state is created.
pub struct NewKey<'a> {
    /// The private key file; must not exist.
    pub key: &'a Path,
    /// The content of the private key file; never changes.
    pub secret: &'a [u8],
    /// The public key.
    pub public: &'a [u8],
    /// The first index of this state.
    pub first: u64,
    /// The next index to hand out: those from `first` up to it were used elsewhere.
    pub next: u64,
    /// The index after the last one.
    pub end: u64,
    /// Warn when this many signatures remain.
    pub warn_at: u64,
    /// The anchor files; empty for the default one.
    pub anchors: &'a [PathBuf],
    /// Whether a network file system is allowed.
    pub allow_network: bool,
    /// The first note in the log.
    pub note: &'a str,
}

/// Creates the files and anchors of a key, durably. The private key is written last, so that it
/// never exists without a state. Leftovers of a killed process, which its lock file identifies, are
/// removed first.
///
/// # Errors
/// If one of the files exists or cannot be written. The files created so far are then removed.
pub fn create(environment: &Environment, new: &NewKey<'_>) -> Result<(), LedgerError> {
    create_with(environment, new, None)
}

/// Creates a key whose progress was saved; the saved progress is removed before the private key is
/// written.
pub(crate) fn create_with(
    environment: &Environment,
    new: &NewKey<'_>,
    part: Option<&Part>,
) -> Result<(), LedgerError> {
    let paths = Paths::new(new.key);
    remove_unfinished(environment, &paths)?;
    if part.is_none_or(|part| !part.is_begun()) {
        check_no_part(&*environment.disk, &paths)?;
    }
    check_absent(&*environment.disk, &paths)?;
    check_network(environment, paths.folder(), new.allow_network)?;
    let head = new_head(new)?;
    let anchors = anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)?;
    check_anchors(environment, &paths, &anchors, new.allow_network)?;
    make_files(environment, &paths, Work::NewKey, |made| {
        create_all(environment, &paths, &head, new, made)?;
        part.map_or(Ok(()), Part::end)?;
        // Written last and atomically, so that a private key without a state never exists.
        let written = write_file(&*environment.disk, &paths.key, new.secret, false);
        written.map_err(|error| failed(&paths.key, &error))?;
        made.push(paths.key.clone());
        Ok(())
    })
}

/// Checks that a key with this name can be created, before expensive work starts: tests its folder,
/// its anchors, and that both are writable. Removes leftovers of a killed [`create`]. Leftovers of
/// [`crate::ResumableKey`] are accepted if the generation is being resumed.
///
/// # Errors
/// [`LedgerError::Place`] with the reason.
pub fn check_place(
    environment: &Environment,
    key: &Path,
    anchors: &[PathBuf],
    allow_network: bool,
    goes_on: bool,
) -> Result<(), LedgerError> {
    let paths = Paths::new(key);
    let disk = &*environment.disk;
    let looked = || {
        remove_unfinished(environment, &paths)?;
        if !goes_on {
            check_no_part(disk, &paths)?;
        }
        check_absent(disk, &paths)?;
        check_network(environment, paths.folder(), allow_network)?;
        let named = anchor_names(anchors)?;
        // The default anchor's name contains the key's id, which is not known yet.
        let anchors = anchor_paths(&*environment.machine, &named, &[0; 32], 0)?;
        check_anchors(environment, &paths, &anchors, allow_network)?;
        for anchor in anchors {
            FileAnchor::probe(disk, &anchor).map_err(|error| failed(&anchor, &error))?;
        }
        // Creates and removes a lock file to test that the folder is writable.
        let at_lock = |error: io::Error| failed(&paths.lock, &error);
        let lock = new_lock(disk, &paths)?;
        let tried = lock.begin(Work::NewKey).and_then(|()| disk.remove(&paths.lock));
        lock.release();
        tried.map_err(at_lock)
    };
    match looked() {
        Ok(()) => Ok(()),
        Err(LedgerError::Unsafe(reason) | LedgerError::Unavailable(reason)) => {
            Err(LedgerError::Place(reason))
        }
        Err(error) => Err(error),
    }
}

/// Removes a key that was just created and never used: one of several that had to be created
/// together, or one whose public key could not be written. A key that has signed or is in use is
/// not removed.
pub fn discard(environment: &Environment, key: &Path) {
    let (disk, paths) = (&*environment.disk, Paths::new(key));
    let Ok(LockAttempt::Acquired(lock)) = Lock::try_take(disk, &paths.lock) else { return };
    let state = read_state(disk, &paths, Access::Read).ok();
    if let Some((head, _, state)) = state.filter(|(_, _, state)| state.generation == 1) {
        // The private key is removed first, so that the remaining files cannot sign.
        let mut files = vec![paths.key, paths.trees];
        for path in anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)
            .unwrap_or_default()
        {
            let mark = FileAnchor::new(Arc::clone(&environment.disk), path.clone()).read();
            if mark.is_ok_and(|mark| mark == Some(state.mark(&head.key))) {
                files.push(path);
            }
        }
        files.extend([paths.state, paths.log, paths.lock]);
        for path in files {
            let _ = disk.remove(&path);
        }
    }
    lock.release();
}

/// Creates files of a key under its lock: all of them, or none of those that are added to the list.
pub(crate) fn make_files(
    environment: &Environment,
    paths: &Paths,
    work: Work,
    fill: impl FnOnce(&mut Vec<PathBuf>) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let at_lock = |error: io::Error| failed(&paths.lock, &error);
    let lock = new_lock(disk, paths)?;
    let mut made = vec![paths.lock.clone()];
    let filled = lock.begin(work).map_err(at_lock).and_then(|()| fill(&mut made));
    let filled = filled.and_then(|()| lock.finish().map_err(at_lock));
    if filled.is_err() {
        // Under the lock, no other process can own these names; the lock file is removed last.
        for path in made.iter().rev() {
            // Remaining files have no private key and are recognized as leftovers.
            let _ = disk.remove(path);
        }
    }
    lock.release();
    filled
}

/// Takes the lock of a key that has no files yet.
fn new_lock(disk: &dyn Disk, paths: &Paths) -> Result<Lock, LedgerError> {
    check_absent(disk, paths)?;
    Lock::create(disk, &paths.lock).map_err(|error| failed(&paths.lock, &error))
}

/// Fails if a file of the key exists, except for one that is being created.
fn check_absent(disk: &dyn Disk, paths: &Paths) -> Result<(), LedgerError> {
    let others = paths.all().into_iter().filter(|path| *path != paths.part);
    match others.into_iter().find(|path| disk.identity(path).is_ok()) {
        Some(path) => Err(failed(path, &ErrorKind::AlreadyExists.into())),
        None => Ok(()),
    }
}

/// Fails if the generation of a key with this name was started.
pub(crate) fn check_no_part(disk: &dyn Disk, paths: &Paths) -> Result<(), LedgerError> {
    match disk.identity(&paths.part) {
        Ok(_) => Err(LedgerError::Place(format!("{}: {PART_IS_THERE}", paths.part.display()))),
        Err(_) => Ok(()),
    }
}

const PART_IS_THERE: &str = "the generation of a key with this name was interrupted; resume it with `gabion hbs keygen`, or remove the file";

/// Removes the files of an unfinished key. The lock file is created first and marks the key as
/// unfinished until the private key exists. A state that was used for signing is kept in any case.
pub(crate) fn remove_unfinished(
    environment: &Environment,
    paths: &Paths,
) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let is_there = |path: &Path| disk.identity(path).is_ok();
    if is_there(&paths.key) || !is_there(&paths.lock) {
        return Ok(());
    }
    let lock = Lock::try_take(disk, &paths.lock).map_err(|error| failed(&paths.lock, &error))?;
    let LockAttempt::Acquired(lock) = lock else {
        return Err(LedgerError::Held("a process that makes it".to_owned()));
    };
    let removed = remove_under(&lock, environment, paths);
    lock.release();
    removed
}

/// Removes the files while the lock is held, so that no other process can create or remove them.
fn remove_under(lock: &Lock, environment: &Environment, paths: &Paths) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let is_there = |path: &Path| disk.identity(path).is_ok();
    let is_alone = !is_there(&paths.state) && !is_there(&paths.log);
    let work = lock.unfinished();
    // It may have been finished since the check.
    if is_there(&paths.key) || work.is_none() && !is_alone {
        return Ok(());
    }
    let files = [&paths.state, &paths.log, &paths.lock];
    // A restored backup may have been used for signing: its anchors do not belong to this process.
    let state = read_state(disk, paths, Access::Read).ok();
    if let Some((head, _, state)) = state.filter(|_| work != Some(Work::Restore)) {
        if state.generation > 1 {
            return Ok(());
        }
        for path in anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)? {
            let mut anchor = FileAnchor::new(Arc::clone(&environment.disk), path.clone());
            let is_own = anchor.read().is_ok_and(|mark| mark == Some(state.mark(&head.key)));
            if is_own || anchor.is_blank() {
                // Removed before the state that names it.
                disk.remove(&path).map_err(|error| failed(&path, &error))?;
                let folder = folder_of(&path);
                disk.sync_folder(folder).map_err(|error| failed(folder, &error))?;
            }
        }
    }
    // The lock file is removed last, so that an interrupted removal can be repeated.
    for path in files.into_iter().filter(|path| is_there(path)) {
        disk.remove(path).map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

fn new_head(new: &NewKey<'_>) -> Result<Head, LedgerError> {
    if !(new.first..new.end).contains(&new.next) {
        return Err(LedgerError::Exhausted { wanted: 1, left: 0 });
    }
    Ok(Head {
        key: digest_of(new.public),
        first: new.first,
        end: new.end,
        warn_at: new.warn_at,
        allow_network: new.allow_network,
        anchors: anchor_names(new.anchors)?,
    })
}

/// Rejects an anchor that exists, is named twice, is on a network file system, or would be copied
/// and restored together with the key's folder, under any name.
fn check_anchors(
    environment: &Environment,
    paths: &Paths,
    anchors: &[PathBuf],
    allow_network: bool,
) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let folder = disk.identity(paths.folder()).map_err(|error| failed(paths.folder(), &error))?;
    let mut seen = Vec::new();
    for anchor in anchors {
        check_network(environment, anchor, allow_network)?;
        let at = |error: io::Error| failed(anchor, &error);
        let place = resolve(disk, anchor).map_err(at)?;
        for above in place.0.ancestors() {
            // A folder mounted twice has several names without symbolic links.
            if disk.identity(above).map_err(at)? == folder {
                let reason = "an anchor in its key's folder, or below, is copied and restored with it; name another \
                    folder, or give the key a separate one";
                return Err(unsafe_state(anchor, reason));
            }
        }
        if disk.identity(anchor).is_ok() {
            return Err(unsafe_state(anchor, ANCHOR_IS_THERE));
        }
        let place = (disk.identity(&place.0).map_err(at)?, place.1);
        if seen.contains(&place) {
            let reason = "it is named twice as an anchor, and is one witness; name each once";
            return Err(unsafe_state(anchor, reason));
        }
        seen.push(place);
    }
    Ok(())
}

const ANCHOR_IS_THERE: &str =
    "the anchor already exists: the key was made or imported before; use that key";

/// Resolves a path that may not exist: returns the resolved nearest existing folder, and the
/// remaining names in reverse order.
fn resolve(disk: &dyn Disk, path: &Path) -> io::Result<(PathBuf, Vec<OsString>)> {
    let (mut nearest, mut rest) = (path, Vec::new());
    loop {
        match disk.canonical(nearest) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // The parent of a missing folder is unknown, so `..` after one cannot be resolved.
                let name = nearest.file_name().ok_or(ErrorKind::InvalidFilename)?;
                rest.push(name.to_owned());
                nearest = nearest.parent().ok_or(error)?;
            }
            found => return Ok((found?, rest)),
        }
    }
}

/// Creates all files except the private key.
fn create_all(
    environment: &Environment,
    paths: &Paths,
    head: &Head,
    new: &NewKey<'_>,
    made: &mut Vec<PathBuf>,
) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let line = note(&*environment.machine, new.note);
    let log = disk.open(&paths.log, Access::New).map_err(|error| failed(&paths.log, &error))?;
    made.push(paths.log.clone());
    let end = Log::create(log, &head.key, &line).map_err(|error| failed(&paths.log, &error))?;
    let state = State {
        generation: 1,
        stamp: new_stamp(environment)?,
        previous_stamp: NO_STAMP,
        next: new.next,
        boot: environment.machine.boot(),
        machine: machine_id(&*environment.machine)?,
        log_len: end.len,
        log_chain: end.chain,
        imported: new.next - new.first,
        lifecycle: Lifecycle::Active,
    };
    write_state(disk, paths, head, &state, made)?;
    // Synced before the anchors are created: an anchor that survives a power failure then has its
    // state, and leftovers of the key can be identified.
    disk.sync_folder(paths.folder()).map_err(|error| failed(paths.folder(), &error))?;
    for path in anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)? {
        let created = FileAnchor::create(disk, &path, &state.mark(&head.key));
        created.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => unsafe_state(&path, ANCHOR_IS_THERE),
            _ => failed(&path, &error),
        })?;
        made.push(path);
    }
    Ok(())
}

fn write_state(
    disk: &dyn Disk,
    paths: &Paths,
    head: &Head,
    state: &State,
    made: &mut Vec<PathBuf>,
) -> Result<(), LedgerError> {
    let at = |error: io::Error| failed(&paths.state, &error);
    let file = disk.open(&paths.state, Access::New).map_err(at)?;
    made.push(paths.state.clone());
    let record = state.record(&head.key);
    let slots = Slots::create(file, &head.encode()?, STATE_MAGIC, &record).map_err(at)?;
    slots.file().sync().map_err(at)
}

/// The status of a key, read from its files.
#[derive(Clone, Debug)]
pub struct Status {
    /// The id of the key: SHA-256 of its public key.
    pub key: KeyId,
    /// The next index.
    pub index: u64,
    /// The remaining signatures.
    pub remaining: Remaining,
    /// The number of indexes that were used elsewhere, or skipped, when the key was imported.
    pub imported: u64,
    /// The generation of the state.
    pub generation: u64,
    /// The anchors, each with the reason why it forbids signing, if it does.
    pub anchors: Vec<(String, Option<String>)>,
    /// The process that is signing with the key now.
    pub holder: Option<String>,
    /// Whether an anchor records that the key was handed over or retired.
    pub lifecycle: Lifecycle,
    /// Any other reason that forbids signing.
    pub refusal: Option<String>,
    /// Warnings for the key's owner.
    pub warnings: Vec<String>,
}

impl Status {
    /// Fails if the state next to the private key file `key`, whose public key is `public`, belongs
    /// to another key.
    ///
    /// # Errors
    /// [`LedgerError::Unsafe`].
    pub fn check_key(&self, key: &Path, public: &[u8]) -> Result<(), LedgerError> {
        check_id(&Paths::new(key), &self.key, public)
    }
}

/// Maximum number of attempts to read a state that changes meanwhile.
const LOOKS_MAX: usize = 100;

/// Returns the status of a key without changing anything. A concurrent signer may make it outdated.
///
/// # Errors
/// If its files cannot be read.
pub fn status(environment: &Environment, key: &Path) -> Result<Status, LedgerError> {
    let disk = &*environment.disk;
    let paths = Paths::resolve_existing(disk, key)?;
    paths.check_present(disk, &[&paths.state])?;
    let holder = match lock::current_holder(disk, &paths.lock) {
        // A missing file is reported as a refusal.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        holder => holder.map_err(|error| failed(&paths.lock, &error))?,
    };
    let mut looks = 0;
    loop {
        let (head, _, state) = read_state(disk, &paths, Access::Read)?;
        let seen = status_of(environment, &paths, &head, &state, holder.clone())?;
        // The log and anchors may be newer than the state read before them.
        let (_, _, now) = read_state(disk, &paths, Access::Read)?;
        if now == state || looks == LOOKS_MAX {
            return Ok(seen);
        }
        looks += 1;
    }
}

fn status_of(
    environment: &Environment,
    paths: &Paths,
    head: &Head,
    state: &State,
    holder: Option<String>,
) -> Result<Status, LedgerError> {
    let at = |error: io::Error| unreadable_log(&paths.log, &error);
    let log = match environment.disk.open(&paths.log, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        file => Some(Log::open(file.map_err(at)?, &head.key, End::from_state(state)).map_err(at)?),
    };
    let is_recovered = log.as_ref().is_some_and(|log| log.ends_with_recovery(state.next));
    let anchors = anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)?;
    let mut gone = (state.lifecycle, departure_reason(&paths.state, state.lifecycle));
    let anchors = anchors.into_iter().map(|path| {
        let mut anchor = FileAnchor::new(Arc::clone(&environment.disk), path);
        let refusal = match anchor.read() {
            Err(error) => Some(error.to_string()),
            Ok(None) => Some("it is missing".to_owned()),
            Ok(Some(mark)) => {
                let verdict = verdict(&mark, state, &head.key).after_recovery(is_recovered);
                if verdict.lifecycle() > gone.0 {
                    let lifecycle = verdict.lifecycle();
                    gone = (lifecycle, departure_reason(Path::new(&anchor.name()), lifecycle));
                }
                verdict.refusal().map(str::to_owned)
            }
        };
        (anchor.name(), refusal)
    });
    let anchors: Vec<_> = anchors.collect();
    let (lifecycle, left) = gone;
    // Reasons that `recover` alone cannot fix come first.
    let refusal = if left.is_some() {
        left
    } else if state.machine != machine_id(&*environment.machine)? {
        Some("it was written on another machine".to_owned())
    } else {
        let is_lost = |path: &Path| {
            let found = environment.disk.identity(path);
            found.is_err_and(|error| error.kind() == ErrorKind::NotFound).then_some(IS_LOST)
        };
        let of_log = log.as_ref().map_or(Some(IS_LOST), |log| log.refusal(head.first, state.next));
        let found = [(&paths.lock, is_lost(&paths.lock)), (&paths.log, of_log)];
        let mut reasons = found.into_iter().filter_map(|(path, reason)| Some((path, reason?)));
        reasons.next().map(|(path, reason)| format!("{}: {reason}", path.display()))
    };
    let left = head.end - state.next;
    let signed = log.as_ref().map_or(0, Log::signature_count);
    let burnt = state.burned_count(head.first, state.next, signed);
    let unread = log.as_ref().map_or(0, Log::unread_len);
    let torn =
        (unread > 0).then(|| format!("{}: {}", paths.log.display(), torn_tail_message(unread)));
    let mut warnings: Vec<String> = torn.filter(|_| refusal.is_none()).into_iter().collect();
    warnings.extend(same_disk_warning(&*environment.disk, paths, &anchors));
    warnings.extend(missing_machine_warning(state));
    Ok(Status {
        key: head.key,
        index: state.next,
        remaining: Remaining { left, burnt, is_low: left <= head.warn_at },
        imported: state.imported,
        generation: state.generation,
        anchors,
        holder,
        lifecycle,
        warnings,
        refusal,
    })
}

/// Returns why a key that left cannot sign, naming the file that records it.
fn departure_reason(file: &Path, lifecycle: Lifecycle) -> Option<String> {
    let reason = Verdict::KeyLeft(lifecycle).refusal()?;
    Some(format!("{}: {reason}", file.display()))
}

/// Returns a warning if all anchors are on the key's file system.
fn same_disk_warning(
    disk: &dyn Disk,
    paths: &Paths,
    anchors: &[(String, Option<String>)],
) -> Option<String> {
    let device = |path: &Path| disk.identity(path).ok().map(|identity| identity.0);
    let of_key = device(&paths.state)?;
    let is_beside = |(name, _): &(String, _)| device(Path::new(name)) == Some(of_key);
    anchors.iter().all(is_beside).then(|| {
        "every anchor is on the file system of the key: restoring a snapshot or an image restores both, and an index \
         could sign twice; keep an anchor on another disk or volume (`keygen --anchor`)"
            .to_owned()
    })
}

/// Returns a warning if the key is not bound to a machine id.
fn missing_machine_warning(state: &State) -> Option<String> {
    (state.machine == NO_MACHINE).then(|| {
        format!(
            "no machine id binds the key ({MACHINE_ID} is missing or empty, as in most containers): only its anchors distinguish the \
             key from a copy on another machine"
        )
    })
}

/// Returns the paths of all files and anchors of a key, whether they exist or not. No other program
/// may write to them.
///
/// # Errors
/// If the key does not exist.
pub fn files(environment: &Environment, key: &Path) -> Result<Vec<PathBuf>, LedgerError> {
    let paths = Paths::resolve_existing(&*environment.disk, key)?;
    let mut files: Vec<PathBuf> = paths.all().map(Path::to_owned).into();
    // The next writer removes these.
    files.extend(paths.unfinished());
    // Without a state, the anchors are unknown and the key cannot sign.
    if let Ok((head, ..)) = read_state(&*environment.disk, &paths, Access::Read) {
        let anchors = anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first);
        files.extend(anchors.unwrap_or_default());
    }
    Ok(files)
}

/// Recovers a key whose state is not safe: burns every index that a witness has seen, and `burn`
/// more, and creates missing anchors. The witnesses are the state, the log and the anchors present
/// here, so the next index never decreases. The caller must ensure that no higher index was used
/// elsewhere.
///
/// Afterwards only the anchors raised or created here are witnesses: the key and its copies are
/// rejected wherever another anchor holds an earlier generation. If the call is interrupted between
/// the state and the anchors, run it again.
///
/// A damaged or outdated log is copied to a new file before it is continued; a lost log is started
/// anew. Both are reported as warnings. A lost lock file is created again.
///
/// # Errors
/// - [`LedgerError::Exhausted`] if fewer than `burn` indexes are left.
/// - [`LedgerError::Unsafe`] if the state belongs to another key or sector, or the key was handed
///   over or retired here.
/// - An error if the key is in use, or its files cannot be read or written.
pub fn recover(
    environment: &Environment,
    key: &Path,
    identity: &KeyIdentity,
    burn: u64,
) -> Result<Status, LedgerError> {
    recover_with(environment, key, identity, &Recovery { burn, takes_back: false })
}

/// Recovers a key that was handed over from here, like [`recover`], because the hand-over was
/// abandoned or the key was handed back. The caller confirms that no other copy of the key exists,
/// and that `burn` covers everything signed since with one. A retired key stays retired.
///
/// # Errors
/// Fails like [`recover`].
pub fn take_back(
    environment: &Environment,
    key: &Path,
    identity: &KeyIdentity,
    burn: u64,
) -> Result<Status, LedgerError> {
    recover_with(environment, key, identity, &Recovery { burn, takes_back: true })
}

/// The statements of the caller of a recovery.
struct Recovery {
    /// The number of indexes to burn.
    burn: u64,
    /// Whether a handed-over key is taken back.
    takes_back: bool,
}

fn recover_with(
    environment: &Environment,
    key: &Path,
    identity: &KeyIdentity,
    recovery: &Recovery,
) -> Result<Status, LedgerError> {
    let (disk, paths) = (&*environment.disk, Paths::resolve_existing(&*environment.disk, key)?);
    paths.check_present(disk, &[&paths.state])?;
    let (lock, is_new) = take_or_make_lock(disk, &paths)?;
    let mut anchors = Vec::new();
    let named = match is_new {
        true => disk.sync_folder(paths.folder()).map_err(|error| failed(paths.folder(), &error)),
        false => Ok(()),
    };
    let recovered = named.and_then(|()| {
        recover_under(&lock, environment, &paths, (identity, recovery), &mut anchors)
    });
    if is_new && recovered.is_err() {
        // A refused recovery changes nothing.
        let _ = disk.remove(&paths.lock);
    }
    anchors.iter_mut().for_each(|(_, anchor, _): &mut Witness| anchor.release());
    lock.release();
    let warnings = recovered?;
    let seen = status(environment, key)?;
    Ok(Status { warnings: [warnings, seen.warnings].concat(), ..seen })
}

/// Takes the lock, creating the lock file if it is missing. Returns whether it was created.
pub(crate) fn take_or_make_lock(
    disk: &dyn Disk,
    paths: &Paths,
) -> Result<(Lock, bool), LedgerError> {
    let at_lock = |error: io::Error| failed(&paths.lock, &error);
    match Lock::try_take(disk, &paths.lock) {
        Ok(LockAttempt::Busy(holder)) => Err(LedgerError::Held(holder)),
        Ok(LockAttempt::Acquired(lock)) => Ok((lock, false)),
        // A process with the old lock file holds the anchors, and will find that its lock file was
        // replaced.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok((Lock::create(disk, &paths.lock).map_err(at_lock)?, true))
        }
        Err(error) => Err(at_lock(error)),
    }
}

fn recover_under(
    lock: &Lock,
    environment: &Environment,
    paths: &Paths,
    (identity, recovery): (&KeyIdentity, &Recovery),
    anchors: &mut Vec<Witness>,
) -> Result<Vec<String>, LedgerError> {
    let disk = &*environment.disk;
    let (head, mut slots, state) = read_state(disk, paths, Access::Write)?;
    identity.check_state(paths, &head)?;
    check_places(environment, paths, head.allow_network)?;
    let machine = machine_id(&*environment.machine)?;
    let at = |error: io::Error| failed(&paths.log, &error);
    let log = match disk.open(&paths.log, Access::Write) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        file => Some(Log::open(file.map_err(at)?, &head.key, End::from_state(&state)).map_err(at)?),
    };
    let Recovery { burn, takes_back } = *recovery;
    let places = anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)?;
    places.iter().try_for_each(|path| check_network(environment, path, head.allow_network))?;
    let NewestState { next: mut seen, generation, lifecycle } =
        read_anchors(environment, paths, (&head, &state), places, anchors, |path, lifecycle| {
            let is_stated = takes_back && lifecycle < Lifecycle::Retired;
            let refused = paths.refusal_of(path, Verdict::KeyLeft(lifecycle));
            refused.filter(|_| !is_stated).map_or(Ok(()), Err)
        })?;
    let highest = log.as_ref().and_then(Log::highest);
    seen = seen.max(highest.map_or(0, |index| index + 1));
    let left = head.end.saturating_sub(seen);
    if burn > left {
        return Err(LedgerError::Exhausted { wanted: burn, left });
    }
    let next = seen.min(head.end) + burn;
    for (path, _, is_there) in anchors.iter() {
        // An anchor that cannot be created must be noticed before the state changes, because no
        // other anchor would match the new state.
        if !is_there && disk.identity(path).is_err() {
            FileAnchor::probe(disk, path).map_err(|error| failed(path, &error))?;
        }
    }
    lock.sign(&*environment.machine);
    let generation = generation + 1;
    let taken_back = match lifecycle {
        Lifecycle::Active => "",
        _ => {
            "; it had been handed over, and is taken back by the statement that no other copy of it is left"
        }
    };
    let text = format!(
        "recovered in generation {generation}: every index below {next} is burnt{taken_back}"
    );
    let (end, warnings) = continue_log(environment, paths, (&head, state.next), log, text)?;
    let state = State {
        generation,
        stamp: new_stamp(environment)?,
        previous_stamp: NO_STAMP,
        next,
        boot: environment.machine.boot(),
        machine,
        log_len: end.len,
        log_chain: end.chain,
        imported: state.imported,
        lifecycle: Lifecycle::Active,
    };
    let record = state.record(&head.key);
    let written = slots.write(&record).and_then(|()| slots.file().sync());
    written.map_err(|error| failed(&paths.state, &error))?;
    raise_or_make(disk, anchors, &state.mark(&head.key))?;
    Ok(warnings)
}

/// Appends a note after the intact part of a log, or starts a new log if it is lost. Returns a
/// warning for the owner.
fn continue_log(
    environment: &Environment,
    paths: &Paths,
    (head, next): (&Head, u64),
    log: Option<Log>,
    mut text: String,
) -> Result<(End, Vec<String>), LedgerError> {
    let disk = &*environment.disk;
    let at = |error: io::Error| failed(&paths.log, &error);
    let what = match &log {
        Some(log) if log.damage(head.first, next).is_none() => None,
        Some(log) => Some(format!(
            "the log is damaged or older than the state; only its first {} signatures are known, and \
             later request ids may be used again. The old log was copied to {}",
            log.signature_count(),
            keep_log(disk, paths)?.display()
        )),
        None => Some(
            "the log is lost and a new one was started: earlier signatures are unknown, and every request id may be \
             used again"
                .to_owned(),
        ),
    };
    if let Some(what) = &what {
        text = format!("{text}; {what}");
    }
    let line = note(&*environment.machine, &text);
    let end = match log {
        Some(mut log) => {
            let noted = log.settle().and_then(|_| log.append(&[line])).and_then(|()| log.sync());
            noted.map_err(at)?;
            log.durable()
        }
        // If this is interrupted, the state does not know the new log, and the key must be
        // recovered again.
        None => {
            let file = disk.open(&paths.log, Access::New).map_err(at)?;
            let end = Log::create(file, &head.key, &line).map_err(at)?;
            let folder = paths.folder();
            disk.sync_folder(folder).map_err(|error| failed(folder, &error))?;
            end
        }
    };
    Ok((end, what.into_iter().collect()))
}

/// Copies a log to the first free name, because the data after the damage will be overwritten.
fn keep_log(disk: &dyn Disk, paths: &Paths) -> Result<PathBuf, LedgerError> {
    let at = |error: io::Error| failed(&paths.log, &error);
    let log = disk.open(&paths.log, Access::Read).map_err(at)?;
    let all = 0..log.size().map_err(at)?;
    let named = |number: u32| {
        let mut name = paths.log.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let is_free = |path: &PathBuf| disk.identity(path).is_err();
    let copy = (1..).map(named).find(is_free).ok_or_else(|| at(ErrorKind::AlreadyExists.into()))?;
    let mut made = Vec::new();
    let written = copy_file(disk, &*log, &all, &copy, &mut made);
    if written.is_err() {
        for path in made {
            // An incomplete copy is useless.
            let _ = disk.remove(&path);
        }
    }
    written.map(|()| copy)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gabion_disk::RealDisk;
    use gabion_engine::OsEntropy;
    use gabion_engine::keys::stateful::Ledger;

    use super::*;
    use crate::anchor;
    use crate::ledger::{FilesLedger, Options};
    use crate::testing::TestMachine;

    /// Up to version 18f74786, a recovered state referred to the generation before it. An anchor in
    /// another home with that generation therefore looked like one that a crash had left one
    /// behind.
    #[test]
    fn a_state_that_an_older_recover_wrote_opens_with_its_own_anchors_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = |name: &str| Environment {
            disk: Arc::new(RealDisk),
            machine: Arc::new(TestMachine {
                home: folder.path().join(name),
                id: Some([1; 32]),
                process: None,
            }),
            entropy: Arc::new(OsEntropy),
        };
        let (one, other, key) = (home("one"), home("other"), folder.path().join("keys/k"));
        std::fs::create_dir(folder.path().join("keys")).unwrap();
        let new = NewKey {
            key: &key,
            secret: b"secret",
            public: b"public",
            first: 0,
            next: 0,
            end: 32,
            warn_at: 0,
            anchors: &[],
            allow_network: false,
            note: "made",
        };
        create(&one, &new).unwrap();
        let (disk, paths) = (&*other.disk, Paths::new(&key));
        let (head, mut slots, state) = read_state(disk, &paths, Access::Write).unwrap();
        let file = disk.open(&paths.log, Access::Write).unwrap();
        let mut log = Log::open(file, &head.key, End::from_state(&state)).unwrap();
        log.append(&[note(&*other.machine, "recovered: every index below 3 is burnt")]).unwrap();
        log.sync().unwrap();
        let end = log.durable();
        let recovered = State {
            generation: 2,
            stamp: [9; 16],
            previous_stamp: state.stamp,
            next: 3,
            log_len: end.len,
            log_chain: end.chain,
            ..state
        };
        slots.write(&recovered.record(&head.key)).unwrap();
        let anchors = folder.path().join("other");
        let anchor = anchor::default_path(&anchors, &head.key, 0);
        FileAnchor::create(disk, &anchor, &recovered.mark(&head.key)).unwrap();

        let open = |environment| {
            let options = Options { wait: Duration::ZERO, ..Options::default() };
            FilesLedger::open(environment, &key, b"public", options)
        };
        let refused = open(&one).map(drop).unwrap_err();
        assert!(matches!(refused, LedgerError::Unsafe(_)), "{refused}");
        assert!(refused.to_string().contains("recovered since"), "{refused}");
        let seen = status(&one, &key).unwrap().anchors.remove(0);
        assert!(seen.1.unwrap().contains("recovered since"));
        assert_eq!(status(&other, &key).unwrap().anchors.remove(0).1, None);
        let witnessed = std::fs::read(&anchor).unwrap();
        let ledger = open(&other).unwrap();
        assert_eq!(ledger.reserve(1).unwrap().take(1).unwrap().first(), 3);
        drop(ledger);
        assert!(open(&one).is_err());
        // After a crash between the state and the anchor, the key remains usable.
        std::fs::write(&anchor, witnessed).unwrap();
        open(&other).unwrap();
    }
}
