//! Keys as bytes with nothing round them, for every algorithm: whether a standard has files for it or not.

#![allow(clippy::unwrap_used, missing_docs)]

use std::os::unix::fs::PermissionsExt;

use crate::harness::{CommandResult, Work};
use gabion_engine::{Algorithm, Kind};

/// Makes a raw key pair in `name` and `name.pub`.
fn make(work: &Work, algorithm: &str, name: &str) {
    let public = format!("{name}.pub");
    let command = ["keygen", algorithm, "--format", "raw", "--out", name, "--pub", &public];
    work.gabion(&command).ok();
}

/// A command with the algorithm named.
fn named(work: &Work, algorithm: &str, command: &[&str]) -> CommandResult {
    work.gabion(&[command, &["--algorithm", algorithm]].concat())
}

fn use_pair(work: &Work, algorithm: Algorithm) {
    let run = |command: &[&str]| named(work, algorithm.name(), command);
    match algorithm.info().kind {
        Kind::Kem => {
            for public in ["key.pub", "key"] {
                run(&["encaps", "--force", "--key", public, "--out", "ct", "--secret", "sent"])
                    .ok();
                run(&["decaps", "--force", "--key", "key", "--secret", "got", "ct"]).ok();
                assert_eq!(work.read("sent"), work.read("got"), "{algorithm} {public}");
                assert_eq!(work.read("sent").len(), algorithm.info().shared_secret);
                // Of one length, they are taken for what the command needs.
                if algorithm.info().public_key.max() == algorithm.info().private_key.max() {
                    break;
                }
            }
        }
        Kind::Signature => {
            run(&["sign", "--force", "--key", "key", "--out", "sig", "message"]).ok();
            run(&["verify", "--key", "key.pub", "--sig", "sig", "message"]).ok();
            run(&["verify", "--key", "key.pub", "--sig", "sig", "other"]).fails(1);
            if algorithm.info().public_key.max() != algorithm.info().private_key.max() {
                run(&["verify", "--key", "key", "--sig", "sig", "message"]).ok();
            }
        }
        _ => {
            make(work, algorithm.name(), "peer");
            run(&["derive", "--force", "--key", "key", "--peer", "peer.pub", "--secret", "ours"])
                .ok();
            run(&["derive", "--force", "--key", "peer", "--peer", "key.pub", "--secret", "theirs"])
                .ok();
            assert_eq!(work.read("ours"), work.read("theirs"), "{algorithm}");
        }
    }
}

