//! `gabion preflight --probe` against servers and boxes of our own, over loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::{Copy, Damage, Server, preflight, run};

/// A copy of the bundle, with a certificate and its key.
struct Place {
    copy: Copy,
    certificate: String,
    key: String,
}

impl Place {
    fn new() -> Place {
        let copy = Copy::new(Damage::None);
        let file = |name: &str| copy.path(name).into_os_string().into_string().unwrap();
        let (certificate, key) = (file("probe.crt"), file("probe.key"));
        let mut request =
            copy.gabion(&["exec", "--", "openssl", "req", "-x509", "-newkey", "ML-DSA-65"]);
        request.args([
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ]);
        request.args(["-keyout", &key, "-out", &certificate]).stdin(Stdio::null());
        let (code, _, stderr) = run(&mut request);
        assert_eq!(code, Some(0), "{stderr}");
        Place { copy, certificate, key }
    }

    fn server(&self, more: &[&str]) -> Server {
        let options = ["-cert", &self.certificate, "-key", &self.key];
        Server::start(&self.copy, "off", &[], &[&options[..], more].concat())
    }

    fn probe(&self, target: &str, more: &[&str]) -> (Option<i32>, Value) {
        let words = ["preflight", "--json", "--timeout", "1", "--probe", target];
        preflight(&mut self.copy.gabion(&[&words[..], more].concat()))
    }
}

/// The address by the name that the certificate has.
fn by_name(address: &str) -> String {
    address.replace("127.0.0.1", "localhost")
}

/// Returns whether a box passes a hello on.
type HelloFilter = fn(&[u8]) -> bool;

/// A box before a server. It passes a connection on where it likes the hello; else it says nothing and
/// waits, or hangs up.
fn box_before(server: &str, mute: bool, likes: HelloFilter) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.to_owned();
    // It ends with the process that runs the tests.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), server.clone());
            std::thread::spawn(move || pass_on(client, &server, mute, likes));
        }
    });
    address
}

/// The messages of a server and its client before TLS: the server's greeting, then the requests
/// that it reads (empty: any eight bytes) and its answers.
type Dialogue = (&'static [u8], &'static [(&'static [u8], &'static [u8])]);

/// A server that speaks a dialogue, and passes on what follows to the TLS server behind it; without
/// one it answers in plain text.
fn plain_before(server: Option<&str>, (greeting, steps): Dialogue) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.map(str::to_owned);
    // It ends with the process that runs the tests.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, server) = (client.unwrap(), server.clone());
            std::thread::spawn(move || {
                let _ = client.write_all(greeting);
                for (expected, answer) in steps {
                    let mut line = vec![0; if expected.is_empty() { 8 } else { expected.len() }];
                    if client.read_exact(&mut line).is_err() {
                        return;
                    }
                    let mut last = [0];
                    while !expected.is_empty() && !line.ends_with(b"\n") {
                        client.read_exact(&mut last).unwrap();
                        line.push(last[0]);
                    }
                    assert!(line.starts_with(expected), "{line:?}");
                    client.write_all(answer).unwrap();
                }
                let Some(server) = server else {
                    let _ = client.read(&mut [0; 1024]);
                    let _ = client.write_all(b"500 what\r\n");
                    return;
                };
                pass_on(client, &server, false, |_| true);
            });
        }
    });
    address
}

fn pass_on(mut client: TcpStream, server: &str, mute: bool, likes: HelloFilter) {
    let mut hello = vec![0; 5];
    if client.read_exact(&mut hello).is_err() {
        return; // It only checked whether the server listens.
    }
    hello.resize(5 + usize::from(u16::from_be_bytes([hello[3], hello[4]])), 0);
    client.read_exact(&mut hello[5..]).unwrap();
    if !likes(&hello) {
        if mute {
            std::thread::sleep(Duration::from_secs(5));
        }
        return;
    }
    let mut server = TcpStream::connect(server).unwrap();
    server.write_all(&hello).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(Shutdown::Both);
}

fn has(hello: &[u8], bytes: &[u8]) -> bool {
    hello.windows(bytes.len()).any(|window| window == bytes)
}

fn says(report: &Value, what: &str) -> bool {
    report["problems"].to_string().contains(what)
}

#[test]
fn a_probe_says_what_is_negotiated() {
    let place = Place::new();
    let server = place.server(&["-tls1_3"]);
    let (code, report) = place.probe(&by_name(&server.address), &["--ca", &place.certificate]);
    assert_eq!(code, Some(0), "{report}");
    for (member, expected) in [
        ("version", "TLSv1.3"),
        ("group", "X25519MLKEM768"),
        ("signature", "mldsa65"),
        ("cipher", "TLS_AES_256_GCM_SHA384"),
    ] {
        assert_eq!(report[member], expected, "{report}");
    }
    assert!(report["verified"] == true && report["post_quantum"] == true, "{report}");
    let bytes = report["attempts"][0]["bytes"].as_u64().unwrap();
    assert!((1300..3000).contains(&bytes), "a hello of {bytes} bytes");
    // The certificate is not for that name.
    let (code, report) = place.probe(&server.address, &["--ca", &place.certificate]);
    assert!(code == Some(1) && says(&report, "not verified"), "{report}");
    let (code, text, _) = run(&mut place.copy.gabion(&["preflight", "--probe", &server.address]));
    assert!(code == Some(0) && text.starts_with("verdict        post-quantum\n"), "{text}");
    assert!(
        text.contains("X25519MLKEM768, post-quantum") && text.contains("use --ca FILE"),
        "{text}"
    );
    drop(server);
    for options in [&["-tls1_3", "-groups", "P-256"][..], &["-groups", "X25519"]] {
        let server = place.server(options);
        let (code, report) = place.probe(&by_name(&server.address), &[]);
        assert!(code == Some(1) && report["ok"] == false, "{report}");
        assert!(says(&report, "is not post-quantum"), "{report}");
    }
}

