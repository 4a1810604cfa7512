//! KeyGen, Encaps and Decaps over batches.

use super::keys::{DecapsKey, EncapsKey, parse_matrix, push_matrix_jobs, push_uniform_jobs};
use super::scratch::Scratch;
use super::{ETA2, Params, SECRET_LEN, SEED_LEN, SIDE_BY_SIDE};
use crate::ct;
use crate::kernels::kem::{KemNoise, UNIFORM_LEN};
use crate::kernels::{KemPoly, Kernels, Sponge, Xof};

/// The index bytes of the PRF (FIPS 203, equation 4.3).
static PRF_INDEX: [[u8; 1]; 16] =
    [[0], [1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11], [12], [13], [14], [15]];

/// Makes the first `len` items of a buffer available, with arbitrary contents.
fn room<T: Clone + Default + ct::Wipe>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    ct::resize(buffer, len, T::default());
    buffer
}

fn room_arrays<const N: usize>(buffer: &mut Vec<[u8; N]>, len: usize) -> &mut [[u8; N]] {
    ct::resize(buffer, len, [0; N]);
    buffer
}

/// Key generation from seeds (d, z): ML-KEM.KeyGen_internal (FIPS 203, Algorithm 16), one key a
/// seed, encoded and expanded.
///
/// # Panics
/// If `seeds` and `keys` differ in length (misuse).
pub fn keygen<K: Kernels>(
    k: &K,
    p: &'static Params,
    seeds: &[[u8; SEED_LEN]],
    keys: &mut [DecapsKey],
    scratch: &mut Scratch,
) {
    assert_eq!(seeds.len(), keys.len(), "one seed a key");
    k_pke_keygen(k, p, seeds, scratch, |lane, made| {
        let key = &mut keys[lane];
        let encaps = &mut key.encaps;
        made.encode(k, p, &mut encaps.bytes, &mut key.bytes);
        for (i, row) in made.a.chunks_exact(p.k).enumerate() {
            for (j, entry) in row.iter().enumerate() {
                encaps.matrix[j * p.k + i].clone_from(entry);
            }
        }
        encaps.matrix[p.k * p.k..].clone_from_slice(made.t_hat);
        ct::declassify(&encaps.matrix); // As public as its encoding.
        key.s_hat.clone_from_slice(made.s_hat);
        key.seed = Some(Box::new(seeds[lane]));
    });
    let mut jobs: Vec<Sponge<'_>> = keys
        .iter_mut()
        .map(|key| Sponge::new(Xof::Sha3_256, [&key.encaps.bytes[..]], &mut key.encaps.hash))
        .collect();
    k.sponge_many(&mut jobs);
    drop(jobs);
    for (key, seed) in keys.iter_mut().zip(seeds) {
        let hash_at = p.dk_len() - 64;
        key.bytes[hash_at..hash_at + 32].copy_from_slice(&key.encaps.hash);
        key.bytes[hash_at + 32..].copy_from_slice(&seed[32..]);
        key.encaps.set_expanded(true);
    }
}

impl DecapsKey {
    /// Makes the key pair of a seed (d, z): ML-KEM.KeyGen_internal (FIPS 203, Algorithm 16).
    pub fn from_seed<K: Kernels>(k: &K, params: &'static Params, seed: &[u8; SEED_LEN]) -> Self {
        let mut key = DecapsKey::blank(params);
        let (seeds, keys) = (std::slice::from_ref(seed), std::slice::from_mut(&mut key));
        keygen(k, params, seeds, keys, &mut Scratch::default());
        key
    }
}

