//! The seam between the standards' flow and an instruction set.
//!
//! A kernel works on *many* of something: many sponges, many polynomials. A flow gathers all its
//! independent work over all operations of a batch and hands it over at once, so lanes fill
//! automatically. The seam sits at the granularity of a whole polynomial or a whole sponge, where
//! the cost of a call is negligible.
//!
//! # Contract of every implementation
//! - Results equal the portable backend's: bit for bit where a function returns bytes, counts or
//!   canonical values, modulo q within the stated bound where it returns a residue.
//! - Time depends on lengths and parameters only, except in the functions marked `_vartime`
//!   (rejection sampling, whose rejections are independent of the accepted values).
//! - Slices whose lengths do not fit the parameters are a misuse that panics before anything is
//!   written (the flows size every slice from the parameter set).
//! - Vector registers that held secrets are the backend's to clear.
//!
//! # Representation
//! - [`KemPoly`]: 256 `i16`, modulo q = 3329; NTT domain in the order of FIPS 203, Algorithm 9.
//! - [`DsaPoly`]: 256 `i32`, modulo q = 8380417; NTT domain in the order of FIPS 204, Algorithm 41.
//! - "residue" below means: congruent to the true value, |x| < q, sign free.

pub mod ed25519;
pub mod kem;
pub mod lms;
pub mod sha512;
pub mod slh;
pub mod slh_fors;
pub mod x25519;
pub mod xmss;
pub mod xmss_of_any;
pub mod xmss_sha256;

use ed25519::{EdEquation, EdVerify};
use kem::{KemNoise, KemUniform};
use lms::{LmsChain, LmsHash, LmsLeaves};
use sha512::Sha512;
use slh::{SlhChain, SlhHash};
use slh_fors::SlhForsTree;
use xmss::{XmssChain, XmssHash, XmssSecret};

pub use crate::poly::{DSA_Q, DsaPoly, KEM_Q, KemPoly, N};

/// The sponges of FIPS 202 that the schemes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xof {
    /// SHAKE128: rate 168 bytes, suffix 1111.
    Shake128,
    /// SHAKE256: rate 136 bytes, suffix 1111.
    Shake256,
    /// SHA3-256: rate 136 bytes, suffix 01. Output is 32 bytes.
    Sha3_256,
    /// SHA3-512: rate 72 bytes, suffix 01. Output is 64 bytes.
    Sha3_512,
}

impl Xof {
    /// Bytes absorbed or squeezed per permutation.
    pub const fn rate(self) -> usize {
        match self {
            Xof::Shake128 => 168,
            Xof::Shake256 | Xof::Sha3_256 => 136,
            Xof::Sha3_512 => 72,
        }
    }

    /// The first padding byte: domain suffix and the first bit of pad10*1 (FIPS 202, B.2).
    pub const fn suffix(self) -> u8 {
        match self {
            Xof::Shake128 | Xof::Shake256 => 0x1f,
            Xof::Sha3_256 | Xof::Sha3_512 => 0x06,
        }
    }
}

/// The maximum number of pieces of an input.
pub const SPONGE_PARTS: usize = 5;

/// One sponge computation: absorb the concatenation of `input`, squeeze `output.len()` bytes.
///
/// Sponges of one call are independent of each other and may differ in everything.
pub struct Sponge<'a> {
    /// The function.
    pub xof: Xof,
    /// The message, in pieces; unused pieces are empty.
    pub input: [&'a [u8]; SPONGE_PARTS],
    /// The output; its length determines how much is squeezed.
    pub output: &'a mut [u8],
}

impl<'a> Sponge<'a> {
    /// A sponge over up to [`SPONGE_PARTS`] pieces.
    pub fn new<const P: usize>(xof: Xof, pieces: [&'a [u8]; P], output: &'a mut [u8]) -> Self {
        const { assert!(P <= SPONGE_PARTS) };
        // One by one: copied as a slice they go through memory by way of a call.
        let input = core::array::from_fn(|i| pieces.get(i).copied().unwrap_or_default());
        Sponge { xof, input, output }
    }
}

/// The kernels of an instruction set. See the module's contract.
pub trait Kernels: Send + Sync {
    /// A short name for reports: `portable`, `avx2`, `avx512`, `neon`.
    fn name(&self) -> &'static str;

    /// Returns how many independent operations fill this instruction set's lanes.
    fn lanes(&self) -> usize;

