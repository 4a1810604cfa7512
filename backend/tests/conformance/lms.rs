//! Chains and hashes of LMS against the `sha2` and `sha3` crates, by the formulas of RFC 8554 written
//! out with whole messages.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::{LmsChain, LmsFamily, LmsHash, PREFIX, STEPS_MAX};
use sha2::{Digest, Sha256};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use super::reference::Rng;
use super::slh::GUARD;

const FAMILIES: [LmsFamily; 2] = [LmsFamily::Sha256, LmsFamily::Shake256];

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    for family in FAMILIES {
        for n in [24, 32] {
            check_every_start(k, family, n);
            check_chain_counts(k, family, n);
            check_hashes(k, family, n);
            check_misuse(k, family, n);
        }
    }
}

/// H of a message, n bytes.
fn h(family: LmsFamily, n: usize, message: &[u8]) -> Vec<u8> {
    match family {
        LmsFamily::Sha256 => Sha256::digest(message)[..n].to_vec(),
        LmsFamily::Shake256 => {
            let mut out = vec![0; n];
            Shake256::default().chain(message).finalize_xof().read(&mut out);
            out
        }
    }
}

/// One chain to run.
struct Case {
    prefix: [u8; PREFIX],
    start: u32,
    steps: u32,
    value: Vec<u8>,
}

impl Case {
    fn new(rng: &mut Rng, n: usize, start: u32, steps: u32) -> Self {
        let mut prefix = [0; PREFIX];
        prefix.copy_from_slice(&rng.bytes(PREFIX));
        Case { prefix, start, steps, value: rng.bytes(n) }
    }

    /// RFC 8554, Algorithm 4b, step 3.
    fn expected(&self, family: LmsFamily) -> Vec<u8> {
        let step = |value: Vec<u8>, j: u32| {
            h(family, value.len(), &[&self.prefix[..], &[j as u8], &value].concat())
        };
        (self.start..self.start + self.steps).fold(self.value.clone(), step)
    }
}

/// Runs the cases in one call and compares; values lie side by side with guards between them.
fn run_chains(k: &dyn Kernels, family: LmsFamily, n: usize, cases: &[Case]) {
    let mut buffer = vec![0xa5u8; cases.len() * (n + GUARD) + GUARD];
    let values = buffer[GUARD..].chunks_exact_mut(n + GUARD);
    let jobs = cases.iter().zip(values).map(|(case, value)| {
        let value = &mut value[..n];
        value.copy_from_slice(&case.value);
        let Case { prefix, start, steps, .. } = *case;
        LmsChain { family, prefix, start, steps, value }
    });
    k.lms_chain_many(&mut jobs.collect::<Vec<_>>());
    assert!(buffer[..GUARD].iter().all(|&byte| byte == 0xa5), "wrote before the first value");
    let values = buffer[GUARD..].chunks_exact(n + GUARD);
    for (i, (case, value)) in cases.iter().zip(values).enumerate() {
        let (start, steps, count) = (case.start, case.steps, cases.len());
        assert_eq!(
            value[..n],
            case.expected(family),
            "chain {i} of {count}: {family:?}, {n}, {steps} from {start}"
        );
        assert!(value[n..].iter().all(|&byte| byte == 0xa5), "chain {i} wrote past its value");
    }
}

/// From every start to the end that each w sets, as signatures have them; and nowhere.
fn check_every_start(k: &dyn Kernels, family: LmsFamily, n: usize) {
    let mut rng = Rng::new(1);
    for last in [1, 3, 15] {
        let cases: Vec<_> =
            (0..=last).map(|start| Case::new(&mut rng, n, start, last - start)).collect();
        run_chains(k, family, n, &cases);
    }
    let starts = (0..=STEPS_MAX).step_by(51).chain([1, 126, 127, 128, 250, 253, 254]);
    let cases: Vec<_> =
        starts.map(|start| Case::new(&mut rng, n, start, STEPS_MAX - start)).collect();
    run_chains(k, family, n, &cases);
    let whole = Case::new(&mut rng, n, 0, STEPS_MAX);
    run_chains(k, family, n, &[whole]);
}

