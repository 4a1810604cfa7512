//! ML-DSA under measurement.

use gabion_engine::ml_dsa::{self, Params, SigningKey, VerifyKey};
use gabion_engine::{
    Batch, Dsa, Engine, Keys, Message, Operation as Work, SigningKey as Pair, Status,
};

use super::{Call, Case, KEYS, Key, Operation, all_ok, batches, check_equal, check_refused};
use crate::Error;
use crate::inputs;

/// The inputs of one case's calls, and the expected outputs.
pub struct Inputs {
    params: &'static Params,
    /// Lanes of a call.
    batch: usize,
    /// The batches that calls take in turn; lane `i` of batch `b` is item `b * batch + i`.
    batches: usize,
    /// The cached key.
    first: Pair,
    /// By item, contiguous: seed, and encodings of key `item % KEYS`.
    seeds: Vec<[u8; ml_dsa::SEED_LEN]>,
    pk: Vec<u8>,
    sk: Vec<u8>,
    messages: Vec<[u8; inputs::MESSAGE_BYTES]>,
    /// By item: the signature under the case's key. Signing has more items than are checked, and
    /// so than there are signatures.
    sigs: Vec<u8>,
}

impl Inputs {
    /// Made by the reference, one operation at a time.
    pub fn new(reference: &Engine, case: Case, batch: usize) -> Result<Inputs, Error> {
        let algorithm = case.algorithm;
        let params = ml_dsa::params(algorithm)
            .ok_or_else(|| Error::Usage(format!("{algorithm} is no signature algorithm")))?;
        let signing = case.operation == Operation::Sign;
        let batches = batches(if signing { inputs::MESSAGES } else { KEYS }, batch);
        let items = batches * batch;
        let keys: Vec<_> = (0..KEYS)
            .map(|index| reference.signature_from_seed(algorithm, &inputs::dsa_seed(index)))
            .collect::<Result<_, _>>()?;
        let mut made = Inputs {
            params,
            batch,
            batches,
            first: keys[0].clone(),
            seeds: (0..items).map(|item| inputs::dsa_seed(item % KEYS)).collect(),
            pk: Vec::new(),
            sk: Vec::new(),
            messages: (0..items).map(inputs::message).collect(),
            sigs: Vec::new(),
        };
        for item in 0..items {
            made.pk.extend_from_slice(keys[item % KEYS].public().bytes());
            made.sk.extend_from_slice(keys[item % KEYS].bytes());
        }
        if case.operation != Operation::Keygen {
            for item in 0..made.signed() {
                let key = match case.key {
                    Key::Fresh => &keys[item % KEYS],
                    Key::Cached => &keys[0],
                };
                let message = Message::Pure { context: &[], message: &made.messages[item] };
                made.sigs.extend_from_slice(&reference.sign_deterministic(key, message)?);
            }
        }
        Ok(made)
    }

    /// Items that have a signature: whole batches, [`KEYS`] items at least.
    fn signed(&self) -> usize {
        (KEYS.div_ceil(self.batch) * self.batch).max(2 * self.batch).min(self.messages.len())
    }
}

/// The part of a contiguous array that belongs to batch `number`, lanes of `len` elements.
fn part<T>(all: &[T], number: usize, batch: usize, len: usize) -> &[T] {
    &all[number * batch * len..(number + 1) * batch * len]
}

/// The state of one thread: its output buffers, and views of the inputs.
struct Lanes<'a> {
    inputs: &'a Inputs,
    messages: Vec<Message<'a>>,
    signing: Vec<&'a SigningKey>,
    verifying: Vec<&'a VerifyKey>,
    rnd: Vec<[u8; 32]>,
    status: Vec<Status>,
    pk: Vec<u8>,
    sk: Vec<u8>,
    sig: Vec<u8>,
}

