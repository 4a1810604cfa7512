//! Certificates, keys and authorities that change while a server runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Instant;

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::net::tls::Tls;

const DAY: u64 = 86_400_000;

impl TestServer {
    fn tls(&self) -> Arc<Tls> {
        self.config.options().unwrap().tls.unwrap()
    }

    /// Issues a server certificate with a key that is valid between two times, under its own file
    /// name.
    fn issue_within(&self, name: &str, valid_ms: [u64; 2]) {
        let subject = written(self.folder.path(), name, self.algorithm);
        let others = of_server("localhost", &[IpAddr::from([127, 0, 0, 1])]);
        let made =
            super::issue_within(self.scheme, &self.authority, &subject, others, valid_ms).unwrap();
        fs::write(self.file(name, "pem"), pem(&made)).unwrap();
    }

    /// Replaces a file atomically.
    fn replace(&self, from: (&str, &str), to: (&str, &str)) {
        let next = self.file("next", "tmp");
        fs::copy(self.file(from.0, from.1), &next).unwrap();
        fs::rename(next, self.file(to.0, to.1)).unwrap();
    }

    fn replace_pair(&self, from: &str) {
        self.replace((from, "pem"), ("localhost", "pem"));
        self.replace((from, "key"), ("localhost", "key"));
    }

