//! Compatibility with old stores: a store of the first format, with shares and a passphrase that
//! open its seal.
//!
//! `golden/store-1.sqlite` is a backup, and `golden/store-1.json` holds the secrets and expected
//! values for it. Neither is ever regenerated: a newer format gets additional files.

use std::fs;
use std::sync::Arc;

use gabion_kms::Code;
use gabion_kms::model::{KeyId, State, VersionId};
use gabion_kms::operations::{Kms, Options as KmsOptions};
use gabion_kms::seal::{Share, UnsealMethod, unseal};
use gabion_kms::store::{Options, SqliteStore, Store};

use crate::verbs::{label, pure};

const STORE: &[u8] = include_bytes!("../golden/store-1.sqlite");

#[test]
fn a_store_of_the_first_format_opens() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../golden/store-1.json")).unwrap();
    let text = |field: &str| golden[field].as_str().unwrap().to_owned();
    let shares: Vec<Share> = golden["shares"]
        .as_array()
        .unwrap()
        .iter()
        .map(|share| share.as_str().unwrap().parse().unwrap())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let [backup, at] = ["backup", "store"].map(|name| folder.path().join(name));
    fs::write(&backup, STORE).unwrap();
    SqliteStore::restore(&backup, &at).unwrap();
    let (first, passphrase) = (text("first").parse::<VersionId>().unwrap(), text("passphrase"));
    let signature = base16ct::mixed::decode_vec(text("signature")).unwrap();
    for by in [UnsealMethod::Shares(&shares), UnsealMethod::Passphrase(&passphrase)] {
        let store = Arc::new(SqliteStore::open(&at, Options::default()).unwrap());
        assert_eq!(store.identity().incarnation, 1);
        store.check().unwrap();
        let sealer = unseal(&*store, by).unwrap();
        let kms = Kms::new(store, sealer, KmsOptions::default()).unwrap();
        assert_eq!(kms.find(&label("default"), &label("firmware")).unwrap(), first.key);
        assert_eq!(kms.verify(&first, pure(b"image"), &signature), Ok(true));
        let signed = kms.sign(&first.key, None, pure(b"image")).unwrap();
        assert_eq!(signed.by.version, 3);
        assert_eq!(kms.verify(&signed.by, pure(b"image"), &signed.signature), Ok(true));
        let states: Vec<State> =
            kms.versions(&first.key).unwrap().iter().map(|version| version.state).collect();
        assert_eq!(states, [State::Enabled, State::Disabled, State::Enabled]);
        assert_eq!(kms.describe(&first.key).unwrap().labels["team"], "release");
        let destroyed: KeyId = text("destroyed").parse().unwrap();
        assert_eq!(kms.describe(&destroyed).unwrap_err().code(), Code::KeyDestroyed);
        assert_eq!(kms.attestation_jwk().unwrap(), text("attestation_jwk"));
    }
}
