//! A server over a store in a file: its seal, tokens, copies, restarts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gabion_kms::clock::Clock;
use gabion_kms_client::{Address, Client, Settings};
use gabion_kms_server::config::Config;
use gabion_kms_server::{Error, SealSetup, Server, ServiceHost, attenuate_token};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{
    AuditRecords, CreateKey, CreateToken, RecoverAdmin, Sign, Unseal, Verify,
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{raw, refused};

/// A folder with a configuration, and the shares that open its store.
pub struct Place {
    folder: tempfile::TempDir,
    shares: Vec<Zeroizing<String>>,
    pub token: Zeroizing<String>,
    /// Additional configuration.
    more: String,
}

impl Place {
    pub fn new() -> Place {
        Place::with("")
    }

    /// One whose configuration has something more.
    pub fn with(more: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("backups")).unwrap();
        let (shares, token, more) = (Vec::new(), Zeroizing::default(), more.to_owned());
        let mut place = Place { folder, shares, token, more };
        let initial = SealSetup {
            shares: 5,
            threshold: 3,
            passphrase: Some("correct"),
            certificate: None,
            lifetime_s: None,
            holders: &[],
        };
        let mut shares = Vec::new();
        let hand_out = |share| -> Result<(), Error> {
            shares.push(share);
            Ok(())
        };
        place.token = ServiceHost::init(&place.config("store"), &initial, hand_out).unwrap();
        place.shares = shares;
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A share of the seal.
    pub fn share(&self, at: usize) -> &Zeroizing<String> {
        &self.shares[at]
    }

    pub fn config(&self, store: &str) -> Config {
        self.text(store).parse().unwrap()
    }

    fn text(&self, store: &str) -> String {
        let at = |name: &str| self.path(name).display().to_string();
        format!(
            "listen = [\"unix:{}\"]\n[store]\npath = \"{}\"\n[audit]\nfolder = \"{}\"\n\
             [backup]\nfolder = \"{}\"\nkeys = \"{}\"\n[tokens]\nadministration_needs_certificate = false\n{}",
            at("kms"),
            at(store),
            at(&format!("{store}-audit")),
            at("backups"),
            at("backup-keys"),
            self.more
        )
    }

    pub fn serve(&self, store: &str) -> Server {
        let config = self.config(store);
        let host = Arc::new(opened(&config));
        Server::start(host, &config.options().unwrap()).unwrap()
    }

    /// Starts a server with another clock.
    pub fn serve_by(&self, store: &str, clock: Arc<dyn Clock>) -> Server {
        let config = self.config(store);
        let host = Arc::new(opened(&config).with_clock(clock));
        Server::start(host, &config.options().unwrap()).unwrap()
    }

    pub fn client(&self, token: &str) -> Client {
        let settings = Settings {
            addresses: vec![Address::Unix(self.path("kms"))],
            token: Some(token.to_owned().into()),
            authorities: None,
            certificate: None,
            timeout: Duration::from_secs(30),
        };
        Client::new(&settings).unwrap()
    }

    pub fn admin(&self) -> Client {
        self.client(&self.token)
    }

    /// Returns the response to a request with the first token, with its head.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> String {
        self.ask_of("default", method, path, body)
    }

    /// Sends a request for a tenant, by Vault's header.
    pub fn ask_of(&self, tenant: &str, method: &str, path: &str, body: &str) -> String {
        let (token, length) = (&*self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\n\
             X-Vault-Namespace: {tenant}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        raw::exchange(&self.path("kms"), &request)
    }

    /// Returns the body at an open path.
    pub fn get(&self, path: &str) -> String {
        self.ask("GET", path, "").split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    pub fn unseal(&self) {
        self.unseal_hearing();
    }

    /// Returns the report of unsealing a store that was rolled back.
    pub fn unseal_hearing(&self) -> Vec<String> {
        let mut heard = None;
        for share in &self.shares[1..4] {
            heard = self.admin().unseal(&share_of(share)).unwrap().restored;
        }
        heard.unwrap_or_default()
    }
}

pub fn share_of(share: &str) -> Unseal {
    Unseal { share: Some(share.to_owned().into()), ..Unseal::default() }
}

/// A share of the same set that was never dealt.
fn forged(share: &str) -> String {
    let parts: Vec<&str> = share.split('-').collect();
    with_checksum(&[parts[0], parts[1], parts[2], parts[3], &"5a".repeat(32)])
}

fn with_checksum(parts: &[&str]) -> String {
    let text = parts.join("-");
    let sum = Sha256::digest(&text);
    let sum: String = sum[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{text}-{sum}")
}

pub fn create(client: &Client, name: &str) {
    let algorithm = "ed25519".to_owned();
    client.create(&CreateKey { name: name.into(), algorithm, ..CreateKey::default() }).unwrap();
}

fn sign(key: &str) -> Sign {
    Sign { message: Some(encode(b"m")), ..Sign::by(key) }
}

#[test]
fn a_server_waits_sealed_for_enough_shares_and_keeps_keys_over_restarts() {
    let place = Place::new();
    let server = place.serve("store");
    let client = place.admin();
    let sealed = refused(client.sign(&sign("k")));
    assert_eq!((sealed.code.as_str(), sealed.retryable), ("sealed", true));
    let ready: Result<serde_json::Value, _> = client.get("/readyz");
    assert!(ready.is_err());
    assert!(client.status().unwrap().sealed);
    for (share, given) in [(0, 1), (0, 1), (3, 2)] {
        let how = client.unseal(&share_of(&place.shares[share])).unwrap();
        assert_eq!((how.sealed, how.given, how.threshold), (true, given, Some(3)));
    }
    let mut wrong = place.shares[1].to_string();
    wrong.replace_range(wrong.len() - 1.., if wrong.ends_with('0') { "1" } else { "0" });
    assert_eq!(refused(client.unseal(&share_of(&wrong))).code, "unseal_failed");
    assert!(!client.unseal(&share_of(&place.shares[1])).unwrap().sealed);
    create(&client, "k");
    let signed = client.sign(&sign("k")).unwrap();
    assert!(client.seal().unwrap().sealed);
    assert_eq!(refused(client.sign(&sign("k"))).code, "sealed");
    server.stop();
    let _server = place.serve("store");
    let passphrase = |text: &str| {
        let by = Unseal { passphrase: Some(text.to_owned().into()), ..Unseal::default() };
        client.unseal(&by)
    };
    assert_eq!(refused(passphrase("wrong")).code, "unseal_failed");
    assert!(!passphrase("correct").unwrap().sealed);
    let verify = Verify {
        key: "k".into(),
        message: Some(encode(b"m")),
        signature: signed.signature,
        ..Verify::default()
    };
    assert!(client.verify(&verify).unwrap().valid);
}

/// Unauthenticated clients may give shares. Invalid ones do not displace valid ones.
#[test]
fn invalid_shares_do_not_block_unsealing() {
    let place = Place::new();
    let server = place.serve("store");
    let stranger = place.client("none");
    let set = place.shares[0].split('-').nth(1).unwrap();
    let give = |of: &str, threshold: &str| {
        let share = with_checksum(&["gbs1", of, threshold, "9", &"5a".repeat(32)]);
        let problem = refused(stranger.unseal(&share_of(&share)));
        let share = Some(share.into());
        let other = refused(stranger.recover_admin(&RecoverAdmin { share, ..Default::default() }));
        assert_eq!(
            (problem.code.as_str(), other.code.as_str()),
            ("unseal_failed", "unseal_failed")
        );
        // The open answer does not help a guesser.
        assert!(!(problem.message + &other.message).replace(of, "").contains(set));
    };
    give("0011223344556677", "3");
    give(set, "255");
    place.unseal();
    assert!(!place.admin().status().unwrap().sealed);
    server.stop();
}

#[test]
fn token_caveats_apply_until_revocation() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    create(&admin, "web-1");
    create(&admin, "firmware");
    let asked = CreateToken {
        principal: "ci".into(),
        caveats: Some(vec!["actions=sign,show".into(), "key_prefix=web-".into()]),
        lifetime_s: Some(60),
    };
    let made = admin.create_token(&asked).unwrap();
    let ci = place.client(made.token.expose());
    ci.sign(&sign("web-1")).unwrap();
    assert_eq!(refused(ci.rotate("web-1")).code, "denied");
    // A hidden key answers like a missing one.
    for key in ["firmware", "missing"] {
        assert_eq!(refused(ci.sign(&sign(key))).code, "not_found");
        assert_eq!(refused(ci.show(key)).code, "not_found");
    }
    let less = attenuate_token(made.token.expose(), &["actions=show".to_owned()]).unwrap();
    let less = place.client(&less);
    less.show("web-1").unwrap();
    assert_eq!(refused(less.sign(&sign("web-1"))).code, "denied");
    assert_eq!(refused(ci.create_token(&asked)).code, "denied");
    admin.revoke_token(&made.id).unwrap();
    for client in [&ci, &less] {
        assert_eq!(refused(client.show("web-1")).code, "unauthenticated");
    }
    let unknown = CreateToken { caveats: Some(vec!["colour=blue".into()]), ..asked };
    assert_eq!(refused(admin.create_token(&unknown)).code, "bad_request");
    let records: AuditRecords = admin.get("/v1/kms/audit?limit=1000").unwrap();
    let text = serde_json::to_string(&records.records).unwrap();
    assert!(text.contains("\"principal\":\"ci\"") && !text.contains(made.token.expose()));
}

/// The drill: a copy that is made while it serves is a store again.
#[test]
fn a_copy_is_made_and_restored() {
    let place = Place::new();
    let server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    create(&admin, "k");
    let signed = admin.sign(&sign("k")).unwrap();
    let made = admin.backup().unwrap();
    let asked = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let metrics = raw::exchange(&place.path("kms"), asked);
    for name in ["kms_store_bytes", "kms_store_disk_free_bytes", "kms_audit_disk_free_bytes"] {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        assert!(line.is_some_and(|value| value.parse::<u64>().unwrap() > 4096), "{name}: {line:?}");
    }
    let before = admin.status().unwrap();
    server.stop();
    let config = place.config("restored");
    ServiceHost::restore(&config, &place.path("backups").join(&made.file), None).unwrap();
    assert!(ServiceHost::restore(&config, &place.path("backups").join(&made.file), None).is_err());
    // The log goes on from where it is: a store that was put back does not go on with an empty one.
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([place.path("store-audit"), place.path("restored-audit")])
        .status();
    assert!(copied.unwrap().success());
    let _server = place.serve("restored");
    place.unseal();
    let after = place.admin().status().unwrap();
    assert_eq!((&after.store, after.incarnation), (&before.store, before.incarnation + 1));
    let verify = Verify {
        key: "k".into(),
        message: Some(encode(b"m")),
        signature: signed.signature,
        ..Verify::default()
    };
    assert!(place.admin().verify(&verify).unwrap().valid);
}

/// Operations that run while the service is sealed complete, and the next generation does not find
/// its log in use.
#[test]
fn a_seal_that_is_closed_under_work_opens_again_at_once() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    let algorithm = "slh-dsa-sha2-128s".to_owned();
    admin.create(&CreateKey { name: "slow".into(), algorithm, ..CreateKey::default() }).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            // Signed, withheld or refused: the seal is closed meanwhile.
            scope.spawn(|| drop(place.admin().sign(&sign("slow"))));
        }
        std::thread::sleep(Duration::from_millis(50));
        admin.seal().unwrap();
        let unseal = || {
            let passphrase = Some("correct".to_owned().into());
            admin.unseal(&Unseal { passphrase, ..Unseal::default() })
        };
        // On a machine that is busy a signature may take longer than the next opening waits for it.
        while let Err(gabion_kms_client::Error::Refused(problem)) = unseal() {
            assert_eq!(problem.code, "closing");
        }
    });
}

