//! The kernels for GPUs, on a processor unless the environment names a GPU, against NIST's ACVP vectors of SLH-DSA.
//!
//! A processor takes seconds for a signature of a small set, so it makes as many of each set as fit
//! a short run; `GABION_SOAK` or a GPU lifts the limit.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use std::collections::BTreeMap;

use gabion_backend::{Keys, Operation, Slh};
use gabion_cuda_emulator::DEVICE;
use gabion_scheme::slh_dsa::{self, Params, SigningKey};
use gabion_scheme::{Algorithm, Status};
use gabion_tests::vectors::{self, AcvpCase, hex, hex_if_there, text};

use super::cuda::{Content, cuda, run};

/// The tests of a folder by parameter set; at most `limit(set)` of each, spread over its groups.
fn cases(folder: &str, limit: impl Fn(&Params) -> usize) -> Vec<(&'static Params, Vec<AcvpCase>)> {
    let mut sets: BTreeMap<String, Vec<AcvpCase>> = BTreeMap::new();
    for case in vectors::acvp(folder).into_iter().flatten() {
        sets.entry(text(&case.group["parameterSet"]).to_owned()).or_default().push(case);
    }
    let everything = [DEVICE, "GABION_SOAK"].iter().any(|name| std::env::var_os(name).is_some());
    let sets = sets.into_iter().map(|(name, cases)| {
        let algorithm: Algorithm = name.parse().expect("a known algorithm");
        let p = slh_dsa::params(algorithm).expect("an SLH-DSA");
        let limit = if everything { cases.len() } else { limit(p).min(cases.len()) };
        let step = cases.len() / limit.max(1);
        (p, cases.into_iter().step_by(step).take(limit).collect())
    });
    sets.filter(|(_, cases): &(_, Vec<_>)| !cases.is_empty()).collect()
}

/// Returns whether signing is slow: 2^8 leaves in a tree, or 2^9.
fn is_small(p: &Params) -> bool {
    p.h_prime > 4
}

#[test]
fn slh_keygen() {
    for (params, cases) in cases("SLH-DSA-keyGen-FIPS205", |p| if is_small(p) { 1 } else { 10 }) {
        let parts = ["skSeed", "skPrf", "pkSeed"];
        let seeds: Vec<u8> = cases
            .iter()
            .flat_map(|case| parts.map(|name| hex(&case.prompt[name])))
            .flatten()
            .collect();
        let mut keys: Vec<_> = cases.iter().map(|_| SigningKey::blank(params)).collect();
        let slh = Slh::Generate { params, seeds: &seeds, keys: &mut keys };
        let status = run(cuda(), Operation::Slh(slh), cases.len());
        assert!(status.iter().all(|status| status.is_ok()), "{}: {status:?}", params.name());
        for (case, key) in cases.iter().zip(&keys) {
            assert_eq!(key.bytes(), hex(&case.expected["sk"]), "{}", params.name());
            assert_eq!(key.verify_key().bytes(), hex(&case.expected["pk"]), "{}", params.name());
        }
    }
}

#[test]
fn slh_siggen() {
    let limit = |p: &Params| match (is_small(p), p.n) {
        (true, 16) => 1,
        (true, _) => 0,
        (false, _) => 4,
    };
    for (params, cases) in cases("SLH-DSA-sigGen-FIPS205", limit) {
        let (fixed, hedged): (Vec<_>, Vec<_>) =
            cases.iter().partition(|case| case.group["deterministic"] == true);
        for (cases, is_hedged) in [(fixed, false), (hedged, true)] {
            let sk: Vec<u8> = cases.iter().flat_map(|case| hex(&case.prompt["sk"])).collect();
            let contents: Vec<_> =
                cases.iter().map(|case| Content::of_acvp(&case.group, &case.prompt)).collect();
            let messages: Vec<_> = contents.iter().map(Content::message).collect();
            let random: Vec<u8> = cases
                .iter()
                .filter_map(|case| hex_if_there(&case.prompt["additionalRandomness"]))
                .flatten()
                .collect();
            let (keys, opt_rand) = (Keys::Fresh(&sk[..]), is_hedged.then_some(&random[..]));
            let mut sig = vec![0; cases.len() * params.sig_len()];
            let slh = Slh::Sign { params, keys, messages: &messages, opt_rand, sig: &mut sig };
            let status = run(cuda(), Operation::Slh(slh), cases.len());
            assert!(status.iter().all(|status| status.is_ok()), "{}: {status:?}", params.name());
            for (case, sig) in cases.iter().zip(sig.chunks_exact(params.sig_len())) {
                let same = *sig == hex(&case.expected["signature"])[..];
                assert!(same, "{} tcId {}", params.name(), case.prompt["tcId"]);
            }
        }
    }
}

/// A signature of another length is refused before it comes to a batch.
#[test]
fn slh_sigver() {
    for (params, cases) in cases("SLH-DSA-sigVer-FIPS205", |_| usize::MAX) {
        let fits = |case: &&AcvpCase| {
            let fits = hex(&case.prompt["signature"]).len() == params.sig_len();
            assert!(fits || case.expected["testPassed"] == false, "{}: length", params.name());
            fits
        };
        let lanes: Vec<_> = cases.iter().filter(fits).collect();
        let pk: Vec<u8> = lanes.iter().flat_map(|case| hex(&case.prompt["pk"])).collect();
        let sig: Vec<u8> = lanes.iter().flat_map(|case| hex(&case.prompt["signature"])).collect();
        let contents: Vec<_> =
            lanes.iter().map(|case| Content::of_acvp(&case.group, &case.prompt)).collect();
        let messages: Vec<_> = contents.iter().map(Content::message).collect();
        let slh = Slh::Verify { params, keys: Keys::Fresh(&pk), messages: &messages, sig: &sig };
        let status = run(cuda(), Operation::Slh(slh), lanes.len());
        assert!(status.contains(&Status::Ok) && !status.iter().all(|status| status.is_ok()));
        for (case, status) in lanes.iter().zip(status) {
            let expected = case.expected["testPassed"] == true;
            assert_eq!(status.is_ok(), expected, "{} tcId {}", params.name(), case.prompt["tcId"]);
        }
    }
}
