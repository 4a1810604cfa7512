//! SLH-DSA against NIST's ACVP vectors.
//!
//! Signing with the small sets and without vector units takes seconds, so each instruction set takes
//! as many tests of a set as fit a short run; `GABION_SOAK` lifts the limit.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use std::collections::BTreeMap;

use gabion_scheme::Algorithm;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::slh_dsa::{self, Params, Scratch, SigningKey, VerifyKey};
use gabion_tests::vectors::{self, AcvpCase, hex, hex_if_there, text};

gabion_tests::on_every_backend!(acvp_keygen, acvp_siggen, acvp_sigver);

/// The tests of a folder by parameter set; at most `limit(set)` of each, spread over its groups.
fn cases(folder: &str, limit: impl Fn(&Params) -> usize) -> Vec<(&'static Params, Vec<AcvpCase>)> {
    let mut sets: BTreeMap<String, Vec<AcvpCase>> = BTreeMap::new();
    for case in vectors::acvp(folder).into_iter().flatten() {
        sets.entry(text(&case.group["parameterSet"]).to_owned()).or_default().push(case);
    }
    let everything = std::env::var_os("GABION_SOAK").is_some();
    let sets = sets.into_iter().map(|(name, cases)| {
        let algorithm: Algorithm = name.parse().expect("a known algorithm");
        let p = slh_dsa::params(algorithm).expect("an SLH-DSA");
        let limit = if everything { cases.len() } else { limit(p).min(cases.len()) };
        let step = cases.len() / limit;
        (p, cases.into_iter().step_by(step).take(limit).collect())
    });
    sets.collect()
}

/// Returns whether signing is slow: 2^9 leaves in a tree.
fn is_small(p: &Params) -> bool {
    p.h_prime > 4
}

/// A message of a test, with its bytes.
struct Content {
    context: Vec<u8>,
    message: Vec<u8>,
    prehash: Option<(Prehash, Vec<u8>)>,
    internal: bool,
}

impl Content {
    fn read(case: &AcvpCase) -> Self {
        let message = hex(&case.prompt["message"]);
        let internal = text(&case.group["signatureInterface"]) == "internal";
        let hashed = !internal && text(&case.group["preHash"]) == "preHash";
        let prehash = hashed.then(|| {
            let hash: Prehash = text(&case.prompt["hashAlg"]).parse().expect("a known hash");
            (hash, hash.digest(&message))
        });
        let context = hex_if_there(&case.prompt["context"]).unwrap_or_default();
        Content { context, message, prehash, internal }
    }

    fn message(&self) -> Message<'_> {
        let Content { context, message, prehash, internal } = self;
        match prehash {
            Some((hash, digest)) => Message::Prehash { context, hash: *hash, digest },
            None if *internal => Message::Internal(message),
            None => Message::Pure { context, message },
        }
    }
}

fn acvp_keygen<K: Kernels>(kernels: &K) {
    let limit = |p: &Params| if is_small(p) && kernels.lanes() == 1 { 1 } else { usize::MAX };
    for (p, cases) in cases("SLH-DSA-keyGen-FIPS205", limit) {
        let seeds: Vec<u8> = cases
            .iter()
            .flat_map(|case| ["skSeed", "skPrf", "pkSeed"].map(|name| hex(&case.prompt[name])))
            .flatten()
            .collect();
        let mut keys: Vec<_> = cases.iter().map(|_| SigningKey::blank(p)).collect();
        slh_dsa::keygen(kernels, p, &seeds, &mut keys, &mut Scratch::new());
        for (case, key) in cases.iter().zip(&keys) {
            assert_eq!(key.bytes(), hex(&case.expected["sk"]), "{}", p.name());
            assert_eq!(key.verify_key().bytes(), hex(&case.expected["pk"]), "{}", p.name());
        }
    }
}

