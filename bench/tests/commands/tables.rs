//! `gabion bench wire`, `memory` and the other tables, as a script sees them.

use gabion_cli_testing::{Work, bundle, runs_long_checks};
use serde_json::Value;

fn rows(work: &Work, arguments: &[&str]) -> Vec<Value> {
    let said = work.bench(arguments).ok().text();
    said.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn a_missing_bundle_exits_3_and_says_how_to_build_one() {
    let work = Work::new();
    for command in ["wire", "memory"] {
        let mut command = work.bench_command(&[command]);
        command.env("GABION_OPENSSL_PREFIX", "/nonexistent/bundle");
        let done = gabion_cli_testing::CommandResult::of(command.output().unwrap()).fails(3);
        done.says("/nonexistent/bundle").says("gabion bundle build");
    }
}

#[test]
fn the_published_wire_rows_come_in_their_order_and_agree_with_the_formula() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let rows = rows(&work, &["wire", "--table", "seed", "--provider", "default", "--json"]);
    assert_eq!(rows.len(), 22);
    let old = |row: &Value| {
        (
            row["old_authentication"].clone(),
            row["old_key_exchange"].clone(),
            number(row, "old_total"),
        )
    };
    assert_eq!(old(&rows[0]), ("RSA 2048 bit".into(), "ECC SECP256R1".into(), 5455));
    assert_eq!(old(&rows[12]), ("RSA 2048 bit".into(), "P521_KYBER90S_LEVEL5".into(), 8467));
    assert_eq!(old(&rows[21]), ("DILITHIUM_LEVEL5".into(), "ECC SECP256R1".into(), 13477));
    for row in &rows {
        assert_eq!((number(row, "chain"), number(row, "tickets")), (1, 0));
        match row["status"].as_str().unwrap() {
            "measured" => check_formula(row),
            "no-successor" => assert!(row["key_exchange"].is_null(), "{row}"),
            // OpenSSL alone has neither Falcon nor the private hybrids.
            other => assert_eq!((other, row["note"].is_string()), ("not-served", true), "{row}"),
        }
    }
    let status = |at: usize| rows[at]["status"].as_str().unwrap();
    for measured in [0, 1, 2, 3, 19, 20, 21] {
        assert_eq!(status(measured), "measured", "row {measured}");
    }
    assert_eq!((status(4), status(7), status(13)), ("no-successor", "not-served", "not-served"));
    // Sizes of the standards, seen in the differences.
    let total = |at: usize| number(&rows[at], "total");
    assert_eq!(total(2) - total(1), 704);
    assert_eq!(total(3) - total(2), 864);
    assert_eq!(
        (rows[0]["mode"].clone(), rows[21]["mode"].clone()),
        ("mutual".into(), "server".into())
    );
}

fn check_formula(row: &Value) {
    let parts = ["base", "key_shares", "certificates", "certificate_verify"];
    let sum: u64 = parts.iter().map(|part| number(row, part)).sum();
    assert_eq!(number(row, "predicted"), sum + 22 * number(row, "records"), "{row}");
    assert!(number(row, "total").abs_diff(number(row, "predicted")) <= 16, "{row}");
    assert_eq!(number(row, "total"), number(row, "bytes_c2s") + number(row, "bytes_s2c"));
    assert!((200..1000).contains(&number(row, "base")), "{row}");
}

#[test]
fn the_wire_table_for_people_has_both_names() {
    if !runs_long_checks("the whole table of bench wire") || bundle().is_none() {
        return;
    }
    let said = Work::new().bench(&["wire", "--provider", "default"]).ok().text();
    for words in ["KYBER_LEVEL3", "MLKEM768", "no successor", "mutual authentication", "ML-DSA-87"]
    {
        assert!(said.contains(words), "no {words} in {said}");
    }
}

