//! LMS and HSS against RFC 8554's appendix F, NIST's ACVP files and those of other libraries; and
//! valid signatures with a changed byte or length.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use gabion_backend::{Hss, Operation};
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels, Scratch, VerifyKey};
use gabion_tests::vectors::{self, hex, text, unhex};
use serde_json::Value;

use crate::cuda;

gabion_tests::on_every_backend!(
    rfc8554_and_botan,
    acvp_and_kat,
    liboqs,
    every_byte_of_one_level,
    every_field_of_two_levels,
    lengths,
    batches_give_the_verdicts_of_single_ones,
    what_is_the_same_is_counted_as_often_as_it_stands
);

/// A signature, all in HSS's encoding, and whether it is good.
#[derive(Clone)]
struct Case {
    name: String,
    key: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
    is_valid: bool,
}

impl Case {
    /// Of a bare LMS key and signature: HSS with one level is a word more in front.
    fn bare(mut self) -> Self {
        self.key.splice(0..0, [0, 0, 0, 1]);
        self.signature.splice(0..0, [0; 4]);
        self
    }
}

/// Returns the verdicts on cases, in one batch; a rejected key has no verdict. A device is checked
/// in addition to the portable backend.
fn verdicts<K: Kernels>(k: &K, cases: &[Case]) -> Vec<Status> {
    let keys = cases.iter().map(|case| VerifyKey::decode(&case.key).expect("a key"));
    let keys: Vec<_> = keys.collect();
    let keys: Vec<_> = keys.iter().collect();
    let messages: Vec<_> = cases.iter().map(|case| &case.message[..]).collect();
    let signatures: Vec<_> = cases.iter().map(|case| &case.signature[..]).collect();
    let mut status = vec![Status::NotRun; cases.len()];
    lms::verify(k, &keys, &messages, &signatures, &mut status, &mut Scratch::new());
    if k.name() == "portable" && !cases.is_empty() {
        let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
        let verify = Operation::Hss(Hss::Verify { keys, messages, signatures });
        assert_eq!(cuda::run(cuda::cuda(), verify, cases.len()), status, "the device's verdicts");
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

/// Blocks of `Name = hexadecimal digits` below comments, as Botan and liboqs have them.
fn blocks(path: &str, names: [&str; 3]) -> Vec<Case> {
    let Some(bytes) = vectors::bytes(path) else { return Vec::new() };
    let content = String::from_utf8(bytes).expect("text");
    let mut cases = Vec::new();
    let (mut fields, mut name) = ([const { Vec::new() }; 3], path.to_owned());
    for line in content.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            name = format!("{path}: {comment}");
        }
        let Some((field, digits)) = line.split_once(" = ") else { continue };
        if let Some(at) = names.iter().position(|name| *name == field) {
            fields[at] = unhex(digits.trim_matches('"'));
        }
        if fields.iter().all(|field| !field.is_empty()) {
            let [key, message, signature] = std::mem::take(&mut fields);
            cases.push(Case { name: name.clone(), key, message, signature, is_valid: true });
        }
    }
    assert!(!cases.is_empty(), "{path}: no cases");
    cases
}

/// RFC 8554's two, and one of SHA-256 and two of SHAKE256 with n = 24 and 32 (RFC 9858).
fn rfc8554() -> Vec<Case> {
    blocks("botan/hss_lms_verify.vec", ["PublicKey", "Msg", "Signature"])
}

fn rfc8554_and_botan<K: Kernels>(k: &K) {
    let cases = rfc8554();
    check(k, &cases);
    for case in cases {
        let mut message = case.message.clone();
        message[0] ^= 1;
        check(k, &[case.clone(), Case { message, is_valid: false, ..case }]);
    }
}

fn acvp_and_kat<K: Kernels>(k: &K) {
    let mut cases = Vec::new();
    for folder in
        ["LMS-sigVer-1.0", "LMS-sigVer-SP800-208", "LMS-sigGen-1.0", "LMS-sigGen-SP800-208"]
    {
        let Some(prompt) = vectors::json(&format!("acvp/{folder}/prompt.json")) else { return };
        let answers = vectors::json(&format!("acvp/{folder}/expectedResults.json"));
        let answers = answers.expect("answers beside the prompts");
        cases.extend(joined(folder, &prompt, &answers));
    }
    for (hash, n) in [("SHA256", 24), ("SHA256", 32), ("SHAKE", 24), ("SHAKE", 32)] {
        for heights in ["H5_H10", "H15", "H20", "H25"] {
            for mode in ["sigVer", "sigGen-1.0"] {
                let name = format!("LMS-{mode}-{hash}-M{n}-{heights}");
                let file = vectors::json(&format!("pqc-kat/LMS/{name}.json")).expect("a file");
                cases.extend(joined(&name, &file, &file));
            }
        }
    }
    // Every set of both tables is there.
    let has = |at: usize, typecode: u32| {
        cases.iter().any(|case| case.is_valid && case.key[at..at + 4] == typecode.to_be_bytes())
    };
    assert!(
        LMS.iter().all(|set| has(4, set.typecode)) && LM_OTS.iter().all(|set| has(8, set.typecode))
    );
    assert!(cases.iter().any(|case| !case.is_valid));
    check(k, &cases);
}

