//! The engine's goals, row by row, and the measured figures.

use std::fmt::Write as _;

use gabion_rows::compare::{fewest, is_named, is_same_operation};
use gabion_rows::operations::{Key, Peer, Timing};

use super::{named, number, ratio};

/// The baseline that an operation is compared with.
#[derive(Clone, Copy)]
enum Baseline {
    /// The libraries whose names begin so, with a fresh key: times fewer cycles.
    Fresh(&'static [&'static str], f64),
    /// The operation with a known key, as the library expands it.
    Known(&'static [&'static str], f64),
    /// So many cycles.
    Cycles(f64),
}

use Baseline::{Cycles, Fresh, Known};

const ANY: &[&str] = &[""];
const WOLFSSL: &[&str] = &["wolfssl"];
const HASHES: &[&str] = &["liboqs", "wolfssl", "slh-dsa"];
const CRATES: &[&str] = &["ed25519-dalek", "ring", "graviola", "aws-lc-rs"];

/// Algorithm (or how all of them begin), operation, key, batch, and the aim.
type Aim = (&'static str, &'static str, &'static str, usize, Baseline);

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

/// The aims, met and missed, against the peers they were set against; and how many are met.
pub fn table(engine: &[Timing], peers: &[Peer]) -> (String, String) {
    let mut lines = String::new();
    let (mut met, mut all) = (0, 0);
    for aim in AIMS {
        let rows = engine.iter().filter(|row| is_row_of(aim, row));
        for row in rows {
            let is_met = line(&mut lines, aim, row, peers);
            met += usize::from(is_met);
            all += 1;
        }
    }
    (lines, format!("{met} of {all} are met."))
}

/// Returns whether an aim is of this row of ours.
fn is_row_of((algorithm, operation, key, batch, _): &Aim, row: &Timing) -> bool {
    let subject = &row.subject;
    is_named(algorithm, &subject.algorithm)
        && (subject.operation.word(), subject.key.word(), row.batch) == (operation, key, *batch)
}

/// One line of the table; whether the aim is met.
fn line(lines: &mut String, aim: &Aim, row: &Timing, peers: &[Peer]) -> bool {
    let (.., batch, than) = *aim;
    let (mut against, mut theirs, ours) = ("-".to_owned(), f64::NAN, row.cycles());
    let (wanted, got, is_met) = match than {
        Cycles(limit) => (number(limit), number(ours), ours <= limit),
        Fresh(libraries, times) | Known(libraries, times) => {
            let their_key = if matches!(than, Known(..)) { Key::Cached } else { Key::Fresh };
            if let Some(Peer { timing, .. }) = quickest(libraries, row, their_key, peers) {
                against = format!("{}, {} key", timing.backend, timing.subject.key.word());
                theirs = timing.cycles();
            }
            (format!("{times:.1}"), ratio(theirs / ours), theirs / ours >= times)
        }
    };
    let _ = writeln!(
        lines,
        "| {} | {batch} | {} | {against} | {} | {wanted} | {got} | {} |",
        named(&row.subject),
        number(ours),
        number(theirs),
        if is_met { "met" } else { "**missed**" },
    );
    is_met
}

/// The row with the fewest cycles of some libraries for one operation. A library that has no other form of
/// a key is taken with that.
fn quickest<'a>(libraries: &[&str], row: &Timing, key: Key, peers: &'a [Peer]) -> Option<&'a Peer> {
    let of = |peer: &&Peer| {
        is_same_operation(&row.subject, &peer.timing.subject)
            && libraries.iter().any(|library| peer.timing.backend.starts_with(library))
    };
    fewest(peers.iter().filter(of).filter(|peer| peer.timing.subject.key == key))
        .or_else(|| fewest(peers.iter().filter(of)))
}
