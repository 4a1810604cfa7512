//! The families without a module of their own under measurement, through the doors for many keys of
//! any algorithm: FN-DSA, ECDSA, composites, hybrids and the key exchanges.
//!
//! These draw randomness where they take any, so that results can't be compared with the portable
//! backend's: it verifies the signatures instead, decapsulates the ciphertexts and derives the
//! secrets.

use std::sync::atomic::{AtomicU64, Ordering};

use gabion_engine::{
    Algorithm, Engine, Entropy, EntropyError, ExchangePrivateKey, KemPrivateKey, KemPublicKey,
    Kind, Message, Randomness, SigningKey, Status, VerifyKey,
};

use super::{Call, Case, Key, Operation, all_ok, batches, check_equal};
use crate::Error;
use crate::inputs;

/// Keys that the lanes take in turn; one of RSA takes seconds to make.
const KEYS: usize = 2;

/// Randomness of a stream that costs less than the operating system's, which no row is about.
struct Stream(AtomicU64);

impl Entropy for Stream {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        for chunk in out.chunks_mut(32) {
            let drawn: [u8; 32] = inputs::bytes(40, self.0.fetch_add(1, Ordering::Relaxed));
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Ok(())
    }
}

/// The pairs of an algorithm, by its kind.
enum Pairs {
    Signature(Vec<SigningKey>),
    Kem(Vec<KemPrivateKey>),
    Exchange(Vec<ExchangePrivateKey>),
}

/// The inputs of one case's calls.
pub struct Inputs {
    algorithm: Algorithm,
    batch: usize,
    /// The batches that calls take in turn; lane `i` of batch `b` is item `b * batch + i`, and its
    /// key is `item % KEYS` where it is fresh, 0 where it is cached.
    batches: usize,
    pairs: Pairs,
    /// By key: the encoded private and public keys.
    encoded: Vec<[Vec<u8>; 2]>,
    messages: Vec<[u8; inputs::MESSAGE_BYTES]>,
    /// By item: a signature in its place, with its length, or a ciphertext with its secret.
    outputs: Vec<u8>,
    lengths: Vec<usize>,
    secrets: Vec<u8>,
}

impl Inputs {
    /// Keys, signatures and ciphertexts by the reference.
    pub fn new(reference: &Engine, case: Case, batch: usize) -> Result<Inputs, Error> {
        let (algorithm, info) = (case.algorithm, case.algorithm.info());
        let stream = Stream(AtomicU64::new(0));
        let pairs = match info.kind {
            Kind::Signature => {
                Pairs::Signature(reference.signature_generate_many(algorithm, KEYS, &stream)?)
            }
            Kind::Kem => Pairs::Kem(reference.kem_generate_many(algorithm, KEYS, &stream)?),
            Kind::KeyExchange => {
                let pair = |_| reference.exchange_generate(algorithm, &stream);
                Pairs::Exchange((0..KEYS).map(pair).collect::<Result<_, _>>()?)
            }
        };
        let encoded = (0..KEYS).map(|index| match &pairs {
            Pairs::Signature(keys) => [keys[index].bytes(), keys[index].public_bytes()],
            Pairs::Kem(keys) => [keys[index].bytes(), keys[index].public_bytes()],
            Pairs::Exchange(keys) => [keys[index].bytes(), keys[index].public_bytes()],
        });
        let encoded = encoded.map(|pair| pair.map(<[u8]>::to_vec)).collect();
        let signing = case.operation == Operation::Sign;
        let batches = batches(if signing { inputs::MESSAGES } else { KEYS }, batch);
        let items = batches * batch;
        let mut made = Inputs {
            algorithm,
            batch,
            batches,
            encoded,
            messages: (0..items).map(inputs::message).collect(),
            outputs: vec![0; items * info.output.max()],
            lengths: vec![0; items],
            secrets: vec![0; items * info.shared_secret],
            pairs,
        };
        let index = |item: usize| if case.key == Key::Fresh { item % KEYS } else { 0 };
        let mut status = vec![Status::NotRun; items];
        match (&made.pairs, case.operation) {
            (Pairs::Signature(keys), Operation::Verify) => {
                let keys: Vec<_> = (0..items).map(|item| &keys[index(item)]).collect();
                reference.sign_many(
                    &keys,
                    &plain(&made.messages),
                    Randomness::Fresh(&stream),
                    &mut made.outputs,
                    &mut made.lengths,
                    &mut status,
                )?;
                all_ok(&status)?;
            }
            (Pairs::Kem(keys), Operation::Decaps) => {
                let public: Vec<_> = (0..items).map(|item| keys[index(item)].public()).collect();
                let keys: Vec<_> = public.iter().collect();
                let (random, ct) = (Randomness::Fresh(&stream), &mut made.outputs);
                reference.encaps_many(&keys, random, ct, &mut made.secrets, &mut status)?;
                all_ok(&status)?;
            }
            _ => {}
        }
        Ok(made)
    }

