//! A key management service as a library: versioned keys in a sealed store, access control, an
//! audit log and backups.
//!
//! ```text
//!   service/      one call for each operation: authenticate, authorize, run, record, check again
//!     |  |  \
//!     |  |   audit/     the audit log: append-only and signed
//!     |  gate/          tokens, caveats and policies
//!     |
//!   operations/   one operation per file: create, import, rotate, sign, encrypt, encaps and their counterparts, attest
//!        |  |  \ \ transport/   keys in transit, wrapped for a public key
//!        |  |   \ symmetric/   keys for encryption and tags, expanded
//!        |  |    model/  names, ids, versions, and their rules: values without side effects
//!        |  seal/        root key --> a key for each record; shares and passphrases that open it
//!        |  |
//!      |  memory/           pages that are excluded from core dumps, child processes and, if possible, swap
//!      store/            records with generations, changed by guarded transactions
//!                          memory | SQLite | either of them with injected faults, and one conformance suite
//! ```
//!
//! The crate is synchronous, opens no sockets and starts no threads, apart from the scoped threads
//! of large batches. A call that began a change completes it: servers must apply timeouts at the
//! socket, not to these calls. docs/internals/kms.md describes the design and what is missing.

#![deny(unsafe_code)]

pub mod audit;
pub mod backup;
pub mod clock;
mod error;
pub mod gate;
pub mod json;
pub mod jwt;
pub mod memory;
pub mod model;
pub mod operations;
pub mod rsa;
pub mod seal;
pub mod service;
mod signable;
pub mod store;
mod symmetric;
mod text;
pub mod transport;

pub use error::{
    AuditError, AuthenticationError, Code, DenialReason, Error, SealError, ShareError,
};
pub use gabion_engine::{Message, Prehash, SharedSecret};
pub use signable::Signable;
