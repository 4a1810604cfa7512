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
    pub(super) squeezed: Vec<u8>,
    /// A of one lane.
    matrix: Vec<KemPoly>,
    /// Polynomials in the NTT domain of one lane: (s, e), y or u.
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
        key.encaps.expanded = true;
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

/// What K-PKE.KeyGen makes of one seed.
struct Made<'a> {
    rho: &'a [u8],
    /// `[row][column]`.
    a: &'a [KemPoly],
    s_hat: &'a [KemPoly],
    t_hat: &'a [KemPoly],
}

impl Made<'_> {
    /// Algorithm 13, lines 19 and 20, and what Algorithm 16, line 3, takes from them: all of the
    /// decapsulation key but its last 64 bytes, H(ek) and z.
    fn encode<K: Kernels>(&self, k: &K, p: &Params, ek: &mut [u8], dk: &mut [u8]) {
        let (t_part, rho_part) = ek.split_at_mut(384 * p.k);
        k.kem_encode12(self.t_hat, t_part);
        rho_part.copy_from_slice(self.rho);
        ct::declassify(ek); // The public key.
        let (s_part, rest) = dk.split_at_mut(384 * p.k);
        k.kem_encode12(self.s_hat, s_part);
        rest[..p.ek_len()].copy_from_slice(ek);
    }
}

/// K-PKE.KeyGen (FIPS 203, Algorithm 13) of the first half of each seed; hands each lane to `each`
/// before it is encoded.
fn k_pke_keygen<K: Kernels>(
    k: &K,
    p: &Params,
    seeds: &[[u8; SEED_LEN]],
    scratch: &mut Scratch,
    mut each: impl FnMut(usize, &Made<'_>),
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
    // Lines 16 to 18: t_hat = A s_hat + e_hat. One lane at a time, so that all of it stays in the
    // first-level cache.
    let hat = room(&mut scratch.hat, 2 * p.k);
    let a = room(&mut scratch.matrix, p.k * p.k);
    let t_hat = room(&mut scratch.product, p.k);
    let lanes = prf.chunks_exact(2 * p.k * prf_len).zip(squeezed.chunks_exact(p.k * p.k * A_LEN));
    for (lane, (pair, (noise, entries))) in g.iter().zip(lanes).enumerate() {
        k.kem_cbd(p.eta1, noise, hat);
        k.kem_ntt(hat);
        let (s_hat, e_hat) = hat.split_at(p.k);
        let rho = &pair[..32];
        parse_matrix(k, p, false, rho, entries, a);
        k.kem_matvec(t_hat, a, s_hat);
        k.kem_to_mont(t_hat);
        k.kem_add(t_hat, e_hat);
        each(lane, &Made { rho, a, s_hat, t_hat });
    }
    scratch.wipe();
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
    let n = keys.len();
    let (y_len, e_len) = (64 * p.eta1, 64 * ETA2);
    let prf = room(&mut scratch.prf, n * (p.k * y_len + (p.k + 1) * e_len));
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
    let y_hat = room(&mut scratch.hat, p.k);
    let product = room(&mut scratch.product, p.k + 1);
    let noise = room(&mut scratch.noise, p.k + 2);
    let lanes = y_prf.chunks_exact(p.k * y_len).zip(e_prf.chunks_exact((p.k + 1) * e_len));
    for (((key, message), out), (y_bytes, e_bytes)) in
        keys.iter().zip(m).zip(ct.chunks_exact_mut(p.ct_len())).zip(lanes)
    {
        k.kem_cbd(p.eta1, y_bytes, y_hat);
        k.kem_ntt(y_hat);
        let (e, mu) = noise.split_at_mut(p.k + 1);
        k.kem_cbd(ETA2, e_bytes, e);
        k.kem_decompress(1, message, mu); // Line 20.
        // Lines 18 to 21: u = NTT^-1(A^T y) + e1, v = NTT^-1(t^T y) + e2 + mu.
        k.kem_matvec(product, &key.matrix, y_hat);
        k.kem_inv_ntt(product);
        k.kem_add(product, e);
        let (u, v) = product.split_at_mut(p.k);
        k.kem_add(v, mu);
        // Lines 22 and 23.
        let (u_out, v_out) = out.split_at_mut(p.u_len());
        k.kem_compress(p.du, u, u_out);
        k.kem_compress(p.dv, v, v_out);
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
    let u_hat = room(&mut scratch.hat, p.k);
    let product = room(&mut scratch.product, 1);
    let noise = room(&mut scratch.noise, 1);
    for ((key, message), c) in keys.iter().zip(m).zip(ct.chunks_exact(p.ct_len())) {
        k.kem_decompress(p.du, &c[..p.u_len()], u_hat);
        k.kem_ntt(u_hat);
        // Line 6: w = v' - NTT^-1(s^T u).
        k.kem_matvec(product, &key.s_hat, u_hat);
        k.kem_inv_ntt(product);
        k.kem_decompress(p.dv, &c[p.u_len()..], noise);
        k.kem_sub_from(&noise[0], &mut product[0]);
        k.kem_compress(1, product, message);
    }
}

/// Every PRF output fits the buffer that the index table and the parameters imply.
const _: () = assert!(PRF_MAX == 64 * 3 && SECRET_LEN * 2 == SEED_LEN);
