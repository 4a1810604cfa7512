//! A store with many keys, made before it is served.

use std::path::Path;
use std::sync::Arc;

use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey, Options};
use gabion_kms::seal::{UnsealMethod, unseal};
use gabion_kms::store::SqliteStore;

use crate::Error;

/// The name of a key that is made ahead.
pub fn name(place: usize) -> String {
    format!("filled-{place}")
}

/// Makes so many keys of Ed25519.
pub fn keys(store: &Path, passphrase: &str, many: usize) -> Result<(), Error> {
    if many == 0 {
        return Ok(());
    }
    // A million commits do not wait for the disk a million times.
    let file = SqliteStore::testing_only_open_unsynced(store).map_err(failed)?;
    let sealer = unseal(&file, UnsealMethod::Passphrase(passphrase)).map_err(failed)?;
    let kms = Kms::new(Arc::new(file), sealer, Options::default()).map_err(failed)?;
    let label = |text: &str| Label::new("key", text).map_err(failed);
    for place in 0..many {
        let (tenant, purpose) = (label("default")?, label("transit")?);
        let algorithm = "ed25519".parse().map_err(failed)?;
        let new = NewKey { tenant, purpose, name: label(&name(place))?, algorithm };
        kms.create(&new).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use gabion_kms::Message;
    use gabion_kms::seal::{Cost, Shares, Slots, init};
    use gabion_kms::store;

    use super::*;

    #[test]
    fn keys_made_ahead_are_all_there() {
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
        let sealer = unseal(&store, UnsealMethod::Passphrase("p")).unwrap();
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
