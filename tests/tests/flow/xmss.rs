//! Key generation and signing of XMSS and XMSS^MT: known answers, every set that signs with low trees, borders between
//! trees, batches against single signatures, keys made in pieces and opened again, exhaustion, how evenly work is
//! spread, and one wrong hash anywhere.
//!
//! Trees of height 5, and some of height 10: higher ones take seconds or minutes to make.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_backend::portable::Portable;
use gabion_scheme::error::{Error, Status};
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::xmss::{self, Generation, Scheme, Scratch, Set, SigningKey, StoredTree, XMSSMT};
use gabion_tests::observer::{KernelObserver, ObservedKernels};
use gabion_tests::vectors::{self, hex, text, unhex};

gabion_tests::on_every_backend!(
    known_answers_of_keys,
    known_answers_of_signatures,
    known_answers_of_layers,
    every_hash_signs,
    borders_between_trees,
    batches_are_single_signatures,
);

/// Layers of trees 5 high: 20 high in all, of SHA-256 with n = 32.
const LOW: &str = "XMSSMT-SHA2_20/4_256";

fn set(name: &str) -> &'static Set {
    Set::from_name(name).expect("a set")
}

fn seeds(set: &Set) -> Vec<u8> {
    (0..3 * set.n as u8).map(|i| i.wrapping_mul(7)).collect()
}

fn key<K: Kernels>(k: &K, set: &'static Set) -> SigningKey {
    xmss::generate(k, set, &seeds(set), &mut Scratch::new()).expect("a key")
}

fn sign<K: Kernels>(
    k: &K,
    key: &mut SigningKey,
    index: u64,
    messages: &[&[u8]],
) -> Result<Vec<u8>, Error> {
    let mut signatures = vec![1; messages.len() * key.set().signature_len()];
    let result = key.sign(k, index, messages, &mut signatures, &mut Scratch::new());
    assert!(result.is_ok() || signatures.iter().all(|byte| *byte == 0), "nothing is left of it");
    result.map(|()| signatures)
}

fn verdict<K: Kernels>(k: &K, key: &SigningKey, message: &[u8], signature: &[u8]) -> Status {
    let mut status = [Status::NotRun];
    let key = key.verify_key();
    xmss::verify(k, &[key], &[message], &[signature], &mut status, &mut Scratch::new());
    status[0]
}

/// The groups of a file of pqc-kat, with their answers.
fn groups(mode: &str, hash: &str, n: usize) -> Vec<(serde_json::Value, serde_json::Value)> {
    let folder = format!("pqc-kat/XMSS/XMSS-{mode}-{hash}-N{n}-H10");
    let file = |name: &str| vectors::json(&format!("{folder}/{name}.json"));
    let (Some(prompt), Some(answers)) = (file("prompt"), file("expectedResults")) else {
        return Vec::new();
    };
    let groups = [prompt, answers].map(|file| vectors::list(&file["testGroups"]).to_vec());
    let [prompts, answers] = groups;
    prompts.into_iter().zip(answers).collect()
}

const HASHES: [(&str, usize); 4] =
    [("SHA256", 24), ("SHA256", 32), ("SHAKE256", 24), ("SHAKE256", 32)];

/// Public keys of pqc-kat and of Botan, which made them with the reference implementation.
fn known_answers_of_keys<K: Kernels>(k: &K) {
    let mut cases = Vec::new();
    for (hash, n) in [("SHA256", 24), ("SHA256", 32)] {
        for (group, answers) in groups("keyGen", hash, n) {
            let tests = vectors::list(&group["tests"]).iter();
            for (test, answer) in tests.zip(vectors::list(&answers["tests"])).take(1) {
                let seeds = ["S_XMSS", "SK_PRF", "I"].map(|field| hex(&test[field])).concat();
                cases.push((text(&group["param"]).to_owned(), seeds, hex(&answer["publicKey"])));
            }
        }
    }
    let bytes = vectors::bytes("botan/xmss_keygen_reference.vec").unwrap_or_default();
    let content = String::from_utf8(bytes).expect("text");
    for block in content.split("\n\n") {
        let field = |name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))
        };
        // Those that pqc-kat has, too.
        let is_made = |name: &&str| ["XMSS-SHA2_10_192", "XMSS-SHA2_10_256"].contains(name);
        let Some(name) = field("Params").filter(|name| !is_made(name)) else { continue };
        let seeds =
            ["SecretSeed", "SecretPrf", "PublicSeed"].map(|name| unhex(field(name).unwrap_or("")));
        cases.push((name.to_owned(), seeds.concat(), unhex(field("PublicKey").unwrap_or(""))));
    }
    for (name, seeds, public) in cases {
        let set = set(&name);
        if !set.can_sign() {
            let refused = Generation::new(set, &seeds);
            assert!(matches!(refused, Err(Error::PrivateKey { .. })), "{name} only verifies");
            continue;
        }
        let key = xmss::generate(k, set, &seeds, &mut Scratch::new()).expect("a key");
        // One file of keys lacks the numbers.
        assert!(key.verify_key().bytes().ends_with(&public), "{name}");
        assert!(public.len() >= 2 * set.n);
    }
}

