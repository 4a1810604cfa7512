//! The classical parts of composites: RSA, ECDSA and Ed25519 behind one interface.
//!
//! ECDSA and Ed25519 are the engine's own families; RSA is the scheme's, and there for nothing
//! else.

use gabion_scheme::composite::{Classical, Curve};
use gabion_scheme::ed25519::SEED_LEN;
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, Status, rsa};
use zeroize::Zeroizing;

use crate::ecc::{Hedge, SignatureInput};
use crate::entropy::{Entropy, Randomness};
use crate::error::{Error, private_key};
use crate::family::{SignLanes, SigningPart, VerifyLanes, VerifyPart, ecdsa, ed25519};
use crate::route::Engine;

/// Bytes of randomness that a signature takes.
pub(super) const RANDOM_LEN: usize = rsa::RANDOM_LEN;
/// Bytes of an Ed25519 signature.
const ED25519_LEN: usize = 64;

/// Bytes of randomness that a key takes.
pub(super) fn key_random_len(classical: Classical) -> usize {
    match classical {
        Classical::Rsa(_) => RANDOM_LEN,
        Classical::Ecdsa(curve) => curve.ecdsa().info().private_key.max(),
        Classical::Ed25519 => SEED_LEN,
    }
}

/// A private key with its public key.
pub(super) enum Private {
    Rsa(rsa::Params, Box<rsa::PrivateKey>),
    /// An ECDSA key with its encoding, an ECPrivateKey.
    Ecdsa(ecdsa::SigningKey, Zeroizing<Vec<u8>>),
    Ed25519(ed25519::SigningKey),
}

/// A public key.
#[derive(Clone)]
pub(super) enum Public {
    Rsa(rsa::Params, Box<rsa::PublicKey>),
    Ecdsa(ecdsa::VerifyKey),
    Ed25519(ed25519::VerifyKey),
}

impl Private {
    /// `n` key pairs, their randomness drawn at once.
    pub(super) fn generate_many(
        engine: &Engine,
        classical: Classical,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        match classical {
            Classical::Rsa(params) => {
                let mut random = Zeroizing::new(vec![[0; RANDOM_LEN]; n]);
                entropy.fill(random.as_flattened_mut())?;
                let make = |random| {
                    let key = rsa::PrivateKey::generate(params, random)?;
                    Ok(Private::Rsa(params, Box::new(key)))
                };
                random.iter().map(make).collect()
            }
            Classical::Ecdsa(curve) => {
                let keys = SigningPart::generate_many(engine, curve.ecdsa(), n, entropy)?;
                Ok(keys.into_iter().map(|key| of_ecdsa(curve, key)).collect())
            }
            Classical::Ed25519 => {
                let keys = SigningPart::generate_many(engine, Algorithm::Ed25519, n, entropy)?;
                Ok(keys.into_iter().map(Private::Ed25519).collect())
            }
        }
    }

    /// Decodes RSAPrivateKey, ECPrivateKey with the curve and without the public key, or the 32
    /// bytes of Ed25519 (section 4).
    pub(super) fn decode(
        engine: &Engine,
        classical: Classical,
        bytes: &[u8],
    ) -> Result<Self, Error> {
        match classical {
            Classical::Rsa(params) => {
                let key = rsa::PrivateKey::decode(params, bytes)?;
                Ok(Private::Rsa(params, Box::new(key)))
            }
            Classical::Ecdsa(curve) => {
                let (before, behind) = curve.private_key_der();
                let scalar = bytes
                    .strip_prefix(before)
                    .and_then(|rest| rest.strip_suffix(behind))
                    .ok_or_else(|| {
                        private_key(curve.ecdsa(), "no ECPrivateKey with its curve alone")
                    })?;
                SigningPart::decode(engine, curve.ecdsa(), scalar).map(|key| of_ecdsa(curve, key))
            }
            Classical::Ed25519 => {
                SigningPart::decode(engine, Algorithm::Ed25519, bytes).map(Private::Ed25519)
            }
        }
    }

    /// The encoding. Secret.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Private::Rsa(_, key) => key.bytes(),
            Private::Ecdsa(_, bytes) => bytes,
            Private::Ed25519(key) => SigningPart::bytes(key),
        }
    }

    pub(super) fn public(&self) -> Public {
        match self {
            Private::Rsa(params, key) => Public::Rsa(*params, Box::new(key.public().clone())),
            Private::Ecdsa(key, _) => Public::Ecdsa(key.public()),
            Private::Ed25519(key) => Public::Ed25519(key.public()),
        }
    }
}

fn of_ecdsa(curve: Curve, key: ecdsa::SigningKey) -> Private {
    let (before, behind) = curve.private_key_der();
    let bytes = Zeroizing::new([before, SigningPart::bytes(&key), behind].concat());
    Private::Ecdsa(key, bytes)
}

impl Public {
    /// Decodes RSAPublicKey, an uncompressed point, or the 32 bytes of Ed25519 (section 4).
    pub(super) fn decode(
        engine: &Engine,
        classical: Classical,
        bytes: &[u8],
    ) -> Result<Self, Error> {
        match classical {
            Classical::Rsa(params) => {
                Ok(Public::Rsa(params, Box::new(rsa::PublicKey::decode(params, bytes)?)))
            }
            Classical::Ecdsa(curve) => {
                VerifyPart::decode(engine, curve.ecdsa(), bytes).map(Public::Ecdsa)
            }
            Classical::Ed25519 => {
                VerifyPart::decode(engine, Algorithm::Ed25519, bytes).map(Public::Ed25519)
            }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Public::Rsa(_, key) => key.bytes(),
            Public::Ecdsa(key) => VerifyPart::bytes(key),
            Public::Ed25519(key) => VerifyPart::bytes(key),
        }
    }
}

