//! Integers modulo p = 2^384 - 2^128 - 2^96 + 2^32 - 1 (SP 800-186, section 3.2.1.4).
//!
//! ```text
//!   a, b --product--> 12 words = low + 2^384 high --2^384 = K (mod p)--> 6 words
//! ```
//!
//! An element is any of the one or two numbers below 2^384 that stand for it: what is left over
//! 2^384 is folded in as K = 2^384 - p times itself, and only [`Element::to_bytes`] makes it less
//! than p. Every function takes the same time for all elements.

use gabion_scheme::ct;

/// 2^384 - p in its three words that are not zero, low first.
const K: [u64; 3] = [0xffff_ffff_0000_0001, 0x0000_0000_ffff_ffff, 1];

/// An element of the field, as six words, low first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Element(pub(super) [u64; 6]);

/// `a + b + carry`, and the carry out; a carry is 0 or 1.
#[inline(always)]
fn adc(a: u64, b: u64, carry: u64) -> (u64, u64) {
    // In this form the compiler sees an addition with carry; by way of u128 it takes half as long again.
    let (sum, over) = a.overflowing_add(b);
    let (sum, over_too) = sum.overflowing_add(carry);
    (sum, u64::from(over | over_too))
}

/// `a - b - borrow`, and the borrow out; a borrow is 0 or 1.
#[inline(always)]
pub(super) fn sbb(a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let (difference, less) = a.overflowing_sub(b);
    let (difference, less_too) = difference.overflowing_sub(borrow);
    (difference, u64::from(less | less_too))
}

/// `a + b c + carry`, low word and high word.
#[inline(always)]
fn mac(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    let sum = u128::from(a) + u128::from(b) * u128::from(c) + u128::from(carry);
    (sum as u64, (sum >> 64) as u64)
}

/// The words shifted left by 32 bits, with a word more at the top.
#[inline(always)]
fn half_word_left<const N: usize, const MORE: usize>(words: [u64; N]) -> [u64; MORE] {
    core::array::from_fn(|i| {
        let here = if i < N { words[i] << 32 } else { 0 };
        if i == 0 { here } else { here | words[i - 1] >> 32 }
    })
}

/// Carries `step`, which is [`adc`] or [`sbb`], with `b` 2^(64 `at`) through `t`; returns the final
/// carry.
#[inline(always)]
fn ripple<const N: usize, const M: usize>(
    step: impl Fn(u64, u64, u64) -> (u64, u64),
    t: &mut [u64; N],
    at: usize,
    b: &[u64; M],
) -> u64 {
    let mut carry = 0;
    for i in at..N {
        let b = if i - at < M { b[i - at] } else { 0 };
        (t[i], carry) = step(t[i], b, carry);
    }
    carry
}

/// Applies the step with K if `over` is 1, and with zero if it is 0.
#[inline(always)]
fn ripple_k(step: impl Fn(u64, u64, u64) -> (u64, u64), t: &mut [u64; 6], over: u64) -> u64 {
    let mask = ct::barrier(over.wrapping_neg());
    ripple(step, t, 0, &K.map(|word| word & mask))
}

impl Element {
    pub(super) const ONE: Element = Element([1, 0, 0, 0, 0, 0]);

