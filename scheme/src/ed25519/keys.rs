//! Keys: from seeds, and from bytes.

use curve25519_dalek::scalar::Scalar;
use zeroize::Zeroize;

use super::encoding::is_admitted;
use super::hash::sha512;
use super::{PUBLIC_LEN, Rules, SEED_LEN};
use crate::ct;
use crate::error::Status;
use crate::kernels::Kernels;
use crate::kernels::ed25519::{EdKey, EdPoint};

/// A private key, expanded: what RFC 8032, section 5.1.5 makes of the seed. Wiped when dropped.
#[derive(Clone)]
pub struct SigningKey {
    seed: [u8; SEED_LEN],
    /// The clamped scalar modulo L.
    pub(super) scalar: Scalar,
    /// The second half of the hash.
    pub(super) prefix: [u8; 32],
    public: [u8; PUBLIC_LEN],
    is_expanded: bool,
}

impl SigningKey {
    /// Room for a key.
    pub fn blank() -> Self {
        SigningKey {
            seed: [0; SEED_LEN],
            scalar: Scalar::ZERO,
            prefix: [0; 32],
            public: [0; PUBLIC_LEN],
            is_expanded: false,
        }
    }

    /// Whether a key has been put in.
    pub fn is_expanded(&self) -> bool {
        self.is_expanded
    }

    /// The seed: the private key as RFC 8032 encodes it. Secret.
    pub fn seed(&self) -> &[u8; SEED_LEN] {
        &self.seed
    }

    /// The encoded public key.
    pub fn public(&self) -> &[u8; PUBLIC_LEN] {
        &self.public
    }
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        ct::wipe(&mut self.seed);
        ct::wipe(&mut self.prefix);
        self.scalar.zeroize();
    }
}

/// A public key, decoded under one set of rules, with multiples of its point where the kernels that
/// decoded it use them.
#[derive(Clone, Debug)]
pub struct VerifyKey {
    rules: Rules,
    point: Option<EdPoint>,
}

impl VerifyKey {
    /// Room for a key.
    pub fn blank(rules: Rules) -> Self {
        VerifyKey { rules, point: None }
    }

    /// The rules it was, or is to be, decoded under.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether a key has been put in.
    pub fn is_expanded(&self) -> bool {
        self.point.is_some()
    }

    /// The encoded key; all zero where there is none.
    pub fn bytes(&self) -> &[u8; PUBLIC_LEN] {
        self.point.as_ref().map_or(&[0; PUBLIC_LEN], EdPoint::encoded)
    }

    /// The key as a kernel takes it.
    pub(super) fn kernel_key(&self) -> EdKey<'_> {
        match &self.point {
            Some(point) => EdKey::Decoded(point),
            // No point has this encoding of y = 2: not a key that anything verifies under.
            None => EdKey::Encoded(&NO_POINT),
        }
    }
}

/// y = 2, of which there is no x.
const NO_POINT: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[0] = 2;
    bytes
};

/// Key pairs of seeds (RFC 8032, section 5.1.5).
pub fn keygen<K: Kernels + ?Sized>(k: &K, seeds: &[[u8; SEED_LEN]], keys: &mut [SigningKey]) {
    let mut scalars = Vec::with_capacity(seeds.len());
    for (seed, key) in seeds.iter().zip(keys.iter_mut()) {
        let mut digest = sha512(&[seed]);
        let mut clamped = [0; 32];
        clamped.copy_from_slice(&digest[..32]);
        clamped[0] &= 0xf8;
        clamped[31] = (clamped[31] & 0x7f) | 0x40;
        key.seed = *seed;
        key.scalar = Scalar::from_bytes_mod_order(clamped);
        key.prefix.copy_from_slice(&digest[32..]);
        scalars.push(key.scalar.to_bytes());
        ct::wipe(&mut digest);
        ct::wipe(&mut clamped);
    }
    let mut public = vec![[0; PUBLIC_LEN]; seeds.len()];
    k.ed25519_base_multiples(&scalars, &mut public);
    // The public key is public.
    ct::declassify(&public);
    for (key, public) in keys.iter_mut().zip(public) {
        key.public = public;
        key.is_expanded = true;
    }
    ct::wipe(&mut scalars);
}

/// Decodes public keys `[n][32]`, each under the rules that its blank names. A refused key stays
/// blank.
pub fn decode_keys<K: Kernels + ?Sized>(
    k: &K,
    bytes: &[[u8; PUBLIC_LEN]],
    keys: &mut [VerifyKey],
    status: &mut [Status],
) {
    let mut points = Vec::with_capacity(keys.len());
    for ((bytes, key), status) in bytes.iter().zip(keys.iter_mut()).zip(status.iter_mut()) {
        let is_admitted = key.rules == Rules::Zip215 || is_admitted(bytes);
        let point = if is_admitted { EdPoint::decode(bytes) } else { None };
        key.point = None;
        *status = if point.is_some() { Status::Ok } else { Status::InvalidKey };
        points.extend(point);
    }
    k.ed25519_expand(&mut points);
    let good = keys.iter_mut().zip(status).filter(|(_, status)| status.is_ok());
    for ((key, _), point) in good.zip(points) {
        key.point = Some(point);
    }
}
