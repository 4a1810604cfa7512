//! What is done to a key's files besides signing: made, looked at, recovered.

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

/// A key that is to have a state.
pub struct NewKey<'a> {
    /// The file of the private key. None of this name may be there.
    pub key: &'a Path,
    /// What it is to hold; it never changes.
    pub secret: &'a [u8],
    /// The public key.
    pub public: &'a [u8],
    /// The first index that is this state's.
    pub first: u64,
    /// The first index to hand out: those from `first` on were used elsewhere.
    pub next: u64,
    /// One more than the last.
    pub end: u64,
    /// Remaining signatures at which to warn.
    pub warn_at: u64,
    /// Files of anchors; the default one if there is none.
    pub anchors: &'a [PathBuf],
    /// Whether a file system of the network will do.
    pub allow_network: bool,
    /// What the log begins with.
    pub note: &'a str,
}

/// Makes the files of a key and its anchors, durably; the private key comes last, so that a key without a state is
/// never there. What a process left that was killed meanwhile is removed first: its lock says that it was at it.
///
/// # Errors
/// If one of them is there already, or can't be written. Then what was made is removed.
pub fn create(environment: &Environment, new: &NewKey<'_>) -> Result<(), LedgerError> {
    create_with(environment, new, None)
}

/// The same of a key whose progress was written down, which ends before there is a private key.
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
        // Last, so that a private key without a state is never there, and whole.
        let written = write_file(&*environment.disk, &paths.key, new.secret, false);
        written.map_err(|error| failed(&paths.key, &error))?;
        made.push(paths.key.clone());
        Ok(())
    })
}

/// Looks whether a key of this name can be made, for whoever has long work to do before: its folder, its anchors, and
/// that both can be written to. It removes what [`create`] left where it was killed. What [`crate::ResumableKey`] left
/// stands in nobody's way who goes on with it.
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
        // The default one's name is the key's, which is not known yet.
        let anchors = anchor_paths(&*environment.machine, &named, &[0; 32], 0)?;
        check_anchors(environment, &paths, &anchors, allow_network)?;
        for anchor in anchors {
            FileAnchor::probe(disk, &anchor).map_err(|error| failed(&anchor, &error))?;
        }
        // That the folder takes files a lock shows, which is made and removed.
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

/// Removes a key that was made just now, and that nobody has heard of: one of several that were to be made together, or
/// one whose public key found no place. A key that somebody signed with, or signs with, stays.
pub fn discard(environment: &Environment, key: &Path) {
    let (disk, paths) = (&*environment.disk, Paths::new(key));
    let Ok(LockAttempt::Acquired(lock)) = Lock::try_take(disk, &paths.lock) else { return };
    let state = read_state(disk, &paths, Access::Read).ok();
    if let Some((head, _, state)) = state.filter(|(_, _, state)| state.generation == 1) {
        // The private key goes first: what is left of it then signs nothing.
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

/// Makes files of a key under its lock: all, or none of those that are put into the list.
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
        // Under the lock, so that no name is somebody else's by now; the lock's own goes last.
        for path in made.iter().rev() {
            // What is left has no key, and says so.
            let _ = disk.remove(path);
        }
    }
    lock.release();
    filled
}

/// The lock of a key of which no file is there.
fn new_lock(disk: &dyn Disk, paths: &Paths) -> Result<Lock, LedgerError> {
    check_absent(disk, paths)?;
    Lock::create(disk, &paths.lock).map_err(|error| failed(&paths.lock, &error))
}

/// Refuses a key of which a file is there, but for one that is being made.
fn check_absent(disk: &dyn Disk, paths: &Paths) -> Result<(), LedgerError> {
    let others = paths.all().into_iter().filter(|path| *path != paths.part);
    match others.into_iter().find(|path| disk.identity(path).is_ok()) {
        Some(path) => Err(failed(path, &ErrorKind::AlreadyExists.into())),
        None => Ok(()),
    }
}

/// Refuses the name of a key that somebody began to make.
pub(crate) fn check_no_part(disk: &dyn Disk, paths: &Paths) -> Result<(), LedgerError> {
    match disk.identity(&paths.part) {
        Ok(_) => Err(LedgerError::Place(format!("{}: {PART_IS_THERE}", paths.part.display()))),
        Err(_) => Ok(()),
    }
}

const PART_IS_THERE: &str =
    "a key of this name was begun; go on with it by `gabion hbs keygen`, or remove the file";

/// Removes the files of a key that was never finished. The lock is the first of them that is made, and says so until
/// the private key is there. A state that anybody went on from stays, whatever its lock says.
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

