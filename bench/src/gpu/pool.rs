//! A pool of inputs, with the results that a processor gives.
//!
//! Each item has its own key, message and randomness where keys are fresh; cached keys are [`KEYS`], in turn.

use std::ops::Range;

use gabion_backend::{Backend, Batch, BatchOutcome, Dsa, Kem, Keys, Operation as Work, Slh};
use gabion_engine::{Message, Status, ml_dsa, ml_kem, slh_dsa};
use gabion_rows::operations::{Key, Operation};

use super::cases::Case;
use super::stateful::{Public, signed};
use crate::Error;
use crate::inputs;

/// Cached keys that lanes take in turn.
pub(super) const KEYS: usize = 16;

/// Items of fixed length, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Bytes of an item.
    pub each: usize,
    /// All of them.
    pub bytes: Vec<u8>,
}

impl Column {
    fn new(each: usize, bytes: Vec<u8>) -> Self {
        Column { each, bytes }
    }

    /// An item.
    pub fn item(&self, number: usize) -> &[u8] {
        &self.bytes[number * self.each..(number + 1) * self.each]
    }

    /// Fills lanes from item `shift` on, round and round.
    pub fn fill(&self, shift: usize, lanes: &mut [u8]) {
        let mut from = shift * self.each % self.bytes.len().max(1);
        let mut rest = lanes;
        while !rest.is_empty() {
            let now = rest.len().min(self.bytes.len() - from);
            let (part, others) = rest.split_at_mut(now);
            part.copy_from_slice(&self.bytes[from..from + now]);
            (rest, from) = (others, 0);
        }
    }
}

/// The expanded keys of a case; only its family's list has any.
#[derive(Default)]
pub(super) struct ExpandedKeys {
    pub(super) kem: Vec<ml_kem::DecapsKey>,
    pub(super) dsa: Vec<ml_dsa::SigningKey>,
    pub(super) slh: Vec<slh_dsa::SigningKey>,
    pub(super) stateful: Option<Public>,
}

/// The items that batches of a case consist of.
pub struct Pool {
    pub(super) case: Case,
    pub(super) known: ExpandedKeys,
    pub(super) messages: Vec<[u8; inputs::MESSAGE_BYTES]>,
    /// The inputs.
    pub inputs: Vec<Column>,
    /// The expected outputs.
    pub outputs: Vec<Column>,
}

/// Inputs and outputs of some items.
type Part = (Vec<Column>, Vec<Column>);

impl Pool {
    /// A pool of `items` items, by a processor with as many threads as it has cores.
    ///
    /// # Errors
    /// `Failed` if the processor does not do it.
    pub fn new(case: Case, items: usize, cpu: &dyn Backend) -> Result<Self, Error> {
        let messages: Vec<_> = (0..items).map(inputs::message).collect();
        if let Some(set) = case.set {
            return Self::stateful(case, set, messages);
        }
        let known = ExpandedKeys::new(case, cpu)?;
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
        let each = items.div_ceil(threads);
        let parts: Result<Vec<Part>, Error> = std::thread::scope(|scope| {
            let ranges = (0..items).step_by(each).map(|from| from..(from + each).min(items));
            let (known, messages) = (&known, &messages);
            let make = |range| scope.spawn(move || part(case, known, messages, range, cpu));
            let running: Vec<_> = ranges.map(make).collect();
            let lost = || Err(Error::Failed("a thread that makes inputs panicked".to_owned()));
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
        });
        let mut parts = parts?.into_iter();
        let (mut inputs, mut outputs) = parts.next().unwrap_or_default();
        for (more_inputs, more_outputs) in parts {
            let all = inputs.iter_mut().zip(more_inputs);
            for (column, more) in all.chain(outputs.iter_mut().zip(more_outputs)) {
                column.bytes.extend(more.bytes);
            }
        }
        Ok(Pool { case, known, messages, inputs, outputs })
    }

    /// Signatures of one key, which only its own code makes.
    fn stateful(
        case: Case,
        set: &str,
        messages: Vec<[u8; inputs::MESSAGE_BYTES]>,
    ) -> Result<Self, Error> {
        let texts: Vec<&[u8]> = messages.iter().map(|message| &message[..]).collect();
        let (public, signatures) = signed(set, &texts)?;
        let each = signatures.first().map_or(0, Vec::len);
        let known = ExpandedKeys { stateful: Some(public), ..ExpandedKeys::default() };
        let inputs = vec![Column::new(each, signatures.concat())];
        Ok(Pool { case, known, messages, inputs, outputs: Vec::new() })
    }

