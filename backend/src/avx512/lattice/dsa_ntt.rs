//! ML-DSA: NTT, inverse NTT and products in the NTT domain (FIPS 204, Algorithms 41 to 48).
//!
//! A polynomial fills sixteen registers of 16 coefficients. Layers 128 to 16 pair whole registers;
//! for layers 8 to 1 neighbouring registers exchange parts (see `shuffle`), and at the end one
//! permutation restores the standard's order.
//!
//! A product with a constant root z is Barrett's: with z' = round(2^32 z / q), the quotient is the
//! high half of b z' (two 32 x 32 -> 64 bit products, for even and odd coefficients), and
//! b z - quotient q needs low halves only (two `vpmulld`). Nine operations a butterfly, against
//! twelve with Montgomery's method over `vpmuldq`; IFMA would need 64-bit lanes, and so as many
//! multiplications and twice the additions. Expected: 8 layers x 8 butterflies x 9 + 80 shuffles,
//! two a cycle: 330 cycles.

use core::arch::x86_64::*;

use gabion_scheme::kernels::{DSA_Q, DsaPoly};

use super::constants::{IN_ORDER, Pair, model};
use super::shuffle;
use crate::avx512::registers;
use crate::common::constants::dsa::{Factor, Q_INVERSE, zeta};
use crate::common::memory::Table;

/// Roots for the butterflies of one pair of registers at one layer: z, z', z' of odd coefficients.
type Roots = [Table<i32, 16>; 3];

/// The arrangements of a pair for layers 8, 4, 2, 1 of the NTT.
const FORWARD: [Pair; 4] = {
    let halves = model::halves(&IN_ORDER);
    let quarters = model::quarters(&halves);
    let quads = model::quads(&quarters);
    [halves, quarters, quads, model::doubles(&quads)]
};
/// The arrangements for layers 1, 2, 4, 8 of the inverse NTT.
const INVERSE: [Pair; 4] = [FORWARD[3], FORWARD[2], FORWARD[1], model::halves(&FORWARD[1])];

/// Roots of the in-register layers: `[pair][layer]`, layers in the order of use.
const fn roots(inverse: bool) -> [[Roots; 4]; 8] {
    let mut zetas = [0; 256];
    let mut i = 0;
    while i < 256 {
        zetas[i] = zeta(i);
        i += 1;
    }
    let mut out = [[[Table([0; 16]); 3]; 4]; 8];
    let mut i = 0;
    while i < 8 * 4 * 16 {
        let (pair, layer, lane) = (i / 64, i / 16 % 4, i % 16);
        let length = if inverse { 1 << layer } else { 8 >> layer };
        let arrangement = if inverse { &INVERSE[layer] } else { &FORWARD[layer] };
        let block = (32 * pair + arrangement[0][lane]) / (2 * length);
        let index = if inverse { 256 / length - 1 - block } else { 128 / length + block };
        let Factor(z, quotient) = Factor::new(zetas[index]);
        out[pair][layer][0].0[lane] = z;
        out[pair][layer][1].0[lane] = quotient;
        if lane % 2 == 1 {
            out[pair][layer][2].0[lane - 1] = quotient;
        }
        i += 1;
    }
    out
}

static FORWARD_ROOTS: [[Roots; 4]; 8] = roots(false);
static INVERSE_ROOTS: [[Roots; 4]; 8] = roots(true);
/// Indices from the last arrangement to memory order and back.
static BACK: [Table<i32, 16>; 2] = model::back(&FORWARD[3]);
static FORTH: [Table<i32, 16>; 2] = model::forth(&FORWARD[3]);

/// A constant in registers.
#[derive(Clone, Copy)]
struct Constant {
    z: __m512i,
    /// round(2^32 z / q) for the even coefficients, and for the odd ones in even places.
    even: __m512i,
    odd: __m512i,
}

/// Returns a constant with equal values for all coefficients.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn broadcast(Factor(z, quotient): Factor) -> Constant {
    let quotient = _mm512_set1_epi32(quotient);
    Constant { z: _mm512_set1_epi32(z), even: quotient, odd: quotient }
}

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn constant([z, even, odd]: &Roots) -> Constant {
    Constant { z: registers::table(z), even: registers::table(even), odd: registers::table(odd) }
}

