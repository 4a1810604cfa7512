//! Shares that are wrapped for their holders.

use std::process::Command;

use crate::harness::Work;
use crate::kms::{Caller, ServeCommand, config};

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

/// A configuration, and a key pair for each person.
fn place(work: &Work) -> Caller<'_> {
    work.write("kms.toml", config(work, "store", ""));
    for name in PEOPLE {
        keygen(work, name);
    }
    Caller::nobody(work)
}

fn keygen(work: &Work, name: &str) {
    let [key, public] = [format!("{name}.pem"), format!("{name}.pub")];
    work.gabion(&["keygen", "X-Wing", "--out", &key, "--pub", &public]).ok();
}

/// The command, two of three shares and a holder for each name.
fn dealing(verb: &str, names: &[&str]) -> Vec<String> {
    let words = ["kms", verb, "--config", "kms.toml", "--shares", "3", "--threshold", "2"];
    let holders = names.iter().flat_map(|name| ["--holder".to_owned(), format!("{name}.pub")]);
    words.into_iter().map(str::to_owned).chain(holders).collect()
}

/// The SHA-256 of a public key's DER, as the page has people compute it.
fn sha256(work: &Work, name: &str) -> String {
    let line = format!("grep -v ^- {name}.pub | base64 -d | sha256sum");
    let said = Command::new("sh").args(["-ec", &line]).current_dir(work.folder()).output().unwrap();
    String::from_utf8(said.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// The round of docs/operate/kms.md: keys, a store, wrapped shares, and two people who open it.
#[test]
fn wrapped_shares_open_the_seal_by_their_holders_alone() {
    let work = Work::new();
    let mut caller = place(&work);
    let said = work.gabion(&dealing("init", &PEOPLE)).ok().text();
    assert!(!said.contains("gbs1-"), "{said}");
    let shares: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("share  ")).collect();
    assert_eq!(shares.len(), 3);
    for ((at, name), share) in PEOPLE.iter().enumerate().zip(&shares) {
        assert_eq!(sha256(&work, name).len(), 64);
        assert!(
            said.contains(&format!(
                "for    {name}.pub, whose key has the SHA-256 {}\n",
                sha256(&work, name)
            )),
            "{said}"
        );
        assert_eq!(share.split('-').nth(3), Some(&*(at + 1).to_string()));
        work.write(&format!("{name}.wrapped"), format!("{share}\n"));
    }
    caller.token = said.lines().find_map(|line| line.strip_prefix("token  ")).unwrap().to_owned();
    let server = ServeCommand::start(&caller);
    // Entering a share that is still wrapped prints the command that opens it, and is not counted.
    caller.run(&["unseal", "alice.wrapped"]).fails(1).says("gabion kms share open --key PRIVATE");
    caller.run(&["recover-admin", "alice.wrapped"]).fails(1).says("gabion kms share open");
    for (name, left) in
        [("bob", "1 of 2 shares are entered\n"), ("carol", "the server is unsealed\n")]
    {
        let [key, wrapped] = [format!("{name}.pem"), format!("{name}.wrapped")];
        let opened = work.gabion(&["kms", "share", "open", "--key", &key, &wrapped]).ok().text();
        assert!(opened.starts_with("gbs1-") && opened.lines().count() == 1);
        work.write("opened", &opened);
        assert_eq!(caller.run(&["unseal", "opened"]).ok().text(), left);
    }
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
    assert_eq!(server.end(), Some(0));
    // Dealt anew by wrapped shares that were opened, for other people.
    keygen(&work, "dave");
    let given: String = ["alice", "bob"]
        .map(|name| {
            let open = ["kms", "share", "open", "--key", &format!("{name}.pem")];
            work.gabion_fed(&open, &work.read(&format!("{name}.wrapped"))).ok().text()
        })
        .concat();
    work.write("given", given);
    let people = ["dave", "bob", "carol"];
    let reseal = [dealing("reseal", &people), vec!["--json".into(), "given".into()]].concat();
    let made = work.gabion(&reseal).ok().json();
    assert!(made.get("shares").is_none());
    let mut new = String::new();
    for (name, wrapped) in people.iter().zip(made["wrapped_shares"].as_array().unwrap()) {
        assert_eq!(wrapped["holder"], format!("{name}.pub"));
        assert_eq!(wrapped["holder_sha256"], sha256(&work, name));
        let share = wrapped["share"].as_str().unwrap();
        let open = ["kms", "share", "open", "--json", "--key", &format!("{name}.pem"), share];
        let opened = work.gabion(&open).ok().json();
        new += &format!("{}\n", opened["share"].as_str().unwrap());
    }
    work.write("new", new);
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "given"]).fails(1);
    caller.run(&["unseal", "new"]).ok();
    assert!(caller.run(&["key", "list"]).ok().text().contains('k'));
    assert_eq!(server.end(), Some(0));
}

