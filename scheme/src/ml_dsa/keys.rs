//! Keys with everything that derives from them, and their encodings (FIPS 204, section 7.2).

use std::fmt;

use once_cell::race::OnceBox;

use super::params::{MU_LEN, Params, SEED_LEN, T0_LEN, T0_MAX, T1_BITS, T1_LEN};
use crate::ct;
use crate::identity::Identity;
use crate::kernels::{DsaPoly, KemPoly, Kernels};

/// The ranges of K and tr in an encoded private key (skEncode, Algorithm 24).
const K_SEED: std::ops::Range<usize> = SEED_LEN..2 * SEED_LEN;
pub(super) const TR: std::ops::Range<usize> = 2 * SEED_LEN..2 * SEED_LEN + MU_LEN;

/// A public key, expanded: A and tr always, NTT(t1 * 2^d) from the first verification on.
///
/// Meant to be shared between threads by reference; nothing in it is secret.
pub struct VerifyKey {
    params: &'static Params,
    /// The encoding.
    bytes: Vec<u8>,
    /// H(pk, 64).
    tr: [u8; MU_LEN],
    /// A in the NTT domain, `[k][l]`.
    a_hat: Vec<DsaPoly>,
    /// NTT(t1 * 2^d), `[k]`.
    t1_hat: OnceBox<Vec<DsaPoly>>,
    /// Whether it is a key at all: neither blank nor refused.
    expanded: bool,
    identity: Identity,
}

impl VerifyKey {
    /// Returns a key without a value, whose buffers [`super::expand_verify_keys`] fills. Until
    /// then, signatures that verify with it are trivial to forge.
    pub fn blank(p: &'static Params) -> Self {
        let mut key = VerifyKey {
            params: p,
            bytes: Vec::new(),
            tr: [0; MU_LEN],
            a_hat: Vec::new(),
            t1_hat: OnceBox::new(),
            expanded: false,
            identity: Identity::new(),
        };
        key.reset(p);
        key
    }

    /// Returns whether this is a key that passed its checks, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.expanded
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.params
    }

    /// The encoding, `pk_len` bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// tr = H(pk, 64), which begins the hash that gives mu.
    pub fn tr(&self) -> &[u8; MU_LEN] {
        &self.tr
    }

    /// A in the NTT domain, `[k][l]`.
    pub(super) fn a_hat(&self) -> &[DsaPoly] {
        &self.a_hat
    }

    pub(super) fn a_hat_mut(&mut self) -> &mut [DsaPoly] {
        &mut self.a_hat
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Enters tr, the last thing that an expanded key needs.
    pub(super) fn set_tr(&mut self, tr: &[u8; MU_LEN]) {
        self.tr = *tr;
        self.expanded = true;
        self.identity.renew();
    }

    /// Makes room for another key, of this or another parameter set.
    pub(super) fn reset(&mut self, p: &'static Params) {
        self.params = p;
        self.bytes.resize(p.pk_len(), 0);
        self.a_hat.resize(p.matrix_len(), DsaPoly::default());
        self.t1_hat = OnceBox::new();
        self.expanded = false;
        self.identity.renew();
    }

    /// NTT(t1 * 2^d), `[k]` (Algorithm 8, line 9), derived at the first call: by every thread that is first, so that
    /// none waits for another, which a forked child would do for ever.
    pub(super) fn t1_hat<K: Kernels>(&self, kernels: &K) -> &[DsaPoly] {
        self.t1_hat.get_or_init(|| {
            let mut t1 = vec![DsaPoly::default(); self.params.k];
            for (poly, bytes) in t1.iter_mut().zip(self.bytes[SEED_LEN..].chunks_exact(T1_LEN)) {
                kernels.dsa_simple_bit_unpack(T1_BITS, bytes, poly);
            }
            kernels.dsa_shift_left_d(&mut t1);
            kernels.dsa_ntt(&mut t1);
            Box::new(t1)
        })
    }
}

impl fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyKey({})", self.params.name())
    }
}

/// A private key, expanded: A, tr and the public key always, the secret vectors in the NTT domain
/// from the first signature on. Wiped when dropped.
pub struct SigningKey {
    public: VerifyKey,
    /// xi, where the key is known by it. Boxed, so that moving the key leaves no copy behind.
    seed: Option<Box<[u8; SEED_LEN]>>,
    /// The expanded encoding (skEncode, Algorithm 24).
    bytes: Vec<u8>,
    vectors: OnceBox<SecretVectors>,
}

