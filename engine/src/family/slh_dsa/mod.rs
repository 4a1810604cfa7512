//! SLH-DSA (FIPS 205): signing keys with their top tree, batches as a backend takes them.

pub(crate) mod self_test;

use std::sync::Arc;

use gabion_backend::{Batch, Keys, Operation, Slh};
use gabion_scheme::message::Message;
use gabion_scheme::slh_dsa::{self, Params, params};
use gabion_scheme::{Algorithm, Status, ct};
use zeroize::Zeroizing;

use super::{SignLanes, SigningPart, VerifyLanes, VerifyPart};
use crate::error::{Error, check_length, unknown};
use crate::route::Engine;

/// A private key with its public key and top tree.
#[derive(Clone)]
pub(crate) struct SigningKey(pub(crate) Arc<slh_dsa::SigningKey>);

/// A public key.
#[derive(Clone)]
pub(crate) enum VerifyKey {
    PublicOnly(Arc<slh_dsa::VerifyKey>),
    Pair(Arc<slh_dsa::SigningKey>),
}

impl VerifyKey {
    fn expanded(&self) -> &slh_dsa::VerifyKey {
        match self {
            VerifyKey::PublicOnly(key) => key,
            VerifyKey::Pair(key) => key.verify_key(),
        }
    }
}

fn params_of(algorithm: Algorithm) -> Result<&'static Params, Error> {
    params(algorithm).ok_or_else(|| unknown(algorithm))
}

impl SigningPart for SigningKey {
    type Public = VerifyKey;

    fn algorithm(&self) -> Algorithm {
        self.0.params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Returns `None`: the random bytes of key generation are three of the four parts of the
    /// private key, and not a format of it (RFC 9909, section 6).
    fn seed(&self) -> Option<&[u8]> {
        None
    }

    fn public(&self) -> VerifyKey {
        VerifyKey::Pair(Arc::clone(&self.0))
    }

    fn public_bytes(&self) -> &[u8] {
        self.0.verify_key().bytes()
    }

    /// slh_keygen_internal (FIPS 205, Algorithm 18) of SK.seed, SK.prf and PK.seed each.
    fn from_seeds(engine: &Engine, algorithm: Algorithm, seeds: &[u8]) -> Result<Vec<Self>, Error> {
        let params = params_of(algorithm)?;
        let n = seeds.len() / params.seed_len();
        let mut keys: Vec<_> = (0..n).map(|_| slh_dsa::SigningKey::blank(params)).collect();
        engine.run_all(Operation::Slh(Slh::Generate { params, seeds, keys: &mut keys }), n)?;
        Ok(keys.into_iter().map(|key| SigningKey(Arc::new(key))).collect())
    }

    /// Works out the top tree, which costs as much as key generation, and checks PK.root with it.
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length("an SLH-DSA private key", params.sk_len(), bytes)?;
        let mut keys = [slh_dsa::SigningKey::blank(params)];
        engine.run_one(Operation::Slh(Slh::DecodePrivate { params, bytes, keys: &mut keys }))?;
        let [key] = keys;
        Ok(SigningKey(Arc::new(key)))
    }

    /// slh_sign and hash_slh_sign (FIPS 205, Algorithms 22 and 23), by the kind of message; twice
    /// where signatures are checked before they are given out. Of a tree that was built wrongly the
    /// signature verifies.
    fn sign_many(engine: &Engine, keys: &[&Self], lanes: SignLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.0.params()) else { return Ok(()) };
        let SignLanes { messages, randomness, signatures, lengths, status } = lanes;
        let opt_rand = randomness.optional(keys.len(), params.n)?;
        let opt_rand = opt_rand.as_ref().map(|bytes| &bytes[..]);
        let known: Vec<_> = keys.iter().map(|key| &*key.0).collect();
        let sign = |sig: &mut [u8], status: &mut [Status]| {
            let keys = Keys::Known(&known);
            let operation = Operation::Slh(Slh::Sign { params, keys, messages, opt_rand, sig });
            engine.run(&mut Batch { operation, status })
        };
        sign(signatures, status)?;
        if engine.verifies_after_sign() {
            let mut again = Zeroizing::new(vec![0; signatures.len()]);
            if let Err(error) = sign(&mut again, &mut vec![Status::NotRun; keys.len()]) {
                ct::wipe(signatures);
                status.fill(Status::NotRun);
                return Err(error);
            }
            if !keep_equal(signatures, &again, params.sig_len(), status) {
                engine.suspect(params.algorithm, "signed differently the second time");
            }
        }
        for (length, status) in lengths.iter_mut().zip(status) {
            *length = if status.is_ok() { params.sig_len() } else { 0 };
        }
        Ok(())
    }
}

/// Keeps signatures that equal their second computation; a lane that differs is wiped and gets
/// [`Status::Fault`]. Returns whether all were equal; a second signature that failed is zero.
fn keep_equal(signatures: &mut [u8], again: &[u8], len: usize, status: &mut [Status]) -> bool {
    let mut all_equal = true;
    let lanes = signatures.chunks_exact_mut(len).zip(again.chunks_exact(len)).zip(status);
    for ((signature, again), status) in lanes {
        if status.is_ok() && signature != again {
            ct::wipe(signature);
            *status = Status::Fault;
            all_equal = false;
        }
    }
    all_equal
}

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        self.expanded().params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.expanded().bytes()
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length("an SLH-DSA public key", params.pk_len(), bytes)?;
        let mut keys = [slh_dsa::VerifyKey::blank(params)];
        engine.run_one(Operation::Slh(Slh::DecodePublic { params, bytes, keys: &mut keys }))?;
        let [key] = keys;
        Ok(VerifyKey::PublicOnly(Arc::new(key)))
    }

    /// All but a representative mu, which is ML-DSA's.
    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        if !matches!(message, Message::Mu(_)) {
            return Ok(());
        }
        let operation = "sign a representative mu";
        let algorithm = VerifyPart::algorithm(self).name();
        Err(Error::Input(gabion_scheme::Error::Unsupported { algorithm, operation }))
    }

    /// slh_verify and hash_slh_verify (FIPS 205, Algorithms 24 and 25).
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.expanded().params()) else { return Ok(()) };
        let VerifyLanes { messages, signatures: sig, lengths, status } = lanes;
        let known: Vec<_> = keys.iter().map(|key| key.expanded()).collect();
        let keys = Keys::Known(&known);
        let operation = Operation::Slh(Slh::Verify { params, keys, messages, sig });
        engine.run(&mut Batch { operation, status })?;
        for (length, status) in lengths.iter().zip(status) {
            // The padded input was verified, so the actual length must be checked too.
            if *length != params.sig_len() && status.is_ok() {
                *status = Status::InvalidSignature;
            }
        }
        Ok(())
    }
}
