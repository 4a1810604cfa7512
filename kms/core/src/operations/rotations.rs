//! The in-memory index of automatic rotations.
//!
//! ```text
//!   rotations/TENANT/UUID   when a key is due, in the transaction of each change of that; null if not at all
//!   memory                  the same, sorted by the time of the next check: read once, and updated by each change
//! ```
//!
//! The times are hints: a check reads the key's record, which says when the key is due. So a time
//! that is too early only costs a check. A time that is too late must not happen. Keys whose time
//! may be too late, after a change with an unknown outcome or because a clock went back, are
//! checked earlier.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Label, RotationTime, Uuid};
use crate::store::RecordPath;

/// The interval at which a key with an implausible time is checked again, in milliseconds. It makes
/// short-lived clock errors harmless, such as those of a machine without a battery-backed clock
/// after its start.
pub const PATIENCE_MS: u64 = 60 * 60 * 1000;

/// How far a clock has to go back before all times are checked, in milliseconds.
const BACK_MS: u64 = 5 * 60 * 1000;

/// The pause of a key after a failed rotation, in milliseconds. It doubles with each further
/// failure, up to [`PATIENCE_MS`].
const PAUSE_MS: u64 = 60 * 1000;

/// The pause of all keys after a failure of the store or the log, in milliseconds. It doubles up to
/// [`PAUSE_MS`].
const REST_MS: u64 = 1000;

/// The state of automatic rotation.
#[derive(Default)]
pub struct Rotations(Mutex<RotationIndex>);

/// The rotation times of all keys.
#[derive(Default)]
pub struct RotationIndex {
    times: BTreeSet<(u64, Uuid)>,
    keys: HashMap<Uuid, Entry>,
    /// Shared names of tenants, to save memory.
    tenants: HashSet<Arc<Label>>,
    /// The progress of reading the store's records.
    pub read: ReadProgress,
    /// The latest time that the clock returned.
    seen_ms: u64,
    /// The number of consecutive failures of each key.
    failing: HashMap<Uuid, u32>,
    /// The number of consecutive failures of the store or the log, and the end of the pause by the
    /// monotonic clock.
    rest: (u32, u64),
    pub done: u64,
    pub failed: u64,
}

/// The entry of one key.
struct Entry {
    look_ms: u64,
    due: RotationTime,
    tenant: Arc<Label>,
}

/// The progress of reading the store's records.
#[derive(Clone, Default)]
pub enum ReadProgress {
    #[default]
    NotYet,
    UpTo(RecordPath),
    All,
}

/// A key whose rotation time is to be checked.
pub struct RotationCheck {
    pub tenant: Arc<Label>,
    pub uuid: Uuid,
}

impl Rotations {
    pub fn known(&self) -> MutexGuard<'_, RotationIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a due key could not be rotated.
    pub fn is_failing(&self) -> bool {
        let known = self.known();
        !known.failing.is_empty() || known.rest.0 > 0
    }

    /// Returns the counters in the Prometheus text format.
    pub fn text(&self) -> String {
        let known = self.known();
        let (keys, failing) = (known.keys.len(), known.failing.len());
        format!(
            "# TYPE kms_auto_rotations_total counter\n\
             kms_auto_rotations_total {}\n\
             # TYPE kms_auto_rotations_failed_total counter\n\
             kms_auto_rotations_failed_total {}\n\
             # TYPE kms_auto_rotation_keys gauge\n\
             kms_auto_rotation_keys {keys}\n\
             # TYPE kms_auto_rotation_keys_failing gauge\n\
             kms_auto_rotation_keys_failing {failing}\n",
            known.done, known.failed
        )
    }
}

impl RotationIndex {
    /// Notes when a key is due, and schedules its check for then, or earlier if that is further
    /// ahead than a rotation can be.
    pub fn put(&mut self, tenant: &Label, uuid: Uuid, due: RotationTime, now_ms: u64) {
        let look_ms = match due.is_too_far(now_ms) {
            true => now_ms.saturating_add(PATIENCE_MS),
            false => due.at_ms,
        };
        self.put_at(tenant, uuid, due, look_ms, now_ms);
    }

    /// Notes when a key is due, and schedules its check for another time.
    pub fn put_at(
        &mut self,
        tenant: &Label,
        uuid: Uuid,
        due: RotationTime,
        look_ms: u64,
        now_ms: u64,
    ) {
        self.seen_ms = self.seen_ms.max(now_ms);
        let tenant = match self.tenants.get(tenant) {
            Some(known) => known.clone(),
            None => {
                let new = Arc::new(tenant.clone());
                self.tenants.insert(new.clone());
                new
            }
        };
        if let Some(before) = self.keys.insert(uuid, Entry { look_ms, due, tenant }) {
            self.times.remove(&(before.look_ms, uuid));
        }
        self.times.insert((look_ms, uuid));
    }

    /// Forgets a key that is not rotated automatically.
    pub fn remove(&mut self, uuid: &Uuid) {
        self.failing.remove(uuid);
        if let Some(before) = self.keys.remove(uuid) {
            self.times.remove(&(before.look_ms, *uuid));
        }
    }

    /// Returns the next key to check, if its time has come.
    pub fn first(&self, now_ms: u64) -> Option<RotationCheck> {
        let (_, uuid) = self.times.first().filter(|(look_ms, _)| *look_ms <= now_ms)?;
        let tenant = self.keys.get(uuid)?.tenant.clone();
        Some(RotationCheck { tenant, uuid: *uuid })
    }

