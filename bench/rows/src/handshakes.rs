//! The cost of TLS handshakes for each side, by provider.

use serde::{Deserialize, Serialize};

use crate::Status;
use crate::machine::Machine;

/// The TLS that makes the handshake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// libssl, the only one of rows that name none.
    #[default]
    Openssl,
    /// rustls.
    Rustls,
}

impl Stack {
    /// The name in options and rows.
    pub fn name(self) -> &'static str {
        match self {
            Stack::Openssl => "openssl",
            Stack::Rustls => "rustls",
        }
    }
}

/// The provider of the handshake's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// OpenSSL's own default provider, alone. Servers' rows call it `stock`.
    #[serde(alias = "stock")]
    Default,
    /// The default provider, and ours preferred by `?provider=gabion`; of rustls the engine's.
    Gabion,
    /// OpenSSL's FIPS provider, by `fips=yes`.
    Fips,
    /// OpenSSL's default provider over a libcrypto with the core patch, switched on; in a process of
    /// its own.
    Offload,
    /// aws-lc-rs, the default of rustls.
    #[serde(rename = "aws-lc-rs")]
    AwsLcRs,
}

impl Provider {
    /// The name in options and rows.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Default => "default",
            Provider::Gabion => "gabion",
            Provider::Fips => "fips",
            Provider::Offload => "offload",
            Provider::AwsLcRs => "aws-lc-rs",
        }
    }
}

/// One provider's handshakes. The first thirteen fields are the contract of `gabion bench tls --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handshake {
    /// The group that was negotiated, as OpenSSL names it.
    pub group: String,
    /// The algorithm of the certificates, by its standard name.
    pub sig: String,
    /// The provider that was to serve.
    pub provider: Provider,
    /// The cipher suite that was negotiated.
    pub cipher: String,
    /// Threads that shook hands at the same time.
    pub threads: usize,
    /// Handshakes counted, over all slices and threads.
    pub handshakes: u64,
    /// Handshakes for each second of CPU time of the whole loop: both sides, and making and
    /// freeing their connections. Median over the slices.
    pub handshakes_per_cpu_s: f64,
    /// CPU time of the server inside SSL_do_handshake, in microseconds. Median over the slices. Of rustls: of making
    /// its connection and of reading and writing until the handshake is done.
    pub server_us: f64,
    /// CPU time of the client inside SSL_do_handshake, in microseconds. Median over the slices.
    pub client_us: f64,
    /// Bytes from client to server, record headers included; the median handshake.
    pub bytes_c2s: u64,
    /// Bytes from server to client, record headers included; the median handshake.
    pub bytes_s2c: u64,
    /// Slices that the medians are over.
    pub samples: usize,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
    /// TLS version that was negotiated.
    pub version: String,
    /// Signature scheme that was negotiated, as TLS names it.
    pub signature_scheme: String,
    /// Provider that serves the group, both halves of a hybrid. Of the core patch, which serves the
    /// ML-KEM in a hybrid and leaves the rest to OpenSSL: `default, ML-KEM-768: libgabion`.
    pub kem_provider: String,
    /// Provider that signed for the server.
    pub signature_provider: String,
    /// The OpenSSL that was loaded; it makes the certificates of rustls's handshakes too.
    pub openssl: String,
    /// The spread of the slices.
    pub spread: RowSpread,
    /// The TLS that made the handshakes.
    #[serde(default)]
    pub stack: Stack,
    /// The group that both sides requested, or `default` for libssl's own list. The client then
    /// makes two key shares.
    #[serde(default)]
    pub groups: String,
}

/// Two percentiles around a median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// One value in five is below.
    pub p20: f64,
    /// One value in five is above.
    pub p80: f64,
}

impl Default for Spread {
    /// Returns NaNs, for rows without a spread.
    fn default() -> Spread {
        Spread { p20: f64::NAN, p80: f64::NAN }
    }
}

/// Twentieth and eightieth percentile over the slices of a row's medians.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RowSpread {
    /// The spread of `handshakes_per_cpu_s`.
    pub handshakes_per_cpu_s: Spread,
    /// The spread of `server_us`.
    pub server_us: Spread,
    /// The spread of `client_us`.
    pub client_us: Spread,
}

/// A server's worker: a line of bench/servers/nginx.sh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The server and its version.
    pub server: String,
    /// The provider that serves.
    pub provider: Provider,
    /// The group.
    pub group: String,
    /// The algorithm of the certificates.
    pub sig: String,
    /// The cipher suite.
    pub cipher: String,
    /// CPU time of the worker for a new connection, in microseconds: the median turn.
    pub worker_us_per_connection: f64,
    /// The spread of the turns.
    #[serde(flatten)]
    pub spread: Spread,
    /// New connections a second.
    pub connections_per_s: f64,
    /// Part of the time in which the worker was busy.
    pub worker_busy: f64,
    /// Part of the time in which the load was.
    pub load_busy: f64,
    /// Connections of all turns.
    pub connections: u64,
}

/// Published figures of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OldSide {
    /// Connections in a second, by two processes.
    pub connections: u32,
    /// Elapsed time of a handshake, in milliseconds.
    pub connect_avg_ms: f64,
    /// Megabytes (2^20) received in a second.
    pub rx_mb_s: f64,
    /// Megabytes sent in a second.
    pub tx_mb_s: f64,
}

