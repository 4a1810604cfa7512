//! Keccak-f[1600] on eight states, four or one (FIPS 202, section 3.3).
//!
//! ```text
//!   state[w] = word w of lane 0 | word w of lane 1 | ... | word w of lane 7      w in 0..25
//! ```
//!
//! A round is 10 three-input operations, 5 rotations and 5 xors for the parities of theta, 25 xors
//! to apply them, 24 rotations for rho, none for pi (renaming), 25 three-input operations for chi
//! and 1 xor for iota: 95, of which a core does two a cycle at 512 bits. So 24 rounds take at least
//! 1140 cycles.
//!
//! Zen 4 takes 1460 at 512 bits, where rotations and three-input operations get in each other's
//! way, and 740 at 256 or 128 bits, where it does four operations a cycle: four lanes cost half of
//! eight, and one state costs as much as four. Every order tried came out the same at 512 bits. At
//! 256 bits the order below takes a sixth less time than what LLVM makes of intrinsics, which is
//! why this is assembly. Theta in 25 three-input operations (90 in all) lost by a tenth.

use core::arch::asm;
use core::arch::x86_64::*;

use super::registers;
use crate::memory::Table;
use crate::portable::ROUND_CONSTANTS;

/// In memory, for the loop to walk over.
static CONSTANTS: [u64; 24] = ROUND_CONSTANTS;

/// Eight states, word by word.
pub(super) type State = [__m512i; 25];

/// One instruction on registers of the kind `$r`, which are given by number.
macro_rules! instruction {
    ($r:literal copy $to:literal $from:literal) => {
        concat!("vmovdqa64 ", $r, $to, ", ", $r, $from, "\n")
    };
    ($r:literal xor $to:literal $with:literal) => {
        concat!("vpxorq ", $r, $to, ", ", $r, $to, ", ", $r, $with, "\n")
    };
    // to ^ a ^ b
    ($r:literal xor3 $to:literal $a:literal $b:literal) => {
        concat!("vpternlogq ", $r, $to, ", ", $r, $a, ", ", $r, $b, ", 0x96\n")
    };
    // to ^ (!a & b)
    ($r:literal chi $to:literal $a:literal $b:literal) => {
        concat!("vpternlogq ", $r, $to, ", ", $r, $a, ", ", $r, $b, ", 0xd2\n")
    };
    ($r:literal rotate $to:literal $from:literal $by:literal) => {
        concat!("vprolq ", $r, $to, ", ", $r, $from, ", ", $by, "\n")
    };
    // The constant of the round.
    ($r:literal constant $to:literal) => {
        concat!("vpbroadcastq ", $r, $to, ", qword ptr [{constants}]\n")
    };
}

macro_rules! program {
    ($r:literal: $($operation:ident $($operand:literal)+;)*) => {
        concat!($(instruction!($r $operation $($operand)+)),*)
    };
}

/// A round. Register x + 5 y holds word (x, y) before and after.
macro_rules! round {
    ($r:literal) => {
        program! { $r:
            // Theta: the parity of column x in 25 + x.
            copy 25 0; xor3 25 5 10; copy 26 1; xor3 26 6 11; copy 27 2; xor3 27 7 12; copy 28 3;
            xor3 28 8 13; copy 29 4; xor3 29 9 14; xor3 26 16 21; xor3 29 19 24; xor3 27 17 22;
            xor3 25 15 20; xor3 28 18 23;
            // What column x changes by, in 30, 31, 28, 29, 25 for x = 0 to 4; 26 and 27 are free
            // again.
            rotate 30 26 1; rotate 31 27 1; xor 30 29; xor 31 25; rotate 25 25 1; rotate 29 29 1;
            xor 25 28; rotate 28 28 1; xor 29 27; xor 28 26;
            // Theta and rho of the words that pi brings to row 0; of row 1; then rows by turns
            // with chi.
            xor 0 30; xor 6 31; rotate 6 6 44; xor 12 28; rotate 12 12 43; xor 18 29;
            rotate 18 18 21; xor 24 25; rotate 24 24 14;
            // Row 1.
            xor 3 29; rotate 3 3 28; xor 9 25; rotate 9 9 20; xor 10 30; rotate 10 10 3;
            xor 16 31; rotate 16 16 45; xor 22 28; rotate 22 22 61;
            // Chi of row 0.
            copy 26 0; copy 27 6; chi 0 6 12; chi 6 12 18; chi 12 18 24; chi 18 24 26;
            chi 24 26 27;
            // Row 2.
            xor 1 31; rotate 1 1 1; xor 7 28; rotate 7 7 6; xor 13 29; rotate 13 13 25; xor 19 25;
            rotate 19 19 8; xor 20 30; rotate 20 20 18;
            // Chi of row 1.
            copy 26 3; copy 27 9; chi 3 9 10; chi 9 10 16; chi 10 16 22; chi 16 22 26;
            chi 22 26 27;
            // Row 3.
            xor 4 25; rotate 4 4 27; xor 5 30; rotate 5 5 36; xor 11 31; rotate 11 11 10;
            xor 17 28; rotate 17 17 15; xor 23 29; rotate 23 23 56;
            // Chi of row 2.
            copy 26 1; copy 27 7; chi 1 7 13; chi 7 13 19; chi 13 19 20; chi 19 20 26;
            chi 20 26 27;
            // Row 4.
            xor 2 28; rotate 2 2 62; xor 8 29; rotate 8 8 55; xor 14 25; rotate 14 14 39;
            xor 15 30; rotate 15 15 41; xor 21 31; rotate 21 21 2;
            // Chi of row 3.
            copy 26 4; copy 27 5; chi 4 5 11; chi 5 11 17; chi 11 17 23; chi 17 23 26;
            chi 23 26 27;
            // Iota.
            constant 30; xor 0 30;
            // Chi of row 4.
            copy 26 2; copy 27 8; chi 2 8 14; chi 8 14 15; chi 14 15 21; chi 15 21 26;
            chi 21 26 27;
            // Pi. Moves between registers take no execution port.
            copy 25 1; copy 1 6; copy 6 9; copy 9 22; copy 22 14; copy 14 20; copy 20 2;
            copy 2 12; copy 12 13; copy 13 19; copy 19 23; copy 23 15; copy 15 4; copy 4 24;
            copy 24 21; copy 21 8; copy 8 16; copy 16 5; copy 5 3; copy 3 18; copy 18 17;
            copy 17 11; copy 11 7; copy 7 10; copy 10 25;
        }
    };
}

