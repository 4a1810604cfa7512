//! Chains, hashes and secrets of XMSS against the `sha2` and `sha3` crates, by the formulas of RFC 8391 and
//! SP 800-208 written out with whole messages.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::xmss::{
    STEPS_MAX, XmssAddress, XmssChain, XmssContext, XmssFamily, XmssHash, XmssSecret,
    XmssSecretSeed,
};
use sha2::{Digest, Sha256, Sha512};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake128, Shake256};

use super::reference::Rng;
use super::slh::GUARD;

const SETS: [(XmssFamily, usize); 7] = [
    (XmssFamily::Sha256, 24),
    (XmssFamily::Sha256, 32),
    (XmssFamily::Sha512, 64),
    (XmssFamily::Shake128, 32),
    (XmssFamily::Shake256, 24),
    (XmssFamily::Shake256, 32),
    (XmssFamily::Shake256, 64),
];

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    for (family, n) in SETS {
        check_every_start(k, family, n);
        check_chain_counts(k, family, n);
        check_hashes(k, family, n);
        check_misuse(k, family, n);
        if family != XmssFamily::Sha512 && n <= 32 {
            check_secrets(k, family, n);
            check_misuse_of_secrets(k, family, n);
        }
    }
}

/// The hash function over `toByte(domain, padding) || pieces`.
fn h(family: XmssFamily, n: usize, domain: u8, pieces: &[&[u8]]) -> Vec<u8> {
    let mut message = vec![0; if n == 24 { 4 } else { n }];
    message.extend(pieces.concat());
    let padding = if n == 24 { 4 } else { n };
    message[padding - 1] = domain;
    let mut out = vec![0; n];
    match family {
        XmssFamily::Sha256 => out.copy_from_slice(&Sha256::digest(message)[..n]),
        XmssFamily::Sha512 => out.copy_from_slice(&Sha512::digest(message)),
        XmssFamily::Shake128 => {
            Shake128::default().chain(message).finalize_xof().read(&mut out);
        }
        XmssFamily::Shake256 => {
            Shake256::default().chain(message).finalize_xof().read(&mut out);
        }
    }
    out
}

