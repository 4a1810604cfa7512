//! SHA-256 and SHA-512: on lanes, by the SHA extensions, and one message alone.

pub(super) mod pieces;
pub(super) mod sha256;
pub(super) mod sha256_lanes;
pub(super) mod sha512;
pub(super) mod sha512_one;
