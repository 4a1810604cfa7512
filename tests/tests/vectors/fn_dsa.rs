//! Falcon of round 3 by other people's keys and signatures: those of the submission (as BouncyCastle
//! keeps them), PQClean's, and BouncyCastle's certificates.
//!
//! The submission's own format is `length (2) | nonce (40) | message | 0x20 + log2 n | s2`; the
//! signature that stands for is `0x30 + log2 n | nonce | s2`, without padding.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::HashMap;

use gabion_scheme::fn_dsa::{self, Params, SigningKey, VerifyKey};
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, Status};
use gabion_tests::der::{Certificate, certificate};
use gabion_tests::vectors::{self, unhex};

fn params(algorithm: Algorithm) -> &'static Params {
    fn_dsa::params(algorithm).unwrap()
}

/// Returns the set with padding, and the other degree.
fn endings(params_of: &'static Params) -> (&'static Params, &'static Params) {
    match params_of.log_n {
        9 => (params(Algorithm::FalconPadded512), params(Algorithm::Falcon1024)),
        _ => (params(Algorithm::FalconPadded1024), params(Algorithm::Falcon512)),
    }
}

/// Checks one signature of another implementation: it verifies, and modifications of it do not.
fn check(stripped: &'static Params, public: &[u8], message: &[u8], signature: &[u8]) {
    let (padded, other) = endings(stripped);
    let key = VerifyKey::decode(stripped, public).unwrap();
    let text = |message| Message::Pure { context: b"", message };
    let verdict = |message, signature: &[u8]| fn_dsa::verify(&key, &text(message), signature);
    assert_eq!(verdict(message, signature), Status::Ok);
    let long = fn_dsa::pad(padded, signature).unwrap();
    let padded_key = VerifyKey::decode(padded, public).unwrap();
    assert_eq!(fn_dsa::verify(&padded_key, &text(message), &long), Status::Ok);
    assert_eq!(fn_dsa::strip(&long), signature);

    let refused = Status::InvalidSignature;
    let mut another = message.to_vec();
    another.push(0);
    assert_eq!(verdict(&another, signature), refused);
    for place in [0, 1, 40, 41, signature.len() / 2, signature.len() - 1] {
        let mut bad = signature.to_vec();
        bad[place] ^= 0x20;
        assert_eq!(verdict(message, &bad), refused, "byte {place}");
    }
    assert_eq!(verdict(message, &signature[..signature.len() - 1]), refused);
    assert_eq!(verdict(message, &long), refused);
    assert!(VerifyKey::decode(other, public).is_err());
}

/// The parts of a signed message in the submission's format.
fn open(log_n: u32, signed: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let len = usize::from(u16::from_be_bytes([signed[0], signed[1]]));
    let (nonce, rest) = signed[2..].split_at(40);
    let (message, s2) = rest.split_at(rest.len() - len);
    assert_eq!(s2[0], 0x20 + log_n as u8);
    let mut signature = vec![0x30 + log_n as u8];
    signature.extend_from_slice(nonce);
    signature.extend_from_slice(&s2[1..]);
    (message.to_vec(), signature)
}

/// The records of a `name = value` file, each of which begins with `count`.
fn records(text: &str) -> Vec<HashMap<String, String>> {
    let mut records: Vec<HashMap<String, String>> = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(" = ") else { continue };
        if name == "count" {
            records.push(HashMap::new());
        }
        records.last_mut().unwrap().insert(name.to_owned(), value.trim().to_owned());
    }
    records
}

/// Checks every record of a file: the public key verifies, the private key is taken, has that public
/// key and signs for it.
fn check_file(path: &str, algorithm: Algorithm, at_least: usize) {
    let Some(bytes) = vectors::bytes(path) else { return };
    let stripped = params(algorithm);
    let records = records(std::str::from_utf8(&bytes).unwrap());
    assert!(records.len() >= at_least, "{path} has {} records", records.len());
    for record in &records {
        let field = |name: &str| unhex(&record[name]);
        let (message, signature) = open(stripped.log_n, &field("sm"));
        assert_eq!(message, field("msg"));
        check(stripped, &field("pk"), &message, &signature);
        let key = SigningKey::decode(stripped, &field("sk")).unwrap();
        assert_eq!(key.verify_key().bytes(), field("pk"));
        let text = Message::Pure { context: b"", message: &message };
        let mut ours = vec![0; stripped.sig_len_max()];
        assert_eq!(fn_dsa::sign(&key, &text, &[1; 40], &mut ours), Status::Ok);
        ours.truncate(fn_dsa::made_len(stripped, &ours));
        assert_eq!(fn_dsa::verify(key.verify_key(), &text, &ours), Status::Ok);
    }
}

#[test]
fn the_submissions_answers_verify() {
    check_file("bc-test-data/falcon/falcon512-KAT.rsp", Algorithm::Falcon512, 70);
    check_file("bc-test-data/falcon/falcon1024-KAT.rsp", Algorithm::Falcon1024, 70);
}

#[test]
fn pqcleans_answers_verify() {
    check_file("pqclean/falcon-512/nistkat.txt", Algorithm::Falcon512, 1);
    check_file("pqclean/falcon-1024/nistkat.txt", Algorithm::Falcon1024, 1);
}

/// Lines of hexadecimal digits: public key, private key, signed message, signature, again and again.
#[test]
fn pqcleans_signatures_verify() {
    let Some(bytes) = vectors::bytes("pqclean/falcon-512/testvectors.txt") else { return };
    let stripped = params(Algorithm::Falcon512);
    let lines: Vec<Vec<u8>> = std::str::from_utf8(&bytes).unwrap().lines().map(unhex).collect();
    let rounds = lines.chunks_exact(4);
    assert!(rounds.len() >= 7 && rounds.remainder().is_empty());
    for round in rounds {
        let [public, private, signed, signature] = round else { unreachable!() };
        let (message, opened) = open(9, signed);
        check(stripped, public, &message, &opened);
        check(stripped, public, &message, signature);
        let key = SigningKey::decode(stripped, private).unwrap();
        assert_eq!(key.verify_key().bytes(), public);
    }
}

#[test]
fn bouncycastles_certificates_verify() {
    for (name, algorithm) in [
        ("falcon-512-1.3.9999.3.11_ta.der", Algorithm::Falcon512),
        ("falcon-1024-1.3.9999.3.14_ta.der", Algorithm::Falcon1024),
    ] {
        let Some(der) = vectors::bytes(&format!("pqc-certificates/bc/{name}")) else { return };
        let Certificate { signed, public, signature } = certificate(&der);
        check(params(algorithm), public, signed, signature);
    }
}

/// Holds without any files: a key and a signature of our own go through the same checks.
#[test]
fn our_own_signatures_pass_the_same_checks() {
    for algorithm in [Algorithm::Falcon512, Algorithm::Falcon1024] {
        let stripped = params(algorithm);
        let key = fn_dsa::generate(stripped, &[11; 32]).unwrap();
        let text = Message::Pure { context: b"", message: b"ours" };
        let mut signature = vec![0; stripped.sig_len_max()];
        assert_eq!(fn_dsa::sign(&key, &text, &[1; 40], &mut signature), Status::Ok);
        let signature = &signature[..fn_dsa::made_len(stripped, &signature)];
        check(stripped, key.verify_key().bytes(), b"ours", signature);
    }
}
