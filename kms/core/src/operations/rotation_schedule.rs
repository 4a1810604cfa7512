//! Rotation by the clock: which keys are due, and their next versions.

use std::fmt::Display;

use super::kms::Kms;
use super::metrics::Verb;
use super::records::{damaged, key_path, opened, rotation_path, sealed};
use super::rotations::{PATIENCE_MS, ReadProgress, RotationCheck};
use super::unwind::OnUnwind;
use crate::error::Error;
use crate::model::{Key, KeyId, Label, ROTATE_PERIOD_MIN_S, RotationTime, Uuid, VersionId};
use crate::store::{Page, RecordPath, StoreError, Transaction};

/// Records that are read together.
const PAGE: usize = 500;

/// Keys that are looked at in a row, and turn out not to be due.
const LOOKS_MAX: usize = 1000;

/// When a key whose change may still happen is looked at again, in milliseconds.
const DOUBT_MS: u64 = 60 * 1000;

/// When a key that has expired is looked at again, in milliseconds: somebody may give it more time, or the clock be wrong.
const EXPIRED_MS: u64 = 24 * PATIENCE_MS;

/// A key that the clock has something done with.
pub enum DueKey {
    /// It is to be rotated.
    Rotate(Box<Key>),
    /// Its time is further ahead than any rotation puts it: a clock was wrong. It is to come a period from now.
    Anew(Box<Key>),
}

impl Kms {
    /// A key that is due, the one that is so for longest first.
    ///
    /// # Errors
    /// The store's. What is wrong with one key does not stop the others.
    pub(crate) fn next_due(&self) -> Result<Option<DueKey>, Error> {
        let resting = OnUnwind(|| self.state.rotations.known().pause(self.clock().steady_ms()));
        self.read_rotations()?;
        self.state.rotations.known().clock_went_back(self.now_ms());
        drop(resting);
        for _ in 0..LOOKS_MAX {
            let _changing = self.changing();
            let Some(look) = self.state.rotations.known().first(self.now_ms()) else {
                return Ok(None);
            };
            // The next one is looked at all the same.
            let _paused = OnUnwind(|| self.defer_rotations(&look));
            let path = key_path_at(&look.tenant, &look.uuid)?;
            match opened::<Key>(&self.context, &path) {
                Ok(Some((key, _))) => {
                    if let Some(due) = self.inspect(&look, key) {
                        return Ok(Some(due));
                    }
                }
                Ok(None) | Err(Error::Destroyed) => self.remove_rotation(&look),
                Err(error) if is_of_all(&error) => return Err(error),
                Err(_) => self.defer_rotations(&look),
            }
        }
        Ok(None)
    }

    /// What is to be done with a key as its record says, if anything. Where nothing is, it is looked at later.
    fn inspect(&self, look: &RotationCheck, key: Key) -> Option<DueKey> {
        let (now_ms, mut known) = (self.now_ms(), self.state.rotations.known());
        let Some(due) = key.due() else {
            drop(known);
            self.remove_rotation(look);
            return None;
        };
        if key.check_not_expired(now_ms).is_err() {
            known.mark_healthy(&look.uuid);
            let later = now_ms.saturating_add(EXPIRED_MS);
            known.put_at(&look.tenant, look.uuid, due, later, now_ms);
            return None;
        }
        if due.at_ms <= now_ms {
            return Some(DueKey::Rotate(key.into()));
        }
        if due.is_too_far(now_ms) {
            return Some(DueKey::Anew(key.into()));
        }
        known.mark_healthy(&look.uuid);
        let doubted = match self.state.cache.is_doubtful(&look.uuid) {
            true => now_ms.saturating_add(DOUBT_MS),
            false => u64::MAX,
        };
        known.put_at(&look.tenant, look.uuid, due, due.at_ms.min(doubted), now_ms);
        None
    }

    /// Forgets a key that is not rotated by the clock, unless a change may still make it so.
    fn remove_rotation(&self, look: &RotationCheck) {
        let (now_ms, mut known) = (self.now_ms(), self.state.rotations.known());
        known.remove(&look.uuid);
        if self.state.cache.is_doubtful(&look.uuid) {
            let again = now_ms.saturating_add(DOUBT_MS);
            known.put_at(&look.tenant, look.uuid, unknown(now_ms), again, now_ms);
        }
    }