/// PRF(SEED, address with this last word).
fn prf(context: &XmssContext, address: &XmssAddress, last: u32) -> Vec<u8> {
    let address = address.with(XmssAddress::KEY_AND_MASK, last).bytes();
    h(context.family, context.n, 3, &[context.seed(), &address])
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

fn address(rng: &mut Rng) -> XmssAddress {
    let mut address = XmssAddress::default();
    let bytes = rng.bytes(32);
    for (word, bytes) in address.0.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    address
}

/// One chain to run.
struct Case {
    context: XmssContext,
    address: XmssAddress,
    start: u32,
    steps: u32,
    value: Vec<u8>,
}

impl Case {
    fn new(rng: &mut Rng, (family, n): (XmssFamily, usize), start: u32, steps: u32) -> Self {
        let context = XmssContext::new(family, &rng.bytes(n));
        Case { context, address: address(rng), start, steps, value: rng.bytes(n) }
    }

    /// RFC 8391, Algorithm 2.
    fn expected(&self) -> Vec<u8> {
        let XmssContext { family, n, .. } = self.context;
        (self.start..self.start + self.steps).fold(self.value.clone(), |value, j| {
            let address = self.address.with(XmssAddress::HASH, j);
            let (key, mask) = (prf(&self.context, &address, 0), prf(&self.context, &address, 1));
            h(family, n, 0, &[&key, &xor(&value, &mask)])
        })
    }
}

/// Runs the cases in one call and compares; values lie side by side with guards between them.
fn run_chains(k: &dyn Kernels, n: usize, cases: &[Case]) {
    let mut buffer = vec![0xa5u8; cases.len() * (n + GUARD) + GUARD];
    let values = buffer[GUARD..].chunks_exact_mut(n + GUARD);
    let jobs = cases.iter().zip(values).map(|(case, value)| {
        let value = &mut value[..n];
        value.copy_from_slice(&case.value);
        let Case { context, address, start, steps, .. } = case;
        XmssChain { context, address: *address, start: *start, steps: *steps, value }
    });
    k.xmss_chain_many(&mut jobs.collect::<Vec<_>>());
    assert!(buffer[..GUARD].iter().all(|&byte| byte == 0xa5), "wrote before the first value");
    let values = buffer[GUARD..].chunks_exact(n + GUARD);
    for (i, (case, value)) in cases.iter().zip(values).enumerate() {
        let (start, steps, count) = (case.start, case.steps, cases.len());
        let family = case.context.family;
        assert_eq!(
            value[..n],
            case.expected(),
            "chain {i} of {count}: {family:?}, {n}, {steps} from {start}"
        );
        assert!(value[n..].iter().all(|&byte| byte == 0xa5), "chain {i} wrote past its value");
    }
}

/// From every start to the end, as signatures have them, and from the first step to every end.
fn check_every_start(k: &dyn Kernels, family: XmssFamily, n: usize) {
    let mut rng = Rng::new(1);
    let shapes = (0..=STEPS_MAX).flat_map(|i| [(i, STEPS_MAX - i), (0, i)]);
    let cases: Vec<_> =
        shapes.map(|(start, steps)| Case::new(&mut rng, (family, n), start, steps)).collect();
    run_chains(k, n, &cases);
    let whole = Case::new(&mut rng, (family, n), 0, STEPS_MAX);
    run_chains(k, n, &[whole]);
}

/// Calls of 0 to 40 chains and more, of lengths as they come: alike, and all different.
fn check_chain_counts(k: &dyn Kernels, family: XmssFamily, n: usize) {
    let mut rng = Rng::new(2);
    for count in (0..=20).chain([33, 67, 300]) {
        for alike in [true, false] {
            let cases: Vec<_> = (0..count)
                .map(|_| {
                    let start = if alike { 12 } else { 9 + rng.below(7) as u32 };
                    Case::new(&mut rng, (family, n), start, STEPS_MAX - start)
                })
                .collect();
            run_chains(k, n, &cases);
        }
    }
}

/// Hashes of all numbers about those of lanes.
fn check_hashes(k: &dyn Kernels, family: XmssFamily, n: usize) {
    let mut rng = Rng::new(3);
    for count in (0..=40).chain([67]) {
        let cases: Vec<_> = (0..count)
            .map(|_| {
                let context = XmssContext::new(family, &rng.bytes(n));
                (context, address(&mut rng), rng.bytes(2 * n))
            })
            .collect();
        let mut buffer = vec![0xa5u8; cases.len() * (n + GUARD) + GUARD];
        let outputs = buffer[GUARD..].chunks_exact_mut(n + GUARD);
        let jobs = cases.iter().zip(outputs).map(|((context, address, input), output)| XmssHash {
            context,
            address: *address,
            input,
            output: &mut output[..n],
        });
        k.xmss_hash_many(&mut jobs.collect::<Vec<_>>());
        assert!(buffer[..GUARD].iter().all(|&byte| byte == 0xa5), "wrote before the first output");
        let outputs = buffer[GUARD..].chunks_exact(n + GUARD);
        for (i, ((context, address, input), output)) in cases.iter().zip(outputs).enumerate() {
            // RFC 8391, Algorithm 7.
            let masks = [prf(context, address, 1), prf(context, address, 2)].concat();
            let want = h(family, n, 1, &[&prf(context, address, 0), &xor(input, &masks)]);
            assert_eq!(output[..n], want, "hash {i} of {count}: {family:?}, {n}");
            assert!(output[n..].iter().all(|&byte| byte == 0xa5), "hash {i} wrote past its output");
        }
    }
}

/// Secrets of all numbers about those of lanes.
fn check_secrets(k: &dyn Kernels, family: XmssFamily, n: usize) {
    let mut rng = Rng::new(4);
    for count in (0..=20).chain([67]) {
        let cases: Vec<_> = (0..count)
            .map(|_| {
                let context = XmssContext::new(family, &rng.bytes(n));
                let seed = rng.bytes(n);
                (context, XmssSecretSeed::new(family, &seed), address(&mut rng))
            })
            .collect();
        let mut buffer = vec![0xa5u8; cases.len() * (n + GUARD) + GUARD];
        let outputs = buffer[GUARD..].chunks_exact_mut(n + GUARD);
        let jobs = cases.iter().zip(outputs).map(|((context, seed, address), output)| XmssSecret {
            context,
            seed,
            address: *address,
            output: &mut output[..n],
        });
        k.xmss_secret_many(&mut jobs.collect::<Vec<_>>());
        let outputs = buffer[GUARD..].chunks_exact(n + GUARD);
        for (i, ((context, seed, address), output)) in cases.iter().zip(outputs).enumerate() {
            let want = h(family, n, 4, &[seed.bytes(), context.seed(), &address.bytes()]);
            assert_eq!(output[..n], want, "secret {i} of {count}: {family:?}, {n}");
            assert!(output[n..].iter().all(|&byte| byte == 0xa5), "{i} wrote past its output");
        }
    }
}

/// Jobs that do not fit each other, and steps beyond the last, panic before anything is written.
fn check_misuse(k: &dyn Kernels, family: XmssFamily, n: usize) {
    let (other, other_n) = if family == XmssFamily::Shake128 {
        (XmssFamily::Sha256, n)
    } else {
        (XmssFamily::Shake128, 32)
    };
    let bad = [
        ((other, other_n), other_n, 0, 1),
        ((family, n), n - 1, 0, 1),
        ((family, n), n, STEPS_MAX, 1),
        ((family, n), n, 0, STEPS_MAX + 1),
        ((family, n), n, u32::MAX, 2),
    ];
    let contexts =
        [(family, n), (other, other_n)].map(|(family, n)| XmssContext::new(family, &vec![7; n]));
    for (i, (set, len, start, steps)) in bad.into_iter().enumerate() {
        let (mut first, mut second) = (vec![0xa5u8; n], vec![0xa5u8; len]);
        let context = &contexts[0];
        let second_context = &contexts[usize::from(set != (family, n))];
        let address = XmssAddress::default();
        let call = AssertUnwindSafe(|| {
            let one = XmssChain { context, address, start: 0, steps: 1, value: &mut first };
            let context = second_context;
            let two = XmssChain { context, address, start, steps, value: &mut second };
            k.xmss_chain_many(&mut [one, two]);
        });
        assert!(catch_unwind(call).is_err(), "misuse {i} of chains was accepted");
        let (input, second_input) = (vec![1; 2 * n], vec![1; 2 * second_context.n]);
        let call = AssertUnwindSafe(|| {
            let one = XmssHash { context, address, input: &input, output: &mut first };
            let (context, input) = (second_context, &second_input[..]);
            let two = XmssHash { context, address, input, output: &mut second };
            k.xmss_hash_many(&mut [one, two]);
        });
        assert!(i > 1 || catch_unwind(call).is_err(), "misuse {i} of hashes was accepted");
        let untouched = first.iter().chain(&second).all(|&byte| byte == 0xa5);
        assert!(untouched, "a refused call wrote something");
    }
}

/// Checks misuse of secrets: another hash function, a short output, a seed of another length.
fn check_misuse_of_secrets(k: &dyn Kernels, family: XmssFamily, n: usize) {
    let other =
        if family == XmssFamily::Shake128 { XmssFamily::Sha256 } else { XmssFamily::Shake128 };
    let contexts =
        [(family, n), (other, 32)].map(|(family, n)| XmssContext::new(family, &vec![7; n]));
    let seeds = [n, 56 - n].map(|n| XmssSecretSeed::new(XmssFamily::Sha256, &vec![7; n]));
    for (i, (context, seed, len)) in [(1, 0, 32), (0, 0, n - 1), (0, 1, n)].into_iter().enumerate()
    {
        let (mut first, mut second) = (vec![0xa5u8; n], vec![0xa5u8; len]);
        let address = XmssAddress::default();
        let call = AssertUnwindSafe(|| {
            let (of_first, of_second) = (&contexts[0], &contexts[context]);
            let [one, two] =
                [(of_first, &seeds[0], &mut first), (of_second, &seeds[seed], &mut second)]
                    .map(|(context, seed, output)| XmssSecret { context, seed, address, output });
            k.xmss_secret_many(&mut [one, two]);
        });
        assert!(catch_unwind(call).is_err(), "misuse {i} of secrets was accepted");
        let untouched = first.iter().chain(&second).all(|&byte| byte == 0xa5);
        assert!(untouched, "a refused call wrote something");
    }
}
