//! `gabion hbs audit`, `log` and `status` over logs that are damaged, cut, old or of another home.

use std::fs;

use serde_json::Value;

use crate::harness::{CommandResult, Work};

const SET: &str = "LMS_SHA256_M32_H5:LMOTS_SHA256_N32_W4";

/// Commands in several homes, and changes to files.
trait Homes {
    fn in_home(&self, home: &str, arguments: &[&str]) -> CommandResult;
    fn audit(&self, sources: &[&str]) -> CommandResult;
    fn copy_key(&self, from: &str, to: &str);
    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>));
}

impl Homes for Work {
    /// Runs `gabion hbs` in a separate home.
    fn in_home(&self, home: &str, arguments: &[&str]) -> CommandResult {
        let mut command = self.command(&[&["hbs"], arguments].concat());
        command.env("XDG_STATE_HOME", self.path(home));
        CommandResult::of(command.output().unwrap())
    }

    fn audit(&self, sources: &[&str]) -> CommandResult {
        self.in_home("A", &[&["audit"], sources].concat())
    }

    fn copy_key(&self, from: &str, to: &str) {
        let _ = fs::remove_dir_all(self.path(to));
        fs::create_dir(self.path(to)).unwrap();
        for file in fs::read_dir(self.path(from)).unwrap() {
            let name = file.unwrap().file_name();
            fs::copy(self.path(from).join(&name), self.path(to).join(&name)).unwrap();
        }
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read(name);
        change(&mut bytes);
        self.write(name, bytes);
    }
}

/// A key `ka/k` in home A, and two messages.
fn with_key() -> Work {
    let work = Work::new();
    work.write("f", "one\n");
    work.write("g", "another\n");
    fs::create_dir(work.path("ka")).unwrap();
    work.in_home("A", &["keygen", SET, "--out", "ka/k"]).ok();
    work
}

/// Two logs of one key, `ka/k` and `kb/k`, in which index 1 signed two messages.
fn with_reuse() -> Work {
    let work = with_key();
    let sign = |home: &str, key: &str, file: &str| {
        work.in_home(home, &["sign", "--key", key, "--force", file]).ok();
    };
    sign("A", "ka/k", "f");
    work.copy_key("ka", "kb");
    work.in_home("B", &["recover", "kb/k", "--burn", "0"]).ok();
    sign("A", "ka/k", "f");
    sign("B", "kb/k", "g");
    work
}

/// Inputs of report hbs-2026-11, H1: a recovered key that gets back to the home that it came from.
/// A change of a log's bytes.
type Damage = fn(&mut Vec<u8>);

#[test]
fn a_recovered_key_signs_in_no_other_home() {
    let work = with_key();
    let sign = |home: &str, key: &str| work.in_home(home, &["sign", "--key", key, "--force", "f"]);
    work.in_home("A", &["backup", "ka/k", "--out", "backup"]).ok();
    fs::create_dir(work.path("kb")).unwrap();
    work.in_home("B", &["restore", "backup", "--out", "kb/k"]).ok();
    work.in_home("B", &["recover", "kb/k", "--burn", "0"]).ok();
    work.copy_key("kb", "ka");
    work.copy_key("kb", "kc");
    sign("A", "ka/k").fails(4).says("recovered since");
    work.in_home("A", &["status", "ka/k"]).fails(4).says("recovered since");
    sign("B", "kb/k").ok();
    sign("A", "ka/k").fails(4);
    sign("A", "kb/k").fails(4);
    sign("A", "kc/k").fails(4);
    sign("B", "kc/k").fails(4);
    work.audit(&["kb/k", "f.sig"]).ok();
}

