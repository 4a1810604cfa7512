//! The self-test of SLH-DSA.
//!
//! Key generation and signing with a small set ("s") take 60 to 600 times as long as a first use
//! may. So each set is tested with the quick set ("f") of the same hash functions and the same n; a
//! quick set is tested with itself. The two differ only in the heights of trees, which are numbers
//! in a table. Every kernel call that the small set makes is in the known answer: chains with and
//! without their secret, T_l of the WOTS+ length, H, the message's hashes.
//!
//! A signature has thousands of chains, so lanes of every width are full within one operation.

use gabion_backend::{Backend, Keys, Operation, Slh};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::kernels::slh::SlhFamily;
use gabion_scheme::message::Message;
use gabion_scheme::slh_dsa::{Params, SigningKey, params};
use gabion_scheme::{Status, ct};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha512};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use crate::known_answers::{CONTEXT, all_ok, check_digest, expect_statuses, message, seed};

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
fn expected(algorithm: Algorithm) -> Option<&'static str> {
    EXPECTED.iter().find(|row| row.0 == algorithm).map(|row| row.1)
}

/// The quick set whose test stands for that of a small set: that with its hash functions and its n.
pub(crate) fn substitute_for(algorithm: Algorithm) -> Option<Algorithm> {
    let p = params(algorithm).filter(|_| expected(algorithm).is_none())?;
    let same = |quick: &&Params| (quick.family, quick.n) == (p.family, p.n);
    let quick = EXPECTED.iter().filter_map(|row| params(row.0)).find(same)?;
    Some(quick.algorithm)
}

/// Makes a key and a signature and verifies it.
pub(crate) fn run(backend: &dyn Backend, params: &'static Params) -> Result<(), String> {
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
    refuses_changed(backend, params, &key[0], message, &sig)?;
    // A backend without lanes works on one after the other.
    if backend.lanes() > 1 {
        is_the_same_beside_others(backend, params, &key[0], message, &sig)?;
    }
    // The self-test's secrets are constants.
    ct::declassify(key[0].bytes());
    let answer = [key[0].verify_key().bytes(), key[0].bytes(), &sig].concat();
    check_digest(&[answer], expected(params.algorithm).unwrap_or_default())
}

/// Repeats the key and the signature of lane 0 in a batch with another seed, each with different
/// randomness. That of lane 0 is PK.seed, as in the deterministic variant (FIPS 205, Algorithm 19,
/// line 2).
fn is_the_same_beside_others(
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
    let n = params.n;
    let opt_rand = [&[0x77; 32][..n], &own[2 * n..3 * n]].concat();
    let mut sigs = vec![0; 2 * params.sig_len()];
    // The key that has signed before knows the trees near the top.
    let keys = [&made[0], key];
    let (keys, messages) = (Keys::Known(&keys), &[message; 2]);
    let opt_rand = Some(&opt_rand[..]);
    let sign = Slh::Sign { params, keys, messages, opt_rand, sig: &mut sigs };
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
        return Err("a key or a signature in a batch differs from the same one alone".to_owned());
    }
    let expected = randomizer(params, &other[n..2 * n], &[0x77; 32][..n]);
    if expected.get(..n) != Some(&sigs[..n]) {
        return Err("randomness does not count".to_owned());
    }
    let keys = [made[0].verify_key(), made[1].verify_key()];
    let verify = Slh::Verify { params, keys: Keys::Known(&keys), messages, sig: &sigs };
    all_ok(backend, 2, Operation::Slh(verify))
}

/// R of a hedged signature of the test's message: PRF_msg (FIPS 205, sections 11.1 and 11.2).
fn randomizer(params: &Params, sk_prf: &[u8], opt_rand: &[u8]) -> Vec<u8> {
    let text: [u8; 200] = message(0);
    let context = [0, CONTEXT.len() as u8];
    let parts = [opt_rand, &context, CONTEXT, &text];
    macro_rules! hmac {
        ($hash:ty) => {{
            let Ok(mut mac) = Hmac::<$hash>::new_from_slice(sk_prf) else { return Vec::new() };
            parts.iter().for_each(|part| Mac::update(&mut mac, part));
            mac.finalize().into_bytes().to_vec()
        }};
    }
    match (params.family, params.n) {
        (SlhFamily::Sha2, 16) => hmac!(Sha256),
        (SlhFamily::Sha2, _) => hmac!(Sha512),
        (SlhFamily::Shake, n) => {
            let mut hash = Shake256::default();
            [sk_prf].iter().chain(&parts).for_each(|part| Update::update(&mut hash, part));
            let mut randomizer = vec![0; n];
            hash.finalize_xof().read(&mut randomizer);
            randomizer
        }
    }
}

/// Tests a modified signature alone, with its first byte changed, and modified ones among seventeen
/// lanes, most of which have an invalid message; seventeen exceeds the number of lanes computed
/// together. Each modified lane must fail, and no other.
fn refuses_changed(
    backend: &dyn Backend,
    params: &'static Params,
    key: &SigningKey,
    message: Message<'_>,
    sig: &[u8],
) -> Result<(), String> {
    let what = "changed signatures";
    let mut changed = sig.to_vec();
    changed[0] ^= 1;
    let keys = Keys::Known(&[key.verify_key()]);
    let verify = Slh::Verify { params, keys, messages: &[message], sig: &changed };
    expect_statuses(backend, Operation::Slh(verify), &[Status::InvalidSignature], what)?;
    const N: usize = 17;
    let len = sig.len();
    let mut sigs = sig.repeat(N);
    sigs[len / 2] ^= 1;
    sigs[N * len - 1] ^= 1;
    let mut messages = [Message::Mu(&[0; 64]); N];
    let mut expected = [Status::InvalidInput; N];
    for (lane, status) in
        [(0, Status::InvalidSignature), (8, Status::Ok), (N - 1, Status::InvalidSignature)]
    {
        (messages[lane], expected[lane]) = (message, status);
    }
    let keys = [key.verify_key(); N];
    let keys = Keys::Known(&keys);
    let verify = Slh::Verify { params, keys, messages: &messages, sig: &sigs };
    expect_statuses(backend, Operation::Slh(verify), &expected, what)
}
