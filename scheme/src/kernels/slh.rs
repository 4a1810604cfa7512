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

use sha2::block_api::{compress256, compress512};
use zeroize::Zeroize;

/// The types of addresses (FIPS 205, table 1), as they stand in an address.
pub mod address_type {
    /// A WOTS+ chain.
    pub const WOTS_HASH: u32 = 0;
    /// The compression of a WOTS+ public key.
    pub const WOTS_PK: u32 = 1;
    /// A node of an XMSS tree.
    pub const TREE: u32 = 2;
    /// A node of a FORS tree.
    pub const FORS_TREE: u32 = 3;
    /// The compression of the roots of FORS trees.
    pub const FORS_ROOTS: u32 = 4;
    /// The secret that begins a WOTS+ chain.
    pub const WOTS_PRF: u32 = 5;
    /// The secret of a FORS leaf.
    pub const FORS_PRF: u32 = 6;
}

/// The hash functions behind a parameter set (FIPS 205, sections 11.1 and 11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlhFamily {
    /// SHAKE256 for everything.
    Shake,
    /// SHA-256, and SHA-512 for H and T_l where n is above 16.
    Sha2,
}

/// The common prefix of all hashes of one key. Public: it holds PK.seed only.
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

impl SlhContext {
    /// Returns the common prefix of the hashes of the key with this PK.seed.
    ///
    /// # Panics
    /// If n = `pk_seed.len()` is not 16, 24 or 32.
    pub fn new(family: SlhFamily, pk_seed: &[u8]) -> Self {
        let n = pk_seed.len();
        assert!(matches!(n, 16 | 24 | 32), "n is 16, 24 or 32");
        let mut block = [0; 128];
        block[..n].copy_from_slice(pk_seed);
        let mut context =
            SlhContext { family, n, pk_seed: [0; 32], sha256: SHA256_START, sha512: SHA512_START };
        context.pk_seed[..n].copy_from_slice(pk_seed);
        if family == SlhFamily::Sha2 {
            compress256(&mut context.sha256, &block.as_chunks().0[..1]);
            compress512(&mut context.sha512, &[block]);
        }
        context
    }
}

/// The state that SHA-256 starts from (FIPS 180-4, section 5.3.3).
pub const SHA256_START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The state that SHA-512 starts from (FIPS 180-4, section 5.3.5).
pub const SHA512_START: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// An address ADRS (FIPS 205, section 4.2): 32 bytes, as the standard lays them out. A kernel of the
/// SHA-2 family compresses it to 22 bytes (section 11.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Zeroize)]
pub struct SlhAddress(pub [u8; 32]);

impl SlhAddress {
    /// The offset of the type word.
    pub const TYPE: usize = 16;
    /// The offset of the hash address (WOTS+) or the tree index (FORS).
    pub const HASH: usize = 28;

    /// An address of a layer, a tree and a type, all else zero (setLayerAddress, setTreeAddress,
    /// setTypeAndClear; the tree address of every parameter set fits 64 bits).
    #[inline]
    pub fn new(layer: u32, tree: u64, kind: u32) -> Self {
        let mut address = [0; 32];
        address[..4].copy_from_slice(&layer.to_be_bytes());
        address[8..16].copy_from_slice(&tree.to_be_bytes());
        address[16..20].copy_from_slice(&kind.to_be_bytes());
        SlhAddress(address)
    }

    /// Returns the address with another type, and all fields after it zero (setTypeAndClear).
    #[inline]
    pub fn with_type(mut self, kind: u32) -> Self {
        self.0[Self::TYPE..].fill(0);
        self.0[Self::TYPE..Self::TYPE + 4].copy_from_slice(&kind.to_be_bytes());
        self
    }

    /// Returns the address with another key pair address.
    #[inline]
    pub fn with_key_pair(mut self, key_pair: u32) -> Self {
        self.0[20..24].copy_from_slice(&key_pair.to_be_bytes());
        self
    }

