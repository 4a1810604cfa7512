//! One shard of a cache: an index by hash, a list that CLOCK's hand walks, one lock.

use std::collections::HashMap;
use std::collections::hash_map;
use std::sync::Arc;

use gabion_scheme::Algorithm;

use super::CacheStats;
use crate::error::Error;
use crate::sync::{Condvar, Mutex, lock, wait_until};

/// A cached value, which knows the key bytes it was made from.
pub(super) trait CacheValue: Clone {
    /// Returns whether the value was made from exactly these bytes.
    fn is_of(&self, algorithm: Algorithm, bytes: &[u8]) -> bool;
    /// Returns the approximate size in bytes.
    fn len(&self) -> usize;
}

pub(super) struct Shard<V>(Mutex<State<V>>);

struct State<V> {
    /// Maps the hash of a key to its place in `entries`.
    index: HashMap<u64, usize>,
    entries: Vec<Entry<V>>,
    /// The position of CLOCK's hand.
    hand: usize,
    capacity: usize,
    stats: CacheStats,
}

struct Entry<V> {
    hash: u64,
    /// Whether it was asked for since the hand last passed.
    is_used: bool,
    content: Content<V>,
}

enum Content<V> {
    Ready(V, usize),
    Pending(Arc<Expansion<V>>),
}

/// The expansion of a key by one thread; others wait here for its result.
struct Expansion<V> {
    algorithm: Algorithm,
    bytes: Vec<u8>,
    result: Mutex<Option<Result<V, Error>>>,
    changed: Condvar,
}

impl<V: CacheValue> Shard<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Shard(Mutex::new(State {
            index: HashMap::new(),
            entries: Vec::new(),
            hand: 0,
            capacity,
            stats: CacheStats::default(),
        }))
    }

    pub(super) fn slot(&self, hash: u64) -> HashSlot<'_, V> {
        HashSlot { shard: self, hash }
    }

    pub(super) fn stats(&self) -> CacheStats {
        lock(&self.0).stats
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        lock(&self.0).capacity
    }

    /// Removes finished entries. Unfinished ones stay until they are complete.
    pub(super) fn clear(&self) {
        let mut state = lock(&self.0);
        while let Some(place) =
            state.entries.iter().position(|entry| matches!(entry.content, Content::Ready(..)))
        {
            state.remove(place);
        }
    }
}

/// The place of a hash in its shard.
pub(super) struct HashSlot<'a, V> {
    shard: &'a Shard<V>,
    hash: u64,
}

/// The result of a lookup.
enum Lookup<V> {
    Ready(V),
    Pending(Arc<Expansion<V>>),
    /// The caller makes it, and enters it.
    Absent(Arc<Expansion<V>>),
    /// Another key has this hash. The caller makes it and keeps it to itself.
    Collision,
}

impl<V: CacheValue> HashSlot<'_, V> {
    /// Returns the value for these bytes: cached, from another thread, or newly made.
    pub(super) fn find_or_make(
        &self,
        algorithm: Algorithm,
        bytes: &[u8],
        make: impl FnOnce() -> Result<V, Error>,
    ) -> Result<V, Error> {
        match self.find(algorithm, bytes) {
            Lookup::Ready(value) => Ok(value),
            Lookup::Pending(expansion) => expansion.wait(),
            Lookup::Collision => make(),
            Lookup::Absent(expansion) => {
                let insert = PendingInsert { slot: self, expansion, is_over: false };
                insert.finish(make())
            }
        }
    }

    fn find(&self, algorithm: Algorithm, bytes: &[u8]) -> Lookup<V> {
        let mut state = lock(&self.shard.0);
        let state = &mut *state;
        let place = match state.index.entry(self.hash) {
            hash_map::Entry::Occupied(place) => *place.get(),
            hash_map::Entry::Vacant(vacant) => {
                let expansion = Expansion::of(algorithm, bytes);
                vacant.insert(state.entries.len());
                state.entries.push(Entry {
                    hash: self.hash,
                    is_used: false,
                    content: Content::Pending(Arc::clone(&expansion)),
                });
                state.stats.misses += 1;
                return Lookup::Absent(expansion);
            }
        };
        let entry = &mut state.entries[place];
        let found = match &entry.content {
            Content::Ready(value, _) if value.is_of(algorithm, bytes) => {
                Lookup::Ready(value.clone())
            }
            Content::Pending(expansion) if expansion.is_of(algorithm, bytes) => {
                Lookup::Pending(Arc::clone(expansion))
            }
            _ => {
                state.stats.misses += 1;
                return Lookup::Collision;
            }
        };
        entry.is_used = true;
        state.stats.hits += 1;
        found
    }

    /// Replaces the pending entry by the value, or removes the entry if the value is `None`.
    fn store(&self, value: Option<&V>) {
        let mut state = lock(&self.shard.0);
        // The entry of a key that is being made is neither evicted nor cleared.
        let Some(&place) = state.index.get(&self.hash) else {
            return;
        };
        let len = value.map_or(usize::MAX, CacheValue::len);
        if let Some(value) = value
            && len <= state.capacity
        {
            state.make_room(len);
            // Evictions may have moved it.
            let place = state.index[&self.hash];
            state.entries[place].content = Content::Ready(value.clone(), len);
            state.stats.keys += 1;
            state.stats.bytes += len;
        } else {
            state.remove(place);
        }
    }
}

