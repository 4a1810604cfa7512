//! XMSS and XMSS^MT against the vectors of liboqs, Botan, pqc-kat and RFC 9802's example; and valid
//! signatures with a changed byte, length, set or scheme.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use std::num::NonZero;
use std::ops::ControlFlow;

use gabion_backend::{Operation, Xmss};
use gabion_engine::Engine;
use gabion_engine::keys::stateful::xmss::{Progress, StatefulKey, XmssSecret};
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::xmss::{self, Scheme, Scratch, Set, VerifyKey};
use gabion_tests::der;
use gabion_tests::vectors::{self, hex, text, unhex};

use crate::cuda;

gabion_tests::on_every_backend!(
    liboqs,
    botan,
    pqc_kat,
    a_certificate_of_rfc_9802,
    bytes_of_one_tree,
    bytes_of_four_layers,
    indexes_beyond_the_last_leaf,
    lengths,
    numbers_of_other_sets,
    batches_give_the_verdicts_of_single_ones
);

/// A signature, and whether it is good.
#[derive(Clone)]
struct Case {
    name: String,
    scheme: Scheme,
    key: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
    is_valid: bool,
}

impl Case {
    /// Returns the case with a changed byte of the signature, which makes it invalid.
    fn changed(&self, at: usize, by: u8) -> Self {
        let mut case = Case { is_valid: false, ..self.clone() };
        case.name = format!("{}: byte {at}, {by:#x}", self.name);
        case.signature[at] ^= by;
        case
    }

    fn set(&self) -> &'static Set {
        VerifyKey::decode(self.scheme, &self.key).expect("a key").set().expect("a set")
    }
}

/// Returns the verdicts on cases, in one batch. A device is checked in addition to the portable
/// backend.
fn verdicts<K: Kernels>(k: &K, cases: &[Case]) -> Vec<Status> {
    let keys = cases.iter().map(|case| VerifyKey::decode(case.scheme, &case.key).expect("a key"));
    let keys: Vec<_> = keys.collect();
    let keys: Vec<_> = keys.iter().collect();
    let messages: Vec<_> = cases.iter().map(|case| &case.message[..]).collect();
    let signatures: Vec<_> = cases.iter().map(|case| &case.signature[..]).collect();
    let mut status = vec![Status::NotRun; cases.len()];
    xmss::verify(k, &keys, &messages, &signatures, &mut status, &mut Scratch::new());
    if k.name() == "portable" {
        for scheme in [Scheme::Xmss, Scheme::XmssMt] {
            let lanes: Vec<_> =
                (0..cases.len()).filter(|&lane| cases[lane].scheme == scheme).collect();
            let keys: Vec<_> = lanes.iter().map(|&lane| keys[lane]).collect();
            let messages: Vec<_> = lanes.iter().map(|&lane| messages[lane]).collect();
            let signatures: Vec<_> = lanes.iter().map(|&lane| signatures[lane]).collect();
            let expected: Vec<_> = lanes.iter().map(|&lane| status[lane]).collect();
            let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
            let verify = Operation::Xmss(Xmss::Verify { scheme, keys, messages, signatures });
            let found = cuda::run(cuda::cuda(), verify, lanes.len());
            assert_eq!(found, expected, "the device's verdicts");
        }
    }
    status
}

/// All verdicts are those that the file says.
fn check<K: Kernels>(k: &K, cases: &[Case]) {
    for (case, status) in cases.iter().zip(verdicts(k, cases)) {
        let want = if case.is_valid { Status::Ok } else { Status::InvalidSignature };
        assert_eq!(status, want, "{}", case.name);
    }
}

/// The sets that liboqs has a file for, as its files are named.
const LIBOQS: [&str; 26] = [
    "XMSS-SHA2_10_256",
    "XMSS-SHA2_16_192",
    "XMSS-SHA2_16_256",
    "XMSS-SHA2_16_512",
    "XMSS-SHA2_20_192",
    "XMSS-SHA2_20_256",
    "XMSS-SHA2_20_512",
    "XMSS-SHAKE256_10_256",
    "XMSS-SHAKE256_16_192",
    "XMSS-SHAKE256_16_256",
    "XMSS-SHAKE256_20_192",
    "XMSS-SHAKE256_20_256",
    "XMSS-SHAKE_16_256",
    "XMSS-SHAKE_20_256",
    "XMSS-SHAKE_20_512",
    "XMSSMT-SHA2_20-2_256",
    "XMSSMT-SHA2_20-4_256",
    "XMSSMT-SHA2_40-2_256",
    "XMSSMT-SHA2_40-4_256",
    "XMSSMT-SHA2_60-12_256",
    "XMSSMT-SHAKE_20-2_256",
    "XMSSMT-SHAKE_20-4_256",
    "XMSSMT-SHAKE_40-2_256",
    "XMSSMT-SHAKE_40-4_256",
    "XMSSMT-SHAKE_60-3_256",
    "XMSSMT-SHAKE_60-6_256",
];