/// /readyz reports that no requests are served any more.
#[test]
fn a_store_that_was_moved_away_is_not_ready() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    admin.get::<serde_json::Value>("/readyz").unwrap();
    std::fs::rename(place.path("store"), place.path("elsewhere")).unwrap();
    let reasons = |admin: &Client| match admin.get::<serde_json::Value>("/readyz") {
        Ok(ready) => panic!("it says that it is ready: {ready}"),
        Err(error) => error.to_string(),
    };
    let _ = reasons(&admin);
    let key = CreateKey { name: "k".into(), algorithm: "ed25519".into(), ..CreateKey::default() };
    assert_eq!(refused(admin.create(&key)).code, "outcome_unknown");
    // A stopped store does not resume when the file is back, because it may have missed commits.
    std::fs::rename(place.path("elsewhere"), place.path("store")).unwrap();
    let _ = reasons(&admin);
    assert_eq!(refused(admin.create(&key)).code, "store_unavailable");
}

#[test]
fn a_store_gets_its_seal_once() {
    let place = Place::new();
    let initial = SealSetup {
        shares: 1,
        threshold: 1,
        passphrase: None,
        certificate: None,
        lifetime_s: None,
        holders: &[],
    };
    let again = ServiceHost::init(&place.config("store"), &initial, |_| Ok::<(), Error>(()));
    assert!(again.is_err());
    // Where a share can't be handed out, there is no seal yet.
    let config = place.config("other");
    let lost = |_| Err(Error::Settings("the terminal is gone".to_owned()));
    assert!(ServiceHost::init(&config, &initial, lost).is_err());
    ServiceHost::init(&config, &initial, |_| Ok::<(), Error>(())).unwrap();
}