/// Signatures of pqc-kat at indexes here and there, with the message behind them.
fn known_answers_of_signatures<K: Kernels>(k: &K) {
    for (hash, n) in HASHES {
        for (group, answers) in groups("sigGen", hash, n) {
            let set = set(text(&group["param"]));
            let seeds = ["S_XMSS", "SK_PRF", "I"].map(|field| hex(&group[field])).concat();
            let mut key = xmss::generate(k, set, &seeds, &mut Scratch::new()).expect("a key");
            assert_eq!(key.verify_key().bytes(), hex(&answers["publicKey"]));
            let tests = vectors::list(&group["tests"]).iter();
            for (test, answer) in tests.zip(vectors::list(&answers["tests"])) {
                let (message, index) = (hex(&test["message"]), test["q"].as_u64());
                let index = index.or_else(|| text(&test["q"]).parse().ok()).expect("an index");
                let signature = sign(k, &mut key, index, &[&message]).expect("a signature");
                let want = hex(&answer["signature"]);
                assert!(signature[..] == want[..set.signature_len()], "{hash} {n}, {index}");
            }
        }
    }
}

/// Keys and first signatures of liboqs, which is the reference implementation, where trees are 10 high at most.
fn known_answers_of_layers<K: Kernels>(k: &K) {
    for file in [
        "XMSS-SHA2_10_256",
        "XMSS-SHAKE256_10_256",
        "XMSSMT-SHA2_20-2_256",
        "XMSSMT-SHA2_20-4_256",
        "XMSSMT-SHA2_40-4_256",
        "XMSSMT-SHA2_60-12_256",
    ] {
        let Some(bytes) = vectors::bytes(&format!("liboqs/xmss/{file}.rsp")) else { return };
        let content = String::from_utf8(bytes).expect("text");
        let field = |name: &str| {
            let line =
                content.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            unhex(line.expect("a field"))
        };
        let set = set(&file.replace('-', "/").replacen('/', "-", 1));
        // Number || index || S_XMSS || SK_PRF || root || SEED || what the reference keeps of its trees.
        let private = field("sk");
        let (n, at) = (set.n, 4 + set.index_len());
        let seeds = [&private[at..at + 2 * n], &private[at + 3 * n..at + 4 * n]].concat();
        let mut key = xmss::generate(k, set, &seeds, &mut Scratch::new()).expect("a key");
        assert_eq!(key.verify_key().bytes(), field("pk"), "{file}");
        let signature = sign(k, &mut key, 0, &[&field("msg")]).expect("a signature");
        assert!(signature == field("sm"), "{file}");
    }
}

/// Layers of trees 5 high by each hash function, as the portable kernels make them.
fn every_hash_signs<K: Kernels>(k: &K) {
    for set in XMSSMT.iter().filter(|set| set.can_sign() && (set.h, set.d) == (20, 4)) {
        let (mut key, mut other) = (key(k, set), self::key(&Portable, set));
        assert_eq!(other.verify_key(), key.verify_key());
        let signature = sign(k, &mut key, 12345, &[b"hash"]).expect("a signature");
        assert_eq!(verdict(k, &key, b"hash", &signature), Status::Ok, "{}", set.name);
        assert_ne!(verdict(k, &key, b"hush", &signature), Status::Ok, "{}", set.name);
        assert!(sign(&Portable, &mut other, 12345, &[b"hash"]).expect("one") == signature);
    }
}

