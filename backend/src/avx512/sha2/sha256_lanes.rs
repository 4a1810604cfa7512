//! SHA-256 on sixteen lanes (FIPS 180-4, section 6.2): one block into each state, and steps of chains.
//!
//! The blocks of chains are those of [`crate::common::chains::sha256`], the words of sixteen lanes
//! side by side. The schemes define their layout: [`crate::avx512::slh`], [`crate::avx512::hbs`].
//!
//! A round is 6 rotations, 4 three-input operations and 7 additions, and a word of the schedule, of
//! which there are 48, 6 shifts, 2 three-input operations and 3 additions: 1616 operations for a block,
//! of which a core does two a cycle at best, 50.5 cycles a lane. A chain saves its first four rounds, in
//! which nothing changes from step to step: 1550, 48.4.
//!
//! The processor decides which of the two is faster, these lanes or the SHA extensions
//! ([`super::sha256`]); `crate::x86::processor` reads its vendor once, at detection. For chains,
//! parts of unequal length, nodes and long hashes alike, AMD's are faster with the extensions, and
//! Intel's with lanes. `kernels SHA2`, with and without `--without-sha`, shows it;
//! `cycles_per_sha256` of bench/results/floors-*.ndjson is the figure of the faster one in a chain.
//!
//! Time depends on lengths and numbers of steps only.

use core::arch::x86_64::*;

use crate::avx512::registers;
use crate::common::chains::sha256::{
    ADDRESS_ROW, Chains, HASH_ROW, ROWS, SLH, VALUE_ROW, end_mark, message_bits,
};
use crate::common::memory::Table;
use crate::common::sha2::{SHA256_ROUNDS, four_rounds, nothing, sixteen_rounds};

/// Streams that run side by side.
pub(crate) const LANES: usize = 16;
/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;

/// The round constants, in memory for the loop.
static ROUNDS: [u32; 64] = SHA256_ROUNDS;

/// The bytes of each 32-bit word the other way round.
pub(crate) static BIG_ENDIAN: Table<u8, 64> = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 16 / 4 * 4 + 3 - i % 4) as u8;
        i += 1;
    }
    Table(table)
};

/// The exclusive or of three.
macro_rules! xor {
    ($a:expr, $b:expr, $c:expr) => {
        _mm512_ternarylogic_epi32::<0x96>($a, $b, $c)
    };
}

/// One round: h becomes the next a, and d the next e.
macro_rules! round {
    ($w:expr, $constant:expr; $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let sum_1 =
            xor!(_mm512_ror_epi32::<6>($e), _mm512_ror_epi32::<11>($e), _mm512_ror_epi32::<25>($e));
        let choice = _mm512_ternarylogic_epi32::<0xca>($e, $f, $g);
        let t1 = _mm512_add_epi32(
            _mm512_add_epi32($h, _mm512_add_epi32($w, _mm512_set1_epi32($constant as i32))),
            _mm512_add_epi32(sum_1, choice),
        );
        let sum_0 =
            xor!(_mm512_ror_epi32::<2>($a), _mm512_ror_epi32::<13>($a), _mm512_ror_epi32::<22>($a));
        let majority = _mm512_ternarylogic_epi32::<0xe8>($a, $b, $c);
        $d = _mm512_add_epi32($d, t1);
        $h = _mm512_add_epi32(t1, _mm512_add_epi32(sum_0, majority));
    };
}

/// The word after the last sixteen, in place of the first of them.
macro_rules! schedule {
    ($w:ident, $i:expr) => {
        let (x, y) = ($w[($i + 1) % 16], $w[($i + 14) % 16]);
        let sigma_0 =
            xor!(_mm512_ror_epi32::<7>(x), _mm512_ror_epi32::<18>(x), _mm512_srli_epi32::<3>(x));
        let sigma_1 =
            xor!(_mm512_ror_epi32::<17>(y), _mm512_ror_epi32::<19>(y), _mm512_srli_epi32::<10>(y));
        let old = _mm512_add_epi32($w[$i], $w[($i + 9) % 16]);
        $w[$i] = _mm512_add_epi32(old, _mm512_add_epi32(sigma_0, sigma_1));
    };
}

/// The rows of chains: see [`Chains`], of which these are the registers.
pub(crate) type Rows = [__m512i; ROWS];

/// Chains as registers of sixteen words.
#[inline(always)]
pub(crate) fn rows_mut(chains: &mut Chains<LANES>) -> &mut Rows {
    const { assert!(align_of::<Chains<LANES>>() == 64 && size_of::<Chains<LANES>>() == ROWS * 64) };
    // SAFETY: same size and alignment (asserted above), and any bits are a value of both.
    unsafe { &mut *(chains as *mut Chains<LANES>).cast() }
}

