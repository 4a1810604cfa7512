//! Signing (RFC 8032, section 5.1.6).

use zeroize::Zeroize;

use super::hash::sha512_modulo_l;
use super::{SIGNATURE_LEN, SigningKey};
use crate::ct;
use crate::kernels::Kernels;

/// Signs every message; signing can't fail. `sig[n][64]`.
pub fn sign<K: Kernels + ?Sized>(k: &K, keys: &[&SigningKey], messages: &[&[u8]], sig: &mut [u8]) {
    let mut nonces: Vec<_> = keys
        .iter()
        .zip(messages)
        .map(|(key, message)| sha512_modulo_l(&[&key.prefix, message]))
        .collect();
    let mut bytes: Vec<_> = nonces.iter().map(|nonce| nonce.to_bytes()).collect();
    let mut commitments = vec![[0; 32]; keys.len()];
    k.ed25519_base_multiples(&bytes, &mut commitments);
    // R is the first half of the signature.
    ct::declassify(&commitments);
    let lanes = keys.iter().zip(messages).zip(nonces.iter().zip(&commitments));
    for (((key, message), (nonce, commitment)), sig) in
        lanes.zip(sig.as_chunks_mut::<SIGNATURE_LEN>().0)
    {
        let challenge = sha512_modulo_l(&[commitment, key.public(), message]);
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
