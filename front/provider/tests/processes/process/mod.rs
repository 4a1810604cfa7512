//! The provider in processes that have come to an end of something: of memory, of threads' storage, of the
//! room that a file may take. C programs, since Rust's test harness needs all of that itself.

use std::path::PathBuf;
use std::process::{Command, Output};

use gabion_provider_testing::{TestFolder, all_text, prefix};

/// Compiles a program of this folder.
fn program(place: &TestFolder, name: &str) -> PathBuf {
    let source =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/processes/process").join(name);
    let (lib, made) = (prefix().join("lib"), place.path("program"));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(prefix().join("include"))
        .arg(&source)
        .arg("-L")
        .arg(&lib)
        .arg(format!("-Wl,-rpath,{}", lib.display()))
        .args(["-lcrypto", "-lpthread", "-o"])
        .arg(&made)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", source.display(), all_text(&output));
    made
}

/// Runs a program with the provider, which has to end well.
fn run(place: &TestFolder, command: &mut Command) -> Output {
    command
        .env("OPENSSL_CONF", place.path("gabion.cnf"))
        .env("LD_LIBRARY_PATH", prefix().join("lib"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {} {}", output.status, all_text(&output));
    output
}

#[test]
fn operations_work_where_threads_and_the_program_end() {
    let place = TestFolder::new();
    let program = program(&place, "late.c");
    let ends = ["thread_local", "key", "key", "key", "thread_local of main", "atexit"];
    for (argument, first) in [("unused", &[][..]), ("used", &["main", "thread"][..])] {
        let output = run(&place, Command::new(&program).arg(argument));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.lines().collect::<Vec<_>>(), [first, &ends].concat());
    }
}

/// One algorithm of each kind, and those that need a separate stack. A composite with RSA makes
/// 6,000 allocations, which is too many to fail one by one.
const OPERATIONS: [&str; 9] = [
    "ML-KEM-768",
    "X25519MLKEM768",
    "SecP384r1MLKEM1024",
    "ML-DSA-65",
    "SLH-DSA-SHA2-128f",
    "MLDSA65-ECDSA-P384-SHA512-draft19",
    "SecP521r1MLKEM1024",
    "Falcon-512",
    "MLDSA87-ECDSA-P521-SHA512-draft19",
];

#[test]
fn memory_that_is_lacking_is_an_error_and_passes() {
    let place = TestFolder::new();
    let program = program(&place, "memory.c");
    for how in ["each", "on", "new-thread"] {
        let output = run(&place, Command::new(&program).arg(how).args(OPERATIONS));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.lines().count(), OPERATIONS.len(), "{text}");
        // Some were refused, and what had begun came to its end.
        assert!(!text.contains(" 0 right") && !text.contains(" 0 refused"), "{text}");
    }
    // Where the first use, self-test included, is what lacks it.
    run(&place, Command::new(&program).arg("first").args(OPERATIONS));
}

#[test]
fn memory_that_is_lacking_spoils_no_file_and_no_provider() {
    let place = TestFolder::new();
    let program = program(&place, "memory.c");
    let files = ["ML-KEM-768", "ML-DSA-65", "MLDSA65-ECDSA-P384-SHA512-draft19"];
    run(&place, Command::new(&program).arg("files").args(files));
    let mut load = Command::new(&program);
    run(&place, load.args(["load", "gabion"]).env("OPENSSL_MODULES", place.path("modules")));
}

#[test]
fn a_file_of_counters_that_may_not_grow_is_done_without() {
    let place = TestFolder::new();
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 1 && exec \"$0\" list -kem-algorithms -propquery provider=gabion"]);
    command.arg(prefix().join("bin/openssl")).env("GABION_STATS", place.path("stats"));
    let text = all_text(&run(&place, &mut command));
    assert!(text.contains("counting in memory only") && text.contains("ML-KEM-768"), "{text}");
}

#[test]
fn the_edges_of_the_interface_hold() {
    let place = TestFolder::new();
    let program = program(&place, "edges.c");
    run(&place, &mut Command::new(&program));
}