/// b z modulo q. With e = |b| / 2^33, the result lies within (-e q, (1 + e) q): z' is off by at
/// most 1/2, and the quotient is rounded down.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn multiply(b: __m512i, c: Constant, masks: shuffle::Masks) -> __m512i {
    let even = _mm512_mul_epi32(b, c.even);
    let odd = _mm512_mul_epi32(_mm512_srli_epi64::<32>(b), c.odd);
    let quotient = shuffle::high_halves(even, odd, masks);
    let product = _mm512_mullo_epi32(b, c.z);
    _mm512_sub_epi32(product, _mm512_mullo_epi32(quotient, _mm512_set1_epi32(DSA_Q)))
}

/// b z modulo q. With e = |b| / 2^33, |result| < (1/2 + e) q: the quotient is rounded to nearest,
/// for two operations more.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn multiply_rounded(b: __m512i, c: Constant, masks: shuffle::Masks) -> __m512i {
    let half = _mm512_set1_epi64(1 << 31);
    let even = _mm512_add_epi64(_mm512_mul_epi32(b, c.even), half);
    let odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64::<32>(b), c.odd), half);
    let quotient = shuffle::high_halves(even, odd, masks);
    let product = _mm512_mullo_epi32(b, c.z);
    _mm512_sub_epi32(product, _mm512_mullo_epi32(quotient, _mm512_set1_epi32(DSA_Q)))
}

/// NTT of each polynomial. From |x| < 2q, seven layers add (1 + 2^-6) q at most, and the last,
/// which rounds, (1/2 + 2^-6) q: below 9.7q.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn ntt(polys: &mut [DsaPoly]) {
    for p in polys {
        ntt_one(registers::dsa_mut(p));
    }
    registers::clear();
}

/// A layer between registers that lie `DISTANCE` apart.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn layer_between<const DISTANCE: usize>(w: &mut [__m512i; 16], masks: shuffle::Masks) {
    for block in 0..const { 8 / DISTANCE } {
        let c = broadcast(BROADCAST[8 / DISTANCE + block]);
        for r in 0..DISTANCE {
            let low = 2 * DISTANCE * block + r;
            let t = multiply(w[low + DISTANCE], c, masks);
            w[low + DISTANCE] = _mm512_sub_epi32(w[low], t);
            w[low] = _mm512_add_epi32(w[low], t);
        }
    }
}

/// A layer within pairs of registers: 0 for length 8 to 3 for length 1.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn layer_within<const LAYER: usize>(w: &mut [__m512i; 16], masks: shuffle::Masks) {
    for pair in 0..8 {
        let (a, b) = (w[2 * pair], w[2 * pair + 1]);
        let (a, b) = match LAYER {
            0 => shuffle::halves(a, b),
            1 => shuffle::quarters(a, b),
            2 => shuffle::quads(a, b),
            _ => shuffle::doubles(a, b, masks),
        };
        let c = constant(&FORWARD_ROOTS[pair][LAYER]);
        let t = if LAYER < 3 { multiply(b, c, masks) } else { multiply_rounded(b, c, masks) };
        w[2 * pair] = _mm512_add_epi32(a, t);
        w[2 * pair + 1] = _mm512_sub_epi32(a, t);
    }
}

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn ntt_one(p: &mut [__m512i; 16]) {
    let masks = shuffle::Masks::new();
    let mut w = *p;
    layer_between::<8>(&mut w, masks);
    layer_between::<4>(&mut w, masks);
    layer_between::<2>(&mut w, masks);
    layer_between::<1>(&mut w, masks);
    layer_within::<0>(&mut w, masks);
    layer_within::<1>(&mut w, masks);
    layer_within::<2>(&mut w, masks);
    layer_within::<3>(&mut w, masks);
    let [first, second] = &BACK;
    let (first, second) = (registers::table(first), registers::table(second));
    for pair in 0..8 {
        let (a, b) = (w[2 * pair], w[2 * pair + 1]);
        p[2 * pair] = _mm512_permutex2var_epi32(a, first, b);
        p[2 * pair + 1] = _mm512_permutex2var_epi32(a, second, b);
    }
}

/// Roots of the layers between registers.
static BROADCAST: [Factor; 16] = {
    let mut factors = [Factor(0, 0); 16];
    let mut i = 1;
    while i < 16 {
        factors[i] = Factor::new(zeta(i));
        i += 1;
    }
    factors
};

/// The closing factor 2^32 / 256 = 2^24 of the inverse NTT.
const CLOSING: u64 = 1 << 24;

