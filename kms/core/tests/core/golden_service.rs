//! Compatibility with the files of commit 18f74786: a store without a manifest, its audit log, and
//! a backup. The store is upgraded once.
//!
//! `golden/service-1/` is never regenerated: a newer format gets an additional folder. The log's
//! segment has 1 MiB, and the zeros at its end are left out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use gabion_disk::RealDisk;
use gabion_kms::audit::{self, Entry};
use gabion_kms::backup::{self, PeriodKey};
use gabion_kms::gate::{Action, Peer, Request};
use gabion_kms::model::{KeyId, VersionId};
use gabion_kms::operations::{self, Kms};
use gabion_kms::seal::{self, Share, UnsealMethod};
use gabion_kms::service::{AuditAt, Call, Options, Service};
use gabion_kms::store::{self, FORMAT, SqliteStore, Store};
use gabion_kms::{AuthenticationError, Code, Error};
use rusqlite::Connection;
use serde_json::Value;

use crate::clocks::TestClock;
use crate::fixture::lax;
use crate::verbs::{label, pure};

const STORE: &[u8] = include_bytes!("../golden/service-1/store");
const BACKUP: &[u8] = include_bytes!("../golden/service-1/backup");
const PERIOD: &[u8] = include_bytes!("../golden/service-1/period.key");
const SEGMENT: &[u8] = include_bytes!("../golden/service-1/audit/segment-00000000");
const LOG: [(&str, &[u8]); 3] = [
    ("checkpoint", include_bytes!("../golden/service-1/audit/checkpoint")),
    ("tile/0/000.p/76", include_bytes!("../golden/service-1/audit/tile/0/000.p/76")),
    ("tile/entries/000.p/76", include_bytes!("../golden/service-1/audit/tile/entries/000.p/76")),
];

const SEGMENT_BYTES: u64 = 1 << 20;

struct Place {
    folder: tempfile::TempDir,
    golden: Value,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let golden = include_str!("../golden/service-1/golden.json");
        let place = Place { folder, golden: serde_json::from_str(golden).unwrap() };
        fs::write(place.at("store"), STORE).unwrap();
        for (name, bytes) in LOG {
            let at = place.at("audit").join(name);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, bytes).unwrap();
        }
        let segment = place.at("audit").join("segment-00000000");
        fs::write(&segment, SEGMENT).unwrap();
        let segment = fs::OpenOptions::new().write(true).open(segment).unwrap();
        segment.set_len(SEGMENT_BYTES).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, path: &str) -> String {
        self.golden.pointer(path).and_then(Value::as_str).unwrap().to_owned()
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        Base64::decode_vec(&self.text(path)).unwrap()
    }

    fn kms(&self) -> Result<Kms, Error> {
        let store = Arc::new(SqliteStore::open(&self.at("store"), store::Options::default())?);
        let shares = self.golden["shares"].as_array().unwrap().iter().skip(1);
        let shares: Vec<Share> =
            shares.map(|share| share.as_str().unwrap().parse().unwrap()).collect();
        let sealer = seal::unseal(&*store, UnsealMethod::Shares(&shares))?;
        let clock = TestClock::default();
        clock.jumps_to(self.golden["made_ms"].as_u64().unwrap());
        Ok(Kms::new(store, sealer, operations::Options::default())?.with_clock(Arc::new(clock)))
    }

    fn open(&self) -> Result<Service, Error> {
        self.open_as(false)
    }

    fn open_as(&self, takes_older: bool) -> Result<Service, Error> {
        let log = audit::Options { segment_bytes: SEGMENT_BYTES, reserve_bytes: 4 << 10 };
        let options = Options { gate: lax(), log, takes_older, ..Options::default() };
        Service::open(self.kms()?, &AuditAt::Folder(&self.at("audit")), options)
    }

    fn formats(&self, name: &str) -> (u64, u64) {
        let db = Connection::open(self.at(name)).unwrap();
        let text = "SELECT min_reader, min_writer FROM store";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let (reader, writer) = db.query_row(text, (), read).unwrap();
        (reader as u64, writer as u64)
    }

    fn sql(&self, sql: &str) {
        Connection::open(self.at("store")).unwrap().execute_batch(sql).unwrap();
    }

    /// Restores the original store, and removes all other files.
    fn put_back(&self) {
        for ending in ["", "-wal"] {
            let _ = fs::remove_file(self.at(&format!("store{ending}")));
        }
        fs::write(self.at("store"), STORE).unwrap();
    }

    fn copies(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> =
            names.filter(|name| name.contains(".format-") && !name.ends_with(".lock")).collect();
        names.sort();
        names
    }
}

/// Returns whether a token may list keys.
fn may_list(service: &Service, token: &str) -> Result<(), Code> {
    let failed = |error: Error| error.code();
    let who = service.authenticate(token, &Peer::default()).map_err(failed)?;
    let tenant = label("default");
    let request =
        Request { action: Action::List, tenant: Some(&tenant), key: None, items: 1, makes: None };
    let now_ms = service.kms().clock().now_ms();
    let allowed = service.gate().allow(service.kms(), &who, &request, now_ms);
    allowed.map_err(|denied| failed(denied.into()))
}

