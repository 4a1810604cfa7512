//! Composite ML-DSA signatures: the ML-DSA parts of a batch run as one batch of ML-DSA; of the
//! classical parts those of Ed25519 run as one too, the others one after the other.
//!
//! A signature is made only if both parts were; it verifies only if both parts do, and both are
//! always computed, so that nothing but the verdict on the whole comes out.

mod classical;

use std::sync::Arc;

use gabion_backend::{Batch, Dsa, Keys, Operation};
use gabion_scheme::composite::{Params, params};
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{self, SEED_LEN};
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status};
use zeroize::Zeroizing;

use super::ml_dsa as family_ml_dsa;
use super::{SignLanes, SigningPart, VerifyLanes, VerifyPart};
use crate::entropy::{Entropy, EntropyBuffer, Randomness};
use crate::error::{Error, missing_seed, unknown};
use crate::route::Engine;

/// Bytes of randomness of a signature: rnd of ML-DSA, then that of the classical part.
const SIGN_RANDOM_LEN: usize = 32 + classical::RANDOM_LEN;

/// A private key with its public key.
#[derive(Clone)]
pub(crate) struct SigningKey(Arc<Pair>);

struct Pair {
    ml_dsa: family_ml_dsa::SigningKey,
    classical: classical::Private,
    bytes: Zeroizing<Vec<u8>>,
    public: VerifyKey,
}

/// A public key.
#[derive(Clone)]
pub(crate) struct VerifyKey(Arc<Public>);

struct Public {
    params: &'static Params,
    ml_dsa: family_ml_dsa::VerifyKey,
    classical: classical::Public,
    bytes: Vec<u8>,
}

fn params_of(algorithm: Algorithm) -> Result<&'static Params, Error> {
    params(algorithm).ok_or_else(|| unknown(algorithm))
}

/// A key too short to have two parts.
fn too_short(what: &'static str, expected: usize, got: usize) -> Error {
    Error::Input(gabion_scheme::Error::Length { what, expected, got })
}

impl SigningKey {
    /// Combines the components: an ML-DSA key that was made from its seed, and a classical one.
    fn new(
        params: &'static Params,
        ml_dsa: family_ml_dsa::SigningKey,
        classical: classical::Private,
    ) -> Result<Self, Error> {
        let seed = ml_dsa.seed().ok_or_else(|| missing_seed(params.ml_dsa))?;
        let bytes = Zeroizing::new([seed, classical.bytes()].concat());
        let of_classical = classical.public();
        let public = VerifyKey(Arc::new(Public {
            params,
            bytes: [ml_dsa.public_bytes(), of_classical.bytes()].concat(),
            ml_dsa: ml_dsa.public(),
            classical: of_classical,
        }));
        Ok(SigningKey(Arc::new(Pair { ml_dsa, classical, bytes, public })))
    }

    fn params(&self) -> &'static Params {
        self.0.public.0.params
    }
}

impl SigningPart for SigningKey {
    type Public = VerifyKey;

    fn algorithm(&self) -> Algorithm {
        self.params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The private key starts with the seed of ML-DSA; a composite as a whole has no seed.
    fn seed(&self) -> Option<&[u8]> {
        None
    }

    fn public(&self) -> VerifyKey {
        self.0.public.clone()
    }

    fn public_bytes(&self) -> &[u8] {
        &self.0.public.0.bytes
    }

    /// Composite-ML-DSA.KeyGen (section 3.1), the ML-DSA parts of all keys together.
    fn generate_many(
        engine: &Engine,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        let params = params_of(algorithm)?;
        let drawn = EntropyBuffer::draw(
            entropy,
            n * (SEED_LEN + classical::key_random_len(params.classical)),
        )?;
        let ml_dsa = family_ml_dsa::SigningKey::generate_many(engine, params.ml_dsa, n, &drawn)?;
        let classical = classical::Private::generate_many(engine, params.classical, n, &drawn)?;
        let parts = ml_dsa.into_iter().zip(classical);
        parts.map(|(ml_dsa, classical)| Self::new(params, ml_dsa, classical)).collect()
    }

    /// DeserializePrivateKey (section 4.2).
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        let (seed, classical) = bytes
            .split_at_checked(SEED_LEN)
            .ok_or_else(|| too_short("a composite private key", SEED_LEN, bytes.len()))?;
        let classical = classical::Private::decode(engine, params.classical, classical)?;
        let ml_dsa = family_ml_dsa::SigningKey::from_seed(engine, params.ml_dsa, seed)?;
        Self::new(params, ml_dsa, classical)
    }

