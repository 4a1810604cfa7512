//! Vault's paths. Each request that OpenBao 2.6.2 answers wrongly (kms: each was tried) has a test
//! by name.

use gabion_kms_wire::native::CreateToken;
use gabion_kms_wire::{decode, encode};
use serde_json::{Value, json};

use super::raw::Local;

const NONE: Value = Value::Null;

/// A server with a key of each name and type.
pub fn with_keys(keys: &[(&str, &str)]) -> Local {
    let local = Local::start();
    for (name, of) in keys {
        let (status, _) =
            local.ask("POST", &format!("/v1/transit/keys/{name}"), &json!({"type": of}));
        assert_eq!(status, 200, "{name}");
    }
    local
}

/// Returns the data of a successful response.
#[track_caller]
pub fn data(answer: (u16, Value)) -> Value {
    assert_eq!(answer.0, 200, "{answer:?}");
    assert!(answer.1["request_id"].is_string());
    answer.1["data"].clone()
}

/// The one message of a refusal.
#[track_caller]
pub fn refused(answer: (u16, Value), status: u16) -> String {
    assert_eq!(answer.0, status, "{answer:?}");
    answer.1["errors"][0].as_str().unwrap().to_owned()
}

#[test]
fn keys_have_vaults_types_openbaos_and_ours() {
    let local = Local::start();
    for (name, body, of, set) in [
        ("a", json!({"type": "ml-dsa", "parameter_set": "65", "name": "a"}), "ml-dsa", json!("65")),
        ("b", json!({"type": "mldsa-44"}), "ml-dsa", json!("44")),
        ("c", json!({"type": "ML-DSA-87", "exportable": "false"}), "ml-dsa", json!("87")),
        (
            "d",
            json!({"type": "ed25519", "derived": false, "auto_rotate_period": "0h"}),
            "ed25519",
            NONE,
        ),
        ("e", json!({"type": "ecdsa-p256", "key_size": 0}), "ecdsa-p256", NONE),
    ] {
        let path = format!("/v1/transit/keys/{name}");
        let made = data(local.ask("PUT", &path, &body));
        assert_eq!((&made["type"], &made["parameter_set"]), (&json!(of), &set), "{name}");
        assert_eq!(data(local.ask("GET", &path, &NONE)), made);
    }
    let names = data(local.ask("LIST", "/v1/transit/keys", &NONE));
    assert_eq!(names, json!({"keys": ["a", "b", "c", "d", "e"]}));
    assert_eq!(data(local.ask("GET", "/v1/transit/keys?list=true", &NONE)), names);
    let some = data(local.ask("LIST", "/v1/transit/keys?after=b&limit=2", &NONE));
    assert_eq!(some, json!({"keys": ["c", "d"]}));
    refused(local.ask("GET", "/v1/transit/keys", &NONE), 405);
    let again = local.ask("POST", "/v1/transit/keys/d", &json!({"type": "ed25519"}));
    assert_eq!(again.1["warnings"], json!(["key d already existed"]));
    data(again);
    refused(local.ask("POST", "/v1/transit/keys/d", &json!({"type": "ecdsa-p256"})), 400);
    for (body, says) in [
        (
            json!({"type": "aes128-cmac"}),
            "unsupported: keys of the type `aes128-cmac` are not supported",
        ),
        (json!({"type": "hmac", "key_size": 64}), "unsupported: `key_size`"),
        (json!({"type": "ml-kem-768"}), "unsupported: keys of the type"),
        (json!({"type": "rsa-1024"}), "unknown key type"),
        (json!({"type": "nonsense"}), "unknown key type"),
        (json!({"type": "ed25519", "derived": "true"}), "unsupported: `derived`"),
        (json!({"type": "ed25519", "exportable": true}), "unsupported: `exportable`"),
        (
            json!({"type": "ed25519", "auto_rotate_period": "59m"}),
            "a key is not rotated every 3540 s",
        ),
        (json!({"type": "ed25519", "auto_rotate_period": 1}), "a key is not rotated every 1 s"),
        (json!({"type": "ed25519", "auto_rotate_period": "soon"}), "invalid `auto_rotate_period`"),
        (json!({"type": "ed25519", "auto_rotate_period": -3600}), "invalid `auto_rotate_period`"),
        (json!({"type": "ed25519", "auto_rotate_period": 3600.5}), "invalid `auto_rotate_period`"),
        (json!({"type": "ed25519", "auto_rotate_period": true}), "invalid `auto_rotate_period`"),
        (json!({"type": "ed25519", "name": "y"}), "`name` is another one"),
        (json!({"type": "ed25519", "tpye": "x"}), "unknown field `tpye`"),
    ] {
        let said = refused(local.ask("POST", "/v1/transit/keys/x", &body), 400);
        assert!(said.contains(says), "{body}: {said}");
    }
    assert_eq!(local.ask("GET", "/v1/transit/keys/x", &NONE).0, 404);
}

