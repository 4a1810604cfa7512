//! Backups of the store in a folder, and the keys of their periods in another folder.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gabion_kms::backup::{self, Backup, Period, PeriodKey, Periods, is_within};
use gabion_kms::clock::{now_ms, rfc3339};
use gabion_kms::model::KeyId;
use gabion_kms::operations::{key_record, keys_path};
use gabion_kms::service::{Call, Service};
use gabion_kms::store::{SqliteStore, Store};
use gabion_kms_wire::native;

use crate::config::Config;
use crate::error::Error;

/// The number of milliseconds in a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The configuration of backups.
pub struct Backups {
    folder: PathBuf,
    keys: PathBuf,
    period_ms: u64,
    /// Serializes backups, and the ending of periods: otherwise a backup could be sealed by a key
    /// that is destroyed before the backup is reported.
    one: Mutex<()>,
}

impl Backups {
    /// Reads the configuration, and creates the folder (mode 0700) if it is missing. `None` if no
    /// folder is configured.
    ///
    /// # Errors
    /// [`Error::Settings`]: a folder that cannot be created or written; keys that would be copied
    /// together with the backups.
    pub fn new(config: &Config) -> Result<Option<Self>, Error> {
        let Some(folder) = &config.backup.folder else { return Ok(None) };
        let folder = backup::make_folder(folder)
            .map_err(|error| Error::Settings(format!("`backup.folder`: {error}")))?;
        let (keys, period_ms) =
            (config.backup_keys(), u64::from(config.backup.period_days) * DAY_MS);
        let backups = Backups { folder, keys, period_ms, one: Mutex::default() };
        match backups.check_apart() {
            Err(gabion_kms::Error::Parameter(why)) => Err(Error::Settings(why)),
            checked => Ok(checked.map(|()| Some(backups))?),
        }
    }

    /// Checked each time, because links and mounts can change.
    fn check_apart(&self) -> Result<(), gabion_kms::Error> {
        match is_within(&self.keys, &self.folder)? {
            false => Ok(()),
            true => Err(gabion_kms::Error::Parameter(format!(
                "the keys of backups are in `{}`, which is in the folder of the backups, `{}`: a copy of that folder has both; \
                 set `backup.keys` to another folder",
                self.keys.display(),
                self.folder.display()
            ))),
        }
    }

    fn periods(&self, store: [u8; 16]) -> Periods {
        Periods::new(&self.keys, store)
    }

    /// Makes a backup.
    pub fn write(&self, file: &SqliteStore) -> Result<native::BackedUp, gabion_kms::Error> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_apart()?;
        let now_ms = now_ms();
        let name: String = rfc3339(now_ms).chars().filter(char::is_ascii_alphanumeric).collect();
        let name = format!("{name}.backup");
        let periods = self.periods(file.identity().id);
        let key = periods.current(now_ms, self.period_ms, file.records()?)?;
        let written = backup::write(file, &self.folder, &name, &key, now_ms)?;
        let period = Some(key.period().to_string());
        let path = self.folder.join(&name).display().to_string();
        Ok(native::BackedUp { file: name, path: Some(path), revision: written.revision, period })
    }

    /// Checks whether periods can be ended, before a key is destroyed.
    pub fn check(&self, file: &SqliteStore) -> Result<(), gabion_kms::Error> {
        self.check_apart()?;
        self.periods(file.identity().id).all()?;
        Ok(Backup::all(&self.folder).map(drop)?)
    }

    /// Destroys the keys of all periods whose backups may contain a destroyed key, and begins a new
    /// period. Another call continues an interrupted one.
    pub fn expire(
        &self,
        service: &Service,
        call: &Call<'_>,
        file: &SqliteStore,
        id: &KeyId,
    ) -> Result<native::Destroyed, gabion_kms::Error> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let number = file.number_of(&key_record(id)?)?;
        let number = number.ok_or_else(|| gabion_kms::Error::NoKey(id.to_string()))?;
        let identity = file.identity();
        let periods = self.periods(identity.id);
        let begin = || Ok(periods.renew(now_ms(), file.records()?)?.period());
        let expired = service.expire(call, id, number, &periods, begin)?;
        let kept: HashSet<Period> = periods.all()?.iter().map(PeriodKey::period).collect();
        let (sealed, plain) = Backup::all(&self.folder)?;
        let own = sealed.into_iter().filter(|(_, backup)| backup.store.id == identity.id);
        let (readable, gone): (Vec<_>, Vec<_>) =
            own.partition(|(_, backup)| kept.contains(&backup.period));
        // Keys that were created after the newest readable backup.
        let known = readable.iter().map(|(_, backup)| backup.records).max().unwrap_or(0);
        Ok(native::Destroyed {
            revision: service.kms().revision(),
            expired_periods: Some(expired.iter().map(ToString::to_string).collect()),
            unreadable_backups: Some(gone.into_iter().map(|(name, _)| name).collect()),
            plain_backups: Some(plain),
            keys_without_backup: Some(file.count_after(&keys_path()?, known)?),
        })
    }
}

/// Restores the configured store from a backup, with the key of its period: a given file, or the
/// one in the configured folder. The backup is a path, or the name of a file in `backup.folder`.
pub fn restore(config: &Config, copy: &Path, key: Option<&Path>) -> Result<(), gabion_kms::Error> {
    let named = config.backup.folder.as_ref().map(|folder| folder.join(copy));
    let named = named.filter(|named| !copy.exists() && named.exists());
    let copy = named.as_deref().unwrap_or(copy);
    match (Backup::read(copy)?, key) {
        (None, None) => Ok(SqliteStore::restore(copy, &config.store.path)?),
        (None, Some(_)) => {
            let why = "the backup is not sealed by a period's key: an older program made it; restore it without a key";
            Err(gabion_kms::Error::Parameter(why.to_owned()))
        }
        (Some(said), key) => {
            let key = match key {
                Some(path) => PeriodKey::read(path)?,
                None => Periods::new(&config.backup_keys(), said.store.id).find(said.period)?,
            };
            backup::restore(copy, &key, &config.store.path)
        }
    }
}
