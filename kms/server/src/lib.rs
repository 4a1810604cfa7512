//! The key management service over HTTP.
//!
//! ```text
//!   listen   sockets, TLS 1.3 by gabion-rustls, limits of connections, drain
//!      |
//!   http     one request: path --> route --> caller --> body, bounded --> handler, as below --> answer
//!      |
//!   routes   one table: what is served, and what /openapi.json says of it
//!      |
//!   api/     handlers, a file for each group: from types of the wire to calls of `gabion-kms` and back
//!      |
//!   keeper   the service behind its seal
//! ```
//!
//! - What computes or waits for a disk runs on threads for that, not on the few that move bytes. A request that is alone,
//!   short and quick is the exception: the thread that read it answers it, and hands its other work on before it does what
//!   takes long. A change that began ends, also when the caller has gone: only the socket is let go.
//! - No lock is held across an await.
//! - Requests are closed types: a field, parameter or path that is not known is refused by name.

#![forbid(unsafe_code)]
#![deny(clippy::await_holding_lock)]

mod administrator_warning;
mod api;
mod aside;
mod attempts;
mod backups;
mod body;
mod budget;
mod certificate;
mod clients;
pub mod config;
mod copies;
pub mod dev;
mod error;
mod headers;
mod http;
mod json;
mod keeper;
mod listen;
mod making;
mod metrics;
mod notify;
mod openapi;
mod options;
mod panics;
mod patience;
mod peers;
mod pending;
mod places;
mod problem;
mod query;
mod release;
mod rotation;
mod routes;
mod server;
mod state;
mod stream_places;
mod streams;
mod tls;
mod tls_files;
mod together;
mod tokens;
mod trace;
mod wrapped;

pub use clients::Clients;
pub use error::Error;
pub use gabion_kms::audit;
use gabion_kms::clock;
pub use gabion_kms::clock::{parse_ms, rfc3339};
pub use gabion_kms::json::Unique;
pub use gabion_kms::memory;
pub use gabion_kms::model::KeyAlgorithm;
pub use gabion_kms::seal::Holder;
pub use keeper::{Initial, Keeper, Tell, certificate_end_ms, cnf};
pub use options::{Coalesce, Listen, Options};
pub use server::Server;
pub use tls::{Files as TlsFiles, Tls};
pub use tokens::{attenuated, expires_ms, token_id};
pub use wrapped::{holder, opened_share, unwrapped, usual_form, wrapped};
