//! SHA-512 on eight lanes (FIPS 180-4, section 6.4): for H and T_l of SLH-DSA with n above 16
//! (FIPS 205, section 11.2.2), and for whole messages (Ed25519).
//!
//! ```text
//!   eight messages of one length --128 bytes each, transposed--> w[i] = word i of lanes 0 to 7
//! ```
//!
//! A round is 6 rotations, 4 three-input operations and 8 additions, and a word of the schedule, of
//! which there are 64, 6 shifts, 2 three-input operations and 3 additions: 2144 operations for a
//! block, of which a core does two a cycle at best, 134 cycles a lane. Zen 4 takes more, because each
//! round waits for the one before it (`cycles_per_sha512` of bench/results/floors-*.ndjson), and still
//! more with the schedule apart from the rounds.
//!
//! Time depends on lengths only.

use core::arch::x86_64::*;

use gabion_scheme::kernels::sha512::{SHA512_INITIAL, Sha512};
use gabion_scheme::kernels::slh::SlhHash;

use super::sha512_one;
use crate::avx512::keccak::transpose;
use crate::avx512::registers;
use crate::shared::memory::{Table, wipe};
use crate::shared::sha2::{SHA512_ROUNDS, four_rounds, in_lanes, nothing, sixteen_rounds};

/// Messages that are hashed side by side.
pub(crate) const LANES: usize = 8;
/// Bytes of a block.
pub(crate) const BLOCK: usize = 128;
/// Bytes of a compressed address ADRSc.
pub(crate) const ADDRESS: usize = 22;

/// In memory, for the loop to walk over.
static ROUNDS: [u64; 80] = SHA512_ROUNDS;

/// The bytes of each 64-bit word the other way round.
pub(crate) static BIG_ENDIAN: Table<u8, 64> = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 16 / 8 * 8 + 7 - i % 8) as u8;
        i += 1;
    }
    Table(table)
};

/// One round: h becomes the next a, and d the next e.
macro_rules! round {
    ($w:expr, $constant:expr; $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let sum_1 = _mm512_ternarylogic_epi64::<0x96>(
            _mm512_ror_epi64::<14>($e),
            _mm512_ror_epi64::<18>($e),
            _mm512_ror_epi64::<41>($e),
        );
        let choice = _mm512_ternarylogic_epi64::<0xca>($e, $f, $g);
        let t1 = _mm512_add_epi64(
            _mm512_add_epi64($h, _mm512_add_epi64($w, _mm512_set1_epi64($constant as i64))),
            _mm512_add_epi64(sum_1, choice),
        );
        let sum_0 = _mm512_ternarylogic_epi64::<0x96>(
            _mm512_ror_epi64::<28>($a),
            _mm512_ror_epi64::<34>($a),
            _mm512_ror_epi64::<39>($a),
        );
        let majority = _mm512_ternarylogic_epi64::<0xe8>($a, $b, $c);
        $d = _mm512_add_epi64($d, t1);
        $h = _mm512_add_epi64(t1, _mm512_add_epi64(sum_0, majority));
    };
}

/// The word after the last sixteen, in place of the first of them.
macro_rules! schedule {
    ($w:ident, $i:expr) => {
        let (x, y) = ($w[($i + 1) % 16], $w[($i + 14) % 16]);
        let sigma_0 = _mm512_ternarylogic_epi64::<0x96>(
            _mm512_ror_epi64::<1>(x),
            _mm512_ror_epi64::<8>(x),
            _mm512_srli_epi64::<7>(x),
        );
        let sigma_1 = _mm512_ternarylogic_epi64::<0x96>(
            _mm512_ror_epi64::<19>(y),
            _mm512_ror_epi64::<61>(y),
            _mm512_srli_epi64::<6>(y),
        );
        let old = _mm512_add_epi64($w[$i], $w[($i + 9) % 16]);
        $w[$i] = _mm512_add_epi64(old, _mm512_add_epi64(sigma_0, sigma_1));
    };
}

/// One block into each state. `w` is used up.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn compress(state: &mut [__m512i; 8], w: &mut [__m512i; 16]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let (scheduled, last) = ROUNDS.as_chunks::<16>().0.split_at(4);
    for k in scheduled {
        sixteen_rounds!(round(), schedule(), w, k; a b c d e f g h);
    }
    let k = &last[0];
    sixteen_rounds!(round(), nothing(), w, k; a b c d e f g h);
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = _mm512_add_epi64(*word, new);
    }
}

/// Absorbs the block at `at` of each lane's bytes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn absorb(state: &mut [__m512i; 8], lanes: [&[u8]; LANES], at: usize) {
    let order = registers::table(&BIG_ENDIAN);
    let mut w = [_mm512_setzero_si512(); 16];
    for half in 0..2 {
        let rows =
            lanes.map(|bytes| _mm512_shuffle_epi8(registers::load(bytes, at + 64 * half), order));
        w[8 * half..8 * half + 8].copy_from_slice(&transpose(rows));
    }
    compress(state, &mut w);
    wipe(&mut w);
}

/// Where the bytes of a compressed address (FIPS 205, section 11.2) come from.
static COMPRESSED: Table<u8, 64> = {
    let mut table = [0; 64];
    table[0] = 3;
    let mut i = 1;
    while i < ADDRESS {
        table[i] = if i < 9 { 7 + i as u8 } else { 10 + i as u8 };
        i += 1;
    }
    Table(table)
};