    fn defer_rotations(&self, look: &RotationCheck) {
        let (now_ms, mut known) = (self.now_ms(), self.state.rotations.known());
        let again = known.failed(look.uuid, now_ms);
        known.put_at(&look.tenant, look.uuid, unknown(now_ms), again, now_ms);
    }

    /// Rotates a key that is due, if it still is.
    ///
    /// # Errors
    /// [`Error::Conflict`]: it is not due any more. As [`Self::rotate`].
    pub(crate) fn rotate_if_due(&self, id: &KeyId) -> Result<VersionId, Error> {
        let check = |key: &Key| {
            key.check_not_expired(self.now_ms())?;
            match key.due() {
                Some(due) if due.at_ms <= self.now_ms() => Ok(()),
                Some(_) | None => Err(Error::Conflict),
            }
        };
        self.counted(Verb::Rotate, id.algorithm, || {
            check(&self.key(id)?.key)?;
            let new = self.next_version(id)?;
            // Whoever rotated it while that was made has moved its time.
            self.rotate_to_if(id, &new, check)
        })
    }

    /// Has a key whose time is too far ahead rotated a period from now.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn reschedule(&self, id: &KeyId) -> Result<(), Error> {
        self.change(id, |key| match key.due() {
            Some(due) if due.is_too_far(self.now_ms()) => Ok(key.reschedule(self.now_ms())),
            Some(_) | None => Err(Error::Conflict),
        })
    }

    /// Notes that a key that was due is not any more, and whether it was rotated.
    pub(crate) fn finish_due(&self, id: &KeyId, is_rotated: bool) {
        let mut known = self.state.rotations.known();
        known.resume();
        known.mark_healthy(&id.uuid);
        known.done += u64::from(is_rotated);
    }

    /// Notes that a panic cut off what was to be done with a key that was due: it is tried again later.
    pub(crate) fn defer_due(&self, id: &KeyId) {
        let _changing = self.changing();
        self.defer_rotations(&look_of(id));
    }

    /// Notes that nothing came of a key that was due, and says whether it still is: then it is tried again later. Where
    /// somebody else was first nothing failed.
    ///
    /// # Errors
    /// The error itself, where it is the store's or the audit log's, and none of the key's.
    pub(crate) fn fail_due(&self, id: &KeyId, error: Error) -> Result<bool, Error> {
        if is_of_all(&error) {
            return Err(error);
        }
        let look = look_of(id);
        let _changing = self.changing();
        let is_due = match opened::<Key>(&self.context, &key_path(id)?) {
            Ok(Some((key, _))) => self.inspect(&look, key).is_some(),
            Ok(None) | Err(Error::Destroyed) => {
                self.remove_rotation(&look);
                false
            }
            Err(error) if is_of_all(&error) => return Err(error),
            Err(_) => true,
        };
        if is_due {
            self.defer_rotations(&look);
        }
        Ok(is_due)
    }

    /// Reads when keys are due, once. What was read before an error is not read again.
    fn read_rotations(&self) -> Result<(), Error> {
        let under = RecordPath::new("rotations")?;
        loop {
            // No change is under way while a page is read, so that what is noted of it is what the store has.
            let _changing = self.changing();
            let after = match self.state.rotations.known().read.clone() {
                ReadProgress::NotYet => None,
                ReadProgress::UpTo(path) => Some(path),
                ReadProgress::All => return Ok(()),
            };
            let next = match self.context.store.list(&under, after.as_ref(), PAGE) {
                Ok(Page { records, .. }) => {
                    for (path, record) in &records {
                        let Some(value) = &record.value else { continue };
                        let plain = self.context.sealer.open(path, record.generation, value);
                        let read = plain.and_then(|plain| {
                            serde_json::from_slice::<Option<RotationTime>>(&plain)
                                .map_err(|error| damaged(path, &error.to_string()))
                        });
                        self.read_one(path, read.ok());
                    }
                    records.last().map(|(path, _)| path.clone())
                }
                // That one's key says when it is due.
                Err(StoreError::Damaged(path)) => {
                    let path = RecordPath::new(path)?;
                    if !path.is_under(&under) || after.as_ref().is_some_and(|after| path <= *after)
                    {
                        return Err(StoreError::Damaged(path.to_string()).into());
                    }
                    self.read_one(&path, None);
                    Some(path)
                }
                Err(error) => return Err(error.into()),
            };
            self.state.rotations.known().read = next.map_or(ReadProgress::All, ReadProgress::UpTo);
        }
    }

    /// Notes what a record says, if it can be read.
    fn read_one(&self, path: &RecordPath, read: Option<Option<RotationTime>>) {
        let mut parts = path.as_str().split('/').skip(1);
        let tenant = parts.next().and_then(|tenant| Label::new("tenant", tenant).ok());
        let uuid = parts.next().and_then(|uuid| uuid.parse().ok());
        let (Some(tenant), Some(uuid), now_ms) = (tenant, uuid, self.now_ms()) else { return };
        if self.state.cache.is_doubtful(&uuid) {
            // It is looked at soon, and may be another by then.
            return;
        }
        let mut known = self.state.rotations.known();
        match read {
            Some(Some(due)) => known.put(&tenant, uuid, due, now_ms),
            Some(None) => known.remove(&uuid),
            None => known.put_at(&tenant, uuid, unknown(now_ms), now_ms, now_ms),
        }
    }

    /// Commits a change of a key's record, and with it when the key is due. A key that is made has no record before, and one
    /// that is destroyed none after it. To be called by whoever holds the lock of changes.
    pub(super) fn commit_key(
        &self,
        (before, after): (Option<&Key>, Option<&Key>),
        transaction: Transaction,
        made: &dyn Display,
    ) -> Result<(), Error> {
        let Some(Key { id, .. }) = before.or(after) else { return Err(Error::Conflict) };
        let [from, to] = [before, after].map(|key| key.and_then(Key::due));
        let ends = [before, after].map(|key| key.and_then(|key| key.expires_ms));
        if from == to && after.is_some() {
            self.commit_made(id, &transaction, made)?;
            if let Some(due) = to.filter(|_| ends[0] != ends[1]) {
                // It may have more time now.
                self.state.rotations.known().put(&id.tenant, id.uuid, due, self.now_ms());
            }
            return Ok(());
        }
        let path = rotation_path(id)?;
        let read = self.context.store.read(std::slice::from_ref(&path))?;
        let kept = read.records.into_iter().next().flatten();
        let generation = kept.as_ref().map_or(0, |record| record.generation);
        let transaction = match (after, kept) {
            (Some(_), _) => {
                let value = sealed(&self.context, &path, generation + 1, &to)?;
                transaction.put(path, generation, value)
            }
            (None, Some(record)) if record.value.is_some() => transaction.bury(path, generation),
            (None, _) => transaction,
        };
        let doubtful = OnUnwind(|| self.recheck_soon(id));
        let committed = self.commit_made(id, &transaction, made);
        drop(doubtful);
        let (now_ms, mut known) = (self.now_ms(), self.state.rotations.known());
        match (&committed, to) {
            (Ok(()), Some(due)) => {
                known.mark_healthy(&id.uuid);
                known.put(&id.tenant, id.uuid, due, now_ms);
            }
            (Ok(()), None) => known.remove(&id.uuid),
            (Err(Error::OutcomeUnknown), _) => {
                drop(known);
                self.recheck_soon(id);
            }
            (Err(_), _) => {}
        }
        committed
    }

    /// Has a key looked at soon whose change may still happen.
    fn recheck_soon(&self, id: &KeyId) {
        let now_ms = self.now_ms();
        let again = now_ms.saturating_add(DOUBT_MS);
        self.state.rotations.known().put_at(&id.tenant, id.uuid, unknown(now_ms), again, now_ms);
    }
}

/// Of a key whose time is not known: it is looked at when it is time for that.
fn unknown(now_ms: u64) -> RotationTime {
    RotationTime { at_ms: now_ms, period_s: ROTATE_PERIOD_MIN_S }
}

fn look_of(id: &KeyId) -> RotationCheck {
    RotationCheck { tenant: id.tenant.clone().into(), uuid: id.uuid }
}

fn key_path_at(tenant: &Label, uuid: &Uuid) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("keys/{tenant}/{uuid}"))?)
}

/// Whether an error is the store's or the audit log's, and so one of every key.
fn is_of_all(error: &Error) -> bool {
    match error {
        Error::Store(error) => matches!(
            error,
            StoreError::Full
                | StoreError::Unavailable(_)
                | StoreError::Corrupt(_)
                | StoreError::Foreign(_)
                | StoreError::TooOld { .. }
                | StoreError::Forked
        ),
        Error::Audit(_) => true,
        _ => false,
    }
}
