//! The service with its seal, as a server or a command runs it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use gabion_kms::clock::Clock;
use gabion_kms::gate::{self, Principal};
use gabion_kms::memory::{Lock, is_swap_on};
use gabion_kms::seal::{self, Sealer, UnsealMethod};
use gabion_kms::service::Options;
use gabion_kms::store::{MemoryStore, SqliteStore, Store};
use gabion_kms_wire::native;
use zeroize::Zeroizing;

use super::administrator_warning;
use super::backups::{self, Backups};
use super::maintenance::Maintenance;
use super::metrics::Disks;
use super::seal_state::{LogSink, SealState};
use super::unsealing::Unsealing;
use crate::config::Config;
use crate::error::Error;

/// A store with its seal, and the service while it is unsealed.
pub struct ServiceHost {
    pub(crate) seal: Arc<SealState>,
    pub(crate) unsealing: Unsealing,
    pub(crate) maintenance: Maintenance,
    /// Set if the process's memory is not locked although the configuration requires that.
    unlocked: Option<UnlockedMemory>,
}

/// The process's memory is not locked.
struct UnlockedMemory {
    /// Whether the configuration allows that.
    is_allowed: bool,
}

impl ServiceHost {
    fn new(seal: SealState) -> Self {
        let seal = Arc::new(seal);
        ServiceHost {
            unsealing: Unsealing::new(seal.clone()),
            maintenance: Maintenance::new(seal.clone()),
            seal,
            unlocked: None,
        }
    }

    /// Creates a service with keys that are never written to disk and end with the process, and a
    /// token with all permissions.
    ///
    /// # Errors
    /// No randomness; an unknown backend in the environment.
    pub fn in_memory() -> Result<(Self, Zeroizing<String>), gabion_kms::Error> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let sealer = Sealer::volatile(store.identity().id)?;
        let gate = gate::Options {
            needs_certificate_for_administration: false,
            ..gate::Options::default()
        };
        let seal = SealState::in_memory(store, Options { gate, ..Options::default() });
        let service = seal.new_service(sealer)?;
        let longest = Some(seal.options.gate.lifetime_ms_max);
        let token = service.administrator_token(&Principal::new("dev")?, None, longest)?;
        seal.replace(Some(service));
        Ok((Self::new(seal), Zeroizing::new(token.to_string())))
    }

    /// Opens the store in a file, sealed unless the configuration has the passphrase.
    ///
    /// # Errors
    /// A store that is missing or in use; a wrong passphrase.
    pub fn open(config: &Config) -> Result<Self, Error> {
        Self::open_logging(config, |_| {})
    }

    /// Opens a store like [`Self::open`], and logs reapplied changes whenever a rolled-back store
    /// is unsealed.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_logging(config: &Config, log: LogSink) -> Result<Self, Error> {
        let (seal, file) = SealState::at(config, log)?;
        let mut host = Self::new(seal);
        host.maintenance.file = Some(file);
        host.maintenance.backups = Backups::new(config)?;
        host.maintenance.archive = config.audit.archive.clone();
        if let Some(path) = &config.seal.passphrase_file {
            let passphrase = passphrase(path)?;
            host.seal
                .open(seal::unseal(&*host.seal.store, UnsealMethod::Passphrase(&passphrase))?)?;
        }
        Ok(host)
    }

    /// Sets whether the process's memory is locked. If it is not, and swap is enabled, no requests
    /// are served unless that is allowed.
    #[must_use]
    pub fn with_memory(self, lock: &Lock, is_allowed: bool) -> Self {
        let unlocked = match lock {
            Lock::Whole => None,
            Lock::Unlocked(_) => Some(UnlockedMemory { is_allowed }),
        };
        ServiceHost { unlocked, ..self }
    }

    /// Enables generating the service's own keys some time after unsealing, so that requests do not
    /// wait for that.
    #[must_use]
    pub fn making_own_keys(mut self) -> Self {
        self.maintenance.makes_own_keys = true;
        self
    }

    /// Replaces the clock, starting with the next unsealing.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        self.seal.set_clock(clock);
        self
    }

    /// Restores the configured store from a backup, with the key of its period: a given file, or
    /// the one in the configured folder.
    ///
    /// # Errors
    /// A store that exists; a damaged backup; a missing key of the period.
    pub fn restore(config: &Config, backup: &Path, key: Option<&Path>) -> Result<(), Error> {
        Ok(backups::restore(config, backup, key)?)
    }

    /// Returns the reason why no requests are served.
    pub fn reason(&self) -> Option<&'static str> {
        if self.unlocked.as_ref().is_some_and(|unlocked| !unlocked.is_allowed && is_swap_on()) {
            return Some("memory_not_locked");
        }
        match self.seal.service() {
            Err(_) if !self.seal.is_initialized() => Some("not_initialized"),
            Err(problem) => Some(problem.code),
            Ok(service) if service.log().health().is_err() => Some("audit_unwritable"),
            Ok(_) => {
                let is_broken = |file: &Arc<SqliteStore>| file.health().is_err();
                self.maintenance.file.as_ref().is_some_and(is_broken).then_some("store_unavailable")
            }
        }
    }

    /// Returns the warnings: problems that do not stop the service.
    pub fn warnings(&self) -> Vec<&'static str> {
        let is_full = self.maintenance.file.as_ref().is_some_and(|file| file.is_full());
        let unlocked = self.unlocked.as_ref().map(|_| "memory_not_locked");
        let fails = self.seal.service().is_ok_and(|service| service.is_rotation_failing());
        let full = is_full.then_some("store_full");
        let panics = self.maintenance.panics().is_any().then_some("thread_failing");
        let ends = self.seal.service().is_ok_and(|service| administrator_warning::is_due(&service));
        let ends = ends.then_some(administrator_warning::WARNING);
        let warnings = [unlocked, full, fails.then_some("rotation_failing"), panics, ends];
        warnings.into_iter().flatten().collect()
    }

    /// Returns the status.
    pub fn status(&self) -> native::Status {
        let service = self.seal.service().ok();
        let identity = self.seal.store.identity();
        native::Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            initialized: self.seal.is_initialized(),
            sealed: service.is_none(),
            store: identity.id.iter().map(|byte| format!("{byte:02x}")).collect(),
            incarnation: identity.incarnation,
            revision: service.map(|service| service.kms().revision()),
            warnings: Some(self.warnings().into_iter().map(str::to_owned).collect()),
        }
    }

    /// Returns the files and folders of the service.
    pub fn disks(&self) -> Disks<'_> {
        Disks {
            store: self.maintenance.file.as_deref().map(SqliteStore::path),
            audit: self.seal.audit.as_deref(),
        }
    }
}

/// Returns the first line of a file.
fn passphrase(path: &Path) -> Result<Zeroizing<String>, Error> {
    let wrong = |reason: String| Error::Settings(format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|error| wrong(error.to_string()))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Zeroizing::new(line.to_owned())),
        None => Err(wrong("its first line is empty".to_owned())),
    }
}
