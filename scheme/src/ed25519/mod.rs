//! Ed25519 (RFC 8032, section 5.1; FIPS 186-5, section 7) over whole batches.
//!
//! ```text
//!   sign      r = SHA-512(prefix || M)      [r]B by the kernels      S = r + SHA-512(R || A || M) a
//!   verify    k = SHA-512(R || A || M)      admission of A, R, S     equations by the kernels
//! ```
//!
//! # Rules
//! Verifiers differ in the signatures that they accept: RFC 8032 leaves the cofactor open, and most
//! code decodes more than it should. There are two sets of rules here, under two names.
//! - [`Rules::Strict`] (Ed25519): S below L; A and R canonically encoded and of large order; R equal
//!   to the encoding of `[S]B - [k]A`, without the cofactor.
//! - [`Rules::Zip215`] (Ed25519-ZIP215): S below L; A and R any encoding of any point of the curve;
//!   `[8]([S]B - [k]A - R)` the neutral element. Only these rules allow a batch to be verified by one
//!   equation over random multiples, and its verdicts are those of single verification.
//!
//! Either way a batch and a single signature get the same verdict on every input.

mod encoding;
mod hash;
mod keys;
mod sign;
mod verify;

pub use keys::{SigningKey, VerifyKey, keygen};
pub use sign::sign;
pub use verify::{VerifyKeys, verify, verify_sum};

/// Bytes of a private key as RFC 8032 defines it.
pub const SEED_LEN: usize = 32;
/// Bytes of a public key.
pub const PUBLIC_LEN: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_LEN: usize = 64;

/// The rules that decide whether a signature is valid; see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rules {
    /// RFC 8032 with every check it allows, and without the cofactor.
    #[default]
    Strict,
    /// ZIP 215: with the cofactor, any encoding of any point.
    Zip215,
}