/// The signature in a file of liboqs, of the set it is named for.
fn of_liboqs(file: &str) -> Option<Case> {
    let bytes = vectors::bytes(&format!("liboqs/xmss/{file}.rsp"))?;
    let content = String::from_utf8(bytes).expect("text");
    let field = |name: &str| {
        let line = content.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        unhex(line.expect("a field"))
    };
    let set = Set::from_name(&file.replace('-', "/").replacen('/', "-", 1)).expect("a set");
    let case = Case {
        name: file.to_owned(),
        scheme: set.scheme,
        key: field("pk"),
        message: field("msg"),
        signature: field("sm"),
        is_valid: true,
    };
    assert_eq!(case.set(), set);
    Some(case)
}

fn liboqs<K: Kernels>(k: &K) {
    let cases: Vec<_> = LIBOQS.iter().filter_map(|file| of_liboqs(file)).collect();
    check(k, &cases);
    let other_message = |case: &Case| {
        let mut case = Case { is_valid: false, ..case.clone() };
        case.message[0] ^= 1;
        case
    };
    check(k, &cases.iter().map(other_message).collect::<Vec<_>>());
}

/// Three signatures of each set of XMSS.
fn of_botan() -> Vec<Case> {
    let Some(bytes) = vectors::bytes("botan/xmss_verify.vec") else { return Vec::new() };
    let content = String::from_utf8(bytes).expect("text");
    let mut cases = Vec::new();
    let (mut name, mut message, mut key) = (String::new(), Vec::new(), Vec::new());
    for line in content.lines() {
        // An empty message has no blank behind the sign.
        let Some((field, value)) = line.split_once(" =") else { continue };
        match (field, value.trim()) {
            ("Params", value) => name = format!("XMSS-{value}"),
            ("Msg", value) => message = unhex(value),
            ("PublicKey", value) => key = unhex(value),
            ("Signature", value) => cases.push(Case {
                name: name.clone(),
                scheme: Scheme::Xmss,
                key: key.clone(),
                message: message.clone(),
                signature: unhex(value),
                is_valid: true,
            }),
            _ => {}
        }
    }
    cases
}

fn botan<K: Kernels>(k: &K) {
    let cases = of_botan();
    for case in &cases {
        assert_eq!(case.set().name, case.name);
    }
    let has = |set: &Set| cases.iter().filter(|case| case.name == set.name).count() == 3;
    assert!(cases.is_empty() || xmss::XMSS.iter().all(has), "three of every set");
    check(k, &cases);
}

/// The hash functions and lengths of pqc-kat.
const HASHES: [(&str, usize); 4] =
    [("SHA256", 24), ("SHA256", 32), ("SHAKE256", 24), ("SHAKE256", 32)];

fn pqc_kat<K: Kernels>(k: &K) {
    let mut cases = Vec::new();
    for (hash, n) in HASHES {
        for (mode, h) in [("sigGen", 10), ("sigVer", 10), ("sigVer", 16), ("sigVer", 20)] {
            if (hash, n) == ("SHAKE256", 24) && h > 10 {
                continue; // There is no such file.
            }
            let name = format!("pqc-kat/XMSS/XMSS-{mode}-{hash}-N{n}-H{h}");
            let Some(prompt) = vectors::json(&format!("{name}/prompt.json")) else { return };
            let answers = vectors::json(&format!("{name}/expectedResults.json"));
            cases.extend(joined(&name, &prompt, &answers.expect("answers beside the prompts")));
        }
    }
    assert!(cases.iter().filter(|case| case.is_valid).count() > 30);
    assert!(cases.iter().any(|case| !case.is_valid));
    check(k, &cases);
}

/// Every test of a file in the shape of ACVP; key, signature and verdict from either half. The message follows the
/// signature.
fn joined(name: &str, prompt: &serde_json::Value, answers: &serde_json::Value) -> Vec<Case> {
    let mut cases = Vec::new();
    let groups = vectors::list(&prompt["testGroups"]).iter();
    for (group, answers) in groups.zip(vectors::list(&answers["testGroups"])) {
        let key = [group, answers].iter().find_map(|half| half["publicKey"].as_str());
        let key = unhex(key.expect("a public key"));
        let set = Set::from_name(text(&group["param"])).expect("a set");
        let tests = vectors::list(&group["tests"]).iter();
        for (test, answer) in tests.zip(vectors::list(&answers["tests"])) {
            assert_eq!(test["tcId"], answer["tcId"], "{name}: tests in one order");
            let signed = [test, answer].into_iter().find(|half| !half["signature"].is_null());
            let signed = hex(&signed.expect("a signature")["signature"]);
            let (signature, _) = signed.split_at(set.signature_len());
            let passed = &answer["testPassed"];
            cases.push(Case {
                name: format!("{name}: {}", test["tcId"]),
                scheme: Scheme::Xmss,
                key: key.clone(),
                message: hex(&test["message"]),
                signature: signature.to_vec(),
                // Generated signatures are valid.
                is_valid: passed.is_null() || passed == true || passed == "True",
            });
        }
    }
    cases
}

