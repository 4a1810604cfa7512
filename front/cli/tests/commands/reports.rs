//! The output of the command line: tables, JSON, exit codes, help.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::harness::{ALGORITHMS, CommandResult, Work, bundle, commands, example};
use serde_json::Value;

#[test]
fn the_table_of_algorithms_has_every_field() {
    let work = Work::new();
    let rows = work.gabion(&["algorithms", "--json"]).ok().json();
    let names: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, gabion_engine::Algorithm::all().map(|one| one.name()).collect::<Vec<_>>());
    assert!(ALGORITHMS.iter().all(|name| names.contains(name)));
    for row in rows.as_array().unwrap() {
        for field in [
            "/standard",
            "/kind",
            "/category",
            "/security_bits",
            "/oid",
            "/oid_name",
            "/tls/name",
            "/tls/codepoint",
            "/openssl",
            "/wolfssl",
            "/oqs",
            "/old/name",
            "/old/codepoint",
            "/old/oid",
            "/old/sizes",
            "/parameters_oid",
            "/parts",
            "/signature_length_varies",
            "/prehash_oid",
            "/sizes/public_key",
            "/sizes/private_key",
            "/sizes/seed",
            "/backend",
        ] {
            // Fields that an algorithm lacks are null, and so are whole groups of columns.
            let group = field.rsplit_once('/').unwrap().0;
            let lacks_group = row.pointer(group).is_some_and(serde_json::Value::is_null);
            assert!(lacks_group || row.pointer(field).is_some(), "{} has no {field}", row["name"]);
        }
        let sizes = &row["sizes"];
        match row["kind"].as_str().unwrap() {
            "kem" => assert!(sizes["ciphertext"].is_u64() && sizes["shared_secret"].is_u64()),
            "signature" => assert!(sizes["signature"].is_u64()),
            "key-exchange" => assert!(sizes["shared_secret"].is_u64()),
            other => panic!("{other}"),
        }
    }
    assert_eq!(rows[1]["tls"]["codepoint"], 0x0201);
    assert_eq!(rows[4]["oid"], "2.16.840.1.101.3.4.3.18");
    let wide = work.gabion(&["algorithms", "--wide"]).ok().text();
    assert_eq!(wide.lines().count(), names.len() + 1);
    assert!(wide.contains("2.16.840.1.101.3.4.3.18") && wide.contains("FIPS 204"), "{wide}");
    let text = work.gabion(&["algorithms"]).ok().text();
    assert_eq!(text.lines().count(), names.len() + 1);
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?} columns");
    assert!(!text.contains('\x1b'), "colour in a pipe");
}

#[test]
fn old_names_are_listed_with_what_followed() {
    let work = Work::new();
    let rows = work.gabion(&["algorithms", "--old", "--json"]).ok().json();
    let of = |name: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!(of("DILITHIUM_LEVEL3")["successor"], "ML-DSA-65");
    assert_eq!(of("DILITHIUM_LEVEL3")["sizes"]["output"], 3293);
    assert!(of("DILITHIUM_LEVEL3")["sizes"]["shared_secret"].is_null());
    // Every column of what was published of the KEMs.
    for (name, dropped, published) in [
        ("KYBER_LEVEL1", "KYBER_90S_LEVEL1", [800, 1632, 768, 32]),
        ("KYBER_LEVEL3", "KYBER_90S_LEVEL3", [1184, 2400, 1088, 32]),
        ("KYBER_LEVEL5", "KYBER_90S_LEVEL5", [1568, 3168, 1568, 32]),
    ] {
        for name in [name, dropped] {
            let sizes = &of(name)["sizes"];
            let columns = ["public_key", "private_key", "output", "shared_secret"];
            assert_eq!(columns.map(|column| sizes[column].as_u64().unwrap()), published, "{name}");
        }
    }
    assert_eq!(of("P384_KYBER_LEVEL3")["codepoint"], 12092);
    assert!(of("KYBER_90S_LEVEL5")["successor"].is_null());
    let text = work.gabion(&["algorithms", "--old"]).ok().text();
    assert_eq!(text.lines().count(), rows.as_array().unwrap().len() + 1);
    assert!(text.lines().next().unwrap().contains("secret"), "{text}");
    let dropped = text.lines().find(|line| line.starts_with("KYBER_90S_LEVEL1")).unwrap();
    assert!(dropped.split_whitespace().any(|cell| cell == "32"), "{dropped}");
    assert!(dropped.trim_end().ends_with("nothing"), "{dropped}");
}

