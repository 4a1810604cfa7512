//! Polynomials of ML-KEM against FIPS 203.

use std::slice::{from_mut, from_ref};

use gabion_scheme::kernels::{KEM_Q, KemPoly, Kernels, N};

use super::counts;
use super::reference::{
    KQ, Rng, assert_kem_below, kem_canonical, kem_multiply_ntts, kem_ntt, kem_polys, multiply,
    pack, unpack,
};

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    check_rej_uniform(k);
    check_cbd(k);
    check_ntt(k);
    check_inv_ntt(k);
    check_matvec(k);
    check_multiplication(k);
    check_to_mont(k);
    check_add_and_sub(k);
    check_encode12(k);
    check_decode12(k);
    check_compress(k);
    check_decompress(k);
}

/// Every integer of `low..=high`, in polynomials; the last one is filled up with `low`.
fn every(low: i64, high: i64) -> Vec<KemPoly> {
    let all: Vec<i16> = (low..=high).map(|x| x as i16).collect();
    all.chunks(N)
        .map(|chunk| {
            let mut p = KemPoly([low as i16; N]);
            p.0[..chunk.len()].copy_from_slice(chunk);
            p
        })
        .collect()
}

/// SampleNTT (Algorithm 7) as written, over as many bytes as there are.
fn sample_ntt(bytes: &[u8]) -> Vec<i16> {
    let mut accepted = Vec::new();
    for c in bytes.chunks_exact(3) {
        let d1 = i64::from(c[0]) + 256 * (i64::from(c[1]) % 16);
        let d2 = i64::from(c[1]) / 16 + 16 * i64::from(c[2]);
        if d1 < KQ {
            accepted.push(d1 as i16);
        }
        if d2 < KQ && accepted.len() < N {
            accepted.push(d2 as i16);
        }
        if accepted.len() == N {
            break;
        }
    }
    accepted
}

fn check_one_rej_uniform(k: &dyn Kernels, bytes: &[u8]) {
    let want = sample_ntt(bytes);
    let mut out = KemPoly::default();
    let filled = k.kem_rej_uniform_vartime(bytes, &mut out);
    assert_eq!(filled, want.len(), "SampleNTT of {} bytes: how many were accepted", bytes.len());
    assert_eq!(out.0[..filled], want, "SampleNTT of {} bytes", bytes.len());
}

fn check_rej_uniform(k: &dyn Kernels) {
    let mut rng = Rng::new(10);
    for len in (0..=1008).step_by(3) {
        check_one_rej_uniform(k, &rng.bytes(len));
    }
    for len in [504, 672].into_iter().cycle().take(400) {
        check_one_rej_uniform(k, &rng.bytes(len));
    }
    // Candidates about the border, in every mixture and with every rate of acceptance.
    for share in 0..=16 {
        let candidates: Vec<i64> = (0..448)
            .map(|_| {
                let rejected = rng.below(16) < share;
                let (good, bad) = ([0, 1, 3327, 3328], [3329, 3330, 4094, 4095]);
                if rejected { bad[rng.below(4) as usize] } else { good[rng.below(4) as usize] }
            })
            .collect();
        let bytes: Vec<u8> = candidates
            .chunks_exact(2)
            .flat_map(|d| {
                let [a, b, c, _] = ((d[0] | d[1] << 12) as u32).to_le_bytes();
                [a, b, c]
            })
            .collect();
        for len in [bytes.len(), 384, 381, 387, 3, 6] {
            check_one_rej_uniform(k, &bytes[..len]);
        }
    }
}