#[test]
fn memory_of_both_sides_is_counted() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let arguments = ["memory", "--table", "seed", "--provider", "default", "--json"];
    let rows = rows(&work, &arguments);
    assert_eq!(rows.len(), 19);
    for row in rows.iter().filter(|row| row["status"] == "measured") {
        for side in ["server", "client"] {
            let usage = &row[side]["connection"];
            let (total, peak) = (number(usage, "heap_total"), number(usage, "heap_peak"));
            assert!((10..10_000).contains(&number(usage, "allocations")), "{row}");
            assert!(peak > 10_000 && peak <= total, "{row}");
            assert!((2_000..1_000_000).contains(&number(usage, "stack")), "{row}");
            let process = &row[side]["process"];
            assert!(number(process, "heap_peak") > peak, "{row}");
            assert!(number(process, "allocations") > number(usage, "allocations"), "{row}");
            assert!(number(&row[side]["old"], "heap_peak") > 28_000, "{row}");
        }
    }
    // More key, more memory: the three sets of ML-DSA, the three of ML-KEM.
    let peak = |at: usize| number(&rows[at]["server"]["connection"], "heap_peak");
    assert!(peak(2) < peak(3) && peak(3) < peak(4));
    let total = |at: usize| number(&rows[at]["client"]["connection"], "heap_total");
    assert!(total(6) < total(7) && total(7) < total(8));
    assert_eq!(rows[9]["status"], "no-successor");
    let last = &rows[18];
    assert_eq!(
        (&last["old_authentication"], &last["authentication"]),
        (&"ECDSA SECP256R1".into(), &"ECDSA-P-256".into())
    );
    assert!(last["note"].as_str().unwrap().contains("RSA 2048"), "{last}");
}

#[test]
fn a_measured_process_needs_its_parent() {
    let work = Work::new();
    work.bench(&["memory", "--task", "{}"]).fails(2).says("not preloaded");
}

#[test]
fn the_published_tls_rows_have_every_figure() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let arguments = ["tls", "--table", "seed", "--provider", "default", "--seconds", "0.01"];
    let cipher = ["--cipher", "tls_aes_128_gcm_sha256"];
    let rows = rows(&work, &[&arguments[..], &["--threads", "2", "--json"], &cipher].concat());
    assert_eq!(rows.len(), 16);
    assert!(rows.iter().all(|row| row["cipher"] == "TLS_AES_128_GCM_SHA256"));
    work.bench(&["tls", "--table", "seed", "--cipher", "TLS_NULL"]).fails(2).says("TLS_NULL");
    let groups: Vec<&str> = rows.iter().map(|row| row["old_group"].as_str().unwrap()).collect();
    assert_eq!(
        (groups[0], groups[2], groups[13]),
        ("ECC_SECP256R1", "FFDHE_2048", "ECC_SECP521R1")
    );
    assert_eq!(rows[4]["group"], "MLKEM768");
    for row in rows.iter().filter(|row| row["status"] == "measured") {
        let connections = number(row, "connections");
        assert!(connections >= 5, "a connection a round: {row}");
        assert_eq!(number(row, "total_bytes"), connections * (256 << 10));
        for side in ["server", "client"] {
            for field in ["connect_avg_ms", "rx_mb_s", "tx_mb_s"] {
                assert!(row[side][field].as_f64() > Some(0.0), "{field} of {row}");
            }
        }
        let handshake =
            ["server", "client"].map(|side| row[side]["connect_avg_ms"].as_f64().unwrap());
        for field in ["last_byte_50k_ms", "last_byte_50k_elapsed_ms"] {
            assert!(row[field].as_f64().unwrap() > handshake[0] / 4.0, "{field} of {row}");
        }
        let threads = row["threads"].as_array().unwrap();
        assert_eq!(threads.len(), 2);
        assert!(threads.iter().all(|entry| entry["handshakes_per_s"].as_f64() > Some(1.0)));
    }
    assert_eq!(rows.iter().filter(|row| row["status"] == "no-successor").count(), 6);
    work.bench(&["tls", "--table", "seed", "--group", "x25519"]).fails(2);
    work.bench(&["tls", "--table", "seed", "--seconds", "0"]).fails(2).says("more than 0");
}

#[test]
fn openssl_speed_is_read_and_compared() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let algorithms = ["--algorithm", "ML-KEM-512", "ML-DSA-44", "SLH-DSA-SHA2-128f"];
    let options = ["openssl", "--provider", "default", "--seconds", "1"];
    let output = ["--output-json", "speed.json", "--json"];
    let done = work.bench(&[&options[..], &algorithms[..], &output[..]].concat()).ok();
    let result = done.json();
    let file: Value = serde_json::from_slice(&work.read("speed.json")).unwrap();
    assert_eq!(file, result);
    let rows = result["results"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows[0]["encaps_per_s"].as_f64() > Some(1000.0) && rows[0]["sign_per_s"].is_null());
    assert!(rows[1]["verify_per_s"].as_f64() > rows[1]["sign_per_s"].as_f64());
    let ratio = &result["ratios"][0];
    assert_eq!(
        (ratio["slh_dsa"].clone(), ratio["ml_dsa"].clone()),
        ("SLH-DSA-SHA2-128f".into(), "ML-DSA-44".into())
    );
    assert!(ratio["sign"].as_f64() > Some(1.0), "{ratio}");
    work.bench(&["openssl", "--provider", "default", "--algorithm", "KYBER9000"]).fails(1);
    work.bench(&["openssl", "--openssl-bin", "/nonexistent"]).fails(3).says("--openssl-bin");
    work.bench(&["openssl", "--seconds", "0"]).fails(2).says("1 to 3600");
}

