//! `gabion bench`, `gabion report` and `gabion run` execute the `gabion-bench` in the folder of
//! `gabion`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::harness::CommandResult;

/// A folder with `gabion` alone, on the same disk as the program, which can so be linked.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_gabion"), folder.path().join("gabion")).unwrap();
    folder
}

fn gabion(folder: &Path, line: &str) -> CommandResult {
    let mut command = Command::new(folder.join("gabion"));
    CommandResult::of(
        command.args(line.split(' ')).env("GABION_TEST", "passed on").output().unwrap(),
    )
}

#[test]
fn arguments_environment_and_exit_code_are_passed_on() {
    let folder = folder();
    let program = folder.path().join("gabion-bench");
    fs::write(&program, "#!/bin/sh\necho \"$*\" \"$GABION_TEST\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    // The program is found in the folder of the file, not in that of a symbolic link to it.
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(folder.path().join("gabion"), elsewhere.path().join("gabion")).unwrap();
    for (line, arguments) in [
        ("bench tls --json", "tls --json"),
        ("bench --help", "--help"),
        ("bench", ""),
        ("help bench tls", "help tls"),
        ("report -- -x", "report -- -x"),
        ("run --seconds 1", "run --seconds 1"),
    ] {
        for folder in [folder.path(), elsewhere.path()] {
            let done = gabion(folder, line);
            assert_eq!((done.code, done.text()), (Some(7), format!("{arguments} passed on\n")));
        }
    }
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let folder = folder();
    for line in ["bench tls", "report", "run --help"] {
        let done = gabion(folder.path(), line).fails(3);
        done.says(&folder.path().join("gabion-bench").display().to_string())
            .says("the package gabion-bench")
            .says("make install");
    }
    let help = gabion(folder.path(), "--help").ok().text();
    for name in ["bench", "report", "run"] {
        assert!(help.contains(&format!("\n  {name} ")), "{help}");
    }
}
