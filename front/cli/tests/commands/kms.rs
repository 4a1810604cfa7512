//! `gabion kms`: a separate server, and the commands that it prints.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{CommandResult, Work};

/// `gabion kms dev`, which ends with the test.
pub struct Server {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(work: &Work, arguments: &[&str]) -> Server {
        let arguments = [&["kms", "dev", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = work.command(&arguments);
        // Whatever it writes to a disk is here.
        command.env("TMPDIR", work.folder()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Server { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    /// Asks it to end, and waits for that.
    pub fn end(mut self) -> Option<i32> {
        terminate(&self.child);
        ended(&mut self.child)
    }
}

/// Asks a process to end.
pub fn terminate(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

/// Waits for the end, for ten seconds and no longer.
pub fn ended(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server that a command finds. It ends when the returned guard is dropped.
pub fn for_examples(work: &Work, command: &mut Command) -> impl Drop + use<> {
    let (server, caller) = dev(work);
    caller.names_itself(command);
    server
}

/// Starts a server in memory, and returns a caller with its token.
pub fn dev(work: &Work) -> (Server, Caller<'_>) {
    let mut server = Server::start(work, &["--json"]);
    let said: Value = serde_json::from_str(&server.line()).unwrap();
    let [address, token, ca_file] =
        ["address", "token", "ca_file"].map(|name| said[name].as_str().unwrap().to_owned());
    (server, Caller { work, address, token, ca_file })
}

/// `gabion kms serve`, which ends with the test.
pub struct ServeCommand;

impl ServeCommand {
    /// Starts it, and waits until it answers.
    pub fn start(caller: &Caller<'_>) -> Server {
        let mut command = caller.work.command(&["kms", "serve", "--config", "kms.toml"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let server = Server { child, out };
        caller.hears();
        server
    }
}

/// The configuration of a server: its socket `kms`, a store, its log; and lines that follow those of the log.
pub fn config(work: &Work, store: &str, more: &str) -> String {
    let [socket, store, audit] = ["kms", store, "audit"].map(|name| work.path(name));
    format!(
        "listen = [\"unix:{}\"]\n[store]\npath = \"{}\"\n\
         [tokens]\nadministration_needs_certificate = false\n[memory]\nallow_unlocked = true\n\
         [audit]\nfolder = \"{}\"\nsegment_mib = 1\n{more}",
        socket.display(),
        store.display(),
        audit.display()
    )
}

/// Commands of a caller of a server.
pub struct Caller<'a> {
    pub work: &'a Work,
    pub address: String,
    pub token: String,
    pub ca_file: String,
}

impl<'a> Caller<'a> {
    /// Returns a caller without a token, of the server of [`config`].
    pub fn nobody(work: &'a Work) -> Self {
        let address = format!("unix:{}", work.path("kms").display());
        Caller { work, address, token: String::new(), ca_file: String::new() }
    }

    /// Makes the store of `kms.toml`; returns a caller with its first token, and its shares.
    pub fn init(work: &'a Work, arguments: &[&str]) -> (Self, Vec<String>) {
        let init = ["kms", "init", "--config", "kms.toml", "--json"];
        let made = work.gabion(&[&init[..], arguments].concat()).ok().json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let shares = made["shares"].as_array().unwrap().iter().map(text).collect();
        (Caller { token: text(&made["token"]), ..Caller::nobody(work) }, shares)
    }

    /// Returns the caller with another token.
    pub fn with(&self, token: &str) -> Caller<'a> {
        let (address, ca_file) = (self.address.clone(), self.ca_file.clone());
        Caller { work: self.work, address, token: token.to_owned(), ca_file }
    }

    /// Waits until the server answers.
    pub fn hears(&self) {
        let start = Instant::now();
        while self.run(&["status"]).text().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(30), "it does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn run(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(self.command(arguments).output().unwrap())
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.work.command(&[&["kms"], arguments].concat());
        self.names_itself(&mut command);
        command
    }

    /// A command that is this caller's.
    fn names_itself(&self, command: &mut Command) {
        command.env("GABION_KMS_ADDR", &self.address);
        command.env("GABION_KMS_TOKEN", &self.token);
        command.env("GABION_KMS_CACERT", &self.ca_file);
    }
}

#[test]
fn the_commands_that_a_server_prints_work_when_pasted() {
    let work = Work::new();
    let mut server = Server::start(&work, &[]);
    let mut commands = Vec::new();
    while commands.len() < 4 {
        let line = server.line();
        assert!(!line.is_empty(), "it ended");
        commands.extend(line.strip_prefix("  ").map(str::to_owned));
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_gabion")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-ec", &commands.concat()]).current_dir(work.folder());
    shell.env("PATH", format!("{}:{path}", folder.display()));
    let done = CommandResult::of(shell.output().unwrap()).ok();
    assert!(
        done.text().contains("the signature verifies, by default/transit/ml-dsa-65/"),
        "{done:?}"
    );
    assert_eq!(work.read("hi.sig").len(), 3309);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn dev_server_prints_json_and_ends_on_sigterm() {
    let work = Work::new();
    let (server, caller) = dev(&work);
    assert!(PathBuf::from(&caller.ca_file).is_file());
    life_of_a_key(&caller);
    refusals(&caller);
    ciphers(&caller);
    tags_and_secrets(&caller);
    keys_that_come_and_go(&caller);
    keys_that_are_wrapped(&caller);
    keys_that_are_opened_elsewhere(&caller);
    labels_of_imports(&caller);
    changes_that_are_asked_for_again(&caller);
    rsa(&caller);
    rotation_by_the_clock(&caller);
    let files: Vec<String> =
        work.names().into_iter().filter(|name| name.starts_with("gabion-kms")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    std::fs::copy(&caller.ca_file, work.path("ca.pem")).unwrap();
    assert_eq!(server.end(), Some(0));
    assert!(!PathBuf::from(&caller.ca_file).exists());
    let caller = Caller { ca_file: "ca.pem".to_owned(), ..caller };
    caller.run(&["status"]).fails(3).says("does not answer");
}

fn rotation_by_the_clock(caller: &Caller<'_>) {
    let create = ["key", "create", "clocked", "--algorithm", "ed25519", "--rotate-every"];
    let with = |time: &'static str| [&create[..], &[time]].concat();
    caller.run(&with("soon")).fails(2).says("such as 12h or 30d");
    caller.run(&with("5m")).fails(2).says("3600 (an hour)");
    let made = caller.run(&[&with("30d")[..], &["--json"]].concat()).ok().json();
    assert_eq!(made["rotate_period_s"], 2_592_000);
    let next = made["rotates_ms"].as_u64().unwrap();
    assert_eq!(next, made["created_ms"].as_u64().unwrap() + 2_592_000_000);
    let shown = caller.run(&["key", "show", "clocked"]).ok().text();
    let next = gabion_kms_server::rfc3339(next);
    assert!(shown.contains(&format!("rotates     every 30d, next at {next}")), "{shown}");
    let config =
        |time: &'static str| ["key", "config", "clocked", "--json", "--rotate-every", time];
    assert_eq!(caller.run(&config("36h")).ok().json()["rotate_period_s"], 129_600);
    caller.run(&config("59m")).fails(2).says("3600 (an hour)");
    assert_eq!(
        caller.run(&["key", "show", "clocked", "--json"]).ok().json()["key"]["rotate_period_s"],
        129_600
    );
    let ended = caller.run(&config("0")).ok().json();
    assert!(ended["rotate_period_s"].is_null() && ended["rotates_ms"].is_null(), "{ended}");
    assert!(!caller.run(&["key", "show", "clocked"]).ok().text().contains("rotates"));
}

/// A store in a file, from its seal to a restored copy.
#[test]
fn a_store_is_sealed_served_copied_and_restored() {
    let work = Work::new();
    std::fs::create_dir(work.path("backups")).unwrap();
    let [backups, keys] = ["backups", "backup-keys"].map(|name| work.path(name));
    let of_backups =
        format!("[backup]\nfolder = \"{}\"\nkeys = \"{}\"\n", backups.display(), keys.display());
    work.write("kms.toml", config(&work, "store", &of_backups));
    let (caller, shares) = Caller::init(&work, &["--shares", "3", "--threshold", "2"]);
    work.gabion(&["kms", "init", "--config", "kms.toml"]).fails(3);
    assert_eq!(shares.len(), 3);
    work.write("shares", format!("{}\n\n{}\n", shares[2], shares[0]));
    let server = ServeCommand::start(&caller);
    assert_eq!(caller.run(&["status", "--json"]).json()["sealed"], true);
    caller.run(&["key", "list"]).fails(3).says("sealed");
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
    work.write("m", "a message");
    caller.run(&["sign", "--key", "k", "--out", "m.sig", "m"]).ok();
    let token =
        caller.run(&["token", "create", "ci", "--caveat", "actions=verify", "--json"]).ok().json();
    let ci = caller.with(token["token"].as_str().unwrap());
    ci.run(&["verify", "--key", "k", "--sig", "m.sig", "m"]).ok();
    ci.run(&["sign", "--key", "k", "m"]).fails(1).says("denied");
    let less = ci.run(&["token", "attenuate", "key_prefix=web-"]).ok().text();
    let less = caller.with(less.trim());
    less.run(&["verify", "--key", "k", "--sig", "m.sig", "m"]).fails(1).says("not_found");
    caller.run(&["token", "revoke", token["id"].as_str().unwrap()]).ok();
    ci.run(&["verify", "--key", "k", "--sig", "m.sig", "m"]).fails(1).says("unauthenticated");
    let backup = caller.run(&["backup"]).ok().text();
    work.gabion(&["kms", "serve", "--config", "kms.toml"]).fails(3);
    assert_eq!(server.end(), Some(0));
    work.write("kms.toml", config(&work, "restored", &of_backups));
    work.gabion(&["kms", "restore", "--config", "kms.toml", backup.trim()]).ok();
    let server = ServeCommand::start(&caller);
    // The format that `init` prints, including the other lines.
    work.write("shares", format!("share  {}\nshare  {}\ntoken  gbk1.x\n", shares[2], shares[0]));
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["verify", "--key", "k", "--sig", "m.sig", "m"]).ok();
    caller.run(&["seal"]).ok();
    caller.run(&["verify", "--key", "k", "--sig", "m.sig", "m"]).fails(3).says("sealed");
    assert_eq!(server.end(), Some(0));
}

/// The command prints when a new token ends, and rejects impossible lifetimes.
#[test]
fn tokens_say_when_they_end() {
    let work = Work::new();
    work.write("kms.toml", config(&work, "store", ""));
    let init = ["kms", "init", "--config", "kms.toml", "--shares", "1", "--threshold", "1"];
    work.gabion(&[&init[..], &["--lifetime", "366d"]].concat()).fails(2).says("31536000 seconds");
    let said = work.gabion(&[&init[..], &["--lifetime", "40d"]].concat()).ok().text();
    let line = |name: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name} in {said}")).trim().to_owned()
    };
    let (ends, token) = (line("ends "), line("token "));
    assert!(ends.starts_with("20") && ends.ends_with('Z') && ends.len() >= 20, "{ends}");
    work.write("shares", line("share "));
    let caller = Caller::nobody(&work).with(&token);
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "shares"]).ok();
    let create = |lifetime| caller.run(&["token", "create", "ci", "--lifetime", lifetime]);
    let made = create("30d").ok().says("the token ends at 20");
    assert_eq!(made.text().lines().count(), 1, "the token alone: {made:?}");
    create("2592000").ok();
    create("41d").fails(2).says("cannot live 3542400 seconds");
    create("0").fails(2).says("12h or 30d");
    let attenuate = |expires: &str| caller.run(&["token", "attenuate", expires]);
    attenuate("expires=1").fails(2).says("which has passed");
    attenuate("expires=9999999999999").fails(2).says("request a new token");
    attenuate("expires=2026-01-01T00:00:00Z").fails(2).says("which has passed");
    attenuate("expires=tomorrow").fails(2).says("RFC 3339");
    caller.run(&["token", "attenuate", "actions=sign"]).ok().says(&ends);
    let shown = caller.run(&["status", "--json"]).ok().json();
    assert_eq!(shown["warnings"], serde_json::json!([]));
    assert_eq!(server.end(), Some(0));
}

/// Revokes a token together with its descendants, and no others; the revoking token is revoked
/// last.
#[test]
fn the_children_of_a_token_are_revoked_with_it() {
    let work = Work::new();
    let (_server, caller) = dev(&work);
    let make = |by: &Caller<'_>, name: &str| {
        let made = by.run(&["token", "create", name, "--json"]).ok().json();
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (caller.with(&text("token")), text("id"))
    };
    let works = |of: &Caller<'_>| of.run(&["token", "create", "x"]).ok().text().len() > 100;
    let ended = |of: &Caller<'_>| drop(of.run(&["random"]).fails(1).says("unauthenticated"));
    let (maker, id) = make(&caller, "maker");
    let less = maker.run(&["token", "attenuate", "batch_max=9"]).ok().text();
    let (child, child_id) = make(&caller.with(less.trim()), "child");
    let (grandchild, grandchild_id) = make(&child, "grandchild");
    let (other, _) = make(&caller, "other");
    let said = caller.run(&["token", "revoke", &id, "--children"]).ok().text();
    let wanted = [&id, &child_id, &grandchild_id].map(|id| format!("revoked {id}\n"));
    assert_eq!(said, wanted.concat());
    [&maker, &child, &grandchild].into_iter().for_each(ended);
    assert!(works(&other));
    // Also one's own.
    let (own, id) = make(&caller, "own");
    let (child, child_id) = make(&own, "child");
    let said = own.run(&["token", "revoke", &id, "--children", "--json"]).ok().json();
    assert_eq!(said["revoked"], serde_json::json!([child_id, id]));
    [&own, &child].into_iter().for_each(ended);
    assert!(works(&caller));
    caller.run(&["token", "revoke", "x", "--children"]).fails(2);
}

/// Policies from the first set to the last: whom they let sign, what refuses to be written, and what answers a question.
#[test]
fn policies_are_written_asked_and_deleted() {
    let work = Work::new();
    let (server, admin) = dev(&work);
    admin.run(&["key", "create", "release", "--algorithm", "ed25519"]).ok();
    let made = admin.run(&["token", "create", "ci", "--json"]).ok().json();
    let ci = admin.with(made["token"].as_str().unwrap());
    work.write("m", "a message");
    ci.run(&["sign", "--key", "release", "m"]).ok();
    let own = "permit(principal == Token::\"dev\", action, resource);";
    work.write(
        "all.cedar",
        format!("{own}\npermit(principal, action == Action::\"verify\", resource);"),
    );
    let sign = ["--principal", "ci", "--action", "sign", "--key", "release"];
    let of_file = ["policy", "check", "--file", "all.cedar", "--name", "all"];
    admin.run(&of_file).ok();
    let said = admin.run(&[&of_file[..], &sign].concat());
    assert_eq!((said.code, &*said.text()), (Some(1), "denied\n"), "nobody lets it sign");
    assert!(admin.run(&["policy", "list"]).ok().text().is_empty(), "a question writes nothing");
    admin.run(&["policy", "put", "all", "all.cedar"]).ok();
    ci.run(&["sign", "--key", "release", "m"]).fails(1);
    ci.run(&["policy", "list"]).fails(1);
    let listed = admin.run(&["policy", "list", "--json"]).ok().json();
    assert_eq!(
        (&listed["sets"][0]["name"], &listed["sets"][0]["policies"]),
        (&"all".into(), &2.into())
    );
    assert!(admin.run(&["policy", "show", "all"]).ok().text().starts_with(own));
    work.write(
        "wrong.cedar",
        format!("{own}\npermit(principal, action == Action::\"sing\", resource);"),
    );
    admin
        .run(&["policy", "put", "all", "wrong.cedar"])
        .fails(2)
        .says("line 2, column 29")
        .says("sing");
    work.write("out.cedar", "permit(principal == Token::\"ci\", action, resource);");
    admin.run(&["policy", "put", "all", "out.cedar"]).fails(2);
    admin.run(&["policy", "put", "all", "missing.cedar"]).fails(2).says("missing.cedar");
    admin.run(&["policy", "check"]).fails(2).says("--file");
    admin.run(&["policy", "delete", "all"]).ok();
    ci.run(&["sign", "--key", "release", "m"]).ok();
    admin.run(&["policy", "show", "all"]).fails(1).says("not_found");
    assert_eq!(server.end(), Some(0));
}

fn life_of_a_key(caller: &Caller<'_>) {
    let work = caller.work;
    work.write("m", "a message");
    let made = caller.run(&["key", "create", "k", "--algorithm", "Ed25519", "--json"]).ok().json();
    assert_eq!((&made["name"], &made["latest"]), (&"k".into(), &1.into()));
    caller.run(&["sign", "--key", "k", "--out", "one.sig", "m"]).ok();
    caller.run(&["verify", "--key", "k", "--sig", "one.sig", "m"]).ok();
    let rotated = caller.run(&["key", "rotate", "k", "--json"]).ok().json();
    assert_eq!(rotated["version"], 2);
    caller.run(&["verify", "--key", "k", "--sig", "one.sig", "m"]).fails(1);
    caller.run(&["verify", "--key", "k", "--version", "1", "--sig", "one.sig", "m"]).ok();
    let id = made["id"].as_str().unwrap();
    let signed = caller.run(&["sign", "--key", id, "--json", "m"]).ok().json();
    assert_eq!(signed["by"], format!("{id}#v2"));
    let verdict = caller.run(&["verify", "--key", "k", "--sig", "one.sig", "--json", "m"]);
    assert_eq!((verdict.code, &verdict.json()["valid"]), (Some(1), &false.into()));
    caller.run(&["key", "disable", "k", "--version", "2"]).ok();
    caller.run(&["sign", "--key", "k", "m"]).fails(1).says("gabion kms key enable");
    caller.run(&["key", "enable", "k", "--version", "2"]).ok();
    let config = [
        "key",
        "config",
        "k",
        "--min-verify",
        "2",
        "--min-decrypt",
        "2",
        "--label",
        "a=b",
        "--json",
    ];
    let config = caller.run(&config).ok().json();
    assert_eq!((&config["min_verify"], &config["labels"]["a"]), (&2.into(), &"b".into()));
    caller.run(&["key", "trim", "k", "--before", "2"]).ok();
    let shown = caller.run(&["key", "show", "k", "--json"]).ok().json();
    assert_eq!(shown["versions"].as_array().unwrap().len(), 1);
    // The service shows a public key in the format of key files.
    work.write("pub.pem", shown["versions"][0]["public_key"].as_str().unwrap());
    caller.run(&["sign", "--key", "k", "--out", "two.sig", "m"]).ok();
    work.gabion(&["verify", "--key", "pub.pem", "--sig", "two.sig", "m"]).ok();
    let jws = caller.run(&["attest", "--key", "k"]).ok().text();
    assert_eq!(jws.split('.').count(), 3);
    caller.run(&["key", "delete", "k"]).ok();
    caller.run(&["key", "restore", "k"]).ok();
    let listed = caller.run(&["key", "list", "--json"]).ok().json();
    assert_eq!(listed["id"], id);
    let status = caller.run(&["status", "--json"]).ok().json();
    assert_eq!(status["sealed"], false);
}

/// Keys that encrypt: files, their versions, and keys for data.
fn ciphers(caller: &Caller<'_>) {
    let work = caller.work;
    work.write("plain", [0, 1, 2, 255, 10]);
    let made = ["key", "create", "data", "--algorithm", "XAES-256-GCM", "--json"];
    assert_eq!(caller.run(&made).ok().json()["does"], "encrypt");
    let beside = ["--associated-data", "0aff"];
    let run = |arguments: &[&str], more: &[&str]| caller.run(&[arguments, more].concat());
    run(&["encrypt", "--key", "data", "--out", "1.enc", "plain"], &beside).ok();
    assert!(String::from_utf8(work.read("1.enc")).unwrap().starts_with("vault:v1:"));
    caller.run(&["key", "rotate", "data"]).ok();
    run(&["rewrap", "--key", "data", "--out", "2.enc", "1.enc"], &beside).ok();
    assert!(String::from_utf8(work.read("2.enc")).unwrap().starts_with("vault:v2:"));
    for sealed in ["1.enc", "2.enc"] {
        let back = run(&["decrypt", "--key", "data", sealed], &beside).ok();
        assert_eq!(back.out, work.read("plain"));
        caller.run(&["decrypt", "--key", "data", sealed]).fails(1).says("decrypt_failed");
    }
    caller.run(&["decrypt", "--key", "data", "plain"]).fails(2).says("expected a line");
    run(&["decrypt", "--key", "data", "--out", "back", "1.enc"], &beside).ok();
    assert_eq!(mode(&work.path("back")), 0o600);
    run(&["decrypt", "--key", "data", "--out", "back", "1.enc"], &beside).fails(2).says("--force");
    run(&["encrypt", "--key", "data", "plain"], &["--associated-data", "0"]).fails(2);
    // A wrapped key is unwrapped and not decrypted.
    caller.run(&["wrap", "--key", "data", "--out", "key.wrapped", "plain"]).ok();
    caller.run(&["decrypt", "--key", "data", "key.wrapped"]).fails(1).says("decrypt_failed");
    let back = caller.run(&["unwrap", "--key", "data", "key.wrapped"]).ok();
    assert_eq!(back.out, work.read("plain"));
    let datakey =
        ["datakey", "--key", "data", "--bits", "512", "--out", "d.enc", "--plaintext", "d.key"];
    caller.run(&datakey).ok();
    assert_eq!((work.read("d.key").len(), mode(&work.path("d.key"))), (64, 0o600));
    assert_eq!(caller.run(&["decrypt", "--key", "data", "d.enc"]).ok().out, work.read("d.key"));
    let alone = caller.run(&["datakey", "--key", "data"]).ok().text();
    assert!(alone.starts_with("vault:v2:"), "{alone}");
    caller.run(&["datakey", "--key", "data", "--bits", "1"]).fails(2).says("128, 256 or 512");
    caller.run(&["encrypt", "--key", "k", "plain"]).fails(2).says("unsupported");
    let shown = caller.run(&["key", "show", "data"]).ok().text();
    assert!(shown.contains("encrypts    2\ndecrypts    1 to 2\n"), "{shown}");
}

fn tags_and_secrets(caller: &Caller<'_>) {
    let work = caller.work;
    caller.run(&["key", "create", "tags", "--algorithm", "HMAC-SHA-384"]).ok();
    caller.run(&["hmac", "--key", "tags", "--out", "m.tag", "m"]).ok();
    caller.run(&["key", "rotate", "tags"]).ok();
    let verify = ["hmac", "--key", "tags", "--verify", "m.tag"];
    let verified = caller.run(&[&verify[..], &["m"]].concat()).ok().text();
    assert!(verified.contains("#v1"), "{verified}");
    caller.run(&[&verify[..], &["plain"]].concat()).fails(1).says("not valid for");
    let verdict = caller.run(&[&verify[..], &["--json", "plain"]].concat());
    assert_eq!((verdict.code, &verdict.json()["valid"]), (Some(1), &false.into()));
    // Encapsulating for the service's key needs only the public key; decapsulating needs the
    // service.
    caller.run(&["key", "create", "box", "--algorithm", "ML-KEM-768"]).ok();
    let shown = caller.run(&["key", "show", "box", "--json"]).ok().json();
    work.write("box.pem", shown["versions"][0]["public_key"].as_str().unwrap());
    work.gabion(&["encaps", "--key", "box.pem", "--out", "ct", "--secret", "ss"]).ok();
    assert_eq!(caller.run(&["decaps", "--key", "box", "ct"]).ok().out, work.read("ss"));
    caller.run(&["encaps", "--key", "box", "--out", "ct2", "--secret", "ss2"]).ok();
    assert_eq!(mode(&work.path("ss2")), 0o600);
    caller.run(&["key", "rotate", "box"]).ok();
    let decaps = ["decaps", "--key", "box", "--version", "1", "ct2"];
    assert_eq!(caller.run(&decaps).ok().out, work.read("ss2"));
    caller.run(&["decaps", "--key", "box", "m"]).fails(2).says("malformed");
    let drawn = caller.run(&["random", "16"]).ok().text();
    assert_eq!(base16ct::mixed::decode_vec(drawn.trim()).unwrap().len(), 16);
}

fn keys_that_come_and_go(caller: &Caller<'_>) {
    let work = caller.work;
    work.gabion(&["keygen", "ML-DSA-65", "--out", "own.pem", "--pub", "own.pub"]).ok();
    let import = ["key", "import", "own", "--algorithm", "ML-DSA-65"];
    caller.run(&[&import[..], &["own.pub"]].concat()).fails(2).says("private key");
    caller.run(&[&import[..], &["own.pem"]].concat()).ok();
    caller.run(&["sign", "--key", "own", "--out", "own.sig", "m"]).ok();
    work.gabion(&["verify", "--key", "own.pub", "--sig", "own.sig", "m"]).ok();
    caller.run(&["key", "export", "own"]).fails(1).says("not_exportable");
    let config = caller.run(&["key", "config", "own", "--exportable", "--json"]).ok().json();
    assert_eq!(config["exportable"], true);
    caller.run(&["key", "export", "own", "--out", "back.pem"]).ok();
    assert_eq!(mode(&work.path("back.pem")), 0o600);
    work.gabion(&["sign", "--key", "back.pem", "--out", "back.sig", "m"]).ok();
    caller.run(&["verify", "--key", "own", "--sig", "back.sig", "m"]).ok();
    // A version more, of another key, and the public half of a third.
    work.gabion(&["keygen", "ML-DSA-65", "--out", "next.pem", "--pub", "next.pub"]).ok();
    caller.run(&[&import[..], &["--new-version", "next.pem"]].concat()).ok();
    caller.run(&["sign", "--key", "own", "--out", "next.sig", "m"]).ok();
    work.gabion(&["verify", "--key", "next.pub", "--sig", "next.sig", "m"]).ok();
    work.gabion(&["keygen", "Ed25519", "--out", "third.pem", "--pub", "third.pub"]).ok();
    let public = ["key", "import", "third", "--algorithm", "Ed25519", "--public", "third.pub"];
    caller.run(&public).ok();
    caller.run(&["sign", "--key", "third", "m"]).fails(2).says("unsupported");
    work.gabion(&["sign", "--key", "third.pem", "--out", "third.sig", "m"]).ok();
    caller.run(&["verify", "--key", "third", "--sig", "third.sig", "m"]).ok();
    work.write("raw", [5; 32]);
    let raw = ["key", "import", "raw", "--algorithm", "XAES-256-GCM", "raw"];
    caller.run(&raw).ok();
    caller.run(&["key", "config", "raw", "--exportable"]).ok();
    assert_eq!(caller.run(&["key", "export", "raw"]).ok().out, [5; 32]);
    caller
        .run(&["key", "import", "x", "--algorithm", "XAES-256-GCM", "m"])
        .fails(2)
        .says("32 bytes");
}

/// A key that was exported for the recipient's public key is opened without a service.
fn keys_that_are_opened_elsewhere(caller: &Caller<'_>) {
    let work = caller.work;
    work.gabion(&["keygen", "X-Wing", "--out", "mine.pem", "--pub", "mine.pub"]).ok();
    work.gabion(&["keygen", "X-Wing", "--out", "their.pem", "--pub", "their.pub"]).ok();
    caller.run(&["key", "create", "goes", "--algorithm", "ML-DSA-44"]).ok();
    caller.run(&["key", "config", "goes", "--exportable"]).ok();
    caller.run(&["sign", "--key", "goes", "--out", "goes.sig", "m"]).ok();
    let export = |form, out| {
        let export =
            ["key", "export", "goes", "--wrap-for", "mine.pub", "--form", form, "--out", out];
        caller.run(&export).ok();
    };
    export("pkcs8", "goes.wrapped");
    export("raw", "goes.raw.wrapped");
    // No address and no token: no server is contacted.
    let open = |more: &[&str]| work.gabion(&[&["kms", "key", "open"][..], more].concat());
    let goes = ["goes", "--algorithm", "ML-DSA-44", "--key", "mine.pem"];
    open(&[&goes[..], &["--out", "goes.pem", "goes.wrapped"]].concat()).ok();
    assert_eq!(mode(&work.path("goes.pem")), 0o600);
    work.gabion(&["sign", "--key", "goes.pem", "--out", "own.sig2", "m"]).ok();
    caller.run(&["verify", "--key", "goes", "--sig", "own.sig2", "m"]).ok();
    let raw = open(&[&goes[..], &["--form", "raw", "goes.raw.wrapped"]].concat()).ok().out;
    assert_eq!(raw.len(), 32);
    let told = open(&[&goes[..], &["--json", "goes.wrapped"]].concat()).ok().json();
    assert_eq!(told["form"], "pkcs8");
    // Nothing is written where something is wrong, and what is there stays.
    let names = || {
        let mut names = work.names();
        names.sort_unstable();
        names
    };
    let before = names();
    let by = |name, algorithm, key| [name, "--algorithm", algorithm, "--key", key];
    let is_no = |of: &[&str], file, code, says| {
        open(&[of, &["--out", "nowhere", file]].concat()).fails(code).says(says);
    };
    for (name, algorithm, key) in [
        ("other", "ML-DSA-44", "mine.pem"),
        ("goes", "ML-DSA-65", "mine.pem"),
        ("goes", "ML-DSA-44", "their.pem"),
    ] {
        is_no(&by(name, algorithm, key), "goes.wrapped", 1, "does not unwrap");
    }
    is_no(&[&goes[..], &["--tenant", "x"]].concat(), "goes.wrapped", 1, "does not unwrap");
    is_no(&goes, "goes.raw.wrapped", 1, "does not unwrap");
    is_no(&goes, "m", 1, "does not unwrap");
    is_no(&by("goes", "ML-DSA-44", "mine.pub"), "goes.wrapped", 2, "private key");
    is_no(&by("goes", "ML-DSA-44", "own.pem"), "goes.wrapped", 2, "the key of a KEM");
    is_no(&by("goes", "ML-DSA-43", "mine.pem"), "goes.wrapped", 2, "ml-dsa-44");
    is_no(&by("a/b", "ML-DSA-44", "mine.pem"), "goes.wrapped", 2, "a/b");
    is_no(&goes, "missing", 2, "missing");
    open(&[&goes[..], &["--out", "goes.pem", "goes.wrapped"]].concat()).fails(2).says("--force");
    open(&[&goes[..], &["--out", "mine.pem", "--force", "goes.wrapped"]].concat()).fails(2);
    open(&[&goes[..], &["--out", "goes.wrapped", "--force", "goes.wrapped"]].concat()).fails(2);
    assert_eq!(names(), before);
}

/// One service is the sender and the recipient here.
fn keys_that_are_wrapped(caller: &Caller<'_>) {
    let work = caller.work;
    caller.run(&["key", "wrapping-key", "--out", "there.pem"]).ok();
    assert!(work.read("there.pem").starts_with(b"-----BEGIN PUBLIC KEY-----"));
    caller.run(&["key", "create", "moves", "--algorithm", "ed25519"]).ok();
    caller.run(&["sign", "--key", "moves", "--out", "moves.sig", "m"]).ok();
    let export = ["key", "export", "moves", "--wrap-for", "there.pem", "--out", "moves.wrapped"];
    caller.run(&export).fails(1).says("not_exportable");
    caller.run(&["key", "config", "moves", "--exportable"]).ok();
    caller.run(&export).ok();
    caller.run(&["key", "delete", "moves"]).ok();
    caller.run(&["key", "destroy", "moves"]).ok();
    let import = |name, file| {
        caller.run(&["key", "import", name, "--algorithm", "ed25519", "--wrapped", file])
    };
    import("other", "moves.wrapped").fails(1).says("decrypt_failed");
    import("moves", "m").fails(1).says("decrypt_failed");
    import("moves", "moves.wrapped").ok();
    caller.run(&["verify", "--key", "moves", "--sig", "moves.sig", "m"]).ok();
    let not_one = ["key", "export", "moves", "--wrap-for", "m", "--out", "x"];
    caller.run(&not_one).fails(2).says("SubjectPublicKeyInfo");

    work.gabion(&["keygen", "ML-DSA-44", "--out", "hid.pem", "--pub", "hid.pub"]).ok();
    caller.run(&["key", "import", "hid", "--algorithm", "ML-DSA-44", "--wrap", "hid.pem"]).ok();
    caller.run(&["sign", "--key", "hid", "--out", "hid.sig", "m"]).ok();
    work.gabion(&["verify", "--key", "hid.pub", "--sig", "hid.sig", "m"]).ok();
}

fn labels_of_imports(caller: &Caller<'_>) {
    let work = caller.work;
    let import = |name, algorithm, file, label| {
        caller.run(&[
            "key",
            "import",
            name,
            "--algorithm",
            algorithm,
            "--conformance",
            label,
            "--json",
            file,
        ])
    };
    work.gabion(&["keygen", "ML-DSA-87", "--out", "cnsa.pem"]).ok();
    let made = import("cnsa", "ML-DSA-87", "cnsa.pem", "cnsa2").ok().json();
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(id.contains("ml-dsa-87"), "{id}");
    let attested = caller.run(&["attest", "--key", "cnsa", "--json"]).ok().text();
    assert!(attested.contains("cnsa2"), "{attested}");
    caller
        .run(&["sign", "--key", "cnsa", "--prehash", "SHA2-256", "m"])
        .fails(2)
        .says("does not conform");
    import("x", "ML-DSA-65", "own.pem", "cnsa2").fails(2).says("does not conform to `cnsa2`");
    import("x", "ML-DSA-65", "own.pem", "hsm").fails(2).says("held in software");
    work.write("short", [7; 31]);
    import("x", "HMAC-SHA-384", "short", "cnsa2").fails(2).says("32 or more");
    import("short", "HMAC-SHA-384", "short", "fips-alg").ok();
}

fn changes_that_are_asked_for_again(caller: &Caller<'_>) {
    let create = ["key", "create", "again", "--algorithm", "ed25519", "--op-id", "c-1", "--json"];
    let made = caller.run(&create).ok().json();
    assert_eq!(caller.run(&create).ok().json(), made);
    let rotate = |op_id| caller.run(&["key", "rotate", "again", "--op-id", op_id, "--json"]);
    for (op_id, version) in [("r-1", 2), ("r-1", 2), ("r-2", 3), ("r-1", 2)] {
        assert_eq!(rotate(op_id).ok().json()["version"], version);
    }
    rotate("c-1").fails(1).says("op_id_reused");
}

fn rsa(caller: &Caller<'_>) {
    caller.run(&["key", "create", "rsa", "--algorithm", "RSA-2048"]).ok();
    let sign = |more: &[&str]| {
        caller.run(
            &[&["sign", "--key", "rsa", "--force", "--out", "rsa.sig", "m"][..], more].concat(),
        )
    };
    let verify = |more: &[&str]| {
        caller.run(&[&["verify", "--key", "rsa", "--sig", "rsa.sig", "m"][..], more].concat())
    };
    for how in [&[][..], &["--padding", "pkcs1v15"], &["--salt-length", "11"]] {
        sign(how).ok();
        verify(how).ok();
        verify(&["--salt-length", "12"]).fails(1);
    }
    sign(&["--salt-length", "500"]).fails(2).says("salt");
    caller.run(&["encrypt", "--key", "rsa", "--out", "rsa.enc", "m"]).ok();
    caller.run(&["decrypt", "--key", "rsa", "--out", "rsa.m", "rsa.enc"]).ok();
    assert_eq!(caller.work.read("rsa.m"), caller.work.read("m"));
    caller.run(&["key", "config", "rsa", "--exportable", "--class", "durable"]).ok();
    caller.run(&["key", "export", "rsa", "--out", "rsa.pem"]).ok();
    caller.run(&["key", "delete", "rsa"]).ok();
    caller.run(&["key", "destroy", "rsa"]).ok();
    caller.run(&["key", "import", "rsa", "--algorithm", "RSA-2048", "--wrap", "rsa.pem"]).ok();
    verify(&["--salt-length", "11"]).ok();
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn refusals(caller: &Caller<'_>) {
    let work = caller.work;
    caller.run(&["key", "show", "missing"]).fails(1).says("not_found");
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).fails(1).says("exists");
    caller.run(&["key", "create", "x", "--algorithm", "HSS"]).fails(2).says("unsupported");
    caller.run(&["key", "create", "-", "--algorithm", "ed25519"]).fails(2);
    work.write("bad.sig", [1; 3]);
    caller.run(&["verify", "--key", "k", "--sig", "bad.sig", "m"]).fails(2).says("malformed");
    let other = |address: &str, token: &str, ca_file: &str| Caller {
        work,
        address: address.to_owned(),
        token: token.to_owned(),
        ca_file: ca_file.to_owned(),
    };
    let (address, token, ca_file) = (&caller.address, &caller.token, &caller.ca_file);
    other(address, "x", ca_file).run(&["key", "list"]).fails(1).says("unauthenticated");
    other(address, "a\r\nb: c", ca_file).run(&["key", "list"]).fails(2);
    other("http://127.0.0.1:1", token, ca_file).run(&["status"]).fails(2).says("https://HOST:PORT");
    other("https://127.0.0.1:1", token, ca_file).run(&["status"]).fails(3).says("does not answer");
    other("unix:/missing", token, ca_file).run(&["status"]).fails(3).says("does not answer");
    other(address, token, "missing.pem").run(&["status"]).fails(2).says("missing.pem");
    work.gabion(&["kms", "status"]).fails(2).says("GABION_KMS_ADDR is not set");
    work.gabion(&["kms", "dev", "--listen", "0.0.0.0:0"]).fails(2).says("from elsewhere");
    // Of several addresses the first one that answers is taken.
    let several = format!("https://127.0.0.1:1,{address}");
    other(&several, token, ca_file).run(&["status"]).ok();
}
