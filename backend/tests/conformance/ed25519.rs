//! Ed25519's curve work against curve25519-dalek, on ordinary and on adversarial points.

use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT as BASE, EIGHT_TORSION};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::ed25519::{
    self as portable, EdEquation, EdKey, EdPoint, EdVerify, Scalar,
};

use gabion_scheme::kernels::sha512::Sha512;

use super::counts;
use super::reference::Rng;

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    check_sha512(k);
    check_base_multiples(k);
    check_verify(k);
    check_sum(k);
}

fn bytes<const N: usize>(rng: &mut Rng) -> [u8; N] {
    core::array::from_fn(|_| (rng.next() >> 56) as u8)
}

/// Messages of lengths round the padding's borders, the longest beyond what lanes take, in any mix.
fn check_sha512(k: &dyn Kernels) {
    let mut rng = Rng::new(512);
    let lengths = [0, 3, 32, 96, 111, 112, 127, 128, 129, 239, 240, 256, 700, 2031, 2032, 5000];
    for count in counts() {
        for shift in 0..lengths.len() {
            let len = |i: usize| match shift {
                0 => 96,
                _ => lengths[(i * shift + i / 3) % lengths.len()],
            };
            let messages: Vec<_> = (0..count).map(|i| rng.bytes(len(i))).collect();
            let mut digests = vec![[0; 64]; count];
            let jobs = messages.iter().zip(&mut digests).enumerate();
            let jobs = jobs.map(|(i, (message, digest))| {
                let (a, rest) = message.split_at((13 * i).min(message.len()));
                let (b, c) = rest.split_at(rest.len() / 2);
                Sha512 { pieces: [a, b, c], digest }
            });
            k.sha512_many(&mut jobs.collect::<Vec<_>>());
            for (message, digest) in messages.iter().zip(digests) {
                let mut expected = [0; 64];
                Sha512 { pieces: [message, &[], &[]], digest: &mut expected }.run();
                assert_eq!(digest, expected, "{count} messages, {} bytes", message.len());
            }
        }
    }
}

/// Scalars that make every digit extreme, and a random one.
fn scalars(rng: &mut Rng) -> Vec<Scalar> {
    let pattern = |byte: u8| Scalar::from_bytes_mod_order([byte; 32]);
    let power = |bit: usize| {
        let mut bytes = [0; 32];
        bytes[bit / 8] = 1 << (bit % 8);
        Scalar::from_bytes_mod_order(bytes)
    };
    let mut all = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, -Scalar::from(2u8)];
    all.extend([0x0f, 0xf0, 0x10, 0x84, 0xff, 0x7b].map(pattern));
    all.extend([5, 64, 65, 130, 195, 210, 251, 252].map(power));
    all.extend([65, 70, 140, 252].map(|bit| power(bit) - Scalar::ONE));
    all.push(Scalar::from_bytes_mod_order(bytes(rng)));
    all
}

fn check_base_multiples(k: &dyn Kernels) {
    let mut rng = Rng::new(25519);
    let special = scalars(&mut rng);
    for count in counts().chain([70]) {
        let many = (0..count).map(|i| match special.get(i) {
            Some(scalar) if count % 2 == 1 => *scalar,
            _ => Scalar::from_bytes_mod_order(bytes(&mut rng)),
        });
        let many: Vec<_> = many.collect();
        let encoded: Vec<_> = many.iter().map(Scalar::to_bytes).collect();
        let mut out = vec![[0; 32]; count];
        k.ed25519_base_multiples(&encoded, &mut out);
        for (scalar, out) in many.iter().zip(out) {
            assert_eq!(out, EdwardsPoint::mul_base(scalar).compress().0, "{count}: {scalar:?}");
        }
    }
    for scalar in special {
        let mut out = [[0; 32]];
        k.ed25519_base_multiples(&[scalar.to_bytes()], &mut out);
        assert_eq!(out[0], EdwardsPoint::mul_base(&scalar).compress().0, "alone: {scalar:?}");
    }
}

/// A verification, and what the equations say about it.
struct Case {
    a: [u8; 32],
    r: [u8; 32],
    s: [u8; 32],
    k: [u8; 32],
}

impl Case {
    /// Both equations, by the definition.
    fn expected(&self) -> [bool; 2] {
        let point = |bytes: &[u8; 32]| CompressedEdwardsY(*bytes).decompress();
        let scalar = |bytes: &[u8; 32]| Scalar::from_bytes_mod_order(*bytes);
        let Some(a) = point(&self.a) else {
            return [false; 2];
        };
        let left = BASE * scalar(&self.s) - a * scalar(&self.k);
        let cofactored =
            point(&self.r).map(|r| (left - r).mul_by_cofactor() == EdwardsPoint::default());
        [left.compress().0 == self.r, cofactored.unwrap_or(false)]
    }

