//! Periodic and administrative work of a service: checkpoints, key rotation, backups, and the
//! archive of the audit log.

use std::path::PathBuf;
use std::sync::Arc;

use gabion_kms::audit::{ArchiveReport, Keep};
use gabion_kms::service::{Call, Service};
use gabion_kms::store::SqliteStore;
use gabion_kms_wire::native;

use super::administrator_warning::AdministratorWarning;
use super::backups::Backups;
use super::checkpoint_copies::MirrorFailures;
use super::panics::{BackgroundThread, PanicCounters};
use super::seal_state::SealState;
use super::wrapping_key::WrappingKeyJob;

/// Maintains the service of a [`SealState`] while that is open.
pub struct Maintenance {
    seal: Arc<SealState>,
    /// The store, if it is in a file.
    pub file: Option<Arc<SqliteStore>>,
    pub backups: Option<Backups>,
    /// The folder for archived segments of the audit log.
    pub archive: Option<PathBuf>,
    mirror_failures: Arc<MirrorFailures>,
    panics: Arc<PanicCounters>,
    /// Generates the service's RSA wrapping key.
    wrapping_key_job: Arc<WrappingKeyJob>,
    /// Whether the service's own keys are generated before a request needs them.
    pub makes_own_keys: bool,
    administrator_warning: AdministratorWarning,
}

impl Maintenance {
    /// Creates the maintenance of a store in memory: without backups and without an archive.
    pub fn new(seal: Arc<SealState>) -> Self {
        Maintenance {
            seal,
            file: None,
            backups: None,
            archive: None,
            mirror_failures: Arc::default(),
            panics: Arc::default(),
            wrapping_key_job: Arc::default(),
            makes_own_keys: false,
            administrator_warning: AdministratorWarning::default(),
        }
    }

    /// Makes a backup of the store in the configured folder.
    pub fn backup(&self) -> Result<native::BackedUp, gabion_kms::Error> {
        let (backups, file) = self.backups()?;
        backups.write(file)
    }

    /// Returns the backups' configuration and the store's file.
    pub fn backups(&self) -> Result<(&Backups, &SqliteStore), gabion_kms::Error> {
        match (&self.backups, &self.file) {
            (Some(backups), Some(file)) => Ok((backups, file)),
            (None, _) | (_, None) => {
                let why = "the server is not configured to make backups";
                Err(gabion_kms::Error::Unsupported(why.to_owned()))
            }
        }
    }

    /// Moves full segments of the audit log to the configured folder.
    pub fn archive(
        &self,
        service: &Service,
        call: &Call<'_>,
        keep: &Keep,
    ) -> Result<ArchiveReport, gabion_kms::Error> {
        match &self.archive {
            Some(folder) => service.audit_archive(call, folder, keep),
            None => {
                let why = "the server is not configured to archive its audit log";
                Err(gabion_kms::Error::Unsupported(why.to_owned()))
            }
        }
    }

    /// Makes a checkpoint of the audit log. Called each second.
    pub fn tick(&self) {
        self.panics.catch(BackgroundThread::Clock, || {
            let Ok(service) = self.seal.service() else { return };
            // A failure recurs with the next operation, and /readyz reports it.
            let _ = service.checkpoint();
            let _ = service.log().prepare();
            self.administrator_warning.log(&service, self.seal.clock().now_ms(), self.seal.log);
            if self.makes_own_keys {
                self.wrapping_key_job.tick(&service);
            }
        });
    }

    /// Makes the last checkpoint at the end, including everything that was not recorded yet.
    pub fn last_tick(&self) {
        self.panics.catch(BackgroundThread::Clock, || {
            let Ok(service) = self.seal.service() else { return };
            let _ = service.append_denials(true);
        });
        self.tick();
    }

    /// Rotates one key that is due, if any. Returns whether another one may be due.
    pub fn rotate_due(&self) -> bool {
        // Failures are counted, and /readyz reports them.
        let rotate = |service: Arc<Service>| service.rotate_due(1).is_ok_and(|done| done.is_more);
        let rotated =
            self.panics.catch(BackgroundThread::Rotation, || self.seal.service().is_ok_and(rotate));
        // After a panic, continue with the next key in the next round.
        rotated.unwrap_or(false)
    }

    /// Returns the job that generates the service's RSA wrapping key.
    pub fn wrapping_key_job(&self) -> &Arc<WrappingKeyJob> {
        &self.wrapping_key_job
    }

    /// Returns the counter of checkpoints that could not be copied.
    pub fn mirror_failures(&self) -> &Arc<MirrorFailures> {
        &self.mirror_failures
    }

    /// Returns the panics of background threads.
    pub fn panics(&self) -> &Arc<PanicCounters> {
        &self.panics
    }
}
