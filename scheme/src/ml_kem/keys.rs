//! Expanded ML-KEM keys: everything that depends on the key alone, computed once.

use super::scratch::Scratch;
use super::{K_MAX, Params, SEED_LEN, SIDE_BY_SIDE};
use crate::ct;
use crate::error::{Error, Status};
use crate::identity::Identity;
use crate::kernels::kem::{KemUniform, UNIFORM_LEN, parse_vartime};
use crate::kernels::{KemPoly, Kernels, Sponge, Xof};

/// The index bytes that follow rho, `[first][second]`.
static INDEX: [[[u8; 2]; K_MAX]; K_MAX] = {
    let mut table = [[[0; 2]; K_MAX]; K_MAX];
    let mut i = 0;
    while i < K_MAX * K_MAX {
        table[i / K_MAX][i % K_MAX] = [(i / K_MAX) as u8, (i % K_MAX) as u8];
        i += 1;
    }
    table
};

/// An expanded encapsulation key: immutable once made, shared by reference between threads.
#[derive(Clone)]
pub struct EncapsKey {
    pub(super) params: &'static Params,
    /// The encoded key, ByteEncode_12(t_hat) || rho.
    pub(super) bytes: Vec<u8>,
    /// H(ek).
    pub(super) hash: [u8; 32],
    /// In the NTT domain, `[row][column]`: A^T, and t_hat as its last row. Multiplied by y, this is
    /// everything that a ciphertext takes from the key.
    pub(super) matrix: Vec<KemPoly>,
    /// Whether it is a key at all: neither blank nor refused.
    expanded: bool,
    identity: Identity,
}

impl EncapsKey {
    /// Returns a key without a value, to be filled by [`expand_encaps_keys`]. Until then, a shared
    /// secret encapsulated to it is not secret.
    pub fn blank(params: &'static Params) -> Self {
        EncapsKey {
            params,
            bytes: vec![0; params.ek_len()],
            hash: [0; 32],
            matrix: vec![KemPoly::default(); (params.k + 1) * params.k],
            expanded: false,
            identity: Identity::new(),
        }
    }

    /// Returns whether this is a key that passed its checks, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.expanded
    }

    /// Marks whether the buffers hold an expanded key, and gives the key a new number.
    pub(super) fn set_expanded(&mut self, expanded: bool) {
        self.expanded = expanded;
        self.identity.renew();
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
    }

    /// Decodes and expands one key.
    ///
    /// # Errors
    /// A wrong length (type check) or a coefficient of q or more (modulus check), FIPS 203,
    /// section 7.2.
    pub fn decode<K: Kernels>(k: &K, params: &'static Params, bytes: &[u8]) -> Result<Self, Error> {
        Error::check_length("an encapsulation key", params.ek_len(), bytes)?;
        let mut key = EncapsKey::blank(params);
        let mut status = Status::NotRun;
        let one = std::slice::from_mut(&mut key);
        let (status_of, scratch) = (std::slice::from_mut(&mut status), &mut Scratch::default());
        expand_encaps_keys(k, params, bytes, one, status_of, scratch);
        if status.is_ok() {
            return Ok(key);
        }
        Err(Error::PublicKey {
            algorithm: params.algorithm.name(),
            reason: "a coefficient is not below 3329 (FIPS 203, section 7.2, modulus check)",
        })
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.params
    }

    /// The encoded key.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// H(ek), which tells keys apart.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }
}

/// An expanded decapsulation key: immutable once made, wiped when dropped.
#[derive(Clone)]
pub struct DecapsKey {
    pub(super) encaps: EncapsKey,
    /// The encoded key, ByteEncode_12(s_hat) || ek || H(ek) || z.
    pub(super) bytes: Vec<u8>,
    pub(super) s_hat: Vec<KemPoly>,
    /// (d, z), where the key was made from its seed; on the heap, so that moving the key leaves no
    /// copy behind.
    pub(super) seed: Option<Box<[u8; SEED_LEN]>>,
}

impl DecapsKey {
    /// A key without a value, to be filled by [`super::keygen()`] or [`expand_decaps_keys`].
    pub fn blank(params: &'static Params) -> Self {
        DecapsKey {
            encaps: EncapsKey::blank(params),
            bytes: vec![0; params.dk_len()],
            s_hat: vec![KemPoly::default(); params.k],
            seed: None,
        }
    }

