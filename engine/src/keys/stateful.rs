//! Keys that signing uses up: who hands out their indexes, and in what order a signature comes to
//! be.
//!
//! ```text
//!   message, request id --Ledger::recall--> signed before: that signature, and no index
//!           | no
//!           v
//!   Ledger::reserve(n)       durable before it returns
//!           v
//!   Reservation --take(k)--> Indexes --IndexedSigner--> signatures        each index once
//!           v                                               |
//!   close(): the unused tail goes back                      v
//!                                          Ledger::record   with a request id durable before it returns
//!                                                           v
//!                                                        release
//! ```
//!
//! One index that signs two messages gives the key away. So no signer here finds an index: it is
//! handed [`Indexes`], which are no number that could be used again, and which come out of a
//! [`Reservation`] that a [`Ledger`] has made durable. The crate `gabion-state` keeps a ledger in
//! files; a key management service keeps one in its own store. [`conformance`] is what both have to
//! pass.

pub mod conformance;
pub mod hss;
mod memory;
mod signer;
pub mod xmss;

use std::collections::HashSet;
use std::ops::Range;

use gabion_scheme::prehash::Prehash;

use crate::error::Error;
use crate::forks;

pub use crate::error::{LedgerError, REQUEST_ID_MAX};
pub use memory::testing_only_ledger;
pub use signer::{Progress, Secret, StatefulKey};

/// A ledger hands out each index of a key exactly once, even if the process or the machine fails.
///
/// Handles of one key share one state. After an error, no caller holds an index.
pub trait Ledger: Send + Sync {
    /// Reserves the next `count` indexes. When it returns, no other reservation can hold one of
    /// them, not even after a crash of the machine.
    ///
    /// # Errors
    /// [`LedgerError::Exhausted`] if fewer are left, which changes nothing; and the others.
    fn reserve(&self, count: u64) -> Result<Reservation, LedgerError>;

    /// Returns the signature recorded for a request id.
    ///
    /// # Errors
    /// If the records cannot be read.
    fn recall(&self, request: &str) -> Result<Option<LedgerRecord>, LedgerError>;

    /// Records signatures before their release, all of them or none. An entry with a request id is
    /// durable when this returns; one without may be lost in a crash of the machine, and its index
    /// is used up anyway.
    ///
    /// # Errors
    /// [`LedgerError::RequestKnown`] if an id is recorded already, and those of
    /// [`check_request_ids`]. Nothing is recorded then.
    fn record(&self, entries: &[Entry<'_>]) -> Result<(), LedgerError>;

    /// Returns the remaining signatures.
    ///
    /// # Errors
    /// If the state is unknown.
    fn remaining(&self) -> Result<Remaining, LedgerError>;
}

/// The part of a ledger that a reservation needs later. It is a separate trait so that a ledger
/// decides what a reservation keeps alive.
pub trait Holder: Send {
    /// Checks that indexes may still be taken. It is called each time and must detect at least a
    /// fork, because parent and child have the same reservation in memory.
    ///
    /// # Errors
    /// [`LedgerError::Unsafe`] with the reason.
    fn check(&self) -> Result<(), LedgerError>;

    /// Returns unused indexes. A ledger that cannot reuse them leaves them unused.
    fn give_back(&mut self, unused: Range<u64>);
}

/// Indexes owned by the holder of this value. It cannot be cloned, and returns each index once.
/// Indexes left when it is dropped stay unused forever; [`Reservation::close`] returns them.
#[must_use = "reserved indexes that are dropped are lost"]
pub struct Reservation {
    next: u64,
    end: u64,
    holder: Box<dyn Holder>,
}

impl Reservation {
    /// Creates a reservation of durably reserved `indexes`. For implementations of [`Ledger`].
    pub fn new(indexes: Range<u64>, holder: Box<dyn Holder>) -> Self {
        Reservation { next: indexes.start, end: indexes.end, holder }
    }

    /// Takes the next `count` indexes.
    ///
    /// # Errors
    /// [`LedgerError::Exhausted`] if fewer are left in it; [`LedgerError::Unsafe`] if the process
    /// was forked, or its ledger has another reason.
    pub fn take(&mut self, count: u64) -> Result<Indexes, LedgerError> {
        self.holder.check()?;
        if count > self.left() {
            return Err(LedgerError::Exhausted { wanted: count, left: self.left() });
        }
        let first = self.next;
        self.next += count;
        Ok(Indexes { first, count, process: forks::token() })
    }

    /// Returns the number of indexes that have not been taken.
    pub fn left(&self) -> u64 {
        self.end - self.next
    }

    /// Ends it, and gives the unused tail back to the ledger.
    pub fn close(mut self) {
        if self.left() > 0 && self.holder.check().is_ok() {
            self.holder.give_back(self.next..self.end);
        }
    }
}

/// Consecutive indexes that were taken from a reservation, for signing with each of them once. A
/// signer takes them by value.
#[must_use = "indexes that are dropped are lost"]
#[derive(Debug)]
pub struct Indexes {
    first: u64,
    count: u64,
    /// A token that distinguishes the process that took them from its forked children.
    process: Option<u64>,
}

impl Indexes {
    /// Returns the first index.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of indexes.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Refuses a process that was forked since they were taken: parent and child have them in
    /// memory. A signer asks before it signs.
    ///
    /// # Errors
    /// [`LedgerError::Unsafe`].
    pub fn check_process(&self) -> Result<(), LedgerError> {
        match self.process == forks::token() {
            true => Ok(()),
            false => Err(LedgerError::Unsafe(FORKED.to_owned())),
        }
    }
}

const FORKED: &str =
    "the process was forked since its indexes were taken; open the key in the process that signs";

/// A private key that signs with indexes that are handed to it.
pub trait IndexedSigner {
    /// Checks that it can sign now. It is called before an index is reserved, so that no index is
    /// lost to a foreseeable failure.
    ///
    /// # Errors
    /// Why not; as [`IndexedSigner::sign_indexed`].
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Signs each message with a new index, in order; there must be as many messages as indexes.
    ///
    /// # Errors
    /// Those of the algorithm. The indexes are used up even then.
    fn sign_indexed(&mut self, indexes: Indexes, messages: &[&[u8]])
    -> Result<Vec<Vec<u8>>, Error>;
}

/// The number of signatures that a key has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// Indexes that were never reserved.
    pub left: u64,
    /// Indexes that were reserved and lost, mostly by crashes. An upper bound: signatures whose log
    /// entry was lost in a crash are included.
    pub burnt: u64,
    /// The key should be replaced: fewer are left than its owner wants to be warned at.
    pub is_low: bool,
}

/// The record that a ledger stores before a signature is released.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The index.
    pub index: u64,
    /// SHA-256 of the message.
    pub digest: [u8; 32],
    /// The request id, where there is one.
    pub request: Option<&'a str>,
    /// The signature; kept where there is a request id.
    pub signature: &'a [u8],
}

