//! Kernels for 64-bit ARM processors, all of which have NEON, and for the extensions that many have.
//!
//! ```text
//!   Neon : Kernels              a token that only detection makes
//!      |-- sponge               the scheduler of crate::sponge over two lanes
//!      |     `-- keccak         Keccak-f[1600] on two states, by the SHA3 extension
//!      |-- slh                  chains and tree hashes of SLH-DSA
//!      |     |-- slh_shake      on keccak
//!      |     `-- sha256         SHA-256 by the SHA2 extension
//!      |-- sha512               SHA-512 by the extension that comes with SHA3
//!      |-- kem_ntt, dsa_ntt     transforms and products, by the roots of constants
//!      |     `-- shuffle        exchanges between registers for layers within one
//!      |-- kem_pack, dsa_pack   sampling, compression, encoding
//!      |     `-- pack           fields of any width to bytes and back
//!      |-- dsa_round            norms, rounding, small products that come from ML-KEM's ring
//!      `-- registers            loads, stores, clearing
//! ```
//!
//! Where an extension is missing, the portable code runs in its place; for sponges see `keccak`, which
//! says why.
//!
//! These kernels were never timed: they are tested under emulation, and what this module says about
//! speed is counted or published by others.
//!
//! No branch, index, loop bound or division depends on a secret; tables are permutations within
//! registers. The `_vartime` functions depend on which candidates were rejected, and on nothing
//! else. Every kernel that meets a secret clears all vector registers before it returns
//! and zeros what it kept on its stack; what the compiler spills there by itself is not covered.

use std::arch::is_aarch64_feature_detected;

use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

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

/// NEON with the extensions that are there. Having one is the proof that this processor has them.
#[derive(Clone, Copy, Debug)]
pub struct Neon {
    sha2: Option<Sha2>,
    sha3: Option<Sha3>,
}

impl Neon {
    /// The token, if this processor and its operating system support what the kernels are
    /// compiled for.
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

    fn kem_rej_uniform_vartime(&self, bytes: &[u8], out: &mut KemPoly) -> usize {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_pack::rej_uniform_vartime(bytes, out) }
    }

    fn kem_cbd(&self, eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_pack::cbd(eta, bytes, out) }
    }

    fn kem_ntt(&self, polys: &mut [KemPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_ntt::ntt(polys) }
    }

    fn kem_inv_ntt(&self, polys: &mut [KemPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_ntt::inv_ntt(polys) }
    }

    fn kem_matvec(&self, out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_ntt::matvec(out, a, v) }
    }

    fn kem_to_mont(&self, polys: &mut [KemPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_ntt::to_mont(polys) }
    }

    fn kem_add(&self, acc: &mut [KemPoly], b: &[KemPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_ntt::add(acc, b) }
    }

    fn kem_sub_from(&self, a: &KemPoly, acc: &mut KemPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_ntt::sub_from(a, acc) }
    }

    fn kem_encode12(&self, polys: &[KemPoly], out: &mut [u8]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_pack::encode12(polys, out) }
    }

    fn kem_decode12(&self, bytes: &[u8], out: &mut [KemPoly]) -> bool {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_pack::decode12(bytes, out) }
    }

    fn kem_compress(&self, d: usize, polys: &[KemPoly], out: &mut [u8]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_pack::compress(d, polys, out) }
    }

    fn kem_decompress(&self, d: usize, bytes: &[u8], out: &mut [KemPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { kem_pack::decompress(d, bytes, out) }
    }

    fn dsa_rej_uniform_vartime(&self, bytes: &[u8], out: &mut DsaPoly) -> usize {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_pack::rej_uniform_vartime(bytes, out) }
    }

    fn dsa_rej_bounded_vartime(&self, eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_pack::rej_bounded_vartime(eta, bytes, out) }
    }

    fn dsa_ntt(&self, polys: &mut [DsaPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_ntt::ntt(polys) }
    }

    fn dsa_inv_ntt(&self, polys: &mut [DsaPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_ntt::inv_ntt(polys) }
    }

    fn dsa_matvec(&self, out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_ntt::matvec(out, a, v) }
    }

    fn dsa_pointwise(&self, out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_ntt::pointwise(out, c, v) }
    }

    fn dsa_add(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::add(acc, b) }
    }

    fn dsa_sub(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::sub(acc, b) }
    }

    fn dsa_add_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::add_small(acc, s) }
    }

    fn dsa_sub_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::sub_small(acc, s) }
    }

    fn dsa_shift_left_d(&self, polys: &mut [DsaPoly]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { polys.iter_mut().for_each(|p| dsa_round::shift_left_d(p)) }
    }

    fn dsa_power2round(&self, t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::power2round(t, t1, t0) }
    }

    fn dsa_decompose(&self, gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::decompose(gamma2, r, r1, r0) }
    }

    fn dsa_make_hint(&self, gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::make_hint(gamma2, r0, r1, hint) }
    }

    fn dsa_use_hint(&self, gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::use_hint(gamma2, hint, r, out) }
    }

    fn dsa_norm_below(&self, polys: &[DsaPoly], bound: i32) -> bool {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_round::norm_below(polys, bound) }
    }

    fn dsa_simple_bit_pack(&self, bits: usize, p: &DsaPoly, out: &mut [u8]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_pack::simple_bit_pack(bits, p, out) }
    }

    fn dsa_simple_bit_unpack(&self, bits: usize, bytes: &[u8], out: &mut DsaPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_pack::simple_bit_unpack(bits, bytes, out) }
    }

    fn dsa_bit_pack(&self, bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_pack::bit_pack(bits, b, p, out) }
    }

    fn dsa_bit_unpack(&self, bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
        // SAFETY: having the token proves that the processor has NEON.
        unsafe { dsa_pack::bit_unpack(bits, b, bytes, out) }
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        slh::chain_many(*self, jobs);
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        slh::hash_many(*self, jobs);
    }

    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        match self.sha3 {
            // SAFETY: the token proves that the processor supports the kernel's features.
            Some(_) => unsafe { sha512::hash_whole(jobs) },
            None => Portable.sha512_many(jobs),
        }
    }
}