/// Key generation like [`keygen`], encoded only: `ek[lane][ek_len]`, `dk[lane][dk_len]`.
///
/// # Panics
/// If the lengths of the arguments do not fit each other (misuse).
pub fn keygen_encoded<K: Kernels>(
    k: &K,
    p: &Params,
    seeds: &[[u8; SEED_LEN]],
    ek: &mut [u8],
    dk: &mut [u8],
    scratch: &mut Scratch,
) {
    let n = seeds.len();
    assert!(ek.len() == n * p.ek_len() && dk.len() == n * p.dk_len(), "one slot a seed");
    let mut slots = ek.chunks_exact_mut(p.ek_len()).zip(dk.chunks_exact_mut(p.dk_len()));
    k_pke_keygen(k, p, seeds, scratch, |_, made| {
        if let Some((ek, dk)) = slots.next() {
            made.encode(k, p, ek, dk);
        }
    });
    let mut jobs = Vec::with_capacity(n);
    let lanes = ek.chunks_exact(p.ek_len()).zip(dk.chunks_exact_mut(p.dk_len()));
    for ((ek, dk), seed) in lanes.zip(seeds) {
        let (hash, z) = dk[p.dk_len() - 64..].split_at_mut(32);
        jobs.push(Sponge::new(Xof::Sha3_256, [ek], hash));
        z.copy_from_slice(&seed[32..]);
    }
    k.sponge_many(&mut jobs);
}

/// Generates the encapsulation keys alone, for callers that store seeds as private keys (FIPS 203,
/// section 3.3): `ek[lane][ek_len]`.
///
/// # Panics
/// If the lengths of the arguments do not fit each other (misuse).
pub fn publish<K: Kernels>(
    k: &K,
    p: &Params,
    seeds: &[[u8; SEED_LEN]],
    ek: &mut [u8],
    scratch: &mut Scratch,
) {
    assert!(ek.len() == seeds.len() * p.ek_len(), "one slot a seed");
    let mut slots = ek.chunks_exact_mut(p.ek_len());
    k_pke_keygen(k, p, seeds, scratch, |_, made| {
        if let Some(ek) = slots.next() {
            made.encode_public(k, p, ek);
        }
    });
}

/// The outputs of K-PKE.KeyGen for one seed.
struct KeyPairParts<'a> {
    rho: &'a [u8],
    /// `[row][column]`.
    a: &'a [KemPoly],
    s_hat: &'a [KemPoly],
    t_hat: &'a [KemPoly],
}

impl KeyPairParts<'_> {
    /// Encodes lines 19 and 20 of Algorithm 13, and the part of line 3 of Algorithm 16 that depends
    /// on them: all of the decapsulation key but its last 64 bytes, H(ek) and z.
    fn encode<K: Kernels>(&self, k: &K, p: &Params, ek: &mut [u8], dk: &mut [u8]) {
        self.encode_public(k, p, ek);
        let (s_part, rest) = dk.split_at_mut(384 * p.k);
        k.kem_encode12(self.s_hat, s_part);
        rest[..p.ek_len()].copy_from_slice(ek);
    }

    /// Algorithm 13, line 19.
    fn encode_public<K: Kernels>(&self, k: &K, p: &Params, ek: &mut [u8]) {
        let (t_part, rho_part) = ek.split_at_mut(384 * p.k);
        k.kem_encode12(self.t_hat, t_part);
        rho_part.copy_from_slice(self.rho);
        ct::declassify(ek); // The public key.
    }
}