/// The vectors that signing multiplies by c, each in the domain where that is cheapest.
///
/// c s1 and c s2 are small: their coefficients are at most beta = tau eta <= 196. Products modulo
/// any number above 2 beta are therefore exact, and ML-KEM's ring, the same X^256 + 1 modulo 3329,
/// multiplies in 16 bits at a third of the cost.
pub(super) struct SecretVectors {
    /// NTT of s1 and s2 in ML-KEM's ring, `[l + k]`.
    pub(super) s_small_hat: Vec<KemPoly>,
    /// NTT of t0, `[k]`.
    pub(super) t0_hat: Vec<DsaPoly>,
}

impl SecretVectors {
    /// Creates the vectors from s1 and s2, `[l + k]`, and t0, `[k]`.
    pub(super) fn new<K: Kernels>(kernels: &K, s1s2: &[DsaPoly], t0: &[DsaPoly]) -> Self {
        let mut s_small_hat = vec![KemPoly::default(); s1s2.len()];
        for (small, wide) in s_small_hat.iter_mut().zip(s1s2) {
            for (x, &y) in small.0.iter_mut().zip(&wide.0) {
                *x = y as i16;
            }
        }
        let mut t0_hat = t0.to_vec();
        kernels.kem_ntt(&mut s_small_hat);
        kernels.dsa_ntt(&mut t0_hat);
        SecretVectors { s_small_hat, t0_hat }
    }
}

impl Drop for SecretVectors {
    fn drop(&mut self) {
        ct::wipe(&mut self.s_small_hat);
        ct::wipe(&mut self.t0_hat);
    }
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        ct::wipe(&mut self.bytes);
        if let Some(seed) = &mut self.seed {
            ct::wipe(&mut seed[..]);
        }
    }
}

impl fmt::Debug for SigningKey {
    /// Names the parameter set and nothing else.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.params.name())
    }
}

impl SigningKey {
    /// A key without a value, whose buffers [`super::keygen()`] fills.
    pub fn blank(p: &'static Params) -> Self {
        let mut key = SigningKey {
            public: VerifyKey::blank(p),
            seed: None,
            bytes: Vec::new(),
            vectors: OnceBox::new(),
        };
        key.reset(p, None);
        key
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.public.params
    }

    /// Returns whether this is a key that passed its checks, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.public.expanded
    }

    /// The number that names this key, and no other one of this process but its public half.
    pub fn id(&self) -> u64 {
        self.public.id()
    }

    /// The public half.
    pub fn verify_key(&self) -> &VerifyKey {
        &self.public
    }

    /// The expanded encoding, `sk_len` bytes. Secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The seed xi, if the key was made from it. Secret.
    pub fn seed(&self) -> Option<&[u8; SEED_LEN]> {
        self.seed.as_deref()
    }

    /// Derives the secret vectors now instead of at the first signature.
    pub fn prepare<K: Kernels>(&self, kernels: &K) {
        self.vectors(kernels);
    }

    pub(super) fn public_mut(&mut self) -> &mut VerifyKey {
        &mut self.public
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes space for another key, of this or another parameter set; the old key is wiped.
    pub(super) fn reset(&mut self, p: &'static Params, seed: Option<&[u8; SEED_LEN]>) {
        self.public.reset(p);
        if let Some(old) = &mut self.seed {
            ct::wipe(&mut old[..]);
        }
        match seed {
            Some(seed) => {
                let room = self.seed.get_or_insert_with(|| Box::new([0; SEED_LEN]));
                room.copy_from_slice(seed);
            }
            None => self.seed = None,
        }
        ct::wipe(&mut self.bytes);
        self.bytes.resize(p.sk_len(), 0);
        self.vectors = OnceBox::new();
    }

    /// Enters tr in both halves.
    pub(super) fn set_tr(&mut self, tr: &[u8; MU_LEN]) {
        self.public.set_tr(tr);
        self.bytes[TR].copy_from_slice(tr);
    }

    /// K, the private seed of rho''.
    pub(super) fn k_seed(&self) -> &[u8] {
        &self.bytes[K_SEED]
    }

    /// Sets the secret vectors of a key that lacks them.
    pub(super) fn set_vectors(&mut self, vectors: SecretVectors) {
        self.vectors = OnceBox::with_value(Box::new(vectors));
    }

    /// s1, s2 and t0 ready to be multiplied (Algorithm 7, lines 2 to 4), derived as [`VerifyKey::t1_hat`]
    /// is.
    pub(super) fn vectors<K: Kernels>(&self, kernels: &K) -> &SecretVectors {
        self.vectors.get_or_init(|| {
            let p = self.params();
            let mut vectors = vec![DsaPoly::default(); p.l + 2 * p.k];
            unpack_secret(kernels, p, &self.bytes, &mut vectors);
            let (s1s2, t0) = vectors.split_at(p.l + p.k);
            let derived = SecretVectors::new(kernels, s1s2, t0);
            ct::wipe(&mut vectors);
            Box::new(derived)
        })
    }
}

