//! The warning before the last administrator's token expires. After that, new tokens can only be
//! made with the recovery set.

use std::sync::atomic::{AtomicU64, Ordering};

use gabion_kms::clock::rfc3339;
use gabion_kms::service::Service;

/// The warning's name in `warnings`.
pub const WARNING: &str = "administrator_ending";

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Logs the warning once a day.
#[derive(Default)]
pub struct AdministratorWarning {
    /// The day since 1970 on which it was last logged.
    logged: AtomicU64,
}

/// Returns whether the last administrator's token expires soon or has expired.
pub fn is_due(service: &Service) -> bool {
    service.administrators_end().is_some_and(|end| end.is_soon)
}

impl AdministratorWarning {
    /// Logs the warning if it is due and was not logged today.
    pub fn log(&self, service: &Service, now_ms: u64, tell: fn(&str)) {
        let Some(end) = service.administrators_end().filter(|end| end.is_soon) else { return };
        let today = now_ms / DAY_MS;
        if self.logged.swap(today, Ordering::Relaxed) == today {
            return;
        }
        let (what, to_do) = match (end.end_ms, end.is_over) {
            (0, _) => ("no known token can make tokens".to_owned(), RECOVER),
            (ms, true) => {
                (format!("the last administrator's token ended at {}", rfc3339(ms)), RECOVER)
            }
            (ms, false) => {
                (format!("the last administrator's token ends at {}", rfc3339(ms)), RENEW)
            }
        };
        tell(&format!("warning: {WARNING}: {what}; {to_do}"));
    }
}

const RECOVER: &str = "replace the administrators with `gabion kms recover-admin`";

const RENEW: &str = "permit `token` to an administrator's client certificate by a policy, or plan a `gabion kms recover-admin` \
                     (docs/operate/kms.md, \"Administrators\")";