#[test]
fn signatures_verify_across_rotations_and_public_keys_are_vaults() {
    let local = with_keys(&[("ed", "ed25519"), ("ml", "ml-dsa-65"), ("ec", "ecdsa-p256")]);
    for name in ["ed", "ml", "ec"] {
        let ask = |verb: &str, body: Value| {
            local.ask("POST", &format!("/v1/transit/{verb}/{name}"), &body)
        };
        let input = encode(b"message");
        let first = data(ask("sign", json!({"input": input})));
        assert_eq!(first["key_version"], 1);
        let first = first["signature"].as_str().unwrap().to_owned();
        assert!(first.starts_with("vault:v1:"));
        data(local.ask("POST", &format!("/v1/transit/keys/{name}/rotate"), &NONE));
        let second = data(ask("sign", json!({"input": input})))["signature"].clone();
        assert!(second.as_str().unwrap().starts_with("vault:v2:"));
        for (input, signature, is_valid) in [
            (b"message", first.as_str(), true),
            (b"massage", &first, false),
            (b"message", second.as_str().unwrap(), true),
            (b"message", &first.replace(":v1:", ":v2:"), false),
        ] {
            let body = json!({"input": encode(input), "signature": signature});
            assert_eq!(data(ask("verify", body)), json!({"valid": is_valid}));
        }
        let key = data(local.ask("GET", &format!("/v1/transit/keys/{name}"), &NONE));
        let public = key["keys"]["2"]["public_key"].as_str().unwrap();
        match name {
            "ed" => assert_eq!(decode(public).unwrap().len(), 32),
            _ => assert!(public.starts_with("-----BEGIN PUBLIC KEY-----")),
        }
        let config = json!({"min_decryption_version": "2", "name": name});
        let key = data(local.ask("POST", &format!("/v1/transit/keys/{name}/config"), &config));
        assert_eq!((&key["min_decryption_version"], &key["keys"]["1"]), (&json!(2), &NONE));
        refused(ask("verify", json!({"input": input, "signature": first})), 400);
    }
}

#[test]
fn hashes_are_honoured_or_refused() {
    let local = with_keys(&[
        ("ed", "ed25519"),
        ("ml", "ml-dsa-44"),
        ("p2", "ecdsa-p256"),
        ("p3", "ecdsa-p384"),
    ]);
    let hash: gabion_kms::Prehash = "SHA2-256".parse().unwrap();
    let (message, digest) = (encode(b"message"), encode(&hash.digest(b"message")));
    let sign =
        |path: &str, body: &Value| local.ask("POST", &format!("/v1/transit/sign/{path}"), body);
    let of_message = json!({"input": message});
    let of_digest = json!({"input": digest, "prehashed": true, "hash_algorithm": "sha2-256"});
    // A digest that ECDSA would have made itself is the message's signature.
    let signed = data(sign("p2", &of_digest));
    let verified = json!({"input": message, "signature": signed["signature"]});
    assert_eq!(data(local.ask("POST", "/v1/transit/verify/p2", &verified)), json!({"valid": true}));
    // HashML-DSA's is not ML-DSA's.
    let signed = data(sign("ml", &of_digest));
    let verified = json!({"input": message, "signature": signed["signature"]});
    assert_eq!(
        data(local.ask("POST", "/v1/transit/verify/ml", &verified)),
        json!({"valid": false})
    );
    data(sign("p2/sha2-256", &of_message));
    data(sign("p3/sha2-384", &of_message));
    data(sign("ed", &json!({"input": message, "hash_algorithm": "sha2-512"})));
    for (path, body, says) in [
        ("p2/none", json!({"input": digest, "prehashed": true}), "without the name of its hash"),
        ("p2/sha2-256", json!({"input": message, "hash_algorithm": "sha2-512"}), "said twice"),
        ("ml/sha2-256", json!({"input": message}), "leave `hash_algorithm` out"),
        ("p2/md5", json!({"input": message}), "unknown hash `md5`"),
        ("p2/sha1", json!({"input": message}), "unsupported: SHA-1"),
        ("p2", json!({"input": message, "marshaling_algorithm": "raw"}), "bad_request"),
        ("p2", json!({"input": message, "marshaling_algorithm": "x"}), "unknown"),
        ("p2", json!({"input": message, "signature_algorithm": "psss"}), "unknown"),
        ("p2", json!({"input": message, "salt_length": "hash"}), "unsupported"),
        ("p2", json!({"input": message, "context": message}), "unsupported: `context`"),
        ("p2", json!({}), "missing field `input`"),
        ("p2", json!({"input": "*"}), "malformed"),
        ("p2", json!({"input": message, "batch_input": []}), "one of `input` and `batch_input`"),
    ] {
        let said = refused(sign(path, &body), 400);
        assert!(said.contains(says), "{path} {body}: {said}");
    }
    let said = refused(sign("missing", &of_message), 400);
    assert!(said.contains("not_found"), "{said}");
}

