//! `gabion kms audit`: the log of a server, online and offline, and with an independent verifier.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{CommandResult, Work};
use crate::kms::{Caller, ServeCommand, config};

/// How long whatever is waited for may take.
const LONG: Duration = Duration::from_secs(60);

/// A store with a server, which is unsealed by a passphrase at its start. Segments have 1 MiB.
fn place(work: &Work) -> Caller<'_> {
    let [archive, passphrase] = ["archive", "passphrase"].map(|name| work.path(name));
    let more = format!(
        "archive = \"{}\"\n[seal]\npassphrase_file = \"{}\"\n",
        archive.display(),
        passphrase.display()
    );
    work.write("kms.toml", config(work, "store", &more));
    work.write("passphrase", "a passphrase\n");
    Caller::init(work, &["--passphrase", "file:passphrase"]).0
}

#[test]
fn a_log_is_shown_proved_and_verified_and_go_agrees() {
    let work = Work::new();
    let caller = place(&work);
    let server = ServeCommand::start(&caller);
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
    for _ in 0..5 {
        caller.run(&["sign", "--key", "k", "--out", "sig", "kms.toml"]).ok();
        std::fs::remove_file(work.path("sig")).unwrap();
    }
    let tail = caller.run(&["audit", "tail", "--lines", "3"]).ok().text();
    assert_eq!(tail.lines().count(), 3, "{tail}");
    assert!(tail.lines().all(|line| line.contains("  first  sign  default/transit/ed25519/")));
    let lines = caller.run(&["audit", "tail", "--from", "0", "--json"]).ok().text();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (line, index) in lines.iter().zip(0u64..) {
        assert_eq!(line["index"], index);
        assert!(line["record"]["outcome"].is_string(), "{line}");
    }
    let keys = caller.run(&["audit", "keys"]).ok().text();
    assert_eq!(keys.lines().count(), 2);
    work.write("vkeys", &keys);
    // Also the record of a moment ago, which no checkpoint had.
    let newest = lines.len().to_string();
    for index in ["0", newest.as_str()] {
        let proof = caller.run(&["audit", "prove", index, "--keys", "vkeys", "--json"]).ok();
        assert_eq!(proof.json()["index"].to_string(), index);
    }
    assert_eq!(caller.run(&["audit", "prove", "0"]).ok().json(), lines[0]["record"]);
    caller.run(&["audit", "prove", "100000"]).fails(1).says("no record 100000");
    let verified = caller.run(&["audit", "verify", "--keys", "vkeys", "--json"]).ok().json();
    assert!(verified["signed"].as_u64().unwrap() >= lines.len() as u64, "{verified}");
    caller.run(&["audit", "verify"]).ok();
    // Another service's keys, and one alone.
    let other = keys.replace("gabion-kms+", "gabion-kmt+");
    work.write("others", other);
    caller.run(&["audit", "verify", "--keys", "others"]).fails(2);
    work.write("one", keys.lines().next().unwrap());
    caller.run(&["audit", "verify", "--keys", "one"]).fails(2).says("expected two lines");
    caller.run(&["audit", "verify", "audit"]).fails(2).says("--keys FILE");
    assert_eq!(server.end(), Some(0));
    caller.run(&["audit", "verify"]).fails(3).says("does not answer");
    let verify = ["kms", "audit", "verify", "audit", "--keys", "vkeys"];
    work.gabion(&verify).ok();
    let ours = work.gabion(&[&verify[..], &["--json"]].concat()).ok().json();
    let go = Go::build(&work);
    let agrees = |go: &Go| {
        let said = go.verify(&work).ok().text();
        let ours = format!("{} {}\n", ours["signed"], ours["root"].as_str().unwrap());
        assert_eq!(said, ours);
    };
    go.iter().for_each(agrees);
    // Neither takes what was changed.
    let part = format!("000.p/{}", ours["signed"]);
    for name in ["checkpoint", &format!("tile/entries/{part}"), &format!("tile/0/{part}")] {
        let path = work.path("audit").join(name);
        let whole = std::fs::read(&path).unwrap();
        let mut other = whole.clone();
        let at = other.len() - 20;
        other[at] ^= 1;
        // The last line is that of ML-DSA-44, which Go does not look at.
        std::fs::write(&path, &other).unwrap();
        work.gabion(&verify).fails(1);
        if name != "checkpoint" {
            go.iter().for_each(|go| drop(go.verify(&work).fails(1)));
        }
        std::fs::write(&path, &whole).unwrap();
    }
    go.iter().for_each(agrees);
}

