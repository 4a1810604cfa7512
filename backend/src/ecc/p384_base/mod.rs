//! Multiples of the base point of P-384 (SP 800-186, section 3.2.1.4): public keys and the
//! points of nonces.
//!
//! ```text
//!   scalar k --odd: k or n - k--> 96 digits d_i, odd, -15 to 15: k = sum of d_i 16^i
//!            --table--> d_i 16^i G, affine --95 additions--> Jacobian --one inversion--> x, y
//! ```
//!
//! graviola multiplies this point like any other, with 384 doublings, and p384 has a table but slow
//! arithmetic: either takes 2.5 times as long (ADR 0011). `table.bin`, 72 KiB, holds the odd multiples
//! of 16^i G; one test writes it, and another recomputes it by p384.
//!
//! Time is the same for all scalars: every digit reads its whole row of the table.

mod field;

use field::{Element, sbb};
use gabion_scheme::ct;
use zeroize::Zeroizing;

use super::{Curve, is_private};

/// Bytes of a scalar and of a coordinate.
const LEN: usize = 48;
/// Bytes of a point, uncompressed (SEC 1, section 2.3.3).
const POINT_LEN: usize = 1 + 2 * LEN;
/// Digits of a scalar, each four bits on.
const DIGITS: usize = 96;
/// The odd multiples 1, 3, ..., 15.
const MULTIPLES: usize = 8;

