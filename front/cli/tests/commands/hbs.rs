//! `gabion hbs`: keys with a state, from making them to the end of their indexes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{CommandResult, Work};

const SET: &str = "LMS_SHA256_M32_H5:LMOTS_SHA256_N32_W8";

/// A key `k`, its public key `p` and a message `f`.
fn with_key(options: &[&str]) -> Work {
    let work = Work::new();
    work.write("f", "an image\n");
    work.gabion(&[&["hbs", "keygen", SET, "--out", "k", "--pub", "p"], options].concat()).ok();
    work
}

/// Commands and files of a key `k` in the folder.
trait HbsKey {
    fn hbs(&self, arguments: &[&str]) -> CommandResult;
    fn status(&self) -> Value;
    fn files(&self, folder: &str) -> Vec<(String, Vec<u8>)>;
    fn copy(&self, to: &str);
}

impl HbsKey for Work {
    fn hbs(&self, arguments: &[&str]) -> CommandResult {
        self.gabion(&[&["hbs"], arguments].concat())
    }

    fn status(&self) -> Value {
        self.hbs(&["status", "k", "--json"]).json()
    }

    /// Every file but what `status` may have looked at.
    fn files(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<_> = fs::read_dir(self.path(folder))
            .unwrap()
            .map(|file| file.unwrap())
            .filter(|file| file.path().is_file())
            .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
            .collect();
        all.sort();
        all
    }

    fn copy(&self, to: &str) {
        fs::create_dir_all(self.path(to)).unwrap();
        for (name, bytes) in self.files(".") {
            fs::write(self.path(to).join(name), bytes).unwrap();
        }
    }
}

#[test]
fn a_key_signs_and_everybody_verifies_until_it_is_used_up() {
    let work = with_key(&["--warn-at", "30"]);
    let mode = fs::metadata(work.path("k")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(work.status()["index"], 0);
    let made = work.hbs(&["sign", "--key", "k", "--json", "f"]).ok();
    let row = serde_json::json!({"file": "f", "index": 0, "remaining": 31, "sig_file": "f.sig"});
    assert_eq!(made.json(), row);
    assert!(!made.err.contains("warning"), "{made:?}");
    for verify in [vec!["hbs", "verify"], vec!["verify"]] {
        let verify = [&verify[..], &["--key", "p", "--sig", "f.sig", "f"]].concat();
        work.gabion(&verify).ok();
        work.write("f", "another\n");
        work.gabion(&verify).fails(1);
        work.write("f", "an image\n");
    }
    // Two more leave 29, which is less than the owner's warning threshold.
    work.hbs(&["sign", "--key", "k", "--force", "f"]).ok();
    let low = work.hbs(&["sign", "--key", "k", "--out", "s", "f"]).ok();
    assert!(
        low.text().contains("s: index 2, 29 left") && low.err.contains("warning: 29"),
        "{low:?}"
    );
    let many: Vec<String> = (0..29).map(|at| format!("m{at}")).collect();
    for name in &many {
        work.write(name, name);
    }
    let sign = ["hbs", "sign", "--key", "k", "--json"].map(str::to_owned);
    let made = work.gabion(&[&sign[..], &many].concat()).ok();
    let rows: Vec<Value> =
        made.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!((&row["index"], &row["remaining"]), (&(at + 3).into(), &(28 - at).into()));
        let sig = row["sig_file"].as_str().unwrap();
        work.hbs(&["verify", "--key", "p", "--sig", sig, &many[at]]).ok();
    }
    let before = work.files(".");
    for _ in 0..2 {
        work.hbs(&["sign", "--key", "k", "--out", "t", "f"]).fails(4).says("used up");
    }
    assert!(before == work.files("."), "a refusal changed something");
    let end = work.hbs(&["status", "k", "--json"]).fails(4).says("used up");
    assert_eq!((&end.json()["remaining"], &end.json()["burnt"]), (&0.into(), &0.into()));
    work.hbs(&["audit", "k", "f.sig", "s", "m0.sig"]).ok();
}

