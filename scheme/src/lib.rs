//! The standards' flow, written once over kernels that a backend supplies.
//!
//! ```text
//!            engine / backend                        this crate
//!   batch ----------------------> ml_kem, ml_dsa  (FIPS 203, FIPS 204: who hashes what, in which order)
//!                                      |
//!                                      v
//!                                  Kernels        (many sponges, many NTTs, packing: one instruction set)
//! ```
//!
//! - [`algorithms`]: every name, OID, codepoint and size, as one table.
//! - [`kernels`]: the seam to an instruction set.
//! - [`ml_kem`], [`ml_dsa`]: the flows, over whole batches; a single operation is a batch of one.
//! - [`lms`]: LMS and HSS, which sign with an index that the caller hands over.
//! - [`xmss`]: XMSS and XMSS^MT, which sign the same way.
//! - [`fn_dsa`]: FN-DSA and Falcon over the crates that compute them.
//! - [`composite`], [`rsa`]: composite ML-DSA signatures, and their RSA.
//! - [`ct`]: constant-time selection and comparison, and the marks where a value becomes public.
//!
//! No flow draws randomness: the caller hands it over, drawn once for a batch.

#![deny(unsafe_code)]

pub mod algorithms;
pub mod composite;
pub mod ct;
pub mod ed25519;
pub mod error;
pub mod fn_dsa;
mod hbs;
pub mod identity;
pub mod kernels;
pub mod lms;
pub mod message;
pub mod ml_dsa;
pub mod ml_kem;
mod poly;
pub mod prehash;
pub mod room;
pub mod rsa;
pub mod slh_dsa;
pub mod x25519;
pub mod xmss;

pub use algorithms::Algorithm;
pub use error::{Error, Status};
