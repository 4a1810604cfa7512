//! Results of the `openssl` command's own benchmarks: one object for all of its algorithms.

use serde::{Deserialize, Serialize};

use crate::Status;
use crate::handshakes::Provider;
use crate::machine::Machine;

/// Figures of `openssl speed`: the object of `gabion bench openssl --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The version of the command.
    pub openssl: String,
    /// Time for each operation.
    pub seconds: u32,
    /// Processes side by side, where there were several.
    pub multi: Option<u32>,
    /// `cpu`, or of several processes `elapsed`.
    pub time: String,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
    /// The algorithms.
    pub results: Vec<SpeedRow>,
    /// The ratios between them.
    pub ratios: Vec<Ratio>,
}

/// One algorithm of one provider. Operations a second, all processes together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpeedRow {
    /// The name in `openssl speed`; the requested name if no provider serves it.
    pub algorithm: String,
    /// The provider that was to serve.
    pub provider: Provider,
    /// The provider that served, if its counters show it.
    pub served_by: Option<Provider>,
    /// Whether there are figures.
    #[serde(default)]
    pub status: Status,
    /// The reason why figures are missing.
    #[serde(default)]
    pub note: Option<String>,
    /// Key pairs.
    pub keygen_per_s: Option<f64>,
    /// Signatures; none of a KEM.
    pub sign_per_s: Option<f64>,
    /// Verifications; none of a KEM.
    pub verify_per_s: Option<f64>,
    /// Encapsulations; none of a signature algorithm.
    pub encaps_per_s: Option<f64>,
    /// Decapsulations; none of a signature algorithm.
    pub decaps_per_s: Option<f64>,
}

/// The ratio of SLH-DSA's times to ML-DSA's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The parameter set of SLH-DSA.
    pub slh_dsa: String,
    /// The parameter set of ML-DSA: of category 2 for category 1, which ML-DSA lacks, else the same.
    pub ml_dsa: String,
    /// The provider that was to serve both.
    pub provider: Provider,
    /// The ratio for making a key pair.
    pub keygen: f64,
    /// The ratio for signing.
    pub sign: f64,
    /// The ratio for verifying.
    pub verify: f64,
}

/// Figures of `openssl pkeyutl` in a loop: the object of `gabion bench pkeyutl --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pkeyutl {
    /// The version of the command.
    pub openssl: String,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
    /// The algorithms.
    pub results: Vec<PkeyutlRow>,
}

/// One algorithm of one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PkeyutlRow {
    /// OpenSSL's main name of the algorithm; the requested name if no provider serves it.
    pub algorithm: String,
    /// The provider that was to serve.
    pub provider: Provider,
    /// Whether there are figures.
    #[serde(default)]
    pub status: Status,
    /// The reason why figures are missing.
    #[serde(default)]
    pub note: Option<String>,
    /// Bytes of the message.
    pub msg_bytes: usize,
    /// Runs of each operation.
    pub iterations: usize,
    /// The public key as SubjectPublicKeyInfo.
    pub public_key_bytes: Option<usize>,
    /// The private key as PKCS#8.
    pub private_key_bytes: Option<usize>,
    /// The signature.
    pub signature_bytes: Option<usize>,
    /// Signing.
    pub sign: Option<Times>,
    /// Verifying.
    pub verify: Option<Times>,
    /// The times of `openssl version`: the cost of a process that computes nothing.
    pub process: Option<Times>,
}

/// Times of one operation, in milliseconds of elapsed time, with the start of the process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub median_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Operations a second, one after the other.
    pub ops_per_s: f64,
}
