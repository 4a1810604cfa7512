//! The core of the service: engine, store, sealer, and the cache of keys.

use std::fmt::Display;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use gabion_engine::{Config, Engine, SigningKey, forks};

use super::cache::{Cache, KeyView, VersionView};
use super::companion::Companion;
use super::context::{StoreContext, settle_with};
use super::metrics::{Metrics, Verb};
use super::names::Names;
use super::nonce_blocks::NonceBlocks;
use super::records;
use super::rotations::Rotations;
use super::unwind::OnUnwind;
use super::wrappers::Wrappers;
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::model::{KeyAlgorithm, KeyId, Label, Use, VersionId};
use crate::seal::{AuthenticatedStore, Sealer};
use crate::store::{SettleOutcome, Store, StoreError, Transaction};

/// The configuration of a [`Kms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The approximate maximum size of expanded keys in bytes. The least recently used ones are
    /// evicted first.
    pub cache_bytes_max: usize,
    /// The number of threads for large batches of signatures, including the calling one. The
    /// threads run only for the duration of the call. Batches that are too small for a second
    /// thread run on the calling one.
    pub threads: NonZero<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options { cache_bytes_max: 64 << 20, threads: NonZero::<usize>::MIN }
    }
}

/// A store of versioned keys and the operations on them. All records are sealed.
///
/// # Examples
/// ```
/// use gabion_kms::model::Label;
/// use gabion_kms::operations::{Kms, NewKey};
/// use gabion_kms::Message;
///
/// let kms = Kms::in_memory()?;
/// let [tenant, purpose, name] = ["default", "transit", "firmware"].map(|text| Label::new("key", text));
/// let (tenant, purpose, name) = (tenant?, purpose?, name?);
/// let algorithm = "ml-dsa-65".parse()?;
/// let id = kms.create(&NewKey { tenant, purpose, name, algorithm })?;
/// let message = Message::Pure { context: b"", message: b"image" };
/// let signed = kms.sign(&id.key, None, message)?;
/// assert!(kms.verify(&signed.by, message, &signed.signature)?);
/// # Ok::<(), gabion_kms::Error>(())
/// ```
pub struct Kms {
    pub(super) context: StoreContext,
    /// The number of threads for large batches.
    pub(super) threads: NonZero<usize>,
    pub(super) state: Arc<KmsState>,
    clock: Arc<dyn Clock>,
}

/// The caches, counters and locks that all handles of a service share.
pub(super) struct KmsState {
    pub(super) cache: Cache,
    pub(super) left: NonceBlocks,
    pub(super) names: Names,
    /// The state of automatic rotation.
    pub(super) rotations: Rotations,
    /// The key that signs descriptions of keys, and the header of its signatures. It is generated
    /// once for a store.
    pub(super) attestation: OnceLock<(String, SigningKey)>,
    /// The keys for which clients wrap imported keys.
    pub(super) wrappers: Wrappers,
    metrics: Metrics,
    /// The revision of the last change that was seen to be committed.
    revision: AtomicU64,
    /// Serializes changes. Uses do not take this lock.
    changes: Mutex<()>,
    /// The token of the process that created it. In a forked process the cache would become
    /// outdated.
    process: Option<u64>,
}

impl Kms {
    /// Creates a service on an unsealed store. No other service may use the store at the same time.
    ///
    /// # Errors
    /// A seal of another store, or a volatile seal of a store that outlives it;
    /// [`Error::Integrity`] if records of the store were removed or rolled back; errors of the
    /// engine, such as an unknown backend in the environment.
    pub fn new(store: Arc<dyn Store>, sealer: Sealer, options: Options) -> Result<Self, Error> {
        sealer.check_fits(&*store)?;
        let config = Config { verify_after_sign: true, ..Config::from_environment() };
        let engine = Arc::new(Engine::new(&config)?);
        let sealer = Arc::new(sealer);
        let records = Arc::new(AuthenticatedStore::open(store, sealer.clone())?);
        let store: Arc<dyn Store> = records.clone();
        let revision = AtomicU64::new(store.read(&[])?.revision.0);
        Ok(Kms {
            context: StoreContext { engine, store, records, sealer, companion: None },
            threads: options.threads,
            state: Arc::new(KmsState {
                cache: Cache::new(options.cache_bytes_max),
                left: NonceBlocks::default(),
                names: Names::default(),
                rotations: Rotations::default(),
                attestation: OnceLock::new(),
                wrappers: Wrappers::default(),
                metrics: Metrics::new(),
                revision,
                changes: Mutex::new(()),
                process: forks::token(),
            }),
            clock: Arc::new(SystemClock),
        })
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Kms { clock, ..self }
    }

    /// Returns a handle of the same service whose first change commits the companion record with
    /// it. Changes of other handles never do.
    pub(crate) fn with(&self, companion: Arc<Companion>) -> Self {
        Kms {
            context: StoreContext { companion: Some(companion), ..self.context.clone() },
            threads: self.threads,
            state: self.state.clone(),
            clock: self.clock.clone(),
        }
    }

    /// Returns the clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Creates a service that ends with the process and writes nothing to disk.
    ///
    /// # Errors
    /// Those of [`Self::new`]; no randomness.
    pub fn in_memory() -> Result<Self, Error> {
        let store = Arc::new(crate::store::MemoryStore::new());
        let sealer = Sealer::volatile(store.identity().id)?;
        Self::new(store, sealer, Options::default())
    }