/// Of a key and its copy whichever signs first goes on, in the same home; in another both are refused.
#[test]
fn copies_and_old_files_are_refused() {
    let work = with_key(&[]);
    work.hbs(&["sign", "--key", "k", "f"]).ok();
    work.copy("copy");
    let mut elsewhere = work.command(&["hbs", "sign", "--key", "copy/k", "--out", "copy/s", "f"]);
    elsewhere.env("XDG_STATE_HOME", work.path("another-home"));
    CommandResult::of(elsewhere.output().unwrap()).fails(4).says("no anchor");
    let copied = work.hbs(&["sign", "--key", "copy/k", "--json", "--out", "s1", "f"]).ok();
    assert_eq!(copied.json()["index"], 1);
    let before = work.files(".");
    work.hbs(&["sign", "--key", "k", "--out", "s2", "f"]).fails(4).says("not safe");
    work.hbs(&["status", "k"]).fails(4).says("older than the anchor");
    assert!(before == work.files("."), "a refusal changed something");
    // The old files over the copy's new ones.
    for (name, bytes) in before.iter().filter(|(name, _)| name.starts_with("k")) {
        fs::write(work.path("copy").join(name), bytes).unwrap();
    }
    work.hbs(&["sign", "--key", "copy/k", "--out", "s2", "f"]).fails(4).says("not safe");
    work.hbs(&["recover", "k", "--burn", "31"]).fails(4).says("30 are left");
    let recovered = work.hbs(&["recover", "k", "--burn", "5"]).ok();
    assert!(recovered.text().contains("next index  7"), "{recovered:?}");
    let made = work.hbs(&["sign", "--key", "k", "--json", "--out", "s2", "f"]).ok();
    assert_eq!(made.json()["index"], 7);
    assert!(!work.has("t"));
}

#[test]
fn a_request_id_names_a_message_until_it_is_forgotten() {
    let work = with_key(&[]);
    work.write("g", "another image\n");
    let sign = |file, out| {
        work.hbs(&["sign", "--key", "k", "--request-id", "build 7", "--json", "--out", out, file])
    };
    assert_eq!(sign("f", "s1").ok().json()["index"], 0);
    assert_eq!(sign("f", "s2").ok().json()["index"], 0);
    assert_eq!(work.read("s1"), work.read("s2"));
    sign("g", "s3").fails(2).says("another message");
    assert!(!work.has("s3"));
    work.hbs(&["forget", "k", "build 8"]).fails(2).says("build 8");
    work.hbs(&["forget", "k", "build 7"]).ok();
    assert_eq!(sign("g", "s3").ok().json()["index"], 1);
    let bad = ["sign", "--key", "k", "--request-id", "a\nb", "--out", "s4", "f"];
    work.hbs(&bad).fails(2).says("printable");
    let several = ["sign", "--key", "k", "--request-id", "x", "f", "g"];
    work.hbs(&several).fails(2).says("--request-id needs exactly one FILE");
    let log = work.hbs(&["log", "k", "--json"]).ok().text();
    let kinds: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].take())
        .collect();
    assert_eq!(kinds, ["note", "signed", "forgotten", "signed", "end"]);
    assert!(work.hbs(&["log", "k"]).ok().text().contains("build 7"));
}

#[test]
fn encodings_passwords_and_digests() {
    let work = with_key(&["--encoding", "lms", "--passin", "pass:word"]);
    assert_eq!(work.read("p").len(), 56);
    work.hbs(&["status", "k"]).ok();
    let sign = ["sign", "--key", "k", "--out", "s", "f"];
    work.hbs(&sign).fails(2).says("--passin");
    work.hbs(&[&sign[..], &["--passin", "pass:wrong"]].concat())
        .fails(2)
        .says("k: it does not open with this password");
    work.hbs(&[&sign[..], &["--passin", "pass:word"]].concat()).ok();
    // q comes first: RFC 8554, section 5.4.
    assert_eq!((work.read("s").len(), &work.read("s")[..4]), (1292, &[0; 4][..]));
    work.hbs(&["verify", "--key", "p", "--sig", "s", "f"]).ok();
    // The output of sha256sum, and the same digest as bytes.
    let digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    work.write("d", format!("{digest}  f\n"));
    work.write("b", base16ct::mixed::decode_vec(digest).unwrap());
    // Digits alone, 64 bytes of them, are the same digest and no other one.
    work.write("h", digest);
    for (file, out) in [("d", "sd"), ("b", "sb"), ("h", "sh")] {
        let sign = ["sign", "--key", "k", "--passin", "pass:word", "--digest", "--out", out, file];
        work.hbs(&sign).ok();
        work.hbs(&["verify", "--key", "p", "--sig", out, "b"]).ok();
    }
    work.write("n", "no digest");
    let sign = ["sign", "--key", "k", "--passin", "pass:word", "--digest", "n"];
    work.hbs(&sign).fails(2).says("does not hold a digest");
    assert_eq!(work.status()["index"], 4);
    let two = format!("{SET},{SET}");
    let make = ["keygen", &two, "--encoding", "lms", "--out", "two"];
    work.hbs(&make).fails(2).says("one level");
    assert!(!work.has("two"));
}

