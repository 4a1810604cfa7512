//! Where a server listens, and how it is set up.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::tls::Tls;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TLS 1.3 at an address. Port 0: any that is free.
    Tls(SocketAddr),
    /// A socket of this machine, which its owner alone may use.
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

/// Whose requests are run together that are there at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coalesce {
    /// Anybody's.
    #[default]
    Any,
    /// Those of a tenant, and nobody else's: what another tenant asks for at the same time is in no answer's time.
    Tenant,
    /// Nobody's.
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

/// How a server is set up.
#[derive(Clone)]
pub struct Options {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Its certificate; [`Listen::Tls`] needs it.
    pub tls: Option<Arc<Tls>>,
    /// CLOCK_MONOTONIC in microseconds, which systemd is told at a reload. Without it nobody is told of reloads.
    pub monotonic_us: Option<fn() -> u64>,
    /// Most bytes of a request's body.
    pub body_max: usize,
    /// Most bytes of a body that is a message itself, and comes in pieces.
    pub stream_max: u64,
    /// Most of those at a time, of more than `body_max` bytes or of a size that nobody said.
    pub streams_max: usize,
    /// Most of those at a time of one tenant.
    pub streams_per_tenant_max: usize,
    /// Most connections at a time that come by [`Listen::Tls`]. More of them wait.
    pub connections_max: usize,
    /// Most connections at a time that come by [`Listen::Unix`]. More of them wait, for each other alone.
    pub local_connections_max: usize,
    /// Most connections of one address, or of one network of version 6 (64 bits). The next one is hung up on.
    pub connections_per_address_max: usize,
    /// How long requests may take that are there when it ends.
    pub drain: Duration,
    /// Whose requests are run together.
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
