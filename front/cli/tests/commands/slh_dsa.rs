//! SLH-DSA on the command line: files that OpenSSL reads, the examples of RFC 9909, NIST's files.

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{Read, Write};
use std::path::Path;

use crate::harness::{Work, bundle, runs_long_checks, vectors};
use serde_json::{Value, json};

/// One set for each family of hash functions; these sign in milliseconds.
const QUICK: [&str; 2] = ["SLH-DSA-SHA2-128f", "SLH-DSA-SHAKE-128f"];

/// Every quick set, and a small one, which OpenSSL takes seconds to sign with.
const COMPARED: [&str; 7] = [
    "SLH-DSA-SHA2-128f",
    "SLH-DSA-SHA2-192f",
    "SLH-DSA-SHA2-256f",
    "SLH-DSA-SHAKE-128f",
    "SLH-DSA-SHAKE-192f",
    "SLH-DSA-SHAKE-256f",
    "SLH-DSA-SHA2-128s",
];

#[test]
fn keys_are_the_four_parts_as_they_are() {
    let work = Work::new();
    for algorithm in QUICK {
        let keygen = ["keygen", algorithm, "--pub", "pub", "--force", "--der", "--out", "key"];
        work.gabion(&keygen).ok();
        let (key, public) = (work.read("key"), work.read("pub"));
        // RFC 9909: the OCTET STRING holds 4n bytes, the last 2n of which are the public key.
        assert_eq!(key.len(), 20 + 64);
        assert_eq!(key[18..20], [0x04, 64]);
        assert_eq!(key[key.len() - 32..], public[public.len() - 32..]);
        work.gabion(&[&keygen[..], &["--format", "expanded"]].concat()).ok();
        let seed = [&keygen[..], &["--format", "seed"]].concat();
        work.gabion(&seed).fails(2).says("no seed form");
        // A private key with another root is refused.
        let mut other = key.clone();
        *other.last_mut().unwrap() ^= 1;
        work.write("other", &other);
        work.write("message", b"m");
        work.gabion(&["sign", "--force", "--key", "other", "message"]).fails(2).says("private key");
        let mut long = key;
        long.insert(20, 0);
        (long[1], long[19]) = (long[1] + 1, long[19] + 1);
        work.write("long", &long);
        work.gabion(&["sign", "--force", "--key", "long", "message"])
            .fails(2)
            .says("65 bytes; expected 64");
    }
}

#[test]
fn openssl_interoperability() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    work.write("message", b"a message");
    for algorithm in COMPARED {
        work.gabion(&["keygen", algorithm, "--out", "key", "--pub", "pub", "--force"]).ok();
        assert_eq!(work.openssl(&["pkey", "-in", "key"]).ok().out, work.read("key"));
        assert_eq!(work.openssl(&["pkey", "-in", "key", "-pubout"]).ok().out, work.read("pub"));
        work.openssl(&["genpkey", "-algorithm", algorithm, "-out", "theirs"]).ok();
        for (ours, theirs) in [
            (&[][..], &[][..]),
            (&["--context", "00ff10"], &["-pkeyopt", "hexcontext-string:00ff10"]),
        ] {
            work.gabion(
                &[&["sign", "--force", "--key", "key", "--out", "sig", "message"], ours].concat(),
            )
            .ok();
            let verify = ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "pub", "-in"];
            work.openssl(&[&verify[..], &["message", "-sigfile", "sig"], theirs].concat()).ok();
            let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", "theirs", "-in", "message", "-out"];
            work.openssl(&[&sign[..], &["sig"], theirs].concat()).ok();
            let verify = ["verify", "--key", "theirs", "--sig", "sig", "message"];
            work.gabion(&[&verify[..], ours].concat()).ok();
            work.write("message2", b"another");
            let verify = ["verify", "--key", "theirs", "--sig", "sig", "message2"];
            work.gabion(&[&verify[..], ours].concat()).fails(1);
        }
        let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", "key", "-in", "message", "-out", "sig"];
        work.openssl(&[&sign[..], &["-pkeyopt", "deterministic:1"]].concat()).ok();
        let ours = work
            .gabion(&["sign", "--force", "--key", "key", "--deterministic", "message"])
            .ok()
            .out;
        assert_eq!(ours, work.read("sig"), "{algorithm}");
    }
}

#[test]
fn prehash_and_context_reach_the_signature() {
    let work = Work::new();
    work.write("message", b"a message");
    work.gabion(&["keygen", QUICK[0], "--out", "key", "--pub", "pub"]).ok();
    let hashed = ["--prehash", "shake128", "--context", "01"];
    work.gabion(
        &[&["sign", "--force", "--key", "key", "--out", "sig", "message"], &hashed[..]].concat(),
    )
    .ok();
    let verify = ["verify", "--key", "pub", "--sig", "sig", "message"];
    work.gabion(&[&verify[..], &hashed].concat()).ok();
    for other in [&[][..], &["--prehash", "shake128"], &["--prehash", "sha512", "--context", "01"]]
    {
        work.gabion(&[&verify[..], other].concat()).fails(1);
    }
}

