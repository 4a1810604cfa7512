//! Documented fields of Vault's and OpenBao's Transit that were neither supported nor rejected by
//! name.

use gabion_kms_wire::encode;
use serde_json::{Value, json};

use super::transit::{data, refused, with_keys};

#[test]
fn every_field_of_the_pages_is_honoured_or_refused_as_unsupported() {
    let local = with_keys(&[
        ("sig", "ed25519"),
        ("data", "aes256-gcm96"),
        ("rsa", "rsa-2048"),
        ("tags", "hmac"),
    ]);
    let text = encode(b"text");
    let ask = |path: &str, body: &Value| local.ask("POST", &format!("/v1/transit/{path}"), body);
    let signature = data(ask("sign/sig", &json!({"input": text})))["signature"].clone();
    let ciphertext = data(ask("encrypt/data", &json!({"plaintext": text})))["ciphertext"].clone();
    let of_rsa = data(ask("encrypt/rsa", &json!({"plaintext": text})))["ciphertext"].clone();
    let tag = data(ask("hmac/tags", &json!({"input": text})))["hmac"].clone();
    let (sign, verify) = (json!({"input": text}), json!({"input": text, "signature": signature}));
    let (encrypt, decrypt) = (json!({"plaintext": text}), json!({"ciphertext": ciphertext}));
    let (of_tag, rewrap) = (json!({"input": text, "hmac": tag}), json!({"ciphertext": of_rsa}));
    let with = |body: &Value, field: &str, value: Value| {
        let mut body = body.clone();
        body[field] = value;
        body
    };
    let (a, one, pkcs1) = (json!("AAAA"), json!(1), json!("pkcs1v15"));
    for (path, body, field, value) in [
        ("sign/sig", &sign, "signature_context", &a),
        ("sign/sig", &sign, "reference", &a),
        ("verify/sig", &verify, "signature_context", &a),
        ("verify/sig", &verify, "reference", &a),
        ("verify/sig", &verify, "mac_length", &one),
        ("verify/tags", &of_tag, "mac_length", &one),
        ("verify/tags", &of_tag, "signature_context", &a),
        ("hmac/tags", &sign, "reference", &a),
        ("encrypt/data", &encrypt, "reference", &a),
        ("encrypt/rsa", &encrypt, "padding_scheme", &pkcs1),
        ("decrypt/data", &decrypt, "reference", &a),
        ("decrypt/rsa", &rewrap, "padding_scheme", &pkcs1),
        ("rewrap/rsa", &rewrap, "decrypt_padding_scheme", &pkcs1),
        ("rewrap/rsa", &rewrap, "encrypt_padding_scheme", &pkcs1),
        ("datakey/plaintext/data", &json!({}), "key_version", &one),
        ("datakey/wrapped/rsa", &json!({}), "padding_scheme", &pkcs1),
    ] {
        let refusal = refused(ask(path, &with(body, field, value.clone())), 400);
        assert!(
            refusal.starts_with("unsupported: ") && refusal.contains(field),
            "{path}: {refusal}"
        );
        // An empty value is ignored.
        let nothing = if value.is_string() { json!("") } else { json!(0) };
        data(ask(path, &with(body, field, nothing)));
    }
    for (path, body, field) in [
        ("encrypt/rsa", &encrypt, "padding_scheme"),
        ("decrypt/rsa", &rewrap, "padding_scheme"),
        ("rewrap/rsa", &rewrap, "encrypt_padding_scheme"),
        ("datakey/plaintext/rsa", &json!({}), "padding_scheme"),
    ] {
        data(ask(path, &with(body, field, json!("oaep"))));
        let refusal = refused(ask(path, &with(body, field, json!("opae"))), 400);
        assert!(refusal.starts_with("bad_request"), "{refusal}");
    }
    let items = json!([with(&encrypt, "padding_scheme", pkcs1)]);
    let (status, many) = ask("encrypt/rsa", &json!({"batch_input": items}));
    let error = many["data"]["batch_results"][0]["error"].as_str().unwrap().to_owned();
    assert!(status == 400 && error.starts_with("unsupported"), "{error}");
}

/// The associated data of a data key is needed for decryption.
#[test]
fn data_key_is_bound_to_its_associated_data() {
    let local = with_keys(&[("data", "aes256-gcm96")]);
    let ask = |path: &str, body: &Value| local.ask("POST", &format!("/v1/transit/{path}"), body);
    let beside = json!({"associated_data": encode(b"beside")});
    let made = data(ask("datakey/plaintext/data", &beside));
    let mut again = json!({"ciphertext": made["ciphertext"]});
    refused(ask("decrypt/data", &again), 400);
    again["associated_data"] = beside["associated_data"].clone();
    assert_eq!(data(ask("decrypt/data", &again))["plaintext"], made["plaintext"]);
}