/// Permissions and denials are unchanged.
fn goes_on(place: &Place, service: &Service) {
    let kms = service.kms();
    let token = |name: &str| place.text(&format!("/tokens/{name}"));
    for name in ["kept", "family"] {
        assert_eq!(may_list(service, &token(name)), Ok(()), "{name}");
    }
    for name in ["leaked", "cut"] {
        let refused = service.authenticate(&token(name), &Peer::default()).err();
        assert_eq!(refused, Some(Error::Unauthenticated(AuthenticationError::Revoked)), "{name}");
    }
    assert_eq!(may_list(service, &token("other")), Err(Code::Denied));
    let key = |name: &str| place.text(&format!("/{name}")).parse::<KeyId>().unwrap();
    let version = |path: &str| place.text(path).parse::<VersionId>().unwrap();
    let signature = place.bytes("/signature/signature");
    assert_eq!(kms.verify(&version("/signature/by"), pure(b"image"), &signature), Ok(true));
    let code =
        |number| kms.sign(&key("release"), Some(number), pure(b"x")).err().map(|of| of.code());
    let codes = [Some(Code::VersionDestroyed), None, Some(Code::VersionDisabled), None];
    assert_eq!([1, 2, 3, 4].map(code), codes);
    for name in ["short", "long"] {
        let ciphertext = place.bytes(&format!("/{name}_ciphertext/ciphertext"));
        let by = version(&format!("/{name}_ciphertext/by"));
        assert_eq!(&**kms.decrypt(&by, &ciphertext, b"").unwrap(), b"image", "{name}");
        kms.encrypt(&by.key, None, b"x", b"").unwrap();
    }
    assert_eq!(kms.describe(&key("gone")).unwrap_err().code(), Code::KeyDestroyed);
    assert_eq!(kms.sign(&key("deleted"), None, pure(b"x")).unwrap_err().code(), Code::KeyDeleted);
    assert!(kms.describe(&key("pq")).unwrap().rotate_period_s.is_some());
    let jwk: Value = serde_json::from_str(&kms.attestation_jwk().unwrap()).unwrap();
    assert_eq!(jwk["kid"], place.golden["jwk"]["kid"]);
}

fn upgrades(service: &Service) -> Vec<Entry> {
    let all = service.log().tail(0, 10_000).unwrap();
    all.into_iter().filter(|entry| entry.record.request_id == "store-upgrade").collect()
}

#[test]
fn a_store_of_the_first_format_is_upgraded_once_and_goes_on() {
    let place = Place::new();
    let service = place.open().unwrap();
    let said = service.reconcile_report().upgraded.clone().unwrap();
    let copy = place.at("store.format-1");
    assert!(said.contains(&copy.canonicalize().unwrap().display().to_string()), "{said}");
    goes_on(&place, &service);
    let told = upgrades(&service);
    assert_eq!(told.len(), 1);
    assert!(told[0].record.key.as_ref().unwrap().starts_with("store:format-2:"));
    service.checkpoint().unwrap();
    let keys = service.log().vkeys();
    drop(service);
    let verified = audit::verify(&RealDisk, &place.at("audit"), None, &keys).unwrap();
    assert!(verified.records > 76, "{}", verified.records);
    // Older programs refuse it, and the copy is for them.
    assert_eq!(
        (place.formats("store"), place.formats("store.format-1")),
        ((FORMAT, FORMAT), (1, 1))
    );
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let older = place.at("older");
    SqliteStore::restore(&copy, &older).unwrap();
    // It is upgraded no second time.
    let service = place.open().unwrap();
    assert_eq!((&service.reconcile_report().upgraded, upgrades(&service).len()), (&None, 1));
    goes_on(&place, &service);
    assert_eq!(place.copies(), ["store.format-1"]);
}

/// Wherever a kill ends it, the next opening goes on.
#[test]
fn an_upgrade_that_is_killed_goes_on() {
    type Step = fn(&Place);
    let steps: [(&str, Step); 4] = [
        ("copied", |place| {
            let store = SqliteStore::open(&place.at("store"), store::Options::default()).unwrap();
            assert!(store.upgrade().unwrap().is_some());
            drop(store);
            place.sql("UPDATE store SET min_reader = 1, min_writer = 1");
        }),
        ("marked", |place| {
            let store = SqliteStore::open(&place.at("store"), store::Options::default()).unwrap();
            assert!(store.upgrade().unwrap().is_some());
        }),
        ("with a manifest", |place| drop(place.kms().unwrap())),
        ("a copy that is cut", |place| fs::write(place.at("store.format-1"), b"cut").unwrap()),
    ];
    for (what, step) in steps {
        let place = Place::new();
        step(&place);
        let service = place.open().unwrap();
        assert!(service.reconcile_report().upgraded.is_some(), "{what}");
        goes_on(&place, &service);
        assert_eq!(upgrades(&service).len(), 1, "{what}");
        drop(service);
        assert_eq!(place.open().unwrap().reconcile_report().upgraded, None, "{what}");
        let more = if what.ends_with("cut") { 2 } else { 1 };
        assert_eq!(place.copies().len(), more, "{what}");
        assert_eq!(place.formats("store"), (FORMAT, FORMAT));
    }
}

