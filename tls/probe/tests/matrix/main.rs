//! `matrix` against servers behind simulated middleboxes: it finds the form of the ClientHello that
//! survives and stays post-quantum, where one exists.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod middlebox;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gabion_engine::Algorithm;
use gabion_probe::matrix::{self, FORMS};
use gabion_probe::probe::{Options, Prober};
use gabion_probe::report::MatrixRow;
use gabion_probe::target::{Opening, Target};
use gabion_rustls::groups;
use gabion_rustls::testing::{Key, chain};
use middlebox::Policy;
use rustls::crypto::SupportedKxGroup;
use rustls::pki_types::ServerName;
use rustls::{ServerConfig, ServerConnection};

/// The time after which a dropped hello is given up.
const LIMIT: Duration = Duration::from_millis(500);

/// Starts a TLS server with these groups.
fn server(groups: &[&'static dyn SupportedKxGroup]) -> SocketAddr {
    let chain = chain(Key::Engine(Algorithm::Ed25519), 0);
    let mut provider = gabion_rustls::provider();
    provider.kx_groups = groups.to_vec();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.certificates, chain.file.clone_key())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, config) = (stream.unwrap(), Arc::clone(&config));
            thread::spawn(move || {
                let mut connection = ServerConnection::new(config).unwrap();
                let _ = connection.complete_io(&mut stream); // clients hang up as they like
            });
        }
    });
    address
}

fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(|cause| cause.to_string())?;
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    Ok(stream)
}

fn rows(address: SocketAddr, name: &str) -> Vec<MatrixRow> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let rows = matrix::ask(|| connect(address), &name);
    for row in &rows {
        eprintln!("{row:?}");
    }
    assert!(rows.iter().map(|row| row.form.as_str()).eq(FORMS.iter().map(|form| form.name)));
    rows
}

fn survivors(rows: &[MatrixRow]) -> Vec<&str> {
    rows.iter().filter(|row| row.survived).map(|row| row.form.as_str()).collect()
}

#[test]
fn without_a_middlebox_every_form_survives() {
    let address = middlebox::start(Policy::Forward, server(groups::DEFAULT));
    let rows = rows(address, "localhost");
    assert!(rows.iter().all(|row| row.survived && row.error.is_none()));
    // A server that prefers the hybrid asks for its share.
    assert!(rows.iter().all(|row| row.post_quantum == (row.form != "classical")));
    assert_eq!(matrix::best(&rows).unwrap().name, "one segment");
    let bytes = |name: &str| rows.iter().find(|row| row.form == name).unwrap().bytes;
    // The payload of a segment on Ethernet, with TCP's timestamps.
    assert!((1_300..1_448).contains(&bytes("one segment")), "{}", bytes("one segment"));
    assert!(bytes("without ML-DSA") < bytes("one segment"));
    assert!(bytes("split records") > bytes("one segment"));
    assert!(bytes("X25519 first") < 350, "{}", bytes("X25519 first"));
}

#[test]
fn behind_a_box_that_drops_fragments_one_segment_survives() {
    let address = middlebox::start(Policy::DropFragments, server(groups::DEFAULT));
    // On a busy machine the segments may arrive together.
    let attempts: Vec<_> = (0..3).map(|_| rows(address, "localhost")).collect();
    let expected = [
        "one segment",
        "without ML-DSA",
        "X25519 first",
        "X25519 first, without ML-DSA",
        "classical",
    ];
    let rows = attempts.iter().find(|rows| survivors(rows) == expected).expect("in one of three");
    let lost = rows.iter().find(|row| row.form == "split records").unwrap();
    assert!(lost.bytes > 1_300 && !lost.post_quantum && lost.error.is_some(), "{lost:?}");
    let lines = matrix::ask_with(rows);
    assert_eq!(lines["openssl"], "Groups = X25519MLKEM768:X25519:P-256:P-384");
}

#[test]
fn behind_a_box_that_drops_large_hellos_the_hybrid_comes_by_retry() {
    let address = middlebox::start(Policy::DropOver(1_500), server(groups::DEFAULT));
    // The name makes the hello larger than 1,500 bytes.
    let name = format!("{0}.{0}.{0}.example", "a".repeat(60));
    let rows = rows(address, &name);
    let expected = ["X25519 first", "X25519 first, without ML-DSA", "all of it", "classical"];
    assert_eq!(survivors(&rows), expected);
    assert_eq!(matrix::best(&rows).unwrap().name, "X25519 first");
    let lines = matrix::ask_with(&rows);
    assert_eq!(lines["openssl"], "Groups = X25519MLKEM768/*X25519:P-256:P-384");
    assert!(lines["rustls"].contains("kx_hint"), "{}", lines["rustls"]);
}

#[test]
fn behind_a_box_that_resets_unknown_groups_no_form_stays_post_quantum() {
    let address = middlebox::start(Policy::ResetUnknownGroups, server(groups::DEFAULT));
    let rows = rows(address, "localhost");
    assert_eq!(survivors(&rows), ["classical"]);
    assert!(rows.iter().all(|row| !row.post_quantum));
    let error = rows[0].error.as_deref().unwrap();
    assert!(error.contains("reset"), "{error}");
    assert!(matrix::best(&rows).is_none());
    assert!(matrix::ask_with(&rows).is_empty());
}

#[test]
fn a_classical_server_is_told_what_it_needs() {
    let rows = rows(server(&[groups::X25519]), "localhost");
    assert!(rows.iter().all(|row| row.survived && !row.post_quantum));
    let lines = matrix::ask_with(&rows);
    assert_eq!(lines["openssl_server"], "Groups = X25519MLKEM768/X25519:P-256:P-384");
}

/// The whole probe: the handshakes say that the path drops large hellos, the matrix how to pass.
#[test]
fn a_report_has_the_matrix_if_asked() {
    let address = middlebox::start(Policy::DropOver(1_300), server(groups::DEFAULT));
    let target = Target::parse(&address.to_string(), Opening::default()).unwrap();
    let options = Options { limit: LIMIT, has_matrix: true, ..Options::default() };
    let report = Prober::new(options).probe(&target);
    assert_eq!(report.matrix.len(), FORMS.len(), "{report:?}");
    assert!(report.not_survived.unwrap().contains("size"));
    assert_eq!(report.ask_with["openssl"], "Groups = X25519MLKEM768/*X25519:P-256:P-384");
    let without = Prober::new(Options { limit: LIMIT, ..Options::default() }).probe(&target);
    assert!(without.matrix.is_empty() && without.ask_with.is_empty());
}

#[test]
fn a_closed_port_is_named() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rows = rows(address, "localhost");
    assert!(rows.iter().all(|row| !row.survived && row.bytes == 0));
    assert!(rows[0].error.as_deref().unwrap().contains("refused"));
}
