//! Ed25519 under measurement: strict, and by the rules of ZIP 215, where a batch is verified by one
//! equation.

use gabion_engine::ed25519::{Rules, SigningKey, VerifyKey};
use gabion_engine::{Algorithm, Batch, Ed25519, Engine, Keys, Message, Operation as Work, Status};

use super::{Call, Case, KEYS, Key, Operation, all_ok, batches, check_equal, check_refused};
use crate::Error;
use crate::inputs;

/// The inputs of one case's calls, and the expected outputs.
pub struct Inputs {
    rules: Rules,
    /// Lanes of a call.
    batch: usize,
    /// The batches that calls take in turn; lane `i` of batch `b` is item `b * batch + i`.
    batches: usize,
    /// By item: seed and public key of key `item % KEYS`.
    seeds: Vec<[u8; 32]>,
    public: Vec<u8>,
    messages: Vec<[u8; inputs::MESSAGE_BYTES]>,
    /// By item: the signature under the case's key.
    sigs: Vec<u8>,
    /// The multipliers of the signatures in a sum.
    z: Option<Vec<[u8; 16]>>,
}

impl Inputs {
    /// Made by the reference, one operation at a time.
    pub fn new(reference: &Engine, case: Case, batch: usize) -> Result<Inputs, Error> {
        let rules = match case.algorithm {
            Algorithm::Ed25519 => Rules::Strict,
            _ => Rules::Zip215,
        };
        let signing = case.operation == Operation::Sign;
        let batches = batches(if signing { inputs::MESSAGES } else { KEYS }, batch);
        let items = batches * batch;
        let keys: Vec<_> = (0..KEYS)
            .map(|index| reference.signature_from_seed(case.algorithm, &inputs::dsa_seed(index)))
            .collect::<Result<_, _>>()?;
        let messages: Vec<_> = (0..items).map(inputs::message).collect();
        let (mut public, mut sigs) = (Vec::new(), Vec::new());
        for (item, message) in messages.iter().enumerate() {
            public.extend_from_slice(keys[item % KEYS].public_bytes());
            let key = match case.key {
                Key::Fresh => &keys[item % KEYS],
                Key::Cached => &keys[0],
            };
            let message = Message::Pure { context: &[], message };
            sigs.extend_from_slice(&reference.sign_deterministic(key, message)?);
        }
        let z = (0..batch).map(|lane| std::array::from_fn(|j| (37 * lane + 11 * j + 1) as u8));
        Ok(Inputs {
            rules,
            batch,
            batches,
            seeds: (0..items).map(|item| inputs::dsa_seed(item % KEYS)).collect(),
            public,
            messages,
            sigs,
            z: (rules == Rules::Zip215 && batch > 1).then(|| z.collect()),
        })
    }
}

/// The part of an array that belongs to batch `number`, lanes of `len` elements.
fn part<T>(all: &[T], number: usize, batch: usize, len: usize) -> &[T] {
    &all[number * batch * len..(number + 1) * batch * len]
}

/// The state of one thread: its output buffers, keys, and views of the inputs.
struct Lanes<'a> {
    inputs: &'a Inputs,
    messages: Vec<&'a [u8]>,
    /// By item: private keys, made by the engine under measurement.
    signing: Vec<SigningKey>,
    known: VerifyKey,
    made: Vec<SigningKey>,
    status: Vec<Status>,
    sig: Vec<u8>,
}

