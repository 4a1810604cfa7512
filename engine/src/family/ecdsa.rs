//! ECDSA (FIPS 186-5) on P-256, P-384 and P-521 over the libraries of [`crate::ecc`]; signatures in
//! DER. No lanes: operations run one after the other.

use std::sync::Arc;

use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status};
use zeroize::Zeroizing;

use super::{SignLanes, SigningPart, VerifyLanes, VerifyPart};
use crate::ecc::{self, Curve, Hedge, SignatureInput};
use crate::entropy::{Entropy, Randomness};
use crate::error::{Error, check_built, check_length, private_key, public_key, unknown};
use crate::route::Engine;

/// A private scalar and its point.
#[derive(Clone)]
pub(crate) struct SigningKey(Arc<Pair>);

struct Pair {
    private: Zeroizing<Vec<u8>>,
    public: VerifyKey,
}

/// An uncompressed point.
#[derive(Clone)]
pub(crate) struct VerifyKey {
    algorithm: Algorithm,
    curve: Curve,
    bytes: Arc<[u8]>,
}

/// The curve of an algorithm, once its self-test has passed.
fn curve_of(engine: &Engine, algorithm: Algorithm) -> Result<Curve, Error> {
    let curve = Curve::of(algorithm).ok_or_else(|| unknown(algorithm))?;
    engine.backend_for(algorithm)?;
    Ok(curve)
}

/// Returns the input of ECDSA: a message, which is hashed with the curve's hash, or its digest by a
/// hash of FIPS 180-4 or FIPS 202. Contexts are not supported.
fn signed<'a>(message: &Message<'a>) -> Option<SignatureInput<'a>> {
    match *message {
        Message::Pure { context: [], message } => Some(SignatureInput::Message(message)),
        Message::Prehash { context: [], hash, digest } => {
            (digest.len() == hash.digest_len()).then_some(SignatureInput::Digest(digest))
        }
        _ => None,
    }
}

/// Puts a key pair together, given the point that was computed of the scalar.
fn pair(
    algorithm: Algorithm,
    curve: Curve,
    private: Zeroizing<Vec<u8>>,
    point: Option<Vec<u8>>,
) -> Result<SigningKey, Error> {
    let bytes = point.ok_or_else(|| private_key(algorithm, SCALAR))?.into();
    Ok(SigningKey(Arc::new(Pair { private, public: VerifyKey { algorithm, curve, bytes } })))
}

impl SigningKey {
    /// A signature in DER; none if the computation failed.
    pub(super) fn sign_one(&self, signed: SignatureInput<'_>, hedge: Hedge<'_>) -> Option<Vec<u8>> {
        let raw = ecc::sign(self.0.public.curve, &self.0.private, signed, hedge)?;
        Some(ecc::to_der(&raw))
    }
}

impl VerifyKey {
    /// The verdict on a signature in DER.
    pub(super) fn verify_one(&self, signed: SignatureInput<'_>, der: &[u8]) -> Status {
        let Some(raw) = ecc::from_der(self.curve, der) else { return Status::InvalidSignature };
        match ecc::verify(self.curve, &self.bytes, signed, &raw) {
            Ok(true) => Status::Ok,
            Ok(false) => Status::InvalidSignature,
            Err(_) => Status::NoMemory,
        }
    }
}

impl SigningPart for SigningKey {
    type Public = VerifyKey;

    fn algorithm(&self) -> Algorithm {
        self.0.public.algorithm
    }

    fn bytes(&self) -> &[u8] {
        &self.0.private
    }

    fn seed(&self) -> Option<&[u8]> {
        None
    }

    fn public(&self) -> VerifyKey {
        self.0.public.clone()
    }

    fn public_bytes(&self) -> &[u8] {
        &self.0.public.bytes
    }