/// A store that claims not to be upgraded, but whose log says that it was, is rejected: nothing
/// says which records it had. If the operator accepts it, the restrictions in the log are reapplied
/// regardless of the revision that the file claims.
#[test]
fn an_upgraded_store_that_is_put_back_to_before_is_refused() {
    let place = Place::new();
    let service = place.open().unwrap();
    let kept = service.authenticate(&place.text("/tokens/kept"), &Peer::default()).unwrap();
    service.token_revoke_self(&Call::new(&kept, "r-1")).unwrap();
    service.checkpoint().unwrap();
    drop(service);
    place.put_back();
    place.sql("UPDATE store SET revision = 1000000");
    for _ in 0..2 {
        let error = place.open().map(drop).unwrap_err();
        assert_eq!(error.code(), Code::IntegrityFailed, "{error}");
        assert!(error.to_string().contains("its audit log says that it was upgraded"), "{error}");
    }
    let service = place.open_as(true).unwrap();
    assert!(service.reconcile_report().done.iter().any(|line| line.contains("revoked one")));
    assert_eq!(may_list(&service, &place.text("/tokens/kept")), Err(Code::Unauthenticated));
    assert_eq!(upgrades(&service).len(), 2);
    service.checkpoint().unwrap();
    drop(service);
    assert!(place.open().is_ok());
}

/// Records that were written since are not taken for those of an older store.
#[test]
fn a_manifest_can_not_be_made_anew_over_newer_records() {
    let place = Place::new();
    let service = place.open().unwrap();
    let kept = service.authenticate(&place.text("/tokens/kept"), &Peer::default()).unwrap();
    service.token_revoke_self(&Call::new(&kept, "r-1")).unwrap();
    // A second one is written since, and stays.
    service.kms().create(&crate::tampering::new_key("new", "ed25519")).unwrap();
    drop(service);
    place.sql(
        "DROP TRIGGER records_are_never_deleted; DELETE FROM records WHERE path = 'integrity/manifest';
         DELETE FROM records WHERE path LIKE 'tokens/cut/%'; UPDATE store SET min_reader = 1, min_writer = 1;
         CREATE TRIGGER records_are_never_deleted BEFORE DELETE ON records
        BEGIN SELECT RAISE(ABORT, 'records are never deleted'); END;",
    );
    let error = place.open().map(drop).unwrap_err();
    assert_eq!(error.code(), Code::IntegrityFailed, "{error}");
    assert!(error.to_string().contains("removed"), "{error}");
}

/// An older store without the note of its log's size is not upgraded.
#[test]
fn an_older_store_without_the_head_of_its_log_is_refused() {
    let place = Place::new();
    place.sql(
        "DROP TRIGGER records_are_never_deleted; DELETE FROM records WHERE path = 'system/audit-head';
         CREATE TRIGGER records_are_never_deleted BEFORE DELETE ON records
        BEGIN SELECT RAISE(ABORT, 'records are never deleted'); END;",
    );
    fs::remove_dir_all(place.at("audit")).unwrap();
    for _ in 0..2 {
        let error = place.open().map(drop).unwrap_err();
        assert!(error.to_string().contains("`system/audit-head`"), "{error}");
    }
}

/// A damaged record of an older store is named, and nothing is changed.
#[test]
fn a_damaged_older_store_is_not_upgraded() {
    let place = Place::new();
    place.sql("UPDATE records SET generation = generation + 1 WHERE path LIKE 'tokens/revoked/%'");
    let error = place.open().map(drop).unwrap_err();
    assert_eq!(error.code(), Code::IntegrityFailed, "{error}");
    assert_eq!((place.formats("store"), place.copies().len()), ((1, 1), 0));
}

/// A backup of an older program makes a store of its format, which is upgraded at its first
/// unsealing.
#[test]
fn a_backup_of_the_first_format_is_restored_and_upgraded() {
    let place = Place::new();
    let [file, key] = ["backup", "period.key"].map(|name| place.at(name));
    fs::write(&file, BACKUP).unwrap();
    fs::write(&key, PERIOD).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(place.at("store")).unwrap();
    let key = PeriodKey::read(Path::new(&key)).unwrap();
    backup::restore(&file, &key, &place.at("store")).unwrap();
    assert_eq!(place.formats("store"), (1, 1));
    let service = place.open().unwrap();
    assert!(service.reconcile_report().upgraded.is_some());
    goes_on(&place, &service);
    drop(service);
    assert_eq!(place.formats("store"), (FORMAT, FORMAT));
    // A backup of the upgraded one is of the new format.
    let again = place.at("again");
    let opened = SqliteStore::open(&place.at("store"), store::Options::default()).unwrap();
    backup::write(&opened, place.folder.path(), "new.backup", &key, 5).unwrap();
    drop(opened);
    backup::restore(&place.at("new.backup"), &key, &again).unwrap();
    assert_eq!(place.formats("again"), (FORMAT, FORMAT));
}