/// Shares replace the administrators: all earlier tokens become invalid.
#[test]
fn enough_shares_make_a_new_administrator_and_end_every_older_token() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    create(&admin, "k");
    let asked = CreateToken { principal: "ci".into(), caveats: None, lifetime_s: None };
    let ci = place.client(admin.create_token(&asked).unwrap().token.expose());
    ci.sign(&sign("k")).unwrap();
    let stranger = place.client("none");
    let give = |share: &str, principal: Option<&str>| {
        let share = Some(share.to_owned().into());
        let principal = principal.map(str::to_owned);
        stranger.recover_admin(&RecoverAdmin { share, principal, ..RecoverAdmin::default() })
    };
    let share = |n: usize| place.shares[n].as_str();
    assert_eq!(refused(give("gbs1-x", None)).code, "unseal_failed");
    let told = give(share(0), None).unwrap();
    assert_eq!((told.given, told.threshold, told.token.is_some()), (1, Some(3), false));
    assert_eq!(give(share(0), None).unwrap().given, 1);
    // The giver of the last share does not choose the administrator.
    assert_eq!(refused(give(share(1), Some("mallory"))).code, "bad_request");
    assert_eq!(give(share(4), None).unwrap().given, 2);
    ci.sign(&sign("k")).unwrap();
    let token = give(share(2), None).unwrap().token.unwrap();
    for old in [&admin, &ci] {
        assert_eq!(refused(old.sign(&sign("k"))).code, "unauthenticated");
    }
    let new = place.client(token.expose());
    new.sign(&sign("k")).unwrap();
    let fresh = place.client(new.create_token(&asked).unwrap().token.expose());
    fresh.sign(&sign("k")).unwrap();
    // The next one begins anew.
    assert_eq!(give(share(0), None).unwrap().given, 1);
    let reset = RecoverAdmin { reset: Some(true), ..RecoverAdmin::default() };
    assert_eq!(stranger.recover_admin(&reset).unwrap().given, 0);
    // Shares that do not match are all dropped, and nothing has changed.
    for n in 0..2 {
        give(&forged(share(n)), None).unwrap();
    }
    assert_eq!(refused(give(share(2), None)).code, "unseal_failed");
    fresh.sign(&sign("k")).unwrap();
    // With the seal closed they open it.
    new.seal().unwrap();
    for n in [3, 1] {
        assert!(give(share(n), None).unwrap().token.is_none());
    }
    let newest = place.client(give(share(0), None).unwrap().token.unwrap().expose());
    newest.sign(&sign("k")).unwrap();
    assert_eq!(refused(new.sign(&sign("k"))).code, "unauthenticated");
    let records: AuditRecords = newest.get("/v1/kms/audit?limit=1000").unwrap();
    let text = serde_json::to_string(&records.records).unwrap();
    assert!(text.contains("recover-admin") && !text.contains(token.expose()));
}

