//! Verification of one Ed25519 signature, in variable time: everything here is public.
//!
//! ```text
//!   a fresh key   [c1 s]B - [c0]A - [c1]R with c0 and c1 of about 128 bits (see half_size_vartime):
//!                 about 130 doublings, no inversion
//!   a known key   [s]B - [k]A over rows of the key in four pieces: 64 doublings, one inversion
//! ```
//!
//! One point is worked on at a time, its coordinates side by side
//! ([`edwards_quad_vartime`](super::edwards_quad_vartime)); multiples of B come in four pieces from one table.

use gabion_scheme::kernels::ed25519::{
    EdEquation, EdVerify, PointRow, ROW_PIECE_BITS, ROW_PIECES, ROWS_PER_PIECE, scalar,
};
use once_cell::race::OnceBox;

use super::edwards_quad_vartime::{Addend, Point, decode_negated};
use super::half_size_vartime::multiplier;

/// Bits of a digit of the base point's scalar.
const BASE_BITS: usize = 8;
/// Pieces of that scalar.
const BASE_PIECES: usize = 4;
/// Digits of a piece: 64 bits.
const BASE_PIECE_DIGITS: usize = 8;
/// Multiples in a piece of the base table: 1 to 128.
const BASE_ROWS: usize = 1 << (BASE_BITS - 1);
/// Bits of a digit of the other scalars.
const BITS: usize = 5;
/// Digits of a number below 2^255.
const DIGITS: usize = 52;
/// Multiples of a fresh point: 1 to 16.
const ROWS: usize = 1 << (BITS - 1);
/// Digits of k in a piece of a known key.
const PIECE_DIGITS: usize = ROW_PIECE_BITS / BITS;

/// Digits of `bits` bits of a number, in -2^(bits - 1)..2^(bits - 1), the least first. The number
/// must be so small that the last digit takes the last carry.
pub(super) fn signed_digits<const N: usize>(bytes: &[u8], bits: usize) -> [i16; N] {
    let mut carry = 0;
    core::array::from_fn(|i| {
        let at = |k: usize| u32::from(bytes.get(k).copied().unwrap_or(0));
        let byte = bits * i / 8;
        let window = at(byte) | at(byte + 1) << 8 | at(byte + 2) << 16;
        let digit = (window >> (bits * i % 8) & ((1 << bits) - 1)) as i16 + carry;
        carry = i16::from(digit >= 1 << (bits - 1));
        digit - (carry << bits)
    })
}

/// `table[piece][i - 1] = i * 2^(64 piece) * B`.
type BaseTable = Vec<[Addend; BASE_ROWS]>;

/// Made at its first use, as [`super::ed25519`] makes its tables; public and the same in every process.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn base_table() -> &'static BaseTable {
    static TABLE: OnceBox<BaseTable> = OnceBox::new();
    TABLE.get_or_init(|| Box::new(make_base_table()))
}

#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn make_base_table() -> BaseTable {
    let mut table = Vec::with_capacity(BASE_PIECES);
    let mut base = Point::base();
    for _ in 0..BASE_PIECES {
        table.push(multiples(&base));
        for _ in 0..BASE_BITS * BASE_PIECE_DIGITS {
            base.double();
        }
    }
    table
}

/// The multiples 1 to N of a point.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn multiples<const N: usize>(point: &Point) -> [Addend; N] {
    let one = point.addend();
    let mut points = [*point; N];
    for i in 2..=N {
        // Even multiples are doubled: their halves are ready long before.
        if i.is_multiple_of(2) {
            points[i - 1] = points[i / 2 - 1];
            points[i - 1].double();
        } else {
            points[i - 1] = points[i - 2];
            points[i - 1].add(&one, false);
        }
    }
    points.map(|point| point.addend())
}

/// Adds the multiple that a digit says.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn add_multiple(sum: &mut Point, digit: i16, multiples: &[Addend]) {
    if digit != 0 {
        sum.add(&multiples[usize::from(digit.unsigned_abs()) - 1], digit < 0);
    }
}

