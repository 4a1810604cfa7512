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
    /// What G gave, 64 bytes an operation.
    pub pairs: u64,
    /// K-bar, 32 bytes an operation.
    pub rejected: u64,
    /// A-hat, k^2 polynomials of 512 bytes an operation.
    pub matrix: u64,
    /// s, y or u, k polynomials an operation.
    pub hat: u64,
    /// e, k polynomials an operation.
    pub noise: u64,
    /// What short polynomials are sampled from, 2 k + 1 times 64 eta_1 bytes an operation.
    pub prf: u64,
    /// The address of each operation's resident key; 0 if there are none.
    pub keys: u64,
    /// Whether the key passed its checks, a word an operation.
    pub valid: u64,
    /// Status words.
    pub status: u64,
    /// Bytes from one encapsulation key to the next, or from the begin of a resident key to it.
    pub ek_stride: u32,
    /// Operations.
    pub n: u32,
    /// What the status words carry besides the verdict: the low 24 bits.
    pub generation: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: sixteen words of eight bytes and four of four bytes, without padding.
unsafe impl Arguments for KemArguments {}

/// `DsaArguments` of `kernels/ml_dsa.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DsaArguments {
    /// Public keys.
    pub pk: u64,
    /// Signatures.
    pub sig: u64,
    /// Formatted messages M'.
    pub messages: u64,
    /// Of each operation where its M' begins in `messages`, and its length; all ones if mu is given.
    pub spans: u64,
    /// Representatives, 64 bytes an operation.
    pub mu: u64,
    /// SampleInBall's bytes, 136 an operation.
    pub stream: u64,
    /// A-hat, k l polynomials of 1024 bytes an operation.
    pub matrix: u64,
    /// z, c and t1, l + 1 + k polynomials an operation.
    pub vectors: u64,
    /// w1', encoded.
    pub w1: u64,
    /// Zero if a check failed, a word an operation.
    pub valid: u64,
    /// Status words.
    pub status: u64,
    /// Operations.
    pub n: u32,
    /// What the status words carry besides the verdict: the low 24 bits.
    pub generation: u32,
}

// SAFETY: eleven words of eight bytes and two of four bytes, without padding.
unsafe impl Arguments for DsaArguments {}

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