/// Nothing is half-written, and no index is used, where the command line or a file is wrong.
#[test]
fn invalid_arguments_use_no_index_and_write_nothing() {
    let work = with_key(&[]);
    let before = work.files(".");
    let keygen = |set: &str, options: &[&str], says: &str| {
        work.hbs(&[&["keygen", set], options].concat()).fails(2).says(says);
    };
    keygen(SET, &["--out", "k", "--force"], "never replaced");
    keygen(SET, &["--out", "-"], "expected a file name");
    keygen(SET, &["--out", "n", "--pub", "n"], "same file");
    keygen(SET, &["--out", "n", "--pub", "p"], "p exists");
    keygen("LMS_SHA256_M32_H6", &["--out", "n"], "gabion hbs params");
    let two = format!("{SET},{SET}");
    keygen(&two, &["--out", "n", "--profile", "cnsa2"], "CNSA 2.0");
    keygen(SET, &["--out", "n", "--anchor", "a"], "another folder");
    keygen(SET, &["--out", "n", "--anchor", "deep/er/a"], "another folder");
    let sign = |arguments: &[&str], code, says: &str| {
        work.hbs(&[&["sign", "--key"], arguments].concat()).fails(code).says(says);
    };
    sign(&["k", "no-such-file"], 2, "no-such-file");
    sign(&["k", "-"], 2, "with --out");
    sign(&["k", "f", "f"], 2, "named twice");
    sign(&["k", "--out", "s", "f", "p"], 2, "--out needs exactly one FILE");
    sign(&["k", "--out", "k", "f"], 2, "same file");
    sign(&["f", "--out", "s", "f"], 2, "gabion hbs keygen");
    sign(&["k.state", "--out", "s", "f"], 2, "gabion hbs keygen");
    sign(&["none", "--out", "s", "f"], 2, "none");
    assert!(before == work.files("."), "{:?}", work.names());
    // The private key without its state.
    fs::create_dir(work.path("alone")).unwrap();
    fs::copy(work.path("k"), work.path("alone/k")).unwrap();
    sign(&["alone/k", "--out", "s", "f"], 4, "without its state");
    work.gabion(&["sign", "--key", "k", "--out", "s", "f"]).fails(2).says("gabion hbs sign");
    assert_eq!(work.status()["index"], 0);
    let several = ["--anchor", "../one/a", "--anchor", "../two/b"];
    work.hbs(&[&["keygen", SET, "--out", "n"], &several[..]].concat()).ok();
    fs::remove_file(work.path("../two/b")).unwrap();
    sign(&["n", "--out", "s", "f"], 4, "no anchor");
}

#[test]
fn a_backup_goes_on_where_nothing_was_signed_since() {
    let work = with_key(&[]);
    work.hbs(&["sign", "--key", "k", "f"]).ok();
    work.hbs(&["backup", "k", "--out", "b"]).ok();
    work.hbs(&["backup", "k", "--out", "b"]).fails(2).says("b exists");
    work.hbs(&["restore", "b", "--out", "k"]).fails(2).says("k exists");
    fs::create_dir(work.path("new")).unwrap();
    work.hbs(&["restore", "b", "--out", "new/k"]).ok();
    let made = work.hbs(&["sign", "--key", "new/k", "--json", "--out", "s", "f"]).ok();
    assert_eq!(made.json()["index"], 1);
    work.hbs(&["restore", "b", "--out", "late"]).ok();
    work.hbs(&["sign", "--key", "late", "--out", "t", "f"]).fails(4);
    work.write("b", "no backup");
    assert_ne!(work.hbs(&["restore", "b", "--out", "bad"]).code, Some(0));
    assert!(!work.has("bad") && !work.has("bad.state"));
}

