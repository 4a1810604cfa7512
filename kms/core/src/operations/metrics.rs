//! Counters and latency histograms of operations, in the Prometheus text format.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Code;
use crate::model::{KeyAlgorithm, Rsa, Symmetric};

/// Defines [`Verb`] from one list of variant and text.
macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident $text:literal;)*) => {
        /// An operation, as metrics count it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Verb {
            $($(#[$doc])* $verb,)*
        }

        impl Verb {
            /// All operations.
            pub const ALL: &[Verb] = &[$(Verb::$verb,)*];

            /// Returns the operation's name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Verb::$verb => $text,)*
                }
            }
        }
    };
}

verbs! {
    /// Creates a key.
    Create "create";
    /// Creates a version.
    Rotate "rotate";
    /// Changes the state of a key or version.
    Change "change";
    /// Signs.
    Sign "sign";
    /// Verifies a signature.
    Verify "verify";
    /// Verifies a signature in a batch.
    VerifyBatch "verify_batch";
    /// Describes a key.
    Attest "attest";
    /// Signs in a batch.
    SignBatch "sign_batch";
    /// Encrypts.
    Encrypt "encrypt";
    /// Decrypts.
    Decrypt "decrypt";
    /// Decrypts, and encrypts with another version.
    Rewrap "rewrap";
    /// Makes a tag.
    Hmac "hmac";
    /// Verifies a tag.
    VerifyHmac "verify_hmac";
    /// Generates a data key.
    Datakey "datakey";
    /// Returns random bytes.
    Random "random";
    /// Encapsulates.
    Encaps "encaps";
    /// Decapsulates.
    Decaps "decaps";
    /// Imports a key or version.
    Import "import";
    /// Exports a version.
    Export "export";
    /// Wraps a key.
    Wrap "wrap";
    /// Unwraps a key.
    Unwrap "unwrap";
}

/// The upper bounds of the histogram's buckets in microseconds.
const BOUNDS: [u64; 16] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000,
];

/// The counters. They only grow.
pub struct Metrics {
    /// By operation, and by algorithm in the order of [`names`].
    operations: Vec<Vec<AtomicU64>>,
    /// By operation and code.
    failures: Vec<Vec<AtomicU64>>,
    latency: Vec<Histogram>,
    batches: AtomicU64,
    batch_items: AtomicU64,
    /// The number of coalesced single requests, and the number of batches that they formed.
    together: [AtomicU64; 2],
}

/// A latency histogram.
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            nanoseconds: AtomicU64::new(0),
        }
    }

    pub(crate) fn note(&self, took: Duration) {
        let microseconds = took.as_micros() as u64;
        let bucket = BOUNDS.partition_point(|&bound| bound < microseconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Appends the histogram in the Prometheus text format; nothing if it is empty.
    pub(crate) fn lines(&self, name: &str, labels: &str, out: &mut String) {
        let counts = self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed));
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return;
        }
        let (comma, mut below) = (if labels.is_empty() { "" } else { "," }, 0);
        for (count, bound) in counts.iter().zip(BOUNDS) {
            below += count;
            let le = bound as f64 / 1e6;
            out.push_str(&format!("{name}_bucket{{{labels}{comma}le=\"{le}\"}} {below}\n"));
        }
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        out.push_str(&format!("{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {total}\n"));
        out.push_str(&format!("{name}_sum{{{labels}}} {seconds}\n"));
        out.push_str(&format!("{name}_count{{{labels}}} {total}\n"));
    }
}

/// Returns `none`, followed by the algorithms in the order of [`KeyAlgorithm::place`].
fn names() -> impl Iterator<Item = &'static str> {
    let of_engine = gabion_engine::ALGORITHMS.iter().map(|info| info.name);
    let symmetric = Symmetric::ALL.into_iter().map(Symmetric::name);
    let rsa = Rsa::ALL.into_iter().map(Rsa::name);
    ["none"].into_iter().chain(of_engine).chain(symmetric).chain(rsa)
}

impl Metrics {
    pub(super) fn new() -> Self {
        let by_verb = |width: usize| {
            let row = || (0..width).map(|_| AtomicU64::new(0)).collect();
            Verb::ALL.iter().map(|_| row()).collect()
        };
        Metrics {
            operations: by_verb(names().count()),
            failures: by_verb(Code::ALL.len()),
            latency: Verb::ALL.iter().map(|_| Histogram::new()).collect(),
            batches: AtomicU64::new(0),
            batch_items: AtomicU64::new(0),
            together: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    pub(super) fn count(
        &self,
        verb: Verb,
        algorithm: Option<KeyAlgorithm>,
        failure: Option<Code>,
        took: Duration,
    ) {
        let add = |counter: &AtomicU64, n| {
            counter.fetch_add(n, Ordering::Relaxed);
        };
        add(&self.operations[verb as usize][algorithm.map_or(0, |known| 1 + known.place())], 1);
        if let Some(code) = failure {
            add(&self.failures[verb as usize][code as usize], 1);
        }
        self.latency[verb as usize].note(took);
    }

    pub(super) fn together(&self, requests: usize) {
        self.together[0].fetch_add(requests as u64, Ordering::Relaxed);
        self.together[1].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn batch(&self, items: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.batch_items.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Returns how often an operation was run, including failures.
    pub fn operations(&self, verb: Verb) -> u64 {
        self.operations[verb as usize].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Returns all metrics in the Prometheus text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        line("# TYPE kms_ops_total counter".to_owned());
        for (verb, row) in Verb::ALL.iter().zip(&self.operations) {
            for (name, count) in names().zip(row).filter(|row| read(row.1) > 0) {
                let (op, alg) = (verb.as_str(), name.to_ascii_lowercase());
                line(format!("kms_ops_total{{op=\"{op}\",alg=\"{alg}\"}} {}", read(count)));
            }
        }
        line("# TYPE kms_failures_total counter".to_owned());
        for (verb, row) in Verb::ALL.iter().zip(&self.failures) {
            for (kind, count) in Code::ALL.iter().zip(row).filter(|row| read(row.1) > 0) {
                let op = verb.as_str();
                line(format!("kms_failures_total{{op=\"{op}\",kind=\"{kind}\"}} {}", read(count)));
            }
        }
        out.push_str("# TYPE kms_op_latency_seconds histogram\n");
        for (verb, histogram) in Verb::ALL.iter().zip(&self.latency) {
            let labels = format!("op=\"{}\"", verb.as_str());
            histogram.lines("kms_op_latency_seconds", &labels, &mut out);
        }
        out.push_str("# TYPE kms_batch_len summary\n");
        out.push_str(&format!("kms_batch_len_sum {}\n", read(&self.batch_items)));
        out.push_str(&format!("kms_batch_len_count {}\n", read(&self.batches)));
        // Coalesced single requests are not batches of a caller. The second name is that of earlier
        // releases.
        let [requests, times] = self.together.each_ref().map(read);
        for name in ["kms_coalesced_len", "kms_together_len"] {
            out.push_str(&format!("# TYPE {name} summary\n"));
            out.push_str(&format!("{name}_sum {requests}\n{name}_count {times}\n"));
        }
        out
    }
}
