//! Common parts of the cross-station tests.
//!
//! - [`der`]: the encodings of certificates and keys in test vectors.
//! - [`fault_injection`]: kernels that are disturbed once.
//! - [`fuzz`]: the fuzz targets, as functions of bytes.
//! - [`probe`]: kernels that count, widen or hinder others.
//! - [`stopwatch`]: kernels that measure others, for the floors in docs/reference/performance.md.
//! - [`observer`]: kernels whose results are observed, or changed.
//! - [`vectors`]: where published test vectors are found and how they are read.
//! - [`on_every_backend!`]: one `#[test]` per instruction set from one generic function.

pub mod der;
pub mod fault_injection;
pub mod fuzz;
pub mod observer;
pub mod probe;
pub mod stopwatch;
pub mod vectors;

/// Passes the signatures of the kernels that wrappers usually forward unchanged to the macro
/// `$each`, so that none of them is left to the trait's default when kernels are wrapped.
#[macro_export]
macro_rules! plain_kernels {
    ($each:ident) => {
        $each! {
            fn kem_cbd(eta: usize, bytes: &[u8], out: &mut [KemPoly]);
            fn kem_ntt(polys: &mut [KemPoly]);
            fn kem_inv_ntt(polys: &mut [KemPoly]);
            fn kem_matvec(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]);
            fn kem_to_mont(polys: &mut [KemPoly]);
            fn kem_add(acc: &mut [KemPoly], b: &[KemPoly]);
            fn kem_sub_from(a: &KemPoly, acc: &mut KemPoly);
            fn kem_encode12(polys: &[KemPoly], out: &mut [u8]);
            fn kem_decode12(bytes: &[u8], out: &mut [KemPoly]) -> bool;
            fn kem_compress(d: usize, polys: &[KemPoly], out: &mut [u8]);
            fn kem_decompress(d: usize, bytes: &[u8], out: &mut [KemPoly]);
            fn dsa_ntt(polys: &mut [DsaPoly]);
            fn dsa_inv_ntt(polys: &mut [DsaPoly]);
            fn dsa_matvec(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]);
            fn dsa_pointwise(out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]);
            fn dsa_add(acc: &mut [DsaPoly], b: &[DsaPoly]);
            fn dsa_sub(acc: &mut [DsaPoly], b: &[DsaPoly]);
            fn dsa_add_small(acc: &mut DsaPoly, s: &KemPoly);
            fn dsa_sub_small(acc: &mut DsaPoly, s: &KemPoly);
            fn dsa_shift_left_d(polys: &mut [DsaPoly]);
            fn dsa_power2round(t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly);
            fn dsa_decompose(gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly);
            fn dsa_make_hint(gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize;
            fn dsa_use_hint(gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly);
            fn dsa_simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]);
            fn dsa_simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly);
            fn dsa_bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]);
            fn dsa_bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly);
            fn ed25519_base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]]);
            fn ed25519_verify_vartime(eq: EdEquation, jobs: &[EdVerify<'_>], verdicts: &mut [bool]);
            fn ed25519_sum_vartime(jobs: &[EdVerify<'_>], z: &[[u8; 16]]) -> bool;
            fn x25519_base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]]);
            fn x25519_multiples(scalars: &[[u8; 32]], points: &[[u8; 32]], out: &mut [[u8; 32]]);
        }
    };
}

/// Passes the signatures of the kernels of LMS to the macro `$each`.
#[macro_export]
macro_rules! lms_kernels {
    ($each:ident) => {
        $each! {
            fn lms_chain_many(jobs: &mut [gabion_scheme::kernels::lms::LmsChain<'_>]);
            fn lms_hash_many(jobs: &mut [gabion_scheme::kernels::lms::LmsHash<'_>]);
            fn lms_leaves(job: &mut gabion_scheme::kernels::lms::LmsLeaves<'_>);
        }
    };
}

/// Passes the signatures of the kernels of XMSS to the macro `$each`.
#[macro_export]
macro_rules! xmss_kernels {
    ($each:ident) => {
        $each! {
            fn xmss_chain_many(jobs: &mut [gabion_scheme::kernels::xmss::XmssChain<'_>]);
            fn xmss_hash_many(jobs: &mut [gabion_scheme::kernels::xmss::XmssHash<'_>]);
            fn xmss_secret_many(jobs: &mut [gabion_scheme::kernels::xmss::XmssSecret<'_>]);
        }
    };
}

/// Turns each `fn name<K: Kernels>(kernels: &K)` into the tests `portable::name`, `avx2::name` and
/// `avx512::name`. On a machine without an instruction set its tests say so and pass.
#[macro_export]
macro_rules! on_every_backend {
    ($($name:ident),+ $(,)?) => {
        mod portable {
            $(
                #[test]
                fn $name() {
                    super::$name(&gabion_backend::portable::Portable);
                }
            )+
        }

        #[cfg(target_arch = "x86_64")]
        mod avx2 {
            $(
                #[test]
                fn $name() {
                    match gabion_backend::avx2::Avx2::detect() {
                        Some(kernels) => super::$name(&kernels),
                        None => eprintln!("skipped: this processor has no AVX2"),
                    }
                }
            )+
        }

        #[cfg(target_arch = "x86_64")]
        mod avx512 {
            $(
                #[test]
                fn $name() {
                    match gabion_backend::avx512::Avx512::detect() {
                        Some(kernels) => super::$name(&kernels),
                        None => eprintln!("skipped: this processor has no AVX-512"),
                    }
                }
            )+
        }
    };
}
