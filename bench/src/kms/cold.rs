//! A server that is started over a store with many keys, and its first uses of keys that nothing is kept of.

use std::time::{Duration, Instant};

use gabion_kms_wire::encode;
use gabion_kms_wire::native::Sign;
use gabion_rows::kms::{Latency, Request};

use super::machine_load::{Counts, Watch};
use super::server::{ServerProcess, pin_to_core};
use super::{Case, Config, MESSAGE, Row, fill};
use crate::machine::Machine;
use crate::{Error, inputs};

/// Most keys that are used for the first time in a turn.
const USED_MAX: usize = 1 << 12;

/// Measures the rows of one store: starts, and first uses.
///
/// Each turn starts a server, asks it for one signature, and then for one by each of some keys, all of which are other ones than
/// those before in the same turn. A start has the passphrase's work in it, which is the same for every store.
pub fn measure(
    cases: &[Case],
    keys: usize,
    config: &Config,
    machine: &Machine,
) -> Result<Vec<Row>, Error> {
    let mut server = ServerProcess::start(true, keys, &config.coalesce)?;
    let _pinned = pin_to_core(1, true);
    let time = Duration::from_secs_f64(config.seconds / config.rounds as f64);
    let (mut starts, mut uses) = (Vec::new(), Vec::new());
    let (mut starting, mut using) = (Watch::default(), Watch::default());
    let (mut cpu_ns, mut took, mut resident_kib) = (0, Duration::ZERO, None);
    for round in 0..config.rounds {
        let order = order(keys, round);
        server.end();
        // All that the server has done by the end of it is of this turn.
        let (counts, begun) = (Counts::now(None)?, Instant::now());
        server.restart()?;
        sign(&server, order[0])?;
        starts.push(begun.elapsed().as_nanos() as u64);
        starting.record_turn(counts, Some(&server))?;
        let before = server.cpu_ns()?;
        let begun = Instant::now();
        using.turn(Some(&server), || {
            let client = server.client()?;
            for place in &order[1..] {
                if begun.elapsed() >= time {
                    break;
                }
                let asked = sign_request(*place);
                let start = Instant::now();
                client.sign(&asked).map_err(failed)?;
                uses.push(start.elapsed().as_nanos() as u64);
            }
            Ok(())
        })?;
        took += begun.elapsed();
        cpu_ns += server.cpu_ns()?.saturating_sub(before);
        resident_kib = server.resident_kib();
    }
    let row = |case: &Case| {
        let is_start = case.request == Request::Start;
        let (ns, watch) = match is_start {
            true => (&starts, &starting),
            false => (&uses, &using),
        };
        let requests = ns.len();
        let per = |ns: u64| ns as f64 / 1e3 / requests.max(1) as f64;
        let seconds = match is_start {
            true => starts.iter().sum::<u64>() as f64 / 1e9,
            false => took.as_secs_f64(),
        };
        Row {
            us: Latency::of(ns.clone()),
            server_us_per_op: (!is_start).then(|| per(cpu_ns)),
            ops_per_s: requests as f64 / seconds,
            keys: Some(keys),
            resident_kib,
            requests,
            rounds: config.rounds,
            around: watch.load(),
            ..case.row(machine)
        }
    };
    Ok(cases.iter().map(row).collect())
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

/// Returns a request for a signature by the key at `place`.
fn sign_request(place: usize) -> Sign {
    Sign { message: Some(encode(&[7; MESSAGE])), ..Sign::by(&fill::name(place)) }
}

fn sign(server: &ServerProcess, place: usize) -> Result<(), Error> {
    server.client()?.sign(&sign_request(place)).map(drop).map_err(failed)
}

/// Keys in an order that jumps about, none twice: those of a turn, at most so many.
fn order(keys: usize, round: usize) -> Vec<usize> {
    // A step that has no divisor in common with the number goes through all.
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let random = u64::from_le_bytes(inputs::bytes(19, round as u64)) as usize % keys.max(1);
    let step = (keys * 618 / 1000..).find(|step| gcd(*step, keys) == 1).unwrap_or(1);
    (0..keys.min(USED_MAX)).map(|place| (random + place * step) % keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_used_once_a_turn_and_not_one_after_the_other() {
        for keys in [1, 2, 3, 10, 64, 1000, 1 << 12] {
            let mut all = order(keys, 3);
            if keys >= 64 {
                let near = all.windows(2).filter(|two| two[0].abs_diff(two[1]) < 3).count();
                assert_eq!(near, 0, "{keys}");
            }
            all.sort_unstable();
            assert_eq!(all, (0..keys).collect::<Vec<_>>());
        }
        let many = order(1_000_000, 0);
        assert_eq!(many.len(), USED_MAX);
        assert!(many.iter().all(|place| *place < 1_000_000));
        assert_ne!(many[0], order(1_000_000, 1)[0]);
    }
}
