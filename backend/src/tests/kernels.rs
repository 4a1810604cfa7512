//! Every kernel against the portable one, on random and extreme input within the contract.

use core::slice::{from_mut, from_ref};

use gabion_scheme::kernels::{DSA_Q, DsaPoly, KEM_Q, KemPoly, Kernels, N};

use super::on_every_instruction_set;
use crate::portable::Portable;

/// Random polynomials of each kind that a test tries.
const ROUNDS: usize = 40;

/// A small generator of test data (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) % n
    }

    /// Returns a number from -bound to bound: random, or (in two of four kinds) mostly the ends.
    fn within(&mut self, bound: i64, kind: usize) -> i64 {
        match kind % 4 {
            0 => bound,
            1 => [-bound, bound][self.below(2) as usize],
            _ => self.below(2 * bound as u64 + 1) as i64 - bound,
        }
    }

    fn kem(&mut self, bound: i16, kind: usize) -> KemPoly {
        KemPoly(core::array::from_fn(|_| self.within(i64::from(bound), kind) as i16))
    }

    fn dsa(&mut self, bound: i32, kind: usize) -> DsaPoly {
        DsaPoly(core::array::from_fn(|_| self.within(i64::from(bound), kind) as i32))
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

/// Asserts that `got` is a residue in each coefficient and congruent to `want`.
fn same_kem(got: &KemPoly, want: &KemPoly, what: &str) {
    for (i, (&g, &w)) in got.0.iter().zip(&want.0).enumerate() {
        assert!(g.abs() < KEM_Q, "{what}: coefficient {i} is {g}");
        let difference = i32::from(g) - i32::from(w);
        assert_eq!(difference % i32::from(KEM_Q), 0, "{what}: coefficient {i}, {g} for {w}");
    }
}

/// Asserts that each |coefficient| of `got` is below `bound` and congruent to `want`.
fn same_dsa(got: &DsaPoly, want: &DsaPoly, bound: i32, what: &str) {
    for (i, (&g, &w)) in got.0.iter().zip(&want.0).enumerate() {
        assert!(g.abs() < bound, "{what}: coefficient {i} is {g}");
        let difference = i64::from(g) - i64::from(w);
        assert_eq!(difference % i64::from(DSA_Q), 0, "{what}: coefficient {i}, {g} for {w}");
    }
}

on_every_instruction_set!(
    kem_transforms,
    kem_products_and_sums,
    kem_sampling,
    kem_packing,
    dsa_transforms,
    dsa_products_and_sums,
    dsa_sampling,
    dsa_rounding,
    dsa_norms,
    dsa_packing,
    dsa_small_sums,
);

fn kem_transforms(k: &dyn Kernels) {
    let mut r = Random(1);
    type Transform = fn(&dyn Kernels, &mut [KemPoly]);
    let transforms: [(&str, i16, Transform); 3] = [
        ("kem_ntt", 2 * KEM_Q, |k, p| k.kem_ntt(p)),
        ("kem_inv_ntt", 2 * KEM_Q - 1, |k, p| k.kem_inv_ntt(p)),
        ("kem_to_mont", 2 * KEM_Q - 1, |k, p| k.kem_to_mont(p)),
    ];
    for (what, bound, transform) in transforms {
        for kind in 0..ROUNDS {
            let input: Vec<_> = (0..kind % 5).map(|_| r.kem(bound, kind)).collect();
            let (mut got, mut want) = (input.clone(), input);
            transform(k, &mut got);
            transform(&Portable, &mut want);
            for (got, want) in got.iter().zip(&want) {
                same_kem(got, want, what);
            }
        }
    }
}

fn kem_products_and_sums(k: &dyn Kernels) {
    let mut r = Random(2);
    for kind in 0..ROUNDS {
        for (rank, rows) in [(1, 1), (2, 2), (3, 3), (4, 4), (4, 1), (2, 7), (3, 0)] {
            let a: Vec<_> = (0..rank * rows).map(|_| r.kem(KEM_Q, kind)).collect();
            let v: Vec<_> = (0..rank).map(|_| r.kem(KEM_Q, kind + kind / 4)).collect();
            let (mut got, mut want) = (vec![r.kem(99, 3); rows], vec![KemPoly::default(); rows]);
            k.kem_matvec(&mut got, &a, &v);
            Portable.kem_matvec(&mut want, &a, &v);
            for (got, want) in got.iter().zip(&want) {
                same_kem(got, want, "kem_matvec");
            }
        }
        let (a, b) = (r.kem(2 * KEM_Q, kind), r.kem(2 * KEM_Q, kind + kind / 4));
        let (mut got, mut want) = (a.clone(), a.clone());
        k.kem_add(from_mut(&mut got), from_ref(&b));
        Portable.kem_add(from_mut(&mut want), from_ref(&b));
        same_kem(&got, &want, "kem_add");
        let (mut got, mut want) = (a.clone(), a);
        k.kem_sub_from(&b, &mut got);
        Portable.kem_sub_from(&b, &mut want);
        same_kem(&got, &want, "kem_sub_from");
    }
}

fn kem_sampling(k: &dyn Kernels) {
    let mut r = Random(3);
    for round in 0..ROUNDS {
        for len in [0, 3, 45, 48, 51, 168, 336, 384, 504, 507, 672, 840, 1008] {
            let mut bytes = r.bytes(len);
            if round == 0 {
                bytes.fill(0xff);
            } else if round == 1 {
                bytes.fill(0);
            }
            let (mut got, mut want) = (r.kem(99, 3), KemPoly::default());
            let count = k.kem_rej_uniform_vartime(&bytes, &mut got);
            assert_eq!(count, Portable.kem_rej_uniform_vartime(&bytes, &mut want), "{len} bytes");
            assert_eq!(got.0[..count], want.0[..count], "{len} bytes");
        }
        for eta in [2, 3] {
            let bytes = r.bytes(64 * eta);
            let (mut got, mut want) = (r.kem(99, 3), KemPoly::default());
            k.kem_cbd(eta, &bytes, from_mut(&mut got));
            Portable.kem_cbd(eta, &bytes, from_mut(&mut want));
            assert_eq!(got, want, "kem_cbd {eta}");
        }
    }
}

fn kem_packing(k: &dyn Kernels) {
    let mut r = Random(4);
    // Every value from -2q to 2q, in 53 polynomials, then random ones.
    let all = (0..53i16).map(|p| {
        KemPoly(core::array::from_fn(|i| (p * 256 + i as i16 - 2 * KEM_Q).min(2 * KEM_Q)))
    });
    let mut polys: Vec<_> = all.collect();
    polys.extend((0..ROUNDS).map(|kind| r.kem(2 * KEM_Q, kind)));
    for p in &polys {
        let (mut got, mut want) = ([0u8; 384], [0u8; 384]);
        k.kem_encode12(from_ref(p), &mut got);
        Portable.kem_encode12(from_ref(p), &mut want);
        assert_eq!(got, want, "kem_encode12");
        for d in [1, 4, 5, 10, 11] {
            let (mut got, mut want) = (vec![0u8; 32 * d], vec![0u8; 32 * d]);
            k.kem_compress(d, from_ref(p), &mut got);
            Portable.kem_compress(d, from_ref(p), &mut want);
            assert_eq!(got, want, "kem_compress {d}");
        }
    }
    for round in 0..ROUNDS {
        for d in [1, 4, 5, 10, 11] {
            let bytes = r.bytes(32 * d);
            let (mut got, mut want) = (r.kem(99, 3), KemPoly::default());
            k.kem_decompress(d, &bytes, from_mut(&mut got));
            Portable.kem_decompress(d, &bytes, from_mut(&mut want));
            assert_eq!(got, want, "kem_decompress {d}");
        }
        // Random bytes fail the check; encoded polynomials pass, but for one spoilt coefficient.
        let mut bytes = r.bytes(384);
        if round % 2 == 1 {
            k.kem_encode12(&[r.kem(2 * KEM_Q, 3)], &mut bytes);
            if round % 4 == 3 {
                let i = r.below(N as u64 / 2) as usize;
                bytes[3 * i..3 * i + 3].copy_from_slice(&[0x00, 0x1d, 0xd0]);
            }
        }
        let (mut got, mut want) = (r.kem(99, 3), KemPoly::default());
        let valid = k.kem_decode12(&bytes, from_mut(&mut got));
        assert_eq!(valid, Portable.kem_decode12(&bytes, from_mut(&mut want)));
        assert_eq!(valid, round % 4 == 1);
        assert_eq!(got, want, "kem_decode12");
    }
}

fn dsa_transforms(k: &dyn Kernels) {
    let mut r = Random(5);
    for kind in 0..ROUNDS {
        let input: Vec<_> = (0..kind % 5).map(|_| r.dsa(2 * DSA_Q - 1, kind)).collect();
        let (mut got, mut want) = (input.clone(), input);
        k.dsa_ntt(&mut got);
        Portable.dsa_ntt(&mut want);
        for (got, want) in got.iter().zip(&want) {
            same_dsa(got, want, 10 * DSA_Q, "dsa_ntt");
        }
        let input: Vec<_> = (0..kind % 5).map(|_| r.dsa(DSA_Q - 1, kind)).collect();
        let (mut got, mut want) = (input.clone(), input);
        k.dsa_inv_ntt(&mut got);
        Portable.dsa_inv_ntt(&mut want);
        for (got, want) in got.iter().zip(&want) {
            same_dsa(got, want, DSA_Q, "dsa_inv_ntt");
        }
    }
}

fn dsa_products_and_sums(k: &dyn Kernels) {
    let mut r = Random(6);
    for kind in 0..ROUNDS {
        for (rows, columns) in [(4, 4), (6, 5), (8, 7), (1, 1), (1, 2), (2, 3), (3, 6), (0, 4)] {
            let a: Vec<_> = (0..rows * columns).map(|_| r.dsa(DSA_Q - 1, kind)).collect();
            let v: Vec<_> = (0..columns).map(|_| r.dsa(10 * DSA_Q - 1, kind + kind / 4)).collect();
            let (mut got, mut want) = (vec![r.dsa(99, 3); rows], vec![DsaPoly::default(); rows]);
            k.dsa_matvec(&mut got, &a, &v);
            Portable.dsa_matvec(&mut want, &a, &v);
            for (got, want) in got.iter().zip(&want) {
                same_dsa(got, want, DSA_Q, "dsa_matvec");
            }
        }
        let count = kind % 9;
        let c = r.dsa(10 * DSA_Q - 1, kind + kind / 4);
        let v: Vec<_> = (0..count).map(|_| r.dsa(10 * DSA_Q - 1, kind)).collect();
        let (mut got, mut want) = (vec![r.dsa(99, 3); count], vec![DsaPoly::default(); count]);
        k.dsa_pointwise(&mut got, &c, &v);
        Portable.dsa_pointwise(&mut want, &c, &v);
        for (got, want) in got.iter().zip(&want) {
            same_dsa(got, want, DSA_Q, "dsa_pointwise");
        }
        type Sum = fn(&dyn Kernels, &mut [DsaPoly], &[DsaPoly]);
        let sums: [(&str, Sum); 2] = [
            ("dsa_add", |k, acc, b| k.dsa_add(acc, b)),
            ("dsa_sub", |k, acc, b| k.dsa_sub(acc, b)),
        ];
        for (what, sum) in sums {
            let acc: Vec<_> = (0..count).map(|_| r.dsa(10 * DSA_Q - 1, kind + kind / 4)).collect();
            let (mut got, mut want) = (acc.clone(), acc);
            sum(k, &mut got, &v);
            sum(&Portable, &mut want, &v);
            for (got, want) in got.iter().zip(&want) {
                same_dsa(got, want, DSA_Q, what);
            }
        }
        let t1 = DsaPoly(core::array::from_fn(|_| r.below(1 << 10) as i32));
        let (mut got, mut want) = ([t1.clone()], [t1]);
        k.dsa_shift_left_d(&mut got);
        Portable.dsa_shift_left_d(&mut want);
        same_dsa(&got[0], &want[0], DSA_Q, "dsa_shift_left_d");
    }
}

fn dsa_sampling(k: &dyn Kernels) {
    let mut r = Random(7);
    for round in 0..ROUNDS {
        for len in [0, 3, 45, 48, 51, 168, 504, 768, 792, 840, 843, 1008] {
            let mut bytes = r.bytes(len);
            match round {
                0 => bytes.fill(0xff),
                1 => bytes.fill(0),
                _ => {}
            }
            let (mut got, mut want) = (r.dsa(99, 3), DsaPoly::default());
            let count = k.dsa_rej_uniform_vartime(&bytes, &mut got);
            assert_eq!(count, Portable.dsa_rej_uniform_vartime(&bytes, &mut want), "{len} bytes");
            assert_eq!(got.0[..count], want.0[..count], "{len} bytes");
        }
        for eta in [2, 4] {
            for len in [0, 1, 31, 32, 33, 128, 136, 137, 160, 272, 408] {
                let mut bytes = r.bytes(len);
                match round {
                    0 => bytes.fill(0xff),
                    1 => bytes.fill(0),
                    _ => {}
                }
                let (mut got, mut want) = (r.dsa(99, 3), DsaPoly::default());
                let count = k.dsa_rej_bounded_vartime(eta, &bytes, &mut got);
                let expected = Portable.dsa_rej_bounded_vartime(eta, &bytes, &mut want);
                assert_eq!(count, expected, "eta {eta}, {len} bytes");
                assert_eq!(got.0[..count], want.0[..count], "eta {eta}, {len} bytes");
            }
        }
    }
}

/// Polynomials that hold every residue near the borders of rounding, and random ones.
fn rounding_inputs(r: &mut Random) -> Vec<DsaPoly> {
    let mut values = Vec::new();
    for gamma2 in [(DSA_Q - 1) / 88, (DSA_Q - 1) / 32] {
        for step in 0..=(DSA_Q - 1) / gamma2 {
            for near in -2..=2 {
                values.extend([step * gamma2 + near, near - step * gamma2]);
            }
        }
    }
    for step in 0..=1023 {
        for near in -2..=2 {
            let edge = (step << 13) + (1 << 12) + near;
            values.extend([edge, -edge]);
        }
    }
    values.retain(|x| x.abs() < DSA_Q);
    let mut polys: Vec<_> = values
        .chunks(N)
        .map(|chunk| DsaPoly(core::array::from_fn(|i| chunk.get(i).copied().unwrap_or(0))))
        .collect();
    polys.extend((0..ROUNDS).map(|kind| r.dsa(DSA_Q - 1, kind)));
    polys
}

fn dsa_rounding(k: &dyn Kernels) {
    let mut r = Random(8);
    for p in &rounding_inputs(&mut r) {
        let mut got = [r.dsa(99, 3), r.dsa(99, 3)];
        let mut want = [DsaPoly::default(), DsaPoly::default()];
        let [high, low] = &mut got;
        k.dsa_power2round(p, high, low);
        let [high, low] = &mut want;
        Portable.dsa_power2round(p, high, low);
        assert_eq!(got, want, "dsa_power2round");
        for gamma2 in [(DSA_Q - 1) / 88, (DSA_Q - 1) / 32] {
            let [high, low] = &mut got;
            k.dsa_decompose(gamma2, p, high, low);
            let [high, low] = &mut want;
            Portable.dsa_decompose(gamma2, p, high, low);
            assert_eq!(got, want, "dsa_decompose {gamma2}");
            for low in [p, &want[1]] {
                let (mut hint, mut expected) = (r.dsa(99, 3), DsaPoly::default());
                let count = k.dsa_make_hint(gamma2, low, &want[0], &mut hint);
                assert_eq!(count, Portable.dsa_make_hint(gamma2, low, &want[0], &mut expected));
                assert_eq!(hint, expected, "dsa_make_hint {gamma2}");
            }
            let hint = DsaPoly(core::array::from_fn(|_| r.below(2) as i32));
            let (mut used, mut expected) = (r.dsa(99, 3), DsaPoly::default());
            k.dsa_use_hint(gamma2, &hint, p, &mut used);
            Portable.dsa_use_hint(gamma2, &hint, p, &mut expected);
            assert_eq!(used, expected, "dsa_use_hint {gamma2}");
        }
    }
}

fn dsa_norms(k: &dyn Kernels) {
    let mut r = Random(9);
    let most = (DSA_Q - 1) / 8;
    for round in 0..ROUNDS {
        for bound in [1, 77, 95_232 - 78, (1 << 17) - 78, (1 << 19) - 196, most] {
            let count = round % 8;
            let mut polys: Vec<_> = (0..count).map(|_| r.dsa(bound - 1, round)).collect();
            assert!(k.dsa_norm_below(&polys, bound), "bound {bound}");
            if count == 0 {
                continue;
            }
            let (p, i) = (r.below(count as u64) as usize, r.below(N as u64) as usize);
            // Within the bound from the other side of q, then at the bound.
            for (x, below) in [
                (DSA_Q - bound + 1, true),
                (bound - 1 - DSA_Q, true),
                (bound, false),
                (-bound, false),
                (DSA_Q - bound, false),
                (bound - DSA_Q, false),
                (DSA_Q / 2, false),
            ] {
                polys[p].0[i] = x;
                assert_eq!(Portable.dsa_norm_below(&polys, bound), below, "{x}, bound {bound}");
                assert_eq!(k.dsa_norm_below(&polys, bound), below, "{x}, bound {bound}");
            }
        }
    }
}

fn dsa_packing(k: &dyn Kernels) {
    let mut r = Random(10);
    for round in 0..ROUNDS {
        for bits in [4, 6, 10] {
            let p = DsaPoly(core::array::from_fn(|_| r.below(1 << bits) as i32));
            let (mut got, mut want) = (vec![0u8; 32 * bits], vec![0u8; 32 * bits]);
            k.dsa_simple_bit_pack(bits, &p, &mut got);
            Portable.dsa_simple_bit_pack(bits, &p, &mut want);
            assert_eq!(got, want, "dsa_simple_bit_pack {bits}");
        }
        let bytes = r.bytes(320);
        let (mut got, mut want) = (r.dsa(99, 3), DsaPoly::default());
        k.dsa_simple_bit_unpack(10, &bytes, &mut got);
        Portable.dsa_simple_bit_unpack(10, &bytes, &mut want);
        assert_eq!(got, want, "dsa_simple_bit_unpack");
        for (bits, b) in [(3, 2), (4, 4), (13, 1 << 12), (18, 1 << 17), (20, 1 << 19)] {
            let p = DsaPoly(core::array::from_fn(|_| {
                let most = if bits < 13 { 2 * b + 1 } else { 1 << bits };
                let x = b - r.below(most as u64) as i32;
                // z may be any residue.
                match r.below(3) {
                    0 if bits >= 18 && x < 0 => x + DSA_Q,
                    1 if bits >= 18 && x > 0 => x - DSA_Q,
                    _ => x,
                }
            }));
            let (mut got, mut want) = (vec![0u8; 32 * bits], vec![0u8; 32 * bits]);
            k.dsa_bit_pack(bits, b, &p, &mut got);
            Portable.dsa_bit_pack(bits, b, &p, &mut want);
            assert_eq!(got, want, "dsa_bit_pack {bits}, round {round}");
            let bytes = r.bytes(32 * bits);
            let (mut got, mut want) = (r.dsa(99, 3), DsaPoly::default());
            k.dsa_bit_unpack(bits, b, &bytes, &mut got);
            Portable.dsa_bit_unpack(bits, b, &bytes, &mut want);
            assert_eq!(got, want, "dsa_bit_unpack {bits}");
        }
    }
}

/// Every residue, added to and subtracted from coefficients of any size.
fn dsa_small_sums(k: &dyn Kernels) {
    let residues: Vec<i16> = (1 - KEM_Q..KEM_Q).collect();
    let acc = DsaPoly(core::array::from_fn(|i| (i as i32 - 128) * (DSA_Q / 256)));
    for chunk in residues.chunks(N) {
        let s = KemPoly(core::array::from_fn(|i| chunk[i % chunk.len()]));
        let (mut got, mut want) = (acc.clone(), acc.clone());
        k.dsa_add_small(&mut got, &s);
        Portable.dsa_add_small(&mut want, &s);
        assert_eq!(got, want);
        k.dsa_sub_small(&mut got, &s);
        assert_eq!(got, acc);
        Portable.dsa_sub_small(&mut want, &s);
        assert_eq!(want, acc);
    }
}