/// Advances every lane by the same number of steps: the value of V words, 4, 6 or 8, becomes the
/// hash of its block, and the hash address is incremented. SHIFT is the layout's, [`SLH`] or that
/// of LMS.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn advance<const V: usize, const SHIFT: i32>(rows: &mut Rows, steps: u32) {
    let (scheduled, last) = ROUNDS.as_chunks::<16>().0.split_at(3);
    let (k, scheduled, last) = (&scheduled[0], &scheduled[1..], &last[0]);
    // The first four words are the same at every step, and so is what the first four rounds make.
    let mut w = [_mm512_setzero_si512(); 16];
    w[..4].copy_from_slice(&rows[ADDRESS_ROW..ADDRESS_ROW + 4]);
    let mid = {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h, ..] = *rows;
        four_rounds!(round(), nothing(), w, k, 0; a b c d e f g h);
        [a, b, c, d, e, f, g, h]
    };
    let address = w;
    for _ in 0..steps {
        let mut w = address;
        let hash = rows[HASH_ROW];
        w[4] = rows[ADDRESS_ROW + 4];
        if SHIFT == SLH {
            w[4] = _mm512_or_si512(w[4], _mm512_srli_epi32::<16>(hash));
        }
        let mut before = hash;
        for i in 0..V {
            let value = rows[VALUE_ROW + i];
            w[5 + i] = _mm512_shldi_epi32::<SHIFT>(before, value);
            before = value;
        }
        // Its end, in front of nothing, and the bit behind it.
        let end = _mm512_shldi_epi32::<SHIFT>(before, _mm512_setzero_si512());
        w[5 + V] = _mm512_or_si512(end, _mm512_set1_epi32(end_mark(SHIFT)));
        w[15] = _mm512_set1_epi32(message_bits(SHIFT, V));
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = mid;
        schedule!(w, 0);
        schedule!(w, 1);
        schedule!(w, 2);
        schedule!(w, 3);
        four_rounds!(round(), schedule(), w, k, 4; e f g h a b c d);
        four_rounds!(round(), schedule(), w, k, 8; a b c d e f g h);
        four_rounds!(round(), schedule(), w, k, 12; e f g h a b c d);
        for k in scheduled {
            sixteen_rounds!(round(), schedule(), w, k; a b c d e f g h);
        }
        sixteen_rounds!(round(), nothing(), w, last; a b c d e f g h);
        let state = [a, b, c, d, e, f, g, h];
        for i in 0..V {
            rows[VALUE_ROW + i] = _mm512_add_epi32(rows[i], state[i]);
        }
        rows[HASH_ROW] = _mm512_add_epi32(hash, _mm512_set1_epi32(1));
    }
}

/// One block into each state. There is a copy for each layout, with one caller, which takes it in: state and
/// block stay in registers.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn compress<const LAYOUT: i32>(state: &mut [__m512i; 8], mut w: [__m512i; 16]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let (scheduled, last) = ROUNDS.as_chunks::<16>().0.split_at(3);
    for k in scheduled {
        sixteen_rounds!(round(), schedule(), w, k; a b c d e f g h);
    }
    let k = &last[0];
    sixteen_rounds!(round(), nothing(), w, k; a b c d e f g h);
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = _mm512_add_epi32(*word, new);
    }
}

/// Within each quarter of four registers, word j of them side by side.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn quads(rows: [__m512i; 4]) -> [__m512i; 4] {
    let [a, b, c, d] = rows;
    let (ab_0, ab_2) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_0, cd_2) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_0, cd_0),
        _mm512_unpackhi_epi64(ab_0, cd_0),
        _mm512_unpacklo_epi64(ab_2, cd_2),
        _mm512_unpackhi_epi64(ab_2, cd_2),
    ]
}

