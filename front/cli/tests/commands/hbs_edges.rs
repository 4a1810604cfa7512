//! `gabion hbs` at the edges of a system: pipes, names that are other names, the umask, and a limit on files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{CommandResult, Work};

const SET: &str = "LMS_SHA256_M32_H5:LMOTS_SHA256_N32_W8";

/// A key `k`, its public key `p` and a message `f`.
fn with_key() -> Work {
    let work = Work::new();
    work.write("f", "an image\n");
    work.gabion(&["hbs", "keygen", SET, "--out", "k", "--pub", "p"]).ok();
    work
}

fn index(work: &Work) -> u64 {
    let status = work.gabion(&["hbs", "status", "k", "--json"]);
    status.json()["index"].as_u64().unwrap()
}

fn verifies(work: &Work, sig: &str, file: &str) {
    work.gabion(&["hbs", "verify", "--key", "p", "--sig", sig, file]).ok();
}

/// `gabion` behind words of a shell.
fn in_shell(work: &Work, before: &str, arguments: &[&str]) -> Command {
    let gabion = work.command(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before} exec \"$0\" \"$@\"")]);
    shell.arg(gabion.get_program()).args(gabion.get_args());
    shell.current_dir(work.folder()).env("XDG_STATE_HOME", work.state_home()).stdin(Stdio::null());
    shell
}

#[test]
fn standard_input_by_any_name_is_signed_where_its_signature_has_a_name() {
    let work = with_key();
    for name in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let sign = ["hbs", "sign", "--key", "k", name];
        work.gabion_fed(&sign, b"an image\n").fails(2).says("with --out");
        assert!(!Path::new(&format!("{name}.sig")).exists());
        let sign = [&sign[..], &["--force", "--out", "s"]].concat();
        work.gabion_fed(&sign, b"an image\n").ok();
        verifies(&work, "s", "f");
    }
    let twice = ["hbs", "sign", "--key", "k", "-", "/dev/stdin"];
    work.gabion_fed(&twice, b"an image\n").fails(2);
    // The path that a shell substitutes for <(command).
    let other = in_shell(&work, "exec 7<f;", &["hbs", "sign", "--key", "k", "/dev/fd/7"]);
    CommandResult::of({ other }.output().unwrap()).fails(2).says("/dev/fd/7.sig");
    assert_eq!(index(&work), 4);
}

/// A key is not locked while its user waits for a message.
#[test]
fn a_pipe_is_read_before_the_key_is_held() {
    let work = with_key();
    assert!(Command::new("mkfifo").arg(work.path("pipe")).status().unwrap().success());
    let mut waits = work.command(&["hbs", "sign", "--key", "k", "pipe"]);
    let waits = waits.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    work.gabion(&["hbs", "sign", "--key", "k", "--wait", "0", "f"]).ok();
    fs::write(work.path("pipe"), "an image\n").unwrap();
    CommandResult::of(waits.wait_with_output().unwrap()).ok();
    verifies(&work, "pipe.sig", "f");
    // A pipe is not a key, and the command does not block on it.
    work.gabion(&["hbs", "sign", "--key", "pipe", "--out", "s", "f"]).fails(2).says("regular file");
    assert_eq!(index(&work), 2);
}

#[test]
fn a_file_that_is_named_twice_is_refused_by_whatever_name() {
    let work = with_key();
    symlink("f", work.path("link")).unwrap();
    symlink(".", work.path("here")).unwrap();
    let sign = |files: &[&str]| work.gabion(&[&["hbs", "sign", "--key", "k"], files].concat());
    for again in ["f", "./f", "here/f", "here/../work/f"] {
        sign(&["f", again]).fails(2).says("named twice");
    }
    work.write("f.sig", "a message, too");
    sign(&["f", "f.sig", "--force"]).fails(2).says("same file");
    fs::remove_file(work.path("f.sig")).unwrap();
    assert_eq!((index(&work), work.has("f.sig")), (0, false));
    // Two names in a folder are two messages, each of which gets a signature in that folder.
    sign(&["f", "link"]).ok();
    verifies(&work, "f.sig", "f");
    verifies(&work, "link.sig", "f");
    assert_eq!(index(&work), 2);
}

