//! The kernels' arguments, field by field as in `kernels/*.cuh`. Addresses are the device's.

use crate::device::Arguments;

/// `KemArguments` of `kernels/ml_kem.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KemArguments {
    /// d || z, 64 bytes an operation.
    pub seeds: u64,
    /// Encapsulation keys.
    pub ek: u64,
    /// Decapsulation keys; 0 in key generation if seeds are the keys.
    pub dk: u64,
    /// m, 32 bytes an operation.
    pub message: u64,
    /// Ciphertexts.
    pub ct: u64,
    /// Ciphertexts, encrypted again.
    pub again: u64,
    /// Shared secrets, 32 bytes an operation.
    pub shared: u64,
    /// The output of G, 64 bytes an operation.
    pub pairs: u64,
    /// K-bar, 32 bytes an operation.
    pub rejected: u64,
    /// A-hat, k^2 polynomials of 512 bytes an operation.
    pub matrix: u64,
    /// s, y or u, k polynomials an operation.
    pub hat: u64,
    /// e, k polynomials an operation.
    pub noise: u64,
    /// The bytes that short polynomials are sampled from, 2 k + 1 times 64 eta_1 bytes an
    /// operation.
    pub prf: u64,
    /// The address of each operation's resident key; 0 without resident keys.
    pub keys: u64,
    /// Whether the key passed its checks, a word an operation.
    pub valid: u64,
    /// Status words.
    pub status: u64,
    /// Bytes from one encapsulation key to the next, or from the begin of a resident key to it.
    pub ek_stride: u32,
    /// Operations.
    pub n: u32,
    /// The generation that the status words carry next to the verdict: the low 24 bits.
    pub generation: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: sixteen words of eight bytes and four of four bytes, without padding.
unsafe impl Arguments for KemArguments {}

/// `DsaKeyArguments` of `kernels/ml_dsa_keys.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DsaKeyArguments {
    /// xi, 32 bytes an operation.
    pub seeds: u64,
    /// Public keys.
    pub pk: u64,
    /// Private keys.
    pub sk: u64,
    /// rho', 64 bytes an operation.
    pub rho_prime: u64,
    /// s1 and s2, half a byte a coefficient, l + k polynomials an operation.
    pub halves: u64,
    /// s1-hat, l polynomials of 1024 bytes an operation.
    pub vectors: u64,
    /// The address of each operation's expanded key.
    pub keys: u64,
    /// The number of failed checks, a word an operation.
    pub faults: u64,
    /// Status words.
    pub status: u64,
    /// Operations.
    pub n: u32,
    /// The generation that the status words carry next to the verdict: the low 24 bits.
    pub generation: u32,
    /// Bytes from an expanded key to the encoded one that it is made of; zero: that is in `pk` or `sk`.
    pub encoded_at: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: nine words of eight bytes and four of four bytes, without padding.
unsafe impl Arguments for DsaKeyArguments {}

