//! Arithmetic, logic and shifts on elements.

use core::hint::black_box;

use super::{__m128i, __m256i, __m512i, both, cast, clamp, each};

/// Defines functions of two registers, element by element: the operation on two `$t`.
macro_rules! of_two {
    ($($name:ident [$t:ty; $n:literal] |$a:ident, $b:ident| $value:expr;)*) => { $(
        #[inline(never)]
        pub(crate) fn $name(a: __m512i, b: __m512i) -> __m512i {
            cast(both(cast::<_, [$t; $n]>(a), cast::<_, [$t; $n]>(b), |$a, $b| $value))
        }
    )* };
}

of_two! {
    _mm512_add_epi16 [u16; 32] |a, b| a.wrapping_add(b);
    _mm512_add_epi32 [u32; 16] |a, b| a.wrapping_add(b);
    _mm512_add_epi64 [u64; 8] |a, b| a.wrapping_add(b);
    _mm512_sub_epi16 [u16; 32] |a, b| a.wrapping_sub(b);
    _mm512_sub_epi32 [u32; 16] |a, b| a.wrapping_sub(b);
    _mm512_sub_epi64 [u64; 8] |a, b| a.wrapping_sub(b);
    _mm512_and_si512 [u64; 8] |a, b| a & b;
    _mm512_or_si512 [u64; 8] |a, b| a | b;
    _mm512_xor_si512 [u64; 8] |a, b| a ^ b;
    _mm512_max_epi16 [i16; 32] |a, b| a.max(b);
    _mm512_max_epi32 [i32; 16] |a, b| a.max(b);
    _mm512_min_epi32 [i32; 16] |a, b| a.min(b);
    _mm512_min_epu16 [u16; 32] |a, b| a.min(b);
    _mm512_min_epu32 [u32; 16] |a, b| a.min(b);
    _mm512_mullo_epi16 [u16; 32] |a, b| a.wrapping_mul(b);
    _mm512_mullo_epi32 [u32; 16] |a, b| a.wrapping_mul(b);
    _mm512_mullo_epi64 [u64; 8] |a, b| a.wrapping_mul(b);
    _mm512_mulhi_epi16 [i16; 32] |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16;
    // Rounded: the bits above 14 of the product, and half of the last one kept.
    _mm512_mulhrs_epi16 [i16; 32] |a, b| ((((i32::from(a) * i32::from(b)) >> 14) + 1) >> 1) as i16;
    // The low halves of 64 bits, signed.
    _mm512_mul_epi32 [i64; 8] |a, b| i64::from(a as i32) * i64::from(b as i32);
    _mm512_sllv_epi32 [u32; 16] |a, count| shift(a.into(), count.into(), 32, |a, n| a << n) as u32;
    _mm512_sllv_epi64 [u64; 8] |a, count| shift(a, count, 64, |a, n| a << n);
    _mm512_srlv_epi32 [u32; 16] |a, count| shift(a.into(), count.into(), 32, |a, n| a >> n) as u32;
    _mm512_srlv_epi64 [u64; 8] |a, count| shift(a, count, 64, |a, n| a >> n);
}

/// A shift by a count that may be anything; counts of the width and more leave zero.
#[inline(always)]
fn shift(a: u64, count: u64, width: u64, by: impl Fn(u64, u32) -> u64) -> u64 {
    let keep = black_box(u64::from(count < width).wrapping_neg());
    by(a, (count % 64) as u32) & keep
}

/// Defines shifts of all elements by a constant.
macro_rules! by_constant {
    ($($name:ident [$t:ty; $n:literal] $count:ty: |$a:ident, $by:ident| $value:expr;)*) => { $(
        #[inline(never)]
        pub(crate) fn $name<const COUNT: $count>(a: __m512i) -> __m512i {
            let $by = COUNT as u32;
            cast(each(cast::<_, [$t; $n]>(a), |$a| $value))
        }
    )* };
}

by_constant! {
    _mm512_slli_epi16 [u16; 32] u32: |a, by| a.checked_shl(by).unwrap_or(0);
    _mm512_slli_epi32 [u32; 16] u32: |a, by| a.checked_shl(by).unwrap_or(0);
    _mm512_slli_epi64 [u64; 8] u32: |a, by| a.checked_shl(by).unwrap_or(0);
    _mm512_srli_epi16 [u16; 32] u32: |a, by| a.checked_shr(by).unwrap_or(0);
    _mm512_srli_epi32 [u32; 16] u32: |a, by| a.checked_shr(by).unwrap_or(0);
    _mm512_srli_epi64 [u64; 8] u32: |a, by| a.checked_shr(by).unwrap_or(0);
    _mm512_srai_epi32 [i32; 16] u32: |a, by| a >> by.min(31);
    _mm512_ror_epi32 [u32; 16] i32: |a, by| a.rotate_right(by % 32);
    _mm512_ror_epi64 [u64; 8] i32: |a, by| a.rotate_right(by % 64);
    _mm512_rol_epi32 [u32; 16] i32: |a, by| a.rotate_left(by % 32);
    _mm512_rol_epi64 [u64; 8] i32: |a, by| a.rotate_left(by % 64);
}

