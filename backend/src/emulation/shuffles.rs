//! Elements that change places.

use super::*;

/// `f` of each 128-bit quarter.
#[inline(always)]
fn quarters<T: Word, const N: usize>(
    a: __m512i,
    b: __m512i,
    f: impl Fn([T; N], [T; N]) -> [T; N],
) -> __m512i {
    let (a, b): ([__m128i; 4], [__m128i; 4]) = (split(a), split(b));
    let mut out = a;
    for i in 0..4 {
        out[i] = cast(f(cast(a[i]), cast(b[i])));
    }
    join(out)
}

#[inline(always)]
fn split(a: __m512i) -> [__m128i; 4] {
    core::array::from_fn(|i| __m128i([a.0[2 * i], a.0[2 * i + 1]]))
}

#[inline(always)]
fn join(a: [__m128i; 4]) -> __m512i {
    __m512i(core::array::from_fn(|i| a[i / 2].0[i % 2]))
}

/// Bytes of a quarter by index; those whose index has the top bit are zero.
#[inline(never)]
pub(crate) fn _mm512_shuffle_epi8(a: __m512i, index: __m512i) -> __m512i {
    quarters::<u8, 16>(a, index, shuffle_bytes)
}

#[inline(never)]
pub(crate) fn _mm_shuffle_epi8(a: __m128i, index: __m128i) -> __m128i {
    cast(shuffle_bytes(cast(a), cast(index)))
}

#[inline(always)]
fn shuffle_bytes(a: [u8; 16], index: [u8; 16]) -> [u8; 16] {
    each(index, |i| look_up(&a, (i % 16).into()) & black_box(u8::spread(u64::from(i >> 7) ^ 1)))
}

/// Returns which of four elements a constant puts at place `i`.
#[inline(always)]
fn of_four(order: i32, i: usize) -> usize {
    order as usize >> (2 * i) & 3
}

/// Double words of each quarter in another order.
#[inline(never)]
pub(crate) fn _mm512_shuffle_epi32<const ORDER: i32>(a: __m512i) -> __m512i {
    shuffle_doubles(ORDER, a)
}

/// Shuffles with an order that is known at run time.
#[inline(never)]
pub(super) fn shuffle_doubles(order: i32, a: __m512i) -> __m512i {
    quarters::<u32, 4>(a, a, |a, _| core::array::from_fn(|i| a[of_four(order, i)]))
}

#[inline(never)]
pub(crate) fn _mm512_mask_shuffle_epi32<const ORDER: i32>(
    source: __m512i,
    mask: __mmask16,
    a: __m512i,
) -> __m512i {
    cast(choose::<u32, 16>(mask.into(), cast(shuffle_doubles(ORDER, a)), cast(source)))
}

#[inline(never)]
pub(crate) fn _mm_shuffle_epi32<const ORDER: i32>(a: __m128i) -> __m128i {
    let a: [u32; 4] = cast(a);
    cast::<[u32; 4], _>(core::array::from_fn(|i| a[of_four(ORDER, i)]))
}

/// Two quarters of `a`, then two of `b`.
#[inline(never)]
pub(crate) fn _mm512_shuffle_i64x2<const ORDER: i32>(a: __m512i, b: __m512i) -> __m512i {
    let (a, b) = (split(a), split(b));
    let [p, q, r, s] = core::array::from_fn(|i| of_four(ORDER, i));
    join([a[p], a[q], b[r], b[s]])
}

/// 64-bit words of each half in another order.
#[inline(never)]
pub(crate) fn _mm512_permutex_epi64<const ORDER: i32>(a: __m512i) -> __m512i {
    __m512i(core::array::from_fn(|i| a.0[i / 4 * 4 + of_four(ORDER, i % 4)]))
}

/// The lower words of each quarter of `a` and `b`; the upper ones.
#[inline(never)]
pub(crate) fn _mm512_unpacklo_epi64(a: __m512i, b: __m512i) -> __m512i {
    quarters::<u64, 2>(a, b, |a, b| [a[0], b[0]])
}

#[inline(never)]
pub(crate) fn _mm512_unpackhi_epi64(a: __m512i, b: __m512i) -> __m512i {
    quarters::<u64, 2>(a, b, |a, b| [a[1], b[1]])
}

/// Interleaves the low 32-bit words of each quarter.
#[inline(never)]
pub(crate) fn _mm512_unpacklo_epi32(a: __m512i, b: __m512i) -> __m512i {
    quarters::<u32, 4>(a, b, |a, b| [a[0], b[0], a[1], b[1]])
}

#[inline(never)]
pub(crate) fn _mm512_unpackhi_epi32(a: __m512i, b: __m512i) -> __m512i {
    quarters::<u32, 4>(a, b, |a, b| [a[2], b[2], a[3], b[3]])
}

/// The lower two 32-bit words of both, in turn; the upper two.
#[inline(never)]
pub(crate) fn _mm_unpacklo_epi32(a: __m128i, b: __m128i) -> __m128i {
    let (a, b): ([u32; 4], [u32; 4]) = (cast(a), cast(b));
    cast([a[0], b[0], a[1], b[1]])
}

#[inline(never)]
pub(crate) fn _mm_unpackhi_epi32(a: __m128i, b: __m128i) -> __m128i {
    let (a, b): ([u32; 4], [u32; 4]) = (cast(a), cast(b));
    cast([a[2], b[2], a[3], b[3]])
}

#[inline(never)]
pub(crate) fn _mm_unpacklo_epi64(a: __m128i, b: __m128i) -> __m128i {
    __m128i([a.0[0], b.0[0]])
}

