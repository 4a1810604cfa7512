//! `gabion run`, as a script sees it.

use std::process::{Command, Stdio};

use gabion_cli_testing::{CommandResult, Work, bundle};
use serde_json::Value;

#[test]
fn run_writes_what_it_shows_and_leaves_nothing_running() {
    if bundle().is_none_or(|prefix| !prefix.join("lib/ossl-modules/gabion.so").exists()) {
        return;
    }
    let work = Work::new();
    let text = work.bench(&["run", "--seconds", "0.2"]).ok().text();
    for word in [
        "TLSv1.3",
        "X25519MLKEM768 (by gabion)",
        "ML-DSA-65 (signature by gabion)",
        "server CPU",
        "out/run.json",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let report: Value = serde_json::from_slice(&work.read("out/run.json")).unwrap();
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&report), ["commit", "date", "engine", "gabion", "openssl", "tls"]);
    assert_eq!(
        keys(&report["tls"]),
        [
            "cipher",
            "client_us",
            "group",
            "handshakes_per_cpu_s",
            "kem_provider",
            "server_us",
            "signature",
            "signature_provider",
            "version"
        ]
    );
    assert_eq!(report["tls"]["kem_provider"], "gabion");
    assert_eq!(report["tls"]["signature_provider"], "gabion");
    for field in ["handshakes_per_cpu_s", "server_us", "client_us"] {
        for provider in ["default", "gabion"] {
            assert!(report["tls"][field][provider].as_f64().unwrap() > 0.0, "{field} {provider}");
        }
    }
    assert_eq!(report["engine"].as_array().unwrap().len(), 12);
    // No server of ours: they run in a temporary folder, which is gone by now.
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let folder = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let folder = folder.to_string_lossy();
        assert!(!(folder.contains("/gabion-") && folder.ends_with(" (deleted)")), "{folder}");
    }
}

#[test]
fn an_interrupted_run_cleans_up() {
    if bundle().is_none_or(|prefix| !prefix.join("lib/ossl-modules/gabion.so").exists()) {
        return;
    }
    let work = Work::new();
    let mut command = work.bench_command(&["run", "--seconds", "20"]);
    std::fs::create_dir(work.path("tmp")).unwrap();
    command.env("TMPDIR", work.path("tmp")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let inside = || std::fs::read_dir(work.path("tmp")).unwrap().flatten().next();
    // Its first command writes there, and by then the handler is set.
    let is_busy = || inside().is_some_and(|folder| folder.path().join("command.out").exists());
    let start = std::time::Instant::now();
    while !is_busy() && start.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(is_busy());
    Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(inside().is_none(), "its folder is still there");
}

#[test]
fn run_without_a_bundle_is_not_ready() {
    let work = Work::new();
    let mut command = work.bench_command(&["run"]);
    command.env("GABION_OPENSSL_PREFIX", work.path("nothing"));
    CommandResult::of(command.output().unwrap()).fails(3).says("gabion bundle build");
    assert!(!work.has("out"));
    if bundle().is_some() {
        let mut command = work.bench_command(&["run"]);
        command.env("GABION_OPENSSL_FIPS_MODE", "only");
        CommandResult::of(command.output().unwrap()).fails(3).says("no FIPS module");
    }
}

#[test]
fn run_refuses_an_output_that_cannot_be_before_it_measures() {
    if bundle().is_none_or(|prefix| !prefix.join("lib/ossl-modules/gabion.so").exists()) {
        return;
    }
    let work = Work::new();
    std::fs::write(work.path("file"), "theirs").unwrap();
    std::fs::create_dir(work.path("folder")).unwrap();
    for (out, problem) in [("folder", "is a folder"), ("file/run.json", "cannot make")] {
        let done = work.bench(&["run", "--seconds", "0.2", "--out", out]).fails(2).says(problem);
        assert_eq!(done.text(), "", "nothing was begun");
    }
    assert_eq!(work.read("file"), b"theirs");
}