/// K-PKE.KeyGen (FIPS 203, Algorithm 13) of the first half of each seed; hands each lane to `each`
/// before it is encoded.
fn k_pke_keygen<K: Kernels>(
    k: &K,
    p: &Params,
    seeds: &[[u8; SEED_LEN]],
    scratch: &mut Scratch,
    mut each: impl FnMut(usize, &KeyPairParts<'_>),
) {
    let n = seeds.len();
    for seed in seeds {
        ct::secret(seed);
    }
    // Line 1: (rho, sigma) = G(d || k).
    let rank = [p.k as u8];
    let g = room_arrays(&mut scratch.g, n);
    let mut jobs: Vec<Sponge<'_>> = seeds
        .iter()
        .zip(g.iter_mut())
        .map(|(seed, out)| Sponge::new(Xof::Sha3_512, [&seed[..32], &rank], out))
        .collect();
    k.sponge_many(&mut jobs);
    for pair in g.iter() {
        ct::declassify(&pair[..32]); // rho is part of the public key.
    }
    // One lane at a time from A to t_hat, so that its polynomials stay in the first-level cache.
    let t_hat = room(&mut scratch.product, p.k);
    for (block, pairs) in g.chunks(SIDE_BY_SIDE).enumerate() {
        let a = room(&mut scratch.matrix, pairs.len() * p.k * p.k);
        let hat = room(&mut scratch.hat, pairs.len() * 2 * p.k);
        if pairs.len() < SIDE_BY_SIDE {
            sample_few(k, p, pairs, (&mut scratch.squeezed, &mut scratch.prf), a, hat);
        } else {
            sample_many(k, p, pairs, a, hat);
        }
        // Lines 16 to 18: t_hat = A s_hat + e_hat.
        let lanes = a.chunks_exact(p.k * p.k).zip(hat.chunks_exact_mut(2 * p.k));
        for (lane, (pair, (a, hat))) in pairs.iter().zip(lanes).enumerate() {
            k.kem_ntt(hat);
            let (s_hat, e_hat) = hat.split_at(p.k);
            k.kem_matvec(t_hat, a, s_hat);
            k.kem_to_mont(t_hat);
            k.kem_add(t_hat, e_hat);
            each(block * SIDE_BY_SIDE + lane, &KeyPairParts { rho: &pair[..32], a, s_hat, t_hat });
        }
    }
    scratch.wipe();
}

/// Lines 3 to 15 of K-PKE.KeyGen: A, s and e of each (rho, sigma), whose sponges share lanes.
fn sample_few<K: Kernels>(
    k: &K,
    p: &Params,
    pairs: &[[u8; 64]],
    (squeezed, prf): (&mut Vec<u8>, &mut Vec<u8>),
    a: &mut [KemPoly],
    noise: &mut [KemPoly],
) {
    let (entries, len) = (p.k * p.k, 64 * p.eta1);
    let squeezed = room(squeezed, pairs.len() * entries * UNIFORM_LEN);
    let prf = room(prf, pairs.len() * 2 * p.k * len);
    let mut jobs = Vec::with_capacity(pairs.len() * (entries + 2 * p.k));
    push_matrix_jobs(p, false, pairs.iter().map(|pair| &pair[..32]), squeezed, &mut jobs);
    for (pair, part) in pairs.iter().zip(prf.chunks_exact_mut(2 * p.k * len)) {
        push_prf_jobs(&pair[32..], 0, part, len, &mut jobs);
    }
    k.sponge_many(&mut jobs);
    drop(jobs);
    k.kem_cbd(p.eta1, prf, noise);
    let lanes = a.chunks_exact_mut(entries).zip(squeezed.chunks_exact(entries * UNIFORM_LEN));
    for (pair, (a, squeezed)) in pairs.iter().zip(lanes) {
        parse_matrix(k, p, false, &pair[..32], squeezed, a);
    }
}

/// Samples without combining matrix and noise in one call, because each kind fills the lanes.
fn sample_many<K: Kernels>(
    k: &K,
    p: &Params,
    pairs: &[[u8; 64]],
    a: &mut [KemPoly],
    noise: &mut [KemPoly],
) {
    let mut jobs = Vec::with_capacity(a.len());
    for (pair, a) in pairs.iter().zip(a.chunks_exact_mut(p.k * p.k)) {
        push_uniform_jobs(p, false, halves(pair)[0], a, &mut jobs);
    }
    k.kem_sample_ntt_vartime(&mut jobs);
    let mut jobs = Vec::with_capacity(noise.len());
    push_noise_jobs(0, pairs, noise, &mut jobs);
    k.kem_sample_cbd(p.eta1, &mut jobs);
}

/// The halves of an output of G.
fn halves(pair: &[u8; 64]) -> [&[u8; 32]; 2] {
    let (halves, _) = pair.as_chunks::<32>();
    [&halves[0], &halves[1]]
}

/// Adds as many polynomials of noise from the second half of each pair, from index `first` on.
fn push_noise_jobs<'a>(
    first: usize,
    pairs: &'a [[u8; 64]],
    noise: &'a mut [KemPoly],
    jobs: &mut Vec<KemNoise<'a>>,
) {
    let each = noise.len() / pairs.len();
    for (pair, noise) in pairs.iter().zip(noise.chunks_exact_mut(each)) {
        let seed = halves(pair)[1];
        for (out, [index]) in noise.iter_mut().zip(&PRF_INDEX[first..]) {
            jobs.push(KemNoise { seed, index: *index, out });
        }
    }
}

