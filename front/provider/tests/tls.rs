//! Full handshakes between `s_server` and `s_client` over loopback, with keys and certificates from
//! PEM files, either side on our provider or on the default one.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use common::{Place, Side};

/// A server that accepts a number of connections; ended when dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(place: &Place, side: Side, group: &str, options: &str) -> Self {
        let words = format!(
            "s_server -accept 127.0.0.1:0 -tls1_3 -groups {group} -cert chain.pem -key leaf.key \
             {options}"
        );
        let mut process = place
            .command(side, &words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // "ACCEPT 127.0.0.1:PORT" once it listens.
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ACCEPT ")?.rsplit(':').next()?.parse().ok())
            .expect("s_server listens");
        // It must not stop at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Server { process, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One handshake; what the client says about it.
fn connect(place: &Place, side: Side, server: &Server, group: &str, options: &str) -> String {
    let words = format!(
        "s_client -connect 127.0.0.1:{} -tls1_3 -groups {group} -CAfile ca.pem -verify_return_error \
         -servername localhost -verify_hostname localhost {options}",
        server.port
    );
    let mut client = place
        .command(side, &words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(b"Q\n").unwrap();
    let output = client.wait_with_output().unwrap();
    let text = common::all_text(&output);
    assert!(output.status.success(), "{side:?} {group}: {text}");
    assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
    assert!(text.contains("Protocol: TLSv1.3") || text.contains("TLSv1.3"), "{text}");
    assert!(text.contains(&format!("Negotiated TLS1.3 group: {group}")), "{text}");
    text
}

/// A chain of two certificates, made by the default provider.
fn certificates(place: &Place, algorithm: &str) {
    let stock = |words: &str| place.openssl(Side::Stock, words);
    std::fs::write(place.path("leaf.ext"), "subjectAltName = DNS:localhost\n").unwrap();
    stock(&format!("genpkey -algorithm {algorithm} -out ca.key"));
    stock("req -x509 -new -key ca.key -subj /CN=ca -days 2 -out ca.pem");
    stock(&format!("genpkey -algorithm {algorithm} -out leaf.key"));
    stock("req -new -key leaf.key -subj /CN=localhost -out leaf.csr");
    stock(
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -days 2 -extfile leaf.ext -out chain.pem",
    );
}

#[test]
fn either_side_alone_and_both() {
    use Side::{Gabion, Stock};
    for (group, kem, algorithm) in [
        ("X25519MLKEM768", "ML-KEM-768", "ML-DSA-65"),
        ("SecP384r1MLKEM1024", "ML-KEM-1024", "ML-DSA-87"),
        ("MLKEM512", "ML-KEM-512", "ML-DSA-44"),
    ] {
        for (server_side, client_side) in [(Gabion, Stock), (Stock, Gabion), (Gabion, Gabion)] {
            let place = Place::new();
            certificates(&place, algorithm);
            let server = Server::start(&place, server_side, group, "");
            for _ in 0..3 {
                let text = connect(&place, client_side, &server, group, "");
                let wanted = ["Peer signature type: ", "mldsa", &algorithm[7..]].concat();
                let named = text.contains(&wanted)
                    || text.contains(&format!("Peer signature type: {algorithm}"));
                assert!(named, "{wanted}: {text}");
            }
            let ours = |side: Side, count: u64| if side == Gabion { count } else { 0 };
            let counted = |name: &str, operation: &str| {
                let (calls, errors) = place.count(name, operation);
                assert_eq!(errors, 0, "{name} {operation}");
                calls
            };
            let what = format!("{group} {algorithm}: {server_side:?} <- {client_side:?}");
            assert_eq!(counted(algorithm, "sign"), ours(server_side, 3), "{what}");
            assert_eq!(counted(kem, "encaps"), ours(server_side, 3), "{what}");
            assert_eq!(counted(kem, "decaps"), ours(client_side, 3), "{what}");
            assert_eq!(counted(kem, "keygen"), ours(client_side, 3), "{what}");
            // The handshake's signature and the leaf's, by the trusted key.
            assert_eq!(counted(algorithm, "verify"), ours(client_side, 6), "{what}");
        }
    }
}

#[test]
fn counters_outlive_a_killed_server() {
    let place = Place::new();
    certificates(&place, "ML-DSA-44");
    let server = Server::start(&place, Side::Gabion, "MLKEM768", "");
    connect(&place, Side::Stock, &server, "MLKEM768", "");
    // Readable while the server runs, and after it was killed.
    assert_eq!(place.count("ML-DSA-44", "sign"), (1, 0));
    drop(server);
    assert_eq!(place.count("ML-DSA-44", "sign"), (1, 0));
    assert_eq!(place.count("ML-KEM-768", "encaps"), (1, 0));
}

/// OpenSSL runs asynchronous jobs on stacks of 32 KiB; what needs more dies of it.
#[test]
fn operations_fit_the_stack_of_an_asynchronous_job() {
    for (group, algorithm) in
        [("X25519MLKEM768", "ML-DSA-44"), ("MLKEM768", "ML-DSA-65"), ("MLKEM1024", "ML-DSA-87")]
    {
        let place = Place::new();
        certificates(&place, algorithm);
        let server = Server::start(&place, Side::Gabion, group, "-async");
        for _ in 0..2 {
            connect(&place, Side::Gabion, &server, group, "-async");
        }
        assert_eq!(place.count(algorithm, "sign"), (2, 0), "{algorithm}");
        assert_eq!(place.count(algorithm, "verify"), (4, 0), "{algorithm}");
    }
}
