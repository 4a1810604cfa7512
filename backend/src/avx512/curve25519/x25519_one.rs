//! X25519 (RFC 7748), one exchange alone: the four lanes of a register are its coordinates.
//!
//! ```text
//!   state      x3, z3, x2, z2   of (k + 1) P and k P
//!   sums       C, D, A, B       C = x3 + z3, D = x3 - z3, A and B of the other
//!   product 1  D A, C B, AA, BB           of the doubled point, chosen by a bit of the scalar
//!   product 2  (DA + CB)^2, (DA - CB)^2, AA BB, 121665 E       E = AA - BB
//!   product 3  x3, u z3, x2, E (AA + 121665 E)
//! ```
//!
//! Three products in a chain for each bit, where eight lanes would wait twice as long for each
//! ([`quad25519`](super::quad25519)). Carries come before a product and not after it. Everything runs
//! in constant time: a bit chooses by a permutation within registers.

use core::arch::x86_64::*;

use gabion_scheme::ct;

use super::quad25519::{Fe, Raw, all, carry, invert, lanes, mul, mul_raw, store4};
use crate::avx512::registers;

/// (486662 - 2) / 4 of the curve y^2 = x^3 + 486662 x^2 + x.
pub(super) const A24: u64 = 121_665;
/// The order of lanes in which neighbours change places.
const NEIGHBOURS: i32 = 0b10_11_00_01;
/// The order of lanes that brings the last but one's neighbour to it.
const LAST_TWICE: i32 = 0b11_11_01_00;

/// The shared secret of a clamped scalar and of the point given by u, of which bit 255 is dropped.
#[inline(never)]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn multiple(scalar: &[u8; 32], point: &[u8; 32], out: &mut [u8; 32]) {
    let mut quotient = ladder(scalar, point);
    let [mut inverse] = invert(&[quotient]);
    // x2 times the inverse of z2; zero where that is zero.
    inverse = Fe(inverse.raw().turned::<LAST_TWICE>().0);
    let mut words = mul(&quotient, &inverse).words();
    for (out, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(&words) {
        let mut word = store4(*word);
        *out = word[2].to_le_bytes();
        ct::wipe(&mut word);
    }
    words.fill(_mm256_setzero_si256());
    core::hint::black_box(&mut words);
    (quotient, inverse) = (Fe::small([0; 4]), Fe::small([0; 4]));
    core::hint::black_box((&mut quotient, &mut inverse));
    // SAFETY: these kernels run only where `Avx512::detect` found the features of all of them.
    unsafe { registers::clear() }
}

/// Montgomery's ladder (RFC 7748, section 5): a state, tight.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn ladder(scalar: &[u8; 32], point: &[u8; 32]) -> Fe {
    let words = point.as_chunks::<8>().0;
    let u = Fe::from_words(&core::array::from_fn(|word| all(u64::from_le_bytes(words[word]))));
    // Of the third product; in the last lane comes another.
    let factors = Fe::small([1; 4]).replaced_where(0b0010, &u);
    // x3 = u, z3 = 1, x2 = 1, z2 = 0.
    let start = Fe::small([0, 1, 1, 0]).replaced_where(0b0001, &u);
    let mut state = start.raw();
    let mut last = 0;
    for bit in (0..255).rev() {
        let here = scalar[bit / 8] >> (bit % 8) & 1;
        // All ones where the two points have changed places; the compiler must not see which two
        // values there are.
        let swap = ct::barrier(u64::from(here ^ last)).wrapping_neg() as __mmask8;
        last = here;
        state = step(&factors, swap, &state);
    }
    // Clamped scalars are even: the last two are not swapped.
    carry(&state)
}

/// Runs one step. Only the doubled point has to be selected; the differential addition is
/// symmetric.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn step(factors: &Fe, swap: __mmask8, state: &Raw) -> Raw {
    let sums = {
        let turned = state.turned::<NEIGHBOURS>();
        carry(&turned.biased().minus_where(0b1010, state).plus_where(0b0101, state))
    };
    let chosen = |places: [u64; 4], swapped: [u64; 4]| {
        let places = _mm256_mask_blend_epi64(swap, lanes(places), lanes(swapped));
        Fe(sums.0.map(|limb| _mm256_permutexvar_epi64(places, limb)))
    };
    let first = mul_raw(&chosen([1, 0, 2, 3], [1, 0, 0, 1]), &chosen([2, 3, 2, 3], [2, 3, 0, 1]));

    let turned = first.turned::<NEIGHBOURS>();
    // DA + CB, DA - CB, AA, E.
    let left = turned.biased().minus_where(0b1010, &first).plus_where(0b0001, &first);
    let left = carry(&left.replaced_where(0b0100, &first));
    // The same, BB, 121665.
    let right = left.replaced_where(0b0100, &carry(&turned));
    let right = right.replaced_where(0b1000, &Fe::small([A24; 4]));
    let second = mul_raw(&left, &right);

    // AA stands in the last lane of what was turned.
    let last = carry(&second.plus_where(0b1000, &turned));
    let right = factors.replaced_where(0b1000, &last);
    let left = last.replaced_where(0b1000, &left);
    mul_raw(&left, &right)
}
