//! Copies of the store, restored and expired: which keys come back, and which never do.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use gabion_kms::backup::{Backup, Periods};
use gabion_kms_client::{Address, Client, Settings};
use gabion_kms_server::{Server, ServiceHost, attenuate_token};
use gabion_kms_wire::native::{AuditRecords, CreateKey, CreateToken, Destroyed};
use serde_json::{Value, json};

use super::raw::Local;
use super::refused;
use super::serve::{Place, create};

/// Returns the state of a key.
fn state(client: &Client, key: &str) -> String {
    match client.show(key) {
        Ok(_) => "there".to_owned(),
        error => refused(error).code,
    }
}

/// A key with a copy that has it; its id and the copy's name.
fn with_copy(admin: &Client, name: &str) -> (String, String) {
    create(admin, name);
    (admin.show(name).unwrap().id, admin.backup().unwrap().file)
}

/// Restores a backup, and serves it with the current log.
fn restored(place: &Place, file: &str, to: &str) -> Server {
    restored_hearing(place, file, to).0
}

/// Serves a restored backup, and returns the report of unsealing.
fn restored_hearing(place: &Place, file: &str, to: &str) -> (Server, Vec<String>) {
    ServiceHost::restore(&place.config(to), &place.path("backups").join(file), None).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([place.path("store-audit"), place.path(&format!("{to}-audit"))])
        .status();
    assert!(copied.unwrap().success());
    let server = place.serve(to);
    let heard = place.unseal_hearing();
    (server, heard)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the audit records of ended periods.
fn told(admin: &Client) -> Vec<String> {
    let records: AuditRecords = admin.get("/v1/kms/audit?limit=1000").unwrap();
    let of = |record: &Value| {
        let key = record["key"].as_str().filter(|key| key.starts_with("expired:"))?;
        (record["outcome"] == "ok" && record["action"] == "backup").then(|| key.to_owned())
    };
    records.records.iter().filter_map(|entry| of(&entry.record)).collect()
}

/// A destroyed key is not restored from any backup with the current log, and from no backup at all
/// after its periods ended.
#[test]
fn a_destroyed_key_comes_back_of_no_copy() {
    let place = Place::new();
    let server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    create(&admin, "stays");
    let (id, copy) = with_copy(&admin, "k");
    admin.delete("k").unwrap();
    let destroyed = admin.destroy("k").unwrap();
    assert_eq!(destroyed, Destroyed { revision: destroyed.revision, ..Destroyed::default() });
    // Another key of the name since, which the log does not say was destroyed.
    create(&admin, "k");
    let (second, _) = with_copy(&admin, "other");
    server.stop();

    let server = restored(&place, &copy, "again");
    let admin = place.admin();
    assert_eq!(
        (state(&admin, &id), state(&admin, "k")),
        ("key_destroyed".into(), "not_found".into())
    );
    assert_eq!(state(&admin, "stays"), "there");
    assert_eq!(state(&admin, &second), "not_found");
    create(&admin, "k");
    server.stop();
    // And again of the same.
    let server = place.serve("again");
    place.unseal();
    assert_eq!(state(&place.admin(), "k"), "there");
    assert_eq!(state(&place.admin(), &id), "key_destroyed");
    server.stop();

    // The first store again: now the copies that have it end.
    let server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    let (third, copy) = with_copy(&admin, "third");
    admin.delete("third").unwrap();
    let destroyed = admin.destroy_with_backups(&third).unwrap();
    let expired = destroyed.expired_periods.unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(told(&admin), [format!("expired:{}", expired[0])]);
    let unreadable = destroyed.unreadable_backups.unwrap();
    assert!(unreadable.contains(&copy) && unreadable.len() == 3, "{unreadable:?}");
    assert_eq!(unreadable, names(&place.path("backups")));
    assert_eq!(destroyed.plain_backups.unwrap(), Vec::<String>::new());
    // `stays`, `k` and `other`.
    assert_eq!(destroyed.keys_without_backup, Some(3));
    let after = admin.backup().unwrap();
    assert!(after.period.is_some_and(|period| !expired.contains(&period)));
    server.stop();
    for file in &unreadable {
        let error =
            ServiceHost::restore(&place.config("never"), &place.path("backups").join(file), None);
        let error = error.err().unwrap().to_string();
        assert!(error.contains(&expired[0]) && error.contains("backup-keys"), "{error}");
        assert!(!place.path("never").exists());
    }
    let server = restored(&place, &after.file, "after");
    assert_eq!(state(&place.admin(), "stays"), "there");
    assert_eq!(state(&place.admin(), &third), "key_destroyed");
    server.stop();
}

/// Restrictions since the backup are reapplied, and unsealing reports them and those that were not.
#[test]
fn revocations_are_reapplied_after_restore() {
    let place = Place::new();
    let server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    create(&admin, "k");
    admin.rotate("k").unwrap();
    let token = |name: &str| {
        let asked = CreateToken { principal: name.to_owned(), ..CreateToken::default() };
        let made = admin.create_token(&asked).unwrap();
        (place.client(made.token.expose()), made.id)
    };
    let ((gone, id), (stays, _)) = (token("gone"), token("stays"));
    let copy = admin.backup().unwrap().file;
    admin.revoke_token(&id).unwrap();
    admin.disable("k", 1).unwrap();
    admin.put_policy("p", "permit(principal is Token, action, resource);").unwrap();
    assert_eq!(refused(gone.show("k")).code, "unauthenticated");
    server.stop();

    let (server, heard) = restored_hearing(&place, &copy, "again");
    assert_eq!(refused(gone.show("k")).code, "unauthenticated");
    let shown = stays.show("k").unwrap();
    let key = shown.id;
    assert_eq!(
        heard,
        [
            format!("restored: revoked token:{id}, as before"),
            format!("restored: disabled version 1 of {key}, as before"),
            "restored: look: the set of policies p was changed up to version 1, and is of version 0: write or delete it again"
                .to_owned(),
        ]
    );
    // The report is given only once.
    assert_eq!(place.unseal_hearing(), Vec::<String>::new());
    server.stop();
    let server = place.serve("again");
    assert_eq!(place.unseal_hearing(), Vec::<String>::new());
    assert_eq!(refused(gone.show("k")).code, "unauthenticated");
    server.stop();
}

/// A process that was killed between the key's end and its periods' is one that destroyed the key
/// alone.
#[test]
fn interrupted_destruction_resumes_by_key_id() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    let (id, copy) = with_copy(&admin, "k");
    assert_eq!(refused(admin.destroy_with_backups("k")).code, "bad_request");
    admin.delete("k").unwrap();
    admin.destroy("k").unwrap();
    assert_eq!(refused(admin.destroy_with_backups("k")).code, "not_found");
    let destroyed = admin.destroy_with_backups(&id).unwrap();
    assert_eq!(destroyed.unreadable_backups, Some(vec![copy.clone()]));
    assert_eq!(destroyed.expired_periods.unwrap().len(), 1);
    let keys = names(&place.path("backup-keys"));
    assert_eq!(keys.len(), 1);
    // Once more: the period of now began when the key was gone, and stays.
    let again = admin.destroy_with_backups(&id).unwrap();
    assert_eq!(again.unreadable_backups, Some(vec![copy]));
    assert_eq!(again.expired_periods, Some(Vec::new()));
    assert_eq!(names(&place.path("backup-keys")), keys);
    let last = if id.ends_with('0') { "1" } else { "0" };
    let unknown = format!("{}{last}", &id[..id.len() - 1]);
    assert_eq!(refused(admin.destroy_with_backups(&unknown)).code, "not_found");
}