#[test]
fn openbao_1_a_misspelt_field_is_named() {
    let local = with_keys(&[("k", "ed25519")]);
    let body = json!({"input": encode(b"m"), "kye_version": 1});
    let said = refused(local.ask("POST", "/v1/transit/sign/k", &body), 400);
    assert!(said.contains("unknown field `kye_version`"), "{said}");
    let body = json!({"batch_input": [{"input": encode(b"m"), "kye_version": 1}]});
    let said = refused(local.ask("POST", "/v1/transit/sign/k", &body), 400);
    assert!(said.contains("unknown field `kye_version`"), "{said}");
}

#[test]
fn openbao_2_a_version_that_is_not_there_is_the_callers_mistake() {
    let local = with_keys(&[("k", "ed25519")]);
    for version in [json!(99), json!(-1), json!("99"), json!(4_294_967_297_i64)] {
        let body = json!({"input": encode(b"m"), "key_version": version});
        refused(local.ask("POST", "/v1/transit/sign/k", &body), 400);
    }
}

#[test]
fn openbao_3_an_items_version_is_honoured_or_the_item_is_refused() {
    let local = with_keys(&[("k", "ed25519")]);
    data(local.ask("POST", "/v1/transit/keys/k/rotate", &NONE));
    data(local.ask("POST", "/v1/transit/keys/k/config", &json!({"min_encryption_version": 1})));
    let item =
        |version: i64| json!({"input": encode(b"m"), "key_version": version, "reference": "r"});
    let body = json!({"batch_input": [item(1), item(99), item(2), item(-1), item(0)]});
    let results = data(local.ask("POST", "/v1/transit/sign/k", &body))["batch_results"].clone();
    for (place, version) in [(0, 1), (2, 2), (4, 2)] {
        let prefix = format!("vault:v{version}:");
        assert!(results[place]["signature"].as_str().unwrap().starts_with(&prefix));
        assert_eq!(results[place]["key_version"], version);
    }
    for place in [1, 3] {
        assert!(results[place]["error"].is_string() && results[place]["signature"].is_null());
    }
    assert_eq!(results[3]["reference"], "r");
}

#[test]
fn openbao_4_a_digest_is_not_signed_as_if_it_were_the_message() {
    let local = with_keys(&[("k", "ed25519")]);
    let body = json!({"input": encode(&[7; 64]), "prehashed": true, "hash_algorithm": "sha2-512"});
    let said = refused(local.ask("POST", "/v1/transit/sign/k", &body), 400);
    assert!(said.contains("unsupported"), "{said}");
}

#[test]
fn openbao_5_an_item_that_failed_has_no_version() {
    let local = with_keys(&[("k", "ed25519")]);
    let body = json!({"batch_input": [{"input": "*"}, {"input": encode(b"m")}]});
    let results = data(local.ask("POST", "/v1/transit/sign/k", &body))["batch_results"].clone();
    assert_eq!(results[0], json!({"error": "malformed: `input` is not base64"}));
    assert_eq!(results[1]["key_version"], 1);
}

#[test]
fn openbao_6_unparsable_is_malformed_and_parsable_and_wrong_is_a_verdict() {
    let local = with_keys(&[("k", "ed25519")]);
    let wrong = format!("vault:v1:{}", encode(&[1; 64]));
    let short = format!("vault:v1:{}", encode(&[1; 63]));
    let malformed =
        ["nonsense", &short, "vault:v1:*", "vault:v01:AAAA", "vault:v1", "vault:v:AAAA", ""];
    let ask = |body: Value| local.ask("POST", "/v1/transit/verify/k", &body);
    let input = encode(b"m");
    for signature in malformed {
        let said = refused(ask(json!({"input": input, "signature": signature})), 400);
        assert!(said.starts_with("malformed"), "{signature}: {said}");
    }
    assert_eq!(data(ask(json!({"input": input, "signature": wrong}))), json!({"valid": false}));
    let items: Vec<Value> = malformed
        .iter()
        .chain([&wrong.as_str()])
        .map(|signature| json!({"input": input, "signature": signature}))
        .collect();
    let results = data(ask(json!({"batch_input": items})))["batch_results"].clone();
    let results = results.as_array().unwrap();
    let (last, errors) = results.split_last().unwrap();
    assert_eq!(last, &json!({"valid": false}));
    for error in errors {
        assert!(error["error"].as_str().unwrap().starts_with("malformed"), "{error}");
        assert!(error["valid"].is_null());
    }
}

