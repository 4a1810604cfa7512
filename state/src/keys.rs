//! What is done to a key's files besides signing: made, looked at, recovered.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_engine::keys::stateful::{LedgerError, Remaining, digest_of};

use crate::anchor::{Anchor, FileAnchor, verdict};
use crate::disk::{Access, Disk, write_all};
use crate::files::{
    Paths, Surroundings, anchor_paths, check_network, failed, read_state, unsafe_state,
};
use crate::ledger::held_anchor;
use crate::lock::{self, Lock, Tried};
use crate::log::{Line, Log};
use crate::record::{Head, KeyId, STATE_MAGIC, State};
use crate::slots::Slots;

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
pub fn create(around: &Surroundings, new: &NewKey<'_>) -> Result<(), LedgerError> {
    let paths = Paths::of(new.key);
    check_network(around, paths.folder(), new.allow_network)?;
    let head = head_of(around, &paths, new)?;
    check_free(around, new.key)?;
    let mut made = Vec::new();
    let created = create_all(around, &paths, &head, new, &mut made);
    if created.is_err() {
        for path in made.iter().rev() {
            // What is left has no key, and says so.
            let _ = around.disk.remove(path);
        }
    }
    created
}

/// Whether a key of this name can be made, for whoever has long work to do before. It removes what [`create`] left
/// where it was killed.
///
/// # Errors
/// If there is such a key, or a file of one.
pub fn check_free(around: &Surroundings, key: &Path) -> Result<(), LedgerError> {
    let paths = Paths::of(key);
    remove_unfinished(around, &paths)?;
    for path in [&paths.key, &paths.state, &paths.log, &paths.lock, &paths.trees] {
        if around.disk.identity(path).is_ok() {
            return Err(failed(path, &ErrorKind::AlreadyExists.into()));
        }
    }
    Ok(())
}

