//! ML-KEM under measurement.

use gabion_engine::ml_kem::{self, DecapsKey, EncapsKey, Params};
use gabion_engine::{
    Algorithm, Batch, Engine, Kem, KemPrivateKey, Keys, Operation as Work, Status,
};

use super::{Call, Case, KEYS, Key, Operation, all_ok, batches, check_equal};
use crate::Error;
use crate::inputs;

/// The inputs of one parameter set's calls, and the expected outputs.
pub struct Inputs {
    params: &'static Params,
    /// Lanes of a call.
    batch: usize,
    /// The batches that calls take in turn; lane `i` of batch `b` is item `b * batch + i`.
    batches: usize,
    /// The cached key.
    first: KemPrivateKey,
    /// By item, contiguous: seed, randomness, and encodings of key `item % KEYS`.
    seeds: Vec<[u8; ml_kem::SEED_LEN]>,
    m: Vec<[u8; ml_kem::SECRET_LEN]>,
    ek: Vec<u8>,
    dk: Vec<u8>,
    /// By item: ciphertext and secret under key `item % KEYS`, and under the first key.
    to_each: Ciphertexts,
    to_first: Ciphertexts,
}

/// Ciphertexts and their shared secrets, by item.
#[derive(Default)]
struct Ciphertexts {
    ct: Vec<u8>,
    shared: Vec<[u8; ml_kem::SECRET_LEN]>,
}

impl Inputs {
    /// Made by the reference, one operation at a time.
    pub fn new(reference: &Engine, algorithm: Algorithm, batch: usize) -> Result<Inputs, Error> {
        let params = ml_kem::params(algorithm).ok_or_else(|| {
            Error::Usage(format!("{algorithm} is no key encapsulation mechanism"))
        })?;
        let items = batches(KEYS, batch) * batch;
        let keys: Vec<_> = (0..KEYS)
            .map(|index| reference.kem_from_seed(algorithm, &inputs::kem_seed(index)))
            .collect::<Result<_, _>>()?;
        let mut made = Inputs {
            params,
            batch,
            batches: batches(KEYS, batch),
            first: keys[0].clone(),
            // Keys repeat after KEYS items, so that those of a large batch take no time to make.
            seeds: (0..items).map(|item| inputs::kem_seed(item % KEYS)).collect(),
            m: (0..items).map(inputs::kem_message).collect(),
            ek: Vec::new(),
            dk: Vec::new(),
            to_each: Ciphertexts::default(),
            to_first: Ciphertexts::default(),
        };
        for item in 0..items {
            let key = &keys[item % KEYS];
            made.ek.extend_from_slice(key.public().bytes());
            made.dk.extend_from_slice(key.bytes());
            for (key, sent) in [(key, &mut made.to_each), (&keys[0], &mut made.to_first)] {
                let (ct, shared) =
                    reference.encaps_with_randomness(&key.public(), &made.m[item])?;
                sent.ct.extend_from_slice(&ct);
                let mut secret = [0; ml_kem::SECRET_LEN];
                secret.copy_from_slice(&shared);
                sent.shared.push(secret);
            }
        }
        Ok(made)
    }

    fn sent(&self, key: Key) -> &Ciphertexts {
        match key {
            Key::Fresh => &self.to_each,
            Key::Cached => &self.to_first,
        }
    }
}

/// The part of a contiguous array that belongs to batch `number`, lanes of `len` elements.
fn part<T>(all: &[T], number: usize, batch: usize, len: usize) -> &[T] {
    &all[number * batch * len..(number + 1) * batch * len]
}

/// Output buffers of one thread.
struct Outputs {
    status: Vec<Status>,
    ek: Vec<u8>,
    dk: Vec<u8>,
    ct: Vec<u8>,
    shared: Vec<[u8; ml_kem::SECRET_LEN]>,
}

impl Outputs {
    fn new(inputs: &Inputs) -> Outputs {
        let (p, batch) = (inputs.params, inputs.batch);
        Outputs {
            status: vec![Status::NotRun; batch],
            ek: vec![0; batch * p.ek_len()],
            dk: vec![0; batch * p.dk_len()],
            ct: vec![0; batch * p.ct_len()],
            shared: vec![[0; ml_kem::SECRET_LEN]; batch],
        }
    }
}