/// Around the end of a tree of each layer: each index verifies, and is what a key that has just been made gives.
fn borders_between_trees<K: Kernels>(k: &K) {
    let set = set(LOW);
    let mut in_order = key(k, set);
    // Forwards over borders of one layer, two and three, to the end, and back.
    for range in [0..34, 1022..1026, 32766..32769, (1 << 20) - 2..1 << 20, 31..33] {
        for index in range {
            let signature = sign(k, &mut in_order, index, &[b"border"]).expect("a signature");
            assert_eq!(verdict(k, &in_order, b"border", &signature), Status::Ok, "{index}");
            if index % 32 == 0 {
                let again = sign(k, &mut key(k, set), index, &[b"border"]).expect("a signature");
                assert!(again == signature, "{index}");
            }
        }
    }
    let most = set.signatures();
    for (index, count) in [(most, 1), (most - 1, 2), (u64::MAX, 1), (1 << 63, 3)] {
        for _ in 0..2 {
            let result = sign(k, &mut in_order, index, &vec![&b""[..]; count]);
            assert_eq!(result, Err(Error::Exhausted { most }), "{count} from {index}");
        }
    }
}

/// Many messages in one call, from the middle of a tree over a border.
fn batches_are_single_signatures<K: Kernels>(k: &K) {
    let set = set(LOW);
    let texts: Vec<_> = (0..40u8).map(|i| vec![i; usize::from(i) * 3]).collect();
    let messages: Vec<_> = texts.iter().map(Vec::as_slice).collect();
    let many = sign(k, &mut key(k, set), 1000, &messages).expect("signatures");
    let mut key = key(k, set);
    let single = messages
        .iter()
        .zip(1000..)
        .flat_map(|(message, index)| sign(k, &mut key, index, &[message]).expect("a signature"));
    assert!(many.into_iter().eq(single));
    assert_eq!(sign(k, &mut key, 0, &[]), Ok(Vec::new()));
}

/// A tree of which little is kept makes the signatures of one that is kept whole: in order and out of it.
#[test]
fn subtrees_at_the_bottom() {
    let (k, set, mut scratch) = (&Portable, set(LOW), Scratch::new());
    let mut little = Generation::with_whole_levels(set, 3, &seeds(set)).expect("a key");
    loop {
        let mut pieces = little.wave(3);
        if pieces.is_empty() {
            break;
        }
        for piece in pieces.iter_mut().rev() {
            piece.run(k, &mut scratch).expect("memory");
        }
        drop(pieces);
        little.close(k, 3);
    }
    let mut keys = [little.finish().expect("a key"), key(k, set)];
    assert_eq!(keys[0].verify_key(), keys[1].verify_key());
    for index in (0..70).chain([1000, 1023, 4, 513, 514, 600]) {
        let [little, all] = keys.each_mut().map(|key| sign(k, key, index, &[b"subtrees"]));
        assert!(little.is_ok() && little == all, "{index}");
    }
}

/// A key that is closed in the middle of trees and opened with what was kept makes the signatures that it would
/// have made; altered or foreign trees are refused.
#[test]
fn keys_opened_again() {
    let (k, set, mut scratch) = (&Portable, set(LOW), Scratch::new());
    for last in [0, 31, 32 * 31 + 20, 32767] {
        let mut open = key(k, set);
        sign(k, &mut open, last, &[b"last"]).expect("a signature");
        let mut again = key(k, set);
        for kept in open.stored_trees().into_iter().filter(|kept| kept.level > 0) {
            let other = StoredTree { number: kept.number ^ 1, ..kept };
            let refused = again.restore(k, other, &mut scratch);
            let is_named = matches!(refused, Err(Error::PrivateKey { algorithm: "XMSSMT", .. }));
            assert!(is_named, "another tree's: {refused:?}");
            if !kept.signed.is_empty() {
                let mut row = kept.row.to_vec();
                row[40] ^= 1;
                let other = StoredTree { row: &row, ..kept };
                assert!(again.restore(k, other, &mut scratch).is_err(), "an altered row");
                let other = StoredTree { signed: &kept.signed[1..], ..kept };
                assert!(again.restore(k, other, &mut scratch).is_err(), "a short signature");
                let mut signed = kept.signed.to_vec();
                signed[100] ^= 1;
                let other = StoredTree { signed: &signed, ..kept };
                assert!(again.restore(k, other, &mut scratch).is_err(), "an altered signature");
            }
            again.restore(k, kept, &mut scratch).expect("what was kept");
        }
        for index in (last + 1..).take(2) {
            let [one, two] = [&mut open, &mut again].map(|key| sign(k, key, index, &[b"next"]));
            assert!(one.is_ok() && one == two, "{index}");
        }
    }
}

