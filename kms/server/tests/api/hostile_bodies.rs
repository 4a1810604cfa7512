//! Malformed or ambiguous bodies; requests for too much work; unknown tokens.

use gabion_kms_wire::encode;
use gabion_kms_wire::native::{Batch, BatchItem, CreateToken};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::attacks::answers;
use super::raw::Local;
use super::{create, refused};

/// Sends a body and returns the status and the whole response.
fn post(local: &Local, path: &str, body: &[u8]) -> (String, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\nContent-Length: {}\r\n\r\n",
        *local.token,
        body.len()
    );
    let said = answers(local, &[head.as_bytes(), body].concat());
    (said.split(' ').nth(1).unwrap_or_default().to_owned(), said)
}

/// Malformed bodies of a sign request, each similar to a valid one.
fn no_requests() -> Vec<Vec<u8>> {
    let deep = |open: &str, close: &str| {
        format!("{{\"key\":{}1{}}}", open.repeat(50_000), close.repeat(50_000))
    };
    let texts: [String; 32] = [
        deep("[", "]"),
        deep("{\"a\":", "}"),
        deep("[{\"a\":", "}]"),
        "[".repeat(900_000),
        "{\"key\":".repeat(100_000),
        // Said twice, also in another spelling of the same name.
        r#"{"key":"k","key":"k","message":"bQ=="}"#.into(),
        r#"{"key":"k","k\u0065y":"other","message":"bQ=="}"#.into(),
        r#"{"key":"k","message":"bQ==","message":null}"#.into(),
        // Numbers that are out of range.
        r#"{"key":"k","message":"bQ==","version":4294967296}"#.into(),
        r#"{"key":"k","message":"bQ==","version":-1}"#.into(),
        r#"{"key":"k","message":"bQ==","version":1e400}"#.into(),
        r#"{"key":"k","message":"bQ==","version":1e0}"#.into(),
        r#"{"key":"k","message":"bQ==","version":1.5}"#.into(),
        r#"{"key":"k","message":"bQ==","version":0x1}"#.into(),
        r#"{"key":"k","message":"bQ==","version":01}"#.into(),
        r#"{"key":"k","message":"bQ==","version":NaN}"#.into(),
        r#"{"key":"k","message":"bQ==","version":true}"#.into(),
        format!("{{\"key\":\"k\",\"message\":\"bQ==\",\"version\":{}}}", "9".repeat(100_000)),
        // No text.
        r#"{"key":"k\u0000","message":"bQ=="}"#.into(),
        r#"{"key":"\ud800","message":"bQ=="}"#.into(),
        r#"{"key":"k","message":"bQ==","context":"\x41"}"#.into(),
        "{\"key\":\"k\n\",\"message\":\"bQ==\"}".into(),
        // Nearly JSON.
        r#"{"key":"k","message":"bQ==",}"#.into(),
        r#"{"key":"k","message":"bQ=="}{"key":"k"}"#.into(),
        r#"{"key":"k","message":"bQ=="} // x"#.into(),
        r#"{'key':'k','message':'bQ=='}"#.into(),
        r#"{key:"k",message:"bQ=="}"#.into(),
        "\u{feff}{\"key\":\"k\",\"message\":\"bQ==\"}".into(),
        // No base64, or another one.
        r#"{"key":"k","message":"bQ"}"#.into(),
        r#"{"key":"k","message":"bR=="}"#.into(),
        r#"{"key":"k","message":"bQ==\n"}"#.into(),
        r#"{"key":"k","message":"-_-_"}"#.into(),
    ];
    texts.map(String::into_bytes).into()
}

#[test]
fn a_body_that_is_no_request_is_refused_as_that() {
    let local = Local::start();
    create(&local.client(), "k", "ed25519");
    let ok = br#"{"key":"k","message":"bQ=="}"#;
    assert_eq!(post(&local, "/v1/kms/sign", ok).0, "200");
    let bodies = no_requests();
    let no_text = [
        &b"{\"key\":\"\xff\",\"message\":\"bQ==\"}"[..],
        b"{\"key\":\"\xc0\xaf\",\"message\":\"bQ==\"}",
        b"{\"key\":\"\xed\xa0\x80\",\"message\":\"bQ==\"}",
        b"{\"\xff\":1}",
        b"\xff\xfe{\0}\0",
        b"\0",
        &[0xff; 1000],
    ];
    for body in bodies.iter().map(Vec::as_slice).chain(no_text) {
        let (status, said) = post(&local, "/v1/kms/sign", body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(100)]);
        assert_eq!(status, "400", "{shown}: {said:.300}");
        // The error is shorter than the rejected body.
        assert!(said.len() < 8192, "{shown}: {} bytes", said.len());
    }
    local.client().show("k").unwrap();
}

