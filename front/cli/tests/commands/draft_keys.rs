//! Keys of Falcon, X-Wing and composite signatures in files, and what has no files.

#![allow(clippy::unwrap_used, missing_docs)]

use crate::harness::{Work, vectors};

const NOTE: &str =
    "is not standardized; its keys and signatures may not be compatible with the final standard";

#[test]
fn falcon_keys_are_those_of_open_quantum_safe() {
    let work = Work::new();
    work.write("message", b"a message");
    for (algorithm, private, public) in [
        ("Falcon-512", 1281, 897),
        ("Falcon-padded-512", 1281, 897),
        ("Falcon-1024", 2305, 1793),
        ("Falcon-padded-1024", 2305, 1793),
    ] {
        let make = ["keygen", algorithm, "--der", "--force", "--out", "key", "--pub", "pub"];
        work.gabion(&make).ok().says(NOTE);
        work.gabion(&["sign", "--force", "--key", "key", "--out", "sig", "message"])
            .ok()
            .says(NOTE);
        for key in ["pub", "key"] {
            work.gabion(&["verify", "--key", key, "--sig", "sig", "message"]).ok();
            work.gabion_fed(&["verify", "--key", key, "--sig", "sig"], b"another").fails(1);
        }
        // An OCTET STRING in the OCTET STRING, private key and then public key.
        let (key, alone) = (work.read("key"), work.read("pub"));
        let both = &key[key.len() - private - public - 4..];
        let len = ((private + public) as u16).to_be_bytes();
        assert_eq!(both[..4], [0x04, 0x82, len[0], len[1]], "{algorithm}");
        assert_eq!(both[4 + private..], alone[alone.len() - public..]);
        let mut other = key.clone();
        *other.last_mut().unwrap() ^= 1;
        work.write("other", &other);
        work.gabion(&["sign", "--force", "--key", "other", "message"])
            .fails(2)
            .says("does not belong to it");
    }
    work.gabion(&["sign", "--force", "--key", "key", "--context", "00", "message"])
        .fails(2)
        .says("sign with a context");
}

/// draft-connolly-cfrg-xwing-kem-10, appendix D: the private key, and how its public key begins
/// and ends.
#[test]
fn the_x_wing_example_of_the_draft_is_read() {
    let work = Work::new();
    let private = "-----BEGIN PRIVATE KEY-----\n\
                   MDQCAQAwDQYLKwYBBAGD5i2ByHoEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZ\n\
                   GhscHR4f\n\
                   -----END PRIVATE KEY-----\n";
    work.write("key", private);
    let encaps = ["encaps", "--force", "--key", "key", "--out", "ct", "--secret", "sent"];
    work.gabion(&encaps).ok().says(NOTE);
    work.gabion(&["decaps", "--force", "--key", "key", "--secret", "got", "ct"]).ok();
    assert_eq!(work.read("sent"), work.read("got"));
    work.gabion(&["keygen", "X-Wing", "--out", "made", "--pub", "pub"]).ok().says(NOTE);
    work.gabion(&["keygen", "X-Wing", "--out", "seed", "--format", "seed"]).ok();
    assert_eq!(work.read("seed").len(), private.len());
    let head = |text: &str, chars: usize| text.lines().nth(1).unwrap()[..chars].to_owned();
    let text = |name: &str| String::from_utf8(work.read(name)).unwrap();
    assert_eq!(text("made").len(), private.len());
    assert_eq!(head(&text("made"), 24), head(private, 24));
    assert_eq!(head(&text("pub"), 28), "MIIE1DANBgsrBgEEAYPmLYHIegOC");
    work.gabion(&["encaps", "--force", "--key", "pub", "--out", "ct", "--secret", "sent"]).ok();
    work.gabion(&["decaps", "--force", "--key", "made", "--secret", "got", "ct"]).ok();
    assert_eq!(work.read("sent"), work.read("got"));
    // A ciphertext of another key gives another secret and no error.
    work.gabion(&["decaps", "--force", "--key", "key", "--secret", "other", "ct"]).ok();
    assert_ne!(work.read("other"), work.read("sent"));
}

