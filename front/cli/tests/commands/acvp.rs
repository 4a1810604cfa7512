//! `gabion acvp` over NIST's files, and over files that are not as they should be.

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::harness::{Work, vectors};
use serde_json::{Value, json};

fn load(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|end| end == "xz") {
        let mut text = Vec::new();
        lzma_rust2::XzReader::new(&bytes[..], true).read_to_end(&mut text).unwrap();
        return serde_json::from_slice(&text).unwrap();
    }
    serde_json::from_slice(&bytes).unwrap()
}

/// A file of a folder, plain or packed.
fn file(folder: &Path, name: &str) -> Option<PathBuf> {
    ["", ".xz"]
        .iter()
        .map(|end| folder.join(format!("{name}.json{end}")))
        .find(|path| path.exists())
}

fn count(file: &Value) -> usize {
    let groups = file["testGroups"].as_array().unwrap();
    groups.iter().map(|group| group["tests"].as_array().unwrap().len()).sum()
}

fn first_test(file: &mut Value) -> &mut Value {
    &mut file["testGroups"][0]["tests"][0]
}

/// Changes an answer so that it is still well-formed.
fn spoil(test: &mut Value, names: &[&str]) {
    let name = names.iter().find(|name| !test[**name].is_null()).unwrap();
    test[*name] = match &test[*name] {
        Value::Bool(value) => json!(!value),
        Value::String(text) => {
            let last = if text.ends_with('0') { "1" } else { "0" };
            json!(format!("{}{last}", &text[..text.len() - 1]))
        }
        other => panic!("{other}"),
    };
}

const ANSWERS: [&str; 8] = ["k", "c", "dk", "sk", "signature", "testPassed", "pk", "publicKey"];

#[test]
fn every_file_is_right_and_a_changed_answer_is_noticed() {
    let Some(root) = vectors("acvp") else { return };
    let work = Work::new();
    let mut files = 0;
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("ML-") && !name.starts_with("LMS-") {
            continue;
        }
        files += 1;
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        if let Some(path) = file(&folder, "internalProjection") {
            let mut projection = load(&path);
            let all = count(&projection);
            let done = work.gabion(&["acvp", &text(&path)]).ok();
            assert!(done.err.contains(&format!("{all} of {all} right")), "{name}: {}", done.err);
            assert_eq!(count(&done.json()), all);
            // The same by --check, against itself.
            work.gabion(&["acvp", &text(&path), "--check", &text(&path)]).ok();
            spoil(first_test(&mut projection), &ANSWERS);
            work.write("spoilt", projection.to_string());
            let done = work.gabion(&["acvp", "spoilt"]);
            assert_eq!(done.code, Some(1), "{name}");
            assert!(done.err.contains(&format!("{} of {all} right", all - 1)), "{}", done.err);
            continue;
        }
        let prompt = file(&folder, "prompt").unwrap();
        let expected = file(&folder, "expectedResults").unwrap();
        let done = work.gabion(&["acvp", &text(&prompt), "--check", &text(&expected)]).ok();
        let mut expected = load(&expected);
        let all = count(&expected);
        assert!(done.err.contains(&format!("{all} of {all} right")), "{name}: {}", done.err);
        // Our answers are the expected file, field by field.
        let ours = done.json();
        for name in ["vsId", "algorithm", "mode", "revision"] {
            assert_eq!(ours[name], expected[name]);
        }
        if name.starts_with("LMS-sigGen") {
            // Signed by keys of our own: other signatures, and as good.
            assert_ne!(ours["testGroups"], expected["testGroups"], "{name}");
            work.write("ours", &done.out);
            let done = work.gabion(&["acvp", &text(&prompt), "--check", "ours"]).ok();
            assert!(done.err.contains(&format!("{all} of {all} right")), "{name}: {}", done.err);
        } else {
            assert_eq!(ours["testGroups"], expected["testGroups"], "{name}");
        }
        spoil(first_test(&mut expected), &ANSWERS);
        work.write("spoilt", expected.to_string());
        let done = work.gabion(&["acvp", &text(&prompt), "--check", "spoilt"]);
        assert_eq!(done.code, Some(1), "{name}");
        assert!(done.err.contains(&format!("{} of {all} right", all - 1)), "{}", done.err);
    }
    assert_eq!(files, 10);
}

#[test]
fn portable_is_right_too() {
    let Some(folder) = vectors("acvp/ML-KEM-encapDecap-FIPS203") else {
        return;
    };
    let work = Work::new();
    let path = file(&folder, "internalProjection").unwrap();
    let mut command = work.command(&["acvp", path.to_str().unwrap()]);
    let done = crate::harness::CommandResult::of(
        command.env("GABION_BACKEND", "portable").output().unwrap(),
    );
    assert!(done.ok().err.contains(" right"));
}

