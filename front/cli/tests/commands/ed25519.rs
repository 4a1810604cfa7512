//! Ed25519 keys in files (RFC 8410), and OpenSSL on the other side.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use crate::harness::{Work, bundle};

/// RFC 8410, section 10.3: a private key alone, and with its public key in the same file.
const RFC_8410: [&str; 2] = [
    "-----BEGIN PRIVATE KEY-----\n\
     MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
     -----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\n\
     MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
     oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB\n\
     Z9w7lshQhqowtrbLDFw4rXAxZuE=\n\
     -----END PRIVATE KEY-----\n",
];

/// The public key of both.
const RFC_8410_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
     MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
     -----END PUBLIC KEY-----\n";

#[test]
fn keys_of_rfc_8410_are_read() {
    let work = Work::new();
    work.write("message", b"a message");
    work.write("pub", RFC_8410_PUBLIC);
    for key in RFC_8410 {
        work.write("key", key);
        work.gabion(&["sign", "--force", "--key", "key", "--out", "sig", "message"]).ok();
        assert_eq!(work.read("sig").len(), 64);
        for key in ["pub", "key"] {
            work.gabion(&["verify", "--key", key, "--sig", "sig", "message"]).ok();
            work.gabion_fed(&["verify", "--key", key, "--sig", "sig"], b"another").fails(1);
        }
    }
}

#[test]
fn every_form_is_the_one_of_rfc_8410() {
    let work = Work::new();
    for format in ["seed", "expanded", "both"] {
        let make = ["keygen", "Ed25519", "--out", "key", "--pub", "pub", "--force", "--der"];
        work.gabion(&[&make[..], &["--format", format]].concat()).ok();
        let key = work.read("key");
        let start = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
        assert_eq!((key.len(), &key[..16]), (48, &start[..]), "{format}");
        assert_eq!(work.read("pub").len(), 44);
    }
    work.gabion(&["keygen", "Ed25519-ZIP215", "--out", "other"]).fails(2).says("file format");
}

#[test]
fn openssl_reads_and_verifies_what_we_write() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    work.write("message", b"a message");
    work.gabion(&["keygen", "Ed25519", "--out", "key", "--pub", "pub"]).ok();
    work.gabion(&["sign", "--force", "--key", "key", "--out", "sig", "message"]).ok();
    let verify = ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "pub", "-in", "message"];
    work.openssl(&[&verify[..], &["-sigfile", "sig"]].concat()).ok();
    let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", "key", "-in", "message", "-out", "theirs"];
    work.openssl(&sign).ok();
    assert_eq!(work.read("theirs"), work.read("sig"));
    work.openssl(&["genpkey", "-algorithm", "ed25519", "-out", "made"]).ok();
    work.gabion(&["sign", "--force", "--key", "made", "--out", "sig", "message"]).ok();
    work.gabion(&["verify", "--key", "made", "--sig", "sig", "message"]).ok();
}