#[test]
fn vault_system_endpoints_are_answered() {
    let local = with_keys(&[("k", "ed25519")]);
    let (status, health) = local.ask("GET", "/v1/sys/health?standbyok=true", &NONE);
    assert_eq!(
        (status, &health["sealed"], &health["initialized"]),
        (200, &json!(false), &json!(true))
    );
    assert_eq!(local.ask("GET", "/v1/sys/health?activecode=204", &NONE).0, 204);
    assert_eq!(local.ask("HEAD", "/v1/sys/health", &NONE).0, 200);
    assert_eq!(local.ask("GET", "/v1/sys/seal-status", &NONE).1["sealed"], false);
    assert_eq!(local.ask("GET", "/v1/sys/init", &NONE).1["initialized"], true);
    let mounts = data(local.ask("GET", "/v1/sys/mounts", &NONE));
    assert_eq!(mounts["transit/"]["type"], "transit");
    assert!(data(local.ask("GET", "/v1/auth/token/lookup-self", &NONE))["policies"].is_array());
    assert!(refused(local.ask("GET", "/v1/secret/x", &NONE), 404).contains("no_such_path"));
    // A namespace is a tenant with its own keys.
    assert_eq!(local.ask_of("other", "GET", "/v1/transit/keys/k", &NONE).0, 404);
    data(local.ask_of("other/", "POST", "/v1/transit/keys/k", &json!({"type": "ecdsa-p256"})));
    assert_eq!(data(local.ask("GET", "/v1/transit/keys/k", &NONE))["type"], "ed25519");
}

#[test]
fn hidden_key_does_not_leak_its_algorithm() {
    let mut local = with_keys(&[("web-a", "ed25519"), ("firmware", "ecdsa-p384")]);
    let all = std::mem::take(&mut local.token);
    local.token =
        gabion_kms_server::attenuate_token(&all, &["key_prefix=web-".to_owned()]).unwrap();
    // A hash that the algorithm refuses would tell it.
    for (verb, body) in [
        ("sign", json!({"input": encode(b"text"), "hash_algorithm": "sha2-224"})),
        ("verify", json!({"input": encode(b"text"), "signature": "vault:v1:AAAA"})),
    ] {
        let ask = |key: &str| local.ask("POST", &format!("/v1/transit/{verb}/{key}"), &body);
        let (hidden, missing) = (ask("firmware"), ask("missing"));
        assert_eq!(hidden.0, missing.0, "{hidden:?} {missing:?}");
        let text = |answer: &(u16, Value)| answer.1["errors"].to_string();
        assert_eq!(text(&hidden).replace("firmware", "missing"), text(&missing));
    }
}

#[test]
fn a_batch_is_as_long_as_the_token_says() {
    let mut local = with_keys(&[("web", "mldsa-44")]);
    let all = std::mem::take(&mut local.token);
    local.token = gabion_kms_server::attenuate_token(&all, &["batch_max=2".to_owned()]).unwrap();
    let item = json!({"input": encode(b"text")});
    for (count, is_refused) in [(2, false), (3, true)] {
        let body = json!({"batch_input": vec![item.clone(); count]});
        let results = data(local.ask("POST", "/v1/transit/sign/web", &body));
        for result in results["batch_results"].as_array().unwrap() {
            assert_eq!(result["error"].is_string(), is_refused, "{result}");
        }
    }
}

