//! The key management service: what a request costs who sends it, and the server.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// What is asked: a line of `gabion bench kms --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kms {
    /// What was asked.
    pub request: Request,
    /// The key's algorithm, by the service's name; empty where there is no key.
    pub algorithm: String,
    /// How the service was reached.
    pub through: Through,
    /// When an answer is given: once the audit log has the use, or once the disk has it. In one process nothing is told.
    pub class: Option<Class>,
    /// Those who ask at the same time, each of whom waits for an answer before the next request.
    pub clients: usize,
    /// Signatures of a request.
    pub batch: usize,
    /// Time from a request to its answer, in microseconds.
    pub us: Latency,
    /// Time of processors that the server took for one signature, in microseconds.
    pub server_us_per_op: Option<f64>,
    /// Signatures, or requests that are none, a second.
    pub ops_per_s: f64,
    /// Median of a request that does nothing, over the same connections in turns with these, in microseconds.
    pub floor_us: Option<f64>,
    /// The median request of that.
    pub over_floor: Option<f64>,
    /// Median of a write to a file that was written before, and of its fdatasync, in turns with these, in microseconds.
    pub fdatasync_us: Option<f64>,
    /// Requests that were measured.
    pub requests: usize,
    /// Turns that they were measured in.
    pub rounds: usize,
    /// What it was measured on.
    #[serde(default)]
    pub machine: Machine,
}

/// What is asked of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Nothing: whether it is there.
    Nothing,
    /// Signatures.
    Sign,
    /// Verdicts on signatures, of a key that was used before.
    Verify,
    /// Verdicts on signatures of keys that nothing is kept of.
    Cold,
}

impl Request {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Request::Nothing => "nothing",
            Request::Sign => "sign",
            Request::Verify => "verify",
            Request::Cold => "cold",
        }
    }
}

/// How the service is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// TLS 1.3 on connections that are kept.
    Https,
    /// Calls within one process.
    Process,
}

impl Through {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Through::Https => "https",
            Through::Process => "process",
        }
    }
}

/// When a use is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Once the audit log has it.
    Written,
    /// Once the disk has it.
    Durable,
}

impl Class {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Class::Written => "written",
            Class::Durable => "durable",
        }
    }
}

/// Times of requests, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: f64,
    /// Nor 99 of 100. Of clients that wait for answers: a stall holds up few requests and hides from it.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// That of requests that took so many nanoseconds each. Of none: zeros.
    pub fn of(mut ns: Vec<u64>) -> Latency {
        ns.sort_unstable();
        let at = |part: f64| {
            let place = (ns.len() as f64 * part) as usize;
            ns.get(place.min(ns.len().saturating_sub(1))).map_or(0.0, |ns| *ns as f64 / 1e3)
        };
        Latency { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_sorted_first() {
        let latency = Latency::of((1..=1000).rev().map(|us| us * 1000).collect());
        assert_eq!((latency.p50, latency.p99, latency.max), (501.0, 991.0, 1000.0));
        assert_eq!(Latency::of(vec![1500]), Latency { p50: 1.5, p99: 1.5, max: 1.5 });
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
