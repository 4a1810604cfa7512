//! Composite ML-DSA signatures by the draft's own test vectors and by BouncyCastle's certificates.
//!
//! The vectors are of an edition with the object identifiers and the construction of draft 19 (keys
//! without wrapping, no randomizer): every signature that has a supported classical part verifies.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{Algorithm, Config, Engine, Error, Family, Message, OsEntropy};
use gabion_tests::der::{Certificate, base64, certificate, private_key};
use gabion_tests::vectors::{self, list, text};

fn engine() -> Engine {
    Engine::new(&Config::default()).unwrap()
}

fn composites() -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(|algorithm| algorithm.info().family == Family::Composite)
}

#[test]
fn the_drafts_signatures_verify_and_its_keys_sign() {
    let Some(file) = vectors::json("composite-sigs/testvectors.json") else { return };
    let engine = engine();
    let (m, ctx) = (base64(text(&file["m"])), base64(text(&file["ctx"])));
    let plain = Message::Pure { context: b"", message: &m };
    let with_context = Message::Pure { context: &ctx, message: &m };
    let (mut verified, mut refused) = (0, 0);
    for test in list(&file["tests"]) {
        let name = text(&test["tcId"]);
        if name.starts_with("id-ML-DSA") {
            continue;
        }
        let Ok(algorithm) = name.parse::<Algorithm>() else {
            let error = name.parse::<Algorithm>().unwrap_err().to_string();
            assert!(error.contains("is not supported, because"), "{error}");
            refused += 1;
            continue;
        };
        let field = |field: &str| base64(text(&test[field]));
        let public = engine.signature_public(algorithm, &field("pk")).unwrap();
        assert_eq!(public.bytes(), field("pk"));
        for (message, signature) in [(plain, field("s")), (with_context, field("sWithContext"))] {
            assert_eq!(engine.verify(&public, message, &signature), Ok(()), "{name}");
            // Either part alone is not enough, and neither is a part of another length.
            for place in [0, signature.len() - 1] {
                let mut bad = signature.clone();
                bad[place] ^= 1;
                let verdict = engine.verify(&public, message, &bad);
                assert_eq!(verdict, Err(Error::BadSignature), "{name}, byte {place}");
            }
            let shorter = &signature[..signature.len() - 1];
            assert_eq!(engine.verify(&public, message, shorter), Err(Error::BadSignature));
        }
        let verdict = engine.verify(&public, with_context, &field("s"));
        assert_eq!(verdict, Err(Error::BadSignature), "{name}");
        let key = engine.signature_private(algorithm, &field("sk")).unwrap();
        assert_eq!(key.bytes(), field("sk"));
        assert_eq!(key.public_bytes(), field("pk"));
        let ours = engine.sign(&key, with_context, &OsEntropy).unwrap();
        assert_eq!(engine.verify(&public, with_context, &ours), Ok(()), "{name}");
        assert!(ours.len() <= algorithm.info().output.max());
        verified += 1;
    }
    assert!(verified >= 10 && refused >= 2, "{verified} verified, {refused} refused");
}

/// BouncyCastle's self-signed certificates and private keys of every supported composite.
#[test]
fn bouncycastles_certificates_verify_and_its_keys_belong_to_them() {
    let engine = engine();
    for algorithm in composites() {
        let info = algorithm.info();
        let name = info.oid_name.unwrap().trim_start_matches("id-");
        let path = format!("pqc-certificates/bc/{name}-{}", info.oid.unwrap());
        let Some(der) = vectors::bytes(&format!("{path}_ta.der")) else { return };
        let Certificate { signed, public, signature } = certificate(&der);
        let key = engine.signature_public(algorithm, public).unwrap();
        let message = Message::Pure { context: b"", message: signed };
        assert_eq!(engine.verify(&key, message, signature), Ok(()), "{name}");

        let private = vectors::bytes(&format!("{path}_priv.der")).unwrap();
        let pair = engine.signature_private(algorithm, private_key(&private)).unwrap();
        assert_eq!(pair.public_bytes(), public, "{name}");
    }
}

/// Needs no files: every composite makes keys that sign, and reads its own encodings.
#[test]
fn every_composite_round_trips() {
    let engine = engine();
    assert_eq!(composites().count(), 15);
    for algorithm in composites() {
        let info = algorithm.info();
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        assert!(key.bytes().len() <= info.private_key.max(), "{algorithm}");
        assert_eq!(key.public_bytes().len(), info.public_key.max(), "{algorithm}");
        let again = engine.signature_private(algorithm, key.bytes()).unwrap();
        let public = engine.signature_public(algorithm, again.public_bytes()).unwrap();
        let message = Message::Pure { context: b"c", message: b"text" };
        let signature = engine.sign(&again, message, &OsEntropy).unwrap();
        assert_eq!(engine.verify(&public, message, &signature), Ok(()), "{algorithm}");
        let other = Message::Pure { context: b"", message: b"text" };
        assert_eq!(engine.verify(&public, other, &signature), Err(Error::BadSignature));
        for (place, len) in [(3, 31), (40, 20)] {
            assert!(engine.signature_private(algorithm, &key.bytes()[place..][..len]).is_err());
        }
        assert!(engine.signature_public(algorithm, &public.bytes()[1..]).is_err());
        let error = engine.sign_deterministic(&key, message).unwrap_err().to_string();
        assert!(error.contains("randomness"), "{error}");
        let digest = gabion_engine::Message::Mu(&[0; 64]);
        assert!(matches!(engine.sign(&key, digest, &OsEntropy), Err(Error::Input(_))));
    }
}