    /// Returns the address with another chain address (WOTS+) or tree height.
    #[inline]
    pub fn with_chain(mut self, chain: u32) -> Self {
        self.0[24..28].copy_from_slice(&chain.to_be_bytes());
        self
    }

    /// The type word: one of [`address_type`].
    #[inline]
    pub fn kind(&self) -> u32 {
        let [.., a, b, c, d] = self.0.first_chunk::<{ Self::TYPE + 4 }>().map_or([0; 20], |x| *x);
        u32::from_be_bytes([a, b, c, d])
    }

    /// The hash address or tree index.
    #[inline]
    pub fn hash(&self) -> u32 {
        u32::from_be_bytes(self.0.last_chunk().map_or([0; 4], |x| *x))
    }

    /// Returns the address with another hash address or tree index.
    #[inline]
    pub fn with_hash(mut self, hash: u32) -> Self {
        self.0[Self::HASH..].copy_from_slice(&hash.to_be_bytes());
        self
    }

    /// The address of the secret that begins the chain at this address, as [`SlhChain`] defines it.
    #[inline]
    pub fn of_secret(mut self, start: u32) -> Self {
        let (kind, hash) = match self.kind() {
            address_type::FORS_TREE => (address_type::FORS_PRF, start),
            _ => (address_type::WOTS_PRF, 0),
        };
        self.0[Self::TYPE..Self::TYPE + 4].copy_from_slice(&kind.to_be_bytes());
        self.with_hash(hash)
    }

    /// The compressed address ADRSc of the SHA-2 family (section 11.2): 22 bytes.
    #[inline]
    pub fn compressed(&self) -> [u8; 22] {
        let mut out = [0; 22];
        out[0] = self.0[3];
        out[1..9].copy_from_slice(&self.0[8..16]);
        out[9] = self.0[19];
        out[10..].copy_from_slice(&self.0[20..]);
        out
    }
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
    /// The number of applications of F.
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

impl SlhChain<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several parameter sets, a value or a secret has not n bytes, or an
    /// address is of another type than WOTS_HASH and FORS_TREE.
    pub fn assert_all(jobs: &[SlhChain<'_>]) {
        let Some(SlhContext { family, n, .. }) = jobs.first().map(|job| job.context) else {
            return;
        };
        for job in jobs {
            let kind = job.address.kind();
            assert!(
                (job.context.family, job.context.n) == (*family, *n)
                    && job.value.len() == *n
                    && job.sk_seed.is_none_or(|secret| secret.len() == *n)
                    && (kind == address_type::WOTS_HASH || kind == address_type::FORS_TREE),
                "a chain that does not fit the parameter set of the first"
            );
        }
    }
}

impl SlhHash<'_> {
    /// Holds the jobs of one call to the contract.
    ///
    /// # Panics
    /// If the jobs are of several parameter sets, or an output has not n bytes.
    pub fn assert_all(jobs: &[SlhHash<'_>]) {
        let Some(SlhContext { family, n, .. }) = jobs.first().map(|job| job.context) else {
            return;
        };
        for job in jobs {
            assert!(
                (job.context.family, job.context.n) == (*family, *n) && job.output.len() == *n,
                "a hash that does not fit the parameter set of the first"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_compressed_as_the_standard_says() {
        let address = SlhAddress(std::array::from_fn(|i| i as u8));
        let mut want = vec![3];
        want.extend(8..16);
        want.push(19);
        want.extend(20..32);
        assert_eq!(address.compressed()[..], want);
    }

    #[test]
    fn the_secret_of_a_chain_has_its_own_address() {
        let mut address = SlhAddress([0; 32]);
        address.0[20..].copy_from_slice(&[7; 12]);
        let secret = address.of_secret(9);
        assert_eq!(secret.kind(), address_type::WOTS_PRF);
        assert_eq!(secret.0[20..], [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
        address.0[19] = 3;
        let secret = address.of_secret(9);
        assert_eq!(secret.kind(), address_type::FORS_PRF);
        assert_eq!(secret.0[20..], [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 9]);
    }
}
