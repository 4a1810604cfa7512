//! Automatic rotation: which keys are due, and their next versions.

use std::fmt::Display;

use super::kms::Kms;
use super::metrics::Verb;
use super::records::{damaged, key_path, opened, rotation_path, sealed};
use super::rotations::{PATIENCE_MS, ReadProgress, RotationCheck};
use super::unwind::OnUnwind;
use crate::error::Error;
use crate::model::{Key, KeyId, Label, ROTATE_PERIOD_MIN_S, RotationTime, Uuid, VersionId};
use crate::store::{Page, RecordPath, StoreError, Transaction};

/// The number of records that are read at once.
const PAGE: usize = 500;

/// The maximum number of consecutive keys that turn out not to be due in one call.
const LOOKS_MAX: usize = 1000;

/// The interval at which a key whose change has an unknown outcome is checked again, in
/// milliseconds.
const DOUBT_MS: u64 = 60 * 1000;

/// The interval at which an expired key is checked again, in milliseconds: its expiry may be
/// changed, or the clock be wrong.
const EXPIRED_MS: u64 = 24 * PATIENCE_MS;

/// The action for a key whose rotation time has come.
pub enum DueKey {
    /// Rotate it.
    Rotate(Box<Key>),
    /// Its time is further ahead than any rotation sets it, because a clock was wrong. Set it to
    /// one period from now.
    Anew(Box<Key>),
}

impl Kms {
    /// Returns the key that is overdue for longest, if any.
    ///
    /// # Errors
    /// Errors of the store. An error of a single key does not stop the others.
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
            // If this check panics, later calls continue with the next key.
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

    /// Returns the action for a key according to its record. If it returns `None`, the key is
    /// checked later.
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

    /// Forgets a key that is not rotated automatically, unless a change with an unknown outcome may
    /// still enable that.
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

    /// Rotates a key if it is still due.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it is no longer due; those of [`Self::rotate`].
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
            // Another rotation in the meantime has changed the time.
            self.rotate_to_if(id, &new, check)
        })
    }

    /// Schedules the rotation of a key whose time is too far ahead for one period from now.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn reschedule(&self, id: &KeyId) -> Result<(), Error> {
        self.change(id, |key| match key.due() {
            Some(due) if due.is_too_far(self.now_ms()) => Ok(key.reschedule(self.now_ms())),
            Some(_) | None => Err(Error::Conflict),
        })
    }

    /// Notes that a due key was handled, and whether it was rotated.
    pub(crate) fn finish_due(&self, id: &KeyId, is_rotated: bool) {
        let mut known = self.state.rotations.known();
        known.resume();
        known.mark_healthy(&id.uuid);
        known.done += u64::from(is_rotated);
    }

    /// Notes that a panic interrupted the handling of a due key, so that it is tried again later.
    pub(crate) fn defer_due(&self, id: &KeyId) {
        let _changing = self.changing();
        self.defer_rotations(&look_of(id));
    }

    /// Notes that handling a due key failed. Returns whether it is still due; then it is tried
    /// again later. If another call was faster, that is not a failure.
    ///
    /// # Errors
    /// The error itself, if it is one of the store or the audit log instead of the key.
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

    /// Reads the rotation times from the store, once. After an error it continues where it stopped.
    fn read_rotations(&self) -> Result<(), Error> {
        let under = RecordPath::new("rotations")?;
        loop {
            // No change runs while a page is read, so the notes match the store.
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
                // The record of the key itself says when it is due.
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

    /// Notes the content of a record, if it is readable.
    fn read_one(&self, path: &RecordPath, read: Option<Option<RotationTime>>) {
        let mut parts = path.as_str().split('/').skip(1);
        let tenant = parts.next().and_then(|tenant| Label::new("tenant", tenant).ok());
        let uuid = parts.next().and_then(|uuid| uuid.parse().ok());
        let (Some(tenant), Some(uuid), now_ms) = (tenant, uuid, self.now_ms()) else { return };
        if self.state.cache.is_doubtful(&uuid) {
            // It is checked soon, and may have another state by then.
            return;
        }
        let mut known = self.state.rotations.known();
        match read {
            Some(Some(due)) => known.put(&tenant, uuid, due, now_ms),
            Some(None) => known.remove(&uuid),
            None => known.put_at(&tenant, uuid, unknown(now_ms), now_ms, now_ms),
        }
    }

    /// Commits a change of a key's record together with its rotation time. `before` is `None` for a
    /// new key, `after` for a destroyed one. The caller must hold the lock of changes.
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
                // The expiry may be later now.
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

    /// Schedules an early check of a key whose change has an unknown outcome.
    fn recheck_soon(&self, id: &KeyId) {
        let now_ms = self.now_ms();
        let again = now_ms.saturating_add(DOUBT_MS);
        self.state.rotations.known().put_at(&id.tenant, id.uuid, unknown(now_ms), again, now_ms);
    }
}

/// Returns the time for a key whose rotation time is unknown: it is checked now.
fn unknown(now_ms: u64) -> RotationTime {
    RotationTime { at_ms: now_ms, period_s: ROTATE_PERIOD_MIN_S }
}

fn look_of(id: &KeyId) -> RotationCheck {
    RotationCheck { tenant: id.tenant.clone().into(), uuid: id.uuid }
}

fn key_path_at(tenant: &Label, uuid: &Uuid) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("keys/{tenant}/{uuid}"))?)
}

/// Returns whether an error is one of the store or the audit log, and so affects all keys.
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
