//! KeyGen, Encaps and Decaps over batches.

use super::keys::{A_LEN, DecapsKey, EncapsKey, parse_matrix, push_matrix_jobs};
use super::{ETA2, Params, SECRET_LEN, SEED_LEN};
use crate::ct;
use crate::kernels::{KemPoly, Kernels, Sponge, Xof};

/// Bytes of PRF output for eta = 3, the longest.
const PRF_MAX: usize = 192;

/// The index bytes of the PRF (FIPS 203, equation 4.3).
static PRF_INDEX: [[u8; 1]; 16] =
    [[0], [1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11], [12], [13], [14], [15]];

/// Working memory that calls reuse: it grows to the largest batch seen, and holds no secret
/// between calls.
#[derive(Default)]
pub struct Scratch {
    /// Outputs of G: (rho, sigma) or (K, r), 64 bytes a lane.
    g: Vec<[u8; 64]>,
    /// Outputs of J, 32 bytes a lane.
    j: Vec<[u8; 32]>,
    /// Outputs of the PRF, [`PRF_MAX`] bytes a polynomial.
    prf: Vec<u8>,
    /// Squeezed bytes of A.
    squeezed: Vec<u8>,
    /// Polynomials in the NTT domain: (s, e) or y of each lane.
    hat: Vec<KemPoly>,
    /// Results of matrix products of one lane.
    product: Vec<KemPoly>,
    /// Noise of one lane: e1, e2, and the message.
    noise: Vec<KemPoly>,
    /// Messages m', 32 bytes a lane.
    message: Vec<[u8; 32]>,
    /// Re-encrypted ciphertexts.
    ct: Vec<u8>,
}

impl Scratch {
    fn wipe(&mut self) {
        ct::wipe(&mut self.g);
        ct::wipe(&mut self.j);
        ct::wipe(&mut self.prf);
        ct::wipe(&mut self.hat);
        ct::wipe(&mut self.product);
        ct::wipe(&mut self.noise);
        ct::wipe(&mut self.message);
        ct::wipe(&mut self.ct);
    }
}

impl Drop for Scratch {
    /// A call that unwound did not reach its own wipe.
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Makes the first `len` items of a buffer available; what they hold is of no account.
fn room<T: Clone + Default + ct::Wipe>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    ct::resize(buffer, len, T::default());
    buffer
}

fn room_arrays<const N: usize>(buffer: &mut Vec<[u8; N]>, len: usize) -> &mut [[u8; N]] {
    ct::resize(buffer, len, [0; N]);
    buffer
}

/// Key generation from seeds (d, z): ML-KEM.KeyGen_internal (FIPS 203, Algorithm 16, with
/// K-PKE.KeyGen, Algorithm 13), one key a seed.
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
    let n = seeds.len();
    for seed in seeds {
        ct::secret(seed);
    }
    // Algorithm 13, line 1: (rho, sigma) = G(d || k).
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
    // Lines 3 to 15: A, s and e of every lane, in one go.
    let prf_len = 64 * p.eta1;
    let squeezed = room(&mut scratch.squeezed, n * p.k * p.k * A_LEN);
    let prf = room(&mut scratch.prf, n * 2 * p.k * prf_len);
    let mut jobs = Vec::with_capacity(n * (p.k * p.k + 2 * p.k));
    push_matrix_jobs(p, false, g.iter().map(|pair| &pair[..32]), squeezed, &mut jobs);
    for (pair, part) in g.iter().zip(prf.chunks_exact_mut(2 * p.k * prf_len)) {
        push_prf_jobs(&pair[32..], 0, part, prf_len, &mut jobs);
    }
    k.sponge_many(&mut jobs);
    drop(jobs);
    let hat = room(&mut scratch.hat, n * 2 * p.k);
    for (poly, bytes) in hat.iter_mut().zip(prf.chunks_exact(prf_len)) {
        k.kem_cbd(p.eta1, bytes, poly);
    }
    // Lines 16 to 18: t_hat = A s_hat + e_hat.
    k.kem_ntt(hat);
    let lanes = hat.chunks_exact(2 * p.k).zip(squeezed.chunks_exact(p.k * p.k * A_LEN));
    for (((key, seed), pair), (noise, entries)) in
        keys.iter_mut().zip(seeds).zip(g.iter()).zip(lanes)
    {
        let (s, e) = noise.split_at(p.k);
        let encaps = &mut key.encaps;
        parse_matrix(k, p, false, &pair[..32], entries, &mut encaps.a_t);
        k.kem_matvec(&mut encaps.t_hat, &encaps.a_t, s);
        k.kem_to_mont(&mut encaps.t_hat);
        transpose(p.k, &mut encaps.a_t);
        key.s_hat.clone_from_slice(s);
        key.seed = Some(Box::new(*seed));
        for ((t, e), out) in encaps.t_hat.iter_mut().zip(e).zip(encaps.bytes.chunks_exact_mut(384))
        {
            k.kem_add(t, e);
            k.kem_encode12(t, out);
        }
        ct::declassify(&encaps.bytes[..384 * p.k]); // The public key.
        ct::declassify(&encaps.t_hat);
        encaps.bytes[384 * p.k..].copy_from_slice(&pair[..32]);
    }
    finish_keys(k, p, seeds, keys);
    scratch.wipe();
}

