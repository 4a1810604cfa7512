//! Refused requests: their cost and their audit records.
//!
//! A request that is denied, malformed, too large or about a missing key is charged to its
//! credential, not to the tenant that it names. So one caller cannot use up another tenant's quota.
//! Each credential has a separate bucket for that ([`super::quota`]).
//!
//! Not recorded in the audit log: all but the first of consecutive refusals by a quota, refusals by
//! a full queue, and requests while the service is sealed.

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

/// The refused work of a credential in microseconds per second, if tenants have no quotas: about
/// 2000 requests.
const US_PER_SECOND: u32 = 100_000;

/// Creates the buckets of credentials.
pub(super) fn quota(options: &QuotaOptions) -> Quota {
    let us_per_second = Some(options.us_per_second.unwrap_or(US_PER_SECOND));
    let burst_seconds = options.burst_seconds;
    Quota::new(QuotaOptions { us_per_second, of_tenants: BTreeMap::new(), burst_seconds })
}

impl Service {
    /// Rejects a credential whose bucket is empty, before any work is done for it. Not to be called
    /// for actions that withdraw use.
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

    /// Charges a credential for `items` refused items in a request of `bytes` bytes.
    pub fn charge_refusal(&self, who: &Caller, items: usize, bytes: usize) {
        let Some(name) = name(who) else { return };
        let cost_us = REQUEST_US.saturating_mul(items as u64).saturating_add(bytes_us(bytes));
        // The request was refused for another reason already, so an empty bucket changes nothing.
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

    /// Counts a denial. Returns the records to append now.
    pub(super) fn count_denied(&self, record: Record) -> Vec<Record> {
        self.denials.denied(record, self.kms.clock().steady_ms())
    }

    /// Appends the counted denials of the credentials in other records.
    pub(super) fn append_pending_denials(&self, records: &[Record]) -> Result<(), Error> {
        self.append_counted_denials(self.denials.before(records))
    }

    /// Appends denials that were counted some seconds ago, or all of them.
    ///
    /// # Errors
    /// Errors of the log. The denials stay counted and are appended later.
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

/// Returns the name of a credential's bucket; `None` for the process itself.
fn name(who: &Caller) -> Option<Label> {
    let is_local = who.method() == Method::Local;
    if is_local { None } else { Label::new("credential", &hex(&who.credential())).ok() }
}