/// Vault's page: 400 where an item failed, or what the caller wants where others did not.
#[test]
fn a_batch_of_which_items_failed_has_the_status_that_vault_gives() {
    let local = with_keys(&[("data", "aes256-gcm96"), ("sig", "ed25519")]);
    let ask = |path: &str, body: Value| local.ask("POST", &format!("/v1/transit/{path}"), &body);
    let good = json!({"plaintext": encode(b"text")});
    let ciphertext = data(ask("encrypt/data", good.clone()))["ciphertext"].clone();
    let bad = json!({"plaintext": "!"});
    for (verb, good, bad) in [
        ("encrypt", good, bad),
        ("decrypt", json!({"ciphertext": ciphertext}), json!({"ciphertext": "vault:v1:AAAA"})),
    ] {
        let status = |items: &[&Value], code: Value| {
            let body = json!({"batch_input": items, "partial_failure_response_code": code});
            let (status, answer) = ask(&format!("{verb}/data"), body);
            let results = answer["data"]["batch_results"].as_array().unwrap();
            assert_eq!(results.len(), items.len());
            for (item, result) in items.iter().zip(results) {
                assert_eq!(result["error"].is_string(), **item == bad, "{answer}");
            }
            status
        };
        for (code, some) in
            [(Value::Null, 400), (json!(0), 400), (json!(200), 200), (json!("207"), 207)]
        {
            assert_eq!(status(&[&good, &good], code.clone()), 200);
            assert_eq!(status(&[&good, &bad], code.clone()), some, "{verb} {code}");
            assert_eq!(status(&[&bad, &bad], code), 400);
        }
        for code in [-1, 1, 100, 199, 204, 205, 304, 600, 70_000] {
            let body = json!({"batch_input": [good], "partial_failure_response_code": code});
            let refusal = refused(ask(&format!("{verb}/data"), body), 400);
            assert!(refusal.contains("partial_failure_response_code"), "{refusal}");
        }
    }
    // Signatures have 200 there, too.
    let items = json!([{"input": encode(b"text")}, {"input": "!"}]);
    assert_eq!(ask("sign/sig", json!({"batch_input": items})).0, 200);
}

#[test]
fn versions_are_trimmed_and_keys_deleted_softly() {
    let local = with_keys(&[("k", "ed25519")]);
    let ask = |method: &str, path: &str, body: Value| {
        local.ask(method, &format!("/v1/transit/keys/k{path}"), &body)
    };
    let of = |version: u32| json!({"min_available_version": version});
    data(ask("POST", "/rotate", json!({})));
    data(ask("POST", "/rotate", json!({})));
    let refusal = refused(ask("POST", "/trim", of(2)), 400);
    assert!(refusal.contains("min_encryption_version"), "{refusal}");
    data(ask("POST", "/config", json!({"min_decryption_version": 2, "min_encryption_version": 3})));
    for wrong in [json!({}), of(0), of(3), of(9), json!({"min_available": 2})] {
        refused(ask("POST", "/trim", wrong), 400);
    }
    let trimmed = data(ask("POST", "/trim", of(2)));
    assert_eq!(trimmed["min_available_version"], 2);
    let versions: Vec<&String> = trimmed["keys"].as_object().unwrap().keys().collect();
    assert_eq!(versions, ["2", "3"]);
    // OpenBao's.
    assert_eq!(ask("DELETE", "/soft-delete", Value::Null).0, 204);
    assert_eq!(data(ask("GET", "", Value::Null))["soft_deleted"], true);
    let input = json!({"input": encode(b"text")});
    let sign = || local.ask("POST", "/v1/transit/sign/k", &input);
    assert_eq!(sign().0, 409);
    assert_eq!(data(ask("POST", "/soft-delete-restore", json!({})))["soft_deleted"], false);
    data(sign());
    refused(ask("POST", "/soft-delete-restore", json!({})), 400);
}

#[test]
fn public_keys_are_exported_and_other_exports_unsupported() {
    let local = with_keys(&[("k", "ecdsa-p256"), ("data", "aes256-gcm96")]);
    let get = |path: &str| local.ask("GET", &format!("/v1/transit/{path}"), &Value::Null);
    let post = |path: &str, body: Value| local.ask("POST", &format!("/v1/transit/{path}"), &body);
    data(post("keys/k/rotate", json!({})));
    let read = data(get("keys/k"));
    let all = data(get("export/public-key/k"));
    assert_eq!((&all["name"], &all["type"]), (&json!("k"), &json!("ecdsa-p256")));
    assert_eq!(all["keys"].as_object().unwrap().len(), 2);
    for version in ["1", "2"] {
        assert_eq!(all["keys"][version], read["keys"][version]["public_key"]);
        let one = data(get(&format!("export/public-key/k/{version}")));
        assert_eq!(one["keys"], json!({version: all["keys"][version]}));
    }
    let latest = data(get("export/public-key/k/latest"));
    assert_eq!(latest["keys"], json!({"2": all["keys"]["2"]}));
    for path in ["k/0", "k/3", "k/x", "k?format=der", "data"] {
        refused(get(&format!("export/public-key/{path}")), 400);
    }
    for kind in ["signing-key", "encryption-key", "hmac-key", "nonsense"] {
        refused(get(&format!("export/{kind}/k")), 400);
    }
    assert_eq!(data(get("config/keys"))["disable_upsert"], true);
    data(post("config/keys", json!({"disable_upsert": true})));
    refused(post("config/keys", json!({"disable_upsert": false})), 400);
    for path in ["random/platform/8", "random/8"] {
        let drawn = data(post(path, json!({"format": "hex"})));
        assert_eq!(drawn["random_bytes"].as_str().unwrap().len(), 16, "{path}");
    }
    data(post("random/platform", json!({})));
    for path in ["random/seal", "random/all/8", "random/nonsense/8", "random/platform/x"] {
        refused(post(path, json!({})), 400);
    }
    for path in [
        "cmac/k",
        "byok-export/k/data",
        "backup/k",
        "restore",
        "restore/k",
        "cache-config",
        "keys/k/csr",
        "keys/k/set-certificate",
    ] {
        let refusal = refused(post(path, json!({})), 400);
        assert!(refusal.starts_with("unsupported"), "{refusal}");
    }
    refused(post("hsah", json!({})), 404);
}