#[test]
fn transit_encrypt_and_decrypt_roundtrip() {
    let local = with_keys(&[("a", "aes256-gcm96"), ("b", "chacha20-poly1305"), ("sig", "ed25519")]);
    let unnamed = data(local.ask("POST", "/v1/transit/keys/c", &json!({})));
    assert_eq!(
        (&unnamed["type"], &unnamed["supports_signing"]),
        (&json!("aes256-gcm96"), &json!(false))
    );
    for key in ["a", "b", "c"] {
        let path = |verb: &str| format!("/v1/transit/{verb}/{key}");
        let text = encode(b"of nobody's business");
        let plain = json!({"plaintext": text, "associated_data": encode(b"beside")});
        let made = data(local.ask("POST", &path("encrypt"), &plain));
        assert_eq!(made["key_version"], 1);
        let of =
            |sealed: &Value| json!({"ciphertext": sealed, "associated_data": encode(b"beside")});
        let opened = |sealed: &Value| local.ask("POST", &path("decrypt"), &of(sealed));
        assert_eq!(data(opened(&made["ciphertext"]))["plaintext"], json!(text));
        let without = json!({"ciphertext": made["ciphertext"]});
        let refusal = refused(local.ask("POST", &path("decrypt"), &without), 400);
        assert!(refusal.starts_with("decrypt_failed"), "{refusal}");
        // The newest version encrypts it anew.
        data(local.ask("POST", &format!("/v1/transit/keys/{key}/rotate"), &json!({})));
        let anew = data(local.ask("POST", &path("rewrap"), &of(&made["ciphertext"])));
        assert!(anew["ciphertext"].as_str().unwrap().starts_with("vault:v2:"));
        for sealed in [&made["ciphertext"], &anew["ciphertext"]] {
            assert_eq!(data(opened(sealed))["plaintext"], json!(text));
        }
        let items = json!([{"plaintext": text, "reference": "x"}, {"plaintext": "!"}]);
        let many = local.ask("POST", &path("encrypt"), &json!({"batch_input": items}));
        assert_eq!(many.0, 400);
        let many = many.1["data"]["batch_results"].as_array().unwrap();
        assert_eq!((&many[0]["reference"], &many[0]["key_version"]), (&json!("x"), &json!(2)));
        assert!(many[1]["error"].as_str().unwrap().starts_with("malformed"));
        for (field, value) in [("nonce", "AAAA"), ("context", "AAAA"), ("type", "ed25519")] {
            let body = json!({"plaintext": text, field: value});
            let refusal = refused(local.ask("POST", &path("encrypt"), &body), 400);
            assert!(refusal.contains(field), "{refusal}");
        }
        let datakey = |form: &str, body: Value| {
            local.ask("POST", &format!("/v1/transit/datakey/{form}/{key}"), &body)
        };
        let made = data(datakey("plaintext", json!({"bits": 512})));
        let again = json!({"ciphertext": made["ciphertext"]});
        assert_eq!(
            data(local.ask("POST", &path("decrypt"), &again))["plaintext"],
            made["plaintext"]
        );
        assert_eq!(decode(made["plaintext"].as_str().unwrap()).unwrap().len(), 64);
        assert!(data(datakey("wrapped", json!({})))["plaintext"].is_null());
        refused(datakey("plaintext", json!({"bits": 100})), 400);
        refused(datakey("open", json!({})), 400);
    }
    let body = json!({"plaintext": encode(b"text")});
    refused(local.ask("POST", "/v1/transit/encrypt/sig", &body), 400);
    refused(local.ask("POST", "/v1/transit/encrypt/missing", &body), 400);
    refused(local.ask("POST", "/v1/transit/sign/a", &json!({"input": encode(b"text")})), 400);
    let drawn = data(local.ask("POST", "/v1/transit/random/16", &json!({"format": "hex"})));
    assert_eq!(drawn["random_bytes"].as_str().unwrap().len(), 32);
    refused(local.ask("POST", "/v1/transit/random", &json!({"bytes": 0})), 400);
    refused(local.ask("POST", "/v1/transit/random/x", &json!({})), 400);
}

#[test]
fn a_batch_that_encrypts_is_as_long_as_the_token_says() {
    let mut local = with_keys(&[("a", "aes256-gcm96")]);
    let all = std::mem::take(&mut local.token);
    local.token = gabion_kms_server::attenuate_token(&all, &["batch_max=2".to_owned()]).unwrap();
    let item = json!({"plaintext": encode(b"text")});
    let ask = |count: usize| {
        local.ask(
            "POST",
            "/v1/transit/encrypt/a",
            &json!({"batch_input": vec![item.clone(); count]}),
        )
    };
    data(ask(2));
    refused(ask(3), 403);
}

