//! What is refused, and how that is said.

use gabion_kms_client::wire::{Sign, Verify};
use gabion_kms_client::{Client, Error, Settings, encode};
use serde_json::{Value, json};

use super::{client, create, refused, server, settings};

#[test]
fn a_caller_without_a_valid_token_gets_nothing() {
    let server = server();
    create(&client(&server), "release", "ed25519");
    for token in [None, Some("x".to_owned()), Some(server.token()[1..].to_owned())] {
        let settings = Settings { token: token.map(Into::into), ..settings(&server) };
        let client = Client::new(&settings).unwrap();
        assert_eq!(refused(client.show("release")).code, "unauthenticated");
        assert_eq!(refused(client.show("missing")).code, "unauthenticated");
        assert_eq!(refused(client.sign(&Sign::by("release"))).code, "unauthenticated");
        client.status().unwrap();
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let server = server();
    let client = client(&server);
    create(&client, "release", "ed25519");
    let message = encode(b"m");
    for (path, body, says) in [
        (
            "/v1/kms/sign",
            json!({"key": "release", "message": message, "kye_version": 1}),
            "unknown field `kye_version`",
        ),
        ("/v1/kms/sign", json!({"message": message}), "missing field `key`"),
        ("/v1/kms/sign", json!({"key": "release"}), "missing field `message`"),
        ("/v1/kms/sign", json!({"key": "release", "message": message, "version": -1}), "-1"),
        ("/v1/kms/sign", json!({"key": "release", "digest": message}), "`digest` needs `prehash`"),
        (
            "/v1/kms/sign",
            json!({"key": "release", "digest": message, "prehash": "MD5"}),
            "unknown hash `MD5`",
        ),
        ("/v1/kms/sign", json!({"key": "a/b", "message": message}), "`a/b` is no id"),
        ("/v1/kms/sign", json!({"key": "-", "message": message}), "`-` is no name"),
        (
            "/v1/kms/keys",
            json!({"name": "x", "algorithm": "ed25519", "exportable": true}),
            "unknown field `exportable`",
        ),
        ("/v1/kms/keys?after=x", json!({}), "unknown parameter `after`"),
        ("/v1/kms/keys/release/rotate", json!({"version": 2}), "unknown field `version`"),
        ("/v1/kms/keys/release/config", json!({"min_sing": 2}), "unknown field `min_sing`"),
        ("/v1/kms/sign", json!([["release", message]]), "no JSON object"),
    ] {
        let problem = refused(client.post::<Value>(path, &body));
        assert_eq!(problem.code, "bad_request", "{body}");
        assert!(problem.message.contains(says), "{body}: {}", problem.message);
        assert!(!problem.retryable && !problem.request_id.is_empty() && problem.ts.ends_with('Z'));
    }
    let names = ["x25519", "hss", "rsa-2048", "nonsense"];
    for name in names {
        let problem =
            refused(client.post::<Value>("/v1/kms/keys", &json!({"name": "x", "algorithm": name})));
        assert_eq!(problem.code, "unsupported", "{name}");
    }
}

/// Unparsable is `malformed`; parsable and wrong is a verdict.
#[test]
fn a_signature_that_can_not_be_one_is_malformed() {
    let server = server();
    let client = client(&server);
    create(&client, "release", "ed25519");
    let of = |signature: &str| Verify {
        key: "release".into(),
        message: Some(encode(b"m")),
        signature: signature.into(),
        ..Verify::default()
    };
    for text in ["nonsense", "*", "", &encode(&[1; 63]), &encode(&[1; 65])] {
        assert_eq!(refused(client.verify(&of(text))).code, "malformed", "{text}");
    }
    assert!(!client.verify(&of(&encode(&[1; 64]))).unwrap().valid);
    let version = Verify { version: Some(99), ..of(&encode(&[1; 64])) };
    assert_eq!(refused(client.verify(&version)).code, "not_found");
}

#[test]
fn paths_and_methods_that_are_none_are_refused() {
    let server = server();
    let client = client(&server);
    for (method, path, code) in [
        ("GET", "/", "no_such_path"),
        ("GET", "/v1/kms/keys/a/b", "no_such_path"),
        ("PUT", "/v1/kms/keys", "method_not_allowed"),
        ("GET", "/v1/kms/sign", "method_not_allowed"),
        ("GET", "/v1/kms/keys/%zz", "bad_request"),
        ("GET", "/v1/kms/keys?limit=1001", "bad_request"),
        ("GET", "/v1/kms/keys?limit=1&limit=1", "bad_request"),
        ("GET", "/v1/kms/keys?after=-", "bad_request"),
    ] {
        let problem = refused(client.call::<Value>(method, path, None::<&Value>));
        assert_eq!(problem.code, code, "{method} {path}");
    }
}

#[test]
fn bodies_have_limits() {
    let server = server();
    let client = client(&server);
    create(&client, "release", "ed25519");
    let fits = Sign { message: Some(encode(&vec![0; 700_000])), ..Sign::by("release") };
    client.sign(&fits).unwrap();
    let large = Sign { message: Some(encode(&vec![0; 800_000])), ..Sign::by("release") };
    let problem = refused(client.sign(&large));
    assert_eq!(problem.code, "too_large");
    assert!(problem.hint.unwrap().contains("prehash"));
    let mut deep = json!(1);
    for _ in 0..9 {
        deep = json!({"key": deep});
    }
    assert!(
        refused(client.post::<Value>("/v1/kms/sign", &deep)).message.contains("within each other")
    );
    // The client goes on afterwards.
    client.sign(&fits).unwrap();
}

#[test]
fn a_client_of_another_authority_does_not_connect() {
    let (one, other) = (server(), server());
    let settings = Settings { authorities: Some(other.authorities().to_owned()), ..settings(&one) };
    let client = Client::new(&settings).unwrap();
    assert!(matches!(client.status(), Err(Error::Unreachable { .. })));
}
