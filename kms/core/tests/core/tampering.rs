//! An attacker who can write the store's file, but has no unseal share: removed, rolled-back,
//! swapped or added records are rejected when the store opens.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_kms::gate::{self, Action, Peer, Principal};
use gabion_kms::model::{Minimum, State};
use gabion_kms::operations::{self, Kms, NewKey, Terms};
use gabion_kms::seal::{self, AuthenticatedStore, Share, Shares, Slots, UnsealMethod};
use gabion_kms::service::{
    AuditAt, Call, IdempotentRequest, KeyRef, OpResult, OpStart, Options, Service,
};
use gabion_kms::store::{self, FORMAT, Record, SqliteStore, Store, StoreError};
use gabion_kms::{Code, Error};
use rusqlite::Connection;

use crate::verbs::label;

/// A store with its log, and a share that opens it.
struct Place {
    folder: tempfile::TempDir,
    shares: Vec<Share>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("store");
        SqliteStore::create(&at).unwrap();
        let store = SqliteStore::open(&at, store::Options::default()).unwrap();
        let slots = Slots { recovery: Shares { shares: 1, threshold: 1 }, passphrase: None };
        let dealt = seal::init(&store, &slots).unwrap();
        dealt.adopt(&store, dealt.shares()).unwrap();
        Place { shares: dealt.shares().to_vec(), folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> Result<Service, Error> {
        let store = Arc::new(SqliteStore::open(&self.at("store"), store::Options::default())?);
        let sealer = seal::unseal(&*store, UnsealMethod::Shares(&self.shares))?;
        let kms = Kms::new(store, sealer, operations::Options::default())?;
        let gate =
            gate::Options { needs_certificate_for_administration: false, ..Default::default() };
        let log = gabion_kms::audit::Options { segment_bytes: 64 << 10, reserve_bytes: 4 << 10 };
        let options = Options { gate, log, ..Options::default() };
        Service::open(kms, &AuditAt::Folder(&self.at("audit")), options)
    }

    /// Does something with an open service.
    fn with<T>(&self, run: impl FnOnce(&Service, &Call<'_>) -> T) -> T {
        let service = self.open().unwrap();
        let who = service.gate().local(Principal::new("me").unwrap());
        let ran = run(&service, &Call::new(&who, "r-1"));
        service.checkpoint().unwrap();
        ran
    }

    /// Keeps a copy of the store's file.
    fn keep(&self, name: &str) -> PathBuf {
        let (kept, db) = (self.at(name), Connection::open(self.at("store")).unwrap());
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
        drop(db);
        fs::copy(self.at("store"), &kept).unwrap();
        kept
    }

    /// Why a file does not open.
    fn refused(&self, at: &Path) -> Option<Error> {
        let opened = || -> Result<(), Error> {
            let store = SqliteStore::open(at, store::Options::default())?;
            let sealer = seal::unseal(&store, UnsealMethod::Shares(&self.shares))?;
            AuthenticatedStore::open(&store as &dyn Store, Arc::new(sealer)).map(drop)
        };
        opened().err()
    }

    /// Changes the records of a copy, which has to be refused.
    fn refuses(&self, of: (&str, &str), now: &Path, change: &dyn Fn(&mut Vec<Row>)) {
        let to = self.at("changed");
        changed(now, &to, |rows| change(rows));
        let error = self.refused(&to).unwrap_or_else(|| panic!("{of:?}"));
        let is_named =
            matches!(error.code(), Code::IntegrityFailed | Code::UnsealFailed | Code::BadRequest);
        assert!(is_named, "{of:?}: {error}");
    }
}

pub fn new_key(name: &str, algorithm: &str) -> NewKey {
    NewKey {
        tenant: label("default"),
        purpose: label("transit"),
        name: label(name),
        algorithm: algorithm.parse().unwrap(),
    }
}

/// Something of every family, of which each record that can change has an older generation in
/// `older`.
fn filled() -> (Place, PathBuf, PathBuf) {
    let place = Place::new();
    let (tenant, web, short) = (label("default"), label("web"), label("short"));
    let web = KeyRef { tenant: &tenant, name: &web };
    let short = KeyRef { tenant: &tenant, name: &short };
    let daily = Terms { rotate_period_s: Some(86_400), ..Terms::default() };
    let op = |service: &Service, call: &Call<'_>, id: &str, name: &str| {
        let (name, key) = (label(name), new_key(name, "ed25519"));
        let request = [id.len() as u8; 32];
        let asked = IdempotentRequest {
            op_id: id,
            request,
            action: Action::Create,
            tenant: &tenant,
            key: Some(&name),
            is_secret: false,
        };
        let OpStart::New(op) = service.op_begin(call, &asked).unwrap() else { panic!("{id}") };
        service.create(&Call { op: Some(&op), ..*call }, &key).unwrap();
        service.op_end(op, OpResult::Done(b"made")).unwrap();
    };
    place.with(|service, call| {
        service.create_on(call, &new_key("web", "ed25519"), &daily).unwrap();
        service.create(call, &new_key("short", "aes256-gcm96")).unwrap();
        service.create(call, &new_key("gone", "ed25519")).unwrap();
        service.encrypt(call, &short, None, b"x", b"").unwrap();
        service.policy_put(call, &label("base"), "permit(principal, action, resource);").unwrap();
        service.root_rotate(call).unwrap();
        op(service, call, "first", "by-op");
    });
    let older = place.keep("older");
    place.with(|service, call| {
        let token = service.first_token(&Principal::new("leaked").unwrap()).unwrap();
        service.token_revoke(call, token.id()).unwrap();
        let own = service.first_token(&Principal::new("own").unwrap()).unwrap();
        let own = service.authenticate(&own.to_string(), &Peer::default()).unwrap();
        service.token_revoke_self(&Call::new(&own, "own")).unwrap();
        let roots = service.gate().roots();
        service.root_retire(call, *roots.last().unwrap()).unwrap();
        service.rotate(call, &web).unwrap();
        service.set_state(call, &web, 1, State::Disabled).unwrap();
        service.set_minimum(call, &web, Minimum::Sign, 2).unwrap();
        service.encrypt(call, &short, None, b"x", b"").unwrap();
        service.policy_put(call, &label("base"), "permit(principal, action, resource); forbid(principal == Token::\"nobody\", action, resource);").unwrap();
        let gone = label("gone");
        let gone = KeyRef { tenant: &tenant, name: &gone };
        service.delete(call, &gone).unwrap();
        service.destroy(call, &gone).unwrap();
        op(service, call, "second", "by-op-2");
    });
    let now = place.keep("now");
    (place, older, now)
}

/// First segments of paths.
const FAMILIES: [&str; 12] = [
    "administrators",
    "integrity",
    "keys",
    "names",
    "ops",
    "policies",
    "publics",
    "rotations",
    "seal",
    "system",
    "tokens",
    "versions",
];

/// A row of the table of records.
#[derive(Clone, PartialEq)]
struct Row {
    path: String,
    record: Record,
    digest: Vec<u8>,
}

fn by_path(at: &Path) -> BTreeMap<String, Row> {
    rows(at).into_iter().map(|row| (row.path.clone(), row)).collect()
}

fn rows(at: &Path) -> Vec<Row> {
    let db = Connection::open(at).unwrap();
    let mut all = db.prepare("SELECT path, generation, value, digest FROM records").unwrap();
    let of = |row: &rusqlite::Row<'_>| {
        let record = Record { generation: row.get::<_, i64>(1)? as u64, value: row.get(2)? };
        Ok(Row { path: row.get(0)?, record, digest: row.get(3)? })
    };
    all.query_map((), of).unwrap().map(Result::unwrap).collect()
}