/// Keys of trees 16 high where GABION_SOAK is set, and of those 20 high where it is a million: they take seconds and
/// minutes each.
#[test]
fn pqc_kat_keys_of_high_trees() {
    let soak = std::env::var("GABION_SOAK").ok().and_then(|n| n.parse::<u64>().ok());
    let heights = match soak {
        None => &[][..],
        Some(..1_000_000) => &[16],
        Some(_) => &[16, 20],
    };
    let (engine, mut watch) =
        (Engine::global().expect("a backend"), |_: Progress<'_>| ControlFlow::Continue(()));
    let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    for h in heights {
        for (hash, n) in HASHES {
            let name = format!("pqc-kat/XMSS/XMSS-keyGen-{hash}-N{n}-H{h}");
            let [prompt, answers] = ["prompt", "expectedResults"].map(|file| {
                let file = vectors::json(&format!("{name}/{file}.json"))?;
                vectors::list(&file["testGroups"]).first().cloned()
            });
            let (Some(group), Some(answers)) = (prompt, answers) else { return };
            let set = Set::from_name(text(&group["param"])).expect("a set");
            let (test, answer) = (&group["tests"][0], &answers["tests"][0]);
            let seeds = ["S_XMSS", "SK_PRF", "I"].map(|field| hex(&test[field])).concat();
            let secret = XmssSecret::new(set, &seeds).expect("three seeds");
            let made = StatefulKey::generate(engine, &secret, &[], threads, &mut watch);
            let key = made.expect("it can be made").expect("nobody stops it");
            assert_eq!(key.verify_key().bytes(), hex(&answer["publicKey"]), "{name}");
        }
    }
}

/// The certificate of RFC 9802 that signs itself.
fn a_certificate_of_rfc_9802<K: Kernels>(k: &K) {
    let Some(bytes) = vectors::bytes("lamps/shbs/xmss_cert.pem") else { return };
    let file = der::pem(&bytes);
    let parts = der::certificate(&file);
    let key = parts.public;
    let set = VerifyKey::decode(Scheme::Xmss, key).expect("a key").set().expect("a set");
    let case = Case {
        name: set.name.to_owned(),
        scheme: Scheme::Xmss,
        key: key.to_vec(),
        message: parts.signed.to_vec(),
        signature: parts.signature.to_vec(),
        is_valid: true,
    };
    check(k, &[case.changed(0, 1), case.clone(), case.changed(100, 1)]);
}

/// Bytes of every field of a signature of one tree changed, and of the key, where it stays a key.
fn bytes_of_one_tree<K: Kernels>(k: &K) {
    let Some(good) = of_liboqs("XMSS-SHAKE256_16_192") else { return };
    let length = good.signature.len();
    let places = (0..30).chain((30..length).step_by(23)).chain(length - 16 * 24..length);
    let mut cases: Vec<_> = places.map(|at| good.changed(at, 1 << (at % 8))).collect();
    cases.insert(cases.len() / 2, good.clone());
    check(k, &cases);
    for at in 4..good.key.len() {
        let mut case = Case { is_valid: false, ..good.clone() };
        case.name = format!("byte {at} of the key");
        case.key[at] ^= 1;
        check(k, &[case]);
    }
}

/// Changes bytes in four layers: a change in a layer reaches the root from there on.
fn bytes_of_four_layers<K: Kernels>(k: &K) {
    let Some(good) = of_liboqs("XMSSMT-SHA2_20-4_256") else { return };
    let layer = good.set().layer_len();
    let mut places = vec![0, 1, 2, 3, 34, 35];
    for layer in (0..4).map(|i| 35 + i * layer) {
        places.extend(
            [0, 31, 32, 1000, 67 * 32 - 1, 67 * 32, 67 * 32 + 5 * 32 - 1].map(|at| layer + at),
        );
    }
    let mut cases: Vec<_> = places.iter().map(|&at| good.changed(at, 0x80)).collect();
    cases.push(good);
    check(k, &cases);
}

/// Checks indexes beyond the last leaf, by bits that no valid index has.
fn indexes_beyond_the_last_leaf<K: Kernels>(k: &K) {
    for (file, bits) in
        [("XMSS-SHA2_10_256", 10), ("XMSSMT-SHA2_20-4_256", 20), ("XMSSMT-SHA2_60-12_256", 60)]
    {
        let Some(good) = of_liboqs(file) else { return };
        let length = good.set().index_len();
        let cases =
            (bits..8 * length).map(|bit| good.changed(length - 1 - bit / 8, 1 << (bit % 8)));
        let mut cases: Vec<_> = cases.collect();
        assert_eq!(cases.is_empty(), 8 * length == bits);
        cases.push(good.clone());
        let mut all = Case { is_valid: false, ..good };
        all.signature[..length].fill(0xff);
        cases.push(all);
        check(k, &cases);
    }
}

/// Lengths of a signature about those of its fields, and longer ones (bc-java 2408: one byte and a thousand);
/// lengths of a key (CVE-2026-44518, CVE-2026-46344).
fn lengths<K: Kernels>(k: &K) {
    for file in
        ["XMSS-SHA2_10_256", "XMSS-SHA2_16_192", "XMSSMT-SHA2_20-2_256", "XMSSMT-SHAKE_60-6_256"]
    {
        let Some(good) = of_liboqs(file) else { return };
        let length = good.signature.len();
        // All of short ones, and of long ones here and there and about the end.
        let few = |len: &usize| length < 3000 || len.is_multiple_of(61) || length - len < 40;
        let longer = [1, 2, 3, 4, 24, 32, 1000, length].map(|more| length + more);
        let cases: Vec<_> = (0..length)
            .filter(few)
            .chain(longer)
            .map(|len| {
                let name = format!("{file}: {len} bytes");
                let mut case = Case { name, is_valid: false, ..good.clone() };
                case.signature.resize(len, 0);
                case
            })
            .collect();
        check(k, &cases);
        for len in (0..good.key.len()).chain([good.key.len() + 1, good.key.len() + 64, 1000]) {
            let mut key = good.key.clone();
            key.resize(len, 0);
            assert!(VerifyKey::decode(good.scheme, &key).is_err(), "a key of {len} bytes");
        }
        let key = VerifyKey::decode(good.scheme, &good.key).expect("a key");
        assert_eq!(key.signature_len(), length);
    }
}

/// A key of one set and a signature of another; and a key under the same number in the other scheme
/// (RustCrypto/signatures 1442).
fn numbers_of_other_sets<K: Kernels>(k: &K) {
    for file in ["XMSS-SHA2_10_256", "XMSSMT-SHA2_20-2_256", "XMSS-SHA2_16_192"] {
        let Some(good) = of_liboqs(file) else { return };
        let mut cases = Vec::new();
        for scheme in [Scheme::Xmss, Scheme::XmssMt] {
            for number in (0..60u32).chain([u32::MAX]) {
                let mut case = Case { scheme, ..good.clone() };
                case.name = format!("{file}: {number} of {}", scheme.name());
                case.key[..4].copy_from_slice(&number.to_be_bytes());
                let set = Set::from_number(scheme, number);
                let key = VerifyKey::decode(scheme, &case.key);
                // The length of the key is that of the set, or it is refused.
                let fits = set.is_some_and(|set| set.public_key_len() == case.key.len());
                assert_eq!(key.is_ok(), fits, "{}", case.name);
                case.is_valid = (scheme, &case.key) == (good.scheme, &good.key);
                cases.extend(fits.then_some(case));
            }
        }
        assert!(cases.len() > 30 || good.key.len() < 68);
        assert_eq!(cases.iter().filter(|case| case.is_valid).count(), 1);
        check(k, &cases);
    }
}

/// Good and bad ones of many sets in one batch, in any order, and each alone; the same layers many times.
fn batches_give_the_verdicts_of_single_ones<K: Kernels>(k: &K) {
    let files =
        ["XMSS-SHA2_10_256", "XMSS-SHA2_16_192", "XMSSMT-SHA2_20-4_256", "XMSS-SHAKE_16_256"];
    let mut cases: Vec<_> = files.iter().filter_map(|file| of_liboqs(file)).collect();
    for i in 0..cases.len() {
        let at = cases[2 * i].signature.len() - 1 - 7 * i;
        cases.push(cases[2 * i].changed(at, 4));
        let mut short = Case { is_valid: false, ..cases[2 * i].clone() };
        short.signature.pop();
        cases.insert(2 * i, short);
    }
    check(k, &cases);
    let many: Vec<_> = cases.iter().cycle().skip(5).take(3 * cases.len()).cloned().collect();
    check(k, &many);
    for case in &cases {
        check(k, std::slice::from_ref(case));
    }
    assert!(verdicts(k, &[]).is_empty());
}