#[test]
fn seeds_of_another_length_are_refused() {
    for len in [0, 32, 95, 97, 128] {
        let made = Generation::new(set(LOW), &vec![1; len]);
        assert!(matches!(made, Err(Error::Length { expected: 96, .. })), "{len} bytes");
    }
    for set in xmss::XMSS.iter().chain(&XMSSMT).filter(|set| !set.can_sign()) {
        assert!(Generation::new(set, &vec![1; 3 * set.n]).is_err(), "{}", set.name);
    }
    assert_eq!(Scheme::Xmss.sets().iter().filter(|set| set.can_sign()).count(), 12);
}

/// Counts the hashes of XMSS, and flips a bit of the result of one job of all.
#[derive(Default)]
struct HashCounter {
    hashes: AtomicUsize,
    /// So many jobs before the one that is hit; none at 0.
    hit: AtomicUsize,
}

impl HashCounter {
    fn result(&self, hashes: usize, bytes: &mut [u8]) {
        self.hashes.fetch_add(hashes, Ordering::Relaxed);
        let left = self.hit.load(Ordering::Relaxed);
        self.hit.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            bytes[7] ^= 0x20;
        }
    }
}

impl KernelObserver for &HashCounter {
    fn xmss_chains(&self, jobs: &mut [XmssChain<'_>]) {
        jobs.iter_mut().for_each(|job| self.result(4 * job.steps as usize, job.value));
    }

    fn xmss_hashes(&self, jobs: &mut [XmssHash<'_>]) {
        jobs.iter_mut().for_each(|job| self.result(6, job.output));
    }

    fn xmss_secrets(&self, jobs: &mut [XmssSecret<'_>]) {
        jobs.iter_mut().for_each(|job| self.result(2, job.output));
    }
}

/// Over all indexes of four layers up to one behind the second border of the second lowest: the most hashes that a
/// signature takes are three times the median at most, and the trees were ready each time.
#[test]
fn work_is_spread_evenly() {
    let watched = HashCounter::default();
    let k = ObservedKernels { inner: Portable, touch: &watched };
    let mut key = key(&k, set(LOW));
    key.reach(&k, 0, &mut Scratch::new()).expect("index 0");
    let counts = (0..2100u64).map(|index| {
        watched.hashes.store(0, Ordering::Relaxed);
        sign(&k, &mut key, index, &[&index.to_be_bytes()]).expect("a signature");
        watched.hashes.load(Ordering::Relaxed)
    });
    let mut counts: Vec<_> = counts.collect();
    counts.sort_unstable();
    let (median, most) = (counts[counts.len() / 2], counts[counts.len() - 1]);
    assert!(most <= 3 * median, "{most} hashes, and {median} in the middle");
}

/// One bit of one result of a kernel, at any place of a signature's: none comes out.
#[test]
fn hash_fault_never_yields_a_wrong_signature() {
    let watched = HashCounter::default();
    let (k, set) = (ObservedKernels { inner: Portable, touch: &watched }, set(LOW));
    let mut key = key(&Portable, set);
    // Whereupon the next tree is whole.
    sign(&Portable, &mut key, 31, &[b"before"]).expect("a signature");
    let right = sign(&Portable, &mut key, 32, &[b"fault"]).expect("a signature");
    let (mut refused, mut harmless) = (0, 0);
    // 67 secrets, 67 chains, 67 again, and the 66 nodes of the tree above them. The randomizer is no kernel's.
    for place in (1..268).chain((268..420).step_by(11)) {
        watched.hit.store(place, Ordering::Relaxed);
        let signed = sign(&k, &mut key, 32, &[b"fault"]);
        watched.hit.store(0, Ordering::Relaxed);
        match signed {
            // The fault was in the next tree's growth after the signature.
            Ok(signature) if signature == right && place > 267 => harmless += 1,
            Err(Error::Fault(_)) => refused += 1,
            other => panic!("place {place}: {other:?}"),
        }
    }
    assert!(refused == 267 && harmless > 0, "{refused} refused, {harmless} harmless");
}
