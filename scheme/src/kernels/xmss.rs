//! The part of the seam that XMSS and XMSS^MT (RFC 8391, SP 800-208) use: chains and hashes of trees,
//! many at a time.
//!
//! ```text
//!   hash(x, key, message) = hash function of toByte(x, padding) || key || message, n bytes of it
//!
//!   chain    F     0   PRF(address, 0)   value ^ PRF(address, 1)
//!   hash     H     1   PRF(address, 0)   left ^ PRF(address, 1) || right ^ PRF(address, 2)
//!            PRF   3   SEED              address with its last word
//!   secret         4   secret seed       SEED || address
//! ```
//!
//! Key and masks of a step depend on its address alone. The jobs are independent of each other; an
//! instruction set runs as many side by side as it has lanes, and puts the next chain into a lane whose chain
//! has ended.
//!
//! # Contract
//! - The jobs of one call are of one [`XmssFamily`] and one n. Their contexts may differ.
//! - SHA-256 and SHAKE256 have n of 24 and 32, SHAKE256 also 64, SHAKE128 has 32, and SHA-512 has 64.
//! - `start + steps` of a chain is at most [`STEPS_MAX`].
//! - Time depends on lengths and on `start` and `steps` of the jobs, never on hashed bytes.

use sha2::block_api::compress256;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::slh::SHA256_START;
use crate::ct;

/// Steps of a whole chain: w - 1, where w is 16 in every set.
pub const STEPS_MAX: u32 = 15;
/// Most bytes of a hash value.
pub const N_MAX: usize = 64;

/// The number that precedes a message and separates the functions by domain (RFC 8391, section 5.1;
/// SP 800-208, section 5).
pub mod domain {
    /// A step of a chain.
    pub const F: usize = 0;
    /// A node of a tree.
    pub const H: usize = 1;
    /// The digest of a message.
    pub const H_MSG: usize = 2;
    /// Keys and masks.
    pub const PRF: usize = 3;
    /// The secrets that chains begin with.
    pub const PRF_KEYGEN: usize = 4;
}

/// The types of addresses (RFC 8391, section 2.5).
pub mod address_type {
    /// A chain of a one-time signature.
    pub const OTS: u32 = 0;
    /// The tree that compresses a one-time public key.
    pub const L_TREE: u32 = 1;
    /// A node of the tree of leaves.
    pub const TREE: u32 = 2;
}

/// The hash functions behind a parameter set (RFC 8391, section 5.1; SP 800-208, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XmssFamily {
    /// SHA-256, cut to n bytes.
    Sha256,
    /// SHA-512.
    Sha512,
    /// SHAKE128 with n bytes of output.
    Shake128,
    /// SHAKE256 with n bytes of output.
    Shake256,
}

impl XmssFamily {
    /// Returns whether there are sets with this n.
    pub const fn has(self, n: usize) -> bool {
        match self {
            XmssFamily::Sha256 => n == 24 || n == 32,
            XmssFamily::Sha512 => n == 64,
            XmssFamily::Shake128 => n == 32,
            XmssFamily::Shake256 => n == 24 || n == 32 || n == 64,
        }
    }
}

/// `toByte(x, padding)` for each function of [`domain`]: as many bytes as n, but four where n is 24.
pub fn prefix(domain: usize, n: usize) -> &'static [u8] {
    const PREFIXES: [[u8; N_MAX]; 5] = {
        let mut prefixes = [[0; N_MAX]; 5];
        let mut x = 0;
        while x < 5 {
            prefixes[x][N_MAX - 1] = x as u8;
            x += 1;
        }
        prefixes
    };
    static ALL: [[u8; N_MAX]; 5] = PREFIXES;
    let padding = if n == 24 { 4 } else { n };
    &ALL[domain][N_MAX - padding..]
}

/// The common prefix of all hashes of one key. Public: it holds SEED only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmssContext {
    /// The hash functions.
    pub family: XmssFamily,
    /// Bytes of a hash value.
    pub n: usize,
    /// SEED in the first n bytes, zeros behind.
    pub seed: [u8; N_MAX],
    /// The state of SHA-256 that PRF starts from: after the block toByte(3, 32) || SEED where n is 32.
    pub prf: [u32; 8],
}