/// Runs batch `number` of a case.
fn run(
    engine: &Engine,
    inputs: &Inputs,
    case: Case,
    known: (&[&EncapsKey], &[&DecapsKey]),
    number: usize,
    out: &mut Outputs,
) -> Result<(), Error> {
    let (p, batch) = (inputs.params, inputs.batch);
    let operation = match case.operation {
        Operation::Keygen => Work::Kem(Kem::Keygen {
            params: p,
            seeds: part(&inputs.seeds, number, batch, 1),
            ek: &mut out.ek,
            dk: &mut out.dk,
        }),
        Operation::Encaps => Work::Kem(Kem::Encaps {
            params: p,
            keys: match case.key {
                Key::Fresh => Keys::Fresh(part(&inputs.ek, number, batch, p.ek_len())),
                Key::Cached => Keys::Known(known.0),
            },
            m: part(&inputs.m, number, batch, 1),
            ct: &mut out.ct,
            shared: &mut out.shared,
        }),
        _ => Work::Kem(Kem::Decaps {
            params: p,
            keys: match case.key {
                Key::Fresh => Keys::Fresh(part(&inputs.dk, number, batch, p.dk_len())),
                Key::Cached => Keys::Known(known.1),
            },
            ct: part(&inputs.sent(case.key).ct, number, batch, p.ct_len()),
            shared: &mut out.shared,
        }),
    };
    engine.run(&mut Batch { operation, status: &mut out.status })?;
    all_ok(&out.status)
}

/// The cached key, once for each lane.
fn cached(inputs: &Inputs) -> (Vec<&EncapsKey>, Vec<&DecapsKey>) {
    let decaps =
        vec![inputs.first.ml_kem(); inputs.batch].into_iter().flatten().collect::<Vec<_>>();
    (decaps.iter().map(|key| key.encaps_key()).collect(), decaps)
}

/// Returns the call that one thread times.
pub fn call<'a>(engine: &'a Engine, inputs: &'a Inputs, case: Case) -> Call<'a> {
    let mut out = Outputs::new(inputs);
    let (encaps, decaps) = cached(inputs);
    Box::new(move |number| {
        run(engine, inputs, case, (&encaps, &decaps), number % inputs.batches, &mut out)
    })
}

/// Runs every batch once and compares its outputs.
pub fn check(engine: &Engine, inputs: &Inputs, case: Case) -> Result<(), Error> {
    let (p, batch) = (inputs.params, inputs.batch);
    let mut out = Outputs::new(inputs);
    let (encaps, decaps) = cached(inputs);
    for number in 0..inputs.batches {
        run(engine, inputs, case, (&encaps, &decaps), number, &mut out)?;
        if case.operation == Operation::Keygen {
            check_equal(case, "ek", &out.ek, part(&inputs.ek, number, batch, p.ek_len()))?;
            check_equal(case, "dk", &out.dk, part(&inputs.dk, number, batch, p.dk_len()))?;
            continue;
        }
        let sent = inputs.sent(case.key);
        if case.operation == Operation::Encaps {
            check_equal(
                case,
                "the ciphertext",
                &out.ct,
                part(&sent.ct, number, batch, p.ct_len()),
            )?;
        }
        let shared = part(&sent.shared, number, batch, 1).as_flattened();
        check_equal(case, "the shared secret", out.shared.as_flattened(), shared)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_not_timed() {
        let engine = Engine::global().unwrap();
        for case in Case::all().filter(|case| case.algorithm == Algorithm::MlKem512) {
            let mut inputs = Inputs::new(engine, case.algorithm, 3).unwrap();
            check(engine, &inputs, case).unwrap();
            let last = inputs.ek.len() - 1;
            inputs.ek[last] ^= 1;
            inputs.to_each.shared[7][0] ^= 1;
            inputs.to_first.shared[7][0] ^= 1;
            assert!(matches!(check(engine, &inputs, case), Err(Error::Failed(_))), "{case:?}");
        }
    }
}
