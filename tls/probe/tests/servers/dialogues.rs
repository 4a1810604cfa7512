//! STARTTLS in every protocol, with a TLS server behind it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use gabion_probe::target::StartTls;

use crate::server::{CLASSICAL, Server, hybrid, serve_tls};

/// A greeting, then requests, each with its answer.
type Dialogue = (&'static [u8], &'static [(Request, &'static [u8])]);

#[derive(Clone, Copy)]
enum Request {
    Line(&'static str),
    Bytes(usize),
}

/// Speaks the dialogue. Returns whether the client did, too.
fn speak(stream: &TcpStream, (greeting, steps): Dialogue) -> bool {
    let mut writer = stream;
    let _ = writer.write_all(greeting);
    // Without a buffer, which would take the ClientHello that follows MySQL's request.
    let mut reader = stream;
    for (request, answer) in steps {
        let came = match request {
            Request::Line(expected) => {
                let mut line = Vec::new();
                let mut byte = [0];
                while !line.ends_with(b"\n") && matches!(reader.read(&mut byte), Ok(1)) {
                    line.push(byte[0]);
                }
                line.starts_with(expected.as_bytes())
            }
            Request::Bytes(len) => reader.read_exact(&mut vec![0; *len]).is_ok(),
        };
        if !came {
            return false;
        }
        let _ = writer.write_all(answer);
    }
    true
}

fn server(dialogue: Dialogue) -> Server {
    let config = Arc::new(hybrid(&CLASSICAL));
    Server::start(move |stream| {
        if speak(&stream, dialogue) {
            serve_tls(&config, stream);
        }
    })
}

const MYSQL: &[u8] = b"\x2c\x00\x00\x00\x0a5.5.5-10.11.6-MariaDB\x00\x01\x00\x00\x0012345678\x00\
    \xff\xff\x2d\x02\x00\xff\xdf\x15";

const DIALOGUES: [(StartTls, Dialogue, Option<&str>); 7] = [
    (
        StartTls::Smtp,
        (
            b"220 mx.example ESMTP Postfix (Debian/GNU)\r\n",
            &[
                (Request::Line("EHLO "), b"250-mx.example\r\n250-PIPELINING\r\n250 STARTTLS\r\n"),
                (Request::Line("STARTTLS\r\n"), b"220 2.0.0 Ready to start TLS\r\n"),
            ],
        ),
        Some("ESMTP Postfix (Debian/GNU)"),
    ),
    (
        StartTls::Imap,
        (
            b"* OK [CAPABILITY IMAP4rev1] Dovecot (Debian) ready.\r\n",
            &[(Request::Line("a STARTTLS\r\n"), b"a OK Begin TLS negotiation now.\r\n")],
        ),
        Some("[CAPABILITY IMAP4rev1] Dovecot (Debian) ready."),
    ),
    (
        StartTls::Pop3,
        (b"+OK Dovecot ready.\r\n", &[(Request::Line("STLS\r\n"), b"+OK Begin TLS.\r\n")]),
        Some("Dovecot ready."),
    ),
    (
        StartTls::Ldap,
        (b"", &[(Request::Bytes(31), b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00")]),
        None,
    ),
    (
        StartTls::Ftp,
        (b"220 (vsFTPd 3.0.3)\r\n", &[(Request::Line("AUTH TLS\r\n"), b"234 Proceed.\r\n")]),
        Some("(vsFTPd 3.0.3)"),
    ),
    (StartTls::Postgres, (b"", &[(Request::Bytes(8), b"S")]), Some("PostgreSQL")),
    (StartTls::Mysql, (MYSQL, &[(Request::Bytes(36), b"")]), Some("MariaDB 10.11.6-MariaDB")),
];

#[test]
fn every_protocol_starts_tls() {
    for (starttls, dialogue, program) in DIALOGUES {
        let report = server(dialogue).probe(Some(starttls));
        assert!(report.ok, "{starttls}: {report:?}");
        assert_eq!(report.group.as_deref(), Some("X25519MLKEM768"), "{starttls}");
        assert_eq!(report.starttls, Some(starttls));
        assert_eq!(report.program.as_deref(), program, "{starttls}");
        assert_eq!(report.resumption, Some(true), "{starttls}");
        assert!(report.alpn.is_none() && report.classical.is_some(), "{report:?}");
    }
}

#[test]
fn the_wrong_protocol_is_named() {
    // Each server is asked in every other protocol than its own. MySQL and the text protocols wait
    // for a greeting, so servers that send none are left out.
    for (speaks, dialogue, _) in DIALOGUES {
        if dialogue.0.is_empty() {
            continue;
        }
        let server = server(dialogue);
        for asked in StartTls::ALL {
            // Two protocols have the same greeting.
            let is_alike = matches!(
                (speaks, asked),
                (StartTls::Smtp, StartTls::Ftp) | (StartTls::Ftp, StartTls::Smtp)
            );
            if asked == speaks || is_alike {
                continue;
            }
            let report = server.probe(Some(asked));
            let [problem] = &report.problems[..] else { panic!("{report:?}") };
            let expected = format!("localhost:{} does not start TLS: it ", server.address.port());
            assert!(problem.starts_with(&expected), "{asked} of {speaks}: {problem}");
            assert_eq!(report.attempts.len(), 1, "{report:?}");
        }
    }
}

const REFUSALS: [(StartTls, Dialogue, &str); 2] = [
    (
        StartTls::Smtp,
        (
            b"220 x\r\n",
            &[
                (Request::Line("EHLO "), b"250 STARTTLS\r\n"),
                (Request::Line("STARTTLS\r\n"), b"454 TLS not available\r\n"),
            ],
        ),
        "it refused STARTTLS (smtp): 454 TLS not available",
    ),
    (StartTls::Postgres, (b"", &[(Request::Bytes(8), b"N")]), "it refused SSLRequest (postgres)"),
];

#[test]
fn a_refusal_has_the_servers_words() {
    for (starttls, dialogue, words) in REFUSALS {
        let report = server(dialogue).probe(Some(starttls));
        assert!(report.problems[0].contains(words), "{report:?}");
    }
}
