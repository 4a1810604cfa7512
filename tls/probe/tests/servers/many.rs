//! A thousand targets: bounded threads, one connection at a time for each server.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gabion_probe::pool;
use gabion_probe::probe::{Options, Prober};
use gabion_probe::target::{Opening, Target};

use crate::server::{CLASSICAL, Server, hybrid, serve_tls};

const PARALLEL: usize = 8;

#[test]
fn a_thousand_targets_on_a_few_threads() {
    let config = Arc::new(hybrid(&CLASSICAL));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counter, peak) = (now, most.clone());
    // One listener for all addresses of loopback, each of which is a target.
    let server = Server::listen("0.0.0.0:0", move |stream| {
        peak.fetch_max(counter.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        serve_tls(&config, stream);
        counter.fetch_sub(1, Ordering::SeqCst);
    });
    let port = server.address.port();
    let list: String =
        (0..1000).map(|n| format!("127.0.{}.{}:{port}\n", n / 250, 1 + n % 250)).collect();
    let targets = Target::parse_list(&list, Opening::default()).unwrap();
    let prober = Prober::new(Options { limit: Duration::from_secs(60), ..Options::default() });
    let mut seen = HashSet::new();
    let result: Result<(), ()> = pool::run(&prober, &targets, PARALLEL, |report| {
        assert!(report.ok, "{report:?}");
        seen.insert(report.target);
        Ok(())
    });
    assert!(result.is_ok() && seen.len() == 1000);
    assert_eq!(server.accepted(), 3000);
    // A server notices the end of a connection a little later than the client.
    let most = most.load(Ordering::SeqCst);
    assert!(most <= 3 * PARALLEL, "{most} connections at once");
}

#[test]
fn a_server_has_one_connection_at_a_time() {
    let config = Arc::new(hybrid(&CLASSICAL));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counter, peak) = (now, most.clone());
    let server = Server::start(move |stream| {
        // Counted until the client's first message only, since the client may connect again before
        // the server has noticed the end.
        peak.fetch_max(counter.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let _ = stream.peek(&mut [0]);
        std::thread::sleep(Duration::from_millis(10));
        counter.fetch_sub(1, Ordering::SeqCst);
        serve_tls(&config, stream);
    });
    let target = format!("127.0.0.1:{}\n", server.address.port());
    let targets = Target::parse_list(&target.repeat(20), Opening::default()).unwrap();
    let prober = Prober::new(Options { limit: Duration::from_secs(60), ..Options::default() });
    let mut count = 0;
    let result: Result<(), ()> = pool::run(&prober, &targets, PARALLEL, |report| {
        assert!(report.ok, "{report:?}");
        count += 1;
        Ok(())
    });
    assert_eq!((result, count, most.load(Ordering::SeqCst)), (Ok(()), 20, 1));
}

#[test]
fn a_slow_address_does_not_hold_up_the_others() {
    let config = Arc::new(hybrid(&CLASSICAL));
    let slow = Server::start(|stream| {
        std::thread::sleep(Duration::from_secs(5));
        drop(stream);
    });
    let fast = Server::tls_on("0.0.0.0:0", config);
    let mut list = format!("{}\n", slow.address).repeat(2);
    let port = fast.address.port();
    (1..=20).for_each(|n| list.push_str(&format!("127.0.0.{n}:{port}\n")));
    let targets = Target::parse_list(&list, Opening::default()).unwrap();
    let prober = Prober::new(Options { limit: Duration::from_millis(300), ..Options::default() });
    let mut reports = Vec::new();
    let result: Result<(), ()> = pool::run(&prober, &targets, 2, |report| {
        reports.push(report.ok);
        Ok(())
    });
    // One thread waits for the slow address, and the other one probes all the others.
    assert!(result.is_ok() && reports.len() == 22);
    assert_eq!(reports.iter().position(|is_ok| !is_ok), Some(20), "{reports:?}");
}

#[test]
fn a_receiver_that_fails_ends_the_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let targets =
        Target::parse_list(&format!("{closed}\n").repeat(500), Opening::default()).unwrap();
    let mut count = 0;
    let result = pool::run(&Prober::default(), &targets, PARALLEL, |_| {
        count += 1;
        Err("full")
    });
    assert_eq!((result, count), (Err("full"), 1));
}
