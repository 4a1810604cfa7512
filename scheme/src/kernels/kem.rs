//! The part of the seam that makes polynomials of ML-KEM from seeds, many at a time.
//!
//! A sponge squeezes what a sampler reads, and nothing else does. An instruction set that joins
//! the two keeps the bytes in its first-level cache, or in registers, and can squeeze on where
//! rejection sampling runs short. The functions here take the two one after the other.

use super::{KemPoly, Kernels, Sponge, Xof};
use crate::ct;

/// SHAKE128 blocks squeezed at first for one entry of A: 504 bytes hold 336 candidates, of which
/// 273 +- 7 are accepted; 1 in 120 entries needs more than the 3 blocks.
pub const UNIFORM_BLOCKS: usize = 3;
/// Bytes squeezed at first for one entry of A.
pub const UNIFORM_LEN: usize = UNIFORM_BLOCKS * Xof::Shake128.rate();
/// Bytes of noise for eta = 3, the most.
const NOISE_MAX: usize = 64 * 3;
/// Jobs whose bytes lie side by side.
const JOBS: usize = 16;

/// One entry of A: SampleNTT(rho || index) (FIPS 203, Algorithm 7).
pub struct KemUniform<'a> {
    /// The seed of the matrix.
    pub rho: &'a [u8; 32],
    /// The two bytes that follow it.
    pub index: [u8; 2],
    /// The output polynomial, in the NTT domain; coefficients in 0..q.
    pub out: &'a mut KemPoly,
}

/// One polynomial of noise: SamplePolyCBD_eta(PRF_eta(seed, index)) (FIPS 203, Algorithm 8 and
/// equation 4.3).
pub struct KemNoise<'a> {
    /// The seed. Secret.
    pub seed: &'a [u8; 32],
    /// The byte that follows it.
    pub index: u8,
    /// The output polynomial; |coefficients| <= eta.
    pub out: &'a mut KemPoly,
}

/// [`Kernels::kem_sample_ntt_vartime`] by way of memory.
pub fn sample_ntt_vartime<K: Kernels + ?Sized>(k: &K, jobs: &mut [KemUniform<'_>]) {
    let mut squeezed = [[0; UNIFORM_LEN]; JOBS];
    for jobs in jobs.chunks_mut(JOBS) {
        let sponges = jobs.iter().zip(&mut squeezed);
        let sponges =
            sponges.map(|(job, out)| Sponge::new(Xof::Shake128, [job.rho, &job.index], out));
        k.sponge_many(&mut sponges.collect::<Vec<_>>());
        for (job, bytes) in jobs.iter_mut().zip(&squeezed) {
            parse_vartime(k, (job.rho, job.index), bytes, job.out);
        }
    }
}

/// SampleNTT of a seed from the [`UNIFORM_LEN`] bytes that were squeezed from it.
pub fn parse_vartime<K: Kernels + ?Sized>(
    k: &K,
    (rho, index): (&[u8], [u8; 2]),
    squeezed: &[u8],
    out: &mut KemPoly,
) {
    let mut blocks = UNIFORM_BLOCKS;
    let mut accepted = k.kem_rej_uniform_vartime(squeezed, out);
    while accepted < 256 {
        // Rare, and in public data: squeeze anew with one block more.
        blocks += 1;
        let mut longer = vec![0u8; blocks * Xof::Shake128.rate()];
        k.sponge_many(&mut [Sponge::new(Xof::Shake128, [rho, &index], &mut longer)]);
        accepted = k.kem_rej_uniform_vartime(&longer, out);
    }
}

/// [`Kernels::kem_sample_cbd`] by way of memory.
pub fn sample_cbd<K: Kernels + ?Sized>(k: &K, eta: usize, jobs: &mut [KemNoise<'_>]) {
    let len = 64 * eta;
    let mut squeezed = [[0; NOISE_MAX]; JOBS];
    for jobs in jobs.chunks_mut(JOBS) {
        let sponges = jobs.iter().zip(&mut squeezed).map(|(job, out)| {
            let index = core::slice::from_ref(&job.index);
            Sponge::new(Xof::Shake256, [job.seed, index], &mut out[..len])
        });
        k.sponge_many(&mut sponges.collect::<Vec<_>>());
        for (job, bytes) in jobs.iter_mut().zip(&squeezed) {
            k.kem_cbd(eta, &bytes[..len], core::slice::from_mut(job.out));
        }
    }
    ct::wipe(&mut squeezed);
}
