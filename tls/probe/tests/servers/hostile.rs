//! Servers that do not behave: each is left in time, with little memory, and named.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gabion_engine::Algorithm;
use gabion_probe::handshake::Authorities;
use gabion_probe::probe::Options;
use gabion_probe::report::Report;
use gabion_probe::target::StartTls;
use gabion_rustls::groups;
use gabion_rustls::testing::{Chain, Key, chain};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};

use crate::server::{CLASSICAL, ML_DSA, Server, config, hybrid, pem};

const LIMIT: Duration = Duration::from_millis(200);

/// Probes a server that does this with every connection, and checks that each attempt ends in time.
#[track_caller]
fn probe(starttls: Option<StartTls>, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Report {
    let server = Server::start(serve);
    let begun = Instant::now();
    let report = server.probe_with(starttls, Options { limit: LIMIT, ..Options::default() });
    assert!(!report.ok && report.problems.len() == 1, "{report:?}");
    // At most seven connections with two steps each, and time for a slow machine.
    assert!(begun.elapsed() < LIMIT * 14 + Duration::from_secs(20), "{:?}", begun.elapsed());
    report
}

#[track_caller]
fn assert_says(report: &Report, words: &str) {
    assert!(report.problems[0].contains(words), "{report:?}");
}

/// Reads the hello.
fn hear(mut stream: &TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
}

/// Writes the same bytes until the client leaves.
fn repeat(mut stream: &TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).is_ok() {}
}

#[test]
fn a_mute_server() {
    let report = probe(None, |stream| {
        hear(&stream);
        std::thread::sleep(LIMIT * 20);
    });
    assert_says(&report, "speaks no TLS with any of 6 hellos: no complete answer within 200 ms");
    let report = probe(Some(StartTls::Smtp), |stream| {
        std::thread::sleep(LIMIT * 20);
        drop(stream);
    });
    assert_says(&report, "it did not complete the smtp dialogue: no complete answer within");
}

#[test]
fn a_server_that_closes_at_once() {
    let report = probe(None, drop);
    assert_says(&report, "speaks no TLS with any of 7 hellos: the server closed the connection");
    let report = probe(Some(StartTls::Imap), drop);
    assert_says(&report, "does not start TLS");
}

#[test]
fn an_endless_banner() {
    for bytes in [&b"220-welcome\r\n"[..], b"220-welcome", b"* still\r\n", b"\xff\xff\xff\x00"] {
        for starttls in StartTls::ALL {
            let report = probe(Some(starttls), move |stream| repeat(&stream, bytes));
            assert_says(&report, "does not start TLS");
        }
    }
}

#[test]
fn endless_records() {
    // Handshake messages without an end, empty records, alerts of level `warning`, and
    // ChangeCipherSpec.
    let message = [&[22, 3, 3, 0x40, 0][..], &[2, 0xff, 0xff, 0xff], &[0; 0x3ffc]].concat();
    let message: &'static [u8] = message.leak();
    for bytes in [message, &[22, 3, 3, 0, 0], &[21, 3, 3, 0, 2, 1, 90], &[20, 3, 3, 0, 1, 1]] {
        let report = probe(None, move |stream| {
            hear(&stream);
            repeat(&stream, bytes);
        });
        assert_says(&report, "TLS");
    }
}

#[test]
fn garbage_is_not_asked_twice() {
    let report = probe(None, |mut stream| {
        hear(&stream);
        let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
    });
    assert_says(&report, "the server's answer is not TLS");
    assert_eq!(report.attempts.len(), 1, "{report:?}");
}

#[test]
fn a_slow_drip_below_the_deadline() {
    let report = probe(None, |mut stream| {
        hear(&stream);
        // The beginning of a long record, a byte at a time.
        for byte in [22, 3, 3, 0x40, 0, 2].into_iter().chain(std::iter::repeat(0)) {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(LIMIT / 10);
        }
    });
    assert_says(&report, "no complete answer within 200 ms");
}

#[test]
fn a_huge_chain() {
    let ours = chain(Key::Engine(Algorithm::EcdsaP256), 0);
    let certificates = [&ours.certificates[..], &vec![ours.root.clone(); 40]].concat();
    let many = Chain { certificates, ..ours.clone() };
    let options = || Options { limit: Duration::from_secs(20), ..Options::default() };
    let report = Server::tls(hybrid(&many)).probe_with(None, options());
    assert_says(&report, "the server sent 41 certificates, more than 32");
    // More than rustls takes for a message.
    let certificates = vec![ours.certificates[0].clone(); 400];
    let report = Server::tls(hybrid(&Chain { certificates, ..ours })).probe_with(None, options());
    assert_says(&report, "a message of the server is larger than 64 KiB");
    assert_eq!(report.attempts.len(), 1, "{report:?}");
}

/// The certificate of another server is public; its key is not.
#[test]
fn a_certificate_without_its_key() {
    let pem = pem(&ML_DSA.root);
    let authorities = Arc::new(Authorities::from_pem(&pem).unwrap());
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let mut config = config(&CLASSICAL, groups::DEFAULT, versions);
        let stolen = CertifiedKey::new(ML_DSA.certificates.clone(), CLASSICAL.key.clone());
        config.cert_resolver = Arc::new(SingleCertAndKey::from(stolen));
        let options = Options { authorities: Some(authorities.clone()), ..Options::default() };
        let report = Server::tls(config).probe_with(None, options);
        assert!(!report.ok && report.verified != Some(true), "{report:?}");
        assert!(report.authentication.is_none_or(|verdict| !verdict.post_quantum));
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
        assert!(report.problems[0].contains("invalid peer certificate"), "{:?}", report.problems);
    }
}

#[test]
fn certificates_that_are_none() {
    let ours = chain(Key::Engine(Algorithm::EcdsaP256), 0);
    let certificates = vec![ours.certificates[0].clone(), b"no certificate".to_vec().into()];
    let server = Server::tls(hybrid(&Chain { certificates, ..ours }));
    let report = server.probe_with(None, Options::default());
    assert!(report.ok && report.chain.len() == 2, "{report:?}");
    assert_eq!(report.chain[1].key, "unknown");
}

#[test]
fn a_port_without_a_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Server { address, accepted: std::sync::Arc::default() };
    let report = server.probe(None);
    assert_says(&report, "no answer at localhost:");
    assert!(report.attempts.is_empty(), "{report:?}");
}
