//! Polynomials of ML-DSA against FIPS 204: sampling, arithmetic and packing.

use gabion_scheme::kernels::{DSA_Q, DsaPoly, Kernels, N};

use super::counts;
use super::reference::{
    DQ, Rng, assert_dsa_below, dsa_canonical, dsa_ntt, dsa_polys, mod_pm, multiply, pack, unpack,
};

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    check_rej_uniform(k);
    check_rej_bounded(k);
    check_ntt(k);
    check_inv_ntt(k);
    check_matvec(k);
    check_pointwise(k);
    check_multiplication(k);
    check_add_and_sub(k);
    check_shift_left_d(k);
    check_simple_bit_pack(k);
    check_bit_pack(k);
}

/// 2^32 mod q.
const R: i64 = (1 << 32) % DQ;

fn check_one_rej_uniform(k: &dyn Kernels, bytes: &[u8]) {
    // CoeffFromThreeBytes (Algorithm 14) as written.
    let want: Vec<i32> = bytes
        .chunks_exact(3)
        .map(|b| {
            let b2 = if b[2] > 127 { b[2] - 128 } else { b[2] };
            65536 * i32::from(b2) + 256 * i32::from(b[1]) + i32::from(b[0])
        })
        .filter(|&z| z < DSA_Q)
        .take(N)
        .collect();
    let mut out = DsaPoly::default();
    let filled = k.dsa_rej_uniform_vartime(bytes, &mut out);
    assert_eq!(filled, want.len(), "RejNTTPoly of {} bytes: how many were accepted", bytes.len());
    assert_eq!(out.0[..filled], want, "RejNTTPoly of {} bytes", bytes.len());
}

fn check_rej_uniform(k: &dyn Kernels) {
    let mut rng = Rng::new(30);
    for len in (0..=1008).step_by(3) {
        check_one_rej_uniform(k, &rng.bytes(len));
    }
    for _ in 0..200 {
        check_one_rej_uniform(k, &rng.bytes(840));
    }
    for share in 0..=16 {
        let bytes: Vec<u8> = (0..336)
            .flat_map(|_| {
                let edge = rng.below(4) as usize;
                let z = if rng.below(16) < share {
                    [DSA_Q, DSA_Q + 1, (1 << 23) - 2, (1 << 23) - 1][edge]
                } else {
                    [0, 1, DSA_Q - 2, DSA_Q - 1][edge]
                };
                let [a, b, c, _] = z.to_le_bytes();
                // The top bit is not part of the candidate.
                [a, b, c | (rng.below(2) as u8) << 7]
            })
            .collect();
        for len in [bytes.len(), 840, 768, 765, 771, 3] {
            check_one_rej_uniform(k, &bytes[..len]);
        }
    }
}

fn check_one_rej_bounded(k: &dyn Kernels, eta: usize, bytes: &[u8]) {
    // CoeffFromHalfByte (Algorithm 15) as written.
    let coefficient = |b: i32| match eta {
        2 => (b < 15).then(|| 2 - b % 5),
        _ => (b < 9).then_some(4 - b),
    };
    let want: Vec<i32> = bytes
        .iter()
        .flat_map(|&z| [i32::from(z) % 16, i32::from(z) / 16])
        .filter_map(coefficient)
        .take(N)
        .collect();
    let mut out = DsaPoly::default();
    let filled = k.dsa_rej_bounded_vartime(eta, bytes, &mut out);
    assert_eq!(filled, want.len(), "RejBoundedPoly of {} bytes, eta {eta}: count", bytes.len());
    assert_eq!(out.0[..filled], want, "RejBoundedPoly of {} bytes, eta {eta}", bytes.len());
}

fn check_rej_bounded(k: &dyn Kernels) {
    let mut rng = Rng::new(31);
    for eta in [2, 4] {
        for byte in 0..=255 {
            check_one_rej_bounded(k, eta, &[byte]);
            check_one_rej_bounded(k, eta, &[byte; 136]);
        }
        for len in 0..=544 {
            check_one_rej_bounded(k, eta, &rng.bytes(len));
        }
        for _ in 0..200 {
            check_one_rej_bounded(k, eta, &rng.bytes(272));
        }
        // Full at the low half of a byte, and at the high half.
        for lead in [0x0f, 0xf0, 0xff] {
            let mut bytes = vec![0x21; 160];
            bytes[7] = lead;
            check_one_rej_bounded(k, eta, &bytes);
        }
    }
}