fn check_cbd(k: &dyn Kernels) {
    let mut rng = Rng::new(11);
    for eta in [2usize, 3] {
        let every_byte = (0..64 * eta).map(|i| (i * 151) as u8).collect();
        let mut inputs = vec![vec![0; 64 * eta], vec![0xff; 64 * eta], every_byte];
        inputs.extend((0..100).map(|_| rng.bytes(64 * eta)));
        let (mut wants, mut all_bytes) = (Vec::new(), Vec::new());
        for bytes in inputs {
            let bit = |i: usize| i16::from(bytes[i / 8] >> (i % 8) & 1);
            let want: [i16; N] = std::array::from_fn(|i| {
                let x: i16 = (0..eta).map(|j| bit(2 * i * eta + j)).sum();
                let y: i16 = (0..eta).map(|j| bit(2 * i * eta + eta + j)).sum();
                x - y
            });
            wants.push(want);
            all_bytes.extend(bytes);
        }
        for (count, from) in (1..=9).map(|count| (count, 7 * count)) {
            let mut out = vec![KemPoly([99; N]); count];
            let bytes = &all_bytes[64 * eta * from..][..64 * eta * count];
            k.kem_cbd(eta, bytes, &mut out);
            let want = &wants[from..from + count];
            assert!(out.iter().zip(want).all(|(p, want)| p.0 == *want), "SamplePolyCBD_{eta}");
        }
        let mut out = vec![KemPoly([99; N]); wants.len()];
        k.kem_cbd(eta, &all_bytes, &mut out);
        assert!(out.iter().zip(&wants).all(|(p, want)| p.0 == *want), "SamplePolyCBD_{eta}");
    }
}

fn check_ntt(k: &dyn Kernels) {
    let mut rng = Rng::new(12);
    for count in counts() {
        let mut polys = kem_polys(&mut rng, count, -2 * KQ, 2 * KQ);
        let want: Vec<_> = polys.iter().map(|p| kem_ntt(&kem_canonical(p))).collect();
        k.kem_ntt(&mut polys);
        for (p, want) in polys.iter().zip(&want) {
            assert_kem_below(p, KQ, "NTT");
            assert_eq!(kem_canonical(p), *want, "NTT, {count} polynomials");
        }
    }
    // X^i, one by one: each row of the transform by itself.
    for i in 0..N {
        let mut p = [KemPoly::default()];
        p[0].0[i] = 1;
        let want = kem_ntt(&kem_canonical(&p[0]));
        k.kem_ntt(&mut p);
        assert_eq!(kem_canonical(&p[0]), want, "NTT of X^{i}");
    }
}

fn check_inv_ntt(k: &dyn Kernels) {
    let mut rng = Rng::new(13);
    for count in counts() {
        let polys = kem_polys(&mut rng, count, -(2 * KQ - 1), 2 * KQ - 1);
        let mut inverse = polys.clone();
        k.kem_inv_ntt(&mut inverse);
        for (p, inverse) in polys.iter().zip(&inverse) {
            assert_kem_below(inverse, KQ, "NTT^-1");
            // The forward definition of the result is the input, but for the factor 2^16.
            let want = kem_canonical(p).map(|x| (x << 16) % KQ);
            assert_eq!(kem_ntt(&kem_canonical(inverse)), want, "NTT^-1, {count} polynomials");
        }
    }
}

fn check_matvec(k: &dyn Kernels) {
    let mut rng = Rng::new(14);
    let high = KQ;
    for rank in 1..=4 {
        for rows in 0..=5 {
            for round in 0..4 {
                let mut a = kem_polys(&mut rng, rows * rank, -high, high);
                let mut v = kem_polys(&mut rng, rank, -high, high);
                if round < 2 {
                    // Everything at its greatest, equal and opposite in sign.
                    let sign = 1 - 2 * round as i16;
                    a.fill(KemPoly([high as i16; N]));
                    v.fill(KemPoly([sign * high as i16; N]));
                }
                check_one_matvec(k, &a, &v, rows);
            }
        }
    }
}

fn check_one_matvec(k: &dyn Kernels, a: &[KemPoly], v: &[KemPoly], rows: usize) {
    let rank = v.len();
    let mut out = vec![KemPoly([99; N]); rows];
    k.kem_matvec(&mut out, a, v);
    for (i, out) in out.iter().enumerate() {
        let mut want = [0; N];
        for j in 0..rank {
            let product =
                kem_multiply_ntts(&kem_canonical(&a[i * rank + j]), &kem_canonical(&v[j]));
            for (want, x) in want.iter_mut().zip(product) {
                *want = (*want + x) % KQ;
            }
        }
        assert_kem_below(out, KQ, "matrix times vector");
        let scaled = kem_canonical(out).map(|x| (x << 16) % KQ);
        assert_eq!(scaled, want, "row {i} of {rows} times {rank} polynomials");
    }
}

