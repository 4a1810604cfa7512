//! The schedulers of sponges against sponges run one by one.

use gabion_scheme::kernels::{Kernels, SPONGE_PARTS, Sponge, Xof};

use super::on_every_instruction_set;
use crate::portable::Portable;

const XOFS: [Xof; 4] = [Xof::Shake128, Xof::Shake256, Xof::Sha3_256, Xof::Sha3_512];

/// A small generator of test data (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// Runs the same jobs on both; each is (function, lengths of the pieces, length of output).
fn compare(k: &dyn Kernels, specs: &[(Xof, [usize; SPONGE_PARTS], usize)], r: &mut Random) {
    let inputs: Vec<[Vec<u8>; SPONGE_PARTS]> = specs
        .iter()
        .map(|(_, lens, _)| lens.map(|len| (0..len).map(|_| r.below(256) as u8).collect()))
        .collect();
    let outputs = [k, &Portable].map(|kernels| {
        let mut outputs: Vec<Vec<u8>> = specs.iter().map(|(_, _, len)| vec![0xa5; *len]).collect();
        let mut jobs: Vec<Sponge<'_>> = (specs.iter().zip(&inputs).zip(&mut outputs))
            .map(|((spec, input), output)| Sponge {
                xof: spec.0,
                input: core::array::from_fn(|i| &input[i][..]),
                output,
            })
            .collect();
        kernels.sponge_many(&mut jobs);
        outputs
    });
    for (i, spec) in specs.iter().enumerate() {
        assert_eq!(outputs[0][i], outputs[1][i], "job {i} of {}: {spec:?}", specs.len());
    }
}

on_every_instruction_set!(
    every_length_round_the_rates,
    jobs_in_step,
    mixed_jobs_of_every_count,
    very_long_jobs
);

fn every_length_round_the_rates(k: &dyn Kernels) {
    let mut r = Random(1);
    for xof in XOFS {
        let rate = xof.rate();
        let longest = 2 * rate + 9;
        let specs: Vec<_> = (0..=longest)
            .map(|n| (xof, [n.min(5), 0, n.saturating_sub(5), 0, 0], (n * 7) % 700))
            .collect();
        compare(k, &specs, &mut r);
        let specs: Vec<_> = (0..=longest).map(|n| (xof, [33, n, 1, 64, 0], longest - n)).collect();
        compare(k, &specs, &mut r);
    }
}

fn jobs_in_step(k: &dyn Kernels) {
    let mut r = Random(4);
    for xof in XOFS {
        for input in [0, 1, 8, 33, 34, 63, 64, 65, 71, 72, 135, 136, 168, 199, 400, 1184] {
            for output in [0, 1, 32, 64, 71, 128, 136, 168, 192, 504, 505, 840] {
                let (count, first) = ([8, 16, 19][r.below(3)], r.below(input + 1).min(300));
                let mut lengths = [first, 0, 0, 0, 0];
                lengths[1 + r.below(2)] = input - first;
                compare(k, &vec![(xof, lengths, output); count], &mut r);
            }
        }
    }
}

fn mixed_jobs_of_every_count(k: &dyn Kernels) {
    let mut r = Random(2);
    for count in (0..=17).chain([31, 255, 256, 257, 600]) {
        for _ in 0..4 {
            let specs: Vec<_> = (0..count)
                .map(|_| {
                    let longest = [3, 40, 70, 200, 1500][r.below(5)];
                    let lens = core::array::from_fn(|_| r.below(3) / 2 * r.below(longest));
                    let out = [32, 64, 128, 192, 504, 840, r.below(1000)][r.below(7)];
                    (XOFS[r.below(4)], lens, out)
                })
                .collect();
            compare(k, &specs, &mut r);
        }
    }
}

fn very_long_jobs(k: &dyn Kernels) {
    let mut r = Random(3);
    let specs: Vec<_> =
        (0..3).map(|i| (XOFS[i], [20_000 * i, 1, 30_000, 0, 7], 32 + 20_000 * i)).collect();
    compare(k, &specs, &mut r);
}
