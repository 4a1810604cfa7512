//! Hashes of trees of SLH-DSA on eight lanes of SHA-512: H and T_l where n is above 16 (FIPS 205, section
//! 11.2.2).
//!
//! Time depends on lengths only.

use core::arch::x86_64::*;

use gabion_scheme::kernels::slh::SlhHash;

use crate::avx512::keccak::transpose;
use crate::avx512::registers;
use crate::avx512::sha2::pieces::{self, padding};
use crate::avx512::sha2::sha512::{BIG_ENDIAN, BLOCK, LANES, compress};
use crate::common::chains::sha2::ADDRESS;
use crate::common::memory::{Table, wipe};

/// The sources of the bytes of a compressed address (FIPS 205, section 11.2).
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

/// The 64 bytes at `64 * i` of ADRSc || input.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn piece(job: &SlhHash<'_>, i: usize) -> __m512i {
    if i > 0 {
        return pieces::later(job.input, i);
    }
    let within = registers::table(&COMPRESSED);
    let address = registers::load(&job.address.0, 0);
    let head = registers::first(ADDRESS);
    pieces::first(_mm512_maskz_permutexvar_epi8(head, within, address), job.input)
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
