//! The verbs within this process, without a socket and with nothing told of them.

use std::time::{Duration, Instant};

use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey, Options, SignOutput, SignRequest, VerifyRequest};
use gabion_kms::seal::Sealer;
use gabion_kms::store::{MemoryStore, Store};
use gabion_kms::{Message, Signable};
use gabion_rows::kms::{Latency, Request};

use super::machine_load::Watch;
use super::server::pin_to_core;
use super::{Case, Config, MESSAGE, Row};
use crate::Error;
use crate::machine::Machine;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

/// Keys that are used in turn.
const KEYS: usize = 256;

/// Measures a case by calls within this process.
pub fn measure(case: &Case, config: &Config, machine: &Machine) -> Result<Row, Error> {
    let _pinned = pin_to_core(1, true);
    let is_cold = case.request == Request::Cold;
    let kms = service(if is_cold { 0 } else { Options::default().cache_bytes_max })?;
    let keys = if is_cold || case.request == Request::Fresh { KEYS } else { 1 };
    let message = Message::Pure { context: b"", message: &[7; MESSAGE] };
    let mut signed = Vec::new();
    for place in 0..keys {
        let label = |text: &str| Label::new("key", text).map_err(failed);
        let new = NewKey {
            tenant: label("default")?,
            purpose: label("transit")?,
            name: label(&format!("k{place}"))?,
            algorithm: case.algorithm.parse().map_err(failed)?,
        };
        let id = kms.create(&new).map_err(failed)?;
        signed.push(kms.sign(&id.key, None, message).map_err(failed)?);
    }
    let mut next = (0..keys).cycle();
    let mut once = || -> Result<(), Error> {
        let all: Vec<_> = next.by_ref().take(case.batch).map(|place| &signed[place]).collect();
        run(&kms, case.request, &all, message)
    };
    let (mut ns, mut took, mut watch) = (Vec::new(), Duration::ZERO, Watch::default());
    for _ in 0..keys.div_ceil(case.batch) {
        once()?;
    }
    for round in 1..=config.rounds {
        let until = Duration::from_secs_f64(config.seconds * round as f64 / config.rounds as f64);
        watch.turn(None, || {
            while took < until {
                let start = Instant::now();
                once()?;
                let one = start.elapsed();
                ns.push(one.as_nanos() as u64);
                took += one;
            }
            Ok(())
        })?;
    }
    let requests = ns.len();
    Ok(Row {
        us: Latency::of(ns),
        ops_per_s: (requests * case.batch) as f64 / took.as_secs_f64(),
        requests,
        rounds: config.rounds,
        around: watch.load(),
        ..case.row(machine)
    })
}

/// Sends one request for these signatures: alone if there is one, else as a batch.
fn run(
    kms: &Kms,
    request: Request,
    all: &[&SignOutput],
    message: Message<'_>,
) -> Result<(), Error> {
    let signable = Signable::from(message);
    match (request, all) {
        (Request::Sign, [one]) => kms.sign(&one.by.key, None, signable).map(drop),
        (Request::Sign, many) => {
            let items =
                many.iter().map(|one| SignRequest { key: &one.by.key, version: None, signable });
            let answers = kms.sign_batch(&items.collect::<Vec<_>>());
            answers.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
        }
        (_, [one]) => kms.verify(&one.by, signable, &one.signature).map(drop),
        (_, many) => {
            let items = many.iter().map(|one| {
                let SignOutput { by, signature } = one;
                VerifyRequest { by, signable, signature }
            });
            let answers = kms.verify_batch(&items.collect::<Vec<_>>());
            answers.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
        }
    }
    .map_err(failed)
}

fn service(cache_bytes_max: usize) -> Result<Kms, Error> {
    let store = std::sync::Arc::new(MemoryStore::new());
    let sealer = Sealer::volatile(store.identity().id).map_err(failed)?;
    Kms::new(store, sealer, Options { cache_bytes_max, ..Options::default() }).map_err(failed)
}