/// `DsaSignArguments` of `kernels/ml_dsa_sign.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DsaSignArguments {
    /// The address of each operation's expanded private key.
    pub keys: u64,
    /// Formatted messages M', each with zeros up to a multiple of 8 bytes.
    pub messages: u64,
    /// The offset of each operation's M' in `messages`, and its length; all ones if mu is given.
    pub spans: u64,
    /// Representatives, 64 bytes an operation.
    pub mu: u64,
    /// rnd, 32 bytes an operation.
    pub rnd: u64,
    /// rho'', 64 bytes an operation.
    pub rho: u64,
    /// Attempts that failed, a word an operation.
    pub tried: u64,
    /// The queue: `ring_size` words.
    pub ring: u64,
    /// `DsaRound`, 16 bytes for each round and one more; the first is zero.
    pub rounds: u64,
    /// The number of operations that were queued: a word for each round and one more, all zero at
    /// first.
    pub appended: u64,
    /// y and z, encoded, l polynomials an attempt.
    pub y: u64,
    /// y-hat, l polynomials of 1024 bytes an attempt.
    pub y_hat: u64,
    /// w, k polynomials an attempt.
    pub w: u64,
    /// mu and w1, encoded.
    pub commitments: u64,
    /// c~, 64 bytes an attempt.
    pub c_tilde: u64,
    /// c, 64 bytes an attempt.
    pub balls: u64,
    /// c-hat, a polynomial an attempt.
    pub c_hat: u64,
    /// Hints, 32 k bytes an attempt.
    pub hints: u64,
    /// The results of the checks, a word an attempt.
    pub verdicts: u64,
    /// The number of jobs that were done for each attempt of a round, a word each.
    pub done: u64,
    /// Signatures.
    pub sig: u64,
    /// Status words.
    pub status: u64,
    /// Operations.
    pub n: u32,
    /// The generation that the status words carry next to the verdict: the low 24 bits.
    pub generation: u32,
    /// The number of the round.
    pub round: u32,
    /// Attempts of the round, at most.
    pub limit: u32,
    /// Attempts up to which an operation gets several.
    pub target: u32,
    /// Places in the queue.
    pub ring_size: u32,
}

// SAFETY: twenty-two words of eight bytes and six of four bytes, without padding.
unsafe impl Arguments for DsaSignArguments {}

/// `DsaVerifyArguments` of `kernels/ml_dsa_verify.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DsaVerifyArguments {
    /// The address of each operation's expanded public key.
    pub keys: u64,
    /// Signatures.
    pub sig: u64,
    /// Formatted messages M', each with zeros up to a multiple of 8 bytes.
    pub messages: u64,
    /// The offset of each operation's M' in `messages`, and its length; all ones if mu is given.
    pub spans: u64,
    /// Representatives that are given, 64 bytes an operation.
    pub mu: u64,
    /// c, 64 bytes an operation.
    pub balls: u64,
    /// z and c, l + 1 polynomials of 1024 bytes an operation.
    pub vectors: u64,
    /// mu and w1', encoded.
    pub commitments: u64,
    /// Zero if a check failed, a word an operation.
    pub valid: u64,
    /// Status words.
    pub status: u64,
    /// Operations.
    pub n: u32,
    /// The generation that the status words carry next to the verdict: the low 24 bits.
    pub generation: u32,
}

// SAFETY: ten words of eight bytes and two of four bytes, without padding.
unsafe impl Arguments for DsaVerifyArguments {}

/// `SlhArguments` of `kernels/slh_dsa.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SlhArguments {
    /// Keys, `key_stride` bytes an operation.
    pub keys: u64,
    /// opt_rand, n bytes an operation; 0 for the deterministic variant.
    pub opt_rand: u64,
    /// Formatted messages M'.
    pub messages: u64,
    /// The offset of each operation's M' in `messages`, and its length.
    pub spans: u64,
    /// Signatures.
    pub sig: u64,
    /// States of SHA-2, 96 bytes an operation.
    pub context: u64,
    /// The buffers that messages are hashed in, 320 bytes an operation.
    pub room: u64,
    /// Leaves of FORS, tree and leaf, 40 words an operation.
    pub indices: u64,
    /// The FORS key and the root of each layer, d + 1 values an operation.
    pub roots: u64,
    /// Roots of FORS trees, k values an operation.
    pub fors_roots: u64,
    /// Nodes of the trees of a group.
    pub nodes: u64,
    /// Ends of WOTS+ chains.
    pub ends: u64,
    /// Chains of the keys that sign, all sixteen values; 0 for key generation.
    pub table: u64,
    /// The values that the next layer signs, one an operation.
    pub walk: u64,
    /// Status words.
    pub status: u64,
    /// Operations.
    pub n: u32,
    /// The generation that the status words carry next to the verdict: the low 24 bits.
    pub generation: u32,
    /// Key generation, signing or verification: 0, 1 or 2.
    pub task: u32,
    /// The hypertree, FORS, or FORS on the walk: 0, 1 or 2.
    pub kind: u32,
    /// Bytes from one key to the next.
    pub key_stride: u32,
    /// The offset of PK.seed in a key.
    pub pk_offset: u32,
    /// Layers.
    pub d: u32,
    /// Height of a layer's tree.
    pub h_prime: u32,
    /// Height of a FORS tree.
    pub a: u32,
    /// FORS trees.
    pub k: u32,
    /// The first tree of FORS, or layer, of a group.
    pub first: u32,
    /// The number of elements in a group.
    pub count: u32,
    /// The level of the nodes to make.
    pub level: u32,
    /// Operations of a block of the walk, 16 at most.
    pub of_walk: u32,
}

