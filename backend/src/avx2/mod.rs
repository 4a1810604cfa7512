//! Kernels for processors with AVX2: Intel since Haswell, AMD since Excavator.
//!
//! ```text
//!   Avx2 : Kernels              a token that only detection makes
//!      |-- sponge               the scheduler of crate::sponge over four lanes
//!      |     `-- keccak         Keccak-f[1600] on four states
//!      |-- slh                  chains and tree hashes of SLH-DSA
//!      |     |-- slh_shake      on keccak
//!      |     `-- sha_ni         SHA-256 by its own instructions, where there are some
//!      `-- registers            loads, stores, clearing
//! ```
//!
//! No branch, index, loop bound or division depends on a secret; tables are permutations within
//! registers. The `_vartime` functions depend on which candidates were rejected, and on nothing
//! else. Every kernel that meets a secret clears all vector registers before it returns
//! and zeros what it kept on its stack; what the compiler spills there by itself is not covered.

use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

use crate::portable::Portable;

mod keccak;
mod registers;
mod slh;
mod slh_shake;
mod sponge;

/// The AVX2 instruction set. Having one is the proof that this processor has it.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The token, if this processor and its operating system support what the kernels are
    /// compiled for.
    pub fn detect() -> Option<Self> {
        // The one list: every `target_feature` in this module names these sets, and nothing else.
        let supported = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        supported.then_some(Avx2(()))
    }
}

impl Kernels for Avx2 {
    fn name(&self) -> &'static str {
        "avx2"
    }

    fn lanes(&self) -> usize {
        4
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { sponge::sponge_many(*self, jobs) }
    }

    fn kem_rej_uniform_vartime(&self, bytes: &[u8], out: &mut KemPoly) -> usize {
        Portable.kem_rej_uniform_vartime(bytes, out)
    }

    fn kem_cbd(&self, eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
        Portable.kem_cbd(eta, bytes, out)
    }

    fn kem_ntt(&self, polys: &mut [KemPoly]) {
        Portable.kem_ntt(polys)
    }

    fn kem_inv_ntt(&self, polys: &mut [KemPoly]) {
        Portable.kem_inv_ntt(polys)
    }

    fn kem_matvec(&self, out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
        Portable.kem_matvec(out, a, v)
    }

    fn kem_to_mont(&self, polys: &mut [KemPoly]) {
        Portable.kem_to_mont(polys)
    }

    fn kem_add(&self, acc: &mut [KemPoly], b: &[KemPoly]) {
        Portable.kem_add(acc, b)
    }

    fn kem_sub_from(&self, a: &KemPoly, acc: &mut KemPoly) {
        Portable.kem_sub_from(a, acc)
    }

    fn kem_encode12(&self, polys: &[KemPoly], out: &mut [u8]) {
        Portable.kem_encode12(polys, out)
    }

    fn kem_decode12(&self, bytes: &[u8], out: &mut [KemPoly]) -> bool {
        Portable.kem_decode12(bytes, out)
    }

    fn kem_compress(&self, d: usize, polys: &[KemPoly], out: &mut [u8]) {
        Portable.kem_compress(d, polys, out)
    }

    fn kem_decompress(&self, d: usize, bytes: &[u8], out: &mut [KemPoly]) {
        Portable.kem_decompress(d, bytes, out)
    }

    fn dsa_rej_uniform_vartime(&self, bytes: &[u8], out: &mut DsaPoly) -> usize {
        Portable.dsa_rej_uniform_vartime(bytes, out)
    }

    fn dsa_rej_bounded_vartime(&self, eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
        Portable.dsa_rej_bounded_vartime(eta, bytes, out)
    }

    fn dsa_ntt(&self, polys: &mut [DsaPoly]) {
        Portable.dsa_ntt(polys)
    }

    fn dsa_inv_ntt(&self, polys: &mut [DsaPoly]) {
        Portable.dsa_inv_ntt(polys)
    }

    fn dsa_matvec(&self, out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
        Portable.dsa_matvec(out, a, v)
    }

    fn dsa_pointwise(&self, out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
        Portable.dsa_pointwise(out, c, v)
    }

    fn dsa_add(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        Portable.dsa_add(acc, b)
    }

    fn dsa_sub(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        Portable.dsa_sub(acc, b)
    }

    fn dsa_add_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        Portable.dsa_add_small(acc, s)
    }

    fn dsa_sub_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        Portable.dsa_sub_small(acc, s)
    }

    fn dsa_shift_left_d(&self, polys: &mut [DsaPoly]) {
        Portable.dsa_shift_left_d(polys)
    }

    fn dsa_power2round(&self, t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly) {
        Portable.dsa_power2round(t, t1, t0)
    }

    fn dsa_decompose(&self, gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
        Portable.dsa_decompose(gamma2, r, r1, r0)
    }

    fn dsa_make_hint(&self, gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize {
        Portable.dsa_make_hint(gamma2, r0, r1, hint)
    }

    fn dsa_use_hint(&self, gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
        Portable.dsa_use_hint(gamma2, hint, r, out)
    }

    fn dsa_norm_below(&self, polys: &[DsaPoly], bound: i32) -> bool {
        Portable.dsa_norm_below(polys, bound)
    }

    fn dsa_simple_bit_pack(&self, bits: usize, p: &DsaPoly, out: &mut [u8]) {
        Portable.dsa_simple_bit_pack(bits, p, out)
    }

    fn dsa_simple_bit_unpack(&self, bits: usize, bytes: &[u8], out: &mut DsaPoly) {
        Portable.dsa_simple_bit_unpack(bits, bytes, out)
    }

    fn dsa_bit_pack(&self, bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
        Portable.dsa_bit_pack(bits, b, p, out)
    }

    fn dsa_bit_unpack(&self, bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
        Portable.dsa_bit_unpack(bits, b, bytes, out)
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::chain_many(*self, jobs) }
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        // SAFETY: `self` proves that the processor supports the kernel's features.
        unsafe { slh::hash_many(*self, jobs) }
    }
}
