//! Single operations of this and other libraries, and the figures that they are compared with.

use serde::{Deserialize, Serialize};

use crate::clock::Figures;
use crate::machine::Machine;

/// An operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Seed to encoded key pair.
    Keygen,
    /// Randomness to ciphertext and shared secret.
    Encaps,
    /// Ciphertext to shared secret.
    Decaps,
    /// A 32-byte message to its signature: pure, empty context, deterministic.
    Sign,
    /// Verification of such a signature.
    Verify,
    /// Private key and another's encoded public key to the secret that they share.
    Derive,
}

impl Operation {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Operation::Keygen => "keygen",
            Operation::Encaps => "encaps",
            Operation::Decaps => "decaps",
            Operation::Sign => "sign",
            Operation::Verify => "verify",
            Operation::Derive => "derive",
        }
    }
}

/// State of the key when the operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// Encoded, another one in each lane; decoded, checked and expanded on the way. Key generation
    /// counts as such.
    Fresh,
    /// Expanded before, the same one in every lane.
    Cached,
}

impl Key {
    /// The word in rows and filters.
    pub fn word(self) -> &'static str {
        match self {
            Key::Fresh => "fresh",
            Key::Cached => "cached",
        }
    }
}

/// The measured operation: rows that agree in this are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The parameter set, by its standard name.
    pub algorithm: String,
    /// The operation.
    pub operation: Operation,
    /// The kind of key.
    pub key: Key,
}

/// A timed operation: a line of `gabion bench engine --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The measured operation.
    #[serde(flatten)]
    pub subject: Subject,
    /// The backend that ran it, or the other library.
    pub backend: String,
    /// The code that ran: the backend's, a library's, or both. Absent in other libraries' rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Lanes of a call.
    pub batch: usize,
    /// Threads side by side.
    pub threads: usize,
    /// Time and cycles of one operation on one thread; operations a second of all threads.
    #[serde(flatten)]
    pub figures: Figures,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}

impl Timing {
    /// Core cycles; not a number where they were not counted.
    pub fn cycles(&self) -> f64 {
        self.figures.core_cycles_per_op.unwrap_or(f64::NAN)
    }
}

/// An operation of the engine, with OpenSSL's rate, as `gabion run` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOperation {
    /// The engine's row.
    #[serde(flatten)]
    pub timing: Timing,
    /// The rate of the operation in OpenSSL's own code, one at a time.
    #[serde(default)]
    pub openssl_ops_per_s: Option<f64>,
}

/// An operation of another library: a line of `gabion-peers --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Its times.
    #[serde(flatten)]
    pub timing: Timing,
    /// The source of its randomness.
    pub randomness: Randomness,
    /// The library.
    pub peer: Identity,
    /// The start of its run; bench/peers/run.sh adds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The source of an operation's randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Randomness {
    /// Given by the caller: all correct libraries return equal results.
    Given,
    /// The library draws it; the public interface has no other way, or the other way is slower.
    Drawn,
    /// The operation uses none.
    None,
}

/// The origin and licence of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the library.
    pub name: String,
    /// Its version, as reported by the library if possible.
    pub version: String,
    /// SPDX expression.
    pub license: String,
    /// Choices that matter for speed.
    pub build: String,
}

/// The combined rate of several threads: a line of the example `threads`. Its first rows have no
/// algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// The parameter set.
    pub algorithm: String,
    /// The operation's word.
    pub operation: String,
    /// The key's word.
    pub key: String,
    /// The backend that ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The code that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Lanes of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Threads side by side.
    pub threads: usize,
    /// Operations a second of all of them.
    pub ops_per_s: f64,
    /// The machine that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// The cost of an operation with every lane full: a line of the program `floors`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The measured operation.
    #[serde(flatten)]
    pub subject: Subject,
    /// The backend whose kernels were timed.
    pub backend: String,
    /// Lanes of a call.
    pub batch: usize,
    /// Permutations of Keccak in one operation.
    pub permutations: f64,
    /// Steps of SLH-DSA's chains with SHAKE.
    pub shake_steps: f64,
    /// Compressions of SHA-256.
    pub sha256: f64,
    /// Compressions of SHA-512.
    pub sha512: f64,
    /// Core cycles of one of them.
    pub cycles_per_permutation: f64,
    /// The cycles of a step of a SHAKE chain.
    pub cycles_per_shake_step: f64,
    /// The cycles of a compression of SHA-256.
    pub cycles_per_sha256: f64,
    /// The cycles of a compression of SHA-512.
    pub cycles_per_sha512: f64,
    /// Core cycles of all the hashing.
    pub hashing_cycles: f64,
    /// The cycles of the arithmetic kernels as measured.
    pub arithmetic_cycles: f64,
    /// The sum of both.
    pub floor_cycles: f64,
}

/// A reference figure from another machine or publication: a line of bench/results/recorded.ndjson.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The kind of reference.
    pub kind: ReferenceKind,
    /// The name of the library.
    pub name: String,
    /// The measured operation.
    #[serde(flatten)]
    pub subject: Subject,
    /// The core cycles of one operation.
    pub core_cycles_per_op: f64,
    /// Remarks on the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// On what.
    pub machine: String,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferenceKind {
    /// A counted floor.
    Floor,
    /// A library that no registry of packages has.
    Peer,
}
