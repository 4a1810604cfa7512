//! Kernels for processors with AVX2: Intel since Haswell, AMD since Excavator.
//!
//! ```text
//!   Avx2 : Kernels              a token that only detection makes
//!      |-- sponge               the scheduler of crate::common::sponge over four lanes
//!      |     |-- keccak         Keccak-f[1600] on four states
//!      |     `-- keccak_one     on one, in general registers
//!      |-- kem_ntt, dsa_ntt     transforms and products
//!      |     `-- shuffle        exchanges between registers for layers within one
//!      |-- kem_pack, dsa_pack   sampling, compression, encoding
//!      |     `-- pack           fields of any width to bytes and back
//!      |-- dsa_round            norms, and small products that come from ML-KEM's ring
//!      |-- compiled             what works on each coefficient by itself: the portable code
//!      |-- slh                  chains and tree hashes of SLH-DSA
//!      |     |-- slh_shake      on keccak
//!      |     |-- slh_sha512     on sha512: four messages side by side
//!      |     |-- x86::sha_ni    SHA-256 by its own instructions, where there are some
//!      |     `-- slh_sha256     without them, on sha256: eight messages side by side
//!      |-- lms, xmss            chains and tree hashes of LMS and XMSS, on the same lanes and streams
//!      |-- sha512               whole messages, for Ed25519
//!      `-- registers            loads, stores, clearing
//! ```
//!
//! No branch, index, loop bound or division depends on a secret; tables are permutations within
//! registers. The `_vartime` functions depend on which candidates were rejected, and on nothing
//! else. Every kernel that handles a secret clears all vector registers before it returns and zeros
//! its stack buffers; registers that the compiler spills to the stack are not covered.

use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

use crate::common::hash_based::hash_based_methods;
use crate::common::polynomials::polynomial_methods;
use crate::x86::sha_ni;

mod dsa_ntt;
mod dsa_pack;
mod dsa_round;
mod elementwise;
mod keccak;
mod keccak_one;
mod kem_ntt;
mod kem_pack;
mod lms;
mod pack;
mod registers;
mod sha2;
mod sha256;
mod sha512;
mod shuffle;
mod slh;
mod slh_sha256;
mod slh_sha512;
mod slh_shake;
mod sponge;
mod xmss;

/// The functions behind `Kernels` over polynomials.
mod polynomials {
    pub(super) use super::dsa_ntt::{
        inv_ntt as dsa_inv_ntt, matvec as dsa_matvec, ntt as dsa_ntt, pointwise as dsa_pointwise,
    };
    pub(super) use super::dsa_pack::{
        bit_pack as dsa_bit_pack, bit_unpack as dsa_bit_unpack,
        rej_bounded_vartime as dsa_rej_bounded_vartime,
        rej_uniform_vartime as dsa_rej_uniform_vartime, simple_bit_pack as dsa_simple_bit_pack,
        simple_bit_unpack as dsa_simple_bit_unpack,
    };
    pub(super) use super::dsa_round::{
        add_small as dsa_add_small, norm_below as dsa_norm_below, sub_small as dsa_sub_small,
    };
    pub(super) use super::elementwise::{
        dsa_add, dsa_decompose, dsa_make_hint, dsa_power2round, dsa_shift_left_d, dsa_sub,
        dsa_use_hint, kem_add, kem_sub_from, kem_to_mont,
    };
    pub(super) use super::kem_ntt::{inv_ntt as kem_inv_ntt, matvec as kem_matvec, ntt as kem_ntt};
    pub(super) use super::kem_pack::{
        cbd as kem_cbd, compress as kem_compress, decode12 as kem_decode12,
        decompress as kem_decompress, encode12 as kem_encode12,
        rej_uniform_vartime as kem_rej_uniform_vartime,
    };
}

/// The AVX2 instruction set, with the SHA extensions where they are. Having one is the proof that this
/// processor has them.
#[derive(Clone, Copy, Debug)]
pub struct Avx2 {
    sha: Option<sha_ni::Plain>,
}

impl Avx2 {
    /// Returns the token, if this processor and its operating system support the instructions that
    /// the kernels are compiled for.
    pub fn detect() -> Option<Self> {
        // The one list: every `target_feature` in this module names these sets, and nothing else.
        let supported = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        supported.then(|| Avx2 { sha: sha_ni::Plain::detect() })
    }

    /// The kernels that a processor without the SHA extensions gets.
    pub fn without_sha(self) -> Self {
        Avx2 { sha: None }
    }
}

impl Kernels for Avx2 {
    fn name(&self) -> &'static str {
        // Where checkers run, which choose kernels by their names, both are there (`crate::cpu::cpus`).
        if cfg!(emulated_lanes) && self.sha.is_none() { "avx2-without-sha" } else { "avx2" }
    }

    fn lanes(&self) -> usize {
        4
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sponge::sponge_many(*self, jobs) }
    }

    polynomial_methods!(polynomials);

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::chain_many(*self, jobs) }
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::hash_many(*self, jobs) }
    }

    hash_based_methods!();

    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sha512::hash_whole(jobs) }
    }
}
