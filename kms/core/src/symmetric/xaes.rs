//! XAES-256-GCM (C2SP, <https://c2sp.org/XAES-256-GCM>): half of the nonce derives a key for each
//! message, with CMAC as a key-derivation function in counter mode (NIST SP 800-108r1, section
//! 4.1).

use aes_gcm::Aes256Gcm;
use aes_gcm::aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes_gcm::aes::{Aes256, Block};
use zeroize::Zeroize;

/// The size of a nonce in bytes: half of it derives the key, half of it is that key's nonce.
pub const NONCE: usize = 24;

/// The number of nonce bytes that derive the key of a message.
const OF_KEY: usize = 12;

/// An XAES-256-GCM key.
pub struct Xaes256Gcm {
    cipher: Aes256,
    /// K1 of CMAC (NIST SP 800-38B, section 6.1). The derivation has no partial blocks, so K2 is
    /// not needed.
    mask: Block,
}

impl Xaes256Gcm {
    pub fn new(key: &[u8; 32]) -> Self {
        let cipher = Aes256::new(key.into());
        let mut mask = Block::default();
        cipher.encrypt_block(&mut mask);
        // Doubling in GF(2^128), in constant time with respect to the first bit.
        let reduce = 0x87 & 0_u8.wrapping_sub(mask[0] >> 7);
        let next: [u8; 16] = std::array::from_fn(|n| mask.get(n + 1).map_or(0, |byte| byte >> 7));
        for (byte, carry) in mask.iter_mut().zip(next) {
            *byte = *byte << 1 | carry;
        }
        mask[15] ^= reduce;
        Xaes256Gcm { cipher, mask }
    }

    /// Returns the derived cipher of a nonce, and the rest of the nonce.
    pub fn derived(&self, nonce: &[u8; NONCE]) -> (Aes256Gcm, [u8; NONCE - OF_KEY]) {
        let mut key = [Block::default(); 2];
        for (block, counter) in key.iter_mut().zip(1..) {
            block[..4].copy_from_slice(&[0, counter, b'X', 0]);
            block[4..].copy_from_slice(&nonce[..OF_KEY]);
            block.iter_mut().zip(self.mask).for_each(|(byte, mask)| *byte ^= mask);
        }
        self.cipher.encrypt_blocks(&mut key);
        let mut bytes = [0; 32];
        for (half, block) in bytes.chunks_exact_mut(16).zip(&mut key) {
            half.copy_from_slice(block);
            block.as_mut_slice().zeroize();
        }
        let cipher = Aes256Gcm::new((&bytes).into());
        bytes.zeroize();
        let mut rest = [0; NONCE - OF_KEY];
        rest.copy_from_slice(&nonce[OF_KEY..]);
        (cipher, rest)
    }
}

impl Drop for Xaes256Gcm {
    fn drop(&mut self) {
        self.mask.as_mut_slice().zeroize();
    }
}
