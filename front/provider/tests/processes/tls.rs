//! Full handshakes between `s_server` and `s_client` over loopback, with keys and certificates from
//! PEM files, either side on our provider or on the default one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use gabion_provider_testing::{Side, TestFolder};

/// A server that accepts a number of connections; ended when dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(place: &TestFolder, side: Side, group: &str, options: &str) -> Self {
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
fn connect(place: &TestFolder, side: Side, server: &Server, group: &str, options: &str) -> String {
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
    let text = gabion_provider_testing::all_text(&output);
    assert!(output.status.success(), "{side:?} {group}: {text}");
    assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
    assert!(text.contains("Protocol: TLSv1.3") || text.contains("TLSv1.3"), "{text}");
    assert!(text.contains(&format!("Negotiated TLS1.3 group: {group}")), "{text}");
    text
}

/// A chain of two certificates, made by the default provider where it can.
fn certificates(place: &TestFolder, algorithm: &str) {
    let side = if algorithm.starts_with("Falcon") { Side::Gabion } else { Side::Stock };
    let made = |words: &str| place.openssl(side, words);
    std::fs::write(place.path("leaf.ext"), "subjectAltName = DNS:localhost\n").unwrap();
    made(&format!("genpkey -algorithm {algorithm} -out ca.key"));
    made("req -x509 -new -key ca.key -subj /CN=ca -days 2 -out ca.pem");
    made(&format!("genpkey -algorithm {algorithm} -out leaf.key"));
    made("req -new -key leaf.key -subj /CN=localhost -out leaf.csr");
    made(
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -days 2 -extfile leaf.ext -out chain.pem",
    );
}

#[test]
fn either_side_alone_and_both() {
    use Side::{Gabion, Stock};
    for (group, kem, algorithm) in [
        ("X25519MLKEM768", "X25519MLKEM768", "ML-DSA-65"),
        ("SecP384r1MLKEM1024", "SecP384r1MLKEM1024", "ML-DSA-87"),
        ("MLKEM512", "ML-KEM-512", "ML-DSA-44"),
    ] {
        for (server_side, client_side) in [(Gabion, Stock), (Stock, Gabion), (Gabion, Gabion)] {
            let place = TestFolder::new();
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
            let scheme = format!("mldsa{}", &algorithm[7..]);
            let mut expected = Vec::new();
            for (side, name) in [(client_side, "client"), (server_side, "server")] {
                if side == Gabion {
                    expected.push(format!("openssl {name} key_exchange {group} 3"));
                    expected.push(format!("openssl {name} server_sig {scheme} 3"));
                }
            }
            let both = ours(client_side, 3) + ours(server_side, 3);
            expected.push(format!("openssl - handshake TLSv1.3 {both}"));
            expected.sort();
            assert_eq!(tls_events(&place), expected, "{what}");
        }
    }
}

/// The TLS events in the counters: program, side, kind, name and count.
fn tls_events(place: &TestFolder) -> Vec<String> {
    let rows = place.stats().tls.into_iter().map(|row| {
        let side = row.side.as_deref().unwrap_or("-");
        format!("{} {side} {} {} {}", row.program, row.kind, row.name, row.count)
    });
    let mut events: Vec<String> = rows.collect();
    events.sort();
    events
}

