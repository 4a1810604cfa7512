//! Verification of Ed25519, eight lanes at a time, in variable time: everything here is public.
//!
//! ```text
//!   fresh keys   a lane is a signature: [k](-A) in 51 digits of 5 bits over its own table,
//!                [s]B in 26 digits of 10 bits; 252 doublings for both
//!   known keys   the same with rows of the key and of B in four pieces: 60 doublings
//!   one alone    not here: see ed25519_one_vartime
//!   a sum        a lane adds up every eighth signature; all share the doublings
//! ```
//!
//! Points wait for the others of their chunk, so that one inversion serves all.

use core::arch::x86_64::*;

use gabion_scheme::kernels::ed25519::{
    self as seam, EdEquation, EdKey, EdPoint, EdVerify, PointRow, ROW_PIECE_BITS, ROW_PIECES,
    ROWS_PER_PIECE, Scalar, scalar, short_scalar,
};

use super::ed25519::{BASE_ROWS, base_rows};
use super::ed25519_one_vartime::{self as one, signed_digits};
use super::edwards::{
    Affine, CachedPoint, CachedRow, ExtendedPoint, IDENTITY, affine, decode, invert_all, load8,
    progression,
};
use super::field25519::Fe;

/// Signatures whose points wait for one inversion.
const CHUNK: usize = 64;
/// Signatures whose tables [`sum`] keeps at once: 2 * 8 rows of 192 bytes each.
const SUM_CHUNK: usize = 128;
/// Digits of a scalar in radix 2^5.
const DIGITS: usize = 51;
/// Digits of a scalar in radix 2^10.
const BASE_DIGITS: usize = 26;
/// Bits of the scalars in a [`sum`]: the carry of a number below L may make one more.
const SUM_BITS: usize = 254;
/// Points in a [`sum`]'s chunk: A and R of each signature, and B.
const SUM_TERMS: usize = 2 * SUM_CHUNK + 1;
/// Rows of a table of a [`sum`]: the multiples 1, 3, .., 15 of eight points.
const SUM_TABLE: usize = 64;
/// Digits of k in a piece of a known key: 65 bits.
const PIECE_DIGITS: usize = 13;
/// Digits of s in a piece of the base table: 70 bits.
const BASE_PIECE_DIGITS: usize = 7;

/// The lanes whose digit is negative.
fn negative(digits: [i16; 8]) -> __mmask8 {
    (0..8).fold(0, |mask, lane| mask | u8::from(digits[lane] < 0) << lane)
}

/// 32 bytes a lane as words [word][lane].
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn words_of(bytes: [&[u8; 32]; 8]) -> [__m512i; 4] {
    let lanes = bytes.map(|bytes| {
        let words = bytes.as_chunks::<8>().0;
        [0, 1, 2, 3].map(|k| u64::from_le_bytes(words[k]))
    });
    [0, 1, 2, 3].map(|k| load8(&lanes.map(|words| words[k])))
}

/// Eight jobs of a group that may be shorter: the last one fills it up.
fn eight<'a>(jobs: &[EdVerify<'a>]) -> [EdVerify<'a>; 8] {
    core::array::from_fn(|lane| jobs[lane.min(jobs.len() - 1)])
}

/// The rows of a key: [`EdPoint::rows`]. Lanes are pieces, so that each is doubled as often as the
/// last one.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn make_rows(key: &EdPoint) -> Vec<PointRow> {
    let [(a, _)] = decode(&[words_of([key.encoded(); 8])]);
    let (mut start, mut shifted) = (a.negated(), a.negated());
    for piece in 1..ROW_PIECES {
        shifted.double_times(ROW_PIECE_BITS);
        start = start.replaced_where(1 << piece, &shifted);
    }
    let points = affine(&progression(start, &start.precompute(), ROWS_PER_PIECE));
    let lanes: Vec<_> = points.iter().map(|point| point.rows()).collect();
    (0..ROW_PIECES).flat_map(|piece| lanes.iter().map(move |rows| rows[piece])).collect()
}

/// The rows of a known key that has been used before.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn known<'a>(job: &EdVerify<'a>) -> Option<&'a [PointRow]> {
    match job.key {
        EdKey::Decoded(point) => point.rows(|| make_rows(point)),
        EdKey::Encoded(_) => None,
    }
}

/// A row of multiples 1 and up, or the neutral element for digit 0.
fn row(rows: &[PointRow], digit: i16) -> &PointRow {
    match usize::from(digit.unsigned_abs()) {
        0 => &IDENTITY,
        multiple => &rows[multiple - 1],
    }
}

/// Adds one row of multiples to each lane, as its digit says.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn add_rows<const T: bool>(sum: &mut ExtendedPoint, digits: [i16; 8], rows: [&[PointRow]; 8]) {
    let rows = core::array::from_fn(|lane| row(rows[lane], digits[lane]));
    sum.add_affine::<T>(&Affine::from_rows(&rows, negative(digits)));
}