#[test]
fn probe_finds_extensions_blocked_by_the_path() {
    let place = Place::new();
    let key = ["-newkey", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let mut request = place.copy.gabion(&["exec", "--", "openssl", "req", "-x509", "-nodes"]);
    request.args(key).args(["-subj", "/CN=localhost", "-keyout", &place.key]);
    let (code, _, stderr) = run(request.args(["-out", &place.certificate]).stdin(Stdio::null()));
    assert_eq!(code, Some(0), "{stderr}");
    let server = place.server(&["-groups", "X25519MLKEM768:P-256"]);
    // Each as many bytes as chance does not make: mldsa65 before a neighbour, X25519MLKEM768 behind X25519, and
    // the extension that offers TLS 1.3.
    let boxes: [(bool, HelloFilter, &str, usize); 4] = [
        (true, |hello| !has(hello, &[9, 5, 9, 6]), "signature_algorithms", 3),
        (false, |hello| hello.len() < 1000, "key_share", 4),
        (
            false,
            |hello| hello.len() < 1000 && !has(hello, &[0, 0x1d, 0x11, 0xec]),
            "supported_groups",
            5,
        ),
        (false, |hello| !has(hello, &[0, 43, 0, 5, 4, 3, 4]), "supported_versions", 7),
    ];
    for (mute, likes, expected, tries) in boxes {
        let address = box_before(&server.address, mute, likes);
        let (code, report) = place.probe(&by_name(&address), &[]);
        assert_eq!(code, Some(1), "{report}");
        assert!(says(&report, expected), "{expected}: {report}");
        assert_eq!(report["attempts"].as_array().unwrap().len(), tries, "{report}");
    }
}

#[test]
fn a_probe_asks_for_tls_in_the_servers_protocol() {
    let place = Place::new();
    let server = place.server(&["-tls1_3"]);
    let protocols: [(&str, Dialogue, Dialogue); 4] = [
        (
            "smtp",
            (
                b"220 x\r\n",
                &[(b"EHLO", b"250-x\r\n250 STARTTLS\r\n"), (b"STARTTLS", b"220 go\r\n")],
            ),
            (b"220 x\r\n", &[(b"EHLO", b"250-x\r\n250 SIZE\r\n"), (b"STARTTLS", b"502 no\r\n")]),
        ),
        (
            "imap",
            (b"* OK x\r\n", &[(b"a STARTTLS", b"a OK go\r\n")]),
            (b"* OK x\r\n", &[(b"a STARTTLS", b"a BAD no\r\n")]),
        ),
        (
            "ftp",
            (b"220 x\r\n", &[(b"AUTH TLS", b"234 go\r\n")]),
            (b"220 x\r\n", &[(b"AUTH TLS", b"500 what\r\n")]),
        ),
        ("postgres", (b"", &[(b"", b"S")]), (b"", &[(b"", b"N")])),
    ];
    for (protocol, offers, refuses) in protocols {
        let address = plain_before(Some(&server.address), offers);
        let (code, report) = place.probe(&by_name(&address), &["--starttls", protocol]);
        assert_eq!(code, Some(0), "{protocol}: {report}");
        assert!(report["group"] == "X25519MLKEM768" && report["starttls"] == protocol, "{report}");
        let address = plain_before(None, refuses);
        let (code, report) = place.probe(&by_name(&address), &["--starttls", protocol]);
        assert_eq!(code, Some(1), "{protocol}: {report}");
        assert!(says(&report, "does not start TLS"), "{protocol}: {report}");
        assert_eq!(report["attempts"].as_array().unwrap().len(), 1, "{report}");
    }
}

#[test]
fn a_probe_of_no_server_says_so() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (code, report) = place.probe(&closed, &[]);
    assert!(code == Some(1) && says(&report, "no answer at"), "{report}");
    // One that hangs up at every hello.
    let address = box_before(&closed, false, |_| false);
    let (code, report) = place.probe(&address, &[]);
    assert!(code == Some(1) && says(&report, "speaks no TLS with any of 7 hellos"), "{report}");
    for wrong in [
        &["--probe", "localhost:port"][..],
        &["--probe", "localhost:1", "--pid", "1"],
        &["--ca", "x"],
        &["--starttls", "smtp"],
        &["--probe", "localhost:1", "--starttls", "gopher"],
    ] {
        let (code, _, stderr) = run(&mut place.copy.gabion(&[&["preflight"][..], wrong].concat()));
        assert_eq!(code, Some(2), "{wrong:?}: {stderr}");
    }
}
