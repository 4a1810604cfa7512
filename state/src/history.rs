//! Reads the log of a key as evidence: if it is incomplete, that is reported.
//!
//! A log that was truncated, modified, replaced or restored does not end where the state records,
//! or not with the same hash chain. The readable lines are returned, and [`History::damage`]
//! reports that lines may be missing.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use gabion_disk::Access;
use gabion_engine::keys::stateful::LedgerError;

use crate::files::{Environment, Paths, read_state, unreadable_log};
use crate::log::{End, Line, Log};
use crate::record::Stamp;

/// Maximum number of attempts to read a log while a signer may be writing it.
const LOOKS_MAX: usize = 100;
/// Maximum time that writing a record takes.
const PAUSE: Duration = Duration::from_millis(5);

/// A key's log, and whether it was read completely.
#[derive(Clone, Debug)]
pub struct History {
    /// The readable lines; empty if they were passed to the caller of [`read_log`].
    pub lines: Vec<Line>,
    /// Length of these lines in bytes.
    pub len: u64,
    /// The hash chain value after these lines.
    pub chain: Stamp,
    /// The first index of the state.
    pub first: u64,
    /// The next index of the state: all indexes from `first` up to it are used or burnt.
    pub next: u64,
    /// Why lines may be missing; `None` if the log is complete and matches the state.
    pub damage: Option<String>,
}

/// Reads the log of a key into memory.
///
/// # Errors
/// Fails like [`read_log`].
pub fn log(environment: &Environment, key: &Path) -> Result<History, LedgerError> {
    let mut lines = Vec::new();
    let history = read_log(environment, key, |line| lines.push(line))?;
    Ok(History { lines, ..history })
}

/// Reads the log of a key and passes each readable line to `each`, one at a time, because a log
/// with request ids contains whole signatures. The log is read twice, since a signer may be writing
/// it.
///
/// # Errors
/// [`LedgerError::Unsafe`] if the log is missing or unreadable, or the state is missing or damaged;
/// [`LedgerError::Unavailable`] if the state cannot be read.
pub fn read_log(
    environment: &Environment,
    key: &Path,
    mut each: impl FnMut(Line),
) -> Result<History, LedgerError> {
    let paths = Paths::resolve_existing(&*environment.disk, key)?;
    let mut history = read_until_stable(environment, &paths)?;
    let end = End { len: history.len, chain: history.chain };
    let mut reached = end.len == 0;
    read_once(environment, &paths, |line, at| {
        if at.len <= end.len {
            each(line);
        }
        reached |= at == end;
    })?;
    if !reached {
        let changed = format!("{}: it was changed while it was read", paths.log.display());
        history.damage.get_or_insert(changed);
    }
    Ok(history)
}

/// Reads a log until it is complete, or damaged in the same way twice.
fn read_until_stable(environment: &Environment, paths: &Paths) -> Result<History, LedgerError> {
    let mut before = None;
    for _ in 0..LOOKS_MAX {
        let (history, seen) = read_once(environment, paths, |_, _| {})?;
        // A concurrent signer may have been between writing the log and the state.
        if history.damage.is_none() || before == Some(seen) {
            return Ok(history);
        }
        before = Some(seen);
        environment.machine.pause(PAUSE);
    }
    read_once(environment, paths, |_, _| {}).map(|(history, _)| history)
}

/// Reads the log once. Also returns the end positions of state, lines and file.
fn read_once(
    environment: &Environment,
    paths: &Paths,
    each: impl FnMut(Line, End),
) -> Result<(History, (u64, u64, u64)), LedgerError> {
    let disk = &*environment.disk;
    paths.check_present(disk, &[&paths.state, &paths.log])?;
    let (head, _, state) = read_state(disk, paths, Access::Read)?;
    let read = disk
        .open(&paths.log, Access::Read)
        .and_then(|file| Log::read(file, &head.key, End::from_state(&state), each));
    let log = read.map_err(|error| unreadable_log(&paths.log, &error))?;
    let End { len, chain } = log.end();
    let unread = log.unread_len();
    let damage = log.refusal(head.first, state.next).map(str::to_owned);
    let damage = damage.or_else(|| (unread > 0).then(|| torn_tail_message(unread)));
    let damage = damage.map(|reason| format!("{}: {reason}", paths.log.display()));
    let (first, next) = (head.first, state.next);
    let history = History { lines: Vec::new(), len, chain, first, next, damage };
    Ok((history, (state.generation, len, unread)))
}

/// Returns the message about unreadable bytes after the last complete line, which an interrupted
/// write may have left.
pub(crate) fn torn_tail_message(unread: u64) -> String {
    format!(
        "{unread} bytes behind its last whole line can't be read: a process was interrupted while it wrote them, or they \
         are damaged; the next signature removes them"
    )
}

/// An index that signed two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// The index.
    pub index: u64,
    /// The two sources that report it.
    pub sources: [String; 2],
}

/// Finds indexes that signed two different messages in evidence of any origin: `(source, index,
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
