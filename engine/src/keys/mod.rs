//! Keys of every kind, and what is done with them.

pub(crate) mod exchange;
pub(crate) mod kem;
pub(crate) mod signature;
