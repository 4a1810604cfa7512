//! Signatures as JWS has them: `r || s` of ECDSA, in base64url without padding.

use std::path::Path;
use std::process::Command;

use gabion_kms_client::StreamRequest;
use gabion_kms_wire::native::{Batch, BatchDone, BatchItem, Sign, Verify};
use gabion_kms_wire::{decode, decode_url, encode, encode_url};
use serde_json::{Value, json};

use super::raw::Local;
use super::transit::{data, refused, with_keys};

const ECDSA: [(&str, &str, usize, &str); 3] = [
    ("ecdsa-p256", "sha2-256", 64, "-sha256"),
    ("ecdsa-p384", "sha2-384", 96, "-sha384"),
    ("ecdsa-p521", "sha2-512", 132, "-sha512"),
];

/// DER of `r || s`, written by hand.
fn der(raw: &[u8]) -> Vec<u8> {
    let number = |half: &[u8]| {
        let first = half.iter().position(|&byte| byte != 0).unwrap();
        let mut number = half[first..].to_vec();
        if number[0] > 127 {
            number.insert(0, 0);
        }
        [vec![2, number.len() as u8], number].concat()
    };
    let (r, s) = raw.split_at(raw.len() / 2);
    let both = [number(r), number(s)].concat();
    let head = if both.len() > 127 { vec![0x30, 0x81] } else { vec![0x30] };
    [head, vec![both.len() as u8], both].concat()
}