/// Calls of 0 to 40 chains and more, of lengths as they come: alike, and all different.
fn check_chain_counts(k: &dyn Kernels, family: LmsFamily, n: usize) {
    let mut rng = Rng::new(2);
    for count in (0..=40).chain([67, 300]) {
        for alike in [true, false] {
            let cases: Vec<_> = (0..count)
                .map(|_| {
                    let start = if alike { 11 } else { rng.below(16) as u32 };
                    Case::new(&mut rng, n, start, 15 - start)
                })
                .collect();
            run_chains(k, family, n, &cases);
        }
    }
}

/// Hashes of leaves, nodes, one-time keys of every w, and lengths about a block, alone and mixed.
fn check_hashes(k: &dyn Kernels, family: LmsFamily, n: usize) {
    let mut rng = Rng::new(3);
    let chains = [26, 34, 51, 67, 101, 133, 200, 265].map(|chains| chains * n);
    let lengths: Vec<_> = (0..=130).chain(chains).collect();
    run_hashes(k, family, n, &mut rng, &lengths);
    for &len in &lengths {
        run_hashes(k, family, n, &mut rng, &[len]);
    }
    for count in (0..=40).chain([67]) {
        for len in [n, 2 * n, 34 * n] {
            run_hashes(k, family, n, &mut rng, &vec![len; count]);
        }
    }
}

/// Runs one hash of each length in one call and compares.
fn run_hashes(k: &dyn Kernels, family: LmsFamily, n: usize, rng: &mut Rng, lengths: &[usize]) {
    let cases: Vec<_> = lengths.iter().map(|&len| (rng.bytes(PREFIX), rng.bytes(len))).collect();
    let mut buffer = vec![0xa5u8; cases.len() * (n + GUARD) + GUARD];
    let outputs = buffer[GUARD..].chunks_exact_mut(n + GUARD);
    let jobs = cases.iter().zip(outputs).map(|((bytes, input), output)| {
        let mut prefix = [0; PREFIX];
        prefix.copy_from_slice(bytes);
        LmsHash { family, prefix, input, output: &mut output[..n] }
    });
    k.lms_hash_many(&mut jobs.collect::<Vec<_>>());
    assert!(buffer[..GUARD].iter().all(|&byte| byte == 0xa5), "wrote before the first output");
    let outputs = buffer[GUARD..].chunks_exact(n + GUARD);
    for (i, ((prefix, input), output)) in cases.iter().zip(outputs).enumerate() {
        let want = h(family, n, &[&prefix[..], input].concat());
        assert_eq!(output[..n], want, "hash {i} of {}: {family:?}, {n}", cases.len());
        assert!(output[n..].iter().all(|&byte| byte == 0xa5), "hash {i} wrote past its output");
    }
}

/// Jobs that do not fit each other, and steps beyond the last, panic before anything is written.
fn check_misuse(k: &dyn Kernels, family: LmsFamily, n: usize) {
    let other = if family == LmsFamily::Sha256 { LmsFamily::Shake256 } else { LmsFamily::Sha256 };
    let bad = [
        (other, n, 0, 1),
        (family, n - 1, 0, 1),
        (family, 56 - n, 0, 1),
        (family, n, STEPS_MAX, 1),
        (family, n, 0, STEPS_MAX + 1),
        (family, n, u32::MAX, 2),
    ];
    for (i, (second_family, len, start, steps)) in bad.into_iter().enumerate() {
        let (mut first, mut second) = (vec![0xa5u8; n], vec![0xa5u8; len]);
        let prefix = [7; PREFIX];
        let call = AssertUnwindSafe(|| {
            let one = LmsChain { family, prefix, start: 0, steps: 1, value: &mut first };
            let family = second_family;
            let two = LmsChain { family, prefix, start, steps, value: &mut second };
            k.lms_chain_many(&mut [one, two]);
        });
        assert!(catch_unwind(call).is_err(), "misuse {i} of chains was accepted");
        let call = AssertUnwindSafe(|| {
            let one = LmsHash { family, prefix, input: &[1; 64], output: &mut first };
            let (family, output) = (second_family, &mut second[..]);
            let two = LmsHash { family, prefix, input: &[1; 64], output };
            k.lms_hash_many(&mut [one, two]);
        });
        assert!(i > 2 || catch_unwind(call).is_err(), "misuse {i} of hashes was accepted");
        let untouched = first.iter().chain(&second).all(|&byte| byte == 0xa5);
        assert!(untouched, "a refused call wrote something");
    }
}
