//! Signed descriptions of keys.

use gabion_engine::{Algorithm, Engine, Message};
use gabion_kms::Code;
use gabion_kms::model::State;
use gabion_kms::operations::{Attestation, Kms};

use crate::verbs::create;

fn from_base64url(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bytes, mut bits, mut len) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        bits = bits << 6 | digits.iter().position(|&digit| digit == byte).unwrap() as u32;
        len += 6;
        if len >= 8 {
            len -= 8;
            bytes.push((bits >> len) as u8);
        }
    }
    bytes
}

#[test]
fn attest_names_head_and_versions_and_its_signature_verifies() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "firmware", "ml-dsa-65").key;
    kms.rotate(&id).unwrap();
    kms.rotate(&id).unwrap();
    kms.set_state(&id, 2, State::Disabled).unwrap();
    let attested = kms.attest(&id, "nonce 1").unwrap();
    let Attestation { head, versions, algorithm, label, nonce, key, .. } = &attested.attest;
    assert_eq!(
        (*head, &algorithm[..], &label[..], &nonce[..]),
        (3, "ML-DSA-65", "software", "nonce 1")
    );
    let states: Vec<_> = versions.iter().map(|version| (version.version, version.state)).collect();
    assert_eq!(states, [(1, State::Enabled), (2, State::Disabled), (3, State::Enabled)]);
    assert_eq!(*key, id);
    // A verifier that has only the JWK.
    let jwk: serde_json::Value = serde_json::from_str(&kms.attestation_jwk().unwrap()).unwrap();
    assert_eq!((&jwk["kty"], &jwk["alg"]), (&"AKP".into(), &"ML-DSA-44".into()));
    let (signed, signature) = attested.jws.rsplit_once('.').unwrap();
    let (head, payload) = signed.split_once('.').unwrap();
    let head: serde_json::Value = serde_json::from_slice(&from_base64url(head)).unwrap();
    assert_eq!((&head["alg"], &head["kid"]), (&jwk["alg"], &jwk["kid"]));
    assert_eq!(
        serde_json::from_slice::<Attestation>(&from_base64url(payload)).unwrap(),
        attested.attest
    );
    let engine = Engine::global().unwrap();
    let public = from_base64url(jwk["pub"].as_str().unwrap());
    let public = engine.signature_public(Algorithm::MlDsa44, &public).unwrap();
    let verify = |text: &str| {
        let message = Message::Pure { context: &[], message: text.as_bytes() };
        engine.verify(&public, message, &from_base64url(signature))
    };
    assert_eq!(verify(signed), Ok(()));
    assert!(verify(&signed[1..]).is_err());
    // The key stays the same one.
    assert_eq!(kms.attestation_jwk().unwrap(), kms.attestation_jwk().unwrap());
    assert_eq!(kms.attest(&id, &"n".repeat(129)).unwrap_err().code(), Code::TooLarge);
    kms.delete(&id).unwrap();
    assert_eq!(kms.attest(&id, "n").unwrap_err().code(), Code::KeyDeleted);
}

#[test]
fn attest_json_is_golden() {
    let golden = include_str!("../golden/attest.json").trim_end();
    let attest: Attestation = serde_json::from_str(golden).unwrap();
    assert_eq!(serde_json::to_string(&attest).unwrap(), golden);
}

