//! Reports on servers of every kind.

use std::io::{Read, Write};
use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_probe::handshake::Authorities;
use gabion_probe::probe::Options;
use gabion_probe::report::Report;
use gabion_rustls::certificate::{Fields, Subject, extension, issue, tlv};
use gabion_rustls::groups;
use gabion_rustls::testing::{Chain, Key, chain};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SignatureScheme};
use sha2::{Digest, Sha256};

use crate::server::{CLASSICAL, ML_DSA, Server, config, hybrid, pem};

#[track_caller]
fn key_exchange(report: &Report) -> (&str, bool, &str) {
    let verdict = report.key_exchange.as_ref().unwrap();
    (&verdict.algorithm, verdict.post_quantum, &verdict.why)
}

#[track_caller]
fn authentication(report: &Report) -> (&str, bool, &str) {
    let verdict = report.authentication.as_ref().unwrap();
    (&verdict.algorithm, verdict.post_quantum, &verdict.why)
}

#[test]
fn a_hybrid_server_is_post_quantum() {
    let mut config = hybrid(&CLASSICAL);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = Server::tls(config);
    let report = server.probe(None);
    assert!(report.ok && report.post_quantum && report.problems.is_empty(), "{report:?}");
    assert_eq!(report.version.as_deref(), Some("TLSv1.3"));
    assert_eq!(report.group.as_deref(), Some("X25519MLKEM768"));
    assert_eq!(report.hello_retry_request, Some(false));
    assert_eq!(report.signature.as_deref(), Some("ecdsa_secp256r1_sha256"));
    assert_eq!(report.cipher.as_deref(), Some("TLS_AES_256_GCM_SHA384"));
    assert_eq!(report.alpn.as_deref(), Some("h2"));
    assert_eq!(report.resumption, Some(true));
    assert_eq!(report.program.as_deref(), Some("nginx/1.26.3"));
    let classical = report.classical.as_ref().unwrap();
    assert_eq!((&*classical.version, classical.group.as_deref()), ("TLSv1.3", Some("x25519")));
    assert_eq!(report.verified, None);
    let (algorithm, post_quantum, why) = key_exchange(&report);
    assert!(post_quantum && algorithm == "X25519MLKEM768" && why.contains("first"), "{why}");
    let (algorithm, post_quantum, _) = authentication(&report);
    assert_eq!((algorithm, post_quantum), ("ECDSA P-256", false));
    assert_eq!(report.chain.len(), 1);
    assert_eq!(report.chain[0].subject, "CN=localhost");
    assert_eq!(report.chain[0].not_after, "2049-12-31T23:59:59Z");
    assert_eq!(report.attempts.len(), 1);
    assert!(report.attempts[0].bytes.unwrap() > 1200, "{report:?}");
    // The full handshake, the resumed one, and that of a classical client.
    assert_eq!(server.accepted(), 3);
}

#[test]
fn a_classical_server_decides_by_its_list() {
    let mut config = config(&CLASSICAL, &[groups::SECP256R1], &[&TLS13]);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let server = Server::tls(config);
    let report = server.probe(None);
    assert!(!report.ok && !report.post_quantum, "{report:?}");
    assert_eq!(report.hello_retry_request, Some(true));
    let verdict = report.key_exchange.as_ref().unwrap();
    assert!(verdict.why.starts_with("the server's list decides"), "{verdict:?}");
    assert!(verdict.fix[0].starts_with("ssl_conf_command Groups X25519MLKEM768"), "{verdict:?}");
    assert_eq!(report.problems, ["the key exchange, secp256r1, is not post-quantum"]);
    assert_eq!(report.classical.as_ref().unwrap().group, report.group);
    assert_eq!(server.accepted(), 2);
}

#[test]
fn another_hybrid_costs_a_round_trip() {
    let config = config(&CLASSICAL, &[groups::SECP384R1MLKEM1024], &[&TLS13]);
    let report = Server::tls(config).probe(None);
    assert!(report.ok, "{report:?}");
    assert_eq!(report.hello_retry_request, Some(true));
    let (algorithm, _, why) = key_exchange(&report);
    assert_eq!(algorithm, "SecP384r1MLKEM1024");
    assert!(why.contains("HelloRetryRequest") && why.contains("and not X25519MLKEM768"), "{why}");
    // A client without hybrids is refused.
    assert_eq!(report.classical, None);
    assert!(report.classical_error.as_ref().unwrap().contains("handshake_failure"), "{report:?}");
}

