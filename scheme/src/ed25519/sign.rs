//! Signing (RFC 8032, section 5.1.6).

use zeroize::Zeroize;

use super::hash::sha512_many_modulo_l;
use super::{SIGNATURE_LEN, SigningKey};
use crate::ct;
use crate::kernels::Kernels;

/// Signs every message; signing can't fail. `sig[n][64]`.
pub fn sign<K: Kernels + ?Sized>(k: &K, keys: &[&SigningKey], messages: &[&[u8]], sig: &mut [u8]) {
    let prefixed = keys.iter().zip(messages).map(|(key, message)| [&key.prefix[..], message, &[]]);
    let mut nonces = sha512_many_modulo_l(k, prefixed);
    let mut bytes: Vec<_> = nonces.iter().map(|nonce| nonce.to_bytes()).collect();
    let mut commitments = vec![[0; 32]; keys.len()];
    k.ed25519_base_multiples(&bytes, &mut commitments);
    // R is the first half of the signature.
    ct::declassify(&commitments);
    let committed = keys.iter().zip(messages).zip(&commitments);
    let committed =
        committed.map(|((key, message), commitment)| [&commitment[..], &key.public()[..], message]);
    let challenges = sha512_many_modulo_l(k, committed);
    let lanes = keys.iter().zip(challenges).zip(nonces.iter().zip(&commitments));
    for (((key, challenge), (nonce, commitment)), sig) in
        lanes.zip(sig.as_chunks_mut::<SIGNATURE_LEN>().0)
    {
        let mut response = (challenge * key.scalar + nonce).to_bytes();
        // S is the second half of the signature.
        ct::declassify(&response);
        sig[..32].copy_from_slice(commitment);
        sig[32..].copy_from_slice(&response);
        ct::wipe(&mut response);
    }
    nonces.zeroize();
    ct::wipe(&mut bytes);
}
