//! A blocking client of the key management service, without an async runtime or threads.
//!
//! ```text
//!   client  a call --> connection (kept; TLS 1.3 by gabion-rustls, or a Unix socket) --> http --> response or error
//!   address the service's addresses
//! ```
//!
//! Requests and responses are types of `gabion-kms-wire`.
//!
//! # Examples
//! ```no_run
//! use gabion_kms_client::native::{CreateKey, Sign};
//! use gabion_kms_client::{Client, Settings};
//!
//! let client = Client::new(&Settings::from_environment()?)?;
//! client.create(&CreateKey { name: "release".into(), algorithm: "ml-dsa-65".into(), ..CreateKey::default() })?;
//! let signed = client.sign(&Sign { message: Some("aW1hZ2U=".into()), ..Sign::by("release") })?;
//! println!("{} by version {}", signed.signature, signed.version);
//! # Ok::<(), gabion_kms_client::Error>(())
//! ```

#![forbid(unsafe_code)]

mod address;
mod client;
mod connection;
mod error;
mod http;

pub use address::Address;
pub use client::{Client, Settings, StreamRequest};
pub use error::Error;
pub use gabion_kms_wire::native;