    /// Decodes and expands one key from its expanded form.
    ///
    /// # Errors
    /// A wrong length, a coefficient of q or above, an embedded encapsulation key that fails its
    /// checks, or one whose hash is not the embedded hash (FIPS 203, section 7.3).
    pub fn decode<K: Kernels>(k: &K, params: &'static Params, bytes: &[u8]) -> Result<Self, Error> {
        Error::check_length("a decapsulation key", params.dk_len(), bytes)?;
        let mut key = DecapsKey::blank(params);
        let mut status = Status::NotRun;
        let one = std::slice::from_mut(&mut key);
        let (status_of, scratch) = (std::slice::from_mut(&mut status), &mut Scratch::default());
        expand_decaps_keys(k, params, bytes, one, status_of, scratch);
        if status.is_ok() {
            return Ok(key);
        }
        Err(Error::PrivateKey {
            algorithm: params.algorithm.name(),
            reason: "a coefficient is q or above, or the embedded public key is malformed or does \
                     not match its embedded hash (FIPS 203, section 7.3)",
        })
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.encaps.params
    }

    /// Returns whether this is a key that passed its checks, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.encaps.expanded
    }

    /// The number that names this key, and no other one of this process but its public half.
    pub fn id(&self) -> u64 {
        self.encaps.id()
    }

    /// The encapsulation key that belongs to this key.
    pub fn encaps_key(&self) -> &EncapsKey {
        &self.encaps
    }

    /// The expanded form, encoded. Secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The seed form (d, z), where it is known. Secret.
    pub fn seed(&self) -> Option<&[u8; SEED_LEN]> {
        self.seed.as_deref()
    }

    /// z, the implicit rejection value.
    pub(super) fn z(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - 32..]
    }
}

impl DecapsKey {
    /// Wipes the key, which is blank afterwards.
    pub fn wipe(&mut self) {
        self.encaps.set_expanded(false);
        ct::wipe(&mut self.bytes);
        ct::wipe(&mut self.s_hat);
        if let Some(mut seed) = self.seed.take() {
            ct::wipe(&mut seed[..]);
        }
    }
}