#[test]
fn share_open_failures_name_the_reason_and_leak_nothing() {
    let work = Work::new();
    let _caller = place(&work);
    let made = work.gabion(&[dealing("init", &PEOPLE), vec!["--json".into()]].concat()).ok().json();
    let shares: Vec<&str> = made["wrapped_shares"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["share"].as_str().unwrap())
        .collect();
    let open = |key: &str, share: &str| work.gabion(&["kms", "share", "open", "--key", key, share]);
    let clear = open("alice.pem", shares[0]).ok().text();
    open("bob.pem", shares[0]).fails(1).says("share 1 of set").says("wrapped for another key");
    let damaged = shares[0].replacen("-1-", "-2-", 1);
    open("alice.pem", &damaged).fails(1).says("checksum");
    open("alice.pem", &shares[0][..200]).fails(1).says("invalid wrapped share; expected");
    open("alice.pem", "missing").fails(2);
    work.write("clear", &clear);
    let done = open("alice.pem", "clear");
    assert!(!format!("{done:?}").contains(clear.trim()));
    done.fails(1).says("not wrapped");
    open("alice.pub", shares[0]).fails(2).says("needs the private key");
    work.gabion(&["keygen", "ML-KEM-768", "--out", "other.pem"]).ok();
    open("other.pem", shares[0]).fails(2).says("X-Wing");
}

#[test]
fn holders_that_can_not_be_are_refused_before_anything_is_there() {
    let work = Work::new();
    let _caller = place(&work);
    let refused = |names: &[&str], says: &str| {
        let done = work.gabion(&dealing("init", names));
        assert!(!done.text().contains("gbw1-") && !done.text().contains("gbs1-"));
        done.fails(2).says(says);
        assert!(!work.has("store"), "{says}");
    };
    refused(&["alice", "bob"], "expected 3, and there are 2");
    refused(&["alice", "bob", "alice"], "holders 1 and 3 have the same key");
    std::fs::copy(work.path("alice.pem"), work.path("private.pub")).unwrap();
    refused(&["private", "bob", "carol"], "expected the public half");
    work.gabion(&["keygen", "ML-KEM-768", "--out", "k.pem", "--pub", "kem.pub"]).ok();
    refused(&["kem", "bob", "carol"], "kem.pub: ");
    work.write("none.pub", "nonsense");
    refused(&["alice", "none", "carol"], "none.pub: ");
    work.gabion(&dealing("init", &PEOPLE)).ok();
}

/// A public key whose X25519 part, at the end, is zero: such a key never occurs by accident.
#[test]
fn a_key_of_small_order_holds_no_share() {
    let work = Work::new();
    let _caller = place(&work);
    let pem = String::from_utf8(work.read("alice.pub")).unwrap();
    let mut der = gabion_kms_wire::decode_pem(&pem).unwrap();
    let at = der.len() - 32;
    der[at..].fill(0);
    work.write("weak.pub", der);
    work.gabion(&dealing("init", &["weak", "bob", "carol"])).fails(2).says("small order");
    assert!(!work.has("store"));
}
