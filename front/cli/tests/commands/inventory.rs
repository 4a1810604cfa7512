//! `gabion inventory` and `gabion cbom diff`.

#![allow(clippy::unwrap_used, missing_docs)] // A panic is how a test fails.

use std::process::Command;

use crate::harness::Work;

/// Makes a key and a self-signed certificate with the system's openssl. Returns `false` if that
/// fails, for example because openssl is not installed.
fn certificate(work: &Work, name: &str, algorithm: &[&str], days: &str) -> bool {
    let mut command = Command::new("openssl");
    let (key, file) = (format!("{name}.key"), format!("{name}.crt"));
    command.args(["req", "-x509", "-nodes", "-subj", "/CN=a.example", "-days", days, "-newkey"]);
    command.args(algorithm).args(["-keyout", &key, "-out", &file]);
    let made = command.current_dir(work.folder()).output();
    let is_made = made.as_ref().is_ok_and(|output| output.status.success());
    if !is_made {
        eprintln!("skipped: openssl makes no certificate: {made:?}");
    }
    is_made
}

#[test]
fn keys_of_keygen_are_listed_and_never_printed() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-65", "--out", "a.key", "--pub", "a.pub"]).ok();
    work.gabion(&["keygen", "ECDSA-P-256", "--out", "b.key", "--pub", "b.der", "--der"]).ok();
    work.write("other.txt", "text");
    let listed = work.gabion(&["inventory", "."]).ok();
    let text = listed.text();
    assert_eq!(listed.err, "");
    let row = |path: &str| {
        let line = text.lines().find(|line| line.ends_with(path));
        let line = line.unwrap_or_else(|| panic!("{path} is missing in {text}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(row("a.key"), ["private key", "ML-DSA-65", "15616", "yes", "-", "./a.key"]);
    assert_eq!(row("a.pub"), ["public key", "ML-DSA-65", "15616", "yes", "-", "./a.pub"]);
    assert_eq!(row("b.key"), ["private key", "ECDSA P-256", "256", "no", "-", "./b.key"]);
    assert_eq!(row("b.der"), ["public key", "ECDSA P-256", "256", "no", "-", "./b.der"]);
    assert!(text.contains("4 assets in 5 files: 0 certificates, 2 private keys, 2 public keys"));
    assert!(text.contains("2 post-quantum, 2 classical, 0 unknown; 0 certificates expired"));

    let json = work.gabion(&["inventory", ".", "--json"]).ok();
    let document = json.json();
    assert_eq!(document["summary"]["classical"], 2);
    assert_eq!(document["assets"][0]["path"], "./a.key");
    assert_eq!(document["assets"][0]["algorithm"]["name"], "ML-DSA-65");
    let key = String::from_utf8(work.read("a.key")).unwrap();
    let body = key.lines().nth(1).unwrap();
    assert!(!json.text().contains(body) && !text.contains(body));
}

#[test]
fn damaged_and_missing_paths_are_named() {
    let work = Work::new();
    work.write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    let listed = work.gabion(&["inventory", "."]).ok();
    assert_eq!(listed.err, "warning: ./cut.pem: block 1 (`CERTIFICATE`) is cut short\n");
    work.gabion(&["inventory", "missing"]).fails(2).says("cannot read missing: No such file");
    work.gabion(&["inventory"]).fails(2);
    work.gabion(&["inventory", ".", "--results", "x"]).fails(2).says("--cbom");
    work.write("results", "{}\n\n[");
    work.gabion(&["inventory", ".", "--cbom", "c", "--results", "results"])
        .fails(2)
        .says("results, line 3: not a result of `gabion probe`");
}

#[test]
fn differences_decide_the_exit_code() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "a.key"]).ok();
    let scan = |out: &str| {
        work.gabion(&["inventory", "a.key", "b.key", "--cbom", out]).ok();
    };
    work.gabion(&["keygen", "Ed25519", "--out", "b.key"]).ok();
    scan("old");
    let text = work.gabion(&["cbom", "diff", "old", "old"]).ok().text();
    assert_eq!(text, "nothing became classical or expires\n");
    work.gabion(&["keygen", "Ed25519", "--out", "a.key", "--force"]).ok();
    scan("new");
    let found = work.gabion(&["cbom", "diff", "old", "new"]);
    assert_eq!((found.code, &*found.err), (Some(1), ""));
    let expected = "became classical: private-key Ed25519 private key in a.key: ML-DSA-44 -> Ed25519\n\
                    1 worse, 0 expired or expiring\n";
    assert_eq!(found.text(), expected);
    let json = work.gabion(&["cbom", "diff", "old", "new", "--json"]);
    assert_eq!(json.code, Some(1));
    assert_eq!(json.json()["became_classical"][0]["new"][0], "Ed25519");
    work.gabion(&["cbom", "diff", "new", "old"]).ok();

    work.write("text", "text");
    work.gabion(&["cbom", "diff", "old", "text"]).fails(2).says("text is not JSON");
    work.write("empty", "{}");
    work.gabion(&["cbom", "diff", "empty", "old"]).fails(2).says("not a CycloneDX document");
    work.gabion(&["cbom", "diff", "-", "-"]).fails(2).says("standard input");
}

#[test]
fn certificates_of_openssl_expire_in_time() {
    let work = Work::new();
    if !certificate(&work, "a", &["rsa:2048"], "10") {
        return;
    }
    let text = work.gabion(&["inventory", "a.crt", "a.key"]).ok().text();
    assert!(text.contains("RSA-2048, signed by RSA with SHA-256"), "{text}");
    work.gabion(&["inventory", ".", "--cbom", "c.json"]).ok();
    let found = work.gabion(&["cbom", "diff", "c.json", "c.json"]);
    assert_eq!(found.code, Some(1));
    assert!(found.text().contains("certificate CN=a.example in ./a.crt"), "{found:?}");
    work.gabion(&["cbom", "diff", "c.json", "c.json", "--days", "5"]).ok();
}

#[test]
fn probe_results_become_protocols() {
    let work = Work::new();
    work.write(
        "results",
        concat!(
            r#"{"target":"a.example:443","version":"TLSv1.3","group":"X25519MLKEM768","#,
            r#""key_exchange":{"post_quantum":true,"algorithm":"X25519MLKEM768","why":"","fix":[]}}"#,
            "\n",
            r#"{"target":"down.example:443","problems":["connection refused"]}"#,
            "\n",
        ),
    );
    work.write("empty", "");
    work.gabion(&["inventory", "empty", "--cbom", "c.json", "--results", "results"]).ok();
    let document: serde_json::Value = serde_json::from_slice(&work.read("c.json")).unwrap();
    let names: Vec<&str> = document["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|component| component["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["X25519MLKEM768", "TLS 1.3 of a.example:443"]);
    // The CBOM alone goes to standard output.
    let printed = work.gabion(&["inventory", "empty", "--cbom", "-"]).ok();
    assert_eq!(printed.json()["bomFormat"], "CycloneDX");
}
