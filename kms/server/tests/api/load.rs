//! Quotas and queues: what one tenant does is not another's to wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gabion_kms_client::{Client, Error};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{
    AuditRecords, Batch, BatchItem, CreateKey, CreateToken, OfVersion, Sign,
};
use serde_json::{Value, json};

use super::raw::Local;
use super::refused;
use super::serve::Place;

fn create(client: &Client, tenant: &str, name: &str, algorithm: &str) {
    let (name, algorithm) = (name.to_owned(), algorithm.to_owned());
    let tenant = Some(tenant.to_owned());
    client.create(&CreateKey { name, algorithm, tenant, ..CreateKey::default() }).unwrap();
}

fn sign(tenant: &str, key: &str) -> Sign {
    Sign { tenant: Some(tenant.into()), message: Some(encode(b"m")), ..Sign::by(key) }
}

/// Returns the value of a metric.
fn counted(metrics: &str, name: &str) -> u64 {
    let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.map_or(0, |count| count.parse().unwrap())
}

const QUICK_AT_ONCE: &str =
    "kms_queue_wait_seconds_bucket{lane=\"quick\",behind=\"others\",le=\"0.00001\"}";
const QUICK: &str = "kms_queue_wait_seconds_count{lane=\"quick\",behind=\"others\"}";

#[test]
fn exhausted_tenant_quota_answers_retry_after() {
    let place = Place::with("[quota]\nburst_seconds = 20\ntenants = { small = 1000 }\n");
    let _server = place.serve("store");
    place.unseal();
    let client = place.admin();
    create(&client, "small", "k", "ed25519");
    create(&client, "large", "k", "ed25519");
    // There are 20 ms of work, of which the key took more than 4; a signature takes less than 100
    // us.
    let mut signed = 0;
    let problem = loop {
        match client.sign(&sign("small", "k")) {
            Ok(_) => signed += 1,
            Err(Error::Refused(problem)) => break problem,
            Err(error) => panic!("{error}"),
        }
        assert!(signed < 2000);
    };
    assert!(signed > 100, "{signed}");
    assert_eq!((problem.code.as_str(), problem.retryable), ("quota_exceeded", true));
    assert_eq!(refused(client.sign(&sign("small", "k"))).code, "quota_exceeded");
    client.sign(&sign("large", "k")).unwrap();
    // A batch has a status an item.
    let item = |tenant: &str| BatchItem {
        op: "sign".into(),
        tenant: Some(tenant.into()),
        key: "k".into(),
        message: Some(encode(b"m")),
        ..BatchItem::default()
    };
    let items = vec![item("small"), item("large"), item("small")];
    let done = client.batch(&Batch { items, status_if_failed: None }).unwrap();
    let statuses: Vec<u32> = done.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [429, 200, 429]);
    // Actions that withdraw use are not limited.
    let path = "/v1/kms/keys/k/disable?tenant=small";
    let _: Value = client.post(path, &OfVersion { version: 1 }).unwrap();
    // Only the first of consecutive rejections is recorded, and the metrics count each.
    let records: AuditRecords = client.get("/v1/kms/audit?limit=1000&from=100").unwrap();
    let text = serde_json::to_string(&records.records).unwrap();
    assert_eq!(text.matches("quota_exceeded").count(), 1, "{text}");
    let metrics = place.get("/metrics");
    assert_eq!(counted(&metrics, "kms_quota_refused_total"), 4);
}

#[test]
fn a_refusal_by_quota_says_when_to_come_again_on_both_kinds_of_paths() {
    let place = Place::with("[quota]\nmicroseconds_per_second = 1\nburst_seconds = 1\n");
    let _server = place.serve("store");
    place.unseal();
    create(&place.admin(), "default", "k", "ed25519");
    let body = json!({"key": "k", "message": "bQ=="}).to_string();
    let answer = place.ask("POST", "/v1/kms/sign", &body);
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    // A key takes 4 ms, of which one is had in a thousand seconds.
    let seconds = answer.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    let seconds: u64 = seconds.trim().parse().unwrap();
    assert!((3000..10_000).contains(&seconds), "{answer}");
    let answer = place.ask("POST", "/v1/transit/sign/k", "{\"input\": \"bQ==\"}");
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after: "), "{answer}");
    assert!(answer.contains("{\"errors\":[\"quota_exceeded: "), "{answer}");
}

