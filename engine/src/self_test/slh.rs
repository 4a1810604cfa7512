//! The self-test of SLH-DSA.
//!
//! Making a key with a small set ("s") or signing with it takes 60 to 600 times as long as a first
//! use may. So each set is tested by the quick set ("f") of the same hash functions and the same n,
//! which is itself where the set is a quick one. What the two do not share are the heights of trees,
//! and those are numbers in a table. Every kernel call that the small set makes is in the known
//! answer: chains with and without their secret, T_l of the WOTS+ length, H, the message's hashes.
//!
//! A signature has thousands of chains, so lanes of every width are full within one operation.

use gabion_backend::{Backend, Batch, Keys, Operation, Slh};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::slh_dsa::{Message, Params, SigningKey, params};
use gabion_scheme::{Status, ct};
use sha3::{Digest, Sha3_256};

use super::{CONTEXT, all_ok, message, seed};

/// SHA3-256 over `pk || sk || sig` of lane 0's seed and message.
static EXPECTED: [(Algorithm, &str); 6] = [
    (
        Algorithm::SlhDsaSha2_128f,
        "8f45c1d8842243aa225b5b2c67b7a55b7537c8f5bd9819a7dc9014c63aecc9da",
    ),
    (
        Algorithm::SlhDsaSha2_192f,
        "0dae82fb3a412fc5c073add97956396b427145a9d4432756d4a742e45e5ef3aa",
    ),
    (
        Algorithm::SlhDsaSha2_256f,
        "d9d40e810c01faf7e44d6a39a73eed258cd12895ddbb717be5904f4c958caae7",
    ),
    (
        Algorithm::SlhDsaShake128f,
        "c7af996065333a3718dee2329860ff1e50e0d4d99917a9be1a5a187635df7446",
    ),
    (
        Algorithm::SlhDsaShake192f,
        "201b186f289cbbf58ae9edfcfb862e51963bb1231cd238cb7d231ffef58ead21",
    ),
    (
        Algorithm::SlhDsaShake256f,
        "276adec0fa2e2b2db0a101cff97a0f21a6b40b0458b60907bfe86772ad38ecc0",
    ),
];

/// The known answer of a quick set.
pub(super) fn expected(algorithm: Algorithm) -> Option<&'static str> {
    EXPECTED.iter().find(|row| row.0 == algorithm).map(|row| row.1)
}

/// The quick set whose test stands for that of a small set: that with its hash functions and its n.
pub(super) fn stands_for(algorithm: Algorithm) -> Option<Algorithm> {
    let p = params(algorithm).filter(|_| expected(algorithm).is_none())?;
    let same = |quick: &&Params| (quick.family, quick.n) == (p.family, p.n);
    let quick = EXPECTED.iter().filter_map(|row| params(row.0)).find(same)?;
    Some(quick.algorithm)
}

/// The answer that the backend gives.
pub(super) fn answer(backend: &dyn Backend, params: &'static Params) -> Result<[u8; 32], String> {
    let seed: [u8; 96] = seed(0);
    let seeds = &seed[..params.seed_len()];
    let mut key = [SigningKey::blank(params)];
    let operation = Slh::Generate { params, seeds, keys: &mut key };
    all_ok(backend, 1, Operation::Slh(operation))?;
    let text: [u8; 200] = message(0);
    let message = Message::Pure { context: CONTEXT, message: &text };
    let mut sig = vec![0; params.sig_len()];
    let (keys, messages) = (Keys::Known(&[&key[0]]), &[message]);
    let operation = Slh::Sign { params, keys, messages, opt_rand: None, sig: &mut sig };
    all_ok(backend, 1, Operation::Slh(operation))?;
    refuses_one_of_three(backend, params, &key[0], message, &sig)?;
    let mut hash = Sha3_256::new();
    // The self-test's secrets are constants.
    ct::declassify(key[0].bytes());
    hash.update(key[0].verify_key().bytes());
    hash.update(key[0].bytes());
    hash.update(&sig);
    Ok(hash.finalize().into())
}

/// A corrupted signature between two good ones must fail, and must fail alone.
fn refuses_one_of_three(
    backend: &dyn Backend,
    params: &'static Params,
    key: &SigningKey,
    message: Message<'_>,
    sig: &[u8],
) -> Result<(), String> {
    let mut sigs = sig.repeat(3);
    sigs[2 * sig.len() - 1] ^= 1;
    let mut status = [Status::NotRun; 3];
    let keys = [key.verify_key(); 3];
    let messages = &[message; 3];
    let operation = Slh::Verify { params, keys: Keys::Known(&keys), messages, sig: &sigs };
    let operation = Operation::Slh(operation);
    backend.run(&mut Batch { operation, status: &mut status });
    if status != [Status::Ok, Status::InvalidSignature, Status::Ok] {
        return Err("a corrupted signature was not refused in its own lane alone".to_owned());
    }
    Ok(())
}