/// Adds the terms of one bit of the base point's scalar, in all its pieces.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn add_base(
    sum: &mut Point,
    bit: usize,
    digits: &[i16; BASE_PIECES * BASE_PIECE_DIGITS],
    table: &BaseTable,
) {
    if bit.is_multiple_of(BASE_BITS) && bit < BASE_BITS * BASE_PIECE_DIGITS {
        for (piece, table) in table.iter().enumerate() {
            add_multiple(sum, digits[BASE_PIECE_DIGITS * piece + bit / BASE_BITS], table);
        }
    }
}

/// Returns whether the equation holds; nothing where it must be asked another way.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn verify_fresh(equation: EdEquation, job: &EdVerify<'_>) -> Option<bool> {
    let by = multiplier(job.k)?;
    let Some(([a, r], is_only)) = decode_negated([job.key.encoded(), job.r]) else {
        // R is not a point, so that no point has this encoding; or A is not a point.
        return Some(false);
    };
    if equation == EdEquation::Cofactorless && !is_only {
        return Some(false);
    }
    let c0 = signed_digits::<DIGITS>(&by.c0, BITS);
    let c1 = signed_digits::<DIGITS>(&by.c1, BITS);
    let c1 = if by.is_negative { c1.map(|digit| -digit) } else { c1 };
    let s = signed_digits(&(by.scalar * scalar(job.s)).to_bytes(), BASE_BITS);
    let tables = [multiples::<ROWS>(&a), multiples::<ROWS>(&r)];
    let base = base_table();
    let top = (0..DIGITS).rfind(|&i| c0[i] != 0 || c1[i] != 0).unwrap_or(0);
    let first = (BITS * top).max(BASE_BITS * (BASE_PIECE_DIGITS - 1));
    let mut sum = Point::identity();
    for bit in (0..=first).rev() {
        if bit < first {
            sum.double();
        }
        if bit.is_multiple_of(BITS) {
            add_multiple(&mut sum, c0[bit / BITS], &tables[0]);
            add_multiple(&mut sum, c1[bit / BITS], &tables[1]);
        }
        add_base(&mut sum, bit, &s, base);
    }
    Some(is_neutral(equation, sum))
}

/// Returns whether the equation holds for a key with rows.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn verify_known(equation: EdEquation, job: &EdVerify<'_>, key: &[PointRow]) -> bool {
    let k = signed_digits::<DIGITS>(job.k, BITS);
    let s = signed_digits(job.s, BASE_BITS);
    let base = base_table();
    let first = BITS * (PIECE_DIGITS - 1);
    let mut sum = Point::identity();
    for bit in (0..=first).rev() {
        if bit < first {
            sum.double();
        }
        if bit.is_multiple_of(BITS) {
            for piece in 0..ROW_PIECES {
                let digit = k[PIECE_DIGITS * piece + bit / BITS];
                if digit != 0 {
                    let multiple = usize::from(digit.unsigned_abs());
                    let row = Addend::from_row(&key[ROWS_PER_PIECE * piece + multiple - 1].0);
                    sum.add(&row, digit < 0);
                }
            }
        }
        add_base(&mut sum, bit, &s, base);
    }
    match equation {
        EdEquation::Cofactorless => sum.encode() == *job.r,
        EdEquation::Cofactored => match decode_negated([job.r; 2]) {
            Some(([r, _], _)) => {
                sum.add(&r.addend(), false);
                is_neutral(equation, sum)
            }
            None => false,
        },
    }
}

/// Returns whether a difference is the identity, or a point of small order if the equation is
/// cofactored.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn is_neutral(equation: EdEquation, mut difference: Point) -> bool {
    if equation == EdEquation::Cofactored {
        for _ in 0..3 {
            difference.double();
        }
    }
    difference.is_identity()
}
