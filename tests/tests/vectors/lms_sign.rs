//! LMS and HSS keys and signatures that others made from known seeds: ACVP's and pqc-kat's key generation, the
//! seeds of RFC 8554 and RFC 9858, and whole signatures of Cisco's hash-sigs with its `SECRET_METHOD` 2.
//!
//! Trees of height up to 10 are here; higher ones take minutes if chains are long.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels, LmOts, Lms, Scratch, SigningKey};
use gabion_tests::vectors::{self, hex, list, text, unhex};
use sha2::{Digest, Sha256};

gabion_tests::on_every_backend!(
    key_generation,
    hash_sigs,
    one_level,
    keys_of_the_standards,
    bouncy_castle
);

type Sets = (&'static Lms, &'static LmOts);

fn key<K: Kernels>(k: &K, sets: &[Sets], id: &[u8], seed: &[u8]) -> SigningKey {
    let levels = Levels::new(sets).expect("sets that fit each other");
    let id = id.try_into().expect("16 bytes");
    lms::generate(k, levels, id, seed, &mut Scratch::new()).expect("a key")
}

fn sign<K: Kernels>(k: &K, key: &mut SigningKey, index: u64, message: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; key.levels().signature_len()];
    key.sign(k, index, &[message], &mut signature, &mut Scratch::new()).expect("a signature");
    signature
}

fn named((lms, ots): (&str, &str)) -> Sets {
    let lms = LMS.iter().find(|set| set.name == lms).expect("an LMS set");
    (lms, LM_OTS.iter().find(|set| set.name == ots).expect("an LM-OTS set"))
}

fn of_typecodes(bytes: &[u8]) -> Sets {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("a word"));
    (
        Lms::from_typecode(word(0)).expect("an LMS set"),
        LmOts::from_typecode(word(4)).expect("an LM-OTS set"),
    )
}

/// Returns how many keys of a set a backend makes: those that take it a fifth of a second.
fn budget<K: Kernels>(k: &K, (lms, ots): Sets) -> usize {
    let hashes = (ots.chains() << ots.w) << lms.h;
    // About so many hashes in a fifth of a second.
    let most = match (lms.name.contains("SHAKE"), k.lanes() > 4) {
        (false, true) => 9_500_000,
        (true, true) | (false, false) => 600_000,
        (true, false) => 150_000,
    };
    most / hashes
}

fn key_generation<K: Kernels>(k: &K) {
    let mut made = 0;
    let mut check = |sets: Sets, test: &serde_json::Value, public: &serde_json::Value| {
        let made_key = key(k, &[sets], &hex(&test["i"]), &hex(&test["seed"]));
        assert_eq!(made_key.verify_key().bytes()[4..], hex(public), "{}", sets.0.name);
        made += 1;
    };
    let Some(cases) = vectors::acvp("LMS-keyGen-1.0") else { return };
    for case in cases {
        let sets = named((text(&case.group["lmsMode"]), text(&case.group["lmOtsMode"])));
        check(sets, &case.prompt, &case.expected["publicKey"]);
    }
    for (hash, n) in [("SHA256", 24), ("SHA256", 32), ("SHAKE", 24), ("SHAKE", 32)] {
        let name = format!("pqc-kat/LMS/LMS-keyGen-1.0-{hash}-M{n}-H5_H10.json");
        let file = vectors::json(&name).expect("a file");
        for group in list(&file["testGroups"]) {
            let sets = named((text(&group["lmsMode"]), text(&group["lmOtsMode"])));
            for test in list(&group["tests"]).iter().take(budget(k, sets).min(4)) {
                check(sets, test, &test["publicKey"]);
            }
        }
    }
    assert!(made >= 20, "{made} keys");
}

/// Blocks of `Name = value`, below comments: the values in the order of `names`.
fn blocks<const N: usize>(path: &str, names: [&str; N]) -> Vec<[String; N]> {
    let Some(bytes) = vectors::bytes(path) else { return Vec::new() };
    blocks_of(&String::from_utf8(bytes).expect("text"), names)
}

fn blocks_of<const N: usize>(content: &str, names: [&str; N]) -> Vec<[String; N]> {
    let (mut blocks, mut fields) = (Vec::new(), [const { String::new() }; N]);
    for line in content.lines() {
        let Some((name, value)) = line.split_once(" = ") else { continue };
        if let Some(at) = names.iter().position(|known| *known == name) {
            fields[at] = value.to_owned();
        }
        if fields.iter().all(|field| !field.is_empty()) {
            blocks.push(std::mem::replace(&mut fields, [const { String::new() }; N]));
        }
    }
    assert!(!blocks.is_empty(), "no blocks of {names:?}");
    blocks
}

