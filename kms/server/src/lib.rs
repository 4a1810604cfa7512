//! The key management service over HTTP.
//!
//! ```text
//!   listen       sockets, TLS 1.3 by gabion-rustls, limits of connections, drain
//!      |
//!   http/        one request: path --> route --> caller --> body, bounded --> handler, as below --> answer
//!      |         routes: one table of what is served, of which /openapi.json is made
//!      |
//!   api/         handlers, a file for each group: from types of the wire to calls of `gabion-kms` and back
//!      |
//!   lifecycle/   the service behind its seal, and background threads
//!      |
//!   config       the configuration file
//!      |
//!   net/, parse/, blocking    TLS, peers, limits; parts of a request; threads that may block
//!      |
//!   problem, error
//! ```
//!
//! - What computes or waits for a disk runs on threads for that, not on the few that move bytes. A request that is alone,
//!   short and quick is the exception: the thread that read it answers it, and hands its other work on before it does what
//!   takes long. A change that began ends, also when the caller has gone: only the socket is let go.
//! - No lock is held across an await.
//! - Requests are closed types: a field, parameter or path that is not known is refused by name.

#![forbid(unsafe_code)]
#![deny(clippy::await_holding_lock)]

mod api;
mod blocking;
mod certificate;
pub mod config;
pub mod dev;
mod error;
mod http;
mod lifecycle;
mod listen;
mod net;
mod parse;
mod problem;
mod server;

pub use error::Error;
pub use gabion_kms::audit;
pub use gabion_kms::clock::{parse_ms, rfc3339};
pub use gabion_kms::gate::{attenuate_token, expires_ms, token_id};
pub use gabion_kms::json::Unique;
pub use gabion_kms::memory;
pub use gabion_kms::model::KeyAlgorithm;
pub use gabion_kms::seal::{Holder, open_share, parse_holder};
pub use gabion_kms::transport::{default_form, unwrap_key, wrap_key};
pub use lifecycle::seal_setup::{SealSetup, certificate_end_ms, cnf};
pub use lifecycle::seal_state::LogSink;
pub use lifecycle::service_host::ServiceHost;
pub use net::client_certificates::ClientVerifier;
pub use net::options::{Coalesce, Listen, Options};
pub use net::tls::{Files as TlsFiles, Tls};
pub use server::Server;
