//! SLH-DSA under measurement. Signing takes up to seconds without vector units, so the reference
//! signs one message only; what else is signed it verifies.

use gabion_engine::slh_dsa::{self, Params, SigningKey, VerifyKey};
use gabion_engine::{Batch, Engine, Keys, Message, Operation as Work, Slh, Status};

use super::{Call, Case, Key, Operation, all_ok, check_equal, check_refused};
use crate::Error;
use crate::inputs;

/// Keys that the lanes take in turn.
const KEYS: usize = 4;
/// Batches that calls take in turn.
const BATCHES: usize = 2;

/// The inputs of one case's calls, and the expected outputs.
pub struct Inputs {
    params: &'static Params,
    batch: usize,
    /// By item, contiguous: seed and encodings of key `item % KEYS`; item `b * batch + i` is lane
    /// `i` of batch `b`.
    seeds: Vec<u8>,
    pk: Vec<u8>,
    sk: Vec<u8>,
    messages: Vec<[u8; inputs::MESSAGE_BYTES]>,
    /// By item: the signature under the case's key. Checked by the reference.
    sigs: Vec<u8>,
}

impl Inputs {
    /// Keys by the reference, signatures by the engine under measurement.
    pub fn new(
        engine: &Engine,
        reference: &Engine,
        case: Case,
        batch: usize,
    ) -> Result<Inputs, Error> {
        let algorithm = case.algorithm;
        let params = slh_dsa::params(algorithm)
            .ok_or_else(|| Error::Usage(format!("{algorithm} is no SLH-DSA")))?;
        let seed = |item: usize| -> Vec<u8> {
            (0..params.seed_len()).map(|j| (41 * (item % KEYS) + 7 * j + 3) as u8).collect()
        };
        let keys = (0..KEYS).map(|index| reference.signature_from_seed(algorithm, &seed(index)));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let items = BATCHES * batch;
        let mut made = Inputs {
            params,
            batch,
            seeds: (0..items).flat_map(seed).collect(),
            pk: (0..items).flat_map(|item| keys[item % KEYS].public_bytes().to_vec()).collect(),
            sk: (0..items).flat_map(|item| keys[item % KEYS].bytes().to_vec()).collect(),
            messages: (0..items).map(inputs::message).collect(),
            sigs: Vec::new(),
        };
        if case.operation == Operation::Keygen {
            return Ok(made);
        }
        let by_item = |item: usize| match case.key {
            Key::Fresh => &keys[item % KEYS],
            Key::Cached => &keys[0],
        };
        for (item, message) in made.messages.iter().enumerate() {
            let message = Message::Pure { context: &[], message };
            let sig = engine.sign_deterministic(by_item(item), message)?;
            reference.verify(&by_item(item).public(), message, &sig)?;
            if item == 0 && case.operation == Operation::Sign {
                let expected = reference.sign_deterministic(by_item(0), message)?;
                check_equal(case, "the signature", &sig, &expected)?;
            }
            made.sigs.extend(sig);
        }
        Ok(made)
    }
}

/// The part of an array that belongs to batch `number`, lanes of `len` elements.
fn part<T>(all: &[T], number: usize, batch: usize, len: usize) -> &[T] {
    &all[number * batch * len..(number + 1) * batch * len]
}

/// The state of one thread: its output buffers, keys, and views of the inputs.
struct Lanes<'a> {
    inputs: &'a Inputs,
    messages: Vec<Message<'a>>,
    known: SigningKey,
    made: Vec<SigningKey>,
    status: Vec<Status>,
    sig: Vec<u8>,
}

