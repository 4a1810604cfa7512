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
//! Sixteen registers hold neither 25 words nor their successors, so a round goes from one state in
//! memory to another one, row by row.

use core::arch::x86_64::*;

use crate::memory::{Table, wipe};
use crate::portable::ROUND_CONSTANTS;

use super::registers;

/// Four states, word by word.
pub(super) type State = [__m256i; 25];

/// Byte shuffles that rotate words to the left by 8 and by 56 bits.
static ROTATE_8: Table<u8, 32> = rotation(1);
static ROTATE_56: Table<u8, 32> = rotation(7);

const fn rotation(bytes: usize) -> Table<u8, 32> {
    let mut table = Table([0; 32]);
    let mut i = 0;
    while i < 32 {
        table.0[i] = (i / 8 % 2 * 8 + (i + 8 - bytes) % 8) as u8;
        i += 1;
    }
    table
}

/// Rotates words to the left.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn rotate<const LEFT: i32, const RIGHT: i32>(x: __m256i) -> __m256i {
    const { assert!(LEFT + RIGHT == 64) };
    match LEFT {
        8 => _mm256_shuffle_epi8(x, registers::table(&ROTATE_8)),
        56 => _mm256_shuffle_epi8(x, registers::table(&ROTATE_56)),
        1 => _mm256_or_si256(_mm256_add_epi64(x, x), _mm256_srli_epi64::<63>(x)),
        _ => _mm256_or_si256(_mm256_slli_epi64::<LEFT>(x), _mm256_srli_epi64::<RIGHT>(x)),
    }
}

/// One row of a round: theta, rho and pi of the five words that pi brings to it, and chi.
macro_rules! row {
    ($from:ident, $d:ident, $to:ident, $y:literal:
        $($word:literal $column:literal $left:literal),*) => {{
        let b = [$(
            rotate::<$left, { 64 - $left }>(_mm256_xor_si256($from[$word], $d[$column]))
        ),*];
        for x in 0..5 {
            let and = _mm256_andnot_si256(b[(x + 1) % 5], b[(x + 2) % 5]);
            $to[5 * $y + x] = _mm256_xor_si256(b[x], and);
        }
    }};
}

/// One round from a state to another one; the rotations are those of FIPS 202, table 2.
macro_rules! round {
    ($from:ident, $to:ident, $constant:expr) => {{
        let mut c = [$from[0], $from[1], $from[2], $from[3], $from[4]];
        for y in 1..5 {
            for x in 0..5 {
                c[x] = _mm256_xor_si256(c[x], $from[5 * y + x]);
            }
        }
        let mut d = c;
        for x in 0..5 {
            d[x] = _mm256_xor_si256(c[(x + 4) % 5], rotate::<1, 63>(c[(x + 1) % 5]));
        }
        // By 0 bits there is nothing to rotate.
        let b0 = _mm256_xor_si256($from[0], d[0]);
        let b1 = rotate::<44, 20>(_mm256_xor_si256($from[6], d[1]));
        let b2 = rotate::<43, 21>(_mm256_xor_si256($from[12], d[2]));
        let b3 = rotate::<21, 43>(_mm256_xor_si256($from[18], d[3]));
        let b4 = rotate::<14, 50>(_mm256_xor_si256($from[24], d[4]));
        let iota = _mm256_set1_epi64x($constant as i64);
        let and = _mm256_andnot_si256(b1, b2);
        $to[0] = _mm256_xor_si256(_mm256_xor_si256(b0, and), iota);
        $to[1] = _mm256_xor_si256(b1, _mm256_andnot_si256(b2, b3));
        $to[2] = _mm256_xor_si256(b2, _mm256_andnot_si256(b3, b4));
        $to[3] = _mm256_xor_si256(b3, _mm256_andnot_si256(b4, b0));
        $to[4] = _mm256_xor_si256(b4, _mm256_andnot_si256(b0, b1));
        row!($from, d, $to, 1: 3 3 28, 9 4 20, 10 0 3, 16 1 45, 22 2 61);
        row!($from, d, $to, 2: 1 1 1, 7 2 6, 13 3 25, 19 4 8, 20 0 18);
        row!($from, d, $to, 3: 4 4 27, 5 0 36, 11 1 10, 17 2 15, 23 3 56);
        row!($from, d, $to, 4: 2 2 62, 8 3 55, 14 4 39, 15 0 41, 21 1 2);
    }};
}

/// Permutes all four states.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn permute_4(state: &mut State) {
    let mut other: State = [_mm256_setzero_si256(); 25];
    for pair in ROUND_CONSTANTS.chunks_exact(2) {
        round!(state, other, pair[0]);
        round!(other, state, pair[1]);
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