/// Loads or stores of all words, `$stride` bytes apart: `$move` of register and memory.
macro_rules! words {
    (load $move:literal $r:literal $stride:literal: $($w:literal)*) => {
        concat!($($move, " ", $r, $w, ", [{state} + ", $stride, " * ", $w, "]\n"),*)
    };
    (store $move:literal $r:literal $stride:literal: $($w:literal)*) => {
        concat!($($move, " [{state} + ", $stride, " * ", $w, "], ", $r, $w, "\n"),*)
    };
    ($direction:ident $move:literal $r:literal $stride:literal) => {
        words!($direction $move $r $stride:
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24)
    };
}

/// Defines a permutation in place over one width of register.
macro_rules! permutation {
    ($(#[$doc:meta])* $name:ident, $state:ty, $r:literal, $move:literal, $stride:literal) => {
        $(#[$doc])*
        #[inline]
        #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
        pub(super) fn $name(state: &mut $state) {
            // SAFETY: reads and writes the 25 words of the state, all within it, and reads the 24
            // constants; every vector register is declared lost.
            unsafe {
                asm!(
                    words!(load $move $r $stride),
                    "2:",
                    round!($r),
                    "add {constants}, 8",
                    "cmp {constants}, {end}",
                    "jne 2b",
                    words!(store $move $r $stride),
                    state = in(reg) state,
                    constants = inout(reg) CONSTANTS.as_ptr() => _,
                    end = in(reg) CONSTANTS.as_ptr_range().end,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
                    out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
                    out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
                    out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                    out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
                    out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
                    out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
                    options(nostack),
                );
            }
        }
    };
}

permutation! {
    /// Permutes all eight states.
    permute_8, State, "zmm", "vmovdqu64", 64
}

permutation! {
    /// Permutes the states of lanes 0 to 3 and leaves the others alone.
    permute_low_4, State, "ymm", "vmovdqu64", 64
}

permutation! {
    /// Permutes one state, each word in the low half of a 128-bit register: quicker than general
    /// registers, which lack three-input logic.
    permute_1, [u64; 25], "xmm", "vmovq", 8
}

/// Transposes eight rows of eight 64-bit words.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn transpose(r: [__m512i; 8]) -> [__m512i; 8] {
    // Pairs of words within 128 bits, then 128-bit quarters within halves, then halves.
    let mut t = r;
    for i in 0..4 {
        t[2 * i] = _mm512_unpacklo_epi64(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi64(r[2 * i], r[2 * i + 1]);
    }
    // t[2i] = words 0, 2, 4, 6 of rows 2i and 2i + 1; t[2i + 1] = words 1, 3, 5, 7.
    let mut out = r;
    for odd in 0..2 {
        let (a, b, c, d) = (t[odd], t[2 + odd], t[4 + odd], t[6 + odd]);
        let ab_low = _mm512_shuffle_i64x2::<0x44>(a, b); // a0 a1 b0 b1
        let ab_high = _mm512_shuffle_i64x2::<0xee>(a, b);
        let cd_low = _mm512_shuffle_i64x2::<0x44>(c, d);
        let cd_high = _mm512_shuffle_i64x2::<0xee>(c, d);
        out[odd] = _mm512_shuffle_i64x2::<0x88>(ab_low, cd_low); // a0 b0 c0 d0
        out[2 + odd] = _mm512_shuffle_i64x2::<0xdd>(ab_low, cd_low);
        out[4 + odd] = _mm512_shuffle_i64x2::<0x88>(ab_high, cd_high);
        out[6 + odd] = _mm512_shuffle_i64x2::<0xdd>(ab_high, cd_high);
    }
    out
}

/// Indices for `vpermt2q`: 128-bit quarters 0 of both and 2 of both; 1 of both and 3 of both.
static QUARTERS: [Table<u64, 8>; 2] =
    [Table([0, 1, 8, 9, 4, 5, 12, 13]), Table([2, 3, 10, 11, 6, 7, 14, 15])];

/// Eight words, of which lanes 0 to `W` - 1 count, of the same number of rows; `W` is 4 or 8. The
/// other lanes hold anything.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn rows_to_words<const W: usize>(rows: [__m512i; 8]) -> [__m512i; 8] {
    if W > 4 {
        return transpose(rows);
    }
    let [even, odd] = &QUARTERS;
    let (even, odd) = (registers::table(even), registers::table(odd));
    let [r0, r1, r2, r3, ..] = rows;
    let mut words = rows;
    for (parity, (a, b)) in [
        (_mm512_unpacklo_epi64(r0, r1), _mm512_unpacklo_epi64(r2, r3)),
        (_mm512_unpackhi_epi64(r0, r1), _mm512_unpackhi_epi64(r2, r3)),
    ]
    .into_iter()
    .enumerate()
    {
        // Words 0 and 4 of four rows, and words 2 and 6; or 1 and 5, and 3 and 7.
        let (low, high) =
            (_mm512_permutex2var_epi64(a, even, b), _mm512_permutex2var_epi64(a, odd, b));
        words[parity] = low;
        words[parity + 2] = high;
        words[parity + 4] = _mm512_shuffle_i64x2::<0xee>(low, low);
        words[parity + 6] = _mm512_shuffle_i64x2::<0xee>(high, high);
    }
    words
}

/// The inverse of [`rows_to_words`]: rows 0 to `W` - 1, and anything in the others.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn words_to_rows<const W: usize>(words: [__m512i; 8]) -> [__m512i; 8] {
    if W > 4 {
        return transpose(words);
    }
    let [even, odd] = &QUARTERS;
    let (even, odd) = (registers::table(even), registers::table(odd));
    // Words i and i + 4 of four lanes.
    let pair = |i: usize| _mm512_inserti64x4::<1>(words[i], _mm512_castsi512_si256(words[i + 4]));
    let (w0, w1, w2, w3) = (pair(0), pair(1), pair(2), pair(3));
    // Lanes 0 and 2, and lanes 1 and 3, of words 0, 1, 4, 5 and of words 2, 3, 6, 7.
    let (a, b) = (_mm512_unpacklo_epi64(w0, w1), _mm512_unpacklo_epi64(w2, w3));
    let (c, d) = (_mm512_unpackhi_epi64(w0, w1), _mm512_unpackhi_epi64(w2, w3));
    let mut rows = words;
    rows[0] = _mm512_permutex2var_epi64(a, even, b);
    rows[2] = _mm512_permutex2var_epi64(a, odd, b);
    rows[1] = _mm512_permutex2var_epi64(c, even, d);
    rows[3] = _mm512_permutex2var_epi64(c, odd, d);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avx512::Avx512;

    #[test]
    fn four_lanes_transpose_like_eight() {
        let Some(_) = Avx512::detect() else { return };
        // SAFETY: the processor supports the features, as just detected.
        unsafe { check() }
    }

    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn check() {
        let number = |row: usize| {
            let mut words = Table([0u64; 8]);
            for (i, word) in words.0.iter_mut().enumerate() {
                *word = (10 * row + i) as u64;
            }
            registers::table(&words)
        };
        let rows: [__m512i; 8] = core::array::from_fn(number);
        let (eight, four) = (rows_to_words::<8>(rows), rows_to_words::<4>(rows));
        for (eight, four) in eight.into_iter().zip(four) {
            assert_eq!(_mm512_mask_cmpneq_epu64_mask(0x0f, eight, four), 0);
        }
        let back = words_to_rows::<4>(eight);
        for (row, back) in rows.into_iter().zip(back).take(4) {
            assert_eq!(_mm512_cmpneq_epu64_mask(row, back), 0);
        }
    }
}
