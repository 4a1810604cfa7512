//! Ending backup periods when a key is destroyed.
//!
//! ```text
//!   key is destroyed --> a new period begins --> the periods to end are noted --> the keys of these periods are destroyed
//! ```
//!
//! If the process ends in between, the same call continues with the noted periods, and ends no
//! others.

use serde::{Deserialize, Serialize};

use super::open::commit;
use super::run::{Call, Service};
use crate::backup::{Period, PeriodKey, Periods};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::KeyId;
use crate::operations::{damaged, sealed};
use crate::store::{RecordPath, Transaction};

/// The periods that end with a key, by number, and the number of records that the store had when
/// each of them began. The latter describes the neighbors of destroyed periods, too.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeriodEnd {
    periods: Vec<(u32, u64)>,
}

/// The number of notes that are read at once.
const PAGE: usize = 100;

impl Service {
    /// Checks whether the caller may end backup periods, which needs the permission to make
    /// backups. Call this before a key is destroyed.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the audit log.
    pub fn may_expire(&self, call: &Call<'_>) -> Result<(), Error> {
        self.authorize(call, &about_backups(), None)
    }

    /// Destroys the keys of all periods whose backups may contain a destroyed key, by the number of
    /// the key's record in the store. Calls `begin` first, which begins a new period. Returns the
    /// ended periods. Another call continues an interrupted one. No backup may be made meanwhile.
    ///
    /// # Errors
    /// A key that is not destroyed; the caller is not allowed; errors of the store, of the audit
    /// log and of the folder of the periods' keys.
    pub fn expire(
        &self,
        call: &Call<'_>,
        id: &KeyId,
        number: u64,
        periods: &Periods,
        begin: impl FnOnce() -> Result<Period, Error>,
    ) -> Result<Vec<Period>, Error> {
        if !self.kms.is_destroyed(id)? {
            return Err(Error::Parameter("destroy the key before its backups".to_owned()));
        }
        if periods.all()?.is_empty() {
            return Ok(Vec::new());
        }
        let path = RecordPath::new(format!("expiries/{}/{}", id.tenant, id.uuid))?;
        let ending = match self.endings()?.into_iter().find(|(of, _)| *of == path) {
            Some((_, ending)) => ending,
            None => self.begin_ending(path, number, periods, begin)?,
        };
        let is_ending = |key: &PeriodKey| ending.periods.contains(&key.began());
        let holding = periods.all()?.into_iter().filter(is_ending).map(|key| key.period());
        holding
            .map(|period| {
                let told = |(): &()| Some(format!("expired:{period}"));
                self.perform_change(call, &about_backups(), |_| periods.destroy(period), told)?;
                Ok(period)
            })
            .collect()
    }

    /// Begins a new period, and notes which earlier ones end with a key.
    fn begin_ending(
        &self,
        path: RecordPath,
        number: u64,
        periods: &Periods,
        begin: impl FnOnce() -> Result<Period, Error>,
    ) -> Result<PeriodEnd, Error> {
        let ended: Vec<_> = self.endings()?.into_iter().flat_map(|(_, of)| of.periods).collect();
        let first = begin()?.number();
        let holding = periods.holding(number, &ended)?.into_iter().map(|key| key.began());
        let ending = PeriodEnd { periods: holding.filter(|(period, _)| *period < first).collect() };
        let context = self.kms.context();
        let sealed = sealed(context, &path, 1, &ending)?;
        commit(context, &Transaction::new().put(path, 0, sealed))?;
        Ok(ending)
    }

    /// Returns the notes of all keys.
    fn endings(&self) -> Result<Vec<(RecordPath, PeriodEnd)>, Error> {
        let (context, under) = (self.kms.context(), RecordPath::new("expiries")?);
        let (mut endings, mut after) = (Vec::new(), None);
        loop {
            let page = context.store.list(&under, after.as_ref(), PAGE)?;
            let Some((last, _)) = page.records.last() else { return Ok(endings) };
            after = Some(last.clone());
            for (path, record) in &page.records {
                let value = record.value.as_ref().ok_or_else(|| damaged(path, "it was buried"))?;
                let plain = context.sealer.open(path, record.generation, value)?;
                let ending = serde_json::from_slice(&plain);
                let ending = ending.map_err(|error| damaged(path, &error.to_string()))?;
                endings.push((path.clone(), ending));
            }
        }
    }
}

fn about_backups() -> Request<'static> {
    Request { action: Action::Backup, tenant: None, key: None, items: 1, makes: None }
}
