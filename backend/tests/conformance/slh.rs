//! Tweakable hashes of SLH-DSA against the `sha2` and `sha3` crates, by the formulas of FIPS 205,
//! section 11, written out with whole messages.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhFamily, SlhHash};
use sha2::{Digest, Sha256, Sha512};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use super::reference::Rng;

pub const FAMILIES: [SlhFamily; 2] = [SlhFamily::Shake, SlhFamily::Sha2];
pub const SIZES: [usize; 3] = [16, 24, 32];
/// Guard bytes around each value, which must not be written.
pub const GUARD: usize = 8;

/// Runs every check of this file and of that on subtrees.
pub fn check(k: &dyn Kernels) {
    super::slh_fors::check(k);
    check_contexts();
    for family in FAMILIES {
        for n in SIZES {
            check_every_start_and_length(k, family, n);
            check_chain_counts(k, family, n);
            check_chains_of_one_shape(k, family, n);
            check_hash_lengths(k, family, n);
            check_hash_counts(k, family, n);
            check_misuse(k, family, n);
        }
    }
}

/// The midstates go on as the whole messages do.
fn check_contexts() {
    let pk_seed = Rng::new(1).bytes(24);
    let context = SlhContext::new(SlhFamily::Sha2, &pk_seed);
    assert_eq!(context.pk_seed[..24], pk_seed);
    assert_eq!(context.pk_seed[24..], [0; 8]);
    let mut state = context.sha256;
    let mut block = [0u8; 64];
    block[0] = 0x80;
    block[62..].copy_from_slice(&512u16.to_be_bytes());
    sha2::block_api::compress256(&mut state, &[block]);
    let want = Sha256::digest([&pk_seed[..], &[0; 40]].concat());
    assert_eq!(state.map(u32::to_be_bytes).as_flattened(), &want[..]);
}

/// The tweakable hash of a message: F, H, T_l and PRF are all this (sections 11.1 and 11.2), but
/// for the SHA-2 family's choice of SHA-512 for H and T_l where n is above 16.
pub fn tweak(
    family: SlhFamily,
    n: usize,
    seed: &[u8],
    adrs: &[u8; 32],
    m: &[u8],
    long: bool,
) -> Vec<u8> {
    let compressed = [&adrs[3..4], &adrs[8..16], &adrs[19..20], &adrs[20..]].concat();
    match family {
        SlhFamily::Shake => {
            let mut out = vec![0; n];
            let all = [seed, adrs, m].concat();
            Shake256::default().chain(all).finalize_xof().read(&mut out);
            out
        }
        SlhFamily::Sha2 if long && n > 16 => {
            let all = [seed, &vec![0; 128 - n], &compressed, m].concat();
            Sha512::digest(all)[..n].to_vec()
        }
        SlhFamily::Sha2 => {
            let all = [seed, &vec![0; 64 - n], &compressed, m].concat();
            Sha256::digest(all)[..n].to_vec()
        }
    }
}

/// One chain to run: which key, where, from what.
struct Case {
    context: SlhContext,
    address: SlhAddress,
    sk_seed: Option<Vec<u8>>,
    start: u32,
    steps: u32,
    value: Vec<u8>,
}

impl Case {
    fn new(rng: &mut Rng, family: SlhFamily, n: usize, start: u32, steps: u32) -> Self {
        let fors = rng.below(3) == 0;
        let secret = rng.below(2) == 0;
        let mut address = SlhAddress([0; 32]);
        address.0.copy_from_slice(&rng.bytes(32));
        address.0[16..20].copy_from_slice(&[0, 0, 0, if fors { 3 } else { 0 }]);
        Case {
            context: SlhContext::new(family, &rng.bytes(n)),
            address,
            sk_seed: secret.then(|| rng.bytes(n)),
            start,
            steps,
            value: rng.bytes(n),
        }
    }

    /// Algorithm 5, after PRF where there is a secret (Algorithms 6 and 14).
    fn expected(&self) -> Vec<u8> {
        let (family, n) = (self.context.family, self.context.n);
        let f = |address: &[u8; 32], value: &[u8]| {
            tweak(family, n, &self.context.pk_seed[..n], address, value, false)
        };
        let mut address = self.address.0;
        let mut value = self.value.clone();
        if let Some(sk_seed) = &self.sk_seed {
            let fors = address[19] == 3;
            let mut secret = address;
            secret[19] = if fors { 6 } else { 5 };
            let hash = if fors { self.start } else { 0 };
            secret[28..].copy_from_slice(&hash.to_be_bytes());
            value = f(&secret, sk_seed);
        }
        for j in self.start..self.start + self.steps {
            address[28..].copy_from_slice(&j.to_be_bytes());
            value = f(&address, &value);
        }
        value
    }
}

