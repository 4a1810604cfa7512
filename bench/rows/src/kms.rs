//! The key management service: what a request costs who sends it, and the server.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// A request: a line of `gabion bench kms --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kms {
    /// The name and version of the service, if it is not Gabion's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The request.
    pub request: Request,
    /// The key's algorithm, by the service's name; empty for requests without a key.
    pub algorithm: String,
    /// The transport to the service.
    pub through: Transport,
    /// The time of the answer: once the audit log has the use, or once the disk has it. `None`
    /// within one process, which has no audit log.
    pub class: Option<Durability>,
    /// The number of concurrent clients, each of which waits for an answer before the next request.
    pub clients: usize,
    /// The requests that the server coalesces, with several clients: `any`, `tenant` or `off`.
    #[serde(default)]
    pub coalesce: Option<String>,
    /// Requests a second that were due, at random times (a Poisson process): half the rate of as
    /// many waiting clients. The latency of a request starts when it is due, even if no client is
    /// free. `None`: each client waits for an answer before the next request.
    #[serde(default)]
    pub due_per_s: Option<f64>,
    /// Signatures of a request.
    pub batch: usize,
    /// Keys of the store, where it has more than those that were asked for.
    #[serde(default)]
    pub keys: Option<usize>,
    /// Time from a request to its answer, or from a start to the first answer, in microseconds.
    pub us: Latency,
    /// CPU time of the server for one signature, in microseconds: the first number of its threads'
    /// `schedstat`, including ended threads.
    pub server_us_per_op: Option<f64>,
    /// Time that the server's threads waited for a processor, for one signature, in microseconds: the second number of
    /// `schedstat`.
    #[serde(default)]
    pub server_waited_us_per_op: Option<f64>,
    /// Signatures a second, or requests a second for requests that do not sign.
    pub ops_per_s: f64,
    /// Median of a request that does nothing, over the same connections in turns with these, in microseconds.
    pub floor_us: Option<f64>,
    /// 99 of 100 of those took no longer.
    #[serde(default)]
    pub floor_p99_us: Option<f64>,
    /// The median request of that.
    pub over_floor: Option<f64>,
    /// Median of the same request by a key whose uses are answered once they are written, in turns with a durable one's, in
    /// microseconds.
    #[serde(default)]
    pub written_us: Option<f64>,
    /// Median of that with a pause before each request, about as long as a sync.
    #[serde(default)]
    pub paused_us: Option<f64>,
    /// Median of a write to a file that was written before, and of its fdatasync, in turns with the
    /// requests, in microseconds: from the server's core if it is pinned to one, and then with
    /// pauses.
    pub fdatasync_us: Option<f64>,
    /// 99 of 100 of those took no longer.
    #[serde(default)]
    pub fdatasync_p99_us: Option<f64>,
    /// Bytes of memory that the server had at the end, in KiB: `VmRSS`.
    #[serde(default)]
    pub resident_kib: Option<u64>,
    /// Requests that were measured.
    pub requests: usize,
    /// Turns that they were measured in.
    pub rounds: usize,
    /// The machine's other load meanwhile.
    #[serde(default)]
    pub around: MachineLoad,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}

/// The load that a machine had during a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// The load average of one minute, at the end.
    pub load: f64,
    /// Share of the processors' time that the hypervisor gave to others.
    pub steal: f64,
    /// Share of the processors' time that other processes had.
    pub others: f64,
    /// Turns in which both together were more than [`MachineLoad::OTHERS_MAX`].
    pub disturbed: usize,
}

impl MachineLoad {
    /// The share of the processors' time from which on a turn is marked.
    pub const OTHERS_MAX: f64 = 0.05;
}

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// A health check, which does no work.
    #[serde(rename = "nothing")]
    HealthCheck,
    /// Signatures.
    Sign,
    /// Verdicts on signatures, of a key that was used before.
    Verify,
    /// Verifications by keys that were all used before, each time another one of many.
    Fresh,
    /// Verdicts on signatures of keys that nothing is kept of.
    Cold,
    /// Signatures by keys that nothing is kept of.
    ColdSign,
    /// A start, to the first answer.
    Start,
}

impl Request {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Request::HealthCheck => "nothing",
            Request::Sign => "sign",
            Request::Verify => "verify",
            Request::Fresh => "fresh",
            Request::Cold => "cold",
            Request::ColdSign => "cold-sign",
            Request::Start => "start",
        }
    }
}

/// The transport between client and service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TLS 1.3 on connections that are kept.
    Https,
    /// Calls within one process.
    Process,
}

impl Transport {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Https => "https",
            Transport::Process => "process",
        }
    }
}

/// The durability of a use's audit record when the answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The audit log has written it.
    Written,
    /// The disk has synced it.
    Durable,
}

impl Durability {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Durability::Written => "written",
            Durability::Durable => "durable",
        }
    }
}

/// Times of requests, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: f64,
    /// Nor 99 of 100. Of clients that wait for answers a stall holds up few requests and hides from it, of requests that
    /// are due it does not.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// Computes the latency from the times of requests in nanoseconds. Zeros for an empty list.
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
