//! The server as its clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // A panic is how a test fails.

mod answers;
mod attacks;
mod backups;
mod batch;
mod coalesce;
mod hashes;
mod headers;
mod hostile_bodies;
mod idempotency;
mod imports;
mod jwks;
mod jwt;
mod key_transfer;
mod keys;
mod load;
mod marshaling;
mod mu;
mod permissions;
mod policies;
mod raw;
mod refusals;
mod rotations;
mod rsa;
mod seal;
mod secrets;
mod serve;
mod shutdown;
mod streams;
mod system;
mod tls;
mod transit;
mod transit_pages;

use std::net::SocketAddr;
use std::time::Duration;

use gabion_kms_client::{Client, Error, Settings};
use gabion_kms_server::dev::Dev;
use gabion_kms_wire::native::{CreateKey, Key, Problem};

/// Starts a separate server for a test.
fn server() -> Dev {
    Dev::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

fn settings(server: &Dev) -> Settings {
    Settings {
        addresses: vec![server.address().parse().unwrap()],
        token: Some(server.token().to_owned().into()),
        authorities: Some(server.authorities().to_owned()),
        certificate: None,
        timeout: Duration::from_secs(30),
    }
}

fn client(server: &Dev) -> Client {
    Client::new(&settings(server)).unwrap()
}

fn create(client: &Client, name: &str, algorithm: &str) -> Key {
    let key = CreateKey { name: name.into(), algorithm: algorithm.into(), ..CreateKey::default() };
    client.create(&key).unwrap()
}

/// Returns the error of a call.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Problem {
    match result {
        Err(Error::Refused(problem)) => *problem,
        other => panic!("no refusal: {other:?}"),
    }
}
