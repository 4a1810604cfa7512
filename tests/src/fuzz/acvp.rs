//! NIST's vector files as `gabion acvp` reads them.

use gabion_cli::acvp;
use serde_json::{Value, json};

use super::known::engine;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A small file of every algorithm and mode.
pub fn seeds() -> Vec<Vec<u8>> {
    let file = |algorithm: &str, mode: &str, revision: &str, group: Value, test: Value| {
        let (mut group, mut test) = (group, test);
        test["tcId"] = json!(1);
        group["tgId"] = json!(1);
        group["tests"] = json!([test]);
        let file = json!({ "vsId": 0, "algorithm": algorithm, "mode": mode, "revision": revision,
                           "isSample": false, "testGroups": [group] });
        file.to_string().into_bytes()
    };
    let zeros = |n: usize| hex(&vec![0; n]);
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
    ]
}

/// A file is refused with a reason, or gives answers: the same each time, every test once, and right
/// when they are compared with themselves.
pub fn run(data: &[u8]) {
    let Ok(file) = serde_json::from_slice::<Value>(data) else { return };
    let _ = acvp::expected(&file);
    let Ok(first) = acvp::run(engine(), &file) else { return };
    let again = acvp::run(engine(), &file).expect("it ran before");
    assert_eq!(first.results, again.results, "two runs, two answers");
    assert!(!first.answers.is_empty() || !first.refused.is_empty());
    let expected = acvp::expected(&first.results).expect("answers have the shape of answers");
    let (right, wrong) = acvp::compare(&first.answers, first.answers.keys().copied(), &expected);
    let ids: std::collections::BTreeSet<_> =
        first.answers.keys().chain(first.refused.iter().map(|(id, _)| id)).collect();
    assert_eq!(expected.len(), ids.len(), "a test without an answer or a refusal");
    assert!(right + wrong.len() == expected.len() && right >= first.answers.len());
}
