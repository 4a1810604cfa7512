//! A machine's page from the raw rows in bench/results: `xtask performance NAME`.

mod aims;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use gabion_rows::compare::{self, FAMILIES, compare, cycles, is_named, is_same};
use serde_json::Value;

/// Writes docs/performance.md where that is this machine's, and docs/performance-NAME.md for every other
/// machine, and returns the page. It needs five files: ours, ours on two threads, its floors, other
/// libraries', and handshakes; and bench/results/recorded.ndjson, what was measured elsewhere.
pub fn write(root: &Path, name: &str) -> Result<String, String> {
    let results = root.join("bench/results");
    let read = |part: &str| rows(&results.join(format!("{part}-{name}.ndjson")));
    let (engine, floors) = (read("engine")?, read("floors")?);
    let (peers, tls) = (read("peers")?, read("tls")?);
    let threads = read("threads")?;
    let recorded = rows(&results.join("recorded.ndjson"))?;
    let machine = text(&engine[0]["machine"]["cpu"]).to_owned();
    let mut page = format!(
        "# Performance\n\nMeasured on {machine}, one thread. {} generates this page from the raw rows, which\n\
         `make bench NAME={name}` writes: [engine](../bench/results/engine-{name}.ndjson),\n\
         [peers](../bench/results/peers-{name}.ndjson), [floors](../bench/results/floors-{name}.ndjson),\n\
         [threads](../bench/results/threads-{name}.ndjson), [tls](../bench/results/tls-{name}.ndjson).\n\
         How it is measured: [bench](../bench/README.md), [peers](../bench/peers/README.md).\n\n",
        command(name),
    );
    later_runs(&mut page, &peers);
    summary(&mut page, &engine, &peers);
    aims::write(&mut page, &engine, &peers);
    primitives(&mut page, &engine, &floors, &peers);
    distances(&mut page, &engine, &floors, &recorded);
    larger_batches(&mut page, &engine);
    two_threads(&mut page, &threads);
    handshakes(&mut page, &tls);
    let first = root.join("docs/performance.md");
    let is_first = fs::read_to_string(&first).is_ok_and(|page| page.contains(&command(name)));
    let path = if is_first { first } else { root.join(format!("docs/performance-{name}.md")) };
    fs::write(&path, &page).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(page)
}

/// Says which rows of other libraries are of another run than the first ones: `run.sh --only` puts them
/// behind those that stay.
fn later_runs(page: &mut String, peers: &[Value]) {
    let mut runs: Vec<(&Value, Vec<&str>)> = Vec::new();
    for row in peers.iter().filter(|row| row["run"] != peers[0]["run"]) {
        let name = text(&row["algorithm"]);
        match runs.iter_mut().find(|(run, _)| **run == row["run"]) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => runs.push((&row["run"], vec![name])),
        }
    }
    for (run, names) in runs {
        let day = text(run).split('T').next().unwrap_or_default();
        let _ = writeln!(
            page,
            "Other libraries' {} were measured on {day}, after their other rows.\n",
            names.join(", ")
        );
    }
}

/// The command that writes a machine's page, as its page has it.
fn command(name: &str) -> String {
    format!("`cargo run -p xtask -- performance {name}`")
}

