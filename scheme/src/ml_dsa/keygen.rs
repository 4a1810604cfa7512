//! Key generation, and the expansion of encoded keys, over a batch.

use super::expand::{BOUNDED_LEN, bounded, expand_a, s_nonces};
use super::keys::{
    SecretVectors, SigningKey, TR, VerifyKey, encode_public, encode_secret, public_vector,
    unpack_secret,
};
use super::params::{MU_LEN, Params, SEED_LEN};
use super::{Scratch, resize, resize_arrays, reveal};
use crate::ct;
use crate::error::{Error, Status};
use crate::kernels::{DsaPoly, Kernels, Sponge, Xof};

/// The range of rho' in H(xi || k || l, 128).
const RHO_PRIME: std::ops::Range<usize> = 32..96;

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
    scratch.wipe_of_keys();
}

fn keygen_chunk<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    seeds: &[[u8; 32]],
    keys: &mut [SigningKey],
    s: &mut Scratch,
) {
    for (key, seed) in keys.iter_mut().zip(seeds) {
        key.reset(p, Some(seed));
    }
    // Line 1: (rho, rho', K) = H(xi || k || l, 128).
    let dimensions = [p.k as u8, p.l as u8];
    resize_arrays(&mut s.seeds, seeds.len());
    let outputs = seeds.iter().zip(&mut s.seeds);
    let sponges = outputs.map(|(xi, out)| Sponge::new(Xof::Shake256, [&xi[..], &dimensions], out));
    s.jobs.run(kernels, sponges);
    resize_arrays(&mut s.rhos, seeds.len());
    for (rho, seed) in s.rhos.iter_mut().zip(&s.seeds) {
        rho.copy_from_slice(&seed[..32]);
    }
    // rho is part of the public key.
    ct::declassify(&s.rhos);
    expand_all(kernels, p, keys, s);
    encode_all(kernels, p, keys, s);
    // Line 9: tr = H(pk, 64).
    resize_arrays(&mut s.mu, keys.len());
    let trs = keys.iter().zip(&mut s.mu).map(|(key, tr)| tr_sponge(key.verify_key(), tr));
    s.jobs.run(kernels, trs);
    for (key, tr) in keys.iter_mut().zip(&s.mu) {
        key.set_tr(tr);
    }
}

/// Lines 3 and 4 of Algorithm 6: A into the keys and the bytes of (s1, s2) into the scratch, the
/// sponges of all lanes together.
fn expand_all<K: Kernels>(kernels: &K, p: &Params, keys: &mut [SigningKey], s: &mut Scratch) {
    let per_lane = p.l + p.k;
    resize(&mut s.s_squeezed, keys.len() * per_lane * BOUNDED_LEN);
    s_nonces(p, keys.len(), &mut s.s_nonces);
    let outputs = s.s_squeezed.chunks_exact_mut(BOUNDED_LEN).zip(&s.s_nonces).enumerate();
    let s_sponges = outputs.map(|(i, (out, nonce))| {
        Sponge::new(Xof::Shake256, [&s.seeds[i / per_lane][RHO_PRIME], nonce], out)
    });
    let buffers = (&mut s.jobs, &mut s.a_squeezed, &mut s.nonces);
    expand_a(kernels, p, &s.rhos, buffers, keys, SigningKey::public_mut, s_sponges);
}

