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
    all_ok(
        backend,
        1,
        Operation::Slh(Slh::Verify {
            params,
            keys: Keys::Known(&[key[0].verify_key()]),
            messages,
            sig: &sig,
        }),
    )?;
    refuses_one_of_many(backend, params, &key[0], message, &sig, 1)?;
    refuses_one_of_many(backend, params, &key[0], message, &sig, 3)?;
    // A backend without lanes works on one after the other.
    if backend.lanes() > 1 {
        is_the_same_in_company(backend, params, &key[0], message, &sig)?;
    }
    let mut hash = Sha3_256::new();
    // The self-test's secrets are constants.
    ct::declassify(key[0].bytes());
    hash.update(key[0].verify_key().bytes());
    hash.update(key[0].bytes());
    hash.update(&sig);
    Ok(hash.finalize().into())
}

/// The key and the signature of lane 0 once more, beside those of another seed.
fn is_the_same_in_company(
    backend: &dyn Backend,
    params: &'static Params,
    key: &SigningKey,
    message: Message<'_>,
    sig: &[u8],
) -> Result<(), String> {
    let (own, other): ([u8; 96], [u8; 96]) = (seed(0), seed(1));
    let seeds = [&other[..params.seed_len()], &own[..params.seed_len()]].concat();
    let mut made = [SigningKey::blank(params), SigningKey::blank(params)];
    let generate = Slh::Generate { params, seeds: &seeds, keys: &mut made };
    all_ok(backend, 2, Operation::Slh(generate))?;
    let mut sigs = vec![0; 2 * params.sig_len()];
    let keys = [&made[0], &made[1]];
    let (keys, messages) = (Keys::Known(&keys), &[message; 2]);
    let sign = Slh::Sign { params, keys, messages, opt_rand: None, sig: &mut sigs };
    all_ok(backend, 2, Operation::Slh(sign))?;
    // The self-test's secrets are constants.
    for bytes in [made[0].bytes(), made[1].bytes(), key.bytes(), &seeds, sig, &sigs] {
        ct::declassify(bytes);
    }
    // SK.seed, SK.prf and PK.seed are the seed; that PK.root is theirs, its signature shows.
    if made[1].bytes() != key.bytes()
        || sigs[params.sig_len()..] != *sig
        || made[0].bytes()[..params.seed_len()] != seeds[..params.seed_len()]
    {
        return Err("a key or a signature in company is not what it is by itself".to_owned());
    }
    let keys = [made[0].verify_key(), made[1].verify_key()];
    let verify = Slh::Verify { params, keys: Keys::Known(&keys), messages, sig: &sigs };
    all_ok(backend, 2, Operation::Slh(verify))
}

/// A corrupted signature among `n`, between good ones, must fail, and must fail alone.
fn refuses_one_of_many(
    backend: &dyn Backend,
    params: &'static Params,
    key: &SigningKey,
    message: Message<'_>,
    sig: &[u8],
    n: usize,
) -> Result<(), String> {
    let mut sigs = sig.repeat(n);
    let bad = n / 2;
    sigs[(bad + 1) * sig.len() - 1] ^= 1;
    let mut status = vec![Status::NotRun; n];
    let keys = vec![key.verify_key(); n];
    let messages = &vec![message; n][..];
    let operation = Slh::Verify { params, keys: Keys::Known(&keys), messages, sig: &sigs };
    let operation = Operation::Slh(operation);
    backend.run(&mut Batch { operation, status: &mut status });
    let expected = |lane| if lane == bad { Status::InvalidSignature } else { Status::Ok };
    if !status.iter().enumerate().all(|(lane, status)| *status == expected(lane)) {
        return Err("a corrupted signature was not refused in its own lane alone".to_owned());
    }
    Ok(())
}
