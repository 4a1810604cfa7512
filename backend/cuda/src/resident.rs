//! Keys that stay on the device, by the number that names each: expanded there once, and wiped when they go.
//!
//! ```text
//!   absent --a batch that knows the key: sent, expanded--> filling --that batch landed--> ready
//!     ^                                                                                     |
//!     +-- cleared by the next batch <-- the key was dropped --------------------------------+
//!     +-- overwritten <-- the one that was not used for longest makes room for another one --+
//! ```
//!
//! - An entry that is in use by a batch stays. A batch does not wait for an entry that another
//!   batch is filling; it sends the key itself.
//! - There is a bound on the memory for each kind of key. A batch with more keys than fit sends them.
//! - A restart of the device forgets all of it.
//! - A key that is dropped says so by a note that takes no lock and no memory, for it may be dropped anywhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::identity;

use crate::device::{Device, Fault};

/// The number of the canary's key; no other key has it.
pub(crate) const CANARY: u64 = 0;

/// The kind of a resident key: its parameter set, and whether it is the private half.
pub(crate) type Kind = (Algorithm, bool);

/// The keys of a device.
pub(crate) struct Residents {
    /// Bytes for each kind.
    bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    arenas: HashMap<Kind, Arena>,
    /// The number of restarts; entries from before a restart are invalid.
    epoch: u64,
    /// Counts uses.
    clock: u64,
    /// Up to where notes of dropped keys were read.
    read: u64,
    /// Whether there may be entries of dropped keys.
    has_dropped: bool,
}

/// The memory for one kind.
struct Arena {
    address: u64,
    each: usize,
    count: usize,
    free: Vec<usize>,
    entries: HashMap<u64, Entry>,
}

struct Entry {
    index: usize,
    users: usize,
    is_ready: bool,
    is_dropped: bool,
    used: u64,
}

/// The address of each lane's entry, and a lane of each key that has to be filled in.
pub(crate) type Entries = (Vec<u64>, Vec<usize>);

/// The addresses of each lane's entry, and of the new entries, which have to be expanded.
pub(crate) type FilledEntries = (Vec<u64>, Vec<u64>);

/// A lease on the entries that a batch uses, until it has landed.
pub(crate) struct EntryLease {
    kind: Kind,
    epoch: u64,
    /// The address of each lane's entry.
    pub(crate) addresses: Vec<u64>,
    /// A lane of each key that this batch has to fill in.
    pub(crate) missing: Vec<usize>,
    ids: Vec<u64>,
    filled: Vec<u64>,
}

/// Evicted entries, of keys that were dropped. Their memory has to be cleared before it is used again.
#[derive(Default)]
pub(crate) struct EvictedEntries {
    epoch: u64,
    /// Addresses and bytes.
    pub(crate) memory: Vec<(u64, usize)>,
    places: Vec<(Kind, usize)>,
}

impl Residents {
    /// Creates the residents with so many bytes for each kind of key.
    pub(crate) fn new(bytes: usize) -> Self {
        identity::on_drop(note);
        let inner = Inner { read: WRITTEN.load(Ordering::Acquire), ..Inner::default() };
        Residents { bytes, inner: Mutex::new(inner) }
    }

    /// The entries of these keys, `each` bytes an entry, one number a lane; none if there are too many, the device has no
    /// memory for any, or another batch just fills one of them. Others wait only while the numbers that differ are looked up, not for the lanes.
    pub(crate) fn hold<D: Device>(
        &self,
        device: &D,
        kind: Kind,
        each: usize,
        lanes: &[u64],
    ) -> Result<Option<EntryLease>, Fault> {
        let distinct = Distinct::new(lanes);
        let Some((entries, filled, epoch)) = self.enter(device, kind, each, &distinct.ids)? else {
            return Ok(None);
        };
        let addresses = distinct.of_lanes.iter().map(|&at| entries[at as usize]).collect();
        let missing = filled.iter().map(|&at| distinct.first[at] as usize).collect();
        let filled = filled.iter().map(|&at| distinct.ids[at]).collect();
        Ok(Some(EntryLease { kind, epoch, addresses, missing, ids: distinct.ids, filled }))
    }

