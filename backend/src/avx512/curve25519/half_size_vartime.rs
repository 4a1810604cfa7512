//! Short multiples for verification, in variable time: everything here is public.
//!
//! ```text
//!   [s]B - [k]A - R = 0    if and only if    [c1 s]B - [c0]A - [c1]R = 0
//!   where c0 = c1 k modulo 8 L, the order of the curve, c1 is odd and no multiple of L
//! ```
//!
//! Such a c1 has an inverse modulo 8 L, so that multiplying by it neither makes nor hides a
//! difference, of whatever order: both equations hold for the same signatures, cofactor or not.
//! (Modulo L alone, a key of mixed order could pass one of them and fail the other.) Both numbers
//! can be had with about half of the bits: Antipa and others, "Accelerated Verification of ECDSA
//! Signatures" (SAC 2005). The result is checked, so that no verdict depends on the search.

use gabion_scheme::kernels::ed25519::{Scalar, scalar};

/// A number below 2^256 as 64-bit words.
type Words = [u64; 4];

/// 8 L, the order of the curve's group.
const GROUP_ORDER: Words = [0xc093_18d2_e7ae_9f68, 0xa6f7_cef5_17bc_e6b2, 0, 0x8000_0000_0000_0000];
/// The end of the search: remainders of half of the bits.
const HALF_BITS: u32 = 128;
/// Quotients are taken from leading bits until these are shorter than this.
const LEADING_BITS_MIN: u32 = 32;

/// The factor that an equation is multiplied by.
pub(super) struct Multiplier {
    /// c0.
    pub(super) c0: [u8; 32],
    /// The absolute value of c1.
    pub(super) c1: [u8; 32],
    /// Whether c1 is negative.
    pub(super) is_negative: bool,
    /// c1 modulo L.
    pub(super) scalar: Scalar,
}

/// A multiplier for a number below L, or nothing where the search went wrong.
pub(super) fn multiplier(k: &[u8; 32]) -> Option<Multiplier> {
    let words = k.as_chunks::<8>().0;
    let mut pair = Pair::new(core::array::from_fn(|i| u64::from_le_bytes(words[i])));
    while bits(&pair.new.remainder) > HALF_BITS {
        if !pair.advance_by_leading_bits() {
            pair.advance();
        }
    }
    let (mut found, mut is_negative) = (pair.new, pair.is_negative);
    if found.factor[0] & 1 == 0 {
        // Factors next to each other have no common divisor: those before and after are odd.
        let before = (pair.old, !pair.is_negative);
        pair.advance();
        let after = (pair.new, pair.is_negative);
        (found, is_negative) = if before.0.bits() <= after.0.bits() { before } else { after };
    }
    let (c0, c1) = (bytes(&found.remainder), bytes(&found.factor));
    let absolute = scalar(&c1);
    let scalar_c1 = if is_negative { -absolute } else { absolute };
    let low = found.factor[0].wrapping_mul(u64::from(k[0]));
    let low = if is_negative { low.wrapping_neg() } else { low };
    let is_right = found.factor[0] & 1 == 1
        && absolute != Scalar::ZERO
        && scalar(&c0) == scalar_c1 * scalar(k)
        && (found.remainder[0] ^ low) & 7 == 0;
    is_right.then_some(Multiplier { c0, c1, is_negative, scalar: scalar_c1 })
}

/// A remainder of Euclid's algorithm for 8 L and k: `remainder = +-factor * k` modulo 8 L.
#[derive(Clone, Copy)]
struct Step {
    remainder: Words,
    factor: Words,
}

impl Step {
    /// The length of the longer number.
    fn bits(&self) -> u32 {
        bits(&self.remainder).max(bits(&self.factor))
    }
}

/// Two remainders that follow each other. The signs of factors take turns.
struct Pair {
    old: Step,
    new: Step,
    /// Whether the sign of the new one's factor is negative.
    is_negative: bool,
}

impl Pair {
    fn new(k: Words) -> Pair {
        let old = Step { remainder: GROUP_ORDER, factor: [0; 4] };
        Pair { old, new: Step { remainder: k, factor: [1, 0, 0, 0] }, is_negative: false }
    }

    /// One division, bit by bit: for the few quotients that leading bits don't tell. The new
    /// remainder is not 0.
    fn advance(&mut self) {
        let (mut step, by) = (self.old, self.new);
        let by_bits = bits(&by.remainder);
        while by_bits > 0 && less_or_equal(&by.remainder, &step.remainder) {
            let mut shift = bits(&step.remainder) - by_bits;
            let mut shifted = shifted_left(&by.remainder, shift);
            if !less_or_equal(&shifted, &step.remainder) {
                shift -= 1;
                shifted = shifted_left(&by.remainder, shift);
            }
            step.remainder = combined(1, &step.remainder, 1, &shifted, true);
            step.factor = combined(1, &step.factor, 1, &shifted_left(&by.factor, shift), false);
        }
        (self.old, self.new) = (by, step);
        self.is_negative ^= true;
    }

