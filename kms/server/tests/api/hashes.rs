//! Vault's hashes: of signatures, of tags by keys of every type, and by themselves.

use gabion_kms_wire::{decode, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::transit::{data, refused, with_keys};

/// Digests by other hashes than the curve's: the signature is the same whether the service or the
/// caller hashes, and it is not valid for another hash.
#[test]
fn ecdsa_signs_digests_by_every_hash_of_vaults() {
    let local = with_keys(&[("p2", "ecdsa-p256"), ("p3", "ecdsa-p384"), ("p5", "ecdsa-p521")]);
    let message = encode(b"message");
    for hash in gabion_kms::rsa::Hash::ALL {
        let name = hash.prehash().name().to_ascii_lowercase();
        let digest = encode(&hash.digest(b"message"));
        for key in ["p2", "p3", "p5"] {
            let sign = format!("/v1/transit/sign/{key}/{name}");
            let signed = data(local.ask("POST", &sign, &json!({"input": message})));
            let signature = &signed["signature"];
            let verify = |hash: &str, body: Value| {
                let mut body = body;
                body["signature"] = signature.clone();
                data(local.ask("POST", &format!("/v1/transit/verify/{key}/{hash}"), &body))
            };
            let of_message = verify(&name, json!({"input": message}));
            let of_digest = verify(&name, json!({"input": digest, "prehashed": true}));
            assert_eq!([&of_message["valid"], &of_digest["valid"]], [true, true], "{key} {name}");
            let other = if name == "sha2-256" { "sha3-256" } else { "sha2-256" };
            assert_eq!(verify(other, json!({"input": message}))["valid"], false, "{key} {name}");
            let items = json!([{"input": message, "signature": signature}]);
            let body = json!({"batch_input": items, "hash_algorithm": name});
            let all = data(local.ask("POST", &format!("/v1/transit/verify/{key}"), &body));
            assert_eq!(all["batch_results"], json!([{"valid": true}]));
        }
    }
    // SHA-256 where nothing is said, as with Vault.
    let signed = data(local.ask("POST", "/v1/transit/sign/p3", &json!({"input": message})));
    let body = json!({"input": message, "signature": signed["signature"]});
    for (hash, is_valid) in [("sha2-256", true), ("sha2-384", false)] {
        let verified = data(local.ask("POST", &format!("/v1/transit/verify/p3/{hash}"), &body));
        assert_eq!(verified["valid"], is_valid, "{hash}");
    }
}

#[test]
fn messages_are_hashed_without_a_key() {
    let local = Local::start();
    let abc = encode(b"abc");
    // FIPS 180-4's and FIPS 202's examples of the message `abc`.
    for (path, body, sum) in [
        (
            "transit/hash",
            json!({}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "transit/hash/sha2-224",
            json!({}),
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        ),
        (
            "sys/tools/hash",
            json!({"algorithm": "sha3-224", "format": "hex"}),
            "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
        ),
        (
            "sys/tools/hash/sha3-256",
            json!({"urlalgorithm": "sha3-256", "format": "base64"}),
            "Ophdp0/iJbIEXBcta9OQvYVfCG4+nVJbRr/iRRFDFTI=",
        ),
    ] {
        let mut body = body;
        body["input"] = json!(abc);
        assert_eq!(data(local.ask("POST", &format!("/v1/{path}"), &body))["sum"], sum, "{path}");
    }
    for (path, body, says) in [
        ("hash", json!({}), "missing field `input`"),
        ("hash", json!({"input": "*"}), "malformed"),
        ("hash", json!({"input": abc, "format": "hexx"}), "unknown `format`"),
        ("hash/sha1", json!({"input": abc}), "unsupported"),
        ("hash/md5", json!({"input": abc}), "unknown hash"),
        ("hash/none", json!({"input": abc}), "expected a hash"),
        ("hash/sha2-224", json!({"input": abc, "algorithm": "sha2-256"}), "said twice"),
        ("hash", json!({"input": abc, "alogrithm": "sha2-256"}), "unknown field `alogrithm`"),
    ] {
        let said = refused(local.ask("POST", &format!("/v1/transit/{path}"), &body), 400);
        assert!(said.contains(says), "{path} {body}: {said}");
    }
    // A request that needs no permission has a small body limit.
    let long = json!({"input": encode(&vec![7; 16 << 10])});
    assert_eq!(local.ask("POST", "/v1/transit/hash", &long).0, 413);
    let mut stranger = local;
    stranger.token = "gbk1.nonsense".to_owned().into();
    assert_ne!(stranger.ask("POST", "/v1/transit/hash", &json!({"input": abc})).0, 200);
}

/// In Vault every key has an additional HMAC key.
#[test]
fn keys_of_every_type_make_tags() {
    let local = with_keys(&[
        ("aes", "aes256-gcm96"),
        ("chacha", "chacha20-poly1305"),
        ("ed", "ed25519"),
        ("p3", "ecdsa-p384"),
        ("rsa", "rsa-2048"),
        ("ml", "mldsa-65"),
    ]);
    let ask = |path: &str, body: Value| local.ask("POST", &format!("/v1/transit/{path}"), &body);
    let (input, other) = (encode(b"message"), encode(b"massage"));
    let mut all = Vec::new();
    for key in ["aes", "chacha", "ed", "p3", "rsa", "ml"] {
        for hash in gabion_kms::rsa::Hash::ALL {
            let name = hash.prehash().name().to_ascii_lowercase();
            let made = data(ask(&format!("hmac/{key}/{name}"), json!({"input": input})));
            let tag = made["hmac"].as_str().unwrap();
            let bytes = decode(tag.strip_prefix("vault:v1:").unwrap()).unwrap();
            assert_eq!(bytes.len(), hash.digest_len());
            let body = json!({"input": input, "hmac": tag});
            assert_eq!(data(ask(&format!("verify/{key}/{name}"), body.clone()))["valid"], true);
            let body_of_other = json!({"input": other, "hmac": tag});
            assert_eq!(data(ask(&format!("verify/{key}/{name}"), body_of_other))["valid"], false);
            all.push(bytes[..28].to_vec());
        }
        let old = data(ask(&format!("hmac/{key}"), json!({"input": input})))["hmac"].clone();
        data(ask(&format!("keys/{key}/rotate"), json!({})));
        let items = json!([{"input": input}, {"input": "*", "reference": "r"}]);
        let new = data(ask(&format!("hmac/{key}"), json!({"batch_input": items})));
        assert!(new["batch_results"][0]["hmac"].as_str().unwrap().starts_with("vault:v2:"));
        assert_eq!(new["batch_results"][1]["reference"], "r");
        let items = json!([{"input": input, "hmac": old}, {"input": input, "hmac": new["batch_results"][0]["hmac"]}]);
        let verified = data(ask(&format!("verify/{key}"), json!({"batch_input": items})));
        assert_eq!(verified["batch_results"], json!([{"valid": true}, {"valid": true}]));
        // Another version's, and one of another length.
        let moved = old.as_str().unwrap().replace("v1", "v2");
        let body = json!({"input": input, "hmac": moved});
        assert_eq!(data(ask(&format!("verify/{key}"), body))["valid"], false);
        let body = json!({"input": input, "hmac": old, "hash_algorithm": "sha2-512"});
        assert!(refused(ask(&format!("verify/{key}"), body), 400).starts_with("malformed"));
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
    let said = refused(ask("hmac/ed/shake128", json!({"input": input})), 400);
    assert!(said.contains("there is no HMAC with SHAKE-128"), "{said}");
}