    /// Items.
    pub fn items(&self) -> usize {
        self.messages.len()
    }
}

impl ExpandedKeys {
    fn new(case: Case, cpu: &dyn Backend) -> Result<Self, Error> {
        let mut known = ExpandedKeys::default();
        let set = case.algorithm;
        if let Some(params) = ml_kem::params(set) {
            known.kem = (0..KEYS).map(|_| ml_kem::DecapsKey::blank(params)).collect();
            let seeds: Vec<_> = (0..KEYS).map(inputs::kem_seed).collect();
            let keys = &mut known.kem;
            run(cpu, KEYS, Work::Kem(Kem::Generate { params, seeds: &seeds, keys }))?;
        } else if let Some(params) = ml_dsa::params(set) {
            known.dsa = (0..KEYS).map(|_| ml_dsa::SigningKey::blank(params)).collect();
            let seeds: Vec<_> = (0..KEYS).map(inputs::dsa_seed).collect();
            let keys = &mut known.dsa;
            run(cpu, KEYS, Work::Dsa(Dsa::Generate { params, seeds: &seeds, keys }))?;
        } else if let Some(params) = slh_dsa::params(set) {
            known.slh = (0..KEYS).map(|_| slh_dsa::SigningKey::blank(params)).collect();
            let seed = |index| inputs::bytes::<96>(5, index as u64);
            let seeds: Vec<u8> =
                (0..KEYS).flat_map(|i| seed(i)[..params.seed_len()].to_vec()).collect();
            let keys = &mut known.slh;
            run(cpu, KEYS, Work::Slh(Slh::Generate { params, seeds: &seeds, keys }))?;
        }
        Ok(known)
    }
}

/// The keys of some items, in turn.
fn in_turn<'k, K, T: ?Sized>(
    keys: &'k [K],
    range: Range<usize>,
    of: impl Fn(&'k K) -> &'k T,
) -> Vec<&'k T> {
    range.map(|item| of(&keys[item % keys.len()])).collect()
}

fn run(backend: &dyn Backend, lanes: usize, operation: Work<'_>) -> Result<(), Error> {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation, status: &mut status };
    batch.check().map_err(gabion_engine::Error::from)?;
    let ran = backend.run(&mut batch);
    if ran == BatchOutcome::Done && status.iter().all(|status| status.is_ok()) {
        return Ok(());
    }
    Err(Error::Failed(format!("inputs are not made: {} says {ran:?}", backend.name())))
}

/// Makes some items, and the expected outputs.
fn part(
    case: Case,
    known: &ExpandedKeys,
    messages: &[[u8; inputs::MESSAGE_BYTES]],
    range: Range<usize>,
    cpu: &dyn Backend,
) -> Result<Part, Error> {
    let set = case.algorithm;
    let messages: Vec<_> = messages[range.clone()].iter().map(pure).collect();
    if let Some(params) = ml_kem::params(set) {
        kem_part(case, params, known, range, cpu)
    } else if let Some(params) = ml_dsa::params(set) {
        dsa_part(case, params, known, &messages, range, cpu)
    } else if let Some(params) = slh_dsa::params(set) {
        slh_part(case, params, known, &messages, range, cpu)
    } else {
        Err(Error::Usage(format!("{set} is not measured in batches")))
    }
}

pub(super) fn pure(message: &[u8; inputs::MESSAGE_BYTES]) -> Message<'_> {
    Message::Pure { context: &[], message }
}