/// H(ek) of every lane, then the encoded decapsulation key (Algorithm 16, line 3).
fn finish_keys<K: Kernels>(k: &K, p: &Params, seeds: &[[u8; SEED_LEN]], keys: &mut [DecapsKey]) {
    let mut jobs: Vec<Sponge<'_>> = keys
        .iter_mut()
        .map(|key| Sponge::new(Xof::Sha3_256, [&key.encaps.bytes[..]], &mut key.encaps.hash))
        .collect();
    k.sponge_many(&mut jobs);
    drop(jobs);
    for (key, seed) in keys.iter_mut().zip(seeds) {
        let (s_part, rest) = key.bytes.split_at_mut(384 * p.k);
        for (s, out) in key.s_hat.iter().zip(s_part.chunks_exact_mut(384)) {
            k.kem_encode12(s, out);
        }
        let (ek_part, rest) = rest.split_at_mut(p.ek_len());
        ek_part.copy_from_slice(&key.encaps.bytes);
        rest[..32].copy_from_slice(&key.encaps.hash);
        rest[32..].copy_from_slice(&seed[32..]);
        key.encaps.expanded = true;
    }
}

/// Turns A into A^T.
fn transpose(k: usize, a: &mut [KemPoly]) {
    for i in 0..k {
        for j in 0..i {
            a.swap(i * k + j, j * k + i);
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
    encrypt(k, p, keys, m, pairs, ct, scratch);
    ct::declassify(ct); // A ciphertext is public.
    for (secret, pair) in shared.iter_mut().zip(pairs.iter()) {
        secret.copy_from_slice(&pair[..32]);
    }
    scratch.g = g;
    scratch.wipe();
}

/// K-PKE.Encrypt (FIPS 203, Algorithm 14) with r in the second half of each pair.
fn encrypt<K: Kernels>(
    k: &K,
    p: &Params,
    keys: &[&EncapsKey],
    m: &[[u8; 32]],
    pairs: &[[u8; 64]],
    ct: &mut [u8],
    scratch: &mut Scratch,
) {
    // Lines 9 to 17: y from PRF_eta1, e1 and e2 from PRF_eta2.
    let (y_len, e_len) = (64 * p.eta1, 64 * ETA2);
    let lane_len = p.k * y_len + (p.k + 1) * e_len;
    let prf = room(&mut scratch.prf, keys.len() * lane_len);
    let mut jobs = Vec::with_capacity(keys.len() * (2 * p.k + 1));
    for (pair, part) in pairs.iter().zip(prf.chunks_exact_mut(lane_len)) {
        let (y, e) = part.split_at_mut(p.k * y_len);
        push_prf_jobs(&pair[32..], 0, y, y_len, &mut jobs);
        push_prf_jobs(&pair[32..], p.k, e, e_len, &mut jobs);
    }
    k.sponge_many(&mut jobs);
    drop(jobs);
    let y_hat = room(&mut scratch.hat, keys.len() * p.k);
    for (polys, part) in y_hat.chunks_exact_mut(p.k).zip(prf.chunks_exact(lane_len)) {
        for (poly, bytes) in polys.iter_mut().zip(part.chunks_exact(y_len)) {
            k.kem_cbd(p.eta1, bytes, poly);
        }
    }
    k.kem_ntt(y_hat);
    let product = room(&mut scratch.product, p.k + 1);
    let noise = room(&mut scratch.noise, p.k + 2);
    let lanes = y_hat.chunks_exact(p.k).zip(prf.chunks_exact(lane_len));
    for (((key, message), out), (y, part)) in
        keys.iter().zip(m).zip(ct.chunks_exact_mut(p.ct_len())).zip(lanes)
    {
        for (poly, bytes) in noise.iter_mut().zip(part[p.k * y_len..].chunks_exact(e_len)) {
            k.kem_cbd(ETA2, bytes, poly);
        }
        k.kem_decompress(1, message, &mut noise[p.k + 1]); // Line 20: mu.
        // Lines 18 to 21: u = NTT^-1(A^T y) + e1, v = NTT^-1(t^T y) + e2 + mu.
        k.kem_matvec(&mut product[..p.k], &key.a_t, y);
        k.kem_matvec(&mut product[p.k..], &key.t_hat, y);
        k.kem_inv_ntt(product);
        for (poly, e) in product.iter_mut().zip(noise.iter()) {
            k.kem_add(poly, e);
        }
        k.kem_add(&mut product[p.k], &noise[p.k + 1]);
        // Lines 22 and 23.
        let (u_out, v_out) = out.split_at_mut(p.u_len());
        for (poly, bytes) in product.iter().zip(u_out.chunks_exact_mut(32 * p.du)) {
            k.kem_compress(p.du, poly, bytes);
        }
        k.kem_compress(p.dv, &product[p.k], v_out);
    }
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
    for (((key, c), k_bar), (message, pair)) in lanes.zip(m.iter().zip(pairs.iter_mut())) {
        jobs.push(Sponge::new(Xof::Shake256, [key.z(), c], k_bar));
        jobs.push(Sponge::new(Xof::Sha3_512, [message, &key.encaps.hash], pair));
    }
    k.sponge_many(&mut jobs);
    drop(jobs);
    // Lines 8 to 11: encrypt again, and choose without a branch.
    let encaps_keys: Vec<&EncapsKey> = keys.iter().map(|key| &key.encaps).collect();
    let again_ct = room(&mut again, n * p.ct_len());
    encrypt(k, p, &encaps_keys, m, pairs, again_ct, scratch);
    let both = ct.chunks_exact(p.ct_len()).zip(again_ct.chunks_exact(p.ct_len()));
    for (((secret, (c, c2)), pair), k_bar) in
        shared.iter_mut().zip(both).zip(pairs.iter()).zip(rejected.iter())
    {
        let (accepted, _) = pair.split_first_chunk::<32>().unwrap_or((&[0; 32], &[]));
        ct::select(ct::eq_mask(c, c2), accepted, k_bar, secret);
    }
    (scratch.g, scratch.j, scratch.ct, scratch.message) = (g, j, again, message);
    scratch.wipe();
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
    let u_hat = room(&mut scratch.hat, keys.len() * p.k);
    for (polys, c) in u_hat.chunks_exact_mut(p.k).zip(ct.chunks_exact(p.ct_len())) {
        for (poly, bytes) in polys.iter_mut().zip(c[..p.u_len()].chunks_exact(32 * p.du)) {
            k.kem_decompress(p.du, bytes, poly);
        }
    }
    k.kem_ntt(u_hat);
    let product = room(&mut scratch.product, 1);
    let noise = room(&mut scratch.noise, 1);
    let lanes = u_hat.chunks_exact(p.k).zip(ct.chunks_exact(p.ct_len()));
    for ((key, message), (u, c)) in keys.iter().zip(m).zip(lanes) {
        // Line 6: w = v' - NTT^-1(s^T u).
        k.kem_matvec(product, &key.s_hat, u);
        k.kem_inv_ntt(product);
        k.kem_decompress(p.dv, &c[p.u_len()..], &mut noise[0]);
        k.kem_sub_from(&noise[0], &mut product[0]);
        k.kem_compress(1, &product[0], message);
    }
}

/// Every PRF output fits the buffer that the index table and the parameters imply.
const _: () = assert!(PRF_MAX == 64 * 3 && SECRET_LEN * 2 == SEED_LEN);
