//! The service's heart: engine, store, seal, and what is kept of keys.

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

/// How a service is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most bytes that expanded keys may take, about. The ones that were not used for longest go first.
    pub cache_bytes_max: usize,
    /// Threads that a large batch is signed or verified on, the calling one included. They start and end with the call, and
    /// a batch that is too small for a second one stays on the first.
    pub threads: NonZero<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options { cache_bytes_max: 64 << 20, threads: NonZero::<usize>::MIN }
    }
}

/// Keys with versions, and what is done with them. Everything is sealed before it is kept.
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
    /// Of a large batch.
    pub(super) threads: NonZero<usize>,
    pub(super) state: Arc<KmsState>,
    clock: Arc<dyn Clock>,
}

/// The caches, counters and locks that all handles of a service share.
pub(super) struct KmsState {
    pub(super) cache: Cache,
    pub(super) left: NonceBlocks,
    pub(super) names: Names,
    /// What the clock has rotated, and when.
    pub(super) rotations: Rotations,
    /// What signs descriptions, and the head of its signatures. It is made once for a store.
    pub(super) attestation: OnceLock<(String, SigningKey)>,
    /// What others wrap keys for.
    pub(super) wrappers: Wrappers,
    metrics: Metrics,
    /// Of the last change that was seen to be committed.
    revision: AtomicU64,
    /// One change at a time. Uses don't wait for it.
    changes: Mutex<()>,
    /// The token of the process that made it: what another one knows of keys gets old there.
    process: Option<u64>,
}

impl Kms {
    /// A service over an unsealed store. No other may use the store at the same time.
    ///
    /// # Errors
    /// A seal of another store, or a volatile one over a store that outlives it; [`Error::Integrity`] of a store from which
    /// records were removed, or to which older ones were put back; the engine's: there is no backend of
    /// the name that the environment asks for.
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

    /// The same by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Kms { clock, ..self }
    }

    /// Returns a handle of the same service whose first change commits the companion record with it. Changes of other handles never
    /// do.
    pub(crate) fn with(&self, companion: Arc<Companion>) -> Self {
        Kms {
            context: StoreContext { companion: Some(companion), ..self.context.clone() },
            threads: self.threads,
            state: self.state.clone(),
            clock: self.clock.clone(),
        }
    }

    /// What tells it the time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// A service that ends with the process and writes nothing to any disk.
    ///
    /// # Errors
    /// As [`Self::new`]; no randomness.
    pub fn in_memory() -> Result<Self, Error> {
        let store = Arc::new(crate::store::MemoryStore::new());
        let sealer = Sealer::volatile(store.identity().id)?;
        Self::new(store, sealer, Options::default())
    }

    /// What is known of rotation by the clock, for the crate's other rooms.
    pub(crate) fn rotations(&self) -> &Rotations {
        &self.state.rotations
    }

    /// What it works with, for the crate's other rooms.
    pub(crate) fn context(&self) -> &StoreContext {
        &self.context
    }

    /// A key as it is now, by its name. None where there is none that has it.
    pub(crate) fn about(&self, tenant: &Label, name: &str) -> Result<Option<KeyView>, Error> {
        let name = Label::new("key", name)?;
        match self.find(tenant, &name).and_then(|id| self.key(&id)) {
            Ok(view) => Ok(Some(view)),
            Err(Error::NoKey(_) | Error::Destroyed) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a version may still be used so, for who has used it and did not tell yet.
    pub(crate) fn still_may(
        &self,
        id: &KeyId,
        number: u32,
        what: Use,
        was_newest: bool,
    ) -> Result<(), Error> {
        self.check_use(id, number, what, was_newest).map(drop)
    }

    /// What computes.
    pub fn engine(&self) -> &Engine {
        &self.context.engine
    }

    /// What was counted.
    pub fn metrics(&self) -> &Metrics {
        &self.state.metrics
    }

    /// The revision of the store that every answer from here on takes into account.
    pub fn revision(&self) -> u64 {
        self.state.revision.load(Ordering::Acquire)
    }

    /// Notes how far the store has come. What was committed stays so, whether or not that can be read.
    pub(crate) fn raise_revision(&self) {
        if let Ok(read) = self.context.store.read(&[]) {
            self.state.revision.fetch_max(read.revision.0, Ordering::AcqRel);
        }
    }

    /// Bytes that expanded keys take, about.
    pub fn cached_bytes(&self) -> usize {
        self.state.cache.bytes()
    }

    /// Counts and times a verb.
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

    /// Counts a verb that was begun at a time. An item of a batch takes as long as the batch did.
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

    /// Uses a version, and looks afterwards whether it still may be used so: what was withdrawn meanwhile is not
    /// released.
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

    /// Milliseconds since 1970, by a clock that may be wrong.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// One change at a time.
    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        self.state.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a change of a key, and forgets what was known of it, whatever came of the change.
    pub(super) fn commit(&self, key: &KeyId, transaction: &Transaction) -> Result<(), Error> {
        self.commit_made(key, transaction, key)
    }

    /// The same of a change that makes something, which is told of to what goes with the change.
    pub(super) fn commit_made(
        &self,
        key: &KeyId,
        transaction: &Transaction,
        made: &dyn Display,
    ) -> Result<(), Error> {
        self.check_process()?;
        // Where a panic cuts it off nobody knows what became of it.
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

    /// Refuses a process that was forked: it would not hear of changes.
    fn check_process(&self) -> Result<(), Error> {
        match forks::token() == self.state.process {
            true => Ok(()),
            false => Err(StoreError::Forked.into()),
        }
    }

    /// A key as it is now. One of the same number and another name for tenant, purpose or algorithm is none.
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

    /// A version of a key as it is now.
    pub(super) fn version(&self, id: &KeyId, number: u32) -> Result<VersionView, Error> {
        match self.state.cache.version(&id.uuid, number) {
            Some(view) => Ok(view),
            None => self.state.cache.load_version(&id.uuid, number, || {
                records::read_version(&self.context, id, number)
            }),
        }
    }
}
