//! A store with many keys, made before it is served.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey, Options};
use gabion_kms::seal::{By, unseal};
use gabion_kms::store::testing::Over;
use gabion_kms::store::{
    self, Outcome, Read, RecordPath, Revision, SqliteStore, Store, StoreError, Transaction,
};

use crate::Error;

/// Of a commit's steps, how many a key has at most.
const OF_KEY: usize = 8;

/// The name of a key that is made ahead.
pub fn name(place: usize) -> String {
    format!("filled-{place}")
}

/// Makes so many keys of Ed25519.
pub fn keys(store: &Path, passphrase: &str, many: usize) -> Result<(), Error> {
    if many == 0 {
        return Ok(());
    }
    let file = SqliteStore::open(store, store::Options::default()).map_err(failed)?;
    let sealer = unseal(&file, By::Passphrase(passphrase)).map_err(failed)?;
    let gathering = Arc::new(Gathering { file, waiting: Mutex::default() });
    let kms = Kms::new(gathering.clone(), sealer, Options::default()).map_err(failed)?;
    let label = |text: &str| Label::new("key", text).map_err(failed);
    for place in 0..many {
        let (tenant, purpose) = (label("default")?, label("transit")?);
        let algorithm = "ed25519".parse().map_err(failed)?;
        let new = NewKey { tenant, purpose, name: label(&name(place))?, algorithm };
        kms.create(&new).map_err(failed)?;
    }
    let mut waiting = gathering.waiting();
    gathering.commit_all(&mut waiting).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

/// A store whose commits wait for others, so that a million of them do not wait for the disk a million times. What waits
/// can't be read: nobody makes a key twice here.
struct Gathering {
    file: SqliteStore,
    waiting: Mutex<Transaction>,
}

impl Gathering {
    fn waiting(&self) -> MutexGuard<'_, Transaction> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_all(&self, waiting: &mut Transaction) -> Result<(), StoreError> {
        if waiting.writes().is_empty() {
            return Ok(());
        }
        match self.file.commit(&std::mem::take(waiting))? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Conflict(_) | Outcome::Unknown => {
                Err(StoreError::Unavailable("keys that were made ahead are not there".to_owned()))
            }
        }
    }
}

impl Over for Gathering {
    fn below(&self) -> &dyn Store {
        &self.file
    }

    fn read(&self, paths: &[RecordPath]) -> Result<Read, StoreError> {
        // A commit's revision is asked for by nothing else.
        match paths {
            [] => Ok(Read { revision: Revision(0), records: Vec::new() }),
            paths => self.file.read(paths),
        }
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        let mut waiting = self.waiting();
        let mut all = std::mem::take(&mut *waiting);
        for guard in transaction.guards() {
            all = all.expect(guard.path.clone(), guard.generation);
        }
        for write in transaction.writes() {
            let path = write.path.clone();
            all = match &write.value {
                Some(value) => all.put(path, write.before, value.clone()),
                None => all.bury(path, write.before),
            };
        }
        *waiting = all;
        let steps = waiting.guards().len() + waiting.writes().len();
        if steps + OF_KEY > self.caps().steps_max {
            self.commit_all(&mut waiting)?;
        }
        Ok(Outcome::Committed(Revision(0)))
    }
}

#[cfg(test)]
mod tests {
    use gabion_kms::Message;
    use gabion_kms::seal::{Cost, Shares, Slots, init};

    use super::*;

    #[test]
    fn keys_made_together_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        SqliteStore::create(&path).unwrap();
        {
            let store = SqliteStore::open(&path, store::Options::default()).unwrap();
            let passphrase = Some(("p", Cost { memory_kib: 8, passes: 1 }));
            let slots = Slots { recovery: Shares { shares: 1, threshold: 1 }, passphrase };
            let dealt = init(&store, &slots).unwrap();
            dealt.adopt(&store, dealt.shares()).unwrap();
        }
        keys(&path, "p", 50).unwrap();
        let store = SqliteStore::open(&path, store::Options::default()).unwrap();
        let sealer = unseal(&store, By::Passphrase("p")).unwrap();
        let kms = Kms::new(Arc::new(store), sealer, Options::default()).unwrap();
        let label = |text: &str| Label::new("key", text).unwrap();
        for place in 0..50 {
            let id = kms.find(&label("default"), &label(&name(place))).unwrap();
            let message = Message::Pure { context: b"", message: b"text" };
            let signed = kms.sign(&id, None, message).unwrap();
            assert!(kms.verify(&signed.by, message, &signed.signature).unwrap());
        }
        assert!(kms.find(&label("default"), &label(&name(50))).is_err());
    }
}
