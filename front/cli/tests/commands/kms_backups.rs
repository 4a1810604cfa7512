//! Backups by the command line: sealed by a period's key, restored, and expired with a key.

use crate::harness::Work;
use crate::kms::{Caller, ServeCommand, config};

/// A store that one share opens, and a server's configuration with backups.
fn place(work: &Work) -> Caller<'_> {
    let backup = format!("[backup]\nfolder = \"{}\"\n", work.path("backups").display());
    work.write("kms.toml", config(work, "store", &backup));
    work.write("other.toml", config(work, "elsewhere", &backup));
    let (caller, shares) = Caller::init(work, &["--shares", "1", "--threshold", "1"]);
    work.write("share", &shares[0]);
    caller
}

/// The names in a folder.
fn names(work: &Work, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(work.path(folder)).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_key_is_destroyed_with_its_backups_and_others_are_restored() {
    let work = Work::new();
    let caller = place(&work);
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "share"]).ok();
    for name in ["k", "stays"] {
        caller.run(&["key", "create", name, "--algorithm", "ed25519"]).ok();
    }
    // `backup` prints the path that `restore` takes.
    let copy = caller.run(&["backup"]).ok().text().trim().to_owned();
    let first = copy.rsplit_once('/').unwrap().1.to_owned();
    // The key's file is in the store's folder, and restores from elsewhere as well.
    let key = names(&work, "store.backup-keys").remove(0);
    let restore = ["kms", "restore", "--config", "other.toml"];
    let done = work.gabion(&[&restore[..], &[&copy]].concat());
    done.fails(3).says(key.trim_end_matches(".key")).says("--backup-key");
    let key = format!("store.backup-keys/{key}");
    std::fs::copy(work.path(&key), work.path("copy.key")).unwrap();
    work.gabion(&[&restore[..], &["--backup-key", "copy.key", &copy]].concat()).ok();
    assert!(work.has("elsewhere"));

    caller.run(&["key", "delete", "k"]).ok();
    let id = caller.run(&["key", "show", "--json", "k"]).ok().json()["key"]["id"].clone();
    let said = caller.run(&["key", "destroy", "k", "--expire-backups"]).ok().text();
    for part in ["the key is destroyed\n", &format!("unreadable {first}\n"), "1 other keys"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!work.has(&key));
    let id = id.as_str().unwrap();
    let again = caller.run(&["key", "destroy", "--json", id, "--expire-backups"]).ok().json();
    assert_eq!(again["expired_periods"].as_array().unwrap().len(), 0);
    caller.run(&["key", "destroy", "k", "--expire-backups"]).fails(1);
    let second = caller.run(&["backup", "--json"]).ok().json();
    assert_eq!(names(&work, "store.backup-keys").len(), 1);
    assert!(key.contains("000001-") && second["period"].as_str().unwrap().starts_with("000002-"));
    assert_eq!(server.end(), Some(0));

    // The store is lost.
    for name in
        names(&work, "").iter().filter(|name| *name == "store" || name.starts_with("store-"))
    {
        std::fs::remove_file(work.path(name)).unwrap();
    }
    let restore = ["kms", "restore", "--config", "kms.toml"];
    work.gabion(&[&restore[..], &[&copy]].concat()).fails(3).says("000001-");
    assert!(!work.has("store"));
    let copy = second["file"].as_str().unwrap();
    work.gabion(&[&restore[..], &["missing.backup"]].concat()).fails(1).says("missing.backup");
    work.gabion(&[&restore[..], &[copy]].concat()).ok();
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "share"]).ok();
    let list = caller.run(&["key", "list"]).ok().text();
    assert!(list.contains("stays") && list.lines().count() == 1, "{list}");
    assert_eq!(server.end(), Some(0));
}
