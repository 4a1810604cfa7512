//! Requests and answers of the key management service as types, with their JSON Schema.
//!
//! ```text
//!   native   types of /v1/kms
//!   transit  types of Vault's paths
//!   schema   the JSON Schema of each type, which the server's OpenAPI is made of
//!   text     base64 and PEM
//! ```
//!
//! The crate opens no socket and depends on no TLS: the server and the client share it.

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
