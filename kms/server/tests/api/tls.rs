//! Raw bytes on a TLS connection: the client's address is that of the connection, not that of a
//! header.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gabion_kms_server::attenuate_token;
use gabion_kms_server::dev::Dev;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SignatureScheme, StreamOwned};

use super::{client, create, server};

fn connected(server: &Dev) -> TcpStream {
    let stream = TcpStream::connect(server.address().strip_prefix("https://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn config(server: &Dev, provider: CryptoProvider) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(server.authorities()).unwrap() {
        // One of them is of an algorithm that this side need not know.
        let _ = roots.add(root.unwrap());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Sends a request on a new connection.
fn sent(
    server: &Dev,
    config: Arc<ClientConfig>,
    request: &str,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = "127.0.0.1".try_into().unwrap();
    let session = ClientConnection::new(config, name).unwrap();
    let mut stream = StreamOwned::new(session, connected(server));
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Returns the status of the response to a request over TLS.
fn asked(server: &Dev, request: &str) -> String {
    let mut stream = sent(server, config(server, gabion_rustls::provider()), request);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8(answer[9..].to_vec()).unwrap()
}

/// Handshakes are counted by group and by the signature scheme of the certificate that the client
/// got; a resumed one has no signature, and a failed one is not counted.
#[test]
fn handshakes_are_counted_in_the_metrics() {
    let server = server();
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let metrics = |config: &Arc<ClientConfig>| {
        let mut stream = sent(&server, Arc::clone(config), request);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let lines = answer.lines().filter(|line| line.starts_with("kms_tls_handshakes_total{"));
        lines.map(|line| line["kms_tls_handshakes_total{".len()..].to_owned()).collect::<Vec<_>>()
    };
    let ours = config(&server, gabion_rustls::provider());
    let hybrid = |signature: &str, count: u64| {
        format!("version=\"TLSv1.3\",group=\"X25519MLKEM768\",signature=\"{signature}\"}} {count}")
    };
    assert_eq!(metrics(&ours), [hybrid("mldsa65", 1)]);
    assert_eq!(metrics(&ours), [hybrid("none", 1), hybrid("mldsa65", 1)]);
    // A client without post-quantum groups and signatures gets the other certificate.
    let mut classical = rustls::crypto::aws_lc_rs::default_provider();
    classical.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::SECP256R1];
    let algorithms = &mut classical.signature_verification_algorithms;
    let is_classical = |scheme: &SignatureScheme| !format!("{scheme:?}").starts_with("ML_DSA");
    let mapping = algorithms.mapping.iter().filter(|(scheme, _)| is_classical(scheme));
    algorithms.mapping = mapping.copied().collect::<Vec<_>>().leak();
    let classical = config(&server, classical);
    let counted = metrics(&classical);
    assert!(
        counted.contains(
            &"version=\"TLSv1.3\",group=\"secp256r1\",signature=\"ecdsa_secp256r1_sha256\"} 1"
                .to_owned()
        )
    );
    let mut failed = connected(&server);
    failed.write_all(b"\x16\x03\x01\x00\x05hello").unwrap();
    let _ = failed.read(&mut [0; 100]);
    assert_eq!(metrics(&ours).len(), 3);
}

/// Every field by which a proxy says for whom it asks.
const FORWARDED: &[&str] = &[
    "X-Forwarded-For",
    "X-Real-IP",
    "X-Client-IP",
    "True-Client-IP",
    "CF-Connecting-IP",
    "X-Forwarded",
    "Forwarded-For",
    "X-Cluster-Client-IP",
    "Client-IP",
    "X-Originating-IP",
    "X-Remote-IP",
    "X-Remote-Addr",
];

/// A token for a network is only valid from there, regardless of header fields.
#[test]
fn an_address_that_a_field_says_is_nobodys() {
    let server = server();
    create(&client(&server), "k", "ed25519");
    let narrowed = |cidr: &str| attenuate_token(server.token(), &[format!("cidr={cidr}")]).unwrap();
    let ask = |token: &str, fields: &str| {
        asked(
            &server,
            &format!(
                "GET /v1/kms/keys/k HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n{fields}\r\n"
            ),
        )
    };
    let (elsewhere, here) = (narrowed("10.0.0.0/8"), narrowed("127.0.0.0/8"));
    assert_eq!((ask(&elsewhere, "").as_str(), ask(&here, "").as_str()), ("401", "200"));
    let mut all = "Forwarded: for=10.1.2.3;by=10.1.2.4\r\nHost-Forwarded: 10.1.2.3\r\n".to_owned();
    for field in FORWARDED {
        all.push_str(&format!("{field}: 10.1.2.3\r\n"));
    }
    assert_eq!((ask(&elsewhere, &all).as_str(), ask(&here, &all).as_str()), ("401", "200"));
    // Header fields do not set the client certificate either.
    let bound = attenuate_token(server.token(), &[format!("cnf={}", "ab".repeat(32))]).unwrap();
    let said = format!(
        "X-Forwarded-Client-Cert: Hash={}\r\nX-SSL-Client-Verify: SUCCESS\r\n",
        "ab".repeat(32)
    );
    assert_eq!(ask(&bound, &said), "401");
    // A line of the PROXY protocol is no beginning of a handshake.
    let mut stream = connected(&server);
    stream.write_all(b"PROXY TCP4 10.1.2.3 10.1.2.4 1 2\r\n").unwrap();
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    // An alert at most (RFC 8446, section 5.1: type 21).
    assert!(answer.len() < 64 && answer.first().is_none_or(|kind| *kind == 21), "{answer:?}");
}

/// A handshake may take ten seconds, and slow ones do not delay other clients.
#[test]
fn incomplete_handshake_times_out() {
    let server = server();
    // Nothing; a part of a record's head; a record that never ends.
    let starts = [&b""[..], &[22, 3], &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc]];
    let begun = Instant::now();
    let waiting: Vec<_> = starts
        .into_iter()
        .map(|start| {
            let mut stream = connected(&server);
            stream.write_all(start).unwrap();
            thread::spawn(move || {
                let _ = stream.read_to_end(&mut Vec::new());
                begun.elapsed()
            })
        })
        .collect();
    client(&server).status().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(9));
    for one in waiting {
        let lasted = one.join().unwrap();
        assert!((Duration::from_secs(8)..Duration::from_secs(25)).contains(&lasted), "{lasted:?}");
    }
}