fn check_ntt(k: &dyn Kernels) {
    let mut rng = Rng::new(32);
    for count in counts() {
        let mut polys = dsa_polys(&mut rng, count, -(DQ - 1), DQ - 1);
        let want: Vec<_> = polys.iter().map(|p| dsa_ntt(&dsa_canonical(p))).collect();
        k.dsa_ntt(&mut polys);
        for (p, want) in polys.iter().zip(&want) {
            assert_dsa_below(p, 10 * DQ, "NTT");
            assert_eq!(dsa_canonical(p), *want, "NTT, {count} polynomials");
        }
    }
    for i in 0..N {
        let mut p = [DsaPoly::default()];
        p[0].0[i] = 1;
        let want = dsa_ntt(&dsa_canonical(&p[0]));
        k.dsa_ntt(&mut p);
        assert_eq!(dsa_canonical(&p[0]), want, "NTT of X^{i}");
    }
}

fn check_inv_ntt(k: &dyn Kernels) {
    let mut rng = Rng::new(33);
    for count in counts() {
        let polys = dsa_polys(&mut rng, count, -(DQ - 1), DQ - 1);
        let mut inverse = polys.clone();
        k.dsa_inv_ntt(&mut inverse);
        for (p, inverse) in polys.iter().zip(&inverse) {
            assert_dsa_below(inverse, DQ, "NTT^-1");
            let want = dsa_canonical(p).map(|x| x * R % DQ);
            assert_eq!(dsa_ntt(&dsa_canonical(inverse)), want, "NTT^-1, {count} polynomials");
        }
    }
}

fn check_matvec(k: &dyn Kernels) {
    let mut rng = Rng::new(34);
    for (rows, columns) in [(4, 4), (6, 5), (8, 7), (1, 7), (0, 4), (3, 1), (17, 2)] {
        for round in 0..4 {
            let mut a = dsa_polys(&mut rng, rows * columns, -(DQ - 1), DQ - 1);
            let mut v = dsa_polys(&mut rng, columns, -(10 * DQ - 1), 10 * DQ - 1);
            if round < 2 {
                // Everything at its greatest, equal and opposite in sign.
                let sign = 1 - 2 * round;
                a.fill(DsaPoly([DSA_Q - 1; N]));
                v.fill(DsaPoly([sign * (10 * DSA_Q - 1); N]));
            }
            let mut out = vec![DsaPoly([99; N]); rows];
            k.dsa_matvec(&mut out, &a, &v);
            for (i, out) in out.iter().enumerate() {
                let row = &a[i * columns..(i + 1) * columns];
                let want: [i64; N] = std::array::from_fn(|c| {
                    let term = |(a, v): (&DsaPoly, &DsaPoly)| i64::from(a.0[c]) * i64::from(v.0[c]);
                    row.iter().zip(&v).map(term).sum::<i64>().rem_euclid(DQ)
                });
                assert_dsa_below(out, DQ, "matrix times vector");
                let scaled = dsa_canonical(out).map(|x| x * R % DQ);
                assert_eq!(scaled, want, "row {i} of {rows} times {columns} polynomials");
            }
        }
    }
}

fn check_pointwise(k: &dyn Kernels) {
    let mut rng = Rng::new(35);
    let high = 10 * DQ - 1;
    for count in counts() {
        for _ in 0..8 {
            let c = dsa_polys(&mut rng, 1, -high, high).remove(0);
            let v = dsa_polys(&mut rng, count, -high, high);
            let mut out = vec![DsaPoly([99; N]); count];
            k.dsa_pointwise(&mut out, &c, &v);
            for (out, v) in out.iter().zip(&v) {
                assert_dsa_below(out, DQ, "pointwise product");
                let want: [i64; N] =
                    std::array::from_fn(|i| (i64::from(c.0[i]) * i64::from(v.0[i])).rem_euclid(DQ));
                let scaled = dsa_canonical(out).map(|x| x * R % DQ);
                assert_eq!(scaled, want, "pointwise product");
            }
        }
    }
}

/// NTT, product and NTT^-1 together are the product of polynomials; the factors cancel.
fn check_multiplication(k: &dyn Kernels) {
    let mut rng = Rng::new(36);
    for _ in 0..20 {
        let mut a = dsa_polys(&mut rng, 1, -(DQ - 1), DQ - 1);
        let mut b = dsa_polys(&mut rng, 1, -(DQ - 1), DQ - 1);
        let want = multiply(&dsa_canonical(&a[0]), &dsa_canonical(&b[0]), DQ);
        k.dsa_ntt(&mut a);
        k.dsa_ntt(&mut b);
        let mut product = [DsaPoly::default()];
        k.dsa_pointwise(&mut product, &a[0], &b);
        k.dsa_inv_ntt(&mut product);
        assert_eq!(dsa_canonical(&product[0]), want, "product of two polynomials");
    }
}

