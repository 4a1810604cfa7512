//! Chains, hashes and leaves of LMS against the `sha2` and `sha3` crates, by the formulas of RFC 8554 written
//! out with whole messages.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::{LmsChain, LmsFamily, LmsHash, LmsLeaves, PREFIX, STEPS_MAX};
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
            check_secrets(k, family, n);
            check_leaves(k, family, n);
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
    seed: Option<Vec<u8>>,
    start: u32,
    steps: u32,
    value: Vec<u8>,
}

impl Case {
    fn new(rng: &mut Rng, n: usize, start: u32, steps: u32) -> Self {
        let mut prefix = [0; PREFIX];
        prefix.copy_from_slice(&rng.bytes(PREFIX));
        Case { prefix, seed: None, start, steps, value: rng.bytes(n) }
    }

    /// Adds a seed to the case.
    fn with_seed(self, rng: &mut Rng) -> Self {
        Case { seed: Some(rng.bytes(self.value.len())), ..self }
    }

    /// RFC 8554, Algorithm 4b, step 3; appendix A.
    fn expected(&self, family: LmsFamily) -> Vec<u8> {
        let step = |value: Vec<u8>, j: u32| {
            h(family, value.len(), &[&self.prefix[..], &[j as u8], &value].concat())
        };
        let first = match &self.seed {
            Some(seed) => step(seed.clone(), 0xff),
            None => self.value.clone(),
        };
        (self.start..self.start + self.steps).fold(first, step)
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
        LmsChain { family, prefix, seed: case.seed.as_deref(), start, steps, value }
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

/// Checks secrets alone and before chains: as in key generation, as in signing, and mixed with
/// chains without secrets.
fn check_secrets(k: &dyn Kernels, family: LmsFamily, n: usize) {
    let mut rng = Rng::new(4);
    for count in (0..=20).chain([33, 67, 300]) {
        for last in [0, 1, 15] {
            let mut case = || Case::new(&mut rng, n, 0, last).with_seed(&mut rng);
            let cases: Vec<_> = (0..count).map(|_| case()).collect();
            run_chains(k, family, n, &cases);
        }
        let mut cases = Vec::new();
        for i in 0..count {
            let (start, steps) = (rng.below(4) as u32, rng.below(12) as u32);
            let case = Case::new(&mut rng, n, if i % 5 == 0 { start } else { 0 }, steps);
            cases.push(if i % 3 == 0 { case } else { case.with_seed(&mut rng) });
        }
        run_chains(k, family, n, &cases);
    }
    let whole = Case::new(&mut rng, n, 0, STEPS_MAX).with_seed(&mut rng);
    run_chains(k, family, n, &[whole]);
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

/// Leaves of every w and of all counts about the lanes, between guards.
fn check_leaves(k: &dyn Kernels, family: LmsFamily, n: usize) {
    let (mut rng, mut room) = (Rng::new(5), vec![7; 3]);
    let sets = match n {
        24 => [(1, 200), (2, 101), (4, 51), (8, 26)],
        _ => [(1, 265), (2, 133), (4, 67), (8, 34)],
    };
    for (w, chains) in sets {
        let mut id = [0; 16];
        id.copy_from_slice(&rng.bytes(16));
        let (seed, first, base) = (rng.bytes(n), 0x0102_0304, 1 << 25);
        let hash = |number: u32, what: &[u8], rest: &[u8]| {
            h(family, n, &[&id[..], &number.to_be_bytes(), what, rest].concat())
        };
        let want: Vec<_> = (first..first + if w == 8 { 17 } else { 35 })
            .map(|q| {
                let ends = (0..chains as u16).flat_map(|i| {
                    let i = i.to_be_bytes();
                    let secret = hash(q, &i, &[&[0xff][..], &seed].concat());
                    (0..(1u32 << w) - 1)
                        .fold(secret, |value, j| hash(q, &i, &[&[j as u8][..], &value].concat()))
                });
                let key = hash(q, &[0x80; 2], &ends.collect::<Vec<_>>());
                hash(base + q, &[0x82; 2], &key)
            })
            .collect();
        for count in [0, 1, 2, 15, 16, 17, 32, 35].into_iter().filter(|&count| count <= want.len())
        {
            let mut output = vec![0xa5; count * n + 2 * GUARD];
            let (id, seed, room) = (&id, &seed[..], &mut room);
            let leaves = &mut output[GUARD..][..count * n];
            k.lms_leaves(&mut LmsLeaves {
                family,
                id,
                seed,
                w,
                chains,
                first,
                base,
                output: leaves,
                room: &mut *room,
            });
            assert!(output[GUARD..][..count * n] == want[..count].concat(), "{count} of w {w}");
            let guards = [&output[..GUARD], &output[GUARD + count * n..]].concat();
            assert!(guards.iter().all(|&byte| byte == 0xa5), "{count} of w {w}: wrote beyond");
            assert!(count == 0 || room.iter().all(|&byte| byte == 0), "something is left");
        }
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
            let seed = None;
            let one = LmsChain { family, prefix, seed, start: 0, steps: 1, value: &mut first };
            let family = second_family;
            let two = LmsChain { family, prefix, seed, start, steps, value: &mut second };
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