/// Bytes from `ADDRESS` on come from the first ones.
static BEHIND_ADDRESS: Table<u8, 64> = {
    let mut table = [0; 64];
    let mut i = ADDRESS;
    while i < 64 {
        table[i] = (i - ADDRESS) as u8;
        i += 1;
    }
    Table(table)
};

/// Bytes that are put together in a register.
const PIECE: usize = 64;

/// The 64 bytes at `PIECE * i` of ADRSc || input.
///
/// They are put together in registers: a load that meets several stores waits for all of them, and the
/// messages of nodes are one block.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn piece(job: &SlhHash<'_>, i: usize) -> __m512i {
    if i > 0 {
        return registers::load(job.input, (PIECE * i - ADDRESS).min(job.input.len()));
    }
    let (within, behind) = (registers::table(&COMPRESSED), registers::table(&BEHIND_ADDRESS));
    let head = registers::first(ADDRESS);
    let address = registers::load(&job.address.0, 0);
    let input = registers::load(job.input, 0);
    _mm512_or_si512(
        _mm512_maskz_permutexvar_epi8(head, within, address),
        _mm512_maskz_permutexvar_epi8(!head, behind, input),
    )
}

/// What the padding puts into piece `i` of `pieces`, behind one block of B bytes, PK.seed, and an input
/// of `length` bytes: the bit that ends the message, and in the last word the length. What else the
/// standard reserves for it is zero.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn padding<const B: usize>(length: usize, i: usize, pieces: usize) -> __m512i {
    let (start, end) = (PIECE * i, ADDRESS + length);
    let mut padding = _mm512_setzero_si512();
    if (start..start + PIECE).contains(&end) {
        let (word, byte) = ((end - start) / 8, (end - start) % 8);
        padding = _mm512_maskz_mov_epi64(1 << word, _mm512_set1_epi64(0x80 << (8 * byte)));
    }
    if i == pieces - 1 {
        let bits = _mm512_set1_epi64((8 * (B + end) as u64).swap_bytes() as i64);
        padding = _mm512_or_si512(padding, _mm512_maskz_mov_epi64(1 << 7, bits));
    }
    padding
}

/// Hashes eight messages at most, all of one length, side by side. Lanes beyond them repeat the
/// first.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash(jobs: &mut [SlhHash<'_>]) {
    let length = jobs[0].input.len();
    assert!(jobs.iter().all(|job| job.input.len() == length), "lanes of one length");
    let order = registers::table(&BIG_ENDIAN);
    let mut rows = [_mm512_setzero_si512(); LANES];
    for (lane, row) in rows.iter_mut().enumerate() {
        let job = &jobs[if lane < jobs.len() { lane } else { 0 }];
        // SAFETY: eight words of 64 bits are a register.
        *row = unsafe { _mm512_loadu_si512(job.context.sha512.as_ptr().cast()) };
    }
    let mut state = transpose(rows);
    let mut w = [_mm512_setzero_si512(); 16];
    // The bit that ends the message is followed by 16 bytes of length.
    let halves = 2 * (ADDRESS + length + 1 + 16).div_ceil(BLOCK);
    for half in 0..halves {
        let padding = padding::<BLOCK>(length, half, halves);
        for (lane, row) in rows.iter_mut().enumerate() {
            let job = &jobs[if lane < jobs.len() { lane } else { 0 }];
            *row = _mm512_shuffle_epi8(_mm512_or_si512(piece(job, half), padding), order);
        }
        w[LANES * (half % 2)..][..LANES].copy_from_slice(&transpose(rows));
        if half % 2 == 1 {
            compress(&mut state, &mut w);
        }
    }
    for (job, row) in jobs.iter_mut().zip(transpose(state)) {
        let n = job.output.len();
        registers::store(job.output, 0, _mm512_shuffle_epi8(row, order), n);
    }
    wipe(&mut w);
    wipe(&mut rows);
    registers::clear();
}

/// Hashes messages of any lengths from SHA-512's own initial state, eight side by side. Time depends
/// on their lengths.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_whole(jobs: &mut [Sha512<'_>]) {
    if let [job] = jobs {
        job.run_with(|state, block| sha512_one::compress(state, core::slice::from_ref(block)));
        return;
    }
    in_lanes::<LANES>(jobs, |jobs, padded, most| {
        let mut state = SHA512_INITIAL.map(|word| _mm512_set1_epi64(word as i64));
        let mut block = 0;
        while block < most {
            let before = state;
            absorb(&mut state, core::array::from_fn(|lane| &padded[lane][block][..]), 0);
            // Lanes that have ended stay as they are.
            let ended = (0..jobs.len())
                .fold(0u8, |mask, lane| mask | u8::from(jobs[lane].blocks() <= block) << lane);
            for (word, before) in state.iter_mut().zip(before) {
                *word = _mm512_mask_mov_epi64(*word, ended, before);
            }
            block += 1;
        }
        let order = registers::table(&BIG_ENDIAN);
        for (job, row) in jobs.iter_mut().zip(transpose(state)) {
            registers::store(job.digest, 0, _mm512_shuffle_epi8(row, order), 64);
        }
    });
    registers::clear();
}
