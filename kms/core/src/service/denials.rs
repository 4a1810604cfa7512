//! Aggregates equal denials of one credential into one audit record with a count.
//!
//! ```text
//!   denied sign "a"  --> a record
//!   denied sign "a"  --+
//!   denied sign "a"  --+--> counted --> one record with `count`: before any other record of the credential, after ten
//!   denied sign "a"  --+                seconds, after ten thousand of them, when the service is sealed, and at the end
//!   denied sign "b"  --> a record; after sixteen different ones in ten seconds they are counted together, without a key
//! ```
//!
//! A caller without permissions cannot fill the log's disk: a credential causes at most two records
//! of denials per second. A kill loses the counts that are not recorded yet, at most those of ten
//! seconds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::audit::Record;
use crate::gate::Principal;

/// The number of milliseconds after which a count is recorded.
const AFTER_MS: u64 = 10_000;

/// The number of denials after which a count is recorded.
const COUNT_MAX: u64 = 10_000;

/// The maximum number of different records of a credential in [`AFTER_MS`].
const DIFFERENT_MAX: u32 = 16;

/// The maximum number of credentials that are tracked.
const ROWS_MAX: usize = 1024;

/// A credential as records name it: the method and the principal. All attenuations of a token share
/// one, because their holders can make any number of them.
type Credential = (String, Principal);

/// Returns the credential that a record is counted under.
fn credential_of(record: &Record) -> Credential {
    (shared_method(&record.method).to_owned(), record.principal.clone())
}

/// Returns the part of a method that all attenuations of a token share: `token:ID` of
/// `token:ID:CHAIN`.
fn shared_method(method: &str) -> &str {
    let chain = method.strip_prefix("token:").and_then(|rest| rest.split_once(':'));
    chain.map_or(method, |(_, chain)| &method[..method.len() - chain.len() - 1])
}

/// Denials that are counted and not recorded yet.
#[derive(Default)]
pub struct Denials {
    rows: Mutex<HashMap<Credential, Row>>,
    /// The number of rows with unrecorded counts. Changed under the lock, and read without it.
    untold: AtomicUsize,
}

/// The denials of a credential.
struct Row {
    /// The last recorded denial, with which later ones are compared.
    like: Record,
    /// The newest of the counted denials, with their count.
    counted: Option<Record>,
    /// The time of the first counted denial.
    since_ms: u64,
    /// The start of the period in which different denials are counted, and their number.
    different_since_ms: u64,
    different: u32,
}

impl Row {
    fn new(record: &Record, now_ms: u64) -> Self {
        let like = record.clone();
        let (counted, since_ms, different_since_ms) = (None, now_ms, now_ms);
        Row { like, counted, since_ms, different_since_ms, different: 1 }
    }

    /// Counts a denial.
    fn count(&mut self, record: Record, now_ms: u64) {
        let before = self.counted.as_ref().and_then(|record| record.count);
        if before.is_none() {
            self.since_ms = now_ms;
        }
        let is = |same: bool| same.then_some(());
        let method = match self.like.method == record.method {
            true => record.method,
            false => shared_method(&record.method).to_owned(),
        };
        let counted = Record {
            method,
            // Fields that differ among the counted denials are left out.
            tenant: is(self.like.tenant == record.tenant).and(record.tenant),
            key: is(self.like.key == record.key).and(record.key),
            input: None,
            count: Some(before.unwrap_or(0) + 1),
            ..record
        };
        (self.like.tenant, self.like.key) = (counted.tenant.clone(), counted.key.clone());
        self.like.method.clone_from(&counted.method);
        self.counted = Some(counted);
    }

    /// Returns whether another denial is equal, except for its time and its input.
    fn is_like(&self, record: &Record) -> bool {
        let of = |record: &Record| (record.action, record.outcome);
        of(&self.like) == of(record)
            && self.like.tenant == record.tenant
            && self.like.key == record.key
    }
}

