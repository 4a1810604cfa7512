//! Grouping of batch items, so that the engine's lanes are filled.

use std::num::NonZero;

use gabion_engine::{Algorithm, Message};

use super::cache::VersionView;

/// The maximum number of items that run together on a thread. More would fill no more lanes, but
/// take memory.
const LANES_MAX: usize = 256;

/// An item that the engine may run.
pub struct Lane<'a> {
    /// The item's index in the batch.
    pub place: usize,
    pub view: VersionView,
    pub message: Message<'a>,
}

/// Items in the order in which they run: grouped by algorithm, and within that by key, so that an
/// expanded key stays in the processor's caches.
pub struct Plan<'a> {
    /// The maximum number of items of a group.
    room: usize,
    lanes: Vec<(&'static str, [u8; 16], u32, Lane<'a>)>,
}

impl<'a> Plan<'a> {
    /// Creates a plan for a number of threads.
    pub fn new(threads: NonZero<usize>) -> Self {
        Plan { room: LANES_MAX.saturating_mul(threads.get()), lanes: Vec::new() }
    }

    /// Adds an item.
    pub fn add(&mut self, algorithm: Algorithm, uuid: [u8; 16], lane: Lane<'a>) {
        let number = lane.view.version.version;
        self.lanes.push((algorithm.name(), uuid, number, lane));
    }

    /// Returns the groups of items that run together.
    pub fn groups(mut self) -> Vec<Vec<Lane<'a>>> {
        self.lanes.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
        let mut groups: Vec<(&str, Vec<Lane<'a>>)> = Vec::new();
        for (name, _, _, lane) in self.lanes {
            match groups.last_mut() {
                Some((last, group)) if *last == name && group.len() < self.room => group.push(lane),
                _ => groups.push((name, vec![lane])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}