/// All of it before the work: trees 25 high would take hours.
#[test]
fn keygen_conflicts_are_reported_before_generation() {
    let work = with_key(&[]);
    work.write("empty", "");
    work.write("../anchor", "");
    let before = work.files(".");
    let keygen = |options: &[&str], says: &str| {
        work.hbs(&[&["keygen", "LMS_SHA256_M32_H25_W8"], options].concat()).fails(2).says(says);
    };
    keygen(&["--out", "none/n"], "No such file");
    keygen(&["--out", "n", "--anchor", "../anchor"], "the anchor already exists");
    keygen(&["--out", "n", "--passin", "pass:"], "empty password");
    keygen(&["--out", "n", "--passin", "file:empty"], "empty password");
    keygen(&["--out", "n", "--passin", "file:none"], "none");
    for name in ["n", "n.state", "n.log", "n.trees", "n.lock", "./n.log"] {
        keygen(&["--out", "n", "--pub", name], "same file");
    }
    keygen(&["--out", "n", "--anchor", "../a", "--pub", "../a"], "same file");
    let mut homeless = work.command(&["hbs", "keygen", SET, "--out", "n"]);
    homeless.env_remove("XDG_STATE_HOME").env_remove("HOME");
    CommandResult::of(homeless.output().unwrap()).fails(2).says("set HOME");
    let import = ["--pub", "q", "--next", "0", "--margin", "0", "--i-have-destroyed-the-original"];
    let twice = ["hbs", "import", "-", "--out", "n", "--passin", "stdin"];
    work.gabion_fed(&[&twice[..], &import].concat(), b"").fails(2).says("standard input");
    let named = ["import", "n.state", "--out", "n"];
    work.write("n.state", [&[0; 8], &[0x54][..], &[0xff; 7], &[7; 48]].concat());
    work.write("n.lock", "a key is being made");
    work.hbs(&[&named[..], &import].concat()).fails(2).says("a file of --out");
    fs::remove_file(work.path("n.state")).unwrap();
    fs::remove_file(work.path("n.lock")).unwrap();
    assert!(before == work.files("."), "{:?}", work.names());
}

/// Killed while it makes a key, the command goes on from KEY.part.
#[test]
fn keygen_that_is_killed_goes_on_with_the_same_command() {
    let set = "LMS_SHA256_M32_H15_W4";
    let keygen = ["hbs", "keygen", set, "--out", "k", "--pub", "p", "--threads", "1"];
    let keygen = [&keygen[..], &["--checkpoint", "0"]].concat();
    let killed = || {
        let work = Work::new();
        let mut child = work.command(&keygen).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !work.has("k.part") && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "nothing was written down");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        work.has("k.part").then_some(work)
    };
    // It may end before this test sees the file.
    let work = (0..20).find_map(|_| killed()).expect("keygen was killed while it worked");
    assert!(!work.has("k") && !work.has("p"));
    work.write("f", "an image\n");
    let other = ["keygen", SET, "--out", "k"];
    work.hbs(&other).fails(2).says("remove it to begin anew");
    let sectors = ["keygen", SET, "--sectors", "2", "--out", "k"];
    work.write("k-1.part", "another's");
    work.hbs(&sectors).fails(2).says("k-1.part: it is damaged; remove it to begin anew");
    let pub_over = ["keygen", set, "--out", "k", "--pub", "k.part", "--force"];
    work.hbs(&pub_over).fails(2).says("same file");
    work.gabion(&keygen).ok().says("resuming the key in k.part");
    assert!(!work.has("k.part") && !work.has("k.part.new"));
    work.hbs(&["sign", "--key", "k", "f"]).ok();
    work.hbs(&["verify", "--key", "p", "--sig", "f.sig", "f"]).ok();
}

