//! Many signatures at once, by any keys.

use gabion_kms_client::Client;
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{Batch, BatchDone, BatchItem, BatchResult, Verify};
use serde_json::{Value, json};

use super::raw::Local;
use super::{create, refused};

fn sign(key: &str, message: &[u8]) -> BatchItem {
    let message = Some(encode(message));
    BatchItem { op: "sign".into(), key: key.into(), message, ..BatchItem::default() }
}

fn verify(key: &str, message: &[u8], signature: &str) -> BatchItem {
    let signature = Some(signature.to_owned());
    BatchItem { op: "verify".into(), signature, ..sign(key, message) }
}

fn run(client: &Client, items: Vec<BatchItem>) -> BatchDone {
    client.batch(&Batch { items, status_if_failed: None }).unwrap()
}

fn code(result: &BatchResult) -> (u32, &str) {
    (result.status, result.problem.as_ref().map_or("", |problem| &problem.code))
}

#[test]
fn keys_and_operations_are_mixed_and_answered_in_their_order() {
    let local = Local::start();
    let client = local.client();
    let keys = ["ml-dsa-44", "ed25519", "ecdsa-p-256"];
    let ids = keys.map(|name| create(&client, name, name).id);
    let items = (0..12).map(|at| sign(keys[at % 3], &[at as u8])).collect();
    let signed = run(&client, items);
    assert_eq!((signed.failed, signed.results.len()), (0, 12));
    assert!(signed.revision > 0);
    let mut items = Vec::new();
    for (at, result) in signed.results.iter().enumerate() {
        assert_eq!(code(result), (200, ""));
        assert_eq!(result.by.as_deref(), Some(&*format!("{}#v1", ids[at % 3])));
        let signature = result.signature.as_deref().unwrap();
        let alone = Verify {
            key: keys[at % 3].into(),
            message: Some(encode(&[at as u8])),
            signature: signature.into(),
            ..Verify::default()
        };
        assert!(client.verify(&alone).unwrap().valid);
        items.push(verify(keys[at % 3], &[at as u8], signature));
        items.push(verify(keys[at % 3], b"another", signature));
        items.push(sign(keys[at % 3], b"more"));
    }
    let mixed = run(&client, items);
    assert_eq!((mixed.failed, mixed.results.len()), (0, 36));
    for three in mixed.results.chunks(3) {
        let valid = [three[0].valid, three[1].valid, three[2].valid];
        assert_eq!(valid, [Some(true), Some(false), None]);
        assert!(three[0].signature.is_none() && three[2].signature.is_some());
        assert!(three.iter().all(|result| result.by == three[0].by && result.version == Some(1)));
    }
}

#[test]
fn batch_items_have_individual_statuses() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    create(&client, "data", "xaes-256-gcm");
    client.rotate("k").unwrap();
    let wrong = encode(&[1; 64]);
    let (good, bad) = (sign("k", b"m"), sign("k", b"x"));
    let items = [
        (good.clone(), 200, ""),
        (sign("missing", b"m"), 404, "not_found"),
        (sign("data", b"m"), 400, "unsupported"),
        (BatchItem { version: Some(1), ..good.clone() }, 400, "version_not_allowed"),
        (BatchItem { version: Some(99), ..good.clone() }, 404, "not_found"),
        (BatchItem { message: Some("*".into()), ..bad.clone() }, 400, "malformed"),
        (BatchItem { message: None, ..bad.clone() }, 400, "bad_request"),
        (BatchItem { op: "encrypt".into(), ..bad.clone() }, 400, "bad_request"),
        (BatchItem { signature: Some(wrong.clone()), ..bad.clone() }, 400, "bad_request"),
        (BatchItem { key: "a/b".into(), ..bad }, 400, "bad_request"),
        (verify("k", b"m", &wrong), 200, ""),
        (verify("k", b"m", "AAAA"), 400, "malformed"),
        (verify("missing", b"m", &wrong), 404, "not_found"),
        (BatchItem { signature: None, ..verify("k", b"m", "") }, 400, "bad_request"),
        (good, 200, ""),
    ];
    let done = run(&client, items.iter().map(|(item, ..)| item.clone()).collect());
    assert_eq!(done.failed, 12);
    for (result, (item, status, wanted)) in done.results.iter().zip(&items) {
        assert_eq!(code(result), (*status, *wanted), "{item:?} {result:?}");
        let is_failed = result.problem.is_some();
        let has_answer = result.signature.is_some() || result.valid.is_some();
        assert!(is_failed != has_answer && is_failed == result.by.is_none(), "{result:?}");
    }
    assert_eq!((done.results[0].version, done.results[10].valid), (Some(2), Some(false)));
    // Each item that reached the service is recorded.
    let records: Value = client.get("/v1/kms/audit?limit=1000").unwrap();
    let records = records["records"].as_array().unwrap();
    let told = |outcome: &str| {
        let is_one = |record: &&Value| {
            let record = &record["record"];
            let action = &record["action"];
            (action == "sign" || action == "verify") && record["outcome"] == outcome
        };
        records.iter().filter(is_one).count()
    };
    assert_eq!((told("ok"), told("wrong"), told("not_found")), (2, 1, 3));
    // The status of the whole is the caller's to choose.
    let whole = |status: u32, item: &BatchItem| {
        let body = json!({"items": [item], "status_if_failed": status});
        local.ask("POST", "/v1/kms/batch", &body)
    };
    let (status, answer) = whole(422, &sign("missing", b"m"));
    assert_eq!((status, &answer["failed"]), (422, &json!(1)));
    assert_eq!(whole(422, &sign("k", b"m")).0, 200);
    assert_eq!(whole(302, &sign("k", b"m")).0, 400);
    for (body, says) in [
        (json!({"items": [{"op": "sign", "key": "k", "kye": 1}]}), "unknown field `kye`"),
        (json!({"items": [{"key": "k"}]}), "missing field `op`"),
        (json!({"batch": []}), "unknown field `batch`"),
        (json!({}), "missing field `items`"),
    ] {
        let problem = refused(client.post::<Value>("/v1/kms/batch", &body));
        assert!(problem.message.contains(says), "{body}: {}", problem.message);
    }
    assert_eq!(run(&client, Vec::new()).results, []);
}

/// The limit counts signatures and verifications together, and a key hidden by the token answers as
/// not found.
#[test]
fn a_mixed_batch_is_as_long_as_the_token_says() {
    let mut local = Local::start();
    let client = local.client();
    create(&client, "web-k", "ed25519");
    create(&client, "other", "ed25519");
    let signature = run(&client, vec![sign("web-k", b"m")]).results[0].signature.clone().unwrap();
    let all = std::mem::take(&mut local.token);
    let limits = ["batch_max=3".to_owned(), "key_prefix=web-".to_owned()];
    local.token = gabion_kms_server::attenuate_token(&all, &limits).unwrap();
    let client = local.client();
    let items = |signs: usize, verifies: usize| {
        let mut items = vec![sign("web-k", b"m"); signs];
        items.extend(vec![verify("web-k", b"m", &signature); verifies]);
        run(&client, items)
    };
    assert_eq!(items(2, 1).failed, 0);
    let refused = items(2, 2);
    assert_eq!(refused.failed, 4);
    assert!(refused.results.iter().all(|result| code(result) == (403, "denied")));
    let hidden = run(&client, vec![sign("other", b"m"), verify("other", b"m", &signature)]);
    assert!(hidden.results.iter().all(|result| code(result) == (404, "not_found")));
}