/// The CPU time of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SideFigures {
    /// All handshakes.
    pub connect_ms: f64,
    /// One handshake.
    pub connect_avg_ms: f64,
    /// All receiving.
    pub rx_total_ms: f64,
    /// All sending.
    pub tx_total_ms: f64,
    /// Megabytes (2^20) received in a second of it.
    pub rx_mb_s: f64,
    /// Megabytes sent in a second of it.
    pub tx_mb_s: f64,
}

/// Connections side by side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SideBySide {
    /// The number of threads that connect.
    pub threads: usize,
    /// Handshakes a second of elapsed time, all threads together, both sides in each.
    pub handshakes_per_s: f64,
}

/// A measured row of connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionFigures {
    /// Connections of the exchange.
    pub connections: u64,
    /// Bytes that they carried, both ways.
    pub total_bytes: u64,
    /// The server's part.
    pub server: SideFigures,
    /// The client's part.
    pub client: SideFigures,
    /// Both sides' CPU time from the first byte of a connection to the last one of 50 KiB; median.
    pub last_byte_50k_ms: f64,
    /// Elapsed time of a client over the loopback, from its connecting to the last byte of 50 KiB;
    /// median. NaN in older rows, which lack it.
    #[serde(default = "unknown")]
    pub last_byte_50k_elapsed_ms: f64,
    /// Handshakes a second with 1, 2, 4 .. threads.
    pub threads: Vec<SideBySide>,
}

/// Connections and throughput: a line of `gabion bench tls --table seed --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// The published row's group.
    pub old_group: String,
    /// The published figures of the server.
    pub old_server: OldSide,
    /// The published figures of the client.
    pub old_client: OldSide,
    /// The group by today's name.
    pub group: Option<String>,
    /// Algorithm of the certificates.
    pub sig: String,
    /// The cipher suite.
    pub cipher: String,
    /// The provider that was to serve.
    pub provider: Provider,
    /// Whether the row has figures.
    pub status: Status,
    /// The reason if the figures are missing.
    pub note: Option<String>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Option<ConnectionFigures>,
    /// The OpenSSL that was loaded.
    pub openssl: String,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}

/// Medians over the slices of one setting of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SwitchFigures {
    /// Half of the handshakes took at most this long, in microseconds of wall time.
    pub p50_us: f64,
    /// 99 of 100 took at most this long.
    pub p99_us: f64,
    /// CPU time of the process for each handshake, in microseconds.
    pub cpu_us: f64,
    /// Handshakes a second, over all threads.
    pub handshakes_per_s: f64,
}

/// The switch on over the switch off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Wall time, the median handshake.
    pub p50_ratio: f64,
    /// CPU time of the process for each handshake.
    pub cpu_ratio: f64,
    /// Handshakes a second.
    pub rate_ratio: f64,
}

impl Default for Ratios {
    /// Returns NaNs, for rows without ratios.
    fn default() -> Ratios {
        Ratios { p50_ratio: f64::NAN, cpu_ratio: f64::NAN, rate_ratio: f64::NAN }
    }
}

/// The verdict on whether a switch slows a lone connection on one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoneVerdict {
    /// Both ratios of p50 are within the bound.
    NotSlower,
    /// Neither is.
    Slower,
    /// One is and one is not: the measurement does not tell.
    Undecided,
}

impl LoneVerdict {
    /// The verdict in words, for a table.
    pub fn name(self) -> &'static str {
        match self {
            LoneVerdict::NotSlower => "not slower",
            LoneVerdict::Slower => "slower",
            LoneVerdict::Undecided => "undecided",
        }
    }
}

/// A switch of the provider, on and off, and how both compare, in two ways.
///
/// A machine that changes its speed from second to second moves `of_medians`, since half of the slices may
/// lie at one speed and half at the other; the rounds' ratios forgive it, for both slices of a round lie
/// next to each other. Where handshakes of one slice take two times, about as many the one as the other,
/// `p50_us` jumps between them, and no way mends that. So a ratio counts where both ways agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    /// The switch.
    pub switch: String,
    /// Key exchange group.
    pub group: String,
    /// Algorithm of the certificates.
    pub sig: String,
    /// Threads.
    pub threads: usize,
    /// Connections that each thread has under way in asynchronous jobs; 0: one after the other, without.
    pub connections: usize,
    /// Rounds.
    pub rounds: usize,
    /// The figures with the switch on.
    pub on: SwitchFigures,
    /// The figures with the switch off.
    pub off: SwitchFigures,
    /// Medians of the rounds' ratios.
    #[serde(flatten)]
    pub paired: Ratios,
    /// The spread of the rounds' `p50_ratio`.
    #[serde(default)]
    pub p50_spread: Spread,
    /// Ratios of the medians in `on` and `off`.
    #[serde(default)]
    pub of_medians: Ratios,
    /// Whether the switch slows a connection that is alone; none where more are under way.
    #[serde(default)]
    pub alone: Option<LoneVerdict>,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
    /// The OpenSSL that was loaded.
    pub openssl: String,
}

fn unknown() -> f64 {
    f64::NAN
}
