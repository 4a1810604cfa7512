//! `raw` against `openssl s_server`: versions, cipher suites and groups that rustls does not have.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gabion_probe::raw::{
    self, Answer, KeyShare, Offer, RawError, TLS1_0, TLS1_1, TLS1_2, TLS1_3, cipher_suite_name,
    group_name,
};

/// A running `openssl s_server`.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes an RSA key and its certificate.
fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"])
        .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
}

fn start(folder: &Path, options: &[&str]) -> Server {
    let mut child = Command::new("openssl")
        .args(["s_server", "-key", "key.pem", "-cert", "certificate.pem", "-accept", "127.0.0.1:0"])
        .args(options)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let accepting = lines.map(Result::unwrap).find(|line| line.starts_with("ACCEPT ")).unwrap();
    let port = accepting.rsplit(':').next().unwrap().parse().unwrap();
    Server { child, port }
}

fn ask(server: &Server, offer: &Offer<'_>) -> Result<Answer, RawError> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    raw::ask(&mut stream, offer)
}

/// Options of the server, and its version, cipher suite, group and size of the prime.
type Case<'a> = (&'a [&'a str], u16, &'a str, Option<&'a str>, Option<usize>);

#[test]
fn every_version_and_key_exchange_of_openssl_is_read() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let weak = "DEFAULT:@SECLEVEL=0";
    let cases: [Case<'_>; 8] = [
        (
            &["-tls1", "-cipher", weak],
            TLS1_0,
            "ECDHE_RSA_WITH_AES_256_CBC_SHA",
            Some("x25519"),
            None,
        ),
        (
            &["-tls1_1", "-cipher", "AES128-SHA:@SECLEVEL=0"],
            TLS1_1,
            "RSA_WITH_AES_128_CBC_SHA",
            None,
            None,
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256", "-groups", "P-384"],
            TLS1_2,
            "ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            Some("secp384r1"),
            None,
        ),
        (
            &["-tls1_2", "-cipher", "DHE-RSA-AES256-GCM-SHA384"],
            TLS1_2,
            "DHE_RSA_WITH_AES_256_GCM_SHA384",
            None,
            Some(2048),
        ),
        (
            &["-tls1_2", "-cipher", "AES256-GCM-SHA384"],
            TLS1_2,
            "RSA_WITH_AES_256_GCM_SHA384",
            None,
            None,
        ),
        (&["-groups", "P-521"], TLS1_3, "AES_256_GCM_SHA384", Some("secp521r1"), None),
        (&["-groups", "X448"], TLS1_3, "AES_256_GCM_SHA384", Some("x448"), None),
        (&["-groups", "ffdhe3072"], TLS1_3, "AES_256_GCM_SHA384", Some("ffdhe3072"), None),
    ];
    for (options, version, suite, group, bits) in cases {
        let server = start(folder.path(), options);
        let answer = ask(&server, &Offer::new(Some("localhost"))).unwrap();
        assert_eq!(answer.version, version, "{options:?}");
        assert_eq!(cipher_suite_name(answer.cipher_suite), format!("TLS_{suite}"), "{options:?}");
        assert_eq!(answer.group.map(group_name).as_deref(), group, "{options:?}");
        assert_eq!(answer.dhe_bits, bits, "{options:?}");
        let is_tls13 = version == TLS1_3;
        assert_eq!(answer.is_hello_retry_request, is_tls13, "{options:?}");
        assert_eq!(answer.certificates.len(), usize::from(!is_tls13), "{options:?}");
    }
}

#[test]
fn a_share_of_x25519_is_answered_without_a_retry() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let server = start(folder.path(), &["-tls1_3", "-groups", "X25519:P-256"]);
    let offer = Offer { key_share: KeyShare::X25519, ..Offer::new(None) };
    let answer = ask(&server, &offer).unwrap();
    assert_eq!((answer.version, answer.is_hello_retry_request), (TLS1_3, false));
    assert_eq!(answer.group.map(group_name).as_deref(), Some("x25519"));
    let error = ask(&server, &Offer { versions: &[TLS1_0], ..offer.clone() }).unwrap_err();
    assert!(matches!(error, RawError::Alert(70)), "{error}");
    let error = ask(&server, &Offer { groups: &[0x001e], ..Offer::new(None) }).unwrap_err();
    assert!(matches!(error, RawError::Alert(40)), "{error}");
}
