//! KEY.trees: trees that took long to make, kept beside the key.
//!
//! What is in it is public and can be made again. But a signer believes it: with a node of another tree an upper
//! leaf would sign twice. So it is authenticated under the key's secret, and what is not whole is not there.

use std::path::PathBuf;

use gabion_engine::keys::stateful::digest_of;
use hmac::{Hmac, KeyInit, Mac};
use sha2_hmac::Sha256;
use zeroize::Zeroizing;

use crate::disk::{Access, write_all};
use crate::files::{Paths, Surroundings, read_file};

const MAGIC: [u8; 8] = *b"gabtree1";
/// Bytes of the code behind it.
const TAG: usize = 32;
/// Bytes of a file of this kind, at most: eight trees 16 high of 32 bytes a node, twice, and more.
const TREES_MAX: u64 = 256 << 20;

/// The cache of a key.
pub struct Trees {
    around: Surroundings,
    paths: Paths,
    key: Zeroizing<[u8; 32]>,
}

impl Trees {
    /// Of a key whose private key file holds `secret`.
    pub fn new(around: &Surroundings, key: &std::path::Path, secret: &[u8]) -> Self {
        let label = Zeroizing::new([b"gabion trees", secret].concat());
        let key_of_trees = Zeroizing::new(digest_of(&label));
        Trees { around: around.clone(), paths: Paths::of(key), key: key_of_trees }
    }

    /// What was kept; none where nothing was, or anything about it is wrong.
    pub fn load(&self) -> Option<Vec<u8>> {
        let disk = &*self.around.disk;
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
        let disk = &*self.around.disk;
        let mut new = self.paths.trees.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        // One that a process left that was killed.
        let _ = disk.remove(&new);
        let written = disk.open(&new, Access::New).and_then(|file| {
            write_all(&*file, &bytes, 0)?;
            file.sync()?;
            disk.rename(&new, &self.paths.trees)?;
            disk.sync_folder(self.paths.folder())
        });
        if written.is_err() {
            let _ = disk.remove(&new);
        }
        written.is_ok()
    }

    /// HMAC-SHA-256 (RFC 2104), under a key of a block's length: there is none that could be refused.
    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut block = Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(&*self.key);
        Hmac::<Sha256>::new((&*block).into()).chain_update(bytes)
    }
}