impl XmssContext {
    /// Returns the common prefix of the hashes of the key with this SEED.
    ///
    /// # Panics
    /// If no set of the family has n = `seed.len()`.
    pub fn new(family: XmssFamily, seed: &[u8]) -> Self {
        let n = seed.len();
        assert!(family.has(n), "a set of the family has this n");
        let mut context = XmssContext { family, n, seed: [0; N_MAX], prf: SHA256_START };
        context.seed[..n].copy_from_slice(seed);
        take_key(&mut context.prf, family, domain::PRF, seed);
        context
    }

    /// SEED.
    pub fn seed(&self) -> &[u8] {
        &self.seed[..self.n]
    }
}

/// Advances a state of SHA-256 from its start over toByte(x, 32) || key, if n is 32.
fn take_key(state: &mut [u32; 8], family: XmssFamily, domain: usize, key: &[u8]) {
    if (family, key.len()) != (XmssFamily::Sha256, 32) {
        return;
    }
    let mut block = [0u8; 64];
    block[..32].copy_from_slice(prefix(domain, 32));
    block[32..].copy_from_slice(key);
    compress256(state, core::slice::from_ref(&block));
    ct::wipe(&mut block);
}

/// A secret that a hash is keyed with: the seed that the secrets of all chains come from, S_XMSS, or that of
/// randomizers, SK_PRF (SP 800-208, section 6.2). Wiped when dropped.
///
/// The seed is boxed, because moving a value does not wipe its old location.
pub struct XmssSecretSeed(Box<Seed>);

#[derive(Zeroize, ZeroizeOnDrop)]
struct Seed {
    bytes: [u8; 32],
    n: usize,
    state: [u32; 8],
}

impl XmssSecretSeed {
    /// Copies the bytes of S_XMSS, 24 or 32, of a family of SP 800-208: the key of PRF_keygen.
    ///
    /// # Panics
    /// If the length differs.
    pub fn new(family: XmssFamily, seed: &[u8]) -> Self {
        Self::of(family, domain::PRF_KEYGEN, seed)
    }

    /// Copies the bytes of SK_PRF: the key of PRF.
    ///
    /// # Panics
    /// See [`XmssSecretSeed::new`].
    pub fn for_randomizers(family: XmssFamily, seed: &[u8]) -> Self {
        Self::of(family, domain::PRF, seed)
    }

    fn of(family: XmssFamily, domain: usize, seed: &[u8]) -> Self {
        let n = seed.len();
        assert!(family.has(n) && n <= 32, "a seed of a set of SP 800-208");
        let mut all = Box::new(Seed { bytes: [0; 32], n, state: SHA256_START });
        all.bytes[..n].copy_from_slice(seed);
        take_key(&mut all.state, family, domain, seed);
        XmssSecretSeed(all)
    }

    /// The n bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes[..self.0.n]
    }

    /// The state of SHA-256 after the block of the function's number and them, where n is 32.
    pub fn state(&self) -> &[u32; 8] {
        &self.0.state
    }
}

/// An address ADRS (RFC 8391, section 2.5), word by word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XmssAddress(pub [u32; 8]);

impl XmssAddress {
    /// The word with the number of the one-time key, or of the tree that compresses it.
    pub const KEY_PAIR: usize = 4;
    /// The word with the number of the chain, or the height of a node.
    pub const CHAIN: usize = 5;
    /// The word with the number of a step, or the place of a node at its height.
    pub const HASH: usize = 6;
    /// The word that tells key and masks from each other.
    pub const KEY_AND_MASK: usize = 7;

    /// An address of a layer, a tree and a type, all else zero.
    #[inline]
    pub fn new(layer: u32, tree: u64, kind: u32) -> Self {
        XmssAddress([layer, (tree >> 32) as u32, tree as u32, kind, 0, 0, 0, 0])
    }

