//! Keys of X25519, ECDH and ECDSA in files (RFC 5480, RFC 5915, RFC 8410), OpenSSL on the other side.

#![allow(clippy::unwrap_used, missing_docs)]

use crate::harness::{Work, bundle};

/// Algorithm, curve as openssl names it, bytes of a scalar.
const ECDSA: [(&str, &str, usize); 3] =
    [("ECDSA-P-256", "P-256", 32), ("ECDSA-P-384", "P-384", 48), ("ECDSA-P-521", "P-521", 66)];

/// Algorithm and the options with which openssl makes a key of it.
const EXCHANGES: [(&str, &[&str]); 4] = [
    ("X25519", &["-algorithm", "X25519"]),
    ("ECDH-P-256", &["-algorithm", "EC", "-pkeyopt", "group:P-256"]),
    ("ECDH-P-384", &["-algorithm", "EC", "-pkeyopt", "group:P-384"]),
    ("ECDH-P-521", &["-algorithm", "EC", "-pkeyopt", "group:P-521"]),
];

#[test]
fn signatures_verify_and_wrong_ones_do_not() {
    let work = Work::new();
    work.write("message", b"a message");
    for (algorithm, _, _) in ECDSA {
        for der in [&[][..], &["--der"]] {
            let make = ["keygen", algorithm, "--out", "key", "--pub", "pub", "--force"];
            work.gabion(&[&make[..], der].concat()).ok();
            work.gabion(&["sign", "--force", "--key", "key", "--out", "sig", "message"]).ok();
            for key in ["pub", "key"] {
                work.gabion(&["verify", "--key", key, "--sig", "sig", "message"]).ok();
                work.gabion_fed(&["verify", "--key", key, "--sig", "sig"], b"another").fails(1);
            }
        }
        let fixed = ["sign", "--force", "--key", "key", "--deterministic", "message"];
        assert_eq!(work.gabion(&fixed).ok().out, work.gabion(&fixed).ok().out);
        work.gabion(&["sign", "--force", "--key", "key", "--context", "00", "message"])
            .fails(2)
            .says("has no operation `sign with a context`");
        let digest = ["--prehash", "SHA3-256"];
        let sign = ["sign", "--force", "--key", "key", "--out", "sig", "message"];
        work.gabion(&[&sign[..], &digest].concat()).ok();
        let verify = ["verify", "--key", "pub", "--sig", "sig", "message"];
        work.gabion(&[&verify[..], &digest].concat()).ok();
        work.gabion(&verify).fails(1);
        work.gabion(&["keygen", algorithm, "--out", "other", "--force", "--format", "seed"])
            .fails(2)
            .says("no seed form");
        work.gabion(&["encaps", "--force", "--key", "pub", "--out", "a", "--secret", "b"])
            .fails(2)
            .says("encapsulating needs the key of a KEM");
    }
}

#[test]
fn derive_gives_both_peers_one_secret() {
    let work = Work::new();
    for (algorithm, _) in EXCHANGES {
        for name in ["a", "b"] {
            let public = format!("{name}.pub");
            work.gabion(&["keygen", algorithm, "--force", "--out", name, "--pub", &public]).ok();
        }
        work.gabion(&["derive", "--force", "--key", "a", "--peer", "b.pub", "--secret", "ab"]).ok();
        work.gabion(&["derive", "--force", "--key", "b", "--peer", "a", "--secret", "ba"]).ok();
        assert_eq!(work.read("ab"), work.read("ba"));
        let public = ["derive", "--force", "--key", "a.pub", "--peer", "b.pub", "--secret", "c"];
        work.gabion(&public).fails(2).says("needs the private key");
    }
    // The last keys are of P-521.
    work.gabion(&["keygen", "X25519", "--out", "x"]).ok();
    work.gabion(&["derive", "--force", "--key", "x", "--peer", "a.pub", "--secret", "c"])
        .fails(2)
        .says("both must have the same algorithm");
    work.gabion(&["keygen", "ML-KEM-512", "--out", "kem"]).ok();
    work.gabion(&["derive", "--force", "--key", "kem", "--peer", "a.pub", "--secret", "c"])
        .fails(2)
        .says("deriving needs the key of a key exchange");
    assert!(!work.has("c"));
}

