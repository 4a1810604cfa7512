//! Common fields of responses, and bodies that do not match their headers.

use serde_json::{Value, json};

use super::create;
use super::raw::Local;
use super::serve::Place;

/// The revision that an answer says.
#[track_caller]
fn revision((status, answer): (u16, Value)) -> u64 {
    assert_eq!(status, 200, "{answer}");
    answer["revision"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn every_answer_has_the_revision_that_it_takes_into_account() {
    let local = Local::start();
    create(&local.client(), "k", "ed25519");
    let ask = |method: &str, path: &str, body: Value| {
        revision(local.ask(method, &format!("/v1/kms/{path}"), &body))
    };
    let mut last = 0;
    for (method, path, body) in [
        ("POST", "tokens", json!({"principal": "p"})),
        ("PUT", "policies/p", json!({"text": "permit(principal is Token, action, resource);"})),
        ("DELETE", "policies/p", Value::Null),
        ("POST", "tokens/revoke", json!({"id": "0".repeat(32)})),
        ("POST", "keys/k/rotate", json!({})),
    ] {
        let before = last;
        last = ask(method, path, body);
        // Making a token writes nothing.
        assert!(last > before || path == "tokens/revoke", "{path}: {last}, {before} before");
    }
    let asks = json!({"principal": "p", "action": "sign", "key": "k"});
    ask("PUT", "policies/p", json!({"text": "permit(principal is Token, action, resource);"}));
    for (method, path, body) in [
        ("GET", "policies", Value::Null),
        ("GET", "policies/p", Value::Null),
        ("POST", "policy-check", json!({})),
        ("POST", "policy-check", asks),
        ("GET", "audit", Value::Null),
        ("GET", "audit/state", Value::Null),
        ("GET", "audit/entries", Value::Null),
        ("GET", "audit/keys", Value::Null),
        ("GET", "keys", Value::Null),
        ("GET", "status", Value::Null),
    ] {
        assert!(ask(method, path, body) > last, "{path}");
    }
}

#[test]
fn the_seal_says_the_revision_once_it_is_open() {
    let place = Place::new();
    let server = place.serve("store");
    let sealed: Value = serde_json::from_str(&place.get("/v1/kms/status")).unwrap();
    assert_eq!((&sealed["sealed"], &sealed["revision"]), (&json!(true), &Value::Null));
    place.unseal();
    let admin = place.admin();
    let before = admin.status().unwrap().revision.unwrap();
    let answer = admin.seal().unwrap();
    assert_eq!((answer.sealed, answer.revision), (true, None));
    place.unseal();
    assert!(admin.status().unwrap().revision.unwrap() >= before);
    server.stop();
}

/// Compressed bodies are rejected instead of signed.
#[test]
fn a_body_that_is_packed_is_refused() {
    let local = Local::start();
    create(&local.client(), "mu", "ml-dsa-44");
    let sign = |kind: &str, fields: &str, body: &str| {
        local.exchange(&format!(
            "POST /v1/kms/sign?key=mu HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\n\
             Content-Type: {kind}\r\n{fields}\r\n\r\n{body}",
            *local.token
        ))
    };
    let octets = "application/octet-stream";
    for (fields, body, is_done) in [
        ("Content-Length: 4", "text", true),
        ("Content-Encoding: identity\r\nContent-Length: 4", "text", true),
        ("Content-Encoding: gzip\r\nContent-Length: 4", "text", false),
        ("Content-Encoding: \r\nContent-Length: 4", "text", false),
        ("Content-Encoding: identity, br\r\nContent-Length: 4", "text", false),
        (
            "Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 4",
            "text",
            false,
        ),
        ("Transfer-Encoding: chunked", "4\r\ntext\r\n0\r\n\r\n", true),
        ("Transfer-Encoding: Chunked", "4\r\ntext\r\n0\r\n\r\n", true),
        ("Transfer-Encoding: gzip, chunked", "4\r\ntext\r\n0\r\n\r\n", false),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", "4\r\ntext\r\n0\r\n\r\n", false),
    ] {
        let said = sign(octets, fields, body);
        match is_done {
            true => assert!(said.starts_with("HTTP/1.1 200 "), "{fields}: {said}"),
            false => {
                assert!(said.starts_with("HTTP/1.1 400 "), "{fields}: {said}");
                assert!(said.contains("\"unsupported\"") && said.contains("ncoding"), "{said}");
            }
        }
    }
    let said = sign("application/json", "Content-Encoding: gzip\r\nContent-Length: 2", "{}");
    assert!(said.contains("\"unsupported\""), "{said}");
}