/// Two programs with one file; a client with a certificate, a group and a certificate that another
/// provider serves, and operations that do not belong to TLS.
#[test]
fn tls_events_are_counted_by_program() {
    let place = TestFolder::new();
    certificates(&place, "ML-DSA-44");
    std::fs::copy(gabion_provider_testing::prefix().join("bin/openssl"), place.path("client"))
        .unwrap();
    let group = "X25519MLKEM768";
    let server = Server::start(&place, Side::Gabion, group, "-CAfile ca.pem -Verify 1");
    let connect = |port: u16, options: &str| {
        let words = format!("s_client -connect 127.0.0.1:{port} -CAfile ca.pem {options}");
        let openssl = place.command(Side::Gabion, &words);
        let mut command = Command::new(place.path("client"));
        command.args(openssl.get_args()).current_dir(place.path(""));
        for (name, value) in openssl.get_envs() {
            value.map(|value| command.env(name, value));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = command.spawn().unwrap();
        client.stdin.take().unwrap().write_all(b"Q\n").unwrap();
        let output = client.wait_with_output().unwrap();
        let text = gabion_provider_testing::all_text(&output);
        assert!(output.status.success() && text.contains("Verification: OK"), "{text}");
    };
    let certificate = "-cert chain.pem -key leaf.key";
    connect(server.port, certificate);
    // pkeyutl and x509 use the same algorithms outside of TLS.
    place.openssl(Side::Gabion, "genpkey -algorithm ML-KEM-768 -out kem.key");
    place.openssl(Side::Gabion, "pkey -in kem.key -pubout -out kem.pub");
    place.openssl(Side::Gabion, "pkeyutl -encap -inkey kem.pub -pubin -secret s1 -out ct");
    place.openssl(Side::Gabion, "pkeyutl -decap -inkey kem.key -secret s2 -in ct");
    place.openssl(Side::Gabion, "dgst -sign leaf.key -out sig chain.pem");
    place.openssl(Side::Gabion, "verify -CAfile ca.pem chain.pem");
    let mut expected = vec![
        "client - handshake TLSv1.3 1".to_owned(),
        format!("client client key_exchange {group} 1"),
        "client client client_sig mldsa44 1".to_owned(),
        "client client server_sig mldsa44 1".to_owned(),
        "openssl - handshake TLSv1.3 1".to_owned(),
        format!("openssl server key_exchange {group} 1"),
        "openssl server client_sig mldsa44 1".to_owned(),
        "openssl server server_sig mldsa44 1".to_owned(),
    ];
    expected.sort();
    assert_eq!(tls_events(&place), expected);
    drop(server);

    // A handshake with P-256 and ECDSA is completed, and nothing else of it is seen.
    place.openssl(
        Side::Stock,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout leaf.key -subj \
         /CN=localhost -days 2 -out chain.pem",
    );
    std::fs::copy(place.path("chain.pem"), place.path("ca.pem")).unwrap();
    std::fs::remove_file(place.path("stats")).unwrap();
    let server = Server::start(&place, Side::Gabion, "secp256r1", "");
    connect(server.port, "");
    let expected = ["client - handshake TLSv1.3 1", "openssl - handshake TLSv1.3 1"];
    assert_eq!(tls_events(&place), expected);
}

#[test]
fn counters_outlive_a_killed_server() {
    let place = TestFolder::new();
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
        let place = TestFolder::new();
        certificates(&place, algorithm);
        let server = Server::start(&place, Side::Gabion, group, "-async");
        for _ in 0..2 {
            connect(&place, Side::Gabion, &server, group, "-async");
        }
        assert_eq!(place.count(algorithm, "sign"), (2, 0), "{algorithm}");
        assert_eq!(place.count(algorithm, "verify"), (4, 0), "{algorithm}");
    }
}

/// Connections that come one by one pause only to see whether others have come. The server of the first
/// row has two operations that may pause, that of the second one.
#[test]
fn jobs_of_s_server_pause_where_the_switch_is_on() {
    const CONNECTIONS: u64 = 20;
    for (group, kem, pauses) in [
        ("X25519MLKEM768", "X25519MLKEM768", "X25519MLKEM768"),
        ("MLKEM768", "ML-KEM-768", "ML-DSA-44"),
    ] {
        for switch in ["yes", "no"] {
            let place = TestFolder::new();
            certificates(&place, "ML-DSA-44");
            place.configure(&format!("async-jobs = {switch}"));
            let server = Server::start(&place, Side::Gabion, group, "-async");
            for _ in 0..CONNECTIONS {
                connect(&place, Side::Stock, &server, group, "");
            }
            assert_eq!(place.count(kem, "encaps"), (CONNECTIONS, 0), "{group} {switch}");
            assert_eq!(place.count("ML-DSA-44", "sign"), (CONNECTIONS, 0), "{group} {switch}");
            let (paused, _) = place.count(pauses, "paused");
            assert_eq!(paused > 0, switch == "yes", "{group} {switch}: {paused} of {pauses}");
        }
    }
}