    /// Schedules earlier checks of keys whose times are too far ahead because the clock went back.
    pub fn clock_went_back(&mut self, now_ms: u64) {
        if now_ms.saturating_add(BACK_MS) >= self.seen_ms {
            self.seen_ms = self.seen_ms.max(now_ms);
            return;
        }
        self.seen_ms = now_ms;
        for (uuid, entry) in &mut self.keys {
            let from = if entry.due.is_too_far(now_ms) { 0 } else { entry.due.at_ms };
            let latest = from.max(now_ms).saturating_add(PATIENCE_MS);
            if entry.look_ms > latest {
                self.times.remove(&(entry.look_ms, *uuid));
                entry.look_ms = latest;
                self.times.insert((latest, *uuid));
            }
        }
    }

    /// Notes that a due key was not rotated. Returns when to try again.
    pub fn failed(&mut self, uuid: Uuid, now_ms: u64) -> u64 {
        self.failed += 1;
        let tries = self.failing.entry(uuid).or_default();
        let pause_ms = PAUSE_MS.saturating_mul(1 << (*tries).min(16));
        *tries = tries.saturating_add(1);
        now_ms.saturating_add(pause_ms.min(PATIENCE_MS))
    }

    /// Resets the failures of a key.
    pub fn mark_healthy(&mut self, uuid: &Uuid) {
        self.failing.remove(uuid);
    }

    /// Pauses all rotations for a while, because the store or the log failed.
    pub fn pause(&mut self, steady_ms: u64) {
        self.failed += 1;
        let pause_ms = (REST_MS << self.rest.0.min(16)).min(PAUSE_MS);
        self.rest = (self.rest.0.saturating_add(1), steady_ms.saturating_add(pause_ms));
    }

    /// Resumes rotations, because store and log work.
    pub fn resume(&mut self) {
        self.rest = (0, 0);
    }

    /// Returns whether rotations are paused.
    pub fn is_resting(&self, steady_ms: u64) -> bool {
        self.rest.0 > 0 && steady_ms < self.rest.1
    }

    /// Returns all keys and when they are due, to compare them with the store.
    #[cfg(test)]
    pub fn all(&self) -> Vec<(Uuid, RotationTime)> {
        let mut all: Vec<_> = self.keys.iter().map(|(uuid, entry)| (*uuid, entry.due)).collect();
        all.sort_unstable_by_key(|(uuid, _)| *uuid);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * 60 * 1000;
    const DAY: u64 = 24 * HOUR;

    fn uuid(byte: u8) -> Uuid {
        Uuid::of_random([byte; 16])
    }

    fn tenant() -> Label {
        Label::new("tenant", "default").unwrap()
    }

    fn first(known: &RotationIndex, now_ms: u64) -> Option<Uuid> {
        known.first(now_ms).map(|look| look.uuid)
    }

    #[test]
    fn the_first_that_is_due_is_looked_at_first() {
        let (mut known, tenant, now) = (RotationIndex::default(), tenant(), 1000 * DAY);
        for (byte, in_ms) in [(1, 3 * HOUR), (2, HOUR), (3, 2 * HOUR)] {
            let due = RotationTime { at_ms: now + in_ms, period_s: 24 * 3600 };
            known.put(&tenant, uuid(byte), due, now);
        }
        assert_eq!(first(&known, now + HOUR - 1), None);
        assert_eq!(first(&known, now + HOUR), Some(uuid(2)));
        // Moving a key leaves no old entry.
        known.put(
            &tenant,
            uuid(2),
            RotationTime { at_ms: now + 4 * HOUR, period_s: 24 * 3600 },
            now,
        );
        assert_eq!(first(&known, now + 9 * HOUR), Some(uuid(3)));
        known.remove(&uuid(3));
        assert_eq!(first(&known, now + 9 * HOUR), Some(uuid(1)));
        assert_eq!((known.times.len(), known.keys.len(), known.tenants.len()), (2, 2, 1));
        let all = known.all();
        assert_eq!(all.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [uuid(1), uuid(2)]);
    }

    #[test]
    fn rotation_times_are_checked_hourly_after_a_clock_step_back() {
        let (mut known, tenant, now) = (RotationIndex::default(), tenant(), 1000 * DAY);
        let future = now + 3650 * DAY;
        known.put(&tenant, uuid(1), RotationTime::after(future, 24 * 3600), future);
        known.put(&tenant, uuid(2), RotationTime::after(now, 24 * 3600), now);
        known.clock_went_back(now);
        assert_eq!(first(&known, now + HOUR - 1), None);
        assert_eq!(first(&known, now + HOUR), Some(uuid(1)));
        // Plausible times stay.
        known.remove(&uuid(1));
        assert_eq!(first(&known, now + DAY - 1), None);
        // A time that is read after a restart is corrected at once.
        known.put(&tenant, uuid(3), RotationTime::after(future, 24 * 3600), now);
        assert_eq!(first(&known, now + HOUR), Some(uuid(3)));
        // Setting the clock by seconds changes nothing.
        known.put(&tenant, uuid(4), RotationTime::after(now + 2000, 3600), now);
        known.clock_went_back(now - 2000);
        assert_eq!(known.keys[&uuid(4)].look_ms, now + 2000 + HOUR);
    }

    #[test]
    fn pauses_grow_to_an_hour_and_rests_to_a_minute() {
        let mut known = RotationIndex::default();
        let pauses: Vec<u64> = (0..9).map(|_| known.failed(uuid(1), 0) / 60_000).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(known.failed(uuid(2), 5), 60_005);
        known.mark_healthy(&uuid(1));
        assert_eq!((known.failing.len(), known.failed(uuid(1), 0)), (1, 60_000));
        for rest in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
            known.pause(7);
            assert!(known.is_resting(7 + rest - 1) && !known.is_resting(7 + rest), "{rest}");
        }
        known.resume();
        assert!(!known.is_resting(0));
    }
}
