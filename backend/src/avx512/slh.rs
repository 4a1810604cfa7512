//! Which kernel runs a hash of SLH-DSA.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhChain, SlhFamily, SlhHash};

use super::{Avx512, sha512, slh_shake};
use crate::portable::Portable;
use crate::sha_ni;

/// Runs every chain to its end.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt,sha")]
pub(super) fn chain_many(isa: Avx512, jobs: &mut [SlhChain<'_>]) {
    match jobs.first().map(|job| job.context.family) {
        Some(SlhFamily::Shake) => slh_shake::chain_many(isa, jobs),
        Some(SlhFamily::Sha2) => sha_ni::chain_many(isa, jobs),
        None => {}
    }
}

/// Runs every hash.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt,sha")]
pub(super) fn hash_many(isa: Avx512, jobs: &mut [SlhHash<'_>]) {
    match jobs.first().map(|job| (job.context.family, job.context.n)) {
        Some((SlhFamily::Shake, _)) => slh_shake::hash_many(isa, jobs),
        Some((SlhFamily::Sha2, 16)) => sha_ni::hash_many(isa, jobs),
        Some((SlhFamily::Sha2, _)) => sha512_many(jobs),
        None => {}
    }
}

/// Runs every hash of SHA-512. Neighbours of one length run side by side, as the flows hand them
/// over; one alone is quicker in general registers, by a third on Zen 4.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn sha512_many(jobs: &mut [SlhHash<'_>]) {
    SlhHash::assert_all(jobs);
    for run in jobs.chunk_by_mut(|a, b| a.input.len() == b.input.len()) {
        for group in run.chunks_mut(sha512::LANES) {
            if group.len() == 1 {
                Portable.slh_hash_many(group);
            } else {
                sha512::hash(group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_scheme::kernels::slh::{SlhAddress, SlhContext};

    /// The standard's inputs are whole hash values, which do not meet every case of the padding.
    #[test]
    fn every_length_of_input_hashes_like_portable() {
        let Some(isa) = Avx512::detect() else { return };
        for (family, n) in [(SlhFamily::Sha2, 16), (SlhFamily::Sha2, 32), (SlhFamily::Shake, 16)] {
            let context = SlhContext::new(family, &vec![7; n]);
            let input: Vec<u8> = (0..500u32).map(|i| (i * i % 251) as u8).collect();
            for length in 0..400 {
                let address = |i: usize| SlhAddress(core::array::from_fn(|j| (i + j) as u8));
                let outputs = [&isa as &dyn Kernels, &Portable].map(|kernels| {
                    let mut out = vec![0u8; 9 * n];
                    let mut jobs: Vec<_> = (out.chunks_exact_mut(n).enumerate())
                        .map(|(i, output)| SlhHash {
                            context: &context,
                            address: address(i),
                            input: &input[i..i + length],
                            output,
                        })
                        .collect();
                    kernels.slh_hash_many(&mut jobs);
                    out
                });
                assert_eq!(outputs[0], outputs[1], "{family:?}, n = {n}, {length} bytes");
            }
        }
    }
}