/// Keygen continues for a key in sectors, each of which has a separate file.
#[test]
fn keygen_of_sectors_that_is_killed_goes_on_with_the_same_command() {
    let keygen = ["hbs", "keygen", "LMS_SHA256_M32_H15_W4", "--sectors", "4", "--out", "k"];
    let keygen = [&keygen[..], &["--pub", "p", "--threads", "1", "--checkpoint", "0"]].concat();
    let killed = || {
        let work = Work::new();
        let mut child = work.command(&keygen).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !work.has("k-2.part") && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "nothing was written down");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        work.has("k-2.part").then_some(work)
    };
    // It may end before this test sees the file.
    let work = (0..20).find_map(|_| killed()).expect("keygen was killed while it worked");
    assert!(!work.has("k-0") && !work.has("p"));
    work.write("f", "an image\n");
    for other in [&["--out", "k-0"][..], &["--sectors", "2", "--out", "k"]] {
        let other = [&["keygen", "LMS_SHA256_M32_H15_W4"], other].concat();
        work.hbs(&other).fails(2).says("k-0.part: a key of");
    }
    work.write("k-3", "written before the power went\n");
    let said = work.gabion(&keygen).fails(2);
    assert!(
        said.err.contains("k-3 exists, but other sectors of the key are unfinished"),
        "{said:?}"
    );
    fs::remove_file(work.path("k-3")).unwrap();
    work.gabion(&keygen).ok().says("resuming the sectors in 3 files");
    assert!(!work.names().iter().any(|name| name.contains(".part")), "{:?}", work.names());
    for (key, index) in [("k-0", 0), ("k-3", 3 << 13)] {
        let made = work.hbs(&["sign", "--key", key, "--json", "--force", "f"]).ok();
        assert_eq!(made.json()["index"], index);
        work.hbs(&["verify", "--key", "p", "--sig", "f.sig", "f"]).ok();
    }
}

/// A key whose log is gone says so, and goes on by `recover`.
#[test]
fn a_lost_log_is_recovered() {
    let work = with_key(&[]);
    work.hbs(&["sign", "--key", "k", "f"]).ok();
    fs::remove_file(work.path("k.log")).unwrap();
    work.hbs(&["sign", "--key", "k", "--out", "s", "f"]).fails(4).says("k.log: it is missing");
    let recovered = work.hbs(&["recover", "k", "--burn", "4"]).ok();
    assert!(recovered.err.contains("warning: the log is lost"), "{recovered:?}");
    let made = work.hbs(&["sign", "--key", "k", "--json", "--out", "s", "f"]).ok();
    assert_eq!(made.json()["index"], 5);
}

/// Returns the commands that an error message suggests.
fn typed_next(refused: &CommandResult) -> Vec<String> {
    let said = refused.err.split('`').skip(1).step_by(2).map(str::to_owned);
    said.filter(|said| said.starts_with("gabion hbs ")).collect()
}

/// Each error states the finding, that nothing was signed, and the next command, which then works.
#[test]
fn refusals_name_a_command_that_works() {
    type Break = fn(&Work);
    let cases: [(&str, Break); 9] = [
        ("k.log: it is missing", |work| fs::remove_file(work.path("k.log")).unwrap()),
        ("k.lock: it is missing", |work| fs::remove_file(work.path("k.lock")).unwrap()),
        ("k.log: it is damaged", |work| fs::write(work.path("k.log"), [7; 4096]).unwrap()),
        ("no anchor", |work| fs::remove_file(work.path("../anchors/k")).unwrap()),
        ("no anchor", |work| fs::write(work.path("../anchors/k"), [0; 8192]).unwrap()),
        ("the state is older than the anchor", |work| {
            work.copy("copy");
            work.hbs(&["sign", "--key", "copy/k", "--out", "copy/s", "f"]).ok();
        }),
        ("the anchor is older than the state", |work| {
            let old = fs::read(work.path("../anchors/k")).unwrap();
            for _ in 0..2 {
                work.hbs(&["sign", "--key", "k", "--force", "f"]).ok();
            }
            fs::write(work.path("../anchors/k"), old).unwrap();
        }),
        ("the anchor saw another state", |work| {
            let old = fs::read(work.path("../anchors/k")).unwrap();
            work.copy("copy");
            work.hbs(&["sign", "--key", "copy/k", "--out", "copy/s", "f"]).ok();
            let new = fs::read(work.path("../anchors/k")).unwrap();
            fs::write(work.path("../anchors/k"), old).unwrap();
            work.hbs(&["sign", "--key", "k", "--force", "f"]).ok();
            fs::write(work.path("../anchors/k"), new).unwrap();
        }),
        ("k.log: it is damaged, or older than the state", |work| {
            let old = fs::read(work.path("k.log")).unwrap();
            work.hbs(&["sign", "--key", "k", "--force", "f"]).ok();
            fs::write(work.path("k.log"), old).unwrap();
        }),
    ];
    for (says, broken) in cases {
        let work = with_key(&["--anchor", "../anchors/k"]);
        work.hbs(&["sign", "--key", "k", "f"]).ok();
        broken(&work);
        let before = work.files(".");
        let sign = ["sign", "--key", "k", "--json", "--out", "s"];
        let refused = work.hbs(&[&sign[..], &["f"]].concat()).fails(4);
        assert!(refused.err.contains(says), "{says}: {}", refused.err);
        assert!(refused.err.contains("nothing was signed"), "{says}: {}", refused.err);
        let next = typed_next(&refused);
        assert_eq!(next.len(), 1, "{says}: {}", refused.err);
        assert!(before == work.files(".") && !work.has("s"), "{says}: a refusal changed something");
        let looked = work.hbs(&["status", "k"]).fails(4);
        let of_status = typed_next(&looked);
        assert_eq!(of_status, ["gabion hbs recover k --burn N"], "{says}: {}", looked.err);
        let next = next[0].replace(" N", " 3");
        let words: Vec<&str> = next.split(' ').skip(1).collect();
        work.gabion(&words).ok();
        let made = work.hbs(&[&sign[..], &["f"]].concat()).ok();
        assert!(made.json()["index"].as_u64() >= Some(4), "{says}: {made:?}");
        work.hbs(&["status", "k"]).ok();
    }
}