#[test]
fn the_examples_of_rfc_9909_are_read() {
    let Some(folder) = vectors("lamps/slh-dsa") else { return };
    let work = Work::new();
    work.write("message", b"m");
    for end in ["priv", "pub", "pem"] {
        let from = folder.join(format!("id-slh-dsa-sha2-128s.{end}"));
        work.write(end, std::fs::read(from).unwrap());
    }
    work.gabion(&["sign", "--force", "--key", "priv", "--out", "sig", "message"]).ok();
    for key in ["pub", "pem", "priv"] {
        work.gabion(&["verify", "--key", key, "--sig", "sig", "message"]).ok();
    }
}

/// A JSON file, plain or packed.
fn load(folder: &Path, name: &str) -> Value {
    let plain = folder.join(format!("{name}.json"));
    let mut text = Vec::new();
    if plain.exists() {
        text = std::fs::read(plain).unwrap();
    } else {
        let packed = std::fs::File::open(folder.join(format!("{name}.json.xz"))).unwrap();
        lzma_rust2::XzReader::new(packed, true).read_to_end(&mut text).unwrap();
    }
    serde_json::from_slice(&text).unwrap()
}

/// Adds a line to the file of the long counts: how many of a file's tests were right.
fn tally(name: &str, tests: usize) {
    let Some(path) = std::env::var_os("GABION_SOAK_TALLY") else { return };
    let line = json!({ "algorithm": name, "against": "NIST's answers", "operations": tests });
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    writeln!(file.unwrap(), "{line}").unwrap();
}

/// NIST's files: every verification and two keys of each set. `GABION_TEST_ALL` adds the first signature of each group
/// of the fast sets (`tests/tests/vectors` has those of the engine), and `GABION_SOAK` runs everything.
#[test]
fn the_files_of_nist_are_right() {
    let is_whole = std::env::var_os("GABION_SOAK").is_some();
    let Some(root) = vectors("acvp") else {
        assert!(!is_whole, "the files are not there, so nothing would have been compared");
        return;
    };
    let work = Work::new();
    for (name, limit) in [
        ("SLH-DSA-keyGen-FIPS205", 2),
        ("SLH-DSA-sigGen-FIPS205", 1),
        ("SLH-DSA-sigVer-FIPS205", usize::MAX),
    ] {
        if name.contains("sigGen")
            && !is_whole
            && !runs_long_checks("signatures of SLH-DSA's files by the command")
        {
            continue;
        }
        let folder = root.join(name);
        let (mut prompt, mut expected) =
            (load(&folder, "prompt"), load(&folder, "expectedResults"));
        if !is_whole {
            let signs = name.contains("sigGen");
            let is_kept = |group: &Value| {
                let set = group["parameterSet"].as_str().unwrap();
                !signs || set.ends_with('f')
            };
            let kept: Vec<Value> = prompt["testGroups"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|group| is_kept(group))
                .map(|group| group["tgId"].clone())
                .collect();
            for file in [&mut prompt, &mut expected] {
                let groups = file["testGroups"].as_array_mut().unwrap();
                groups.retain(|group| kept.contains(&group["tgId"]));
                for group in groups {
                    group["tests"].as_array_mut().unwrap().truncate(limit);
                }
            }
        }
        work.write("prompt", prompt.to_string());
        work.write("expected", expected.to_string());
        let groups = expected["testGroups"].as_array().unwrap();
        let all: usize = groups.iter().map(|group| group["tests"].as_array().unwrap().len()).sum();
        assert!(all >= groups.len() && groups.len() >= 12, "{name}");
        let done = work.gabion(&["acvp", "prompt", "--check", "expected"]).ok();
        assert!(done.err.contains(&format!("{all} of {all} right")), "{name}: {}", done.err);
        tally(name, all);
        // A changed answer is noticed.
        let test = &mut expected["testGroups"][0]["tests"][0];
        let field = ["sk", "signature"].into_iter().find(|name| test[*name].is_string());
        match field {
            Some(field) => test[field] = json!("00"),
            None => test["testPassed"] = json!(!test["testPassed"].as_bool().unwrap()),
        }
        work.write("spoilt", expected.to_string());
        let done = work.gabion(&["acvp", "prompt", "--check", "spoilt"]);
        assert_eq!(done.code, Some(1), "{name}");
        assert!(done.err.contains(&format!("{} of {all} right", all - 1)), "{name}: {}", done.err);
    }
}
