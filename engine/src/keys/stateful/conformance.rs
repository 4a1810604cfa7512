//! A conformance test for ledgers, independent of how they store their state.
//!
//! Tests of a ledger call [`check`] with a way to create keys. The effects of crashes, restored
//! copies and second machines depend on the storage, so each ledger needs separate tests for them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{
    Entry, IndexedSigner, Indexes, Ledger, LedgerError, Request, Reservation, digest_of,
    sign_requests,
};
use crate::error::Error;

/// One key's state, which can be opened, closed by dropping the ledger, and opened again.
pub trait Bench: Send + Sync {
    /// Opens the ledger. A second handle shares the state of an open one, or is rejected with
    /// [`LedgerError::Held`].
    ///
    /// # Errors
    /// Those of the ledger.
    fn open(&self) -> Result<Box<dyn Ledger>, LedgerError>;
}

/// Makes the state of a new key of so many indexes.
pub type Make<'a> = dyn FnMut(u64) -> Result<Box<dyn Bench>, LedgerError> + 'a;

/// Holds a ledger to its contract.
///
/// # Errors
/// The rule that it breaks.
pub fn check(make: &mut Make<'_>) -> Result<(), String> {
    indexes_come_once_and_in_order(&*fresh(make, 8)?)?;
    more_than_is_left_changes_nothing(&*fresh(make, 8)?)?;
    exhaustion_is_final_on_every_thread(&*fresh(make, 64)?)?;
    a_tail_that_is_given_back_is_not_used_twice(&*fresh(make, 16)?)?;
    a_dropped_reservation_is_not_handed_out_again(&*fresh(make, 16)?)?;
    it_goes_on_where_it_was_closed(&*fresh(make, 32)?)?;
    two_handles_share_one_state(&*fresh(make, 32)?)?;
    request_ids_bind_to_digests(&*fresh(make, 16)?)?;
    request_ids_survive_closing(&*fresh(make, 16)?)?;
    racing_requests_get_one_signature(&*fresh(make, 64)?)?;
    a_failed_signature_uses_its_index_up(&*fresh(make, 8)?)
}

fn fresh(make: &mut Make<'_>, capacity: u64) -> Result<Box<dyn Bench>, String> {
    make(capacity).map_err(|error| format!("a new key of {capacity} indexes: {error}"))
}

fn opened(bench: &dyn Bench) -> Result<Box<dyn Ledger>, String> {
    bench.open().map_err(|error| format!("opening: {error}"))
}

fn reserved(ledger: &dyn Ledger, count: u64) -> Result<Reservation, String> {
    ledger.reserve(count).map_err(|error| format!("reserving {count}: {error}"))
}

fn taken(reservation: &mut Reservation, count: u64) -> Result<u64, String> {
    reservation
        .take(count)
        .map(|indexes| indexes.first())
        .map_err(|error| format!("taking {count}: {error}"))
}

fn left(ledger: &dyn Ledger) -> Result<u64, String> {
    ledger
        .remaining()
        .map(|remaining| remaining.left)
        .map_err(|error| format!("remaining: {error}"))
}

fn expect<T: PartialEq + std::fmt::Debug>(rule: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{rule}: got {got:?}, expected {wanted:?}")) }
}

fn indexes_come_once_and_in_order(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    expect("all are left in a new key", left(&*ledger)?, 8)?;
    let mut first = reserved(&*ledger, 1)?;
    let mut rest = reserved(&*ledger, 7)?;
    expect("the first index", taken(&mut first, 1)?, 0)?;
    expect("the next reservation's", taken(&mut rest, 2)?, 1)?;
    expect("one after two", taken(&mut rest, 1)?, 3)?;
    expect("what is left of it", rest.left(), 4)?;
    let too_many = rest.take(5).err();
    let wanted = LedgerError::Exhausted { wanted: 5, left: 4 };
    expect("more than a reservation holds", too_many, Some(wanted))?;
    expect("the last ones", taken(&mut rest, 4)?, 4)?;
    expect("none is left", left(&*ledger)?, 0)
}

