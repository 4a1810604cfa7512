//! The traits of algorithm families, by which the opaque keys of the engine can hold keys of any
//! family.
//!
//! ```text
//!   SigningKey --+-- MlDsa(family::ml_dsa::SigningKey)    every variant implements SigningPart
//!                +-- ..
//! ```
//!
//! To add a family: a file here with types that implement the two traits of its kind, its variant
//! in [`Family`](gabion_scheme::algorithms::Family), a line in the `families!` of
//! `keys/signature.rs` or `keys/kem.rs`, and its self-test, called by `self_test.rs`. The command
//! line, the provider and the batch functions then support it.
//!
//! All operations are batches over keys of one algorithm, and a single operation is a batch of one,
//! so that both return the same results. An implementation of `*_many` sets every status and leaves
//! the outputs of failed lanes all zero. It may rely on matching array lengths, which the engine
//! has checked.

pub(crate) mod composite;
pub(crate) mod ecdsa;
pub(crate) mod ed25519;
pub(crate) mod fn_dsa;
pub(crate) mod hss;
pub(crate) mod hybrid;
pub(crate) mod ml_dsa;
pub(crate) mod ml_kem;
mod plain;
pub(crate) mod slh_dsa;
pub(crate) mod xmss;

use gabion_backend::Task;
use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status};
use zeroize::Zeroizing;

use crate::entropy::{Entropy, Randomness};
use crate::error::{Error, check_length, lane_result, missing_seed};
use crate::memory;
use crate::route::Engine;

/// The length of an algorithm's seeds.
fn seed_len(algorithm: Algorithm) -> Result<usize, Error> {
    algorithm.info().seed.ok_or_else(|| missing_seed(algorithm))
}

/// Draws the seeds of `n` key pairs at once, `[n][seed]`.
fn draw_seeds(
    algorithm: Algorithm,
    n: usize,
    entropy: &dyn Entropy,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut seeds = Zeroizing::new(vec![0; n * seed_len(algorithm)?]);
    entropy.fill(&mut seeds)?;
    Ok(seeds)
}

/// The key of a batch of one.
fn only<T>(algorithm: Algorithm, mut keys: Vec<T>) -> Result<T, Error> {
    let fault = Error::Lane { algorithm, task: Task::Keygen, status: Status::Fault };
    keys.pop().ok_or(fault)
}

/// The keys of a batch, each decoded or refused, or why none was decoded.
pub(crate) type DecodedKeys<T> = Result<Vec<Result<T, Error>>, Error>;

/// Decodes public keys of `len` bytes in one batch: `decode` makes `n` keys of `[n][len]` bytes.
/// One of another length is refused by itself; its lane takes zeros.
pub(crate) fn decode_lanes<T>(
    algorithm: Algorithm,
    what: &'static str,
    len: usize,
    encoded: &[&[u8]],
    decode: impl FnOnce(&[u8], &mut [Status]) -> Result<Vec<T>, Error>,
) -> DecodedKeys<T> {
    memory::check_keys(algorithm.info(), encoded.len())?;
    let mut bytes = memory::filled(encoded.len() * len, 0)?;
    for (place, key) in bytes.chunks_exact_mut(len).zip(encoded) {
        if key.len() == len {
            place.copy_from_slice(key);
        }
    }
    let mut status = vec![Status::NotRun; encoded.len()];
    let keys = decode(&bytes, &mut status)?;
    let lanes = keys.into_iter().zip(status).zip(encoded);
    let outcome = |((key, status), encoded): ((T, Status), &&[u8])| {
        check_length(what, len, encoded)?;
        lane_result(algorithm, Task::DecodePublic, status)?;
        Ok(key)
    };
    Ok(lanes.map(outcome).collect())
}

/// The lanes of a signing batch; `n` of each, the signatures `[n][room]`, where the
/// longest signature of any of the keys has room.
pub(crate) struct SignLanes<'a> {
    pub(crate) messages: &'a [Message<'a>],
    pub(crate) randomness: Randomness<'a>,
    pub(crate) signatures: &'a mut [u8],
    /// The length of each signature; the rest of its buffer is zero.
    pub(crate) lengths: &'a mut [usize],
    pub(crate) status: &'a mut [Status],
}

/// The lanes of a verifying batch, as [`SignLanes`] has them. No length is above the room.
pub(crate) struct VerifyLanes<'a> {
    pub(crate) messages: &'a [Message<'a>],
    pub(crate) signatures: &'a [u8],
    pub(crate) lengths: &'a [usize],
    pub(crate) status: &'a mut [Status],
}

/// A signing key of one family with its public key. Immutable; clones share it.
pub(crate) trait SigningPart: Clone + Sized {
    /// The public key alone.
    type Public: VerifyPart;

    fn algorithm(&self) -> Algorithm;
    /// Returns the standard encoding, which is secret.
    fn bytes(&self) -> &[u8];
    /// The seed, where it is known. Secret.
    fn seed(&self) -> Option<&[u8]>;
    /// Shares this key's memory.
    fn public(&self) -> Self::Public;
    fn public_bytes(&self) -> &[u8];

