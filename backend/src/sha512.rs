//! SHA-512's compression (FIPS 180-4, section 6.4) for hashes without parallel work, in the fastest
//! implementation for this processor: HMAC tags of a key schedule, which come one at a time.
//!
//! Many hashes in parallel are the job of kernels
//! ([`gabion_scheme::kernels::Kernels::sha512_many`]).

use core::sync::atomic::{AtomicU8, Ordering};

use gabion_scheme::kernels::sha512::{BLOCK, SHA512_INITIAL};

use crate::common::sha512::{Blocks, Portable};

/// A way to run blocks.
#[derive(Clone, Copy, Debug)]
pub struct Sha512Blocks(Implementation);

/// The implementation of the compression function.
#[derive(Clone, Copy, Debug)]
enum Implementation {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx512(crate::avx512::Isa),
}

/// The cached result of [`Sha512Blocks::best`]: unknown, portable, or another implementation.
static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const PORTABLE: u8 = 1;
const QUICKER: u8 = 2;

impl Sha512Blocks {
    /// Returns the fastest implementation on this processor, if it agrees with the portable one,
    /// which is checked once.
    pub fn best() -> Self {
        let portable = Self::portable();
        let found = FOUND.load(Ordering::Relaxed);
        if found == PORTABLE {
            return portable;
        }
        let Some(quicker) = Self::quicker() else {
            FOUND.store(PORTABLE, Ordering::Relaxed);
            return portable;
        };
        if found == QUICKER || quicker.agrees_with(portable) {
            FOUND.store(QUICKER, Ordering::Relaxed);
            return quicker;
        }
        FOUND.store(PORTABLE, Ordering::Relaxed);
        portable
    }

    /// The way that every processor has.
    pub fn portable() -> Self {
        Sha512Blocks(Implementation::Portable)
    }

    #[cfg(target_arch = "x86_64")]
    fn quicker() -> Option<Self> {
        crate::avx512::Isa::detect().map(|isa| Sha512Blocks(Implementation::Avx512(isa)))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn quicker() -> Option<Self> {
        None
    }

    /// Returns whether another way gives the same states of two blocks.
    fn agrees_with(self, other: Self) -> bool {
        let blocks = [[0x5a; BLOCK], core::array::from_fn(|i| i as u8)];
        let [ours, theirs] = [self, other].map(|way| {
            let mut states = [SHA512_INITIAL; 2];
            way.compress_two(&mut states, blocks.each_ref());
            way.compress(&mut states[0], &blocks);
            states
        });
        ours == theirs
    }

    /// Blocks into a state, one after the other. Time depends on their number.
    pub fn compress(self, state: &mut [u64; 8], blocks: &[[u8; BLOCK]]) {
        match self.0 {
            Implementation::Portable => Portable.compress(state, blocks),
            #[cfg(target_arch = "x86_64")]
            Implementation::Avx512(token) => token.compress(state, blocks),
        }
    }

    /// A block into each of two states.
    pub fn compress_two(self, states: &mut [[u64; 8]; 2], blocks: [&[u8; BLOCK]; 2]) {
        match self.0 {
            Implementation::Portable => Portable.compress_two(states, blocks),
            #[cfg(target_arch = "x86_64")]
            Implementation::Avx512(token) => token.compress_two(states, blocks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of anything, into states of anything.
    #[test]
    fn accelerated_compression_matches_portable() {
        let mut byte = 1u32;
        let mut next = || {
            byte = byte.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (byte >> 24) as u8
        };
        let Some(quicker) = Sha512Blocks::quicker() else { return };
        let portable = Sha512Blocks::portable();
        let mut states = [SHA512_INITIAL; 2];
        for count in 0..40 {
            let blocks: Vec<[u8; BLOCK]> =
                (0..2 + count % 5).map(|_| core::array::from_fn(|_| next())).collect();
            let mut ours = states;
            quicker.compress_two(&mut ours, [&blocks[0], &blocks[1]]);
            portable.compress_two(&mut states, [&blocks[0], &blocks[1]]);
            assert_eq!(ours, states, "two at once");
            quicker.compress(&mut ours[0], &blocks);
            portable.compress(&mut states[0], &blocks);
            assert_eq!(ours, states, "{} blocks", blocks.len());
        }
    }

    #[test]
    fn each_of_two_has_a_block_of_its_own() {
        let best = Sha512Blocks::best();
        let (mut states, mut swapped) = ([SHA512_INITIAL; 2], [SHA512_INITIAL; 2]);
        best.compress_two(&mut states, [&[1; BLOCK], &[2; BLOCK]]);
        best.compress_two(&mut swapped, [&[2; BLOCK], &[1; BLOCK]]);
        swapped.reverse();
        assert_eq!(states, swapped);
        assert_ne!(states[0], states[1]);
    }
}