#[test]
fn tls_1_2_has_no_post_quantum_key_exchange() {
    let mut config = config(&CLASSICAL, groups::DEFAULT, &[&TLS12]);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let report = Server::tls(config).probe(None);
    assert!(!report.ok && report.version.as_deref() == Some("TLSv1.2"), "{report:?}");
    assert_eq!(report.resumption, Some(true));
    let verdict = report.key_exchange.as_ref().unwrap();
    assert!(verdict.why.contains("TLSv1.2"), "{verdict:?}");
    assert_eq!(verdict.fix[0], "ssl_protocols TLSv1.2 TLSv1.3;");
    assert_eq!(report.classical.as_ref().unwrap().version, "TLSv1.2");
}

#[test]
fn a_chain_is_post_quantum_if_every_signature_is() {
    let report = Server::tls(hybrid(&ML_DSA)).probe(None);
    assert_eq!(report.signature.as_deref(), Some("mldsa65"), "{report:?}");
    let (algorithm, post_quantum, why) = authentication(&report);
    assert!(post_quantum && algorithm == "ML-DSA-65", "{why}");
    assert_eq!(report.chain.len(), 2);
    // The leaf's key, and its issuer's signature below a classical intermediate.
    let mixed = Chain {
        certificates: vec![ML_DSA.certificates[0].clone(), CLASSICAL.certificates[0].clone()],
        ..ML_DSA.clone()
    };
    let report = Server::tls(hybrid(&mixed)).probe(None);
    let (algorithm, post_quantum, why) = authentication(&report);
    assert!(!post_quantum && algorithm.contains("ECDSA"), "{algorithm}: {why}");
    assert!(why.contains("signature on the certificate of `CN=localhost`"), "{why}");
}

#[test]
fn a_self_signed_root_does_not_count() {
    let classical_root = CLASSICAL.root.clone();
    let with_root = Chain {
        certificates: [&ML_DSA.certificates[..], &[classical_root]].concat(),
        ..ML_DSA.clone()
    };
    let report = Server::tls(hybrid(&with_root)).probe(None);
    assert_eq!(report.chain.len(), 3);
    assert!(authentication(&report).1, "{report:?}");
}

#[test]
fn servers_that_require_a_client_certificate_are_seen() {
    let mut roots = RootCertStore::empty();
    roots.add(CLASSICAL.root.clone()).unwrap();
    let provider = Arc::new(gabion_rustls::provider());
    for (versions, group) in [(&[&TLS13][..], "X25519MLKEM768"), (&[&TLS12], "x25519")] {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(CLASSICAL.certificates.clone(), CLASSICAL.file.clone_key())
            .unwrap();
        let report = Server::tls(config).probe(None);
        assert_eq!(report.group.as_deref(), Some(group), "{report:?}");
        assert_eq!(report.chain.len(), 1, "{report:?}");
    }
}

#[test]
fn authorities_verify_the_chain_and_the_name() {
    let probe = |server: &Server, authority: &[u8]| {
        let authorities = Authorities::from_pem(authority).unwrap();
        let options = Options { authorities: Some(Arc::new(authorities)), ..Options::default() };
        server.probe_with(None, options)
    };
    let server = Server::tls(hybrid(&ML_DSA));
    let report = probe(&server, &pem(&ML_DSA.root));
    assert!(report.ok && report.verified == Some(true), "{report:?}");
    let report = probe(&server, &pem(&CLASSICAL.root));
    assert!(!report.ok && report.post_quantum && report.verified == Some(false), "{report:?}");
    assert!(report.problems[0].starts_with("the certificate is not verified: "), "{report:?}");
    // A server's own certificate may stand in the file, even if it is marked as an authority.
    assert_eq!(probe(&server, &pem(&ML_DSA.certificates[0])).verified, Some(true));
    for (host, validity, verified) in [
        ("localhost", ["20200101000000Z", "20491231235959Z"], true),
        ("other.example", ["20200101000000Z", "20491231235959Z"], false),
        ("localhost", ["20200101000000Z", "20211231235959Z"], false),
    ] {
        let own = self_signed(host, validity);
        let report = probe(&Server::tls(hybrid(&own)), &pem(&own.certificates[0]));
        assert_eq!(report.verified, Some(verified), "{report:?}");
    }
    assert!(Authorities::from_pem(b"no PEM").is_err());
}

