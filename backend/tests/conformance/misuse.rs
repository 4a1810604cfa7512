//! Lengths that do not fit panic before anything is written.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_mut;

use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, N};

const KEM: KemPoly = KemPoly([77; N]);
const DSA: DsaPoly = DsaPoly([77; N]);

/// Asserts that the call panics.
fn refuses(what: &str, call: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "{what} was accepted");
}

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    check_byte_outputs(k);
    check_byte_inputs(k);
    check_vectors(k);
}

fn check_byte_outputs(k: &dyn Kernels) {
    let mut out = vec![0xa5u8; 700];
    for slip in [-1isize, 1] {
        let len = |right: usize| right.wrapping_add_signed(slip);
        refuses("ByteEncode_12", || k.kem_encode12(&[KEM], &mut out[..len(384)]));
        for d in [1, 4, 5, 10, 11] {
            refuses("Compress_d", || k.kem_compress(d, &[KEM], &mut out[..len(32 * d)]));
        }
        for bits in [4, 6, 10] {
            let small = DsaPoly([1; N]);
            refuses("SimpleBitPack", || {
                k.dsa_simple_bit_pack(bits, &small, &mut out[..len(32 * bits)]);
            });
        }
        for (bits, b) in [(3, 2), (4, 4), (13, 1 << 12), (18, 1 << 17), (20, 1 << 19)] {
            let small = DsaPoly([1; N]);
            refuses("BitPack", || k.dsa_bit_pack(bits, b, &small, &mut out[..len(32 * bits)]));
        }
    }
    assert!(out.iter().all(|&byte| byte == 0xa5), "a refused call wrote something");
}

fn check_byte_inputs(k: &dyn Kernels) {
    let bytes = vec![0u8; 700];
    let (mut kem, mut dsa) = (KEM, DSA);
    for slip in [-1isize, 1] {
        let input = |right: usize| &bytes[..right.wrapping_add_signed(slip)];
        for eta in [2, 3] {
            refuses("SamplePolyCBD", || k.kem_cbd(eta, input(64 * eta), from_mut(&mut kem)));
        }
        refuses("ByteDecode_12", || {
            k.kem_decode12(input(384), from_mut(&mut kem));
        });
        for d in [1, 4, 5, 10, 11] {
            refuses("Decompress_d", || k.kem_decompress(d, input(32 * d), from_mut(&mut kem)));
        }
        refuses("SampleNTT", || {
            k.kem_rej_uniform_vartime(input(504), &mut kem);
        });
        refuses("RejNTTPoly", || {
            k.dsa_rej_uniform_vartime(input(504), &mut dsa);
        });
        refuses("SimpleBitUnpack", || k.dsa_simple_bit_unpack(10, input(320), &mut dsa));
        for (bits, b) in [(3, 2), (4, 4), (13, 1 << 12), (18, 1 << 17), (20, 1 << 19)] {
            refuses("BitUnpack", || k.dsa_bit_unpack(bits, b, input(32 * bits), &mut dsa));
        }
    }
    assert_eq!(kem, KEM, "a refused call wrote something");
    assert_eq!(dsa, DSA, "a refused call wrote something");
}

fn check_vectors(k: &dyn Kernels) {
    let mut kem = vec![KEM; 2];
    refuses("a short matrix", || k.kem_matvec(&mut kem, &[KEM, KEM, KEM], &[KEM, KEM]));
    refuses("a long matrix", || k.kem_matvec(&mut kem, &vec![KEM; 5], &[KEM, KEM]));
    refuses("a short sum", || k.kem_add(&mut kem, &[KEM]));
    refuses("a long sum", || k.kem_add(&mut kem, &vec![KEM; 3]));
    assert!(kem.iter().all(|p| *p == KEM), "a refused call wrote something");

    let mut dsa = vec![DSA; 2];
    refuses("a short matrix", || k.dsa_matvec(&mut dsa, &[DSA, DSA, DSA], &[DSA, DSA]));
    refuses("a long matrix", || k.dsa_matvec(&mut dsa, &vec![DSA; 5], &[DSA, DSA]));
    refuses("a short vector", || k.dsa_pointwise(&mut dsa, &DSA, &[DSA]));
    refuses("a long vector", || k.dsa_pointwise(&mut dsa, &DSA, &[DSA, DSA, DSA]));
    refuses("a short summand", || k.dsa_add(&mut dsa, &[DSA]));
    refuses("a long summand", || k.dsa_add(&mut dsa, &[DSA, DSA, DSA]));
    refuses("a short subtrahend", || k.dsa_sub(&mut dsa, &[DSA]));
    refuses("a long subtrahend", || k.dsa_sub(&mut dsa, &[DSA, DSA, DSA]));
    assert!(dsa.iter().all(|p| *p == DSA), "a refused call wrote something");
}
