//! The part of the seam that SLH-DSA (FIPS 205) uses: tweakable hashes, many at a time.
//!
//! Nearly all the work of SLH-DSA is chains of F (section 5) and hashes of tree nodes. Both come
//! here as lists of independent jobs; an instruction set runs as many side by side as it has lanes,
//! and puts the next job into a lane whose chain has ended.
//!
//! # Contract
//! - The jobs of one call are of one parameter set: one [`SlhFamily`] and one n. Their keys may
//!   differ.
//! - Time depends on the lengths and on `start` and `steps` of the jobs, never on hashed bytes.

use zeroize::Zeroize;

/// The hash functions behind a parameter set (FIPS 205, sections 11.1 and 11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlhFamily {
    /// SHAKE256 for everything.
    Shake,
    /// SHA-256, and SHA-512 for H and T_l where n is above 16.
    Sha2,
}

/// What every hash of one key begins with. Public: it holds PK.seed only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlhContext {
    /// The hash functions.
    pub family: SlhFamily,
    /// Bytes of a hash value: 16, 24 or 32.
    pub n: usize,
    /// PK.seed in the first n bytes, zeros behind.
    pub pk_seed: [u8; 32],
    /// The state of SHA-256 after the block `PK.seed || 0^(64 - n)`.
    pub sha256: [u32; 8],
    /// The state of SHA-512 after the block `PK.seed || 0^(128 - n)`.
    pub sha512: [u64; 8],
}

/// An address ADRS (FIPS 205, section 4.2): 32 bytes, as the standard lays them out. A kernel of the
/// SHA-2 family compresses it to 22 bytes (section 11.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Zeroize)]
pub struct SlhAddress(pub [u8; 32]);

impl SlhAddress {
    /// Where the type word begins.
    pub const TYPE: usize = 16;
    /// Where the hash address (WOTS+) or the tree index (FORS) begins.
    pub const HASH: usize = 28;
}

/// One chain of F (Algorithm 5, chain), with the secret it begins with where there is one.
///
/// With `sk_seed`, `value` first becomes PRF(PK.seed, SK.seed, address), where the address has type
/// WOTS_PRF and hash address 0 if `address` is of type WOTS_HASH, and type FORS_PRF and the tree
/// index `start` if it is of type FORS_TREE. Then, for j in `start..start + steps`, `value` becomes
/// F(PK.seed, address with hash address j, value). A FORS leaf is a chain of one step.
pub struct SlhChain<'a> {
    /// The key's part.
    pub context: &'a SlhContext,
    /// The address; its hash address is set by the kernel.
    pub address: SlhAddress,
    /// SK.seed (n bytes), where the chain begins with its secret.
    pub sk_seed: Option<&'a [u8]>,
    /// The first hash address.
    pub start: u32,
    /// How many times F is applied.
    pub steps: u32,
    /// n bytes, replaced.
    pub value: &'a mut [u8],
}

/// One tweakable hash of a tree: H (input of 2n bytes) or T_l (l * n bytes).
pub struct SlhHash<'a> {
    /// The key's part.
    pub context: &'a SlhContext,
    /// The whole address.
    pub address: SlhAddress,
    /// The message.
    pub input: &'a [u8],
    /// n bytes.
    pub output: &'a mut [u8],
}