/// Defect 9 of others: a reservation that is too large was reduced to the rest.
fn more_than_is_left_changes_nothing(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    let _held = reserved(&*ledger, 3)?;
    for count in [6, 9, u64::MAX] {
        let refused = ledger.reserve(count).err();
        let wanted = LedgerError::Exhausted { wanted: count, left: 5 };
        expect("more than is left", refused, Some(wanted))?;
        expect("what is left after a refusal", left(&*ledger)?, 5)?;
    }
    expect("the next index", taken(&mut reserved(&*ledger, 5)?, 1)?, 3)
}

/// Defect 11 of others: signing after the end, again and again, from many threads.
fn exhaustion_is_final_on_every_thread(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    let seen = Mutex::new(Vec::new());
    let others = Mutex::new(Vec::new());
    let push = |list: &Mutex<Vec<String>>, text: String| {
        list.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text);
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..32 {
                    match ledger.reserve(1).and_then(|mut reservation| reservation.take(1)) {
                        Ok(indexes) => push(&seen, format!("{:03}", indexes.first())),
                        Err(LedgerError::Exhausted { wanted: 1, left: 0 }) => {}
                        Err(error) => push(&others, error.to_string()),
                    }
                }
            });
        }
    });
    let all = |list: Mutex<Vec<String>>| list.into_inner().unwrap_or_default();
    expect("errors but of exhaustion", all(others), Vec::new())?;
    let mut seen = all(seen);
    seen.sort();
    let wanted: Vec<String> = (0..64).map(|index| format!("{index:03}")).collect();
    expect("indexes of four threads", seen, wanted)?;
    expect("after exhaustion", left(&*ledger)?, 0)
}

