//! Rounding and hints of ML-DSA (FIPS 204, section 7.4) over every residue.

use gabion_scheme::kernels::{DSA_Q, DsaPoly, Kernels, N};

use super::reference::{DQ, Rng, mod_pm};

/// gamma2 of ML-DSA-44, and of ML-DSA-65 and -87.
const GAMMA2: [i64; 2] = [(DQ - 1) / 88, (DQ - 1) / 32];

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    check_power2round(k);
    for gamma2 in GAMMA2 {
        check_decompose(k, gamma2);
        check_use_hint(k, gamma2);
        check_make_hint(k, gamma2);
        check_make_hint_is_the_standards(k, gamma2);
    }
    check_norm_below(k);
}

/// Calls `f` with polynomials that hold every integer of -(q-1)..=q-1 between them.
fn every_residue(mut f: impl FnMut(&DsaPoly)) {
    let mut p = DsaPoly::default();
    for first in (-(DSA_Q - 1)..DSA_Q).step_by(N) {
        for (i, x) in p.0.iter_mut().enumerate() {
            *x = (first + i as i32).min(DSA_Q - 1);
        }
        f(&p);
    }
}

fn check_power2round(k: &dyn Kernels) {
    let [mut t1, mut t0] = [DsaPoly([99; N]), DsaPoly([99; N])];
    every_residue(|t| {
        k.dsa_power2round(t, &mut t1, &mut t0);
        for i in 0..N {
            let r = i64::from(t.0[i]).rem_euclid(DQ);
            let r0 = mod_pm(r, 1 << 13);
            let got = (i64::from(t1.0[i]), i64::from(t0.0[i]));
            assert_eq!(got, ((r - r0) / (1 << 13), r0), "Power2Round of {}", t.0[i]);
        }
    });
}

/// Decompose (Algorithm 36) as written: (r1, r0).
fn decompose(r: i64, gamma2: i64) -> (i64, i64) {
    let r = r.rem_euclid(DQ);
    let r0 = mod_pm(r, 2 * gamma2);
    if r - r0 == DQ - 1 { (0, r0 - 1) } else { ((r - r0) / (2 * gamma2), r0) }
}

fn check_decompose(k: &dyn Kernels, gamma2: i64) {
    let [mut r1, mut r0] = [DsaPoly([99; N]), DsaPoly([99; N])];
    every_residue(|r| {
        k.dsa_decompose(gamma2 as i32, r, &mut r1, &mut r0);
        for i in 0..N {
            let got = (i64::from(r1.0[i]), i64::from(r0.0[i]));
            let want = decompose(i64::from(r.0[i]), gamma2);
            assert_eq!(got, want, "Decompose of {}, gamma2 = {gamma2}", r.0[i]);
        }
    });
}

fn check_use_hint(k: &dyn Kernels, gamma2: i64) {
    let m = (DQ - 1) / (2 * gamma2);
    let mut out = DsaPoly([99; N]);
    let mut rng = Rng::new(50);
    let mut flip = DsaPoly::default();
    every_residue(|r| {
        // Both hints for every residue: a random choice and its opposite.
        flip.0 = std::array::from_fn(|_| rng.below(2) as i32);
        for _ in 0..2 {
            k.dsa_use_hint(gamma2 as i32, &flip, r, &mut out);
            for i in 0..N {
                let (r1, r0) = decompose(i64::from(r.0[i]), gamma2);
                let want = match (flip.0[i], r0 > 0) {
                    (0, _) => r1,
                    (_, true) => (r1 + 1).rem_euclid(m),
                    (_, false) => (r1 - 1).rem_euclid(m),
                };
                let got = i64::from(out.0[i]);
                assert_eq!(got, want, "UseHint({}, {}), gamma2 = {gamma2}", flip.0[i], r.0[i]);
            }
            flip.0 = flip.0.map(|h| 1 - h);
        }
    });
}

/// The form that the trait states, over every residue and the high bits that matter.
fn check_make_hint(k: &dyn Kernels, gamma2: i64) {
    let m = ((DQ - 1) / (2 * gamma2)) as i32;
    let mut hint = DsaPoly([99; N]);
    for high in [0, 1, m / 2, m - 1] {
        every_residue(|r0| {
            // Zero and the other value take turns, so that neighbours differ.
            let r1 = DsaPoly(std::array::from_fn(|i| if i % 2 == 0 { high } else { 0 }));
            let ones = k.dsa_make_hint(gamma2 as i32, r0, &r1, &mut hint);
            let mut want = DsaPoly::default();
            for i in 0..N {
                let x = mod_pm(i64::from(r0.0[i]), DQ);
                let carried = x > gamma2 || x < -gamma2 || (x == -gamma2 && r1.0[i] != 0);
                want.0[i] = i32::from(carried);
            }
            assert_eq!(hint, want, "hints for r0 from {}, gamma2 = {gamma2}", r0.0[0]);
            assert_eq!(ones as i32, want.0.iter().sum::<i32>(), "how many hints are set");
        });
    }
}