    /// Composite-ML-DSA.Sign (section 3.2), the ML-DSA parts of all lanes together.
    fn sign_many(engine: &Engine, keys: &[&Self], lanes: SignLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.params()) else { return Ok(()) };
        let SignLanes { messages, randomness, signatures, lengths, status } = lanes;
        let random = randomness.fresh::<SIGN_RANDOM_LEN>(params.algorithm, keys.len())?;
        let is_given = matches!(randomness, Randomness::Bytes(_));
        let rnd: Zeroizing<Vec<[u8; 32]>> =
            Zeroizing::new(random.iter().map(|r| std::array::from_fn(|i| r[i])).collect());
        let texts = Representatives::new(params, messages);
        let known: Vec<_> = keys.iter().map(|key| &*key.0.ml_dsa.0).collect();
        let Some(ml_dsa) = ml_dsa::params(params.ml_dsa) else {
            return Err(unknown(params.ml_dsa));
        };
        let mut parts = vec![0; keys.len() * ml_dsa.sig_len()];
        let operation = Operation::Dsa(Dsa::Sign {
            params: ml_dsa,
            keys: Keys::Known(&known),
            messages: &texts.messages(params),
            rnd: &rnd,
            sig: &mut parts,
        });
        engine.run(&mut Batch { operation, status })?;
        let classical: Vec<_> = keys.iter().map(|key| &key.0.classical).collect();
        let random: Zeroizing<Vec<[u8; classical::RANDOM_LEN]>> =
            Zeroizing::new(random.iter().map(|r| std::array::from_fn(|i| r[32 + i])).collect());
        let classical = classical::sign(engine, &classical, &texts.0, (&random, is_given))?;
        let has_fault = classical.contains(&Err(Status::Fault));
        signatures.fill(0);
        let room = params.algorithm.info().output.max();
        let outputs = signatures.chunks_exact_mut(room).zip(lengths.iter_mut());
        let parts = parts.chunks_exact(ml_dsa.sig_len());
        let parts = parts.zip(classical);
        for (lane, (((signature, length), (part, classical)), status)) in
            outputs.zip(parts).zip(status.iter_mut()).enumerate()
        {
            *length = 0;
            if !texts.is_good(lane) {
                *status = Status::InvalidInput;
            }
            match classical {
                Ok(classical) if status.is_ok() => {
                    *length = part.len() + classical.len();
                    signature[..part.len()].copy_from_slice(part);
                    signature[part.len()..*length].copy_from_slice(&classical);
                }
                Err(why) if status.is_ok() => *status = why,
                _ => {}
            }
        }
        // A fault of the ML-DSA part was followed up where it was found.
        if has_fault {
            engine.suspect(params.algorithm, "could not sign the classical part of a composite");
        }
        Ok(())
    }
}

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        self.0.params.algorithm
    }

    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// DeserializePublicKey (section 4.1).
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        let len = params.ml_dsa.info().public_key.max();
        let (ml_dsa, classical) = bytes
            .split_at_checked(len)
            .ok_or_else(|| too_short("a composite public key", len, bytes.len()))?;
        Ok(VerifyKey(Arc::new(Public {
            params,
            ml_dsa: family_ml_dsa::VerifyKey::decode(engine, params.ml_dsa, ml_dsa)?,
            classical: classical::Public::decode(engine, params.classical, classical)?,
            bytes: bytes.to_vec(),
        })))
    }

    /// Only messages with a context, or their digests by PH (section 10.4, external pre-hashing).
    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        let operation = match message {
            Message::Pure { .. } => return Ok(()),
            Message::Prehash { hash, .. } if *hash == self.0.params.prehash => return Ok(()),
            Message::Prehash { .. } => "sign a digest of another hash than its own",
            Message::Mu(_) => "sign a representative mu",
            Message::Internal(_) => "sign a formatted message",
        };
        let algorithm = self.0.params.algorithm.name();
        Err(Error::Input(gabion_scheme::Error::Unsupported { algorithm, operation }))
    }

    /// PH.
    fn own_hash(&self) -> Option<Prehash> {
        Some(self.0.params.prehash)
    }

    /// Composite-ML-DSA.Verify (section 3.3), the ML-DSA parts of all lanes together.
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.0.params) else { return Ok(()) };
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        let texts = Representatives::new(params, messages);
        let known: Vec<_> = keys.iter().map(|key| key.0.ml_dsa.expanded()).collect();
        let Some(ml_dsa) = ml_dsa::params(params.ml_dsa) else {
            return Err(unknown(params.ml_dsa));
        };
        let room = params.algorithm.info().output.max();
        let len = ml_dsa.sig_len();
        // The table's longest signature is longer than its ML-DSA part.
        let parts: Vec<u8> = signatures
            .chunks_exact(room)
            .flat_map(|signature| &signature[..len])
            .copied()
            .collect();
        let operation = Operation::Dsa(Dsa::Verify {
            params: ml_dsa,
            keys: Keys::Known(&known),
            messages: &texts.messages(params),
            sig: &parts,
        });
        engine.run(&mut Batch { operation, status })?;
        let parts: Vec<&[u8]> = signatures
            .chunks_exact(room)
            .zip(lengths)
            .map(|(signature, &length)| signature.get(len..length).unwrap_or_default())
            .collect();
        let classical: Vec<_> = keys.iter().map(|key| &key.0.classical).collect();
        let verdicts = classical::verify(engine, &classical, &texts.0, &parts)?;
        for (lane, (classical, status)) in verdicts.into_iter().zip(status).enumerate() {
            if !texts.is_good(lane) {
                *status = Status::InvalidInput;
            } else if status.is_ok() && !classical.is_ok() {
                *status = match classical {
                    Status::NoMemory => Status::NoMemory,
                    _ => Status::InvalidSignature,
                };
            }
        }
        Ok(())
    }
}

/// M' of each lane; empty where the message has a form that composites do not have.
struct Representatives(Vec<Vec<u8>>);

impl Representatives {
    fn new(params: &Params, messages: &[Message<'_>]) -> Self {
        let representative = |message: &Message<'_>| match *message {
            Message::Pure { context, message } if context.len() <= 255 => {
                params.representative(context, message)
            }
            Message::Prehash { context, hash, digest }
                if context.len() <= 255
                    && hash == params.prehash
                    && digest.len() == hash.digest_len() =>
            {
                params.representative_of_digest(context, digest)
            }
            _ => Vec::new(),
        };
        Representatives(messages.iter().map(representative).collect())
    }

    fn is_good(&self, lane: usize) -> bool {
        !self.0[lane].is_empty()
    }

    /// Returns the messages for the ML-DSA components: M', with the label as the context.
    fn messages<'a>(&'a self, params: &'a Params) -> Vec<Message<'a>> {
        let context = params.label.as_bytes();
        self.0.iter().map(|message| Message::Pure { context, message }).collect()
    }
}
