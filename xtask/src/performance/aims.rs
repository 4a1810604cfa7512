//! What the engine aims at, row by row, and what was measured of it.

use std::fmt::Write as _;

use serde_json::Value;

use super::{cycles, is_named, number, ratio, text};

/// What an operation is held against.
#[derive(Clone, Copy)]
enum Than {
    /// The libraries whose names begin so, with a fresh key: times fewer cycles.
    Fresh(&'static [&'static str], f64),
    /// The same with a known key, as the library expands it.
    Known(&'static [&'static str], f64),
    /// So many cycles.
    Cycles(f64),
}

use Than::{Cycles, Fresh, Known};

const ANY: &[&str] = &[""];
const WOLFSSL: &[&str] = &["wolfssl"];
const HASHES: &[&str] = &["liboqs", "wolfssl", "slh-dsa"];
const CRATES: &[&str] = &["ed25519-dalek", "ring", "graviola", "aws-lc-rs"];

/// Algorithm (or how all of them begin), operation, key, batch, and the aim.
type Aim = (&'static str, &'static str, &'static str, u64, Than);

const AIMS: &[Aim] = &[
    ("ML-KEM-512", "keygen", "fresh", 64, Fresh(WOLFSSL, 2.8)),
    ("ML-KEM-512", "encaps", "fresh", 64, Fresh(WOLFSSL, 2.8)),
    ("ML-KEM-512", "decaps", "fresh", 64, Fresh(WOLFSSL, 2.8)),
    ("ML-KEM-768", "keygen", "fresh", 64, Fresh(WOLFSSL, 2.4)),
    ("ML-KEM-768", "encaps", "fresh", 64, Fresh(WOLFSSL, 2.4)),
    ("ML-KEM-768", "decaps", "fresh", 64, Fresh(WOLFSSL, 2.3)),
    ("ML-KEM-1024", "keygen", "fresh", 64, Fresh(WOLFSSL, 1.9)),
    ("ML-KEM-1024", "encaps", "fresh", 64, Fresh(WOLFSSL, 1.9)),
    ("ML-KEM-1024", "decaps", "fresh", 64, Fresh(WOLFSSL, 1.9)),
    ("ML-KEM-", "encaps", "cached", 64, Known(ANY, 4.0)),
    ("ML-KEM-", "decaps", "cached", 64, Known(ANY, 3.2)),
    ("ML-DSA-44", "keygen", "fresh", 64, Fresh(WOLFSSL, 1.6)),
    ("ML-DSA-44", "verify", "fresh", 64, Fresh(WOLFSSL, 1.6)),
    ("ML-DSA-65", "keygen", "fresh", 64, Fresh(WOLFSSL, 1.6)),
    ("ML-DSA-65", "verify", "fresh", 64, Fresh(WOLFSSL, 1.6)),
    ("ML-DSA-87", "keygen", "fresh", 64, Fresh(WOLFSSL, 1.4)),
    ("ML-DSA-87", "verify", "fresh", 64, Fresh(WOLFSSL, 1.4)),
    ("ML-DSA-", "verify", "cached", 64, Known(WOLFSSL, 3.2)),
    ("ML-DSA-44", "sign", "cached", 64, Known(WOLFSSL, 1.7)),
    ("ML-DSA-65", "sign", "cached", 64, Known(WOLFSSL, 1.4)),
    ("ML-DSA-87", "sign", "cached", 64, Known(WOLFSSL, 1.3)),
    ("SLH-DSA-SHAKE-", "sign", "fresh", 1, Fresh(HASHES, 2.4)),
    ("SLH-DSA-SHAKE-", "verify", "fresh", 64, Fresh(HASHES, 2.4)),
    ("SLH-DSA-SHA2-", "sign", "fresh", 1, Fresh(HASHES, 3.0)),
    ("SLH-DSA-SHA2-", "verify", "fresh", 64, Fresh(HASHES, 3.0)),
    ("Ed25519", "verify", "fresh", 64, Cycles(25_000.0)),
    ("Ed25519", "sign", "fresh", 64, Cycles(9_000.0)),
    ("Ed25519", "sign", "cached", 64, Cycles(9_000.0)),
    ("Ed25519-ZIP215", "verify", "fresh", 128, Cycles(15_000.0)),
    ("Ed25519", "verify", "fresh", 1, Fresh(CRATES, 1.0)),
    ("Ed25519", "sign", "fresh", 1, Fresh(CRATES, 1.0)),
    ("ML-KEM-", "keygen", "fresh", 1, Fresh(WOLFSSL, 1.0)),
    ("ML-KEM-", "encaps", "fresh", 1, Fresh(WOLFSSL, 1.0)),
    ("ML-KEM-", "decaps", "fresh", 1, Fresh(WOLFSSL, 1.0)),
    ("ML-KEM-", "encaps", "cached", 1, Known(WOLFSSL, 1.3)),
    ("ML-KEM-", "decaps", "cached", 1, Known(WOLFSSL, 1.0)),
    ("ML-DSA-", "keygen", "fresh", 1, Fresh(WOLFSSL, 1.0)),
    ("ML-DSA-", "sign", "fresh", 1, Fresh(WOLFSSL, 1.0)),
    ("ML-DSA-", "verify", "fresh", 1, Fresh(WOLFSSL, 1.0)),
    ("ML-DSA-", "verify", "cached", 1, Known(WOLFSSL, 1.3)),
    ("ML-DSA-44", "sign", "cached", 1, Known(WOLFSSL, 1.2)),
    ("ML-DSA-65", "sign", "cached", 1, Known(WOLFSSL, 1.1)),
    ("ML-DSA-87", "sign", "cached", 1, Known(WOLFSSL, 1.1)),
];

/// The aims, met and missed, against the peers they were set against.
pub fn write(page: &mut String, engine: &[Value], peers: &[Value]) {
    page.push_str(
        "## Aims\nWhat the engine is built to reach: so many times fewer core cycles than another library, or so many \
         cycles.\nThe library's key is fresh unless the row says that it is known. A batch with a known key has one \
         key in all\nof its lanes. Why an aim is missed: [where the cycles go](../bench/where-cycles-go.md).\n\n\
         The libraries are:\n\
         - for lattices wolfSSL; for batches with known keys of ML-KEM the best of all;\n\
         - for SLH-DSA the best of liboqs, wolfSSL and RustCrypto;\n\
         - for Ed25519 the best of the crates.\n\n\
         | algorithm | operation | key | batch | Gabion | against | its cycles | aim | measured | |\n\
         |---|---|---|---:|---:|---|---:|---:|---:|---|\n",
    );
    let (mut met, mut all) = (0, 0);
    for aim in AIMS {
        let rows = engine.iter().filter(|row| is_row_of(aim, row));
        for row in rows {
            let is_met = line(page, aim, row, peers);
            met += usize::from(is_met);
            all += 1;
        }
    }
    let _ = writeln!(page, "\n{met} of {all} are met.\n");
}

/// Whether an aim is of this row of ours.
fn is_row_of((algorithm, operation, key, batch, _): &Aim, row: &Value) -> bool {
    is_named(algorithm, text(&row["algorithm"]))
        && row["operation"] == *operation
        && row["key"] == *key
        && row["batch"] == *batch
}

/// One line of the table; whether the aim is met.
fn line(page: &mut String, aim: &Aim, row: &Value, peers: &[Value]) -> bool {
    let (_, operation, key, batch, than) = *aim;
    let (mut against, mut theirs, ours) = ("-".to_owned(), f64::NAN, cycles(row));
    let (wanted, got, is_met) = match than {
        Cycles(limit) => (number(limit), number(ours), ours <= limit),
        Fresh(libraries, times) | Known(libraries, times) => {
            let their_key = if matches!(than, Known(..)) { "cached" } else { "fresh" };
            if let Some(peer) = quickest(libraries, row, their_key, peers) {
                against = format!("{}, {} key", text(&peer["backend"]), text(&peer["key"]));
                theirs = cycles(peer);
            }
            (format!("{times:.1}"), ratio(theirs / ours), theirs / ours >= times)
        }
    };
    let _ = writeln!(
        page,
        "| {} | {operation} | {key} | {batch} | {} | {against} | {} | {wanted} | {got} | {} |",
        text(&row["algorithm"]),
        number(ours),
        number(theirs),
        if is_met { "met" } else { "**missed**" },
    );
    is_met
}

/// The row with the fewest cycles of some libraries for one operation. A library that has no other form of
/// a key is taken with that.
fn quickest<'a>(
    libraries: &[&str],
    row: &Value,
    key: &str,
    peers: &'a [Value],
) -> Option<&'a Value> {
    let of = |peer: &&Value| {
        ["algorithm", "operation"].iter().all(|field| row[field] == peer[field])
            && libraries.iter().any(|library| text(&peer["backend"]).starts_with(library))
    };
    let least = |rows: &mut dyn Iterator<Item = &'a Value>| {
        rows.min_by(|a, b| cycles(a).total_cmp(&cycles(b)))
    };
    least(&mut peers.iter().filter(of).filter(|peer| peer["key"] == key))
        .or_else(|| least(&mut peers.iter().filter(of)))
}
