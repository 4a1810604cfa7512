//! Keccak-f[1600] on eight or four states side by side (FIPS 202, section 3.3).
//!
//! ```text
//!   state[w] = word w of lane 0 | word w of lane 1 | ... | word w of lane 7      w in 0..25
//! ```
//!
//! A round is 40 operations for theta (three-input logic merges the two xors of a column's
//! parity), 24 rotations for rho, none for pi (renaming), 25 for chi, 1 for iota: 90, of which a
//! core does two a cycle at 512 bits. So 24 rounds take at least 1080 cycles, 135 a lane.
//! At 256 bits Zen 4 does four a cycle and Intel three: [`permute_low_4`] costs half (two
//! thirds).

use core::arch::x86_64::*;

use crate::portable::ROUND_CONSTANTS;

/// In memory, not on the stack of each call.
static ROUND_CONSTANTS_IN_MEMORY: [u64; 24] = ROUND_CONSTANTS;

/// Lanes of a [`State`].
pub(super) const LANES: usize = 8;

/// Eight states, word by word.
pub(super) type State = [__m512i; 25];

/// x ^ y ^ z as a truth table.
const XOR3: i32 = 0x96;
/// x ^ (!y & z) as a truth table: chi.
const CHI: i32 = 0xd2;

/// Defines a permutation over one width of register. The index pairs are (source word, offset) of
/// the steps rho and pi; x = column, y = row, word = x + 5 y.
macro_rules! permutation {
    (
        $(#[$doc:meta])*
        $name:ident, $state:ty, $register:ty, $ternary:ident, $rotate:ident, $xor:ident, $broadcast:ident,
        |$word:ident| $load:expr, |$slot:ident, $value:ident| $store:expr
    ) => {
        $(#[$doc])*
        #[inline(never)]
        #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
        pub(super) fn $name(state: &mut $state) {
            let mut a: [$register; 25] = core::array::from_fn(|w| {
                let $word = &state[w];
                $load
            });
            for &constant in &ROUND_CONSTANTS_IN_MEMORY {
                // Theta.
                let mut parity = [a[0]; 5];
                for x in 0..5 {
                    let three = $ternary::<XOR3>(a[x], a[x + 5], a[x + 10]);
                    parity[x] = $ternary::<XOR3>(three, a[x + 15], a[x + 20]);
                }
                let mut change = parity;
                for x in 0..5 {
                    let right = $rotate::<1>(parity[(x + 1) % 5]);
                    change[x] = $xor(parity[(x + 4) % 5], right);
                }
                // Rho, pi and chi, row by row.
                macro_rules! row {
                    ($y:literal: ($w0:literal, $r0:literal) ($w1:literal, $r1:literal)
                     ($w2:literal, $r2:literal) ($w3:literal, $r3:literal)
                     ($w4:literal, $r4:literal)) => {{
                        let b0 = $rotate::<$r0>($xor(a[$w0], change[$w0 % 5]));
                        let b1 = $rotate::<$r1>($xor(a[$w1], change[$w1 % 5]));
                        let b2 = $rotate::<$r2>($xor(a[$w2], change[$w2 % 5]));
                        let b3 = $rotate::<$r3>($xor(a[$w3], change[$w3 % 5]));
                        let b4 = $rotate::<$r4>($xor(a[$w4], change[$w4 % 5]));
                        [
                            $ternary::<CHI>(b0, b1, b2),
                            $ternary::<CHI>(b1, b2, b3),
                            $ternary::<CHI>(b2, b3, b4),
                            $ternary::<CHI>(b3, b4, b0),
                            $ternary::<CHI>(b4, b0, b1),
                        ]
                    }};
                }
                let row0 = row!(0: (0, 0) (6, 44) (12, 43) (18, 21) (24, 14));
                let row1 = row!(1: (3, 28) (9, 20) (10, 3) (16, 45) (22, 61));
                let row2 = row!(2: (1, 1) (7, 6) (13, 25) (19, 8) (20, 18));
                let row3 = row!(3: (4, 27) (5, 36) (11, 10) (17, 15) (23, 56));
                let row4 = row!(4: (2, 62) (8, 55) (14, 39) (15, 41) (21, 2));
                a[0..5].copy_from_slice(&row0);
                a[5..10].copy_from_slice(&row1);
                a[10..15].copy_from_slice(&row2);
                a[15..20].copy_from_slice(&row3);
                a[20..25].copy_from_slice(&row4);
                // Iota.
                a[0] = $xor(a[0], $broadcast(constant as i64));
            }
            for w in 0..25 {
                let ($slot, $value) = (&mut state[w], a[w]);
                $store;
            }
        }
    };
}

permutation! {
    /// Permutes all eight states.
    permute_8, State, __m512i, _mm512_ternarylogic_epi64, _mm512_rol_epi64, _mm512_xor_si512,
    _mm512_set1_epi64, |word| *word, |slot, value| *slot = value
}

permutation! {
    /// Permutes the states of lanes 0 to 3 and leaves the others alone.
    permute_low_4, State, __m256i, _mm256_ternarylogic_epi64, _mm256_rol_epi64, _mm256_xor_si256,
    _mm256_set1_epi64x, |word| _mm512_castsi512_si256(*word),
    |slot, value| *slot = _mm512_inserti64x4::<0>(*slot, value)
}

permutation! {
    /// Permutes one state. The low quarter of a 128-bit register holds a word: still quicker than
    /// general registers, which lack three-input logic.
    permute_1, [u64; 25], __m128i, _mm_ternarylogic_epi64, _mm_rol_epi64, _mm_xor_si128,
    _mm_set1_epi64x, |word| _mm_cvtsi64_si128(*word as i64),
    |slot, value| *slot = _mm_cvtsi128_si64(value) as u64
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