    /// The encoded key of a fresh lane: `half` 0 is the private one, 1 the public one.
    fn fresh(&self, number: usize, lane: usize, half: usize) -> &[u8] {
        &self.encoded[(number * self.batch + lane) % KEYS][half]
    }
}

fn plain(messages: &[[u8; inputs::MESSAGE_BYTES]]) -> Vec<Message<'_>> {
    messages.iter().map(|message| Message::Pure { context: &[], message }).collect()
}

/// The state of one thread: its output buffers.
struct Outputs {
    stream: Stream,
    status: Vec<Status>,
    out: Vec<u8>,
    lengths: Vec<usize>,
    secrets: Vec<u8>,
    /// The encoded public keys that key generation made.
    public: Vec<Vec<u8>>,
}

impl Outputs {
    fn new(inputs: &Inputs) -> Outputs {
        let (info, batch) = (inputs.algorithm.info(), inputs.batch);
        Outputs {
            stream: Stream(AtomicU64::new(1 << 32)),
            status: vec![Status::NotRun; batch],
            out: vec![0; batch * info.output.max()],
            lengths: vec![0; batch],
            secrets: vec![0; batch * info.shared_secret],
            public: Vec::new(),
        }
    }
}

/// The part of an array that belongs to batch `number`, lanes of `len` elements.
fn part<T>(all: &[T], number: usize, batch: usize, len: usize) -> &[T] {
    &all[number * batch * len..(number + 1) * batch * len]
}

/// Runs batch `number` of a case.
fn run(
    engine: &Engine,
    inputs: &Inputs,
    case: Case,
    number: usize,
    out: &mut Outputs,
) -> Result<(), Error> {
    match &inputs.pairs {
        Pairs::Signature(keys) => signature(engine, (inputs, keys), case, number, out),
        Pairs::Kem(keys) => kem(engine, (inputs, keys), case, number, out),
        Pairs::Exchange(keys) => exchange(engine, (inputs, keys), case, number, out),
    }
}

fn signature(
    engine: &Engine,
    (inputs, keys): (&Inputs, &[SigningKey]),
    case: Case,
    number: usize,
    out: &mut Outputs,
) -> Result<(), Error> {
    let (algorithm, batch) = (inputs.algorithm, inputs.batch);
    if case.operation == Operation::Keygen {
        let made = engine.signature_generate_many(algorithm, batch, &out.stream)?;
        out.public = made.iter().map(|key| key.public_bytes().to_vec()).collect();
        return Ok(());
    }
    let messages = plain(part(&inputs.messages, number, batch, 1));
    if case.operation == Operation::Sign {
        let lane = |lane| match case.key {
            Key::Fresh => engine.signature_private(algorithm, inputs.fresh(number, lane, 0)),
            Key::Cached => Ok(keys[0].clone()),
        };
        let keys: Vec<SigningKey> = (0..batch).map(lane).collect::<Result<_, _>>()?;
        let random = Randomness::Fresh(&out.stream);
        let keys: Vec<_> = keys.iter().collect();
        let (lengths, status) = (&mut out.lengths, &mut out.status);
        engine.sign_many(&keys, &messages, random, &mut out.out, lengths, status)?;
        return all_ok(&out.status);
    }
    let cached = keys[0].public();
    let lane = |lane| match case.key {
        Key::Fresh => engine.signature_public(algorithm, inputs.fresh(number, lane, 1)),
        Key::Cached => Ok(cached.clone()),
    };
    let keys: Vec<VerifyKey> = (0..batch).map(lane).collect::<Result<_, _>>()?;
    let keys: Vec<_> = keys.iter().collect();
    let sigs = part(&inputs.outputs, number, batch, algorithm.info().output.max());
    let lengths = part(&inputs.lengths, number, batch, 1);
    engine.verify_many(&keys, &messages, sigs, lengths, &mut out.status)?;
    all_ok(&out.status)
}