impl<'a> Lanes<'a> {
    fn new(inputs: &'a Inputs) -> Lanes<'a> {
        let (p, batch) = (inputs.params, inputs.batch);
        let cached: Vec<_> = vec![inputs.first.ml_dsa(); batch].into_iter().flatten().collect();
        let pure = |message| Message::Pure { context: &[], message };
        Lanes {
            inputs,
            messages: inputs.messages.iter().map(|message| pure(&message[..])).collect(),
            signing: cached.clone(),
            verifying: cached.iter().map(|key| key.verify_key()).collect(),
            rnd: vec![[0; 32]; batch],
            status: vec![Status::NotRun; batch],
            pk: vec![0; batch * p.pk_len()],
            sk: vec![0; batch * p.sk_len()],
            sig: vec![0; batch * p.sig_len()],
        }
    }

    /// Runs batch `number` of a case; `sigs` are the signatures of all items.
    fn run(
        &mut self,
        engine: &Engine,
        case: Case,
        number: usize,
        sigs: &[u8],
    ) -> Result<(), Error> {
        let (p, batch) = (self.inputs.params, self.inputs.batch);
        let messages = part(&self.messages, number, batch, 1);
        let operation = match case.operation {
            Operation::Keygen => Work::Dsa(Dsa::Keygen {
                params: p,
                seeds: part(&self.inputs.seeds, number, batch, 1),
                pk: &mut self.pk,
                sk: &mut self.sk,
            }),
            Operation::Sign => Work::Dsa(Dsa::Sign {
                params: p,
                keys: match case.key {
                    Key::Fresh => Keys::Fresh(part(&self.inputs.sk, number, batch, p.sk_len())),
                    Key::Cached => Keys::Known(&self.signing),
                },
                messages,
                rnd: &self.rnd,
                sig: &mut self.sig,
            }),
            _ => Work::Dsa(Dsa::Verify {
                params: p,
                keys: match case.key {
                    Key::Fresh => Keys::Fresh(part(&self.inputs.pk, number, batch, p.pk_len())),
                    Key::Cached => Keys::Known(&self.verifying),
                },
                messages,
                sig: part(sigs, number, batch, p.sig_len()),
            }),
        };
        engine.run(&mut Batch { operation, status: &mut self.status })?;
        all_ok(&self.status)
    }
}

/// Returns the call that one thread times.
pub fn call<'a>(engine: &'a Engine, inputs: &'a Inputs, case: Case) -> Call<'a> {
    let mut lanes = Lanes::new(inputs);
    Box::new(move |number| lanes.run(engine, case, number % inputs.batches, &inputs.sigs))
}

/// Runs batches and compares their outputs; a modified signature must be rejected.
pub fn check(engine: &Engine, inputs: &Inputs, case: Case) -> Result<(), Error> {
    let (p, batch) = (inputs.params, inputs.batch);
    let mut lanes = Lanes::new(inputs);
    let number_max = match case.operation {
        Operation::Keygen => inputs.batches,
        _ => inputs.signed() / batch,
    };
    for number in 0..number_max {
        lanes.run(engine, case, number, &inputs.sigs)?;
        match case.operation {
            Operation::Keygen => {
                check_equal(case, "pk", &lanes.pk, part(&inputs.pk, number, batch, p.pk_len()))?;
                check_equal(case, "sk", &lanes.sk, part(&inputs.sk, number, batch, p.sk_len()))?;
            }
            Operation::Sign => {
                let expected = part(&inputs.sigs, number, batch, p.sig_len());
                check_equal(case, "the signature", &lanes.sig, expected)?;
            }
            _ => {
                let mut spoilt = inputs.sigs.clone();
                spoilt[number * batch * p.sig_len()] ^= 1;
                let ran = lanes.run(engine, case, number, &spoilt);
                check_refused(case, ran, lanes.status[0])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gabion_engine::Algorithm;

    use super::*;

    #[test]
    fn a_wrong_result_is_not_timed() {
        let engine = Engine::global().unwrap();
        for case in Case::all().filter(|case| case.algorithm == Algorithm::MlDsa44) {
            let mut inputs = Inputs::new(engine, case, 3).unwrap();
            check(engine, &inputs, case).unwrap();
            match case.operation {
                Operation::Keygen => inputs.sk[0] ^= 1,
                _ => inputs.sigs[0] ^= 1,
            }
            assert!(matches!(check(engine, &inputs, case), Err(Error::Failed(_))), "{case:?}");
        }
    }

    #[test]
    fn signing_walks_through_all_messages_and_checks_some() {
        let engine = Engine::global().unwrap();
        let case =
            Case { algorithm: Algorithm::MlDsa44, operation: Operation::Sign, key: Key::Cached };
        for (batch, items, signed) in [(1, 1024, 16), (3, 1026, 18), (16, 1024, 32)] {
            let inputs = Inputs::new(engine, case, batch).unwrap();
            assert_eq!((inputs.messages.len(), inputs.signed()), (items, signed));
        }
    }
}
