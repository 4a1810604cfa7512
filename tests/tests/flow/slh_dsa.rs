//! The SLH-DSA flow itself: batches against single operations, bad lanes among good ones, keys that
//! do not belong together, and how many hashes an operation takes.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Cpu};
use gabion_engine::{Config, Engine, Error, OsEntropy};
use gabion_scheme::Algorithm;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhFamily, address_type};
use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::slh_dsa::{self, OPS_MAX, Params, Scratch, SigningKey, VerifyKey};
use gabion_tests::fault_injection::{FaultyKernels, Place};
use gabion_tests::probe::{Probe, Tweaks};

gabion_tests::on_every_backend!(
    batches_equal_single_operations,
    a_bad_lane_fails_alone_when_signing,
    a_bad_lane_fails_alone_when_verifying,
    every_part_of_a_signature_counts,
    message_forms_are_kept_apart,
    hash_fault_never_yields_a_wrong_signature,
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

/// A signature of bytes in one form does not verify in another; M' assembled by hand does.
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

/// Returns the cost of one tweakable hash of `len` bytes, H or T_l.
fn long(p: &Params, len: usize) -> [usize; 3] {
    match (p.family, p.n) {
        (SlhFamily::Shake, n) => [(n + 32 + len) / 136 + 1, 0, 0],
        (SlhFamily::Sha2, 16) => [0, (22 + len + 9).div_ceil(64), 0],
        (SlhFamily::Sha2, _) => [0, 0, (22 + len + 17).div_ceil(128)],
    }
}

/// Returns the cost of one F or PRF.
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

/// Returns the minimum that FIPS 205 requires, without computing anything twice: k FORS trees and d
/// trees.
fn sign_cost(p: &Params) -> [usize; 3] {
    let leaves = 1 << p.a;
    total(&[
        (p.k * 2 * leaves, short(p)),
        (p.k * (leaves - 1), long(p, 2 * p.n)),
        (1, long(p, p.k * p.n)),
        (p.d as usize, tree_cost(p)),
    ])
}

/// Every set: key generation makes the top tree, and signing with the key so made builds all others once, and what
/// lies on the walk once more. Trees near the top are built twice by the first signature that goes through them.
#[test]
fn no_hash_is_computed_twice_but_on_the_walk_and_in_new_trees_near_the_top() {
    for p in sets() {
        let probe = Probe::new(&Portable).dry();
        let key = &keys_of(&probe, p, 1)[0];
        assert_eq!(costs(probe.tweaks()), tree_cost(p), "{} keygen", p.name());
        let message = Message::Pure { context: b"", message: b"counted" };
        let chains = 2 * p.n + 3;
        let layer = [
            (chains * 16, short(p)),
            (1, long(p, chains * p.n)),
            (p.h_prime as usize, long(p, 2 * p.n)),
        ];
        let layer = total(&layer);
        let walk = total(&[
            (p.k * 2, short(p)),
            (p.k * p.a as usize, long(p, 2 * p.n)),
            (1, long(p, p.k * p.n)),
            (p.d as usize, layer),
        ]);
        // Layers with 512 trees at most.
        let upper = (1..p.d).take_while(|above| p.h_prime * above <= 9).count();
        for new in [upper, 0] {
            let (status, _) = sign(&probe, &[key], &[message], None);
            assert_eq!(status, [Status::Ok], "with hashes that are all zero, roots are zero");
            let known = tree_cost(p);
            let counted = costs(probe.tweaks());
            for i in 0..3 {
                let expected = sign_cost(p)[i] + walk[i] + new * known[i];
                assert_eq!(counted[i] + known[i], expected, "{}", p.name());
            }
        }
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

/// Every kind of hash of a layer, as trees are built and as the walk goes up.
fn places(layer: u32) -> impl Iterator<Item = Place> {
    use address_type as kind;
    let fors: &[(u32, bool)] = match layer {
        0 => &[(kind::FORS_TREE, false), (kind::FORS_TREE, true), (kind::FORS_ROOTS, false)],
        _ => &[],
    };
    let all =
        [kind::WOTS_HASH, kind::WOTS_PK, kind::TREE].map(|kind| [(kind, false), (kind, true)]);
    let walked_roots = (layer == 0).then_some((kind::FORS_ROOTS, true));
    let kinds = all.concat().into_iter().chain(fors.iter().copied()).chain(walked_roots);
    kinds.map(move |(kind, is_walked)| {
        let skip = if is_walked { 0 } else { layer as usize % 3 };
        Place { layer, kind, is_walked, skip: skip * usize::from(kind != kind::FORS_ROOTS) }
    })
}

/// Returns whether one wrong hash there builds a wrong tree that is never built again: then the
/// signature verifies.
fn is_unseen(p: &Params, place: &Place) -> bool {
    let is_upper = (p.d - 1 - place.layer) * p.h_prime <= 9;
    let is_fors = place.kind == address_type::FORS_TREE;
    !place.is_walked && place.kind != address_type::FORS_ROOTS && (is_fors || !is_upper)
}

/// Disturbs one hash of a signature. The output is the right signature or zero, except for the
/// cases in the documentation of `slh_dsa::sign`, whether the key has signed before or not.
fn hash_fault_never_yields_a_wrong_signature<K: Kernels + Copy>(kernels: &K) {
    // Portable kernels take ten times as long.
    let has_lanes = kernels.lanes() > 1;
    for p in quick_sets().into_iter().filter(|p| p.n == 16 || has_lanes) {
        let kernels = FaultyKernels::new(*kernels);
        let known = &keys_of(&kernels, p, 1)[0];
        let message = [Message::Pure { context: b"", message: b"disturbed" }];
        let right = sign(&kernels, &[known], &message, None).1;
        let is_upper = |layer: u32| layer == 0 || layer + 5 > p.d;
        let layers = (0..p.d).filter(|&layer| p.n == 16 && has_lanes || is_upper(layer));
        let mut unseen = 0;
        for place in layers.flat_map(places) {
            // All but a layer's trees are the same for a new key.
            let is_new = place.layer + 5 > p.d && place.layer + 1 < p.d && !place.is_walked;
            for is_new in [false, true].into_iter().take(1 + usize::from(is_new)) {
                let new = is_new.then(|| keys_of(&kernels, p, 1));
                let key = new.as_ref().map_or(known, |new| &new[0]);
                kernels.at(place);
                let (status, sig) = sign(&kernels, &[key], &message, None);
                // The top tree is made with the key.
                let is_built = place.is_walked || place.layer + 1 < p.d;
                assert_eq!(kernels.is_over(), is_built, "{} {place:?}", p.name());
                match status[0] {
                    Status::Ok if sig == right => {}
                    Status::Ok if is_unseen(p, &place) => unseen += 1,
                    Status::Fault => assert!(sig.iter().all(|&byte| byte == 0)),
                    other => panic!("{} {place:?}: {other:?}", p.name()),
                }
            }
        }
        assert!(unseen > 0, "what is said to be unseen is seen");
        // A disturbed signature has no effect on later ones.
        assert!(sign(&kernels, &[known], &message, None).1 == right);
    }
}

/// A wrong hash costs its own lane alone.
#[test]
fn a_disturbed_lane_fails_alone() {
    let p = set(Algorithm::SlhDsaShake128f);
    let kernels = FaultyKernels::new(Portable);
    let all = keys_of(&kernels, p, 3);
    let keys: Vec<&SigningKey> = all.iter().collect();
    let bodies = bodies(3);
    let right = sign(&kernels, &keys, &pure(&bodies), None).1;
    let tree = address_type::TREE;
    for (kind, is_walked) in [(tree, false), (tree, true), (address_type::WOTS_HASH, true)] {
        kernels.at(Place { layer: p.d - 2, kind, is_walked, skip: 1 });
        let (status, sigs) = sign(&kernels, &keys, &pure(&bodies), None);
        assert!(kernels.is_over());
        assert_eq!(status.iter().filter(|&&lane| lane == Status::Fault).count(), 1, "{status:?}");
        let lanes = sigs.chunks_exact(p.sig_len()).zip(right.chunks_exact(p.sig_len()));
        for ((sig, right), status) in lanes.zip(status) {
            assert!(if status.is_ok() { sig == right } else { sig.iter().all(|&b| b == 0) });
        }
    }
}

/// Where signatures are checked before they are given out, each is made twice, and no wrong hash is left unseen.
#[test]
fn signatures_that_are_checked_are_made_twice() {
    let kernels = FaultyKernels::new(Portable);
    let backend: Box<dyn Backend> = Box::new(Cpu::new(kernels.clone()));
    let config = Config { verify_after_sign: true, ..Config::default() };
    let engine = Engine::with_backends(vec![backend], &config).expect("an engine");
    let p = set(Algorithm::SlhDsaShake128f);
    let key = engine.signature_generate(p.algorithm, &OsEntropy).expect("a key");
    let message = Message::Pure { context: b"", message: b"twice" };
    let right = engine.sign_deterministic(&key, message).expect("a signature");
    let mut faults = 0;
    for place in (0..p.d).step_by(7).flat_map(places).filter(|place| is_unseen(p, place)) {
        kernels.at(place);
        match engine.sign_deterministic(&key, message) {
            Ok(signature) => assert!(signature == right, "{place:?}"),
            Err(Error::Lane { status: Status::Fault, .. }) => faults += 1,
            Err(other) => panic!("{place:?}: {other}"),
        }
        assert!(kernels.is_over(), "{place:?}");
    }
    assert!(faults > 5);
}