#[test]
fn copies_of_before_the_key_stay_readable_and_those_of_an_older_program_are_named() {
    let place = Place::new();
    let server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    let (_, first) = with_copy(&admin, "old");
    // Another period begins, as it does after some days.
    let said = Backup::read(&place.path("backups").join(&first)).unwrap().unwrap();
    let periods = Periods::new(&place.path("backup-keys"), said.store.id);
    periods.renew(said.created_ms, said.records).unwrap();
    let (id, second) = with_copy(&admin, "k");
    admin.delete("k").unwrap();
    fs::write(place.path("backups/plain.backup"), b"SQLite format 3\0").unwrap();
    let destroyed = admin.destroy_with_backups(&id).unwrap();
    assert_eq!(destroyed.unreadable_backups, Some(vec![second]));
    assert_eq!(destroyed.plain_backups, Some(vec!["plain.backup".to_owned()]));
    assert_eq!(destroyed.expired_periods.unwrap().len(), 1);
    assert_eq!(destroyed.keys_without_backup, Some(0));
    // A repeated request counts newer keys.
    create(&admin, "new");
    let again = admin.destroy_with_backups(&id).unwrap();
    assert_eq!((again.expired_periods, again.keys_without_backup), (Some(Vec::new()), Some(1)));
    server.stop();
    let server = restored(&place, &first, "first");
    assert_eq!(
        (&*state(&place.admin(), "old"), &*state(&place.admin(), &id)),
        ("there", "not_found")
    );
    server.stop();
}

