//! How a server ends.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gabion_kms_client::{Client, Error};
use gabion_kms_server::{Listen, Options, Server, ServiceHost};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{CreateKey, Sign};

use super::raw::Local;

/// Signs again and again until the server is gone, and says how often that went well.
fn signs_until_the_end(client: &Client) -> usize {
    let sign = Sign { message: Some(encode(b"m")), ..Sign::by("slow") };
    for count in 0.. {
        match client.sign(&sign) {
            Ok(signed) => assert!(!signed.signature.is_empty()),
            // Before a request was sent, or instead of an answer to one that no server had read.
            Err(Error::Unreachable { .. }) => return count,
            Err(error) => panic!("after {count}: {error}"),
        }
    }
    0
}

#[test]
fn requests_that_are_there_are_answered_before_the_end() {
    let local = Local::start();
    let client = Arc::new(local.client());
    let algorithm = "slh-dsa-sha2-128s".to_owned();
    client.create(&CreateKey { name: "slow".into(), algorithm, ..CreateKey::default() }).unwrap();
    let signers: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || {
                let sign = Sign { message: Some(encode(b"m")), ..Sign::by("slow") };
                client.sign(&sign)
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(30));
    let start = Instant::now();
    local.server.stop();
    assert!(start.elapsed() < Duration::from_secs(10));
    for signer in signers {
        // Each had been taken, or was never taken.
        match signer.join().unwrap() {
            Ok(signed) => assert!(!signed.signature.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(signs_until_the_end(&client), 0);
}

#[test]
fn a_server_without_a_certificate_or_an_address_does_not_start() {
    let host = || Arc::new(ServiceHost::in_memory().unwrap().0);
    let open = vec![Listen::Tls(([127, 0, 0, 1], 0).into())];
    for listen in [Vec::new(), open] {
        let started = Server::start(host(), &Options { listen, ..Options::default() });
        assert!(started.is_err());
    }
    let everywhere = gabion_kms_server::dev::Dev::start(([0, 0, 0, 0], 0).into());
    assert!(everywhere.is_err());
}
