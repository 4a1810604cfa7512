//! XMSS on sixteen lanes of SHA-256 (RFC 8391, SP 800-208): chains, nodes of trees, and secrets.
//!
//! Which of the two, lanes or the SHA extensions, runs what there is enough of is decided as for SLH-DSA
//! ([`sha256_lanes`] has the figures). The last chains and nodes, too few for lanes, go on by the extensions, or in
//! general registers.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on what is hashed.

use core::arch::x86_64::*;

use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::xmss_of_any;
use gabion_scheme::kernels::xmss_sha256::{Compress, Row};

use crate::avx512::sha2::sha256::Streams;
use crate::avx512::sha2::sha256_lanes::{self, LANES};
use crate::avx512::{Avx512, registers};
use crate::portable::Portable;
use crate::shared::chains::xmss::{self as streams, Isa};
use crate::x86::sha_ni;

/// The layout whose copy of the compression this is.
const XMSS: i32 = 0;

/// Sixteen lanes, and what runs what is too little for them.
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
        // SAFETY: whoever makes this has AVX-512.
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
        // SAFETY: whoever makes this has AVX-512.
        unsafe { registers::clear() }
    }
}

/// One block into each state, which goes elsewhere.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn compress(from: &[Row<LANES>; 8], block: &[&Row<LANES>; 16], into: &mut [Row<LANES>; 8]) {
    // SAFETY: a row is as long as a register, and needs no alignment here.
    let words = block.map(|row| unsafe { _mm512_loadu_si512(row.as_ptr().cast()) });
    // SAFETY: as above.
    let mut states = from.each_ref().map(|row| unsafe { _mm512_loadu_si512(row.as_ptr().cast()) });
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
    match kernels {
        // SAFETY: the token proves that the processor has the extensions.
        Avx512 { streams: Some(streams), lanes: false, .. } => unsafe {
            sha_ni::xmss_chain_many(streams, jobs)
        },
        Avx512 { streams, .. } => streams::chain_many(Lanes { streams }, jobs),
    }
}

/// Runs every hash of SHA-256.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_many(kernels: Avx512, jobs: &mut [XmssHash<'_>]) {
    match kernels {
        // SAFETY: the token proves that the processor has the extensions.
        Avx512 { streams: Some(streams), lanes: false, .. } => unsafe {
            sha_ni::xmss_hash_many(streams, jobs)
        },
        Avx512 { streams, .. } => streams::hash_many(Lanes { streams }, jobs),
    }
}

/// Makes every secret of SHA-256.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn secret_many(kernels: Avx512, jobs: &mut [XmssSecret<'_>]) {
    match kernels {
        // SAFETY: the token proves that the processor has the extensions.
        Avx512 { streams: Some(streams), lanes: false, .. } => unsafe {
            sha_ni::xmss_secret_many(streams, jobs)
        },
        Avx512 { streams, .. } => streams::secret_many(Lanes { streams }, jobs),
    }
}
