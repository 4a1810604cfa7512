//! SHA-256 on sixteen lanes (FIPS 180-4, section 6.2): steps of chains of SLH-DSA, and blocks of tree
//! hashes (FIPS 205, section 11.2).
//!
//! The blocks of chains are those of [`crate::shared::chains::sha256`], the words of sixteen lanes side by side.
//!
//! A round is 6 rotations, 4 three-input operations and 7 additions, and a word of the schedule, of
//! which there are 48, 6 shifts, 2 three-input operations and 3 additions: 1616 operations for a block,
//! of which a core does two a cycle at best, 50.5 cycles a lane. A chain saves its first four rounds, in
//! which nothing changes from step to step: 1550, 48.4.
//!
//! Which is quicker, these lanes or the SHA extensions ([`super::sha256`]), depends on the processor
//! (`crate::x86::processor`, asked once, when it is detected): for chains, parts of unequal length, nodes and
//! long hashes alike, AMD's are quicker by the extensions, and Intel's by lanes. `kernels SHA2` shows it,
//! and the same with `--without-sha`; `cycles_per_sha256` of bench/results/floors-*.ndjson is what the
//! quicker one takes in a chain.
//!
//! Time depends on lengths and numbers of steps only.

use core::arch::x86_64::*;

use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhHash};

use super::sha512::{padding, piece};
use crate::avx512::registers;
use crate::shared::chains::sha2::ADDRESS;
use crate::shared::chains::sha256::{ADDRESS_ROW, Chains, HASH_ROW, OF_SECRET, ROWS, VALUE_ROW};
use crate::shared::memory::{Table, wipe};
use crate::shared::sha2::{SHA256_ROUNDS, four_rounds, nothing, sixteen_rounds};

/// Streams that run side by side.
pub(crate) const LANES: usize = 16;
/// Bytes of a block.
const BLOCK: usize = 64;

/// In memory, for the loop to walk over.
static ROUNDS: [u32; 64] = SHA256_ROUNDS;

/// The bytes of each 32-bit word the other way round.
static BIG_ENDIAN: Table<u8, 64> = {
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

/// As many steps in every lane: the value of V words, 4, 6 or 8, becomes the hash of its block, and the
/// hash address one more.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn advance<const V: usize>(rows: &mut Rows, steps: u32) {
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
        w[4] = _mm512_or_si512(rows[ADDRESS_ROW + 4], _mm512_srli_epi32::<16>(hash));
        let mut before = hash;
        for i in 0..V {
            let value = rows[VALUE_ROW + i];
            w[5 + i] = _mm512_shldi_epi32::<16>(before, value);
            before = value;
        }
        w[5 + V] = _mm512_or_si512(_mm512_slli_epi32::<16>(before), _mm512_set1_epi32(0x8000));
        w[15] = _mm512_set1_epi32(8 * (BLOCK + ADDRESS + 4 * V) as i32);
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

/// One block into each state.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn compress(state: &mut [__m512i; 8], mut w: [__m512i; 16]) {
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
fn transpose(rows: [__m512i; LANES]) -> [__m512i; 16] {
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

/// Which row is the lower half of a register, where sixteen rows are halves of eight; the upper half
/// is the row four further on. So quarters come out in order.
const LOWER_ROWS: [usize; 8] = [0, 1, 2, 3, 8, 9, 10, 11];

/// Sixteen rows of 32 bytes as halves of eight registers.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn halves(row: impl Fn(usize) -> __m512i) -> [__m512i; 8] {
    let mut pairs = [_mm512_setzero_si512(); 8];
    for (pair, lower) in pairs.iter_mut().zip(LOWER_ROWS) {
        *pair = _mm512_shuffle_i64x2::<0x44>(row(lower), row(lower + 4));
    }
    pairs
}

/// The eight words of sixteen rows that are halves.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn words_of_halves(pairs: [__m512i; 8]) -> [__m512i; 8] {
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

/// The first 32 bytes of each lane, as they are in memory.
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
fn load_32<T>(source: &T) -> __m512i {
    const { assert!(size_of::<T>() == 32) };
    // SAFETY: four words of 64 bits are 32 bytes.
    unsafe { _mm512_maskz_loadu_epi64(0x0f, core::ptr::from_ref(source).cast()) }
}

/// V words of 32 bits, 4, 6 or 8, and zeros.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn load_words<const V: usize>(bytes: &[u8]) -> __m512i {
    assert!(bytes.len() == 4 * V, "n bytes");
    // SAFETY: half as many words of 64 bits are so many bytes.
    unsafe { _mm512_maskz_loadu_epi64((1 << (V / 2)) - 1, bytes.as_ptr().cast()) }
}

/// The states after PK.seed.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn start<'a>(words: impl Fn(usize) -> &'a [u32; 8]) -> [__m512i; 8] {
    words_of_halves(halves(|lane| load_32(words(lane))))
}

