//! What is refused: what it costs, and how the log is told of it.
//!
//! A request that is denied, malformed, too large or about nothing costs its credential, not the tenant that it names: nobody uses
//! up another one's quota. Each credential has a bucket of its own for that ([`super::quota`]).

use std::collections::BTreeMap;
use std::time::Instant;

use super::cost::{REQUEST_US, bytes_us};
use super::quota::{Quota, QuotaOptions};
use super::run::{Call, Service};
use crate::audit::{Class, Record};
use crate::error::Error;
use crate::gate::{Caller, Method};
use crate::model::Label;
use crate::text::hex;

/// Microseconds a second of refused requests that a credential may have where tenants have no quota: 2000 requests.
const US_PER_SECOND: u32 = 100_000;

/// Buckets of credentials.
pub(super) fn quota(options: &QuotaOptions) -> Quota {
    let us_per_second = Some(options.us_per_second.unwrap_or(US_PER_SECOND));
    let burst_seconds = options.burst_seconds;
    Quota::new(QuotaOptions { us_per_second, of_tenants: BTreeMap::new(), burst_seconds })
}

impl Service {
    /// Refuses a credential that had too much refused already, before anything is done for it. What takes something away is not
    /// to be asked here.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub fn check_refusals(&self, who: &Caller) -> Result<(), Error> {
        if !self.refusals.is_any() {
            return Ok(());
        }
        let Some(name) = name(who) else { return Ok(()) };
        Ok(self.refusals.check(&name, Instant::now)?)
    }

    /// Charges a credential for so many items that were refused, of a request of so many bytes.
    pub fn charge_refusal(&self, who: &Caller, items: usize, bytes: usize) {
        let Some(name) = name(who) else { return };
        let cost_us = REQUEST_US.saturating_mul(items as u64).saturating_add(bytes_us(bytes));
        // Whoever owes something already was not refused by that.
        let _ = self.refusals.take(Some(&name), cost_us, Instant::now);
    }

    /// Records a denial in the audit log, or counts it.
    pub(super) fn audit_denial(&self, call: &Call<'_>, record: Record) -> Result<(), Error> {
        let told = self.count_denied(record);
        match told.is_empty() {
            true => Ok(()),
            false => self
                .append_audit(call, &told, self.class)
                .inspect_err(|_| self.denials.take_back(told)),
        }
    }

    /// Counts a denial; what the log is to be told now.
    pub(super) fn count_denied(&self, record: Record) -> Vec<Record> {
        self.denials.denied(record, self.kms.clock().steady_ms())
    }

    /// Appends the counted denials of the credentials that other records are about.
    pub(super) fn append_pending_denials(&self, records: &[Record]) -> Result<(), Error> {
        self.append_counted_denials(self.denials.before(records))
    }

    /// Appends denials that were counted some seconds ago, or all of them.
    ///
    /// # Errors
    /// The log's; they are told of later.
    pub fn append_denials(&self, all: bool) -> Result<(), Error> {
        self.append_counted_denials(self.denials.due(self.kms.clock().steady_ms(), all))
    }

    fn append_counted_denials(&self, records: Vec<Record>) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        let told = self.log.append(&records, Class::Written);
        told.map(drop).map_err(|error| {
            self.denials.take_back(records);
            error.into()
        })
    }
}

/// The name of a credential's bucket. The process itself has none.
fn name(who: &Caller) -> Option<Label> {
    let is_local = who.method() == Method::Local;
    if is_local { None } else { Label::new("credential", &hex(&who.credential())).ok() }
}