/// Changes the records of a copy like an attacker who knows all checks that need no key: the rules
/// of the schema are kept, and each digest is right.
fn changed(now: &Path, to: &Path, change: impl FnOnce(&mut Vec<Row>)) {
    let mut all = rows(now);
    change(&mut all);
    for ending in ["", "-wal", "-shm", ".lock"] {
        let _ = fs::remove_file(format!("{}{ending}", to.display()));
    }
    fs::copy(now, to).unwrap();
    let db = Connection::open(to).unwrap();
    // Do not wait for the disk thousands of times.
    db.execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    let rules: Vec<String> = {
        let mut rules = db.prepare("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").unwrap();
        rules.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for rule in ["generations_begin", "records_are_never_deleted", "generations_count"] {
        db.execute(&format!("DROP TRIGGER {rule}"), ()).unwrap();
    }
    db.execute("DELETE FROM records", ()).unwrap();
    for Row { path, record, .. } in &all {
        let digest = record.digest(path);
        let row = rusqlite::params![path, record.generation as i64, record.value, digest];
        db.execute("INSERT INTO records VALUES (?1, ?2, ?3, ?4)", row).unwrap();
    }
    for rule in rules {
        db.execute(&rule, ()).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
}

#[test]
fn no_record_is_removed_put_back_exchanged_or_added_unnoticed() {
    let (place, older, now) = filled();
    let to = place.at("changed");
    let all = rows(&now);
    let old = by_path(&older);
    let families: BTreeSet<&str> =
        all.iter().map(|row| row.path.split('/').next().unwrap()).collect();
    assert_eq!(families.into_iter().collect::<Vec<_>>(), FAMILIES);
    changed(&now, &to, |_| {});
    assert_eq!(place.refused(&to), None);
    let mut put_back = BTreeSet::new();
    let refuse = |what, path: &str, change: &dyn Fn(&mut Vec<Row>)| {
        place.refuses((what, path), &now, change);
    };
    for (at, row) in all.iter().enumerate() {
        let (path, next) = (row.path.as_str(), (at + 1) % all.len());
        refuse("removed", path, &|rows| {
            rows.remove(at);
        });
        if let Some(old) = old.get(path).filter(|old| old.record != row.record) {
            refuse("put back", path, &|rows| rows[at] = old.clone());
            put_back.insert(path.split('/').next().unwrap());
        }
        refuse("moved", path, &|rows| rows[at].path.push('x'));
        refuse("copied", path, &|rows| {
            let path = format!("{path}x");
            rows.push(Row { path, ..rows[at].clone() });
        });
        refuse("exchanged", path, &|rows| {
            let one = rows[at].record.clone();
            rows[at].record = std::mem::replace(&mut rows[next].record, one);
        });
        if row.record.value.is_some() {
            refuse("buried", path, &|rows| {
                rows[at].record.generation += 1;
                rows[at].record.value = None;
            });
        }
    }
    // Of the others each record is written once here.
    let changing =
        ["integrity", "keys", "names", "policies", "rotations", "system", "tokens", "versions"];
    assert!(changing.iter().all(|family| put_back.contains(family)), "{put_back:?}");
}

#[test]
fn no_family_is_removed_put_back_or_added_to_unnoticed() {
    let (place, older, now) = filled();
    let old = by_path(&older);
    let refuse = |what, path: &str, change: &dyn Fn(&mut Vec<Row>)| {
        place.refuses((what, path), &now, change);
    };
    for family in FAMILIES {
        let under = format!("{family}/");
        refuse("all removed", family, &|rows| rows.retain(|row| !row.path.starts_with(&under)));
        if family != "seal" {
            refuse("all put back", family, &|rows| {
                rows.retain(|row| !row.path.starts_with(&under));
                rows.extend(old.values().filter(|row| row.path.starts_with(&under)).cloned());
            });
        }
        refuse("one more", family, &|rows| {
            let record = Record { generation: 1, value: Some(vec![1; 60]) };
            rows.push(Row { path: format!("{family}/planted"), record, digest: Vec::new() });
        });
    }
    refuse("another family", "new", &|rows| {
        let record = Record { generation: 1, value: Some(vec![1; 60]) };
        rows.push(Row { path: "new/planted".to_owned(), record, digest: Vec::new() });
    });
}

/// The effects of removed records, from the original report, through the service.
#[test]
fn a_service_stays_sealed_if_revocations_or_policies_were_removed() {
    let (place, _, now) = filled();
    for (family, what) in [
        ("tokens", "tokens/revoked/"),
        ("tokens", "tokens/cut/"),
        ("policies", "policies/base"),
        ("system", "system/audit-head"),
        ("ops", "ops/default/"),
    ] {
        changed(&now, &place.at("store"), |rows| rows.retain(|row| !row.path.starts_with(what)));
        let Err(Error::Integrity { path, reason }) = place.open().map(drop) else {
            panic!("{what}")
        };
        assert_eq!(path, family);
        assert!(reason.starts_with("records were removed"), "{reason}");
    }
}

/// Reads find records through an index, which has to be that of the records.
#[test]
fn an_index_that_differs_from_the_records_is_refused() {
    const INDEX: &str = "sqlite_autoindex_records_1";
    let (place, _, now) = filled();
    let to = place.at("changed");
    let all = rows(&now);
    let under = |family: &str| all.iter().find(|row| row.path.starts_with(family)).unwrap();
    let (revoked, root) = (&under("tokens/revoked/").path, &under("tokens/roots/").path);
    let of = |path: &str| format!("(SELECT rowid FROM records WHERE path = '{path}')");
    let hidden = |path: &str| format!("DELETE FROM planted WHERE path = '{path}'");
    let added = |path: &str, of: String| {
        format!("INSERT INTO planted SELECT '{path}', -1, rowid FROM records WHERE rowid = {of}")
    };
    for changes in [
        vec![hidden(revoked)],
        // The same number of records in the family.
        vec![added(root, of(root)), hidden(revoked)],
        vec![hidden("system/audit-head")],
        vec![added("system/audit-heae", of("system/audit-head")), hidden("system/audit-head")],
        vec![added(revoked, of(root)), format!("{} AND a <> -1", hidden(revoked))],
    ] {
        changed(&now, &to, |_| {});
        // The pages of an index are those of a table without row numbers. One that has the index's
        // root changes entries.
        let schema = |sql: &str| {
            let db = Connection::open(&to).unwrap();
            let version: i64 = db.query_row("PRAGMA schema_version", (), |row| row.get(0)).unwrap();
            db.execute_batch(&format!(
                "PRAGMA writable_schema = ON; {sql}; PRAGMA schema_version = {}",
                version + 1
            ))
            .unwrap();
        };
        schema(&format!(
            "INSERT INTO sqlite_schema SELECT 'table', 'planted', 'planted', rootpage, \
             'CREATE TABLE planted (path TEXT, a, row, PRIMARY KEY (path, a, row)) WITHOUT ROWID' \
             FROM sqlite_schema WHERE name = '{INDEX}'"
        ));
        for change in &changes {
            assert_eq!(Connection::open(&to).unwrap().execute(change, ()).unwrap(), 1, "{change}");
        }
        schema("DELETE FROM sqlite_schema WHERE name = 'planted'");
        let error = place.refused(&to).unwrap_or_else(|| panic!("{changes:?}"));
        assert_eq!(error.code(), Code::IntegrityFailed, "{changes:?}: {error}");
    }
}

/// The file is what this program wrote, but for its records.
#[test]
fn foreign_schema_objects_are_refused() {
    let (place, _, now) = filled();
    let to = place.at("changed");
    for (sql, named) in [
        (
            "CREATE TRIGGER evil AFTER INSERT ON records WHEN NEW.path LIKE 'tokens/revoked/%' BEGIN DELETE FROM records WHERE path = NEW.path; END",
            "trigger `evil`",
        ),
        ("CREATE TRIGGER evil AFTER UPDATE ON store BEGIN SELECT 1; END", "trigger `evil`"),
        ("DROP TRIGGER records_are_never_deleted", "`records_are_never_deleted` is missing"),
        (
            "DROP TRIGGER generations_count; CREATE TRIGGER generations_count BEFORE UPDATE ON records WHEN 0 BEGIN SELECT 1; END",
            "trigger `generations_count`",
        ),
        ("CREATE TABLE other (a)", "table `other`"),
        ("CREATE TABLE other (a INTEGER PRIMARY KEY AUTOINCREMENT)", "table `"),
        ("CREATE VIEW other AS SELECT * FROM records", "view `other`"),
        ("CREATE INDEX other ON records (generation)", "index `other`"),
        ("ALTER TABLE records ADD COLUMN other TEXT", "table `records`"),
        (
            "ALTER TABLE store RENAME TO other; CREATE VIEW store AS SELECT * FROM other",
            "no table `store`",
        ),
        ("ANALYZE", "table `sqlite_stat1`"),
        ("PRAGMA user_version = 7", "user_version = 7"),
        ("UPDATE store SET min_reader = 1", "formats 1 and 2"),
        ("UPDATE store SET min_writer = 1", "formats 2 and 1"),
        ("UPDATE store SET min_reader = 1, min_writer = 1", "format was put back"),
        ("UPDATE store SET revision = revision + 1", "revision"),
        ("UPDATE store SET revision = 1", "revision"),
        ("UPDATE store SET id = x'00112233445566778899aabbccddeeff'", ""),
    ] {
        changed(&now, &to, |_| {});
        Connection::open(&to).unwrap().execute_batch(sql).unwrap();
        let error = place.refused(&to).unwrap_or_else(|| panic!("{sql}")).to_string();
        assert!(error.contains(named), "{sql}: {error}");
    }
    // A journal's mode is set anew at each opening, and no right is one of the incarnation.
    for sql in ["PRAGMA journal_mode = DELETE", "UPDATE store SET incarnation = 9"] {
        changed(&now, &to, |_| {});
        Connection::open(&to).unwrap().execute_batch(sql).unwrap();
        assert_eq!(place.refused(&to), None, "{sql}");
    }
}

/// One that comes by a backup of a file is refused, too.
#[test]
fn a_copy_with_a_trigger_is_not_restored() {
    let (place, _, now) = filled();
    let to = place.at("restored");
    let db = Connection::open(&now).unwrap();
    db.execute_batch("CREATE TRIGGER evil AFTER UPDATE ON store BEGIN SELECT 1; END").unwrap();
    db.query_row("PRAGMA journal_mode = DELETE", (), |_| Ok(())).unwrap();
    drop(db);
    assert!(matches!(SqliteStore::restore(&now, &to), Err(StoreError::Foreign(_))));
    assert!(!to.exists());
}

/// Records that were written in a store with a manifest are not accepted as an older store's,
/// regardless of the format that the file claims.
#[test]
fn a_manifest_that_was_removed_is_missed_whatever_the_format_says() {
    let (place, _, now) = filled();
    let to = place.at("changed");
    for format in [1, FORMAT] {
        for is_sealed in [true, false] {
            changed(&now, &to, |rows| {
                rows.retain(|row| !row.path.starts_with("integrity/"));
                rows.retain(|row| is_sealed || row.path != "seal/config");
            });
            let db = Connection::open(&to).unwrap();
            db.execute("UPDATE store SET min_reader = ?1, min_writer = ?1", [format as i64])
                .unwrap();
            drop(db);
            assert!(place.refused(&to).is_some(), "{format} {is_sealed}");
        }
    }
    // Nor is an empty one, whose seal is there.
    changed(&now, &to, |rows| rows.retain(|row| row.path == "seal/config"));
    let error = place.refused(&to).unwrap();
    assert_eq!(error.code(), Code::IntegrityFailed, "{error}");
}