    /// The element of 48 bytes, big-endian.
    pub(super) fn from_bytes(bytes: &[u8; 48]) -> Element {
        let mut words = [0; 6];
        for (word, bytes) in words.iter_mut().rev().zip(bytes.as_chunks().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        Element(words)
    }

    /// 48 bytes, big-endian, less than p.
    pub(super) fn to_bytes(self) -> [u8; 48] {
        // Below 2^384 < 2p, so that p goes into it once at most: t + K overflows if and only if
        // t >= p, and is t - p then.
        let mut less = self.0;
        let over = ct::barrier(ripple_k(adc, &mut less, 1).wrapping_neg());
        let mut bytes = [0; 48];
        for ((bytes, less), word) in bytes.as_chunks_mut().0.iter_mut().rev().zip(less).zip(self.0)
        {
            *bytes = (less & over | word & !over).to_be_bytes();
        }
        bytes
    }

    #[inline]
    pub(super) fn add(self, other: Element) -> Element {
        self.combine(other, adc)
    }

    #[inline]
    pub(super) fn sub(self, other: Element) -> Element {
        self.combine(other, sbb)
    }

    /// Returns the sum or the difference. A result above 2^384 or below 0 is corrected by K, which
    /// may cross the limit once more; after a second correction it is within K of that limit and
    /// stays.
    #[inline(always)]
    fn combine(self, other: Element, step: impl Fn(u64, u64, u64) -> (u64, u64)) -> Element {
        let mut t = self.0;
        let over = ripple(&step, &mut t, 0, &other.0);
        let over = ripple_k(&step, &mut t, over);
        ripple_k(&step, &mut t, over);
        Element(t)
    }

    #[inline]
    pub(super) fn mul(self, other: Element) -> Element {
        let (a, b) = (self.0, other.0);
        let mut w = [0; 12];
        // Written out, because the compiler keeps the words in registers only then.
        macro_rules! row {
            ($($i:literal)*) => {$(
                let carry = 0;
                let (w0, carry) = mac(w[$i], a[0], b[$i], carry);
                let (w1, carry) = mac(w[$i + 1], a[1], b[$i], carry);
                let (w2, carry) = mac(w[$i + 2], a[2], b[$i], carry);
                let (w3, carry) = mac(w[$i + 3], a[3], b[$i], carry);
                let (w4, carry) = mac(w[$i + 4], a[4], b[$i], carry);
                let (w5, carry) = mac(w[$i + 5], a[5], b[$i], carry);
                [w[$i], w[$i + 1], w[$i + 2], w[$i + 3], w[$i + 4], w[$i + 5], w[$i + 6]] =
                    [w0, w1, w2, w3, w4, w5, carry];
            )*};
        }
        row!(0 1 2 3 4 5);
        fold(w)
    }

    #[inline]
    pub(super) fn square(self) -> Element {
        let a = self.0;
        let mut w = [0; 12];
        /// The products of one word with those above it.
        macro_rules! row {
            ($($i:literal: $($j:literal)* => $top:literal;)*) => {$(
                let carry = 0;
                $(let (low, carry) = mac(w[$i + $j], a[$i], a[$j], carry);
                w[$i + $j] = low;)*
                w[$top] = carry;
            )*};
        }
        row! {
            0: 1 2 3 4 5 => 6;
            1: 2 3 4 5 => 7;
            2: 3 4 5 => 8;
            3: 4 5 => 9;
            4: 5 => 10;
        }
        // Twice that, and the squares of the words.
        let mut carry = 0;
        let mut below = 0;
        for i in 0..6 {
            let square = u128::from(a[i]) * u128::from(a[i]);
            let twice = [w[2 * i] << 1 | below, w[2 * i + 1] << 1 | w[2 * i] >> 63];
            below = w[2 * i + 1] >> 63;
            (w[2 * i], carry) = adc(twice[0], square as u64, carry);
            (w[2 * i + 1], carry) = adc(twice[1], (square >> 64) as u64, carry);
        }
        fold(w)
    }

    /// This to the power of 2^`times`.
    fn square_times(self, times: usize) -> Element {
        (0..times).fold(self, |element, _| element.square())
    }

    /// The inverse, as the power p - 2; zero for zero.
    pub(super) fn invert(self) -> Element {
        // In binary, p - 2 is 255 ones, a zero, 32 ones, 64 zeros, 30 ones, a zero and a one.
        // `ones_n` is the power 2^n - 1.
        let ones_2 = self.square().mul(self);
        let ones_3 = ones_2.square().mul(self);
        let ones_6 = ones_3.square_times(3).mul(ones_3);
        let ones_12 = ones_6.square_times(6).mul(ones_6);
        let ones_15 = ones_12.square_times(3).mul(ones_3);
        let ones_30 = ones_15.square_times(15).mul(ones_15);
        let ones_32 = ones_30.square_times(2).mul(ones_2);
        let ones_60 = ones_30.square_times(30).mul(ones_30);
        let ones_120 = ones_60.square_times(60).mul(ones_60);
        let ones_240 = ones_120.square_times(120).mul(ones_120);
        let ones_255 = ones_240.square_times(15).mul(ones_15);
        let power = ones_255.square_times(1 + 32).mul(ones_32);
        power.square_times(64 + 30).mul(ones_30).square_times(2).mul(self)
    }

    /// Returns all ones for zero, and zero for any other value.
    pub(super) fn zero_mask(self) -> u64 {
        ct::eq_mask(&self.to_bytes(), &[0; 48])
    }

    /// `a` where `mask` is all ones, `b` where it is zero.
    #[inline]
    pub(super) fn select(mask: u64, a: Element, b: Element) -> Element {
        let mask = ct::barrier(mask);
        Element(core::array::from_fn(|i| a.0[i] & mask | b.0[i] & !mask))
    }
}

/// Twelve words modulo p: 2^384 = 2^128 + 2^96 - 2^32 + 1.
#[inline(always)]
fn fold(w: [u64; 12]) -> Element {
    let high: [u64; 6] = [w[6], w[7], w[8], w[9], w[10], w[11]];
    let shifted: [u64; 7] = half_word_left(high);
    let mut t = [w[0], w[1], w[2], w[3], w[4], w[5], 0, 0, 0];
    ripple(adc, &mut t, 0, &high);
    ripple(adc, &mut t, 2, &high);
    ripple(adc, &mut t, 1, &shifted);
    ripple(sbb, &mut t, 0, &shifted);
    // Below 2^514, and not negative. The same again for what is above 2^384, which then is less than
    // 2^384 + 2^259.
    let high: [u64; 3] = [t[6], t[7], t[8]];
    let shifted: [u64; 3] = half_word_left(high);
    let mut t = [t[0], t[1], t[2], t[3], t[4], t[5], 0];
    ripple(adc, &mut t, 0, &high);
    ripple(adc, &mut t, 2, &high);
    ripple(adc, &mut t, 1, &shifted);
    ripple(sbb, &mut t, 0, &shifted);
    let mut low = [t[0], t[1], t[2], t[3], t[4], t[5]];
    ripple_k(adc, &mut low, t[6]);
    Element(low)
}

#[cfg(test)]
mod tests {
    use p384::elliptic_curve::bigint::{NonZero, U384, U768};