#[test]
fn composites_sign_and_verify() {
    let work = Work::new();
    work.write("message", b"a message");
    for algorithm in [
        "MLDSA44-Ed25519-SHA512-draft19",
        "MLDSA44-ECDSA-P256-SHA256-draft19",
        "MLDSA87-ECDSA-P521-SHA512-draft19",
        "id-MLDSA44-RSA2048-PSS-SHA256",
    ] {
        let make = ["keygen", algorithm, "--force", "--out", "key", "--pub", "pub"];
        work.gabion(&make).ok().says(NOTE);
        let context = ["--context", "00ff"];
        let sign = ["sign", "--force", "--key", "key", "--out", "sig", "message"];
        work.gabion(&[&sign[..], &context].concat()).ok().says(NOTE);
        let verify = ["verify", "--key", "pub", "--sig", "sig", "message"];
        work.gabion(&[&verify[..], &context].concat()).ok();
        work.gabion(&verify).fails(1);
        work.gabion(&[&sign[..], &["--prehash", "SHA3-512"]].concat()).fails(2).says("digest");
        // A digest by its own hash is signed as the message is.
        let own = if algorithm.ends_with("SHA256") || algorithm.contains("SHA256-") {
            "SHA2-256"
        } else {
            "SHA2-512"
        };
        work.gabion(&[&sign[..], &context, &["--prehash", own]].concat()).ok().says(NOTE);
        work.gabion(&[&verify[..], &context].concat()).ok();
    }
    work.gabion(&["keygen", "id-MLDSA87-Ed448-SHAKE256", "--out", "other"])
        .fails(2)
        .says("because Ed448 is not");
}

/// Certificates of Bouncy Castle are signed by the key that they hold: the signature over the
/// to-be-signed part verifies with it, and so does one that its private key makes here.
#[test]
fn bouncy_castles_certificates_verify() {
    let Some(folder) = vectors("pqc-certificates/bc") else { return };
    let work = Work::new();
    let (mut composites, mut falcon) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_composite =
            name.starts_with("MLDSA") && !name.contains("pool") && !name.contains("448");
        let is_falcon = name.starts_with("falcon");
        if !name.ends_with("_ta.der") || !(is_composite || is_falcon) {
            continue;
        }
        let certificate = std::fs::read(&path).unwrap();
        let (signed, signature) = parts(&certificate);
        work.write("tbs", signed);
        work.write("sig", signature);
        let path = path.to_str().unwrap();
        work.gabion(&["verify", "--key", path, "--sig", "sig", "tbs"]).ok().says(NOTE);
        work.write("tbs2", [signed, &[0]].concat());
        work.gabion(&["verify", "--key", path, "--sig", "sig", "tbs2"]).fails(1);
        let private = path.replace("_ta.der", "_priv.der");
        if is_falcon {
            // Its private keys have a form of their own.
            work.gabion(&["sign", "--force", "--key", &private, "tbs"])
                .fails(2)
                .says("private key");
            falcon += 1;
            continue;
        }
        work.gabion(&["sign", "--force", "--key", &private, "--out", "ours", "tbs"]).ok();
        work.gabion(&["verify", "--key", path, "--sig", "ours", "tbs"]).ok();
        composites += 1;
    }
    assert_eq!((composites, falcon), (15, 2));
}

/// The to-be-signed part of a certificate, and its signature.
fn parts(certificate: &[u8]) -> (&[u8], &[u8]) {
    /// Splits off one element: head length, all of it, the rest.
    fn element(der: &[u8]) -> (usize, &[u8], &[u8]) {
        let (head, len) = match der[1] {
            0x82 => (4, usize::from(u16::from_be_bytes([der[2], der[3]]))),
            0x81 => (3, usize::from(der[2])),
            len => (2, usize::from(len)),
        };
        let (this, rest) = der.split_at(head + len);
        (head, this, rest)
    }
    let (head, all, _) = element(certificate);
    let (_, signed, rest) = element(&all[head..]);
    let (_, _, rest) = element(rest);
    let (head, signature, _) = element(rest);
    // The first byte of a BIT STRING counts unused bits.
    (signed, &signature[head + 1..])
}