/// Inverse NTT of each polynomial, times 2^32.
///
/// Sums double eight times: |x| <= 256 (q - 1) < 2^31, so no layer overflows. Products of
/// |b| < 2^31 have e < 1/4: they stay within (-q/4, 5q/4), less than the sums of their layer, and
/// the closing ones, which round, below 3q/4.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn inv_ntt(polys: &mut [DsaPoly]) {
    for p in polys {
        inv_ntt_one(registers::dsa_mut(p));
    }
    registers::clear();
}

/// A layer within pairs of registers: 0 for length 1 to 3 for length 8.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn inverse_layer_within<const LAYER: usize>(w: &mut [__m512i; 16], masks: shuffle::Masks) {
    for pair in 0..8 {
        let (a, b) = (w[2 * pair], w[2 * pair + 1]);
        let c = constant(&INVERSE_ROOTS[pair][LAYER]);
        let product = multiply(_mm512_sub_epi32(b, a), c, masks);
        let sum = _mm512_add_epi32(a, b);
        (w[2 * pair], w[2 * pair + 1]) = match LAYER {
            0 => shuffle::doubles(sum, product, masks),
            1 => shuffle::quads(sum, product),
            2 => shuffle::halves(sum, product),
            _ => shuffle::quarters(sum, product),
        };
    }
}

/// A layer between registers that lie `DISTANCE` apart.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn inverse_layer_between<const DISTANCE: usize>(w: &mut [__m512i; 16], masks: shuffle::Masks) {
    for block in 0..const { 8 / DISTANCE } {
        let c = broadcast(BROADCAST[16 / DISTANCE - 1 - block]);
        for r in 0..DISTANCE {
            let low = 2 * DISTANCE * block + r;
            let difference = _mm512_sub_epi32(w[low + DISTANCE], w[low]);
            w[low] = _mm512_add_epi32(w[low], w[low + DISTANCE]);
            w[low + DISTANCE] = multiply(difference, c, masks);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn inv_ntt_one(p: &mut [__m512i; 16]) {
    let masks = shuffle::Masks::new();
    let mut w = *p;
    let [first, second] = &FORTH;
    let (first, second) = (registers::table(first), registers::table(second));
    for pair in 0..8 {
        let (a, b) = (w[2 * pair], w[2 * pair + 1]);
        w[2 * pair] = _mm512_permutex2var_epi32(a, first, b);
        w[2 * pair + 1] = _mm512_permutex2var_epi32(a, second, b);
    }
    inverse_layer_within::<0>(&mut w, masks);
    inverse_layer_within::<1>(&mut w, masks);
    inverse_layer_within::<2>(&mut w, masks);
    inverse_layer_within::<3>(&mut w, masks);
    inverse_layer_between::<1>(&mut w, masks);
    inverse_layer_between::<2>(&mut w, masks);
    inverse_layer_between::<4>(&mut w, masks);
    // Layer 128, which takes in the closing factor.
    let sums = broadcast(const { Factor::new(CLOSING) });
    let products = broadcast(const { Factor::new(zeta(1) * CLOSING) });
    for r in 0..8 {
        let difference = _mm512_sub_epi32(w[r + 8], w[r]);
        p[r] = multiply_rounded(_mm512_add_epi32(w[r], w[r + 8]), sums, masks);
        p[r + 8] = multiply_rounded(difference, products, masks);
    }
}

/// Montgomery's reduction of 64-bit sums for even and odd coefficients: sum / 2^32 mod q.
///
/// |result| <= |sum| / 2^32 + q / 2, rounded up.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn montgomery(even: __m512i, odd: __m512i, masks: shuffle::Masks) -> __m512i {
    let q = _mm512_set1_epi32(DSA_Q);
    let q_inverse = _mm512_set1_epi32(Q_INVERSE);
    let reduce = |sum| {
        // Only even products count. LLVM makes a slow 64-bit multiplication of `vpmuldq` here.
        let m = _mm512_mullo_epi32(sum, q_inverse);
        _mm512_sub_epi64(sum, _mm512_mul_epi32(m, q))
    };
    shuffle::high_halves(reduce(even), reduce(odd), masks)
}

/// See [`gabion_scheme::kernels::Kernels::dsa_matvec`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn matvec(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
    assert_eq!(a.len(), out.len() * v.len(), "the matrix has a row for each output");
    match v.len() {
        1 => matvec_of::<1>(out, a, v),
        2 => matvec_of::<2>(out, a, v),
        3 => matvec_of::<3>(out, a, v),
        4 => matvec_of::<4>(out, a, v),
        5 => matvec_of::<5>(out, a, v),
        6 => matvec_of::<6>(out, a, v),
        7 => matvec_of::<7>(out, a, v),
        columns => panic!("a vector has 1 to 7 polynomials, not {columns}"),
    }
    registers::clear();
}