    fn job<'a>(&'a self, key: Option<&'a EdPoint>) -> EdVerify<'a> {
        let key = key.map_or(EdKey::Encoded(&self.a), EdKey::Decoded);
        EdVerify { key, r: &self.r, s: &self.s, k: &self.k }
    }
}

/// Valid and invalid equations: points of small and of mixed order, encodings that are no points or
/// not canonical, extreme scalars.
fn cases(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |a: [u8; 32], r: [u8; 32], s: Scalar, k: Scalar| {
        cases.push(Case { a, r, s: s.to_bytes(), k: k.to_bytes() });
    };
    let all = scalars(rng);
    for (i, k) in all.iter().enumerate() {
        let secret = Scalar::from_bytes_mod_order(bytes(rng));
        let (s, torsion) = (all[(i * 7 + 3) % all.len()], EIGHT_TORSION[i % 8]);
        let clean = BASE * secret;
        for a in [clean, clean + torsion, torsion] {
            let r = BASE * s - a * k;
            for r in [r, r + torsion, r + BASE] {
                add(a.compress().0, r.compress().0, s, *k);
            }
        }
        let mut odd = clean.compress().0;
        odd[31] ^= 0x80;
        add(odd, (BASE * s + clean * k).compress().0, s, *k);
        add(bytes(rng), bytes(rng), s, *k);
        add(clean.compress().0, bytes(rng), s, *k);
    }
    // Every y from p on, and below with its sign set: the ones that are points are not canonical.
    for low in 0..=19u8 {
        for top in [0x7f, 0xff] {
            let mut odd = [0xff; 32];
            (odd[0], odd[31]) = (0xec + low, top);
            let k = Scalar::from(u64::from(low) + 8);
            add(odd, odd, Scalar::from(8u8), k);
            if let Some(a) = CompressedEdwardsY(odd).decompress() {
                let s = Scalar::from(77u8);
                add(odd, (BASE * s - a * k).compress().0, s, k);
                add(EdwardsPoint::default().compress().0, odd, Scalar::ZERO, k);
            }
        }
    }
    cases
}

fn check_verify(k: &dyn Kernels) {
    let mut rng = Rng::new(25519);
    let cases = cases(&mut rng);
    let expected: Vec<_> = cases.iter().map(Case::expected).collect();
    assert!(expected.iter().any(|both| both[0]) && expected.iter().any(|both| both[1] && !both[0]));
    let decoded: Vec<_> = cases.iter().flat_map(|case| EdPoint::decode(&case.a)).collect();
    let known = |case: &Case| decoded.iter().find(|key| *key.encoded() == case.a);
    for (column, equation) in [EdEquation::Cofactorless, EdEquation::Cofactored].iter().enumerate()
    {
        for mode in 0..3 {
            let key = |i: usize| {
                if mode == 0 || mode == 2 && i % 11 == 3 { None } else { known(&cases[i]) }
            };
            let jobs: Vec<_> = cases.iter().enumerate().map(|(i, case)| case.job(key(i))).collect();
            let mut start = 0;
            for count in counts().chain([70, 1, 1]).collect::<Vec<_>>().into_iter().cycle() {
                let range = start..(start + count).min(jobs.len());
                let mut verdicts = vec![column == 0; range.len()];
                k.ed25519_verify_vartime(*equation, &jobs[range.clone()], &mut verdicts);
                for (i, verdict) in range.clone().zip(verdicts) {
                    assert_eq!(verdict, expected[i][column], "{equation:?}, case {i}, {mode}");
                    let alone = portable::verify_vartime(*equation, &jobs[i]);
                    assert_eq!(verdict, alone, "portably: {equation:?}, case {i}");
                }
                start = range.end;
                if start == jobs.len() {
                    break;
                }
            }
        }
    }
}

fn check_sum(k: &dyn Kernels) {
    let mut rng = Rng::new(25519);
    let cases = cases(&mut rng);
    let (good, bad): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.expected()[1]);
    for count in counts().chain([128, 129, 300]) {
        let mut jobs: Vec<_> = good.iter().cycle().take(count).map(|case| case.job(None)).collect();
        let z: Vec<[u8; 16]> = (0..count).map(|_| bytes(&mut rng)).collect();
        assert!(k.ed25519_sum_vartime(&jobs, &z), "{count} good ones");
        for (i, bad) in bad.iter().enumerate().take(if count < 5 { bad.len() } else { 3 }) {
            if count > 0 {
                let place = i % count;
                let kept = jobs[place];
                jobs[place] = bad.job(None);
                assert!(!k.ed25519_sum_vartime(&jobs, &z), "a bad one at {place} of {count}");
                jobs[place] = kept;
            }
        }
    }
}
