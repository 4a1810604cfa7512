//! Sponges over two lanes: what the scheduler of [`crate::common::sponge`] needs of NEON with the SHA3
//! extension.
//!
//! A single sponge runs on general registers, which leave no lane empty.

use core::arch::aarch64::*;

use gabion_scheme::kernels::Sponge;

use super::{Sha3, keccak, registers};
use crate::common::memory::Table;
use crate::common::sponge::{Lanes, Row, SHORT, State, copy_any, stations};
use crate::portable::keccak_f1600;

stations!(Sha3, 2, 2, uint64x2_t, #[target_feature(enable = "neon,sha3")]);

/// The words of each set of lanes.
static LANES: [Table<u64, 2>; 4] = [Table([0, 0]), Table([!0, 0]), Table([0, !0]), Table([!0, !0])];

impl Lanes<2, 2> for Sha3 {
    type Vector = uint64x2_t;

    #[inline(always)]
    fn splat(self, word: u64) -> uint64x2_t {
        // SAFETY: the token proves that the processor has NEON.
        unsafe { vdupq_n_u64(word) }
    }

    #[inline(always)]
    fn xor(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        // SAFETY: the token proves that the processor has NEON.
        unsafe { veorq_u64(a, b) }
    }

    #[inline(always)]
    fn only(self, v: uint64x2_t, lanes: u8) -> uint64x2_t {
        // SAFETY: the token proves that the processor has NEON.
        unsafe {
            let mask = registers::table(&LANES[usize::from(lanes & 3)]);
            vandq_u64(v, vreinterpretq_u64_u8(mask))
        }
    }

    #[inline(always)]
    unsafe fn load(self, words: *const u8, count: usize) -> uint64x2_t {
        // SAFETY: the token proves that the processor has NEON, and two words can be read.
        let v = unsafe { vreinterpretq_u64_u8(vld1q_u8(words)) };
        // The first words.
        self.only(v, [0, 1, 3][count.min(2)])
    }

    #[inline(always)]
    unsafe fn gather(self, [a, b]: [*const u8; 2]) -> uint64x2_t {
        // SAFETY: the token proves that the processor has NEON, and a word can be read at each.
        unsafe { vreinterpretq_u64_u8(vcombine_u8(vld1_u8(a), vld1_u8(b))) }
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut u8, v: uint64x2_t, length: usize) {
        // SAFETY: the token proves that the processor has NEON, and so much can be written.
        unsafe {
            let v = vreinterpretq_u8_u64(v);
            if length >= 16 {
                return vst1q_u8(target, v);
            }
            registers::store_first(target, v, length);
        }
    }

    #[inline(always)]
    fn copy_short(self, row: &mut Row, at: usize, piece: &[u8]) {
        let target = &mut row.0[at..at + SHORT];
        match piece.len() {
            // The seeds of both schemes.
            32 => target[..32].copy_from_slice(piece),
            64 => target.copy_from_slice(piece),
            n => copy_any(&mut target[..n], piece),
        }
    }

    #[inline(always)]
    fn equal(self, bytes: &[u8; 64], byte: u8) -> u64 {
        static BITS: Table<u8, 16> =
            Table([1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128]);
        let [a, b, c, d] = [0, 16, 32, 48].map(|at| bytes[at..].as_ptr());
        // SAFETY: the token proves that the processor has NEON, and 16 bytes can be read at each of
        // the four places.
        unsafe {
            let (bits, byte) = (registers::table(&BITS), vdupq_n_u8(byte));
            let a = vandq_u8(vceqq_u8(vld1q_u8(a), byte), bits);
            let b = vandq_u8(vceqq_u8(vld1q_u8(b), byte), bits);
            let c = vandq_u8(vceqq_u8(vld1q_u8(c), byte), bits);
            let d = vandq_u8(vceqq_u8(vld1q_u8(d), byte), bits);
            // Three sums of neighbours make one byte of each eight.
            let pairs = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)))
        }
    }

    #[inline(always)]
    fn rows_to_words<const W: usize>(self, [a, b]: [uint64x2_t; 2]) -> [uint64x2_t; 2] {
        // SAFETY: the token proves that the processor has NEON.
        unsafe { [vtrn1q_u64(a, b), vtrn2q_u64(a, b)] }
    }

    #[inline(always)]
    fn words_to_rows<const W: usize>(self, words: [uint64x2_t; 2]) -> [uint64x2_t; 2] {
        self.rows_to_words::<W>(words)
    }

    #[inline(always)]
    fn permute<const W: usize>(self, state: &mut State<uint64x2_t>) {
        // SAFETY: the token proves that the processor has the SHA3 extension.
        unsafe { keccak::permute_2(state) }
    }

    #[inline(always)]
    fn permute_one(self, words: &mut [u64; 25]) {
        keccak_f1600(words);
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has NEON.
        unsafe { registers::clear() }
    }

    stations!(methods: uint64x2_t, 2);
}
