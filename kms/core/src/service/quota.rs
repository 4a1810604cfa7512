//! Quotas of tenants.
//!
//! ```text
//!   a token bucket for each tenant: so many microseconds of work per second, and a burst of some seconds
//!     not empty --> the work is charged before it is done, even if it costs more than is left; the rest is a debt
//!     empty     --> quota_exceeded, with the time after which to retry
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::error::Error;
use crate::model::Label;

/// The configuration of quotas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaOptions {
    /// The work that each tenant may use, in microseconds per second, by the estimated cost of its
    /// operations. `None`: unlimited.
    pub us_per_second: Option<u32>,
    /// The work of single tenants, which overrides `us_per_second`.
    pub of_tenants: BTreeMap<Label, u32>,
    /// The number of seconds of work that may be used at once.
    pub burst_seconds: u32,
}

impl Default for QuotaOptions {
    fn default() -> Self {
        QuotaOptions { us_per_second: None, of_tenants: BTreeMap::new(), burst_seconds: 10 }
    }
}

/// The maximum number of tenants that are remembered, which take about 3 MiB.
const TENANTS_MAX: usize = 1 << 14;

pub struct Quota {
    options: QuotaOptions,
    buckets: Mutex<HashMap<Box<str>, Bucket>>,
    is_any: AtomicBool,
    refused: AtomicU64,
}

/// The microseconds that are left at a time. A negative number is a debt.
struct Bucket {
    left_us: i64,
    at: Instant,
    /// The refill rate in microseconds per second.
    rate: u32,
    /// Whether the last request was rejected.
    is_empty: bool,
}

/// An exceeded quota.
#[derive(Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The number of seconds until the quota has room again.
    pub retry_after_s: u64,
    /// Whether the previous request was not rejected. Only then the rejection is recorded in the
    /// audit log.
    pub is_first: bool,
}

impl From<QuotaExceeded> for Error {
    fn from(exceeded: QuotaExceeded) -> Self {
        Error::Quota { retry_after_s: exceeded.retry_after_s }
    }
}

impl Quota {
    pub fn new(options: QuotaOptions) -> Self {
        let (is_any, refused) = (AtomicBool::new(false), AtomicU64::new(0));
        Quota { options, buckets: Mutex::default(), is_any, refused }
    }

    /// Charges a tenant's bucket.
    pub fn take(
        &self,
        tenant: Option<&Label>,
        cost_us: u64,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), QuotaExceeded> {
        let of_tenant = tenant.and_then(|tenant| self.options.of_tenants.get(tenant));
        let Some(rate) = of_tenant.copied().or(self.options.us_per_second) else { return Ok(()) };
        if cost_us == 0 {
            return Ok(());
        }
        let (burst, now) = (self.options.burst_seconds, now());
        let name = tenant.map_or("", Label::as_str);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(name) {
            forget(&mut buckets, burst, now);
            let full = full(rate, burst);
            self.is_any.store(true, Ordering::Relaxed);
            buckets.insert(name.into(), Bucket { left_us: full, at: now, rate, is_empty: false });
        }
        let Some(bucket) = buckets.get_mut(name) else { return Ok(()) };
        let left = bucket.left(burst, now);
        if left <= 0 {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let is_first = !std::mem::replace(&mut bucket.is_empty, true);
            return Err(QuotaExceeded { retry_after_s: bucket.retry_after_s(left), is_first });
        }
        let cost = i64::try_from(cost_us).unwrap_or(i64::MAX);
        *bucket = Bucket { left_us: left.saturating_sub(cost), at: now, rate, is_empty: false };
        Ok(())
    }

    /// Returns whether any quota is configured.
    pub fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Checks whether a bucket is empty, without charging it. A bucket that was never used is full.
    pub fn check(&self, name: &Label, now: impl FnOnce() -> Instant) -> Result<(), QuotaExceeded> {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bucket) = buckets.get(name.as_str()) else { return Ok(()) };
        let left = bucket.left(self.options.burst_seconds, now());
        if left > 0 {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(QuotaExceeded { retry_after_s: bucket.retry_after_s(left), is_first: false })
    }

    /// Charges a tenant's bucket for work that is already done, even if it costs more than is left.
    pub fn owe(&self, tenant: Option<&Label>, cost_us: u64, now: impl FnOnce() -> Instant) {
        let name = tenant.map_or("", Label::as_str);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        // The bucket exists, because beginning the work was charged.
        let Some(bucket) = buckets.get_mut(name) else { return };
        let (now, is_empty) = (now(), bucket.is_empty);
        let left = bucket.left(self.options.burst_seconds, now);
        let cost = i64::try_from(cost_us).unwrap_or(i64::MAX);
        let left_us = left.saturating_sub(cost);
        *bucket = Bucket { left_us, at: now, rate: bucket.rate, is_empty };
    }

    /// Returns the number of rejected requests.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Bucket {
    fn retry_after_s(&self, left: i64) -> u64 {
        // One microsecond is enough for a request.
        (1 - left).unsigned_abs().div_ceil(u64::from(self.rate).max(1))
    }

    fn left(&self, burst: u32, now: Instant) -> i64 {
        let since = now.saturating_duration_since(self.at).as_micros();
        let more = since.saturating_mul(self.rate.into()) / 1_000_000;
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        self.left_us.saturating_add(more).min(full(self.rate, burst))
    }
}

fn full(rate: u32, burst: u32) -> i64 {
    i64::from(rate) * i64::from(burst)
}

