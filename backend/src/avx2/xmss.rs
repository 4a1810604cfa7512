//! XMSS on eight lanes of SHA-256, or by the SHA extensions where they are (RFC 8391, SP 800-208).
//!
//! A single remaining chain continues in general registers, and so does a single hash.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::xmss_of_any;
use gabion_scheme::kernels::xmss_sha256::{Compress, Row};

use super::sha256::{self, LANES};
use super::{Avx2, registers};
use crate::common::chains::xmss::{self as streams, Isa};
use crate::portable::Portable;
use crate::x86::sha_ni;

impl Compress<LANES> for Avx2 {
    #[inline(always)]
    fn compress(
        self,
        from: &[Row<LANES>; 8],
        block: [&Row<LANES>; 16],
        into: &mut [Row<LANES>; 8],
    ) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { sha256::compress_rows(from, &block, into) }
    }
}

impl Isa<LANES> for Avx2 {
    #[inline(always)]
    fn with_streams(self, _: usize) -> Self {
        self
    }

    #[inline(always)]
    fn few(self) -> usize {
        1
    }

    #[inline(always)]
    fn run_few(self, jobs: &mut [XmssChain<'_>]) {
        xmss_of_any::chains(&Portable, jobs);
    }

    #[inline(always)]
    fn hash_few(self, jobs: &mut [XmssHash<'_>]) {
        xmss_of_any::hashes(&Portable, jobs);
    }

    #[inline(always)]
    fn make_few(self, jobs: &mut [XmssSecret<'_>]) {
        xmss_of_any::secrets(&Portable, jobs);
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { registers::clear() }
    }
}

/// Runs every chain of SHA-256 to its end.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn chain_many(isa: Avx2, jobs: &mut [XmssChain<'_>]) {
    match isa.sha {
        // SAFETY: the token proves that the processor has the extensions.
        Some(sha) => unsafe { sha_ni::xmss_chain_many(sha, jobs) },
        None => streams::chain_many(isa, jobs),
    }
}

/// Runs every hash of SHA-256.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash_many(isa: Avx2, jobs: &mut [XmssHash<'_>]) {
    match isa.sha {
        // SAFETY: the token proves that the processor has the extensions.
        Some(sha) => unsafe { sha_ni::xmss_hash_many(sha, jobs) },
        None => streams::hash_many(isa, jobs),
    }
}

/// Makes every secret of SHA-256.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn secret_many(isa: Avx2, jobs: &mut [XmssSecret<'_>]) {
    match isa.sha {
        // SAFETY: the token proves that the processor has the extensions.
        Some(sha) => unsafe { sha_ni::xmss_secret_many(sha, jobs) },
        None => streams::secret_many(isa, jobs),
    }
}
