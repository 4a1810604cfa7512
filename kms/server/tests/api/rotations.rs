//! Rotation by the clock, by a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gabion_kms::clock::{Clock, SystemClock};
use gabion_kms_client::Client;
use gabion_kms_wire::native::{AuditRecords, ConfigureKey, CreateKey, ImportKey, Key};
use gabion_kms_wire::{Secret, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::serve::Place;
use super::transit::{data, refused as said};
use super::{client, create, refused, server};

const HOUR_S: u64 = 60 * 60;

/// A clock that is some time ahead of the system's.
#[derive(Default)]
struct ShiftedClock {
    ms: AtomicU64,
    /// Whether the thread that rotates keys panics.
    panics: AtomicBool,
}

impl ShiftedClock {
    fn goes_on(&self, seconds: u64) {
        self.ms.fetch_add(1000 * seconds, Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + self.ms.load(Ordering::SeqCst)
    }

    fn steady_ms(&self) -> u64 {
        let is_its = thread::current().name() == Some("gabion-kms-rotation");
        assert!(!(is_its && self.panics.load(Ordering::SeqCst)), "planted");
        SystemClock.steady_ms()
    }
}

/// Waits until there is something.
fn until<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "nothing came");
        thread::sleep(Duration::from_millis(20));
    }
}

fn hourly(client: &Client, name: &str) -> Key {
    let (name, algorithm, rotate_period_s) = (name.into(), "ed25519".into(), Some(HOUR_S));
    client.create(&CreateKey { name, algorithm, rotate_period_s, ..CreateKey::default() }).unwrap()
}

#[test]
fn due_keys_are_rotated_and_once_after_unsealing() {
    let (place, clock) = (Place::new(), Arc::new(ShiftedClock::default()));
    let server = place.serve_by("store", clock.clone());
    place.unseal();
    let admin = place.admin();
    let key = hourly(&admin, "k");
    let other = create(&admin, "other", "ed25519");
    assert_eq!(
        (key.rotate_period_s, other.rotate_period_s, other.rotates_ms),
        (Some(HOUR_S), None, None)
    );
    assert_eq!(key.rotates_ms, Some(key.created_ms + 1000 * HOUR_S));
    clock.goes_on(HOUR_S);
    let newer = |than: u32| until(|| admin.show("k").ok().filter(|key| key.latest > than));
    let rotated = newer(1);
    assert_eq!(rotated.latest, 2);
    assert!(rotated.rotates_ms > key.rotates_ms);
    assert_eq!(admin.show("other").unwrap().latest, 1);
    let records: AuditRecords = admin.get("/v1/kms/audit?limit=1000").unwrap();
    let by_clock: Vec<&Value> = records
        .records
        .iter()
        .map(|of| &of.record)
        .filter(|record| record["principal"] == "auto-rotate")
        .collect();
    assert_eq!(by_clock.len(), 2, "{by_clock:?}");
    assert!(
        by_clock.iter().all(|record| record["action"] == "rotate" && record["method"] == "local")
    );
    let metrics = place.get("/metrics");
    assert!(metrics.contains("\nkms_auto_rotations_total 1\n"), "{metrics}");
    // Sealed nothing is rotated; a period that was missed, and another, is one rotation.
    admin.seal().unwrap();
    clock.goes_on(2 * HOUR_S);
    place.unseal();
    assert_eq!(newer(2).latest, 3);
    server.stop();
    clock.goes_on(HOUR_S);
    let server = place.serve_by("store", clock.clone());
    place.unseal();
    assert_eq!(newer(3).latest, 4);
    let ready: Value = serde_json::from_str(&place.get("/readyz")).unwrap();
    assert_eq!(ready["warnings"], json!([]));
    server.stop();
}

