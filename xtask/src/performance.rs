//! A machine's page from the raw rows in bench/results: `xtask performance NAME`. Its prose is page.md's.

mod aims;
pub mod hbs;
pub mod kms;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use gabion_rows::compare::{FAMILIES, compare, summary};
use gabion_rows::handshakes::{Handshake, Provider, Stack};
use gabion_rows::operations::{Floor, Peer, Reference, ReferenceKind, Subject, Threads, Timing};
use serde::de::DeserializeOwned;

/// Writes docs/reference/performance.md where that is this machine's, and docs/reference/performance-NAME.md for every other
/// machine, and returns the page. It needs five files: ours, ours on two threads, its floors, other
/// libraries', and handshakes; and bench/results/recorded.ndjson, what was measured elsewhere.
pub fn write(root: &Path, name: &str) -> Result<String, String> {
    let page = page(&root.join("bench/results"), name)?;
    let first = root.join("docs/reference/performance.md");
    let is_first = fs::read_to_string(&first).is_ok_and(|page| page.contains(&command(name)));
    let path =
        if is_first { first } else { root.join(format!("docs/reference/performance-{name}.md")) };
    put(&path, page)
}

/// Writes a page, and gives it back.
fn put(path: &Path, page: String) -> Result<String, String> {
    fs::write(path, &page).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(page)
}

/// The page of a machine, from a folder of results.
fn page(results: &Path, name: &str) -> Result<String, String> {
    let file = |part: &str| results.join(format!("{part}-{name}.ndjson"));
    let engine: Vec<Timing> = rows(&file("engine"))?;
    let floors: Vec<Floor> = rows(&file("floors"))?;
    let peers: Vec<Peer> = rows(&file("peers"))?;
    let tls: Vec<Handshake> = rows(&file("tls"))?;
    let threads: Vec<Threads> = rows(&file("threads"))?;
    let recorded: Vec<Reference> = rows(&results.join("recorded.ndjson"))?;
    let (aims, met) = aims::table(&engine, &peers);
    let mut page = include_str!("performance/page.md").to_owned();
    for (place, text) in [
        ("{name}", name),
        ("{machine}", &engine[0].machine.cpu),
        ("{later_runs}\n", &later_runs(&peers)),
        ("{summary}\n", &families(&engine, &peers)),
        ("{aims}\n", &aims),
        ("{met}", &met),
        ("{operations}\n", &operations(&engine, &floors, &peers)),
        ("{distances}\n", &distances(&engine, &floors, &recorded)),
        ("{larger_batches}\n", &larger_batches(&engine)),
        ("{two_threads}\n", &two_threads(&threads)),
        ("{handshakes}\n", &handshakes(&tls)),
    ] {
        page = page.replace(place, text);
    }
    Ok(page)
}

/// Says which rows of other libraries are of another run than the first ones: `run.sh --only` puts them
/// behind those that stay.
fn later_runs(peers: &[Peer]) -> String {
    let mut runs: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in peers.iter().filter(|row| row.run != peers[0].run) {
        let name = row.timing.subject.algorithm.as_str();
        let run = row.run.as_deref().unwrap_or("?");
        match runs.iter_mut().find(|(other, _)| *other == run) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => runs.push((run, vec![name])),
        }
    }
    let mut text = String::new();
    for (run, names) in runs {
        let day = run.split('T').next().unwrap_or_default();
        let names = names.join(", ");
        let _ = writeln!(
            text,
            "Other libraries' {names} were measured on {day}, after their other rows.\n"
        );
    }
    text
}

/// The command that writes a machine's page, as its page has it.
fn command(name: &str) -> String {
    format!("`cargo run -p xtask -- performance {name}`")
}

