//! Kernels that work on each coefficient by itself: the portable code, compiled for AVX2.
//!
//! The compiler makes of these loops what one would write by hand. Transforms, packing and sampling,
//! which move coefficients between places, are written by hand (`kem_ntt`, `dsa_ntt`, `kem_pack`,
//! `dsa_pack`).

use gabion_scheme::kernels::{DsaPoly, KemPoly};

use super::registers;
use crate::portable::{dsa, kem};

macro_rules! compiled {
    ($($of:ident::$kernel:ident as $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {$(
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        pub(super) fn $name($($argument: $kind),*) $(-> $result)? {
            let result = $of::$kernel($($argument),*);
            registers::clear();
            result
        }
    )*};
}

compiled! {
    kem::to_mont as kem_to_mont(polys: &mut [KemPoly]);
    kem::add as kem_add(acc: &mut [KemPoly], b: &[KemPoly]);
    kem::sub_from as kem_sub_from(a: &KemPoly, acc: &mut KemPoly);
    dsa::add as dsa_add(acc: &mut [DsaPoly], b: &[DsaPoly]);
    dsa::sub as dsa_sub(acc: &mut [DsaPoly], b: &[DsaPoly]);
    dsa::shift_left_d as dsa_shift_left_d(polys: &mut [DsaPoly]);
    dsa::power2round as dsa_power2round(t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly);
    dsa::decompose as dsa_decompose(gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly);
    dsa::make_hint as dsa_make_hint(gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize;
    dsa::use_hint as dsa_use_hint(gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly);
}