/// The same, where the lock is held and nobody else can make or remove one of these files.
fn remove_under(lock: &Lock, environment: &Environment, paths: &Paths) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let is_there = |path: &Path| disk.identity(path).is_ok();
    let is_alone = !is_there(&paths.state) && !is_there(&paths.log);
    let work = lock.unfinished();
    // It may have been finished since somebody looked.
    if is_there(&paths.key) || work.is_none() && !is_alone {
        return Ok(());
    }
    let files = [&paths.state, &paths.log, &paths.lock];
    // The state of a backup was gone on from: its anchors are not this process's to remove.
    let state = read_state(disk, paths, Access::Read).ok();
    if let Some((head, _, state)) = state.filter(|_| work != Some(Work::Restore)) {
        if state.generation > 1 {
            return Ok(());
        }
        for path in anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)? {
            let mut anchor = FileAnchor::new(Arc::clone(&environment.disk), path.clone());
            let is_own = anchor.read().is_ok_and(|mark| mark == Some(state.mark(&head.key)));
            if is_own || anchor.is_blank() {
                // Before the state that knows it.
                disk.remove(&path).map_err(|error| failed(&path, &error))?;
                let folder = folder_of(&path);
                disk.sync_folder(folder).map_err(|error| failed(folder, &error))?;
            }
        }
    }
    // The lock goes last, so that whoever is killed here leaves what can be removed.
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

/// Refuses an anchor that is there or is named twice, that other machines see, or that whoever copies or restores the key's
/// folder does so with it, by whatever name.
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
            // A folder may have several names without links, where it is mounted twice.
            if disk.identity(above).map_err(at)? == folder {
                let reason = "an anchor in its key's folder, or below, is copied and restored with it; name another \
                    folder, or give the key one of its own";
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

const ANCHOR_IS_THERE: &str = "there is an anchor already: the key was made or imported before, and signs with that; go on with the key that was made then";

/// Resolves a path that may not exist yet into the name without links of the nearest folder that is, and the rest, from its end.
fn resolve(disk: &dyn Disk, path: &Path) -> io::Result<(PathBuf, Vec<OsString>)> {
    let (mut nearest, mut rest) = (path, Vec::new());
    loop {
        match disk.canonical(nearest) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // What is behind `..` of a folder that is not there, nobody knows.
                let name = nearest.file_name().ok_or(ErrorKind::InvalidFilename)?;
                rest.push(name.to_owned());
                nearest = nearest.parent().ok_or(error)?;
            }
            found => return Ok((found?, rest)),
        }
    }
}

/// Makes all files but the private key.
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
    // An anchor that outlives a power cut is known by its state: the same key may be gone on with.
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

/// What a key's files say.
#[derive(Clone, Debug)]
pub struct Status {
    /// The key: SHA-256 of its public key.
    pub key: KeyId,
    /// The next index.
    pub index: u64,
    /// What is left.
    pub remaining: Remaining,
    /// How many indexes were used elsewhere before the key was imported, or left out then.
    pub imported: u64,
    /// The state's generation.
    pub generation: u64,
    /// Each anchor, and why it forbids signing, where it does.
    pub anchors: Vec<(String, Option<String>)>,
    /// Who signs with it at the moment.
    pub holder: Option<String>,
    /// Whether the key left one of its anchors: handed over or retired.
    pub lifecycle: Lifecycle,
    /// Another reason that forbids signing.
    pub refusal: Option<String>,
    /// What its owner should know besides.
    pub warnings: Vec<String>,
}

impl Status {
    /// Refuses what was found beside the private key in the file `key`, whose public key is `public`, where it is another
    /// key's.
    ///
    /// # Errors
    /// [`LedgerError::Unsafe`].
    pub fn check_key(&self, key: &Path, public: &[u8]) -> Result<(), LedgerError> {
        check_id(&Paths::new(key), &self.key, public)
    }
}

/// How often a state is looked at anew that changed while its witnesses were.
const LOOKS_MAX: usize = 100;