#[test]
fn a_rotation_that_fails_is_in_the_warnings() {
    let (place, clock) = (Place::new(), Arc::new(ShiftedClock::default()));
    let server = place.serve_by("store", clock.clone());
    place.unseal();
    hourly(&place.admin(), "k");
    // The server may write a checkpoint meanwhile.
    until(|| std::fs::remove_dir_all(place.path("store-audit")).ok());
    clock.goes_on(HOUR_S);
    let warns = |what: &str| {
        let said: Value = serde_json::from_str(&place.get(what)).unwrap();
        said["warnings"].as_array().is_some_and(|all| all.contains(&json!("rotation_failing")))
    };
    until(|| warns("/readyz").then_some(()));
    assert!(warns("/v1/kms/status"));
    let metrics = place.get("/metrics");
    assert!(!metrics.contains("\nkms_auto_rotations_failed_total 0\n"), "{metrics}");
    server.stop();
}

#[test]
fn rotation_resumes_after_a_panic_and_warns() {
    let (place, clock) = (Place::new(), Arc::new(ShiftedClock::default()));
    let server = place.serve_by("store", clock.clone());
    place.unseal();
    let admin = place.admin();
    hourly(&admin, "k");
    let warns = |what: &str| {
        let said: Value = serde_json::from_str(&place.get(what)).unwrap();
        said["warnings"].as_array().is_some_and(|all| all.contains(&json!("thread_failing")))
    };
    let panics = || -> u64 {
        let (metrics, name) = (place.get("/metrics"), "kms_panics_total{thread=\"rotation\"} ");
        metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    };
    assert_eq!((panics(), warns("/readyz")), (0, false));
    clock.panics.store(true, Ordering::SeqCst);
    until(|| (panics() >= 2 && warns("/readyz")).then_some(()));
    assert!(warns("/v1/kms/status"));
    clock.goes_on(HOUR_S);
    assert_eq!(admin.show("k").unwrap().latest, 1);
    clock.panics.store(false, Ordering::SeqCst);
    until(|| admin.show("k").ok().filter(|key| key.latest == 2));
    until(|| (!warns("/readyz")).then_some(()));
    server.stop();
}

/// However many keys are due, it ends after the one that it is at, and its store is the next one's.
#[test]
fn a_server_ends_between_two_rotations() {
    const KEYS: usize = 300;
    let (place, clock) = (Place::new(), Arc::new(ShiftedClock::default()));
    let server = place.serve_by("store", clock.clone());
    place.unseal();
    let admin = place.admin();
    for number in 0..KEYS {
        hourly(&admin, &format!("k{number}"));
    }
    let rotated = || -> usize {
        let (metrics, name) = (place.get("/metrics"), "kms_auto_rotations_total ");
        metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    };
    clock.goes_on(HOUR_S);
    let before = until(|| Some(rotated()).filter(|rotated| *rotated > 0));
    assert!(before < KEYS, "they are too few for this machine");
    server.stop();
    let server = place.serve_by("store", clock.clone());
    place.unseal();
    until(|| (rotated() > 0).then_some(()));
    for number in 0..KEYS {
        until(|| admin.show(&format!("k{number}")).ok().filter(|key| key.latest == 2));
    }
    server.stop();
}

