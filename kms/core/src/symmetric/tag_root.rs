//! Derived HMAC keys of versions whose own key has another purpose (ADR 0099).
//!
//! ```text
//!   the version's secret --HKDF-Extract--> TagRoot --HKDF-Expand--> an HMAC key for each hash
//!                          salt: SALT                info: INFO, the version's id, the hash
//! ```
//!
//! HKDF with SHA-256 (RFC 5869) is one-way: the root and the derived keys reveal nothing about the
//! secret, and the derived keys of a version are independent.

use gabion_engine::Prehash;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use super::Mac;
use crate::model::VersionId;

/// The salt, which separates this use of the secret from all others.
const SALT: &[u8] = b"gabion-kms hmac of a key v1";

/// The prefix of `info`, before the version's id. No part contains a zero byte.
const INFO: &[u8] = b"gabion-kms hmac key\0";

/// The root of a version's derived HMAC keys.
pub struct TagRoot(Zeroizing<[u8; 32]>);

impl TagRoot {
    /// Extracts the root from a version's secret.
    pub fn of_secret(secret: &[u8]) -> Self {
        let (mut extracted, _) = Hkdf::<Sha256>::extract(Some(SALT), secret);
        let root = TagRoot(Zeroizing::new(extracted.into()));
        extracted.as_mut_slice().zeroize();
        root
    }

    /// Derives the key of a version for a hash, as long as the hash's digest. Returns `None` if
    /// there is no HMAC with the hash.
    pub fn mac(&self, by: &VersionId, hash: Prehash) -> Option<Mac> {
        let hkdf = Hkdf::<Sha256>::from_prk(&self.0[..]).ok()?;
        let mut key = Zeroizing::new([0; 64]);
        let key = key.get_mut(..hash.digest_len())?;
        let by = by.to_string();
        let info = [INFO, by.as_bytes(), b"\0", hash.name().as_bytes()];
        hkdf.expand_multi_info(&info, key).ok()?;
        Mac::of_hash(hash, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(secret: &[u8], by: &str, hash: Prehash) -> String {
        let root = TagRoot::of_secret(secret);
        let tag = root.mac(&by.parse().unwrap(), hash).unwrap().tag(b"message");
        base16ct::lower::encode_string(&tag)
    }

    /// Tags have to stay verifiable, so derived keys never change. Computed with Python's hmac,
    /// too.
    #[test]
    fn derived_keys_never_change() {
        let by = "default/transit/ed25519/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c#v1";
        for (hash, wanted) in [
            (Prehash::Sha2_256, "69846e8627d0bcdd583880e299f7d221e3a45cf3bd1cd57ced8f1e1ef4dc53d7"),
            (
                Prehash::Sha3_512,
                "400333107e838dc9815719d4f01d6cf39bae67f108773e7cd64f3ecb480f43da5993c74dc47942f952dd860b15703aa47268924f37cb261cf548cdb029331c82",
            ),
        ] {
            assert_eq!(tag(&[7; 32], by, hash), wanted, "{hash:?}");
        }
    }

    #[test]
    fn each_version_and_hash_has_a_key_of_its_own() {
        let id = |tenant: &str, version: u32| {
            format!("{tenant}/transit/ed25519/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c#v{version}")
        };
        let mut tags = vec![
            tag(&[7; 32], &id("default", 1), Prehash::Sha2_256),
            tag(&[8; 32], &id("default", 1), Prehash::Sha2_256),
            tag(&[7; 32], &id("default", 2), Prehash::Sha2_256),
            tag(&[7; 32], &id("other", 1), Prehash::Sha2_256),
            tag(&[7; 32], &id("default", 1), Prehash::Sha3_256),
        ];
        let count = tags.len();
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), count);
        let by = id("default", 1).parse().unwrap();
        assert!(TagRoot::of_secret(&[7; 32]).mac(&by, Prehash::Shake256).is_none());
    }
}