fn a_tail_that_is_given_back_is_not_used_twice(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    let mut early = reserved(&*ledger, 4)?;
    expect("the first of four", taken(&mut early, 1)?, 0)?;
    let mut late = reserved(&*ledger, 4)?;
    // Something was reserved behind it: its tail may be lost, and may come again, but once.
    early.close();
    let mut seen = vec![0, taken(&mut late, 1)?];
    late.close();
    while let Ok(mut reservation) = ledger.reserve(1) {
        seen.push(taken(&mut reservation, 1)?);
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    expect("different indexes", seen.len(), count)
}

fn a_dropped_reservation_is_not_handed_out_again(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    let mut dropped = reserved(&*ledger, 4)?;
    expect("the first of four", taken(&mut dropped, 2)?, 0)?;
    drop(dropped);
    let next = taken(&mut reserved(&*ledger, 1)?, 1)?;
    if next >= 2 { Ok(()) } else { Err(format!("index {next} was taken before")) }
}

fn it_goes_on_where_it_was_closed(bench: &dyn Bench) -> Result<(), String> {
    let mut last = None;
    for _ in 0..4 {
        let ledger = opened(bench)?;
        let mut reservation = reserved(&*ledger, 3)?;
        let index = taken(&mut reservation, 1)?;
        if last.is_some_and(|last| index <= last) {
            return Err(format!("index {index} after {last:?}"));
        }
        last = Some(index);
        reservation.close();
    }
    Ok(())
}

/// Defect 11 of others: the same key, loaded twice in a process.
fn two_handles_share_one_state(bench: &dyn Bench) -> Result<(), String> {
    let one = opened(bench)?;
    let two = match bench.open() {
        Err(LedgerError::Held(_)) => return Ok(()),
        two => two.map_err(|error| format!("a second handle: {error}"))?,
    };
    let mut seen = Vec::new();
    for ledger in [&one, &two, &one, &two] {
        let mut reservation = reserved(&**ledger, 2)?;
        seen.push(taken(&mut reservation, 1)?);
        seen.push(taken(&mut reservation, 1)?);
    }
    seen.sort_unstable();
    seen.dedup();
    expect("indexes by two handles", seen.len(), 8)?;
    expect("what both see", left(&*one)?, left(&*two)?)
}

/// A signature that contains its message and index.
struct Echo {
    fails: bool,
}

impl IndexedSigner for Echo {
    fn sign_indexed(
        &mut self,
        indexes: Indexes,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        if self.fails {
            return Err(Error::NoMemory("a signature"));
        }
        Ok((indexes.first()..)
            .zip(messages)
            .map(|(index, message)| [&index.to_be_bytes()[..], message].concat())
            .collect())
    }
}

/// Signs one message; its index and signature.
fn signed(ledger: &dyn Ledger, id: Option<&str>, message: &[u8]) -> Result<(u64, Vec<u8>), Error> {
    let signed = sign_requests(ledger, &mut Echo { fails: false }, &[Request { message, id }])?;
    signed.into_iter().next().map(|signed| (signed.index, signed.signature)).ok_or(Error::Lost)
}

fn request_ids_bind_to_digests(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    let first = signed(&*ledger, Some("a"), b"one").map_err(|error| error.to_string())?;
    let before = left(&*ledger)?;
    expect("the same id and message", signed(&*ledger, Some("a"), b"one"), Ok(first.clone()))?;
    let conflict = Err(Error::Ledger(LedgerError::RequestConflict("a".to_owned())));
    expect("the same id, another message", signed(&*ledger, Some("a"), b"two"), conflict)?;
    expect("indexes that both used", before - left(&*ledger)?, 0)?;
    let again = Entry { index: 9, digest: digest_of(b"x"), request: Some("a"), signature: b"x" };
    let known = Err(LedgerError::RequestKnown("a".to_owned()));
    expect("recording an id twice", ledger.record(&[again]), known)?;
    let unknown = |id| Entry { request: Some(id), ..again };
    let twice = Err(LedgerError::RequestConflict("c".to_owned()));
    expect("one id twice in a call", ledger.record(&[unknown("c"), unknown("c")]), twice)?;
    expect("an invalid id", ledger.record(&[unknown("")]), Err(LedgerError::RequestId))?;
    expect("what was refused", ledger.recall("c"), Ok(None))?;
    let recorded = ledger.recall("a").map_err(|error| error.to_string())?;
    expect("what is recorded", recorded.map(|recorded| recorded.signature), Some(first.1))?;
    let other = signed(&*ledger, Some("b"), b"one").map_err(|error| error.to_string())?;
    if other.0 == first.0 { Err("two ids share an index".to_owned()) } else { Ok(()) }
}

fn request_ids_survive_closing(bench: &dyn Bench) -> Result<(), String> {
    let first =
        signed(&*opened(bench)?, Some("kept"), b"one").map_err(|error| error.to_string())?;
    let ledger = opened(bench)?;
    expect("after opening again", signed(&*ledger, Some("kept"), b"one"), Ok(first))
}

fn racing_requests_get_one_signature(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    let results = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let signed = signed(&*ledger, Some("race"), b"one");
                let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *results.entry(format!("{signed:?}")).or_insert(0) += 1;
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    if results.len() == 1 && results.keys().all(|result| result.starts_with("Ok")) {
        return Ok(());
    }
    Err(format!("four threads with one request id got {results:?}"))
}

/// Defect 16 of others: memory runs out in the middle of signing, and it is tried again.
fn a_failed_signature_uses_its_index_up(bench: &dyn Bench) -> Result<(), String> {
    let ledger = opened(bench)?;
    let request = Request { message: b"one", id: Some("failed") };
    let failed = sign_requests(&*ledger, &mut Echo { fails: true }, &[request]);
    expect("a signer's error", failed, Err(Error::NoMemory("a signature")))?;
    let (index, _) = signed(&*ledger, Some("failed"), b"two").map_err(|error| error.to_string())?;
    expect("the index of a failed signature, again", index == 0, false)
}