    /// Runs every sponge to its end, in any order.
    fn sponge_many(&self, jobs: &mut [Sponge<'_>]);

    // ----- ML-KEM (FIPS 203) -----

    /// The parsing part of SampleNTT (Algorithm 7) over squeezed bytes (a multiple of 3 bytes):
    /// writes accepted coefficients from the front of `out` and returns how many there are,
    /// 256 at most. Fewer than 256 means that more bytes have to be squeezed and parsed anew.
    fn kem_rej_uniform_vartime(&self, bytes: &[u8], out: &mut KemPoly) -> usize;

    /// SamplePolyCBD_eta (Algorithm 8), `64 * eta` bytes a polynomial, eta 2 or 3; |out| <= eta.
    fn kem_cbd(&self, eta: usize, bytes: &[u8], out: &mut [KemPoly]);

    /// NTT (Algorithm 9), in place. Input |x| <= 2q; output a residue.
    fn kem_ntt(&self, polys: &mut [KemPoly]);

    /// NTT^-1 (Algorithm 10) times 2^16, in place: removes the factor that [`Self::kem_matvec`]
    /// leaves. Input |x| < 2q; output a residue.
    fn kem_inv_ntt(&self, polys: &mut [KemPoly]);

    /// `out[i] = 2^-16 * sum over j of a[i * v.len() + j] o v[j]` in the NTT domain
    /// (MultiplyNTTs, Algorithm 11). Inputs |x| <= q; output a residue.
    fn kem_matvec(&self, out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]);

    /// Multiplies by 2^16, in place: removes the factor of [`Self::kem_matvec`] where the value
    /// stays in the NTT domain. Input |x| < 2q; output a residue.
    fn kem_to_mont(&self, polys: &mut [KemPoly]);

    /// `acc[i] += b[i]`, reduced. Inputs |x| <= 2q; output a residue.
    fn kem_add(&self, acc: &mut [KemPoly], b: &[KemPoly]);

    /// `acc = a - acc`, reduced. Inputs |x| <= 2q; output a residue.
    fn kem_sub_from(&self, a: &KemPoly, acc: &mut KemPoly);

    /// ByteEncode_12 (Algorithm 5), 384 bytes a polynomial. Input |x| <= 2q; encodes the value in
    /// 0..q.
    fn kem_encode12(&self, polys: &[KemPoly], out: &mut [u8]);

    /// ByteDecode_12 (Algorithm 6), 384 bytes a polynomial. Values of q and above are reduced;
    /// returns whether all were below q (the modulus check of section 7.2). Output in 0..q.
    fn kem_decode12(&self, bytes: &[u8], out: &mut [KemPoly]) -> bool;

    /// ByteEncode_d(Compress_d(p)) (Algorithm 5, equation 4.7), `32 * d` bytes a polynomial; d is
    /// one of 1, 4, 5, 10, 11. Input |x| <= 2q.
    fn kem_compress(&self, d: usize, polys: &[KemPoly], out: &mut [u8]);

    /// Decompress_d(ByteDecode_d(bytes)) (Algorithm 6, equation 4.8), `32 * d` bytes a polynomial;
    /// d is one of 1, 4, 5, 10, 11. Output in 0..q.
    fn kem_decompress(&self, d: usize, bytes: &[u8], out: &mut [KemPoly]);

    /// Makes every entry of A, in any order. Time depends on the seeds rho, which are public.
    fn kem_sample_ntt_vartime(&self, jobs: &mut [KemUniform<'_>]) {
        kem::sample_ntt_vartime(self, jobs);
    }

    /// Makes every polynomial of noise, in any order; eta is 2 or 3.
    fn kem_sample_cbd(&self, eta: usize, jobs: &mut [KemNoise<'_>]) {
        kem::sample_cbd(self, eta, jobs);
    }

    // ----- ML-DSA (FIPS 204) -----

    /// The parsing part of RejNTTPoly (Algorithm 30) over a multiple of 3 bytes; returns how many
    /// coefficients of `out` were filled, 256 at most. Output in 0..q.
    fn dsa_rej_uniform_vartime(&self, bytes: &[u8], out: &mut DsaPoly) -> usize;

    /// The parsing part of RejBoundedPoly (Algorithms 31 and 15), eta 2 or 4; returns how many
    /// coefficients of `out` were filled, 256 at most. |out| <= eta.
    fn dsa_rej_bounded_vartime(&self, eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;

    /// NTT (Algorithm 41), in place. Input |x| < 2q; output |x| < 10q.
    fn dsa_ntt(&self, polys: &mut [DsaPoly]);

    /// NTT^-1 (Algorithm 42) times 2^32, in place: removes the factor of [`Self::dsa_matvec`] and
    /// [`Self::dsa_pointwise`]. Input a residue; output a residue.
    fn dsa_inv_ntt(&self, polys: &mut [DsaPoly]);

    /// `out[i] = 2^-32 * sum over j of a[i * v.len() + j] o v[j]` in the NTT domain
    /// (MatrixVectorNTT, Algorithm 48). Inputs: |a| < q, |v| < 10q; output a residue.
    fn dsa_matvec(&self, out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]);

    /// `out[i] = 2^-32 * c o v[i]` in the NTT domain (ScalarVectorNTT, Algorithm 47).
    /// Inputs |c|, |v| < 10q; output a residue.
    fn dsa_pointwise(&self, out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]);

    /// `acc[i] += b[i]`, reduced. Inputs |x| < 10q; output a residue.
    fn dsa_add(&self, acc: &mut [DsaPoly], b: &[DsaPoly]);

    /// `acc[i] -= b[i]`, reduced. Inputs |x| < 10q; output a residue.
    fn dsa_sub(&self, acc: &mut [DsaPoly], b: &[DsaPoly]);

    /// `acc += s`, not reduced, where each residue of `s` modulo [`KEM_Q`] stands for the integer
    /// next to zero: how a product of small polynomials comes back from the 16-bit ring. Inputs
    /// |acc| < q/2, `s` a residue; output |x| < |acc| + [`KEM_Q`]/2.
    fn dsa_add_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        for (x, &small) in acc.0.iter_mut().zip(&s.0) {
            *x += centre(small);
        }
    }

    /// `acc -= s`, as [`Self::dsa_add_small`].
    fn dsa_sub_small(&self, acc: &mut DsaPoly, s: &KemPoly) {
        for (x, &small) in acc.0.iter_mut().zip(&s.0) {
            *x -= centre(small);
        }
    }

    /// `p[i] *= 2^d` with d = 13, reduced. Input in 0..2^10 (t1); output a residue.
    fn dsa_shift_left_d(&self, polys: &mut [DsaPoly]);

    /// Power2Round (Algorithm 35) of each coefficient. Input a residue; `t1` in 0..2^10, `t0` in
    /// -(2^12)+1..=2^12.
    fn dsa_power2round(&self, t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly);

    /// Decompose (Algorithm 36) of each coefficient: `r1` in 0..(q-1)/(2 gamma2), `r0` centred.
    /// Input a residue.
    fn dsa_decompose(&self, gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly);

    /// MakeHint (Algorithm 39) in the form that needs no second Decompose: a hint is set where
    /// adding `c t0` to `r0` carried over, that is where `r0 > gamma2`, `r0 < -gamma2`, or
    /// `r0 == -gamma2` and `r1 != 0`. Here `r0 = LowBits(w) - c s2 + c t0` (a residue, centred by
    /// the kernel) and `r1 = HighBits(w)`. Writes 0 or 1 and returns how many are set.
    fn dsa_make_hint(&self, gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize;

    /// UseHint (Algorithm 40) of each coefficient. `hint` holds 0 or 1; `r` a residue; output as
    /// HighBits.
    fn dsa_use_hint(&self, gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly);

    /// Returns whether the infinity norm (section 2.3) of every polynomial is below `bound`, which
    /// is at most (q-1)/8. Inputs are residues. Reads everything before it answers.
    fn dsa_norm_below(&self, polys: &[DsaPoly], bound: i32) -> bool;

    /// SimpleBitPack (Algorithm 16) with `bits` bits a coefficient (4, 6 or 10) into `32 * bits`
    /// bytes. Input in 0..2^bits.
    fn dsa_simple_bit_pack(&self, bits: usize, p: &DsaPoly, out: &mut [u8]);

    /// SimpleBitUnpack (Algorithm 18) of `32 * bits` bytes, bits = 10.
    fn dsa_simple_bit_unpack(&self, bits: usize, bytes: &[u8], out: &mut DsaPoly);

    /// BitPack (Algorithm 17): stores `b - x` with `bits` bits (3, 4, 13, 18 or 20). Input is
    /// centred, with `b - x` in 0..2^bits, except for z (bits 18 and 20), which may be a residue.
    fn dsa_bit_pack(&self, bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]);

    /// BitUnpack (Algorithm 19): `b - v` for each stored v of `bits` bits (3, 4, 13, 18 or 20).
    /// The caller checks ranges that do not fill the bits (eta).
    fn dsa_bit_unpack(&self, bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly);

    // ----- SLH-DSA (FIPS 205) -----

    /// Runs every chain to its end, in any order. The jobs of one call are of one parameter set.
    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]);