#[test]
fn a_backend_that_is_not_there_is_no_ready_environment() {
    let work = Work::new();
    let mut command = work.command(&["algorithms"]);
    let done = CommandResult::of(command.env("GABION_BACKEND", "abacus").output().unwrap());
    done.fails(3).says("abacus").says("portable");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let work = Work::new();
    let mut command = work.command(&["algorithms", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = CommandResult::of(child.wait_with_output().unwrap());
    assert!(done.err.is_empty(), "{done:?}");
}

#[test]
fn full_disk_on_stdout_is_reported() {
    let work = Work::new();
    for arguments in [&["algorithms"][..], &["algorithms", "--json"], &["doctor"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = CommandResult::of(work.command(arguments).stdout(full).output().unwrap());
        done.fails(3).says("cannot write to standard output");
    }
}

fn names_and_verdicts(report: &Value) -> Vec<(String, String)> {
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().map(|check| (text(check, "name"), text(check, "verdict"))).collect()
}

#[test]
fn doctor_without_a_bundle_says_how_to_get_one() {
    let work = Work::new();
    let place = work.path("nothing");
    let doctor = |arguments: &[&str]| {
        let mut command = work.command(arguments);
        CommandResult::of(command.env("GABION_OPENSSL_PREFIX", &place).output().unwrap())
    };
    let report = doctor(&["doctor", "--json"]).ok().json();
    let all = names_and_verdicts(&report);
    assert!(all.contains(&("OpenSSL bundle".to_owned(), "off".to_owned())), "{all:?}");
    assert!(all.contains(&("backend portable".to_owned(), "ok".to_owned())), "{all:?}");
    let text = doctor(&["doctor"]).ok().text();
    let mend = "to fix: unset GABION_OPENSSL_PREFIX, or gabion bundle build --prefix ";
    assert!(text.contains(mend) && !text.contains('\x1b'), "{text}");
    // A folder that is there and no bundle is broken.
    std::fs::create_dir(&place).unwrap();
    let report = doctor(&["doctor", "--json"]);
    assert_eq!(report.code, Some(1));
    assert_eq!(report.json()["verdict"], "broken");
}

#[test]
fn doctor_says_why_there_is_no_gpu() {
    let work = Work::new();
    let doctor = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = work.command(arguments);
        command.env("GABION_OPENSSL_PREFIX", work.path("nothing")).envs(variables.iter().copied());
        CommandResult::of(command.output().unwrap())
    };
    let off = ("GABION_GPU", "off");
    let report = doctor(&["doctor", "--json"], &[off]).ok().json();
    assert!(names_and_verdicts(&report).contains(&("GPU".to_owned(), "off".to_owned())));
    assert_eq!(report["gpus"], serde_json::json!([]));
    doctor(&["doctor", "--measure-gpu"], &[off]).fails(3).says("GABION_GPU");
    let report = doctor(&["doctor", "--json"], &[off, ("GABION_BACKEND", "cuda")]);
    assert_eq!(report.code, Some(1));
    let checks = report.json()["checks"].clone();
    let gpu = checks.as_array().unwrap().iter().find(|check| check["name"] == "GPU").unwrap();
    assert_eq!((&gpu["verdict"], &gpu["mend"]), (&"broken".into(), &"unset GABION_BACKEND".into()));
    assert!(
        gpu["detail"].as_str().unwrap().starts_with("GABION_BACKEND=cuda: GABION_GPU"),
        "{gpu}"
    );
    assert!(!checks.to_string().contains("backend choice"), "{checks}");
    // On any machine, each operation reports why the backend is missing.
    doctor(&["algorithms"], &[off, ("GABION_BACKEND", "cuda")]).fails(3).says("backend `cuda`");
}

/// Building the bundle again would mend nothing where a variable is the cause.
#[test]
fn doctor_names_the_variable_that_is_the_cause() {
    let Some(prefix) = bundle() else { return };
    let work = Work::new();
    let doctor = |name: &str, value: &str| {
        let mut command = work.command(&["doctor"]);
        command.env("GABION_OPENSSL_PREFIX", &prefix).env(name, value);
        CommandResult::of(command.output().unwrap())
    };
    for (name, mend) in [
        ("TMPDIR", "set TMPDIR"),
        ("GABION_OPENSSL_CONF", "unset GABION_OPENSSL_CONF"),
        ("GABION_OPENSSL_FIPS_MODE", "set the variable"),
    ] {
        let text = doctor(name, "/nonexistent").text();
        assert!(text.contains(&format!("to fix: {mend}")), "{name}: {text}");
        assert!(!text.contains("bundle build --repair"), "{name}: {text}");
        assert!(text.lines().all(|line| line.len() < 260), "{name}: {text}");
    }
    let mut command = work.command(&["doctor"]);
    let done = CommandResult::of(
        command.env_remove("HOME").env_remove("GABION_OPENSSL_PREFIX").output().unwrap(),
    );
    assert!(done.text().contains("to fix: set HOME, or GABION_OPENSSL_PREFIX"), "{done:?}");
    // The last words of preflight do not give a second advice in addition to the first.
    let mut command = work.command(&["preflight"]);
    command.env("GABION_OPENSSL_PREFIX", "/nonexistent");
    let done = CommandResult::of(command.output().unwrap());
    assert!(done.err.contains("gabion bundle build") && !done.err.contains("--repair"), "{done:?}");
}

#[test]
fn doctor_warns_of_an_old_bundle() {
    let work = Work::new();
    for part in [
        "bin/openssl",
        "lib/libcrypto.so",
        "lib/libssl.so",
        "lib/ossl-modules/fips.so",
        "ssl/fipsmodule.cnf",
    ] {
        std::fs::create_dir_all(work.path(part).parent().unwrap()).unwrap();
        work.write(part, b"");
    }
    let manifest = |version: &str| {
        serde_json::json!({
            "version": version, "source_sha256": "", "options": [], "built": "2026-01-01T00:00:00Z",
            "fips_module_sha256": "", "gabion_version": "0.1.0",
        })
    };
    let bundle = |version: &str| {
        work.write("gabion-bundle.json", manifest(version).to_string());
        let mut command = work.command(&["doctor", "--json"]);
        let done = CommandResult::of(
            command.env("GABION_OPENSSL_PREFIX", work.folder()).output().unwrap(),
        );
        let report = done.json();
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "OpenSSL bundle").unwrap().clone()
    };
    let old = bundle("3.5.4");
    assert_eq!(old["verdict"], "ok");
    let warning = old["warning"].as_str().unwrap();
    assert!(warning.contains("OpenSSL 3.5.4 is not 3.5."), "{old}");
    assert!(warning.contains("CVE-2026-45447"), "{old}");
    assert_eq!(old["mend"], "gabion bundle build");
    let of_another_line = bundle("3.6.3");
    let mend = of_another_line["mend"].as_str().unwrap();
    assert!(mend.starts_with("gabion bundle build --openssl 3.6."), "{of_another_line}");
    assert!(bundle("3.5.99")["warning"].is_null());
    assert!(bundle("3.99.0")["warning"].as_str().unwrap().contains("nothing is known"));
    std::fs::remove_file(work.path("lib/libssl.so")).unwrap();
    assert_eq!(bundle("3.99.0")["verdict"], "broken");
}

#[test]
fn doctor_reports_serving_provider_and_counters() {
    let Some(prefix) = bundle().filter(|prefix| prefix.join("lib/ossl-modules/gabion.so").exists())
    else {
        return;
    };
    let work = Work::new();
    let done = work.gabion(&["doctor", "--json"]);
    let report = done.json();
    let served: BTreeSet<String> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["served_by"] == "gabion")
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect();
    for name in [
        "ML-KEM-768 keygen",
        "ML-KEM-768 encaps",
        "ML-KEM-768 decaps",
        "ML-DSA-65 keygen",
        "ML-DSA-65 sign",
        "ML-DSA-65 verify",
    ] {
        assert!(served.contains(name), "{name}: {report:#}");
    }
    assert_eq!(report["fips"]["validated"], false);
    let mut command = Command::new(prefix.join("bin/openssl"));
    command
        .args(["genpkey", "-algorithm", "ML-DSA-44", "-out"])
        .arg(work.path("key"))
        .env("OPENSSL_CONF", prefix.join("ssl/openssl-gabion.cnf"))
        .env("GABION_STATS", work.path("stats"));
    CommandResult::of(command.output().unwrap()).ok();
    let counted = work.gabion(&["doctor", "--stats", "stats", "--json"]).ok().json();
    let keygen = |row: &&Value| row["algorithm"] == "ML-DSA-44" && row["operation"] == "keygen";
    let row = counted["counters"].as_array().unwrap().iter().find(keygen).unwrap();
    assert_eq!((&row["calls"], &row["errors"]), (&1.into(), &0.into()));
    let text = work.gabion(&["doctor", "--stats", "stats"]).ok().text();
    assert!(text.contains("ML-DSA-44  keygen"), "{text}");
    work.gabion(&["doctor", "--stats", "none"]).fails(2).says("none");
}

