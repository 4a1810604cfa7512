//! Selects the kernel for each hash of SLH-DSA.

use gabion_scheme::kernels::slh::{SlhChain, SlhFamily, SlhHash};
use gabion_scheme::kernels::slh_fors::SlhForsTree;

use crate::avx512::sha2::sha512::LANES as SHA512_LANES;
use crate::avx512::{Avx512, Isa, registers};
use crate::common::chains::sha2::in_groups;
use crate::portable;
use crate::x86::sha_ni;
use sha256::Lanes;

mod fors;
mod sha256;
mod sha512;
mod shake;

/// Runs every chain to its end.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn chain_many(kernels: Avx512, jobs: &mut [SlhChain<'_>]) {
    match (jobs.first().map(|job| job.context.family), kernels) {
        (Some(SlhFamily::Shake), _) => shake::chain_many(kernels.isa, jobs),
        (Some(SlhFamily::Sha2), Avx512 { streams: Some(streams), lanes: false, .. }) => {
            // SAFETY: the token proves that the processor has the extensions.
            unsafe { sha_ni::chain_many(streams, jobs) }
        }
        (Some(SlhFamily::Sha2), Avx512 { streams, .. }) => {
            sha256::chain_many(Lanes { streams }, jobs);
        }
        (None, _) => {}
    }
}

/// Runs every hash.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_many(kernels: Avx512, jobs: &mut [SlhHash<'_>]) {
    match (jobs.first().map(|job| (job.context.family, job.context.n)), kernels) {
        (Some((SlhFamily::Shake, _)), _) => shake::hash_many(kernels.isa, jobs),
        (Some((SlhFamily::Sha2, 16)), Avx512 { streams: Some(streams), lanes: false, .. }) => {
            // SAFETY: the token proves that the processor has the extensions.
            unsafe { sha_ni::hash_many(streams, jobs) }
        }
        (Some((SlhFamily::Sha2, 16)), Avx512 { streams, .. }) => {
            sha256::hash_many(Lanes { streams }, jobs);
        }
        (Some((SlhFamily::Sha2, _)), _) => sha512_many(kernels.isa, jobs),
        (None, _) => {}
    }
}

/// Works every subtree of FORS out: on lanes, which are quicker here than the SHA extensions, level by level, on
/// AMD's processors too.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn fors_many(jobs: &mut [SlhForsTree<'_>]) {
    SlhForsTree::assert_all(jobs);
    let Some((family, n)) = jobs.first().map(|job| (job.context.family, job.context.n)) else {
        return;
    };
    let width = if family == SlhFamily::Shake { 8 } else { fors::LANES };
    for group in jobs.chunks_mut(width) {
        match (family, n) {
            (SlhFamily::Shake, 16) => fors::shake::<2>(group),
            (SlhFamily::Shake, 24) => fors::shake::<3>(group),
            (SlhFamily::Shake, _) => fors::shake::<4>(group),
            (SlhFamily::Sha2, 16) => fors::sha256(group),
            (SlhFamily::Sha2, 24) => fors::sha2::<3, 6>(group),
            (SlhFamily::Sha2, _) => fors::sha2::<4, 8>(group),
        }
    }
    registers::clear();
}

/// Runs every hash of SHA-512; one alone is quicker without lanes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn sha512_many(isa: Isa, jobs: &mut [SlhHash<'_>]) {
    in_groups::<SHA512_LANES, _>(jobs, |group| match group {
        [job] => portable::sha512_of_tree(&isa, job),
        _ => sha512::hash(group),
    });
}