/// Adds the sponges PRF(seed, first), PRF(seed, first + 1), .. that fill `out`, `len` bytes each.
fn push_prf_jobs<'a>(
    seed: &'a [u8],
    first: usize,
    out: &'a mut [u8],
    len: usize,
    jobs: &mut Vec<Sponge<'a>>,
) {
    for (part, index) in out.chunks_exact_mut(len).zip(&PRF_INDEX[first..]) {
        jobs.push(Sponge::new(Xof::Shake256, [seed, index], part));
    }
}

/// Encapsulation with given randomness: ML-KEM.Encaps_internal (FIPS 203, Algorithm 17).
///
/// Shapes: `keys[lane]`, `m[lane]`, `ct[lane][ct_len]` contiguous, `shared[lane]`. All keys are of
/// parameter set `p`.
///
/// # Panics
/// If the lengths of the arguments do not fit each other (misuse).
pub fn encaps<K: Kernels>(
    k: &K,
    p: &Params,
    keys: &[&EncapsKey],
    m: &[[u8; SECRET_LEN]],
    ct: &mut [u8],
    shared: &mut [[u8; SECRET_LEN]],
    scratch: &mut Scratch,
) {
    let n = keys.len();
    assert!(m.len() == n && shared.len() == n && ct.len() == n * p.ct_len(), "one slot a lane");
    for message in m {
        ct::secret(message);
    }
    // Line 1: (K, r) = G(m || H(ek)).
    let mut g = std::mem::take(&mut scratch.g);
    let pairs = room_arrays(&mut g, n);
    let mut jobs: Vec<Sponge<'_>> = (keys.iter().zip(m).zip(pairs.iter_mut()))
        .map(|((key, message), out)| Sponge::new(Xof::Sha3_512, [message, &key.hash], out))
        .collect();
    k.sponge_many(&mut jobs);
    drop(jobs);
    encrypt(k, p, keys, m, pairs, scratch, |lane, made| {
        made.encode(k, p, &mut ct[lane * p.ct_len()..(lane + 1) * p.ct_len()]);
    });
    ct::declassify(ct); // A ciphertext is public.
    for (secret, pair) in shared.iter_mut().zip(pairs.iter()) {
        secret.copy_from_slice(&pair[..32]);
    }
    scratch.g = g;
    scratch.wipe();
}

/// The outputs of K-PKE.Encrypt for one lane, before compression.
struct CiphertextParts<'a> {
    u: &'a [KemPoly],
    v: &'a [KemPoly],
}

impl CiphertextParts<'_> {
    /// Algorithm 14, lines 22 and 23.
    fn encode<K: Kernels>(&self, k: &K, p: &Params, out: &mut [u8]) {
        let (u_out, v_out) = out.split_at_mut(p.u_len());
        k.kem_compress(p.du, self.u, u_out);
        k.kem_compress(p.dv, self.v, v_out);
    }
}