/// Nothing else says which indexes are used: a backup does, and who restores it says what was signed since.
#[test]
fn a_lost_state_comes_from_a_backup() {
    let work = with_key(&["--anchor", "../anchors/k"]);
    work.hbs(&["backup", "k", "--out", "b"]).ok();
    work.hbs(&["sign", "--key", "k", "f"]).ok();
    let other = with_key(&["--anchor", "../anchors/other"]);
    let other = fs::read(other.path("k.state")).unwrap();
    let states = [
        ("it is missing", None),
        ("damaged", Some(&[9; 12288][..])),
        ("another key", Some(&other)),
    ];
    for (says, state) in states {
        match state {
            None => fs::remove_file(work.path("k.state")).unwrap(),
            Some(state) => fs::write(work.path("k.state"), state).unwrap(),
        }
        for command in
            [&["sign", "--key", "k", "--out", "s", "f"][..], &["recover", "k", "--burn", "1"]]
        {
            let refused = work.hbs(command).fails(4);
            assert!(refused.err.contains(says), "{says}: {}", refused.err);
            assert!(refused.err.contains("nothing was signed"), "{says}: {}", refused.err);
            let next = typed_next(&refused);
            assert!(next[0].starts_with("gabion hbs restore"), "{says}: {}", refused.err);
        }
    }
    work.hbs(&["status", "k"]).fails(4);
    work.hbs(&["restore", "b", "--out", "new"]).ok();
    work.hbs(&["sign", "--key", "new", "--out", "s", "f"]).fails(4);
    work.hbs(&["recover", "new", "--burn", "2"]).ok();
    let made = work.hbs(&["sign", "--key", "new", "--json", "--out", "s", "f"]).ok();
    assert_eq!(made.json()["index"], 3);
}

/// Where indexes run out, which is no fault of the state.
#[test]
fn a_key_that_has_too_few_says_how_many_and_what_to_do() {
    let work = with_key(&[]);
    work.hbs(&["recover", "k", "--burn", "30"]).ok();
    for name in ["a", "b", "c"] {
        work.write(name, name);
    }
    let sign = work.hbs(&["sign", "--key", "k", "a", "b", "c"]).fails(4);
    let said = "nothing was signed: 3 signatures were requested and 2 are left";
    assert!(sign.err.contains(said) && sign.err.contains("ask for fewer"), "{}", sign.err);
    assert!(!work.has("a.sig"));
    let recover = work.hbs(&["recover", "k", "--burn", "3"]).fails(4);
    assert!(recover.err.contains("nothing was burnt: --burn is 3, and 2 are left"), "{recover:?}");
    work.hbs(&["sign", "--key", "k", "a", "b"]).ok();
    for command in [&["sign", "--key", "k", "c"][..], &["status", "k"]] {
        let refused = work.hbs(command).fails(4);
        assert_eq!(typed_next(&refused), ["gabion hbs keygen"], "{}", refused.err);
    }
}