/// t = NTT^-1(A NTT(s1)) + s2 and Power2Round of it (Algorithm 6, lines 5 and 6). `t1` and `t0`
/// have k polynomials.
pub(super) fn public_vector<K: Kernels>(
    kernels: &K,
    a_hat: &[DsaPoly],
    s1_hat: &[DsaPoly],
    s2: &[DsaPoly],
    t1: &mut [DsaPoly],
    t0: &mut [DsaPoly],
) {
    kernels.dsa_matvec(t1, a_hat, s1_hat);
    kernels.dsa_inv_ntt(t1);
    kernels.dsa_add(t1, s2);
    let mut t = DsaPoly::default();
    for (high, low) in t1.iter_mut().zip(t0) {
        std::mem::swap(&mut t, high);
        kernels.dsa_power2round(&t, high, low);
    }
    ct::wipe(std::slice::from_mut(&mut t));
}

/// pkEncode (Algorithm 22): rho and t1.
pub(super) fn encode_public<K: Kernels>(
    kernels: &K,
    rho: &[u8; SEED_LEN],
    t1: &[DsaPoly],
    key: &mut VerifyKey,
) {
    let (head, rest) = key.bytes.split_at_mut(SEED_LEN);
    head.copy_from_slice(rho);
    for (poly, bytes) in t1.iter().zip(rest.chunks_exact_mut(T1_LEN)) {
        kernels.dsa_simple_bit_pack(T1_BITS, poly, bytes);
    }
    // t1 is published.
    ct::declassify(&key.bytes);
}

/// skEncode (Algorithm 24) but for tr, which depends on the encoded public key. `seed` holds
/// rho, rho' and K.
pub(super) fn encode_secret<K: Kernels>(
    kernels: &K,
    p: &Params,
    seed: &[u8; 128],
    s1s2: &[DsaPoly],
    t0: &[DsaPoly],
    out: &mut [u8],
) {
    out[..SEED_LEN].copy_from_slice(&seed[..32]);
    out[K_SEED].copy_from_slice(&seed[96..]);
    let (s_bytes, t0_bytes) = out[TR.end..].split_at_mut(s1s2.len() * p.s_len());
    for (poly, bytes) in s1s2.iter().zip(s_bytes.chunks_exact_mut(p.s_len())) {
        kernels.dsa_bit_pack(p.eta_bits, p.eta as i32, poly, bytes);
    }
    for (poly, bytes) in t0.iter().zip(t0_bytes.chunks_exact_mut(T0_LEN)) {
        kernels.dsa_bit_pack(super::D, T0_MAX, poly, bytes);
    }
}

/// s1, s2 and t0 of an encoded private key (Algorithm 25, lines 4 to 12), `[l + k + k]`.
pub(super) fn unpack_secret<K: Kernels>(
    kernels: &K,
    p: &Params,
    bytes: &[u8],
    out: &mut [DsaPoly],
) {
    let (s1s2, t0) = out.split_at_mut(p.l + p.k);
    let (s_bytes, t0_bytes) = bytes[TR.end..].split_at(s1s2.len() * p.s_len());
    for (poly, bytes) in s1s2.iter_mut().zip(s_bytes.chunks_exact(p.s_len())) {
        kernels.dsa_bit_unpack(p.eta_bits, p.eta as i32, bytes, poly);
    }
    for (poly, bytes) in t0.iter_mut().zip(t0_bytes.chunks_exact(T0_LEN)) {
        kernels.dsa_bit_unpack(super::D, T0_MAX, bytes, poly);
    }
}
