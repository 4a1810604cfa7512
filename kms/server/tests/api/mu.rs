//! ML-DSA's message representative mu in place of the message.

use gabion_engine::Pieces;
use gabion_kms_client::{Client, StreamRequest};
use gabion_kms_wire::native::{Batch, BatchItem, ConfigureKey, CreateKey, Sign, Verify};
use gabion_kms_wire::{decode, encode};
use serde_json::json;

use super::raw::Local;
use super::{create, refused};

const MESSAGE: &[u8] = b"a message that stays here";

/// Computes mu with the public key that the service shows.
fn mu(client: &Client, key: &str, version: u32, context: &[u8], message: &[u8]) -> String {
    let page = client.versions(key, version - 1).unwrap();
    let pem = page.versions[0].public_key.clone().unwrap();
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    let der = decode(&lines.collect::<String>()).unwrap();
    // A SubjectPublicKeyInfo of ML-DSA is 22 bytes and the key.
    let mut pieces = Pieces::to_mu(&der[22..], Some(context)).unwrap();
    pieces.add(message);
    encode(&pieces.so_far())
}

fn by_mu(key: &str, version: u32, mu: &str) -> Sign {
    Sign { mu: Some(mu.to_owned()), version: Some(version), ..Sign::by(key) }
}

fn verify(key: &str, signature: &str) -> Verify {
    Verify { key: key.into(), signature: signature.to_owned(), ..Verify::default() }
}

#[test]
fn a_signature_of_mu_is_one_of_the_message() {
    let local = Local::start();
    let client = local.client();
    for algorithm in ["ml-dsa-44", "ml-dsa-65", "ml-dsa-87"] {
        create(&client, algorithm, algorithm);
        for context in [&b""[..], b"a context"] {
            let mu = mu(&client, algorithm, 1, context, MESSAGE);
            let signed = client.sign(&by_mu(algorithm, 1, &mu)).unwrap();
            assert_eq!(signed.version, 1);
            let context = Some(context).filter(|context| !context.is_empty()).map(encode);
            let by_message = Verify {
                message: Some(encode(MESSAGE)),
                context: context.clone(),
                ..verify(algorithm, &signed.signature)
            };
            assert!(client.verify(&by_message).unwrap().valid);
            let other = Verify { message: Some(encode(b"another")), ..by_message };
            assert!(!client.verify(&other).unwrap().valid);
            // And one of the message is one of mu.
            let message = Some(encode(MESSAGE));
            let signed = client.sign(&Sign { message, context, ..Sign::by(algorithm) }).unwrap();
            let by_mu =
                Verify { mu: Some(mu), version: Some(1), ..verify(algorithm, &signed.signature) };
            assert!(client.verify(&by_mu).unwrap().valid);
            let other = Verify { mu: Some(encode(&[7; 64])), ..by_mu };
            assert!(!client.verify(&other).unwrap().valid);
        }
    }
}

#[test]
fn batches_take_mu() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ml-dsa-44");
    create(&client, "ed", "ed25519");
    let mu = Some(mu(&client, "k", 1, b"", MESSAGE));
    let item =
        |op: &str, key: &str| BatchItem { op: op.into(), key: key.into(), ..BatchItem::default() };
    let with = |version| BatchItem { mu: mu.clone(), version, ..item("sign", "k") };
    let message = BatchItem { message: Some(encode(MESSAGE)), ..item("sign", "k") };
    let other = BatchItem { key: "ed".into(), ..with(Some(1)) };
    let items = vec![with(Some(1)), message, with(None), other];
    let run = |items| client.batch(&Batch { items, status_if_failed: None }).unwrap();
    let done = run(items);
    let statuses: Vec<u32> = done.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [200, 200, 400, 400]);
    let codes = done.results[2..].iter().map(|result| &*result.problem.as_ref().unwrap().code);
    assert_eq!(codes.collect::<Vec<_>>(), ["bad_request", "unsupported"]);
    let signatures: Vec<_> = done.results[..2].iter().map(|result| &result.signature).collect();
    let items = signatures.into_iter().flat_map(|signature| {
        let signature = signature.clone();
        let message = Some(encode(MESSAGE));
        let by_message = BatchItem { message, signature: signature.clone(), ..item("verify", "k") };
        let by_mu = BatchItem { op: "verify".into(), signature, ..with(Some(1)) };
        [by_message, by_mu]
    });
    let done = run(items.collect());
    assert!(done.results.iter().all(|result| result.valid == Some(true)), "{done:?}");
}

