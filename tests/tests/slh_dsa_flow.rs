//! The SLH-DSA flow itself: batches against single operations, bad lanes among good ones, keys that
//! do not belong together, and how many hashes an operation takes.

// A test that meets what it does not expect should stop there.
#![allow(clippy::expect_used)]

use gabion_backend::portable::Portable;
use gabion_scheme::Algorithm;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::SlhFamily;
use gabion_scheme::kernels::slh_fors::FORS_HEIGHT_MAX;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::slh_dsa::{self, Message, OPS_MAX, Params, Scratch, SigningKey, VerifyKey};
use gabion_tests::probe::{Probe, Tweaks};

gabion_tests::on_every_backend!(
    batches_equal_single_operations,
    a_bad_lane_fails_alone_when_signing,
    a_bad_lane_fails_alone_when_verifying,
    every_part_of_a_signature_counts,
    message_forms_are_kept_apart,
    private_keys_with_another_root_are_refused,
    scratch_serves_any_parameter_set,
);

fn set(algorithm: Algorithm) -> &'static Params {
    slh_dsa::params(algorithm).expect("an SLH-DSA")
}

fn sets() -> impl Iterator<Item = &'static Params> {
    Algorithm::all().filter_map(slh_dsa::params)
}

/// One set for each combination of hash functions, all of them fast to sign with.
fn quick_sets() -> [&'static Params; 4] {
    [
        Algorithm::SlhDsaSha2_128f,
        Algorithm::SlhDsaSha2_192f,
        Algorithm::SlhDsaShake128f,
        Algorithm::SlhDsaShake256f,
    ]
    .map(set)
}

/// Bytes that differ from lane to lane.
fn painted(lanes: usize, len: usize, salt: u8) -> Vec<u8> {
    (0..lanes * len).map(|i| ((i / len * 37 + i % len * 7) % 251) as u8 ^ salt).collect()
}

fn keys_of<K: Kernels>(kernels: &K, p: &'static Params, n: usize) -> Vec<SigningKey> {
    let mut keys: Vec<SigningKey> = (0..n).map(|_| SigningKey::blank(p)).collect();
    let seeds = painted(n, p.seed_len(), 0x5a);
    slh_dsa::keygen(kernels, p, &seeds, &mut keys, &mut Scratch::new());
    keys
}

/// Messages of lengths round the blocks of the hash functions.
fn bodies(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|lane| vec![lane as u8; (lane * 71) % 400]).collect()
}

fn pure<'a>(bodies: &'a [Vec<u8>]) -> Vec<Message<'a>> {
    bodies.iter().map(|message| Message::Pure { context: b"flow", message }).collect()
}