    fn generate(
        engine: &Engine,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<Self, Error> {
        only(algorithm, Self::generate_many(engine, algorithm, 1, entropy)?)
    }
    /// Generates `n` key pairs. Overridden by families without seeds; the source of randomness is
    /// called as often as for a single key.
    fn generate_many(
        engine: &Engine,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        Self::from_seeds(engine, algorithm, &draw_seeds(algorithm, n, entropy)?)
    }
    fn from_seed(engine: &Engine, algorithm: Algorithm, seed: &[u8]) -> Result<Self, Error> {
        check_length("the seed of the private key", seed_len(algorithm)?, seed)?;
        only(algorithm, Self::from_seeds(engine, algorithm, seed)?)
    }
    /// The key pairs of whole seeds, one after the other, each as long as the table says.
    fn from_seeds(_: &Engine, algorithm: Algorithm, _: &[u8]) -> Result<Vec<Self>, Error> {
        Err(missing_seed(algorithm))
    }
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error>;
    /// Bytes of the longest signature; where the table leaves it to the key, the family answers.
    fn signature_len_max(&self) -> usize {
        self.algorithm().info().output.max()
    }
    /// Returns why a well-formed message is invalid for this algorithm. In a batch, the lane gets
    /// [`Status::InvalidInput`].
    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        self.public().check_message(message)
    }
    fn sign_many(engine: &Engine, keys: &[&Self], lanes: SignLanes<'_>) -> Result<(), Error>;
}

/// A verification key of one family. Immutable; clones share it.
pub(crate) trait VerifyPart: Clone + Sized {
    fn algorithm(&self) -> Algorithm;
    fn bytes(&self) -> &[u8];

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error>;
    /// One after the other unless the family has a batch for it.
    fn decode_many(engine: &Engine, algorithm: Algorithm, encoded: &[&[u8]]) -> DecodedKeys<Self> {
        Ok(encoded.iter().map(|bytes| Self::decode(engine, algorithm, bytes)).collect())
    }
    /// See [`SigningPart::signature_len_max`].
    fn signature_len_max(&self) -> usize {
        self.algorithm().info().output.max()
    }
    /// See [`SigningPart::check_message`].
    fn check_message(&self, _: &Message<'_>) -> Result<(), Error> {
        Ok(())
    }
    /// The hash of which a digest stands for the message itself, where the algorithm begins with
    /// one.
    fn own_hash(&self) -> Option<Prehash> {
        None
    }
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error>;
}

/// The lanes of an encapsulation: `ct[n][output]`, `shared[n][shared_secret]`, by the table.
pub(crate) struct EncapsLanes<'a> {
    pub(crate) randomness: Randomness<'a>,
    pub(crate) ct: &'a mut [u8],
    pub(crate) shared: &'a mut [u8],
    pub(crate) status: &'a mut [Status],
}

/// The lanes of a decapsulation, as [`EncapsLanes`] has them.
pub(crate) struct DecapsLanes<'a> {
    pub(crate) ct: &'a [u8],
    pub(crate) shared: &'a mut [u8],
    pub(crate) status: &'a mut [Status],
}

/// A decapsulation key of one family with its public key. Immutable; clones share it.
pub(crate) trait DecapsPart: Clone + Sized {
    /// The public key alone.
    type Public: EncapsPart;

    fn algorithm(&self) -> Algorithm;
    /// Returns the standard encoding, which is secret.
    fn bytes(&self) -> &[u8];
    /// The seed, where it is known. Secret.
    fn seed(&self) -> Option<&[u8]>;
    /// Shares this key's memory.
    fn public(&self) -> Self::Public;
    fn public_bytes(&self) -> &[u8];

    fn generate(
        engine: &Engine,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<Self, Error> {
        only(algorithm, Self::generate_many(engine, algorithm, 1, entropy)?)
    }
    /// Generates `n` key pairs. Overridden by families without seeds; the source of randomness is
    /// called as often as for a single key.
    fn generate_many(
        engine: &Engine,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        Self::from_seeds(engine, algorithm, &draw_seeds(algorithm, n, entropy)?)
    }
    fn from_seed(engine: &Engine, algorithm: Algorithm, seed: &[u8]) -> Result<Self, Error> {
        check_length("the seed of the private key", seed_len(algorithm)?, seed)?;
        only(algorithm, Self::from_seeds(engine, algorithm, seed)?)
    }
    /// The key pairs of whole seeds, one after the other, each as long as the table says.
    fn from_seeds(_: &Engine, algorithm: Algorithm, _: &[u8]) -> Result<Vec<Self>, Error> {
        Err(missing_seed(algorithm))
    }
    /// Decodes with all checks, including that the private part belongs to the public one.
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error>;
    /// Decodes like [`Self::decode`], but without the pairwise test that the standard does not
    /// require.
    fn decode_untested(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error>;
    fn decaps_many(engine: &Engine, keys: &[&Self], lanes: DecapsLanes<'_>) -> Result<(), Error>;
}

/// An encapsulation key of one family. Immutable; clones share it.
pub(crate) trait EncapsPart: Clone + Sized {
    fn algorithm(&self) -> Algorithm;
    fn bytes(&self) -> &[u8];

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error>;
    /// One after the other unless the family has a batch for it.
    fn decode_many(engine: &Engine, algorithm: Algorithm, encoded: &[&[u8]]) -> DecodedKeys<Self> {
        Ok(encoded.iter().map(|bytes| Self::decode(engine, algorithm, bytes)).collect())
    }
    fn encaps_many(engine: &Engine, keys: &[&Self], lanes: EncapsLanes<'_>) -> Result<(), Error>;
}
