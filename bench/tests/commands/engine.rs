//! `gabion bench engine`, as a script sees it.

use gabion_cli_testing::{CommandResult, Work, program};
use serde_json::Value;

#[test]
fn engine_rows_have_their_fields() {
    let work = Work::new();
    let arguments = [
        "engine",
        "--filter",
        "ML-KEM-768:(en|de)caps:",
        "--seconds",
        "0.01",
        "--batch",
        "2",
        "--threads",
        "2",
        "--backend",
        "portable",
        "--json",
    ];
    let text = work.bench(&arguments).ok().text();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<String> = rows
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            format!("{}:{}:{}", text("algorithm"), text("operation"), text("key"))
        })
        .collect();
    assert_eq!(
        names,
        ["encaps:fresh", "encaps:cached", "decaps:fresh", "decaps:cached"]
            .map(|rest| format!("ML-KEM-768:{rest}"))
    );
    for row in &rows {
        assert_eq!(
            (&row["backend"], &row["batch"], &row["threads"]),
            (&"portable".into(), &2.into(), &2.into())
        );
        assert!(row["ns_per_op"]["p50"].as_f64().unwrap() > 0.0);
        assert!(row["ns_per_op"]["p99"].as_f64() >= row["ns_per_op"]["p50"].as_f64());
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0);
        assert!(row["samples"].as_u64().unwrap() > 0);
        assert!(row["core_cycles_per_op"].is_f64() && row["machine"]["cpu"].is_string());
    }
    for bad in [
        &["--filter", "("][..],
        &["--filter", "nothing"],
        &["--seconds", "0"],
        &["--batch", "0"],
        &["--threads", "x"],
    ] {
        let done = work.bench(&[&["engine"][..], bad].concat()).fails(2);
        assert!(done.out.is_empty());
    }
}

#[test]
fn a_missing_backend_is_named_with_those_that_there_are() {
    Work::new().bench(&["engine", "--backend", "abacus"]).fails(2).says("portable");
}

#[test]
fn a_full_disk_is_reported() {
    let work = Work::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = work.bench_command(&["size", "--module"]);
    let output = command.arg(program("gabion-bench")).stdout(full).output().unwrap();
    CommandResult::of(output).fails(3).says("cannot write to standard output");
}
