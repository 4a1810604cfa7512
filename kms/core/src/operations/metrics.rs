//! What was done how often and how long it took, in the names of the text format of Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Code;
use crate::model::{KeyAlgorithm, Rsa, Symmetric};

/// Lists the verbs once.
macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident $text:literal;)*) => {
        /// What is done with keys.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Verb {
            $($(#[$doc])* $verb,)*
        }

        impl Verb {
            /// Every one.
            pub const ALL: &[Verb] = &[$(Verb::$verb,)*];

            /// Its name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Verb::$verb => $text,)*
                }
            }
        }
    };
}

verbs! {
    /// A key is made.
    Create "create";
    /// A version is made.
    Rotate "rotate";
    /// The state of a key or version is changed.
    Change "change";
    /// A signature is made.
    Sign "sign";
    /// A signature is verified.
    Verify "verify";
    /// A signature is verified, with others.
    VerifyBatch "verify_batch";
    /// A key is described.
    Attest "attest";
    /// A signature is made, with others.
    SignBatch "sign_batch";
    /// A message is encrypted.
    Encrypt "encrypt";
    /// A message is decrypted.
    Decrypt "decrypt";
    /// A message is decrypted, and encrypted by another version.
    Rewrap "rewrap";
    /// A tag is made.
    Hmac "hmac";
    /// A tag is verified.
    VerifyHmac "verify_hmac";
    /// A key is drawn, and encrypted.
    Datakey "datakey";
    /// Random bytes are drawn.
    Random "random";
    /// A secret is encapsulated.
    Encaps "encaps";
    /// A secret is decapsulated.
    Decaps "decaps";
    /// A key or version is made of what somebody brings.
    Import "import";
    /// A version is given out.
    Export "export";
    /// A key is wrapped.
    Wrap "wrap";
    /// A key is unwrapped.
    Unwrap "unwrap";
}

/// Upper bounds of the histogram, in microseconds.
const BOUNDS: [u64; 16] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000,
];

/// Counters. They only grow.
pub struct Metrics {
    /// By verb, and by algorithm in the order of [`names`].
    operations: Vec<Vec<AtomicU64>>,
    /// By verb and code.
    failures: Vec<Vec<AtomicU64>>,
    latency: Vec<Histogram>,
    batches: AtomicU64,
    batch_items: AtomicU64,
    /// Single requests that were run together, and how many times that was done.
    together: [AtomicU64; 2],
}

/// How often something took how long.
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

    /// Its lines in the text format of Prometheus; none where nothing was noted.
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

/// The algorithms in the order of [`KeyAlgorithm::place`], behind none.
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

    /// How often a verb was done, failures included.
    pub fn operations(&self, verb: Verb) -> u64 {
        self.operations[verb as usize].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// All of it, in the text format of Prometheus.
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
        // Single requests that were coalesced are not batches that a caller sent. The second name is the one of earlier releases.
        let [requests, times] = self.together.each_ref().map(read);
        for name in ["kms_coalesced_len", "kms_together_len"] {
            out.push_str(&format!("# TYPE {name} summary\n"));
            out.push_str(&format!("{name}_sum {requests}\n{name}_count {times}\n"));
        }
        out
    }
}