/// A log that can't be read as a whole is no log of nothing, and hides nothing that others show.
#[test]
fn a_damaged_log_is_an_error_and_reuse_is_found_all_the_same() {
    let work = with_reuse();
    let sources = ["ka/k", "kb/k"];
    work.audit(&sources).fails(1).says("replace the key");
    let whole = work.read("kb/k.log");
    let damages: [(&str, Damage); 6] = [
        ("flipped", |log| log[100] ^= 1),
        ("cut at a line", |log| {
            let first = u32::from_be_bytes(log[..4].try_into().unwrap()) as usize;
            log[first..].fill(0);
        }),
        ("cut in a line", |log| log.truncate(150)),
        ("empty", Vec::clear),
        ("longer", |log| log.extend_from_slice(b"more")),
        ("zeros", |log| log.fill(0)),
    ];
    for (what, damage) in damages {
        work.change("kb/k.log", damage);
        let audit = work.audit(&["kb/k"]).fails(4);
        assert!(audit.err.contains("uses may be missing"), "{what}: {audit:?}");
        let log = work.in_home("B", &["log", "kb/k"]).fails(4);
        assert!(log.err.contains("k.log"), "{what}: {log:?}");
        work.in_home("B", &["status", "kb/k"]).fails(4);
        work.in_home("B", &["sign", "--key", "kb/k", "--out", "s", "g"]).fails(4);
        // Whatever files are next to it.
        work.audit(&["kb/k", "g.sig"]).fails(4);
        work.audit(&["ka/k", "kb/k", "g.sig"]).fails(1).says("warning: kb/k: ");
        let exported = work.in_home("B", &["log", "kb/k", "--json"]).fails(4);
        work.write("bad.ndjson", exported.out);
        let audited = work.audit(&["bad.ndjson"]).fails(4);
        assert!(!audited.text().contains("messages;"), "{what}: {audited:?}");
        work.write("kb/k.log", &whole);
    }
    work.audit(&sources).fails(1);
    fs::remove_file(work.path("kb/k.log")).unwrap();
    for command in [&["audit", "kb/k"][..], &["log", "kb/k"], &["status", "kb/k"]] {
        work.in_home("B", command).fails(4).says("k.log");
    }
    fs::create_dir(work.path("kb/k.log")).unwrap();
    for command in [&["audit", "kb/k"][..], &["log", "kb/k"], &["status", "kb/k"]] {
        work.in_home("B", command).fails(4).says("can't be read");
    }
}

/// Lines that are missing from an exported log, at its end too, and logs that an older program exported.
#[test]
fn an_exported_log_is_checked_for_completeness() {
    let work = with_reuse();
    let export = |key: &str| work.in_home("A", &["log", key, "--json"]).ok().text();
    let (one, other) = (export("ka/k"), export("kb/k"));
    work.write("a.ndjson", &one);
    work.write("b.ndjson", &other);
    work.audit(&["a.ndjson", "b.ndjson"]).fails(1);
    work.audit(&["a.ndjson"]).ok();
    let lines: Vec<&str> = one.lines().collect();
    let end: Value = serde_json::from_str(lines[lines.len() - 1]).unwrap();
    assert_eq!((&end["kind"], &end["lines"]), (&"end".into(), &(lines.len() - 1).into()));
    assert_eq!((&end["next"], end["damage"].is_null()), (&2.into(), true));
    let without = |at: usize| {
        let mut lines = lines.clone();
        lines.remove(at);
        lines.join("\n")
    };
    for at in 0..lines.len() {
        work.write("c.ndjson", without(at));
        work.audit(&["c.ndjson"]).fails(4).says("c.ndjson: ");
        work.write("c.ndjson", [&lines[..=at], &lines[at..]].concat().join("\n"));
        work.audit(&["c.ndjson"]).fails(4).says("c.ndjson: ");
    }
    work.write("c.ndjson", &one[..one.len() - 30]);
    work.audit(&["c.ndjson"]).fails(4).says("cut short");
    work.write("c.ndjson", &one[..20]);
    work.audit(&["c.ndjson"]).fails(4).says("cut short");
    work.write("c.ndjson", one.replace("\"index\":1", "\"index\":7"));
    work.audit(&["c.ndjson"]).fails(4).says("hash");
    work.write("c.ndjson", "");
    work.audit(&["c.ndjson"]).fails(4).says("empty");
    work.audit(&["no-such.ndjson"]).fails(4).says("no-such.ndjson");
    // A fault of one file does not hide the findings of the others.
    work.write("c.ndjson", without(lines.len() - 1));
    work.audit(&["c.ndjson", "b.ndjson", "no-such.ndjson", "f"]).fails(1).says("warning: c.ndjson");
    let old: Vec<String> = lines[..lines.len() - 1]
        .iter()
        .map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            row.as_object_mut().unwrap().remove("line");
            row.to_string()
        })
        .collect();
    work.write("old.ndjson", old.join("\n"));
    let audited = work.audit(&["old.ndjson"]).fails(4).says("older program");
    assert!(audited.text().contains("2 uses were seen"), "{audited:?}");
    work.audit(&["old.ndjson", "b.ndjson"]).fails(1);
    work.audit(&["f"]).fails(2).says("neither an LMS or HSS signature");
}
