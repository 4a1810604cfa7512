//! A batch of a case, in the caller's buffers.
//!
//! Lane `i` is item `i + shift` of the pool, round and round, so that a batch of a million takes no longer to make than to
//! copy.

use gabion_backend::{
    Backend, Batch, BatchOutcome, Dsa, Hss, Kem, Keys, Operation as Work, Slh, Xmss,
};
use gabion_engine::{Message, Status, lms, ml_dsa, ml_kem, slh_dsa, xmss};
use gabion_rows::operations::{Key, Operation};

use super::cases::Case;
use super::pool::{Column, KEYS, Pool, pure};
use super::stateful::Public;
use crate::Error;

/// One batch of a case in the caller's buffers.
pub struct Lanes<'a> {
    pool: &'a Pool,
    shift: usize,
    inputs: Vec<&'a [u8]>,
    outputs: Vec<&'a mut [u8]>,
    messages: Vec<Message<'a>>,
    encaps: Vec<&'a ml_kem::EncapsKey>,
    decaps: Vec<&'a ml_kem::DecapsKey>,
    dsa_sign: Vec<&'a ml_dsa::SigningKey>,
    dsa_verify: Vec<&'a ml_dsa::VerifyKey>,
    slh_sign: Vec<&'a slh_dsa::SigningKey>,
    slh_verify: Vec<&'a slh_dsa::VerifyKey>,
    stateful: Stateful<'a>,
    status: Vec<Status>,
    sample: Vec<usize>,
}

/// Lanes of each batch whose results are compared.
const SAMPLE: usize = 256;
/// The alignment of arrays, for copies of whole lines.
const ALIGNMENT: usize = 256;

impl<'a> Lanes<'a> {
    /// Bytes that a batch takes.
    pub fn bytes(pool: &Pool, lanes: usize) -> usize {
        let columns = pool.inputs.iter().chain(&pool.outputs);
        columns.map(|column| (lanes * column.each).next_multiple_of(ALIGNMENT)).sum()
    }

    /// A batch from item `shift` on, in [`Self::bytes`] bytes of memory.
    pub fn new(pool: &'a Pool, lanes: usize, shift: usize, mut memory: &'a mut [u8]) -> Self {
        let mut cut = |column: &Column| {
            let bytes = lanes * column.each;
            let (part, rest) =
                std::mem::take(&mut memory).split_at_mut(bytes.next_multiple_of(ALIGNMENT));
            memory = rest;
            &mut part[..bytes]
        };
        let mut inputs = Vec::new();
        for column in &pool.inputs {
            let part = cut(column);
            column.fill(shift, part);
            inputs.push(&*part);
        }
        let outputs: Vec<_> = pool.outputs.iter().map(&mut cut).collect();
        let item = |lane: usize| (shift + lane) % pool.items();
        // Keys of items with fresh ones are among their inputs.
        let cached = if pool.case.key == Key::Cached { lanes } else { 0 };
        let (kem, dsa, slh) = (&pool.known.kem, &pool.known.dsa, &pool.known.slh);
        let of = |known: usize| {
            (0..cached).filter(move |_| known > 0).map(move |lane| item(lane) % KEYS)
        };
        let has_messages = matches!(pool.case.operation, Operation::Sign | Operation::Verify);
        let with_message = if has_messages { lanes } else { 0 };
        let step = (lanes / SAMPLE).max(1);
        let mut sample: Vec<usize> = (0..lanes).step_by(step).collect();
        sample.push(lanes - 1);
        let first = inputs.first().copied().unwrap_or_default();
        Lanes {
            pool,
            shift,
            inputs,
            outputs,
            messages: (0..with_message).map(|lane| pure(&pool.messages[item(lane)])).collect(),
            encaps: of(kem.len()).map(|key| kem[key].encaps_key()).collect(),
            decaps: of(kem.len()).map(|key| &kem[key]).collect(),
            dsa_sign: of(dsa.len()).map(|key| &dsa[key]).collect(),
            dsa_verify: of(dsa.len()).map(|key| dsa[key].verify_key()).collect(),
            slh_sign: of(slh.len()).map(|key| &slh[key]).collect(),
            slh_verify: of(slh.len()).map(|key| slh[key].verify_key()).collect(),
            stateful: Stateful::new(pool, lanes, shift, first),
            status: vec![Status::NotRun; lanes],
            sample,
        }
    }

    /// Returns how many lanes it has.
    pub fn count(&self) -> usize {
        self.status.len()
    }

    /// Clears the results that the next run has to produce: all verdicts, and the outputs of the
    /// sample.
    pub fn forget(&mut self) {
        self.status.fill(Status::NotRun);
        for (column, out) in self.pool.outputs.iter().zip(&mut self.outputs) {
            for &lane in &self.sample {
                out[lane * column.each..(lane + 1) * column.each].fill(0);
            }
        }
    }

    /// Runs the batch.
    pub fn run(&mut self, backend: &dyn Backend) -> BatchOutcome {
        if let Some(operation) = self.stateful.operation() {
            return backend.run(&mut Batch { operation, status: &mut self.status });
        }
        let operation = operation(
            self.pool.case,
            &self.inputs,
            &mut self.outputs,
            &self.messages,
            &Refs {
                encaps: &self.encaps,
                decaps: &self.decaps,
                dsa_sign: &self.dsa_sign,
                dsa_verify: &self.dsa_verify,
                slh_sign: &self.slh_sign,
                slh_verify: &self.slh_verify,
            },
        );
        match operation {
            Some(operation) => backend.run(&mut Batch { operation, status: &mut self.status }),
            None => BatchOutcome::Declined,
        }
    }

