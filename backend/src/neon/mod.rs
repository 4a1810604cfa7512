//! Kernels for 64-bit ARM processors, all of which have NEON, and for the extensions that many have.
//!
//! ```text
//!   Neon : Kernels              a token that only detection makes
//!      |-- sponge               the scheduler of crate::common::sponge over two lanes
//!      |     `-- keccak         Keccak-f[1600] on two states, by the SHA3 extension
//!      |-- slh                  chains and tree hashes of SLH-DSA
//!      |     |-- slh_shake      on keccak
//!      |     `-- sha256         SHA-256 by the SHA2 extension
//!      |-- xmss                 chains and tree hashes of XMSS, on the same
//!      |-- sha512               SHA-512 by the extension that comes with SHA3
//!      |-- kem_ntt, dsa_ntt     transforms and products, by the roots of constants
//!      |     `-- shuffle        exchanges between registers for layers within one
//!      |-- kem_pack, dsa_pack   sampling, compression, encoding
//!      |     `-- pack           fields of any width to bytes and back
//!      |-- dsa_round            norms, rounding, small products that come from ML-KEM's ring
//!      `-- registers            loads, stores, clearing
//! ```
//!
//! If an extension is missing, the portable code runs in its place; for sponges, `keccak` gives the
//! reason.
//!
//! These kernels were never timed: they are tested under emulation, and what this module says about
//! speed is counted or published by others.
//!
//! No branch, index, loop bound or division depends on a secret; tables are permutations within
//! registers. The `_vartime` functions depend on which candidates were rejected, and on nothing
//! else. Every kernel that handles a secret clears all vector registers before it returns and zeros
//! its stack buffers; registers that the compiler spills to the stack are not covered.

use std::arch::is_aarch64_feature_detected;

use gabion_scheme::kernels::lms::{LmsChain, LmsFamily, LmsHash, chains, hashes};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::xmss::{XmssChain, XmssFamily, XmssHash, XmssSecret};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge, xmss_of_any};

use crate::common::polynomials::polynomial_methods;
use crate::portable::Portable;

mod constants;
mod dsa_ntt;
mod dsa_pack;
mod dsa_round;
mod keccak;
mod kem_ntt;
mod kem_pack;
mod layers;
mod pack;
mod registers;
mod sha256;
mod sha512;
mod shuffle;
mod slh;
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
        add as dsa_add, add_small as dsa_add_small, decompose as dsa_decompose,
        make_hint as dsa_make_hint, norm_below as dsa_norm_below, power2round as dsa_power2round,
        shift_left_d as dsa_shift_left_d, sub as dsa_sub, sub_small as dsa_sub_small,
        use_hint as dsa_use_hint,
    };
    pub(super) use super::kem_ntt::{
        add as kem_add, inv_ntt as kem_inv_ntt, matvec as kem_matvec, ntt as kem_ntt,
        sub_from as kem_sub_from, to_mont as kem_to_mont,
    };
    pub(super) use super::kem_pack::{
        cbd as kem_cbd, compress as kem_compress, decode12 as kem_decode12,
        decompress as kem_decompress, encode12 as kem_encode12,
        rej_uniform_vartime as kem_rej_uniform_vartime,
    };
}

/// NEON with the extensions that are there. Having one is the proof that this processor has them.
#[derive(Clone, Copy, Debug)]
pub struct Neon {
    sha2: Option<Sha2>,
    sha3: Option<Sha3>,
}

impl Neon {
    /// Returns the token, if this processor and its operating system support the instructions that
    /// the kernels are compiled for.
    pub fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("neon")
            .then(|| Neon { sha2: Sha2::detect(), sha3: Sha3::detect() })
    }

    /// The kernels that a processor without any of the extensions gets.
    pub fn without_extensions(self) -> Self {
        Neon { sha2: None, sha3: None }
    }
}

/// NEON and the SHA2 extension (FEAT_SHA256).
#[derive(Clone, Copy, Debug)]
struct Sha2(());

impl Sha2 {
    fn detect() -> Option<Self> {
        let supported =
            is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("sha2");
        supported.then_some(Sha2(()))
    }
}

/// NEON and the SHA3 extension, with SHA-512 (FEAT_SHA3, FEAT_SHA512).
#[derive(Clone, Copy, Debug)]
struct Sha3(());

impl Sha3 {
    fn detect() -> Option<Self> {
        let supported =
            is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("sha3");
        supported.then_some(Sha3(()))
    }
}

impl Kernels for Neon {
    fn name(&self) -> &'static str {
        "neon"
    }

    fn lanes(&self) -> usize {
        if self.sha3.is_some() { 2 } else { 1 }
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        match self.sha3 {
            // SAFETY: the token proves that the processor supports the kernel's features.
            Some(sha3) => unsafe { sponge::sponge_many(sha3, jobs) },
            None => Portable.sponge_many(jobs),
        }
    }

    polynomial_methods!(polynomials);

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        slh::chain_many(*self, jobs);
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        slh::hash_many(*self, jobs);
    }

    fn lms_chain_many(&self, jobs: &mut [LmsChain<'_>]) {
        match (self.sha2, jobs.first().map(|job| job.family)) {
            // SAFETY: the token proves that the processor has the extension.
            (Some(_), Some(LmsFamily::Sha256)) => unsafe { sha256::chain_many(jobs) },
            _ => chains(self, jobs),
        }
    }

    fn lms_hash_many(&self, jobs: &mut [LmsHash<'_>]) {
        match (self.sha2, jobs.first().map(|job| job.family)) {
            // SAFETY: the token proves that the processor has the extension.
            (Some(_), Some(LmsFamily::Sha256)) => unsafe { sha256::hash_many(jobs) },
            _ => hashes(self, jobs),
        }
    }

    fn xmss_chain_many(&self, jobs: &mut [XmssChain<'_>]) {
        match (self.sha2, jobs.first().map(|job| job.context.family)) {
            (Some(sha2), Some(XmssFamily::Sha256)) => xmss::chain_many(sha2, jobs),
            _ => xmss_of_any::chains(self, jobs),
        }
    }

    fn xmss_hash_many(&self, jobs: &mut [XmssHash<'_>]) {
        match (self.sha2, jobs.first().map(|job| job.context.family)) {
            (Some(sha2), Some(XmssFamily::Sha256)) => xmss::hash_many(sha2, jobs),
            _ => xmss_of_any::hashes(self, jobs),
        }
    }

    fn xmss_secret_many(&self, jobs: &mut [XmssSecret<'_>]) {
        match (self.sha2, jobs.first().map(|job| job.context.family)) {
            (Some(sha2), Some(XmssFamily::Sha256)) => xmss::secret_many(sha2, jobs),
            _ => xmss_of_any::secrets(self, jobs),
        }
    }

    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        match self.sha3 {
            // SAFETY: the token proves that the processor supports the kernel's features.
            Some(_) => unsafe { sha512::hash_whole(jobs) },
            None => Portable.sha512_many(jobs),
        }
    }
}
