//! FN-DSA, as drafted, and Falcon, as submitted to the third round: two crates behind one interface.
//!
//! ```text
//!   seed --generate--> SigningKey --sign--> padded signature --strip--> variable-length signature
//!                          |                       |                             |
//!                     VerifyKey <------------------+---------- verify <----------+
//! ```
//!
//! FIPS 206 is not published, so nothing here is a standard. FN-DSA follows the draft as
//! implemented by the crate fn-dsa 0.4; Falcon is fn-dsa 0.3.0 in its original hash mode, which
//! agrees with the submission's test vectors. They are different algorithms under different names,
//! with incompatible keys and signatures.
//!
//! | | public | private | signature |
//! |---|---|---|---|
//! | FN-DSA-512, -1024 | 897, 1793 | 1345, 2369 | 666, 1280 |
//! | Falcon-512, -1024 | 897, 1793 | 1281, 2305 | up to 752, 1462, without padding |
//! | Falcon-padded-512, -1024 | 897, 1793 | 1281, 2305 | 666, 1280 |
//!
//! The crates run one operation at a time, over AVX2 where there is, with floating point in
//! signing. SECURITY.md says what that means for timing.

mod crates;
mod keys;
mod message;
mod params;
mod private;
mod randomness;
mod signature;

pub use keys::{SigningKey, VerifyKey, generate};
pub use message::check_message;
pub use params::{
    Design, MU_LEN, NONCE_LEN, Params, RANDOM_LEN, SEED_LEN, SignaturePadding, params,
};
pub use signature::{pad, strip};

use crate::error::Status;
use crate::message::Message;
use randomness::Randomness;

/// Signs one message into `sig` (`sig_len_max` bytes), with zeros behind; [`made_len`] says where the
/// signature ends. All zero unless the verdict is [`Status::Ok`].
///
/// FN-DSA hashes its randomness with the private key and mu (the crate does); Falcon's stream is
/// SHAKE256 of private key, randomness and message, to the same end: randomness that repeats does
/// not sign two messages with one nonce.
pub fn sign(
    key: &SigningKey,
    message: &Message<'_>,
    random: &[u8; RANDOM_LEN],
    sig: &mut [u8],
) -> Status {
    let params = key.params();
    sig.fill(0);
    let signed = message::with_parts(params, message, |parts| {
        let mut randomness = match params.design {
            Design::FnDsaDraft => Randomness::from_bytes(random),
            Design::Falcon => Randomness::expand(&[key.bytes(), random, parts.data]),
        };
        key.with_signer(|signer| {
            signer.sign(&mut randomness, parts, &mut sig[..params.padded_len()])
        })
    });
    let status = match signed {
        None => Status::InvalidInput,
        Some(Ok(true)) => Status::Ok,
        Some(Ok(false)) => Status::Fault,
        Some(Err(status)) => status,
    };
    if !status.is_ok() {
        sig.fill(0);
    }
    status
}

/// Returns the length of a signature that [`sign`] made.
pub fn made_len(params: &Params, sig: &[u8]) -> usize {
    match params.padding {
        SignaturePadding::Padded => params.padded_len(),
        SignaturePadding::Stripped => strip(sig).len(),
    }
}

/// Verifies one signature, which ends as the parameter set of the key says.
pub fn verify(key: &VerifyKey, message: &Message<'_>, sig: &[u8]) -> Status {
    let params = key.params();
    let verified = message::with_parts(params, message, |parts| match params.padding {
        SignaturePadding::Padded => key.verifier().verify(parts, sig),
        SignaturePadding::Stripped if sig.len() > params.padded_len() => {
            signature::verify_long(params, key.bytes(), parts.data, sig)
        }
        // An empty signature, or one that is not stripped, is not padded.
        SignaturePadding::Stripped => {
            pad(params, sig).is_ok_and(|padded| key.verifier().verify(parts, &padded))
        }
    });
    match verified {
        None => Status::InvalidInput,
        Some(true) => Status::Ok,
        Some(false) => Status::InvalidSignature,
    }
}

#[cfg(test)]
mod tests;
