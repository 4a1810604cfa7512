//! Key generation, and the expansion of many public keys, over a batch.

use super::expand::{BOUNDED_LEN, bounded, expand_a, s_nonces};
use super::keys::{SigningKey, VerifyKey, encode_public, encode_secret, public_vector};
use super::params::{MU_LEN, Params};
use super::{Scratch, resize, resize_arrays};
use crate::ct;
use crate::error::Status;
use crate::kernels::{Kernels, Sponge, Xof};

/// ML-DSA.KeyGen_internal (FIPS 204, Algorithm 6) of `seeds[lane]` (xi) into `keys[lane]`, whose
/// buffers are used again.
///
/// # Panics
/// If `seeds` and `keys` differ in length.
pub fn keygen<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    seeds: &[[u8; 32]],
    keys: &mut [SigningKey],
    scratch: &mut Scratch,
) {
    assert_eq!(seeds.len(), keys.len(), "one key per seed");
    ct::secret(seeds);
    let lanes = kernels.lanes().max(1);
    for (seeds, keys) in seeds.chunks(lanes).zip(keys.chunks_mut(lanes)) {
        keygen_chunk(kernels, p, seeds, keys, scratch);
    }
    scratch.wipe();
}

fn keygen_chunk<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    seeds: &[[u8; 32]],
    keys: &mut [SigningKey],
    scratch: &mut Scratch,
) {
    let n = seeds.len();
    let s = scratch;
    for (key, seed) in keys.iter_mut().zip(seeds) {
        key.reset(p, Some(*seed));
    }
    // Line 1: (rho, rho', K) = H(xi || k || l, 128).
    let dimensions = [p.k as u8, p.l as u8];
    resize_arrays(&mut s.seeds, n);
    s.jobs.run(
        kernels,
        seeds
            .iter()
            .zip(&mut s.seeds)
            .map(|(xi, out)| Sponge::new(Xof::Shake256, [&xi[..], &dimensions], out)),
    );
    resize_arrays(&mut s.rhos, n);
    for (rho, seed) in s.rhos.iter_mut().zip(&s.seeds) {
        rho.copy_from_slice(&seed[..32]);
    }
    // rho is part of the public key.
    ct::declassify(&s.rhos);

    // Lines 3 and 4: A and (s1, s2), the sponges of all lanes together.
    let per_lane = p.l + p.k;
    resize(&mut s.s_squeezed, n * per_lane * BOUNDED_LEN);
    s_nonces(p, n, &mut s.s_nonces);
    let s_sponges = s
        .s_squeezed
        .chunks_exact_mut(BOUNDED_LEN)
        .zip(&s.s_nonces)
        .enumerate()
        .map(|(i, (out, nonce))| {
            Sponge::new(Xof::Shake256, [&s.seeds[i / per_lane][32..96], nonce], out)
        });
    let buffers = (&mut s.jobs, &mut s.squeezed, &mut s.nonces);
    expand_a(
        kernels,
        p,
        &s.rhos,
        buffers,
        keys,
        SigningKey::public_mut,
        s_sponges,
    );

    // Lines 5 to 8 and 10: t, Power2Round, the encodings.
    resize(&mut s.vectors, 2 * p.l + 3 * p.k);
    let (s1s2, rest) = s.vectors.split_at_mut(per_lane);
    let (s1_hat, rest) = rest.split_at_mut(p.l);
    let (t, t0) = rest.split_at_mut(p.k);
    for (lane, key) in keys.iter_mut().enumerate() {
        let seed = &s.seeds[lane];
        let squeezed = s.s_squeezed[lane * per_lane * BOUNDED_LEN..].chunks_exact(BOUNDED_LEN);
        for ((poly, bytes), nonce) in s1s2.iter_mut().zip(squeezed).zip(&s.s_nonces) {
            bounded(kernels, p, &seed[32..96], nonce, bytes, poly);
        }
        s1_hat.clone_from_slice(&s1s2[..p.l]);
        kernels.dsa_ntt(s1_hat);
        public_vector(
            kernels,
            key.verify_key().a_hat(),
            s1_hat,
            &s1s2[p.l..],
            t,
            t0,
        );
        encode_public(kernels, &s.rhos[lane], t, key.public_mut());
        encode_secret(kernels, p, seed, s1s2, t0, key.bytes_mut());
    }

    // Line 9: tr = H(pk, 64).
    resize_arrays(&mut s.mu, n);
    s.jobs.run(
        kernels,
        keys.iter()
            .zip(&mut s.mu)
            .map(|(key, tr)| tr_sponge(key.verify_key(), tr)),
    );
    for (key, tr) in keys.iter_mut().zip(&s.mu) {
        key.set_tr(tr);
    }
}

/// tr = H(pk, 64) (Algorithm 6, line 9; Algorithm 8, line 6).
fn tr_sponge<'a>(key: &'a VerifyKey, tr: &'a mut [u8; MU_LEN]) -> Sponge<'a> {
    Sponge::new(Xof::Shake256, [key.bytes()], tr)
}

/// Decodes and expands many public keys: `bytes` holds one encoding per key, `keys[lane]` takes
/// what derives from it (A, tr, t1) in its existing buffers. Every encoding of the right length
/// is a public key (pkDecode, Algorithm 23, has nothing to refuse), so each status becomes
/// [`Status::Ok`].
///
/// # Panics
/// If the lengths of `bytes`, `keys` and `status` do not fit each other.
pub fn expand_verify_keys<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [VerifyKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(bytes.len(), keys.len() * p.pk_len(), "one encoding per key");
    assert_eq!(status.len(), keys.len(), "one status per key");
    let lanes = kernels.lanes().max(1);
    let s = scratch;
    for (bytes, keys) in bytes.chunks(lanes * p.pk_len()).zip(keys.chunks_mut(lanes)) {
        resize_arrays(&mut s.rhos, keys.len());
        resize_arrays(&mut s.mu, keys.len());
        for ((key, pk), rho) in keys
            .iter_mut()
            .zip(bytes.chunks_exact(p.pk_len()))
            .zip(&mut s.rhos)
        {
            key.reset(p);
            key.bytes_mut().copy_from_slice(pk);
            rho.copy_from_slice(&pk[..32]);
        }
        let trs = bytes
            .chunks_exact(p.pk_len())
            .zip(&mut s.mu)
            .map(|(pk, tr)| Sponge::new(Xof::Shake256, [pk], tr));
        let buffers = (&mut s.jobs, &mut s.squeezed, &mut s.nonces);
        expand_a(kernels, p, &s.rhos, buffers, keys, |key| key, trs);
        for (key, tr) in keys.iter_mut().zip(&s.mu) {
            key.set_tr(tr);
            key.t1_hat(kernels);
        }
    }
    status.fill(Status::Ok);
}
