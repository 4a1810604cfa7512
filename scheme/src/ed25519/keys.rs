//! Keys: from seeds, and from bytes.

use curve25519_dalek::scalar::Scalar;
use zeroize::Zeroize;

use super::encoding::is_admitted;
use super::hash::sha512_many;
use super::{PUBLIC_LEN, Rules, SEED_LEN};
use crate::ct;
use crate::identity::Identity;
use crate::kernels::Kernels;
use crate::kernels::ed25519::{EdKey, EdPoint};

/// A private key, expanded from the seed by RFC 8032, section 5.1.5. Wiped when dropped.
#[derive(Clone)]
pub struct SigningKey {
    seed: [u8; SEED_LEN],
    /// The clamped scalar modulo L.
    pub(super) scalar: Scalar,
    /// The second half of the hash.
    pub(super) prefix: [u8; 32],
    public: [u8; PUBLIC_LEN],
    is_expanded: bool,
    identity: Identity,
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
            identity: Identity::new(),
        }
    }

    /// Returns whether a key has been put in.
    pub fn is_expanded(&self) -> bool {
        self.is_expanded
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
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

/// A public key, decoded under one set of rules.
#[derive(Debug)]
pub struct VerifyKey {
    rules: Rules,
    point: EdPoint,
    identity: Identity,
}

impl VerifyKey {
    /// Decodes a public key; none where it is not one under the rules.
    pub fn decode(rules: Rules, bytes: &[u8; PUBLIC_LEN]) -> Option<Self> {
        let is_admitted = rules == Rules::Zip215 || is_admitted(bytes);
        let point = if is_admitted { EdPoint::decode(bytes) } else { None };
        point.map(|point| VerifyKey { rules, point, identity: Identity::new() })
    }

    /// The rules it was decoded under.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
    }

    /// The encoded key.
    pub fn bytes(&self) -> &[u8; PUBLIC_LEN] {
        self.point.encoded()
    }

    /// The key as a kernel takes it.
    pub(super) fn kernel_key(&self) -> EdKey<'_> {
        EdKey::Decoded(&self.point)
    }
}

/// Key pairs of seeds (RFC 8032, section 5.1.5).
pub fn keygen<K: Kernels + ?Sized>(k: &K, seeds: &[[u8; SEED_LEN]], keys: &mut [SigningKey]) {
    let mut scalars = Vec::with_capacity(seeds.len());
    let mut digests = sha512_many(k, seeds.iter().map(|seed| [&seed[..], &[], &[]]));
    for ((seed, key), digest) in seeds.iter().zip(keys.iter_mut()).zip(&digests) {
        let mut clamped = [0; 32];
        clamped.copy_from_slice(&digest[..32]);
        clamped[0] &= 0xf8;
        clamped[31] = (clamped[31] & 0x7f) | 0x40;
        key.seed = *seed;
        key.scalar = Scalar::from_bytes_mod_order(clamped);
        key.prefix.copy_from_slice(&digest[32..]);
        scalars.push(key.scalar.to_bytes());
        ct::wipe(&mut clamped);
    }
    ct::wipe(digests.as_flattened_mut());
    let mut public = vec![[0; PUBLIC_LEN]; seeds.len()];
    k.ed25519_base_multiples(&scalars, &mut public);
    // The public key is public.
    ct::declassify(&public);
    for (key, public) in keys.iter_mut().zip(public) {
        key.public = public;
        key.is_expanded = true;
        key.identity.renew();
    }
    ct::wipe(&mut scalars);
}