#[test]
fn every_algorithm_works_with_raw_keys() {
    for algorithm in Algorithm::all().filter(|algorithm| !algorithm.info().stateful) {
        let work = Work::new();
        work.write("message", b"a message");
        work.write("other", b"another message");
        make(&work, algorithm.name(), "key");
        let info = algorithm.info();
        let lengths = (work.read("key").len(), work.read("key.pub").len());
        if info.private_key.varies() {
            assert!(
                lengths.0 <= info.private_key.max() && lengths.1 == info.public_key.max(),
                "{algorithm}"
            );
        } else {
            assert_eq!(lengths, (info.private_key.max(), info.public_key.max()), "{algorithm}");
        }
        let mode = std::fs::metadata(work.path("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{algorithm}");
        use_pair(&work, algorithm);
    }
}

#[test]
fn an_algorithm_without_files_names_the_way() {
    let work = Work::new();
    let mut without = 0;
    for algorithm in Algorithm::all().filter(|algorithm| algorithm.info().oid.is_none()) {
        without += 1;
        let made = work.gabion(&["keygen", algorithm.name(), "--out", "key"]).fails(2);
        made.says("have no file format").says("--format raw").says(algorithm.name());
    }
    assert_eq!((without, work.names().len()), (10, 0));
}

#[test]
fn a_file_that_is_not_what_the_command_line_says_is_refused() {
    let work = Work::new();
    work.write("message", b"a message");
    let sign = |key: &str, more: &[&str]| {
        work.gabion(&[&["sign", "--force", "--key", key, "--out", "sig", "message"], more].concat())
    };
    // PEM and DER name their algorithm; naming the same one again is allowed.
    for (name, form) in [("pem", &[][..]), ("der", &["--der"])] {
        work.gabion(&[&["keygen", "ML-DSA-44", "--out", name], form].concat()).ok();
        sign(name, &["--algorithm", "ML-DSA-44"]).ok();
        let done = sign(name, &["--algorithm", "ML-DSA-65"]).fails(2);
        done.says("holds an ML-DSA-44 key")
            .says("--algorithm ML-DSA-65")
            .says("leave --algorithm out");
    }
    make(&work, "ML-DSA-44", "raw");
    sign("raw", &[]).fails(2).says("raw bytes need --algorithm");
    let done = sign("raw", &["--algorithm", "ML-DSA-65"]).fails(2);
    done.says("has 2560 bytes").says("the private key has 4032");
    let done = sign("raw.pub", &["--algorithm", "ML-DSA-44"]).fails(2);
    done.says("holds an ML-DSA-44 public key; signing needs the private key");
    sign("raw", &["--algorithm", "ML-KEM-768"])
        .fails(2)
        .says("signing needs the key of a signature");
    sign("raw", &["--algorithm", "no-such"]).fails(2).says("unknown algorithm `no-such`");
    sign("raw", &["--algorithm", "DILITHIUM2"]).fails(2).says("is not a key of ML-DSA-44");
    sign("raw", &["--algorithm", "ML-DSA-44", "--passin", "pass:x"])
        .fails(2)
        .says("leave --passin out");
    assert!(work.has("sig"), "the right ones signed");
    // Cut, and of the right length but no key.
    let cut = work.read("raw.pub")[1..].to_vec();
    work.write("cut", cut);
    let verify = ["verify", "--sig", "sig", "--algorithm", "ML-DSA-44", "message", "--key"];
    let done = work.gabion(&[&verify[..], &["cut"]].concat()).fails(2);
    done.says("cut has 1311 bytes").says("the public key has 1312, the private key 2560");
    work.write("bad", [0xff; 800]);
    let encaps = [
        "encaps",
        "--force",
        "--key",
        "bad",
        "--algorithm",
        "ML-KEM-512",
        "--out",
        "ct",
        "--secret",
        "s",
    ];
    work.gabion(&encaps).fails(2).says("bad: ");
    // Nothing lies round a raw key.
    let der = ["keygen", "ML-DSA-44", "--format", "raw", "--der", "--out", "none"];
    work.gabion(&der).fails(2).says("leave --der out");
    assert!(!work.has("none") && !work.has("ct"));
}

/// Bytes of one program are those of another: raw keys are what stands inside the files.
#[test]
fn raw_keys_equal_the_contents_of_key_files() {
    let work = Work::new();
    work.write("message", b"a message");
    work.gabion(&[
        "keygen",
        "ML-KEM-512",
        "--der",
        "--format",
        "expanded",
        "--out",
        "der",
        "--pub",
        "pub",
    ])
    .ok();
    let tail = |name: &str, len: usize| {
        let file = work.read(name);
        file[file.len() - len..].to_vec()
    };
    work.write("raw", tail("der", 1632));
    work.write("raw.pub", tail("pub", 800));
    work.gabion(&["encaps", "--force", "--key", "pub", "--out", "ct", "--secret", "sent"]).ok();
    named(&work, "ML-KEM-512", &["decaps", "--force", "--key", "raw", "--secret", "got", "ct"])
        .ok();
    assert_eq!(work.read("sent"), work.read("got"));
    named(
        &work,
        "ML-KEM-512",
        &["encaps", "--force", "--key", "raw.pub", "--out", "ct", "--secret", "sent"],
    )
    .ok();
    work.gabion(&["decaps", "--force", "--key", "der", "--secret", "got", "ct"]).ok();
    assert_eq!(work.read("sent"), work.read("got"));
    // A pair whose halves belong to two keys is refused, as in a file.
    make(&work, "ML-KEM-512", "other");
    let mixed = [&work.read("other")[..768], &work.read("raw")[768..]].concat();
    work.write("mixed", mixed);
    let decaps = ["decaps", "--force", "--key", "mixed", "--secret", "got", "ct"];
    named(&work, "ML-KEM-512", &decaps).fails(2).says("do not belong together");
}