/// Removes the files of a key that was never finished. The lock is the first of them that is made, and says so until
/// the private key is there. A state that anybody went on from stays, whatever its lock says.
fn remove_unfinished(around: &Surroundings, paths: &Paths) -> Result<(), LedgerError> {
    let disk = &*around.disk;
    let is_there = |path: &Path| disk.identity(path).is_ok();
    if is_there(&paths.key) || !is_there(&paths.lock) {
        return Ok(());
    }
    let at_lock = |error: io::Error| failed(&paths.lock, &error);
    let file = disk.open(&paths.lock, Access::Write).map_err(at_lock)?;
    let is_alone = !is_there(&paths.state) && !is_there(&paths.log);
    if !lock::is_unfinished(&*file) && !is_alone {
        return Ok(());
    }
    if !file.try_lock().map_err(at_lock)? {
        return Err(LedgerError::Held("a process that makes it".to_owned()));
    }
    let mut files = vec![paths.state.clone(), paths.log.clone(), paths.lock.clone()];
    if let Ok((head, _, state)) = read_state(disk, paths, Access::Read) {
        if state.generation > 1 {
            return Ok(());
        }
        for path in anchor_paths(&*around.machine, &head.anchors, &head.key, head.first)? {
            let mark = FileAnchor::new(Arc::clone(&around.disk), path.clone()).read();
            if mark.is_ok_and(|mark| mark == Some(state.mark(&head.key))) {
                files.insert(0, path);
            }
        }
    }
    // The lock goes last, so that whoever is killed here leaves what can be removed.
    for path in files.iter().filter(|path| is_there(path)) {
        disk.remove(path).map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

fn head_of(around: &Surroundings, paths: &Paths, new: &NewKey<'_>) -> Result<Head, LedgerError> {
    if !(new.first..new.end).contains(&new.next) {
        return Err(LedgerError::Exhausted { wanted: 1, left: 0 });
    }
    let mut anchors = Vec::new();
    for anchor in new.anchors {
        let absolute = std::path::absolute(anchor).map_err(|error| failed(anchor, &error))?;
        let folder = |path: &Path| around.disk.canonical(path).ok();
        let of_anchor = absolute.parent().and_then(folder);
        if of_anchor.is_some() && of_anchor == folder(paths.folder()) {
            let reason =
                "an anchor beside its key is copied and restored with it; name another folder";
            return Err(unsafe_state(anchor, reason));
        }
        let name = absolute.to_str().filter(|name| !name.contains('\n'));
        let name = name.ok_or_else(|| failed(anchor, &ErrorKind::InvalidFilename.into()))?;
        anchors.push(name.to_owned());
    }
    if anchors.is_empty() {
        anchors.push(String::new());
    }
    Ok(Head {
        key: digest_of(new.public),
        first: new.first,
        end: new.end,
        warn_at: new.warn_at,
        allow_network: new.allow_network,
        anchors,
    })
}

fn create_all(
    around: &Surroundings,
    paths: &Paths,
    head: &Head,
    new: &NewKey<'_>,
    made: &mut Vec<PathBuf>,
) -> Result<(), LedgerError> {
    let disk = &*around.disk;
    let at_lock = |error: io::Error| failed(&paths.lock, &error);
    let lock =
        Lock::create(disk, &paths.lock, || made.push(paths.lock.clone())).map_err(at_lock)?;
    let note = note(around, new.note);
    let log = disk.open(&paths.log, Access::New).map_err(|error| failed(&paths.log, &error))?;
    made.push(paths.log.clone());
    let end = Log::create(log, &head.key, &note).map_err(|error| failed(&paths.log, &error))?;
    let state = State {
        generation: 1,
        stamp: stamp(around)?,
        before: [0; 16],
        next: new.next,
        boot: around.machine.boot(),
        machine: around.machine.id(),
        log_len: end.len,
        log_chain: end.chain,
    };
    write_state(disk, paths, head, &state, made)?;
    for path in anchor_paths(&*around.machine, &head.anchors, &head.key, head.first)? {
        check_network(around, &path, head.allow_network)?;
        FileAnchor::create(disk, &path, &state.mark(&head.key))
            .map_err(|error| failed(&path, &error))?;
        made.push(path);
    }
    write_new(disk, &paths.key, new.secret, made)?;
    disk.sync_folder(paths.folder()).map_err(|error| failed(paths.folder(), &error))?;
    lock.finish().map_err(at_lock)
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

fn write_new(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    made: &mut Vec<PathBuf>,
) -> Result<(), LedgerError> {
    let at = |error: io::Error| failed(path, &error);
    let file = disk.open(path, Access::New).map_err(at)?;
    made.push(path.to_owned());
    write_all(&*file, bytes, 0).and_then(|()| file.sync()).map_err(at)
}

fn note(around: &Surroundings, text: &str) -> Line {
    let (time, host) = (around.machine.now(), around.machine.host());
    Line::Note { text: text.to_owned(), time, host }
}

fn stamp(around: &Surroundings) -> Result<[u8; 16], LedgerError> {
    let mut stamp = [0; 16];
    let drawn = around.entropy.fill(&mut stamp);
    drawn.map_err(|error| LedgerError::Unavailable(error.to_string()))?;
    Ok(stamp)
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
    /// The state's generation.
    pub generation: u64,
    /// Each anchor, and why it forbids signing, where it does.
    pub anchors: Vec<(String, Option<String>)>,
    /// Who signs with it at the moment.
    pub holder: Option<String>,
    /// Another reason that forbids signing.
    pub refusal: Option<String>,
}

/// Looks at a key, and changes nothing. Who signs meanwhile may make it out of date.
///
/// # Errors
/// If its files can't be read.
pub fn status(around: &Surroundings, key: &Path) -> Result<Status, LedgerError> {
    let disk = &*around.disk;
    let paths = Paths::of_existing(disk, key)?;
    let holder = lock::holder_now(disk, &paths.lock);
    let holder = holder.map_err(|error| failed(&paths.lock, &error))?;
    let (head, _, state) = read_state(disk, &paths, Access::Read)?;
    let file = disk.open(&paths.log, Access::Read).map_err(|error| failed(&paths.log, &error))?;
    let log = Log::open(file, &head.key, None).map_err(|error| failed(&paths.log, &error))?;
    let signed = log.map_or(0, |log| log.signed());
    let anchors = anchor_paths(&*around.machine, &head.anchors, &head.key, head.first)?;
    let anchors = anchors.into_iter().map(|path| {
        let mut anchor = FileAnchor::new(Arc::clone(&around.disk), path);
        let refusal = match anchor.read() {
            Err(error) => Some(error.to_string()),
            Ok(None) => Some("it is missing".to_owned()),
            Ok(Some(mark)) => verdict(&mark, &state, &head.key).refusal().map(str::to_owned),
        };
        (anchor.name(), refusal)
    });
    let left = head.end - state.next;
    let burnt = (state.next - head.first).saturating_sub(signed);
    let is_other = state.machine != around.machine.id();
    Ok(Status {
        key: head.key,
        index: state.next,
        remaining: Remaining { left, burnt, is_low: left <= head.warn_at },
        generation: state.generation,
        anchors: anchors.collect(),
        holder,
        refusal: is_other.then(|| "it was written on another machine".to_owned()),
    })
}

/// The lines of a key's log.
///
/// # Errors
/// If it can't be read.
pub fn log(around: &Surroundings, key: &Path) -> Result<Vec<Line>, LedgerError> {
    let paths = Paths::of_existing(&*around.disk, key)?;
    let (head, ..) = read_state(&*around.disk, &paths, Access::Read)?;
    let file = around.disk.open(&paths.log, Access::Read);
    let lines = file.and_then(|file| Log::lines(file, &head.key));
    lines.map_err(|error| failed(&paths.log, &error))
}

/// Goes on with a key whose state is not safe: burns every index that a witness saw, and `burn` more, and makes the
/// anchors that are missing. Witnesses are the state, the log and the anchors that are here. That none above was
/// handed out elsewhere is for the caller to know.
///
/// # Errors
/// [`LedgerError::Exhausted`] if there are not so many; if somebody signs; if the files can't be read or written.
pub fn recover(
    around: &Surroundings,
    key: &Path,
    public: &[u8],
    burn: u64,
) -> Result<Status, LedgerError> {
    let disk = &*around.disk;
    let paths = Paths::of_existing(disk, key)?;
    let lock = Lock::try_take(disk, &paths.lock).map_err(|error| failed(&paths.lock, &error))?;
    let lock = match lock {
        Tried::Busy(holder) => return Err(LedgerError::Held(holder)),
        Tried::Held(lock) => lock,
    };
    let (head, mut slots, state) = read_state(disk, &paths, Access::Write)?;
    if head.key != digest_of(public) {
        return Err(unsafe_state(&paths.state, "it is the state of another key"));
    }
    check_network(around, paths.folder(), head.allow_network)?;
    let at = |error: io::Error| failed(&paths.log, &error);
    let file = disk.open(&paths.log, Access::Write).map_err(at)?;
    let log = Log::open(file, &head.key, None).map_err(at)?;
    let mut log = log.ok_or_else(|| unsafe_state(&paths.log, "it is damaged"))?;
    let mut anchors = Vec::new();
    let (mut seen, mut generation) = (state.next, state.generation);
    for path in anchor_paths(&*around.machine, &head.anchors, &head.key, head.first)? {
        let mut anchor = FileAnchor::new(Arc::clone(&around.disk), path.clone());
        if !anchor.hold().map_err(|error| failed(&path, &error))? {
            return Err(held_anchor(&path));
        }
        let mark = anchor.read().map_err(|error| failed(&path, &error))?;
        if let Some(mark) = mark.filter(|mark| mark.key == head.key) {
            seen = seen.max(mark.next);
            generation = generation.max(mark.generation);
        }
        anchors.push((path, anchor, mark.is_some()));
    }
    seen = seen.max(log.highest().map_or(0, |index| index + 1));
    let left = head.end.saturating_sub(seen);
    if burn > left {
        return Err(LedgerError::Exhausted { wanted: burn, left });
    }
    let next = seen.min(head.end) + burn;
    lock.sign(&*around.machine);
    let text = format!("recovered: every index below {next} is burnt");
    log.append(&[note(around, &text)]).and_then(|()| log.sync()).map_err(at)?;
    let state = State {
        generation: generation + 1,
        stamp: stamp(around)?,
        before: state.stamp,
        next,
        boot: around.machine.boot(),
        machine: around.machine.id(),
        log_len: log.durable().len,
        log_chain: log.durable().chain,
    };
    let record = state.record(&head.key);
    let written = slots.write(&record).and_then(|()| slots.file().sync());
    written.map_err(|error| failed(&paths.state, &error))?;
    for (path, mut anchor, is_there) in anchors {
        let mark = state.mark(&head.key);
        let raised = match is_there || disk.identity(&path).is_ok() {
            true => anchor.raise(&mark, None),
            false => FileAnchor::create(disk, &path, &mark),
        };
        raised.map_err(|error| failed(&path, &error))?;
        anchor.release();
    }
    lock.release();
    status(around, key)
}

/// An index that signed two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// The index.
    pub index: u64,
    /// Where it was used, twice.
    pub sources: [String; 2],
}

/// Finds indexes that signed two different messages, over all that is known from wherever: `(source, index,
/// digest)`.
pub fn audit(seen: impl IntoIterator<Item = (String, u64, [u8; 32])>) -> Vec<Reuse> {
    let mut first: HashMap<u64, (String, [u8; 32])> = HashMap::new();
    let mut reused = Vec::new();
    for (source, index, digest) in seen {
        match first.get(&index) {
            None => {
                first.insert(index, (source, digest));
            }
            Some((_, before)) if *before == digest => {}
            Some((other, _)) => reused.push(Reuse { index, sources: [other.clone(), source] }),
        }
    }
    reused
}
