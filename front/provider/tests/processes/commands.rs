//! The provider through the `openssl` command, against the default provider both ways. The counters
//! tell who did the work: OpenSSL goes on with another provider without a word.

use gabion_provider_testing::{BOTH_WAYS, KEMS, SIGNATURES, Side, TestFolder};

#[test]
fn openssl_list_shows_provider_and_algorithms() {
    let place = TestFolder::new();
    let providers = place.openssl(Side::Gabion, "list -providers");
    assert!(providers.contains("name: Gabion provider"), "{providers}");
    assert_eq!(providers.matches("status: active").count(), 2, "{providers}");
    let kems = place.openssl(Side::Gabion, "list -kem-algorithms -propquery provider=gabion");
    let signatures =
        place.openssl(Side::Gabion, "list -signature-algorithms -propquery provider=gabion");
    for name in KEMS {
        assert!(kems.contains(name), "{kems}");
    }
    for name in SIGNATURES {
        assert!(signatures.contains(name), "{signatures}");
    }
}

#[test]
fn keys_cross_in_every_form() {
    let place = TestFolder::new();
    for (maker, reader) in BOTH_WAYS {
        for name in KEMS.iter().chain(&SIGNATURES) {
            let set = if name.starts_with("ML-KEM") { "ml-kem" } else { "ml-dsa" };
            place.openssl(maker, &format!("genpkey -algorithm {name} -out key.pem"));
            place.openssl(maker, "pkey -in key.pem -pubout -out pub.pem");
            for form in ["seed-only", "priv-only", "seed-priv"] {
                let option = format!("-provparam {set}.output_formats={form}");
                place.openssl(reader, &format!("pkey -in key.pem -out form.pem {option}"));
                place.openssl(reader, "pkey -in form.pem -check -noout");
                place.openssl(reader, "pkey -in form.pem -pubout -out pub2.pem");
                assert_eq!(place.bytes("pub.pem"), place.bytes("pub2.pem"), "{name} {form}");
                use_key(&place, reader, name, "form.pem");
            }
        }
    }
    for name in KEMS {
        assert_eq!(place.count(name, "keygen"), (1, 0), "{name}");
        assert!(place.count(name, "decaps").0 >= 3, "{name}: {:?}", place.count(name, "decaps"));
    }
    for name in SIGNATURES {
        assert_eq!(place.count(name, "keygen"), (1, 0), "{name}");
        assert!(place.count(name, "sign").0 >= 3, "{name}: {:?}", place.count(name, "sign"));
    }
    assert!(place.stats().rows.iter().all(|row| row.errors == 0), "{:?}", place.stats());
}

/// Uses the private key on one side and its public key on the other.
fn use_key(place: &TestFolder, side: Side, name: &str, key: &str) {
    let other = if side == Side::Gabion { Side::Stock } else { Side::Gabion };
    std::fs::write(place.path("message"), format!("a message for {name}")).unwrap();
    if name.starts_with("ML-KEM") {
        place.openssl(other, "pkeyutl -encap -inkey pub.pem -pubin -secret s1 -out ct");
        place.openssl(side, &format!("pkeyutl -decap -inkey {key} -secret s2 -in ct"));
        assert_eq!(place.bytes("s1"), place.bytes("s2"));
        assert_eq!(place.bytes("s1").len(), 32);
    } else {
        place.openssl(side, &format!("pkeyutl -sign -rawin -inkey {key} -in message -out sig"));
        place.openssl(
            other,
            "pkeyutl -verify -rawin -pubin -inkey pub.pem -in message -sigfile sig",
        );
    }
}

#[test]
fn signatures_hold_their_context_and_digest_interface() {
    let place = TestFolder::new();
    std::fs::write(place.path("message"), vec![7; 100_000]).unwrap();
    for (signer, verifier) in BOTH_WAYS {
        for name in SIGNATURES {
            place.openssl(signer, &format!("genpkey -algorithm {name} -out key.pem"));
            place.openssl(signer, "pkey -in key.pem -pubout -out pub.pem");
            let sign = "pkeyutl -sign -rawin -inkey key.pem -in message -out sig -pkeyopt";
            let verify = "pkeyutl -verify -rawin -pubin -inkey pub.pem -in message -sigfile sig";
            place.openssl(signer, &format!("{sign} context-string:one"));
            place.openssl(verifier, &format!("{verify} -pkeyopt context-string:one"));
            place.openssl_refuses(verifier, &format!("{verify} -pkeyopt context-string:two"));
            place.openssl_refuses(verifier, verify);

            // Deterministic signing gives what the other provider gives.
            place.openssl(signer, &format!("{sign} deterministic:1"));
            let ours = place.bytes("sig");
            place.openssl(verifier, &format!("{sign} deterministic:1"));
            assert_eq!(ours, place.bytes("sig"), "{name}");

            // The digest interface, which is what certificates and `dgst` use.
            place.openssl(signer, "dgst -sign key.pem -out sig message");
            place.openssl(verifier, "dgst -verify pub.pem -signature sig message");
            std::fs::write(place.path("other"), b"another message").unwrap();
            place.openssl_refuses(verifier, "dgst -verify pub.pem -signature sig other");
            place.openssl_refuses(Side::Gabion, "dgst -sha256 -sign key.pem -out sig message");
        }
    }
    for name in SIGNATURES {
        assert!(place.count(name, "sign").0 >= 4, "{name}");
        assert!(place.count(name, "verify").0 >= 5, "{name}");
        // That a signature does not verify is no error.
        assert_eq!(place.count(name, "verify").1, 0, "{name}");
    }
}