fn rows<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>, String> {
    let data = fs::read_to_string(path)
        .map_err(|error| format!("{}: {error}; `make bench NAME=..` writes it", path.display()))?;
    let rows: Result<Vec<R>, _> = data.lines().map(serde_json::from_str).collect();
    match rows {
        Ok(rows) if !rows.is_empty() => Ok(rows),
        Ok(_) => Err(format!("{}: no rows", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Returns how many times fewer cycles than the best peer, from the least to the most of a family's
/// rows.
fn families(engine: &[Timing], peers: &[Peer]) -> String {
    let mut lines = String::new();
    let comparisons = compare(engine, peers);
    for (family, names) in FAMILIES {
        let (rows, below, [one, batch]) = summary(&comparisons, names);
        if rows > 0 {
            let _ = writeln!(lines, "| {family} | {rows} | {one} | {batch} | {below} |");
        }
    }
    lines
}

/// The cells that name an operation.
fn named(Subject { algorithm, operation, key }: &Subject) -> String {
    format!("{algorithm} | {} | {}", operation.word(), key.word())
}

/// Core cycles of every operation: ours alone and in batches, its floor, and the best of the others.
fn operations(engine: &[Timing], floors: &[Floor], peers: &[Peer]) -> String {
    let mut lines = String::new();
    for comparison in compare(engine, peers) {
        let row = comparison.one;
        let (peer, theirs) = comparison.peer.map_or(("none", f64::NAN), |peer| {
            (peer.timing.backend.as_str(), peer.timing.cycles())
        });
        let [one, many] = comparison.times_less().map(ratio);
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {peer} | {} | {one} | {many} |",
            named(&row.subject),
            number(row.cycles()),
            number(comparison.batch.map_or(f64::NAN, Timing::cycles)),
            number(floor_of(row, floors)),
            number(theirs),
        );
    }
    lines
}

fn floor_of(row: &Timing, floors: &[Floor]) -> f64 {
    let floor = floors.iter().find(|floor| row.subject == floor.subject);
    floor.map_or(f64::NAN, |floor| floor.floor_cycles)
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "-".to_owned() }
}

fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "-".to_owned() }
}

/// Returns how far each operation is from its floors, and from the libraries that only a record
/// has.
fn distances(engine: &[Timing], floors: &[Floor], recorded: &[Reference]) -> String {
    let mut lines = String::new();
    for row in engine.iter().filter(|row| row.batch == 1) {
        let of = |kind: ReferenceKind| {
            recorded.iter().find(|other| other.kind == kind && row.subject == other.subject)
        };
        let (floor, counted) = (floor_of(row, floors), of(ReferenceKind::Floor));
        let peer = of(ReferenceKind::Peer);
        if floor.is_nan() && counted.is_none() && peer.is_none() {
            continue;
        }
        let ours = of_batch(row, engine, 64).unwrap_or(row).cycles();
        let counted = counted.map_or(f64::NAN, |row| row.core_cycles_per_op);
        let (peer, theirs) =
            peer.map_or(("-", f64::NAN), |peer| (peer.name.as_str(), peer.core_cycles_per_op));
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} | {peer} | {} | {} |",
            named(&row.subject),
            number(ours),
            number(floor),
            ratio(ours / floor),
            number(counted),
            ratio(ours / counted),
            number(theirs),
            ratio(theirs / ours),
        );
    }
    lines
}

/// Returns the row of the operation in batches of another size.
fn of_batch<'r>(row: &Timing, engine: &'r [Timing], batch: usize) -> Option<&'r Timing> {
    engine.iter().find(|other| other.batch == batch && row.subject == other.subject)
}

/// Batches of another size than the table's.
fn larger_batches(engine: &[Timing]) -> String {
    let mut lines = String::new();
    for row in engine.iter().filter(|row| row.batch == 128) {
        let smaller = number(of_batch(row, engine, 64).map_or(f64::NAN, Timing::cycles));
        let larger = number(row.cycles());
        let _ = writeln!(lines, "| {} | {smaller} | {larger} |", named(&row.subject));
    }
    lines
}

/// Operations a second of one thread and of two.
fn two_threads(threads: &[Threads]) -> String {
    let mut lines = String::new();
    let subject = |row: &Threads| format!("{} | {} | {}", row.algorithm, row.operation, row.key);
    for row in threads.iter().filter(|row| row.threads == 1) {
        let is_its = |other: &&Threads| other.threads == 2 && subject(other) == subject(row);
        let Some(two) = threads.iter().find(is_its) else { continue };
        let (one, two) = (row.ops_per_s, two.ops_per_s);
        let times = ratio(two / one);
        let _ = writeln!(lines, "| {} | {one:.0} | {two:.0} | {times} |", subject(row));
    }
    lines
}

/// The suites of the handshakes: a table for each.
const SUITES: [&str; 2] = ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"];