fn rows(path: &Path) -> Result<Vec<Value>, String> {
    let data = fs::read_to_string(path)
        .map_err(|error| format!("{}: {error}; `make bench NAME=..` writes it", path.display()))?;
    let rows: Result<Vec<Value>, _> = data.lines().map(serde_json::from_str).collect();
    match rows {
        Ok(rows) if !rows.is_empty() => Ok(rows),
        Ok(_) => Err(format!("{}: no rows", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// How many times fewer cycles than the best peer, from the least to the most of a family's rows.
fn summary(page: &mut String, engine: &[Value], peers: &[Value]) {
    page.push_str(
        "## In short\nHow many times fewer core cycles than the best of the other libraries, from the \
         least to the most of a\nfamily's rows; below 1 it is more. The rows themselves are below.\n\n\
         | family | rows | one operation | batch of 64 | rows below 1 |\n|---|---:|---|---|---:|\n",
    );
    let comparisons = compare(engine, peers);
    for (family, names) in FAMILIES {
        let (rows, below, [one, batch]) = compare::summary(&comparisons, names);
        if rows == 0 {
            continue;
        }
        let _ = writeln!(page, "| {family} | {rows} | {one} | {batch} | {below} |");
    }
    page.push('\n');
}

/// Core cycles of every operation: ours alone and in batches, its floor, and the best of the others.
fn primitives(page: &mut String, engine: &[Value], floors: &[Value], peers: &[Value]) {
    page.push_str(
        "## Operations\nCore cycles an operation, median (mean for signing).\n\n\
         - `cached` is a known key, which was expanded before; in a batch one key is in all lanes.\n\
         - The best peer is the one with the fewest cycles of all that were measured, in the form of key that it \
         has.\n  Ratios above 1 say that Gabion needs fewer.\n\
         - The floor is what the operation hashes, at the price of a hash when every lane is full, and its \
         arithmetic\n  kernels as they are, in a batch of 64 (of one for SLH-DSA, whose hashes fill the lanes \
         alone). What is above\n  it is moving bytes, idle lanes and bookkeeping.\n\
         - A dash is what was not measured, or what no library on this machine has to compare.\n\
         - Rows scatter: some cost more with a cached key than with a fresh one, which has more to do.\n\n\
         | algorithm | operation | key | Gabion, one | Gabion, batch of 64 | floor | best peer | its \
         cycles | one | batch |\n|---|---|---|---:|---:|---:|---|---:|---:|---:|\n",
    );
    for comparison in compare(engine, peers) {
        let row = comparison.one;
        let floor = floor_of(row, floors);
        let [name, operation, key] =
            ["algorithm", "operation", "key"].map(|field| text(&row[field]));
        let (peer, theirs) = comparison
            .peer
            .map_or(("none", f64::NAN), |peer| (text(&peer["backend"]), cycles(peer)));
        let [one, many] = comparison.times_less().map(ratio);
        let _ = writeln!(
            page,
            "| {name} | {operation} | {key} | {} | {} | {} | {peer} | {} | {one} | {many} |",
            number(cycles(row)),
            number(comparison.batch.map_or(f64::NAN, cycles)),
            number(floor),
            number(theirs),
        );
    }
}

fn floor_of(row: &Value, floors: &[Value]) -> f64 {
    let floor = floors.iter().find(|floor| is_same(row, floor));
    floor.and_then(|floor| floor["floor_cycles"].as_f64()).unwrap_or(f64::NAN)
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "-".to_owned() }
}

fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "-".to_owned() }
}

/// How far each operation is from its floors, and from the libraries that only a record has.
fn distances(page: &mut String, engine: &[Value], floors: &[Value], recorded: &[Value]) {
    page.push_str(
        "\n## Distance to the floors, and recorded peers\nCore cycles of an operation in a batch of 64, or alone \
         if no batch was measured, and how many times its floor\nthat is. It may be a little less than one, because \
         the kernels of a floor are timed one after the other, over\nmore data than an operation has.\n\n\
         Two figures are **recorded**: taken on another machine, an Intel Sapphire Rapids, in core cycles, on \
         another day\n([rows](../bench/results/recorded.ndjson)).\n\
         - One is the floor counted there: permutations at 147 cycles, SHA-256 at 60, and number-theoretic \
         transforms and\n  the rest estimated, to 30 %.\n\
         - The other are libraries that no package registry carries, so they are not in the run above. Ratios \
         with them\n  only hint.\n\n\
         | algorithm | operation | key | Gabion | floor here | distance | counted floor (recorded) | distance | \
         peer (recorded) | its cycles | ratio |\n|---|---|---|---:|---:|---:|---:|---:|---|---:|---:|\n",
    );
    for row in engine.iter().filter(|row| row["batch"] == 1) {
        let of = |kind: &'static str| {
            recorded.iter().find(move |other| other["kind"] == kind && is_same(row, other))
        };
        let (floor, counted, peer) = (floor_of(row, floors), of("floor"), of("peer"));
        if floor.is_nan() && counted.is_none() && peer.is_none() {
            continue;
        }
        let batch = engine.iter().find(|other| is_same(row, other) && other["batch"] == 64);
        let ours = cycles(batch.unwrap_or(row));
        let [name, operation, key] =
            ["algorithm", "operation", "key"].map(|field| text(&row[field]));
        let counted = counted.map_or(f64::NAN, cycles);
        let (peer, theirs) =
            peer.map_or(("-", f64::NAN), |peer| (text(&peer["name"]), cycles(peer)));
        let _ = writeln!(
            page,
            "| {name} | {operation} | {key} | {} | {} | {} | {} | {} | {peer} | {} | {} |",
            number(ours),
            number(floor),
            ratio(ours / floor),
            number(counted),
            ratio(ours / counted),
            number(theirs),
            ratio(theirs / ours),
        );
    }
}

