//! XMSS on sixteen lanes of SHA-256 (RFC 8391, SP 800-208): chains, nodes of trees, and secrets.
//!
//! Unlike SLH-DSA and LMS ([`sha256_lanes`]), large inputs run on lanes on every processor: lanes
//! take rows of words, and the SHA extensions, for which each block has to be transposed, take 1.36
//! times as long on Zen 4. The last chains and nodes, too few for lanes, continue by the extensions
//! or in general registers.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use core::arch::x86_64::*;

use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::xmss_of_any;
use gabion_scheme::kernels::xmss_sha256::{Compress, Row};

use crate::avx512::sha2::sha256::Streams;
use crate::avx512::sha2::sha256_lanes::{self, LANES};
use crate::avx512::{Avx512, registers};
use crate::common::chains::xmss::{self as streams, Isa};
use crate::portable::Portable;
use crate::x86::sha_ni;

/// The layout whose copy of the compression this is.
const XMSS: i32 = 0;

/// Sixteen lanes, and the streams that run batches too small for them.
#[derive(Clone, Copy)]
struct Lanes {
    streams: Option<Streams>,
}

impl Compress<LANES> for Lanes {
    #[inline(always)]
    fn compress(
        self,
        from: &[Row<LANES>; 8],
        block: [&Row<LANES>; 16],
        into: &mut [Row<LANES>; 8],
    ) {
        // SAFETY: the type is only constructed where AVX-512 is available.
        unsafe { compress(from, &block, into) }
    }
}

impl Isa<LANES> for Lanes {
    #[inline(always)]
    fn with_streams(self, _: usize) -> Self {
        self
    }

    #[inline(always)]
    fn few(self) -> usize {
        // As for SLH-DSA.
        if self.streams.is_some() { 9 } else { 4 }
    }

    #[inline(always)]
    fn run_few(self, jobs: &mut [XmssChain<'_>]) {
        match self.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::xmss_chain_many(streams, jobs) },
            None => xmss_of_any::chains(&Portable, jobs),
        }
    }

    #[inline(always)]
    fn hash_few(self, jobs: &mut [XmssHash<'_>]) {
        match self.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::xmss_hash_many(streams, jobs) },
            None => xmss_of_any::hashes(&Portable, jobs),
        }
    }

    #[inline(always)]
    fn make_few(self, jobs: &mut [XmssSecret<'_>]) {
        match self.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::xmss_secret_many(streams, jobs) },
            None => xmss_of_any::secrets(&Portable, jobs),
        }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the type is only constructed where AVX-512 is available.
        unsafe { registers::clear() }
    }
}

/// One block into each state, which goes elsewhere.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn compress(from: &[Row<LANES>; 8], block: &[&Row<LANES>; 16], into: &mut [Row<LANES>; 8]) {
    // Loops: `map` is compiled without AVX-512, and its closure is not inlined.
    let mut words = [_mm512_setzero_si512(); 16];
    for (word, row) in words.iter_mut().zip(block) {
        // SAFETY: a row is as long as a register, and needs no alignment here.
        *word = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
    }
    let mut states = [_mm512_setzero_si512(); 8];
    for (state, row) in states.iter_mut().zip(from) {
        // SAFETY: as above.
        *state = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
    }
    sha256_lanes::compress::<XMSS>(&mut states, words);
    for (row, state) in into.iter_mut().zip(states) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(row.as_mut_ptr().cast(), state) };
    }
}

/// Runs every chain of SHA-256 to its end.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn chain_many(kernels: Avx512, jobs: &mut [XmssChain<'_>]) {
    streams::chain_many(Lanes { streams: kernels.streams }, jobs);
}

/// Runs every hash of SHA-256.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_many(kernels: Avx512, jobs: &mut [XmssHash<'_>]) {
    streams::hash_many(Lanes { streams: kernels.streams }, jobs);
}

/// Makes every secret of SHA-256.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn secret_many(kernels: Avx512, jobs: &mut [XmssSecret<'_>]) {
    streams::secret_many(Lanes { streams: kernels.streams }, jobs);
}