impl<V> State<V> {
    /// Evicts until `len` more bytes fit, which are no more than the capacity.
    fn make_room(&mut self, len: usize) {
        while self.stats.bytes + len > self.capacity {
            self.hand %= self.entries.len();
            let entry = &mut self.entries[self.hand];
            if matches!(entry.content, Content::Pending(_)) || std::mem::take(&mut entry.is_used) {
                self.hand += 1;
            } else {
                // The last entry comes here, and the hand looks at it next.
                self.remove(self.hand);
                self.stats.evictions += 1;
            }
        }
    }

    fn remove(&mut self, place: usize) {
        let entry = self.entries.swap_remove(place);
        self.index.remove(&entry.hash);
        if let Some(moved) = self.entries.get(place) {
            self.index.insert(moved.hash, place);
        }
        if let Content::Ready(_, len) = entry.content {
            self.stats.keys -= 1;
            self.stats.bytes -= len;
        }
    }
}

impl<V: Clone> Expansion<V> {
    fn of(algorithm: Algorithm, bytes: &[u8]) -> Arc<Self> {
        let (bytes, result) = (bytes.to_vec(), Mutex::new(None));
        Arc::new(Expansion { algorithm, bytes, result, changed: Condvar::new() })
    }

    fn is_of(&self, algorithm: Algorithm, bytes: &[u8]) -> bool {
        self.algorithm == algorithm && self.bytes == bytes
    }

    fn wait(&self) -> Result<V, Error> {
        let result = wait_until(&self.changed, lock(&self.result), Option::is_some);
        result.clone().unwrap_or(Err(Error::Lost))
    }
}

/// An insertion whose value is being made. A panic on the way ends it and wakes those that wait.
struct PendingInsert<'a, V: CacheValue> {
    slot: &'a HashSlot<'a, V>,
    expansion: Arc<Expansion<V>>,
    is_over: bool,
}

impl<V: CacheValue> PendingInsert<'_, V> {
    fn finish(mut self, result: Result<V, Error>) -> Result<V, Error> {
        self.end(result.clone());
        result
    }

    fn end(&mut self, result: Result<V, Error>) {
        self.is_over = true;
        self.slot.store(result.as_ref().ok());
        *lock(&self.expansion.result) = Some(result);
        self.expansion.changed.notify_all();
    }
}

