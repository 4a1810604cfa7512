//! A cache of keys and expanded versions, bounded in bytes.
//!
//! A change removes the views of its key and increments the epoch, under the lock that guards
//! insertions. A view that was read before the change is not inserted: readers note the epoch
//! before they read. While the outcome of a key's change is unknown, the key is not cached, because
//! the change may still be applied. A later change settles that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::material::Material;
use crate::error::Error;
use crate::model::{Key, Uuid, Version};
use crate::store::{RecordPath, Transaction};
use crate::symmetric::TagRoot;

/// A key, and the generation of its record.
#[derive(Clone)]
pub struct KeyView {
    pub key: Arc<Key>,
    pub generation: u64,
}

/// An expanded version.
#[derive(Clone)]
pub struct VersionView(Arc<ExpandedVersion>);

/// A version with its expanded key.
pub struct ExpandedVersion {
    pub version: Version,
    pub material: Material,
    /// The root of the version's derived HMAC keys. `None` if the version has no secret, or is an
    /// HMAC key itself.
    pub tag_root: Option<TagRoot>,
}

impl VersionView {
    pub fn new(expanded: ExpandedVersion) -> Self {
        VersionView(Arc::new(expanded))
    }
}

impl std::ops::Deref for VersionView {
    type Target = ExpandedVersion;

    fn deref(&self) -> &ExpandedVersion {
        &self.0
    }
}

/// The cache of views.
pub struct Cache {
    epoch: AtomicU64,
    /// Counts uses: the least recently used view has the smallest number.
    clock: AtomicU64,
    bytes_max: usize,
    kept: RwLock<CacheState>,
}

#[derive(Default)]
struct CacheState {
    keys: HashMap<Uuid, CacheEntry>,
    bytes: usize,
    /// The records of changes that may still be applied, one entry for each change.
    doubtful: HashMap<Uuid, Vec<Vec<RecordPath>>>,
}

/// The cached views of one key.
struct CacheEntry {
    view: Option<KeyView>,
    versions: HashMap<u32, VersionView>,
    bytes: usize,
    used: AtomicU64,
}

/// The approximate size of a key's view and its entry in bytes.
const KEY_BYTES: usize = 1024;

impl Cache {
    pub fn new(bytes_max: usize) -> Self {
        Cache {
            epoch: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            bytes_max,
            kept: RwLock::default(),
        }
    }

    /// Returns the number of changes so far.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub fn key(&self, uuid: &Uuid) -> Option<KeyView> {
        let kept = self.kept();
        let of = kept.keys.get(uuid)?;
        of.used.store(self.tick(), Ordering::Relaxed);
        of.view.clone()
    }

    pub fn version(&self, uuid: &Uuid, number: u32) -> Option<VersionView> {
        self.kept().keys.get(uuid)?.versions.get(&number).cloned()
    }

    /// Reads a key's view and caches it.
    pub fn load_key(
        &self,
        uuid: &Uuid,
        read: impl FnOnce() -> Result<KeyView, Error>,
    ) -> Result<KeyView, Error> {
        self.load(uuid, read, |kept, view: &KeyView| {
            let of = self.place(kept, uuid);
            of.view = Some(view.clone());
        })
    }

    /// Reads a version's view and caches it.
    pub fn load_version(
        &self,
        uuid: &Uuid,
        number: u32,
        read: impl FnOnce() -> Result<VersionView, Error>,
    ) -> Result<VersionView, Error> {
        self.load(uuid, read, |kept, view: &VersionView| {
            let bytes = KEY_BYTES + view.material.bytes();
            let of = self.place(kept, uuid);
            if of.versions.insert(number, view.clone()).is_none() {
                of.bytes += bytes;
                kept.bytes += bytes;
            }
        })
    }

    /// Removes a key, before the outcome of a change is known.
    pub fn forget(&self, uuid: &Uuid) {
        self.forgotten(uuid, |_| {});
    }

    /// Removes a key and stops caching it, because the change may still be applied.
    pub fn doubt(&self, uuid: &Uuid, change: &Transaction) {
        let records = change.writes().iter().map(|write| write.path.clone()).collect();
        self.forgotten(uuid, |kept| kept.doubtful.entry(*uuid).or_default().push(records));
    }

    /// Returns whether a change of a key may still be applied.
    pub fn is_doubtful(&self, uuid: &Uuid) -> bool {
        self.kept().doubtful.contains_key(uuid)
    }

    /// Removes a key after a committed change. Other changes of the same records cannot be applied
    /// anymore, because the generations that they replace are gone.
    pub fn changed(&self, uuid: &Uuid, change: &Transaction) {
        self.forgotten(uuid, |kept| {
            let Some(doubtful) = kept.doubtful.get_mut(uuid) else { return };
            let is_settled =
                |path: &RecordPath| change.writes().iter().any(|write| write.path == *path);
            doubtful.retain(|records| !records.iter().any(is_settled));
            if doubtful.is_empty() {
                kept.doubtful.remove(uuid);
            }
        });
    }

    fn forgotten(&self, uuid: &Uuid, and: impl FnOnce(&mut CacheState)) {
        let mut kept = self.kept_mut();
        if let Some(of) = kept.keys.remove(uuid) {
            kept.bytes -= of.bytes;
        }
        and(&mut kept);
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the approximate size of the cache in bytes.
    pub fn bytes(&self) -> usize {
        self.kept().bytes
    }

    fn load<V>(
        &self,
        uuid: &Uuid,
        read: impl FnOnce() -> Result<V, Error>,
        keep: impl FnOnce(&mut CacheState, &V),
    ) -> Result<V, Error> {
        let before = self.epoch();
        let view = read()?;
        let mut kept = self.kept_mut();
        // A view that may be outdated is used only once: its user checks again afterwards.
        if self.epoch() == before && !kept.doubtful.contains_key(uuid) {
            keep(&mut kept, &view);
            self.bound(&mut kept);
        }
        Ok(view)
    }

    fn place<'k>(&self, kept: &'k mut CacheState, uuid: &Uuid) -> &'k mut CacheEntry {
        let CacheState { keys, bytes, .. } = kept;
        keys.entry(*uuid).or_insert_with(|| {
            *bytes += KEY_BYTES;
            let used = AtomicU64::new(self.tick());
            CacheEntry { view: None, versions: HashMap::new(), bytes: KEY_BYTES, used }
        })
    }

    /// Evicts the least recently used views, an eighth of the cache at a time, so that not every
    /// new key pays for a scan of all entries.
    fn bound(&self, kept: &mut CacheState) {
        if kept.bytes <= self.bytes_max {
            return;
        }
        let mut by_use: Vec<(u64, Uuid)> =
            kept.keys.iter().map(|(uuid, of)| (of.used.load(Ordering::Relaxed), *uuid)).collect();
        by_use.sort_unstable();
        let wanted = self.bytes_max - self.bytes_max / 8;
        // Keep the newest view, which is about to be used.
        let newest = by_use.pop();
        for (_, uuid) in by_use {
            if kept.bytes <= wanted {
                break;
            }
            if let Some(of) = kept.keys.remove(&uuid) {
                kept.bytes -= of.bytes;
            }
        }
        // But drop its versions if it alone exceeds the cache.
        if kept.bytes > self.bytes_max
            && let Some(of) = newest.and_then(|(_, uuid)| kept.keys.get_mut(&uuid))
        {
            of.versions.clear();
            kept.bytes -= of.bytes - KEY_BYTES;
            of.bytes = KEY_BYTES;
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn kept(&self) -> RwLockReadGuard<'_, CacheState> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_mut(&self) -> RwLockWriteGuard<'_, CacheState> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}