    /// Returns whether every lane succeeded, and the sample's results (or all of them) are the
    /// processor's; how many were compared.
    ///
    /// # Errors
    /// `Failed`, with the first lane that is wrong.
    pub fn check(&self, is_whole: bool) -> Result<u64, Error> {
        let name = self.pool.case.name();
        if let Some(lane) = self.status.iter().position(|status| !status.is_ok()) {
            let status = self.status[lane];
            return Err(Error::Failed(format!("{name}: lane {lane} ended as {status:?}")));
        }
        let check = |lane: usize| {
            let item = (self.shift + lane) % self.pool.items();
            self.pool.outputs.iter().zip(&self.outputs).all(|(column, out)| {
                out[lane * column.each..(lane + 1) * column.each] == *column.item(item)
            })
        };
        let wrong = match is_whole {
            true => (0..self.count()).find(|&lane| !check(lane)),
            false => self.sample.iter().copied().find(|&lane| !check(lane)),
        };
        match wrong {
            Some(lane) => {
                Err(Error::Failed(format!("{name}: lane {lane} is not what a processor gives")))
            }
            None => Ok(if is_whole { self.count() } else { self.sample.len() } as u64),
        }
    }
}

/// Slices, one a lane, of a family that takes its arrays so.
#[derive(Default)]
struct Stateful<'a> {
    hss: Vec<&'a lms::VerifyKey>,
    xmss: Vec<&'a xmss::VerifyKey>,
    messages: Vec<&'a [u8]>,
    signatures: Vec<&'a [u8]>,
}

impl<'a> Stateful<'a> {
    fn new(pool: &'a Pool, lanes: usize, shift: usize, signatures: &'a [u8]) -> Self {
        let (hss, xmss) = match &pool.known.stateful {
            None => return Stateful::default(),
            Some(Public::Hss(key)) => (vec![key; lanes], Vec::new()),
            Some(Public::Xmss(key)) => (Vec::new(), vec![key; lanes]),
        };
        let message = |lane: usize| &pool.messages[(shift + lane) % pool.items()][..];
        let messages = (0..lanes).map(message).collect();
        let signatures = signatures.chunks_exact((signatures.len() / lanes).max(1)).collect();
        Stateful { hss, xmss, messages, signatures }
    }

    fn operation(&self) -> Option<Work<'_>> {
        let Stateful { hss, xmss, messages, signatures } = self;
        if !hss.is_empty() {
            return Some(Work::Hss(Hss::Verify { keys: hss, messages, signatures }));
        }
        let scheme = xmss.first()?.set()?.scheme;
        Some(Work::Xmss(Xmss::Verify { scheme, keys: xmss, messages, signatures }))
    }
}

/// Known keys, one a lane.
struct Refs<'r, 'a> {
    encaps: &'r [&'a ml_kem::EncapsKey],
    decaps: &'r [&'a ml_kem::DecapsKey],
    dsa_sign: &'r [&'a ml_dsa::SigningKey],
    dsa_verify: &'r [&'a ml_dsa::VerifyKey],
    slh_sign: &'r [&'a slh_dsa::SigningKey],
    slh_verify: &'r [&'a slh_dsa::VerifyKey],
}

/// The operation of a case over its arrays, in the order in which its part of the pool has them.
fn operation<'a>(
    case: Case,
    inputs: &[&'a [u8]],
    outputs: &'a mut [&mut [u8]],
    messages: &'a [Message<'a>],
    refs: &Refs<'a, 'a>,
) -> Option<Work<'a>> {
    let (key, last) = (*inputs.first().unwrap_or(&&[][..]), *inputs.last().unwrap_or(&&[][..]));
    let is_fresh = case.key == Key::Fresh;
    let mut outputs = outputs.iter_mut().map(|out| &mut **out);
    let mut out = || outputs.next();
    let set = case.algorithm;
    macro_rules! keys {
        ($known:expr) => {
            if is_fresh { Keys::Fresh(key) } else { Keys::Known($known) }
        };
    }
    if let Some(params) = ml_kem::params(set) {
        return Some(Work::Kem(match case.operation {
            Operation::Keygen if case.is_seed => {
                Kem::Publish { params, seeds: last.as_chunks().0, ek: out()? }
            }
            Operation::Keygen => {
                let seeds = last.as_chunks().0;
                Kem::Keygen { params, seeds, ek: out()?, dk: out()? }
            }
            Operation::Encaps => Kem::Encaps {
                params,
                keys: keys!(refs.encaps),
                m: last.as_chunks().0,
                ct: out()?,
                shared: out()?.as_chunks_mut().0,
            },
            _ => Kem::Decaps {
                params,
                keys: keys!(refs.decaps),
                ct: last,
                shared: out()?.as_chunks_mut().0,
            },
        }));
    }
    if let Some(params) = ml_dsa::params(set) {
        return Some(Work::Dsa(match case.operation {
            Operation::Keygen => {
                let seeds = last.as_chunks().0;
                Dsa::Keygen { params, seeds, pk: out()?, sk: out()? }
            }
            Operation::Sign => Dsa::Sign {
                params,
                keys: keys!(refs.dsa_sign),
                messages,
                rnd: last.as_chunks().0,
                sig: out()?,
            },
            _ => Dsa::Verify { params, keys: keys!(refs.dsa_verify), messages, sig: last },
        }));
    }
    let params = slh_dsa::params(set)?;
    Some(Work::Slh(match case.operation {
        Operation::Sign => {
            Slh::Sign { params, keys: keys!(refs.slh_sign), messages, opt_rand: None, sig: out()? }
        }
        _ => Slh::Verify { params, keys: keys!(refs.slh_verify), messages, sig: last },
    }))
}