/// The signature schemes of the ClientHello that a side sends, in its order.
fn offered(place: &TestFolder, side: Side, variable: Option<&str>) -> Vec<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = place.command(side, &format!("s_client -connect 127.0.0.1:{port}"));
    command.env_remove("GABION_TLS_DRAFT_SIGNATURES");
    variable.map(|value| command.env("GABION_TLS_DRAFT_SIGNATURES", value));
    let mut client =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let mut head = [0; 5];
    connection.read_exact(&mut head).unwrap();
    assert_eq!(head[..2], [22, 3], "a handshake record");
    let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    connection.read_exact(&mut hello).unwrap();
    drop(connection);
    client.wait().unwrap();
    // RFC 8446, section 4.1.2: version and random behind the head, then lists with their lengths.
    let number = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    let mut at = 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 2 + number(at);
    at += 1 + usize::from(hello[at]) + 2;
    while number(at) != 13 {
        at += 4 + number(at + 2);
    }
    let schemes = &hello[at + 6..][..number(at + 4)];
    schemes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
}

#[test]
fn schemes_without_a_settled_codepoint_are_offered_only_on_request() {
    let place = TestFolder::new();
    let stock = offered(&place, Side::Stock, None);
    assert!(stock.contains(&0x0905) && stock.contains(&0x0804), "{stock:x?}");
    assert_eq!(offered(&place, Side::Gabion, None), stock, "the default is the default provider's");
    let drafts: Vec<u16> = (0x0911..=0x091c).chain([0xfed7, 0xfeda, 0xfedc, 0xfedf]).collect();
    let longer = [&stock[..], &drafts].concat();
    assert_eq!(offered(&place, Side::Gabion, Some("1")), longer);
    assert_eq!(offered(&place, Side::Gabion, Some("no")), stock);
    place.configure("tls-draft-signatures = yes");
    assert_eq!(offered(&place, Side::Gabion, None), longer);
    assert_eq!(offered(&place, Side::Gabion, Some("off")), stock, "the environment comes first");
}

#[test]
fn leaves_without_a_settled_codepoint_serve_behind_the_switch() {
    for (algorithm, scheme) in [
        ("SLH-DSA-SHA2-128f", "slhdsa_sha2_128f"),
        ("SLH-DSA-SHAKE-256f", "slhdsa_shake_256f"),
        ("Falcon-512", "falcon512"),
        ("Falcon-1024", "falcon1024"),
        ("Falcon-padded-512", "falconpadded512"),
        ("Falcon-padded-1024", "falconpadded1024"),
    ] {
        let place = TestFolder::new();
        certificates(&place, algorithm);
        let refused = || {
            let server = place.command(
                Side::Gabion,
                "s_server -accept 127.0.0.1:0 -cert chain.pem -key leaf.key -naccept 1",
            );
            gabion_provider_testing::all_text(&{ server }.stdin(Stdio::null()).output().unwrap())
        };
        let text = refused();
        assert!(text.contains("unknown certificate type"), "{text}");
        place.configure("tls-draft-signatures = yes");
        let server = Server::start(&place, Side::Gabion, "X25519MLKEM768", "");
        for _ in 0..2 {
            let text = connect(&place, Side::Gabion, &server, "X25519MLKEM768", "");
            let named = [scheme, algorithm].map(|name| format!("Peer signature type: {name}\n"));
            assert!(named.iter().any(|line| text.contains(line)), "{scheme}: {text}");
        }
        // The maker of the chain has signed with it as well.
        let made = if algorithm.starts_with("Falcon") { 3 } else { 0 };
        assert_eq!(place.count(algorithm, "sign"), (2 + made, 0), "{algorithm}");
        assert!(place.count(algorithm, "verify").0 >= 4, "{algorithm}");
        assert_eq!(place.count(algorithm, "verify").1, 0, "{algorithm}");
    }
}