    /// FIPS 186-5, A.2.2.
    fn generate_many(
        engine: &Engine,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        let curve = curve_of(engine, algorithm)?;
        let mut scalars = Zeroizing::new(vec![0; n * curve.scalar_len()]);
        ecc::fill(curve, entropy, &mut scalars)?;
        let lanes: Vec<_> = scalars.chunks_exact(curve.scalar_len()).collect();
        let points = ecc::lanes::public_keys(engine, curve, &lanes)?;
        let keys = lanes.into_iter().zip(points);
        keys.map(|(scalar, point)| pair(algorithm, curve, Zeroizing::new(scalar.to_vec()), point))
            .collect()
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let curve = curve_of(engine, algorithm)?;
        check_length("an ECDSA private key", curve.scalar_len(), bytes)?;
        if !ecc::is_private(curve, bytes) {
            return Err(private_key(algorithm, SCALAR));
        }
        pair(algorithm, curve, Zeroizing::new(bytes.to_vec()), ecc::public_key(curve, bytes))
    }

    /// FIPS 186-5, section 6.4.1, with the nonce of RFC 6979, by the curve's hash also where
    /// another one made the digest.
    fn sign_many(engine: &Engine, keys: &[&Self], lanes: SignLanes<'_>) -> Result<(), Error> {
        let Some(first) = keys.first() else { return Ok(()) };
        curve_of(engine, first.algorithm())?;
        let SignLanes { messages, randomness, signatures, lengths, status } = lanes;
        let room = first.algorithm().info().output.max();
        let drawn = randomness.hedge::<32>(keys.len())?;
        for (lane, key) in keys.iter().enumerate() {
            let out = &mut signatures[lane * room..(lane + 1) * room];
            out.fill(0);
            lengths[lane] = 0;
            let Some(signed) = signed(&messages[lane]) else {
                status[lane] = Status::InvalidInput;
                continue;
            };
            let hedge = match randomness {
                Randomness::Fresh(_) => Hedge::Fresh(&drawn[lane]),
                Randomness::Deterministic => Hedge::None,
                Randomness::Bytes(_) => Hedge::Fixed(&drawn[lane]),
            };
            let Some(der) = key.sign_one(signed, hedge) else {
                status[lane] = Status::Fault;
                continue;
            };
            out[..der.len()].copy_from_slice(&der);
            lengths[lane] = der.len();
            status[lane] = Status::Ok;
        }
        if status.contains(&Status::Fault) {
            engine.suspect(first.algorithm(), "could not sign with a good key");
        }
        Ok(())
    }
}

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(_: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        // Decodes without the self-test, which signs: the check of a point does not use a backend,
        // and the sender of a certificate decides which keys are decoded.
        check_built(algorithm)?;
        let curve = Curve::of(algorithm).ok_or_else(|| unknown(algorithm))?;
        check_length("an ECDSA public key", curve.public_len(), bytes)?;
        if !ecc::is_public(curve, bytes) {
            return Err(public_key(algorithm, "it is not an uncompressed point of the curve"));
        }
        Ok(VerifyKey { algorithm, curve, bytes: bytes.into() })
    }

    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        if signed(message).is_some() {
            return Ok(());
        }
        let operation = match message {
            Message::Pure { .. } => "sign with a context",
            Message::Prehash { .. } => "sign a digest with a context",
            Message::Mu(_) => "sign a representative mu",
            Message::Internal(_) => "sign a formatted message",
        };
        let algorithm = self.algorithm.name();
        Err(Error::Input(gabion_scheme::Error::Unsupported { algorithm, operation }))
    }

    /// The curve's.
    fn own_hash(&self) -> Option<Prehash> {
        Some(self.curve.hash())
    }

    /// FIPS 186-5, section 6.4.2.
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let Some(first) = keys.first() else { return Ok(()) };
        curve_of(engine, first.algorithm)?;
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        let room = first.algorithm.info().output.max();
        for (lane, key) in keys.iter().enumerate() {
            let der = &signatures[lane * room..][..lengths[lane]];
            status[lane] = match signed(&messages[lane]) {
                None => Status::InvalidInput,
                Some(signed) => key.verify_one(signed, der),
            };
        }
        Ok(())
    }
}

/// Why a private key is refused.
const SCALAR: &str = "it is not a scalar from 1 to the order of the curve minus one";