/// NTT, product and NTT^-1 together are the product of polynomials; the factors cancel.
fn check_multiplication(k: &dyn Kernels) {
    let mut rng = Rng::new(15);
    for _ in 0..20 {
        let (mut a, mut b) =
            (kem_polys(&mut rng, 1, -2 * KQ, 2 * KQ), kem_polys(&mut rng, 1, -2 * KQ, 2 * KQ));
        let want = multiply(&kem_canonical(&a[0]), &kem_canonical(&b[0]), KQ);
        k.kem_ntt(&mut a);
        k.kem_ntt(&mut b);
        let mut product = [KemPoly::default()];
        k.kem_matvec(&mut product, &a, &b);
        k.kem_inv_ntt(&mut product);
        assert_eq!(kem_canonical(&product[0]), want, "product of two polynomials");
    }
}

fn check_to_mont(k: &dyn Kernels) {
    for count in counts() {
        let mut polys = every(-(2 * KQ - 1), 2 * KQ - 1);
        polys.truncate(if count == 33 { usize::MAX } else { count });
        let want: Vec<_> = polys.iter().map(|p| kem_canonical(p).map(|x| (x << 16) % KQ)).collect();
        k.kem_to_mont(&mut polys);
        for (p, want) in polys.iter().zip(&want) {
            assert_kem_below(p, KQ, "times 2^16");
            assert_eq!(kem_canonical(p), *want, "times 2^16");
        }
    }
}

fn check_add_and_sub(k: &dyn Kernels) {
    let mut rng = Rng::new(16);
    let mut pairs: Vec<_> = (0..64)
        .map(|_| {
            let mut two = kem_polys(&mut rng, 2, -2 * KQ, 2 * KQ);
            (two.remove(0), two.remove(0))
        })
        .collect();
    for other in [-2 * KEM_Q, -1, 0, 1, 2 * KEM_Q] {
        pairs.extend(every(-2 * KQ, 2 * KQ).into_iter().map(|p| (p, KemPoly([other; N]))));
    }
    // Many additions at once give the same sums as one by one.
    let (mut sums, others): (Vec<_>, Vec<_>) = pairs[..7].iter().cloned().unzip();
    k.kem_add(&mut sums, &others);
    for ((a, b), sum) in pairs.iter().zip(&sums) {
        let mut one = a.clone();
        k.kem_add(from_mut(&mut one), from_ref(b));
        assert_eq!(*sum, one, "sum");
    }
    for (a, b) in pairs {
        let (a_ints, b_ints) = (kem_canonical(&a), kem_canonical(&b));
        let mut sum = a.clone();
        k.kem_add(from_mut(&mut sum), from_ref(&b));
        assert_kem_below(&sum, KQ, "sum");
        let want: [i64; N] = std::array::from_fn(|i| (a_ints[i] + b_ints[i]) % KQ);
        assert_eq!(kem_canonical(&sum), want, "sum");

        let mut difference = b.clone();
        k.kem_sub_from(&a, &mut difference);
        assert_kem_below(&difference, KQ, "difference");
        let want: [i64; N] = std::array::from_fn(|i| (a_ints[i] - b_ints[i]).rem_euclid(KQ));
        assert_eq!(kem_canonical(&difference), want, "difference");
    }
}

/// Slices of 1, 2, 3, 4, 1, .. polynomials, to the end.
fn in_groups(mut polys: &[KemPoly]) -> Vec<&[KemPoly]> {
    let mut groups = Vec::new();
    while !polys.is_empty() {
        let (group, rest) = polys.split_at((groups.len() % 4 + 1).min(polys.len()));
        groups.push(group);
        polys = rest;
    }
    groups
}

fn check_encode12(k: &dyn Kernels) {
    let mut rng = Rng::new(17);
    let mut polys = every(-2 * KQ, 2 * KQ);
    polys.extend(kem_polys(&mut rng, 16, -2 * KQ, 2 * KQ));
    for polys in in_groups(&polys) {
        let mut out = vec![0xa5; 384 * polys.len()];
        k.kem_encode12(polys, &mut out);
        let want = polys.iter().flat_map(|p| pack(&kem_canonical(p), 12));
        assert_eq!(out, want.collect::<Vec<_>>(), "ByteEncode_12");
    }
}

