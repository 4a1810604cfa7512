//! KEY.trees: a cache of trees that take long to compute.
//!
//! The content is public and can be computed again, but a signer trusts it: with a node of another
//! tree, an upper leaf would sign twice. It is therefore authenticated with the key's secret, and
//! ignored unless intact.
//!
//! A tree that is computed again has the same root, and the leaf above signs it alike. In HSS, the
//! secret and identifier of a tree and the randomizer of its signature derive from that leaf. In
//! XMSS^MT, all trees derive from the key's seeds and their own addresses, and roots are signed
//! without a randomizer.

use gabion_engine::keys::stateful::digest_of;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::files::{Environment, Paths, read_file, write_file};

const MAGIC: [u8; 8] = *b"gabtree1";
/// Length in bytes of the authentication tag.
const TAG: usize = 32;
/// Maximum size of the file in bytes: eight trees of height 16 with 32 bytes per node, twice, and
/// more.
const TREES_MAX: u64 = 256 << 20;

/// The tree cache of a key.
pub struct Trees {
    environment: Environment,
    paths: Paths,
    key: Zeroizing<[u8; 32]>,
}

impl Trees {
    /// Returns the cache of a key whose private key file contains `secret`.
    pub fn new(environment: &Environment, key: &std::path::Path, secret: &[u8]) -> Self {
        let (environment, paths) = (environment.clone(), Paths::new(key));
        Trees { environment, paths, key: key_of(b"gabion trees", secret) }
    }

    /// Returns the cached trees, or `None` if the cache is missing or invalid.
    pub fn load(&self) -> Option<Vec<u8>> {
        let disk = &*self.environment.disk;
        let mut bytes = read_file(disk, &self.paths.trees, TREES_MAX).ok()?;
        let body = bytes.len().checked_sub(TAG)?;
        let tag = bytes.split_off(body);
        let is_ours = bytes.starts_with(&MAGIC) && self.mac(&bytes).verify_slice(&tag).is_ok();
        if !is_ours {
            return None;
        }
        // In place, because trees may be large and memory scarce.
        bytes.drain(..MAGIC.len());
        Some(std::mem::take(&mut *bytes))
    }

    /// Replaces the cached trees. A failure only affects how long opening the key takes. Only the
    /// process that has the key open may call this.
    pub fn save(&self, trees: &[u8]) -> bool {
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(MAGIC.len() + trees.len() + TAG).is_err() {
            return false;
        }
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(trees);
        let tag = self.mac(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&tag);
        write_file(&*self.environment.disk, &self.paths.trees, &bytes, true).is_ok()
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        mac_with(&self.key).chain_update(bytes)
    }
}

/// Returns the MAC for a file of a key, keyed with its secret and a label for each kind of file.
pub(crate) fn mac_under(label: &[u8], secret: &[u8]) -> Hmac<Sha256> {
    mac_with(&key_of(label, secret))
}

fn key_of(label: &[u8], secret: &[u8]) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(digest_of(&Zeroizing::new([label, secret].concat())))
}

/// Returns HMAC-SHA-256 (RFC 2104). The key is padded to a block, a length that cannot be rejected.
fn mac_with(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = Zeroizing::new([0; 64]);
    block[..32].copy_from_slice(key);
    Hmac::<Sha256>::new((&*block).into())
}
