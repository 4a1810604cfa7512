//! `gabion bench hbs`, as a script sees it.

use std::fs;

use gabion_cli_testing::{Work, runs_long_checks};
use serde_json::Value;

/// Prints rows of a set with its floor and the slowest signature, and other libraries' rows of this
/// processor only.
#[test]
fn hash_based_signatures_are_measured_beside_peers() {
    let work = Work::new();
    let bench = ["hbs", "--filter", "^L3_H5_W2:", "--seconds", "0.001"];
    let table = work.bench(&bench).ok().text();
    assert!(
        table.contains("max/med") && table.contains("L3_H5_W2               13496 keygen"),
        "{table}"
    );
    let peer = |cpu: &Value, cycles: f64| {
        serde_json::json!({ "algorithm": "HSS-L3_H5_W2", "operation": "sign", "key": "cached",
            "backend": "wolfssl-5.9.4", "batch": 1, "threads": 1,
            "ns_per_op": { "p50": 1.0, "p99": 1.0 }, "core_cycles_per_op": cycles,
            "ops_per_s": 1.0, "samples": 1, "machine": { "cpu": cpu }, "randomness": "drawn",
            "peer": { "name": "", "version": "", "license": "", "build": "" } })
    };
    let lines = |peers: &[Value]| -> Vec<Value> {
        let text: Vec<String> = peers.iter().map(Value::to_string).collect();
        work.write("peers", text.join("\n"));
        let json = [&bench[..], &["--peers", "peers", "--json"]].concat();
        let text = work.bench(&json).ok().text();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of_elsewhere = lines(&[peer(&"another".into(), 1.0)]);
    assert!(of_elsewhere.iter().all(|row| row["peer"].is_null() && row["ratio"].is_null()));
    let cpu = &of_elsewhere[0]["machine"]["cpu"];
    let rows = lines(&[peer(cpu, 1e12)]);
    let of = |operation: &str, batch: u64| {
        let is_it = |row: &&Value| row["operation"] == operation && row["batch"] == batch;
        rows.iter().find(is_it).unwrap()
    };
    for (operation, batch) in
        [("keygen", 1), ("sign", 1), ("sign", 64), ("verify", 1), ("verify", 64)]
    {
        let row = of(operation, batch);
        assert_eq!((&row["set"], &row["signature_bytes"]), (&"L3_H5_W2".into(), &13496.into()));
        let number = |name: &str| row[name].as_f64().unwrap_or(0.0) > 0.0;
        for name in ["core_cycles_per_op", "ops_per_s", "floor_cycles", "over_floor"] {
            assert!(number(name), "{operation} {batch}: {name} of {row}");
        }
        assert_eq!(number("max_over_median"), operation == "sign", "{row}");
        assert_eq!(number("ratio") && row["peer"] == "wolfssl-5.9.4", operation == "sign", "{row}");
    }
    work.write("peers", "{\"a\": 1}");
    let no_peers = [&bench[..], &["--peers", "peers"]].concat();
    work.bench(&no_peers).fails(2).says("no rows of other libraries");
    work.bench(&["hbs", "--filter", "L9"]).fails(2).says("L2_H10_W4:sign");
    work.bench(&["hbs", "--seconds", "0"]).fails(2).says("more than 0");
}

/// Rows of a set with its state on a disk: syncs are counted, and what was made is gone.
#[test]
fn durable_signatures_are_measured_beside_memory_and_a_sync() {
    if !runs_long_checks("bench hbs --durable") {
        return;
    }
    let work = Work::new();
    fs::create_dir(work.path("disk")).unwrap();
    let bench = ["hbs", "--durable", "--folder", "disk", "--seconds", "0.005"];
    let bench = [&bench[..], &["--filter", "^L3_H5_W2:"]].concat();
    let table = work.bench(&bench).ok().text();
    assert!(table.contains("fdatasync") && table.lines().count() == 2 + 5, "{table}");
    let text = work.bench(&[&bench[..], &["--json"]].concat()).ok().text();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of: Vec<_> =
        rows.iter().map(|row| (row["batch"].as_u64(), row["reserve"].as_u64())).collect();
    let wanted = [(1, 1), (1, 64), (64, 64), (1, 1024), (1024, 1024)];
    assert_eq!(of, wanted.map(|(batch, reserve)| (Some(batch), Some(reserve))));
    for row in &rows {
        assert_eq!((&row["set"], &row["operation"]), (&"L3_H5_W2".into(), &"sign".into()));
        assert_eq!((&row["signature_bytes"], &row["threads"]), (&13496.into(), &1.into()));
        let number = |name: &str| row[name].as_f64().unwrap();
        for name in
            ["us_per_op", "memory_us_per_op", "fdatasync_us", "over_expected", "over_memory"]
        {
            assert!(number(name) > 0.0, "{name} of {row}");
        }
        // State and anchor for each reservation; the log's next segment now and then.
        let (syncs, reserve) = (number("syncs_per_op"), number("reserve"));
        let least = 2.0 / reserve;
        assert!((least - 1e-5..least + 0.01).contains(&syncs), "{row}");
        // The expected time was measured with syncs in it.
        assert!(number("expected_us_per_op") > syncs * number("fdatasync_us"), "{row}");
        let over = number("us_per_op") / number("expected_us_per_op");
        assert!((number("over_expected") / over - 1.0).abs() < 0.05, "{row}");
        assert!(row["signatures"].as_u64() >= row["reserve"].as_u64().map(|reserve| 5 * reserve));
        assert!(row["machine"]["cpu"].is_string() && row["date"].is_string(), "{row}");
    }
    assert_eq!(fs::read_dir(work.path("disk")).unwrap().count(), 0);
    let durable = ["hbs", "--durable"];
    work.bench(&[&durable[..], &["--filter", "L1_H10"]].concat()).fails(2).says("L1_H15_W4:sign");
    work.bench(&[&durable[..], &["--folder", "none"]].concat()).fails(2).says("takes no files");
    work.bench(&["hbs", "--folder", "disk"]).fails(2).says("--durable");
}