#[test]
fn tags_are_made_and_verified_as_vault_has_them() {
    let local = with_keys(&[("t", "hmac"), ("long", "hmac-sha-512")]);
    let key = data(local.ask("GET", "/v1/transit/keys/t", &NONE));
    assert_eq!((&key["type"], key["keys"]["1"].is_u64()), (&json!("hmac"), true));
    let ask = |path: &str, body: Value| local.ask("POST", &format!("/v1/transit/{path}"), &body);
    let input = encode(b"message");
    let first = data(ask("hmac/t", json!({"input": input})))["hmac"].clone();
    assert!(first.as_str().unwrap().starts_with("vault:v1:"));
    data(ask("keys/t/rotate", json!({})));
    let second = data(ask("hmac/t/sha2-256", json!({"input": input, "key_version": 0})));
    assert!(second["hmac"].as_str().unwrap().starts_with("vault:v2:"));
    data(ask("hmac/long", json!({"input": input, "algorithm": "sha2-512"})));
    let other = encode(b"massage");
    for (input, tag, is_valid) in [(&input, &first, true), (&other, &first, false)] {
        let body = json!({"input": input, "hmac": tag});
        assert_eq!(data(ask("verify/t", body)), json!({"valid": is_valid}));
    }
    let items = json!([{"input": input, "reference": "x"}, {"input": "*"}, {}]);
    let many = data(ask("hmac/t", json!({"batch_input": items})))["batch_results"].clone();
    assert_eq!((&many[0]["reference"], &many[0]["hmac"]), (&json!("x"), &second["hmac"]));
    assert!(many[1]["error"].as_str().unwrap().starts_with("malformed"));
    assert!(many[2]["error"].as_str().unwrap().contains("missing field `input`"));
    let items = json!([
        {"input": input, "hmac": first},
        {"input": other, "hmac": first},
        {"input": input, "hmac": "vault:v1:AAAA"},
        {"input": input, "hmac": first, "signature": first},
        {"input": input, "signature": first},
    ]);
    let many = data(ask("verify/t", json!({"batch_input": items})))["batch_results"].clone();
    assert_eq!((&many[0], &many[1]), (&json!({"valid": true}), &json!({"valid": false})));
    assert!(many[2]["error"].as_str().unwrap().starts_with("malformed"));
    for at in [3, 4] {
        assert!(many[at]["error"].as_str().unwrap().contains("one of `signature` and `hmac`"));
    }
    for (path, body, says) in [
        ("hmac/t/none", json!({"input": input}), "tags need a hash"),
        ("hmac/t/shake128", json!({"input": input}), "unsupported: hmac-sha-256 makes tags by"),
        ("hmac/long", json!({"input": input}), "say sha2-512"),
        ("hmac/t/sha2-384", json!({"input": input}), "unsupported: hmac-sha-256 makes tags by"),
        ("hmac/t/sha2-256", json!({"input": input, "algorithm": "sha2-512"}), "said twice"),
        ("hmac/t/md5", json!({"input": input}), "unknown hash `md5`"),
        ("hmac/t", json!({"input": input, "key_version": 9}), "not_found"),
        ("hmac/t", json!({"input": input, "key_version": 1}), "version_not_allowed"),
        ("hmac/t", json!({"input": input, "batch_input": []}), "not both"),
        ("hmac/t", json!({"input": input, "context": input}), "unknown field `context`"),
        ("hmac/missing", json!({"input": input}), "not_found"),
        ("verify/long", json!({"input": input, "hmac": first}), "say sha2-512"),
        ("verify/t", json!({"input": input, "hmac": first, "prehashed": true}), "`prehashed`"),
        ("verify/t", json!({"input": input, "hmac": "vault:v1:*"}), "malformed"),
        ("verify/t", json!({"input": input, "cmac": first}), "unsupported"),
        ("sign/t", json!({"input": input}), "unsupported"),
    ] {
        let said = refused(ask(path, body.clone()), 400);
        assert!(said.contains(says), "{path} {body}: {said}");
    }
}

#[test]
fn a_key_is_deleted_where_its_configuration_and_the_token_allow_it() {
    let mut local = with_keys(&[("k", "ed25519"), ("kept", "ed25519")]);
    let delete =
        |local: &Local, key: &str| local.ask("DELETE", &format!("/v1/transit/keys/{key}"), &NONE);
    assert!(refused(delete(&local, "k"), 400).contains("deletion_allowed"));
    for key in ["k", "kept"] {
        let config = json!({"deletion_allowed": "true"});
        let known = data(local.ask("POST", &format!("/v1/transit/keys/{key}/config"), &config));
        assert_eq!(known["deletion_allowed"], true);
    }
    // Deleting destroys: who may not do that leaves it as it is.
    let all = std::mem::take(&mut local.token);
    let limits = ["actions=delete,show,sign".to_owned()];
    local.token = gabion_kms_server::attenuate_token(&all, &limits).unwrap();
    assert!(refused(delete(&local, "k"), 403).contains("denied"));
    data(local.ask("POST", "/v1/transit/sign/k", &json!({"input": encode(b"m")})));
    local.token = all;
    assert_eq!(delete(&local, "k"), (204, NONE));
    assert_eq!(local.ask("GET", "/v1/transit/keys/k", &NONE).0, 404);
    refused(delete(&local, "k"), 400);
    data(local.ask("POST", "/v1/transit/keys/k", &json!({"type": "ecdsa-p256"})));
    let config = json!({"deletion_allowed": false});
    data(local.ask("POST", "/v1/transit/keys/kept/config", &config));
    refused(delete(&local, "kept"), 400);
}