#[test]
fn unwritable_signature_uses_no_index() {
    let work = with_key(&["--anchor", "../anchors/k"]);
    let sign = |options: &[&str], says: &str| {
        work.hbs(&[&["sign", "--key", "k"], options, &["f"]].concat()).fails(2).says(says);
    };
    fs::remove_file(work.path("k.trees")).unwrap();
    let files = ["k", "k.state", "k.log", "k.lock", "k.trees", "../anchors/k"];
    for name in files {
        sign(&["--force", "--out", name], "same file");
    }
    std::os::unix::fs::symlink("k", work.path("link")).unwrap();
    work.hbs(&["sign", "--key", "link", "--force", "--out", "k.log", "f"]).fails(2);
    work.hbs(&["backup", "k", "--out", "k.trees"]).fails(2).says("same file");
    // A folder that takes no files.
    sign(&["--out", "/proc/gabion-test.sig"], "cannot write");
    assert_eq!((&work.status()["index"], &work.status()["burnt"]), (&0.into(), &0.into()));
}

/// A key for each of several hosts, all under one public key.
#[test]
fn sectors_are_keys_of_their_own_under_one_public_key() {
    let work = Work::new();
    work.write("f", "an image\n");
    let keygen = |set: &str, sectors: &str| {
        let anchor = ["--anchor", "../anchors/a"];
        let keygen = ["keygen", set, "--out", "k", "--pub", "p", "--sectors", sectors];
        work.hbs(&[&keygen[..], &anchor].concat())
    };
    keygen("LMS_SHA256_M32_H5_W4", "3").fails(2).says("a power of two up to 16");
    keygen("LMS_SHA256_M32_H5_W4", "32").fails(2).says("a power of two up to 16");
    keygen("XMSSMT-SHA2_20/4_192", "2").fails(2).says("one level");
    work.write("k-3", "another's");
    keygen("LMS_SHA256_M32_H5_W4", "4").fails(2).says("k-3 exists");
    assert_eq!(work.names().len(), 2, "{:?}", work.names());
    fs::remove_file(work.path("k-3")).unwrap();
    keygen("LMS_SHA256_M32_H5_W4", "4").ok();
    assert!(work.has("../anchors/a-0") && work.has("../anchors/a-3") && !work.has("k"));
    for (key, index) in [("k-0", 0), ("k-3", 24), ("k-1", 8), ("k-0", 1)] {
        let made = work.hbs(&["sign", "--key", key, "--json", "--force", "f"]).ok().json();
        assert_eq!((&made["index"], &made["remaining"]), (&index.into(), &(7 - index % 8).into()));
        work.hbs(&["verify", "--key", "p", "--sig", "f.sig", "f"]).ok();
    }
    work.hbs(&["audit", "k-0", "k-1", "k-2", "k-3"]).ok();
    // To the host that signs with it, which has another home.
    work.hbs(&["backup", "k-2", "--out", "b"]).ok();
    fs::create_dir(work.path("host")).unwrap();
    work.hbs(&["restore", "b", "--out", "host/k"]).ok();
    fs::rename(work.path("../anchors"), work.path("../left")).unwrap();
    work.hbs(&["sign", "--key", "host/k", "--force", "f"]).fails(4).says("no anchor");
    work.hbs(&["recover", "host/k", "--burn", "0"]).ok();
    let made = work.hbs(&["sign", "--key", "host/k", "--json", "--force", "f"]).ok().json();
    assert_eq!(made["index"], 16);
    work.hbs(&["verify", "--key", "p", "--sig", "f.sig", "f"]).ok();
}

#[test]
fn keys_of_xmss_sign_and_are_audited() {
    let work = Work::new();
    work.write("f", "an image\n");
    work.write("g", "another image\n");
    let keygen = |set: &str, options: &[&str]| {
        work.hbs(&[&["keygen", set, "--out", "k", "--pub", "p"], options].concat())
    };
    keygen("XMSS-SHA2_10_512", &[]).fails(2).says("only verifies");
    keygen("XMSSMT-SHA2_20/4_192", &["--profile", "cnsa2"]).fails(2).says("CNSA 2.0");
    keygen("XMSS-SHA2_10_192", &["--encoding", "lms"]).fails(2).says("--encoding lms");
    keygen("XMSSMT-SHA2_20/4_192", &[]).ok();
    let made = work.hbs(&["sign", "--key", "k", "--json", "f", "g"]).ok().text();
    let rows: Vec<Value> = made.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!((&rows[0]["index"], &rows[1]["index"]), (&0.into(), &1.into()));
    assert_eq!(rows[1]["remaining"], (1 << 20) - 2);
    for verify in [&["verify"][..], &["hbs", "verify"]] {
        work.gabion(&[verify, &["--key", "p", "--sig", "f.sig", "f"]].concat()).ok();
        work.gabion(&[verify, &["--key", "p", "--sig", "f.sig", "g"]].concat()).fails(1);
    }
    work.hbs(&["audit", "k", "f.sig", "g.sig"]).ok();
    work.hbs(&["audit", "f.sig"]).fails(2).says("XMSS");
    let log = work.hbs(&["log", "k", "--json"]).ok();
    assert!(log.text().contains("XMSSMT"));
    work.write("log", log.out);
    work.hbs(&["audit", "log", "f.sig"]).ok();
    work.copy("copy");
    work.hbs(&["sign", "--key", "copy/k", "--out", "s", "f"]).ok();
    work.hbs(&["sign", "--key", "k", "--out", "t", "f"]).fails(4).says("not safe");
}