/// A self-signed certificate as `openssl req -x509` makes it: an authority.
fn self_signed(host: &str, validity: [&str; 2]) -> Chain {
    let subject = Subject { key: ML_DSA.key.clone(), name: host.to_owned() };
    let constraints = extension(&[0x55, 0x1d, 0x13], true, &tlv(0x30, &[&tlv(1, &[&[0xff]])]));
    let names = tlv(0x30, &[&tlv(0x82, &[host.as_bytes()])]);
    let extensions = [constraints, extension(&[0x55, 0x1d, 0x11], false, &names)];
    let fields = Fields { serial: &[9], validity, extensions: &extensions };
    let issued = issue(SignatureScheme::ML_DSA_65, &subject, &subject, &fields).unwrap();
    Chain { certificates: vec![issued], ..ML_DSA.clone() }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind, 0, len[0], len[1]], body].concat()
}

/// TLS 1.0 with RSA key transport: ServerHello, Certificate, ServerHelloDone.
fn old_flight() -> Vec<u8> {
    let server_hello = [&[0x03, 0x01][..], &[7; 32], &[0, 0x00, 0x2f, 0]].concat();
    let prefixed = |body: &[u8]| message(0, body)[1..].to_vec();
    let certificate = message(11, &prefixed(&prefixed(CLASSICAL.certificates[0].as_ref())));
    [message(2, &server_hello), certificate, message(14, &[])].concat()
}

/// A HelloRetryRequest for a group.
fn retry_request(group: u16) -> Vec<u8> {
    let random = Sha256::digest(b"HelloRetryRequest");
    let group = group.to_be_bytes();
    let extensions = [0, 43, 0, 2, 3, 4, 0, 51, 0, 2, group[0], group[1]];
    let session_id: &[u8] = b"\x20gabion probe: compatibility mode";
    let parts = [&[3, 3], &random[..], session_id, &[0x13, 0x01, 0, 0, 12], &extensions];
    message(2, &parts.concat())
}

/// A server that answers the raw hello with a flight, and every other hello with `other`.
fn raw_server(flight: Vec<u8>, other: &'static [u8]) -> Server {
    Server::start(move |mut stream| {
        let mut hello = [0; 4096];
        let len = stream.read(&mut hello).unwrap_or(0);
        let is_raw = hello[..len].windows(12).any(|part| part == b"gabion probe");
        let mut record = vec![22, 3, 1];
        record.extend(u16::try_from(flight.len()).unwrap().to_be_bytes());
        record.extend(&flight);
        let _ = stream.write_all(if is_raw { &record } else { other });
        if is_raw || !other.is_empty() {
            let _ = stream.read(&mut hello);
        }
    })
}

const HANDSHAKE_FAILURE: &[u8] = &[21, 3, 3, 0, 2, 2, 40];

#[test]
fn an_older_server_is_asked_with_a_hello_of_our_own() {
    for (other, attempts) in [(HANDSHAKE_FAILURE, 2), (&[][..], 7)] {
        let report = raw_server(old_flight(), other).probe(None);
        assert_eq!(report.version.as_deref(), Some("TLSv1"), "{report:?}");
        assert_eq!(report.cipher.as_deref(), Some("TLS_RSA_WITH_AES_128_CBC_SHA"), "{report:?}");
        assert_eq!(key_exchange(&report).0, "RSA key transport");
        assert!(!report.ok && !authentication(&report).1, "{report:?}");
        assert_eq!(report.chain.len(), 1);
        assert_eq!(report.hello_retry_request, None);
        assert_eq!(report.attempts.len(), attempts, "{report:?}");
    }
}

/// A server whose only certificate has a key that rustls does not know, such as Ed448.
#[test]
fn a_group_that_only_the_raw_hello_showed_is_kept() {
    for (group, post_quantum) in [(0x11ec, true), (0x1d, false)] {
        let report = raw_server(retry_request(group), HANDSHAKE_FAILURE).probe(None);
        assert_eq!(report.version.as_deref(), Some("TLSv1.3"), "{report:?}");
        assert_eq!((report.ok, report.post_quantum), (post_quantum, post_quantum), "{report:?}");
        assert_eq!(key_exchange(&report).1, post_quantum);
        // An empty key share forces a HelloRetryRequest.
        assert_eq!(report.hello_retry_request, None);
        assert_eq!(report.attempts.len(), 7);
    }
}

#[test]
fn a_key_of_every_kind_is_named() {
    for (key, name) in [
        (Key::Engine(Algorithm::Ed25519), "Ed25519"),
        (Key::Engine(Algorithm::EcdsaP384), "ECDSA P-384"),
        (Key::Engine(Algorithm::MlDsa87), "ML-DSA-87"),
        (Key::Rsa, "RSA-2048"),
    ] {
        let report = Server::tls(hybrid(&chain(key, 0))).probe(None);
        assert_eq!(authentication(&report).0, name, "{report:?}");
    }
}