#[test]
fn a_switch_is_compared_in_two_ways_and_a_slower_connection_is_a_failure() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let options = ["switches", "--switch", "key-pools", "--rounds", "1", "--json"];
    let mut command = work.bench_command(&options);
    command.args(["--group", "MLKEM768,X25519MLKEM768", "--sig", "ML-DSA-44"]);
    let done = command.output().unwrap();
    let rows: Vec<Value> = String::from_utf8(done.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    assert_eq!(rows.len(), 2);
    let mut slower = 0;
    for row in &rows {
        // Of one round both ways are the quotient of the same two slices.
        let of = |side: &str| row[side]["p50_us"].as_f64().unwrap();
        let expected = of("on") / of("off");
        for ratio in [&row["p50_ratio"], &row["of_medians"]["p50_ratio"]] {
            assert!((ratio.as_f64().unwrap() - expected).abs() < 0.001, "{row}");
        }
        let verdict = if expected > 1.02 { "slower" } else { "not-slower" };
        assert_eq!(row["alone"], verdict, "{row}");
        slower += usize::from(expected > 1.02);
    }
    // The verdict depends on the test machine; the exit code must agree with it.
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(i32::from(slower > 0)), "{said}");
    assert_eq!(said.matches("one connection alone is slower").count(), slower, "{said}");
    work.bench(&["switches", "--rounds", "0"]).fails(2).says("one round");
    work.bench(&["switches", "--group", "KYBER9000"]).fails(2).says("X25519MLKEM768");
}

#[test]
fn requests_to_the_key_management_service_are_measured_beside_those_that_do_nothing() {
    let work = Work::new();
    let options = [
        "kms",
        "--filter",
        "ed25519:(sign|cold):.*",
        "--seconds",
        "0.02",
        "--rounds",
        "2",
        "--json",
    ];
    let rows = rows(&work, &options);
    let of = |row: &Value| {
        let text = |field: &str| row[field].as_str().unwrap_or("none").to_owned();
        (
            text("request"),
            text("through"),
            text("class"),
            number(row, "clients"),
            number(row, "batch"),
        )
    };
    let is_there = |request: &str, through: &str, class: &str, clients, batch| {
        let wanted = (request.to_owned(), through.to_owned(), class.to_owned(), clients, batch);
        assert_eq!(rows.iter().filter(|row| of(row) == wanted).count(), 1, "{wanted:?}");
    };
    is_there("sign", "https", "written", 1, 1);
    is_there("sign", "https", "written", 1, 64);
    is_there("sign", "https", "durable", 1, 1);
    is_there("sign", "https", "durable", 8, 1);
    is_there("sign", "https", "written", 16, 1);
    is_there("cold", "process", "none", 1, 32);
    for row in &rows {
        let us = |field: &str| row["us"][field].as_f64().unwrap();
        assert!(0.0 < us("p50") && us("p50") <= us("p99") && us("p99") <= us("max"), "{row}");
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0 && number(row, "requests") > 0, "{row}");
        let is_https = row["through"] == "https";
        for field in ["server_us_per_op", "floor_us", "over_floor"] {
            assert_eq!(row[field].as_f64().is_some_and(|value| value > 0.0), is_https, "{row}");
        }
        for field in ["fdatasync_us", "fdatasync_p99_us", "written_us"] {
            assert_eq!(row[field].is_number(), row["class"] == "durable", "{row}");
        }
        assert_eq!(row["due_per_s"].is_number(), row["clients"] == 16, "{row}");
        let around = |field: &str| row["around"][field].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&around("steal")) && around("load") >= 0.0, "{row}");
        assert!((0.0..=1.0).contains(&around("others")) && around("disturbed") <= 2.0, "{row}");
    }
    work.bench(&["kms", "--filter", "md5"]).fails(2).says("ml-dsa-65:sign");
    work.bench(&["kms", "--rounds", "0"]).fails(2).says("one turn");
    work.bench(&["kms", "--keys", "0"]).fails(2).says("one key");
    work.bench(&["kms", "--coalesce", "x"]).fails(2).says("any, tenant or off");
    work.bench(&["kms", "--task", "x"]).fails(2).says("no task");
}