/// A token that administers needs a certificate, where the configuration says so: one without is of
/// no use.
#[test]
fn recovered_administrator_is_bound_to_a_certificate() {
    let place = Place::new();
    let text = format!(
        "listen = [\"unix:{}\"]\n[store]\npath = \"{}\"\n[audit]\nfolder = \"{}\"\n",
        place.path("kms").display(),
        place.path("store").display(),
        place.path("store-audit").display()
    );
    let config: Config = text.parse().unwrap();
    let host = Arc::new(ServiceHost::open(&config).unwrap());
    let _server = Server::start(host, &config.options().unwrap()).unwrap();
    let give = |n: usize, cnf: Option<&str>| {
        let share = Some(place.shares[n].to_string().into());
        let cnf = cnf.map(str::to_owned);
        place.admin().recover_admin(&RecoverAdmin { share, cnf, ..RecoverAdmin::default() })
    };
    for n in 0..2 {
        give(n, None).unwrap();
    }
    assert_eq!(refused(give(2, None)).code, "denied");
    assert_eq!(refused(give(0, Some("12"))).code, "bad_request");
    let digest = "ab".repeat(32);
    for n in 0..2 {
        give(n, Some(&digest)).unwrap();
    }
    let token = give(2, Some(&digest)).unwrap().token.unwrap();
    // No client has that certificate.
    assert_eq!(refused(place.client(token.expose()).show("k")).code, "unauthenticated");
}

