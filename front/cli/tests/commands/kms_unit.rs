//! The files that packages install for the key management service: the systemd unit and the
//! configuration in `packaging/`.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{CommandResult, Work, program};
use crate::kms::{Caller, ended, terminate};

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(packaged(name)).unwrap()
}

/// Runs a program of systemd; `None` if it is not installed.
fn output(program: &str, arguments: &[&str]) -> Option<CommandResult> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(CommandResult::of(output)),
        Err(_) => {
            eprintln!("not run: {program} is not installed");
            None
        }
    }
}

#[test]
fn the_unit_is_sound_and_restricted() {
    let work = Work::new();
    // The check wants the program to be there.
    let own = program("gabion").display().to_string();
    let unit = text_of("gabion-kms.service").replace("/usr/bin/gabion", &own);
    work.write("gabion-kms.service", unit);
    let unit = work.path("gabion-kms.service").display().to_string();
    let Some(verified) = output("systemd-analyze", &["verify", "--man=no", &unit]) else { return };
    assert_eq!(verified.ok().err, "");
    let Some(rated) = output("systemd-analyze", &["security", "--offline=true", &unit]) else {
        return;
    };
    let rated = rated.ok().text();
    let line = rated.lines().find(|line| line.contains("Overall exposure level")).unwrap();
    let level: f32 = line.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(level <= 2.0, "{rated}");
}

/// The system calls of a group and of the groups in it.
fn calls(group: &str) -> BTreeSet<String> {
    let listed = output("systemd-analyze", &["syscall-filter", group]).unwrap().ok().text();
    let names = listed.lines().skip(1).map(str::trim).filter(|line| !line.starts_with('#'));
    let (groups, calls): (Vec<&str>, Vec<&str>) =
        names.filter(|name| !name.is_empty()).partition(|name| name.starts_with('@'));
    let inner = groups.into_iter().flat_map(self::calls);
    calls.into_iter().map(str::to_owned).chain(inner).collect()
}

/// The system calls that the unit permits.
fn permitted() -> BTreeSet<String> {
    let mut permitted = calls("@default");
    for line in text_of("gabion-kms.service").lines() {
        let Some(names) = line.strip_prefix("SystemCallFilter=") else { continue };
        let is_denied = names.starts_with('~');
        for name in names.trim_start_matches('~').split(' ') {
            let named = match name.starts_with('@') {
                true => calls(name),
                false => BTreeSet::from([name.to_owned()]),
            };
            // Names of the second line are taken from those of the first.
            if is_denied {
                permitted.retain(|call| !named.contains(call));
            } else {
                permitted.extend(named);
            }
        }
    }
    permitted
}

#[test]
fn the_packaged_configuration_serves_with_the_system_calls_that_the_unit_permits() {
    let work = Work::new();
    let folder = work.folder().display().to_string();
    let folder = folder.trim_end_matches('/');
    let config = text_of("kms.toml").replace("/run/gabion-kms/kms.sock", &format!("{folder}/kms"));
    work.write("kms.toml", config.replace("/var/lib/gabion-kms", folder));
    let (caller, shares) = Caller::init(&work, &["--shares", "3", "--threshold", "2"]);
    work.write("shares", shares.join("\n"));
    let tools = [("strace", "-V"), ("systemd-analyze", "--version")];
    let is_traced = tools.iter().all(|(tool, option)| output(tool, &[option]).is_some());
    let mut command = match is_traced {
        true => Command::new("strace"),
        false => work.command(&["kms", "serve", "--config", "kms.toml"]),
    };
    if is_traced {
        // The tracer is the grandchild, so that the child is the server.
        command.args(["-D", "-f", "-q", "-o", "trace"]).arg(program("gabion"));
        command.args(["kms", "serve", "--config", "kms.toml"]).current_dir(work.folder());
    }
    let socket = UnixDatagram::bind(work.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    command.env("NOTIFY_SOCKET", work.path("notify")).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut heard = [0; 64];
    let len = socket.recv(&mut heard).unwrap();
    assert_eq!(&heard[..len], b"READY=1");
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["key", "create", "signing", "--algorithm", "ML-DSA-65"]).ok();
    work.write("message", "message");
    caller.run(&["sign", "--key", "signing", "--out", "signature", "message"]).ok();
    terminate(&child);
    assert_eq!(ended(&mut child), Some(0));
    if is_traced {
        let is_written = || work.read("trace").ends_with(b"+++ exited with 0 +++\n");
        while !is_written() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let permitted = permitted();
        assert!(permitted.contains("memfd_secret") && !permitted.contains("mount"));
        let trace = String::from_utf8(work.read("trace")).unwrap();
        let of_line = |line: &str| {
            let call = line.split_once(' ')?.1.trim_start().split_once('(')?.0;
            call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then(|| call.to_owned())
        };
        let used: BTreeSet<String> = trace.lines().filter_map(of_line).collect();
        assert!(used.contains("memfd_secret") && used.contains("mlockall"), "{used:?}");
        // The manager executes the program before the filter counts, and SQLite calls fchown as root alone.
        let denied =
            used.difference(&permitted).filter(|call| *call != "execve" && *call != "fchown");
        assert_eq!(denied.collect::<Vec<_>>(), Vec::<&String>::new());
    }
}