    /// Runs every hash, in any order. The jobs of one call are of one parameter set.
    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]);

    /// Works every subtree of FORS out, in any order. The jobs of one call are of one parameter set and one
    /// height.
    fn slh_fors_many(&self, jobs: &mut [SlhForsTree<'_>]) {
        slh_fors::by_levels(self, jobs);
    }

    // ----- LMS and HSS (RFC 8554) -----

    /// Runs every chain to its end, in any order. The jobs of one call are of one family and one n.
    fn lms_chain_many(&self, jobs: &mut [LmsChain<'_>]) {
        lms::chains(self, jobs);
    }

    /// Runs every hash, in any order. The jobs of one call are of one family and one n.
    fn lms_hash_many(&self, jobs: &mut [LmsHash<'_>]) {
        lms::hashes(self, jobs);
    }

    /// Works leaves out. Time depends on their number, w and n.
    fn lms_leaves(&self, job: &mut LmsLeaves<'_>) {
        lms::leaves(self, job);
    }

    // ----- XMSS and XMSS^MT (RFC 8391) -----

    /// Runs every chain to its end, in any order. The jobs of one call are of one family and one n.
    fn xmss_chain_many(&self, jobs: &mut [XmssChain<'_>]) {
        xmss_of_any::chains(self, jobs);
    }

    /// Runs every hash, in any order. The jobs of one call are of one family and one n.
    fn xmss_hash_many(&self, jobs: &mut [XmssHash<'_>]) {
        xmss_of_any::hashes(self, jobs);
    }

    /// Makes every secret, in any order. The jobs of one call are of one family, not SHA-512, and one n.
    fn xmss_secret_many(&self, jobs: &mut [XmssSecret<'_>]) {
        xmss_of_any::secrets(self, jobs);
    }

    // ----- Ed25519 (RFC 8032) -----

    /// Hashes every message, in any order. Time depends on their lengths.
    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        jobs.iter_mut().for_each(Sha512::run);
    }

    /// The encodings of `[scalar]B`, B the base point; scalars are below L.
    fn ed25519_base_multiples(&self, scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
        ed25519::base_multiples(scalars, out);
    }

    /// Whether each equation holds; false where A, or in the cofactored equation R, is no point.
    fn ed25519_verify_vartime(
        &self,
        equation: EdEquation,
        jobs: &[EdVerify<'_>],
        verdicts: &mut [bool],
    ) {
        for (job, verdict) in jobs.iter().zip(verdicts) {
            *verdict = ed25519::verify_vartime(equation, job);
        }
    }

    /// Returns whether the sum of all cofactored equations, each times its number of 128 bits,
    /// holds, and every A and R is a point.
    fn ed25519_sum_vartime(&self, jobs: &[EdVerify<'_>], z: &[[u8; 16]]) -> bool {
        ed25519::sum_vartime(jobs, z)
    }

    /// u of `[scalar]B` on the Montgomery curve; scalars are below L and not 0.
    fn x25519_base_multiples(&self, scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
        x25519::base_multiples(scalars, out);
    }

    /// u of multiples of points; scalars are clamped. See [`x25519::multiples`].
    fn x25519_multiples(&self, scalars: &[[u8; 32]], points: &[[u8; 32]], out: &mut [[u8; 32]]) {
        x25519::multiples(scalars, points, out);
    }
}

/// The integer next to zero that a residue modulo [`KEM_Q`] stands for.
#[inline(always)]
fn centre(x: i16) -> i32 {
    let canonical = x + ((x >> 15) & KEM_Q);
    i32::from(canonical - (((KEM_Q / 2 - canonical) >> 15) & KEM_Q))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residues_centre_to_the_integer_next_to_zero() {
        for x in 1 - KEM_Q..KEM_Q {
            let c = centre(x);
            assert!(c.abs() <= 1664 && (c - i32::from(x)) % i32::from(KEM_Q) == 0, "{x} -> {c}");
        }
    }
}
