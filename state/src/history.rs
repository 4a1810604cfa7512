//! What a key signed, as far as its log tells: read as evidence, which fails closed.
//!
//! A log that was cut, flipped, replaced or put back does not end where the state says it does, or not along the same
//! lines. What can be read of it counts, and [`History::damage`] says that lines may be missing.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use gabion_disk::Access;
use gabion_engine::keys::stateful::LedgerError;

use crate::files::{Environment, Paths, read_state, unreadable_log};
use crate::log::{End, Line, Log};
use crate::record::Stamp;

/// How often a log is read again that its signer may be writing to.
const LOOKS_MAX: usize = 100;
/// How long a record takes to be written, at most.
const PAUSE: Duration = Duration::from_millis(5);

/// A key's log, and whether all of its lines can be read.
#[derive(Clone, Debug)]
pub struct History {
    /// The lines that can be read; empty if they were handed to the caller of [`read_log`].
    pub lines: Vec<Line>,
    /// Bytes of these lines.
    pub len: u64,
    /// The end of their hash chain.
    pub chain: Stamp,
    /// The first index of the state.
    pub first: u64,
    /// The next index of the state: all from the first one on are used or burnt.
    pub next: u64,
    /// Why lines may be missing; `None` if the log is whole and agrees with the state.
    pub damage: Option<String>,
}

/// Reads the log of a key into memory.
///
/// # Errors
/// As [`read_log`].
pub fn log(environment: &Environment, key: &Path) -> Result<History, LedgerError> {
    let mut lines = Vec::new();
    let history = read_log(environment, key, |line| lines.push(line))?;
    Ok(History { lines, ..history })
}

/// Reads the log of a key and hands each line that can be read to `each`, one at a time: a log with request ids holds whole
/// signatures. The log is read twice, since a signer may be writing to it.
///
/// # Errors
/// [`LedgerError::Unsafe`] if the log is missing or can't be read, or the state is missing or damaged;
/// [`LedgerError::Unavailable`] if the state can't be read.
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

/// Reads a log until it is whole, or damaged in the same way twice.
fn read_until_stable(environment: &Environment, paths: &Paths) -> Result<History, LedgerError> {
    let mut before = None;
    for _ in 0..LOOKS_MAX {
        let (history, seen) = read_once(environment, paths, |_, _| {})?;
        // A signer that writes meanwhile may have been seen halfway, with a state from before.
        if history.damage.is_none() || before == Some(seen) {
            return Ok(history);
        }
        before = Some(seen);
        environment.machine.pause(PAUSE);
    }
    read_once(environment, paths, |_, _| {}).map(|(history, _)| history)
}

/// Reads the log once. Returns with it the ends of state, lines and file.
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

/// Returns the message about bytes behind the last whole line that an interrupted write may have left.
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