#[test]
fn periods_are_set_shown_and_ended() {
    let server = server();
    let client = client(&server);
    let key = hourly(&client, "k");
    let config = |seconds: u64| {
        let to = ConfigureKey { rotate_period_s: Some(seconds), ..ConfigureKey::default() };
        client.configure("k", &to)
    };
    let day = config(24 * HOUR_S).unwrap();
    assert_eq!(day.rotates_ms, Some(key.created_ms + 24_000 * HOUR_S));
    assert_eq!(client.show("k").unwrap().rotate_period_s, Some(24 * HOUR_S));
    // Omitted fields stay.
    let labels =
        ConfigureKey { labels: Some([("a".into(), "b".into())].into()), ..ConfigureKey::default() };
    assert_eq!(client.configure("k", &labels).unwrap().rotates_ms, day.rotates_ms);
    for seconds in [1, HOUR_S - 1, 315_360_001, u64::MAX] {
        let problem = refused(config(seconds));
        assert_eq!(problem.code, "bad_request");
        assert!(
            problem.message.contains("expected 3600 (an hour) to 315360000 (ten years)"),
            "{}",
            problem.message
        );
    }
    assert_eq!(client.show("k").unwrap().rotates_ms, day.rotates_ms);
    let ended = config(0).unwrap();
    assert_eq!((ended.rotate_period_s, ended.rotates_ms), (None, None));
    let raw = || Some(Secret::of_bytes(&[7; 32]));
    let import = ImportKey {
        name: "brought".into(),
        algorithm: "xaes-256-gcm".into(),
        raw: raw(),
        rotate_period_s: Some(HOUR_S),
        ..ImportKey::default()
    };
    assert_eq!(client.import(&import).unwrap().rotate_period_s, Some(HOUR_S));
    let public = ImportKey {
        name: "theirs".into(),
        algorithm: "ed25519".into(),
        public: Some(encode(&[7; 32])),
        raw: None,
        ..import
    };
    assert_eq!(refused(client.import(&public)).code, "unsupported");
    let nothing = ImportKey { rotate_period_s: Some(0), raw: raw(), public: None, ..public };
    assert_eq!(client.import(&nothing).unwrap().rotate_period_s, None);
}

#[test]
fn vaults_auto_rotate_period_is_vaults() {
    let local = Local::start();
    let ask =
        |path: &str, body: Value| local.ask("POST", &format!("/v1/transit/keys/{path}"), &body);
    for (name, period, seconds) in [
        ("a", json!("24h"), 86_400),
        ("b", json!(3600), 3600),
        ("c", json!("7200"), 7200),
        ("d", json!("30d"), 2_592_000),
        ("e", json!("1h30m"), 5400),
        ("f", json!(0), 0),
        ("g", json!("0"), 0),
        ("h", json!(""), 0),
        ("i", Value::Null, 0),
    ] {
        let made = data(ask(name, json!({"type": "ed25519", "auto_rotate_period": period})));
        assert_eq!(made["auto_rotate_period"], seconds, "{name}");
    }
    // A key that is there keeps its own, and says so.
    let again = ask("a", json!({"type": "ed25519", "auto_rotate_period": "1h"}));
    let warnings = again.1["warnings"].to_string();
    assert!(warnings.contains("`auto_rotate_period` stays 86400"), "{warnings}");
    assert_eq!(data(again)["auto_rotate_period"], 86_400);
    for (period, seconds) in [(json!("48h"), 172_800), (json!("0s"), 0), (json!(3600), 3600)] {
        let key = data(ask("a/config", json!({"auto_rotate_period": period})));
        assert_eq!(key["auto_rotate_period"], seconds);
    }
    // A public key cannot be rotated here, so a rotation period is rejected on import.
    let made = data(ask("p", json!({"type": "ecdsa-p256"})));
    let import = |period: &str| {
        let public = &made["keys"]["1"]["public_key"];
        let body =
            json!({"type": "ecdsa-p256", "public_key": public, "auto_rotate_period": period});
        local.ask_of("other", "POST", "/v1/transit/keys/p/import", &body)
    };
    assert!(said(import("24h"), 400).starts_with("unsupported"));
    assert_eq!(import("0").0, 204);
    // An omitted field keeps its value, and a refused request changes nothing at all.
    data(ask("a/rotate", json!({})));
    let key = data(ask("a/config", json!({"min_encryption_version": 1})));
    assert_eq!(
        (&key["auto_rotate_period"], &key["min_encryption_version"]),
        (&json!(3600), &json!(1))
    );
    let refusal = said(
        ask(
            "a/config",
            json!({"auto_rotate_period": "59m", "min_decryption_version": 2, "min_encryption_version": 2}),
        ),
        400,
    );
    assert!(refusal.contains("3600 (an hour)"), "{refusal}");
    let key = data(local.ask("GET", "/v1/transit/keys/a", &Value::Null));
    assert_eq!(
        (&key["auto_rotate_period"], &key["min_decryption_version"]),
        (&json!(3600), &json!(1))
    );
}