/// A key that promises something is nothing else, does nothing else, and is described as that.
#[test]
fn conformance_labels_are_enforced() {
    use gabion_engine::Prehash;
    use gabion_kms::model::{Conformance, Conformances};
    use gabion_kms::operations::{NewKey, SignRequest};

    let kms = Kms::in_memory().unwrap();
    let new = |name: &str, algorithm: &str| {
        let [tenant, purpose, name] = ["default", "transit", name].map(crate::verbs::label);
        NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() }
    };
    let both = Conformances::from([Conformance::Cnsa2, Conformance::FipsAlg]);
    for algorithm in ["ml-dsa-65", "ed25519", "xaes-256-gcm"] {
        let refused = kms.create_conforming(&new("k", algorithm), &both).err().unwrap();
        assert_eq!(refused.code(), Code::Unsupported, "{algorithm}");
        assert!(refused.to_string().contains("does not conform to `cnsa2`"), "{refused}");
    }
    let id = kms.create_conforming(&new("k", "ml-dsa-87"), &both).unwrap().key;
    let digest = [7; 64];
    let message = |hash, len| Message::Prehash { context: b"", hash, digest: &digest[..len] };
    kms.sign(&id, None, message(Prehash::Sha2_512, 64)).unwrap();
    // CNSA 2.0 has it, and FIPS 204 not with this parameter set.
    let medium = message(Prehash::Sha2_384, 48);
    assert_eq!(kms.sign(&id, None, medium).err().unwrap().code(), Code::Unsupported);
    let cnsa2 = Conformances::from([Conformance::Cnsa2]);
    let other = kms.create_conforming(&new("cnsa2", "ml-dsa-87"), &cnsa2).unwrap().key;
    kms.sign(&other, None, medium).unwrap();
    let weak = message(Prehash::Sha2_256, 32);
    assert_eq!(kms.sign(&id, None, weak).err().unwrap().code(), Code::Unsupported);
    let pure = Message::Pure { context: b"", message: b"m" };
    let items = [pure.into(), weak.into()];
    let items = items.map(|signable| SignRequest { key: &id, version: None, signable });
    let signed = kms.sign_batch(&items);
    assert!(signed[0].is_ok());
    assert_eq!(signed[1].as_ref().err().unwrap().code(), Code::Unsupported);
    // Rotation keeps the promise, and the description says it.
    kms.rotate(&id).unwrap();
    let attested = kms.attest(&id, "").unwrap();
    assert_eq!(attested.attest.conformance, both);
    let payload = from_base64url(attested.jws.split('.').nth(1).unwrap());
    let payload = String::from_utf8(payload).unwrap();
    assert!(payload.contains(r#""conformance":["cnsa2","fips-alg"]"#), "{payload}");
    // Without a label nothing is promised, and the same is done.
    let plain = create(&kms, "plain", "ml-dsa-87").key;
    kms.sign(&plain, None, weak).unwrap();
    assert!(kms.attest(&plain, "").unwrap().attest.conformance.is_empty());
}

/// A label says nothing about where a key was stored. About the key's algorithm and uses, an
/// imported key promises the same as a generated one.
#[test]
fn an_imported_key_conforms_or_is_not_taken() {
    use gabion_engine::Prehash;
    use gabion_kms::model::{Conformance, Conformances};
    use gabion_kms::operations::{Import, NewKey};

    let kms = Kms::in_memory().unwrap();
    let new = |name: &str, algorithm: &str| {
        let [tenant, purpose, name] = ["default", "transit", name].map(crate::verbs::label);
        NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() }
    };
    let take = |name: &str, algorithm: &str, import, to: &[Conformance]| {
        let to = Conformances::from_iter(to.iter().copied());
        kms.import_conforming(&new(name, algorithm), import, true, &to)
    };
    let (cnsa2, fips) = (Conformance::Cnsa2, Conformance::FipsAlg);
    let seed = [7; 32];
    // One that does not conform is not even read: those bytes are no key at all.
    for (algorithm, to) in [
        ("ml-dsa-65", &[cnsa2][..]),
        ("ed25519", &[fips, cnsa2]),
        ("xaes-256-gcm", &[fips]),
        ("rsa-4096", &[cnsa2]),
    ] {
        let refused = take("x", algorithm, Import::Raw(b"nonsense"), to).err().unwrap();
        assert_eq!(refused.code(), Code::Unsupported, "{algorithm}");
        assert!(refused.to_string().contains("does not conform to"), "{refused}");
    }
    // HMAC keys of an allowed length that may be shorter than the label requires.
    for (len, to, may) in
        [(16, cnsa2, false), (31, cnsa2, false), (32, cnsa2, true), (16, fips, true)]
    {
        let taken =
            take(&format!("mac-{len}-{to}"), "hmac-sha-384", Import::Raw(&[9; 64][..len]), &[to]);
        assert_eq!(taken.is_ok(), may, "{len} {to}");
    }
    assert!(take("aes", "aes256-gcm96", Import::Raw(&seed), &[cnsa2, fips]).is_ok());
    let id = take("k", "ml-dsa-87", Import::Raw(&seed), &[cnsa2]).unwrap().key;
    let weak = Message::Prehash { context: b"", hash: Prehash::Sha2_256, digest: &seed };
    assert_eq!(kms.sign(&id, None, weak).err().unwrap().code(), Code::Unsupported);
    let attested = kms.attest(&id, "").unwrap();
    assert_eq!(attested.attest.conformance, Conformances::from([cnsa2]));
    // A version that comes later is held to the same.
    let mac = take("mac", "hmac-sha-512", Import::Raw(&[1; 64]), &[cnsa2]).unwrap().key;
    let short = kms.import_version(&mac, Import::Raw(&[2; 16])).err().unwrap();
    assert_eq!(short.code(), Code::Unsupported);
    assert_eq!(kms.import_version(&mac, Import::Raw(&[2; 48])).unwrap().version, 2);
    // One without a label takes it.
    let plain = kms.import(&new("plain", "hmac-sha-512"), Import::Raw(&[3; 64])).unwrap().key;
    kms.import_version(&plain, Import::Raw(&[2; 16])).unwrap();
}