/// Keys of hash-sigs of one to eight levels, `levels || index || sets || seed || I`, and their
/// signatures.
fn hash_sigs<K: Kernels>(k: &K) {
    let cases = blocks("botan/hss_lms_sig.vec", ["PrivateKey", "Msg", "Signature"]);
    for (number, [private, message, signature]) in cases.iter().enumerate() {
        let private = unhex(private);
        let (head, rest) = private.split_at(12);
        let (levels, index) =
            (usize::from(head[3]), u64::from_be_bytes(head[4..].try_into().expect("an index")));
        let (sets, secret) = rest.split_at(8 * levels);
        let sets: Vec<_> = sets.chunks(8).map(of_typecodes).collect();
        let hashes: usize = sets.iter().map(|(lms, ots)| (ots.chains() << ots.w) << lms.h).sum();
        if hashes > 24_000_000 || (k.lanes() <= 4 && hashes > 3_000_000) {
            continue;
        }
        let (seed, id) = secret.split_at(sets[0].0.n);
        let mut key = key(k, &sets, id, seed);
        let made = sign(k, &mut key, index, &unhex(message));
        assert!(made == unhex(signature), "key {number}");
    }
}

/// Keys of one level, and SHA-256 of their signatures.
fn one_level<K: Kernels>(k: &K) {
    let cases = blocks("botan/lms.vec", ["Seed", "Msg", "q", "PublicKey", "HashSig"]);
    for [seed, message, q, public, digest] in &cases {
        let public = unhex(public);
        let sets = of_typecodes(&public);
        if budget(k, sets) == 0 {
            continue;
        }
        let mut key = key(k, &[sets], &public[8..24], &unhex(seed));
        assert_eq!(key.verify_key().bytes()[4..], public);
        let signature = sign(k, &mut key, q.parse().expect("a number"), &unhex(message));
        // Of the bare signature.
        assert_eq!(Sha256::digest(&signature[4..])[..], unhex(digest), "{}", sets.0.name);
    }
}

/// RFC 8554, appendix F, test case 2: both trees of its key. RFC 9858, appendix A: keys, and signatures by
/// leaves 5, 6 and 7.
fn keys_of_the_standards<K: Kernels>(k: &K) {
    let cases = blocks("botan/hss_lms_verify.vec", ["PublicKey", "Msg", "Signature"]);
    let Some([public, _, signature]) = cases.get(1) else { return };
    let seeds = [
        "558b8966c48ae9cb898b423c83443aae014a72f1b1ab5cc85cf1d892903b5439",
        "a1c4696e2608035a886100d05cd99945eb3370731884a8235e2fb3d4d71f2547",
    ];
    let (public, signature) = (unhex(public), unhex(signature));
    for (public, seed) in [&public[4..], &signature[4 + 2508..][..56]].into_iter().zip(seeds) {
        let key = key(k, &[of_typecodes(public)], &public[8..24], &unhex(seed));
        assert_eq!(key.verify_key().bytes()[4..], *public);
    }
    for ([public, message, signature], (first, q)) in
        cases[2..].iter().zip([0, 0x30, 0x60].into_iter().zip(5..))
    {
        let (public, signature) = (unhex(public), unhex(signature));
        let sets = of_typecodes(&public[4..]);
        let seed: Vec<u8> = (first..).take(sets.0.n).collect();
        let mut key = key(k, &[sets], &public[12..28], &seed);
        assert_eq!(key.verify_key().bytes(), public);
        assert_eq!(sign(k, &mut key, q, &unhex(message)), signature);
    }
}

/// Checks keys of hash-sigs of one to three levels: the output of its source of randomness, a seed
/// and I, and the signature of index 0.
fn bouncy_castle<K: Kernels>(k: &K) {
    let Some(bytes) = vectors::bytes("bc-test-data/lms/depth_1.txt") else { return };
    let content = String::from_utf8(bytes).expect("text");
    let (mut trees, mut sets, mut fields) = (Vec::new(), Vec::new(), [const { Vec::new() }; 3]);
    for (name, value) in content.lines().filter_map(|line| line.split_once(": ")) {
        let word = || value.parse().expect("a number");
        match name {
            "Depth" => (trees, sets) = Default::default(),
            "LMType" => trees.push(Lms::from_typecode(word()).expect("an LMS set")),
            "LMOtsType" => {
                let ots = LmOts::from_typecode(word()).expect("an LM-OTS set");
                sets.push((trees[sets.len()], ots));
            }
            "Rand" => fields[0] = unhex(value),
            "HSSPublicKey" => fields[1] = unhex(value),
            "Message" => fields[2] = unhex(value),
            "Signature" if sets.iter().all(|sets| budget(k, *sets) > 0) => {
                let [random, public, message] = &fields;
                let (seed, id) = random.split_at(trees[0].n);
                let mut key = key(k, &sets, id, seed);
                assert_eq!(key.verify_key().bytes(), public);
                assert!(sign(k, &mut key, 0, message) == unhex(value), "{sets:?}");
            }
            _ => {}
        }
    }
}