/// Numbers beyond every range, where they are of queries, of times, of sizes.
#[test]
fn a_number_beyond_its_range_is_refused() {
    let local = Local::start();
    create(&local.client(), "k", "ed25519");
    for (path, body) in [
        ("/v1/kms/keys/k/config", r#"{"expires_ms":18446744073709551616}"#),
        ("/v1/kms/keys/k/config", r#"{"min_sign":4294967296}"#),
        ("/v1/kms/keys/k/config", r#"{"min_sign":4294967295}"#),
        ("/v1/kms/keys/k/trim", r#"{"before":4294967295}"#),
        ("/v1/kms/tokens", r#"{"principal":"a","lifetime_s":18446744073709551616}"#),
        ("/v1/kms/tokens", r#"{"principal":"a","lifetime_s":18446744073709551615}"#),
        ("/v1/kms/tokens", r#"{"principal":"a","caveats":["expires=18446744073709551616"]}"#),
        ("/v1/kms/tokens", r#"{"principal":"a","caveats":["batch_max=4294967296"]}"#),
        ("/v1/kms/random", r#"{"bytes":4294967295}"#),
        ("/v1/transit/sign/k", r#"{"input":"bQ==","key_version":1e400}"#),
        ("/v1/transit/sign/k", r#"{"input":"bQ==","key_version":-9223372036854775809}"#),
        ("/v1/transit/sign/k", r#"{"input":"bQ==","key_version":"99999999999999999999"}"#),
        ("/v1/transit/sign/k", r#"{"input":"bQ==","input":"bQ=="}"#),
        ("/v1/transit/sign/k", r#"{"batch_input":[{"input":"bQ==","input":"bQ=="}]}"#),
        ("/v1/auth/token/renew-self", r#"{"increment":1e999}"#),
        ("/v1/auth/token/renew-self", r#"{"increment":"99999999999999999999h"}"#),
    ] {
        let (status, said) = post(&local, path, body.as_bytes());
        assert!(["400", "404", "413"].contains(&status.as_str()), "{path} {body}: {said}");
    }
    for query in [
        "keys?limit=4294967296",
        "keys?limit=-1",
        "audit?from=18446744073709551616",
        "audit?from=1e3",
        "keys?limit=%31%00",
    ] {
        let (status, said) = local.ask("GET", &format!("/v1/kms/{query}"), &Value::Null);
        assert_eq!(status, 400, "{query}: {said}");
    }
    local.client().show("k").unwrap();
}

/// An `op_id` stands for one change, and an ambiguous body is rejected.
#[test]
fn a_body_that_says_two_things_is_no_change_under_its_op_id() {
    let local = Local::start();
    let path = "/v1/kms/keys?op_id=twice";
    let both = br#"{"name":"a","algorithm":"ed25519","name":"b"}"#;
    assert_eq!(post(&local, path, both).0, "400");
    let (status, said) = post(&local, path, br#"{"name":"b","algorithm":"ed25519"}"#);
    assert_eq!(status, "200", "{said}");
    assert_eq!(post(&local, path, both).0, "400");
    assert_eq!(post(&local, path, br#"{"name":"a","algorithm":"ed25519"}"#).0, "409");
    assert_eq!(local.client().list(None, 100).unwrap().keys.len(), 1);
}

/// An answer has a length that a server can have in memory, and a place is not kept for an hour.
#[test]
fn batches_are_limited_in_items_and_cost() {
    let mut local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    create(&client, "slow", "slh-dsa-sha2-128s");
    let item = |key: &str| BatchItem {
        op: "sign".into(),
        key: key.into(),
        message: Some(encode(b"m")),
        ..BatchItem::default()
    };
    let batch = |local: &Local, key: &str, count: usize| {
        local.client().batch(&Batch { items: vec![item(key); count], status_if_failed: None })
    };
    for count in [0, 1, 1024] {
        let done = batch(&local, "k", count).unwrap();
        assert_eq!((done.results.len(), done.failed), (count, 0));
    }
    let size = |local: &Local| {
        local.ask("GET", "/v1/kms/audit/state", &Value::Null).1["size"].as_u64().unwrap()
    };
    let before = size(&local);
    let problem = refused(batch(&local, "k", 1025));
    assert_eq!(problem.code, "too_large");
    assert!(problem.message.contains("1024"), "{}", problem.message);
    for (path, body) in [
        ("sign", json!({"batch_input": vec![json!({"input": "bQ=="}); 1025]})),
        ("hmac", json!({"batch_input": vec![json!({"input": "bQ=="}); 1025]})),
        ("encrypt", json!({"batch_input": vec![json!({"plaintext": "bQ=="}); 1025]})),
    ] {
        let (status, said) = local.ask("POST", &format!("/v1/transit/{path}/k"), &body);
        assert!(status == 413 || path != "sign" && status == 400, "{path}: {status} {said}");
    }
    assert_eq!(size(&local), before, "nothing was done");
    // Some 0.25 s each: 40 of them are ten seconds, and 41 more than that.
    let done = batch(&local, "slow", 41).unwrap();
    assert!(done.results.iter().all(|result| result.status == 413), "{:?}", done.results[0]);
    let reason = done.results[0].problem.as_ref().unwrap();
    assert!(reason.message.contains("milliseconds of work of one batch"), "{reason:?}");
    // A caller that may not see a key does not learn its cost.
    let all = std::mem::take(&mut local.token);
    local.token =
        gabion_kms_server::attenuate_token(&all, &["key_prefix=other".to_owned()]).unwrap();
    let hidden = batch(&local, "slow", 41).unwrap();
    assert!(hidden.results.iter().all(|result| result.status == 404), "{:?}", hidden.results[0]);
}

/// HMAC-SHA-256 (FIPS 198-1), as the holder of a token can compute it.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> {
        (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect()
    };
    let inner = Sha256::digest([&pad(0x36)[..], message].concat());
    Sha256::digest([&pad(0x5c)[..], &inner[..]].concat()).to_vec()
}

/// A token with one caveat more, in bytes, and the right tag.
fn appended(token: &str, caveat: &[u8]) -> String {
    let text = token.strip_prefix("gbk1.").unwrap().replace('-', "+").replace('_', "/");
    let padding = "=".repeat((4 - text.len() % 4) % 4);
    let bytes = gabion_kms_wire::decode(&format!("{text}{padding}")).unwrap();
    let (before, tag) = bytes.split_at(bytes.len() - 32);
    let all = [before, caveat, &hmac(tag, caveat)].concat();
    format!("gbk1.{}", encode(&all).trim_end_matches('=').replace('+', "-").replace('/', "_"))
}

/// The holder of a token can append any bytes with a valid tag: an unknown caveat invalidates the
/// token.
#[test]
fn a_token_with_a_caveat_that_nobody_knows_is_no_token() {
    let mut local = Local::start();
    create(&local.client(), "k", "ed25519");
    let all = std::mem::take(&mut local.token);
    let mut ask = |token: &str| {
        local.token = token.to_owned().into();
        local.ask("GET", "/v1/kms/keys/k", &Value::Null).0
    };
    assert_eq!(ask(&all), 200);
    // One that is known, so that the tag is.
    assert_eq!(ask(&appended(&all, &[7, 0, 4, 0, 0, 0, 1])), 200);
    for unknown in [
        &[200, 0, 0][..],
        &[200, 0, 4, 0, 0, 0, 1],
        &[0, 0, 0],
        &[8, 0, 0],
        &[255, 0, 1, 1],
        // Known ones of another length, and the beginning of one.
        &[7, 0, 3, 0, 0, 1],
        &[7, 0, 5, 0, 0, 0, 0, 1],
        &[7, 0],
        &[7],
        &[7, 255, 255, 0, 0, 0, 1],
    ] {
        assert_eq!(ask(&appended(&all, unknown)), 401, "{unknown:?}");
    }
    // Nor is one made that way, or narrowed.
    let asked = CreateToken {
        principal: "ci".into(),
        caveats: Some(vec!["colour=blue".into()]),
        lifetime_s: None,
    };
    local.token = all.clone();
    assert_eq!(refused(local.client().create_token(&asked)).code, "bad_request");
    assert!(gabion_kms_server::attenuate_token(&all, &["colour=blue".to_owned()]).is_err());
}

/// A policy about what a key is to be counts where it is made, whichever way that is asked for.
#[test]
fn a_policy_about_algorithms_counts_where_a_key_is_made() {
    let local = Local::start();
    let client = local.client();
    client
        .put_policy(
            "pq",
            "permit(principal is Token, action, resource);\n\
             forbid(principal, action in [Action::\"create\", Action::\"import\"], resource)\n\
             unless { resource.algorithm like \"ml-dsa-*\" && resource.purpose == \"transit\" };",
        )
        .unwrap();
    let ask = |path: &str, body: Value| local.ask("POST", path, &body).0;
    assert_eq!(ask("/v1/kms/keys", json!({"name": "a", "algorithm": "ml-dsa-44"})), 200);
    assert_eq!(ask("/v1/kms/keys?op_id=a", json!({"name": "b", "algorithm": "ml-dsa-44"})), 200);
    assert_eq!(ask("/v1/transit/keys/c", json!({"type": "ml-dsa", "parameter_set": "44"})), 200);
    for (path, body) in [
        ("/v1/kms/keys", json!({"name": "x", "algorithm": "ed25519"})),
        ("/v1/kms/keys", json!({"name": "x", "algorithm": "ml-dsa-44", "purpose": "other"})),
        ("/v1/kms/keys", json!({"name": "x", "algorithm": "ed25519", "conformance": ["fips-alg"]})),
        ("/v1/kms/keys?op_id=x", json!({"name": "x", "algorithm": "ed25519"})),
        ("/v1/transit/keys/x", json!({"type": "ed25519"})),
        (
            "/v1/kms/import",
            json!({"name": "x", "algorithm": "xaes-256-gcm", "raw": encode(&[7; 32])}),
        ),
    ] {
        assert_eq!(ask(path, body.clone()), 403, "{path} {body}");
    }
    assert_eq!(client.list(None, 10).unwrap().keys.len(), 3);
}