impl Denials {
    /// Takes a denial. Returns the records to append now.
    pub fn denied(&self, record: Record, now_ms: u64) -> Vec<Record> {
        let mut rows = self.rows();
        let mut told = Vec::new();
        let credential = credential_of(&record);
        if rows.len() >= ROWS_MAX && !rows.contains_key(&credential) {
            told.extend(rows.drain().filter_map(|(_, row)| row.counted));
            self.untold.store(0, Ordering::Relaxed);
        }
        let Some(row) = rows.get_mut(&credential) else {
            rows.insert(credential, Row::new(&record, now_ms));
            told.push(record);
            return told;
        };
        if now_ms.saturating_sub(row.different_since_ms) >= AFTER_MS {
            (row.different_since_ms, row.different) = (now_ms, 0);
        }
        let is_told = !row.is_like(&record) && row.different < DIFFERENT_MAX;
        let was_untold = row.counted.is_some();
        if is_told {
            told.extend(row.counted.take());
            row.different += 1;
            row.like = record.clone();
            told.push(record);
        } else {
            row.count(record, now_ms);
            let is_due = |counted: &mut Record| counted.count >= Some(COUNT_MAX);
            told.extend(row.counted.take_if(is_due));
        }
        match (was_untold, row.counted.is_some()) {
            (false, true) => drop(self.untold.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.untold.fetch_sub(1, Ordering::Relaxed)),
            (true, true) | (false, false) => {}
        }
        told
    }

    /// Returns the counted denials of the credentials of other records, which are about to be
    /// appended.
    pub fn before(&self, records: &[Record]) -> Vec<Record> {
        if self.untold.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut rows = self.rows();
        let mut told = Vec::new();
        for record in records {
            let row = rows.get_mut(&credential_of(record));
            told.extend(row.and_then(|row| row.counted.take()));
        }
        self.untold.fetch_sub(told.len(), Ordering::Relaxed);
        told
    }

    /// Returns the counted denials that are old enough to be recorded, or all of them.
    pub fn due(&self, now_ms: u64, is_all: bool) -> Vec<Record> {
        if self.untold.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let is_due = |row: &Row| is_all || now_ms.saturating_sub(row.since_ms) >= AFTER_MS;
        let mut rows = self.rows();
        let due = rows.values_mut().filter(|row| is_due(row));
        let told: Vec<Record> = due.filter_map(|row| row.counted.take()).collect();
        self.untold.fetch_sub(told.len(), Ordering::Relaxed);
        told
    }