/// Runs the cases in one call and compares; values lie side by side with guards between them.
fn run_chains(k: &dyn Kernels, n: usize, cases: &[Case]) {
    let mut buffer = vec![0xa5u8; cases.len() * (n + GUARD) + GUARD];
    let values = buffer[GUARD..].chunks_exact_mut(n + GUARD);
    let mut jobs: Vec<_> = cases
        .iter()
        .zip(values)
        .map(|(case, value)| {
            let value = &mut value[..n];
            value.copy_from_slice(&case.value);
            SlhChain {
                context: &case.context,
                address: case.address,
                sk_seed: case.sk_seed.as_deref(),
                start: case.start,
                steps: case.steps,
                value,
            }
        })
        .collect();
    k.slh_chain_many(&mut jobs);
    drop(jobs);
    assert!(buffer[..GUARD].iter().all(|&byte| byte == 0xa5), "wrote before the first value");
    for (i, (case, value)) in cases.iter().zip(buffer[GUARD..].chunks_exact(n + GUARD)).enumerate()
    {
        let what = (case.context.family, n, case.start, case.steps, case.sk_seed.is_some());
        assert_eq!(value[..n], case.expected(), "chain {i} of {}: {what:?}", cases.len());
        assert!(value[n..].iter().all(|&byte| byte == 0xa5), "chain {i} wrote past its value");
    }
}

/// Every part of a chain of 15 steps, both alone and in one call; tree indices up to the largest.
fn check_every_start_and_length(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(2);
    let mut cases = Vec::new();
    for start in 0..=15 {
        for steps in 0..=15 - start {
            cases.push(Case::new(&mut rng, family, n, start, steps));
        }
    }
    for start in [16, 255, 256, 65_535, 65_536, 0x00ff_ffff, 0x0100_0000, 0x7fff_fffe] {
        cases.push(Case::new(&mut rng, family, n, start, 1));
    }
    run_chains(k, n, &cases);
    for case in &cases {
        run_chains(k, n, std::slice::from_ref(case));
    }
}

/// Calls of 0 to 40 chains: of equal length, and of lengths that leave lanes at different times.
fn check_chain_counts(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(3);
    for count in (0..=40).chain([67, 130]) {
        let equal: Vec<_> = (0..count).map(|_| Case::new(&mut rng, family, n, 0, 15)).collect();
        run_chains(k, n, &equal);
        for _ in 0..3 {
            let mixed: Vec<_> = (0..count)
                .map(|_| {
                    let start = rng.below(16) as u32;
                    let steps = rng.below(u64::from(16 - start)) as u32;
                    Case::new(&mut rng, family, n, start, steps)
                })
                .collect();
            run_chains(k, n, &mixed);
        }
        // All but the last end at once.
        let last: Vec<_> = (0..count)
            .map(|i| Case::new(&mut rng, family, n, 0, if i + 1 == count { 15 } else { 0 }))
            .collect();
        run_chains(k, n, &last);
    }
}

/// Calls of 0 to 40 chains that begin and end together, as those of one key and the leaves of FORS do,
/// from wherever they start.
fn check_chains_of_one_shape(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(7);
    for count in (0..=40).chain([67]) {
        for (is_secret, steps) in [(true, 15), (true, 1), (true, 0), (false, 15), (false, 2)] {
            let cases: Vec<_> = (0..count)
                .map(|_| {
                    let start = rng.below(u64::from(16 - steps)) as u32;
                    let case = Case::new(&mut rng, family, n, start, steps);
                    Case { sk_seed: is_secret.then(|| rng.bytes(n)), ..case }
                })
                .collect();
            run_chains(k, n, &cases);
        }
    }
}

