//! Imports by Vault's paths.

use gabion_engine::Engine;
use gabion_kms::model::Label;
use gabion_kms::transport::{Form, Place, Recipient};
use gabion_kms_wire::{decode_pem, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::transit::{data, refused};

const NONE: Value = Value::Null;

#[test]
fn rsa_wrapped_keys_are_imported() {
    let local = Local::start();
    let engine = Engine::global().unwrap();
    let key = data(local.ask("GET", "/v1/transit/wrapping_key", &NONE));
    let pem = key["public_key"].as_str().unwrap();
    let to = Recipient::of_spki(engine, &decode_pem(pem).unwrap()).unwrap();
    let any = Label::new("key", "any").unwrap();
    let wrap = |key: &[u8]| {
        let algorithm = "ed25519".parse().unwrap();
        let place = Place { tenant: &any, name: &any, algorithm, form: Form::Raw };
        encode(&to.wrap(engine, &place, key).unwrap())
    };
    let path = |name: &str, verb: &str| format!("/v1/transit/keys/{name}/{verb}");
    let aes = wrap(&[1; 32]);
    let imported = local.ask("POST", &path("aes", "import"), &json!({"ciphertext": aes}));
    assert_eq!(imported, (204, NONE));
    let shown = data(local.ask("GET", "/v1/transit/keys/aes", &NONE));
    assert_eq!((&shown["type"], &shown["imported_key"]), (&json!("aes256-gcm96"), &json!(true)));
    assert_eq!(shown["imported_key_allow_rotation"], false);
    // A key imported without `allow_rotation` gets versions only by import.
    let said = refused(local.ask("POST", &path("aes", "rotate"), &NONE), 400);
    assert!(said.contains("unsupported"), "{said}");
    let next = json!({"ciphertext": wrap(&[2; 32]), "hash_function": "SHA256", "name": "aes"});
    assert_eq!(local.ask("POST", &path("aes", "import_version"), &next), (204, NONE));
    let shown = data(local.ask("GET", "/v1/transit/keys/aes", &NONE));
    assert_eq!(shown["latest_version"], 2);

    // PKCS#8 of Ed25519 (RFC 8410, section 7).
    let der = [&b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..], &[7; 32]];
    let body = json!({
        "ciphertext": wrap(&der.concat()), "type": "ed25519", "allow_rotation": "true",
        "derived": false, "exportable": false,
    });
    assert_eq!(local.ask("PUT", &path("ed", "import"), &body).0, 204);
    data(local.ask("POST", &path("ed", "rotate"), &NONE));

    let said = refused(local.ask("POST", &path("ed", "import"), &body), 400);
    assert!(said.contains("exists"), "{said}");
    let cut = encode(&gabion_kms_wire::decode(&aes).unwrap()[..540]);
    for (body, says) in [
        (json!({"ciphertext": cut}), "decrypt_failed"),
        (json!({"ciphertext": encode(&[0; 552])}), "decrypt_failed"),
        (json!({"ciphertext": aes, "hash_function": "SHA512"}), "decrypt_failed"),
        (json!({"ciphertext": aes, "hash_function": "SHA1"}), "unsupported"),
        (json!({"ciphertext": aes, "hash_function": "MD5"}), "unknown `hash_function`"),
        (json!({"ciphertext": "*"}), "`ciphertext` is not base64"),
        (json!({"ciphertext": aes, "public_key": pem}), "expected one of"),
        (json!({}), "expected one of"),
        (json!({"ciphertext": aes, "exportable": true}), "unsupported: `exportable`"),
        (json!({"ciphertext": aes, "allow_plaintext_backup": true}), "unsupported"),
        (json!({"ciphertext": aes, "cipertext": aes}), "unknown field `cipertext`"),
        (json!({"ciphertext": aes, "type": "ed25519"}), "bad_request"),
        (json!({"public_key": "x", "type": "ed25519"}), "not a public key in PEM"),
        (json!({"public_key": pem, "type": "ed25519"}), "bad_request"),
    ] {
        let said = refused(local.ask("POST", &path("x", "import"), &body), 400);
        assert!(said.contains(says), "{body}: {said}");
    }
    assert_eq!(local.ask("GET", "/v1/transit/keys/x", &NONE).0, 404);
    let said = refused(
        local.ask("POST", &path("missing", "import_version"), &json!({"ciphertext": aes})),
        400,
    );
    assert!(said.contains("not_found"), "{said}");
    let version = json!({"ciphertext": aes, "version": 1});
    let said = refused(local.ask("POST", &path("aes", "import_version"), &version), 400);
    assert!(said.contains("`version`"), "{said}");
}

#[test]
fn a_public_key_alone_is_imported() {
    let local = Local::start();
    let there = Local::start();
    for (name, of) in [("ec", "ecdsa-p256"), ("ml", "mldsa-44")] {
        let path = format!("/v1/transit/keys/{name}");
        data(there.ask("POST", &path, &json!({"type": of})));
        let key = data(there.ask("GET", &path, &NONE));
        let body = json!({"public_key": key["keys"]["1"]["public_key"], "type": of});
        assert_eq!(local.ask("POST", &format!("{path}/import"), &body), (204, NONE));
        let sign = json!({"input": encode(b"m")});
        let signed = data(there.ask("POST", &format!("/v1/transit/sign/{name}"), &sign));
        let body = json!({"input": encode(b"m"), "signature": signed["signature"]});
        let verified = data(local.ask("POST", &format!("/v1/transit/verify/{name}"), &body));
        assert_eq!(verified, json!({"valid": true}));
        refused(local.ask("POST", &format!("/v1/transit/sign/{name}"), &sign), 400);
    }
}
