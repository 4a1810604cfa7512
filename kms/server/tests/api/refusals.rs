//! Errors and their messages.

use gabion_kms_client::{Client, Error, Settings};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{CreateToken, Problem, Sign, Verify};
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
fn unknown_fields_and_algorithms_are_refused_by_name() {
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
        ("/v1/kms/sign", json!({"key": "a/b", "message": message}), "invalid key id `a/b`"),
        ("/v1/kms/sign", json!({"key": "-", "message": message}), "invalid key `-`"),
        (
            "/v1/kms/keys",
            json!({"name": "x", "algorithm": "ed25519", "exportable": true}),
            "unknown field `exportable`",
        ),
        ("/v1/kms/keys?after=x", json!({}), "unknown parameter `after`"),
        ("/v1/kms/keys/release/rotate", json!({"version": 2}), "unknown field `version`"),
        ("/v1/kms/keys/release/config", json!({"min_sing": 2}), "unknown field `min_sing`"),
        ("/v1/kms/sign", json!([["release", message]]), "not a JSON object"),
    ] {
        let problem = refused(client.post::<Value>(path, &body));
        assert_eq!(problem.code, "bad_request", "{body}");
        assert!(problem.message.contains(says), "{body}: {}", problem.message);
        assert!(!problem.retryable && !problem.request_id.is_empty() && problem.ts.ends_with('Z'));
    }
    let names = ["x25519", "hss", "rsa-1024", "nonsense"];
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

/// The refusals of every verb that takes a key.
fn asked_every_way(who: &Client, key: &str) -> Vec<Problem> {
    let path = |verb: &str| format!("/v1/kms/keys/{}{verb}", key.replace('/', "%2F"));
    let (message, none) = (encode(b"m"), json!({}));
    let post = |path: &str, body: &Value| refused(who.post::<Value>(path, body));
    let mut all = vec![
        refused(who.get::<Value>(&path(""))),
        refused(who.get::<Value>(&path("/versions"))),
        post(&path("/rotate"), &none),
        post(&path("/disable"), &json!({"version": 1})),
        post(&path("/config"), &json!({"min_sign": 1})),
        post(&path("/export"), &none),
        post(&path("/destroy"), &none),
    ];
    for (verb, more) in [
        ("sign", json!({"message": message})),
        ("verify", json!({"message": message, "signature": encode(&[0; 64])})),
        ("attest", none.clone()),
        ("encrypt", json!({"plaintext": message})),
        ("hmac", json!({"message": message})),
        ("encaps", none.clone()),
    ] {
        let mut body = more;
        body["key"] = json!(key);
        all.push(post(&format!("/v1/kms/{verb}"), &body));
    }
    let items = json!({"items": [
        {"op": "sign", "key": key, "message": message},
        {"op": "verify", "key": key, "message": message, "signature": encode(&[0; 64])},
    ]});
    let batch: Value = who.post("/v1/kms/batch", &items).unwrap();
    for result in batch["results"].as_array().unwrap() {
        let text = |name: &str| result["problem"][name].as_str().unwrap().to_owned();
        let (code, message) = (text("code"), text("message"));
        all.push(Problem { code, message, ..all[0].clone() });
    }
    all
}

/// Errors do not reveal the name of a key that is named by its id, nor that it existed.
#[test]
fn key_id_does_not_reveal_a_hidden_name() {
    let server = server();
    let admin = client(&server);
    let secret = create(&admin, "project-nightingale", "ed25519");
    let gone = create(&admin, "project-gone", "ed25519");
    let sealed = create(&admin, "project-sealed", "xaes-256-gcm");
    admin.delete("project-gone").unwrap();
    admin.post::<Value>("/v1/kms/keys/project-gone/destroy", &json!({})).unwrap();
    let with = |caveats: &[&str]| {
        let caveats = Some(caveats.iter().map(|text| text.to_string()).collect());
        let asked = CreateToken { principal: "ci".into(), caveats, lifetime_s: None };
        let token = admin.create_token(&asked).unwrap().token.expose().to_owned();
        Client::new(&Settings { token: Some(token.into()), ..settings(&server) }).unwrap()
    };
    let less = [with(&["key_prefix=web-"]), with(&["tenant=other"])];
    let nowhere = "default/transit/ed25519/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c".to_owned();
    for who in &less {
        for key in [&secret.id, &gone.id, &sealed.id, &nowhere] {
            for problem in asked_every_way(who, key) {
                assert_eq!(problem.code, "not_found", "{problem:?}");
                assert_eq!(problem.message, format!("key `{key}` not found"));
            }
        }
    }
    // A caller that may see every key learns that it was destroyed.
    assert_eq!(
        refused(admin.get::<Value>(&format!("/v1/kms/keys/{}", gone.id.replace('/', "%2F")))).code,
        "key_destroyed"
    );
    // Policies hide keys, too.
    let text = "permit(principal == Token::\"dev\", action, resource);\n\
                permit(principal == Token::\"ci\", action == Action::\"verify\", resource);";
    admin.put_policy("all", text).unwrap();
    let ci = with(&[]);
    for problem in
        asked_every_way(&ci, &sealed.id).into_iter().filter(|problem| problem.code != "unsupported")
    {
        assert!(!problem.message.contains("project-"), "{problem:?}");
    }
    let sign =
        refused(ci.post::<Value>("/v1/kms/sign", &json!({"key": secret.id, "message": "bQ=="})));
    assert_eq!(sign.message, format!("key `{}` not found", secret.id));
    // By its name it is the name that comes back.
    let sign = refused(
        ci.post::<Value>("/v1/kms/sign", &json!({"key": "project-nightingale", "message": "bQ=="})),
    );
    assert_eq!(sign.message, "key `project-nightingale` not found");
}
