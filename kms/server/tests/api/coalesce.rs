//! Requests that are there at the same time: each is answered as it would be alone.

use gabion_kms_client::{Client, Error};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{CreateKey, OfVersion, Sign, Signed, Verified, Verify};
use serde_json::{Value, json};

use super::refused;
use super::serve::Place;

const CLIENTS: usize = 12;
const ROUNDS: usize = 25;

fn create(client: &Client, name: &str, algorithm: &str) {
    let (name, algorithm) = (name.to_owned(), algorithm.to_owned());
    client.create(&CreateKey { name, algorithm, ..CreateKey::default() }).unwrap();
}

fn counted(metrics: &str, name: &str) -> u64 {
    let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.map_or(0, |count| count.parse().unwrap())
}

fn sign(key: &str, message: &[u8]) -> Sign {
    Sign { message: Some(encode(message)), ..Sign::by(key) }
}

fn verify(client: &Client, key: &str, message: &[u8], signature: &str) -> Result<Verified, Error> {
    let (key, signature) = (key.to_owned(), signature.to_owned());
    let message = Some(encode(message));
    client.verify(&Verify { key, message, signature, ..Verify::default() })
}

/// Returns the answers of concurrent clients, and how many of their requests were coalesced.
fn at_once(coalesce: &str) -> u64 {
    let place = Place::with(&format!("[limits]\ncoalesce = \"{coalesce}\"\n"));
    let _server = place.serve("store");
    place.unseal();
    let client = place.admin();
    create(&client, "ed", "ed25519");
    create(&client, "off", "ed25519");
    create(&client, "ml", "ml-dsa-44");
    create(&client, "ecdsa", "ecdsa-p-256");
    let path = "/v1/kms/keys/off/disable";
    let good = client.sign(&sign("off", b"m")).unwrap();
    let _: Value = client.post(path, &OfVersion { version: 1 }).unwrap();
    let disabled = refused(client.sign(&sign("off", b"m"))).code;
    let alone = refused(verify(&client, "ed", b"m", "AAAA"));
    let once = |client: &Client, at: usize| {
        let message = format!("{at}").into_bytes();
        match at % 6 {
            0 | 1 => {
                let key = ["ed", "ml"][at % 2];
                let Signed { signature, by, .. } = client.sign(&sign(key, &message)).unwrap();
                let verdict = verify(client, key, &message, &signature).unwrap();
                assert_eq!((verdict.valid, verdict.by), (true, by));
                assert!(!verify(client, key, b"another", &signature).unwrap().valid);
            }
            2 => assert_eq!(refused(client.sign(&sign("off", &message))).code, disabled),
            3 => {
                let problem = refused(verify(client, "ed", b"m", "AAAA"));
                assert_eq!(
                    (problem.code, problem.message),
                    (alone.code.clone(), alone.message.clone())
                );
                assert_eq!(refused(client.sign(&sign("none", &message))).code, "not_found");
                assert_eq!(refused(client.sign(&Sign::by("ed"))).code, "bad_request");
            }
            4 => {
                let body = json!({"input": encode(&message)});
                let signed: Value = client.post("/v1/transit/sign/ed", &body).unwrap();
                let signature = &signed["data"]["signature"];
                let body = json!({"input": encode(&message), "signature": signature});
                let verdict: Value = client.post("/v1/transit/verify/ed", &body).unwrap();
                assert_eq!(verdict["data"]["valid"], true);
                let body = json!({"input": encode(b"another"), "signature": signature});
                let verdict: Value = client.post("/v1/transit/verify/ed", &body).unwrap();
                assert_eq!(verdict["data"]["valid"], false);
            }
            _ => {
                let signed = client.sign(&sign("ecdsa", &message)).unwrap();
                assert!(verify(client, "ecdsa", &message, &signed.signature).unwrap().valid);
            }
        }
    };
    std::thread::scope(|scope| {
        for who in 0..CLIENTS {
            let (place, once) = (&place, &once);
            scope.spawn(move || {
                let client = place.admin();
                (0..ROUNDS).for_each(|round| once(&client, who * ROUNDS + round));
            });
        }
    });
    assert!(!good.signature.is_empty());
    let metrics = place.get("/metrics");
    let (requests, times) =
        (counted(&metrics, "kms_coalesced_len_sum"), counted(&metrics, "kms_coalesced_len_count"));
    // None was left out, and no more than eight were run at once.
    assert!(times <= requests && requests <= 8 * times, "{requests} {times}");
    let verified = "kms_ops_total{op=\"verify\",alg=\"ed25519\"}";
    assert!(counted(&metrics, verified) > 250, "{metrics}");
    requests
}

#[test]
fn coalesced_answers_equal_single_answers() {
    assert!(at_once("any") > 0);
    assert!(at_once("tenant") > 0);
    assert_eq!(at_once("off"), 0);
}

#[test]
fn single_request_is_not_coalesced() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let client = place.admin();
    create(&client, "ed", "ed25519");
    for round in 0..20_u8 {
        client.sign(&sign("ed", &[round])).unwrap();
    }
    assert_eq!(counted(&place.get("/metrics"), "kms_coalesced_len_count"), 0);
}