#[test]
fn a_token_is_not_renewed_beyond_its_end_and_revokes_itself() {
    let mut local = Local::start();
    let day = CreateToken { principal: "ci".into(), ..CreateToken::default() };
    let day = local.client().create_token(&day).unwrap();
    local.token = day.token.expose().to_owned().into();
    let renew = |body: &Value| local.ask("POST", "/v1/auth/token/renew-self", body);
    for body in [
        NONE,
        json!({}),
        json!({"increment": 0}),
        json!({"increment": "1h"}),
        json!({"increment": "30m"}),
    ] {
        let (status, answer) = renew(&body);
        assert_eq!(status, 200, "{body}: {answer}");
        let left = answer["auth"]["lease_duration"].as_u64().unwrap();
        assert!((86_000..=86_400).contains(&left) && answer["auth"]["renewable"] == false);
        assert_eq!(answer["auth"]["client_token"], "");
    }
    for increment in [json!("2d"), json!(86_401), json!("25h"), json!(u64::MAX)] {
        let said = refused(renew(&json!({"increment": increment})), 400);
        assert!(said.starts_with("unsupported: ") && said.contains("cannot be extended"), "{said}");
    }
    for increment in [
        json!(-1),
        json!(1.5),
        json!("x"),
        json!("h"),
        json!("+1"),
        json!("1hh"),
        json!("1 h"),
        json!("99999999999999999d"),
        json!([1]),
        json!(true),
    ] {
        let said = refused(renew(&json!({"increment": increment})), 400);
        assert!(said.starts_with("bad_request: "), "{increment}: {said}");
    }
    assert!(refused(renew(&json!({"incremnt": 1})), 400).contains("incremnt"));
    assert!(refused(renew(&json!({"token": "x"})), 400).starts_with("unsupported"));
    let less =
        gabion_kms_server::attenuate_token(&local.token, &["actions=list".to_owned()]).unwrap();
    let as_less = |method: &str, path: &str| {
        let answer = local.exchange(&format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\n\r\n",
            *less
        ));
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(as_less("GET", "/v1/kms/keys"), "200");
    assert_eq!(as_less("POST", "/v1/auth/token/revoke-self"), "204");
    assert_eq!(as_less("GET", "/v1/kms/keys"), "401");
    assert_eq!(as_less("POST", "/v1/auth/token/revoke-self"), "403");
    // The one that it was made of is still one, until it revokes itself.
    data(local.ask("GET", "/v1/auth/token/lookup-self", &NONE));
    assert_eq!(local.ask("POST", "/v1/auth/token/revoke-self", &json!({})).0, 204);
    assert_eq!(local.ask("GET", "/v1/auth/token/lookup-self", &NONE).0, 403);
}

/// Vault's own client writes `null` where it has nothing to say: `vault write -f
/// transit/keys/k/rotate`.
#[test]
fn null_is_no_body_on_vaults_paths() {
    let local = Local::start();
    let ask = |path: &str, body: &str| {
        let answer = local.exchange(&format!(
            "PUT {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\nContent-Length: {}\r\n\r\n{body}",
            *local.token,
            body.len()
        ));
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(ask("/v1/transit/keys/k", "null"), "200");
    assert_eq!(ask("/v1/transit/keys/k/rotate", "null\n"), "200");
    assert_eq!(ask("/v1/transit/keys/k/rotate", "nul"), "400");
    assert_eq!(ask("/v1/transit/encrypt/k", "null"), "400");
    assert_eq!(ask("/v1/kms/policies/p", "null"), "400");
}

/// hvac's `Client.list` sends `list=True`, HashiCorp's generated Go client a slash at the end, curl
/// the method LIST.
#[test]
fn list_requests_are_accepted_in_every_client_form() {
    let local = with_keys(&[("a", "ed25519"), ("b", "ed25519")]);
    let names = json!({"keys": ["a", "b"]});
    for path in ["/v1/transit/keys", "/v1/transit/keys/"] {
        assert_eq!(data(local.ask("LIST", path, &NONE)), names, "{path}");
        for yes in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(data(local.ask("GET", &format!("{path}?list={yes}"), &NONE)), names);
        }
        for no in ["?list=0", "?list=f", "?list=F", "?list=FALSE", "?list=false", "?list=False"] {
            assert_eq!(local.ask("GET", &format!("{path}{no}"), &NONE).0, 405, "{no}");
        }
        assert_eq!(local.ask("GET", path, &NONE).0, 405);
        assert_eq!(local.ask("GET", &format!("{path}?list="), &NONE).0, 405);
        assert_eq!(local.ask("POST", path, &json!({})).0, 405);
        for wrong in ["yes", "2", "tRUE"] {
            let refusal = refused(local.ask("GET", &format!("{path}?list={wrong}"), &NONE), 400);
            assert!(refusal.contains("`list`"), "{refusal}");
        }
        let page = data(local.ask("LIST", &format!("{path}?after=a&limit=1"), &NONE));
        assert_eq!(page, json!({"keys": ["b"]}));
    }
    assert_eq!(local.ask("LIST", "/v1/transit/keys//", &NONE).0, 404);
    assert_eq!(local.ask("GET", "/v1/transit/keys/a/", &NONE).0, 404);
}

/// Booleans in bodies have equal spellings; Vault's command line sends them as text.
#[test]
fn booleans_of_bodies_have_the_same_spellings() {
    let local = with_keys(&[("d", "ml-dsa-65")]);
    let digest = encode(&[7; 32]);
    for yes in ["1", "T", "True", "true"] {
        let body = json!({"input": digest, "prehashed": yes});
        data(local.ask("POST", "/v1/transit/sign/d", &body));
    }
    let body = json!({"input": digest, "prehashed": "yes"});
    assert_eq!(local.ask("POST", "/v1/transit/sign/d", &body).0, 400);
}