/// Another library's key, made of known bytes; its signatures are those that its seed makes here.
#[test]
fn keys_of_other_libraries_go_on_behind_their_last_index() {
    let work = Work::new();
    work.write("f", "an image\n");
    let other = [&5u64.to_be_bytes()[..], &[0x54], &[0xff; 7], &[7; 48]].concat();
    work.write("other", &other);
    let import =
        |options: &[&str]| work.hbs(&[&["import", "other", "--pub", "p"], options].concat());
    let gone = "--i-have-destroyed-the-original";
    import(&["--out", "k", "--next", "5", "--margin", "2"]).fails(2).says(gone);
    import(&["--out", "k", "--next", "4", "--margin", "2", gone])
        .fails(2)
        .says("the next index in other is 5");
    import(&["--out", "k", "--next", "30", "--margin", "2", gone])
        .fails(4)
        .says("nothing would be left");
    assert_eq!(work.names().len(), 2, "{:?}", work.names());
    import(&["--out", "k", "--next", "6", "--margin", "2", gone]).ok();
    let made = work.hbs(&["sign", "--key", "k", "--json", "f"]).ok();
    assert_eq!((&made.json()["index"], &made.json()["remaining"]), (&8.into(), &23.into()));
    work.hbs(&["verify", "--key", "p", "--sig", "f.sig", "f"]).ok();
    assert!(work.hbs(&["log", "k"]).ok().text().contains("original is destroyed"));
    // Imported once more, it would sign with the same indexes.
    let again = work.hbs(&["import", "other", "--out", "k2", "--next", "9", "--margin", "0", gone]);
    again.fails(4).says("imported before");
    assert!(!work.has("k2"));
    work.write("other", &other[..48]);
    let short = work.hbs(&["import", "other", "--out", "k3", "--next", "9", "--margin", "0", gone]);
    short.fails(2).says("SECRET_METHOD");
}

#[test]
fn an_index_that_signed_twice_is_found() {
    let work = with_key(&[]);
    work.write("g", "another image\n");
    work.hbs(&["backup", "k", "--out", "b"]).ok();
    work.hbs(&["sign", "--key", "k", "f"]).ok();
    // The undetectable case: everything is restored, including the anchor.
    fs::remove_dir_all(work.state_home()).unwrap();
    fs::create_dir(work.path("host2")).unwrap();
    work.hbs(&["restore", "b", "--out", "host2/k"]).ok();
    work.hbs(&["recover", "host2/k", "--burn", "0"]).ok();
    work.hbs(&["sign", "--key", "host2/k", "g"]).ok();
    let exported = work.hbs(&["log", "host2/k", "--json"]).ok();
    work.write("host2.ndjson", exported.out);
    for sources in [["k", "host2.ndjson"], ["f.sig", "g.sig"], ["k", "g.sig"], ["k", "host2/k"]] {
        let found = work.hbs(&["audit", sources[0], sources[1]]).fails(1).says("replace the key");
        assert!(found.text().starts_with("index 0 signed two messages"), "{sources:?}: {found:?}");
    }
    let audited = work.hbs(&["audit", "k", "f.sig"]).ok();
    assert!(!audited.err.contains("note"), "{audited:?}");
    // A file next to a signature is believed if the signature is valid for it.
    work.write("f", "built once more\n");
    let audited = work.hbs(&["audit", "k", "f.sig"]).ok();
    assert!(audited.err.contains("f is not the message of f.sig"), "{audited:?}");
    work.hbs(&["audit", "f"]).fails(2).says("neither an LMS or HSS signature");
    work.hbs(&["keygen", SET, "--out", "other"]).ok();
    work.hbs(&["audit", "k", "other"]).fails(2).says("different keys");
}