/// That form is MakeHint (Algorithm 39) wherever signing asks for it: with r = w - c s2 + c t0 and
/// z = -c t0, where the low bits of w - c s2 stay within gamma2 - beta and |c t0| < gamma2.
fn check_make_hint_is_the_standards(k: &dyn Kernels, gamma2: i64) {
    let mut rng = Rng::new(51);
    // The smallest beta of the sets with this gamma2 allows most.
    let beta = if gamma2 == GAMMA2[0] { 78 } else { 120 };
    let mut hint = DsaPoly::default();
    every_residue(|w| {
        let [mut r0, mut r1] = [DsaPoly::default(), DsaPoly::default()];
        let mut want = DsaPoly::default();
        for i in 0..N {
            let (w1, w0) = decompose(i64::from(w.0[i]), gamma2);
            // A c s2 within beta that leaves the low bits within the bound, if there is one.
            let limit = gamma2 - beta - 1;
            let low = (-beta).max(w0 - limit);
            let high = beta.min(w0 + limit);
            if low > high {
                continue;
            }
            let cs2 = rng.between(low, high);
            let edge = [gamma2 - 1, 1 - gamma2, limit - w0 + cs2 + beta, 0][rng.below(4) as usize];
            let ct0 = if rng.below(2) == 0 { edge } else { rng.between(1 - gamma2, gamma2 - 1) };
            let ct0 = ct0.clamp(1 - gamma2, gamma2 - 1);
            let r = i64::from(w.0[i]) - cs2 + ct0;
            want.0[i] = i32::from(decompose(r, gamma2).0 != decompose(r - ct0, gamma2).0);
            r0.0[i] = (w0 - cs2 + ct0) as i32;
            r1.0[i] = w1 as i32;
        }
        k.dsa_make_hint(gamma2 as i32, &r0, &r1, &mut hint);
        assert_eq!(hint, want, "MakeHint for w from {}, gamma2 = {gamma2}", w.0[0]);
    });
}

fn check_norm_below(k: &dyn Kernels) {
    assert!(k.dsa_norm_below(&[], 1), "no polynomial has no norm above the bound");
    let mut rng = Rng::new(52);
    // gamma1 - beta and gamma2 - beta of the three sets, gamma2, and the greatest bound allowed.
    let mut bounds = vec![1, 2, (DQ - 1) / 8];
    for (gamma1, gamma2, beta) in
        [(1 << 17, GAMMA2[0], 78), (1 << 19, GAMMA2[1], 196), (1 << 19, GAMMA2[1], 120)]
    {
        bounds.extend([gamma1 - beta, gamma2 - beta, gamma2]);
    }
    for bound in bounds {
        for count in 1..=9 {
            let quiet: Vec<_> = (0..count)
                .map(|_| {
                    DsaPoly(std::array::from_fn(|_| {
                        let x = rng.between(-(bound - 1), bound - 1);
                        (if rng.below(2) == 0 { x } else { x - x.signum() * DQ }) as i32
                    }))
                })
                .collect();
            assert!(k.dsa_norm_below(&quiet, bound as i32), "all below {bound}");
            // One coefficient at or above the bound is enough, wherever and however it is written.
            for at in 0..N {
                let mut loud = quiet.clone();
                let beyond = [bound, (DQ - 1) / 2, rng.between(bound, (DQ - 1) / 2)][at % 3];
                let values = [beyond, -beyond, DQ - beyond, beyond - DQ];
                let poly = rng.below(count as u64) as usize;
                loud[poly].0[at] = values[rng.below(4) as usize] as i32;
                assert!(!k.dsa_norm_below(&loud, bound as i32), "{} of {bound}", loud[poly].0[at]);
            }
        }
    }
    // Every residue against one bound, a polynomial of nothing else.
    let bound = GAMMA2[0];
    every_residue(|p| {
        let norm = p.0.iter().map(|&x| mod_pm(i64::from(x), DQ).abs()).max();
        let below = k.dsa_norm_below(std::slice::from_ref(p), bound as i32);
        assert_eq!(Some(below), norm.map(|norm| norm < bound), "norm from {}", p.0[0]);
    });
}
