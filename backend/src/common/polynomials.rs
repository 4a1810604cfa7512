//! The methods of [`Kernels`](gabion_scheme::kernels::Kernels) over polynomials that every backend
//! with native kernels has, each a function of the same name.

/// `polynomial_methods!(table)`, in the implementation of `Kernels` for a token that proves the processor's
/// features, writes those methods over the functions of the module `table`, which are safe to call where
/// these features are. `Kernels` says what each does.
macro_rules! polynomial_methods {
    ($table:ident) => {
        polynomial_methods! { $table:
            fn kem_rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize;
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
            fn dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize;
            fn dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;
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
            fn dsa_norm_below(polys: &[DsaPoly], bound: i32) -> bool;
            fn dsa_simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]);
            fn dsa_simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly);
            fn dsa_bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]);
            fn dsa_bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly);
        }
    };
    ($table:ident: $(fn $name:ident($($argument:ident: $of:ty),*) $(-> $result:ty)?;)*) => {$(
        fn $name(&self, $($argument: $of),*) $(-> $result)? {
            // SAFETY: `self` proves that the processor supports the kernel's features.
            unsafe { $table::$name($($argument),*) }
        }
    )*};
}

pub(crate) use polynomial_methods;
