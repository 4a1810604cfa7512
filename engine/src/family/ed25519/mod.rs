//! Ed25519 (RFC 8032), verified strictly or by the rules of ZIP 215.

pub(crate) mod self_test;

use std::sync::Arc;

use gabion_backend::{Batch, Ed25519, Keys, Operation};
use gabion_scheme::ed25519::{self, PUBLIC_LEN, Rules, SEED_LEN, SIGNATURE_LEN};
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, Status};
use once_cell::race::OnceBox;

use super::{SignLanes, SigningPart, VerifyLanes, VerifyPart, plain};
use crate::entropy::{Entropy, OsEntropy};
use crate::error::{Error, exact, unknown};
use crate::route::Engine;

/// A private key with its public key.
#[derive(Clone)]
pub(crate) struct SigningKey(Arc<Pair>);

struct Pair {
    rules: Rules,
    signing: ed25519::SigningKey,
    /// The public key, decoded when it is first asked for: signing does without.
    public: OnceBox<VerifyKey>,
}

/// A public key. Multiples of its point are precomputed after some uses.
#[derive(Clone)]
pub(crate) struct VerifyKey(Arc<Public>);

struct Public {
    rules: Rules,
    bytes: [u8; PUBLIC_LEN],
    /// `None` only in a private key whose public point a faulty backend computed wrongly.
    key: Option<ed25519::VerifyKey>,
}

fn rules_of(algorithm: Algorithm) -> Result<Rules, Error> {
    match algorithm {
        Algorithm::Ed25519 => Ok(Rules::Strict),
        Algorithm::Ed25519Zip215 => Ok(Rules::Zip215),
        _ => Err(unknown(algorithm)),
    }
}

fn algorithm_of(rules: Rules) -> Algorithm {
    match rules {
        Rules::Strict => Algorithm::Ed25519,
        Rules::Zip215 => Algorithm::Ed25519Zip215,
    }
}

impl SigningPart for SigningKey {
    type Public = VerifyKey;

    fn algorithm(&self) -> Algorithm {
        algorithm_of(self.0.rules)
    }

    fn bytes(&self) -> &[u8] {
        self.0.signing.seed()
    }

    fn seed(&self) -> Option<&[u8]> {
        Some(self.0.signing.seed())
    }

    fn public(&self) -> VerifyKey {
        let (rules, bytes) = (self.0.rules, *self.0.signing.public());
        let make = || {
            let key = ed25519::VerifyKey::decode(rules, &bytes);
            Box::new(VerifyKey(Arc::new(Public { rules, bytes, key })))
        };
        self.0.public.get_or_init(make).clone()
    }

    fn public_bytes(&self) -> &[u8] {
        self.0.signing.public()
    }

    /// RFC 8032, section 5.1.5.
    fn from_seeds(engine: &Engine, algorithm: Algorithm, seeds: &[u8]) -> Result<Vec<Self>, Error> {
        let rules = rules_of(algorithm)?;
        let seeds = seeds.as_chunks::<SEED_LEN>().0;
        let mut keys = vec![ed25519::SigningKey::blank(); seeds.len()];
        let operation = Ed25519::Generate { seeds, keys: &mut keys };
        engine.run_all(Operation::Ed25519(operation), seeds.len())?;
        // Cloned: what a key is moved out of is not wiped, and `keys` is when it is dropped.
        let pair = |key: &ed25519::SigningKey| Pair {
            rules,
            signing: key.clone(),
            public: OnceBox::new(),
        };
        Ok(keys.iter().map(|key| SigningKey(Arc::new(pair(key)))).collect())
    }

    /// The private key is the seed.
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        Self::from_seed(engine, algorithm, bytes)
    }

    /// RFC 8032, section 5.1.6: deterministic, whatever randomness there is.
    fn sign_many(engine: &Engine, keys: &[&Self], lanes: SignLanes<'_>) -> Result<(), Error> {
        let SignLanes { messages, randomness: _, signatures, lengths, status } = lanes;
        signatures.fill(0);
        plain::each(messages, status, |lanes, messages, status| {
            let keys: Vec<_> = lanes.iter().map(|&lane| &keys[lane].0.signing).collect();
            let mut sig = vec![0; keys.len() * SIGNATURE_LEN];
            let operation = Ed25519::Sign { keys: &keys, messages, sig: &mut sig };
            engine.run(&mut Batch { operation: Operation::Ed25519(operation), status })?;
            for (&lane, sig) in lanes.iter().zip(sig.as_chunks::<SIGNATURE_LEN>().0) {
                signatures.as_chunks_mut().0[lane] = *sig;
            }
            Ok(())
        })?;
        for (length, status) in lengths.iter_mut().zip(status) {
            *length = if status.is_ok() { SIGNATURE_LEN } else { 0 };
        }
        Ok(())
    }
}

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        algorithm_of(self.0.rules)
    }

    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Under the rules that the algorithm's name stands for.
    fn decode(_: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let rules = rules_of(algorithm)?;
        let bytes: &[u8; PUBLIC_LEN] = exact("an Ed25519 public key", bytes)?;
        match ed25519::VerifyKey::decode(rules, bytes) {
            Some(key) => Ok(VerifyKey(Arc::new(Public { rules, bytes: *bytes, key: Some(key) }))),
            None => Err(Error::Input(gabion_scheme::Error::PublicKey {
                algorithm: algorithm.name(),
                reason: match rules {
                    Rules::Strict => "not the canonical encoding of a point of large order",
                    Rules::Zip215 => "not an encoding of a point of the curve",
                },
            })),
        }
    }

    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        plain::check(self.algorithm(), message)
    }

    /// RFC 8032, section 5.1.7, or ZIP 215.
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let Some(rules) = keys.first().map(|key| key.0.rules) else { return Ok(()) };
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        plain::each(messages, status, |lanes, messages, status| {
            let known: Vec<_> =
                lanes.iter().filter_map(|&lane| keys[lane].0.key.as_ref()).collect();
            let sig: Vec<_> =
                lanes.iter().map(|&lane| signatures.as_chunks::<SIGNATURE_LEN>().0[lane]).collect();
            let z = match rules {
                Rules::Zip215 if lanes.len() > 1 => multipliers(lanes.len()),
                _ => None,
            };
            let operation = Ed25519::Verify {
                rules,
                keys: Keys::Known(&known),
                messages,
                sig: sig.as_flattened(),
                z: z.as_deref(),
            };
            engine.run(&mut Batch { operation: Operation::Ed25519(operation), status })
        })?;
        for (length, status) in lengths.iter().zip(status) {
            // The padded input was verified, so the actual length must be checked too.
            if *length != SIGNATURE_LEN && status.is_ok() {
                *status = Status::InvalidSignature;
            }
        }
        Ok(())
    }
}

/// Returns the random multipliers for batch verification. Without randomness, signatures are
/// verified one by one.
fn multipliers(lanes: usize) -> Option<Vec<[u8; 16]>> {
    let mut z = vec![[0; 16]; lanes];
    OsEntropy.fill(z.as_flattened_mut()).ok()?;
    Some(z)
}
