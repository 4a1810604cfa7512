//! Kernels for processors with AVX2: Intel since Haswell, AMD since Excavator.
//!
//! ```text
//!   Avx2 : Kernels              a token that only detection makes
//!      |-- sponge               the scheduler of crate::sponge over four lanes
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
//!      |     |-- sha512         four messages side by side, of Ed25519 too
//!      |     |-- sha_ni         SHA-256 by its own instructions, where there are some
//!      |     `-- slh_sha256     where there are none, on sha256: eight messages side by side
//!      `-- registers            loads, stores, clearing
//! ```
//!
//! No branch, index, loop bound or division depends on a secret; tables are permutations within
//! registers. The `_vartime` functions depend on which candidates were rejected, and on nothing
//! else. Every kernel that meets a secret clears all vector registers before it returns
//! and zeros what it kept on its stack; what the compiler spills there by itself is not covered.

use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

use crate::sha_ni;

mod compiled;
mod dsa_ntt;
mod dsa_pack;
mod dsa_round;
mod keccak;
mod keccak_one;
mod kem_ntt;
mod kem_pack;
mod pack;
mod registers;
mod sha2;
mod sha256;
mod sha512;
mod shuffle;
mod slh;
mod slh_sha256;
mod slh_shake;
mod sponge;

/// The AVX2 instruction set, with the SHA extensions where they are. Having one is the proof that this
/// processor has them.
#[derive(Clone, Copy, Debug)]
pub struct Avx2 {
    sha: Option<sha_ni::Plain>,
}

impl Avx2 {
    /// The token, if this processor and its operating system support what the kernels are
    /// compiled for.
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

    fn kem_rej_uniform_vartime(&self, bytes: &[u8], out: &mut KemPoly) -> usize {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_pack::rej_uniform_vartime(bytes, out) }
    }

    fn kem_cbd(&self, eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_pack::cbd(eta, bytes, out) }
    }

    fn kem_ntt(&self, polys: &mut [KemPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_ntt::ntt(polys) }
    }

    fn kem_inv_ntt(&self, polys: &mut [KemPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_ntt::inv_ntt(polys) }
    }

    fn kem_matvec(&self, out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_ntt::matvec(out, a, v) }
    }

    fn kem_to_mont(&self, polys: &mut [KemPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { polys.iter_mut().for_each(|p| compiled::kem_to_mont(p)) }
    }

    fn kem_add(&self, acc: &mut [KemPoly], b: &[KemPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::kem_add(acc, b) }
    }

    fn kem_sub_from(&self, a: &KemPoly, acc: &mut KemPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::kem_sub_from(a, acc) }
    }

    fn kem_encode12(&self, polys: &[KemPoly], out: &mut [u8]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_pack::encode12(polys, out) }
    }

    fn kem_decode12(&self, bytes: &[u8], out: &mut [KemPoly]) -> bool {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_pack::decode12(bytes, out) }
    }

    fn kem_compress(&self, d: usize, polys: &[KemPoly], out: &mut [u8]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_pack::compress(d, polys, out) }
    }

    fn kem_decompress(&self, d: usize, bytes: &[u8], out: &mut [KemPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { kem_pack::decompress(d, bytes, out) }
    }

    fn dsa_rej_uniform_vartime(&self, bytes: &[u8], out: &mut DsaPoly) -> usize {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_pack::rej_uniform_vartime(bytes, out) }
    }

    fn dsa_rej_bounded_vartime(&self, eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_pack::rej_bounded_vartime(eta, bytes, out) }
    }

    fn dsa_ntt(&self, polys: &mut [DsaPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_ntt::ntt(polys) }
    }

    fn dsa_inv_ntt(&self, polys: &mut [DsaPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_ntt::inv_ntt(polys) }
    }

    fn dsa_matvec(&self, out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_ntt::matvec(out, a, v) }
    }

    fn dsa_pointwise(&self, out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_ntt::pointwise(out, c, v) }
    }

    fn dsa_add(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::dsa_add(acc, b) }
    }

    fn dsa_sub(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::dsa_sub(acc, b) }
    }

    fn dsa_add_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_round::add_small(acc, s) }
    }

    fn dsa_sub_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_round::sub_small(acc, s) }
    }

    fn dsa_shift_left_d(&self, polys: &mut [DsaPoly]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { polys.iter_mut().for_each(|p| compiled::dsa_shift_left_d(p)) }
    }

    fn dsa_power2round(&self, t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::dsa_power2round(t, t1, t0) }
    }

    fn dsa_decompose(&self, gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::dsa_decompose(gamma2, r, r1, r0) }
    }

    fn dsa_make_hint(&self, gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::dsa_make_hint(gamma2, r0, r1, hint) }
    }

    fn dsa_use_hint(&self, gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { compiled::dsa_use_hint(gamma2, hint, r, out) }
    }

    fn dsa_norm_below(&self, polys: &[DsaPoly], bound: i32) -> bool {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_round::norm_below(polys, bound) }
    }

    fn dsa_simple_bit_pack(&self, bits: usize, p: &DsaPoly, out: &mut [u8]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_pack::simple_bit_pack(bits, p, out) }
    }

    fn dsa_simple_bit_unpack(&self, bits: usize, bytes: &[u8], out: &mut DsaPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_pack::simple_bit_unpack(bits, bytes, out) }
    }

    fn dsa_bit_pack(&self, bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_pack::bit_pack(bits, b, p, out) }
    }

    fn dsa_bit_unpack(&self, bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { dsa_pack::bit_unpack(bits, b, bytes, out) }
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::chain_many(*self, jobs) }
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::hash_many(*self, jobs) }
    }

    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sha512::hash_whole(jobs) }
    }
}
