//! Blocks of SHA-512 (FIPS 180-4, section 6.4), one hash at a time, by any instruction set.

use gabion_scheme::kernels::sha512::BLOCK;
use sha2::block_api::compress512;

/// A way to run blocks.
pub(crate) trait Blocks {
    /// Blocks into a state, one after the other. Time depends on their number.
    fn compress(&self, state: &mut [u64; 8], blocks: &[[u8; BLOCK]]);

    /// A block into each of two states.
    fn compress_two(&self, states: &mut [[u64; 8]; 2], blocks: [&[u8; BLOCK]; 2]);
}

/// The way that every processor has.
pub(crate) struct Portable;

impl Blocks for Portable {
    fn compress(&self, state: &mut [u64; 8], blocks: &[[u8; BLOCK]]) {
        // Two blocks at once are slower in this crate than one after the other.
        for block in blocks {
            compress512(state, core::slice::from_ref(block));
        }
    }

    fn compress_two(&self, states: &mut [[u64; 8]; 2], blocks: [&[u8; BLOCK]; 2]) {
        for (state, block) in states.iter_mut().zip(blocks) {
            self.compress(state, core::slice::from_ref(block));
        }
    }
}