fn sign<K: Kernels>(
    kernels: &K,
    keys: &[&SigningKey],
    messages: &[Message<'_>],
    opt_rand: Option<&[u8]>,
) -> (Vec<Status>, Vec<u8>) {
    let p = keys[0].params();
    let mut status = vec![Status::NotRun; keys.len()];
    let mut sigs = vec![0xee; keys.len() * p.sig_len()];
    let scratch = &mut Scratch::new();
    slh_dsa::sign(kernels, keys, messages, opt_rand, &mut sigs, &mut status, scratch);
    (status, sigs)
}

fn verify<K: Kernels>(
    kernels: &K,
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    sigs: &[u8],
) -> Vec<Status> {
    let mut status = vec![Status::NotRun; keys.len()];
    slh_dsa::verify(kernels, keys, messages, sigs, &mut status, &mut Scratch::new());
    status
}

fn batches_equal_single_operations<K: Kernels>(kernels: &K) {
    // More than are worked on together, so that chunks follow each other.
    const MOST: usize = OPS_MAX + 2;
    for p in quick_sets() {
        let all = keys_of(kernels, p, MOST);
        let bodies = bodies(MOST);
        let messages = pure(&bodies);
        let random = painted(MOST, p.n, 3);
        for opt_rand in [None, Some(&random[..])] {
            let counts: &[usize] = if opt_rand.is_some() { &[1, 2, MOST] } else { &[3] };
            let singles: Vec<Vec<u8>> = (0..MOST)
                .map(|i| {
                    let opt_rand = opt_rand.map(|random| &random[i * p.n..][..p.n]);
                    sign(kernels, &[&all[i]], &messages[i..=i], opt_rand).1
                })
                .collect();
            for &n in counts {
                let keys: Vec<&SigningKey> = all[..n].iter().collect();
                let opt_rand = opt_rand.map(|random| &random[..n * p.n]);
                let (status, sigs) = sign(kernels, &keys, &messages[..n], opt_rand);
                assert_eq!(status, vec![Status::Ok; n], "{}", p.name());
                assert!(sigs == singles[..n].concat(), "{} n = {n}", p.name());
                let publics: Vec<&VerifyKey> = keys.iter().map(|key| key.verify_key()).collect();
                let verdicts = verify(kernels, &publics, &messages[..n], &sigs);
                assert_eq!(verdicts, vec![Status::Ok; n], "{}", p.name());
            }
        }
        // Key generation alone gives the same keys.
        for (i, key) in all.iter().enumerate().step_by(7) {
            let mut alone = [SigningKey::blank(p)];
            let seed = &painted(MOST, p.seed_len(), 0x5a)[i * p.seed_len()..][..p.seed_len()];
            slh_dsa::keygen(kernels, p, seed, &mut alone, &mut Scratch::new());
            assert_eq!(alone[0].bytes(), key.bytes(), "{} lane {i}", p.name());
        }
    }
}

fn a_bad_lane_fails_alone_when_signing<K: Kernels>(kernels: &K) {
    let p = set(Algorithm::SlhDsaSha2_128f);
    let all = keys_of(kernels, p, 4);
    let keys: Vec<&SigningKey> = all.iter().collect();
    let bodies = bodies(4);
    let good = pure(&bodies);
    let (_, whole) = sign(kernels, &keys, &good, None);
    let long = [7; 256];
    let bad = [
        Message::Pure { context: &long, message: b"m" },
        Message::Prehash { context: b"", hash: Prehash::Sha2_256, digest: &long[..31] },
        Message::Mu(&[1; 64]),
    ];
    for bad in bad {
        for place in 0..4 {
            let mut messages = good.clone();
            messages[place] = bad;
            let (status, sigs) = sign(kernels, &keys, &messages, None);
            for (lane, sig) in sigs.chunks_exact(p.sig_len()).enumerate() {
                if lane == place {
                    assert_eq!(status[lane], Status::InvalidInput);
                    assert!(sig.iter().all(|&byte| byte == 0));
                } else {
                    assert_eq!(status[lane], Status::Ok);
                    assert!(*sig == whole[lane * p.sig_len()..][..p.sig_len()]);
                }
            }
        }
    }
    // All of them bad: nothing runs, and nothing stays.
    let (status, sigs) = sign(kernels, &keys, &[Message::Mu(&[1; 64]); 4], None);
    assert_eq!(status, [Status::InvalidInput; 4]);
    assert!(sigs.iter().all(|&byte| byte == 0));
}

fn a_bad_lane_fails_alone_when_verifying<K: Kernels>(kernels: &K) {
    for p in [set(Algorithm::SlhDsaSha2_128f), set(Algorithm::SlhDsaShake192f)] {
        let n = OPS_MAX + 1;
        let all = keys_of(kernels, p, n);
        let keys: Vec<&SigningKey> = all.iter().collect();
        let publics: Vec<&VerifyKey> = keys.iter().map(|key| key.verify_key()).collect();
        let bodies = bodies(n);
        let mut messages = pure(&bodies);
        let (_, mut sigs) = sign(kernels, &keys, &messages, None);
        let long = [7; 256];
        messages[5] = Message::Pure { context: &long, message: &bodies[5] };
        messages[9] = Message::Mu(&[1; 64]);
        sigs[3 * p.sig_len()] ^= 1;
        sigs[(OPS_MAX + 1) * p.sig_len() - 1] ^= 0x80;
        let status = verify(kernels, &publics, &messages, &sigs);
        for (lane, &status) in status.iter().enumerate() {
            let expected = match lane {
                5 | 9 => Status::InvalidInput,
                3 | OPS_MAX => Status::InvalidSignature,
                _ => Status::Ok,
            };
            assert_eq!(status, expected, "{} lane {lane}", p.name());
            // The verdict of the batch is that of each lane alone.
            let (sig, message) = (&sigs[lane * p.sig_len()..][..p.sig_len()], messages[lane]);
            assert_eq!(verify(kernels, &[publics[lane]], &[message], sig), [expected]);
        }
    }
}

/// Flips a bit in every value of a signature: R, each secret, each node, each chain.
fn every_part_of_a_signature_counts<K: Kernels>(kernels: &K) {
    for p in [set(Algorithm::SlhDsaSha2_128f), set(Algorithm::SlhDsaShake128f)] {
        let key = &keys_of(kernels, p, 1)[0];
        let message = Message::Pure { context: b"", message: b"every part" };
        let (_, sig) = sign(kernels, &[key], &[message], None);
        let parts = p.sig_len() / p.n;
        for parts in (0..parts).collect::<Vec<_>>().chunks(97) {
            let mut sigs = sig.repeat(parts.len());
            for (sig, part) in sigs.chunks_exact_mut(p.sig_len()).zip(parts) {
                sig[part * p.n + part % p.n] ^= 1 << (part % 8);
            }
            let keys = vec![key.verify_key(); parts.len()];
            let verdicts = verify(kernels, &keys, &vec![message; parts.len()], &sigs);
            assert_eq!(verdicts, vec![Status::InvalidSignature; parts.len()], "{}", p.name());
        }
    }
}

/// The same bytes signed in one form do not verify in another; M' put together by hand does.
fn message_forms_are_kept_apart<K: Kernels>(kernels: &K) {
    for p in [set(Algorithm::SlhDsaSha2_128f), set(Algorithm::SlhDsaShake128f)] {
        let key = &keys_of(kernels, p, 1)[0];
        let digest = Prehash::Sha2_256.digest(b"body");
        let context = &b"context"[..];
        let prehash = Message::Prehash { context, hash: Prehash::Sha2_256, digest: &digest };
        let by_hand =
            [&[1, 7], &b"context"[..], &Prehash::Sha2_256.oid_der()[..], &digest].concat();
        let forms = [
            Message::Pure { context, message: b"body" },
            Message::Pure { context: b"", message: b"body" },
            Message::Pure { context, message: &digest },
            prehash,
            Message::Prehash { context, hash: Prehash::Sha3_256, digest: &digest },
            Message::Internal(b"body"),
        ];
        for (i, signed) in forms.iter().enumerate() {
            let (_, sig) = sign(kernels, &[key], &[*signed], None);
            for (j, read) in forms.iter().enumerate() {
                let verdict = verify(kernels, &[key.verify_key()], &[*read], &sig);
                assert_eq!(verdict[0].is_ok(), i == j, "{} {i} {j}", p.name());
            }
            if i == 3 {
                let read = [Message::Internal(&by_hand)];
                assert_eq!(verify(kernels, &[key.verify_key()], &read, &sig), [Status::Ok]);
            }
        }
    }
}

fn private_keys_with_another_root_are_refused<K: Kernels>(kernels: &K) {
    for p in quick_sets() {
        let all = keys_of(kernels, p, 3);
        let mut bytes: Vec<u8> = all.iter().flat_map(|key| key.bytes().to_vec()).collect();
        // SK.seed, PK.seed and PK.root must fit each other; SK.prf is free.
        for (place, expected) in [
            (0, Status::InvalidKey),
            (p.n, Status::Ok),
            (2 * p.n, Status::InvalidKey),
            (4 * p.n - 1, Status::InvalidKey),
        ] {
            bytes[p.sk_len() + place] ^= 4;
            let mut keys: Vec<SigningKey> = (0..3).map(|_| SigningKey::blank(p)).collect();
            let mut status = [Status::NotRun; 3];
            let scratch = &mut Scratch::new();
            slh_dsa::expand_signing_keys(kernels, p, &bytes, &mut keys, &mut status, scratch);
            assert_eq!(status, [Status::Ok, expected, Status::Ok], "{} {place}", p.name());
            assert_eq!(keys[1].is_expanded(), expected.is_ok());
            if !expected.is_ok() {
                assert!(keys[1].bytes().iter().all(|&byte| byte == 0));
            }
            assert_eq!(keys[0].bytes(), all[0].bytes());
            bytes[p.sk_len() + place] ^= 4;
        }
    }
}

fn scratch_serves_any_parameter_set<K: Kernels>(kernels: &K) {
    let scratch = &mut Scratch::new();
    for p in quick_sets().into_iter().chain(quick_sets().into_iter().rev()) {
        let mut keys = [SigningKey::blank(p)];
        slh_dsa::keygen(kernels, p, &painted(1, p.seed_len(), 9), &mut keys, scratch);
        let message = [Message::Pure { context: b"", message: b"m" }];
        let mut sig = vec![0; p.sig_len()];
        let mut status = [Status::NotRun];
        slh_dsa::sign(kernels, &[&keys[0]], &message, None, &mut sig, &mut status, scratch);
        assert_eq!(status, [Status::Ok]);
        assert!(sig == sign(kernels, &[&keys[0]], &message, None).1, "{}", p.name());
    }
}

/// What one tweakable hash of `len` bytes costs, H or T_l.
fn long(p: &Params, len: usize) -> [usize; 3] {
    match (p.family, p.n) {
        (SlhFamily::Shake, n) => [(n + 32 + len) / 136 + 1, 0, 0],
        (SlhFamily::Sha2, 16) => [0, (22 + len + 9).div_ceil(64), 0],
        (SlhFamily::Sha2, _) => [0, 0, (22 + len + 17).div_ceil(128)],
    }
}

/// What one F or PRF costs.
fn short(p: &Params) -> [usize; 3] {
    if p.family == SlhFamily::Shake { [1, 0, 0] } else { [0, 1, 0] }
}

/// A sum of costs, each some number of times.
fn total(terms: &[(usize, [usize; 3])]) -> [usize; 3] {
    std::array::from_fn(|i| terms.iter().map(|(times, cost)| times * cost[i]).sum())
}

fn costs(tweaks: Tweaks) -> [usize; 3] {
    [tweaks.keccak, tweaks.sha256, tweaks.sha512]
}

/// A tree of the hypertree: its WOTS+ keys and its nodes (Algorithms 6 and 9).
fn tree_cost(p: &Params) -> [usize; 3] {
    let (leaves, chains) = (1 << p.h_prime, 2 * p.n + 3);
    total(&[
        (leaves * chains * 16, short(p)),
        (leaves, long(p, chains * p.n)),
        (leaves - 1, long(p, 2 * p.n)),
    ])
}

/// What FIPS 205 asks for, without anything worked out twice: k FORS trees and d trees.
fn sign_cost(p: &Params) -> [usize; 3] {
    let leaves = 1 << p.a;
    total(&[
        (p.k * 2 * leaves, short(p)),
        (p.k * (leaves - 1), long(p, 2 * p.n)),
        (1, long(p, p.k * p.n)),
        (p.d as usize, tree_cost(p)),
    ])
}

/// Every set: key generation makes the top tree, and signing with the key so made does without all
/// of it but the leaf that signs and the nodes above.
#[test]
fn no_hash_is_computed_twice_but_on_paths_within_subtrees() {
    for p in sets() {
        let probe = Probe::new(&Portable).dry();
        let key = &keys_of(&probe, p, 1)[0];
        assert_eq!(costs(probe.tweaks()), tree_cost(p), "{} keygen", p.name());
        let message = Message::Pure { context: b"", message: b"counted" };
        let (status, _) = sign(&probe, &[key], &[message], None);
        assert_eq!(status, [Status::Ok], "with hashes that are all zero, roots are zero");
        let (leaves, height, chains) = (1 << p.h_prime, p.h_prime as usize, 2 * p.n + 3);
        let signing_leaf = total(&[
            (chains * 16, short(p)),
            (1, long(p, chains * p.n)),
            (height, long(p, 2 * p.n)),
        ]);
        let known = tree_cost(p);
        // A lane works its subtree of FORS out from the leaf that signs to the root, which the walk does too.
        let low = (p.a - 3).min(FORS_HEIGHT_MAX) as usize;
        let on_paths = total(&[(p.k * 2, short(p)), (p.k * low, long(p, 2 * p.n))]);
        let counted = costs(probe.tweaks());
        for i in 0..3 {
            let expected = sign_cost(p)[i] + signing_leaf[i] + on_paths[i];
            assert_eq!(counted[i] + known[i], expected, "{}", p.name());
        }
        assert!(leaves > 1);
    }
}

/// The counts that the goals for speed are worked out from.
#[test]
fn counts_are_those_of_the_published_estimates() {
    let count = |algorithm| sign_cost(set(algorithm));
    assert_eq!(count(Algorithm::SlhDsaShake128f), [105_902, 0, 0]);
    assert_eq!(count(Algorithm::SlhDsaShake256f), [350_197, 0, 0]);
    assert_eq!(count(Algorithm::SlhDsaShake128s)[0] / 10_000, 220);
    assert_eq!(count(Algorithm::SlhDsaSha2_128f), [0, 106_786, 0]);
    let [_, sha256, sha512] = count(Algorithm::SlhDsaSha2_256f);
    assert_eq!((sha256 / 1000, sha512 / 1000), (327, 23));
}

/// A verification takes half the steps of every chain, which the estimates count. The sum of the
/// others' lacks is about 240, so that the first digit of the checksum is 0 or 1 and its chain takes
/// nearly all steps: some 7 more a layer. The rest of the tolerance is chance.
#[test]
fn verification_walks_one_path() {
    for (algorithm, expected) in
        [(Algorithm::SlhDsaShake128f, 6_187), (Algorithm::SlhDsaSha2_128f, 6_301)]
    {
        let p = set(algorithm);
        let probe = Probe::new(&Portable);
        let key = &keys_of(&probe, p, 1)[0];
        let message = Message::Pure { context: b"", message: b"counted" };
        let (_, sig) = sign(&probe, &[key], &[message], None);
        probe.tweaks();
        assert_eq!(verify(&probe, &[key.verify_key()], &[message], &sig), [Status::Ok]);
        let counted: usize = costs(probe.tweaks()).iter().sum();
        assert!(counted.abs_diff(expected) < expected / 12, "{}: {counted}", p.name());
    }
}

/// Every set, its signature and what verifies with it, through kernels that are all alike; the
/// small sets sign slowly, so once.
#[test]
fn small_sets_sign_and_verify() {
    let p = set(Algorithm::SlhDsaSha2_128s);
    let key = &keys_of(&Portable, p, 1)[0];
    let message = Message::Pure { context: b"", message: b"slow" };
    let (status, mut sig) = sign(&Portable, &[key], &[message], None);
    assert_eq!(status, [Status::Ok]);
    assert_eq!(verify(&Portable, &[key.verify_key()], &[message], &sig), [Status::Ok]);
    sig[p.sig_len() / 2] ^= 1;
    let verdict = verify(&Portable, &[key.verify_key()], &[message], &sig);
    assert_eq!(verdict, [Status::InvalidSignature]);
}

/// A kernel whose hashes go wrong once in a while makes no signature that leaves.
#[test]
fn a_signature_that_does_not_end_in_the_root_is_a_fault() {
    let p = set(Algorithm::SlhDsaShake128f);
    let key = &keys_of(&Portable, p, 1)[0];
    let message = Message::Pure { context: b"", message: b"fault" };
    let faulty = Probe::new(&Portable).with_a_wrong_chain();
    let (status, sig) = sign(&faulty, &[key], &[message], None);
    assert_eq!(status, [Status::Fault]);
    assert!(sig.iter().all(|&byte| byte == 0));
}
