//! Sponges over eight lanes: what the scheduler of [`crate::common::sponge`] needs of AVX-512.
//!
//! Four lanes or fewer take the lower halves of the registers, where a step costs half.

use core::arch::x86_64::*;

use gabion_scheme::kernels::Sponge;

use crate::avx512::{Isa, keccak, registers};
use crate::common::sponge::{Lanes, Row, SHORT, State, stations};

stations! {
    Isa, 8, 4, __m512i,
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
}

impl Lanes<8, 4> for Isa {
    type Vector = __m512i;

    #[inline(always)]
    fn splat(self, word: u64) -> __m512i {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { _mm512_set1_epi64(word as i64) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn only(self, v: __m512i, lanes: u8) -> __m512i {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { _mm512_maskz_mov_epi64(lanes, v) }
    }

    #[inline(always)]
    unsafe fn load(self, words: *const u8, count: usize) -> __m512i {
        // SAFETY: the token proves that the processor has AVX-512, and eight words can be read.
        unsafe {
            if count == 8 {
                return _mm512_loadu_si512(words.cast());
            }
            _mm512_maskz_loadu_epi64(((1u32 << count) - 1) as u8, words.cast())
        }
    }

    /// One by one: the instruction that gathers takes several times as long on Zen 4.
    #[inline(always)]
    unsafe fn gather(self, words: [*const u8; 8]) -> __m512i {
        // SAFETY: the token proves that the processor has AVX-512, and the words can be read.
        unsafe {
            let [a, b, c, d, e, f, g, h] = words.map(|word| word.cast::<i64>().read_unaligned());
            _mm512_set_epi64(h, g, f, e, d, c, b, a)
        }
    }

    /// A masked store takes several times as long as a full one on Zen 4.
    #[inline(always)]
    unsafe fn store(self, target: *mut u8, v: __m512i, length: usize) {
        // SAFETY: the token proves that the processor has AVX-512, and so much can be written.
        unsafe {
            if length >= 64 {
                _mm512_storeu_si512(target.cast(), v);
            } else {
                _mm512_mask_storeu_epi8(target.cast(), registers::first(length), v);
            }
        }
    }

    #[inline(always)]
    fn copy_short(self, row: &mut Row, at: usize, piece: &[u8]) {
        // Nothing may be mapped where an empty piece points, and suppressing the fault takes 500
        // cycles.
        const NOTHING: &[u8] = &[0; SHORT];
        let source = if piece.is_empty() { NOTHING } else { piece };
        debug_assert!(piece.len() <= SHORT);
        let target = row.0[at..at + SHORT].as_mut_ptr();
        // SAFETY: the token proves that the processor has AVX-512; the mask lets no byte beyond the
        // piece be read; the row has room.
        unsafe {
            let mask = _bzhi_u64(!0, piece.len() as u32);
            let v = _mm512_maskz_loadu_epi8(mask, source.as_ptr().cast());
            _mm512_storeu_si512(target.cast(), v);
        }
    }

    /// Put together in a register: a load that meets several stores waits for all of them.
    #[inline(always)]
    fn copy_pair(self, row: &mut Row, a: &[u8], b: &[u8]) {
        debug_assert!(a.len() + b.len() <= SHORT);
        let behind = registers::first(a.len() + b.len()) & !registers::first(a.len());
        // SAFETY: the token proves that the processor has AVX-512, and the row has room.
        unsafe {
            let second = _mm512_maskz_expand_epi8(behind, registers::load(b, 0));
            let both = _mm512_or_si512(registers::load(a, 0), second);
            _mm512_storeu_si512(row.0.as_mut_ptr().cast(), both);
        }
    }

    #[inline(always)]
    fn equal(self, bytes: &[u8; 64], byte: u8) -> u64 {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { _mm512_cmpeq_epi8_mask(registers::whole(bytes), _mm512_set1_epi8(byte as i8)) }
    }

    #[inline(always)]
    fn rows_to_words<const W: usize>(self, rows: [__m512i; 8]) -> [__m512i; 8] {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { keccak::rows_to_words::<W>(rows) }
    }

    #[inline(always)]
    fn words_to_rows<const W: usize>(self, words: [__m512i; 8]) -> [__m512i; 8] {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { keccak::words_to_rows::<W>(words) }
    }

    #[inline(always)]
    fn permute<const W: usize>(self, state: &mut State<__m512i>) {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe {
            match W {
                4 => keccak::permute_low_4(state),
                _ => keccak::permute_8(state),
            }
        }
    }

    #[inline(always)]
    fn permute_one(self, words: &mut [u64; 25]) {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { keccak::permute_1(words) }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { registers::clear() }
    }

    stations!(methods: __m512i, 8);
}