/// Multiples 1 to N of eight points, [multiple][lane].
type LaneTable<const N: usize> = [[CachedRow; 8]; N];

/// Fills a table.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn fill_table<const N: usize>(point: &ExtendedPoint, table: &mut LaneTable<N>) {
    let one = point.precompute();
    table[0] = one.rows();
    // Even multiples are doubled: their halves are ready long before.
    let (mut halves, mut previous) = ([*point; 9], *point);
    for i in 2..=N {
        if i % 2 == 0 {
            previous = halves[i / 2].doubled();
        } else {
            previous.add::<true>(&one);
        }
        if i <= N / 2 {
            halves[i] = previous;
        }
        table[i - 1] = previous.precompute().rows();
    }
}

/// Adds one multiple of a table to each lane, as its digit says.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn add_table<const T: bool>(sum: &mut ExtendedPoint, digits: [i16; 8], table: &[[CachedRow; 8]]) {
    let rows = core::array::from_fn(|lane| match usize::from(digits[lane].unsigned_abs()) {
        0 => &CachedRow::IDENTITY,
        multiple => &table[multiple - 1][lane],
    });
    sum.add::<T>(&CachedPoint::from_rows(&rows, negative(digits)));
}

/// `[s]B + [k](-A)` of eight fresh keys, given A.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn fresh(jobs: &[EdVerify<'_>; 8], a: &ExtendedPoint, table: &mut LaneTable<16>) -> ExtendedPoint {
    fill_table(&a.negated(), table);
    let base = [&base_rows()[..BASE_ROWS]; 8];
    let k = jobs.map(|job| signed_digits::<DIGITS>(job.k, 5));
    let s = jobs.map(|job| signed_digits::<BASE_DIGITS>(job.s, 10));
    let mut sum = ExtendedPoint::identity();
    for i in (0..DIGITS).rev() {
        if i < DIGITS - 1 {
            sum.double_times(5);
        }
        let digits = k.each_ref().map(|digits| digits[i]);
        if i % 2 == 1 {
            add_table::<false>(&mut sum, digits, table);
            continue;
        }
        add_table::<true>(&mut sum, digits, table);
        let digits = s.each_ref().map(|digits| digits[i / 2]);
        match i {
            0 => add_rows::<true>(&mut sum, digits, base),
            _ => add_rows::<false>(&mut sum, digits, base),
        }
    }
    sum
}

/// A digit, or 0 behind the last one.
fn digit(digits: &[i16], i: usize) -> i16 {
    digits.get(i).copied().unwrap_or(0)
}

/// `[s]B + [k](-A)` of eight known keys.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn eight_known(jobs: &[EdVerify<'_>; 8], keys: [&[PointRow]; 8]) -> ExtendedPoint {
    let base = base_rows();
    let k = jobs.map(|job| signed_digits::<DIGITS>(job.k, 5));
    let s = jobs.map(|job| signed_digits::<BASE_DIGITS>(job.s, 10));
    let mut sum = ExtendedPoint::identity();
    for m in (0..PIECE_DIGITS).rev() {
        if m < PIECE_DIGITS - 1 {
            sum.double_times(5);
        }
        for piece in 0..ROW_PIECES {
            let digits = k.each_ref().map(|digits| digit(digits, PIECE_DIGITS * piece + m));
            let rows = keys.map(|rows| &rows[ROWS_PER_PIECE * piece..][..ROWS_PER_PIECE]);
            add_rows::<true>(&mut sum, digits, rows);
            if m % 2 == 0 {
                let i = BASE_PIECE_DIGITS * piece + m / 2;
                let digits = s.each_ref().map(|digits| digit(digits, i));
                let rows = &base[BASE_ROWS * piece..][..BASE_ROWS];
                add_rows::<true>(&mut sum, digits, [rows; 8]);
            }
        }
    }
    sum
}

/// Whether each equation holds; false where A, or in the cofactored equation R, is no point.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(crate) fn verify(equation: EdEquation, jobs: &[EdVerify<'_>], verdicts: &mut [bool]) {
    if let [job] = jobs {
        verdicts[0] = match known(job) {
            Some(rows) => one::verify_known(equation, job, rows),
            None => one::verify_fresh(equation, job)
                .unwrap_or_else(|| seam::verify_vartime(equation, job)),
        };
        return;
    }
    verify_lanes(equation, jobs, verdicts);
}