impl<V: CacheValue> Drop for PendingInsert<'_, V> {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(Err(Error::Lost));
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::HashSet;

    /// A cached value of a given size.
    #[derive(Clone, Debug, PartialEq)]
    struct SizedValue(Vec<u8>, usize);

    impl CacheValue for SizedValue {
        fn is_of(&self, algorithm: Algorithm, bytes: &[u8]) -> bool {
            algorithm == ANY && self.0 == bytes
        }
        fn len(&self) -> usize {
            self.1
        }
    }

    const ANY: Algorithm = Algorithm::MlKem512;

    fn get(shard: &Shard<SizedValue>, hash: u64, bytes: &[u8], len: usize) -> bool {
        let made = Cell::new(false);
        let make = || {
            made.set(true);
            Ok(SizedValue(bytes.to_vec(), len))
        };
        let value = shard.slot(hash).find_or_make(ANY, bytes, make).unwrap();
        assert_eq!(value.0, bytes, "a key for different bytes");
        made.get()
    }

    #[test]
    fn keys_with_one_hash_never_stand_for_each_other() {
        let shard = Shard::new(100);
        assert!(get(&shard, 7, b"one", 10));
        assert!(get(&shard, 7, b"two", 10), "made, and not taken for `one`");
        assert!(get(&shard, 7, b"two", 10), "and not kept");
        assert!(!get(&shard, 7, b"one", 10));
        let stats = shard.stats();
        assert_eq!((stats.hits, stats.misses, stats.keys), (1, 3, 1));
    }

    #[test]
    fn the_clock_spares_what_was_used_and_evicts_the_rest() {
        let shard = Shard::new(40);
        for key in 0..4u8 {
            assert!(get(&shard, key.into(), &[key], 10));
        }
        assert!(!get(&shard, 1, &[1], 10) && !get(&shard, 3, &[3], 10));
        assert!(get(&shard, 4, &[4], 10), "takes the place of 0");
        assert!(!get(&shard, 1, &[1], 10) && !get(&shard, 3, &[3], 10));
        assert!(get(&shard, 0, &[0], 10));
        let stats = shard.stats();
        assert_eq!((stats.keys, stats.bytes, stats.evictions), (4, 40, 2));
    }

    #[test]
    fn oversized_entry_is_not_cached_and_evicts_nothing() {
        let shard = Shard::new(40);
        assert!(get(&shard, 1, b"small", 40));
        assert!(get(&shard, 2, b"large", 41) && get(&shard, 2, b"large", 41));
        assert!(!get(&shard, 1, b"small", 40));
        assert!(get(&Shard::new(0), 1, b"any", 1));
    }

    #[test]
    fn a_key_that_is_being_made_outlives_clearing_and_eviction() {
        let shard = Shard::new(40);
        assert!(get(&shard, 1, b"old", 40));
        let make = || {
            shard.clear();
            assert!(get(&shard, 1, b"old", 40), "cleared");
            assert!(get(&shard, 3, b"new", 40), "evicts the old key, and not the promise");
            Ok(SizedValue(b"made".to_vec(), 40))
        };
        assert!(shard.slot(2).find_or_make(ANY, b"made", make).is_ok());
        assert!(!get(&shard, 2, b"made", 40), "kept");
        let stats = shard.stats();
        assert_eq!((stats.keys, stats.bytes, stats.evictions), (1, 40, 2));
        assert!(get(&shard, 1, b"old", 40) && get(&shard, 3, b"new", 40));
    }

    /// Compares with a model: every key found must have been entered, and the size limit holds.
    #[test]
    fn a_random_walk_keeps_the_books() {
        let shard = Shard::new(500);
        let (mut x, mut known) = (1u64, HashSet::new());
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = ((x >> 33) % 60) as u8;
            let len = usize::from(key) % 37 + 1;
            // A third of the hashes collide.
            let was_made = get(&shard, u64::from(key % 40), &[key], len);
            assert!(was_made || known.contains(&key));
            known.insert(key);
            let state = lock(&shard.0);
            let held = |entry: &Entry<SizedValue>| match &entry.content {
                Content::Ready(value, len) => (value.len() == *len).then_some(*len),
                Content::Pending(_) => None,
            };
            let lens: Vec<usize> = state.entries.iter().map(|e| held(e).unwrap()).collect();
            assert_eq!(state.stats.bytes, lens.iter().sum::<usize>());
            assert!(state.stats.bytes <= 500 && state.stats.keys == lens.len());
            assert_eq!(state.index.len(), lens.len());
            for (place, entry) in state.entries.iter().enumerate() {
                assert_eq!(state.index[&entry.hash], place);
            }
        }
        let stats = shard.stats();
        assert!(stats.evictions > 1000 && stats.hits > 1000, "{stats:?}");
        assert_eq!(stats.hits + stats.misses, 20_000);
    }

    #[test]
    fn expansion_matches_its_algorithm_and_key_only() {
        let expansion = Expansion::<SizedValue>::of(ANY, b"this");
        assert!(expansion.is_of(ANY, b"this"));
        assert!(!expansion.is_of(ANY, b"that") && !expansion.is_of(Algorithm::MlKem768, b"this"));
    }

    #[test]
    fn a_panic_while_making_wakes_those_that_wait_and_leaves_no_trace() {
        let shard = Shard::<SizedValue>::new(40);
        std::thread::scope(|scope| {
            let (begun, is_begun) = std::sync::mpsc::channel();
            let shard = &shard;
            let maker = scope.spawn(move || {
                shard.slot(1).find_or_make(ANY, b"x", || {
                    begun.send(()).unwrap();
                    while shard.stats().hits == 0 {
                        std::thread::yield_now();
                    }
                    panic!("played")
                })
            });
            is_begun.recv().unwrap();
            let waited = shard.slot(1).find_or_make(ANY, b"x", || unreachable!("it is being made"));
            assert_eq!(waited, Err(Error::Lost));
            assert!(maker.join().is_err());
        });
        assert!(get(&shard, 1, b"x", 1), "it can be made afterwards");
    }
}