#[test]
fn full_segments_go_to_the_archive_and_the_log_verifies_with_and_without() {
    let work = Work::new();
    let caller = place(&work);
    let server = ServeCommand::start(&caller);
    let done = caller.run(&["audit", "archive", "--json"]).ok().json();
    assert_eq!(done["files"].as_array().unwrap().len(), 0);
    // Two segments of 1 MiB, and a bundle of entries behind their ends.
    let settings = gabion_kms_client::Settings {
        addresses: vec![caller.address.parse().unwrap()],
        token: Some(caller.token.clone().into()),
        authorities: None,
        certificate: None,
        timeout: LONG,
    };
    let client = gabion_kms_client::Client::new(&settings).unwrap();
    let mut size = 0;
    while size < 5600 {
        let read: gabion_kms_wire::native::AuditRecords =
            client.get("/v1/kms/audit?limit=0").unwrap();
        size = read.size;
    }
    let kept = caller.run(&["audit", "archive", "--keep-days", "1", "--json"]).ok().json();
    assert_eq!(kept["records"], 0);
    let done = caller.run(&["audit", "archive", "--json"]).ok().json();
    let first = done["first"].as_u64().unwrap();
    assert!(!done["files"].as_array().unwrap().is_empty() && first > 1000, "{done}");
    let tail = caller.run(&["audit", "tail", "--from", "0", "--json"]).ok().text();
    let line: Value = serde_json::from_str(tail.lines().next().unwrap()).unwrap();
    assert_eq!(line["index"], first);
    caller.run(&["audit", "prove", "7"]).fails(1).says("archive");
    caller.run(&["audit", "prove", &first.to_string()]).ok();
    let verified = caller.run(&["audit", "verify", "--json"]).ok().json();
    assert_eq!(verified["archived"], first);
    work.write("vkeys", caller.run(&["audit", "keys"]).ok().text());
    assert_eq!(server.end(), Some(0));
    let verify = ["kms", "audit", "verify", "audit", "--keys", "vkeys", "--json"];
    assert_eq!(work.gabion(&verify).ok().json()["archived"], first);
    let with = [&verify[..], &["--archive", "archive"]].concat();
    assert_eq!(work.gabion(&with).ok().json()["archived"], 0);
    if let Some(go) = Go::build(&work) {
        go.verify(&work).ok();
    }
    // It opens again with what is left.
    let server = ServeCommand::start(&caller);
    caller.run(&["audit", "verify"]).ok();
    assert_eq!(server.end(), Some(0));
}

/// A server whose log was deleted stops all operations, and reports the reason.
#[test]
fn a_deleted_or_replaced_log_stops_the_service() {
    for replaced in [false, true] {
        let work = Work::new();
        let caller = place(&work);
        let server = ServeCommand::start(&caller);
        caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
        caller.run(&["sign", "--key", "k", "--out", "sig", "kms.toml"]).ok();
        let segment = work.path("audit").join("segment-00000000");
        if replaced {
            std::fs::copy(&segment, work.path("copy")).unwrap();
            std::fs::rename(work.path("copy"), &segment).unwrap();
        } else {
            std::fs::remove_file(&segment).unwrap();
        }
        let refused = caller.run(&["sign", "--key", "k", "--out", "none", "kms.toml"]);
        refused.fails(3).says("audit_unwritable");
        assert!(!work.has("none"));
        for verb in [&["key", "list"][..], &["key", "rotate", "k"], &["audit", "tail"]] {
            caller.run(verb).fails(3).says("audit_unwritable");
        }
        assert_eq!(server.end(), Some(0));
    }
}

#[test]
fn audit_follow_prints_each_record_once_without_writing() {
    let work = Work::new();
    let caller = place(&work);
    let server = ServeCommand::start(&caller);
    let mut command = caller.command(&["audit", "tail", "--follow", "--lines", "1", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        out.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    let mut indexes = Vec::new();
    let mut next = || -> Value {
        let line: Value = serde_json::from_str(&lines.recv_timeout(LONG).unwrap()).unwrap();
        indexes.push(line["index"].as_u64().unwrap());
        line
    };
    next();
    let size = || -> Value { serde_json::from_str(&state(&caller)).unwrap() };
    let before = size()["size"].as_u64().unwrap();
    for name in ["a", "b"] {
        caller.run(&["key", "create", name, "--algorithm", "ed25519"]).ok();
        // Records that are written while the log is read may come with the reading's record.
        while next()["record"]["outcome"] != "ok" {}
    }
    std::thread::sleep(Duration::from_millis(3100));
    let after = size()["size"].as_u64().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    assert!(indexes.windows(2).all(|two| two[0] < two[1]), "{indexes:?}");
    // Two changes of two records, and the readings of them; not one each second for ever.
    assert!(after - before <= 4 + 4, "{before} {after}");
    assert_eq!(server.end(), Some(0));
}

/// Returns the state of the log, without writing a record.
fn state(caller: &Caller<'_>) -> String {
    let settings = gabion_kms_client::Settings {
        addresses: vec![caller.address.parse().unwrap()],
        token: Some(caller.token.clone().into()),
        authorities: None,
        certificate: None,
        timeout: LONG,
    };
    let client = gabion_kms_client::Client::new(&settings).unwrap();
    client.get::<Value>("/v1/kms/audit/state").unwrap().to_string()
}

/// The verifier of `tests/go/auditlog`.
struct Go;

impl Go {
    /// Builds the verifier. If Go or its module is missing, prints the reason and returns `None`.
    fn build(work: &Work) -> Option<Go> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/go/auditlog");
        let mut build = Command::new("go");
        build.args(["build", "-mod=readonly", "-o"]).arg(work.path("auditlog")).arg(".");
        match build.current_dir(source).output() {
            Err(error) => eprintln!("skipped: Go's verifier of the audit log: no Go here: {error}"),
            Ok(built) if !built.status.success() => {
                let why = String::from_utf8_lossy(&built.stderr);
                let is_missing = ["dial tcp", "lookup", "module lookup disabled", "requires go"];
                assert!(is_missing.iter().any(|why_not| why.contains(why_not)), "{why}");
                let line = why.lines().last().unwrap_or_default();
                eprintln!("skipped: Go's verifier of the audit log does not build here: {line}");
            }
            Ok(_) => return Some(Go),
        }
        None
    }

    fn verify(&self, work: &Work) -> CommandResult {
        let mut command = Command::new(work.path("auditlog"));
        command.args(["audit", "vkeys"]).current_dir(work.folder());
        CommandResult::of(command.output().unwrap())
    }
}
