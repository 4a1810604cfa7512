//! The example programs, each against another one; their output shows the negotiated parameters.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn example(name: &str) -> Command {
    Command::new(match name {
        "axum" => env!("CARGO_BIN_EXE_axum"),
        "hyper" => env!("CARGO_BIN_EXE_hyper"),
        "quinn" => env!("CARGO_BIN_EXE_quinn"),
        "reqwest" => env!("CARGO_BIN_EXE_reqwest"),
        "tonic" => env!("CARGO_BIN_EXE_tonic"),
        _ => panic!("no example {name}"),
    })
}

/// A server that runs until it is dropped, and where it is.
struct Server {
    child: Child,
    port: String,
    roots: String,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(name: &str, scheme: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut program = example(name);
    let child = program.env("TMPDIR", folder.path()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut value = |before: &str| {
        let line = lines.next().unwrap().unwrap();
        line.strip_prefix(before).unwrap_or_else(|| panic!("{name} said {line}")).to_owned()
    };
    let port = value(&format!("{scheme}://localhost:"));
    let roots = value("roots: ");
    Server { child, port, roots, _folder: folder }
}

/// Returns the output of a client.
fn ask(name: &str, server: &Server) -> String {
    let ended = example(name).args([&server.port, &server.roots]).output().unwrap();
    assert!(ended.status.success(), "{name}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn axum_serves_hyper_and_reqwest() {
    let server = serve("axum", "https");
    // Its own word, and then that of the server.
    assert_eq!(ask("hyper", &server), "X25519MLKEM768\n200 OK\nhello over X25519MLKEM768\n");
    assert_eq!(ask("reqwest", &server), "200 OK\nhello over X25519MLKEM768\n");
    // A root that did not sign for it.
    let other = serve("axum", "https");
    let stranger = [&server.port, &other.roots];
    for client in ["hyper", "reqwest"] {
        assert!(!example(client).args(stranger).output().unwrap().status.success(), "{client}");
    }
}

#[test]
fn tonic_serves_tonic() {
    assert_eq!(ask("tonic", &serve("tonic", "https")), "hello, gRPC\n");
}

#[test]
fn quinn_serves_quinn() {
    assert_eq!(ask("quinn", &serve("quinn", "quic")), "hello, QUIC\n");
}
