//! Stateful hash-based signatures: a parameter set, its costs, and the rows it is compared with.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::operations::{Operation, Peer};

/// An operation of a set: a line of `gabion bench hbs --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hbs {
    /// The set, as `L2_H10_W4`: two levels of trees 10 high, and digits of 4 bits; or the standard's name.
    pub set: String,
    /// Key generation, with all trees that the first signature needs; a signature by an index of a state in memory, with its
    /// check and its share of the next tree; or a verification.
    pub operation: Operation,
    /// Signatures of a call.
    pub batch: usize,
    /// Threads that make a key.
    pub threads: usize,
    /// Bytes of a signature.
    pub signature_bytes: usize,
    /// Core cycles of one operation, of one thread; of several, those of the time that passes.
    pub core_cycles_per_op: Option<f64>,
    /// Operations a second.
    pub ops_per_s: f64,
    /// The ratio of the slowest signature to the median one, in CPU time.
    pub max_over_median: Option<f64>,
    /// The cost of its hashes with all lanes full, and of dependent hashes one by one.
    pub floor_cycles: Option<f64>,
    /// The ratio to that floor.
    pub over_floor: Option<f64>,
    /// Core cycles of a compression of SHA-256 with all lanes full, and alone.
    pub cycles_per_compression: [Option<f64>; 2],
    /// The figures for the set in wolfSSL's manual: operations a second of 1 thread and of 4, on
    /// another processor.
    pub seed_ops_per_s: Option<[f64; 2]>,
    /// The quickest of other libraries.
    pub peer: Option<String>,
    /// The ratio of the cycles.
    pub ratio: Option<f64>,
    /// Every one of them.
    #[serde(default)]
    pub peers: Vec<PeerFigures>,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}

/// A signature whose state is on a disk: a line of `gabion bench hbs --durable --json`. Times are those that pass, in
/// microseconds of one signature; each is the middle one of several rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Durable {
    /// The set, as [`Hbs`] has it.
    pub set: String,
    /// A signature.
    pub operation: Operation,
    /// Messages of a call.
    pub batch: usize,
    /// Indexes that are reserved, durably, at once.
    pub reserve: usize,
    /// Threads that sign.
    pub threads: usize,
    /// Bytes of a signature.
    pub signature_bytes: usize,
    /// The number of signatures in all rounds.
    pub signatures: u64,
    /// The time with the state on the disk.
    pub us_per_op: f64,
    /// The time with the state in memory.
    pub memory_us_per_op: f64,
    /// A block of the state's length, written in place and synced, between signatures in memory, in the same folder.
    pub fdatasync_us: f64,
    /// Syncs of a signature: counted, and those of the log's growth too.
    pub syncs_per_op: f64,
    /// The time in memory with as many syncs of such blocks in between.
    pub expected_us_per_op: f64,
    /// The ratio to the expected time.
    pub over_expected: f64,
    /// The ratio to the time in memory.
    pub over_memory: f64,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}

/// Another library's figures for the same operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerFigures {
    /// Name and version of the library.
    pub name: String,
    /// The library's core cycles of one operation.
    pub core_cycles_per_op: f64,
    /// The ratio of the cycles.
    pub ratio: f64,
}

impl Hbs {
    /// Compares a row with those of other libraries for its set and operation. The rows must be of
    /// the same processor.
    pub fn compare_with_peers<'r>(&mut self, rows: impl Iterator<Item = &'r Peer>) {
        let Some(cycles) = self.core_cycles_per_op else { return };
        let name = peer_name(&self.set);
        let fits = |row: &&Peer| {
            let timing = &row.timing;
            timing.subject.algorithm == name
                && timing.subject.operation == self.operation
                && timing.machine.cpu == self.machine.cpu
                && timing.cycles().is_finite()
        };
        self.peers = rows
            .filter(fits)
            .map(|row| PeerFigures {
                name: row.timing.backend.clone(),
                core_cycles_per_op: row.timing.cycles(),
                ratio: row.timing.cycles() / cycles,
            })
            .collect();
        let quickest = self.peers.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio));
        self.peer = quickest.map(|peer| peer.name.clone());
        self.ratio = quickest.map(|peer| peer.ratio);
    }
}

/// Returns the name of a set in rows of other libraries, where it has to differ from names of other
/// schemes.
pub fn peer_name(set: &str) -> String {
    if set.starts_with('L') { format!("HSS-{set}") } else { set.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn peer(algorithm: &str, operation: &str, backend: &str, cycles: f64, cpu: &str) -> Peer {
        let row = json!({ "algorithm": algorithm, "operation": operation, "key": "cached",
            "backend": backend, "batch": 1, "threads": 1, "ns_per_op": { "p50": 1.0, "p99": 1.0 },
            "core_cycles_per_op": cycles, "ops_per_s": 1.0, "samples": 1, "machine": { "cpu": cpu },
            "randomness": "drawn",
            "peer": { "name": "", "version": "", "license": "", "build": "" } });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_row_is_held_against_the_quickest_of_its_set_and_processor() {
        let row = json!({ "set": "L2_H10_W4", "operation": "sign", "batch": 1, "threads": 1,
            "signature_bytes": 5076, "core_cycles_per_op": 100.0, "ops_per_s": 1.0,
            "floor_cycles": 80.0, "cycles_per_compression": [50.0, null],
            "machine": { "cpu": "this" } });
        let mut row: Hbs = serde_json::from_value(row).unwrap();
        let others = [
            peer("HSS-L2_H10_W4", "sign", "slow", 700.0, "this"),
            peer("HSS-L2_H10_W4", "sign", "quick", 400.0, "this"),
            peer("HSS-L2_H10_W4", "sign", "elsewhere", 10.0, "that"),
            peer("HSS-L2_H10_W4", "verify", "quick", 10.0, "this"),
            peer("HSS-L2_H10_W8", "sign", "quick", 10.0, "this"),
        ];
        row.compare_with_peers(others.iter());
        assert_eq!((row.peer.as_deref(), row.ratio), (Some("quick"), Some(4.0)));
        assert_eq!(row.peers.len(), 2);
        row.compare_with_peers([].iter());
        assert_eq!((row.peer, row.ratio), (None, None));
        assert_eq!(peer_name("XMSS-SHA2_10_256"), "XMSS-SHA2_10_256");
    }
}