    fn der(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.file(name, "pem")).unwrap()
    }

    /// Opens a connection without a client certificate, after the handshake.
    fn connected(&self, server: &Server) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der("authority")).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(gabion_rustls::provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let session = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap());
        let at = server.addresses()[0].to_string();
        let stream = TcpStream::connect(at.strip_prefix("https://").unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut stream = StreamOwned::new(session.unwrap(), stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        stream
    }

    fn served_certificate(&self, server: &Server) -> CertificateDer<'static> {
        self.connected(server).conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

fn end_of(tls: &Tls) -> Option<i64> {
    let text = tls.metrics();
    let line = text.lines().find(|line| line.starts_with("kms_tls_certificate_not_after_seconds "));
    line.and_then(|line| line.split_once(' ')?.1.parse().ok())
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Restores the previous content of files.
fn put_back(paths: [&PathBuf; 3], kept: &[Vec<u8>]) {
    for (path, before) in paths.into_iter().zip(kept) {
        if fs::symlink_metadata(path).is_ok_and(|file| !file.is_file()) {
            fs::remove_file(path).or_else(|_| fs::remove_dir(path)).unwrap();
        }
        fs::write(path, before).unwrap();
    }
}

/// Invalid files do not replace valid ones, and cause a warning until they are corrected.
#[test]
fn unusable_tls_files_leave_the_previous_in_use() {
    let place = TestServer::new(ECDSA, "");
    let now = now_ms();
    place.issue_within("other", [now - DAY, now + 60 * DAY]);
    place.issue_within("expired", [now - 2 * DAY, now - DAY]);
    place.issue_within("early", [now + DAY, now + 2 * DAY]);
    let tls = place.tls();
    tls.reload();
    assert_eq!(tls.warnings(), [""; 0]);
    let end = end_of(&tls);
    assert!(end.is_some());
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let to = lines.clone();
    tls.reporting(move |line| to.lock().unwrap().push(line.to_owned()));
    let (pem, key, authority) = (
        place.file("localhost", "pem"),
        place.file("localhost", "key"),
        place.file("authority", "pem"),
    );
    let kept: Vec<_> = [&pem, &key, &authority].map(|path| fs::read(path).unwrap()).into();
    let fill = |path: &PathBuf, with: &[u8]| fs::write(path, with).unwrap();
    let not_a_file = |path: &PathBuf| {
        fs::remove_file(path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap();
    };
    let folder = |path: &PathBuf| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    let wrongs: [&dyn Fn(); 16] = [
        &|| place.replace(("other", "key"), ("localhost", "key")),
        &|| place.replace(("other", "pem"), ("localhost", "pem")),
        &|| place.replace_pair("expired"),
        &|| place.replace_pair("early"),
        &|| fill(&pem, b""),
        &|| fill(&key, b"-----BEGIN PRIVATE KEY-----"),
        &|| fill(&key, &kept[0]),
        &|| fill(&pem, &vec![b'x'; (1 << 20) + 1]),
        &|| fs::remove_file(&key).unwrap(),
        &|| not_a_file(&pem),
        &|| not_a_file(&authority),
        &|| folder(&key),
        &|| folder(&authority),
        &|| fill(&authority, b""),
        &|| fill(&authority, &kept[1]),
        &|| fs::remove_file(&authority).unwrap(),
    ];
    for (place_of, wrong) in wrongs.iter().enumerate() {
        wrong();
        let is_of_clients = matches!(place_of, 10 | 12..=15);
        for _ in 0..2 {
            lines.lock().unwrap().clear();
            tls.reload();
            // Each failed reload is reported, and names only what was reloaded.
            let said = lines.lock().unwrap().join("\n");
            assert!(said.contains("warning: tls_reload_failing"), "{place_of}: {said}");
            assert_eq!(said.contains("reloaded the certificate"), is_of_clients, "{said}");
            assert_eq!(said.contains("reloaded the client"), !is_of_clients, "{said}");
            assert_eq!(tls.warnings(), ["tls_reload_failing"], "{place_of}");
            assert_eq!(end_of(&tls), end, "{place_of}");
            assert!(tls.clients().is_some(), "{place_of}");
        }
        put_back([&pem, &key, &authority], &kept);
        tls.reload();
        assert_eq!(tls.warnings(), [""; 0], "{place_of}");
    }
    assert!(tls.metrics().contains("kms_tls_reload_failures_total 32\n"), "{}", tls.metrics());
}

/// The certificate's expiry is a metric, and a warning precedes it.
#[test]
fn the_certificates_end_is_a_metric_and_a_warning() {
    let place = TestServer::new(ECDSA, "");
    let now = now_ms();
    place.issue_within("good", [now - DAY, now + 90 * DAY]);
    place.issue_within("expired", [now - 2 * DAY, now - DAY]);
    place.issue_within("ending", [now - 10 * DAY, now + DAY]);
    let tls = place.tls();
    place.replace_pair("good");
    tls.reload();
    assert_eq!(end_of(&tls), Some((now / 1000 + 90 * 86_400) as i64));
    place.replace_pair("ending");
    tls.reload();
    assert_eq!(tls.warnings(), ["certificate_expiring"]);
    // A server starts with an expired certificate, with a warning.
    place.replace_pair("expired");
    assert_eq!(place.tls().warnings(), ["certificate_not_valid"]);
}

/// Authorities are reloaded although the certificate's files are wrong, and vice versa.
#[test]
fn authorities_and_certificates_are_taken_apart() {
    let place = TestServer::new(ECDSA, "");
    let other = TestServer::new(ECDSA, "");
    let tls = place.tls();
    let before = tls.clients().unwrap();
    fs::write(place.file("localhost", "key"), "nonsense").unwrap();
    fs::copy(other.file("authority", "pem"), place.file("authority", "pem")).unwrap();
    tls.reload();
    assert!(!Arc::ptr_eq(&before, &tls.clients().unwrap()));
    assert_eq!(tls.warnings(), ["tls_reload_failing"]);
    let before = end_of(&tls);
    place.issue_within("good", [now_ms() - DAY, now_ms() + 90 * DAY]);
    place.replace_pair("good");
    fs::write(place.file("authority", "pem"), "").unwrap();
    tls.reload();
    assert_ne!(end_of(&tls), before);
    assert_eq!(tls.warnings(), ["tls_reload_failing"]);
}

/// Changed files are detected without a signal, also behind symbolic links, and connections stay
/// open.
#[test]
fn a_renewed_certificate_is_served_and_connections_stay() {
    let place = TestServer::new(ECDSA, "");
    let now = now_ms();
    place.issue_within("good", [now - DAY, now + 90 * DAY]);
    place.issue_within("better", [now - DAY, now + 91 * DAY]);
    // As in Kubernetes: the files are links into a folder that is itself a link.
    let at = |name: &str| place.folder.path().join(name);
    for (folder, name) in [("one", "good"), ("two", "better")] {
        fs::create_dir(at(folder)).unwrap();
        for end in ["pem", "key"] {
            let to = at(folder).join(format!("localhost.{end}"));
            fs::copy(place.file(name, end), to).unwrap();
        }
    }
    let (server, token) = place.served();
    let open = place.client(&server, Some(&token), Some("client"));
    open.status().unwrap();
    let mut raw = place.connected(&server);
    place.replace_pair("good");
    let is_served = |name: &str| place.served_certificate(&server) == place.der(name);
    eventually("the renewed certificate", || is_served("good"));
    std::os::unix::fs::symlink("one", at("data")).unwrap();
    for end in ["pem", "key"] {
        fs::remove_file(place.file("localhost", end)).unwrap();
        std::os::unix::fs::symlink(format!("data/localhost.{end}"), place.file("localhost", end))
            .unwrap();
    }
    std::os::unix::fs::symlink("two", at("data.next")).unwrap();
    fs::rename(at("data.next"), at("data")).unwrap();
    eventually("the certificate behind links", || is_served("better"));
    raw.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = raw.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(code(open.show("missing")), "not_found");
    server.stop();
}

/// Withdrawing an authority affects open connections.
#[test]
fn a_withdrawn_authority_counts_at_once() {
    let place = TestServer::new(ECDSA, "");
    let other = TestServer::new(ECDSA, "");
    place.issue("build", of_client(&["spiffe://example.com/build"], &[]));
    let (server, _token) = place.served();
    let build = place.client(&server, None, Some("build"));
    assert_eq!(code(build.show("missing")), "denied");
    fs::write(place.file("authority", "kept"), fs::read(place.file("authority", "pem")).unwrap())
        .unwrap();
    fs::copy(other.file("authority", "pem"), place.file("next", "tmp")).unwrap();
    fs::rename(place.file("next", "tmp"), place.file("authority", "pem")).unwrap();
    eventually("the withdrawn authority", || code(build.show("missing")) == "unauthenticated");
    fs::copy(place.file("authority", "kept"), place.file("next", "tmp")).unwrap();
    fs::rename(place.file("next", "tmp"), place.file("authority", "pem")).unwrap();
    eventually("the authority again", || code(build.show("missing")) == "denied");
    server.stop();
}