/// Products are summed over a row in 64 bits and reduced once: |sum| < 7 * q * 10q < 2^53, so that
/// |result| < 0.64q. The odd coefficients of the vector are moved once for all rows.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn matvec_of<const L: usize>(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
    let (rows, []) = a.as_chunks::<L>() else {
        return;
    };
    let Some(v) = v.first_chunk::<L>() else {
        return;
    };
    let masks = shuffle::Masks::new();
    for r in 0..16 {
        let v: [__m512i; L] = core::array::from_fn(|j| registers::dsa(&v[j])[r]);
        let mut v_odd = v;
        for j in 0..L {
            v_odd[j] = _mm512_srli_epi64::<32>(v[j]);
        }
        for (row, out) in rows.iter().zip(out.iter_mut()) {
            let mut even = _mm512_setzero_si512();
            let mut odd = _mm512_setzero_si512();
            for j in 0..L {
                let a = registers::dsa(&row[j])[r];
                even = _mm512_add_epi64(even, _mm512_mul_epi32(a, v[j]));
                odd = _mm512_add_epi64(odd, _mm512_mul_epi32(_mm512_srli_epi64::<32>(a), v_odd[j]));
            }
            registers::dsa_mut(out)[r] = montgomery(even, odd, masks);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_pointwise`].
/// |c v| < 100 q^2, so that |result| < 0.7q.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn pointwise(out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
    assert_eq!(out.len(), v.len(), "one output for each polynomial of the vector");
    let masks = shuffle::Masks::new();
    for (out, v) in out.iter_mut().zip(v) {
        let lanes = registers::dsa(c).iter().zip(registers::dsa(v));
        for (out, (c, v)) in registers::dsa_mut(out).iter_mut().zip(lanes) {
            let even = _mm512_mul_epi32(*c, *v);
            let odd = _mm512_mul_epi32(_mm512_srli_epi64::<32>(*c), _mm512_srli_epi64::<32>(*v));
            *out = montgomery(even, odd, masks);
        }
    }
    registers::clear();
}

/// Reduces any |x| < 2^31 - 2^22 to a residue, |result| <= 6283008: 2^23 stands in for q.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn reduce(x: __m512i) -> __m512i {
    let quotient = _mm512_srai_epi32::<23>(_mm512_add_epi32(x, _mm512_set1_epi32(1 << 22)));
    _mm512_sub_epi32(x, _mm512_mullo_epi32(quotient, _mm512_set1_epi32(DSA_Q)))
}

/// `acc[i] += b[i]`, reduced.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn add(acc: &mut [DsaPoly], b: &[DsaPoly]) {
    assert_eq!(acc.len(), b.len(), "one summand for each polynomial");
    for (acc, b) in acc.iter_mut().zip(b) {
        for (x, y) in registers::dsa_mut(acc).iter_mut().zip(registers::dsa(b)) {
            *x = reduce(_mm512_add_epi32(*x, *y));
        }
    }
    registers::clear();
}

/// `acc[i] -= b[i]`, reduced.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn sub(acc: &mut [DsaPoly], b: &[DsaPoly]) {
    assert_eq!(acc.len(), b.len(), "one subtrahend for each polynomial");
    for (acc, b) in acc.iter_mut().zip(b) {
        for (x, y) in registers::dsa_mut(acc).iter_mut().zip(registers::dsa(b)) {
            *x = reduce(_mm512_sub_epi32(*x, *y));
        }
    }
    registers::clear();
}

/// `p[i] *= 2^13`. The greatest product, (2^10 - 1) 2^13 = q - 1, needs no reduction.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn shift_left_d(polys: &mut [DsaPoly]) {
    for p in polys {
        for x in registers::dsa_mut(p) {
            *x = _mm512_slli_epi32::<13>(*x);
        }
    }
    registers::clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_pair_the_operands() {
        for (layer, length) in [8, 4, 2, 1].into_iter().enumerate() {
            for arrangement in [&FORWARD[layer], &INVERSE[3 - layer]] {
                for (a, b) in arrangement[0].iter().zip(&arrangement[1]) {
                    assert_eq!(a + length, *b, "{length}");
                }
            }
        }
        assert_eq!(model::quarters(&INVERSE[3]), IN_ORDER);
    }
}
