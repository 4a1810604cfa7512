//! The part of the seam that LMS and HSS (RFC 8554) use: chains and hashes of trees, many at a time.
//!
//! ```text
//!   secret  I || q || i || 0xff || SEED   55 bytes where n is 32, 47 where it is 24: one block of SHA-256
//!   chain   I || q || i || j || value     the same
//!   hash    I || r || D || input          leaves, nodes, and the public key of a one-time signature
//! ```
//!
//! Nearly all the work of a verification is chains (Algorithm 4b), of uneven length; so it is in key
//! generation and signing, where each begins with its secret (appendix A). They come here as lists of independent jobs; an instruction set runs as many side by side as it has lanes, and
//! puts the next job into a lane whose chain has ended.
//!
//! # Contract
//! - The jobs of one call are of one [`LmsFamily`] and one n, 24 or 32. All else may differ.
//! - `start + steps` of a chain is at most [`STEPS_MAX`].
//! - Time depends on lengths and on `start` and `steps` of the jobs, never on hashed bytes.

use sha2::Digest;
use sha2::block_api::compress256;

use super::slh::SHA256_START;
use super::{Kernels, Sponge, Xof};

/// Most steps of a chain: 2^w - 1, where w is 8.
pub const STEPS_MAX: u32 = 255;
/// The byte in place of the step number when the start of a chain is derived (appendix A).
pub const OF_SECRET: u8 = 0xff;
/// Bytes before the step of a chain, or before the input of a hash.
pub const PREFIX: usize = 22;

/// Domain separators of hashes (RFC 8554, section 7.1): the public key of a one-time signature, a
/// message, a leaf, and a node above the leaves.
pub const D_PBLC: u16 = 0x8080;
/// See [`D_PBLC`].
pub const D_MESG: u16 = 0x8181;
/// See [`D_PBLC`].
pub const D_LEAF: u16 = 0x8282;
/// See [`D_PBLC`].
pub const D_INTR: u16 = 0x8383;

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
/// For j in `start..start + steps`, `value` becomes H(prefix || u8str(j) || value). Where there is a seed,
/// it is H(prefix || 0xff || seed) before that, whatever it was.
pub struct LmsChain<'a> {
    /// The hash function.
    pub family: LmsFamily,
    /// I || u32str(q) || u16str(i).
    pub prefix: [u8; PREFIX],
    /// SEED of the tree, n bytes, where the chain begins with its secret. Secret.
    pub seed: Option<&'a [u8]>,
    /// The first step.
    pub start: u32,
    /// The number of steps.
    pub steps: u32,
    /// n bytes, replaced.
    pub value: &'a mut [u8],
}

/// One hash of a tree: H(prefix || input).
pub struct LmsHash<'a> {
    /// The hash function.
    pub family: LmsFamily,
    /// I || u32str(r) || D, where D is the domain separator of two bytes.
    pub prefix: [u8; PREFIX],
    /// The message.
    pub input: &'a [u8],
    /// n bytes.
    pub output: &'a mut [u8],
}

/// Leaves of a tree that stand one behind the other (RFC 8554, Algorithm 1 and section 5.3): all chains of each
/// one-time key from its seed to its end, their hash K, and the hash of that.
pub struct LmsLeaves<'a> {
    /// The hash function.
    pub family: LmsFamily,
    /// I.
    pub id: &'a [u8; 16],
    /// SEED, n bytes. Secret.
    pub seed: &'a [u8],
    /// Bits of a digit.
    pub w: u32,
    /// Chains of a one-time key: p.
    pub chains: usize,
    /// The first leaf: q.
    pub first: u32,
    /// The number of leaf 0 among the nodes of the tree: 2^h.
    pub base: u32,
    /// `[leaf][n]`.
    pub output: &'a mut [u8],
    /// A buffer that is reused between calls; its contents are zeroed afterwards.
    pub room: &'a mut Vec<u8>,
}

