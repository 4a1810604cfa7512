//! The size limit of a log in memory, which keeps only its newest records so that the process does
//! not grow.
//!
//! ```text
//!   full segments beyond the limit --archived within the memory--> removed, with the tiles that only they need
//! ```
//!
//! Less than a byte stays of each dropped record: hashes of higher levels of the tree, which prove
//! newer records.

use std::path::Path;

use super::archive::Keep;
use super::log::Log;
use super::tiles::{self, TileKind};
use super::tree::WIDTH;
use crate::error::AuditError;

/// The archive, from which everything is removed at once.
const FORGOTTEN: &str = "/forgotten";

impl Log {
    /// Removes the oldest records of a log in memory while it exceeds its limit.
    pub(super) fn forget(&self) -> Result<(), AuditError> {
        let Some(most) = self.bytes_max else { return Ok(()) };
        let (folder, before) = (Path::new(FORGOTTEN), self.first()?);
        let archived = self.archive(folder, &Keep { bytes: Some(most), since_ms: None })?;
        let segments = archived.files.iter().map(|name| folder.join(name));
        // Tiles that include a kept record stay.
        let forgotten = before / WIDTH as u64..archived.first / WIDTH as u64;
        let path = |of, index| tiles::path_of(&self.folder, of, index, WIDTH);
        let tiles = forgotten
            .flat_map(|index| [TileKind::Level(0), TileKind::Entries].map(|of| path(of, index)));
        for file in segments.chain(tiles) {
            self.disk.remove(&file).map_err(|error| super::segment::unwritable(&file, &error))?;
        }
        Ok(())
    }

    /// Rejects a record that a log in memory has dropped.
    pub(super) fn check_kept(&self, index: u64) -> Result<(), AuditError> {
        match self.bytes_max.is_some() && index < self.first()? {
            true => Err(AuditError::Forgotten(index)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::log::{Class, Options};
    use super::super::memory::MemoryDisk;
    use super::super::note::Keys;
    use super::super::record::{Outcome, Record};
    use super::*;
    use crate::gate::{Action, Principal};

    fn record(number: u64) -> Record {
        Record {
            time_ms: number,
            request_id: format!("r-{number}"),
            trace: None,
            principal: Principal::new("ci").unwrap(),
            method: "local".to_owned(),
            action: Action::Sign,
            tenant: None,
            key: None,
            input: None,
            output: None,
            change: None,
            outcome: Outcome::Done,
            count: None,
            revision: None,
        }
    }

    #[test]
    fn a_log_in_memory_keeps_its_newest_records_and_proves_them() {
        let (keys, _) = Keys::drawn("example.com/audit").unwrap();
        let disk = Arc::new(MemoryDisk::default());
        let options = Options { segment_bytes: 64 << 10, reserve_bytes: 4 << 10 };
        let mut log = Log::open(disk.clone(), Path::new("/audit"), keys, options).unwrap();
        log.bytes_max = Some(256 << 10);
        let mut largest = 0;
        for number in 0..20_000 {
            log.append(&[record(number)], Class::Written).unwrap();
            if number % 100 == 99 {
                log.checkpoint().unwrap();
                largest = largest.max(disk.bytes());
            }
        }
        // The segments, the next one, the tiles of the newest records, and the head of each dropped
        // segment.
        assert!(largest < 640 << 10, "{largest}");
        let first = log.first().unwrap();
        assert!(first > 15_000 && first < 19_500, "{first}");
        for index in [first, first + 1, first + 300, 19_998, 19_999] {
            assert!(log.prove(index).unwrap().check(&log.vkeys()).unwrap(), "{index}");
            assert_eq!(log.tail(index, 1).unwrap()[0].record, record(index));
            assert_eq!(log.entries(index, 1).unwrap().len(), 1);
        }
        // Dropped records are not reported as damage.
        assert_eq!(log.prove(first - 1).unwrap_err(), AuditError::Forgotten(first - 1));
        assert_eq!(log.entries(0, 10).unwrap_err(), AuditError::Forgotten(0));
        assert_eq!(log.tail(0, 1).unwrap()[0].index, first);
        assert_eq!(log.size(), 20_000);
    }
}