/// The signature that a ledger recorded under a request id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRecord {
    /// The index.
    pub index: u64,
    /// SHA-256 of the message.
    pub digest: [u8; 32],
    /// The signature.
    pub signature: Vec<u8>,
}

/// A message to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The message to sign.
    pub message: &'a [u8],
    /// Names the request: asked again, it gets the same signature, and another message under it is
    /// refused.
    pub id: Option<&'a str>,
}

/// A signature that is recorded and may be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedSignature {
    /// The index of the signature.
    pub index: u64,
    /// The signature.
    pub signature: Vec<u8>,
    /// Whether it was made before, for the same request id. Then no index was used.
    pub is_repeated: bool,
}

/// Signs requests with the indexes of a ledger. All of them share one reservation, and signatures
/// are returned only after they are recorded.
///
/// # Errors
/// Those of [`Ledger`] and [`IndexedSigner`]. No signature is released then, and the indexes that
/// were taken are lost.
pub fn sign_requests(
    ledger: &dyn Ledger,
    signer: &mut dyn IndexedSigner,
    requests: &[Request<'_>],
) -> Result<Vec<ReleasedSignature>, Error> {
    check_request_ids(requests.iter().filter_map(|request| request.id))?;
    loop {
        let (mut signed, fresh) = recall_all(ledger, requests)?;
        match sign_fresh(ledger, signer, &fresh) {
            // Another thread has signed for one of the ids meanwhile. The signatures made here are
            // not released.
            Err(Error::Ledger(LedgerError::RequestKnown(_))) => {}
            Err(error) => return Err(error),
            Ok(made) => {
                let mut made = made.into_iter();
                for hole in signed.iter_mut().filter(|signed| signed.is_none()) {
                    *hole = made.next();
                }
                return Ok(signed.into_iter().flatten().collect());
            }
        }
    }
}

/// A request that needs an index.
struct Fresh<'a> {
    request: Request<'a>,
    digest: [u8; 32],
}

/// Rejects malformed ids, and ids that appear twice in a call.
///
/// # Errors
/// [`LedgerError::RequestId`]; [`LedgerError::RequestConflict`].
pub fn check_request_ids<'a>(ids: impl Iterator<Item = &'a str>) -> Result<(), LedgerError> {
    let mut seen = HashSet::new();
    for id in ids {
        check_request_id(id)?;
        if !seen.insert(id) {
            return Err(LedgerError::RequestConflict(id.to_owned()));
        }
    }
    Ok(())
}

/// Refuses a request id that is too long for a log, or that a terminal would obey.
///
/// # Errors
/// [`LedgerError::RequestId`].
pub fn check_request_id(id: &str) -> Result<(), LedgerError> {
    let is_one = (1..=REQUEST_ID_MAX).contains(&id.len())
        && id.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if is_one { Ok(()) } else { Err(LedgerError::RequestId) }
}

/// Returns the SHA-256 digest of a message, which binds a request id to the message.
pub fn digest_of(message: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(&Prehash::Sha2_256.digest(message));
    digest
}

