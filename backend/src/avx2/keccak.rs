//! Keccak-f[1600] on four states (FIPS 202, section 3.3).
//!
//! ```text
//!   state[w] = word w of lane 0 | word w of lane 1 | word w of lane 2 | word w of lane 3
//! ```
//!
//! A round is 45 exclusive ors for theta, with 5 rotations of its parities, 24 rotations for rho,
//! none for pi (renaming), 50 operations for chi and 1 for iota. AVX2 has no rotations: one is two
//! shifts and an or, but for those by 8 and 56, which are byte shuffles. 179 operations, then, of
//! which Intel's cores do three a cycle and Zen four: 24 rounds take at least 1430 and 1074 cycles.
//!
//! Sixteen registers hold neither 25 words nor their successors, so a round goes from one state in
//! memory to another one, row by row. Each word is loaded once, as an operand, and stored once; the
//! parities for the next round are summed up on the way. LLVM stores 45 words a round instead of 25
//! when it is given intrinsics, and is slower: hence assembly. Zen takes more than these cycles, since
//! nothing overlaps the way from the last row through theta to the next round.

use core::arch::asm;
use core::arch::x86_64::*;

use crate::common::memory::{Table, unspecified, wipe};
use crate::portable::ROUND_CONSTANTS;

/// Four states, word by word.
pub(super) type State = [__m256i; 25];

/// The round constants, in memory for the loop.
static CONSTANTS: [u64; 24] = ROUND_CONSTANTS;

/// Byte shuffles that rotate words to the left by 8 and by 56 bits.
static ROTATIONS: [Table<u8, 32>; 2] = [rotation(1), rotation(7)];

const fn rotation(bytes: usize) -> Table<u8, 32> {
    let mut table = Table([0; 32]);
    let mut i = 0;
    while i < 32 {
        table.0[i] = (i / 8 % 2 * 8 + (i + 8 - bytes) % 8) as u8;
        i += 1;
    }
    table
}

// Registers: what theta adds to column x in 0 + x, the parity of column x in 5 + x, the row that is
// worked on in 10 to 14, and 15 for anything.

/// Word `$word` with what theta adds to column `$column`, rotated to the left, in register `$to`.
macro_rules! bring {
    ($from:literal $to:literal $word:literal $column:literal) => {
        concat!("vpxor ymm", $to, ", ymm", $column, ", [", $from, " + 32 * ", $word, "]\n")
    };
    ($from:literal $to:literal $word:literal $column:literal 8) => {
        concat!(
            bring!($from $to $word $column),
            "vpshufb ymm", $to, ", ymm", $to, ", [{rotations}]\n"
        )
    };
    ($from:literal $to:literal $word:literal $column:literal 56) => {
        concat!(
            bring!($from $to $word $column),
            "vpshufb ymm", $to, ", ymm", $to, ", [{rotations} + 64]\n"
        )
    };
    ($from:literal $to:literal $word:literal $column:literal $left:literal) => {
        concat!(bring!($from $to $word $column), rotate!($to $to $left))
    };
}

/// Rotates a register to the left, into itself or another one.
macro_rules! rotate {
    ($to:literal $from:literal 1) => {
        concat!(
            "vpsrlq ymm15, ymm",
            $from,
            ", 63\n",
            "vpaddq ymm",
            $to,
            ", ymm",
            $from,
            ", ymm",
            $from,
            "\n",
            "vpor ymm",
            $to,
            ", ymm",
            $to,
            ", ymm15\n"
        )
    };
    ($to:literal $from:literal $left:literal) => {
        concat!(
            "vpsrlq ymm15, ymm",
            $from,
            ", 64 - ",
            $left,
            "\n",
            "vpsllq ymm",
            $to,
            ", ymm",
            $from,
            ", ",
            $left,
            "\n",
            "vpor ymm",
            $to,
            ", ymm",
            $to,
            ", ymm15\n"
        )
    };
}

/// Chi of one word: `a ^ (!b & c)`, stored as word `$word`; begins or continues its column's parity.
macro_rules! chi {
    ($to:literal begin $parity:literal $word:literal $a:literal $b:literal $c:literal) => {
        concat!(
            "vpandn ymm",
            $parity,
            ", ymm",
            $b,
            ", ymm",
            $c,
            "\n",
            "vpxor ymm",
            $parity,
            ", ymm",
            $parity,
            ", ymm",
            $a,
            "\n",
            "vmovdqa [",
            $to,
            " + 32 * ",
            $word,
            "], ymm",
            $parity,
            "\n"
        )
    };
    ($to:literal iota $parity:literal $word:literal $a:literal $b:literal $c:literal) => {
        concat!(
            "vpbroadcastq ymm15, qword ptr [{constants}]\n",
            "add {constants}, 8\n",
            "vpandn ymm",
            $parity,
            ", ymm",
            $b,
            ", ymm",
            $c,
            "\n",
            "vpxor ymm",
            $a,
            ", ymm",
            $a,
            ", ymm15\n",
            "vpxor ymm",
            $parity,
            ", ymm",
            $parity,
            ", ymm",
            $a,
            "\n",
            "vmovdqa [",
            $to,
            " + 32 * ",
            $word,
            "], ymm",
            $parity,
            "\n"
        )
    };
    ($to:literal continue $parity:literal $word:literal $a:literal $b:literal $c:literal) => {
        concat!(
            "vpandn ymm15, ymm",
            $b,
            ", ymm",
            $c,
            "\n",
            "vpxor ymm15, ymm15, ymm",
            $a,
            "\n",
            "vmovdqa [",
            $to,
            " + 32 * ",
            $word,
            "], ymm15\n",
            "vpxor ymm",
            $parity,
            ", ymm",
            $parity,
            ", ymm15\n"
        )
    };
}

