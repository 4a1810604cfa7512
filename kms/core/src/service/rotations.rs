//! Rotation by the clock.

use super::lifecycle::of;
use super::run::{Call, KeyRef, Service};
use crate::audit::Change;
use crate::error::Error;
use crate::gate::{Action, Principal};
use crate::model::VersionId;
use crate::operations::{DueKey, Kms, OnUnwind};

/// As whom the service rotates keys that are due, and what it calls such a request.
pub const AUTO_ROTATE: &str = "auto-rotate";

/// What came of keys that were due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotationReport {
    /// The versions that were made.
    pub made: Vec<VersionId>,
    /// How many are due and could not be rotated. They are tried again later.
    pub failed: usize,
    /// Of how many the time was further ahead than any rotation puts it, and now is a period from now.
    pub anew: usize,
    /// Whether others may be due still.
    pub is_more: bool,
}

impl Service {
    /// Rotates keys that are due, the one that is so for longest first, at most so many. To be called again and again, each
    /// second, say: no thread here does. Each is told of in the audit log as a change by [`AUTO_ROTATE`], charged to nobody, and
    /// allowed by whoever gave the key its period.
    ///
    /// A key that can't be rotated does not stop others, and is tried again after a minute, then two, up to an hour. Where the
    /// store or the log does not work, nothing is tried for a second, then two, up to a minute. A panic goes on to the caller, and is
    /// a failure of the key that it was about.
    ///
    /// # Errors
    /// The store's, the audit log's.
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
                // Nothing is due, whoever rotated it.
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
                // It is due still when the seal is opened again.
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

    /// Whether a key that is due could not be rotated so far.
    pub fn is_rotation_failing(&self) -> bool {
        self.kms.rotations().is_failing()
    }
}
