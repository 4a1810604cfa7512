//! The part of the seam that LMS and HSS (RFC 8554) use: chains and hashes of trees, many at a time.
//!
//! ```text
//!   chain   I || q || i || j || value     55 bytes where n is 32, 47 where it is 24: one block of SHA-256
//!   hash    I || r || D || input          leaves, nodes, and the public key of a one-time signature
//! ```
//!
//! Nearly all the work of a verification is chains (Algorithm 4b), of uneven length. They come here
//! as lists of independent jobs; an instruction set runs as many side by side as it has lanes, and
//! puts the next job into a lane whose chain has ended.
//!
//! # Contract
//! - The jobs of one call are of one [`LmsFamily`] and one n, 24 or 32. All else may differ.
//! - `start + steps` of a chain is at most [`STEPS_MAX`].
//! - Time depends on lengths and on `start` and `steps` of the jobs, never on hashed bytes.

use sha2::Digest;
use sha2::digest::generic_array::GenericArray;

use super::slh::SHA256_START;
use super::{Kernels, Sponge, Xof};

/// Most steps of a chain: 2^w - 1, where w is 8.
pub const STEPS_MAX: u32 = 255;
/// Bytes before the step of a chain, or before the input of a hash.
pub const PREFIX: usize = 22;

/// The hash functions behind a parameter set (RFC 8554, section 4.1; SP 800-208, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LmsFamily {
    /// SHA-256, cut to n bytes.
    Sha256,
    /// SHAKE256 with n bytes of output.
    Shake256,
}

/// One chain of a one-time signature (RFC 8554, Algorithm 4b, step 3).
///
/// For j in `start..start + steps`, `value` becomes H(prefix || u8str(j) || value).
pub struct LmsChain<'a> {
    /// The hash function.
    pub family: LmsFamily,
    /// I || u32str(q) || u16str(i).
    pub prefix: [u8; PREFIX],
    /// The first step.
    pub start: u32,
    /// How many steps there are.
    pub steps: u32,
    /// n bytes, replaced.
    pub value: &'a mut [u8],
}

/// One hash of a tree: H(prefix || input).
pub struct LmsHash<'a> {
    /// The hash function.
    pub family: LmsFamily,
    /// I || u32str(r) || D, where D is two bytes that say what is hashed.
    pub prefix: [u8; PREFIX],
    /// The message.
    pub input: &'a [u8],
    /// n bytes.
    pub output: &'a mut [u8],
}

impl LmsChain<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several families or n, n is neither 24 nor 32, or a chain goes beyond its
    /// last step.
    pub fn assert_all(jobs: &[LmsChain<'_>]) {
        let Some((family, n)) = jobs.first().map(|job| (job.family, job.value.len())) else {
            return;
        };
        assert!(n == 24 || n == 32, "n is 24 or 32");
        for job in jobs {
            assert!(
                (job.family, job.value.len()) == (family, n)
                    && job.start.checked_add(job.steps).is_some_and(|end| end <= STEPS_MAX),
                "a chain that does not fit the first, or has too many steps"
            );
        }
    }

    /// Runs a chain of SHA-256 by itself, portably.
    fn run_sha256(&mut self) {
        let n = self.value.len();
        let mut block = [0u8; 64];
        block[..PREFIX].copy_from_slice(&self.prefix);
        block[PREFIX + 1 + n] = 0x80;
        let bits = 8 * (PREFIX + 1 + n) as u64;
        block[56..].copy_from_slice(&bits.to_be_bytes());
        for j in self.start..self.start + self.steps {
            block[PREFIX] = j as u8;
            block[PREFIX + 1..][..n].copy_from_slice(self.value);
            let mut state = SHA256_START;
            sha2::compress256(&mut state, core::slice::from_ref(GenericArray::from_slice(&block)));
            for (bytes, word) in self.value.as_chunks_mut().0.iter_mut().zip(state) {
                *bytes = word.to_be_bytes();
            }
        }
        crate::ct::wipe(&mut block);
    }
}

impl LmsHash<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several families or n, or n is neither 24 nor 32.
    pub fn assert_all(jobs: &[LmsHash<'_>]) {
        let Some((family, n)) = jobs.first().map(|job| (job.family, job.output.len())) else {
            return;
        };
        assert!(n == 24 || n == 32, "n is 24 or 32");
        let fits = |job: &LmsHash<'_>| (job.family, job.output.len()) == (family, n);
        assert!(jobs.iter().all(fits), "a hash that does not fit the first");
    }
}

/// Runs every chain without lanes of its own: SHA-256 one after the other, SHAKE256 as sponges.
pub fn chains<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [LmsChain<'_>]) {
    LmsChain::assert_all(jobs);
    match jobs.first().map(|job| job.family) {
        Some(LmsFamily::Sha256) => jobs.iter_mut().for_each(LmsChain::run_sha256),
        Some(LmsFamily::Shake256) => sponge_chains(kernels, jobs),
        None => {}
    }
}

/// Runs every hash without lanes of its own.
pub fn hashes<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [LmsHash<'_>]) {
    LmsHash::assert_all(jobs);
    match jobs.first().map(|job| job.family) {
        Some(LmsFamily::Sha256) => {
            for job in jobs {
                let hash = sha2::Sha256::new().chain_update(job.prefix).chain_update(job.input);
                let n = job.output.len();
                job.output.copy_from_slice(&hash.finalize()[..n]);
            }
        }
        Some(LmsFamily::Shake256) => {
            let sponges = jobs
                .iter_mut()
                .map(|job| Sponge::new(Xof::Shake256, [&job.prefix, job.input], &mut *job.output));
            kernels.sponge_many(&mut sponges.collect::<Vec<_>>());
        }
        None => {}
    }
}

/// Step j of all chains that have one, side by side, for one j after the other.
fn sponge_chains<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [LmsChain<'_>]) {
    let n = jobs[0].value.len();
    let mut before = vec![0; jobs.len() * n];
    for j in 0..STEPS_MAX {
        let step = [j as u8];
        let chains = jobs.iter_mut().zip(before.chunks_exact_mut(n));
        let chains = chains.filter(|(job, _)| (job.start..job.start + job.steps).contains(&j));
        let sponges = chains.map(|(job, before)| {
            before.copy_from_slice(job.value);
            Sponge::new(Xof::Shake256, [&job.prefix, &step, &*before], &mut *job.value)
        });
        let mut sponges: Vec<_> = sponges.collect();
        if !sponges.is_empty() {
            kernels.sponge_many(&mut sponges);
        }
    }
    crate::ct::wipe(&mut before);
}