fn check_add_and_sub(k: &dyn Kernels) {
    let mut rng = Rng::new(37);
    let high = 10 * DQ - 1;
    for count in counts() {
        for _ in 0..8 {
            let a = dsa_polys(&mut rng, count, -high, high);
            let b = dsa_polys(&mut rng, count, -high, high);
            let mut sum = a.clone();
            k.dsa_add(&mut sum, &b);
            let mut difference = a.clone();
            k.dsa_sub(&mut difference, &b);
            for i in 0..count {
                let (a, b) = (dsa_canonical(&a[i]), dsa_canonical(&b[i]));
                assert_dsa_below(&sum[i], DQ, "sum");
                assert_dsa_below(&difference[i], DQ, "difference");
                let want: [i64; N] = std::array::from_fn(|j| (a[j] + b[j]) % DQ);
                assert_eq!(dsa_canonical(&sum[i]), want, "sum");
                let want: [i64; N] = std::array::from_fn(|j| (a[j] - b[j]).rem_euclid(DQ));
                assert_eq!(dsa_canonical(&difference[i]), want, "difference");
            }
        }
    }
}

fn check_shift_left_d(k: &dyn Kernels) {
    for count in counts() {
        let mut polys: Vec<_> = (0..count)
            .map(|i| DsaPoly(std::array::from_fn(|c| ((i * N + c) % 1024) as i32)))
            .collect();
        k.dsa_shift_left_d(&mut polys);
        for (i, p) in polys.iter().enumerate() {
            assert_dsa_below(p, DQ, "times 2^13");
            let want = std::array::from_fn(|c| ((i * N + c) % 1024 * 8192) as i64 % DQ);
            assert_eq!(dsa_canonical(p), want, "times 2^13");
        }
    }
}

fn check_simple_bit_pack(k: &dyn Kernels) {
    let mut rng = Rng::new(38);
    for bits in [4, 6, 10] {
        let mut inputs: Vec<_> = (0..4)
            .map(|first| std::array::from_fn(|i| ((first * N + i) % (1 << bits)) as i64))
            .collect();
        inputs.push([(1 << bits) - 1; N]);
        inputs.extend((0..20).map(|_| unpack(&rng.bytes(32 * bits), bits)));
        for values in inputs {
            let mut out = vec![0xa5; 32 * bits];
            k.dsa_simple_bit_pack(bits, &DsaPoly(values.map(|x| x as i32)), &mut out);
            let want = pack(&values, bits);
            assert_eq!(out, want, "SimpleBitPack, {bits} bits");
            if bits == 10 {
                let mut back = DsaPoly([-1; N]);
                k.dsa_simple_bit_unpack(bits, &want, &mut back);
                assert_eq!(back.0.map(i64::from), values, "SimpleBitUnpack, {bits} bits");
            }
        }
    }
}

/// The (bits, b) that the standard uses: eta, t0, z.
const BIT_PACKS: [(usize, i64); 5] = [(3, 2), (4, 4), (13, 1 << 12), (18, 1 << 17), (20, 1 << 19)];

fn check_bit_pack(k: &dyn Kernels) {
    let mut rng = Rng::new(39);
    for (bits, b) in BIT_PACKS {
        let top = (1 << bits) - 1;
        let mut stored = vec![[0; N], [top; N]];
        // Every stored value of a width that is small enough, in order.
        stored.extend((0..32).map(|first| std::array::from_fn(|i| (first * 256 + i as i64) & top)));
        stored.extend((0..50).map(|_| unpack(&rng.bytes(32 * bits), bits)));
        for values in stored {
            let want = pack(&values, bits);
            let centred = values.map(|v| b - v);
            let mut out = vec![0xa5; 32 * bits];
            k.dsa_bit_pack(bits, b as i32, &DsaPoly(centred.map(|x| x as i32)), &mut out);
            assert_eq!(out, want, "BitPack, {bits} bits");
            if bits >= 18 {
                // z may come as any residue.
                let residue = centred.map(|x| x - rng.below(2) as i64 * DQ * x.signum());
                assert_eq!(residue.map(|x| mod_pm(x, DQ)), centred);
                k.dsa_bit_pack(bits, b as i32, &DsaPoly(residue.map(|x| x as i32)), &mut out);
                assert_eq!(out, want, "BitPack of residues, {bits} bits");
            }
            let mut back = DsaPoly([DSA_Q; N]);
            k.dsa_bit_unpack(bits, b as i32, &want, &mut back);
            assert_eq!(back.0.map(i64::from), centred, "BitUnpack, {bits} bits");
        }
    }
}