/// Lines 5 to 8 and 10 of Algorithm 6: t, Power2Round and the encodings, lane by lane.
fn encode_all<K: Kernels>(kernels: &K, p: &Params, keys: &mut [SigningKey], s: &mut Scratch) {
    let per_lane = p.l + p.k;
    resize(&mut s.vectors, 2 * p.l + 3 * p.k);
    let (s1s2, rest) = s.vectors.split_at_mut(per_lane);
    let (s1_hat, rest) = rest.split_at_mut(p.l);
    let (t1, t0) = rest.split_at_mut(p.k);
    for (lane, key) in keys.iter_mut().enumerate() {
        let seed = &s.seeds[lane];
        let squeezed = s.s_squeezed[lane * per_lane * BOUNDED_LEN..].chunks_exact(BOUNDED_LEN);
        for ((poly, bytes), nonce) in s1s2.iter_mut().zip(squeezed).zip(&s.s_nonces) {
            bounded(kernels, p, &seed[RHO_PRIME], nonce, bytes, poly);
        }
        s1_hat.clone_from_slice(&s1s2[..p.l]);
        kernels.dsa_ntt(s1_hat);
        let a_hat = key.verify_key().a_hat();
        public_vector(kernels, a_hat, s1_hat, &s1s2[p.l..], t1, t0);
        encode_public(kernels, &s.rhos[lane], t1, key.public_mut());
        encode_secret(kernels, p, seed, s1s2, t0, key.bytes_mut());
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
        for ((key, pk), rho) in keys.iter_mut().zip(bytes.chunks_exact(p.pk_len())).zip(&mut s.rhos)
        {
            key.reset(p);
            key.bytes_mut().copy_from_slice(pk);
            rho.copy_from_slice(&pk[..32]);
        }
        let trs = bytes
            .chunks_exact(p.pk_len())
            .zip(&mut s.mu)
            .map(|(pk, tr)| Sponge::new(Xof::Shake256, [pk], tr));
        let buffers = (&mut s.jobs, &mut s.a_squeezed, &mut s.nonces);
        expand_a(kernels, p, &s.rhos, buffers, keys, |key| key, trs);
        for (key, tr) in keys.iter_mut().zip(&s.mu) {
            key.set_tr(tr);
            key.t1_hat(kernels);
        }
    }
    status.fill(Status::Ok);
}

/// Decodes, checks and expands many private keys in expanded form (skDecode, Algorithm 25):
/// `bytes` holds one encoding per key, `keys[lane]` takes what derives from it.
///
/// `status[lane]` becomes [`Status::Ok`], or [`Status::InvalidKey`] for the reasons that
/// [`SigningKey::decode`] names; such a key is wiped.
///
/// # Panics
/// If the lengths of `bytes`, `keys` and `status` do not fit each other.
pub fn expand_signing_keys<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [SigningKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(bytes.len(), keys.len() * p.sk_len(), "one encoding per key");
    assert_eq!(status.len(), keys.len(), "one status per key");
    let lanes = kernels.lanes().max(1);
    let mut refusals = vec![None; lanes];
    for ((bytes, keys), status) in
        bytes.chunks(lanes * p.sk_len()).zip(keys.chunks_mut(lanes)).zip(status.chunks_mut(lanes))
    {
        let refusals = &mut refusals[..keys.len()];
        expand_signing_chunk(kernels, p, bytes, keys, refusals, scratch);
        for (status, refusal) in status.iter_mut().zip(refusals) {
            *status = if refusal.is_none() { Status::Ok } else { Status::InvalidKey };
        }
    }
}

/// [`expand_signing_keys`] for as many keys as there are lanes. `refusals[lane]` says why a key
/// was refused.
pub(super) fn expand_signing_chunk<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [SigningKey],
    refusals: &mut [Option<&'static str>],
    s: &mut Scratch,
) {
    ct::secret(bytes);
    resize_arrays(&mut s.rhos, keys.len());
    for ((key, sk), rho) in keys.iter_mut().zip(bytes.chunks_exact(p.sk_len())).zip(&mut s.rhos) {
        key.reset(p, None);
        key.bytes_mut().copy_from_slice(sk);
        // rho and tr are public: one is part of the public key, the other a hash of it.
        ct::declassify(&key.bytes()[..32]);
        ct::declassify(&key.bytes()[TR]);
        rho.copy_from_slice(&key.bytes()[..32]);
    }
    let buffers = (&mut s.jobs, &mut s.a_squeezed, &mut s.nonces);
    let nobody = std::iter::empty();
    expand_a(kernels, p, &s.rhos, buffers, keys, SigningKey::public_mut, nobody);
    resize(&mut s.vectors, 2 * p.l + 4 * p.k);
    for ((key, refusal), rho) in keys.iter_mut().zip(&mut *refusals).zip(&s.rhos) {
        *refusal = check_vectors(kernels, rho, key, &mut s.vectors).err();
    }
    resize_arrays(&mut s.mu, keys.len());
    let trs = keys.iter().zip(&mut s.mu).map(|(key, tr)| tr_sponge(key.verify_key(), tr));
    s.jobs.run(kernels, trs);
    for ((key, tr), refusal) in keys.iter_mut().zip(&s.mu).zip(refusals) {
        if refusal.is_none() && key.bytes()[TR] != *tr {
            *refusal = Some("tr is not the hash of the public key");
        }
        match refusal {
            None => key.set_tr(tr),
            Some(_) => key.reset(p, None),
        }
    }
    s.wipe_of_keys();
}