// SAFETY: fifteen words of eight bytes and fourteen of four bytes, without padding.
unsafe impl Arguments for SlhArguments {}

/// `HashArguments` of `kernels/hash.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct HashArguments {
    /// Messages, one after the other.
    pub messages: u64,
    /// Outputs, one after the other.
    pub out: u64,
    /// Bytes of each message.
    pub length: u32,
    /// Messages.
    pub n: u32,
}

// SAFETY: two words of eight bytes and two of four bytes, without padding.
unsafe impl Arguments for HashArguments {}

/// `XmssArguments` of `kernels/xmss.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XmssArguments {
    /// root || SEED of each key; for nodes of two keys, the second one the canary's.
    pub keys: u64,
    /// S_XMSS of both keys, for nodes.
    pub secrets: u64,
    /// Signatures, and messages of H_msg.
    pub input: u64,
    /// `XmssLane` of each signature; 0 for nodes.
    pub lanes: u64,
    /// Two states of SHA-256 for each key.
    pub states: u64,
    /// The values that the next layer signs, 64 bytes a signature.
    pub signed: u64,
    /// Values of chains, `[leaf][chain][n]`.
    pub values: u64,
    /// Nodes, n bytes each.
    pub out: u64,
    /// Status words.
    pub status: u64,
    /// The tree, for nodes.
    pub tree: u64,
    /// The layer; for signatures, the one that is climbed.
    pub layer: u32,
    /// The first leaf, for nodes.
    pub first: u32,
    /// The height of the nodes above the leaves.
    pub low: u32,
    /// The height of the children whose pairs are hashed.
    pub level: u32,
    /// Nodes with the canary's, or signatures.
    pub n: u32,
    /// The generation that the status words carry next to the verdict: the low 24 bits.
    pub generation: u32,
}

// SAFETY: ten words of eight bytes and six of four bytes, without padding.
unsafe impl Arguments for XmssArguments {}

/// `LmsArguments` of `kernels/lms.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct LmsArguments {
    /// I || T\[1\] of each part; for nodes I || SEED of two trees, the second one the canary's.
    pub keys: u64,
    /// Signatures, and messages of digests.
    pub input: u64,
    /// `LmsPart` of each part; 0 for nodes.
    pub parts: u64,
    /// Q and its checksum, 64 bytes a part.
    pub digests: u64,
    /// Values of chains, `[leaf][chain][n]`.
    pub values: u64,
    /// Leaves and nodes, n bytes each.
    pub nodes: u64,
    /// Nodes, n bytes each.
    pub out: u64,
    /// Status words.
    pub status: u64,
    /// Bits of a digit.
    pub w: u32,
    /// Chains: p.
    pub chains: u32,
    /// The shift of the checksum in bits: ls.
    pub shift: u32,
    /// The first leaf, for nodes.
    pub first: u32,
    /// The number of leaf 0 in its tree: 2^h.
    pub base: u32,
    /// The height of the nodes above the leaves.
    pub low: u32,
    /// The height of the children whose pairs are hashed.
    pub level: u32,
    /// Nodes with the canary's, or parts.
    pub n: u32,
    /// The generation that the status words carry next to the verdict: the low 24 bits.
    pub generation: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: eight words of eight bytes and ten of four bytes, without padding.
unsafe impl Arguments for LmsArguments {}
