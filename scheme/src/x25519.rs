//! X25519 (RFC 7748) over whole batches.

use curve25519_dalek::scalar::{Scalar, clamp_integer};
use zeroize::Zeroize;

use crate::ct;
use crate::error::Status;
use crate::kernels::Kernels;

/// Bytes of a private key, of a public key and of a shared secret.
pub const LEN: usize = 32;

/// Computes the public keys of private ones (RFC 7748, section 6.1). Any 32 bytes are a private
/// key.
pub fn public_keys<K: Kernels + ?Sized>(k: &K, private: &[[u8; LEN]], public: &mut [[u8; LEN]]) {
    let reduced = |key: &[u8; LEN]| {
        let mut clamped = clamp_integer(*key);
        let mut scalar = Scalar::from_bytes_mod_order(clamped);
        let bytes = scalar.to_bytes();
        ct::wipe(&mut clamped);
        scalar.zeroize();
        bytes
    };
    let mut scalars: Vec<_> = private.iter().map(reduced).collect();
    k.x25519_base_multiples(&scalars, public);
    // The public key is public.
    ct::declassify(public);
    ct::wipe(scalars.as_flattened_mut());
}

/// The shared secrets of private keys and of peers' public keys, any 32 bytes each (RFC 7748,
/// section 6.1). A lane ends as [`Status::InvalidKey`] where the peer's key has small order and the
/// secret is all zero.
pub fn derive<K: Kernels + ?Sized>(
    k: &K,
    private: &[[u8; LEN]],
    peers: &[[u8; LEN]],
    shared: &mut [[u8; LEN]],
    status: &mut [Status],
) {
    let mut scalars: Vec<_> = private.iter().map(|key| clamp_integer(*key)).collect();
    k.x25519_multiples(&scalars, peers, shared);
    ct::wipe(scalars.as_flattened_mut());
    for (shared, status) in shared.iter().zip(status) {
        // Whether the secret is all zero depends only on the peer's key, and the peer knows it.
        let is_zero = ct::declassified(ct::eq_mask(shared, &[0; LEN]));
        *status = if is_zero == 0 { Status::Ok } else { Status::InvalidKey };
    }
}
