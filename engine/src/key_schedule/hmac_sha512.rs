//! HMAC (RFC 2104) with SHA-384 and SHA-512 (FIPS 180-4, section 6.4) over [`Sha512Blocks`].
//!
//! ```text
//!   key ^ ipad --+ side by side    inner state <- message || padding --> digest
//!   key ^ opad --+                 outer state <- digest || padding --> code
//! ```
//!
//! The two blocks of the key are hashed side by side; of a code of one block each that is three
//! quarters of the time of four blocks in a row.

use gabion_backend::Sha512Blocks;
use gabion_scheme::ct;
use gabion_scheme::kernels::sha512::{BLOCK, SHA512_INITIAL};

use super::Code;
use crate::error::Error;

/// The initial state of SHA-384 (FIPS 180-4, section 5.3.4).
const SHA384_INITIAL: [u64; 8] = [
    0xcbbb_9d5d_c105_9ed8,
    0x629a_292a_367c_d507,
    0x9159_015a_3070_dd17,
    0x152f_ecd8_f70e_5939,
    0x6733_2667_ffc0_0b31,
    0x8eb4_4a87_6858_1511,
    0xdb0c_2e0d_64f9_8fa7,
    0x47b5_481d_befa_4fa4,
];

/// HMAC whose codes have `LEN` bytes: 48 with SHA-384, or 64 with SHA-512. Wiped when dropped.
#[derive(Clone)]
pub(super) struct HmacSha512<const LEN: usize> {
    blocks: Sha512Blocks,
    /// The inner state and the outer one.
    states: [[u64; 8]; 2],
    /// The buffered input that is not hashed yet.
    block: [u8; BLOCK],
    /// Bytes of it, below a block's.
    filled: usize,
    /// Bytes of the message so far.
    total: u64,
}

impl<const LEN: usize> Drop for HmacSha512<LEN> {
    fn drop(&mut self) {
        ct::wipe(self.states.as_flattened_mut());
        ct::wipe(&mut self.block);
    }
}

impl<const LEN: usize> HmacSha512<LEN> {
    const INITIAL: [u64; 8] = {
        assert!(LEN == 48 || LEN == 64);
        if LEN == 48 { SHA384_INITIAL } else { SHA512_INITIAL }
    };

    /// Before the key.
    fn new() -> Self {
        let (blocks, states) = (Sha512Blocks::best(), [Self::INITIAL; 2]);
        HmacSha512 { blocks, states, block: [0; BLOCK], filled: 0, total: 0 }
    }

    /// Pads a message of which all but `filled` bytes are hashed, and `before` bytes more, into
    /// `state` (FIPS 180-4, section 5.1.2).
    fn close(&mut self, state: usize, before: u64) {
        let bits = 8 * u128::from(before + self.total);
        self.block[self.filled] = 0x80;
        self.block[self.filled + 1..].fill(0);
        if self.filled >= BLOCK - 16 {
            self.compress(state);
            self.block.fill(0);
        }
        self.block[BLOCK - 16..].copy_from_slice(&bits.to_be_bytes());
        self.compress(state);
    }

    fn compress(&mut self, state: usize) {
        self.blocks.compress(&mut self.states[state], core::slice::from_ref(&self.block));
    }

    /// The bytes of a state.
    fn digest(&self, state: usize) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.states[state]) {
            *bytes = word.to_be_bytes();
        }
        bytes
    }
}

impl<const LEN: usize> Code for HmacSha512<LEN> {
    fn len() -> usize {
        LEN
    }

    fn keyed(key: &[u8]) -> Result<Self, Error> {
        let mut code = Self::new();
        let mut pads = [[0; BLOCK]; 2];
        if let Some(pad) = pads[0].get_mut(..key.len()) {
            pad.copy_from_slice(key);
        } else {
            // A key longer than a block is hashed (RFC 2104, section 2).
            code.absorb(key);
            code.close(0, 0);
            let mut digest = code.digest(0);
            pads[0][..LEN].copy_from_slice(&digest[..LEN]);
            ct::wipe(&mut digest);
            code = Self::new();
        }
        pads[1] = pads[0];
        pads[0].iter_mut().for_each(|byte| *byte ^= 0x36);
        pads[1].iter_mut().for_each(|byte| *byte ^= 0x5c);
        code.blocks.compress_two(&mut code.states, pads.each_ref());
        ct::wipe(pads.as_flattened_mut());
        Ok(code)
    }

    fn absorb(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.block[self.filled..self.filled + head.len()].copy_from_slice(head);
            self.filled += head.len();
            bytes = rest;
            if self.filled == BLOCK {
                self.compress(0);
                self.filled = 0;
            }
        }
    }

    fn finish(mut self, out: &mut [u8]) {
        self.close(0, BLOCK as u64);
        let mut digest = self.digest(0);
        self.block[..LEN].copy_from_slice(&digest[..LEN]);
        (self.filled, self.total) = (LEN, LEN as u64);
        self.close(1, BLOCK as u64);
        digest = self.digest(1);
        out.copy_from_slice(&digest[..out.len()]);
        ct::wipe(&mut digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::{Sha384, Sha512};

    /// Computes the MAC with RustCrypto, to compare.
    fn expected<const LEN: usize>(key: &[u8], message: &[u8]) -> Vec<u8> {
        if LEN == 48 {
            let mac = Hmac::<Sha384>::new_from_slice(key).unwrap();
            return mac.chain_update(message).finalize().into_bytes().to_vec();
        }
        let mac = Hmac::<Sha512>::new_from_slice(key).unwrap();
        mac.chain_update(message).finalize().into_bytes().to_vec()
    }

    /// Keys and messages of every length round one block and two, absorbed in pieces.
    fn check<const LEN: usize>() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 7 + 3) as u8).collect();
        for key_len in (0..=4).chain(44..=68).chain(124..=132).chain([256, 300]) {
            for len in (0..=4).chain(44..=72).chain(107..=132).chain(236..=260) {
                let (key, message) = (&bytes[..key_len], &bytes[..len]);
                let mut code = HmacSha512::<LEN>::keyed(key).unwrap();
                let copy = code.clone();
                for piece in message.chunks(1 + len / 3) {
                    code.absorb(piece);
                }
                let mut out = [0; LEN];
                code.finish(&mut out);
                assert_eq!(out[..], expected::<LEN>(key, message), "{key_len} {len}");
                let mut short = [0; 12];
                copy.finish(&mut short);
                assert_eq!(short[..], expected::<LEN>(key, b"")[..12], "{key_len}, a copy");
            }
        }
    }

    #[test]
    fn codes_are_those_of_another_implementation() {
        check::<48>();
        check::<64>();
    }
}
