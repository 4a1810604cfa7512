//! Verbs that make, take or give out secrets.

use gabion_kms_client::{Client, Error};
use gabion_kms_wire::native::{
    ConfigureKey, Datakey, Decaps, Decrypt, Decrypted, Encaps, Encrypt, Encrypted, Hmac,
    HmacVerify, Random, Rewrap, Sign, Wrap,
};
use gabion_kms_wire::{Secret, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::{create, refused};

const TEXT: &[u8] = b"of nobody's business";

/// A server with a key of each kind.
fn with_keys() -> (Local, Client) {
    let local = Local::start();
    let client = local.client();
    for (name, algorithm, does) in [
        ("data", "XAES-256-GCM", "encrypt"),
        ("gcm", "aes256-gcm96", "encrypt"),
        ("tags", "HMAC-SHA-256", "authenticate"),
        ("box", "ML-KEM-768", "encapsulate"),
        ("sig", "Ed25519", "sign"),
    ] {
        assert_eq!(create(&client, name, algorithm).does, does);
    }
    (local, client)
}

fn encrypt(key: &str) -> Encrypt {
    Encrypt { key: key.into(), plaintext: Secret::of_bytes(TEXT), ..Encrypt::default() }
}

fn decrypt(key: &str, made: &Encrypted) -> Decrypt {
    let (version, ciphertext) = (Some(made.version), made.ciphertext.clone());
    Decrypt { key: key.into(), version, ciphertext, ..Decrypt::default() }
}

fn text(opened: Result<Decrypted, Error>) -> Vec<u8> {
    opened.unwrap().plaintext.bytes().unwrap().to_vec()
}

#[test]
fn a_wrapped_key_is_wrapped_anew_and_stays_wrapped() {
    let (_local, client) = with_keys();
    let wrap = Wrap { key: "data".into(), plaintext: Secret::of_bytes(TEXT), ..Wrap::default() };
    let made = client.wrap(&wrap).unwrap();
    client.rotate("data").unwrap();
    let anew = Rewrap {
        key: "data".into(),
        version: 1,
        ciphertext: made.ciphertext.clone(),
        wrapped: Some(true),
        ..Rewrap::default()
    };
    let newer = client.rewrap(&anew).unwrap();
    assert_eq!(newer.version, 2);
    assert_eq!(text(client.unwrap(&decrypt("data", &newer))), TEXT);
    assert_eq!(refused(client.decrypt(&decrypt("data", &newer))).code, "decrypt_failed");
    // Neither is the other.
    let as_text = Rewrap { wrapped: None, ..anew.clone() };
    assert_eq!(refused(client.rewrap(&as_text)).code, "decrypt_failed");
    let ciphertext = client.encrypt(&encrypt("data")).unwrap().ciphertext;
    let as_key = Rewrap { version: 2, ciphertext, ..anew };
    assert_eq!(refused(client.rewrap(&as_key)).code, "decrypt_failed");
}

#[test]
fn encrypt_decrypt_and_rewrap_roundtrip() {
    let (_local, client) = with_keys();
    for key in ["data", "gcm"] {
        let associated_data = Some(encode(b"row 7"));
        let asked = Encrypt { associated_data: associated_data.clone(), ..encrypt(key) };
        let made = client.encrypt(&asked).unwrap();
        assert!(made.version == 1 && made.by.ends_with("#v1") && made.revision > 0);
        let of = |made: &Encrypted| Decrypt {
            associated_data: associated_data.clone(),
            ..decrypt(key, made)
        };
        assert_eq!(text(client.decrypt(&of(&made))), TEXT);
        // The newest version is meant where none is named.
        assert_eq!(text(client.decrypt(&Decrypt { version: None, ..of(&made) })), TEXT);
        assert_eq!(refused(client.decrypt(&decrypt(key, &made))).code, "decrypt_failed");
        client.rotate(key).unwrap();
        let anew = Rewrap {
            key: key.into(),
            version: 1,
            ciphertext: made.ciphertext.clone(),
            associated_data: associated_data.clone(),
            ..Rewrap::default()
        };
        let newer = client.rewrap(&anew).unwrap();
        assert_eq!((newer.version, client.encrypt(&asked).unwrap().version), (2, 2));
        for made in [&made, &newer] {
            assert_eq!(text(client.decrypt(&of(made))), TEXT);
        }
        let none = Decrypt { version: None, ..of(&made) };
        assert_eq!(refused(client.decrypt(&none)).code, "decrypt_failed");
        assert_eq!(refused(client.rewrap(&Rewrap { version: 2, ..anew })).code, "decrypt_failed");
        let old = Encrypt { version: Some(1), ..encrypt(key) };
        assert_eq!(refused(client.encrypt(&old)).code, "version_not_allowed");
        let config = ConfigureKey { min_decrypt: Some(2), ..ConfigureKey::default() };
        client.configure(key, &config).unwrap();
        assert_eq!(refused(client.decrypt(&of(&made))).code, "version_not_allowed");
        client.disable(key, 2).unwrap();
        assert_eq!(refused(client.decrypt(&of(&newer))).code, "version_disabled");
    }
}

#[test]
fn invalid_ciphertexts_do_not_decrypt() {
    let (_local, client) = with_keys();
    let made = client.encrypt(&encrypt("data")).unwrap();
    let changed = |at: usize| {
        let mut bytes = gabion_kms_wire::decode(&made.ciphertext).unwrap();
        bytes[at] ^= 1;
        encode(&bytes)
    };
    for ciphertext in [changed(0), changed(30), encode(b""), encode(b"short"), encode(&[0; 60])] {
        let of = Decrypt { ciphertext, ..decrypt("data", &made) };
        let problem = refused(client.decrypt(&of));
        assert_eq!((problem.code.as_str(), problem.retryable), ("decrypt_failed", false));
        assert_eq!(refused(client.unwrap(&of)).code, "decrypt_failed");
    }
    let of = Decrypt { ciphertext: "*".into(), ..decrypt("data", &made) };
    assert_eq!(refused(client.decrypt(&of)).code, "malformed");
    let of = Decrypt { version: Some(9), ..decrypt("data", &made) };
    assert_eq!(refused(client.decrypt(&of)).code, "not_found");
    assert_eq!(refused(client.decrypt(&decrypt("gcm", &made))).code, "decrypt_failed");
}

#[test]
fn datakey_returns_plaintext_and_ciphertext_or_ciphertext_only() {
    let (_local, client) = with_keys();
    for (bits, bytes) in [(None, 32), (Some(128), 16), (Some(512), 64)] {
        let asked = Datakey { key: "data".into(), bits, ..Datakey::default() };
        let made = client.datakey(&asked).unwrap();
        let key = made.plaintext.unwrap().bytes().unwrap();
        assert_eq!(key.len(), bytes);
        let (version, ciphertext) = (Some(made.version), made.ciphertext);
        let of = Decrypt { key: "data".into(), version, ciphertext, ..Decrypt::default() };
        assert_eq!(text(client.decrypt(&of)), *key);
        let alone = client.datakey(&Datakey { wrapped_only: Some(true), ..asked }).unwrap();
        assert!(alone.plaintext.is_none() && !alone.ciphertext.is_empty());
    }
    let odd = Datakey { key: "data".into(), bits: Some(100), ..Datakey::default() };
    assert!(refused(client.datakey(&odd)).message.contains("128, 256 or 512, not 100"));
}

/// The permission to decrypt does not unwrap keys, and vice versa.
#[test]
fn a_wrapped_key_is_unwrapped_and_not_decrypted() {
    let (mut local, client) = with_keys();
    let wrap = Wrap { key: "data".into(), plaintext: Secret::of_bytes(TEXT), ..Wrap::default() };
    let wrapped = client.wrap(&wrap).unwrap();
    assert_eq!(text(client.unwrap(&decrypt("data", &wrapped))), TEXT);
    assert_eq!(refused(client.decrypt(&decrypt("data", &wrapped))).code, "decrypt_failed");
    let made = client.encrypt(&encrypt("data")).unwrap();
    assert_eq!(refused(client.unwrap(&decrypt("data", &made))).code, "decrypt_failed");
    // Callers cannot use the prefix that separates them.
    let associated_data = Some(encode(b"gabion-kms wrap 1\0"));
    let of = Decrypt { associated_data: associated_data.clone(), ..decrypt("data", &wrapped) };
    assert_eq!(refused(client.decrypt(&of)).code, "bad_request");
    let of = Encrypt { associated_data: associated_data.clone(), ..encrypt("data") };
    assert_eq!(refused(client.encrypt(&of)).code, "bad_request");
    let of = Datakey { key: "data".into(), associated_data, ..Datakey::default() };
    assert_eq!(refused(client.datakey(&of)).code, "bad_request");
    let all = std::mem::take(&mut local.token);
    local.token =
        gabion_kms_server::attenuate_token(&all, &["actions=decrypt,wrap".into()]).unwrap();
    let client = local.client();
    assert_eq!(refused(client.unwrap(&decrypt("data", &wrapped))).code, "denied");
    assert_eq!(text(client.decrypt(&decrypt("data", &made))), TEXT);
    client.wrap(&wrap).unwrap();
}

#[test]
fn tags_verify_across_rotations() {
    let (_local, client) = with_keys();
    let message = || Secret::of_bytes(TEXT);
    let hmac = Hmac { key: "tags".into(), message: message(), ..Hmac::default() };
    let made = client.hmac(&hmac).unwrap();
    assert_eq!((made.version, made.by.ends_with("#v1")), (1, true));
    client.rotate("tags").unwrap();
    assert_eq!(client.hmac(&hmac).unwrap().version, 2);
    let verify = |version, message, tag: &str| {
        let (key, tag) = ("tags".into(), tag.to_owned());
        client.verify_hmac(&HmacVerify { key, tenant: None, version, message, tag })
    };
    for (version, message, is_valid) in [
        (Some(1), message(), true),
        (Some(2), message(), false),
        (None, message(), false),
        (Some(1), Secret::of_bytes(b"another"), false),
    ] {
        let verdict = verify(version, message, &made.tag).unwrap();
        assert_eq!(verdict.valid, is_valid, "{version:?}");
        assert!(verdict.by.ends_with(&format!("#v{}", version.unwrap_or(2))));
    }
    for tag in ["*", "", &encode(&[1; 31]), &encode(&[1; 33])] {
        assert_eq!(refused(verify(Some(1), message(), tag)).code, "malformed", "{tag}");
    }
}

#[test]
fn a_secret_that_was_encapsulated_is_the_one_that_comes_out() {
    let (_local, client) = with_keys();
    for key in ["box", "wing"] {
        if key == "wing" {
            create(&client, key, "X-Wing");
        }
        let asked = Encaps { key: key.into(), ..Encaps::default() };
        let made = client.encaps(&asked).unwrap();
        client.rotate(key).unwrap();
        let decaps = |version, ciphertext: &str| {
            let (key, ciphertext) = (key.into(), ciphertext.to_owned());
            client.decaps(&Decaps { key, tenant: None, version, ciphertext })
        };
        let secret = decaps(Some(1), &made.ciphertext).unwrap().secret;
        assert_eq!((&secret, secret.bytes().unwrap().len()), (&made.secret, 32));
        // Another version gives another secret, and no error.
        assert_ne!(decaps(None, &made.ciphertext).unwrap().secret, secret);
        assert_eq!(refused(decaps(Some(1), &encode(&[1; 100]))).code, "malformed");
    }
}

#[test]
fn random_bytes_are_as_many_as_were_asked_for() {
    let (_local, client) = with_keys();
    let drawn = |bytes| client.random(&Random { bytes }).map(|drawn| drawn.random_bytes);
    assert_eq!(drawn(None).unwrap().bytes().unwrap().len(), 32);
    assert_eq!(drawn(Some(131_072)).unwrap().bytes().unwrap().len(), 131_072);
    assert_ne!(drawn(None).unwrap(), drawn(None).unwrap());
    assert_eq!(refused(drawn(Some(131_073))).code, "too_large");
}

#[test]
fn keys_are_refused_for_other_operations() {
    let (mut local, client) = with_keys();
    let made = client.encrypt(&encrypt("data")).unwrap();
    let message = || Secret::of_bytes(TEXT);
    let sign = |key: &str| Sign { message: Some(encode(TEXT)), ..Sign::by(key) };
    for key in ["tags", "box", "sig"] {
        assert_eq!(refused(client.encrypt(&encrypt(key))).code, "unsupported", "{key}");
        assert_eq!(refused(client.decrypt(&decrypt(key, &made))).code, "unsupported", "{key}");
        assert_eq!(refused(client.unwrap(&decrypt(key, &made))).code, "unsupported", "{key}");
        let datakey = Datakey { key: key.into(), ..Datakey::default() };
        assert_eq!(refused(client.datakey(&datakey)).code, "unsupported", "{key}");
    }
    for key in ["data", "box", "sig"] {
        let hmac = Hmac { key: key.into(), message: message(), ..Hmac::default() };
        assert_eq!(refused(client.hmac(&hmac)).code, "unsupported", "{key}");
    }
    for key in ["data", "tags", "sig"] {
        let encaps = Encaps { key: key.into(), ..Encaps::default() };
        assert_eq!(refused(client.encaps(&encaps)).code, "unsupported", "{key}");
    }
    for key in ["data", "tags", "box"] {
        assert_eq!(refused(client.sign(&sign(key))).code, "unsupported", "{key}");
    }
    for (path, body, says) in [
        ("encrypt", json!({"key": "data"}), "missing field `plaintext`"),
        ("encrypt", json!({"key": "data", "plaintext": "", "nonce": ""}), "unknown field `nonce`"),
        ("decrypt", json!({"key": "data"}), "missing field `ciphertext`"),
        ("rewrap", json!({"key": "data", "ciphertext": ""}), "missing field `version`"),
        ("datakey", json!({"key": "data", "bytes": 1}), "unknown field `bytes`"),
        ("hmac", json!({"key": "tags", "input": ""}), "unknown field `input`"),
        ("encaps", json!({"key": "box", "message": ""}), "unknown field `message`"),
        ("random", json!({"bytes": -1}), "-1"),
    ] {
        let problem = refused(client.post::<Value>(&format!("/v1/kms/{path}"), &body));
        assert_eq!(problem.code, "bad_request", "{path} {body}");
        assert!(problem.message.contains(says), "{path} {body}: {}", problem.message);
    }
    // Each operation has its own action, and a hidden key answers like a missing one.
    let all = std::mem::take(&mut local.token);
    let limited =
        |caveat: &str| gabion_kms_server::attenuate_token(&all, &[caveat.into()]).unwrap();
    local.token = limited("actions=sign");
    let other = local.client();
    assert_eq!(refused(other.encrypt(&encrypt("data"))).code, "denied");
    assert_eq!(refused(other.decrypt(&decrypt("data", &made))).code, "denied");
    assert_eq!(refused(other.random(&Random::default())).code, "denied");
    local.token = limited("key_prefix=web-");
    let other = local.client();
    assert_eq!(refused(other.decrypt(&decrypt("data", &made))).code, "not_found");
    assert_eq!(
        refused(other.encaps(&Encaps { key: "box".into(), ..Encaps::default() })).code,
        "not_found"
    );
}

/// Inputs and outputs appear in no record, metric or message.
#[test]
fn secrets_appear_in_responses_only() {
    let (local, client) = with_keys();
    let mut secrets = vec![TEXT.to_vec()];
    let made = client.encrypt(&encrypt("data")).unwrap();
    client.decrypt(&decrypt("data", &made)).unwrap();
    let plaintext = Secret::of_bytes(TEXT);
    let wrap = Wrap { key: "data".into(), plaintext, ..Wrap::default() };
    client.unwrap(&decrypt("data", &client.wrap(&wrap).unwrap())).unwrap();
    let datakey = Datakey { key: "data".into(), ..Datakey::default() };
    let datakey = client.datakey(&datakey).unwrap().plaintext.unwrap();
    let encaps = client.encaps(&Encaps { key: "box".into(), ..Encaps::default() }).unwrap();
    let drawn = client.random(&Random::default()).unwrap().random_bytes;
    for secret in [&datakey, &encaps.secret, &drawn] {
        secrets.push(secret.bytes().unwrap().to_vec());
    }
    let message = Secret::of_bytes(TEXT);
    client.hmac(&Hmac { key: "tags".into(), message, ..Hmac::default() }).unwrap();
    let mut said = Vec::new();
    let (wrong, plain) = (encode(TEXT), String::from_utf8(TEXT.to_vec()).unwrap());
    for (path, body) in [
        ("encrypt", json!({"key": "sig", "plaintext": wrong})),
        ("encrypt", json!({"key": "data", "plaintext": plain})),
        ("encrypt", json!({"key": "data", "plaintext": [plain]})),
        ("encrypt", json!({"key": "data", "plaintext": {"a": plain}})),
        ("wrap", json!({"key": "sig", "plaintext": wrong})),
        ("hmac", json!({"key": "tags", "message": plain})),
        ("hmac", json!({"key": "sig", "message": wrong})),
        ("hmac/verify", json!({"key": "tags", "message": wrong, "tag": "AAAA"})),
        ("decrypt", json!({"key": "data", "ciphertext": encode(b"x")})),
    ] {
        let problem = refused(client.post::<Value>(&format!("/v1/kms/{path}"), &body));
        said.push(serde_json::to_string(&problem).unwrap());
    }
    let records: Value = client.get("/v1/kms/audit?limit=1000").unwrap();
    assert!(records["records"].as_array().unwrap().len() > 20, "{records}");
    said.push(records.to_string());
    said.push(local.exchange("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    for secret in secrets {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = String::from_utf8_lossy(&secret).into_owned();
        for form in [encode(&secret), hex, text] {
            assert!(said.iter().all(|said| !said.contains(&form)), "{form}: {said:?}");
        }
    }
    // A plain digest of what is easily guessed tells it.
    let digest: gabion_kms::Prehash = "SHA2-256".parse().unwrap();
    let digest: String = digest.digest(TEXT).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(said.iter().all(|said| !said.contains(&digest)));
}
