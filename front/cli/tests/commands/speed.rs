//! `gabion speed`.

use serde_json::Value;

use crate::harness::Work;

#[test]
fn each_algorithm_has_a_line_of_rates() {
    let table = Work::new()
        .gabion(&["speed", "ML-KEM-512", "ML-DSA-44", "mldsa65", "X25519", "--seconds", "0.001"])
        .ok()
        .text();
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    // A head for each kind of algorithm.
    let firsts: Vec<&str> = lines.iter().map(|line| line[0]).collect();
    assert_eq!(
        firsts,
        ["algorithm", "ML-KEM-512", "algorithm", "ML-DSA-44", "ML-DSA-65", "algorithm", "X25519"]
    );
    assert_eq!(lines[0][1..4], ["keygen/s", "encaps/s", "decaps/s"]);
    assert_eq!(lines[2][1..4], ["keygen/s", "sign/s", "verify/s"]);
    for (at, rates) in [(1, 6), (3, 6), (4, 6), (6, 4)] {
        let line: Vec<f64> = lines[at][1..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert!(line.len() == rates && line.iter().all(|&rate| rate > 0.0), "{table}");
    }
}

#[test]
fn json_is_one_object_for_each_algorithm() {
    let words = ["speed", "ML-KEM-768", "ML-DSA-44", "--seconds", "0.001", "--json"];
    let text = Work::new().gabion(&words).ok().text();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [
        ("ML-KEM-768", ["keygen", "encaps", "decaps"]),
        ("ML-DSA-44", ["keygen", "sign", "verify"]),
    ];
    assert_eq!(rows.len(), expected.len());
    for (row, (algorithm, operations)) in rows.iter().zip(expected) {
        assert_eq!((&row["algorithm"], &row["batch"]), (&algorithm.into(), &64.into()));
        assert_eq!(row["seconds"], 0.001);
        for rates in [&row["per_s"], &row["batch_per_s"]] {
            assert_eq!(rates.as_object().unwrap().len(), operations.len());
            assert!(operations.iter().all(|name| rates[name].as_f64() > Some(0.0)), "{row}");
        }
        assert!(row["backend"].is_string() && row["date"].is_string(), "{row}");
        assert!(row["machine"]["cpu"].is_string(), "{row}");
    }
}

#[test]
fn bad_arguments_are_refused_before_anything_is_measured() {
    let work = Work::new();
    for (words, says) in [
        (["ML-KEM-768", "KYBER9000", "--json"], "unknown algorithm `KYBER9000`"),
        (["ML-KEM-768", "HSS", "--json"], "gabion bench hbs"),
        (["ML-KEM-768", "XMSS", "--json"], "gabion bench hbs"),
        (["ML-KEM-768", "--seconds", "0"], "more than 0"),
        (["ML-KEM-768", "--seconds", "x"], "invalid"),
    ] {
        let done = work.gabion(&[&["speed"][..], &words].concat()).fails(2).says(says);
        assert!(done.out.is_empty(), "{words:?}");
    }
}