/// The next write of a key's file would remove a signature under the same name.
#[test]
fn a_signature_takes_no_name_that_a_key_needs() {
    let work = with_key();
    symlink("k", work.path("link")).unwrap();
    symlink(".", work.path("here")).unwrap();
    let names = [
        "k",
        "link",
        "here/k",
        "k.new",
        "k.trees.new",
        "k.part",
        "k.part.new",
        "here/k.log",
        "./k.state",
    ];
    for out in names {
        let sign = ["hbs", "sign", "--key", "k", "--force", "--out", out, "f"];
        work.gabion(&sign).fails(2).says("same file");
    }
    assert_eq!(index(&work), 0);
    for public in ["n.new", "n.trees.new", "here/n.part.new"] {
        let keygen = ["hbs", "keygen", SET, "--out", "n", "--pub", public];
        work.gabion(&keygen).fails(2).says("same file");
        work.write(public, "word");
        let keygen = ["hbs", "keygen", SET, "--out", "n", "--passin", &format!("file:{public}")];
        work.gabion(&keygen).fails(2).says("a file of --out");
        assert_eq!(work.read(public), b"word");
        fs::remove_file(work.path(public)).unwrap();
    }
    work.gabion(&[
        "hbs",
        "keygen",
        SET,
        "--out",
        "n",
        "--anchor",
        "../a",
        "--anchor",
        "../work/../a",
    ])
    .fails(2)
    .says("named twice");
    assert!(!work.has("n") && !work.has("n.lock") && !work.has("../a"));
}

#[test]
fn secret_files_are_private_under_any_umask() {
    let work = Work::new();
    work.write("f", "an image\n");
    let gabion = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        CommandResult::of(in_shell(&work, "umask 0;", &words).output().unwrap()).ok();
    };
    gabion(&format!("hbs keygen {SET} --out k --pub p"));
    gabion("hbs sign --key k f");
    gabion("hbs backup k --out b");
    gabion("hbs restore b --out restored");
    fs::write(work.path("k.log"), [7; 4096]).unwrap();
    gabion("hbs recover k --burn 1");
    let mut seen = Vec::new();
    let mut look = |folder: &Path| {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            seen.push((
                entry.path().strip_prefix(work.folder()).map_or(entry.path(), Path::to_owned),
                mode,
            ));
        }
    };
    look(&work.folder());
    let home = work.state_home();
    [home.parent().unwrap(), &home, &home.join("gabion"), &home.join("gabion/anchors")]
        .into_iter()
        .for_each(look);
    // Those that are meant for others.
    let is_public =
        |name: &Path| ["f", "p", "f.sig"].iter().any(|public| name == Path::new(public));
    for (name, mode) in &seen {
        let is_open = is_public(name) || name.as_os_str().is_empty();
        assert!(is_open || [0o600, 0o700].contains(mode), "{name:?}: {mode:o}");
    }
    let has = |name: &str| seen.iter().any(|(path, _)| path.ends_with(name));
    assert!(
        ["k", "k.state", "k.trees", "k.log.1", "b", "restored.log", "anchors"]
            .iter()
            .all(|name| has(name))
    );
}

/// A limit on the size of files, at every size that a file of the key has something at: a signal ends the command, or an
/// error; what was signed before stays the only one of its index.
#[test]
fn a_limit_on_files_uses_no_index_twice() {
    let work = with_key();
    let mut next = 0;
    for blocks in [0, 1, 2, 8, 9, 15, 16, 17, 24, 25, 64, 127, 128, 129, 1024] {
        let _ = fs::remove_file(work.path("s"));
        let sign = ["hbs", "sign", "--key", "k", "--json", "--out", "s", "f"];
        let limited = in_shell(&work, &format!("ulimit -f {blocks};"), &sign);
        let done = CommandResult::of({ limited }.output().unwrap());
        assert!(!done.err.contains("panicked"), "{blocks}: {done:?}");
        let before = next;
        next = index(&work);
        if done.code == Some(0) {
            assert_eq!(done.json()["index"], next - 1, "{blocks}");
            verifies(&work, "s", "f");
        } else {
            assert!(!work.has("s") && next <= before + 1, "{blocks}: {done:?}");
        }
        let made = work
            .gabion(&["hbs", "sign", "--key", "k", "--json", "--force", "--out", "t", "f"])
            .ok();
        assert!(made.json()["index"].as_u64() >= Some(next), "{blocks}");
        next = index(&work);
    }
    assert!(next >= 16);
    work.gabion(&["hbs", "audit", "k", "s", "t"]).ok();
}
