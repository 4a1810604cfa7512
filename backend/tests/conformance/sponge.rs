//! Sponges against the `sha3` crate: every length about the rates, parts, mixtures, lane counts.

use gabion_scheme::kernels::{Kernels, SPONGE_PARTS, Sponge, Xof};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Digest, Sha3_256, Sha3_512, Shake128, Shake256};

use super::counts;
use super::reference::Rng;

const ALL: [Xof; 4] = [Xof::Shake128, Xof::Shake256, Xof::Sha3_256, Xof::Sha3_512];

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    check_input_lengths(k);
    check_output_lengths(k);
    check_splits(k);
    check_counts(k);
    check_mixed(k);
}

/// The other implementation's output.
fn expected(xof: Xof, message: &[u8], out_len: usize) -> Vec<u8> {
    let mut out = vec![0; out_len];
    match xof {
        Xof::Shake128 => Shake128::default().chain(message).finalize_xof().read(&mut out),
        Xof::Shake256 => Shake256::default().chain(message).finalize_xof().read(&mut out),
        Xof::Sha3_256 => out.copy_from_slice(&Sha3_256::digest(message)),
        Xof::Sha3_512 => out.copy_from_slice(&Sha3_512::digest(message)),
    }
    out
}

/// SHAKE squeezes `wanted` bytes; SHA3's lengths are fixed.
fn out_len(xof: Xof, wanted: usize) -> usize {
    match xof {
        Xof::Shake128 | Xof::Shake256 => wanted,
        Xof::Sha3_256 => 32,
        Xof::Sha3_512 => 64,
    }
}

/// One sponge to run: its function, its message in parts, and its output length.
struct Case {
    xof: Xof,
    parts: [Vec<u8>; SPONGE_PARTS],
    out_len: usize,
}

impl Case {
    fn whole(xof: Xof, message: Vec<u8>, out_len: usize) -> Self {
        let mut parts: [Vec<u8>; SPONGE_PARTS] = Default::default();
        parts[0] = message;
        Case { xof, parts, out_len }
    }
}

/// Runs the cases in one call and compares. Outputs lie side by side, apart by a guard of 16 bytes
/// that no sponge may touch.
fn check_cases(k: &dyn Kernels, cases: &[Case]) {
    const GUARD: [u8; 16] = [0xa5; 16];
    let total: usize = cases.iter().map(|case| case.out_len + GUARD.len()).sum();
    let mut buffer = vec![0xa5u8; total];
    let mut rest = buffer.as_mut_slice();
    let mut jobs = Vec::new();
    for case in cases {
        let (out, after) = rest.split_at_mut(case.out_len);
        rest = &mut after[GUARD.len()..];
        jobs.push(Sponge::new(
            case.xof,
            std::array::from_fn::<_, SPONGE_PARTS, _>(|i| &case.parts[i][..]),
            out,
        ));
    }
    k.sponge_many(&mut jobs);
    drop(jobs);
    let mut rest = buffer.as_slice();
    for (i, case) in cases.iter().enumerate() {
        let lengths: Vec<_> = case.parts.iter().map(Vec::len).collect();
        let (out, after) = rest.split_at(case.out_len);
        let want = expected(case.xof, &case.parts.concat(), case.out_len);
        assert_eq!(out, want, "sponge {i} of {}: {:?}, parts {lengths:?}", cases.len(), case.xof);
        assert_eq!(after[..GUARD.len()], GUARD, "sponge {i} wrote past its output");
        rest = &after[GUARD.len()..];
    }
}

/// Message lengths 0..=4 rate + 1, all in one call.
fn check_input_lengths(k: &dyn Kernels) {
    let mut rng = Rng::new(1);
    for xof in ALL {
        let cases: Vec<_> = (0..=4 * xof.rate() + 1)
            .map(|len| Case::whole(xof, rng.bytes(len), out_len(xof, 1 + len % 70)))
            .collect();
        check_cases(k, &cases);
    }
}

/// Output lengths 0..=4 rate + 1, all in one call and one by one.
fn check_output_lengths(k: &dyn Kernels) {
    let mut rng = Rng::new(2);
    for xof in [Xof::Shake128, Xof::Shake256] {
        let cases: Vec<_> =
            (0..=4 * xof.rate() + 1).map(|len| Case::whole(xof, rng.bytes(34), len)).collect();
        check_cases(k, &cases);
        for case in &cases {
            check_cases(k, std::slice::from_ref(case));
        }
    }
}

/// Two parts split at every place, and five parts split anywhere, empty ones included.
fn check_splits(k: &dyn Kernels) {
    let mut rng = Rng::new(3);
    for xof in ALL {
        for len in [0, 1, 7, 33, 66, xof.rate() - 1, xof.rate(), 2 * xof.rate() + 11] {
            let message = rng.bytes(len);
            let two = (0..=len).map(|at| cut(xof, &message, &[at], 40));
            let five: Vec<_> = (0..40)
                .map(|_| {
                    let mut places =
                        [0; SPONGE_PARTS - 1].map(|_| rng.below(len as u64 + 1) as usize);
                    places.sort_unstable();
                    cut(xof, &message, &places, 40)
                })
                .collect();
            check_cases(k, &two.chain(five).collect::<Vec<_>>());
        }
    }
}

fn cut(xof: Xof, message: &[u8], places: &[usize], wanted: usize) -> Case {
    let mut parts: [Vec<u8>; SPONGE_PARTS] = Default::default();
    let mut from = 0;
    for (part, &to) in parts.iter_mut().zip(places.iter().chain([&message.len()])) {
        *part = message[from..to].to_vec();
        from = to;
    }
    Case { xof, parts, out_len: out_len(xof, wanted) }
}

/// Equal sponges at the counts about the lanes.
fn check_counts(k: &dyn Kernels) {
    let mut rng = Rng::new(4);
    for count in counts() {
        for xof in ALL {
            for (len, wanted) in [(33, 128), (34, 504), (64, 840), (1184, 32), (800, 33)] {
                let cases: Vec<_> = (0..count)
                    .map(|_| Case::whole(xof, rng.bytes(len), out_len(xof, wanted)))
                    .collect();
                check_cases(k, &cases);
            }
        }
    }
}

/// Everything mixed in one call: functions, lengths, parts.
fn check_mixed(k: &dyn Kernels) {
    let mut rng = Rng::new(5);
    for count in counts() {
        for _ in 0..20 {
            let cases: Vec<_> = (0..count)
                .map(|_| {
                    let xof = ALL[rng.below(4) as usize];
                    // Mostly short, as in the schemes; sometimes several blocks.
                    let most = [70, 300, 1600][rng.below(3) as usize];
                    let len = rng.below(most + 1) as usize;
                    let mut places =
                        [0; SPONGE_PARTS - 1].map(|_| rng.below(len as u64 + 1) as usize);
                    places.sort_unstable();
                    let wanted = rng.below(most + 1) as usize;
                    cut(xof, &rng.bytes(len), &places, wanted)
                })
                .collect();
            check_cases(k, &cases);
        }
    }
}
