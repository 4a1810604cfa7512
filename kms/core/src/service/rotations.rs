//! Automatic rotation of keys.

use super::lifecycle::of;
use super::run::{Call, KeyRef, Service};
use crate::audit::Change;
use crate::error::Error;
use crate::gate::{Action, Principal};
use crate::model::VersionId;
use crate::operations::{DueKey, Kms, OnUnwind};

/// The principal and the request id in the audit records of automatic rotations.
pub const AUTO_ROTATE: &str = "auto-rotate";

/// The result of rotating due keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotationReport {
    /// The new versions.
    pub made: Vec<VersionId>,
    /// The number of keys that are due and could not be rotated. They are tried again later.
    pub failed: usize,
    /// The number of keys whose rotation time was implausibly far ahead. It was set to one period
    /// from now.
    pub anew: usize,
    /// Whether more keys may be due.
    pub is_more: bool,
}

impl Service {
    /// Rotates at most `most` due keys, the longest overdue first. Call this repeatedly, for
    /// example each second, because the crate starts no threads. Each rotation is recorded in the
    /// audit log as a change by [`AUTO_ROTATE`]. It is not charged to a tenant. Its permission
    /// comes from the caller who set the rotation period.
    ///
    /// A key that cannot be rotated does not stop others. It is tried again after a minute, then
    /// two, up to an hour. If the store or the log fails, nothing is tried for a second, then two,
    /// up to a minute. A panic propagates to the caller, and counts as a failure of the key in
    /// question.
    ///
    /// # Errors
    /// Errors of the store and of the audit log.
    pub fn rotate_due(&self, most: usize) -> Result<RotationReport, Error> {
        let steady_ms = self.kms.clock().steady_ms();
        if self.kms.rotations().known().is_resting(steady_ms) {
            return Ok(RotationReport::default());
        }
        self.rotate_due_keys(most).inspect_err(|_| self.kms.rotations().known().pause(steady_ms))
    }

    fn rotate_due_keys(&self, most: usize) -> Result<RotationReport, Error> {
        let who = self.gate.local(Principal::new(AUTO_ROTATE)?);
        let (call, mut done) = (Call::new(&who, AUTO_ROTATE), RotationReport::default());
        for _ in 0..most {
            let Some(due) = self.kms.next_due()? else {
                // Nothing is due; another call may have rotated it.
                self.kms.rotations().known().resume();
                return Ok(done);
            };
            let (DueKey::Rotate(key) | DueKey::Anew(key)) = &due;
            let (id, named) = (&key.id, KeyRef { tenant: &key.id.tenant, name: &key.name });
            let _cut_off = OnUnwind(|| self.kms.defer_due(id));
            let came = match &due {
                DueKey::Rotate(_) => {
                    let rotate = |kms: &Kms| kms.rotate_if_due(id);
                    let request = of(Action::Rotate, &named);
                    let audit_entry = |made: &VersionId| Some(made.to_string());
                    self.perform_unchecked_change(&call, &request, rotate, audit_entry).map(Some)
                }
                DueKey::Anew(_) => {
                    let anew = |kms: &Kms| kms.reschedule(id);
                    let audit_entry = |(): &()| (id.to_string(), Change::Settings(Vec::new()));
                    let request = of(Action::Config, &named);
                    self.perform_unchecked_change(&call, &request, anew, audit_entry).map(|()| None)
                }
            };
            match came {
                // The key is still due when the service is unsealed again.
                Err(Error::Sealed) => return Ok(done),
                Ok(made) => {
                    self.kms.finish_due(id, made.is_some());
                    done.anew += usize::from(made.is_none());
                    done.made.extend(made);
                }
                Err(error) => done.failed += usize::from(self.kms.fail_due(id, error)?),
            }
        }
        done.is_more = true;
        Ok(done)
    }

    /// Returns whether a key is due and its last rotation failed.
    pub fn is_rotation_failing(&self) -> bool {
        self.kms.rotations().is_failing()
    }
}
