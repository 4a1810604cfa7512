//! The seal of a store: sealed, or unsealed with a running service.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use gabion_kms::audit::Checkpoint;
use gabion_kms::clock::{Clock, SystemClock};
use gabion_kms::operations::{self, Kms};
use gabion_kms::seal::{self, Sealer};
use gabion_kms::service::{AuditAt, Options, Service};
use gabion_kms::store::{self, SqliteStore, Store};

use super::checkpoint_copies;
use crate::config::Config;
use crate::error::Error;
use crate::problem::Problem;

/// Receives log lines.
pub type LogSink = fn(&str);

/// How long unsealing waits for running operations of the previous generation.
const CLOSING: Duration = Duration::from_secs(2);

/// The seal of a store, and the service while it is unsealed.
pub struct SealState {
    pub store: Arc<dyn Store>,
    /// The folder of the audit log; `None` for a log in memory.
    pub audit: Option<PathBuf>,
    /// A second folder for checkpoints.
    mirror_folder: Option<PathBuf>,
    kms_options: operations::Options,
    pub options: Options,
    clock: Mutex<Arc<dyn Clock>>,
    is_initialized: AtomicBool,
    service: RwLock<Option<Arc<Service>>>,
    /// The sealed service, as long as an operation of it still runs.
    closing: Mutex<Weak<()>>,
    /// Receives lines about a restored store and about the expiry of the last administrator's
    /// token.
    pub log: LogSink,
}

impl SealState {
    /// Creates the sealed state of a store that has a seal, with an audit log in memory.
    pub fn in_memory(store: Arc<dyn Store>, options: Options) -> Self {
        SealState {
            store,
            audit: None,
            mirror_folder: None,
            kms_options: operations::Options::default(),
            options,
            clock: Mutex::new(Arc::new(SystemClock)),
            is_initialized: AtomicBool::new(true),
            service: RwLock::new(None),
            closing: Mutex::default(),
            log: |_| {},
        }
    }

    /// Opens the configured store. Returns its sealed state, and the store.
    ///
    /// # Errors
    /// A store that is missing or in use.
    pub fn at(config: &Config, log: LogSink) -> Result<(Self, Arc<SqliteStore>), Error> {
        let size_max = config.store.size_max_mib.map(|mib| u64::from(mib) << 20);
        let file = SqliteStore::open(&config.store.path, store::Options { size_max });
        let file = Arc::new(file.map_err(gabion_kms::Error::from)?);
        let store: Arc<dyn Store> = file.clone();
        let is_initialized = AtomicBool::new(seal::is_initialised(&*store)?);
        let kms_options = operations::Options {
            cache_bytes_max: (config.store.cache_mib as usize) << 20,
            ..operations::Options::default()
        };
        let seal = SealState {
            audit: Some(config.audit.folder.clone()),
            mirror_folder: config.audit.checkpoints.clone(),
            kms_options,
            is_initialized,
            log,
            ..Self::in_memory(store, config.service())
        };
        Ok((seal, file))
    }

    /// Returns the service, if it is unsealed.
    pub fn service(&self) -> Result<Arc<Service>, Problem> {
        let open = self.service.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(Problem::sealed)
    }

    /// Returns whether the store has a seal.
    pub fn is_initialized(&self) -> bool {
        self.is_initialized.load(Ordering::Acquire)
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the clock, starting with the next unsealing.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = clock;
    }

    /// Returns the revision of the store; `None` while it is sealed.
    pub fn revision(&self) -> Option<u64> {
        Some(self.service().ok()?.revision())
    }

    /// Returns the second folder for checkpoints.
    pub fn mirror_folder(&self) -> Option<&Path> {
        self.mirror_folder.as_deref()
    }

    /// Returns the newest checkpoint of the audit log.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.service().ok()?.log().newest()
    }

    /// Unseals.
    ///
    /// # Errors
    /// Those of [`Self::new_service`].
    pub fn open(&self, sealer: Sealer) -> Result<(), gabion_kms::Error> {
        let service = self.new_service(sealer)?;
        self.is_initialized.store(true, Ordering::Release);
        self.replace(Some(service));
        Ok(())
    }

    /// Starts the service of an unsealed store, without making it available to requests.
    ///
    /// # Errors
    /// Errors of the store and of the audit log; checkpoints in the second folder that the log does
    /// not continue.
    pub fn new_service(&self, sealer: Sealer) -> Result<Service, gabion_kms::Error> {
        let kms = Kms::new(self.store.clone(), sealer, self.kms_options)?.with_clock(self.clock());
        let audit = match &self.audit {
            Some(folder) => AuditAt::Folder(folder),
            None => AuditAt::Memory,
        };
        let service = Service::open(kms, &audit, self.options.clone())?;
        service.reconcile_report().lines().for_each(|line| (self.log)(&line));
        if let Some(folder) = &self.mirror_folder {
            checkpoint_copies::check(folder, &service)?;
        }
        Ok(service)
    }

    /// Replaces the service that requests use. Closes the previous generation.
    pub fn replace(&self, service: Option<Service>) {
        let closed = {
            let mut open = self.service.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *open, service.map(Arc::new))
        };
        if let Some(service) = closed {
            // From here on none of its operations begin, and no byte of an answer is written.
            service.generation().close();
            let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
            *closing = service.alive();
            drop(closing);
            // Record the final state of the log.
            let _ = service.checkpoint();
        }
    }

    /// Waits for running operations of the sealed service, which still use the audit log. Requests
    /// do not keep that service alive while their bodies arrive.
    ///
    /// # Errors
    /// `closing` if some of them take longer.
    pub fn wait_for_end(&self) -> Result<(), Problem> {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let start = Instant::now();
        while closing.strong_count() > 0 {
            if start.elapsed() >= CLOSING {
                return Err(Problem::closing());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}
