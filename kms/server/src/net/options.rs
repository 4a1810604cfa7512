//! The options of a server.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::tls::Tls;

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A network address, with TLS 1.3. Port 0 selects a free port.
    Tls(SocketAddr),
    /// The path of a Unix socket, which only its owner may use.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tls(address) => write!(out, "https://{address}"),
            Listen::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// The concurrent requests that are coalesced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coalesce {
    /// Requests of all callers.
    #[default]
    Any,
    /// Only requests of the same tenant, so that response times do not reveal the requests of other
    /// tenants.
    Tenant,
    /// No requests.
    Off,
}

impl std::str::FromStr for Coalesce {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "any" => Ok(Coalesce::Any),
            "tenant" => Ok(Coalesce::Tenant),
            "off" => Ok(Coalesce::Off),
            _ => Err("expected any, tenant or off"),
        }
    }
}

/// The options of a server.
#[derive(Clone)]
pub struct Options {
    /// The addresses to listen at.
    pub listen: Vec<Listen>,
    /// The TLS configuration, which [`Listen::Tls`] needs.
    pub tls: Option<Arc<Tls>>,
    /// Returns CLOCK_MONOTONIC in microseconds, for systemd's reload notifications. `None` disables
    /// these notifications.
    pub monotonic_us: Option<fn() -> u64>,
    /// The maximum size of a request body in bytes.
    pub body_max: usize,
    /// The maximum size of a streamed message in bytes.
    pub stream_max: u64,
    /// The maximum number of concurrent streams: messages of more than `body_max` bytes or of
    /// unknown length.
    pub streams_max: usize,
    /// The maximum number of concurrent streams per tenant.
    pub streams_per_tenant_max: usize,
    /// The maximum number of concurrent connections at [`Listen::Tls`]. Further ones wait.
    pub connections_max: usize,
    /// The maximum number of concurrent connections at [`Listen::Unix`]. Further ones wait,
    /// independently of network connections.
    pub local_connections_max: usize,
    /// The maximum number of concurrent connections per IPv4 address or IPv6 /64 prefix. Further
    /// ones are closed.
    pub connections_per_address_max: usize,
    /// How long current requests may take after the server was told to stop.
    pub drain: Duration,
    /// The concurrent requests that are coalesced.
    pub coalesce: Coalesce,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: Vec::new(),
            tls: None,
            monotonic_us: None,
            body_max: 1 << 20,
            stream_max: 64 << 30,
            streams_max: 64,
            streams_per_tenant_max: 32,
            connections_max: 1024,
            local_connections_max: 256,
            connections_per_address_max: 256,
            drain: Duration::from_secs(8),
            coalesce: Coalesce::Any,
        }
    }
}