#[test]
fn help_opens_with_a_sentence_and_an_example_that_works() {
    let work = Work::new();
    // The commands of `gabion-bench` have a test there.
    let is_of_bench = |name: &str| ["bench", "report", "run"].contains(&name);
    let run = |arguments: &[String]| match arguments {
        [first, ..] if is_of_bench(first) => work.gabion(&["--version"]),
        _ => work.gabion(arguments),
    };
    let all = commands(&run, &[]);
    assert!(all.len() >= 17, "{all:?}");
    for command in all {
        if command.first().is_some_and(|first| is_of_bench(first)) {
            continue;
        }
        let script = example(&run(&[&command[..], &["--help".to_owned()]].concat()).ok().text());
        assert!(script.contains("gabion"), "{command:?}: {script}");
        // These need a bundle, or build one, or need a server.
        let needs = ["bundle", "exec", "provider", "preflight", "doctor", "probe"];
        if command.iter().any(|name| needs.contains(&name.as_str())) {
            continue;
        }
        let place = Work::new();
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_gabion")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &script]);
        shell.env("PATH", path).current_dir(place.folder());
        shell.env("XDG_STATE_HOME", place.state_home());
        #[cfg(feature = "kms")]
        let _service = match &command[..] {
            // They serve until they are asked to end, or need a store in a file: `kms.rs` runs them.
            [kms] if kms == "kms" => continue,
            [kms, verb]
                if kms == "kms"
                    && [
                        "dev",
                        "serve",
                        "init",
                        "unseal",
                        "recover-admin",
                        "reseal",
                        "share",
                        "backup",
                        "restore",
                    ]
                    .contains(&verb.as_str()) =>
            {
                continue;
            }
            // So does a share; `kms_holders.rs` opens some.
            [kms, share, verb] if kms == "kms" && share == "share" && verb == "open" => continue,
            // In memory there is nothing to archive; `kms_audit.rs` does.
            [kms, audit, verb] if kms == "kms" && audit == "audit" && verb == "archive" => continue,
            [kms, ..] if kms == "kms" => Some(crate::kms::for_examples(&place, &mut shell)),
            _ => None,
        };
        CommandResult::of(shell.output().unwrap()).ok();
    }
    work.gabion(&["no-such-command"]).fails(2);
    work.gabion(&["keygen", "--no-such-option"]).fails(2);
}