/// A row of the new state.
macro_rules! row {
    ($to:literal: $w0:literal $w1:literal $w2:literal $w3:literal $w4:literal) => {
        concat!(
            chi!($to continue 5 $w0 10 11 12),
            chi!($to continue 6 $w1 11 12 13),
            chi!($to continue 7 $w2 12 13 14),
            chi!($to continue 8 $w3 13 14 10),
            chi!($to continue 9 $w4 14 10 11)
        )
    };
}

/// The values that theta adds to the columns, from their parities.
macro_rules! theta {
    ($($to:literal $rotated:literal $with:literal),*) => {
        concat!($(
            rotate!($to $rotated 1),
            "vpxor ymm", $to, ", ymm", $to, ", ymm", $with, "\n"
        ),*)
    };
}

/// A round from one state to another one; the rotations are those of FIPS 202, table 2. Register 10
/// keeps the first word of row 0 for the end of it, where iota has changed the first word already.
macro_rules! round {
    ($from:literal $to:literal) => {
        concat!(
            theta!(0 6 9, 1 7 5, 2 8 6, 3 9 7, 4 5 8),
            bring!($from 10 0 0), bring!($from 11 6 1 44), bring!($from 12 12 2 43),
            bring!($from 13 18 3 21), bring!($from 14 24 4 14),
            chi!($to begin 6 1 11 12 13), chi!($to begin 7 2 12 13 14),
            chi!($to begin 8 3 13 14 10), chi!($to begin 9 4 14 10 11),
            chi!($to iota 5 0 10 11 12),
            bring!($from 10 3 3 28), bring!($from 11 9 4 20), bring!($from 12 10 0 3),
            bring!($from 13 16 1 45), bring!($from 14 22 2 61),
            row!($to: 5 6 7 8 9),
            bring!($from 10 1 1 1), bring!($from 11 7 2 6), bring!($from 12 13 3 25),
            bring!($from 13 19 4 8), bring!($from 14 20 0 18),
            row!($to: 10 11 12 13 14),
            bring!($from 10 4 4 27), bring!($from 11 5 0 36), bring!($from 12 11 1 10),
            bring!($from 13 17 2 15), bring!($from 14 23 3 56),
            row!($to: 15 16 17 18 19),
            bring!($from 10 2 2 62), bring!($from 11 8 3 55), bring!($from 12 14 4 39),
            bring!($from 13 15 0 41), bring!($from 14 21 1 2),
            row!($to: 20 21 22 23 24)
        )
    };
}

/// Parities of the columns of the state at hand.
macro_rules! parities {
    ($($to:literal $w0:literal $w1:literal $w2:literal $w3:literal $w4:literal),*) => {
        concat!($(
            "vmovdqa ymm", $to, ", [{state} + 32 * ", $w0, "]\n",
            "vpxor ymm", $to, ", ymm", $to, ", [{state} + 32 * ", $w1, "]\n",
            "vpxor ymm", $to, ", ymm", $to, ", [{state} + 32 * ", $w2, "]\n",
            "vpxor ymm", $to, ", ymm", $to, ", [{state} + 32 * ", $w3, "]\n",
            "vpxor ymm", $to, ", ymm", $to, ", [{state} + 32 * ", $w4, "]\n"
        ),*)
    };
}

/// Permutes all four states.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn permute_4(state: &mut State) {
    let mut other: State = unspecified();
    // SAFETY: reads and writes the 25 words of both states, all within them, and reads the 24
    // constants and the tables; every vector register is declared lost.
    unsafe {
        asm!(
            parities!(5 0 5 10 15 20, 6 1 6 11 16 21, 7 2 7 12 17 22, 8 3 8 13 18 23,
                9 4 9 14 19 24),
            "2:",
            round!("{state}" "{other}"),
            round!("{other}" "{state}"),
            "cmp {constants}, {end}",
            "jne 2b",
            state = in(reg) state,
            other = in(reg) &mut other,
            constants = inout(reg) CONSTANTS.as_ptr() => _,
            end = in(reg) CONSTANTS.as_ptr_range().end,
            rotations = in(reg) &ROTATIONS,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack),
        );
    }
    wipe(&mut other);
}

/// Transposes four rows of four 64-bit words.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn transpose([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let ab_even = _mm256_unpacklo_epi64(a, b); // a0 b0 a2 b2
    let ab_odd = _mm256_unpackhi_epi64(a, b);
    let cd_even = _mm256_unpacklo_epi64(c, d);
    let cd_odd = _mm256_unpackhi_epi64(c, d);
    [
        _mm256_permute2x128_si256::<0x20>(ab_even, cd_even),
        _mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd),
        _mm256_permute2x128_si256::<0x31>(ab_even, cd_even),
        _mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd),
    ]
}