    /// Returns the state of automatic rotation.
    pub(crate) fn rotations(&self) -> &Rotations {
        &self.state.rotations
    }

    /// Returns the context.
    pub(crate) fn context(&self) -> &StoreContext {
        &self.context
    }

    /// Returns the current key with a name; `None` if it does not exist.
    pub(crate) fn about(&self, tenant: &Label, name: &str) -> Result<Option<KeyView>, Error> {
        let name = Label::new("key", name)?;
        match self.find(tenant, &name).and_then(|id| self.key(&id)) {
            Ok(view) => Ok(Some(view)),
            Err(Error::NoKey(_) | Error::Destroyed) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that a version may still be used in this way, before the result of its use is
    /// released.
    pub(crate) fn still_may(
        &self,
        id: &KeyId,
        number: u32,
        what: Use,
        was_newest: bool,
    ) -> Result<(), Error> {
        self.check_use(id, number, what, was_newest).map(drop)
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.context.engine
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.state.metrics
    }

    /// Returns a revision of the store that every later answer takes into account.
    pub fn revision(&self) -> u64 {
        self.state.revision.load(Ordering::Acquire)
    }

    /// Notes the store's current revision. A failed read does not affect committed changes.
    pub(crate) fn raise_revision(&self) {
        if let Ok(read) = self.context.store.read(&[]) {
            self.state.revision.fetch_max(read.revision.0, Ordering::AcqRel);
        }
    }

    /// Returns the approximate size of cached expanded keys in bytes.
    pub fn cached_bytes(&self) -> usize {
        self.state.cache.bytes()
    }

    /// Runs, counts and times an operation.
    pub(super) fn counted<T>(
        &self,
        verb: Verb,
        algorithm: impl Into<Option<KeyAlgorithm>>,
        run: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let start = Instant::now();
        let ran = run();
        self.told(verb, algorithm, start, &ran);
        ran
    }

    /// Counts an operation that began at a given time. An item of a batch takes as long as the
    /// batch.
    pub(super) fn told<T>(
        &self,
        verb: Verb,
        algorithm: impl Into<Option<KeyAlgorithm>>,
        start: Instant,
        ran: &Result<T, Error>,
    ) {
        let code = ran.as_ref().err().map(Error::code);
        self.state.metrics.count(verb, algorithm.into(), code, start.elapsed());
    }

    /// Uses a version, and checks again afterwards: if the permission was withdrawn meanwhile, the
    /// result is not released.
    pub(super) fn used<T>(
        &self,
        VersionId { key, version }: &VersionId,
        what: Use,
        was_newest: bool,
        run: impl FnOnce(&VersionView) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let before = self.state.cache.epoch();
        let (_, view) = self.check_use(key, *version, what, was_newest)?;
        let made = run(&view)?;
        if self.state.cache.epoch() != before {
            self.check_use(key, *version, what, was_newest)?;
        }
        Ok(made)
    }

    /// Returns the milliseconds since 1970, by a clock that may be wrong.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Takes the lock of changes.
    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        self.state.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a change of a key, and removes the key from the cache regardless of the outcome.
    pub(super) fn commit(&self, key: &KeyId, transaction: &Transaction) -> Result<(), Error> {
        self.commit_made(key, transaction, key)
    }

    /// Commits a change with the result `made`, which the companion record gets.
    pub(super) fn commit_made(
        &self,
        key: &KeyId,
        transaction: &Transaction,
        made: &dyn Display,
    ) -> Result<(), Error> {
        self.check_process()?;
        // If a panic interrupts the commit, its outcome is unknown.
        let doubtful = OnUnwind(|| self.state.cache.doubt(&key.uuid, transaction));
        let settled = settle_with(&self.context, transaction, made);
        drop(doubtful);
        match settled {
            Ok(SettleOutcome::Committed) => {
                self.state.cache.changed(&key.uuid, transaction);
                self.raise_revision();
                Ok(())
            }
            Ok(SettleOutcome::Conflict(_)) => {
                self.state.cache.forget(&key.uuid);
                Err(Error::Conflict)
            }
            Ok(SettleOutcome::Unknown) => {
                self.state.cache.doubt(&key.uuid, transaction);
                Err(Error::OutcomeUnknown)
            }
            Err(error) => {
                self.state.cache.forget(&key.uuid);
                Err(error)
            }
        }
    }

    /// Fails in a forked process, which would not notice changes.
    fn check_process(&self) -> Result<(), Error> {
        match forks::token() == self.state.process {
            true => Ok(()),
            false => Err(StoreError::Forked.into()),
        }
    }

    /// Returns the current key. An id with the right UUID but another tenant, purpose or algorithm
    /// is not found.
    pub(super) fn key(&self, id: &KeyId) -> Result<KeyView, Error> {
        self.check_process()?;
        let view = match self.state.cache.key(&id.uuid) {
            Some(view) => view,
            None => self.state.cache.load_key(&id.uuid, || records::read_key(&self.context, id))?,
        };
        match view.key.id == *id {
            true => Ok(view),
            false => Err(Error::NoKey(id.to_string())),
        }
    }

    /// Returns the current version of a key.
    pub(super) fn version(&self, id: &KeyId, number: u32) -> Result<VersionView, Error> {
        match self.state.cache.version(&id.uuid, number) {
            Some(view) => Ok(view),
            None => self.state.cache.load_version(&id.uuid, number, || {
                records::read_version(&self.context, id, number)
            }),
        }
    }
}