    /// Returns the address with another value of a word.
    #[inline]
    pub fn with(mut self, word: usize, value: u32) -> Self {
        self.0[word] = value;
        self
    }

    /// The 32 bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_be_bytes();
        }
        bytes
    }
}

/// One chain of a one-time signature (RFC 8391, Algorithm 2).
///
/// For j in `start..start + steps`, `value` becomes F(PRF(address with j and 0), value ^ PRF(address with j
/// and 1)).
pub struct XmssChain<'a> {
    /// The key's part.
    pub context: &'a XmssContext,
    /// The address; its last two words are set by the kernel.
    pub address: XmssAddress,
    /// The first step.
    pub start: u32,
    /// The number of steps.
    pub steps: u32,
    /// n bytes, replaced.
    pub value: &'a mut [u8],
}

/// One node of a tree: RAND_HASH (RFC 8391, Algorithm 7).
pub struct XmssHash<'a> {
    /// The key's part.
    pub context: &'a XmssContext,
    /// The address; its last word is set by the kernel.
    pub address: XmssAddress,
    /// The node's children side by side, 2n bytes.
    pub input: &'a [u8],
    /// n bytes.
    pub output: &'a mut [u8],
}

/// The secret that a chain begins with: PRF_keygen(secret seed, SEED || address) (SP 800-208).
pub struct XmssSecret<'a> {
    /// The key's part.
    pub context: &'a XmssContext,
    /// The secret seed.
    pub seed: &'a XmssSecretSeed,
    /// The address of the chain, whose last two words are zero.
    pub address: XmssAddress,
    /// n bytes.
    pub output: &'a mut [u8],
}

/// Asserts that the jobs of one call fulfil the contract, by their contexts and checks.
fn assert_alike<T>(jobs: &[T], of: impl Fn(&T) -> (&XmssContext, bool)) {
    let Some(XmssContext { family, n, .. }) = jobs.first().map(|job| of(job).0) else {
        return;
    };
    assert!(family.has(*n), "a set of the family has this n");
    for job in jobs {
        let (context, fits) = of(job);
        assert!(
            (context.family, context.n) == (*family, *n) && fits,
            "a job that does not fit the first, its lengths, or the steps of a chain"
        );
    }
}

impl XmssChain<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several families or n, a value has not n bytes, or a chain goes beyond its last
    /// step.
    pub fn assert_all(jobs: &[XmssChain<'_>]) {
        assert_alike(jobs, |job| {
            let ends = job.start.checked_add(job.steps).is_some_and(|end| end <= STEPS_MAX);
            (job.context, ends && job.value.len() == job.context.n)
        });
    }
}

impl XmssHash<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several families or n, or an input has not 2n bytes, or an output n.
    pub fn assert_all(jobs: &[XmssHash<'_>]) {
        assert_alike(jobs, |job| {
            let n = job.context.n;
            (job.context, job.input.len() == 2 * n && job.output.len() == n)
        });
    }
}

impl XmssSecret<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several families or n, or a secret seed or an output has not n bytes.
    pub fn assert_all(jobs: &[XmssSecret<'_>]) {
        assert_alike(jobs, |job| {
            let n = job.context.n;
            (job.context, job.seed.bytes().len() == n && job.output.len() == n)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_prefix_length_follows_the_hash() {
        for (n, length) in [(24, 4), (32, 32), (64, 64)] {
            for x in 0..5 {
                let bytes = prefix(x, n);
                assert_eq!(bytes.len(), length);
                assert!(bytes[..length - 1].iter().all(|&byte| byte == 0));
                assert_eq!(usize::from(bytes[length - 1]), x);
            }
        }
    }

    #[test]
    fn an_address_is_laid_out_as_the_standard_says() {
        let address = XmssAddress::new(1, 2 << 32 | 3, 4);
        let address = (4..8).fold(address, |address, word| address.with(word, 1 + word as u32));
        let want: Vec<u8> = (1..=8u32).flat_map(u32::to_be_bytes).collect();
        assert_eq!(address.bytes()[..], want);
    }
}
