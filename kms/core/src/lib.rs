//! Keys with versions behind one store: what a key management service does, without its socket.
//!
//! ```text
//!   service/      one call a verb: who, may they, do it, tell of it, may they still
//!     |  |  \
//!     |  |   audit/     what was done: a log that only grows, signed
//!     |  gate/          tokens, caveats: who may do what
//!     |
//!   operations/   one verb a file: create, import, rotate, sign, encrypt, encaps and their counterparts, attest, changes
//!        |  |  \ \ transport/   keys on their way, wrapped for a public key
//!        |  |   \ symmetric/   keys that encrypt or make tags, ready to be used
//!        |  |    model/  names, ids, versions, and what may be done with which: values, no effects
//!        |  seal/        root key --> a key for each record; shares and passphrases that open it
//!        |  |
//!      |  memory/           pages that are in no core dump, no child and, where that may be, on no swap
//!      store/            records with generations, changed by guarded transactions
//!                          memory | SQLite | either of them under seeded faults, and one suite for all
//! ```
//!
//! Nothing here is asynchronous, opens a socket or starts a thread. A call that began a change ends it: whoever
//! serves this over a network stops waiting at the socket, never within. docs/internals/kms.md says what there is and what is
//! not there yet.

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
