//! Kernels for processors with AVX-512: Intel since Ice Lake, AMD since Zen 4.
//!
//! ```text
//!   Avx512 : Kernels            a token that only detection makes
//!      |-- keccak               Keccak-f[1600] on eight, four or one state
//!      |     `-- sponge         the scheduler of crate::common::sponge over eight lanes
//!      |-- sha2
//!      |     |-- sha256_lanes   sixteen lanes: a block into each state, and steps of chains
//!      |     |-- sha256         four streams by the SHA extensions
//!      |     |-- sha512         eight lanes
//!      |     `-- sha512_one     one alone, and two side by side
//!      |-- slh                  chains and tree hashes of SLH-DSA, which choose between these
//!      |     |-- shake          on keccak
//!      |     |-- sha256         on sha256_lanes, where they are quicker than the SHA extensions
//!      |     `-- fors           trees of FORS, a subtree in every lane: on keccak, sha256_lanes and sha512
//!      |-- hbs
//!      |     |-- lms, leaves    chains and tree hashes of LMS, on the same lanes and streams
//!      |     `-- xmss           the same of XMSS, and its secrets
//!      |-- lattice
//!      |     |-- kem_ntt, dsa_ntt     transforms and products: a polynomial stays in registers
//!      |     |     |-- shuffle        exchanges between registers for layers within one
//!      |     |     `-- constants      the order of coefficients and roots, worked out by the compiler
//!      |     |-- dsa_small            small products of ML-DSA that come from ML-KEM's ring
//!      |     |-- kem_sample           polynomials from seeds: keccak and sampling in one
//!      |     |-- kem_pack, dsa_pack   sampling, compression, encoding
//!      |     |     `-- pack           fields of any width to bytes and back
//!      |     `-- dsa_round            rounding, hints, norms
//!      |-- curve25519
//!      |     |-- field25519, edwards                numbers and points, eight side by side
//!      |     |     |-- ed25519, ed25519_vartime     base multiples, verification
//!      |     |     `-- x25519                       exchanges
//!      |     `-- quad25519, edwards_quad_vartime    numbers and points of one operation alone
//!      |           |-- ed25519_one_vartime          verification, with half_size_vartime
//!      |           `-- x25519_one                   an exchange
//!      `-- registers            loads, stores, clearing
//! ```
//!
//! No branch, index, loop bound or division depends on a secret; tables are permutations within
//! registers. The `_vartime` functions depend on which candidates were rejected, and on nothing
//! else. Every kernel that handles a secret clears all vector and mask registers before it returns
//! and zeros its stack buffers; registers that the compiler spills to the stack are not covered.

use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::kem::{KemNoise, KemUniform};
use gabion_scheme::kernels::lms::{LmsFamily, LmsLeaves, leaves};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::slh_fors::SlhForsTree;
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

use crate::common::hash_based::hash_based_methods;
use crate::common::polynomials::polynomial_methods;
use crate::common::sha512::Blocks;
use crate::x86::processor;

mod curve25519;
mod hbs;
mod keccak;
mod lattice;
mod registers;
mod sha2;
mod slh;

use self::sha2::{sha256, sha512, sha512_one};
use curve25519::{ed25519, ed25519_vartime, x25519};
use hbs::{lms, xmss};
use keccak::sponge;
use lattice::kem_sample;

/// The functions behind `Kernels` over polynomials.
mod polynomials {
    pub(super) use super::lattice::dsa_ntt::{
        add as dsa_add, inv_ntt as dsa_inv_ntt, matvec as dsa_matvec, ntt as dsa_ntt,
        pointwise as dsa_pointwise, shift_left_d as dsa_shift_left_d, sub as dsa_sub,
    };
    pub(super) use super::lattice::dsa_pack::{
        bit_pack as dsa_bit_pack, bit_unpack as dsa_bit_unpack,
        rej_bounded_vartime as dsa_rej_bounded_vartime,
        rej_uniform_vartime as dsa_rej_uniform_vartime, simple_bit_pack as dsa_simple_bit_pack,
        simple_bit_unpack as dsa_simple_bit_unpack,
    };
    pub(super) use super::lattice::dsa_round::{
        decompose as dsa_decompose, make_hint as dsa_make_hint, norm_below as dsa_norm_below,
        power2round as dsa_power2round, use_hint as dsa_use_hint,
    };
    pub(super) use super::lattice::dsa_small::{add as dsa_add_small, sub as dsa_sub_small};
    pub(super) use super::lattice::kem_ntt::{
        add as kem_add, inv_ntt as kem_inv_ntt, matvec as kem_matvec, ntt as kem_ntt,
        sub_from as kem_sub_from, to_mont as kem_to_mont,
    };
    pub(super) use super::lattice::kem_pack::{
        cbd as kem_cbd, compress as kem_compress, decode12 as kem_decode12,
        decompress as kem_decompress, encode12 as kem_encode12,
        rej_uniform_vartime as kem_rej_uniform_vartime,
    };
}

