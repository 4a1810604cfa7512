//! What is kept of keys between two uses, bounded in bytes.
//!
//! A change forgets the views of its key, under the same lock that views are put in by, and counts the epoch up. A view
//! that was read before that is not put in: whoever reads notes the epoch first. Of a key with a change whose outcome
//! nobody knows nothing is put in until a later change has settled it: it may still happen.

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

/// A version, expanded.
#[derive(Clone)]
pub struct VersionView(Arc<ExpandedVersion>);

/// A version with its expanded key.
pub struct ExpandedVersion {
    pub version: Version,
    pub material: Material,
    /// What its keys for tags are derived from. `None` if the version has no secret, or is a key for tags itself.
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

/// Views of keys.
pub struct Cache {
    epoch: AtomicU64,
    /// Counts uses: what was not used for longest has the smallest number.
    clock: AtomicU64,
    bytes_max: usize,
    kept: RwLock<CacheState>,
}

#[derive(Default)]
struct CacheState {
    keys: HashMap<Uuid, CacheEntry>,
    bytes: usize,
    /// The records of changes that may still happen, a change an entry.
    doubtful: HashMap<Uuid, Vec<Vec<RecordPath>>>,
}

/// The cached views of one key.
struct CacheEntry {
    view: Option<KeyView>,
    versions: HashMap<u32, VersionView>,
    bytes: usize,
    used: AtomicU64,
}

/// Bytes of a key's view and of its place, about.
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

    /// How many changes there were.
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

    /// Reads a key's view and keeps it.
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

    /// Reads a version's view and keeps it.
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

    /// Forgets a key, before it is known what became of a change.
    pub fn forget(&self, uuid: &Uuid) {
        self.forgotten(uuid, |_| {});
    }

    /// Forgets a key, and keeps nothing of it any more: the change may still happen.
    pub fn doubt(&self, uuid: &Uuid, change: &Transaction) {
        let records = change.writes().iter().map(|write| write.path.clone()).collect();
        self.forgotten(uuid, |kept| kept.doubtful.entry(*uuid).or_default().push(records));
    }

    /// Whether a change of a key may still happen.
    pub fn is_doubtful(&self, uuid: &Uuid) -> bool {
        self.kept().doubtful.contains_key(uuid)
    }

    /// Forgets a key after a change that happened. Others of the same records can't happen any more: they were to
    /// replace what is gone.
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

    /// Bytes that are kept, about.
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
        // What may be old already is used once: whoever does looks again afterwards.
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

    /// Lets go of what was not used for longest, an eighth of it at a time, so that not each new key pays for a look
    /// at all of them.
    fn bound(&self, kept: &mut CacheState) {
        if kept.bytes <= self.bytes_max {
            return;
        }
        let mut by_use: Vec<(u64, Uuid)> =
            kept.keys.iter().map(|(uuid, of)| (of.used.load(Ordering::Relaxed), *uuid)).collect();
        by_use.sort_unstable();
        let wanted = self.bytes_max - self.bytes_max / 8;
        // The newest stays: it is about to be used.
        let newest = by_use.pop();
        for (_, uuid) in by_use {
            if kept.bytes <= wanted {
                break;
            }
            if let Some(of) = kept.keys.remove(&uuid) {
                kept.bytes -= of.bytes;
            }
        }
        // But not the versions of one that fills it all alone.
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
