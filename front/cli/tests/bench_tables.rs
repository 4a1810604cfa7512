//! `gabion bench wire`, `memory` and the other tables, as a script sees them.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod harness;

use harness::{Work, bundle};
use serde_json::Value;

fn rows(work: &Work, arguments: &[&str]) -> Vec<Value> {
    let said = work.gabion(&[&["bench"][..], arguments].concat()).ok().text();
    said.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn a_missing_bundle_exits_3_and_says_how_to_build_one() {
    let work = Work::new();
    for command in ["wire", "memory"] {
        let mut command = work.command(&["bench", command]);
        command.env("GABION_OPENSSL_PREFIX", "/nonexistent/bundle");
        let done = harness::Done::of(command.output().unwrap()).fails(3);
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
    if bundle().is_none() {
        return;
    }
    let said = Work::new().gabion(&["bench", "wire", "--provider", "default"]).ok().text();
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
}

#[test]
fn a_measured_process_needs_its_parent() {
    let work = Work::new();
    work.gabion(&["bench", "memory", "--task", "{}"]).fails(2).says("not preloaded");
}