/// Runs one hash of each length in one call and compares.
fn run_hashes(k: &dyn Kernels, family: SlhFamily, n: usize, rng: &mut Rng, lengths: &[usize]) {
    let cases: Vec<_> = lengths
        .iter()
        .map(|&len| {
            let mut address = SlhAddress([0; 32]);
            address.0.copy_from_slice(&rng.bytes(32));
            (SlhContext::new(family, &rng.bytes(n)), address, rng.bytes(len))
        })
        .collect();
    let mut buffer = vec![0xa5u8; cases.len() * (n + GUARD) + GUARD];
    let outputs = buffer[GUARD..].chunks_exact_mut(n + GUARD);
    let mut jobs: Vec<_> = cases
        .iter()
        .zip(outputs)
        .map(|((context, address, input), output)| SlhHash {
            context,
            address: *address,
            input,
            output: &mut output[..n],
        })
        .collect();
    k.slh_hash_many(&mut jobs);
    drop(jobs);
    assert!(buffer[..GUARD].iter().all(|&byte| byte == 0xa5), "wrote before the first output");
    let outputs = buffer[GUARD..].chunks_exact(n + GUARD);
    for (i, ((context, address, input), output)) in cases.iter().zip(outputs).enumerate() {
        let want = tweak(family, n, &context.pk_seed[..n], &address.0, input, true);
        let count = cases.len();
        assert_eq!(output[..n], want, "hash {i} of {count}: {family:?}, {n}, {}", input.len());
        assert!(output[n..].iter().all(|&byte| byte == 0xa5), "hash {i} wrote past its output");
    }
}

/// H, and T_l of every l up to that of WOTS+ and beyond, mixed in one call and alone.
fn check_hash_lengths(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(4);
    let lengths: Vec<_> = (1..=70).map(|l| l * n).collect();
    run_hashes(k, family, n, &mut rng, &lengths);
    for len in lengths {
        run_hashes(k, family, n, &mut rng, &[len]);
    }
}

/// Calls of 0 to 40 hashes of one length.
fn check_hash_counts(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(5);
    for count in (0..=40).chain([67, 130]) {
        for l in [2, 14, 35, 2 * n + 3] {
            run_hashes(k, family, n, &mut rng, &vec![l * n; count]);
        }
    }
}

/// Lengths and parameter sets that do not fit panic before anything is written.
fn check_misuse(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(6);
    let good = Case::new(&mut rng, family, n, 0, 1);
    let other_n = SlhContext::new(family, &rng.bytes(if n == 16 { 24 } else { 16 }));
    let short = vec![0; n - 1];
    let mut odd = good.address;
    odd.0[19] = 2;
    let bad: [(&SlhContext, SlhAddress, Option<&[u8]>, usize); 4] = [
        (&other_n, good.address, None, n),
        (&good.context, good.address, Some(&short), n),
        (&good.context, good.address, None, n - 1),
        (&good.context, odd, None, n),
    ];
    for (i, (context, address, sk_seed, len)) in bad.into_iter().enumerate() {
        let (mut first, mut second) = (vec![0xa5u8; n], vec![0xa5u8; n]);
        let call = AssertUnwindSafe(|| {
            let (start, steps) = (0, 1);
            let value = &mut first[..];
            let one = SlhChain {
                value,
                context: &good.context,
                address: good.address,
                sk_seed: None,
                start,
                steps,
            };
            let value = &mut second[..len];
            let two = SlhChain { value, context, address, sk_seed, start, steps };
            k.slh_chain_many(&mut [one, two]);
        });
        assert!(catch_unwind(call).is_err(), "misuse {i} of chains was accepted");
        let untouched = first.iter().chain(&second).all(|&byte| byte == 0xa5);
        assert!(untouched, "a refused call wrote something");
    }
    let mut first = vec![0xa5u8; n];
    for (context, len) in [(&other_n, n), (&good.context, n - 1)] {
        let mut second = vec![0xa5u8; len];
        let call = AssertUnwindSafe(|| {
            let address = good.address;
            let output = &mut first[..];
            let one = SlhHash { context: &good.context, address, input: &[1; 64], output };
            let output = &mut second[..];
            let two = SlhHash { context, address, input: &[1; 64], output };
            k.slh_hash_many(&mut [one, two]);
        });
        assert!(catch_unwind(call).is_err(), "misuse of hashes was accepted");
    }
    assert!(first.iter().all(|&byte| byte == 0xa5), "a refused call wrote something");
}
