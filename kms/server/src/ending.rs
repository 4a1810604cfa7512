//! Warns before the last administrator's token ends: after that nobody makes tokens but by the recovery set.

use std::sync::atomic::{AtomicU64, Ordering};

use gabion_kms::service::Service;

use crate::clock::rfc3339;
use crate::keeper::Tell;

/// What `warnings` say.
pub const WARNING: &str = "administrator_ending";

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Says so on the terminal, or in the log of whoever runs the server, once a day.
#[derive(Default)]
pub struct Ending {
    /// The day since 1970 on which it was last said.
    said: AtomicU64,
}

/// Whether the last administrator's token ends soon, or has ended.
pub fn is_soon(service: &Service) -> bool {
    service.administrators_end().is_some_and(|end| end.is_soon)
}

impl Ending {
    /// Says it, if it is so and was not said today.
    pub fn say(&self, service: &Service, now_ms: u64, tell: Tell) {
        let Some(end) = service.administrators_end().filter(|end| end.is_soon) else { return };
        let today = now_ms / DAY_MS;
        if self.said.swap(today, Ordering::Relaxed) == today {
            return;
        }
        let (what, to_do) = match (end.end_ms, end.is_over) {
            (0, _) => ("no token that is known may make tokens".to_owned(), RECOVER),
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

const RECOVER: &str = "replace the administrators: gabion kms recover-admin";

const RENEW: &str = "let a client certificate make tokens by a policy, and make one that lives longer by that: \
                     docs/kms.md, \"Administrators\"";