#[test]
fn mu_that_does_not_fit_is_refused() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ml-dsa-44");
    let mu = mu(&client, "k", 1, b"", MESSAGE);
    let good = || by_mu("k", 1, &mu);
    let text = || Some(encode(MESSAGE));
    for (sign, code, what) in [
        (Sign { version: None, ..good() }, "bad_request", "needs `version`"),
        (Sign { mu: Some(encode(&[7; 63])), ..good() }, "bad_request", "63 bytes; expected 64"),
        (Sign { mu: Some(encode(&[7; 65])), ..good() }, "bad_request", "65 bytes; expected 64"),
        (Sign { mu: Some(String::new()), ..good() }, "bad_request", "0 bytes; expected 64"),
        (Sign { mu: Some("x".to_owned()), ..good() }, "malformed", "`mu` is not base64"),
        (Sign { message: text(), ..good() }, "bad_request", "expected one of"),
        (Sign { digest: text(), ..good() }, "bad_request", "expected one of"),
        (Sign { prehash: Some("SHA2-512".to_owned()), ..good() }, "bad_request", "expected one of"),
        (Sign { context: text(), ..good() }, "bad_request", "leave `context` out"),
        (Sign { padding: Some("pss".to_owned()), ..good() }, "bad_request", "of RSA"),
        (Sign { version: Some(2), ..good() }, "not_found", "version 2"),
    ] {
        let problem = refused(client.sign(&sign));
        assert_eq!(problem.code, code, "{problem:?}");
        assert!(problem.message.contains(what), "{problem:?}");
    }
    for algorithm in [
        "ed25519",
        "ecdsa-p-256",
        "slh-dsa-sha2-128f",
        "rsa-2048",
        "mldsa65-ed25519-sha512-draft19",
    ] {
        create(&client, algorithm, algorithm);
        let problem = refused(client.sign(&by_mu(algorithm, 1, &mu)));
        assert_eq!(problem.code, "unsupported", "{algorithm}: {problem:?}");
    }
    // The signature's length is looked at, too.
    let verify = Verify { mu: Some(mu), version: Some(1), ..verify("k", &encode(&[1; 100])) };
    assert_eq!(refused(client.verify(&verify)).code, "malformed");
}

/// A tag by a derived key would bring the message to the service.
#[test]
fn a_key_that_requires_mu_makes_no_tags() {
    let local = Local::start();
    let made = local.client().create(&CreateKey {
        name: "k".into(),
        algorithm: "ml-dsa-44".into(),
        mu_required: Some(true),
        ..CreateKey::default()
    });
    assert_eq!(made.unwrap().mu_required, Some(true));
    let body = json!({"input": encode(MESSAGE)});
    let (status, said) = local.ask("POST", "/v1/transit/hmac/k", &body);
    assert!(status == 400 && said.to_string().contains("mu_required"), "{said}");
}

/// A key that requires mu takes a message in no form and by no path.
#[test]
fn a_key_that_requires_mu_takes_no_message() {
    let local = Local::start();
    let client = local.client();
    let made = client.create(&CreateKey {
        name: "from-the-start".into(),
        algorithm: "ml-dsa-65".into(),
        mu_required: Some(true),
        ..CreateKey::default()
    });
    assert_eq!(made.unwrap().mu_required, Some(true));
    assert_eq!(create(&client, "later", "ml-dsa-65").mu_required, None);
    let message = Some(encode(MESSAGE));
    let old = client.sign(&Sign { message: message.clone(), ..Sign::by("later") }).unwrap();
    let require = ConfigureKey { mu_required: Some(true), ..ConfigureKey::default() };
    assert_eq!(client.configure("later", &require).unwrap().mu_required, Some(true));
    let no_more = ConfigureKey { mu_required: Some(false), ..ConfigureKey::default() };
    assert_eq!(refused(client.configure("later", &no_more)).code, "bad_request");
    for key in ["from-the-start", "later"] {
        let needs_mu = |code: String| assert_eq!(code, "mu_required", "{key}");
        let hash = Some("SHA2-512".to_owned());
        let of_message = Sign { message: message.clone(), ..Sign::by(key) };
        needs_mu(refused(client.sign(&of_message)).code);
        needs_mu(refused(client.sign(&Sign { prehash: hash.clone(), ..of_message.clone() })).code);
        let digest = Some(encode(&[7; 64]));
        needs_mu(refused(client.sign(&Sign { digest, prehash: hash, ..Sign::by(key) })).code);
        let what = StreamRequest::by(key);
        needs_mu(refused(client.sign_stream(&what, &mut &MESSAGE[..], None)).code);
        let signature = &old.signature;
        needs_mu(refused(client.verify_stream(&what, signature, &mut &MESSAGE[..], None)).code);
        let of_message = Verify { message: message.clone(), ..verify(key, signature) };
        needs_mu(refused(client.verify(&of_message)).code);
        for op in ["sign", "verify"] {
            let item = BatchItem {
                op: op.into(),
                key: key.into(),
                message: message.clone(),
                signature: Some(signature.clone()).filter(|_| op == "verify"),
                ..BatchItem::default()
            };
            let items = vec![item.clone(), item];
            let done = client.batch(&Batch { items, status_if_failed: None }).unwrap();
            for result in done.results {
                needs_mu(result.problem.unwrap().code);
            }
        }
        let body = json!({ "input": encode(MESSAGE) }).to_string();
        let head = format!(
            "POST /v1/transit/sign/{key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\nContent-Length: {}\r\n\r\n",
            &*local.token,
            body.len()
        );
        let answer = local.exchange(&(head + &body));
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("requires `mu`"), "{answer}");
        let mu = mu(&client, key, 1, b"", MESSAGE);
        let signed = client.sign(&by_mu(key, 1, &mu)).unwrap();
        let by_mu = Verify { mu: Some(mu), version: Some(1), ..verify(key, &signed.signature) };
        assert!(client.verify(&by_mu).unwrap().valid);
    }
    create(&client, "ed", "ed25519");
    assert_eq!(refused(client.configure("ed", &require)).code, "unsupported");
    let other = CreateKey {
        name: "new".into(),
        algorithm: "ed25519".into(),
        mu_required: Some(true),
        ..CreateKey::default()
    };
    assert_eq!(refused(client.create(&other)).code, "unsupported");
}