    /// Takes back records that the log did not accept.
    pub fn take_back(&self, records: Vec<Record>) {
        let mut rows = self.rows();
        for record in records {
            let row = rows.get_mut(&credential_of(&record));
            let Some(row) = row.filter(|_| record.count.is_some()) else { continue };
            if let Some(counted) = &mut row.counted {
                counted.count = counted.count.zip(record.count).map(|(one, other)| one + other);
            } else {
                row.counted = Some(record);
                self.untold.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<Credential, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Outcome;
    use crate::error::Code;
    use crate::gate::Action;

    fn denied(by: &str, key: &str) -> Record {
        Record {
            time_ms: 1,
            request_id: "r".to_owned(),
            trace: None,
            principal: Principal::new(by).unwrap(),
            method: format!("token:{by}"),
            action: Action::Sign,
            tenant: None,
            key: Some(key.to_owned()),
            input: None,
            output: None,
            change: None,
            outcome: Outcome::Failed(Code::Denied),
            count: None,
            revision: None,
        }
    }

    /// Returns the keys and counts.
    fn told(records: Vec<Record>) -> Vec<(Option<String>, Option<u64>)> {
        records.into_iter().map(|record| (record.key, record.count)).collect()
    }

    fn one(key: &str, count: Option<u64>) -> (Option<String>, Option<u64>) {
        (Some(key.to_owned()), count)
    }

    #[test]
    fn attenuations_of_a_token_share_a_count() {
        let denials = Denials::default();
        let by = |method: &str| Record { method: method.to_owned(), ..denied("a", "k") };
        assert_eq!(denials.denied(by("token:7:aa"), 0).len(), 1);
        for method in ["token:7:bb", "token:7", "token:7:cc"] {
            assert_eq!(denials.denied(by(method), 1), []);
        }
        let [counted] = &denials.due(1, true)[..] else { panic!("one record") };
        assert_eq!((&*counted.method, counted.count), ("token:7", Some(3)));
        for method in ["token:8:aa", "token:77:aa", "certificate:aa", "certificate:bb", "local"] {
            assert_eq!(denials.denied(by(method), 2).len(), 1, "{method}");
        }
    }

    #[test]
    fn equal_denials_are_counted_and_logged_in_order_and_in_time() {
        let denials = Denials::default();
        let take = |by: &str, key: &str, ms| told(denials.denied(denied(by, key), ms));
        assert_eq!(take("a", "k", 0), [one("k", None)]);
        assert_eq!((take("a", "k", 1), take("a", "k", 2)), (vec![], vec![]));
        assert_eq!(take("b", "k", 2), [one("k", None)], "another credential's");
        assert_eq!(take("a", "other", 3), [one("k", Some(2)), one("other", None)]);
        assert_eq!(take("a", "other", 4), []);
        // A record of another action of the credential.
        assert_eq!(told(denials.before(&[denied("b", "x")])), []);
        assert_eq!(told(denials.before(&[denied("a", "x")])), [one("other", Some(1))]);
        assert_eq!(told(denials.before(&[denied("a", "x")])), []);
        assert_eq!(take("a", "other", 5), []);
        assert_eq!(told(denials.due(5 + AFTER_MS - 1, false)), []);
        assert_eq!(told(denials.due(5 + AFTER_MS, false)), [one("other", Some(1))]);
        assert_eq!(take("a", "other", 6), []);
        let all = denials.due(6, true);
        assert_eq!((denials.untold.load(Ordering::Relaxed), all.len()), (0, 1));
        // The log rejected all records.
        denials.take_back(all.clone());
        assert_eq!(take("a", "other", 7), []);
        denials.take_back(all);
        assert_eq!(told(denials.due(7, true)), [one("other", Some(3))]);
    }

    #[test]
    fn distinct_denial_records_are_limited_per_period() {
        let denials = Denials::default();
        let mut records = Vec::new();
        for at in 0..1000 {
            records.extend(denials.denied(denied("a", &format!("k{at}")), 0));
        }
        assert_eq!(records.len(), 16);
        let counted = denials.due(0, true);
        assert_eq!(told(counted), [(None, Some(984))]);
        // After the period, names are recorded again.
        assert_eq!(told(denials.denied(denied("a", "k"), AFTER_MS)), [one("k", None)]);
        for _ in 0..COUNT_MAX - 1 {
            assert_eq!(told(denials.denied(denied("a", "k"), AFTER_MS)), []);
        }
        assert_eq!(told(denials.denied(denied("a", "k"), AFTER_MS)), [one("k", Some(COUNT_MAX))]);
        assert_eq!(denials.untold.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn denial_counts_are_bounded_and_complete() {
        let denials = Denials::default();
        let (mut count, mut most) = (0, 0);
        for at in 0..5000 {
            for _ in 0..3 {
                let records = denials.denied(denied(&format!("t{at}"), "k"), 0);
                count += records.iter().map(|record| record.count.unwrap_or(1)).sum::<u64>();
            }
            most = most.max(denials.rows().len());
        }
        let rest = denials.due(0, true);
        count += rest.iter().map(|record| record.count.unwrap_or(1)).sum::<u64>();
        assert_eq!((count, most), (15_000, ROWS_MAX));
    }
}