    /// Divisions by the leading 63 bits alone (Lehmer), as long as those are sure to give the same
    /// quotients (Jebelean, "A Double-Digit Lehmer-Euclid Algorithm", 1995, theorem 1) and the
    /// remainders stay above half of the bits. Says whether there were any.
    fn advance_by_leading_bits(&mut self) -> bool {
        let shift = bits(&self.old.remainder).saturating_sub(63);
        let mut x = leading(&self.old.remainder, shift);
        let mut y = leading(&self.new.remainder, shift);
        let end_bits = LEADING_BITS_MIN.max(HALF_BITS.saturating_sub(shift).min(63));
        // The remainders are +-(u old - v new) for (u, v) = (a, b) and (c, d).
        let (mut a, mut b, mut c, mut d) = (1u64, 0u64, 0u64, 1u64);
        let mut is_odd = false;
        while y >> end_bits != 0 {
            let quotient = x / y;
            let rest = x - quotient * y;
            // Below 2^64: factors stay below x / y.
            let (u, v) = (a + quotient * c, b + quotient * d);
            if rest < v || y - rest < d + v {
                break;
            }
            (x, y) = (y, rest);
            (a, b, c, d) = (c, d, u, v);
            is_odd ^= true;
        }
        if b == 0 {
            return false;
        }
        let (old, new) = (self.old, self.new);
        let remainder = |u, v, is_flipped: bool| match is_flipped {
            false => combined(u, &old.remainder, v, &new.remainder, true),
            true => combined(v, &new.remainder, u, &old.remainder, true),
        };
        let factor = |u, v| combined(u, &old.factor, v, &new.factor, false);
        self.old = Step { remainder: remainder(a, b, is_odd), factor: factor(a, b) };
        self.new = Step { remainder: remainder(c, d, !is_odd), factor: factor(c, d) };
        self.is_negative ^= is_odd;
        true
    }
}

/// `u x - v y` or `u x + v y` modulo 2^256.
#[inline]
fn combined(u: u64, x: &Words, v: u64, y: &Words, is_difference: bool) -> Words {
    let (mut out, mut carry_x, mut carry_y, mut carry) = ([0; 4], 0, 0, false);
    for i in 0..4 {
        let product_x = u128::from(u) * u128::from(x[i]) + carry_x;
        let product_y = u128::from(v) * u128::from(y[i]) + carry_y;
        (carry_x, carry_y) = (product_x >> 64, product_y >> 64);
        let (low_x, low_y) = (product_x as u64, product_y as u64);
        let (sum, over) = match is_difference {
            true => low_x.overflowing_sub(low_y),
            false => low_x.overflowing_add(low_y),
        };
        let (sum, over_too) = match is_difference {
            true => sum.overflowing_sub(u64::from(carry)),
            false => sum.overflowing_add(u64::from(carry)),
        };
        (out[i], carry) = (sum, over | over_too);
    }
    out
}

/// Bits up to the highest one that is set.
fn bits(x: &Words) -> u32 {
    let top = x.iter().rposition(|word| *word != 0);
    top.map_or(0, |top| 64 * top as u32 + 64 - x[top].leading_zeros())
}

/// `x >> shift`, which must be below 2^64.
fn leading(x: &Words, shift: u32) -> u64 {
    let (word, bit) = ((shift / 64) as usize, shift % 64);
    let next = x.get(word + 1).map_or(0, |next| next << 1 << (63 - bit));
    x[word] >> bit | next
}

/// `x << shift`, without the bits that leave; shift below 256.
fn shifted_left(x: &Words, shift: u32) -> Words {
    let (words, bit) = ((shift / 64) as usize, shift % 64);
    let at = |i: usize| i.checked_sub(words).map_or(0, |i| x[i]);
    core::array::from_fn(|i| {
        let below = if i == 0 { 0 } else { at(i - 1) };
        at(i) << bit | below >> 1 >> (63 - bit)
    })
}

fn less_or_equal(x: &Words, y: &Words) -> bool {
    x.iter().rev().le(y.iter().rev())
}

fn bytes(x: &Words) -> [u8; 32] {
    let mut out = [0; 32];
    for (out, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(x) {
        *out = word.to_le_bytes();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(bytes: &[u8; 32]) -> usize {
        8 * bytes.iter().rposition(|byte| *byte != 0).map_or(0, |top| top + 1)
    }

    #[test]
    fn numbers_below_the_order_have_short_multipliers() {
        let mut state = Scalar::from(3u8);
        let mut long = 0;
        for i in 0..20_000u64 {
            state = state * state + Scalar::from(i);
            let found = multiplier(&state.to_bytes()).expect("multipliers are found");
            assert_eq!(found.c1[0] & 1, 1);
            long += usize::from(length(&found.c0).max(length(&found.c1)) > 136);
        }
        assert!(long < 200, "{long} of 20000 are longer than 136 bits");
    }

    #[test]
    fn extreme_numbers_have_multipliers() {
        let power = |bit: u64| (0..bit).fold(Scalar::ONE, |x, _| x + x);
        for k in (0..252).map(power) {
            for k in [k, -k, k - Scalar::ONE, -k - Scalar::ONE, k + Scalar::from(8u8)] {
                let found = multiplier(&k.to_bytes());
                assert!(found.is_some(), "{k:?}");
            }
        }
    }

    #[test]
    fn the_group_order_is_eight_times_that_of_the_base_point() {
        let order_less_one = (-Scalar::ONE).to_bytes();
        let mut words =
            core::array::from_fn(|i| u64::from_le_bytes(order_less_one.as_chunks::<8>().0[i]));
        words[0] += 1;
        assert_eq!(shifted_left(&words, 3), GROUP_ORDER);
    }
}