fn kem(
    engine: &Engine,
    (inputs, keys): (&Inputs, &[KemPrivateKey]),
    case: Case,
    number: usize,
    out: &mut Outputs,
) -> Result<(), Error> {
    let (algorithm, batch) = (inputs.algorithm, inputs.batch);
    let status = &mut out.status;
    match case.operation {
        Operation::Keygen => {
            let made = engine.kem_generate_many(algorithm, batch, &out.stream)?;
            out.public = made.iter().map(|key| key.public_bytes().to_vec()).collect();
            return Ok(());
        }
        Operation::Encaps => {
            let cached = keys[0].public();
            let lane = |lane| match case.key {
                Key::Fresh => engine.kem_public(algorithm, inputs.fresh(number, lane, 1)),
                Key::Cached => Ok(cached.clone()),
            };
            let keys: Vec<KemPublicKey> = (0..batch).map(lane).collect::<Result<_, _>>()?;
            let keys: Vec<_> = keys.iter().collect();
            let random = Randomness::Fresh(&out.stream);
            engine.encaps_many(&keys, random, &mut out.out, &mut out.secrets, status)?;
        }
        _ => {
            let lane = |lane| match case.key {
                Key::Fresh => engine.kem_private(algorithm, inputs.fresh(number, lane, 0)),
                Key::Cached => Ok(keys[0].clone()),
            };
            let keys: Vec<KemPrivateKey> = (0..batch).map(lane).collect::<Result<_, _>>()?;
            let keys: Vec<_> = keys.iter().collect();
            let ct = part(&inputs.outputs, number, batch, algorithm.info().output.max());
            engine.decaps_many(&keys, ct, &mut out.secrets, status)?;
        }
    }
    all_ok(&out.status)
}

/// Every peer's key is decoded on the way, since it is never seen again.
fn exchange(
    engine: &Engine,
    (inputs, keys): (&Inputs, &[ExchangePrivateKey]),
    case: Case,
    number: usize,
    out: &mut Outputs,
) -> Result<(), Error> {
    let (algorithm, batch) = (inputs.algorithm, inputs.batch);
    if case.operation == Operation::Keygen {
        let made = match batch {
            1 => vec![engine.exchange_generate(algorithm, &out.stream)?],
            _ => engine.exchange_generate_many(algorithm, batch, &out.stream)?,
        };
        out.public = made.iter().map(|key| key.public_bytes().to_vec()).collect();
        return Ok(());
    }
    let own = |lane| match case.key {
        Key::Fresh => engine.exchange_private(algorithm, inputs.fresh(number, lane, 0)),
        Key::Cached => Ok(keys[0].clone()),
    };
    let pair = |lane| {
        let peer = engine.exchange_public(algorithm, inputs.fresh(number, lane, 1))?;
        Ok((own(lane)?, peer))
    };
    let pairs: Vec<_> = (0..batch).map(pair).collect::<Result<_, gabion_engine::Error>>()?;
    let lanes: Vec<_> = pairs.iter().map(|(own, peer)| (own, peer)).collect();
    let secrets = match lanes[..] {
        [(own, peer)] => vec![engine.derive(own, peer)],
        _ => engine.derive_many(&lanes)?,
    };
    let places = out.secrets.chunks_exact_mut(algorithm.info().shared_secret);
    for (place, secret) in places.zip(secrets) {
        place.copy_from_slice(&secret?);
    }
    Ok(())
}