#[test]
fn certificates_are_signed_and_verified() {
    let place = TestFolder::new();
    std::fs::write(place.path("leaf.ext"), "basicConstraints = CA:FALSE\n").unwrap();
    for (issuer, verifier) in BOTH_WAYS {
        for name in SIGNATURES {
            place.openssl(issuer, &format!("genpkey -algorithm {name} -out ca.key"));
            place.openssl(issuer, "req -x509 -new -key ca.key -subj /CN=ca -days 2 -out ca.pem");
            place.openssl(verifier, &format!("genpkey -algorithm {name} -out leaf.key"));
            place.openssl(verifier, "req -new -key leaf.key -subj /CN=leaf -out leaf.csr");
            let text = place.openssl(issuer, "req -in leaf.csr -verify -noout -text");
            assert!(text.contains(&format!("Signature Algorithm: {name}")), "{text}");
            place.openssl(
                issuer,
                "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -days 2 -extfile leaf.ext -out leaf.pem",
            );
            place.openssl(verifier, "verify -CAfile ca.pem leaf.pem");
            // Here the key that signs never was a file: it is the issuer's own all the way.
            let words = format!("req -x509 -newkey {name} -noenc -keyout new.key -out new.pem");
            place.openssl(issuer, &format!("{words} -subj /CN=new -days 2"));
            place.openssl(verifier, "verify -CAfile new.pem new.pem");
            let text = place.openssl(verifier, "x509 -in leaf.pem -noout -text");
            assert_eq!(text.matches(&format!("Algorithm: {name}")).count(), 3, "{text}");
        }
    }
    for name in SIGNATURES {
        for operation in ["keygen", "sign", "verify"] {
            let (calls, errors) = place.count(name, operation);
            assert!(calls >= 2 && errors == 0, "{name} {operation}: {calls} {errors}");
        }
    }
}

#[test]
fn a_wrong_ciphertext_length_is_an_error() {
    let place = TestFolder::new();
    place.openssl(Side::Gabion, "genpkey -algorithm ML-KEM-768 -out key.pem");
    std::fs::write(place.path("ct"), vec![0; 1087]).unwrap();
    let text = place.openssl_refuses(Side::Gabion, "pkeyutl -decap -inkey key.pem -in ct");
    assert!(text.contains("the ciphertext has 1087 bytes; expected 1088"), "{text}");
    assert_eq!(place.count("ML-KEM-768", "decaps"), (1, 1));
}

#[test]
fn a_fault_is_an_error_and_never_silent() {
    let place = TestFolder::new();
    place.openssl(Side::Stock, "genpkey -algorithm ML-DSA-65 -out key.pem");
    std::fs::write(place.path("message"), b"m").unwrap();
    let with = |words: &str| {
        let output =
            place.command(Side::Gabion, words).env("GABION_BACKEND", "abacus").output().unwrap();
        (output.status.success(), gabion_provider_testing::all_text(&output))
    };

    // Our own operation fails: there is no other provider to go on with.
    let (done, text) = with("genpkey -algorithm ML-DSA-65 -out other.pem");
    assert!(!done && text.contains("no backend `abacus` on this machine"), "{text}");
    assert!(!place.path("other.pem").exists());
    assert_eq!(place.count("ML-DSA-65", "keygen"), (1, 1));

    // A key of the default provider: OpenSSL signs there once the import is refused, so it is told on
    // stderr and counted.
    let (done, text) = with("pkeyutl -sign -rawin -inkey key.pem -in message -out sig");
    assert!(text.contains("gabion: no backend `abacus` on this machine"), "{text}");
    assert!(done, "the default provider signs: {text}");
    let (calls, errors) = place.count("ML-DSA-65", "import");
    assert!(errors >= 1 && errors == calls, "{calls} {errors}");
    assert_eq!(place.count("ML-DSA-65", "sign"), (0, 0));
}

#[test]
fn counters_that_cannot_be_kept_are_told() {
    let place = TestFolder::new();
    std::fs::write(place.path("stats"), b"somebody's file").unwrap();
    let words = "genpkey -algorithm ML-KEM-512 -out key.pem";
    let text = place.openssl(Side::Gabion, words);
    assert!(text.contains("is not a counters file of this version of Gabion"), "{text}");
    assert_eq!(place.bytes("stats"), b"somebody's file");
    let output = place
        .command(Side::Gabion, words)
        .env("GABION_STATS", place.path("no/such/folder"))
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(gabion_provider_testing::all_text(&output).contains("counting in memory only"));
}