    /// The entries of keys that all differ: their addresses, and the places of those that have to be filled in; and when
    /// that was.
    #[allow(clippy::type_complexity)] // Of one use.
    fn enter<D: Device>(
        &self,
        device: &D,
        kind: Kind,
        each: usize,
        ids: &[u64],
    ) -> Result<Option<(Vec<u64>, Vec<usize>, u64)>, Fault> {
        let mut inner = self.lock();
        match inner.make_arena(device, kind, each, self.bytes) {
            Err(Fault::NoMemory) => return Ok(None),
            made => made?,
        }
        inner.clock += 1;
        let (epoch, clock) = (inner.epoch, inner.clock);
        let Some(arena) = inner.arenas.get_mut(&kind) else { return Ok(None) };
        let mut filled = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            match arena.entries.get_mut(id) {
                Some(entry) if !entry.is_ready => return Ok(None),
                // Keys of this batch are marked before room is made, so that they stay.
                Some(entry) => entry.used = clock,
                None => filled.push(at),
            }
        }
        if !arena.make_room(filled.len(), clock) {
            return Ok(None);
        }
        for &at in &filled {
            let index = arena.free.pop().ok_or(Fault::NoMemory)?;
            let entry = Entry { index, users: 0, is_ready: false, is_dropped: false, used: clock };
            arena.entries.insert(ids[at], entry);
        }
        let mut addresses = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(entry) = arena.entries.get_mut(id) {
                entry.users += 1;
                addresses.push(arena.address + (entry.index * arena.each) as u64);
            }
        }
        Ok(Some((addresses, filled, epoch)))
    }

    /// Returns entries. Filled ones become usable if the batch landed, and are removed otherwise:
    /// then the device is restarted before their memory is used again.
    pub(crate) fn release(&self, lease: &EntryLease, landed: bool) {
        let mut inner = self.lock();
        if inner.epoch != lease.epoch {
            return;
        }
        let Some(arena) = inner.arenas.get_mut(&lease.kind) else { return };
        for id in &lease.ids {
            if let Some(entry) = arena.entries.get_mut(id) {
                entry.users = entry.users.saturating_sub(1);
            }
        }
        for id in &lease.filled {
            if landed {
                arena.entries.entry(*id).and_modify(|entry| entry.is_ready = true);
            } else {
                arena.entries.remove(id);
            }
        }
    }

    /// Returns the unused entries of keys that were dropped.
    pub(crate) fn sweep(&self) -> EvictedEntries {
        let mut inner = self.lock();
        inner.read_notes();
        let mut evicted = EvictedEntries { epoch: inner.epoch, ..EvictedEntries::default() };
        if !inner.has_dropped {
            return evicted;
        }
        for (kind, arena) in &mut inner.arenas {
            let gone: Vec<u64> = arena.dropped().collect();
            for id in gone {
                let address = arena.address_of(id);
                if let Some(entry) = arena.entries.remove(&id) {
                    evicted.memory.push((address, arena.each));
                    evicted.places.push((*kind, entry.index));
                }
            }
        }
        let mut all = inner.arenas.values().flat_map(|arena| arena.entries.values());
        inner.has_dropped = all.any(|entry| entry.is_dropped);
        evicted
    }

    /// Marks evicted entries as cleared; if they could not be cleared the device is restarted.
    pub(crate) fn mark_cleared(&self, evicted: &mut EvictedEntries) {
        let mut inner = self.lock();
        if inner.epoch != evicted.epoch {
            return;
        }
        for (kind, index) in std::mem::take(&mut evicted.places) {
            if let Some(arena) = inner.arenas.get_mut(&kind) {
                arena.free.push(index);
            }
        }
    }

    /// Forgets everything: the device was restarted.
    pub(crate) fn forget(&self) {
        let mut inner = self.lock();
        inner.arenas.clear();
        inner.epoch += 1;
    }

    /// Memory that holds keys, to be cleared before the device goes.
    pub(crate) fn memory(&self) -> Vec<(u64, usize)> {
        let inner = self.lock();
        let used = inner.arenas.values().filter(|arena| arena.free.len() < arena.count);
        used.map(|arena| (arena.address, arena.each * arena.count)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn make_arena<D: Device>(
        &mut self,
        device: &D,
        kind: Kind,
        each: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        if self.arenas.contains_key(&kind) {
            return Ok(());
        }
        let count = bytes / each.max(1);
        let address = if count == 0 { 0 } else { device.allocate(count * each)? };
        let free = (0..count).rev().collect();
        self.arenas.insert(kind, Arena { address, each, count, free, entries: HashMap::new() });
        Ok(())
    }

    /// Marks the entries of dropped keys, of all keys if notes were overwritten.
    fn read_notes(&mut self) {
        let written = WRITTEN.load(Ordering::Acquire);
        if written - self.read > NOTES.len() as u64 {
            let all = self.arenas.values_mut().flat_map(|arena| arena.entries.values_mut());
            all.for_each(|entry| entry.is_dropped = true);
            (self.read, self.has_dropped) = (written, true);
        }
        while self.read < written {
            let value = NOTES[self.read as usize % NOTES.len()].load(Ordering::Acquire);
            if value & LAP_MASK != lap(self.read) {
                break; // Not written yet; it will be there the next time.
            }
            for arena in self.arenas.values_mut() {
                if let Some(entry) = arena.entries.get_mut(&(value >> LAP_BITS)) {
                    (entry.is_dropped, self.has_dropped) = (true, true);
                }
            }
            self.read += 1;
        }
    }
}

impl Arena {
    fn address_of(&self, id: u64) -> u64 {
        let index = self.entries.get(&id).map_or(0, |entry| entry.index);
        self.address + (index * self.each) as u64
    }

    fn dropped(&self) -> impl Iterator<Item = u64> {
        let of = |entry: &Entry| entry.is_dropped && entry.is_ready && entry.users == 0;
        self.entries.iter().filter(move |(_, entry)| of(entry)).map(|(&id, _)| id)
    }

    /// Makes `wanted` entries free, by evicting those unused for longest, except entries used at
    /// `clock`; their contents are overwritten by the next user. Returns whether that is possible.
    fn make_room(&mut self, wanted: usize, clock: u64) -> bool {
        let Some(short) = wanted.checked_sub(self.free.len()).filter(|&short| short > 0) else {
            return true;
        };
        let is_idle = |entry: &Entry| entry.users == 0 && entry.is_ready && entry.used != clock;
        let idle = self.entries.iter().filter(|(_, entry)| is_idle(entry));
        let mut idle: Vec<(u64, u64)> = idle.map(|(&id, entry)| (entry.used, id)).collect();
        if idle.len() < short {
            return false;
        }
        idle.sort_unstable();
        for (_, id) in &idle[..short] {
            self.free.extend(self.entries.remove(id).map(|entry| entry.index));
        }
        true
    }
}

/// The numbers among those of some lanes that differ.
struct Distinct {
    ids: Vec<u64>,
    /// The first lane of each.
    first: Vec<u32>,
    /// The index of each lane's key number.
    of_lanes: Vec<u32>,
}

impl Distinct {
    fn new(lanes: &[u64]) -> Self {
        // Most lanes find their number where one of the same low bits stood last.
        let mut recent = [(u64::MAX, 0); 256];
        let mut places: HashMap<u64, u32> = HashMap::new();
        let (mut ids, mut first) = (Vec::new(), Vec::new());
        let mut of_lanes = Vec::with_capacity(lanes.len());
        for (lane, &id) in (0..).zip(lanes) {
            let last = &mut recent[id as usize % 256];
            if last.0 != id {
                let place = *places.entry(id).or_insert_with(|| {
                    ids.push(id);
                    first.push(lane);
                    ids.len() as u32 - 1
                });
                *last = (id, place);
            }
            of_lanes.push(last.1);
        }
        Distinct { ids, first, of_lanes }
    }
}

/// Numbers of dropped keys, in a lock-free ring: the number, and in the low bits the round of the
/// ring, which distinguishes new values from older ones.
static NOTES: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];
/// Notes so far.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
const LAP_BITS: u32 = 8;
const LAP_MASK: u64 = (1 << LAP_BITS) - 1;

fn lap(at: u64) -> u64 {
    (at / NOTES.len() as u64 + 1) & LAP_MASK
}

/// A key with this number was dropped.
fn note(id: u64) {
    let at = WRITTEN.fetch_add(1, Ordering::AcqRel);
    NOTES[at as usize % NOTES.len()].store(id << LAP_BITS | lap(at), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_are_found_once() {
        let distinct = Distinct::new(&[7, 263, 7, 0, 263, 519, 7]);
        assert_eq!(distinct.ids, [7, 263, 0, 519]);
        assert_eq!(distinct.first, [0, 1, 3, 5]);
        assert_eq!(distinct.of_lanes, [0, 1, 0, 2, 1, 3, 0]);
    }
}
