//! `gabion probe` against TLS servers in this process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_rustls::testing::{Key, chain};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{ServerConfig, ServerConnection};
use serde_json::Value;

use crate::harness::Work;

/// A TLS server, which ends with the process that runs the tests.
struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    fn start(groups: &[&'static dyn SupportedKxGroup]) -> Server {
        let chain = chain(Key::Engine(gabion_engine::Algorithm::EcdsaP256), 0);
        let provider = CryptoProvider { kx_groups: groups.to_vec(), ..gabion_rustls::provider() };
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.certificates.clone(), chain.file.clone_key())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, accepted) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = accepted.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let (config, stream) = (config.clone(), stream.unwrap());
                std::thread::spawn(move || serve(config, stream));
            }
        });
        Server { address, accepted }
    }

    fn hybrid() -> Server {
        Server::start(gabion_rustls::groups::DEFAULT)
    }

    fn classical() -> Server {
        Server::start(&[gabion_rustls::groups::X25519])
    }

    fn target(&self) -> String {
        self.address.to_string()
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

fn serve(config: Arc<ServerConfig>, mut stream: TcpStream) {
    let mut connection = ServerConnection::new(config).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    while let Ok(1..) = tls.read(&mut [0; 1024]) {}
    tls.conn.send_close_notify();
    let _ = tls.flush();
}

fn closed_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn the_exit_code_is_the_verdict() {
    let (work, hybrid, classical) = (Work::new(), Server::hybrid(), Server::classical());
    let text = work.gabion(&["probe", &hybrid.target()]).ok().text();
    assert!(text.starts_with("verdict        post-quantum\n"), "{text}");
    assert!(text.contains("\nkey exchange   X25519MLKEM768, post-quantum\n"), "{text}");
    assert!(text.contains("\nauthentication ECDSA P-256, not post-quantum\n"), "{text}");
    let result = work.gabion(&["probe", &classical.target()]).fails(1);
    let result = result.says("error: the key exchange, x25519, is not post-quantum");
    assert!(result.text().starts_with("verdict        classical\n"), "{result:?}");
    assert!(result.text().contains("\n  why          the server's list decides"), "{result:?}");
    work.gabion(&["probe", &closed_port()]).fails(1).says("error: no answer at 127.0.0.1:");
    work.write("empty", "# no target\n");
    work.write("wrong", "a.example\nb.example smtp\n");
    for (words, message) in [
        (&["probe"][..], "required"),
        (&["probe", "a:b:c"], "invalid address `a:b:c`"),
        (&["probe", "a", "--starttls", "gopher"], "gopher"),
        (&["probe", "a", "--starttls", "smtp", "--ssh"], "cannot be used with"),
        (&["probe", "a", "--json", "--metrics"], "cannot be used with"),
        (&["probe", "a", "--ssh", "--matrix"], "cannot be used with"),
        (&["probe", "a", "--ca", "empty"], "--ca empty: it has no certificate"),
        (&["probe", "--file", "missing"], "missing"),
        (&["probe", "--file", "empty"], "empty: it has no target"),
        (&["probe", "--file", "wrong"], "wrong: line 2: invalid word `smtp`"),
        (&["probe", "a", "--results", "wrong"], "--results wrong: line 1 is not a report"),
        (&["probe", "a", "--parallel", "0"], "0"),
    ] {
        work.gabion(words).fails(2).says(message);
    }
}

#[test]
fn json_has_the_fields_of_the_reference() {
    let (work, server) = (Work::new(), Server::hybrid());
    let report = work.gabion(&["probe", "--json", &server.target()]).ok().json();
    let mut names: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let page = include_str!("../../../../docs/reference/cli.md");
    let section = page.split("## Probing a server").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    for name in &names {
        assert!(section.contains(&format!("`{name}`")), "{name} is not documented");
    }
    for (name, expected) in [
        ("target", Value::from(server.target())),
        ("protocol", "tls".into()),
        ("ok", true.into()),
        ("post_quantum", true.into()),
        ("version", "TLSv1.3".into()),
        ("group", "X25519MLKEM768".into()),
        ("signature", "ecdsa_secp256r1_sha256".into()),
        ("hello_retry_request", false.into()),
        ("verified", Value::Null),
        ("resumption", true.into()),
        ("not_survived", Value::Null),
        ("program", Value::Null),
        ("problems", Value::Array(Vec::new())),
    ] {
        assert_eq!(report[name], expected, "{name}: {report}");
    }
    assert_eq!(report["key_exchange"]["post_quantum"], true);
    assert_eq!(report["authentication"]["post_quantum"], false);
    assert_eq!(report["chain"][0]["key"], "ECDSA P-256");
    assert_eq!(report["classical"]["group"], "x25519");
    // The alias has the same report.
    let words = ["preflight", "--json", "--probe", &server.target(), "--timeout", "5"];
    let alias = work.gabion(&words).ok().json();
    assert_eq!(alias["group"], report["group"]);
}

#[test]
fn a_list_has_a_line_for_each_server_and_a_summary() {
    let (work, hybrid, classical) = (Work::new(), Server::hybrid(), Server::classical());
    let closed = closed_port();
    let list = format!(
        "# servers\n{}  # ours\n\n{}\n{closed} starttls=smtp\n",
        hybrid.target(),
        classical.target()
    );
    work.write("list", &list);
    for result in [
        work.gabion(&["probe", "--file", "list"]),
        work.gabion_fed(&["probe", "--file", "-", "--parallel", "1"], list.as_bytes()),
    ] {
        assert_eq!(result.code, Some(1), "{result:?}");
        let text = result.text();
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(line("post-quantum ").contains(&hybrid.target()), "{text}");
        assert!(line("classical ").contains("x25519"), "{text}");
        assert!(line("failed ").contains(&closed), "{text}");
        assert_eq!(line("3 targets: "), "3 targets: 1 post-quantum, 1 classical, 1 failed");
    }
    // A target that is in the list, too.
    let words = ["probe", "--file", "list", "--metrics", &hybrid.target()];
    let metrics = work.gabion(&words).text();
    let samples: Vec<&str> = metrics.lines().filter_map(|line| line.split("} ").next()).collect();
    let unique: std::collections::HashSet<_> = samples.iter().collect();
    assert_eq!(unique.len(), samples.len(), "{metrics}");
    for (target, value) in [(hybrid.target(), 1), (classical.target(), 0)] {
        let line =
            format!("gabion_probe_post_quantum{{target=\"{target}\",protocol=\"tls\"}} {value}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert!(metrics.contains("gabion_probe_success{") && metrics.contains("protocol=\"smtp\"} 0"));
    assert!(metrics.contains("group=\"X25519MLKEM768\""), "{metrics}");
}

#[test]
fn results_without_verification_do_not_pass_for_verified() {
    let (work, server) = (Work::new(), Server::hybrid());
    let target = server.target();
    let words = ["probe", "--json", "--results", "results", &target];
    work.gabion(&words).ok();
    let root = chain(Key::Engine(gabion_engine::Algorithm::MlDsa44), 0).root;
    let pem = pkcs8::der::pem::encode_string("CERTIFICATE", pkcs8::LineEnding::LF, &root);
    work.write("roots.pem", pem.unwrap());
    for _ in 0..2 {
        let report = work.gabion(&[&words[..], &["--ca", "roots.pem"]].concat()).fails(1).json();
        assert_eq!(report["verified"], false, "{report}");
    }
    // The second run probed the server again, and the third one did not.
    assert_eq!(work.read("results").iter().filter(|byte| **byte == b'\n').count(), 2);
}

#[test]
fn an_interrupted_run_is_resumed() {
    let (work, first, second) = (Work::new(), Server::hybrid(), Server::hybrid());
    let words = |targets: &[&Server]| {
        let mut words = vec!["probe".to_owned(), "--json".to_owned()];
        words.extend(["--results".to_owned(), "results".to_owned()]);
        words.extend(targets.iter().map(|server| server.target()));
        words
    };
    work.gabion(&words(&[&first])).ok();
    let accepted = first.accepted();
    // The process died in the middle of a line.
    let mut results = String::from_utf8(work.read("results")).unwrap();
    results.push_str("{\"target\":\"");
    work.write("results", &results);
    let text = work.gabion(&words(&[&first, &second])).ok().text();
    let targets: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["target"].as_str().unwrap().into())
        .collect();
    assert_eq!(targets, [first.target(), second.target()]);
    assert_eq!(first.accepted(), accepted, "the first server was probed again");
    assert_eq!(work.read("results").iter().filter(|byte| **byte == b'\n').count(), 2);
}

#[test]
fn a_cbom_holds_the_protocol_and_the_chain() {
    let (work, hybrid, down) = (Work::new(), Server::hybrid(), closed_port());
    let target = hybrid.target();
    let probed = work.gabion(&["probe", &target, &down, "--cbom", "c.json"]);
    assert_eq!(probed.code, Some(1));
    let document: Value = serde_json::from_slice(&work.read("c.json")).unwrap();
    let components = document["components"].as_array().unwrap();
    let names: Vec<&str> = components.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let protocol = format!("TLS 1.3 of {target}");
    let expected =
        ["ECDSA P-256", "X25519MLKEM768", "ECDSA P-256 public key", "CN=localhost", &protocol];
    for name in expected {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    assert!(!document.to_string().contains(&down));
    let at = |one: &&Value| one["evidence"]["occurrences"][0]["location"] == *target;
    assert_eq!(components.iter().filter(at).count(), 2);
    work.gabion(&["cbom", "diff", "c.json", "c.json"]).ok();
}