/// K-PKE.Encrypt (FIPS 203, Algorithm 14) with r in the second half of each pair; hands each lane to
/// `each` before it is encoded.
fn encrypt<K: Kernels>(
    k: &K,
    p: &Params,
    keys: &[&EncapsKey],
    m: &[[u8; 32]],
    pairs: &[[u8; 64]],
    scratch: &mut Scratch,
    mut each: impl FnMut(usize, &CiphertextParts<'_>),
) {
    let product = room(&mut scratch.product, p.k + 1);
    let mut mu = [KemPoly::default()];
    let blocks = keys.chunks(SIDE_BY_SIDE).zip(m.chunks(SIDE_BY_SIDE));
    for (block, ((keys, m), pairs)) in blocks.zip(pairs.chunks(SIDE_BY_SIDE)).enumerate() {
        // Lines 9 to 18: y from PRF_eta1, e1 and e2 from PRF_eta2.
        let y_hat = room(&mut scratch.hat, keys.len() * p.k);
        let e = room(&mut scratch.noise, keys.len() * (p.k + 1));
        if p.eta1 != ETA2 && keys.len() < SIDE_BY_SIDE {
            sample_few_for_encrypt(k, p, pairs, &mut scratch.prf, y_hat, e);
        } else {
            let mut jobs = Vec::with_capacity(y_hat.len() + e.len());
            push_noise_jobs(0, pairs, y_hat, &mut jobs);
            if p.eta1 != ETA2 {
                k.kem_sample_cbd(p.eta1, &mut jobs);
                jobs.clear();
            }
            push_noise_jobs(p.k, pairs, e, &mut jobs);
            k.kem_sample_cbd(ETA2, &mut jobs);
        }
        k.kem_ntt(y_hat);
        let noise = y_hat.chunks_exact(p.k).zip(e.chunks_exact(p.k + 1));
        for (lane, ((key, message), (y_hat, e))) in keys.iter().zip(m).zip(noise).enumerate() {
            k.kem_decompress(1, message, &mut mu); // Line 20.
            // Lines 19 and 21: u = NTT^-1(A^T y) + e1, v = NTT^-1(t^T y) + e2 + mu.
            k.kem_matvec(product, &key.matrix, y_hat);
            k.kem_inv_ntt(product);
            k.kem_add(product, e);
            let (u, v) = product.split_at_mut(p.k);
            k.kem_add(v, &mu);
            each(block * SIDE_BY_SIDE + lane, &CiphertextParts { u, v });
        }
    }
    ct::wipe(&mut mu);
}

/// Lines 9 to 17 of K-PKE.Encrypt for a few lanes, whose sponges share those of the kernels.
fn sample_few_for_encrypt<K: Kernels>(
    k: &K,
    p: &Params,
    pairs: &[[u8; 64]],
    prf: &mut Vec<u8>,
    y: &mut [KemPoly],
    e: &mut [KemPoly],
) {
    let (n, y_len, e_len) = (pairs.len(), 64 * p.eta1, 64 * ETA2);
    let prf = room(prf, n * (p.k * y_len + (p.k + 1) * e_len));
    let (y_prf, e_prf) = prf.split_at_mut(n * p.k * y_len);
    let mut jobs = Vec::with_capacity(n * (2 * p.k + 1));
    for (pair, part) in pairs.iter().zip(y_prf.chunks_exact_mut(p.k * y_len)) {
        push_prf_jobs(&pair[32..], 0, part, y_len, &mut jobs);
    }
    for (pair, part) in pairs.iter().zip(e_prf.chunks_exact_mut((p.k + 1) * e_len)) {
        push_prf_jobs(&pair[32..], p.k, part, e_len, &mut jobs);
    }
    k.sponge_many(&mut jobs);
    drop(jobs);
    k.kem_cbd(p.eta1, y_prf, y);
    k.kem_cbd(ETA2, e_prf, e);
}

/// Decapsulation: ML-KEM.Decaps_internal (FIPS 203, Algorithm 18).
///
/// Shapes as in [`encaps`]. A ciphertext that does not decrypt to itself gives the pseudo-random
/// secret of line 7 (implicit rejection); that is no error and takes the same time.
///
/// # Panics
/// If the lengths of the arguments do not fit each other (misuse).
pub fn decaps<K: Kernels>(
    k: &K,
    p: &Params,
    keys: &[&DecapsKey],
    ct: &[u8],
    shared: &mut [[u8; SECRET_LEN]],
    scratch: &mut Scratch,
) {
    let n = keys.len();
    assert!(shared.len() == n && ct.len() == n * p.ct_len(), "one slot a lane");
    let mut message = std::mem::take(&mut scratch.message);
    let m = room_arrays(&mut message, n);
    decrypt(k, p, keys, ct, m, scratch);
    // Lines 6 and 7: (K', r') = G(m' || h) and K-bar = J(z || c), side by side.
    let (mut g, mut j) = (std::mem::take(&mut scratch.g), std::mem::take(&mut scratch.j));
    let mut again = std::mem::take(&mut scratch.ct);
    let (pairs, rejected) = (room_arrays(&mut g, n), room_arrays(&mut j, n));
    let mut jobs = Vec::with_capacity(2 * n);
    let lanes = keys.iter().zip(ct.chunks_exact(p.ct_len())).zip(rejected.iter_mut());
    for ((key, c), k_bar) in lanes {
        jobs.push(Sponge::new(Xof::Shake256, [key.z(), c], k_bar));
    }
    for ((key, message), pair) in keys.iter().zip(m.iter()).zip(pairs.iter_mut()) {
        jobs.push(Sponge::new(Xof::Sha3_512, [message, &key.encaps.hash], pair));
    }
    k.sponge_many(&mut jobs);
    drop(jobs);
    // Lines 8 to 11: encrypt again, and choose without a branch.
    let encaps_keys: Vec<&EncapsKey> = keys.iter().map(|key| &key.encaps).collect();
    let again_ct = room(&mut again, p.ct_len());
    encrypt(k, p, &encaps_keys, m, pairs, scratch, |lane, made| {
        made.encode(k, p, again_ct);
        let c = &ct[lane * p.ct_len()..(lane + 1) * p.ct_len()];
        let accepted = halves(&pairs[lane])[0];
        choose(same(c, again_ct), accepted, &rejected[lane], &mut shared[lane]);
    });
    (scratch.g, scratch.j, scratch.ct, scratch.message) = (g, j, again, message);
    scratch.wipe();
}

/// Returns all ones if the ciphertexts are equal, otherwise zero (line 9 of Algorithm 18).
///
/// Like [`choose`], a separate function in machine code, so that the constant-time scan can find
/// it. The arguments fit into registers, because the scan treats values from memory as secret.
#[inline(never)]
fn same(c: &[u8], again: &[u8]) -> u64 {
    ct::eq_mask(c, again)
}

/// Lines 9 to 11 of Algorithm 18: `accepted` where `same` is all ones, `rejected` where it is zero.
#[inline(never)]
fn choose(same: u64, accepted: &[u8; 32], rejected: &[u8; 32], out: &mut [u8; 32]) {
    ct::select(same, accepted, rejected, out);
}

/// K-PKE.Decrypt (FIPS 203, Algorithm 15) into `m`.
fn decrypt<K: Kernels>(
    k: &K,
    p: &Params,
    keys: &[&DecapsKey],
    ct: &[u8],
    m: &mut [[u8; 32]],
    scratch: &mut Scratch,
) {
    let blocks = keys.chunks(SIDE_BY_SIDE).zip(m.chunks_mut(SIDE_BY_SIDE));
    for ((keys, m), ct) in blocks.zip(ct.chunks(SIDE_BY_SIDE * p.ct_len())) {
        let u_hat = room(&mut scratch.hat, keys.len() * p.k);
        let w = room(&mut scratch.product, keys.len());
        let v = room(&mut scratch.noise, keys.len());
        let encoded = u_hat.chunks_exact_mut(p.k).zip(v.chunks_exact_mut(1));
        for ((u, v), c) in encoded.zip(ct.chunks_exact(p.ct_len())) {
            k.kem_decompress(p.du, &c[..p.u_len()], u);
            k.kem_decompress(p.dv, &c[p.u_len()..], v);
        }
        k.kem_ntt(u_hat);
        // Line 6: w = v' - NTT^-1(s^T u).
        for ((key, u_hat), w) in keys.iter().zip(u_hat.chunks_exact(p.k)).zip(w.chunks_exact_mut(1))
        {
            k.kem_matvec(w, &key.s_hat, u_hat);
        }
        k.kem_inv_ntt(w);
        for (v, w) in v.iter().zip(w.iter_mut()) {
            k.kem_sub_from(v, w);
        }
        k.kem_compress(1, w, m.as_flattened_mut());
    }
}

const _: () = assert!(SECRET_LEN * 2 == SEED_LEN);