/// Returns the signatures of all lanes, with keys of one algorithm, or the reason of a failure.
/// Tests may fix the randomness, which is fresh otherwise.
pub(super) fn sign(
    engine: &Engine,
    keys: &[&Private],
    texts: &[Vec<u8>],
    (random, is_given): (&[[u8; RANDOM_LEN]], bool),
) -> Result<Vec<Result<Vec<u8>, Status>>, Error> {
    let with_lanes: Vec<_> = keys
        .iter()
        .filter_map(|key| if let Private::Ed25519(key) = key { Some(key) } else { None })
        .collect();
    if with_lanes.is_empty() {
        let one = |((key, text), random): ((&&Private, &Vec<u8>), &[u8; RANDOM_LEN])| {
            let hedge = if is_given { Hedge::Fixed(random) } else { Hedge::Fresh(random) };
            let made = match key {
                Private::Rsa(params, key) => key.sign(*params, text, random),
                Private::Ecdsa(key, _) => key.sign_one(SignatureInput::Message(text), hedge),
                Private::Ed25519(_) => None,
            };
            made.ok_or(Status::Fault)
        };
        return Ok(keys.iter().zip(texts).zip(random).map(one).collect());
    }
    let n = with_lanes.len();
    let (mut signatures, mut lengths) = (vec![0; n * ED25519_LEN], vec![0; n]);
    let mut status = vec![Status::NotRun; n];
    let lanes = SignLanes {
        messages: &plain(texts),
        randomness: Randomness::Deterministic,
        signatures: &mut signatures,
        lengths: &mut lengths,
        status: &mut status,
    };
    SigningPart::sign_many(engine, &with_lanes, lanes)?;
    let made = signatures.chunks_exact(ED25519_LEN).zip(status);
    let of_lane = |(signature, status): (&[u8], Status)| {
        if status.is_ok() { Ok(signature.to_vec()) } else { Err(status) }
    };
    Ok(made.map(of_lane).collect())
}

/// The verdict on the signature of every lane's text, by keys of one algorithm.
pub(super) fn verify(
    engine: &Engine,
    keys: &[&Public],
    texts: &[Vec<u8>],
    signatures: &[&[u8]],
) -> Result<Vec<Status>, Error> {
    let with_lanes: Vec<_> = keys
        .iter()
        .filter_map(|key| if let Public::Ed25519(key) = key { Some(key) } else { None })
        .collect();
    if with_lanes.is_empty() {
        let one = |((key, text), sig): ((&&Public, &Vec<u8>), &&[u8])| match key {
            Public::Rsa(params, key) if key.verify(*params, text, sig) => Status::Ok,
            Public::Ecdsa(key) => key.verify_one(SignatureInput::Message(text), sig),
            Public::Rsa(..) | Public::Ed25519(_) => Status::InvalidSignature,
        };
        return Ok(keys.iter().zip(texts).zip(signatures).map(one).collect());
    }
    let mut laid_out = vec![0; with_lanes.len() * ED25519_LEN];
    for (place, signature) in laid_out.chunks_exact_mut(ED25519_LEN).zip(signatures) {
        let len = signature.len().min(ED25519_LEN);
        place[..len].copy_from_slice(&signature[..len]);
    }
    let lengths: Vec<_> = signatures.iter().map(|signature| signature.len()).collect();
    let mut status = vec![Status::NotRun; with_lanes.len()];
    let lanes = VerifyLanes {
        messages: &plain(texts),
        signatures: &laid_out,
        lengths: &lengths,
        status: &mut status,
    };
    VerifyPart::verify_many(engine, &with_lanes, lanes)?;
    Ok(status)
}

fn plain(texts: &[Vec<u8>]) -> Vec<Message<'_>> {
    texts.iter().map(|message| Message::Pure { context: &[], message }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::entropy::OsEntropy;

    #[test]
    fn ecdsa_keys_of_another_form_are_refused() {
        let engine = Engine::new(&Config::default()).unwrap();
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            let classical = Classical::Ecdsa(curve);
            let key = Private::generate_many(&engine, classical, 1, &OsEntropy).unwrap().remove(0);
            assert!(Private::decode(&engine, classical, key.bytes()).is_ok());
            let (before, behind) = curve.private_key_der();
            let len = curve.scalar_len();
            for scalar in [vec![0; len], vec![0xff; len], vec![1; len - 1], vec![1; len + 1]] {
                let der = [before, &scalar, behind].concat();
                assert!(Private::decode(&engine, classical, &der).is_err());
            }
            for byte in (0..before.len()).chain(before.len() + len..key.bytes().len()) {
                let mut bad = key.bytes().to_vec();
                bad[byte] ^= 1;
                assert!(Private::decode(&engine, classical, &bad).is_err(), "byte {byte}");
            }
            let good = key.public().bytes().to_vec();
            for place in [0, 1, len, 2 * len] {
                let mut bad = good.clone();
                bad[place] ^= 1;
                assert!(Public::decode(&engine, classical, &bad).is_err(), "byte {place}");
            }
            assert!(Public::decode(&engine, classical, &good[..1 + len]).is_err());
            let compressed = [&[2], &good[1..1 + len]].concat();
            assert!(Public::decode(&engine, classical, &compressed).is_err());
        }
    }
}