/// The checks of one private key but for tr; enters its secret vectors and its public key.
/// `work` has `2 l + 4 k` polynomials.
fn check_vectors<K: Kernels>(
    kernels: &K,
    rho: &[u8; 32],
    key: &mut SigningKey,
    work: &mut [DsaPoly],
) -> Result<(), &'static str> {
    let p = key.params();
    let (secret, work) = work.split_at_mut(p.l + 2 * p.k);
    unpack_secret(kernels, p, key.bytes(), secret);
    let (s1s2, t0_given) = secret.split_at(p.l + p.k);
    // Algorithm 25 may yield values out of range from bytes that skEncode never made.
    if !reveal(kernels.dsa_norm_below(s1s2, p.eta as i32 + 1)) {
        return Err("a coefficient of s1 or s2 is out of range");
    }
    let (s1_hat, rest) = work.split_at_mut(p.l);
    let (t1, t0) = rest.split_at_mut(p.k);
    s1_hat.clone_from_slice(&s1s2[..p.l]);
    kernels.dsa_ntt(s1_hat);
    public_vector(kernels, key.verify_key().a_hat(), s1_hat, &s1s2[p.l..], t1, t0);
    // The same t0 and nothing else: the difference has norm 0.
    kernels.dsa_sub(t0, t0_given);
    if !reveal(kernels.dsa_norm_below(t0, 1)) {
        return Err("t0 does not follow from rho, s1 and s2");
    }
    encode_public(kernels, rho, t1, key.public_mut());
    key.set_vectors(SecretVectors::new(kernels, s1s2, t0_given));
    Ok(())
}

impl VerifyKey {
    /// Decodes and expands one public key (pkDecode, Algorithm 23).
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn decode<K: Kernels>(
        kernels: &K,
        p: &'static Params,
        bytes: &[u8],
    ) -> Result<Self, Error> {
        Error::check_length("public key", p.pk_len(), bytes)?;
        let mut key = [VerifyKey::blank(p)];
        let mut status = [Default::default()];
        expand_verify_keys(kernels, p, bytes, &mut key, &mut status, &mut Scratch::new());
        let [key] = key;
        Ok(key)
    }
}

impl SigningKey {
    /// The key of a seed xi (KeyGen_internal, Algorithm 6).
    pub fn from_seed<K: Kernels>(kernels: &K, p: &'static Params, seed: &[u8; SEED_LEN]) -> Self {
        let mut key = [SigningKey::blank(p)];
        keygen(kernels, p, std::slice::from_ref(seed), &mut key, &mut Scratch::new());
        let [key] = key;
        key
    }

    /// Decodes an expanded private key (skDecode, Algorithm 25) and recomputes its public key.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::PrivateKey`] if a coefficient of s1 or s2 is out of range, or
    /// if t0 or tr are not those that follow from rho, s1 and s2.
    pub fn decode<K: Kernels>(
        kernels: &K,
        p: &'static Params,
        bytes: &[u8],
    ) -> Result<Self, Error> {
        Error::check_length("private key", p.sk_len(), bytes)?;
        let mut key = [SigningKey::blank(p)];
        let mut refusal = [None];
        expand_signing_chunk(kernels, p, bytes, &mut key, &mut refusal, &mut Scratch::new());
        let [key] = key;
        match refusal {
            [None] => Ok(key),
            [Some(reason)] => Err(refused(p, reason)),
        }
    }

    /// A key that came both as seed and expanded.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::PrivateKey`] if the two disagree.
    pub fn decode_both<K: Kernels>(
        kernels: &K,
        p: &'static Params,
        seed: &[u8; SEED_LEN],
        bytes: &[u8],
    ) -> Result<Self, Error> {
        Error::check_length("private key", p.sk_len(), bytes)?;
        ct::secret(bytes);
        let key = SigningKey::from_seed(kernels, p, seed);
        if !reveal(ct::eq_mask(key.bytes(), bytes) != 0) {
            return Err(refused(p, "the seed and the expanded key disagree"));
        }
        Ok(key)
    }
}

fn refused(p: &Params, reason: &'static str) -> Error {
    Error::PrivateKey { algorithm: p.name(), reason }
}