/// Batches of another size than the table's.
fn larger_batches(page: &mut String, engine: &[Value]) {
    page.push_str(
        "\n## Larger batches\nCore cycles of an operation in batches of 128. `Ed25519-ZIP215` is verified by one \
         equation for the whole\nbatch; `Ed25519`, by the strict rules, one by one in lanes.\n\n\
         | algorithm | operation | key | batch of 64 | batch of 128 |\n|---|---|---|---:|---:|\n",
    );
    for row in engine.iter().filter(|row| row["batch"] == 128) {
        let smaller = engine.iter().find(|other| is_same(row, other) && other["batch"] == 64);
        let [name, operation, key] =
            ["algorithm", "operation", "key"].map(|field| text(&row[field]));
        let smaller = number(smaller.map_or(f64::NAN, cycles));
        let _ = writeln!(
            page,
            "| {name} | {operation} | {key} | {smaller} | {} |",
            number(cycles(row))
        );
    }
}

/// Operations a second of one thread and of two.
fn two_threads(page: &mut String, threads: &[Value]) {
    page.push_str(
        "\n## Two threads\nOperations a second in batches of 64: of one thread, and of two beside each other on the \
         machine's two processors,\nwhich may be threads of one core. `multiply` keeps the multiplier of \
         a core busy and touches no memory: what two\nprocessors of this machine are to one whose clock does not \
         change. Above 2, the one thread ran while\nneighbours had the clock or the memory.\n\n\
         | algorithm | operation | key | one thread | two threads | ratio |\n|---|---|---|---:|---:|---:|\n",
    );
    let rate = |row: &Value| row["ops_per_s"].as_f64().unwrap_or(f64::NAN);
    for row in threads.iter().filter(|row| row["threads"] == 1) {
        let Some(two) = threads.iter().find(|other| is_same(row, other) && other["threads"] == 2)
        else {
            continue;
        };
        let [name, operation, key] =
            ["algorithm", "operation", "key"].map(|field| text(&row[field]));
        let (one, two) = (rate(row), rate(two));
        let _ = writeln!(
            page,
            "| {name} | {operation} | {key} | {one:.0} | {two:.0} | {} |",
            ratio(two / one)
        );
    }
}

/// The suites of the handshakes: a table for each.
const SUITES: [&str; 2] = ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"];