#[test]
fn a_service_is_started_over_few_keys_and_over_many() {
    let work = Work::new();
    let options = [
        "kms",
        "--filter",
        ":(start|cold-sign):",
        "--seconds",
        "1",
        "--rounds",
        "2",
        "--keys",
        "40",
        "--json",
    ];
    let rows = rows(&work, &options);
    let of = |row: &Value| (row["request"].as_str().unwrap().to_owned(), number(row, "keys"));
    let there: Vec<_> = rows.iter().map(of).collect();
    // A store with one key has no unused key left.
    let wanted = [("start", 1), ("start", 40), ("cold-sign", 40)];
    assert_eq!(there, wanted.map(|(request, keys)| (request.to_owned(), keys)));
    for row in &rows {
        let p50 = row["us"]["p50"].as_f64().unwrap();
        assert!(p50 > 0.0 && number(row, "resident_kib") > 1000, "{row}");
        let is_start = row["request"] == "start";
        assert_eq!(number(row, "requests") == 2, is_start, "{row}");
        assert_eq!(row["server_us_per_op"].is_null(), is_start, "{row}");
    }
}

#[test]
fn pkeyutl_gives_times_and_sizes() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let options = ["pkeyutl", "--provider", "default", "--iterations", "3", "--json"];
    let result =
        work.bench(&[&options[..], &["--algorithm", "ML-DSA-44", "--msg-bytes", "1000"]].concat());
    let row = result.ok().json()["results"][0].clone();
    assert_eq!((number(&row, "msg_bytes"), number(&row, "iterations")), (1000, 3));
    // SubjectPublicKeyInfo of 1312 bytes of key; seed and expanded key in PKCS#8.
    assert_eq!((number(&row, "public_key_bytes"), number(&row, "signature_bytes")), (1334, 2420));
    assert!(number(&row, "private_key_bytes") > 2560);
    for operation in ["sign", "verify", "process"] {
        let times = &row[operation];
        let of = |field: &str| times[field].as_f64().unwrap();
        assert!(of("median_ms") > 0.0 && of("median_ms") <= of("p99_ms"), "{times}");
        assert!((of("ops_per_s") * of("mean_ms") - 1000.0).abs() < 100.0, "{times}");
    }
}

/// Names that the table of algorithms has and the provider has not, by which a row says so; aliases; a KEM
/// where signatures are measured; and a name of nothing, which loses neither rows nor the file.
#[test]
fn openssl_tables_have_rows_for_every_name_that_there_is() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    let run = |command: &str, names: &str, options: &str| {
        let words = format!("{command} --provider default --json --algorithm {names} {options}");
        work.bench(&words.split(' ').collect::<Vec<_>>())
    };
    let fast = [("openssl", "--seconds 1"), ("pkeyutl", "--iterations 1")];
    for (command, options) in fast {
        let figure = if command == "openssl" { "keygen_per_s" } else { "sign" };
        let result = run(command, "Falcon-512 mldsa44", options).ok().json();
        let (absent, alias) = (&result["results"][0], &result["results"][1]);
        assert_eq!(
            (&absent["status"], &absent["algorithm"]),
            (&"not-served".into(), &"Falcon-512".into())
        );
        assert!(absent["note"].as_str().unwrap().contains("default"), "{absent}");
        assert!(absent[figure].is_null() && !alias[figure].is_null(), "{result}");
        assert_eq!(
            (&alias["status"], &alias["algorithm"]),
            (&"measured".into(), &"ML-DSA-44".into())
        );

        let file = format!("--output-json {command}.json {options}");
        let done = run(command, "ML-DSA-44 KYBER9000 KYBER9001", &file).fails(1);
        let result = done.says("KYBER9000").says("KYBER9001").json();
        assert_eq!(result["results"].as_array().unwrap().len(), 1, "{result}");
        let written: Value =
            serde_json::from_slice(&work.read(&format!("{command}.json"))).unwrap();
        assert_eq!(written, result);
    }
    for kem in ["ML-KEM-768", "x25519"] {
        let done = run("pkeyutl", &format!("ML-DSA-44 {kem}"), "").fails(2);
        done.says(kem).says("ML-DSA-65").says("bench openssl");
    }
    // Not in the table of algorithms: the type that the command reports.
    run("pkeyutl", "X448MLKEM1024", "").fails(1).says("X448MLKEM1024 is a KEM");
    run("openssl", "ED25519", "--seconds 1").fails(1).says("Unknown algorithm ED25519");
    let table = work.bench(&["pkeyutl", "--provider", "default", "--algorithm", "falcon512"]);
    assert!(table.ok().text().contains("not served"));
}