    use super::*;

    const P: U384 = U384::from_be_hex(
        "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe\
         ffffffff0000000000000000ffffffff",
    );

    fn number(words: [u64; 6]) -> U384 {
        U384::from_words(words)
    }

    fn reduce(number: U384) -> U384 {
        number.rem(&NonZero::new(P).unwrap())
    }

    fn wide(low: [u64; 6], high: [u64; 6]) -> U768 {
        U768::from((number(low), number(high)))
    }

    /// Numbers at both ends of the range, around p, and with a word or half of one set.
    fn extremes() -> Vec<[u64; 6]> {
        let p = [K[0].wrapping_neg(), !K[1], !K[2], u64::MAX, u64::MAX, u64::MAX];
        let mut all = vec![[0; 6], [u64::MAX; 6], p, [K[0], K[1], K[2], 0, 0, 0]];
        for by in 1..4 {
            for from in [[0; 6], p, [K[0], K[1], K[2], 0, 0, 0]] {
                let [mut above, mut below] = [from, from];
                above[0] = above[0].wrapping_add(by);
                below[0] = below[0].wrapping_sub(by);
                all.extend([above, below]);
            }
        }
        for i in 0..6 {
            let only = |word| core::array::from_fn(|j| if j == i { word } else { 0 });
            all.extend([only(u64::MAX), only(1), only(1 << 63), only(0xffff_ffff)]);
        }
        all
    }

    #[test]
    fn results_are_those_of_big_integers() {
        let p = NonZero::new(P).unwrap();
        for a in extremes() {
            let element = Element(a);
            let a = reduce(number(a));
            assert_eq!(U384::from_be_slice(&element.to_bytes()), a);
            assert_eq!(element.zero_mask() != 0, a == U384::ZERO);
            let inverse = element.invert().mul(element).to_bytes();
            assert_eq!(U384::from_be_slice(&inverse), U384::from_u8(u8::from(a != U384::ZERO)));
            for b in extremes() {
                let other = Element(b);
                let b = reduce(number(b));
                let results = [
                    (element.add(other), a.add_mod(&b, &p)),
                    (element.sub(other), a.sub_mod(&b, &p)),
                    (element.mul(other), a.mul_mod(&b, &p)),
                    (element.square(), a.mul_mod(&a, &p)),
                ];
                for (i, (result, expected)) in results.into_iter().enumerate() {
                    assert_eq!(U384::from_be_slice(&result.to_bytes()), expected, "{i}: {a} {b}");
                }
            }
        }
    }

    /// Includes the values with the longest carries in the middle: a low half that the folded high
    /// half fills up.
    #[test]
    fn twelve_words_fold_to_six() {
        let p = NonZero::new(U768::from((P, U384::ZERO))).unwrap();
        for high in extremes() {
            let folded = number(high).wrapping_mul(&number([K[0], K[1], K[2], 0, 0, 0]));
            let full = U384::MAX.wrapping_sub(&folded).to_words();
            for low in extremes().into_iter().chain([full]) {
                let [w0, w1, w2, w3, w4, w5] = low;
                let [w6, w7, w8, w9, w10, w11] = high;
                let result = fold([w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11]);
                let expected = wide(low, high).rem(&p).to_be_bytes();
                assert_eq!(result.to_bytes()[..], expected.as_ref()[48..], "{low:x?} {high:x?}");
            }
        }
    }
}