/// Makes room for another tenant. First it forgets tenants whose buckets are full, which has no
/// effect on them. Then it forgets the half with the smallest debts, which are forgiven. A client
/// that names many tenants gains that much work, and memory stays bounded.
fn forget(buckets: &mut HashMap<Box<str>, Bucket>, burst: u32, now: Instant) {
    if buckets.len() < TENANTS_MAX {
        return;
    }
    buckets.retain(|_, bucket| bucket.left(burst, now) < full(bucket.rate, burst));
    if buckets.len() <= TENANTS_MAX / 2 {
        return;
    }
    let mut left: Vec<i64> = buckets.values().map(|bucket| bucket.left(burst, now)).collect();
    let (_, &mut median, _) = left.select_nth_unstable(TENANTS_MAX / 2);
    buckets.retain(|_, bucket| bucket.left(burst, now) < median);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn label(text: &str) -> Label {
        Label::new("tenant", text).unwrap()
    }

    fn quota(us_per_second: Option<u32>) -> Quota {
        Quota::new(QuotaOptions { us_per_second, burst_seconds: 2, ..QuotaOptions::default() })
    }

    #[test]
    fn a_bucket_empties_owes_and_fills_again() {
        let (a, b, start) = (label("a"), label("b"), Instant::now());
        let quota = quota(Some(1000));
        let take = |tenant: &Label, cost, ms| {
            quota.take(Some(tenant), cost, || start + Duration::from_millis(ms))
        };
        let refused = |retry_after_s, is_first| Err(QuotaExceeded { retry_after_s, is_first });
        assert_eq!(take(&a, 1500, 0), Ok(()));
        // One request may cost more than is left; then the tenant owes 3 seconds.
        assert_eq!(take(&a, 3500, 0), Ok(()));
        assert_eq!(take(&a, 1, 0), refused(4, true));
        assert_eq!(take(&a, 1, 0), refused(4, false));
        assert_eq!(take(&b, 1, 0), Ok(()), "another tenant's");
        assert_eq!(quota.take(None, 1, || start), Ok(()), "about nobody");
        assert_eq!(take(&a, 0, 0), Ok(()), "what costs nothing");
        assert_eq!(take(&a, 1, 3000), refused(1, false));
        assert_eq!(take(&a, 1, 3001), Ok(()));
        assert_eq!(take(&a, 1, 3001), refused(1, true));
        // The bucket never exceeds its capacity, even if the clock stands still or jumps.
        assert_eq!(take(&a, 2000, 60_000), Ok(()));
        assert!(take(&a, 1, 60_000).is_err() && take(&a, 1, 0).is_err());
        assert_eq!(quota.refused(), 6);
        assert_eq!(take(&b, u64::MAX, 60_000), Ok(()));
        let Err(QuotaExceeded { retry_after_s, .. }) = take(&b, 1, 60_000) else { panic!() };
        assert!(retry_after_s > 1 << 50, "{retry_after_s}");
    }

    #[test]
    fn completed_work_is_charged_to_the_quota() {
        let (a, b, start) = (label("a"), label("b"), Instant::now());
        let quota = quota(Some(1000));
        quota.owe(Some(&b), 1, || start);
        assert!(quota.buckets.lock().unwrap().is_empty(), "nothing of b's was begun");
        let take = |ms| quota.take(Some(&a), 1, || start + Duration::from_millis(ms));
        assert_eq!(take(0), Ok(()));
        quota.owe(Some(&a), 1998, || start);
        assert_eq!(take(0), Ok(()));
        quota.owe(Some(&a), 3000, || start);
        quota.owe(Some(&a), 1000, || start + Duration::from_secs(1));
        assert_eq!(take(3999), Err(QuotaExceeded { retry_after_s: 1, is_first: true }));
        // Further debt does not count as a new rejection.
        quota.owe(Some(&a), 10, || start + Duration::from_millis(3999));
        assert_eq!(take(3999), Err(QuotaExceeded { retry_after_s: 1, is_first: false }));
        assert_eq!(take(4020), Ok(()));
    }

    #[test]
    fn no_quota_is_none_and_a_tenant_may_have_its_own() {
        let (a, b, now) = (label("a"), label("b"), Instant::now());
        let none = quota(None);
        for _ in 0..100 {
            assert_eq!(none.take(Some(&a), u64::MAX, || now), Ok(()));
        }
        assert!(none.buckets.lock().unwrap().is_empty());
        let of_tenants = [(a.clone(), 10)].into_iter().collect();
        let one = Quota::new(QuotaOptions { of_tenants, ..QuotaOptions::default() });
        assert_eq!(one.take(Some(&a), 100, || now), Ok(()));
        assert!(one.take(Some(&a), 100, || now).is_err());
        assert_eq!(one.take(Some(&b), u64::MAX, || now), Ok(()));
        assert_eq!(one.take(Some(&b), u64::MAX, || now), Ok(()));
    }

    /// Memory is bounded, and the tenants with the largest debts are not forgotten.
    #[test]
    fn a_million_names_take_no_memory_and_free_no_debtor() {
        let (quota, now, debtor) = (quota(Some(1000)), Instant::now(), label("debtor"));
        assert_eq!(quota.take(Some(&debtor), 1 << 30, || now), Ok(()));
        for at in 0..1_000_000 {
            let name = label(&format!("t{at}"));
            assert_eq!(quota.take(Some(&name), 1 + at % 100, || now), Ok(()));
        }
        let buckets = quota.buckets.lock().unwrap();
        assert!(buckets.len() <= TENANTS_MAX && buckets.capacity() <= 4 * TENANTS_MAX);
        drop(buckets);
        assert!(quota.take(Some(&debtor), 1, || now).is_err());
    }
}