fn check_decode12(k: &dyn Kernels) {
    let mut rng = Rng::new(18);
    // Every field value, good and bad.
    for first in (0..4096).step_by(N) {
        let values: [i64; N] = std::array::from_fn(|i| first + i as i64);
        check_one_decode12(k, &values);
    }
    // A single bad value in each place among good ones; and none.
    for at in 0..=N {
        let mut values: [i64; N] = std::array::from_fn(|_| rng.between(0, KQ - 1));
        check_one_decode12(k, &values);
        if at < N {
            values[at] = [KQ, KQ + 1, 4095][at % 3];
            check_one_decode12(k, &values);
        }
    }
    check_one_decode12(k, &[KQ - 1; N]);
    check_one_decode12(k, &[KQ; N]);
    for _ in 0..50 {
        check_one_decode12(k, &unpack(&rng.bytes(384), 12));
    }
}

fn check_one_decode12(k: &dyn Kernels, values: &[i64; N]) {
    let below = values.iter().all(|&x| x < KQ);
    // Alone, and in each place among good ones.
    for (count, at) in [(1, 0), (3, 0), (3, 1), (3, 2)] {
        let mut fields = vec![[7; N]; count];
        fields[at] = *values;
        let bytes: Vec<u8> = fields.iter().flat_map(|values| pack(values, 12)).collect();
        let mut out = vec![KemPoly([99; N]); count];
        let all_below = k.kem_decode12(&bytes, &mut out);
        assert_eq!(all_below, below, "ByteDecode_12: the modulus check");
        for (p, values) in out.iter().zip(fields) {
            assert_eq!(p.0.map(i64::from), values.map(|x| x % KQ), "ByteDecode_12");
        }
    }
}

const D: [usize; 5] = [1, 4, 5, 10, 11];

/// Equation 4.7, over every accepted input: the nearest integer to 2^d x / q, modulo 2^d.
fn check_compress(k: &dyn Kernels) {
    let mut rng = Rng::new(19);
    let mut polys = every(-2 * KQ, 2 * KQ);
    polys.extend(kem_polys(&mut rng, 16, -2 * KQ, 2 * KQ));
    for d in D {
        let compressed = |x: i64| {
            // Nearest integer: twice the distance from 2^d x / q is below 1 (there are no ties).
            let y = (x << d) / KQ;
            let nearest = if 2 * ((x << d) - y * KQ) > KQ { y + 1 } else { y };
            nearest % (1 << d)
        };
        for polys in in_groups(&polys) {
            let want = polys.iter().flat_map(|p| pack(&kem_canonical(p).map(compressed), d));
            let mut out = vec![0xa5; 32 * d * polys.len()];
            k.kem_compress(d, polys, &mut out);
            assert_eq!(out, want.collect::<Vec<_>>(), "Compress_{d}");
        }
    }
}

/// Equation 4.8, over every input: the nearest integer to q y / 2^d, halves rounded up.
fn check_decompress(k: &dyn Kernels) {
    let mut rng = Rng::new(20);
    for d in D {
        for first in (0..2048).step_by(N) {
            let values: [i64; N] = std::array::from_fn(|i| (first + i as i64) % (1 << d));
            check_one_decompress(k, d, &values);
        }
        for _ in 0..20 {
            check_one_decompress(k, d, &unpack(&rng.bytes(32 * d), d));
        }
    }
}

fn check_one_decompress(k: &dyn Kernels, d: usize, values: &[i64; N]) {
    let want = values.map(|y| {
        let (floor, rest) = (KQ * y / (1 << d), KQ * y % (1 << d));
        if 2 * rest >= 1 << d { floor + 1 } else { floor }
    });
    for count in [1, 2, 3] {
        let bytes = pack(values, d).repeat(count);
        let mut out = vec![KemPoly([99; N]); count];
        k.kem_decompress(d, &bytes, &mut out);
        assert!(out.iter().all(|p| p.0.map(i64::from) == want), "Decompress_{d}");
        // Section 4.2.1: compressing what was decompressed changes nothing.
        let mut again = vec![0; 32 * d * count];
        k.kem_compress(d, &out, &mut again);
        assert_eq!(again, bytes, "Compress_{d} after Decompress_{d}");
    }
}