#[test]
fn vaults_status_of_the_seal_has_the_numbers_of_the_recovery_set() {
    let place = Place::new();
    let _server = place.serve("store");
    let numbers = || {
        let said: serde_json::Value =
            serde_json::from_str(&place.get("/v1/sys/seal-status")).unwrap();
        ["t", "n", "progress"].map(|name| said[name].as_u64().unwrap())
    };
    assert_eq!(numbers(), [3, 5, 0]);
    place.admin().unseal(&share_of(&place.shares[0])).unwrap();
    assert_eq!(numbers(), [3, 5, 1]);
    place.unseal();
    assert_eq!(numbers(), [3, 5, 0]);
}

/// A first token that cannot administer could not make one that can.
#[test]
fn no_first_token_is_made_that_can_not_administer() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let config: Config = format!(
        "listen = [\"unix:{}\"]\n[store]\npath = \"{}\"\n[audit]\nfolder = \"{}\"\n",
        at("kms"),
        at("store"),
        at("audit")
    )
    .parse()
    .unwrap();
    let initial = SealSetup {
        shares: 1,
        threshold: 1,
        passphrase: None,
        certificate: None,
        lifetime_s: None,
        holders: &[],
    };
    let mut handed_out = 0;
    let made = ServiceHost::init(&config, &initial, |_| -> Result<(), Error> {
        handed_out += 1;
        Ok(())
    });
    let said = made.unwrap_err().to_string();
    assert!(
        said.contains("--certificate") && said.contains("administration_needs_certificate"),
        "{said}"
    );
    assert_eq!((handed_out, std::fs::read_dir(folder.path()).unwrap().count()), (0, 0));
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copied(&entry.path(), &to),
            false => _ = std::fs::copy(entry.path(), to).unwrap(),
        }
    }
}

/// Returns the names in a folder, in order.
fn listed(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<String> =
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort_unstable();
    all
}