#[test]
fn openssl_reads_our_keys_and_we_read_its() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    work.write("message", b"a message");
    let digests = ["sha256", "sha384", "sha512"];
    for ((algorithm, curve, len), digest) in ECDSA.into_iter().zip(digests) {
        work.gabion(&["keygen", algorithm, "--force", "--out", "key", "--pub", "pub"]).ok();
        // The files equal those that openssl writes, byte for byte.
        assert_eq!(work.openssl(&["pkey", "-in", "key"]).ok().out, work.read("key"));
        assert_eq!(work.openssl(&["pkey", "-in", "key", "-pubout"]).ok().out, work.read("pub"));
        work.openssl(&["pkey", "-in", "key", "-check", "-noout"]).ok();
        work.gabion(&["sign", "--force", "--key", "key", "--out", "sig", "message"]).ok();
        let verify = ["dgst", "-verify", "pub", "-signature", "sig"];
        work.openssl(&[&verify[..], &[&format!("-{digest}"), "message"]].concat()).ok();
        let group = format!("group:{curve}");
        let make = ["genpkey", "-algorithm", "EC", "-pkeyopt", &group, "-out", "theirs"];
        work.openssl(&make).ok();
        let sign = ["dgst", "-sign", "theirs", "-out", "sig", &format!("-{digest}"), "message"];
        work.openssl(&sign).ok();
        for hash in [&[][..], &["--prehash", digest]] {
            let verify = ["verify", "--key", "theirs", "--sig", "sig", "message"];
            work.gabion(&[&verify[..], hash].concat()).ok();
        }
        // The nonce of RFC 6979.
        let fixed = ["pkeyutl", "-sign", "-inkey", "theirs", "-rawin", "-in", "message"];
        let fixed = [&fixed[..], &["-digest", digest, "-pkeyopt", "nonce-type:1"]].concat();
        let fixed = work.openssl(&fixed).ok().out;
        let ours = work
            .gabion(&["sign", "--force", "--key", "theirs", "--deterministic", "message"])
            .ok()
            .out;
        assert_eq!(ours, fixed, "{algorithm}");
        // The ECPrivateKey alone, without the public key, and with the curve named twice.
        work.openssl(&["pkey", "-in", "theirs", "-pubout", "-out", "theirs.pub"]).ok();
        work.openssl(&["ec", "-in", "theirs", "-out", "alone"]).ok();
        work.openssl(&["ec", "-in", "theirs", "-no_public", "-outform", "DER", "-out", "bare"])
            .ok();
        let bare = work.read("bare");
        work.write("twice", wrapped(curve, &bare[bare.len() - len - tail(curve)..][..len]));
        for key in ["alone", "bare", "twice"] {
            work.gabion(&["sign", "--force", "--key", key, "--out", "sig", "message"]).ok();
            work.gabion(&["verify", "--key", "theirs.pub", "--sig", "sig", "message"]).ok();
        }
    }
    for (algorithm, make) in EXCHANGES {
        work.gabion(&["keygen", algorithm, "--force", "--out", "key", "--pub", "pub"]).ok();
        assert_eq!(work.openssl(&["pkey", "-in", "key"]).ok().out, work.read("key"));
        assert_eq!(work.openssl(&["pkey", "-in", "key", "-pubout"]).ok().out, work.read("pub"));
        work.openssl(&[&["genpkey", "-out", "theirs"], make].concat()).ok();
        work.openssl(&["pkey", "-in", "theirs", "-pubout", "-out", "theirs.pub"]).ok();
        work.gabion(&[
            "derive",
            "--force",
            "--key",
            "key",
            "--peer",
            "theirs.pub",
            "--secret",
            "ours",
        ])
        .ok();
        let derive = ["pkeyutl", "-derive", "-inkey", "theirs", "-peerkey", "pub", "-out", "s"];
        work.openssl(&derive).ok();
        assert_eq!(work.read("ours"), work.read("s"), "{algorithm}");
    }
}

/// Bytes behind the scalar of openssl's ECPrivateKey without a public key: the curve.
fn tail(curve: &str) -> usize {
    if curve == "P-256" { 12 } else { 9 }
}

/// PKCS#8 around an ECPrivateKey that names its curve again and holds no public key.
fn wrapped(curve: &str, scalar: &[u8]) -> Vec<u8> {
    let oid: &[u8] = match curve {
        "P-256" => &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
        "P-384" => &[6, 5, 0x2b, 0x81, 4, 0, 0x22],
        _ => &[6, 5, 0x2b, 0x81, 4, 0, 0x23],
    };
    let node = |tag: u8, parts: &[&[u8]]| {
        let body = parts.concat();
        let len = body.len() as u8;
        let head = if len < 128 { vec![tag, len] } else { vec![tag, 0x81, len] };
        [head, body].concat()
    };
    let inside = node(0x30, &[&[2, 1, 1], &node(4, &[scalar]), &node(0xa0, &[oid])]);
    let algorithm = node(0x30, &[&[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1], oid]);
    node(0x30, &[&[2, 1, 0], &algorithm, &node(4, &[&inside])])
}

#[test]
fn keys_that_are_wrong_are_refused_by_name() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let make = |group: &str| {
        let group = format!("group:{group}");
        work.openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", &group, "-out", "key"]).ok();
    };
    make("secp256k1");
    work.gabion(&["sign", "--force", "--key", "key"])
        .fails(2)
        .says("on another curve (1.3.132.0.10)");
    make("P-256");
    let explicit = ["pkey", "-in", "key", "-ec_param_enc", "explicit", "-out", "explicit"];
    work.openssl(&explicit).ok();
    work.gabion(&["sign", "--force", "--key", "explicit"])
        .fails(2)
        .says("without the name of its curve");
    work.openssl(&["genrsa", "-traditional", "-out", "rsa", "2048"]).ok();
    work.gabion(&["sign", "--force", "--key", "rsa"]).fails(2).says("openssl pkcs8 -topk8");
    let compressed = ["pkey", "-in", "key", "-pubout", "-ec_conv_form", "compressed", "-out", "c"];
    work.openssl(&compressed).ok();
    work.write("sig", b"");
    work.gabion(&["verify", "--key", "c", "--sig", "sig"]).fails(2).says("33 bytes; expected 65");
    // The public key inside belongs to another scalar.
    let topk8 = ["pkcs8", "-topk8", "-nocrypt", "-in", "key", "-outform", "DER", "-out", "der"];
    work.openssl(&topk8).ok();
    let mut der = work.read("der");
    *der.last_mut().unwrap() ^= 1;
    work.write("der", &der);
    work.gabion(&["sign", "--force", "--key", "der"]).fails(2).says("does not belong to it");
    // Scalars of zero and of all ones.
    for fill in [0, 0xff] {
        work.write("bad", wrapped("P-256", &[fill; 32]));
        work.gabion(&["sign", "--force", "--key", "bad"]).fails(2).says("not a scalar from 1");
    }
    work.write("bad", wrapped("P-256", &[1; 31]));
    work.gabion(&["sign", "--force", "--key", "bad"])
        .fails(2)
        .says("not an ECPrivateKey of its curve");
}