/// The sixteen words of sixteen rows.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn transpose(rows: [__m512i; LANES]) -> [__m512i; 16] {
    let mut fours = rows; // words j, 4 + j, 8 + j and 12 + j of four rows
    for (four, rows) in fours.as_chunks_mut::<4>().0.iter_mut().zip(rows.as_chunks::<4>().0) {
        *four = quads(*rows);
    }
    let mut words = fours;
    for j in 0..4 {
        let (a, b, c, d) = (fours[j], fours[4 + j], fours[8 + j], fours[12 + j]);
        let ab_low = _mm512_shuffle_i64x2::<0x44>(a, b); // a0 a1 b0 b1
        let ab_high = _mm512_shuffle_i64x2::<0xee>(a, b);
        let cd_low = _mm512_shuffle_i64x2::<0x44>(c, d);
        let cd_high = _mm512_shuffle_i64x2::<0xee>(c, d);
        words[j] = _mm512_shuffle_i64x2::<0x88>(ab_low, cd_low); // a0 b0 c0 d0
        words[4 + j] = _mm512_shuffle_i64x2::<0xdd>(ab_low, cd_low);
        words[8 + j] = _mm512_shuffle_i64x2::<0x88>(ab_high, cd_high);
        words[12 + j] = _mm512_shuffle_i64x2::<0xdd>(ab_high, cd_high);
    }
    words
}

/// The rows in the lower half of each register, for sixteen rows in eight registers; the upper half
/// is the row four further on. So quarters come out in order.
const LOWER_ROWS: [usize; 8] = [0, 1, 2, 3, 8, 9, 10, 11];

/// Sixteen rows of 32 bytes as halves of eight registers.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn halves(row: impl Fn(usize) -> __m512i) -> [__m512i; 8] {
    let mut pairs = [_mm512_setzero_si512(); 8];
    for (pair, lower) in pairs.iter_mut().zip(LOWER_ROWS) {
        *pair = _mm512_shuffle_i64x2::<0x44>(row(lower), row(lower + 4));
    }
    pairs
}

/// The eight words of sixteen rows that are halves.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn words_of_halves(pairs: [__m512i; 8]) -> [__m512i; 8] {
    let [p0, p1, p2, p3, p4, p5, p6, p7] = pairs;
    let (first, second) = (quads([p0, p1, p2, p3]), quads([p4, p5, p6, p7]));
    let mut words = pairs;
    for j in 0..4 {
        words[j] = _mm512_shuffle_i64x2::<0x88>(first[j], second[j]);
        words[4 + j] = _mm512_shuffle_i64x2::<0xdd>(first[j], second[j]);
    }
    words
}

/// Indices for `vpermt2q`: 128-bit quarters 0 and 1 of both; 2 and 3 of both.
static QUARTERS: [Table<u64, 8>; 2] =
    [Table([0, 1, 8, 9, 2, 3, 10, 11]), Table([4, 5, 12, 13, 6, 7, 14, 15])];

/// Returns the first 32 bytes of each lane, as they are in memory.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn words_to_rows(words: [__m512i; 8]) -> [__m512i; LANES] {
    let order = registers::table(&BIG_ENDIAN);
    let [low, high] = &QUARTERS;
    let (low, high) = (registers::table(low), registers::table(high));
    let [w0, w1, w2, w3, w4, w5, w6, w7] = words.map(|word| _mm512_shuffle_epi8(word, order));
    let (first, second) = (quads([w0, w1, w2, w3]), quads([w4, w5, w6, w7]));
    let mut rows = [_mm512_setzero_si512(); LANES];
    for j in 0..4 {
        // Lanes j and 4 + j, 8 + j and 12 + j.
        let lower = _mm512_permutex2var_epi64(first[j], low, second[j]);
        let upper = _mm512_permutex2var_epi64(first[j], high, second[j]);
        rows[j] = lower;
        rows[4 + j] = _mm512_shuffle_i64x2::<0xee>(lower, lower);
        rows[8 + j] = upper;
        rows[12 + j] = _mm512_shuffle_i64x2::<0xee>(upper, upper);
    }
    rows
}

/// 32 bytes, and zeros.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn load_32<T>(source: &T) -> __m512i {
    const { assert!(size_of::<T>() == 32) };
    // SAFETY: four words of 64 bits are 32 bytes.
    unsafe { _mm512_maskz_loadu_epi64(0x0f, core::ptr::from_ref(source).cast()) }
}

/// V words of 32 bits, 4, 6 or 8, and zeros.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn load_words<const V: usize>(bytes: &[u8]) -> __m512i {
    assert!(bytes.len() == 4 * V, "n bytes");
    // SAFETY: half as many words of 64 bits are so many bytes.
    unsafe { _mm512_maskz_loadu_epi64((1 << (V / 2)) - 1, bytes.as_ptr().cast()) }
}

/// The states of lanes, by their words.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn states<'a>(words: impl Fn(usize) -> &'a [u32; 8]) -> [__m512i; 8] {
    words_of_halves(halves(|lane| load_32(words(lane))))
}