/// Returns the recorded signatures, with `None` for each unsigned request, and those requests.
fn recall_all<'a>(
    ledger: &dyn Ledger,
    requests: &[Request<'a>],
) -> Result<(Vec<Option<ReleasedSignature>>, Vec<Fresh<'a>>), LedgerError> {
    let (mut signed, mut fresh) = (Vec::new(), Vec::new());
    for request in requests {
        let digest = digest_of(request.message);
        let recorded = match request.id {
            Some(id) => ledger.recall(id)?.map(|recorded| (id, recorded)),
            None => None,
        };
        signed.push(match recorded {
            Some((id, recorded)) if recorded.digest != digest => {
                return Err(LedgerError::RequestConflict(id.to_owned()));
            }
            Some((_, LedgerRecord { index, signature, .. })) => {
                Some(ReleasedSignature { index, signature, is_repeated: true })
            }
            None => {
                fresh.push(Fresh { request: *request, digest });
                None
            }
        });
    }
    Ok((signed, fresh))
}

fn sign_fresh(
    ledger: &dyn Ledger,
    signer: &mut dyn IndexedSigner,
    fresh: &[Fresh<'_>],
) -> Result<Vec<ReleasedSignature>, Error> {
    if fresh.is_empty() {
        return Ok(Vec::new());
    }
    signer.check()?;
    let mut reservation = ledger.reserve(fresh.len() as u64)?;
    let indexes = reservation.take(fresh.len() as u64)?;
    let first = indexes.first();
    let messages: Vec<&[u8]> = fresh.iter().map(|fresh| fresh.request.message).collect();
    let signatures = signer.sign_indexed(indexes, &messages)?;
    if signatures.len() != fresh.len() {
        return Err(Error::Lost);
    }
    let entries: Vec<Entry<'_>> = (first..)
        .zip(fresh)
        .zip(&signatures)
        .map(|((index, fresh), signature)| Entry {
            index,
            digest: fresh.digest,
            request: fresh.request.id,
            signature,
        })
        .collect();
    ledger.record(&entries)?;
    reservation.close();
    Ok((first..)
        .zip(signatures)
        .map(|(index, signature)| ReleasedSignature { index, signature, is_repeated: false })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::ops::ControlFlow;

    use super::*;
    use crate::lms::{LM_OTS, LMS};
    use crate::route::Engine;

    #[test]
    fn the_ledger_in_memory_conforms() {
        let mut make = |capacity| Ok(memory::testing_only_bench(capacity));
        conformance::check(&mut make).unwrap();
    }

    /// Signs nothing, and says so before or after it is handed an index.
    struct Broken {
        is_known: bool,
    }

    impl IndexedSigner for Broken {
        fn check(&self) -> Result<(), Error> {
            if self.is_known { Err(Error::NoMemory("a test")) } else { Ok(()) }
        }

        fn sign_indexed(&mut self, _: Indexes, _: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
            Err(Error::NoMemory("a test"))
        }
    }

    #[test]
    fn a_signer_that_knows_that_it_fails_gets_no_index() {
        let ledger = memory::testing_only_ledger(8);
        for (is_known, left) in [(true, 8), (true, 8), (false, 7), (false, 6)] {
            let request = Request { message: b"m", id: None };
            let signed = sign_requests(&ledger, &mut Broken { is_known }, &[request]);
            assert_eq!(signed, Err(Error::NoMemory("a test")));
            assert_eq!(ledger.remaining().map(|remaining| remaining.left), Ok(left));
        }
    }

    /// Simulates a child process that inherited the indexes of its parent.
    #[test]
    fn indexes_of_another_process_sign_nothing() {
        let engine = Engine::global().unwrap();
        let levels = hss::Levels::new(&[(&LMS[0], &LM_OTS[3])]).unwrap();
        let secret = hss::HssSecret::new(levels, [1; 16], &[2; 32]).unwrap();
        let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
        let key = StatefulKey::generate(engine, &secret, &[], NonZero::<usize>::MIN, &mut go_on);
        let mut key = key.unwrap().unwrap();
        let ledger = memory::testing_only_ledger(8);
        let mut reservation = ledger.reserve(2).unwrap();
        let mut theirs = reservation.take(1).unwrap();
        theirs.process = theirs.process.map(|token| token + 1);
        let refused = key.sign_indexed(theirs, &[b"m"]);
        assert!(matches!(refused, Err(Error::Ledger(LedgerError::Unsafe(_)))));
        assert!(key.sign_indexed(reservation.take(1).unwrap(), &[b"m"]).is_ok());
        reservation.close();
    }

    #[test]
    fn request_ids_are_short_and_printable() {
        for id in ["", "a\nb", "\u{e4}", &"x".repeat(REQUEST_ID_MAX + 1)] {
            assert_eq!(check_request_id(id), Err(LedgerError::RequestId), "{id:?}");
        }
        check_request_id(&"x".repeat(REQUEST_ID_MAX)).unwrap();
    }
}