/// The order of the base point, low word first.
const ORDER: [u64; 6] = [
    0xecec_196a_ccc5_2973,
    0x581a_0db2_48b0_a77a,
    0xc763_4d81_f437_2ddf,
    0xffff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// A point that is not the neutral one.
#[derive(Clone, Copy)]
struct Affine {
    x: Element,
    y: Element,
}

/// A point (X / Z^2, Y / Z^3).
#[derive(Clone, Copy)]
struct Jacobian {
    x: Element,
    y: Element,
    z: Element,
}

/// x and y of (2j + 1) 16^i G as words, low first, at `[i][j]`.
static TABLE: [[[u64; 12]; MULTIPLES]; DIGITS] = words(include_bytes!("table.bin"));

/// Words, each of eight bytes, low first.
const fn words(bytes: &[u8; DIGITS * MULTIPLES * 2 * LEN]) -> [[[u64; 12]; MULTIPLES]; DIGITS] {
    let mut table = [[[0; 12]; MULTIPLES]; DIGITS];
    let mut i = 0;
    while i < bytes.len() {
        let word = i / 8;
        let at = &mut table[word / (12 * MULTIPLES)][word / 12 % MULTIPLES][word % 12];
        *at |= (bytes[i] as u64) << (i % 8 * 8);
        i += 1;
    }
    table
}

/// Returns the public keys of private ones; `None` for an invalid private key.
pub fn public_keys(private: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let scalars: Vec<Option<&[u8; LEN]>> = (private.iter())
        .map(|key| if is_private(Curve::P384, key) { key.first_chunk() } else { None })
        .collect();
    let good: Vec<&[u8; LEN]> = scalars.iter().flatten().copied().collect();
    let mut points = multiples(&good).into_iter();
    scalars.iter().map(|scalar| scalar.and_then(|_| points.next()).map(Vec::from)).collect()
}

/// The x coordinate of a scalar's point; the scalar is from 1 to the order minus one.
pub(super) fn x_of_multiple(scalar: &[u8; LEN]) -> [u8; LEN] {
    let mut x = [0; LEN];
    x.copy_from_slice(&multiples(&[scalar])[0][1..=LEN]);
    x
}

/// The points of scalars, each from 1 to the order minus one, uncompressed.
///
/// The inversions are done as one.
fn multiples(scalars: &[&[u8; LEN]]) -> Vec<[u8; POINT_LEN]> {
    let mut points: Vec<_> = scalars.iter().map(|scalar| multiple(scalar)).collect();
    // Montgomery's trick: products of all z so far, and then back with the inverse of the last one.
    let mut products = Vec::with_capacity(points.len());
    let mut product = Element::ONE;
    for point in &points {
        products.push(product);
        product = product.mul(point.z);
    }
    let mut inverse = product.invert();
    let mut encoded = vec![[4; POINT_LEN]; points.len()];
    for ((point, before), encoded) in points.iter().zip(&products).zip(&mut encoded).rev() {
        let z = inverse.mul(*before);
        inverse = inverse.mul(point.z);
        let square = z.square();
        encoded[1..=LEN].copy_from_slice(&point.x.mul(square).to_bytes());
        encoded[1 + LEN..].copy_from_slice(&point.y.mul(square).mul(z).to_bytes());
        ct::declassify(&encoded[..]); // It is a public key.
    }
    // The coordinates of a multiple say something of its scalar as long as they are not affine.
    for point in &mut points {
        for coordinate in [&mut point.x, &mut point.y, &mut point.z] {
            ct::wipe(&mut coordinate.0);
        }
    }
    for product in products.iter_mut().chain([&mut product, &mut inverse]) {
        ct::wipe(&mut product.0);
    }
    encoded
}

/// The multiple of the base point.
fn multiple(scalar: &[u8; LEN]) -> Jacobian {
    let mut words = Zeroizing::new(Element::from_bytes(scalar).0);
    let was_even = ct::barrier((words[0] & 1).wrapping_sub(1));
    negate_if(was_even, &mut words);
    let mut digit = Zeroizing::new(digit(&words, 0));
    let Affine { x, y } = look_up(0, *digit);
    let mut sum = Jacobian { x, y, z: Element::ONE };
    for i in 1..DIGITS - 1 {
        *digit = self::digit(&words, i);
        // The sum is a multiple below 16^i and the point one of at least 16^i, both up to sign, and
        // together they are below the order: neither the same point nor opposite ones.
        sum = sum.add(look_up(i, *digit));
    }
    // Here they may be the same point, for the scalar 30 16^95 - n alone. They can't be opposite
    // ones: scalars are not 0 modulo the order.
    *digit = self::digit(&words, DIGITS - 1);
    let point = look_up(DIGITS - 1, *digit);
    sum = sum.add(point);
    sum = Jacobian::select(sum.z.zero_mask(), point.double(), sum);
    sum.y = Element::select(was_even, Element::default().sub(sum.y), sum.y);
    sum
}

/// The order minus the scalar where `mask` is all ones.
fn negate_if(mask: u64, words: &mut [u64; 6]) {
    let mut borrow = 0;
    for (word, order) in words.iter_mut().zip(ORDER) {
        let difference;
        (difference, borrow) = sbb(order, *word, borrow);
        *word = difference & mask | *word & !mask;
    }
}

/// Returns digit `i` of an odd scalar: since all digits are odd, the part above digit `i` is odd
/// too, and five bits determine the digit. The last digit is the rest.
fn digit(words: &[u64; 6], i: usize) -> i64 {
    let at = 4 * i;
    let low = words[at / 64] >> (at % 64);
    // A digit's fifth bit may be in the next word.
    let bits = if at % 64 == 60 && i < DIGITS - 1 { low | words[at / 64 + 1] << 4 } else { low };
    if i == DIGITS - 1 { (bits | 1) as i64 } else { (bits & 31 | 1) as i64 - 16 }
}

/// The digit's multiple of 16^i G.
fn look_up(i: usize, digit: i64) -> Affine {
    let is_negative = (digit >> 63) as u64;
    let size = (digit as u64 ^ is_negative).wrapping_sub(is_negative);
    let mut found = [0; 12];
    for (j, multiple) in TABLE[i].iter().enumerate() {
        let differs = size ^ (2 * j as u64 + 1);
        // All ones for zero.
        let mask = ct::barrier((differs.wrapping_sub(1) & !differs) >> 63).wrapping_neg();
        for (found, word) in found.iter_mut().zip(multiple) {
            *found |= word & mask;
        }
    }
    let [x @ .., _, _, _, _, _, _] = found;
    let [_, _, _, _, _, _, y @ ..] = found;
    let y = Element(y);
    let y = Element::select(ct::barrier(is_negative), Element::default().sub(y), y);
    Affine { x: Element(x), y }
}

impl Affine {
    /// Twice the point (Hankerson, Menezes, Vanstone, Guide to Elliptic Curve Cryptography,
    /// algorithm 3.21, with Z = 1).
    fn double(self) -> Jacobian {
        let Affine { x, y } = self;
        let m = x.square().sub(Element::ONE);
        let m = m.add(m).add(m);
        let y2 = y.square();
        let y2 = y2.add(y2);
        let s = x.mul(y2.add(y2));
        let x3 = m.square().sub(s.add(s));
        let y4 = y2.square(); // 4 y^4
        let y3 = m.mul(s.sub(x3)).sub(y4.add(y4));
        Jacobian { x: x3, y: y3, z: y.add(y) }
    }
}

impl Jacobian {
    /// The sum with a point that is neither the same nor the opposite one; z is zero if it is
    /// (the same book, algorithm 3.22).
    fn add(self, other: Affine) -> Jacobian {
        let square = self.z.square();
        let h = other.x.mul(square).sub(self.x);
        let r = other.y.mul(square.mul(self.z)).sub(self.y);
        let h2 = h.square();
        let h3 = h2.mul(h);
        let v = self.x.mul(h2);
        let x = r.square().sub(h3).sub(v.add(v));
        let y = r.mul(v.sub(x)).sub(self.y.mul(h3));
        Jacobian { x, y, z: self.z.mul(h) }
    }

    fn select(mask: u64, a: Jacobian, b: Jacobian) -> Jacobian {
        Jacobian {
            x: Element::select(mask, a.x, b.x),
            y: Element::select(mask, a.y, b.y),
            z: Element::select(mask, a.z, b.z),
        }
    }
}

#[cfg(test)]
mod tests {
    use p384::elliptic_curve::Group;
    use p384::elliptic_curve::PrimeField;
    use p384::elliptic_curve::point::AffineCoordinates;
    use p384::{ProjectivePoint, Scalar};

    use super::*;

    /// The table, by another implementation.
    fn computed() -> Vec<u8> {
        let mut table = Vec::new();
        let mut base = ProjectivePoint::GENERATOR;
        for _ in 0..DIGITS {
            let twice = base.double();
            let mut multiple = base;
            for _ in 0..MULTIPLES {
                let point = multiple.to_affine();
                for coordinate in [point.x(), point.y()] {
                    table.extend(coordinate.iter().rev());
                }
                multiple += twice;
            }
            base = twice.double().double().double();
        }
        table
    }

    #[test]
    fn the_table_holds_the_multiples_of_the_base_point() {
        assert!(computed() == include_bytes!("table.bin"));
    }

    #[test]
    #[ignore = "writes the table: cargo test -p gabion-engine writes_the_table -- --ignored"]
    fn writes_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ecc/p384_base/table.bin");
        std::fs::write(path, computed()).unwrap();
    }

    fn expected(scalar: &Scalar) -> Vec<u8> {
        let point = ProjectivePoint::mul_by_generator(scalar).to_affine();
        [&[4], &point.x()[..], &point.y()[..]].concat()
    }

    /// Sixteen to the power of `i`.
    fn power(i: u64) -> Scalar {
        (0..i).fold(Scalar::ONE, |power, _| power * Scalar::from(16u64))
    }

    #[test]
    fn multiples_are_those_of_another_implementation() {
        let mut scalars = Vec::new();
        // The scalars with the fewest ones and zeros, at every position, from both ends.
        for i in 0..DIGITS as u64 {
            for near in [power(i), power(i) * Scalar::from(15u64), -power(i)] {
                scalars.extend([near, near + Scalar::ONE, near - Scalar::ONE, near.double()]);
            }
        }
        // Something of every kind: powers of a number are scattered.
        let mut scattered = Scalar::from(0x9e37_79b9_7f4a_7c15u64).square();
        for _ in 0..200 {
            scattered *= scattered + Scalar::from(3u64);
            scalars.push(scattered);
        }
        scalars.retain(|scalar| *scalar != Scalar::ZERO);
        let bytes: Vec<[u8; LEN]> = scalars.iter().map(|scalar| scalar.to_repr().into()).collect();
        let all: Vec<_> = bytes.iter().collect();
        let many = multiples(&all);
        for (i, scalar) in scalars.iter().enumerate() {
            assert_eq!(many[i][..], expected(scalar), "{scalar:?}");
            assert_eq!(multiples(&[&bytes[i]]), [many[i]], "{scalar:?}");
        }
    }

    #[test]
    fn invalid_private_key_does_not_affect_other_lanes() {
        let mut order = [0; LEN];
        for (bytes, word) in order.as_chunks_mut().0.iter_mut().rev().zip(ORDER) {
            *bytes = word.to_be_bytes();
        }
        let keys: [&[u8]; 6] =
            [&[7; LEN], &[0; LEN], &order, &[7; LEN - 1], &[0xff; LEN], &[8; LEN]];
        let made = public_keys(&keys);
        let good: Vec<bool> = made.iter().map(Option::is_some).collect();
        assert_eq!(good, [true, false, false, false, false, true]);
        for (key, byte) in [(0, 7), (5, 8)] {
            let scalar = Scalar::from_repr([byte; LEN].into()).unwrap();
            assert_eq!(made[key], Some(expected(&scalar)));
        }
        assert!(public_keys(&[]).is_empty());
    }

    /// The one scalar, and its opposite, for which the last addition adds a point to itself.
    #[test]
    fn the_last_addition_may_be_a_doubling() {
        let scalar = power(95) * Scalar::from(30u64);
        for scalar in [scalar, -scalar] {
            let bytes: [u8; LEN] = scalar.to_repr().into();
            assert_eq!(multiples(&[&bytes])[0][..], expected(&scalar));
            let mut words = Element::from_bytes(&bytes).0;
            negate_if((words[0] & 1).wrapping_sub(1), &mut words);
            assert_eq!(digit(&words, DIGITS - 1), 15);
            // So that the sum before it, 15 16^95 as well, is the point that is added.
        }
    }
}