/// CPU microseconds of full handshakes, OpenSSL alone against the same libssl with Gabion.
fn handshakes(page: &mut String, tls: &[Value]) {
    page.push_str(
        "\n## Full TLS 1.3 handshakes\nCPU microseconds of each side, server / client, OpenSSL alone and with \
         Gabion, taking turns in one run, with the\ndefault cipher suite, and how many times less. The \
         last column says how many times less with\nTLS_AES_128_GCM_SHA256. Other machines:\n\
         [measurements](provider-measurements.md#what-a-handshake-costs). Where the rest of the time goes:\n\
         [where the cycles go](../bench/where-cycles-go.md#a-tls-handshake-with-gabion).\n\n| group | certificates | \
         OpenSSL | Gabion | times less | times less, AES-128, SHA-256 |\n|---|---|---|---|---|---|\n",
    );
    let us = |row: &Value, side: &str| row[side].as_f64().unwrap_or(f64::NAN);
    // OpenSSL's row and ours with a pair of names and a suite.
    let pair = |group: &Value, sig: &Value, suite: &str| {
        let of = |provider: &str| {
            tls.iter().find(|row| {
                row["provider"] == provider
                    && row["group"] == *group
                    && row["sig"] == *sig
                    && row["cipher"] == suite
            })
        };
        Some((of("default")?, of("gabion")?))
    };
    let times_less = |(theirs, ours): (&Value, &Value)| {
        let [server, client] =
            ["server_us", "client_us"].map(|side| us(theirs, side) / us(ours, side));
        format!("{server:.2} / {client:.2}")
    };
    let is_first = |row: &&Value| row["provider"] == "default" && row["cipher"] == SUITES[0];
    for row in tls.iter().filter(is_first) {
        let (group, sig) = (&row["group"], &row["sig"]);
        let Some((theirs, ours)) = pair(group, sig, SUITES[0]) else { continue };
        let both =
            |row: &Value| format!("{:.0} / {:.0}", us(row, "server_us"), us(row, "client_us"));
        let second = pair(group, sig, SUITES[1]).map_or_else(|| "-".to_owned(), times_less);
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {second} |",
            text(group),
            text(sig),
            both(theirs),
            both(ours),
            times_less((theirs, ours)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_losing_row_stays_in_the_table() {
        let row = |backend: &str, cycles: f64, batch: u64| {
            serde_json::json!({"algorithm": "A", "operation": "o", "key": "fresh",
                "backend": backend, "batch": batch, "core_cycles_per_op": cycles})
        };
        let mut page = String::new();
        let engine = [row("avx512", 200.0, 1), row("avx512", 50.0, 64)];
        let floor = serde_json::json!({"algorithm": "A", "operation": "o", "key": "fresh",
            "floor_cycles": 40.0});
        let peers = [row("slow", 300.0, 1), row("quick", 100.0, 1)];
        primitives(&mut page, &engine, &[floor], &peers);
        assert!(
            page.contains("| A | o | fresh | 200 | 50 | 40 | quick | 100 | 0.50 | 2.00 |"),
            "{page}"
        );
        // A family's losing row counts in the summary.
        let named = |mut row: Value| {
            row["algorithm"] = "Falcon-512".into();
            row
        };
        let mut short = String::new();
        summary(&mut short, &engine.clone().map(named), &peers.clone().map(named));
        assert!(short.contains("| Falcon | 1 | 0.50 to 0.50 | 2.00 to 2.00 | 1 |"), "{short}");
        let mut alone = String::new();
        primitives(&mut alone, &engine, &[], &[]);
        assert!(alone.contains("| A | o | fresh | 200 | 50 | - | none | - | - | - |"), "{alone}");
    }

    #[test]
    fn rows_of_a_hybrid_and_of_its_curve_are_not_mixed() {
        let row = |name: &str, backend: &str, cycles: f64| {
            serde_json::json!({"algorithm": name, "operation": "keygen", "key": "fresh",
                "backend": backend, "batch": 1, "core_cycles_per_op": cycles})
        };
        let (curve, hybrid) = ("X25519", "X25519MLKEM768");
        let engine = [row(curve, "avx512", 100.0), row(hybrid, "avx512", 200.0)];
        let peers = [row(curve, "a", 150.0), row(hybrid, "a", 500.0), row(hybrid, "b", 700.0)];
        let mut page = String::new();
        summary(&mut page, &engine, &peers);
        assert!(page.contains("| X25519 | 1 | 1.50 to 1.50 | - | 0 |"), "{page}");
        assert!(page.contains("| Hybrid KEMs of TLS | 1 | 2.50 to 2.50 | - | 0 |"), "{page}");
        assert!(!page.contains("X-Wing"), "a family that nobody else has: {page}");
        let mut rows = String::new();
        primitives(&mut rows, &engine, &[], &peers);
        let expected = "| X25519MLKEM768 | keygen | fresh | 200 | - | - | a | 500 | 2.50 | - |";
        assert!(rows.contains(expected), "{rows}");
    }

    #[test]
    fn rows_of_a_later_run_are_said_to_be() {
        let row = |name: &str, run: &str| serde_json::json!({"algorithm": name, "run": run});
        let (first, second) = ("2026-11-23T05:26:08Z", "2026-11-25T02:00:00Z");
        let old = serde_json::json!({"algorithm": "A"});
        let mut page = String::new();
        later_runs(&mut page, &[old.clone(), row("B", second), row("B", second), row("C", second)]);
        assert_eq!(
            page,
            "Other libraries' B, C were measured on 2026-11-25, after their other rows.\n\n"
        );
        page.clear();
        later_runs(&mut page, &[old.clone(), old]);
        later_runs(&mut page, &[row("A", first), row("B", first)]);
        assert_eq!(page, "");
    }

    #[test]
    fn what_was_recorded_elsewhere_is_marked_so() {
        let row = |batch: u64, cycles: f64| {
            serde_json::json!({"algorithm": "A", "operation": "o", "key": "fresh", "batch": batch,
                "core_cycles_per_op": cycles})
        };
        let recorded = |kind: &str, name: &str, cycles: f64| {
            serde_json::json!({"kind": kind, "name": name, "algorithm": "A", "operation": "o",
                "key": "fresh", "core_cycles_per_op": cycles})
        };
        let mut page = String::new();
        let floor = serde_json::json!({"algorithm": "A", "operation": "o", "key": "fresh",
            "floor_cycles": 40.0});
        let others = [recorded("floor", "", 25.0), recorded("peer", "32w", 75.0)];
        distances(&mut page, &[row(1, 200.0), row(64, 50.0)], &[floor], &others);
        let expected = "| A | o | fresh | 50 | 40 | 1.25 | 25 | 2.00 | 32w | 75 | 1.50 |";
        assert!(page.contains(expected), "{page}");
        assert!(page.contains("peer (recorded)"), "{page}");
    }

    #[test]
    fn suites_of_a_handshake_are_not_mixed() {
        let row = |provider: &str, cipher: &str, us: f64| {
            serde_json::json!({"group": "G", "sig": "S", "provider": provider, "cipher": cipher,
                "server_us": us, "client_us": us / 2.0})
        };
        let [first, second] = SUITES;
        let rows = [
            row("default", second, 90.0),
            row("gabion", second, 10.0),
            row("default", first, 80.0),
            row("gabion", first, 20.0),
        ];
        let mut page = String::new();
        handshakes(&mut page, &rows);
        let expected = "| G | S | 80 / 40 | 20 / 10 | 4.00 / 4.00 | 9.00 / 9.00 |";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn threads_are_compared_with_the_same_operation() {
        let row = |key: &str, threads: u64, rate: f64| {
            serde_json::json!({"algorithm": "A", "operation": "o", "key": key, "threads": threads,
                "ops_per_s": rate})
        };
        let mut page = String::new();
        two_threads(
            &mut page,
            &[row("fresh", 1, 100.0), row("cached", 2, 900.0), row("fresh", 2, 190.0)],
        );
        assert!(page.contains("| A | o | fresh | 100 | 190 | 1.90 |"), "{page}");
        assert!(!page.contains("cached"), "{page}");
    }
}
