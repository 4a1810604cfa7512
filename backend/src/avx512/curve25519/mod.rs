//! Curve25519 in all its forms: fields, points, and what Ed25519 and X25519 make of them.

pub(super) mod ed25519;
mod ed25519_one_vartime;
pub(super) mod ed25519_vartime;
mod edwards;
mod edwards_quad_vartime;
mod field25519;
mod half_size_vartime;
mod quad25519;
pub(super) mod x25519;
mod x25519_one;
