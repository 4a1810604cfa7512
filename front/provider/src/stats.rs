//! The provider's counters: a row for each algorithm and operation, and TLS events by program.

use std::path::PathBuf;

use gabion_engine::{Kind, watch_devices};
use gabion_provider_stats::tls::ProgramName;
use gabion_provider_stats::{Counters, Names, STATS_VARIABLE, Table};
use once_cell::race::OnceBox;

use crate::key_types::{EPHEMERAL, KEY_TYPES, KeyType};
use crate::settings;
use crate::stderr::print_line;
use crate::tls_columns;

pub use gabion_provider_stats::{Counter, Operation};

/// Rows per algorithm: keygen, import, export, and two that depend on its kind.
const OPERATIONS: usize = 5;
/// The first row of key pairs from a pool: one for each KEM and key exchange, which come first in
/// [`KEY_TYPES`].
const POOLED: usize = KEY_TYPES.len() * OPERATIONS;
/// The first row of operations in paused jobs, one for each algorithm.
const PAUSED: usize = POOLED + EPHEMERAL;
/// The first row of operations on a GPU, one for each algorithm.
const GPU: usize = PAUSED + KEY_TYPES.len();
/// The row of the key schedule of TLS 1.3.
const KEY_SCHEDULE: usize = GPU + KEY_TYPES.len();
const ROWS: usize = KEY_SCHEDULE + 1;

/// Returns the counter of an operation.
pub fn counter(algorithm: KeyType, operation: Operation) -> &'static Counter {
    &counters().rows()[place(algorithm, operation)]
}

/// Returns the counter of the key schedule of TLS 1.3.
pub fn key_schedule() -> &'static Counter {
    &counters().rows()[KEY_SCHEDULE]
}

/// Counts a TLS event of this program.
pub fn count_tls(column: usize) {
    counters().count_tls(column);
}

/// Opens the file, and counts that the provider was loaded.
pub fn count_load() {
    counters().count_load();
    watch_devices(count_device);
}

/// Counts a batch on a GPU. Batches of hybrids and composites count for their parts.
fn count_device(batch: &gabion_engine::DeviceCounts) {
    let key_type = KeyType { algorithm: batch.algorithm, hash: None };
    if KEY_TYPES.contains(&key_type) {
        counter(key_type, Operation::Gpu).add(batch.lanes, batch.lost);
    }
}

/// Returns the counters. If several threads are first, each opens them and one result is kept: a
/// forked child would wait forever for a lock that a thread of its parent holds.
fn counters() -> &'static Counters<ROWS, { tls_columns::COLUMNS }> {
    static COUNTERS: OnceBox<Counters<ROWS, { tls_columns::COLUMNS }>> = OnceBox::new();
    static IN_MEMORY: Table<ROWS, { tls_columns::COLUMNS }> = Table::nameless();
    const NAMES: Names = Names { row, column: tls_columns::column };
    COUNTERS.get_or_init(|| {
        let named = settings::variable_os(STATS_VARIABLE).map(PathBuf::from);
        let made = named.map(|path| Counters::open(&path, NAMES, &ProgramName::current()));
        Box::new(match made {
            None => Counters::in_memory(&IN_MEMORY),
            Some(Ok(counters)) => counters,
            Some(Err(error)) => {
                // A user who requested counters must learn that they are unavailable; cryptography
                // continues.
                print_line(&format!(
                    "gabion: {STATS_VARIABLE}: {error}; counting in memory only\n"
                ));
                Counters::in_memory(&IN_MEMORY)
            }
        })
    })
}

/// Returns the operations of a kind of algorithm, in the order of the rows.
fn operations(kind: Kind) -> [Operation; OPERATIONS] {
    let [first, second] = match kind {
        Kind::Kem => [Operation::Encaps, Operation::Decaps],
        Kind::KeyExchange => [Operation::Derive, Operation::Peer],
        Kind::Signature => [Operation::Sign, Operation::Verify],
    };
    [Operation::Keygen, Operation::Import, Operation::Export, first, second]
}

/// Returns the row of an operation.
fn place(algorithm: KeyType, operation: Operation) -> usize {
    let of_algorithm = |place| algorithm.index() * OPERATIONS + place;
    match operation {
        Operation::Keygen => of_algorithm(0),
        Operation::Import => of_algorithm(1),
        Operation::Export => of_algorithm(2),
        Operation::Encaps | Operation::Sign | Operation::Derive => of_algorithm(3),
        Operation::Decaps | Operation::Verify | Operation::Peer => of_algorithm(4),
        // Only ephemeral keys have pools.
        Operation::Pooled => POOLED + algorithm.index() % EPHEMERAL,
        Operation::Paused => PAUSED + algorithm.index(),
        Operation::Gpu => GPU + algorithm.index(),
    }
}

/// Returns the algorithm and operation of a row.
fn row(index: usize) -> (&'static str, &'static str) {
    if index == KEY_SCHEDULE {
        return ("TLS13-KDF", "derive");
    }
    if index >= GPU {
        return (KEY_TYPES[index - GPU].name(), Operation::Gpu.name());
    }
    if index >= PAUSED {
        return (KEY_TYPES[index - PAUSED].name(), Operation::Paused.name());
    }
    if index >= POOLED {
        return (KEY_TYPES[index - POOLED].name(), Operation::Pooled.name());
    }
    let key_type = KEY_TYPES[index / OPERATIONS];
    (key_type.name(), operations(key_type.info().kind)[index % OPERATIONS].name())
}

#[cfg(test)]
mod tests {
    use gabion_provider_stats::{ALGORITHM_LEN, OPERATION_LEN};

    use super::*;

    #[test]
    fn every_operation_has_its_own_row() {
        for key_type in KEY_TYPES {
            let all = operations(key_type.info().kind)
                .into_iter()
                .chain([Operation::Paused, Operation::Gpu]);
            for operation in all {
                assert_eq!(row(place(key_type, operation)), (key_type.name(), operation.name()));
            }
            let is_ephemeral = matches!(key_type.info().kind, Kind::Kem | Kind::KeyExchange);
            assert_eq!(is_ephemeral, key_type.index() < EPHEMERAL, "{key_type}");
            if is_ephemeral {
                assert_eq!(row(place(key_type, Operation::Pooled)), (key_type.name(), "pooled"));
            }
        }
        assert_eq!(row(ROWS - 1), ("TLS13-KDF", "derive"));
    }

    #[test]
    fn names_fit_their_rows() {
        for (algorithm, operation) in (0..ROWS).map(row) {
            assert!(algorithm.len() < ALGORITHM_LEN, "{algorithm}");
            assert!(operation.len() < OPERATION_LEN, "{operation}");
        }
    }
}