/// CPU microseconds of full handshakes, OpenSSL alone against the same libssl with Gabion.
fn handshakes(tls: &[Handshake]) -> String {
    let mut lines = String::new();
    // OpenSSL's row and ours with a pair of names and a suite.
    let pair = |row: &Handshake, suite: &str| {
        let of = |provider: Provider| {
            tls.iter().find(|other| {
                (other.provider, &other.group, &other.sig) == (provider, &row.group, &row.sig)
                    && (other.cipher.as_str(), other.stack) == (suite, Stack::Openssl)
            })
        };
        Some((of(Provider::Default)?, of(Provider::Gabion)?))
    };
    let times_less = |(theirs, ours): (&Handshake, &Handshake)| {
        let (server, client) =
            (theirs.server_us / ours.server_us, theirs.client_us / ours.client_us);
        format!("{server:.2} / {client:.2}")
    };
    let is_first = |row: &&Handshake| row.provider == Provider::Default && row.cipher == SUITES[0];
    for row in tls.iter().filter(is_first) {
        let Some((theirs, ours)) = pair(row, SUITES[0]) else { continue };
        let both = |row: &Handshake| format!("{:.0} / {:.0}", row.server_us, row.client_us);
        let second = pair(row, SUITES[1]).map_or_else(|| "-".to_owned(), times_less);
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {second} |",
            row.group,
            row.sig,
            both(theirs),
            both(ours),
            times_less((theirs, ours)),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A row of any kind, from the fields that a test is about and others.
    fn row<R: DeserializeOwned>(fields: Value) -> R {
        let spread = json!({"p20": 1.0, "p80": 1.0});
        let mut row = json!({
            "algorithm": "A", "operation": "keygen", "key": "fresh", "backend": "avx512", "batch": 1,
            "threads": 1, "ns_per_op": {"p50": 1.0, "p99": 1.0}, "core_cycles_per_op": 1.0,
            "ops_per_s": 1.0, "samples": 1, "randomness": "given",
            "peer": {"name": "", "version": "", "license": "", "build": ""},
            "permutations": 1.0, "shake_steps": 1.0, "sha256": 1.0, "sha512": 1.0,
            "cycles_per_permutation": 1.0, "cycles_per_shake_step": 1.0, "cycles_per_sha256": 1.0,
            "cycles_per_sha512": 1.0, "hashing_cycles": 1.0, "arithmetic_cycles": 1.0,
            "group": "G", "sig": "S", "handshakes": 1, "handshakes_per_cpu_s": 1.0, "bytes_c2s": 1,
            "bytes_s2c": 1, "version": "", "signature_scheme": "", "kem_provider": "",
            "signature_provider": "", "openssl": "",
            "spread": {"handshakes_per_cpu_s": spread, "server_us": spread, "client_us": spread},
        });
        for (name, value) in fields.as_object().unwrap() {
            row[name] = value.clone();
        }
        // Of a record it is a name.
        if row.get("kind").is_some() {
            row["machine"] = "one".into();
        }
        serde_json::from_value(row).unwrap()
    }

    fn peer(name: &str, backend: &str, cycles: f64) -> Peer {
        row(json!({"algorithm": name, "backend": backend, "core_cycles_per_op": cycles}))
    }

    fn ours(name: &str, batch: u64, cycles: f64) -> Timing {
        row(json!({"algorithm": name, "batch": batch, "core_cycles_per_op": cycles}))
    }

    #[test]
    fn a_losing_row_stays_in_the_table() {
        let floor: Floor = row(json!({"floor_cycles": 40.0}));
        let engine = |name| [ours(name, 1, 200.0), ours(name, 64, 50.0)];
        let peers = |name| [peer(name, "slow", 300.0), peer(name, "quick", 100.0)];
        let page = operations(&engine("A"), &[floor], &peers("A"));
        assert_eq!(page, "| A | keygen | fresh | 200 | 50 | 40 | quick | 100 | 0.50 | 2.00 |\n");
        // A family's losing row counts in the summary.
        let short = families(&engine("Falcon-512"), &peers("Falcon-512"));
        assert_eq!(short, "| Falcon | 1 | 0.50 to 0.50 | 2.00 to 2.00 | 1 |\n");
        let alone = operations(&engine("A"), &[], &[]);
        assert_eq!(alone, "| A | keygen | fresh | 200 | 50 | - | none | - | - | - |\n");
    }

    #[test]
    fn rows_of_a_hybrid_and_of_its_curve_are_not_mixed() {
        let (curve, hybrid) = ("X25519", "X25519MLKEM768");
        let engine = [ours(curve, 1, 100.0), ours(hybrid, 1, 200.0)];
        let peers = [peer(curve, "a", 150.0), peer(hybrid, "a", 500.0), peer(hybrid, "b", 700.0)];
        let page = families(&engine, &peers);
        assert!(page.contains("| X25519 | 1 | 1.50 to 1.50 | - | 0 |"), "{page}");
        assert!(page.contains("| Hybrid KEMs of TLS | 1 | 2.50 to 2.50 | - | 0 |"), "{page}");
        assert!(!page.contains("X-Wing"), "a family that nobody else has: {page}");
        let rows = operations(&engine, &[], &peers);
        let expected = "| X25519MLKEM768 | keygen | fresh | 200 | - | - | a | 500 | 2.50 | - |";
        assert!(rows.contains(expected), "{rows}");
    }

    #[test]
    fn rows_of_a_later_run_are_said_to_be() {
        let of = |name: &str, run: &str| Peer { run: Some(run.into()), ..peer(name, "a", 1.0) };
        let (first, second) = ("2026-11-23T05:26:08Z", "2026-11-25T02:00:00Z");
        let old = peer("A", "a", 1.0);
        let rows = [old.clone(), of("B", second), of("B", second), of("C", second)];
        assert_eq!(
            later_runs(&rows),
            "Other libraries' B, C were measured on 2026-11-25, after their other rows.\n\n"
        );
        assert_eq!(later_runs(&[old.clone(), old]), "");
        assert_eq!(later_runs(&[of("A", first), of("B", first)]), "");
    }

    #[test]
    fn recorded_reference_rows_are_marked() {
        let recorded = |kind: &str, name: &str, cycles: f64| -> Reference {
            row(json!({"kind": kind, "name": name, "core_cycles_per_op": cycles}))
        };
        let floor: Floor = row(json!({"floor_cycles": 40.0}));
        let others = [recorded("floor", "", 25.0), recorded("peer", "32w", 75.0)];
        let page = distances(&[ours("A", 1, 200.0), ours("A", 64, 50.0)], &[floor], &others);
        let expected = "| A | keygen | fresh | 50 | 40 | 1.25 | 25 | 2.00 | 32w | 75 | 1.50 |\n";
        assert_eq!(page, expected);
        assert!(include_str!("performance/page.md").contains("| peer (recorded) |"));
    }

    #[test]
    fn suites_of_a_handshake_are_not_mixed() {
        let of = |provider: &str, cipher: &str, us: f64| -> Handshake {
            row(json!({"provider": provider, "cipher": cipher, "server_us": us,
                "client_us": us / 2.0}))
        };
        let [first, second] = SUITES;
        let rows = [
            of("default", second, 90.0),
            of("gabion", second, 10.0),
            of("default", first, 80.0),
            of("gabion", first, 20.0),
        ];
        let expected = "| G | S | 80 / 40 | 20 / 10 | 4.00 / 4.00 | 9.00 / 9.00 |\n";
        assert_eq!(handshakes(&rows), expected);
    }

    #[test]
    fn threads_are_compared_with_the_same_operation() {
        let of = |key: &str, threads: u64, rate: f64| -> Threads {
            row(json!({"key": key, "threads": threads, "ops_per_s": rate}))
        };
        let rows = [of("fresh", 1, 100.0), of("cached", 2, 900.0), of("fresh", 2, 190.0)];
        assert_eq!(two_threads(&rows), "| A | keygen | fresh | 100 | 190 | 1.90 |\n");
    }

    #[test]
    fn the_pages_in_docs_are_those_of_their_rows() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (file, name) in
            [("performance.md", "xeon-spr"), ("performance-epyc-zen4.md", "epyc-zen4")]
        {
            let kept = fs::read_to_string(root.join("docs/reference").join(file)).unwrap();
            assert_eq!(page(&root.join("bench/results"), name).unwrap(), kept, "{name}");
        }
    }
}