/// Checks that OpenSSL accepts a DER signature. Does nothing if OpenSSL is missing.
fn is_openssls(folder: &Path, pem: &str, hash: &str, signature: &[u8]) {
    let path = |name: &str| folder.join(name);
    std::fs::write(path("key"), pem).unwrap();
    std::fs::write(path("sig"), signature).unwrap();
    std::fs::write(path("text"), "message").unwrap();
    let [key, sig, text] = ["key", "sig", "text"].map(path);
    let mut command = Command::new("openssl");
    command.args(["dgst", hash, "-verify"]).arg(key).arg("-signature").arg(sig).arg(text);
    if let Ok(output) = command.output() {
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn vaults_paths_write_signatures_as_jws() {
    let local = with_keys(&ECDSA.map(|(of, ..)| (of, of)));
    let ask = |path: &str, body: Value| local.ask("POST", &format!("/v1/transit/{path}"), &body);
    let input = encode(b"message");
    for (key, hash, len, openssl) in ECDSA {
        let body = json!({"input": input, "hash_algorithm": hash, "marshaling_algorithm": "jws"});
        let made = data(ask(&format!("sign/{key}"), body.clone()));
        let jws = made["signature"].as_str().unwrap().to_owned();
        assert_eq!(made["key_version"], 1);
        let raw = decode_url(jws.strip_prefix("vault:v1:").unwrap()).unwrap();
        assert_eq!(raw.len(), len, "{key}");
        let shown = data(local.ask("GET", &format!("/v1/transit/keys/{key}"), &Value::Null));
        let pem = shown["keys"]["1"]["public_key"].as_str().unwrap();
        is_openssls(local.folder.path(), pem, openssl, &der(&raw));
        let verify = |signature: &str, marshaling: &str| {
            let mut body = body.clone();
            body["signature"] = json!(signature);
            body["marshaling_algorithm"] = json!(marshaling);
            ask(&format!("verify/{key}"), body)
        };
        assert_eq!(data(verify(&jws, "jws"))["valid"], true);
        // The same signature in Vault's other form. Neither is accepted as the other.
        let asn1 = format!("vault:v1:{}", encode(&der(&raw)));
        assert_eq!(data(verify(&asn1, "asn1"))["valid"], true);
        assert_eq!(data(verify(&asn1, ""))["valid"], true);
        for (wrong, marshaling) in [
            (asn1.as_str(), "jws"),
            (jws.as_str(), "asn1"),
            (&jws[..jws.len() - 4], "jws"),
            ("vault:v1:", "jws"),
            ("vault:v0:AAAA", "jws"),
        ] {
            let (status, answer) = verify(wrong, marshaling);
            // Base64url without `-`, `_` and padding is base64 as well, here of bytes that are not
            // DER.
            if (wrong, marshaling, status) == (jws.as_str(), "asn1", 200) {
                assert_eq!(answer["data"]["valid"], false, "{key} {wrong}");
                continue;
            }
            let refusal = refused((status, answer), 400);
            assert!(refusal.starts_with("malformed"), "{key} {wrong}: {refusal}");
        }
        assert!(refused(verify(&jws, "raw"), 400).contains("expected asn1 or jws"));
        let zeros = format!("vault:v1:{}", encode_url(&vec![0; len]));
        assert_eq!(data(verify(&zeros, "jws"))["valid"], false);
        // Batches, too.
        let many = json!({"batch_input": [{"input": input}, {"input": input}],
            "hash_algorithm": hash, "marshaling_algorithm": "jws"});
        let made = data(ask(&format!("sign/{key}"), many))["batch_results"].clone();
        let items: Vec<Value> = made
            .as_array()
            .unwrap()
            .iter()
            .map(|one| json!({"input": input, "signature": one["signature"]}))
            .collect();
        let many =
            json!({"batch_input": items, "hash_algorithm": hash, "marshaling_algorithm": "jws"});
        let verified = data(ask(&format!("verify/{key}"), many))["batch_results"].clone();
        assert_eq!(verified, json!([{"valid": true}, {"valid": true}]), "{made}");
    }
}

/// Vault's format: for other algorithms the bytes are unchanged, and the text is base64url as in
/// JWS.
#[test]
fn jws_marshaling_encodes_other_signatures_as_base64url() {
    let local = with_keys(&[("ed", "ed25519"), ("rsa", "rsa-2048"), ("dsa", "ml-dsa-44")]);
    let input = encode(b"message");
    for key in ["ed", "rsa", "dsa"] {
        let ask = |verb: &str, body: &Value| {
            data(local.ask("POST", &format!("/v1/transit/{verb}/{key}"), body))
        };
        let mut body = json!({"input": input, "marshaling_algorithm": "jws"});
        body["signature"] = ask("sign", &body)["signature"].clone();
        assert_eq!(ask("verify", &body)["valid"], true);
        let bytes = decode_url(&body["signature"].as_str().unwrap()["vault:v1:".len()..]).unwrap();
        body["marshaling_algorithm"] = json!("asn1");
        body["signature"] = json!(format!("vault:v1:{}", encode(&bytes)));
        assert_eq!(ask("verify", &body)["valid"], true);
    }
}

#[test]
fn own_paths_batches_and_streams_write_signatures_as_jws() {
    let local = Local::start();
    let client = local.client();
    super::create(&client, "k", "ecdsa-p-256");
    let (message, jws) = (Some(encode(b"message")), Some("jws".to_owned()));
    let sign = Sign { message: message.clone(), marshaling: jws.clone(), ..Sign::by("k") };
    let signature = client.sign(&sign).unwrap().signature;
    assert_eq!(decode_url(&signature).unwrap().len(), 64);
    let verify = Verify {
        key: "k".into(),
        message: message.clone(),
        marshaling: jws.clone(),
        signature: signature.clone(),
        ..Verify::default()
    };
    assert!(client.verify(&verify).unwrap().valid);
    let asn1 = Verify {
        marshaling: None,
        signature: encode(&der(&decode_url(&signature).unwrap())),
        ..verify.clone()
    };
    assert!(client.verify(&asn1).unwrap().valid);
    let wrong = Verify { marshaling: None, ..verify.clone() };
    assert_eq!(super::refused(client.verify(&wrong)).code, "malformed");
    let unknown = Sign { marshaling: Some("raw".into()), ..sign.clone() };
    assert_eq!(super::refused(client.sign(&unknown)).code, "bad_request");
    let missing = Verify { key: "missing".into(), ..verify };
    assert_eq!(super::refused(client.verify(&missing)).code, "not_found");
    // A batch.
    let item = BatchItem {
        op: "sign".into(),
        key: "k".into(),
        message: message.clone(),
        marshaling: jws.clone(),
        ..BatchItem::default()
    };
    let batch = |items: Vec<BatchItem>| -> BatchDone {
        client.post("/v1/kms/batch", &Batch { items, status_if_failed: None }).unwrap()
    };
    let made = batch(vec![item.clone(), BatchItem { marshaling: None, ..item.clone() }]).results;
    let [raw, asn1] = [0, 1].map(|at| made[at].signature.clone().unwrap());
    assert_eq!(decode_url(&raw).unwrap().len(), 64);
    assert_eq!(decode(&asn1).unwrap()[0], 0x30);
    let check = |signature: &str, marshaling: Option<String>| BatchItem {
        op: "verify".into(),
        signature: Some(signature.to_owned()),
        marshaling,
        ..item.clone()
    };
    let done = batch(vec![check(&raw, jws.clone()), check(&asn1, None), check(&asn1, jws.clone())]);
    let results = &done.results;
    assert_eq!(
        (results[0].valid, results[1].valid, results[2].status),
        (Some(true), Some(true), 400)
    );
    // A body that is the message.
    let what = StreamRequest { marshaling: jws, ..StreamRequest::by("k") };
    let signed = client.sign_stream(&what, &mut &b"message"[..], Some(7)).unwrap().signature;
    let raw = decode_url(&signed).unwrap();
    assert_eq!(raw.len(), 64);
    let verify = |what: &StreamRequest, bytes: &[u8]| {
        client.verify_stream(what, &encode(bytes), &mut &b"message"[..], Some(7))
    };
    assert!(verify(&what, &raw).unwrap().valid);
    assert!(verify(&StreamRequest::by("k"), &der(&raw)).unwrap().valid);
    assert_eq!(super::refused(verify(&what, &raw[1..])).code, "malformed");
}