/// Deterministic and hedged tests are one batch each.
fn acvp_siggen<K: Kernels>(kernels: &K) {
    let limit = |p: &Params| match (is_small(p), kernels.lanes()) {
        (true, 1) => usize::from(p.n == 16),
        (true, _) => 2,
        (false, 1) => 3,
        (false, _) => usize::MAX,
    };
    let bounded = |p: &Params| limit(p).max(1);
    for (p, cases) in cases("SLH-DSA-sigGen-FIPS205", bounded) {
        if limit(p) == 0 && std::env::var_os("GABION_SOAK").is_none() {
            continue;
        }
        let (fixed, hedged): (Vec<_>, Vec<_>) =
            cases.iter().partition(|case| case.group["deterministic"] == true);
        for (cases, is_hedged) in [(fixed, false), (hedged, true)] {
            let bytes: Vec<u8> = cases.iter().flat_map(|case| hex(&case.prompt["sk"])).collect();
            let contents: Vec<_> = cases.iter().map(|case| Content::read(case)).collect();
            let messages: Vec<_> = contents.iter().map(Content::message).collect();
            let random: Vec<u8> = cases
                .iter()
                .filter_map(|case| hex_if_there(&case.prompt["additionalRandomness"]))
                .flatten()
                .collect();
            let mut keys: Vec<_> = cases.iter().map(|_| SigningKey::blank(p)).collect();
            let mut status = vec![Status::NotRun; cases.len()];
            let scratch = &mut Scratch::new();
            slh_dsa::expand_signing_keys(kernels, p, &bytes, &mut keys, &mut status, scratch);
            assert!(status.iter().all(|status| status.is_ok()), "{}: keys", p.name());
            let keys: Vec<_> = keys.iter().collect();
            let mut sigs = vec![0; cases.len() * p.sig_len()];
            let opt_rand = is_hedged.then_some(&random[..]);
            slh_dsa::sign(kernels, &keys, &messages, opt_rand, &mut sigs, &mut status, scratch);
            assert!(status.iter().all(|status| status.is_ok()), "{}: {status:?}", p.name());
            for (case, sig) in cases.iter().zip(sigs.chunks_exact(p.sig_len())) {
                let same = *sig == hex(&case.expected["signature"])[..];
                assert!(same, "{} tcId {}", p.name(), case.prompt["tcId"]);
            }
        }
    }
}

/// A signature of another length is refused before the flow.
fn acvp_sigver<K: Kernels>(kernels: &K) {
    for (p, cases) in cases("SLH-DSA-sigVer-FIPS205", |_| usize::MAX) {
        let mut refused = 0;
        let cases: Vec<_> = cases
            .iter()
            .filter(|case| {
                let fits = hex(&case.prompt["signature"]).len() == p.sig_len();
                assert!(fits || case.expected["testPassed"] == false, "{}: length", p.name());
                refused += usize::from(!fits);
                fits
            })
            .collect();
        let bytes: Vec<u8> = cases.iter().flat_map(|case| hex(&case.prompt["pk"])).collect();
        let sigs: Vec<u8> = cases.iter().flat_map(|case| hex(&case.prompt["signature"])).collect();
        let contents: Vec<_> = cases.iter().map(|case| Content::read(case)).collect();
        let messages: Vec<_> = contents.iter().map(Content::message).collect();
        let mut keys = vec![VerifyKey::blank(p); cases.len()];
        let mut status = vec![Status::NotRun; cases.len()];
        slh_dsa::expand_verify_keys(p, &bytes, &mut keys, &mut status);
        let keys: Vec<_> = keys.iter().collect();
        slh_dsa::verify(kernels, &keys, &messages, &sigs, &mut status, &mut Scratch::new());
        for (case, status) in cases.iter().zip(&status) {
            let expected = case.expected["testPassed"] == true;
            assert_eq!(status.is_ok(), expected, "{} tcId {}", p.name(), case.prompt["tcId"]);
        }
        assert!(refused < cases.len(), "{}: most signatures have their length", p.name());
    }
}
