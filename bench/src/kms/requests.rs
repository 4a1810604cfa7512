//! Requests of clients that wait for each answer, and of those that come when they are due.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gabion_kms_client::Client;
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{ConfigureKey, CreateKey, Sign, Verify};
use gabion_rows::kms::{Durability, Request};
use rustix::thread::set_current_timer_slack;
use serde_json::{Value, json};

use super::server::ServerProcess;
use super::{Case, MESSAGE};
use crate::{Error, inputs};

/// A request that is ready to send.
pub struct PreparedRequest {
    client: Client,
    clients: usize,
    what: Payload,
}

/// The body of a request.
enum Payload {
    HealthCheck,
    Sign(Sign),
    Verify(Verify),
    /// Signatures in one request, by Vault's path, which has batches.
    SignMany(String, Value),
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

impl PreparedRequest {
    /// Prepares the request of a case, and creates its key if it is missing.
    pub fn new(case: &Case, served: &ServerProcess) -> Result<Self, Error> {
        let client = served.client()?;
        let class = case.class.map_or("default", Durability::word);
        let name = &format!("{}-{class}", case.algorithm);
        let message = encode(&[7; MESSAGE]);
        if case.request != Request::HealthCheck && client.show(name).is_err() {
            let algorithm = case.algorithm.to_owned();
            let key = CreateKey { name: name.to_owned(), algorithm, ..CreateKey::default() };
            client.create(&key).map_err(failed)?;
            let class = ConfigureKey { class: Some(class.to_owned()), ..ConfigureKey::default() };
            client.configure(name, &class).map_err(failed)?;
        }
        let sign = || Sign { message: Some(message.clone()), ..Sign::by(name) };
        let what = match (case.request, case.batch) {
            (Request::HealthCheck, _) => Payload::HealthCheck,
            (Request::Sign, 1) => Payload::Sign(sign()),
            (Request::Sign, many) => {
                let items = vec![json!({"input": message}); many];
                let body = json!({"batch_input": items});
                Payload::SignMany(format!("/v1/transit/sign/{name}"), body)
            }
            (_, _) => {
                let signature = client.sign(&sign()).map_err(failed)?.signature;
                let (key, message) = (name.clone(), Some(message));
                Payload::Verify(Verify { key, message, signature, ..Verify::default() })
            }
        };
        Ok(PreparedRequest { client, clients: case.clients, what })
    }

    /// Asks for so long, with a pause before each request, and gives the nanoseconds of each.
    pub fn again_and_again(&self, time: Duration, pause: Duration) -> Result<Vec<u64>, Error> {
        let alone = || -> Result<Vec<u64>, Error> {
            let (mut ns, begun) = (Vec::new(), Instant::now());
            while begun.elapsed() < time {
                if !pause.is_zero() {
                    thread::sleep(pause);
                }
                let start = Instant::now();
                self.send()?;
                ns.push(start.elapsed().as_nanos() as u64);
            }
            Ok(ns)
        };
        if self.clients == 1 { alone() } else { self.by_all(&alone) }
    }

    /// Asks so many times a second for so long, at random times (a Poisson process), and gives the nanoseconds from when
    /// each request was due. One that is due while all clients wait is late, and that is counted.
    pub fn when_due(&self, per_s: f64, time: Duration, turn: u64) -> Result<Vec<u64>, Error> {
        let (due, next) = (due_times(per_s, time, turn), AtomicUsize::new(0));
        let begun = Instant::now();
        let alone = || -> Result<Vec<u64>, Error> {
            // Or a sleep ends 50 us late.
            let _ = set_current_timer_slack(NonZero::new(1));
            let mut ns = Vec::new();
            while let Some(due) = due.get(next.fetch_add(1, Ordering::Relaxed)) {
                thread::sleep(due.saturating_sub(begun.elapsed()));
                self.send()?;
                ns.push(begun.elapsed().saturating_sub(*due).as_nanos() as u64);
            }
            Ok(ns)
        };
        self.by_all(&alone)
    }

    /// Runs something as each client.
    fn by_all(
        &self,
        alone: &(impl Fn() -> Result<Vec<u64>, Error> + Sync),
    ) -> Result<Vec<u64>, Error> {
        thread::scope(|scope| {
            let all: Vec<_> = (0..self.clients).map(|_| scope.spawn(alone)).collect();
            let mut ns = Vec::new();
            for one in all {
                ns.extend(one.join().map_err(|_| failed("a client failed"))??);
            }
            Ok(ns)
        })
    }

    /// Sends the request and checks the answer.
    fn send(&self) -> Result<(), Error> {
        match &self.what {
            Payload::HealthCheck => self.client.get::<Value>("/healthz").map(drop).map_err(failed),
            Payload::Sign(sign) => self.client.sign(sign).map(drop).map_err(failed),
            Payload::Verify(verify) => match self.client.verify(verify).map_err(failed)?.valid {
                true => Ok(()),
                false => Err(failed("the server says that its own signature is wrong")),
            },
            Payload::SignMany(path, body) => {
                let answer: Value = self.client.post(path, body).map_err(failed)?;
                let all = answer["data"]["batch_results"].as_array();
                let are_there = |all: &Vec<Value>| {
                    !all.is_empty() && all.iter().all(|one| one["signature"].is_string())
                };
                match all.is_some_and(are_there) {
                    true => Ok(()),
                    false => Err(failed("the server did not sign all of a batch")),
                }
            }
        }
    }
}

/// Returns when requests are due, from the start of a turn: gaps are exponentially distributed, and the same for each `turn` number.
/// One is due also where the time is too short for any.
fn due_times(per_s: f64, time: Duration, turn: u64) -> Vec<Duration> {
    let gap = |place: u64| {
        // In (0, 1]: 53 bits.
        let random = u64::from_le_bytes(inputs::bytes(turn, place)) >> 11;
        let part = (random + 1) as f64 / (1_u64 << 53) as f64;
        Duration::from_secs_f64(-part.ln() / per_s)
    };
    let mut at = Duration::ZERO;
    let times = (0..).map(|place| {
        at += gap(place);
        at
    });
    let mut all: Vec<Duration> = times.take_while(|at| *at < time).collect();
    if all.is_empty() {
        all.push(time);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_as_often_as_they_should_be_and_at_random() {
        let (per_s, time) = (5_000.0, Duration::from_secs(4));
        let all = due_times(per_s, time, 7);
        // Twenty thousand, and four standard deviations.
        assert!((19_434..=20_566).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted() && all.iter().all(|at| *at < time));
        let gaps: Vec<f64> =
            all.windows(2).map(|two| (two[1] - two[0]).as_secs_f64() * per_s).collect();
        let part =
            |most: f64| gaps.iter().filter(|gap| **gap < most).count() as f64 / gaps.len() as f64;
        for most in [0.1_f64, 1.0, 3.0] {
            let wanted = 1.0 - (-most).exp();
            assert!((part(most) - wanted).abs() < 0.02, "{most}: {} {wanted}", part(most));
        }
        assert_eq!(all, due_times(per_s, time, 7));
        assert_ne!(all, due_times(per_s, time, 8));
        assert_eq!(due_times(1e-6, time, 7), [time]);
    }
}
