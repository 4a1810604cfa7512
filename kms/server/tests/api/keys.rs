//! The life of keys.

use gabion_kms_wire::native::{Attest, ConfigureKey, CreateKey, Sign, Verify};
use gabion_kms_wire::{decode, encode};

use super::{client, create, refused, server};

fn sign(message: &[u8]) -> Sign {
    Sign { message: Some(encode(message)), ..Sign::by("release") }
}

fn verify(version: Option<u32>, message: &[u8], signature: &str) -> Verify {
    Verify {
        key: "release".into(),
        version,
        message: Some(encode(message)),
        signature: signature.into(),
        ..Verify::default()
    }
}

#[test]
fn a_key_is_made_signs_rotates_and_is_destroyed() {
    let server = server();
    let client = client(&server);
    let key = create(&client, "release", "ML-DSA-65");
    assert_eq!(
        (key.latest, key.algorithm.as_str(), key.name.as_str()),
        (1, "ml-dsa-65", "release")
    );
    let first = client.sign(&sign(b"one")).unwrap();
    assert_eq!((first.version, first.by.as_str()), (1, format!("{}#v1", key.id).as_str()));
    let rotated = client.rotate("release").unwrap();
    assert_eq!(rotated.version, 2);
    assert!(rotated.revision > key.revision);
    assert_eq!(client.sign(&sign(b"two")).unwrap().version, 2);
    for (version, message, is_valid) in [
        (Some(1), b"one", true),
        (Some(1), b"two", false),
        (Some(2), b"one", false),
        (None, b"one", false),
    ] {
        let verified = client.verify(&verify(version, message, &first.signature)).unwrap();
        assert_eq!(verified.valid, is_valid, "{version:?}");
        assert!(verified.revision >= rotated.revision);
    }
    assert_eq!(
        refused(client.sign(&Sign { version: Some(1), ..sign(b"x") })).code,
        "version_not_allowed"
    );
    client.disable("release", 2).unwrap();
    assert_eq!(refused(client.sign(&sign(b"x"))).code, "version_disabled");
    client.enable("release", 2).unwrap();
    let config = ConfigureKey { min_verify: Some(2), ..ConfigureKey::default() };
    assert_eq!(client.configure("release", &config).unwrap().min_verify, 2);
    let old = refused(client.verify(&verify(Some(1), b"one", &first.signature)));
    assert_eq!(old.code, "version_not_allowed");
    let config = ConfigureKey { min_decrypt: Some(2), ..ConfigureKey::default() };
    client.configure("release", &config).unwrap();
    client.trim("release", 2).unwrap();
    let old = refused(client.verify(&verify(Some(1), b"one", &first.signature)));
    assert_eq!((old.code.as_str(), old.retryable), ("version_destroyed", false));
    client.delete("release").unwrap();
    let deleted = refused(client.sign(&sign(b"x")));
    assert_eq!(deleted.code, "key_deleted");
    assert!(deleted.hint.unwrap().contains("restore"));
    client.restore("release").unwrap();
    client.sign(&sign(b"x")).unwrap();
    assert_eq!(refused(client.destroy("release")).code, "bad_request");
    client.delete("release").unwrap();
    client.destroy("release").unwrap();
    assert_eq!(refused(client.show("release")).code, "not_found");
    assert_eq!(refused(client.show(&key.id)).code, "key_destroyed");
    create(&client, "release", "ed25519");
}

#[test]
fn keys_are_listed_in_pages_and_shown_by_name_and_id() {
    let server = server();
    let client = client(&server);
    let names = ["a", "b.1", "c-2", "d_3", "e"];
    let ids: Vec<String> = names.map(|name| create(&client, name, "ed25519").id).into();
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = client.list(after.as_deref(), 2).unwrap();
        assert!(page.keys.len() <= 2);
        found.extend(page.keys);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let found: Vec<(&str, &str)> =
        found.iter().map(|key| (key.name.as_str(), key.id.as_str())).collect();
    let wanted: Vec<(&str, &str)> = names.into_iter().zip(ids.iter().map(String::as_str)).collect();
    assert_eq!(found, wanted);
    for (name, id) in wanted {
        assert_eq!(client.show(name).unwrap(), client.show(id).unwrap());
    }
    let other = ids[0].replace("default/", "other/");
    assert_eq!(refused(client.show(&other)).code, "not_found");
    let taken = CreateKey { name: "a".into(), algorithm: "ed25519".into(), ..CreateKey::default() };
    assert_eq!(refused(client.create(&taken)).code, "exists");
}

