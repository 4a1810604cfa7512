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
//! Zen 4 takes more at 512 bits, because three-input operations in a row wait for reads of
//! registers and rotations for the two pipes that have them. At 256 or 128 bits it does four
//! operations a cycle: four lanes cost half of eight, and one state costs as much as four. LLVM's
//! order of intrinsics is slower at either width, which is why this is assembly. Theta in 25
//! three-input operations (90 in all) lost. The cost of a permutation within a sponge, and in a
//! step of a chain, is `cycles_per_permutation` and `cycles_per_shake_step` of
//! bench/results/floors-*.ndjson.

use core::arch::asm;
use core::arch::x86_64::*;

use crate::avx512::registers;
use crate::common::memory::Table;
use crate::portable::ROUND_CONSTANTS;

pub(super) mod sponge;

/// The round constants, in memory for the loop.
static CONSTANTS: [u64; 24] = ROUND_CONSTANTS;

/// Eight states, word by word.
pub(crate) type State = [__m512i; 25];

/// One instruction on registers of the kind `$r`, which are given by number.
macro_rules! instruction {
    ($r:literal copy $to:literal $from:literal) => {
        concat!("vmovdqa64 ", $r, $to, ", ", $r, $from, "\n")
    };
    ($r:literal xor $to:literal $a:literal $b:literal) => {
        concat!("vpxorq ", $r, $to, ", ", $r, $a, ", ", $r, $b, "\n")
    };
    // to ^ a ^ b
    ($r:literal xor3 $to:literal $a:literal $b:literal) => {
        concat!("vpternlogq ", $r, $to, ", ", $r, $a, ", ", $r, $b, ", 0x96\n")
    };
    // to ^ (!a & b)
    ($r:literal chi $to:literal $a:literal $b:literal) => {
        concat!("vpternlogq ", $r, $to, ", ", $r, $a, ", ", $r, $b, ", 0xd2\n")
    };
    // The same a ^ (!b & c), of which `to` holds b at first, or c.
    ($r:literal chi_b $to:literal $a:literal $c:literal) => {
        concat!("vpternlogq ", $r, $to, ", ", $r, $a, ", ", $r, $c, ", 0xc6\n")
    };
    ($r:literal chi_c $to:literal $a:literal $b:literal) => {
        concat!("vpternlogq ", $r, $to, ", ", $r, $a, ", ", $r, $b, ", 0x9c\n")
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

/// A round. Register x + 5 y holds word (x, y) before and after; words change places on the way
/// (pi), and a last series of copies, which take no execution port, brings them back.
///
/// The order was found by search on Zen 4: a hundred thousand orders of the same operations, each
/// timed with loads and stores round 24 rounds. Rotations take twice as long as logic there and
/// only two of the four pipes, so what matters is that they never come in a row and never run out.
/// By rows, each of theta, rho and chi together, a round takes longer.
macro_rules! round {
    ($r:literal) => {
        program! { $r:
            copy 25 21; xor3 25 11 1; copy 26 20; xor3 26 10 0; xor3 25 6 16; copy 27 22;
            xor3 27 12 2; copy 28 24; xor3 28 14 4; xor3 28 9 19; rotate 29 25 1; xor3 26 5 15;
            xor3 27 7 17; rotate 30 27 1; copy 31 23; xor3 31 13 3; xor3 31 8 18; xor 29 29 28;
            rotate 28 28 1; xor 30 30 26; rotate 26 26 1; xor 28 28 27; xor 5 5 29; rotate 27 31 1;
            xor 11 11 30; rotate 5 5 36; xor 0 0 29; xor 26 26 31; xor 4 4 26; rotate 4 4 27;
            xor 18 18 28; xor 27 27 25; rotate 11 11 10; xor 23 23 28; xor 17 17 27;
            rotate 17 17 15; rotate 23 23 56; xor 1 1 30; xor 7 7 27; rotate 7 7 6; rotate 1 1 1;
            copy 25 11; chi 25 17 23; xor 20 20 29; copy 31 4; chi 31 5 11; xor 13 13 28;
            rotate 13 13 25; xor 12 12 27; chi_b 11 5 17; xor 19 19 26; rotate 19 19 8;
            chi 17 23 4; chi 23 4 5; rotate 12 12 43; copy 5 7; chi 5 13 19; rotate 20 20 18;
            xor 6 6 30; rotate 6 6 44; copy 4 13; chi 4 19 20; chi 19 20 1; rotate 18 18 21;
            chi_c 13 1 7; xor 15 15 29; xor 24 24 26; chi 20 1 7; rotate 24 24 14; xor 3 3 28;
            rotate 3 3 28; constant 7; copy 1 0; chi 1 6 12; xor 9 9 26; xor 16 16 30;
            rotate 16 16 45; xor 29 29 10; rotate 29 29 3; rotate 9 9 20; xor 22 22 27;
            rotate 22 22 61; xor 27 27 2; xor 26 26 14; copy 14 12; chi 14 18 24; copy 2 24;
            chi 2 0 6; chi_b 24 18 0; xor 28 28 8; rotate 26 26 39; rotate 28 28 55;
            rotate 15 15 41; rotate 27 27 62; xor 30 30 21; copy 21 29; chi 21 16 22;
            rotate 30 30 2; chi 6 12 18; copy 18 3; chi 18 9 29; chi_b 29 9 16; xor 0 1 7;
            chi 16 22 3; chi_c 9 22 3; copy 3 27; chi 3 28 26; copy 22 28; chi 22 26 15;
            chi 26 15 30; chi 15 30 27; chi 30 27 28; copy 1 6; copy 6 29; copy 7 21; copy 8 16;
            copy 10 13; copy 12 4; copy 4 2; copy 2 14; copy 13 19; copy 14 20; copy 16 11;
            copy 11 5; copy 5 18; copy 18 17; copy 17 25; copy 19 23; copy 20 3; copy 3 24;
            copy 21 22; copy 22 26; copy 23 15; copy 15 31; copy 24 30;
        }
    };
}

/// The first round where words 13 to 24 are zero, all but word 16: as [`round`], without the work on
/// zeros. Those words are not read.
macro_rules! first_round {
    ($r:literal) => {
        program! { $r:
            copy 25 0; xor3 25 5 10; copy 26 1; xor3 26 6 11; copy 27 2; xor3 27 7 12; copy 28 3;
            xor 28 28 8; copy 29 4; xor 29 29 9; xor 26 26 16; rotate 30 26 1; rotate 31 27 1;
            xor 30 30 29; xor 31 31 25; rotate 25 25 1; rotate 29 29 1; xor 25 25 28;
            rotate 28 28 1; xor 29 29 27; xor 28 28 26; xor 0 0 30; xor 6 6 31; rotate 6 6 44;
            xor 12 12 28; rotate 12 12 43; rotate 18 29 21; rotate 24 25 14; xor 3 3 29;
            rotate 3 3 28; xor 9 9 25; rotate 9 9 20; xor 10 10 30; rotate 10 10 3; xor 16 16 31;
            rotate 16 16 45; rotate 22 28 61; copy 26 0; copy 27 6; chi 0 6 12; chi 6 12 18;
            chi 12 18 24; chi 18 24 26; chi 24 26 27; xor 1 1 31; rotate 1 1 1; xor 7 7 28;
            rotate 7 7 6; rotate 13 29 25; rotate 19 25 8; rotate 20 30 18; copy 26 3; copy 27 9;
            chi 3 9 10; chi 9 10 16; chi 10 16 22; chi 16 22 26; chi 22 26 27; xor 4 4 25;
            rotate 4 4 27; xor 5 5 30; rotate 5 5 36; xor 11 11 31; rotate 11 11 10;
            rotate 17 28 15; rotate 23 29 56; copy 26 1; copy 27 7; chi 1 7 13; chi 7 13 19;
            chi 13 19 20; chi 19 20 26; chi 20 26 27; xor 2 2 28; rotate 2 2 62; xor 8 8 29;
            rotate 8 8 55; rotate 14 25 39; rotate 15 30 41; rotate 21 31 2; copy 26 4; copy 27 5;
            chi 4 5 11; chi 5 11 17; chi 11 17 23; chi 17 23 26; chi 23 26 27; constant 30;
            xor 0 0 30; copy 26 2; copy 27 8; chi 2 8 14; chi 8 14 15; chi 14 15 21; chi 15 21 26;
            chi 21 26 27; copy 25 1; copy 1 6; copy 6 9; copy 9 22; copy 22 14; copy 14 20;
            copy 20 2; copy 2 12; copy 12 13; copy 13 19; copy 19 23; copy 23 15; copy 15 4;
            copy 4 24; copy 24 21; copy 21 8; copy 8 16; copy 16 5; copy 5 3; copy 3 18;
            copy 18 17; copy 17 11; copy 11 7; copy 7 10; copy 10 25;
        }
    };
}

/// The last round of which only words 0 to 3 count. They come to lie in 0, 6, 12 and 18.
macro_rules! last_round {
    ($r:literal) => {
        program! { $r:
            copy 25 0; xor3 25 5 10; copy 26 1; xor3 26 6 11; copy 27 2; xor3 27 7 12; copy 28 3;
            xor3 28 8 13; copy 29 4; xor3 29 9 14; xor3 26 16 21; xor3 29 19 24; xor3 27 17 22;
            xor3 25 15 20; xor3 28 18 23; rotate 30 26 1; rotate 31 27 1; xor 30 30 29;
            xor 31 31 25; rotate 25 25 1; rotate 29 29 1; xor 25 25 28; rotate 28 28 1;
            xor 29 29 27; xor 28 28 26; xor 0 0 30; xor 6 6 31; rotate 6 6 44; xor 12 12 28;
            rotate 12 12 43; xor 18 18 29; rotate 18 18 21; xor 24 24 25; rotate 24 24 14;
            constant 30; copy 26 0; chi 0 6 12; chi 6 12 18; chi 12 18 24; chi 18 24 26;
            xor 0 0 30;
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
    (store_permuted $move:literal $r:literal $stride:literal: $($w:literal)*) => {
        concat!($($move, " [{permuted} + ", $stride, " * ", $w, "], ", $r, $w, "\n"),*)
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
        pub(crate) fn $name(state: &mut $state) {
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

/// A message of 12 words at most and its padding but for the last bit: a block of SHAKE256 of which
/// word 16 is that bit and all others are zero.
pub(crate) type ShortBlock = [__m512i; 13];

/// Word 16 of a short block.
static LAST_BIT: u64 = 1 << 63;

/// Defines a hash of one short block over one width of register.
macro_rules! short_hash {
    ($(#[$doc:meta])* $name:ident, $r:literal) => {
        $(#[$doc])*
        #[inline]
        #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
        pub(crate) fn $name(block: &ShortBlock, output: &mut [__m512i; 4]) {
            // SAFETY: reads the 13 words of the block, the last bit and the 24 constants, writes
            // the four words of output; every vector register is declared lost.
            unsafe {
                asm!(
                    words!(load "vmovdqu64" $r "64": 0 1 2 3 4 5 6 7 8 9 10 11 12),
                    concat!("vpbroadcastq ", $r, "16, qword ptr [{bit}]"),
                    first_round!($r),
                    "add {constants}, 8",
                    "2:",
                    round!($r),
                    "add {constants}, 8",
                    "cmp {constants}, {last}",
                    "jne 2b",
                    last_round!($r),
                    concat!("vmovdqu64 [{output}], ", $r, "0"),
                    concat!("vmovdqu64 [{output} + 64], ", $r, "6"),
                    concat!("vmovdqu64 [{output} + 128], ", $r, "12"),
                    concat!("vmovdqu64 [{output} + 192], ", $r, "18"),
                    state = in(reg) block,
                    output = in(reg) output,
                    bit = in(reg) &LAST_BIT,
                    constants = inout(reg) CONSTANTS.as_ptr() => _,
                    last = in(reg) &CONSTANTS[23],
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

short_hash! {
    /// The first 32 bytes of SHAKE256 of a short block in each lane.
    short_hash_8, "zmm"
}

short_hash! {
    /// Hashes in lanes 0 to 3. The other lanes of the output are not written.
    short_hash_low_4, "ymm"
}

/// Defines a permutation of one short block over one width of register.
macro_rules! short_permutation {
    ($(#[$doc:meta])* $name:ident, $r:literal) => {
        $(#[$doc])*
        #[inline]
        #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
        pub(crate) fn $name(block: &ShortBlock, permuted: &mut State) {
            // SAFETY: reads the 13 words of the block, the last bit and the 24 constants, writes
            // the 25 words of the state; every vector register is declared lost.
            unsafe {
                asm!(
                    words!(load "vmovdqu64" $r "64": 0 1 2 3 4 5 6 7 8 9 10 11 12),
                    concat!("vpbroadcastq ", $r, "16, qword ptr [{bit}]"),
                    first_round!($r),
                    "add {constants}, 8",
                    "2:",
                    round!($r),
                    "add {constants}, 8",
                    "cmp {constants}, {end}",
                    "jne 2b",
                    words!(store_permuted "vmovdqu64" $r "64"),
                    state = in(reg) block,
                    permuted = in(reg) permuted,
                    bit = in(reg) &LAST_BIT,
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

short_permutation! {
    /// The states of a short block in each lane, permuted.
    permute_short_8, "zmm"
}

short_permutation! {
    /// Permutes lanes 0 to 3. The other lanes are not written.
    permute_short_low_4, "ymm"
}

/// Transposes eight rows of eight 64-bit words.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn transpose(r: [__m512i; 8]) -> [__m512i; 8] {
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
pub(crate) fn rows_to_words<const W: usize>(rows: [__m512i; 8]) -> [__m512i; 8] {
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
pub(crate) fn words_to_rows<const W: usize>(words: [__m512i; 8]) -> [__m512i; 8] {
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