/// Looks at a key, and changes nothing. Who signs meanwhile may make it out of date.
///
/// # Errors
/// If its files can't be read.
pub fn status(environment: &Environment, key: &Path) -> Result<Status, LedgerError> {
    let disk = &*environment.disk;
    let paths = Paths::resolve_existing(disk, key)?;
    paths.check_present(disk, &[&paths.state])?;
    let holder = match lock::current_holder(disk, &paths.lock) {
        // That is a refusal.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        holder => holder.map_err(|error| failed(&paths.lock, &error))?,
    };
    let mut looks = 0;
    loop {
        let (head, _, state) = read_state(disk, &paths, Access::Read)?;
        let seen = status_of(environment, &paths, &head, &state, holder.clone())?;
        // Log and anchors may be newer than the state that was read before them.
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
    // What `recover` alone does not undo comes first.
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

/// Why a key that left does not sign, by the file that says so.
fn departure_reason(file: &Path, lifecycle: Lifecycle) -> Option<String> {
    let reason = Verdict::KeyLeft(lifecycle).refusal()?;
    Some(format!("{}: {reason}", file.display()))
}

/// What the owner should know of a key all of whose anchors are on its own file system.
fn same_disk_warning(
    disk: &dyn Disk,
    paths: &Paths,
    anchors: &[(String, Option<String>)],
) -> Option<String> {
    let device = |path: &Path| disk.identity(path).ok().map(|identity| identity.0);
    let of_key = device(&paths.state)?;
    let is_beside = |(name, _): &(String, _)| device(Path::new(name)) == Some(of_key);
    anchors.iter().all(is_beside).then(|| {
        "every anchor is on the file system of the key: a snapshot that is reverted or an image brings both back, and an index \
         could sign twice; keep one on another disk or volume (--anchor of keygen)"
            .to_owned()
    })
}

/// What the owner should know of a key that no machine's name is bound to.
fn missing_machine_warning(state: &State) -> Option<String> {
    (state.machine == NO_MACHINE).then(|| {
        format!(
            "no machine id binds the key ({MACHINE_ID} is missing or empty, as in most containers): only its anchors tell the \
             key from a copy on another machine"
        )
    })
}

/// Every file of a key, and its anchors, whether they are there or not: what nobody else may write to.
///
/// # Errors
/// If there is no such key.
pub fn files(environment: &Environment, key: &Path) -> Result<Vec<PathBuf>, LedgerError> {
    let paths = Paths::resolve_existing(&*environment.disk, key)?;
    let mut files: Vec<PathBuf> = paths.all().map(Path::to_owned).into();
    // They are removed by whoever writes them next.
    files.extend(paths.unfinished());
    // Without a state nobody knows the anchors, and nobody signs.
    if let Ok((head, ..)) = read_state(&*environment.disk, &paths, Access::Read) {
        let anchors = anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first);
        files.extend(anchors.unwrap_or_default());
    }
    Ok(files)
}

/// Goes on with a key whose state is not safe: burns every index that a witness saw, and `burn` more, and makes the
/// anchors that are missing. Witnesses are the state, the log and the anchors that are here. That none above was
/// handed out elsewhere is for the caller to know. Only the anchors that are raised or made here are witnesses afterwards:
/// the key and its copies are refused wherever another anchor holds an earlier generation. Interrupted between the state
/// and the anchors, it has to be run once more.
///
/// Of a log that is damaged, or older than the state, a copy stays beside it; in place of one that is lost a new one begins.
/// A warning says so. A lock that is lost is made again.
///
/// # Errors
/// [`LedgerError::Exhausted`] if there are not so many; [`LedgerError::Unsafe`] if the state is of another key or sector, or
/// the key was handed over or retired here;
/// if somebody signs; if the files can't be read or written.
pub fn recover(
    environment: &Environment,
    key: &Path,
    identity: &KeyIdentity,
    burn: u64,
) -> Result<Status, LedgerError> {
    recover_with(environment, key, identity, &Recovery { burn, takes_back: false })
}

/// Recovers a key that was handed over from here, as [`recover`] does: the hand-over was given up, or the key was handed back.
/// The caller states that no other copy of the key is left, and `burn` covers what was signed since with one. A key that was
/// retired here stays so.
///
/// # Errors
/// As [`recover`].
pub fn take_back(
    environment: &Environment,
    key: &Path,
    identity: &KeyIdentity,
    burn: u64,
) -> Result<Status, LedgerError> {
    recover_with(environment, key, identity, &Recovery { burn, takes_back: true })
}

/// What the caller of a recovery states.
struct Recovery {
    /// Indexes to burn.
    burn: u64,
    /// Whether a key that was handed over signs here again.
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
        // A refusal changes nothing.
        let _ = disk.remove(&paths.lock);
    }
    anchors.iter_mut().for_each(|(_, anchor, _): &mut Witness| anchor.release());
    lock.release();
    let warnings = recovered?;
    let seen = status(environment, key)?;
    Ok(Status { warnings: [warnings, seen.warnings].concat(), ..seen })
}

/// Takes the lock, or makes it again if it is lost; whether it was.
pub(crate) fn take_or_make_lock(
    disk: &dyn Disk,
    paths: &Paths,
) -> Result<(Lock, bool), LedgerError> {
    let at_lock = |error: io::Error| failed(&paths.lock, &error);
    match Lock::try_take(disk, &paths.lock) {
        Ok(LockAttempt::Busy(holder)) => Err(LedgerError::Held(holder)),
        Ok(LockAttempt::Acquired(lock)) => Ok((lock, false)),
        // Who still has the old one holds the anchors, and finds that it is not in its place.
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
        // An anchor that can't be made is noticed before the state changes, which no other anchor agrees with then.
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

/// Writes a note behind what is whole of a log, or begins a new one where it is lost; what its owner should know of that.
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
            "the log is damaged or older than the state, and its first {} signatures are all that is known of it; \
             request ids behind them may be given again. A copy is {}",
            log.signature_count(),
            keep_log(disk, paths)?.display()
        )),
        None => Some(
            "the log is lost, and a new one begins: nothing is known of what was signed, and every request id may be \
             given again"
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
        // Where this is interrupted, a log is there that the state does not know: it is recovered once more.
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

/// Copies a log beside itself, under the first name that is free: what is behind a damage is written over.
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
            // A part of a copy helps nobody.
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

    /// Up to version 18f74786 a recovered state named the generation before it, so an anchor in another home that
    /// held that one was taken for one that a crash had left behind.
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
        // What a crash leaves between the state and the anchor is gone on from, as ever.
        std::fs::write(&anchor, witnessed).unwrap();
        open(&other).unwrap();
    }
}