impl Drop for DecapsKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Decodes and expands `keys.len()` encapsulation keys from their concatenation.
///
/// `status` says [`Status::Ok`] or [`Status::InvalidKey`] (modulus check, FIPS 203, section 7.2)
/// for each lane; the buffers of `keys`, which are of parameter set `p`, are reused. A refused key
/// is wiped to zero.
///
/// # Panics
/// If the lengths of the arguments do not fit each other (misuse).
pub fn expand_encaps_keys<K: Kernels>(
    k: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [EncapsKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(bytes.len(), keys.len() * p.ek_len(), "one encoded key a lane");
    let encoded = bytes.chunks_exact(p.ek_len());
    expand(k, p, encoded, &mut keys.iter_mut().collect::<Vec<_>>(), status, scratch);
}

/// Implements [`expand_encaps_keys`] for any storage of keys and encodings.
fn expand<'a, K: Kernels>(
    k: &K,
    p: &'static Params,
    encoded: impl Iterator<Item = &'a [u8]>,
    keys: &mut [&mut EncapsKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(status.len(), keys.len(), "one status a lane");
    let entries = p.k * p.k;
    for ((key, encoded), state) in keys.iter_mut().zip(encoded).zip(status.iter_mut()) {
        assert!(key.params == p, "a key of the parameter set");
        key.bytes.copy_from_slice(encoded);
        let canonical = k.kem_decode12(&encoded[..384 * p.k], &mut key.matrix[entries..]);
        *state = if canonical { Status::Ok } else { Status::InvalidKey };
    }
    if keys.len() < SIDE_BY_SIDE {
        expand_few(k, p, keys, scratch);
    } else {
        expand_many(k, p, keys);
    }
    for (key, state) in keys.iter_mut().zip(status.iter()) {
        key.set_expanded(state.is_ok());
        if !key.expanded {
            key.matrix[entries..].fill(KemPoly::default());
            key.bytes.fill(0);
        }
    }
}

/// H(ek) and A^T of each key, which share lanes.
fn expand_few<K: Kernels>(
    k: &K,
    p: &'static Params,
    keys: &mut [&mut EncapsKey],
    scratch: &mut Scratch,
) {
    let entries = p.k * p.k;
    ct::resize(&mut scratch.squeezed, keys.len() * entries * UNIFORM_LEN, 0);
    let mut jobs = Vec::with_capacity(keys.len() * (entries + 1));
    let mut rhos = Vec::with_capacity(keys.len());
    for key in keys.iter_mut() {
        let key = &mut **key;
        jobs.push(Sponge::new(Xof::Sha3_256, [&key.bytes[..]], &mut key.hash));
        rhos.push(&key.bytes[384 * p.k..]);
    }
    push_matrix_jobs(p, true, rhos.into_iter(), &mut scratch.squeezed, &mut jobs);
    k.sponge_many(&mut jobs);
    drop(jobs);
    let parts = scratch.squeezed.chunks_exact(entries * UNIFORM_LEN);
    for (key, part) in keys.iter_mut().zip(parts) {
        let (rho, a_t) = (&key.bytes[384 * p.k..], &mut key.matrix[..entries]);
        parse_matrix(k, p, true, rho, part, a_t);
    }
}

/// Expands keys whose jobs of each kind fill the lanes.
fn expand_many<K: Kernels>(k: &K, p: &'static Params, keys: &mut [&mut EncapsKey]) {
    let mut hashes = Vec::with_capacity(keys.len());
    let mut entries = Vec::with_capacity(keys.len() * p.k * p.k);
    for key in keys.iter_mut() {
        let EncapsKey { bytes, hash, matrix, .. } = &mut **key;
        hashes.push(Sponge::new(Xof::Sha3_256, [&bytes[..]], hash));
        if let Some(rho) = bytes.last_chunk() {
            push_uniform_jobs(p, true, rho, &mut matrix[..p.k * p.k], &mut entries);
        }
    }
    k.sponge_many(&mut hashes);
    k.kem_sample_ntt_vartime(&mut entries);
}

/// Decodes and expands `keys.len()` decapsulation keys from their concatenation.
///
/// `status` says [`Status::Ok`] or [`Status::InvalidKey`] for each lane: the hash check of FIPS 203,
/// section 7.3, the modulus check of the embedded encapsulation key, and that no coefficient of the
/// secret is q or above, which no generated key has; OpenSSL and BoringSSL refuse such a key too.
///
/// # Panics
/// If the lengths of the arguments do not fit each other (misuse).
pub fn expand_decaps_keys<K: Kernels>(
    k: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [DecapsKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(bytes.len(), keys.len() * p.dk_len(), "one encoded key a lane");
    let (ek_at, ek_end) = (384 * p.k, 384 * p.k + p.ek_len());
    let mut encaps = Vec::with_capacity(keys.len());
    let mut canonical = Vec::with_capacity(keys.len());
    for (key, encoded) in keys.iter_mut().zip(bytes.chunks_exact(p.dk_len())) {
        key.bytes.copy_from_slice(encoded);
        key.seed = None;
        ct::secret(&key.bytes[..ek_at]);
        ct::secret(&key.bytes[p.dk_len() - 32..]);
        // That a key is refused, and for this, is no secret.
        canonical.push(ct::declassified(k.kem_decode12(&key.bytes[..ek_at], &mut key.s_hat)));
        encaps.push(&mut key.encaps);
    }
    let embedded = bytes.chunks_exact(p.dk_len()).map(|encoded| &encoded[ek_at..ek_end]);
    expand(k, p, embedded, &mut encaps, status, scratch);
    let lanes = keys.iter_mut().zip(bytes.chunks_exact(p.dk_len())).zip(canonical);
    for (((key, encoded), canonical), state) in lanes.zip(status) {
        if !canonical || key.encaps.hash[..] != encoded[ek_end..ek_end + 32] {
            *state = Status::InvalidKey;
        }
        if !state.is_ok() {
            key.wipe();
        }
    }
}

/// Adds the sponges that make A (or A^T) of each rho, k * k entries of [`UNIFORM_LEN`] bytes each.
pub(super) fn push_matrix_jobs<'a>(
    p: &Params,
    transposed: bool,
    rhos: impl Iterator<Item = &'a [u8]>,
    squeezed: &'a mut [u8],
    jobs: &mut Vec<Sponge<'a>>,
) {
    let mut parts = squeezed.chunks_exact_mut(UNIFORM_LEN);
    for rho in rhos {
        for (entry, part) in (0..p.k * p.k).zip(&mut parts) {
            let index = entry_index(p, transposed, entry);
            jobs.push(Sponge::new(Xof::Shake128, [rho, index], part));
        }
    }
}

/// The two bytes after rho for entry number `entry`: A[i][j] = SampleNTT(rho || j || i)
/// (FIPS 203, Algorithm 13, line 5).
fn entry_index(p: &Params, transposed: bool, entry: usize) -> &'static [u8; 2] {
    let (row, column) = (entry / p.k, entry % p.k);
    let (i, j) = if transposed { (column, row) } else { (row, column) };
    &INDEX[j][i]
}

/// Runs SampleNTT (FIPS 203, Algorithm 7) for each entry from its squeezed bytes.
pub(super) fn parse_matrix<K: Kernels>(
    k: &K,
    p: &Params,
    transposed: bool,
    rho: &[u8],
    squeezed: &[u8],
    a: &mut [KemPoly],
) {
    for (entry, (poly, part)) in a.iter_mut().zip(squeezed.chunks_exact(UNIFORM_LEN)).enumerate() {
        parse_vartime(k, (rho, *entry_index(p, transposed, entry)), part, poly);
    }
}

/// Adds the entries of A (or A^T) of one rho.
pub(super) fn push_uniform_jobs<'a>(
    p: &Params,
    transposed: bool,
    rho: &'a [u8; 32],
    a: &'a mut [KemPoly],
    jobs: &mut Vec<KemUniform<'a>>,
) {
    for (entry, out) in a.iter_mut().enumerate() {
        jobs.push(KemUniform { rho, index: *entry_index(p, transposed, entry), out });
    }
}
