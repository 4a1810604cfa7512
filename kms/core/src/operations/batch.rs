//! Batches: what of them is run together, so that the engine's lanes fill.

use std::num::NonZero;

use gabion_engine::{Algorithm, Message};

use super::cache::VersionView;

/// Most items that are run together on a thread: more fill no lane more, and take memory.
const LANES_MAX: usize = 256;

/// An item that may be run by the engine.
pub struct Lane<'a> {
    /// The item's index in the batch.
    pub place: usize,
    pub view: VersionView,
    pub message: Message<'a>,
}

/// Items in the order in which they are run: those of one algorithm together, and of those the ones of one key beside
/// each other, so that what is expanded of a key stays near.
pub struct Plan<'a> {
    /// Most items of a group.
    room: usize,
    lanes: Vec<(&'static str, [u8; 16], u32, Lane<'a>)>,
}

impl<'a> Plan<'a> {
    /// A plan for so many threads.
    pub fn new(threads: NonZero<usize>) -> Self {
        Plan { room: LANES_MAX.saturating_mul(threads.get()), lanes: Vec::new() }
    }

    /// Adds an item.
    pub fn add(&mut self, algorithm: Algorithm, uuid: [u8; 16], lane: Lane<'a>) {
        let number = lane.view.version.version;
        self.lanes.push((algorithm.name(), uuid, number, lane));
    }

    /// What is run together.
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