/// Where the bytes of words 0 to 5 come from in an address: those of a block, then the hash address,
/// the first byte of each word topmost. Which bytes there are.
static COMPRESSED: Table<u8, 64> = compressed().0;
const IN_ADDRESS: __mmask64 = compressed().1;

const fn compressed() -> (Table<u8, 64>, u64) {
    let (mut table, mut mask) = ([0; 64], 0);
    let mut i = 0;
    while i < ADDRESS {
        // Byte i of ADRSc (FIPS 205, section 11.2); the hash address is the last four.
        let from = match i {
            0 => 3,
            1..9 => 7 + i,
            _ => 10 + i,
        };
        let (word, byte) = if i < ADDRESS - 4 { (i / 4, i % 4) } else { (5, i - (ADDRESS - 4)) };
        let to = 4 * word + 3 - byte;
        table[to] = from as u8;
        table[32 + to] = 32 + from as u8;
        mask |= 1 << to | 1 << (32 + to);
        i += 1;
    }
    (Table(table), mask)
}

/// The rows of sixteen chains, by their keys, addresses and values of V words; the hash address is zero.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn rows_of<'a, const V: usize>(
    lane: impl Fn(usize) -> (&'a SlhContext, &'a SlhAddress, &'a [u8]),
) -> Rows {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = start(|i| &lane(i).0.sha256);
    let table = registers::table(&COMPRESSED);
    let pairs = halves(|i| load_32(&lane(i).1.0));
    let [a0, a1, a2, a3, a4, ..] =
        words_of_halves(pairs.map(|pair| _mm512_maskz_permutexvar_epi8(IN_ADDRESS, table, pair)));
    let hash = _mm512_setzero_si512();
    let pairs = halves(|i| load_words::<V>(lane(i).2));
    let order = registers::table(&BIG_ENDIAN);
    let [v0, v1, v2, v3, v4, v5, v6, v7] =
        words_of_halves(pairs.map(|pair| _mm512_shuffle_epi8(pair, order)));
    [s0, s1, s2, s3, s4, s5, s6, s7, a0, a1, a2, a3, a4, hash, v0, v1, v2, v3, v4, v5, v6, v7]
}

/// Runs chains to their ends that begin and end together, sixteen at most, where values have V words.
/// Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn run_together<const V: usize>(jobs: &mut [SlhChain<'_>]) {
    let lane = |i: usize| &jobs[if i < jobs.len() { i } else { 0 }];
    let SlhChain { steps, sk_seed, .. } = jobs[0];
    let mut rows = rows_of::<V>(|i| {
        let job = lane(i);
        (job.context, &job.address, job.sk_seed.unwrap_or(job.value))
    });
    let hash = registers::table(&Table::<u32, LANES>(core::array::from_fn(|i| lane(i).start)));
    if sk_seed.is_some() {
        // The hash address of a secret is the tree index in a tree of FORS, or else zero.
        let a2 = rows[ADDRESS_ROW + 2];
        let is_fors = _mm512_test_epi32_mask(a2, _mm512_set1_epi32(0xff << 16));
        rows[ADDRESS_ROW + 2] = _mm512_xor_si512(a2, _mm512_set1_epi32(OF_SECRET));
        rows[HASH_ROW] = _mm512_maskz_mov_epi32(is_fors, hash);
        advance::<V>(&mut rows, 1);
        rows[ADDRESS_ROW + 2] = a2;
    }
    rows[HASH_ROW] = hash;
    advance::<V>(&mut rows, steps);
    let mut words = [_mm512_setzero_si512(); 8];
    words[..V].copy_from_slice(&rows[VALUE_ROW..VALUE_ROW + V]);
    for (job, row) in jobs.iter_mut().zip(words_to_rows(words)) {
        registers::store_hash(job.value, row);
    }
    wipe(&mut rows);
}

/// Hashes messages of one length, sixteen at most, side by side. Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash(jobs: &mut [SlhHash<'_>]) {
    let length = jobs[0].input.len();
    assert!(jobs.iter().all(|job| job.input.len() == length), "lanes of one length");
    let order = registers::table(&BIG_ENDIAN);
    let lane = |i: usize| &jobs[if i < jobs.len() { i } else { 0 }];
    let mut state = start(|i| &lane(i).context.sha256);
    let mut rows = [_mm512_setzero_si512(); LANES];
    // The bit that ends the message is followed by the length.
    let pieces = (ADDRESS + length + 1 + 8).div_ceil(BLOCK);
    for i in 0..pieces {
        let padding = padding::<BLOCK>(length, i, pieces);
        for (lane, row) in rows.iter_mut().enumerate() {
            let job = &jobs[if lane < jobs.len() { lane } else { 0 }];
            *row = _mm512_shuffle_epi8(_mm512_or_si512(piece(job, i), padding), order);
        }
        compress(&mut state, transpose(rows));
    }
    for (job, row) in jobs.iter_mut().zip(words_to_rows(state)) {
        registers::store_hash(job.output, row);
    }
    wipe(&mut rows);
}
