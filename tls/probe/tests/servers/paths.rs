//! Middleboxes that drop hellos: which feature does the report name?

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gabion_probe::probe::Options;

use crate::server::{CLASSICAL, Server, hybrid, serve_tls};

/// Returns whether a box passes a hello on.
type Filter = fn(&[u8]) -> bool;

/// A box before a server. If it does not like a hello, it says nothing or hangs up.
fn middlebox(server: SocketAddr, is_mute: bool, likes: Filter) -> Server {
    Server::start(move |mut client| {
        let mut hello = vec![0; 5];
        if client.read_exact(&mut hello).is_err() {
            return;
        }
        hello.resize(5 + usize::from(u16::from_be_bytes([hello[3], hello[4]])), 0);
        client.read_exact(&mut hello[5..]).unwrap();
        if !likes(&hello) {
            if is_mute {
                let _ = client.read(&mut [0]);
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
    })
}

fn has(hello: &[u8], bytes: &[u8]) -> bool {
    hello.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn the_dropped_feature_is_named() {
    let server = Server::tls(hybrid(&CLASSICAL));
    // As many bytes as chance does not make: two neighbours of a list, or an extension.
    let boxes: [(Filter, &str, usize, bool); 4] = [
        (|hello| !has(hello, &[9, 5, 9, 6]), "signature_algorithms", 3, true),
        // As a server, rustls prefers the group of a key share that it gets, here a curve's.
        (|hello| hello.len() < 1000, "key_share", 4, false),
        (
            |hello| hello.len() < 1000 && !has(hello, &[0, 0x1d, 0x11, 0xec]),
            "supported_groups",
            5,
            false,
        ),
        (|hello| !has(hello, &[0, 43, 0, 5, 4, 3, 4]), "supported_versions", 7, false),
    ];
    for (likes, feature, attempts, post_quantum) in boxes {
        let path = middlebox(server.address, attempts == 3, likes);
        let options = Options { limit: Duration::from_secs(2), ..Options::default() };
        let report = path.probe_with(None, options);
        assert!(!report.ok && report.post_quantum == post_quantum, "{feature}: {report:?}");
        assert!(report.not_survived.as_ref().unwrap().contains(feature), "{feature}: {report:?}");
        assert_eq!(report.attempts.len(), attempts, "{feature}: {report:?}");
        assert!(report.problems[0].starts_with("the network path or the server drops "));
        let why = &report.key_exchange.as_ref().unwrap().why;
        assert_eq!(!why.contains("drops"), post_quantum, "{feature}: {why}");
    }
}

#[test]
fn a_path_without_a_box_drops_nothing() {
    let server = Server::tls(hybrid(&CLASSICAL));
    let report = middlebox(server.address, false, |_| true).probe(None);
    assert!(report.ok && report.not_survived.is_none(), "{report:?}");
}

#[test]
fn one_lost_connection_is_not_the_path() {
    let config = Arc::new(hybrid(&CLASSICAL));
    let is_first = AtomicBool::new(true);
    let server = Server::start(move |stream| {
        if !is_first.swap(false, Ordering::SeqCst) {
            serve_tls(&config, stream);
        }
    });
    let report = server.probe(None);
    assert!(report.ok && report.not_survived.is_none(), "{report:?}");
    assert_eq!(report.attempts.len(), 3, "{report:?}");
    assert_eq!(report.resumption, Some(true));
}
