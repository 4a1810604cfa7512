//! SHA-512 on eight lanes (FIPS 180-4, section 6.4): one block into each state, and whole messages
//! (Ed25519). [`crate::avx512::slh`] uses it for SLH-DSA.
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

use super::sha512_one;
use crate::avx512::keccak::transpose;
use crate::avx512::registers;
use crate::common::memory::{Table, wipe};
use crate::common::sha2::{SHA512_ROUNDS, four_rounds, in_lanes, nothing, sixteen_rounds};

/// Messages that are hashed side by side.
pub(crate) const LANES: usize = 8;
/// Bytes of a block.
pub(crate) const BLOCK: usize = 128;

/// The round constants, in memory for the loop.
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