#[test]
fn expiring_backups_needs_backup_and_destroy_permissions() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    let (id, _) = with_copy(&admin, "web-k");
    admin.delete("web-k").unwrap();
    let keys = names(&place.path("backup-keys"));
    let of = |caveats: &[&str]| {
        let caveats: Vec<String> = caveats.iter().map(|caveat| (*caveat).to_owned()).collect();
        place.client(&attenuate_token(&place.token, &caveats).unwrap())
    };
    let (no_copy, no_destroy) =
        (of(&["actions=destroy,show,list"]), of(&["actions=backup,show,list"]));
    assert_eq!(refused(no_copy.destroy_with_backups(&id)).code, "denied");
    assert_eq!(refused(no_destroy.destroy_with_backups(&id)).code, "denied");
    assert_eq!(refused(of(&["key_prefix=web-"]).destroy_with_backups(&id)).code, "denied");
    assert_eq!(state(&admin, &id), "there");
    no_copy.destroy("web-k").unwrap();
    assert_eq!(refused(no_copy.destroy_with_backups(&id)).code, "denied");
    assert_eq!(refused(no_destroy.destroy_with_backups(&id)).code, "denied");
    assert_eq!(names(&place.path("backup-keys")), keys);
    // A name of a change that is done once is not for this.
    let problem = refused(place.admin().with_op_id("x").destroy_with_backups(&id));
    assert!(["bad_request", "key_destroyed", "not_found"].contains(&&*problem.code), "{problem:?}");
    let path = format!("/v1/kms/keys/{}/destroy", id.replace('/', "%2F"));
    let unknown = refused(admin.post::<Value>(&path, &json!({"expire_backup": true})));
    assert!(unknown.message.contains("unknown field `expire_backup`"), "{unknown:?}");
    assert_eq!(names(&place.path("backup-keys")), keys);
    admin.destroy_with_backups(&id).unwrap();
    assert_ne!(names(&place.path("backup-keys")), keys);
}

#[test]
fn backup_keys_within_the_backup_folder_are_refused() {
    let place = Place::new();
    let text = "[store]\npath = \"STORE\"\n[audit]\nfolder = \"AUDIT\"\n[backup]\nfolder = \"BACKUPS\"\nkeys = \"KEYS\"\nperiod_days = 1";
    let config = |keys: &Path| {
        let at = |name: &str| place.path(name).display().to_string();
        let text = text.replace("STORE", &at("store")).replace("AUDIT", &at("store-audit"));
        let text =
            text.replace("BACKUPS", &at("backups")).replace("KEYS", &keys.display().to_string());
        format!("listen = [\"unix:/tmp/x\"]\n{text}").parse().unwrap()
    };
    std::os::unix::fs::symlink(place.path("backups"), place.path("link")).unwrap();
    for keys in ["backups", "backups/keys", "link/keys", "link"] {
        let error = ServiceHost::open(&config(&place.path(keys))).err().unwrap().to_string();
        assert!(error.contains("set `backup.keys` to another folder"), "{keys}: {error}");
    }
    drop(ServiceHost::open(&config(&place.path("apart"))).unwrap());
    // A link that is made while it serves.
    let _server = place.serve("store");
    place.unseal();
    std::os::unix::fs::symlink(place.path("backups"), place.path("backup-keys")).unwrap();
    let problem = refused(place.admin().backup());
    assert!(problem.message.contains("set `backup.keys`"), "{problem:?}");
    assert!(names(&place.path("backups")).is_empty());
}