/// Returns the call that one thread times.
pub fn call<'a>(engine: &'a Engine, inputs: &'a Inputs, case: Case) -> Call<'a> {
    let mut out = Outputs::new(inputs);
    Box::new(move |number| run(engine, inputs, case, number % inputs.batches, &mut out))
}

/// Runs two batches and verifies their outputs with the reference.
pub fn check(
    engine: &Engine,
    reference: &Engine,
    inputs: &Inputs,
    case: Case,
) -> Result<(), Error> {
    let (algorithm, info, batch) = (case.algorithm, case.algorithm.info(), inputs.batch);
    let mut out = Outputs::new(inputs);
    for number in 0..2 {
        run(engine, inputs, case, number, &mut out)?;
        for public in &out.public {
            match &inputs.pairs {
                Pairs::Signature(_) => drop(reference.signature_public(algorithm, public)?),
                Pairs::Kem(_) => drop(reference.kem_public(algorithm, public)?),
                Pairs::Exchange(_) => drop(reference.exchange_public(algorithm, public)?),
            }
        }
        for lane in 0..batch {
            let item = number * batch + lane;
            let index = if case.key == Key::Fresh { item % KEYS } else { 0 };
            let secret = &out.secrets[lane * info.shared_secret..][..info.shared_secret];
            match (&inputs.pairs, case.operation) {
                (Pairs::Signature(keys), Operation::Sign) => {
                    let signature = &out.out[lane * info.output.max()..][..out.lengths[lane]];
                    let message = plain(&inputs.messages)[item];
                    reference.verify(&keys[index].public(), message, signature)?;
                }
                (Pairs::Kem(keys), Operation::Encaps) => {
                    let ct = &out.out[lane * info.output.max()..][..info.output.max()];
                    let opened = reference.decaps(&keys[index], ct)?;
                    check_equal(case, "the shared secret", secret, &opened)?;
                }
                (Pairs::Kem(_), Operation::Decaps) => {
                    let sent = part(&inputs.secrets, item, 1, info.shared_secret);
                    check_equal(case, "the shared secret", secret, sent)?;
                }
                (Pairs::Exchange(keys), Operation::Derive) => {
                    let derived = reference.derive(&keys[index], &keys[item % KEYS].public())?;
                    check_equal(case, "the shared secret", secret, &derived)?;
                }
                _ => {}
            }
        }
    }
    refuses(engine, inputs, case)
}

/// A spoilt signature must be refused.
fn refuses(engine: &Engine, inputs: &Inputs, case: Case) -> Result<(), Error> {
    let Pairs::Signature(keys) = &inputs.pairs else { return Ok(()) };
    if case.operation != Operation::Verify {
        return Ok(());
    }
    let mut spoilt = inputs.outputs[..inputs.lengths[0]].to_vec();
    spoilt[inputs.lengths[0] / 2] ^= 1;
    match engine.verify(&keys[0].public(), plain(&inputs.messages)[0], &spoilt) {
        Err(gabion_engine::Error::BadSignature) => Ok(()),
        _ => Err(Error::Failed(format!("{}: a spoilt signature verifies", case.name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_not_timed() {
        let engine = Engine::global().unwrap();
        let picked = ["Falcon-512", "ECDSA-P-256", "X25519", "X-Wing", "SecP256r1MLKEM768"];
        let cases = Case::all().filter(|case| picked.contains(&case.algorithm.name()));
        let mut seen = 0;
        for case in cases.filter(|case| !matches!(case.operation, Operation::Keygen)) {
            let mut inputs = Inputs::new(engine, case, 3).unwrap();
            check(engine, engine, &inputs, case).unwrap();
            match case.operation {
                Operation::Verify => inputs.outputs[40] ^= 1,
                Operation::Decaps => inputs.outputs[0] ^= 1,
                // Another key than the one that judges.
                _ => inputs.encoded.reverse(),
            }
            let wrong = check(engine, engine, &inputs, case);
            assert!(case.key == Key::Cached || wrong.is_err(), "{case:?}");
            seen += 1;
        }
        assert_eq!(seen, 2 * 4 + 2 + 2 * 4);
    }
}