impl<'a> Lanes<'a> {
    fn new(engine: &Engine, inputs: &'a Inputs) -> Result<Lanes<'a>, Error> {
        let batch = inputs.batch;
        let mut signing = vec![SigningKey::blank(); inputs.seeds.len()];
        let mut status = vec![Status::NotRun; signing.len()];
        let operation = Ed25519::Generate { seeds: &inputs.seeds, keys: &mut signing };
        engine.run(&mut Batch { operation: Work::Ed25519(operation), status: &mut status })?;
        all_ok(&status)?;
        let known = VerifyKey::decode(inputs.rules, signing[0].public())
            .ok_or_else(|| Error::Failed("a generated public key cannot be decoded".to_owned()))?;
        Ok(Lanes {
            inputs,
            messages: inputs.messages.iter().map(|message| &message[..]).collect(),
            signing,
            known,
            made: vec![SigningKey::blank(); batch],
            status: vec![Status::NotRun; batch],
            sig: vec![0; batch * 64],
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
        let (inputs, batch) = (self.inputs, self.inputs.batch);
        let messages = part(&self.messages, number, batch, 1);
        // A private key is its seed: a fresh one is expanded first.
        let fresh = case.operation == Operation::Sign && case.key == Key::Fresh;
        if fresh || case.operation == Operation::Keygen {
            let seeds = part(&inputs.seeds, number, batch, 1);
            let operation = Work::Ed25519(Ed25519::Generate { seeds, keys: &mut self.made });
            engine.run(&mut Batch { operation, status: &mut self.status })?;
            if !fresh {
                return all_ok(&self.status);
            }
        }
        let signing: Vec<_> = match case.key {
            Key::Fresh => self.made.iter().collect(),
            Key::Cached => vec![&self.signing[0]; batch],
        };
        let known = vec![&self.known; batch];
        let operation = match case.operation {
            Operation::Sign => Ed25519::Sign { keys: &signing, messages, sig: &mut self.sig },
            _ => Ed25519::Verify {
                rules: inputs.rules,
                keys: match case.key {
                    Key::Fresh => Keys::Fresh(part(&inputs.public, number, batch, 32)),
                    Key::Cached => Keys::Known(&known),
                },
                messages,
                sig: part(sigs, number, batch, 64),
                z: inputs.z.as_deref(),
            },
        };
        let operation = Work::Ed25519(operation);
        engine.run(&mut Batch { operation, status: &mut self.status })?;
        all_ok(&self.status)
    }
}

/// Returns the call that one thread times.
pub fn call<'a>(engine: &'a Engine, inputs: &'a Inputs, case: Case) -> Call<'a> {
    let mut lanes = Lanes::new(engine, inputs);
    Box::new(move |number| match &mut lanes {
        Ok(lanes) => lanes.run(engine, case, number % inputs.batches, &inputs.sigs),
        Err(error) => Err(error.clone()),
    })
}

/// Runs batches and compares their outputs; a modified signature must be rejected.
pub fn check(engine: &Engine, inputs: &Inputs, case: Case) -> Result<(), Error> {
    let batch = inputs.batch;
    let mut lanes = Lanes::new(engine, inputs)?;
    for number in 0..inputs.batches.min(KEYS) {
        lanes.run(engine, case, number, &inputs.sigs)?;
        match case.operation {
            Operation::Keygen => {
                let made: Vec<u8> = lanes.made.iter().flat_map(|key| *key.public()).collect();
                check_equal(
                    case,
                    "the public key",
                    &made,
                    part(&inputs.public, number, batch, 32),
                )?;
            }
            Operation::Sign => {
                let expected = part(&inputs.sigs, number, batch, 64);
                check_equal(case, "the signature", &lanes.sig, expected)?;
            }
            _ => {
                let mut spoilt = inputs.sigs.clone();
                spoilt[number * batch * 64] ^= 1;
                let ran = lanes.run(engine, case, number, &spoilt);
                check_refused(case, ran, lanes.status[0])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_not_timed() {
        let engine = Engine::global().unwrap();
        for case in Case::all().filter(|case| case.algorithm.name().starts_with("Ed25519")) {
            let mut inputs = Inputs::new(engine, case, 3).unwrap();
            check(engine, &inputs, case).unwrap();
            match case.operation {
                Operation::Keygen => inputs.public[0] ^= 1,
                _ => inputs.sigs[0] ^= 1,
            }
            assert!(matches!(check(engine, &inputs, case), Err(Error::Failed(_))), "{case:?}");
        }
    }
}
