//! Requests and responses of the key management service as types, with their JSON Schema.
//!
//! ```text
//!   native   types of /v1/kms
//!   transit  types of Vault's Transit API
//!   schema   the JSON Schema of each type, from which the server's OpenAPI description is generated
//!   text     base64 and PEM
//! ```
//!
//! The crate opens no sockets and does not depend on TLS. The server and the client share it.

#![forbid(unsafe_code)]

#[macro_use]
mod describe;

pub mod native;
mod period;
pub mod schema;
mod secret;
mod text;
pub mod transit;
mod versioned_bytes;

pub use period::parse_seconds;
pub use secret::Secret;
pub use text::{decode, decode_pem, decode_url, encode, encode_url};
pub use versioned_bytes::VersionedBytes;