/// Opens a store whose last server has stopped: its last thread may still be closing it.
fn opened(config: &Config) -> ServiceHost {
    let start = Instant::now();
    loop {
        match ServiceHost::open(config) {
            Ok(host) => return host,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Why a server does not open although enough shares are there.
fn not_opened(place: &Place, config: &Config) -> gabion_kms_wire::native::Problem {
    let host = Arc::new(opened(config));
    let server = Server::start(host, &config.options().unwrap()).unwrap();
    for share in &place.shares[..2] {
        place.admin().unseal(&share_of(share)).unwrap();
    }
    let problem = refused(place.admin().unseal(&share_of(&place.shares[2])));
    server.stop();
    problem
}

/// The store notes how far its log had come, and both are put back: the second place knows.
#[test]
fn a_store_and_a_log_that_are_put_back_together_are_refused() {
    let witness = tempfile::tempdir().unwrap();
    let place = Place::new();
    let with = |checkpoints: Option<&Path>| {
        let mut text = place.text("store");
        if let Some(folder) = checkpoints {
            let setting = format!("[audit]\ncheckpoints = \"{}\"\n", folder.display());
            text = text.replace("[audit]\n", &setting);
        }
        text.parse::<Config>().unwrap()
    };
    let config = with(Some(witness.path()));
    let serve = || {
        let host = Arc::new(opened(&config));
        Server::start(host, &config.options().unwrap()).unwrap()
    };
    let server = serve();
    place.unseal();
    create(&place.admin(), "k");
    server.stop();
    let there = listed(witness.path());
    assert_eq!((there.len(), there[1].as_str()), (2, "checkpoint"), "{there:?}");
    assert!(there[0].starts_with("20") && there[0].len() == 10, "{there:?}");
    drop(opened(&config));
    // Both as they were, from before something more was done.
    let before = tempfile::tempdir().unwrap();
    copied(place.folder.path(), before.path());
    let server = serve();
    place.unseal();
    create(&place.admin(), "taken-back");
    server.stop();
    drop(opened(&config));
    let newest = std::fs::read(witness.path().join("checkpoint")).unwrap();
    std::fs::remove_dir_all(place.folder.path()).unwrap();
    copied(before.path(), place.folder.path());
    let problem = not_opened(&place, &config);
    assert_eq!(problem.code, "integrity_failed");
    assert!(problem.message.contains("an older copy of log and store?"), "{}", problem.message);
    assert_eq!(std::fs::read(witness.path().join("checkpoint")).unwrap(), newest);
    // Nor is what is no checkpoint of this log's taken for one.
    let text = String::from_utf8(newest).unwrap();
    let line = text.lines().nth(1).unwrap();
    for other in [String::new(), text.replacen(line, "1", 1), "x".repeat(1 << 17), "\0".into()] {
        std::fs::write(witness.path().join("checkpoint"), &other).unwrap();
        let problem = not_opened(&place, &config);
        assert_eq!(problem.code, "integrity_failed", "{other:.20}");
    }
    // The operator moves it away. A failure to write there stops nothing.
    std::fs::remove_file(witness.path().join("checkpoint")).unwrap();
    let server = serve();
    place.unseal();
    witness.close().unwrap();
    create(&place.admin(), "goes-on");
    while place.get("/metrics").contains("kms_checkpoint_copies_failed_total 0") {
        std::thread::sleep(Duration::from_millis(50));
    }
    place.admin().sign(&sign("goes-on")).unwrap();
    server.stop();
}

/// U2 of 2026-11: no token of a month was one, with the default configuration, and nothing said
/// when the last one ends.
#[test]
fn token_expiry_is_reported_and_last_administrator_warned() {
    let place = Place::new();
    let _server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    let day = 24 * 60 * 60;
    let now_ms = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let new = |lifetime_s: Option<u64>| {
        let principal = "ci".into();
        admin.create_token(&CreateToken { principal, caveats: None, lifetime_s })
    };
    let before_ms = now_ms();
    for (lifetime_s, days) in [(None, 1), (Some(30 * day), 30), (Some(89 * day), 89)] {
        let end_ms = new(lifetime_s).unwrap().expires_ms;
        let wanted = before_ms + days * day * 1000..=now_ms() + days * day * 1000;
        assert!(wanted.contains(&end_ms), "{days}: {end_ms}");
    }
    let problem = refused(new(Some(91 * day)));
    assert_eq!(problem.code, "bad_request");
    assert!(problem.message.contains("cannot live 7862400 seconds"), "{problem:?}");
    let ready = || serde_json::from_str::<serde_json::Value>(&place.get("/readyz")).unwrap();
    assert_eq!(ready()["warnings"], serde_json::json!([]));

    // Each share names the same lifetime, and no share is used up for one that can't be.
    let give = |n: usize, lifetime_s: Option<u64>| {
        let share = Some(place.shares[n].to_string().into());
        admin.recover_admin(&RecoverAdmin { share, lifetime_s, ..RecoverAdmin::default() })
    };
    assert_eq!(refused(give(0, Some(366 * day))).code, "bad_request");
    assert_eq!(give(0, Some(day)).unwrap().given, 1);
    assert_eq!(refused(give(1, Some(2 * day))).code, "bad_request");
    assert_eq!(refused(give(1, None)).code, "bad_request");
    give(1, Some(day)).unwrap();
    let recovered = give(2, Some(day)).unwrap();
    let end_ms = recovered.expires_ms.unwrap();
    assert!(recovered.token.is_some() && end_ms <= now_ms() + day * 1000);
    assert_eq!(ready()["warnings"], serde_json::json!(["administrator_ending"]));
    assert_eq!(admin.status().unwrap().warnings.unwrap(), ["administrator_ending"]);
    let metrics = place.get("/metrics");
    let line = format!("\nkms_administrator_not_after_seconds {}\n", end_ms / 1000);
    assert!(metrics.contains(&line), "{metrics}");
}