/// Every test of a file in the shape of ACVP; key, signature and verdict from either half.
fn joined(name: &str, prompt: &Value, answers: &Value) -> Vec<Case> {
    let mut cases = Vec::new();
    let groups = vectors::list(&prompt["testGroups"]).iter();
    for (group, answers) in groups.zip(vectors::list(&answers["testGroups"])) {
        let key = [group, answers].iter().find_map(|half| half["publicKey"].as_str());
        let key = unhex(key.expect("a public key"));
        let tests = vectors::list(&group["tests"]).iter();
        for (test, answer) in tests.zip(vectors::list(&answers["tests"])) {
            assert_eq!(test["tcId"], answer["tcId"], "{name}: tests in one order");
            let signature = [test, answer].into_iter().find(|half| !half["signature"].is_null());
            let case = Case {
                name: format!("{name}: {} {}", text(&group["lmsMode"]), test["tcId"]),
                key: key.clone(),
                message: hex(&test["message"]),
                signature: hex(&signature.expect("a signature")["signature"]),
                // Generated signatures are valid.
                is_valid: answer["testPassed"].as_bool().unwrap_or(true),
            };
            cases.push(case.bare());
        }
    }
    cases
}

fn liboqs<K: Kernels>(k: &K) {
    let sets = [
        "H5_W1",
        "H5_W2",
        "H5_W4",
        "H5_W8",
        "H10_W1",
        "H10_W2",
        "H10_W4",
        "H15_W1",
        "H15_W4",
        "H15_W8",
        "H20_W1",
        "H20_W2",
        "H10_W4_H5_W8",
        "H5_W8_H5_W8",
    ];
    for set in sets {
        for case in blocks_if_there(&format!("liboqs/lms/LMS_SHA256_{set}.rsp")) {
            // Two files have a bare key.
            let is_bare = VerifyKey::decode(&case.key).is_err();
            check(k, &[if is_bare { case.bare() } else { case }]);
        }
    }
}

fn blocks_if_there(path: &str) -> Vec<Case> {
    if vectors::root().is_some() { blocks(path, ["pk", "msg", "sm"]) } else { Vec::new() }
}

/// A good signature of one level: 2352 bytes, 570 hashes.
fn one_level() -> Option<Case> {
    blocks_if_there("liboqs/lms/LMS_SHA256_H5_W4.rsp").pop()
}

/// Each byte of a signature changed, all at once in one batch; and of the key, where it stays a key.
fn every_byte_of_one_level<K: Kernels>(k: &K) {
    let Some(good) = one_level() else { return };
    let changed = |at: usize, by: u8| {
        let mut case = Case { is_valid: false, ..good.clone() };
        case.name = format!("byte {at} of the signature, {by:#x}");
        case.signature[at] ^= by;
        case
    };
    let cases: Vec<_> = (0..good.signature.len())
        .map(|at| changed(at, 1 << (at % 8)))
        .chain([good.clone(), changed(3, 0x80), changed(4, 0x80), changed(7, 0x20)])
        .collect();
    check(k, &cases);
    for at in 0..good.key.len() {
        let mut case = Case { is_valid: false, ..good.clone() };
        case.name = format!("byte {at} of the key");
        case.key[at] ^= 1;
        if VerifyKey::decode(&case.key).is_ok() {
            check(k, &[case]);
        }
    }
}

/// Bits of every field of a signature of two levels, and bytes of all else here and there; parts of one
/// under the other's key.
fn every_field_of_two_levels<K: Kernels>(k: &K) {
    let Some(good) = rfc8554().into_iter().nth(1) else { return };
    // H10 with W4, then H5 with W8: Nspk, sig[0], pub[1], sig[1].
    let sig = |ots: usize, h: usize| [4, 4, 32, ots, 4, 32 * h];
    let fields = [[4, 4, 32, 67 * 32, 4, 320, 4, 4, 16, 32].as_slice(), &sig(34 * 32, 5)].concat();
    let mut ends = vec![4];
    for field in fields {
        ends.push(ends[ends.len() - 1] + field);
    }
    assert_eq!(ends.pop(), Some(good.signature.len()));
    let places =
        ends.iter().flat_map(|&at| [at - 1, at]).chain((0..good.signature.len()).step_by(29));
    let cases: Vec<_> = places
        .chain([0])
        .map(|at| {
            let mut case = Case { name: format!("byte {at}"), is_valid: false, ..good.clone() };
            case.signature[at] ^= 0x10;
            case
        })
        .chain([good.clone()])
        .collect();
    check(k, &cases);
    // Every other number of a set, in each of the six places where one stands.
    let numbers =
        [8, 8 + 36 + 67 * 32, ends[6], ends[7], ends[10] + 4, ends[10] + 4 + 36 + 34 * 32];
    let mut cases = Vec::new();
    for at in numbers {
        for typecode in (0..30u32).chain([u32::MAX]) {
            let mut case =
                Case { name: format!("{typecode} at {at}"), is_valid: false, ..good.clone() };
            let was = case.signature[at..at + 4].to_vec();
            case.signature[at..at + 4].copy_from_slice(&typecode.to_be_bytes());
            case.is_valid = was == typecode.to_be_bytes();
            cases.push(case);
        }
    }
    // Every number of levels.
    for levels in (0..12u32).chain([u32::MAX]) {
        let mut case =
            Case { name: format!("Nspk {levels}"), is_valid: levels == 1, ..good.clone() };
        case.signature[..4].copy_from_slice(&levels.to_be_bytes());
        cases.push(case);
    }
    check(k, &cases);
}