/// Terraform and generated clients send every field, including empty ones next to the batch.
#[test]
fn an_empty_item_beside_a_batch_asks_for_nothing() {
    let local = with_keys(&[("s", "ed25519"), ("c", "aes256-gcm96"), ("t", "hmac")]);
    let ask = |path: &str, body: &Value| local.ask("POST", &format!("/v1/transit/{path}"), body);
    let text = encode(b"text");
    let one = |path: &str, item: &Value, empty: &[&str]| -> Value {
        let mut body = json!({"batch_input": [item]});
        empty.iter().for_each(|field| body[field] = json!(""));
        let answer = data(ask(path, &body))["batch_results"][0].clone();
        // A field that is not empty would be ignored.
        body[empty[0]] = json!("AAAA");
        assert_eq!(ask(path, &body).0, 400, "{path}");
        answer
    };
    let signed = one("sign/s", &json!({"input": text}), &["input"]);
    let item = json!({"input": text, "signature": signed["signature"]});
    assert_eq!(one("verify/s", &item, &["input", "signature", "hmac"])["valid"], true);
    let tag = one("hmac/t", &json!({"input": text}), &["input"]);
    let item = json!({"input": text, "hmac": tag["hmac"]});
    assert_eq!(one("verify/t", &item, &["input", "signature", "hmac"])["valid"], true);
    let all = ["plaintext", "associated_data", "context", "nonce"];
    let made = one("encrypt/c", &json!({"plaintext": text}), &all);
    let all = ["ciphertext", "associated_data", "context", "nonce"];
    let item = json!({"ciphertext": made["ciphertext"]});
    assert_eq!(one("decrypt/c", &item, &all)["plaintext"], json!(text));
    assert!(one("rewrap/c", &item, &all)["ciphertext"].is_string());
}

#[test]
fn a_caller_is_told_what_it_may_do_at_paths() {
    let mut local = with_keys(&[("web-1", "ed25519"), ("other", "ed25519")]);
    assert_eq!(local.ask("GET", "/v1/sys/leader", &NONE).1["ha_enabled"], false);
    let paths = [
        "transit/sign/web-1",
        "transit/sign/other",
        "transit/sign/missing",
        "transit/keys/web-2",
        "transit/keys/other",
        "transit/keys",
        "/transit/keys/",
        "transit/random/8",
        "sys/health",
        "secret/x",
    ];
    let ask = |local: &Local, body: &Value| local.ask("POST", "/v1/sys/capabilities-self", body);
    let all = data(ask(&local, &json!({"paths": paths})));
    for (path, wanted) in paths.iter().zip([
        json!(["update"]),
        json!(["update"]),
        json!(["deny"]),
        json!(["create", "update"]),
        json!(["create", "delete", "read", "update"]),
        json!(["list"]),
        json!(["list"]),
        json!(["update"]),
        json!(["read"]),
        json!(["deny"]),
    ]) {
        assert_eq!(all[path], wanted, "{path}");
    }
    let whole = std::mem::take(&mut local.token);
    let caveats = ["key_prefix=web-".to_owned(), "actions=sign,show".to_owned()];
    local.token = gabion_kms_server::attenuate_token(&whole, &caveats).unwrap();
    let some = data(ask(&local, &json!({"paths": paths.join(",")})));
    for (path, wanted) in paths.iter().zip([
        json!(["update"]),
        json!(["deny"]),
        json!(["deny"]),
        json!(["deny"]),
        json!(["deny"]),
        json!(["deny"]),
        json!(["deny"]),
        json!(["deny"]),
        json!(["read"]),
        json!(["deny"]),
    ]) {
        assert_eq!(some[path], wanted, "{path}");
    }
    // The reported permissions apply.
    assert_eq!(local.ask("POST", "/v1/transit/sign/web-1", &json!({"input": ""})).0, 200);
    assert_eq!(local.ask("POST", "/v1/transit/keys/web-2", &json!({"type": "ed25519"})).0, 403);
    // Go's client sends the token once more, and reads `capabilities`.
    let one = json!({"path": "transit/sign/web-1", "token": &*local.token});
    let one = data(ask(&local, &one));
    assert_eq!(
        (&one["capabilities"], &one["transit/sign/web-1"]),
        (&json!(["update"]), &json!(["update"]))
    );
    let other = json!({"path": "transit/sign/web-1", "token": &*whole});
    assert!(refused(ask(&local, &other), 400).starts_with("unsupported"));
    for body in [
        json!({}),
        json!({"paths": []}),
        json!({"path": "a", "paths": ["b"]}),
        json!({"paths": vec!["a"; 65]}),
    ] {
        assert_eq!(ask(&local, &body).0, 400, "{body}");
    }
}