/// A prompt of our own, so that the machinery is tested without any vectors.
fn prompt() -> Value {
    let zero = "00".repeat(32);
    json!({
        "vsId": 7, "algorithm": "ML-KEM", "mode": "keyGen", "revision": "FIPS203",
        "unknown": [1, 2],
        "testGroups": [{
            "tgId": 3, "testType": "AFT", "parameterSet": "ML-KEM-512", "other": null,
            "tests": [
                { "tcId": 11, "d": zero, "z": zero, "deferred": false },
                { "tcId": 12, "d": zero, "z": "FF".repeat(32) },
            ],
        }],
    })
}

#[test]
fn answers_have_the_shape_of_expected_results_and_check_themselves() {
    let work = Work::new();
    work.write("prompt", prompt().to_string());
    // A prompt alone can't be checked, and is no failure.
    let done = work.gabion(&["acvp", "prompt"]).ok();
    assert!(done.err.is_empty(), "{}", done.err);
    let answers = done.json();
    assert_eq!(answers["vsId"], 7);
    let group = &answers["testGroups"][0];
    assert_eq!((&group["tgId"], &group["tests"][1]["tcId"]), (&json!(3), &json!(12)));
    let mut fields: Vec<&String> = group["tests"][0].as_object().unwrap().keys().collect();
    fields.sort_unstable();
    assert_eq!(fields, ["dk", "ek", "tcId"]);
    assert_eq!(group["tests"][0]["ek"].as_str().unwrap().len(), 1600);
    work.write("answers", &done.out);
    let done = work.gabion(&["acvp", "prompt", "--check", "answers"]).ok();
    assert!(done.err.contains("2 of 2 right"));
    // The same prompt as NIST sometimes wraps it, from standard input.
    let wrapped = json!([{ "acvVersion": "1.0" }, prompt()]).to_string();
    let check = ["acvp", "-", "--check", "answers"];
    assert!(work.gabion_fed(&check, wrapped.as_bytes()).ok().err.contains("2 of 2 right"));
    // Answers to more, or to fewer, tests than were asked.
    let mut fewer = answers.clone();
    fewer["testGroups"][0]["tests"].as_array_mut().unwrap().pop();
    work.write("fewer", fewer.to_string());
    let done = work.gabion(&["acvp", "prompt", "--check", "fewer"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("1 of 2 right"), "{}", done.err);
    work.write("prompt", {
        let mut fewer = prompt();
        fewer["testGroups"][0]["tests"].as_array_mut().unwrap().pop();
        fewer.to_string()
    });
    assert_eq!(work.gabion(&["acvp", "prompt", "--check", "answers"]).code, Some(1));
}

#[test]
fn files_that_are_not_as_they_should_be_are_refused() {
    let work = Work::new();
    let change = |at: &str, value: Value| {
        let mut file = prompt();
        *file.pointer_mut(at).unwrap() = value;
        file.to_string()
    };
    for (text, word) in [
        ("{".to_owned(), "JSON"),
        ("[]".to_owned(), "testGroups"),
        (change("/algorithm", json!("SLH-DSA")), "ML-DSA / sigGen"),
        (change("/revision", json!("FIPS999")), "ML-DSA / sigGen"),
        (change("/testGroups", json!(3)), "testGroups"),
        (change("/testGroups/0/tgId", json!("3")), "tgId"),
        (change("/testGroups/0/parameterSet", json!("ML-KEM-1")), "ML-KEM-1"),
        (change("/testGroups/0/tests/0/d", json!("0")), "`d`"),
        (change("/testGroups/0/tests/0/d", json!("00")), "expected 32"),
        (change("/testGroups/0/tests/1/z", json!(null)), "`z`"),
    ] {
        work.write("file", &text);
        work.gabion(&["acvp", "file"]).fails(2).says(word);
        assert!(work.gabion(&["acvp", "file"]).out.is_empty());
    }
    // A packed file that is cut short.
    work.write("file", b"\xfd7zXZ\0\0\x04\xe6\xd6");
    work.gabion(&["acvp", "file"]).fails(2).says(".xz");
    work.write("prompt", prompt().to_string());
    work.gabion(&["acvp", "prompt", "--check", "file"]).fails(2);
    // A parameter set of another algorithm, also one that makes keys in the same way.
    for name in ["ML-DSA-44", "X25519MLKEM768", "ml-kem-512"] {
        work.write("file", change("/testGroups/0/parameterSet", json!(name)));
        let done = work.gabion(&["acvp", "file"]).fails(2);
        done.says(name).says("expected ML-KEM-512, ML-KEM-768, ML-KEM-1024");
    }
}

/// Signatures of LMS are verified by the public key in the same file, in answers of other
/// implementations and in an internalProjection.
#[test]
fn signatures_of_lms_are_judged_and_not_compared() {
    let work = Work::new();
    let test = |id: u64| json!({ "tcId": id, "message": format!("{id:04}") });
    let prompt = |tests: Vec<Value>| {
        json!({ "algorithm": "LMS", "mode": "sigGen", "revision": "SP800-208",
            "testGroups": [{ "tgId": 1, "lmsMode": "LMS_SHA256_M24_H5",
                "lmOtsMode": "LMOTS_SHA256_N24_W4", "tests": tests }] })
    };
    work.write("prompt", prompt((0..4).map(test).collect()).to_string());
    let check = ["acvp", "prompt", "--check", "answers"];
    let answers = work.gabion(&["acvp", "prompt"]).ok().json();
    let public = &answers["testGroups"][0]["publicKey"];
    assert!(public.as_str().is_some_and(|key| key.starts_with("0000000A00000007")), "{public}");
    work.write("answers", answers.to_string());
    work.gabion(&check).ok().says("4 of 4 right");
    let with = |at: &str, value: Value, count: &str, word: &str| {
        let mut other = answers.clone();
        *other.pointer_mut(at).unwrap() = value;
        work.write("answers", other.to_string());
        let done = work.gabion(&check);
        assert_eq!(done.code, Some(1), "{at}");
        done.says(count).says(word);
    };
    // Another key of the same sets, one of others, and none.
    let again = work.gabion(&["acvp", "prompt"]).ok().json();
    let key = "/testGroups/0/publicKey";
    assert_ne!(&again["testGroups"][0]["publicKey"], public, "a fresh key each time");
    with(key, again["testGroups"][0]["publicKey"].clone(), "0 of 4 right", "does not verify");
    let other = public.as_str().unwrap().replace("0000000A00000007", "0000000A00000008");
    with(key, json!(other), "0 of 4 right", "LMOTS_SHA256_N24_W8");
    with(key, json!(null), "0 of 4 right", "no field `publicKey`");
    let signature = answers["testGroups"][0]["tests"][1]["signature"].clone();
    with("/testGroups/0/tests/2/signature", signature, "3 of 4 right", "tcId 2");
    with("/testGroups/0/tests/3/tcId", json!(7), "3 of 5 right", "no signature was asked for");
    // A key that signs all that its leaves can, and no more.
    work.write("prompt", prompt((0..34).map(test).collect()).to_string());
    let done = work.gabion(&["acvp", "prompt"]).fails(1);
    done.says("tcId 32 has no answer").says("2 tests without an answer");
    // A projection holds the message, the key and the signature together.
    let mut projection = prompt(vec![test(0)]);
    projection["testGroups"][0]["publicKey"] = public.clone();
    let signature = &answers["testGroups"][0]["tests"][0]["signature"];
    projection["testGroups"][0]["tests"][0]["signature"] = signature.clone();
    work.write("file", projection.to_string());
    work.gabion(&["acvp", "file"]).ok().says("1 of 1 right");
    projection["testGroups"][0]["tests"][0]["message"] = json!("0001");
    work.write("file", projection.to_string());
    assert_eq!(work.gabion(&["acvp", "file"]).says("0 of 1 right").code, Some(1));
}

/// The parts of an LMS key or signature have to fit the named parameter sets.
#[test]
fn lms_files_that_are_not_as_they_should_be_are_refused() {
    let work = Work::new();
    let keygen = |name: &str, value: &str| {
        let mut test = json!({ "tcId": 1, "lmsMode": "LMS_SHAKE_M24_H5",
            "lmOtsMode": "LMOTS_SHAKE_N24_W1", "seed": "07".repeat(24), "i": "09".repeat(16) });
        test[name] = json!(value);
        let file = json!({ "algorithm": "LMS", "mode": "keyGen", "revision": "1.0",
            "testGroups": [{ "tgId": 1, "tests": [test] }] });
        work.write("file", file.to_string());
        work.gabion(&["acvp", "file"])
    };
    keygen("seed", &"08".repeat(24)).ok();
    for (name, value, word) in [
        ("seed", &*"07".repeat(32), "32 bytes; expected 24"),
        ("i", &*"09".repeat(15), "15 bytes; expected 16"),
        ("lmsMode", "LMS_SHA256_M24_H5", "different hash functions"),
        ("lmsMode", "LMS_SHAKE_M32_H5", "different hash functions"),
        ("lmsMode", "LMS_SHAKE_M24_H6", "unknown lmsMode"),
        ("lmOtsMode", "LMOTS_SHAKE_N24_W3", "unknown lmOtsMode"),
    ] {
        keygen(name, value).fails(2).says(word);
    }
}

/// Some editors begin a text with a mark; files of vectors have been through many hands.
#[test]
fn a_file_with_a_byte_order_mark_is_read() {
    let work = Work::new();
    let marked = format!("\u{feff}{}", prompt());
    work.write("prompt", &marked);
    let answers = work.gabion(&["acvp", "prompt"]).ok().out;
    work.write("answers", ["\u{feff}".as_bytes(), &answers].concat());
    work.gabion(&["acvp", "prompt", "--check", "answers"]).ok().says("2 of 2 right");
}

/// If mu is given, mu is signed, for either interface of the group.
#[test]
fn a_given_mu_is_signed_and_a_missing_key_is_named() {
    let work = Work::new();
    let test = |test: Value| {
        let file = |interface: &str, test: &Value| {
            json!({ "algorithm": "ML-DSA", "mode": "sigGen", "revision": "FIPS204",
                "testGroups": [{ "tgId": 1, "parameterSet": "ML-DSA-44", "deterministic": true,
                    "signatureInterface": interface, "preHash": "pure", "externalMu": true,
                    "tests": [test] }] })
        };
        ["external", "internal"].map(|interface| {
            work.write("file", file(interface, &test).to_string());
            work.gabion(&["acvp", "file"])
        })
    };
    let signed = |mu: &str| {
        let given = json!({ "tcId": 1, "seed": "07".repeat(32), "message": "00", "mu": mu });
        test(given).map(|done| done.ok().json()["testGroups"][0]["tests"][0]["signature"].clone())
    };
    let (one, two) = (signed(&"01".repeat(64)), signed(&"02".repeat(64)));
    assert_eq!((&one[0], &two[0]), (&one[1], &two[1]), "by either interface");
    assert_ne!(one[0], two[0], "mu is signed");
    for done in test(json!({ "tcId": 1, "seed": "07".repeat(32), "message": "00" })) {
        done.fails(2).says("no field `mu`");
    }
    for done in test(json!({ "tcId": 1, "mu": "01".repeat(64) })) {
        done.fails(2).says("no field `sk`; expected bytes in hexadecimal, or a `seed`");
    }
}

/// A field of another type, or with an unknown value, is an error: if it were treated as missing,
/// the answer would be for another question.
#[test]
fn a_field_of_another_type_is_not_taken_for_a_missing_one() {
    let work = Work::new();
    let sets = [("ML-DSA", "FIPS204", "ML-DSA-44"), ("SLH-DSA", "FIPS205", "SLH-DSA-SHAKE-128f")];
    for (algorithm, revision, parameter_set) in sets {
        let seeds = if algorithm == "ML-DSA" { 32 } else { 16 };
        // A separate key, so that only the field in question is rejected.
        let mut keygen = json!({ "algorithm": algorithm, "mode": "keyGen", "revision": revision,
            "testGroups": [{ "tgId": 1, "parameterSet": parameter_set, "tests": [{ "tcId": 1 }] }] });
        for name in ["seed", "skSeed", "skPrf", "pkSeed"] {
            first_test(&mut keygen)[name] = json!("07".repeat(seeds));
        }
        work.write("keygen", keygen.to_string());
        let keys = work.gabion(&["acvp", "keygen"]).ok().json();
        let file = |name: &str, value: Value| {
            let mut file = json!({ "algorithm": algorithm, "mode": "sigGen", "revision": revision,
                "testGroups": [{ "tgId": 1, "parameterSet": parameter_set, "deterministic": true,
                    "signatureInterface": "external", "preHash": "pure", "tests": [{ "tcId": 1,
                        "sk": keys["testGroups"][0]["tests"][0]["sk"], "message": "00" }] }] });
            first_test(&mut file)[name] = value;
            work.write("file", file.to_string());
            work.gabion(&["acvp", "file"])
        };
        file("context", json!("01")).ok();
        file("context", json!(null)).ok();
        for (name, value, word) in [
            ("context", json!(7), "field `context` is a number; expected bytes in hexadecimal"),
            ("context", json!(["01"]), "field `context` is an array; expected bytes"),
            ("message", json!(false), "field `message` is a truth value; expected bytes"),
            ("deterministic", json!("false"), "expected true or false"),
            ("parameterSet", json!(44), "field `parameterSet` is a number; expected a text"),
            ("parameterSet", json!("Ed25519"), "`Ed25519` is not of this file"),
            ("signatureInterface", json!("both"), "expected"),
            ("signatureInterface", json!(1), "expected a text"),
            ("preHash", json!("hash"), "expected pure or preHash"),
        ] {
            let done = file(name, value).fails(2).says(word);
            assert!(done.out.is_empty(), "{algorithm} {name}");
        }
    }
}