/// Every length below that of the signature, and more than it, for a key of one level and of two.
fn lengths<K: Kernels>(k: &K) {
    let two = rfc8554().into_iter().next();
    for good in one_level().into_iter().chain(two) {
        let longer = [1, 2, 3, 4, 31, 32, 33, 1000].map(|more| good.signature.len() + more);
        let cases: Vec<_> = (0..good.signature.len())
            .chain(longer)
            .map(|len| {
                let mut case =
                    Case { name: format!("{len} bytes"), is_valid: false, ..good.clone() };
                case.signature.resize(len, 0);
                case
            })
            .collect();
        check(k, &cases);
        for len in (0..good.key.len()).chain([good.key.len() + 1, 1000]) {
            let mut key = good.key.clone();
            key.resize(len, 0);
            assert!(VerifyKey::decode(&key).is_err(), "a key of {len} bytes");
        }
        let key = VerifyKey::decode(&good.key).expect("a key");
        let most = key.signature_len_max();
        assert_eq!(key.signature_len(), (key.levels() == 1).then_some(good.signature.len()));
        assert!(good.signature.len() <= most && (key.levels() > 1 || good.signature.len() == most));
    }
}

/// Good and bad ones of all sets in one batch, in any order, and each alone.
fn batches_give_the_verdicts_of_single_ones<K: Kernels>(k: &K) {
    let mut cases: Vec<_> = rfc8554().into_iter().chain(one_level()).collect();
    for i in 0..cases.len() {
        let mut bad = Case { is_valid: false, ..cases[i].clone() };
        let at = bad.signature.len() - 1 - 7 * i;
        bad.signature[at] ^= 4;
        cases.push(bad);
        let mut short = Case { is_valid: false, ..cases[i].clone() };
        short.signature.pop();
        cases.insert(i, short);
    }
    for turn in 0..3 {
        check(k, &cases);
        let middle = (turn * 5 + 3) % cases.len().max(1);
        cases.rotate_left(middle);
    }
    let mut many: Vec<_> = cases.iter().cycle().take(3 * cases.len()).cloned().collect();
    many.reverse();
    check(k, &many);
    for case in &cases {
        check(k, std::slice::from_ref(case));
    }
    assert!(verdicts(k, &[]).is_empty());
}

/// A tree that signs its own key in each level but the last, under one index, is a good key of many levels whose parts are
/// the same; with one of them wrong it is not. In a batch, lanes share what is above.
fn what_is_the_same_is_counted_as_often_as_it_stands<K: Kernels>(k: &K) {
    let sets = (LMS.first().expect("H5"), LM_OTS.get(2).expect("W4"));
    let levels = Levels::new(&[sets]).expect("one level");
    let (len, scratch) = (levels.signature_len(), &mut Scratch::new());
    let mut key = lms::generate(k, levels, &[1; 16], &[2; 32], scratch).expect("a key");
    let bare = key.verify_key().bytes()[4..].to_vec();
    let mut sign = |index: u64, message: &[u8]| {
        let mut signature = vec![0; len];
        key.sign(k, index, &[message], &mut signature, scratch).expect("a signature");
        signature.split_off(4)
    };
    let (above, messages) = (sign(0, &bare), [b"one".to_vec(), b"two".to_vec()]);
    let below = [sign(1, &messages[0]), sign(2, &messages[1])];
    let mut cases = Vec::new();
    for (count, lane) in (1..=7u32).flat_map(|count| [(count, 0), (count, 1)]) {
        let signed = [&above[..], &bare].concat().repeat(count as usize);
        let signature = [&count.to_be_bytes(), &signed[..], &below[lane]].concat();
        let good = Case {
            name: format!("{count} above, lane {lane}"),
            key: [&(count + 1).to_be_bytes(), &bare[..]].concat(),
            message: messages[lane].clone(),
            signature,
            is_valid: true,
        };
        // The last of those above, a chain of which is wrong; and the one below.
        for at in [4 + (above.len() + bare.len()) * (count as usize - 1) + 100, 0] {
            let mut bad = Case { is_valid: false, ..good.clone() };
            let at = if at == 0 { bad.signature.len() - 1 } else { at };
            bad.signature[at] ^= 1;
            cases.push(bad);
        }
        cases.push(good);
    }
    check(k, &cases);
    for case in &cases {
        check(k, std::slice::from_ref(case));
    }
}