/// Shifts of all elements by the lowest 64 bits of a register.
#[inline(never)]
pub(crate) fn _mm512_sll_epi16(a: __m512i, count: __m128i) -> __m512i {
    cast(each(cast::<_, [u16; 32]>(a), |a| shift(a.into(), count.0[0], 16, |a, n| a << n) as u16))
}

#[inline(never)]
pub(crate) fn _mm512_srl_epi32(a: __m512i, count: __m128i) -> __m512i {
    cast(each(cast::<_, [u32; 16]>(a), |a| shift(a.into(), count.0[0], 32, |a, n| a >> n) as u32))
}

#[inline(never)]
pub(crate) fn _mm512_srl_epi64(a: __m512i, count: __m128i) -> __m512i {
    cast(each(cast::<_, [u64; 8]>(a), |a| shift(a, count.0[0], 64, |a, n| a >> n)))
}

/// Words of `a` above those of `b`, shifted to the left: the upper halves.
#[inline(never)]
pub(crate) fn _mm512_shldi_epi32<const COUNT: i32>(a: __m512i, b: __m512i) -> __m512i {
    let by = COUNT as u32 % 32;
    let wide = |a: u32, b: u32| (u64::from(a) << 32 | u64::from(b)) << by >> 32;
    cast(both(cast::<_, [u32; 16]>(a), cast::<_, [u32; 16]>(b), |a, b| wide(a, b) as u32))
}

/// The low halves of `b` above `a`, shifted to the right.
#[inline(never)]
pub(crate) fn _mm512_shrdi_epi64<const COUNT: i32>(a: __m512i, b: __m512i) -> __m512i {
    _mm512_shrdv_epi64(a, b, _mm512_set1_epi64(COUNT.into()))
}

#[inline(never)]
pub(crate) fn _mm512_shrdv_epi64(a: __m512i, b: __m512i, count: __m512i) -> __m512i {
    let mut out = a;
    for i in 0..8 {
        let wide = u128::from(b.0[i]) << 64 | u128::from(a.0[i]);
        let by = (count.0[i] % 64) as u32;
        // A funnel shift in two steps; shifts of 128 bits by what is secret would be branches.
        out.0[i] = (wide as u64) >> by | ((wide >> 64) as u64) << 1 << (63 - by);
    }
    out
}

#[inline(never)]
pub(crate) fn _mm512_abs_epi32(a: __m512i) -> __m512i {
    cast(each(cast::<_, [i32; 16]>(a), i32::wrapping_abs))
}

/// Sums of the products of neighbours.
#[inline(never)]
pub(crate) fn _mm512_madd_epi16(a: __m512i, b: __m512i) -> __m512i {
    dot_pairs(_mm512_setzero_si512(), a, b)
}

/// `sum` and the products of neighbours (`vpdpwssd`).
#[inline(never)]
pub(super) fn dot_pairs(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    let (a, b): ([i16; 32], [i16; 32]) = (cast(a), cast(b));
    let mut out: [i32; 16] = cast(sum);
    for (i, out) in out.iter_mut().enumerate() {
        let product = |j: usize| i32::from(a[j]) * i32::from(b[j]);
        *out = out.wrapping_add(product(2 * i)).wrapping_add(product(2 * i + 1));
    }
    cast(out)
}

/// Sums of the products of neighbours, unsigned by signed, as near as 16 bits come to them.
#[inline(never)]
pub(crate) fn _mm512_maddubs_epi16(a: __m512i, b: __m512i) -> __m512i {
    let (a, b): ([u8; 64], [i8; 64]) = (cast(a), cast(b));
    let mut out = [0i16; 32];
    for (i, out) in out.iter_mut().enumerate() {
        let product = |j: usize| i32::from(a[j]) * i32::from(b[j]);
        *out = clamp(product(2 * i) + product(2 * i + 1), -0x8000, 0x7fff) as i16;
    }
    cast(out)
}

/// Bits 0 to 51 of a product of 52-bit numbers.
fn product_52(b: u64, c: u64) -> u128 {
    const LOW: u64 = (1 << 52) - 1;
    u128::from(b & LOW) * u128::from(c & LOW)
}

#[inline(never)]
pub(crate) fn _mm512_madd52lo_epu64(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    let low = both(b.0, c.0, |b, c| product_52(b, c) as u64 & ((1 << 52) - 1));
    _mm512_add_epi64(a, __m512i(low))
}

#[inline(never)]
pub(crate) fn _mm512_madd52hi_epu64(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    let high = both(b.0, c.0, |b, c| (product_52(b, c) >> 52) as u64);
    _mm512_add_epi64(a, __m512i(high))
}

/// Any function of three bits: bit 4 a + 2 b + c of the table.
#[inline(never)]
pub(crate) fn _mm512_ternarylogic_epi64<const TABLE: i32>(
    a: __m512i,
    b: __m512i,
    c: __m512i,
) -> __m512i {
    ternary(TABLE as u8, a, b, c)
}

#[inline(never)]
pub(crate) fn _mm512_ternarylogic_epi32<const TABLE: i32>(
    a: __m512i,
    b: __m512i,
    c: __m512i,
) -> __m512i {
    ternary(TABLE as u8, a, b, c)
}

