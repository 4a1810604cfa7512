//! SHA-256 and SHA-512 in a form that is wiped, for HMAC and MGF1 (FIPS 205, section 11.2).

use sha2::block_api::{compress256, compress512};

use crate::ct;
use crate::kernels::slh::{SHA256_START, SHA512_START};

/// The hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Sha256,
    Sha512,
}

impl Width {
    /// Bytes of a digest.
    pub(super) fn digest_len(self) -> usize {
        match self {
            Width::Sha256 => 32,
            Width::Sha512 => 64,
        }
    }

    /// Bytes of a block.
    fn block_len(self) -> usize {
        2 * self.digest_len()
    }
}

/// A hash computation (FIPS 180-4, section 6), wiped when dropped.
struct Hash {
    width: Width,
    sha256: [u32; 8],
    sha512: [u64; 8],
    block: [u8; 128],
    /// Bytes of the block that are filled, below its length.
    at: usize,
    /// Bytes of the message so far.
    total: u64,
}

impl Drop for Hash {
    fn drop(&mut self) {
        ct::wipe(&mut self.sha256);
        ct::wipe(&mut self.sha512);
        ct::wipe(&mut self.block);
    }
}

impl Hash {
    fn new(width: Width) -> Self {
        let (sha256, sha512) = (SHA256_START, SHA512_START);
        Hash { width, sha256, sha512, block: [0; 128], at: 0, total: 0 }
    }

    fn compress(&mut self) {
        match self.width {
            Width::Sha256 => compress256(&mut self.sha256, &self.block.as_chunks().0[..1]),
            Width::Sha512 => compress512(&mut self.sha512, std::slice::from_ref(&self.block)),
        }
        self.at = 0;
    }

    fn update(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.width.block_len() - self.at;
            let (head, rest) = bytes.split_at(bytes.len().min(room));
            self.block[self.at..self.at + head.len()].copy_from_slice(head);
            self.at += head.len();
            bytes = rest;
            if head.len() == room {
                self.compress();
            }
        }
    }

    /// Pads (FIPS 180-4, section 5.1) and writes the digest.
    fn finish(mut self, out: &mut [u8]) {
        let end = self.width.block_len();
        self.block[self.at] = 0x80;
        self.block[self.at + 1..].fill(0);
        if self.at + 1 > end - end / 8 {
            self.compress();
            self.block.fill(0);
        }
        self.block[end - 8..end].copy_from_slice(&(8 * self.total).to_be_bytes());
        self.compress();
        match self.width {
            Width::Sha256 => {
                for (bytes, word) in out.chunks_mut(4).zip(&self.sha256) {
                    bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
                }
            }
            Width::Sha512 => {
                for (bytes, word) in out.chunks_mut(8).zip(&self.sha512) {
                    bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
                }
            }
        }
    }
}

/// The digest of `parts`, cut to `out.len()` bytes.
pub(super) fn hash(width: Width, parts: &[&[u8]], out: &mut [u8]) {
    let mut hash = Hash::new(width);
    parts.iter().for_each(|part| hash.update(part));
    hash.finish(out);
}

/// HMAC (FIPS 198-1) under a key of at most one block, cut to `out.len()` bytes.
pub(super) fn hmac(width: Width, key: &[u8], parts: &[&[u8]], out: &mut [u8]) {
    let end = width.block_len();
    let mut pad = [0u8; 128];
    pad[..key.len()].copy_from_slice(key);
    pad.iter_mut().for_each(|byte| *byte ^= 0x36);
    let mut inner = Hash::new(width);
    inner.update(&pad[..end]);
    parts.iter().for_each(|part| inner.update(part));
    let mut digest = [0u8; 64];
    inner.finish(&mut digest[..width.digest_len()]);
    pad.iter_mut().for_each(|byte| *byte ^= 0x36 ^ 0x5c);
    hash(width, &[&pad[..end], &digest[..width.digest_len()]], out);
    ct::wipe(&mut pad);
    ct::wipe(&mut digest);
}

/// MGF1 (RFC 8017, appendix B.2.1) of a seed in parts.
pub(super) fn mgf1(width: Width, seed: &[&[u8]], out: &mut [u8]) {
    for (counter, mask) in (0u32..).zip(out.chunks_mut(width.digest_len())) {
        let mut hash = Hash::new(width);
        seed.iter().for_each(|part| hash.update(part));
        hash.update(&counter.to_be_bytes());
        hash.finish(mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::sha2::{Digest, Sha256, Sha512};

    #[test]
    fn digests_equal_the_crates_at_every_length() {
        let message: Vec<u8> = (0..400).map(|i| i as u8).collect();
        for len in 0..message.len() {
            let (head, rest) = message[..len].split_at(len / 3);
            let mut out = [0; 64];
            hash(Width::Sha256, &[head, rest], &mut out[..32]);
            assert_eq!(out[..32], Sha256::digest(&message[..len])[..], "{len}");
            hash(Width::Sha512, &[head, rest], &mut out);
            assert_eq!(out[..], Sha512::digest(&message[..len])[..], "{len}");
        }
    }

    /// RFC 4231, test case 2.
    #[test]
    fn hmac_gives_the_published_codes() {
        let (key, parts) = (b"Jefe", [&b"what do ya want "[..], b"for nothing?"]);
        let mut out = [0; 64];
        hmac(Width::Sha256, key, &parts, &mut out[..32]);
        assert_eq!(out[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(out[28..32], [0x64, 0xec, 0x38, 0x43]);
        hmac(Width::Sha512, key, &parts, &mut out);
        assert_eq!(out[..4], [0x16, 0x4b, 0x7a, 0x7b]);
        assert_eq!(out[60..], [0x38, 0xbc, 0xe7, 0x37]);
    }

    #[test]
    fn masks_are_digests_of_seed_and_counter() {
        let mut out = [0; 80];
        mgf1(Width::Sha256, &[b"se", b"ed"], &mut out);
        assert_eq!(out[32..64], Sha256::digest(b"seed\0\0\0\x01")[..]);
        assert_eq!(out[64..], Sha256::digest(b"seed\0\0\0\x02")[..16]);
    }
}
