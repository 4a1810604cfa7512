//! NIST's vector files as `gabion acvp` reads them.

use gabion_cli::acvp;
use serde_json::{Value, json};

use super::fixtures::engine;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn zeros(n: usize) -> String {
    hex(&vec![0; n])
}

fn file(algorithm: &str, mode: &str, revision: &str, group: Value, test: Value) -> Vec<u8> {
    let (mut group, mut test) = (group, test);
    test["tcId"] = json!(1);
    group["tgId"] = json!(1);
    group["tests"] = json!([test]);
    let file = json!({ "vsId": 0, "algorithm": algorithm, "mode": mode, "revision": revision,
                       "isSample": false, "testGroups": [group] });
    file.to_string().into_bytes()
}

/// A small file of every algorithm and mode.
pub fn seeds() -> Vec<Vec<u8>> {
    let kem = |function: &str, test| {
        let group = json!({ "parameterSet": "ML-KEM-512", "function": function });
        file("ML-KEM", "encapDecap", "FIPS203", group, test)
    };
    let dsa = |mode: &str, group: Value, test| {
        let mut group = group;
        group["parameterSet"] = json!("ML-DSA-44");
        file("ML-DSA", mode, "FIPS204", group, test)
    };
    let slh = |mode: &str, group: Value, test| {
        let mut group = group;
        group["parameterSet"] = json!("SLH-DSA-SHAKE-128f");
        file("SLH-DSA", mode, "FIPS205", group, test)
    };
    let lms = |mode: &str, revision: &str, test| {
        let group = json!({ "lmsMode": "LMS_SHA256_M24_H5", "lmOtsMode": "LMOTS_SHA256_N24_W1" });
        file("LMS", mode, revision, group, test)
    };
    let pure = json!({ "signatureInterface": "external", "preHash": "pure",
                       "deterministic": true });
    let prehash = json!({ "signatureInterface": "external", "preHash": "preHash",
                          "deterministic": true });
    let seed = json!({ "seed": zeros(32), "message": "00", "context": "01", "hashAlg": "SHA2-256",
                       "pk": zeros(1312), "signature": zeros(2420) });
    vec![
        file(
            "ML-KEM",
            "keyGen",
            "FIPS203",
            json!({ "parameterSet": "ML-KEM-512" }),
            json!({ "d": zeros(32), "z": zeros(32), "ek": "00" }),
        ),
        kem("encapsulation", json!({ "ek": zeros(800), "m": zeros(32) })),
        kem("decapsulation", json!({ "d": zeros(32), "z": zeros(32), "c": zeros(768) })),
        kem("encapsulationKeyCheck", json!({ "ek": "ff", "testPassed": false })),
        kem("decapsulationKeyCheck", json!({ "dk": "ff" })),
        dsa("keyGen", json!({}), json!({ "seed": zeros(32) })),
        dsa("sigGen", pure.clone(), seed.clone()),
        dsa("sigGen", prehash.clone(), seed.clone()),
        dsa("sigGen", json!({ "externalMu": true, "rnd": zeros(32) }), {
            let mut seed = seed.clone();
            seed["mu"] = json!(zeros(64));
            seed
        }),
        dsa("sigVer", pure.clone(), seed.clone()),
        slh(
            "keyGen",
            json!({}),
            json!({ "skSeed": zeros(16), "skPrf": zeros(16), "pkSeed": zeros(16) }),
        ),
        slh("sigGen", prehash, json!({ "sk": zeros(64), "message": "", "hashAlg": "SHAKE-128" })),
        slh("sigVer", pure, json!({ "pk": zeros(32), "message": "", "signature": "00" })),
        lms("keyGen", "1.0", json!({ "seed": zeros(24), "i": zeros(16) })),
        lms("sigGen", "1.0", json!({ "message": "00" })),
        lms("sigGen", "SP800-208", json!({ "message": "", "signature": "00", "publicKey": "00" })),
        lms("sigVer", "SP800-208", {
            let key = format!("0000000a00000005{}", zeros(40));
            json!({ "publicKey": key, "message": "", "signature": zeros(4952) })
        }),
    ]
}

/// Sets of LMS whose keys take seconds, or hours.
const HIGH: [&[u8]; 3] = [b"_H15", b"_H20", b"_H25"];

/// A file is refused with a reason, or gives answers: the same each time unless a key is drawn for them, every test
/// once, and right when they are compared with themselves.
pub fn run(data: &[u8]) {
    if HIGH.iter().any(|set| data.windows(set.len()).any(|bytes| bytes == *set)) {
        return;
    }
    let Ok(file) = serde_json::from_slice::<Value>(data) else { return };
    let _ = acvp::expected(&file);
    let Ok(first) = acvp::run(engine(), &file) else { return };
    let again = acvp::run(engine(), &file).expect("it ran before");
    assert!(!first.is_repeatable() || first.results == again.results, "two runs, two answers");
    assert!(!first.answers.is_empty() || !first.refused.is_empty());
    let expected = acvp::expected(&first.results).expect("answers have the shape of answers");
    let (right, wrong) = first.check(engine(), &expected).expect("a machine that can judge");
    let ids: std::collections::BTreeSet<_> =
        first.answers.keys().chain(first.refused.iter().map(|(id, _)| id)).collect();
    assert_eq!(expected.len(), ids.len(), "a test without an answer or a refusal");
    assert!(right + wrong.len() == expected.len() && right >= first.answers.len());
}