impl<'a> Lanes<'a> {
    fn new(engine: &Engine, inputs: &'a Inputs) -> Result<Lanes<'a>, Error> {
        let (params, batch) = (inputs.params, inputs.batch);
        let mut known = [SigningKey::blank(params)];
        let seeds = &inputs.seeds[..params.seed_len()];
        let operation = Work::Slh(Slh::Generate { params, seeds, keys: &mut known });
        let mut status = [Status::NotRun];
        engine.run(&mut Batch { operation, status: &mut status })?;
        all_ok(&status)?;
        let [known] = known;
        let pure = |message| Message::Pure { context: &[], message };
        Ok(Lanes {
            inputs,
            messages: inputs.messages.iter().map(|message| pure(&message[..])).collect(),
            known,
            made: (0..batch).map(|_| SigningKey::blank(params)).collect(),
            status: vec![Status::NotRun; batch],
            sig: vec![0; batch * params.sig_len()],
        })
    }

    /// Runs batch `number` of a case; `sigs` are the signatures of all items.
    fn run(
        &mut self,
        engine: &Engine,
        case: Case,
        number: usize,
        sigs: &[u8],
    ) -> Result<(), Error> {
        let (params, batch) = (self.inputs.params, self.inputs.batch);
        let messages = part(&self.messages, number, batch, 1);
        let signing: Vec<&SigningKey> = vec![&self.known; batch];
        let verifying: Vec<&VerifyKey> = vec![self.known.verify_key(); batch];
        let operation = match case.operation {
            Operation::Keygen => Slh::Generate {
                params,
                seeds: part(&self.inputs.seeds, number, batch, params.seed_len()),
                keys: &mut self.made,
            },
            Operation::Sign => Slh::Sign {
                params,
                keys: match case.key {
                    Key::Fresh => {
                        Keys::Fresh(part(&self.inputs.sk, number, batch, params.sk_len()))
                    }
                    Key::Cached => Keys::Known(&signing),
                },
                messages,
                opt_rand: None,
                sig: &mut self.sig,
            },
            _ => Slh::Verify {
                params,
                keys: match case.key {
                    Key::Fresh => {
                        Keys::Fresh(part(&self.inputs.pk, number, batch, params.pk_len()))
                    }
                    Key::Cached => Keys::Known(&verifying),
                },
                messages,
                sig: part(sigs, number, batch, params.sig_len()),
            },
        };
        let operation = Work::Slh(operation);
        engine.run(&mut Batch { operation, status: &mut self.status })?;
        all_ok(&self.status)
    }
}

/// Returns the call that one thread times.
pub fn call<'a>(engine: &'a Engine, inputs: &'a Inputs, case: Case) -> Call<'a> {
    let mut lanes = Lanes::new(engine, inputs);
    Box::new(move |number| match &mut lanes {
        Ok(lanes) => lanes.run(engine, case, number % BATCHES, &inputs.sigs),
        Err(error) => Err(error.clone()),
    })
}

/// Runs batches and compares their outputs; a modified signature must be rejected.
pub fn check(engine: &Engine, inputs: &Inputs, case: Case) -> Result<(), Error> {
    let (params, batch) = (inputs.params, inputs.batch);
    let mut lanes = Lanes::new(engine, inputs)?;
    for number in 0..BATCHES {
        lanes.run(engine, case, number, &inputs.sigs)?;
        match case.operation {
            Operation::Keygen => {
                let made: Vec<u8> =
                    lanes.made.iter().flat_map(|key| key.bytes().to_vec()).collect();
                check_equal(
                    case,
                    "the key",
                    &made,
                    part(&inputs.sk, number, batch, params.sk_len()),
                )?;
            }
            Operation::Sign => {
                let expected = part(&inputs.sigs, number, batch, params.sig_len());
                check_equal(case, "the signature", &lanes.sig, expected)?;
            }
            _ => {
                let mut spoilt = inputs.sigs.clone();
                spoilt[number * batch * params.sig_len()] ^= 1;
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
        for case in Case::all().filter(|case| case.algorithm == Algorithm::SlhDsaSha2_128f) {
            let mut inputs = Inputs::new(engine, engine, case, 3).unwrap();
            check(engine, &inputs, case).unwrap();
            match case.operation {
                Operation::Keygen => inputs.sk[0] ^= 1,
                _ => inputs.sigs[0] ^= 1,
            }
            assert!(matches!(check(engine, &inputs, case), Err(Error::Failed(_))), "{case:?}");
        }
    }
}
