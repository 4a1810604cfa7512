//! The part of the seam that hashes whole messages: SHA-512, many at a time.

use sha2::block_api::compress512;

use crate::ct;

/// The initial state (FIPS 180-4, section 5.3.5).
pub const SHA512_INITIAL: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// Bytes of a block (FIPS 180-4, figure 1).
pub const BLOCK: usize = 128;

/// One computation of SHA-512 (FIPS 180-4, section 6.4) over the concatenation of the pieces, which
/// may be secret.
pub struct Sha512<'a> {
    /// The message; unused pieces are empty.
    pub pieces: [&'a [u8]; 3],
    /// The output digest.
    pub digest: &'a mut [u8; 64],
}

impl Sha512<'_> {
    /// Bytes of the message.
    #[allow(clippy::len_without_is_empty)] // An empty message is a message.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Blocks of the padded message.
    pub fn blocks(&self) -> usize {
        (self.len() + 1 + 16).div_ceil(BLOCK)
    }

    /// Writes the padded message (FIPS 180-4, section 5.1.2): [`Self::blocks`] blocks.
    pub fn pad(&self, out: &mut [u8]) {
        let mut at = 0;
        for piece in self.pieces {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        out[at..].fill(0);
        out[at] = 0x80;
        if let Some(length) = out.last_chunk_mut() {
            *length = (8 * at as u128).to_be_bytes();
        }
    }

    /// Calls `compress` with each block of the padded message, in order.
    pub fn for_each_block(&self, mut compress: impl FnMut(&[u8; BLOCK])) {
        let mut block = [[0u8; BLOCK]];
        let mut filled = 0;
        for mut piece in self.pieces {
            while !piece.is_empty() {
                let (head, rest) = piece.split_at(piece.len().min(BLOCK - filled));
                block[0][filled..filled + head.len()].copy_from_slice(head);
                filled += head.len();
                piece = rest;
                if filled == BLOCK {
                    compress(&block[0]);
                    filled = 0;
                }
            }
        }
        block[0][filled] = 0x80;
        block[0][filled + 1..].fill(0);
        if filled >= BLOCK - 16 {
            compress(&block[0]);
            block[0].fill(0);
        }
        block[0][BLOCK - 16..].copy_from_slice(&(8 * self.len() as u128).to_be_bytes());
        compress(&block[0]);
        ct::wipe(&mut block);
    }

    /// Hashes the message by itself, portably.
    pub fn run(&mut self) {
        self.run_with(|state, block| compress512(state, core::slice::from_ref(block)));
    }

    /// Hashes the message by itself: `compress` takes a block into a state.
    pub fn run_with(&mut self, mut compress: impl FnMut(&mut [u64; 8], &[u8; BLOCK])) {
        let mut state = SHA512_INITIAL;
        self.for_each_block(|block| compress(&mut state, block));
        for (word, bytes) in state.iter().zip(self.digest.as_chunks_mut::<8>().0) {
            *bytes = word.to_be_bytes();
        }
        ct::wipe(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::Digest;

    #[test]
    fn pieces_of_any_length_hash_as_one() {
        let data: Vec<u8> = (0..400u32).map(|i| (7 * i) as u8).collect();
        for len in 0..400 {
            for cut in [0, 1, 64, 111, 112, 127, 128, 129, 255] {
                let cut = cut.min(len);
                let expected: [u8; 64] = sha2::Sha512::digest(&data[..len]).into();
                let mut digest = [0; 64];
                let pieces = [&data[..cut], &[], &data[cut..len]];
                Sha512 { pieces, digest: &mut digest }.run();
                assert_eq!(digest, expected, "{len}, {cut}");
            }
        }
    }
}
