//! KEY.trees: trees that took long to make, kept beside the key.
//!
//! What is in it is public and can be made again. But a signer believes it: with a node of another tree an upper
//! leaf would sign twice. So it is authenticated under the key's secret, and what is not whole is not there.

use gabion_engine::keys::stateful::digest_of;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::files::{Environment, Paths, read_file, write_file};

const MAGIC: [u8; 8] = *b"gabtree1";
/// Bytes of the code behind it.
const TAG: usize = 32;
/// Bytes of a file of this kind, at most: eight trees 16 high of 32 bytes a node, twice, and more.
const TREES_MAX: u64 = 256 << 20;

/// The cache of a key.
pub struct Trees {
    environment: Environment,
    paths: Paths,
    key: Zeroizing<[u8; 32]>,
}

impl Trees {
    /// Of a key whose private key file holds `secret`.
    pub fn new(environment: &Environment, key: &std::path::Path, secret: &[u8]) -> Self {
        let (environment, paths) = (environment.clone(), Paths::new(key));
        Trees { environment, paths, key: key_of(b"gabion trees", secret) }
    }

    /// What was kept; none where nothing was, or anything about it is wrong.
    pub fn load(&self) -> Option<Vec<u8>> {
        let disk = &*self.environment.disk;
        let mut bytes = read_file(disk, &self.paths.trees, TREES_MAX).ok()?;
        let body = bytes.len().checked_sub(TAG)?;
        let tag = bytes.split_off(body);
        let is_ours = bytes.starts_with(&MAGIC) && self.mac(&bytes).verify_slice(&tag).is_ok();
        if !is_ours {
            return None;
        }
        // In place: they may be large, and memory short.
        bytes.drain(..MAGIC.len());
        Some(std::mem::take(&mut *bytes))
    }

    /// Keeps `trees` in place of what was kept. Whether it worked changes nothing but the time it takes to open
    /// the key. Only who has the key open may call this.
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

/// What authenticates files beside a key under its secret: a label for each kind.
pub(crate) fn mac_under(label: &[u8], secret: &[u8]) -> Hmac<Sha256> {
    mac_with(&key_of(label, secret))
}

fn key_of(label: &[u8], secret: &[u8]) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(digest_of(&Zeroizing::new([label, secret].concat())))
}

/// HMAC-SHA-256 (RFC 2104), under a key of a block's length: there is none that could be refused.
fn mac_with(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = Zeroizing::new([0; 64]);
    block[..32].copy_from_slice(key);
    Hmac::<Sha256>::new((&*block).into())
}