/// Verifies several signatures. A separate function, since its table would double the stack of a
/// single verification, which may run in an asynchronous job of OpenSSL's, of 32 KiB.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
#[inline(never)]
fn verify_lanes(equation: EdEquation, jobs: &[EdVerify<'_>], verdicts: &mut [bool]) {
    let mut table = [[CachedRow::IDENTITY; 8]; 16];
    for (jobs, verdicts) in jobs.chunks(CHUNK).zip(verdicts.chunks_mut(CHUNK)) {
        let (mut points, mut good) = (Vec::new(), Vec::new());
        // Two groups are decoded side by side.
        for pair in jobs.chunks(16) {
            let groups: Vec<_> = pair.chunks(8).map(eight).collect();
            let rows = groups.iter().map(|group| {
                let rows: Vec<_> = group.iter().filter_map(|job| known(job)).collect();
                <[&[PointRow]; 8]>::try_from(rows).ok()
            });
            let rows: Vec<_> = rows.collect();
            let keys = |i: usize| words_of(groups[i].each_ref().map(|job| job.key.encoded()));
            let decoded = match (&rows[..], groups.len()) {
                ([None, None], _) => decode(&[keys(0), keys(1)]).to_vec(),
                _ => Vec::new(),
            };
            for (i, (group, rows)) in groups.iter().zip(rows).enumerate() {
                let (point, mask) = match (rows, decoded.get(i)) {
                    (Some(rows), _) => (eight_known(group, rows), 0xff),
                    (None, Some((a, mask))) => (fresh(group, a, &mut table), *mask),
                    (None, None) => {
                        let [(a, mask)] = decode(&[keys(i)]);
                        (fresh(group, &a, &mut table), mask)
                    }
                };
                points.push(point);
                good.push(mask);
            }
        }
        settle(equation, &points, jobs, &mut good);
        for (i, verdict) in verdicts.iter_mut().enumerate() {
            *verdict = good[i / 8] >> (i % 8) & 1 == 1;
        }
    }
}

/// Compares points with R, a group of eight jobs each, and clears the bits of lanes that differ.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn settle(
    equation: EdEquation,
    points: &[ExtendedPoint],
    jobs: &[EdVerify<'_>],
    good: &mut [__mmask8],
) {
    let groups = points.iter().zip(jobs.chunks(8)).zip(good);
    if equation == EdEquation::Cofactored {
        for ((point, jobs), good) in groups {
            let [(r, mask)] = decode(&[words_of(eight(jobs).map(|job| job.r))]);
            let mut difference = *point;
            difference.add::<false>(&r.negated().precompute());
            difference.double_times(3);
            *good &= mask & difference.is_identity();
        }
        return;
    }
    let mut inverses: Vec<Fe> = points.iter().map(|point| point.z).collect();
    invert_all(&mut inverses);
    for (((point, jobs), good), inverse) in groups.zip(&inverses) {
        let encoded = point.encode(inverse);
        let expected = words_of(eight(jobs).map(|job| job.r));
        for (word, expected) in encoded.iter().zip(&expected) {
            *good = _mm512_mask_cmpeq_epi64_mask(*good, *word, *expected);
        }
    }
}

/// Returns whether the sum of all cofactored equations, each times its number, holds, and every A
/// and R is a point.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(crate) fn sum(jobs: &[EdVerify<'_>], z: &[[u8; 16]]) -> bool {
    let mut total = ExtendedPoint::identity();
    for (jobs, z) in jobs.chunks(SUM_CHUNK).zip(z.chunks(SUM_CHUNK)) {
        match sum_of_chunk(jobs, z) {
            Some(sum) => total.add::<true>(&sum.precompute()),
            None => return false,
        }
    }
    total.double_times(3);
    total.is_identity() == 0xff
}

/// The digits of a [`sum`]: for each bit of the scalars, the odd multiples that are added there. Any
/// lane can take any of them, since their sum is what counts.
struct Schedule {
    /// `[bit][i]`: a row of the tables, and [`Schedule::NEGATIVE`] where it is subtracted.
    rows: Vec<[u16; SUM_TERMS]>,
    /// The number of terms for each bit.
    len: [usize; SUM_BITS],
}

impl Schedule {
    const NEGATIVE: u16 = 1 << 15;

    fn new() -> Schedule {
        Schedule { rows: vec![[0; SUM_TERMS]; SUM_BITS], len: [0; SUM_BITS] }
    }

    /// Adds the digits of a number below L, odd and between -15 and 15, of which five bits in a row
    /// have one at most (width-5 non-adjacent form). `row` is that of the point itself.
    fn add(&mut self, bytes: &[u8; 32], row: usize) {
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let (mut bit, mut carry) = (0, 0);
        while bit < SUM_BITS {
            // 63 bits, so that the carry has room.
            let (word, shift) = (bit / 64, bit % 64);
            let bits = words[word] >> shift | words[word + 1] << 1 << (63 - shift);
            let bits = (bits & (u64::MAX >> 1)) + carry;
            // Skipped zeros may have been ones with a carry, which then goes on.
            let zeros = (bits.trailing_zeros() as usize).min(63 - 5);
            bit += zeros;
            let digit = bits >> zeros & 31;
            if digit & 1 == 0 {
                continue;
            }
            // Digits above 16 are negative, and carry.
            carry = digit >> 4;
            let sign = (carry as u16).wrapping_neg();
            let absolute = (digit as u16 ^ (sign & 31)).wrapping_add(carry as u16);
            self.rows[bit][self.len[bit]] =
                (row as u16 + 8 * (absolute / 2)) | (sign & Schedule::NEGATIVE);
            self.len[bit] += 1;
            bit += 5;
        }
    }
}

