//! Health, metrics and warnings.

use gabion_kms_server::memory::{Lock, is_swap_on};
use serde_json::Value;

use super::raw::Local;
use super::{client, create, server};

#[test]
fn health_ready_and_status_endpoints_answer() {
    let server = server();
    let client = client(&server);
    assert_eq!(client.get::<Value>("/healthz").unwrap()["ok"], true);
    let ready: Value = client.get("/readyz").unwrap();
    assert_eq!((&ready["ready"], &ready["reasons"]), (&true.into(), &Value::Array(Vec::new())));
    assert_eq!(ready["warnings"], Value::Array(Vec::new()));
    let before = client.status().unwrap();
    assert!(before.initialized && !before.sealed);
    assert_eq!(before.store.len(), 32);
    create(&client, "release", "ed25519");
    assert!(client.status().unwrap().revision > before.revision);
}

#[test]
fn the_description_has_every_path_and_refers_to_schemas_that_are_there() {
    let server = server();
    let document: Value = client(&server).get("/openapi.json").unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let sign = &document["paths"]["/v1/kms/sign"]["post"];
    assert_eq!(sign["operationId"], "sign");
    assert_eq!(
        sign["requestBody"]["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/Sign"
    );
    let keys = document["paths"]["/v1/kms/keys/{key}"].as_object().unwrap();
    // Cedar asks serde_json to keep the order of fields, which nothing else does.
    let mut methods: Vec<&String> = keys.keys().collect();
    methods.sort_unstable();
    assert_eq!(methods, ["delete", "get"]);
}

/// Unlocked memory is reported; if swap is enabled, no requests are served unless that is allowed.
#[test]
fn memory_that_is_not_locked_is_told_of() {
    for (lock, is_allowed) in [
        (Lock::Whole, false),
        (Lock::Unlocked("a limit".into()), false),
        (Lock::Unlocked("a limit".into()), true),
    ] {
        let is_locked = lock == Lock::Whole;
        let local = Local::with(|host| host.with_memory(&lock, is_allowed));
        let (status, ready) = local.ask("GET", "/readyz", &Value::Null);
        let is_refused = !is_locked && !is_allowed && is_swap_on();
        let says = |is_said: bool| match is_said {
            true => serde_json::json!(["memory_not_locked"]),
            false => serde_json::json!([]),
        };
        assert_eq!(status, if is_refused { 503 } else { 200 }, "{ready}");
        assert_eq!((&ready["reasons"], &ready["warnings"]), (&says(is_refused), &says(!is_locked)));
        let warnings = local.client().status().unwrap().warnings.unwrap_or_default();
        assert_eq!(warnings.len(), usize::from(!is_locked));
    }
}

/// The requirement of `promtool check metrics`: each metric has one type and one help text before
/// its values.
#[test]
fn every_metric_is_explained() {
    let local = Local::start();
    create(&local.client(), "k", "ed25519");
    let text = local.get("/metrics");
    let of = |kind: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let (help, types) = (of("# HELP "), of("# TYPE "));
    assert_eq!(help, types);
    let mut once = types.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), types.len());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let is_of = |of: &String| {
            let rest = name.strip_prefix(of.as_str());
            matches!(rest, Some("" | "_sum" | "_count" | "_bucket"))
        };
        assert!(types.iter().any(is_of), "{line}");
    }
    assert!(text.contains("\nkms_sealed 0\n") && text.contains("\nkms_build_info{version="));
    assert!(text.contains("\nkms_handshakes_failed_total 0\n"));
    if cfg!(target_os = "linux") {
        for name in ["process_resident_memory_bytes", "process_open_fds"] {
            assert!(types.iter().any(|of| of == name), "{name}");
        }
    }
    local.client().seal().unwrap();
    assert!(local.get("/metrics").contains("\nkms_sealed 1\n"));
}