fn kem_part(
    case: Case,
    p: &'static ml_kem::Params,
    known: &ExpandedKeys,
    range: Range<usize>,
    cpu: &dyn Backend,
) -> Result<Part, Error> {
    let n = range.len();
    let is_fresh = case.key == Key::Fresh;
    let seeds: Vec<_> = range.clone().map(inputs::kem_seed).collect();
    let (mut ek, mut dk) = (vec![0; n * p.ek_len()], vec![0; n * p.dk_len()]);
    if is_fresh {
        let kem = Kem::Keygen { params: p, seeds: &seeds, ek: &mut ek, dk: &mut dk };
        run(cpu, n, Work::Kem(kem))?;
    }
    let column = |each, bytes| Column::new(each, bytes);
    if case.operation == Operation::Keygen {
        let seeds = column(ml_kem::SEED_LEN, seeds.concat());
        let dk = (!case.is_seed).then(|| column(p.dk_len(), dk));
        return Ok((vec![seeds], [column(p.ek_len(), ek)].into_iter().chain(dk).collect()));
    }
    let m: Vec<_> = range.clone().map(inputs::kem_message).collect();
    let (mut ct, mut shared) = (vec![0; n * p.ct_len()], vec![[0; ml_kem::SECRET_LEN]; n]);
    let publics = in_turn(&known.kem, range, |key| key.encaps_key());
    let keys = if is_fresh { Keys::Fresh(&ek) } else { Keys::Known(&publics) };
    let kem = Kem::Encaps { params: p, keys, m: &m, ct: &mut ct, shared: &mut shared };
    run(cpu, n, Work::Kem(kem))?;
    let shared = column(ml_kem::SECRET_LEN, shared.concat());
    let ct = column(p.ct_len(), ct);
    let key = |each, bytes| is_fresh.then(|| column(each, bytes));
    if case.operation == Operation::Encaps {
        let m = column(ml_kem::SECRET_LEN, m.concat());
        let inputs = key(p.ek_len(), ek).into_iter().chain([m]).collect();
        return Ok((inputs, vec![ct, shared]));
    }
    Ok((key(p.dk_len(), dk).into_iter().chain([ct]).collect(), vec![shared]))
}

fn dsa_part(
    case: Case,
    p: &'static ml_dsa::Params,
    known: &ExpandedKeys,
    messages: &[Message<'_>],
    range: Range<usize>,
    cpu: &dyn Backend,
) -> Result<Part, Error> {
    let n = range.len();
    let is_fresh = case.key == Key::Fresh;
    let seeds: Vec<_> = range.clone().map(inputs::dsa_seed).collect();
    let (mut pk, mut sk) = (vec![0; n * p.pk_len()], vec![0; n * p.sk_len()]);
    if is_fresh {
        let dsa = Dsa::Keygen { params: p, seeds: &seeds, pk: &mut pk, sk: &mut sk };
        run(cpu, n, Work::Dsa(dsa))?;
    }
    let column = |each, bytes| Column::new(each, bytes);
    if case.operation == Operation::Keygen {
        let seeds = column(ml_dsa::SEED_LEN, seeds.concat());
        return Ok((vec![seeds], vec![column(p.pk_len(), pk), column(p.sk_len(), sk)]));
    }
    let privates = in_turn(&known.dsa, range, |key| key);
    let keys = if is_fresh { Keys::Fresh(&sk) } else { Keys::Known(&privates) };
    // Deterministic: the same attempts everywhere.
    let rnd = vec![[0; 32]; n];
    let mut sig = vec![0; n * p.sig_len()];
    let dsa = Dsa::Sign { params: p, keys, messages, rnd: &rnd, sig: &mut sig };
    run(cpu, n, Work::Dsa(dsa))?;
    let sig = column(p.sig_len(), sig);
    let key = |each, bytes| is_fresh.then(|| column(each, bytes));
    if case.operation == Operation::Sign {
        let inputs = key(p.sk_len(), sk).into_iter().chain([column(32, rnd.concat())]);
        return Ok((inputs.collect(), vec![sig]));
    }
    Ok((key(p.pk_len(), pk).into_iter().chain([sig]).collect(), Vec::new()))
}

fn slh_part(
    case: Case,
    p: &'static slh_dsa::Params,
    known: &ExpandedKeys,
    messages: &[Message<'_>],
    range: Range<usize>,
    cpu: &dyn Backend,
) -> Result<Part, Error> {
    let n = range.len();
    // Keys of this family are quickly expanded and slowly made: fresh ones are those that are known.
    let privates = in_turn(&known.slh, range, |key| key);
    let keys = Keys::Known(&privates[..]);
    let mut sig = vec![0; n * p.sig_len()];
    let slh = Slh::Sign { params: p, keys, messages, opt_rand: None, sig: &mut sig };
    run(cpu, n, Work::Slh(slh))?;
    let sig = Column::new(p.sig_len(), sig);
    let key = |each, bytes: fn(&slh_dsa::SigningKey) -> Vec<u8>| {
        let all = || privates.iter().flat_map(|key| bytes(key)).collect();
        (case.key == Key::Fresh).then(|| Column::new(each, all()))
    };
    if case.operation == Operation::Sign {
        let sk = key(p.sk_len(), |key| key.bytes().to_vec());
        return Ok((sk.into_iter().collect(), vec![sig]));
    }
    let pk = key(p.pk_len(), |key| key.verify_key().bytes().to_vec());
    Ok((pk.into_iter().chain([sig]).collect(), Vec::new()))
}