/// Returns the points of a sum, encoded, with their multipliers: R of every signature, A of every
/// key; and the multiplier of B. A key that occurs in several lanes is one point.
fn terms<'a>(jobs: &[EdVerify<'a>], z: &[[u8; 16]]) -> (Vec<(&'a [u8; 32], Scalar)>, Scalar) {
    const SLOTS: usize = 4 * SUM_CHUNK;
    let mut base = Scalar::ZERO;
    let mut terms = Vec::with_capacity(2 * jobs.len());
    // Positions of the keys' terms, 0 for an empty slot, by bits of the key. Keys chosen to share
    // these bits make us compare all with all, which is cheap relative to the sum.
    let mut places = [0u16; SLOTS];
    for (job, z) in jobs.iter().zip(z) {
        let z = short_scalar(z);
        base += z * scalar(job.s);
        terms.push((job.r, z));
        let (key, factor) = (job.key.encoded(), z * scalar(job.k));
        let mut slot = usize::from(u16::from_le_bytes([key[0], key[1]])) % SLOTS;
        while places[slot] != 0 && terms[usize::from(places[slot])].0 != key {
            slot = (slot + 1) % SLOTS;
        }
        if places[slot] == 0 {
            places[slot] = terms.len() as u16;
            terms.push((key, factor));
        } else {
            terms[usize::from(places[slot])].1 += factor;
        }
    }
    (terms, base)
}

/// The sum of `z ([s]B - [k]A - R)`, or nothing if some A or R is no point.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn sum_of_chunk(jobs: &[EdVerify<'_>], z: &[[u8; 16]]) -> Option<ExtendedPoint> {
    let (terms, base) = terms(jobs, z);
    // Groups of eight rows [multiple][lane]: of B, and of sixteen points at a time.
    let mut tables = vec![CachedRow::IDENTITY; SUM_TABLE * (1 + 2 * terms.len().div_ceil(16))];
    let (base_table, point_tables) = tables.split_at_mut(SUM_TABLE);
    fill_odd(&ExtendedPoint::base(), base_table);
    let mut schedule = Schedule::new();
    schedule.add(&base.to_bytes(), 0);
    let pairs = terms.chunks(16).zip(point_tables.chunks_exact_mut(2 * SUM_TABLE));
    for (pair, (terms, tables)) in pairs.enumerate() {
        // The last one fills a pair of groups up.
        let encoded = |i: usize| terms[i.min(terms.len() - 1)].0;
        let words =
            [0, 8].map(|first| words_of([0, 1, 2, 3, 4, 5, 6, 7].map(|i| encoded(first + i))));
        for ((point, good), table) in
            decode(&words).into_iter().zip(tables.chunks_exact_mut(SUM_TABLE))
        {
            if good != 0xff {
                return None;
            }
            fill_odd(&point.negated(), table);
        }
        for (i, (_, factor)) in terms.iter().enumerate() {
            let row = SUM_TABLE * (1 + 2 * pair + i / 8) + i % 8;
            schedule.add(&factor.to_bytes(), row);
        }
    }
    let mut sum = ExtendedPoint::identity();
    for (rows, len) in schedule.rows.iter().zip(schedule.len).rev() {
        sum.double::<true>();
        for lanes in rows[..len].chunks(8) {
            let rows = core::array::from_fn(|lane| match lanes.get(lane) {
                Some(row) => &tables[usize::from(row & !Schedule::NEGATIVE)],
                None => &CachedRow::IDENTITY,
            });
            let is_negative = |lane: usize| lanes.get(lane).is_some_and(|row| row >> 15 == 1);
            let negative = (0..8).fold(0, |mask, lane| mask | u8::from(is_negative(lane)) << lane);
            sum.add::<true>(&CachedPoint::from_rows(&rows, negative));
        }
    }
    Some(sum.sum_of_lanes())
}

/// Fills a table with the multiples 1, 3, .., 15 of eight points, [multiple][lane].
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn fill_odd(point: &ExtendedPoint, table: &mut [CachedRow]) {
    let two = point.doubled().precompute();
    let mut multiple = *point;
    for (i, rows) in table.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        if i > 0 {
            multiple.add::<true>(&two);
        }
        *rows = multiple.precompute().rows();
    }
}
