//! Polynomials of ML-KEM from seeds against Algorithms 7 and 8 of FIPS 203 over the `sha3` crate.

use gabion_scheme::kernels::kem::{KemNoise, KemUniform, UNIFORM_LEN};
use gabion_scheme::kernels::{KEM_Q, KemPoly, Kernels, N};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake128, Shake256};

use super::reference::Rng;

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    check_sample_ntt(k);
    check_sample_cbd(k);
}

fn seeds(rng: &mut Rng, count: usize) -> Vec<[u8; 32]> {
    (0..count).map(|_| rng.bytes(32).try_into().unwrap()).collect()
}

/// SampleNTT as written, and how many bytes it read.
fn sample_ntt(rho: &[u8; 32], index: [u8; 2]) -> ([i16; N], usize) {
    let mut hash = Shake128::default();
    hash.update(rho);
    hash.update(&index);
    let mut reader = hash.finalize_xof();
    let (mut accepted, mut read) = (Vec::new(), 0);
    while accepted.len() < N {
        let mut c = [0; 3];
        reader.read(&mut c);
        read += 3;
        let c = c.map(i16::from);
        for d in [c[0] + 256 * (c[1] % 16), c[1] / 16 + 16 * c[2]] {
            if d < KEM_Q && accepted.len() < N {
                accepted.push(d);
            }
        }
    }
    (accepted.try_into().unwrap(), read)
}

/// Every number of seeds about the number of lanes, and among them some that need another block.
fn check_sample_ntt(k: &dyn Kernels) {
    let mut rng = Rng::new(71);
    let mut longer = 0;
    for count in (0..=18).chain([64, 300]) {
        let seeds = seeds(&mut rng, count);
        let mut out = vec![KemPoly([99; N]); count];
        let index = |i: usize| [(i * 7) as u8, (i * 5 + 1) as u8];
        let jobs = seeds.iter().zip(&mut out).enumerate();
        let mut jobs: Vec<_> =
            jobs.map(|(i, (rho, out))| KemUniform { rho, index: index(i), out }).collect();
        k.kem_sample_ntt_vartime(&mut jobs);
        for (i, (rho, out)) in seeds.iter().zip(&out).enumerate() {
            let (want, read) = sample_ntt(rho, index(i));
            assert!(out.0 == want, "SampleNTT of seed {i} of {count}");
            longer += usize::from(read > UNIFORM_LEN);
        }
    }
    assert!(longer > 0, "no seed needed more than {UNIFORM_LEN} bytes");
}

fn check_sample_cbd(k: &dyn Kernels) {
    let mut rng = Rng::new(72);
    for eta in [2usize, 3] {
        for count in (0..=18).chain([64]) {
            let seeds = seeds(&mut rng, count);
            let mut out = vec![KemPoly([99; N]); count];
            let jobs = seeds.iter().zip(&mut out).enumerate();
            let mut jobs: Vec<_> = jobs
                .map(|(i, (seed, out))| KemNoise { seed, index: (i * 41) as u8, out })
                .collect();
            k.kem_sample_cbd(eta, &mut jobs);
            for (i, (seed, out)) in seeds.iter().zip(&out).enumerate() {
                let mut hash = Shake256::default();
                hash.update(seed);
                hash.update(&[(i * 41) as u8]);
                let mut bytes = vec![0; 64 * eta];
                hash.finalize_xof().read(&mut bytes);
                let bit = |i: usize| i16::from(bytes[i / 8] >> (i % 8) & 1);
                let want: [i16; N] = std::array::from_fn(|i| {
                    let x: i16 = (0..eta).map(|j| bit(2 * i * eta + j)).sum();
                    let y: i16 = (0..eta).map(|j| bit(2 * i * eta + eta + j)).sum();
                    x - y
                });
                assert!(out.0 == want, "SamplePolyCBD_{eta} of seed {i} of {count}");
            }
        }
    }
}
