//! The HTTP server of the key management service.
//!
//! ```text
//!   listen       sockets, TLS 1.3 by gabion-rustls, connection limits, drain
//!      |
//!   http/        one request: path --> route --> caller --> body, bounded --> handler, as below --> answer
//!      |         routes: one table of all endpoints, from which /openapi.json is generated
//!      |
//!   api/         handlers, a file for each group: from wire types to calls of `gabion-kms` and back
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
//! - Computations and waits for a disk run on blocking threads, not on the few threads that move
//!   bytes. A single short and quick request is the exception: the thread that read it answers it,
//!   and hands its other work over before it does anything slow. A change that began completes,
//!   even if the client disconnects: only the socket is closed.
//! - No lock is held across an await.
//! - Requests are closed types: unknown fields, parameters and paths are rejected by name.

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