#[inline(never)]
pub(crate) fn _mm_unpackhi_epi64(a: __m128i, b: __m128i) -> __m128i {
    __m128i([a.0[1], b.0[1]])
}

/// Bytes from number `COUNT` on of `b` and, behind it, `a`.
#[inline(never)]
pub(crate) fn _mm_alignr_epi8<const COUNT: i32>(a: __m128i, b: __m128i) -> __m128i {
    align(COUNT as usize, a, b)
}

/// Aligns with a count that is known at run time.
#[inline(never)]
pub(super) fn align(count: usize, a: __m128i, b: __m128i) -> __m128i {
    let (a, b): ([u8; 16], [u8; 16]) = (cast(a), cast(b));
    cast::<[u8; 16], _>(core::array::from_fn(|i| match i + count {
        at @ 0..16 => b[at],
        at @ 16..32 => a[at - 16],
        _ => 0,
    }))
}

/// Defines lookups of elements in one register, and in two: `a` and, behind it, `b`.
macro_rules! lookups {
    ($($one:ident $two:ident [$t:ty; $n:literal];)*) => { $(
        #[inline(never)]
        pub(crate) fn $one(index: __m512i, a: __m512i) -> __m512i {
            let table: [$t; $n] = cast(a);
            cast(each(cast::<_, [$t; $n]>(index), |i| look_up(&table, i as usize % $n)))
        }

        #[inline(never)]
        pub(crate) fn $two(a: __m512i, index: __m512i, b: __m512i) -> __m512i {
            let (a, b): ([$t; $n], [$t; $n]) = (cast(a), cast(b));
            cast(each(cast::<_, [$t; $n]>(index), |i| {
                let i = i as usize;
                let is_second = black_box(<$t>::spread((i / $n % 2) as u64));
                look_up(&b, i % $n).or_else(is_second, look_up(&a, i % $n))
            }))
        }
    )* };
}

lookups! {
    _mm512_permutexvar_epi8 _mm512_permutex2var_epi8 [u8; 64];
    _mm512_permutexvar_epi16 _mm512_permutex2var_epi16 [u16; 32];
    _mm512_permutexvar_epi32 _mm512_permutex2var_epi32 [u32; 16];
    _mm512_permutexvar_epi64 _mm512_permutex2var_epi64 [u64; 8];
}

#[inline(never)]
pub(crate) fn _mm512_maskz_permutexvar_epi8(
    mask: __mmask64,
    index: __m512i,
    a: __m512i,
) -> __m512i {
    cast(choose::<u8, 64>(mask, cast(_mm512_permutexvar_epi8(index, a)), [0; 64]))
}

/// Eight bits of each word of `a` from each of eight places, round the end.
#[inline(never)]
pub(crate) fn _mm512_multishift_epi64_epi8(places: __m512i, a: __m512i) -> __m512i {
    let places: [u8; 64] = cast(places);
    let mut out = [0u8; 64];
    for (i, out) in out.iter_mut().enumerate() {
        *out = a.0[i / 8].rotate_right((places[i] % 64).into()) as u8;
    }
    cast(out)
}

/// Elements of half the size, as near as they come to those of each quarter of `a`, then of `b`.
#[inline(never)]
pub(crate) fn _mm512_packus_epi16(a: __m512i, b: __m512i) -> __m512i {
    let narrow = |x: __m128i| each(cast::<_, [i16; 8]>(x), |x| clamp(x.into(), 0, 0xff) as u8);
    let (a, b) = (split(a), split(b));
    join(core::array::from_fn(|q| {
        let (a, b) = (narrow(a[q]), narrow(b[q]));
        cast::<[u8; 16], _>(core::array::from_fn(|i| if i < 8 { a[i] } else { b[i - 8] }))
    }))
}

#[inline(never)]
pub(crate) fn _mm512_packus_epi32(a: __m512i, b: __m512i) -> __m512i {
    let narrow = |x: __m128i| each(cast::<_, [i32; 4]>(x), |x| clamp(x, 0, 0xffff) as u16);
    let (a, b) = (split(a), split(b));
    join(core::array::from_fn(|q| {
        let (a, b) = (narrow(a[q]), narrow(b[q]));
        cast::<[u16; 8], _>(core::array::from_fn(|i| if i < 4 { a[i] } else { b[i - 4] }))
    }))
}

#[inline(never)]
pub(crate) fn _mm512_castsi512_si128(a: __m512i) -> __m128i {
    __m128i([a.0[0], a.0[1]])
}

#[inline(never)]
pub(crate) fn _mm512_castsi512_si256(a: __m512i) -> __m256i {
    _mm512_extracti64x4_epi64::<0>(a)
}

/// A half of a register.
#[inline(never)]
pub(crate) fn _mm512_extracti64x4_epi64<const HALF: i32>(a: __m512i) -> __m256i {
    __m256i(core::array::from_fn(|i| a.0[4 * HALF as usize + i]))
}

/// The register with another half.
#[inline(never)]
pub(crate) fn _mm512_inserti64x4<const HALF: i32>(a: __m512i, b: __m256i) -> __m512i {
    let mut out = a;
    out.0[4 * HALF as usize..][..4].copy_from_slice(&b.0);
    out
}

/// Eight words, the last one first.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn _mm512_set_epi64(
    h: i64,
    g: i64,
    f: i64,
    e: i64,
    d: i64,
    c: i64,
    b: i64,
    a: i64,
) -> __m512i {
    cast([a, b, c, d, e, f, g, h])
}
