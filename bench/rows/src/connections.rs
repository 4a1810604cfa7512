//! The costs of a TLS connection: bytes on the wire, and memory.

use serde::{Deserialize, Serialize};

use crate::Status;
use crate::handshakes::Provider;
use crate::machine::Machine;

/// A table of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// The rows that wolfSSL published in 2022, in its order.
    Seed,
    /// Today's groups and signatures.
    Today,
    /// Both.
    All,
}

/// The authenticated sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The server only.
    Server,
    /// Both sides.
    Mutual,
}

impl Mode {
    /// The mode in one word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Server => "server",
            Mode::Mutual => "mutual",
        }
    }

    /// Returns the number of authenticated sides.
    pub fn sides(self) -> u64 {
        match self {
            Mode::Server => 1,
            Mode::Mutual => 2,
        }
    }
}

/// Bytes of a connection: a line of `gabion bench wire --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    /// `seed` for the rows published before the standards, `today` for ours.
    pub table: Table,
    /// The cipher suite.
    pub cipher: String,
    /// The published row's authentication, by its old name.
    pub old_authentication: Option<String>,
    /// The published row's key exchange, by its old name.
    pub old_key_exchange: Option<String>,
    /// The published row's total in bytes.
    pub old_total: Option<u64>,
    /// Algorithm of the certificates, by today's name.
    pub authentication: Option<String>,
    /// Key exchange group, by today's name.
    pub key_exchange: Option<String>,
    /// The authenticated sides.
    pub mode: Mode,
    /// Certificates that a side sends.
    pub chain: u32,
    /// Session tickets that the server sends.
    pub tickets: u32,
    /// Whether the row has figures.
    pub status: Status,
    /// The reason if the figures are missing.
    pub note: Option<String>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Option<WireFigures>,
    /// The provider that was to serve.
    pub provider: Provider,
    /// The OpenSSL that was loaded.
    pub openssl: String,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}

/// A measured connection, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFigures {
    /// TCP payload of both directions.
    pub total: u64,
    /// Bytes from client to server.
    pub bytes_c2s: u64,
    /// Bytes from server to client.
    pub bytes_s2c: u64,
    /// The number that the formula predicts.
    pub predicted: u64,
    /// Everything that depends on no algorithm.
    pub base: u64,
    /// Key shares of both sides.
    pub key_shares: u64,
    /// DER of the certificates that were sent.
    pub certificates: u64,
    /// Signatures in CertificateVerify.
    pub certificate_verify: u64,
    /// Protected records.
    pub records: u64,
}

/// Memory in bytes, blocks by the size that malloc gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Calls that gave a block.
    pub allocations: u64,
    /// Bytes of all blocks together.
    pub heap_total: u64,
    /// The most bytes at one time.
    pub heap_peak: u64,
    /// Stack of the thread; of a whole process it was not measured.
    pub stack: Option<u64>,
}

/// One side of a row of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The published figures of the row's old algorithms.
    pub old: Option<Usage>,
    /// One connection.
    pub connection: Usage,
    /// The process from before libcrypto was loaded to the end of its second connection.
    pub process: Usage,
}

/// Memory of a connection: a line of `gabion bench memory --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// `seed` for the rows published before the standards, `today` for ours.
    pub table: Table,
    /// The cipher suite.
    pub cipher: String,
    /// The published row's authentication, by its old name.
    pub old_authentication: Option<String>,
    /// The published row's key exchange, by its old name.
    pub old_key_exchange: Option<String>,
    /// Algorithm of the certificates, by today's name.
    pub authentication: Option<String>,
    /// Key exchange group, by today's name.
    pub key_exchange: Option<String>,
    /// The authenticated side: the server.
    pub mode: Mode,
    /// Certificates that the server sends.
    pub chain: u32,
    /// Whether the row has figures.
    pub status: Status,
    /// The reason why figures are missing, or remarks on the published ones.
    pub note: Option<String>,
    /// The server's memory.
    pub server: Option<Side>,
    /// The client's memory.
    pub client: Option<Side>,
    /// The provider that was to serve.
    pub provider: Provider,
    /// The OpenSSL that was loaded.
    pub openssl: String,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}
