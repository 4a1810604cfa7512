//! Compares rows of the engine with those of other libraries: which rows are comparable, and which
//! is the best.
//!
//! The pages of docs and `gabion report` compare by the same rules.

use std::borrow::Borrow;

use crate::operations::{Key, Peer, Subject, Timing};

/// The families of rows that are compared with other libraries: their names, or prefixes of names
/// if they end in a dash.
pub const FAMILIES: [(&str, &[&str]); 12] = [
    ("ML-KEM", &["ML-KEM-"]),
    ("Hybrid KEMs of TLS", &["X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"]),
    ("X-Wing", &["X-Wing"]),
    ("ML-DSA", &["ML-DSA-"]),
    ("SLH-DSA with SHA2", &["SLH-DSA-SHA2-"]),
    ("SLH-DSA with SHAKE", &["SLH-DSA-SHAKE-"]),
    ("Falcon", &["Falcon-"]),
    ("FN-DSA as drafted", &["FN-DSA-"]),
    ("Ed25519", &["Ed25519"]),
    ("X25519", &["X25519"]),
    ("ECDH", &["ECDH-"]),
    ("ECDSA", &["ECDSA-"]),
];

/// Returns whether a name matches; a pattern that ends in a dash is a prefix.
pub fn is_named(wanted: &str, name: &str) -> bool {
    name == wanted || wanted.ends_with('-') && name.starts_with(wanted)
}

/// Returns whether two rows measure the same operation, whatever the key.
pub fn is_same_operation(a: &Subject, b: &Subject) -> bool {
    (&a.algorithm, a.operation) == (&b.algorithm, b.operation)
}

/// The row with the fewest core cycles.
pub fn fewest<'r>(rows: impl Iterator<Item = &'r Peer>) -> Option<&'r Peer> {
    rows.min_by(|a, b| a.timing.cycles().total_cmp(&b.timing.cycles()))
}

/// The row with the fewest cycles that measures the same operation, with the same kind of key where there
/// is one: a scheme whose keys are their own encoding has one form of them. A known key can also be taken
/// as a fresh one, where that is the quickest library's only form.
pub fn best<'r, R: Borrow<Peer>>(subject: &Subject, peers: &'r [R]) -> Option<&'r Peer> {
    let of = || {
        let peers = peers.iter().map(Borrow::borrow);
        peers.filter(|peer| is_same_operation(subject, &peer.timing.subject))
    };
    let with_key =
        |peer: &&Peer| subject.key == Key::Cached || subject.key == peer.timing.subject.key;
    fewest(of().filter(with_key)).or_else(|| fewest(of()))
}

/// An operation of the engine, and the rows it is compared with.
pub struct Comparison<'r> {
    /// The single operation.
    pub one: &'r Timing,
    /// The operation in a batch of 64, if that was measured.
    pub batch: Option<&'r Timing>,
    /// The best of the other libraries, if one has it.
    pub peer: Option<&'r Peer>,
}

impl Comparison<'_> {
    /// Returns how many times fewer cycles than the best peer: one operation, and one of a batch
    /// of 64. Not a number where there is nothing to compare.
    pub fn times_less(&self) -> [f64; 2] {
        let theirs = self.peer.map_or(f64::NAN, |peer| peer.timing.cycles());
        [Some(self.one), self.batch].map(|row| theirs / row.map_or(f64::NAN, Timing::cycles))
    }
}

/// Returns every single operation of the engine, in the order of its rows.
pub fn compare<'r, E: Borrow<Timing>, P: Borrow<Peer>>(
    engine: &'r [E],
    peers: &'r [P],
) -> Vec<Comparison<'r>> {
    let rows = || engine.iter().map(Borrow::borrow);
    rows()
        .filter(|row| row.batch == 1)
        .map(|one| Comparison {
            one,
            batch: rows().find(|row| row.batch == 64 && row.subject == one.subject),
            peer: best(&one.subject, peers),
        })
        .collect()
}

/// The family's row of a summary: how many operations it has that have a peer, how many of them need
/// more cycles than the peer, and how many times fewer the least and the most of them are: one
/// operation, and one of a batch.
pub fn summary(comparisons: &[Comparison<'_>], names: &[&str]) -> (usize, usize, [String; 2]) {
    let ratios = |at: usize| -> Vec<f64> {
        let of = comparisons.iter().filter(|comparison| {
            let name = &comparison.one.subject.algorithm;
            names.iter().any(|wanted| is_named(wanted, name))
        });
        of.map(|comparison| comparison.times_less()[at]).filter(|ratio| ratio.is_finite()).collect()
    };
    let [one, batch] = [0, 1].map(ratios);
    let below = one.iter().filter(|ratio| **ratio < 1.0).count();
    (one.len(), below, [range(&one), range(&batch)])
}

fn range(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    if ratios.is_empty() { "-".to_owned() } else { format!("{least:.2} to {most:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_key_is_compared_with_fresh_ones_too_but_not_the_other_way_round() {
        let row = |key: &str, backend: &str, cycles: f64| -> Peer {
            let row = serde_json::json!({"algorithm": "A", "operation": "encaps", "key": key,
                "backend": backend, "batch": 1, "threads": 1, "core_cycles_per_op": cycles,
                "ns_per_op": {"p50": 1.0, "p99": 1.0}, "ops_per_s": 1.0, "samples": 1,
                "randomness": "given",
                "peer": {"name": backend, "version": "1", "license": "", "build": ""}});
            serde_json::from_value(row).unwrap()
        };
        let peers = [row("cached", "keeps", 300.0), row("fresh", "keeps", 400.0)];
        let quicker = [&peers[..], &[row("fresh", "quick", 200.0)]].concat();
        let of = |key: &str, peers: &[Peer]| {
            let subject = row(key, "ours", 1.0).timing.subject;
            let best = best(&subject, peers)?;
            Some((best.timing.cycles(), best.timing.subject.key == subject.key))
        };
        assert_eq!(of("cached", &peers), Some((300.0, true)));
        assert_eq!(of("cached", &quicker), Some((200.0, false)));
        assert_eq!(of("fresh", &peers), Some((400.0, true)));
        assert_eq!(of("fresh", &peers[..1]), Some((300.0, false)), "what has one form only");
    }
}