/// Signatures verify without the service.
#[test]
fn versions_have_public_keys_that_verify_elsewhere() {
    use gabion_engine::key_file::{EncodedKey, decode as decode_key};
    use gabion_engine::keys::{Key, PublicKey};
    use gabion_engine::{Algorithm, Engine, Message};
    use gabion_kms_client::Client;

    let engine = Engine::global().unwrap();
    let verifies =
        |client: &Client, algorithm: Algorithm, place: usize, message: &[u8], signature: &str| {
            let versions = client.versions("release", 0).unwrap();
            assert_eq!(versions.next, None);
            let pem = versions.versions[place].public_key.clone().unwrap();
            let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
            let encoded = EncodedKey::from_der(&decode(&base64).unwrap()).unwrap();
            let key = decode_key(engine, algorithm, &encoded).unwrap();
            let Key::Public(PublicKey::Signature(key)) = key else {
                panic!("no key that verifies")
            };
            let message = Message::Pure { context: b"", message };
            engine.verify(&key, message, &decode(signature).unwrap()).is_ok()
        };
    for algorithm in [Algorithm::Ed25519, Algorithm::MlDsa44, Algorithm::EcdsaP256] {
        let server = server();
        let client = client(&server);
        create(&client, "release", algorithm.name());
        let signed = client.sign(&sign(b"m")).unwrap();
        client.rotate("release").unwrap();
        assert!(verifies(&client, algorithm, 0, b"m", &signed.signature), "{algorithm}");
        assert!(!verifies(&client, algorithm, 1, b"m", &signed.signature), "{algorithm}");
    }
}

#[test]
fn digests_and_contexts_are_signed_as_such() {
    let server = server();
    let client = client(&server);
    create(&client, "release", "ml-dsa-44");
    let hash: gabion_kms::Prehash = "SHA2-256".parse().unwrap();
    let prehash = Some("SHA2-256".to_owned());
    let context = Some(encode(b"firmware"));
    let whole = Sign { prehash: prehash.clone(), context: context.clone(), ..sign(b"an image") };
    let signature = client.sign(&whole).unwrap().signature;
    let digest = Some(encode(&hash.digest(b"an image")));
    let of_digest = Verify {
        key: "release".into(),
        digest,
        prehash,
        context,
        signature: signature.clone(),
        ..Verify::default()
    };
    assert!(client.verify(&of_digest).unwrap().valid);
    let other = Verify { context: None, ..of_digest.clone() };
    assert!(!client.verify(&other).unwrap().valid);
    assert!(!client.verify(&verify(None, b"an image", &signature)).unwrap().valid);
    let short = Verify { digest: Some(encode(b"short")), ..of_digest };
    assert_eq!(refused(client.verify(&short)).code, "bad_request");
}

#[test]
fn a_key_is_described_and_the_nonce_comes_back() {
    let server = server();
    let client = client(&server);
    let key = create(&client, "release", "ed25519");
    let asked = Attest { key: "release".into(), nonce: Some("n-1".into()), ..Attest::default() };
    let attested = client.attest(&asked).unwrap();
    assert_eq!(
        (&attested.attest["key"], &attested.attest["nonce"]),
        (&key.id.into(), &"n-1".into())
    );
    assert_eq!(attested.jws.split('.').count(), 3);
    let jwk: serde_json::Value = client.get("/v1/kms/attestation-key").unwrap();
    assert_eq!(jwk["alg"], "ML-DSA-44");
}

/// Vault's, OpenBao's and the standards' spellings differ by hyphens and capitals.
#[test]
fn algorithms_have_the_names_that_people_type() {
    let server = server();
    let client = client(&server);
    for (name, typed, wanted) in [
        ("a", "ecdsa-p256", "ecdsa-p-256"),
        ("b", "ML-DSA-65", "ml-dsa-65"),
        ("c", "aes-256-gcm-96", "aes256-gcm96"),
    ] {
        assert_eq!(create(&client, name, typed).algorithm, wanted);
    }
    for (typed, says) in [("ml-dsa", "ml-dsa-44, ml-dsa-65"), ("md5", "xaes-256-gcm")] {
        let key = CreateKey { name: "d".into(), algorithm: typed.into(), ..CreateKey::default() };
        let problem = refused(client.create(&key));
        assert_eq!(problem.code, "unsupported");
        assert!(problem.message.contains(&format!("unknown algorithm `{typed}`")));
        assert!(problem.message.contains(says), "{}", problem.message);
    }
}