impl LmsChain<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several families or n, n is neither 24 nor 32, a seed has another length, or a
    /// chain goes beyond its last step.
    pub fn assert_all(jobs: &[LmsChain<'_>]) {
        let Some((family, n)) = jobs.first().map(|job| (job.family, job.value.len())) else {
            return;
        };
        assert!(n == 24 || n == 32, "n is 24 or 32");
        for job in jobs {
            assert!(
                (job.family, job.value.len()) == (family, n)
                    && job.seed.is_none_or(|seed| seed.len() == n)
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
        let mut step = |j: u8, seed: Option<&[u8]>, value: &mut [u8]| {
            block[PREFIX] = j;
            block[PREFIX + 1..][..n].copy_from_slice(seed.unwrap_or(&*value));
            let mut state = SHA256_START;
            compress256(&mut state, core::slice::from_ref(&block));
            for (bytes, word) in value.as_chunks_mut().0.iter_mut().zip(state) {
                *bytes = word.to_be_bytes();
            }
        };
        if self.seed.is_some() {
            step(OF_SECRET, self.seed, self.value);
        }
        for j in self.start..self.start + self.steps {
            step(j as u8, None, self.value);
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

/// I || u32str(number) || u16str(what).
pub fn prefix(id: &[u8; 16], number: u32, what: u16) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    prefix[..16].copy_from_slice(id);
    prefix[16..20].copy_from_slice(&number.to_be_bytes());
    prefix[20..].copy_from_slice(&what.to_be_bytes());
    prefix
}

/// Leaves that the other kernels work on together: they fill all lanes, and where w is 1 their 4240 chains are
/// 133 KiB of values and 300 KiB of descriptions.
const LEAVES_MAX: usize = 16;

/// Works leaves out by the kernels for chains and hashes.
pub fn leaves<K: Kernels + ?Sized>(kernels: &K, job: &mut LmsLeaves<'_>) {
    let LmsLeaves { family, id, seed, w, chains, first, base, .. } = *job;
    let (n, steps) = (seed.len(), (1 << w) - 1);
    let groups = job.output.chunks_mut(LEAVES_MAX * n);
    for (first, output) in (first..).step_by(LEAVES_MAX).zip(groups) {
        crate::ct::resize(job.room, output.len() * (chains + 1), 0);
        let (values, keys) = job.room.split_at_mut(output.len() * chains);
        let leaves = (first..).zip(values.chunks_exact_mut(chains * n));
        let jobs = leaves.flat_map(|(q, values)| {
            (0..).zip(values.chunks_exact_mut(n)).map(move |(i, value)| {
                let prefix = prefix(id, q, i);
                LmsChain { family, prefix, seed: Some(seed), start: 0, steps, value }
            })
        });
        kernels.lms_chain_many(&mut jobs.collect::<Vec<_>>());
        let leaves = (first..).zip(values.chunks_exact(chains * n)).zip(keys.chunks_exact_mut(n));
        let jobs = leaves.map(|((q, input), output)| {
            let prefix = prefix(id, q, D_PBLC);
            LmsHash { family, prefix, input, output }
        });
        kernels.lms_hash_many(&mut jobs.collect::<Vec<_>>());
        let leaves = (first..).zip(keys.chunks_exact(n)).zip(output.chunks_exact_mut(n));
        let jobs = leaves.map(|((q, input), output)| {
            let prefix = prefix(id, base + q, D_LEAF);
            LmsHash { family, prefix, input, output }
        });
        kernels.lms_hash_many(&mut jobs.collect::<Vec<_>>());
        crate::ct::wipe(job.room);
    }
}

/// Runs every chain without vector lanes: SHA-256 one after the other, SHAKE256 as sponges.
pub fn chains<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [LmsChain<'_>]) {
    LmsChain::assert_all(jobs);
    match jobs.first().map(|job| job.family) {
        Some(LmsFamily::Sha256) => jobs.iter_mut().for_each(LmsChain::run_sha256),
        Some(LmsFamily::Shake256) => sponge_chains(kernels, jobs),
        None => {}
    }
}

/// Runs every hash without vector lanes.
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
    let secrets = jobs.iter_mut().filter_map(|job| {
        let input = [&job.prefix[..], &[OF_SECRET], job.seed?];
        Some(Sponge::new(Xof::Shake256, input, &mut *job.value))
    });
    let mut secrets: Vec<_> = secrets.collect();
    if !secrets.is_empty() {
        kernels.sponge_many(&mut secrets);
    }
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