#[test]
fn size_takes_a_module_with_symbols() {
    let work = Work::new();
    let program = env!("CARGO_BIN_EXE_gabion-bench");
    // The other module of a test is this one: nothing was left out of it.
    let without = format!("SLH-DSA={program}");
    let words = ["size", "--module", program, "--without", &without];
    let table = work.bench(&words).ok().text();
    assert!(table.contains("builds that leave a family out"), "{table}");
    let words = [&words[..], &["--json", "--commit", "0123abc"]].concat();
    let done = work.bench(&words).ok();
    let module = done.json();
    assert_eq!(
        (&module["commit"], &module["version"]),
        (&"0123abc".into(), &env!("CARGO_PKG_VERSION").into())
    );
    work.write("size.ndjson", &done.out);
    work.bench(&["report", "--out", "size.html", "size.ndjson"]).ok();
    let page = String::from_utf8(work.read("size.html")).unwrap();
    let build = &module["builds"][0];
    assert_eq!((&build["without"], number(build, "bytes")), (&"SLH-DSA".into(), 0));
    assert_eq!(build["stripped_bytes"], module["stripped_bytes"]);
    assert!(page.contains("Builds without a family") && page.contains("when stripped"));
    assert!(!page.contains("name no machine"), "{page}");
    let parts = module["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| number(part, "bytes")).sum();
    assert_eq!(sum, number(&module, "stripped_bytes"));
    for family in ["ML-KEM", "ML-DSA", "SLH-DSA"] {
        let part = parts.iter().find(|part| part["family"] == family).unwrap();
        assert_eq!(number(part, "without"), sum - number(part, "bytes"));
        assert!(number(part, "bytes") > 1000, "{part}");
    }
    work.write("text", "no module");
    work.bench(&["size", "--module", "text"]).fails(2).says("ELF");
    work.bench(&["size", "--module", "nothing"]).fails(3).says("--module");
    for (without, code, says) in [
        ("SLH-DSA", 2, "such as"),
        ("=text", 2, "such as"),
        ("A=text", 2, "ELF"),
        ("A=no", 3, "no cannot be read"),
    ] {
        let words = ["size", "--module", program, "--without", without];
        work.bench(&words).fails(code).says(says);
    }
}

#[test]
fn a_report_is_one_page_with_plots() {
    let work = Work::new();
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let tls = format!("{results}/tls-epyc-zen4.ndjson");
    let engine = format!("{results}/engine-epyc-zen4.ndjson");
    let floors = format!("{results}/floors-epyc-zen4.ndjson");
    work.bench(&["report", "--out", "page.html", &tls, &engine, &floors]).ok().says("2 sections");
    let page = String::from_utf8(work.read("page.html")).unwrap();
    let words = [
        "--v:1.0000",
        "X25519MLKEM768 + ML-DSA-65",
        "AMD EPYC",
        "OpenSSL alone",
        concat!("by Gabion ", env!("CARGO_PKG_VERSION")),
        "of tls-epyc-zen4.ndjson, engine-epyc-zen4.ndjson.<",
        "</html>",
    ];
    for expected in words {
        assert!(page.contains(expected), "no {expected}");
    }
    let zen3 = format!("{results}/tls-epyc-zen3.ndjson");
    work.bench(&["report", "--out", "two.html", &tls, &zen3]).ok().says("2 sections");
    let two = String::from_utf8(work.read("two.html")).unwrap();
    assert_eq!((two.matches("<h2>").count(), page.matches("<h2>").count()), (2, 1));
    for foreign in ["<script", "http://", "https://", "<link", "<img"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("<div").count(), page.matches("</div>").count());
    // A newcomer's first result.
    let run = format!("{results}/run-epyc-zen4.json");
    work.bench(&["report", "--out", "run.html", &run]).ok().says("2 sections");
    let page = String::from_utf8(work.read("run.html")).unwrap();
    assert!(page.contains("TLS handshakes") && page.contains("OpenSSL alone"), "{page}");
    work.write("text", "no results");
    work.bench(&["report", "text"]).fails(2).says("one JSON object a line");
    work.bench(&["report", "--out", "text", "text"]).fails(2).says("name the same file");
    work.write("empty", "{}");
    work.bench(&["report", "empty"]).fails(2).says("--json");
    work.bench(&["report"]).fails(2).says("bench/results");
    let done = work.bench(&["report", "no\x1b[31m"]).fails(2).says("no\\u{1b}[31m");
    assert!(!done.err.contains('\x1b') && !done.err.contains("os error"), "{:?}", done.err);
}