/// A folder that is missing is made at the start, and one that can't be made or is lost later is
/// named.
#[test]
fn a_missing_folder_of_backups_is_made_or_named() {
    let place = Place::new();
    let backups = place.path("backups");
    fs::remove_dir(&backups).unwrap();
    let at = |name: &str| place.path(name).display().to_string();
    let server = place.serve("store");
    assert_eq!(fs::metadata(&backups).unwrap().permissions().mode() & 0o777, 0o700);
    place.unseal();
    let admin = place.admin();
    let made = admin.backup().unwrap();
    let path = made.path.unwrap();
    assert!(path.starts_with(&at("backups")) && Path::new(&path).exists(), "{path}");
    // A restore takes the path, and the name of a file in the folder.
    ServiceHost::restore(&place.config("by-path"), Path::new(&path), None).unwrap();
    ServiceHost::restore(&place.config("by-name"), Path::new(&made.file), None).unwrap();
    fs::remove_dir_all(&backups).unwrap();
    let problem = refused(admin.backup());
    assert_eq!((problem.code.as_str(), problem.retryable), ("backup_failed", true));
    assert!(problem.message.contains(&at("backups/")), "{problem:?}");
    assert!(!problem.message.contains("store is unavailable"), "{problem:?}");
    server.stop();
    // One that can't be made.
    fs::write(&backups, "").unwrap();
    let text = |place: &Place| ServiceHost::open(&place.config("store")).err().unwrap().to_string();
    let error = text(&place);
    assert!(error.contains("backup.folder") && error.contains(&at("backups")), "{error}");
    let error = ServiceHost::open(&place.config("missing/store")).err().unwrap().to_string();
    assert!(error.contains("cannot access the store") && error.contains(&at("missing")), "{error}");
}

#[test]
fn a_server_in_memory_has_no_copies_that_could_expire() {
    let local = Local::start();
    let client = local.client();
    client
        .create(&CreateKey {
            name: "k".into(),
            algorithm: "ed25519".into(),
            ..CreateKey::default()
        })
        .unwrap();
    client.delete("k").unwrap();
    let problem = refused(client.destroy_with_backups("k"));
    assert_eq!(problem.code, "unsupported");
    assert!(problem.message.contains("not configured to make backups"), "{problem:?}");
    client.destroy("k").unwrap();
}

/// A large store takes its backup's disk a while, which is no reason to take the server for dead.
#[test]
fn backup_requests_have_a_longer_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("slow");
    let listener = UnixListener::bind(&at).unwrap();
    let client = || {
        let settings = Settings {
            addresses: vec![Address::Unix(at.clone())],
            token: None,
            authorities: None,
            certificate: None,
            timeout: Duration::from_millis(100),
        };
        Client::new(&settings).unwrap()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let asked = stream.read(&mut [0; 4096]).unwrap();
                assert!(asked > 0);
                std::thread::sleep(Duration::from_millis(700));
                let body = r#"{"file":"x.backup","revision":7}"#;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close",
                    body.len()
                );
                // A client that has disconnected does not get it.
                let _ = write!(stream, "{head}\r\n\r\n{body}");
            }
        });
        // Both ask, whatever the first one hears: the other side waits for two.
        let (made, status) = (client().backup(), client().status());
        assert_eq!(made.unwrap().file, "x.backup");
        assert!(matches!(status, Err(gabion_kms_client::Error::Lost { .. })));
    });
}
