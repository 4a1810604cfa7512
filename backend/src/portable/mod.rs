//! Kernels in safe, portable Rust: what every machine can run, and the oracle of every other
//! backend.
//!
//! ```text
//!   Portable : Kernels
//!      |-- keccak     Keccak-f[1600] and sponges, one at a time
//!      |-- kem        polynomials of ML-KEM  (16-bit Montgomery and Barrett arithmetic)
//!      |-- dsa        polynomials of ML-DSA  (32-bit Montgomery arithmetic)
//!      |-- slh        chains and tree hashes of SLH-DSA, one at a time
//!      `-- bits       packing to any width
//! ```
//!
//! No branch, index, loop bound or division depends on a secret. The three `_vartime` functions
//! depend on which candidates were rejected, and on nothing else.

use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

mod bits;
pub(crate) mod dsa;
mod keccak;
pub(crate) mod kem;
mod slh;

#[cfg(target_arch = "x86_64")]
pub(crate) use slh::sha512_of_tree;

pub use keccak::{ROUND_CONSTANTS, keccak_f1600};

/// The portable instruction set: one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portable;

impl Kernels for Portable {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn lanes(&self) -> usize {
        1
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        jobs.iter_mut().for_each(keccak::run);
    }

    fn kem_rej_uniform_vartime(&self, bytes: &[u8], out: &mut KemPoly) -> usize {
        kem::rej_uniform_vartime(bytes, out)
    }

    fn kem_cbd(&self, eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
        kem::cbd(eta, bytes, out);
    }

    fn kem_ntt(&self, polys: &mut [KemPoly]) {
        polys.iter_mut().for_each(kem::ntt);
    }

    fn kem_inv_ntt(&self, polys: &mut [KemPoly]) {
        polys.iter_mut().for_each(kem::inv_ntt);
    }

    fn kem_matvec(&self, out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
        kem::matvec(out, a, v);
    }

    fn kem_to_mont(&self, polys: &mut [KemPoly]) {
        kem::to_mont(polys);
    }

    fn kem_add(&self, acc: &mut [KemPoly], b: &[KemPoly]) {
        kem::add(acc, b);
    }

    fn kem_sub_from(&self, a: &KemPoly, acc: &mut KemPoly) {
        kem::sub_from(a, acc);
    }

    #[inline(never)] // A separate function, which the scan reads for divisions.
    fn kem_encode12(&self, polys: &[KemPoly], out: &mut [u8]) {
        kem::encode12(polys, out);
    }

    fn kem_decode12(&self, bytes: &[u8], out: &mut [KemPoly]) -> bool {
        kem::decode12(bytes, out)
    }

    fn kem_compress(&self, d: usize, polys: &[KemPoly], out: &mut [u8]) {
        kem::compress(d, polys, out);
    }

    fn kem_decompress(&self, d: usize, bytes: &[u8], out: &mut [KemPoly]) {
        kem::decompress(d, bytes, out);
    }

    fn dsa_rej_uniform_vartime(&self, bytes: &[u8], out: &mut DsaPoly) -> usize {
        dsa::rej_uniform_vartime(bytes, out)
    }

    fn dsa_rej_bounded_vartime(&self, eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
        dsa::rej_bounded_vartime(eta, bytes, out)
    }

    fn dsa_ntt(&self, polys: &mut [DsaPoly]) {
        polys.iter_mut().for_each(dsa::ntt);
    }

    fn dsa_inv_ntt(&self, polys: &mut [DsaPoly]) {
        polys.iter_mut().for_each(dsa::inv_ntt);
    }

    fn dsa_matvec(&self, out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
        dsa::matvec(out, a, v);
    }

    fn dsa_pointwise(&self, out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
        dsa::pointwise(out, c, v);
    }

    fn dsa_add(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        dsa::add(acc, b);
    }

    fn dsa_sub(&self, acc: &mut [DsaPoly], b: &[DsaPoly]) {
        dsa::sub(acc, b);
    }

    fn dsa_shift_left_d(&self, polys: &mut [DsaPoly]) {
        dsa::shift_left_d(polys);
    }

    fn dsa_power2round(&self, t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly) {
        dsa::power2round(t, t1, t0);
    }

    #[inline(never)] // A separate function, which the scan reads for divisions.
    fn dsa_decompose(&self, gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
        dsa::decompose(gamma2, r, r1, r0);
    }

    #[inline(never)] // A separate function, which the scan reads for divisions.
    fn dsa_make_hint(&self, gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize {
        dsa::make_hint(gamma2, r0, r1, hint)
    }

    fn dsa_use_hint(&self, gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
        dsa::use_hint(gamma2, hint, r, out);
    }

    fn dsa_norm_below(&self, polys: &[DsaPoly], bound: i32) -> bool {
        dsa::norm_below(polys, bound)
    }

    fn dsa_simple_bit_pack(&self, bits: usize, p: &DsaPoly, out: &mut [u8]) {
        dsa::simple_bit_pack(bits, p, out);
    }

    fn dsa_simple_bit_unpack(&self, bits: usize, bytes: &[u8], out: &mut DsaPoly) {
        dsa::simple_bit_unpack(bits, bytes, out);
    }

    fn dsa_bit_pack(&self, bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
        dsa::bit_pack(bits, b, p, out);
    }

    fn dsa_bit_unpack(&self, bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
        dsa::bit_unpack(bits, b, bytes, out);
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        slh::chain_many(jobs);
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        slh::hash_many(jobs);
    }
}