/// A function of three bits whose table is known at run time.
#[inline(never)]
pub(super) fn ternary(table: u8, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    let mut out = [0; 8];
    for case in 0..8u8 {
        let with = |bit: u8, x: u64| x ^ (u64::from(case >> bit & 1)).wrapping_sub(1);
        let is_set = u64::from(table >> case & 1).wrapping_neg();
        for (i, out) in out.iter_mut().enumerate() {
            *out |= with(2, a.0[i]) & with(1, b.0[i]) & with(0, c.0[i]) & is_set;
        }
    }
    __m512i(out)
}

#[inline(never)]
pub(crate) fn _mm512_setzero_si512() -> __m512i {
    __m512i([0; 8])
}

#[inline(never)]
pub(crate) fn _mm512_set1_epi8(x: i8) -> __m512i {
    cast([x; 64])
}

#[inline(never)]
pub(crate) fn _mm512_set1_epi16(x: i16) -> __m512i {
    cast([x; 32])
}

#[inline(never)]
pub(crate) fn _mm512_set1_epi32(x: i32) -> __m512i {
    cast([x; 16])
}

#[inline(never)]
pub(crate) fn _mm512_set1_epi64(x: i64) -> __m512i {
    cast([x; 8])
}

#[inline(never)]
pub(crate) fn _mm_setzero_si128() -> __m128i {
    __m128i([0; 2])
}

#[inline(never)]
pub(crate) fn _mm_cvtsi32_si128(x: i32) -> __m128i {
    __m128i([u64::from(x as u32), 0])
}

#[inline(never)]
pub(crate) fn _mm_cvtsi64_si128(x: i64) -> __m128i {
    __m128i([x as u64, 0])
}

#[inline(never)]
pub(crate) fn _mm_set_epi64x(high: i64, low: i64) -> __m128i {
    __m128i([low as u64, high as u64])
}

/// The highest byte comes first.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn _mm_set_epi8(
    b15: i8,
    b14: i8,
    b13: i8,
    b12: i8,
    b11: i8,
    b10: i8,
    b9: i8,
    b8: i8,
    b7: i8,
    b6: i8,
    b5: i8,
    b4: i8,
    b3: i8,
    b2: i8,
    b1: i8,
    b0: i8,
) -> __m128i {
    cast([b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15])
}

#[inline(never)]
pub(crate) fn _mm_add_epi32(a: __m128i, b: __m128i) -> __m128i {
    cast(both(cast::<_, [u32; 4]>(a), cast::<_, [u32; 4]>(b), u32::wrapping_add))
}

#[inline(never)]
pub(crate) fn _mm_add_epi64(a: __m128i, b: __m128i) -> __m128i {
    __m128i(both(a.0, b.0, u64::wrapping_add))
}

#[inline(never)]
pub(crate) fn _mm_or_si128(a: __m128i, b: __m128i) -> __m128i {
    __m128i(both(a.0, b.0, |a, b| a | b))
}

#[inline(never)]
pub(crate) fn _mm_xor_si128(a: __m128i, b: __m128i) -> __m128i {
    __m128i(both(a.0, b.0, |a, b| a ^ b))
}

#[inline(never)]
pub(crate) fn _mm_srli_epi64<const COUNT: i32>(a: __m128i) -> __m128i {
    __m128i(each(a.0, |a| a.checked_shr(COUNT as u32).unwrap_or(0)))
}

#[inline(never)]
pub(crate) fn _mm_ror_epi64<const COUNT: i32>(a: __m128i) -> __m128i {
    __m128i(each(a.0, |a| a.rotate_right(COUNT as u32 % 64)))
}

/// Any function of three bits, as [`_mm512_ternarylogic_epi64`].
#[inline(never)]
pub(crate) fn _mm_ternarylogic_epi64<const TABLE: i32>(
    a: __m128i,
    b: __m128i,
    c: __m128i,
) -> __m128i {
    let wide = |x: __m128i| __m512i([x.0[0], x.0[1], 0, 0, 0, 0, 0, 0]);
    let [low, high, ..] = ternary(TABLE as u8, wide(a), wide(b), wide(c)).0;
    __m128i([low, high])
}

/// The lowest `count` bits; all for counts of 64 and more.
#[inline(never)]
pub(crate) fn _bzhi_u64(a: u64, count: u32) -> u64 {
    a & !shift(!0, (count % 256).into(), 64, |ones, n| ones << n)
}

/// Elements, widened.
#[inline(never)]
pub(crate) fn _mm512_cvtepi16_epi32(a: __m256i) -> __m512i {
    cast(each(cast::<_, [i16; 16]>(a), i32::from))
}

#[inline(never)]
pub(crate) fn _mm512_cvtepi8_epi32(a: __m128i) -> __m512i {
    cast(each(cast::<_, [i8; 16]>(a), i32::from))
}

#[inline(never)]
pub(crate) fn _mm512_cvtepu8_epi16(a: __m256i) -> __m512i {
    cast(each(cast::<_, [u8; 32]>(a), u16::from))
}
