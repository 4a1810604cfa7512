//! `gabion bench tls`, as a script sees it.

use std::process::{Command, Output};

fn gabion(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gabion-bench"));
    command.args(["tls"]).args(args);
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command speaks UTF-8")
}

fn run(args: &[&str]) -> Output {
    gabion(args).output().expect("the command starts")
}

#[test]
fn a_wrong_command_line_exits_2_and_says_what_is_possible() {
    for (args, expected) in [
        (["--group", "KYBER9000"], "known are X25519MLKEM768"),
        (["--sig", "ML-DSA-66"], "ML-DSA-65"),
        (["--provider", "oqs"], "possible values: default, gabion, fips, offload"),
        (["--seconds", "0"], "more than 0"),
        (["--threads", "0"], "1 to 1024"),
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_missing_bundle_exits_3_and_says_how_to_build_one() {
    let output = gabion(&[])
        .env("GABION_OPENSSL_PREFIX", "/nonexistent/bundle")
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(3));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("/nonexistent/bundle"), "{stderr}");
    assert!(stderr.contains("gabion bundle build"), "{stderr}");
    assert!(output.stdout.is_empty());
}

/// Needs a bundle; passes without one unless `GABION_TEST_NEEDS_BUNDLE` is set.
#[test]
fn json_is_one_object_for_each_provider() {
    let options = ["--provider", "default,fips", "--seconds", "0.1", "--json"];
    let output = run(&options);
    if output.status.code() == Some(3) && text(&output.stderr).contains("no OpenSSL at") {
        assert!(std::env::var_os("GABION_TEST_NEEDS_BUNDLE").is_none());
        eprintln!("not run: no OpenSSL bundle");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows: Vec<serde_json::Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is one object"))
        .collect();
    let providers: Vec<&str> = rows.iter().filter_map(|row| row["provider"].as_str()).collect();
    assert_eq!(providers, ["default", "fips"]);
    for row in &rows {
        assert_eq!(row["group"], "X25519MLKEM768");
        assert_eq!(row["sig"], "ML-DSA-65");
        assert!(row["server_us"].as_f64() > Some(1.0), "{row}");
        assert!(row["samples"].as_u64() >= Some(10), "{row}");
    }
}