/// A token without rights fills neither the log nor the server's time, whatever it is refused for.
#[test]
fn denied_requests_use_quota_and_share_log_records() {
    let place = Place::with("[quota]\nmicroseconds_per_second = 1000\nburst_seconds = 1\n");
    let server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    let weak = |principal: &str| {
        let asked = CreateToken {
            principal: principal.into(),
            caveats: Some(vec!["actions=random,disable".into()]),
            lifetime_s: None,
        };
        let token = admin.create_token(&asked).unwrap().token;
        move |place: &Place, path: &str, body: &str| {
            let token = token.expose();
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let answer = super::raw::exchange(&place.path("kms"), &request);
            answer.split(' ').nth(1).unwrap().to_owned()
        }
    };
    let long = format!("{{\"bytes\":\"{}\"}}", "a".repeat(2 << 20));
    let mut denied = 0;
    for (at, (path, body, refusal)) in [
        ("/v1/kms/sign", r#"{"key":"k","message":"bQ=="}"#, "403"),
        ("/v1/kms/tokens", r#"{"principal":"more"}"#, "403"),
        ("/v1/transit/encrypt/k", "{}", "403"),
        ("/v1/kms/random", "{", "400"),
        ("/v1/kms/random?colour=blue", "{}", "400"),
        ("/v1/kms/random", &long, "413"),
        ("/v1/kms/batch", r#"{"items":[]}"#, "403"),
    ]
    .into_iter()
    .enumerate()
    {
        let ask = weak(&format!("weak-{at}"));
        let mut asked = 0;
        loop {
            let status = ask(&place, path, body);
            if status == "429" {
                break;
            }
            assert_eq!(status, refusal, "{path} {body:.40}");
            asked += 1;
            // Some 20 at once, and as many a second.
            assert!(asked < 400, "{path} {body:.40}");
        }
        denied += if refusal == "403" { asked } else { 0 };
        // Actions that withdraw use are never blocked by that.
        assert_eq!(ask(&place, "/v1/kms/keys/none/disable", r#"{"version":1}"#), "404");
    }
    admin.seal().unwrap();
    place.unseal();
    let records: AuditRecords = admin.get("/v1/kms/audit?limit=1000").unwrap();
    let told: Vec<&Value> = records.records.iter().map(|record| &record.record).collect();
    let of_denials: Vec<&&Value> = told
        .iter()
        .filter(|record| record["outcome"] == "denied" && record["principal"] != "first")
        .collect();
    let counted: u64 = of_denials.iter().map(|record| record["count"].as_u64().unwrap_or(1)).sum();
    assert_eq!((of_denials.len(), counted), (8, denied));
    server.stop();
}

/// Quick operations are not delayed, whether or not another tenant floods the server with slow
/// ones.
#[test]
fn a_flood_changes_no_other_tenants_wait() {
    let local = Local::start();
    let client = local.client();
    create(&client, "a", "slow", "slh-dsa-sha2-128f");
    create(&client, "b", "quick", "ed25519");
    let some = |client: &Client| {
        for _ in 0..50 {
            client.sign(&sign("b", "quick")).unwrap();
        }
    };
    some(&client);
    let quiet = local.get("/metrics");
    let (over, floods) = (AtomicBool::new(false), local.client());
    let served = std::thread::scope(|scope| {
        let flood: Vec<_> = (0..24)
            .map(|_| {
                scope.spawn(|| {
                    let client = local.client();
                    let mut served = 0;
                    while !over.load(Ordering::Relaxed) {
                        served += u64::from(client.sign(&sign("a", "slow")).is_ok());
                    }
                    served
                })
            })
            .collect();
        // They wait for each other by now.
        let behind = "kms_queue_wait_seconds_count{lane=\"slow\",behind=\"own\"}";
        while counted(&local.get("/metrics"), behind) < 10 {
            std::thread::sleep(Duration::from_millis(20));
        }
        some(&floods);
        over.store(true, Ordering::Relaxed);
        flood.into_iter().map(|one| one.join().unwrap()).sum::<u64>()
    });
    let flooded = local.get("/metrics");
    assert!(served > 10);
    // Each of b's found a place at once, in both runs.
    assert_eq!((counted(&quiet, QUICK_AT_ONCE), counted(&quiet, QUICK)), (50, 50), "{quiet}");
    assert_eq!((counted(&flooded, QUICK_AT_ONCE), counted(&flooded, QUICK)), (100, 100));
    assert_eq!(counted(&flooded, "kms_queue_wait_seconds_count{lane=\"quick\",behind=\"own\"}"), 0);
}

/// The token of `kms dev` has no quota.
#[test]
fn a_server_to_try_things_out_has_no_quota() {
    let local = Local::start();
    let client = local.client();
    create(&client, "default", "slow", "slh-dsa-sha2-128f");
    create(&client, "default", "quick", "ed25519");
    for _ in 0..200 {
        client.sign(&sign("default", "quick")).unwrap();
    }
    client.sign(&sign("default", "slow")).unwrap();
    assert_eq!(counted(&local.get("/metrics"), "kms_quota_refused_total"), 0);
}

/// Received bytes are charged to the tenant, even if they are not processed.
#[test]
fn a_request_is_charged_for_its_bytes_once() {
    let place = Place::with("[quota]\nburst_seconds = 1\ntenants = { small = 20000 }\n");
    let _server = place.serve("store");
    place.unseal();
    let client = place.admin();
    create(&client, "small", "k", "ed25519");
    let large = |items: usize| {
        let item = json!({"input": encode(&vec![7; 10_000])});
        let body = json!({"batch_input": vec![item; items]}).to_string();
        let answer = place.ask_of("small", "POST", "/v1/transit/sign/k", &body);
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    // Some 13 KB an item: 70 us for them and 25 for its signature; together some 4 ms of the 16
    // that are left, and not the 100 that 40 times all of them would be.
    assert_eq!(large(40), "200");
    client.sign(&sign("small", "k")).unwrap();
    // More than is left, which causes a debt.
    assert_eq!((large(60), large(60)), ("200".to_owned(), "200".to_owned()));
}