/// The AVX-512 instruction set, with the SHA extensions where they are. Having one is the proof that
/// this processor has them.
#[derive(Clone, Copy, Debug)]
pub struct Avx512 {
    isa: Isa,
    streams: Option<sha256::Streams>,
    /// Whether sixteen lanes of SHA-256 run batches that fill them; `streams` run the rest.
    lanes: bool,
}

/// The proof that this processor has AVX-512 and nothing else: it has no size, so that no function gets an
/// argument more for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Isa(());

impl Isa {
    /// Returns the token, if this processor and its operating system support the instructions that
    /// the kernels are compiled for.
    pub(crate) fn detect() -> Option<Self> {
        // The one list: every `target_feature` in this module names these sets (VBMI2 implies BW
        // and F), and nothing else. IFMA is for curves: lattices do better by
        // 32-bit multiplies (see `dsa_ntt`).
        let supported = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        supported.then_some(Isa(()))
    }
}

impl Blocks for Isa {
    fn compress(&self, state: &mut [u64; 8], blocks: &[[u8; 128]]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sha512_one::compress(state, blocks) }
    }

    fn compress_two(&self, states: &mut [[u64; 8]; 2], blocks: [&[u8; 128]; 2]) {
        let [first, second] = blocks;
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sha512_one::compress_two(states, first, second) }
    }
}

impl Avx512 {
    /// Returns the token, if this processor and its operating system support the instructions that
    /// the kernels are compiled for.
    pub fn detect() -> Option<Self> {
        let isa = Isa::detect()?;
        // SAFETY: the processor has AVX-512 and the extensions, as just detected.
        let sha = || unsafe { sha256::Streams::new() };
        let streams = is_x86_feature_detected!("sha").then(sha);
        // Where checkers run, both are there, and which is which is no matter of the processor.
        let lanes =
            !cfg!(emulated_lanes) && processor::lanes_beat_the_sha_extensions(&processor::vendor());
        Some(Avx512 { isa, streams, lanes: lanes || streams.is_none() })
    }

    /// The kernels that a processor without the SHA extensions gets.
    pub fn without_sha(self) -> Self {
        Avx512 { streams: None, lanes: true, ..self }
    }

    /// The kernels of a processor on which lanes of SHA-256 are quicker than the SHA extensions.
    pub fn with_lanes(self) -> Self {
        Avx512 { lanes: true, ..self }
    }

    /// The kernels of one on which they are not, if it has the extensions.
    pub fn without_lanes(self) -> Option<Self> {
        self.streams.map(|_| Avx512 { lanes: false, ..self })
    }
}

impl Kernels for Avx512 {
    fn name(&self) -> &'static str {
        // Where checkers run, which choose kernels by their names, both are there (`crate::cpu::cpus`).
        if cfg!(emulated_lanes) && self.lanes {
            return "avx512-emulated-with-lanes";
        }
        "avx512"
    }

    fn lanes(&self) -> usize {
        8
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sponge::sponge_many(self.isa, jobs) }
    }

    polynomial_methods!(polynomials);

    fn kem_sample_ntt_vartime(&self, jobs: &mut [KemUniform<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_sample::sample_ntt_vartime(jobs) }
    }

    fn kem_sample_cbd(&self, eta: usize, jobs: &mut [KemNoise<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_sample::sample_cbd(eta, jobs) }
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::chain_many(*self, jobs) }
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::hash_many(*self, jobs) }
    }

    fn slh_fors_many(&self, jobs: &mut [SlhForsTree<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::fors_many(jobs) }
    }

    hash_based_methods!();

    fn lms_leaves(&self, job: &mut LmsLeaves<'_>) {
        let done = match job.family {
            // SAFETY: `self` proves that the processor supports the kernel's features.
            LmsFamily::Sha256 if self.lanes => unsafe { hbs::leaves::whole_groups(job) },
            _ => 0,
        };
        leaves(
            self,
            &mut LmsLeaves {
                first: job.first + done as u32,
                output: &mut job.output[done * job.seed.len()..],
                room: &mut *job.room,
                ..*job
            },
        );
    }

    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sha512::hash_whole(jobs) }
    }

    fn ed25519_base_multiples(&self, scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { ed25519::base_multiples(scalars, out) }
        registers::wipe_stack();
    }

    fn ed25519_verify_vartime(
        &self,
        equation: EdEquation,
        jobs: &[EdVerify<'_>],
        verdicts: &mut [bool],
    ) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { ed25519_vartime::verify(equation, jobs, verdicts) }
    }

    fn ed25519_sum_vartime(&self, jobs: &[EdVerify<'_>], z: &[[u8; 16]]) -> bool {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { ed25519_vartime::sum(jobs, z) }
    }

    fn x25519_base_multiples(&self, scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { x25519::base_multiples(scalars, out) }
        registers::wipe_stack();
    }

    fn x25519_multiples(&self, scalars: &[[u8; 32]], points: &[[u8; 32]], out: &mut [[u8; 32]]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { x25519::multiples(scalars, points, out) }
        registers::wipe_stack();
    }
}
