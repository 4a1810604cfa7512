//! SHA-512 of a batch, and what becomes of the digests.

use curve25519_dalek::scalar::Scalar;

use crate::ct;
use crate::kernels::Kernels;
use crate::kernels::sha512::Sha512;

/// The digests of messages in pieces; to be wiped where they are secret.
pub(super) fn sha512_many<'a, K: Kernels + ?Sized>(
    k: &K,
    messages: impl ExactSizeIterator<Item = [&'a [u8]; 3]>,
) -> Vec<[u8; 64]> {
    let mut digests = vec![[0; 64]; messages.len()];
    let mut jobs: Vec<_> =
        messages.zip(&mut digests).map(|(pieces, digest)| Sha512 { pieces, digest }).collect();
    k.sha512_many(&mut jobs);
    digests
}

/// Hashes messages by SHA-512 and reduces the digests modulo L. The digests are wiped.
pub(super) fn sha512_many_modulo_l<'a, K: Kernels + ?Sized>(
    k: &K,
    messages: impl ExactSizeIterator<Item = [&'a [u8]; 3]>,
) -> Vec<Scalar> {
    let mut digests = sha512_many(k, messages);
    let scalars = digests.iter().map(Scalar::from_bytes_mod_order_wide).collect();
    ct::wipe(digests.as_flattened_mut());
    scalars
}
