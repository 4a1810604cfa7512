//! SHA-256 as the SHA extensions have it.

use super::{__m128i, cast};

fn sigma_0(w: u32) -> u32 {
    w.rotate_right(7) ^ w.rotate_right(18) ^ w >> 3
}

fn sigma_1(w: u32) -> u32 {
    w.rotate_right(17) ^ w.rotate_right(19) ^ w >> 10
}

/// Two rounds of words h, g, d, c and f, e, b, a, lowest first, with the lower two words of `wk`.
#[inline]
pub(crate) fn _mm_sha256rnds2_epu32(cdgh: __m128i, abef: __m128i, wk: __m128i) -> __m128i {
    let ([mut h, mut g, mut d, mut c], [mut f, mut e, mut b, mut a]): ([u32; 4], [u32; 4]) =
        (cast(cdgh), cast(abef));
    let wk: [u32; 4] = cast(wk);
    for wk in &wk[..2] {
        let choice = (e & f) ^ (!e & g);
        let sum_1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let t1 = [choice, sum_1, *wk, h].into_iter().fold(0, u32::wrapping_add);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let sum_0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
        (d, c, b, a) = (c, b, a, t1.wrapping_add(majority).wrapping_add(sum_0));
    }
    cast([f, e, b, a])
}

/// Words and sigma 0 of the words that follow.
#[inline]
pub(crate) fn _mm_sha256msg1_epu32(a: __m128i, b: __m128i) -> __m128i {
    let ([w0, w1, w2, w3], [w4, ..]): ([u32; 4], [u32; 4]) = (cast(a), cast(b));
    let next = |w: u32, following: u32| w.wrapping_add(sigma_0(following));
    cast([next(w0, w1), next(w1, w2), next(w2, w3), next(w3, w4)])
}

/// Computes words 16 to 19 from their partial sums and sigma 1 of the words two before them.
#[inline]
pub(crate) fn _mm_sha256msg2_epu32(a: __m128i, b: __m128i) -> __m128i {
    let (a, [_, _, w14, w15]): ([u32; 4], [u32; 4]) = (cast(a), cast(b));
    let w16 = a[0].wrapping_add(sigma_1(w14));
    let w17 = a[1].wrapping_add(sigma_1(w15));
    cast([w16, w17, a[2].wrapping_add(sigma_1(w16)), a[3].wrapping_add(sigma_1(w17))])
}
