//! Many handshakes: threads that share a configuration, and memory that stays as it is.

use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_rustls::testing::{Key, chain};

use super::pair::{client, engine_provider, server, shake};

#[test]
fn threads_share_a_configuration() {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    let chain = chain(Key::Engine(Algorithm::MlDsa65), 1);
    let (client, server) =
        (Arc::new(client(&provider, &chain)), Arc::new(server(&provider, &chain)));
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                for _ in 0..8 {
                    shake(&client, &server).unwrap();
                }
            });
        }
    });
}

/// Makes GABION_SOAK handshakes, or a few hundred: the memory of the process does not grow by a
/// byte per handshake. Runs in a separate process, since other tests of this program run in
/// parallel.
#[test]
#[cfg(target_os = "linux")]
fn memory_stays_flat() {
    const CHILD: &str = "GABION_TEST_FLAT";
    if std::env::var_os(CHILD).is_some() {
        return shake_and_measure();
    }
    let name = "repetition::memory_stays_flat";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = child.args(["--exact", name, "--test-threads", "1"]).env(CHILD, "1").output();
    let ended = ended.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

#[cfg(target_os = "linux")]
fn shake_and_measure() {
    let count: usize = std::env::var("GABION_SOAK").map_or(300, |count| count.parse().unwrap());
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    let chain = chain(Key::Engine(Algorithm::MlDsa65), 1);
    // Full handshakes, and no store of sessions that fills up.
    let mut client = client(&provider, &chain);
    client.resumption = rustls::client::Resumption::disabled();
    let (client, mut server) = (Arc::new(client), server(&provider, &chain));
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let server = Arc::new(server);
    let run = |count: usize| (0..count).for_each(|_| drop(shake(&client, &server).unwrap()));
    run(100);
    let before = resident();
    run(count);
    let grown = resident().saturating_sub(before);
    // A key share that is lost is 13 KiB a handshake, and a certificate 5.
    assert!(grown < (512 << 10) + count, "{grown} bytes more after {count} handshakes");
}

/// Bytes that the process holds in memory.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}
