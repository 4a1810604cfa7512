//! CBOMs: their form, by the required members and enumerations of CycloneDX 1.7, and comparisons.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::BTreeSet;
use std::path::Path;

use gabion_engine::Algorithm;
use gabion_probe::cbom::{Cbom, CbomError, Change, Diff, diff};
use gabion_probe::certificate::Certificate;
use gabion_probe::inventory::Inventory;
use gabion_probe::report::{ChainEntry, Report, Ssh, Verdict};
use gabion_probe::target::Protocol;
use gabion_probe::time::parse_rfc3339;
use gabion_rustls::testing::{Chain, KEYS, Key, chain};
use serde_json::{Value, json};

/// 2026-12-01, in the validity of the certificates.
const NOW: i64 = 1_796_083_200;
const DAYS: u32 = 30;

fn write_chain(folder: &Path, name: &str, chain: &Chain) {
    std::fs::write(folder.join(format!("{name}.crt")), &chain.certificates[0]).unwrap();
    std::fs::write(folder.join(format!("{name}.key")), chain.file.secret_der()).unwrap();
}

fn document(cbom: &Cbom) -> Value {
    cbom.to_json(NOW, "0.1.0")
}

fn inventory_of(folder: &Path) -> Value {
    let mut cbom = Cbom::new();
    cbom.add_inventory(&Inventory::scan(&[folder.to_path_buf()]));
    document(&cbom)
}

fn verdict(post_quantum: bool, algorithm: &str) -> Option<Verdict> {
    Some(Verdict { post_quantum, algorithm: algorithm.to_owned(), ..Verdict::default() })
}

/// A result of a probe that negotiated this group.
fn tls_report(group: &str, is_post_quantum: bool, chain: &Chain) -> Report {
    let entry = |der| ChainEntry::from(&Certificate::parse(der).unwrap());
    Report {
        target: "a.example:443".to_owned(),
        version: Some("TLSv1.3".to_owned()),
        cipher: Some("TLS_AES_128_GCM_SHA256".to_owned()),
        group: Some(group.to_owned()),
        signature: Some("ecdsa_secp256r1_sha256".to_owned()),
        key_exchange: verdict(is_post_quantum, group),
        chain: chain.certificates.iter().map(|der| entry(der)).collect(),
        ..Report::default()
    }
}

fn ssh_report() -> Report {
    Report {
        target: "a.example:22".to_owned(),
        protocol: Protocol::Ssh,
        ssh: Some(Ssh::default()),
        key_exchange: verdict(true, "mlkem768x25519-sha256"),
        authentication: verdict(false, "ssh-ed25519"),
        ..Report::default()
    }
}

/// The members of a kind of object that the schema allows, the required ones first.
type Members = (&'static [&'static str], &'static [&'static str]);

const COMPONENT: Members =
    (&["type", "name"], &["bom-ref", "cryptoProperties", "evidence", "properties"]);
const ALGORITHM: Members = (
    &["primitive"],
    &["algorithmFamily", "parameterSetIdentifier", "ellipticCurve", "nistQuantumSecurityLevel"],
);
const CERTIFICATE: Members = (
    &["subjectName", "issuerName", "notValidBefore", "notValidAfter", "relatedCryptographicAssets"],
    &["serialNumber", "certificateFormat", "fingerprint", "certificateExtensions"],
);
const MATERIAL: Members =
    (&["type"], &["size", "format", "securedBy", "fingerprint", "relatedCryptographicAssets"]);
const PROTOCOL: Members = (&["type", "version", "relatedCryptographicAssets"], &["cipherSuites"]);
const PRIMITIVES: [&str; 5] = ["signature", "kem", "key-agree", "combiner", "unknown"];
const FAMILIES: [&str; 13] = [
    "ML-KEM",
    "ML-DSA",
    "SLH-DSA",
    "LMS",
    "XMSS",
    "EdDSA",
    "ECDH",
    "ECDSA",
    "RSASSA-PKCS1",
    "RSASSA-PSS",
    "DSA",
    "FFDH",
    "SM2",
];
const CURVES: [&str; 8] = [
    "nist/P-224",
    "nist/P-256",
    "nist/P-384",
    "nist/P-521",
    "other/Ed25519",
    "other/Curve25519",
    "secg/secp256k1",
    "brainpool/brainpoolP256r1",
];

#[track_caller]
fn check_members(object: &Value, (required, optional): Members) {
    let object = object.as_object().unwrap();
    for member in required {
        assert!(object.contains_key(*member), "`{member}` is missing in {object:?}");
    }
    for member in object.keys() {
        let is_known = required.contains(&&**member) || optional.contains(&&**member);
        assert!(is_known, "`{member}` is not in the schema: {object:?}");
    }
}

#[track_caller]
fn check_one_of(value: &Value, allowed: &[&str]) {
    assert!(value.is_null() || allowed.contains(&value.as_str().unwrap()), "{value}");
}

/// Checks a document by the schema: required and known members, enumerations, patterns, references.
#[track_caller]
fn check_document(document: &Value) {
    assert_eq!(document["bomFormat"], "CycloneDX");
    assert_eq!(document["specVersion"], "1.7");
    assert_eq!(document["version"], 1);
    let serial = document["serialNumber"].as_str().unwrap().strip_prefix("urn:uuid:").unwrap();
    let parts: Vec<&str> = serial.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(serial.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')));
    assert!(parse_rfc3339(document["metadata"]["timestamp"].as_str().unwrap()).is_some());
    let components = document["components"].as_array().unwrap();
    let references: BTreeSet<&str> =
        components.iter().map(|one| one["bom-ref"].as_str().unwrap()).collect();
    assert_eq!(references.len(), components.len(), "a bom-ref is used twice");
    for component in components {
        check_members(component, COMPONENT);
        assert_eq!(component["type"], "cryptographic-asset");
        assert_ne!(component["name"], "");
        let crypto = &component["cryptoProperties"];
        let (member, members) = match crypto["assetType"].as_str().unwrap() {
            "algorithm" => ("algorithmProperties", ALGORITHM),
            "certificate" => ("certificateProperties", CERTIFICATE),
            "related-crypto-material" => ("relatedCryptoMaterialProperties", MATERIAL),
            "protocol" => ("protocolProperties", PROTOCOL),
            other => panic!("{other}"),
        };
        let properties = &crypto[member];
        check_members(properties, members);
        check_one_of(&properties["primitive"], &PRIMITIVES);
        check_one_of(&properties["algorithmFamily"], &FAMILIES);
        check_one_of(&properties["ellipticCurve"], &CURVES);
        check_one_of(&properties["type"], &["private-key", "public-key", "tls", "ssh"]);
        if let Some(level) = properties.get("nistQuantumSecurityLevel") {
            assert!(level.as_u64().unwrap() <= 6);
        }
        for related in properties["relatedCryptographicAssets"].as_array().into_iter().flatten() {
            check_members(related, (&["type", "ref"], &[]));
            assert!(references.contains(related["ref"].as_str().unwrap()), "{related}");
        }
        for occurrence in component["evidence"]["occurrences"].as_array().into_iter().flatten() {
            check_members(occurrence, (&["location"], &["additionalContext"]));
        }
        for suite in properties["cipherSuites"].as_array().into_iter().flatten() {
            check_members(suite, (&["name"], &["tlsGroups", "tlsSignatureSchemes"]));
        }
        let fingerprint = &properties["fingerprint"];
        if !fingerprint.is_null() {
            assert_eq!(
                (fingerprint["alg"].as_str(), fingerprint["content"].as_str().unwrap().len()),
                (Some("SHA-256"), 64)
            );
        }
    }
}

#[test]
fn documents_have_the_form_of_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    for (at, key) in KEYS.into_iter().enumerate() {
        write_chain(folder.path(), &at.to_string(), &chain(key, 0));
    }
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAQwAAQA\n\
                     -----END ENCRYPTED PRIVATE KEY-----\n";
    std::fs::write(folder.path().join("encrypted.key"), encrypted).unwrap();
    let mut cbom = Cbom::new();
    cbom.add_inventory(&Inventory::scan(&[folder.path().to_path_buf()]));
    let with_rsa = chain(Key::Rsa, 1);
    assert!(cbom.add_report(&tls_report("X25519MLKEM768", true, &with_rsa)));
    assert!(cbom.add_report(&ssh_report()));
    assert!(!cbom.add_report(&Report::default()), "a target that did not answer");
    let document = document(&cbom);
    check_document(&document);
    let names: Vec<&str> = document["components"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for name in [
        "ML-DSA-65",
        "ML-DSA-65 private key",
        "ML-DSA-65 public key",
        "RSA-PSS with SHA-256",
        "X25519MLKEM768",
        "TLS 1.3 of a.example:443",
        "SSH 2.0 of a.example:22",
        "encrypted private key",
        "CN=localhost",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    // A copy for the validation with the official schema by hand.
    if let Some(path) = std::env::var_os("GABION_TEST_CBOM") {
        std::fs::write(path, document.to_string()).unwrap();
    }
}

/// The checks notice documents that the schema does not allow.
#[test]
fn documents_of_another_form_are_noticed() {
    let mut cbom = Cbom::new();
    cbom.add_report(&ssh_report());
    let good = document(&cbom);
    check_document(&good);
    let edits: [fn(&mut Value); 6] = [
        |document| document["specVersion"] = json!("1.6"),
        |document| document["serialNumber"] = json!("urn:uuid:1"),
        |document| document["components"][0]["bom-ref"] = json!("other"),
        |document| document["components"][0]["state"] = json!("active"),
        |document| {
            document["components"][0]["cryptoProperties"]["algorithmProperties"]["primitive"] =
                json!("hybrid");
        },
        |document| {
            let component = document["components"][0].clone();
            document["components"].as_array_mut().unwrap().push(component);
        },
    ];
    for (at, edit) in edits.into_iter().enumerate() {
        let mut document = good.clone();
        edit(&mut document);
        let checked = std::panic::catch_unwind(|| check_document(&document));
        assert!(checked.is_err(), "edit {at}");
    }
}

#[test]
fn documents_are_reproducible_and_hold_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let chain = chain(Key::Engine(Algorithm::MlDsa44), 0);
    write_chain(folder.path(), "a", &chain);
    let (one, two) = (inventory_of(folder.path()), inventory_of(folder.path()));
    assert_eq!(one.to_string(), two.to_string());
    write_chain(folder.path(), "b", &chain);
    let more = inventory_of(folder.path());
    assert_ne!(one["serialNumber"], more["serialNumber"]);
    // One certificate in two files is one component; the private key is one by its path.
    let count = |document: &Value| document["components"].as_array().unwrap().len();
    assert_eq!(count(&more), count(&one) + 1);
    let seed = &chain.file.secret_der()[chain.file.secret_der().len() - 32..];
    let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!more.to_string().contains(&hex));
}

fn compare(old: &Value, new: &Value) -> Diff {
    diff(old, new, NOW, DAYS).unwrap()
}

fn locations(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| change.location.rsplit('/').next().unwrap()).collect()
}

#[test]
fn changed_files_are_compared_by_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let [post_quantum, renewed] = [(); 2].map(|()| chain(Key::Engine(Algorithm::MlDsa65), 0));
    let classical = chain(Key::Engine(Algorithm::EcdsaP256), 0);
    write_chain(path, "a", &post_quantum);
    write_chain(path, "b", &classical);
    let old = inventory_of(path);
    let same = compare(&old, &old);
    assert_eq!(same, Diff::default());

    // A renewed certificate and a copy are not findings.
    write_chain(path, "a", &renewed);
    std::fs::write(path.join("copy.crt"), &classical.certificates[0]).unwrap();
    let new = inventory_of(path);
    let found = compare(&old, &new);
    assert!(found.is_ok(), "{found:?}");
    assert_eq!(locations(&found.changed), ["a.crt"]);

    // The server went back to a classical certificate.
    write_chain(path, "a", &chain(Key::Engine(Algorithm::EcdsaP384), 0));
    let found = compare(&new, &inventory_of(path));
    assert_eq!(locations(&found.became_classical), ["a.crt", "a.key"]);
    assert_eq!(found.became_classical[1].old, ["ML-DSA-65"]);
    assert_eq!(found.became_classical[1].new, ["ECDSA P-384"]);
    assert!(found.new_classical.is_empty() && !found.is_ok());
    let back = compare(&inventory_of(path), &new);
    assert_eq!(locations(&back.became_post_quantum), ["a.crt", "a.key"]);
    assert!(back.is_ok());

    // A new key: post-quantum is good, classical is not.
    write_chain(path, "c", &post_quantum);
    write_chain(path, "d", &chain(Key::Rsa, 0));
    let found = compare(&inventory_of_without(path, &["c.", "d."]), &inventory_of(path));
    assert_eq!(locations(&found.new_classical), ["d.crt", "d.key"]);
    assert_eq!(locations(&found.changed), ["c.crt", "c.key"]);
    let found = compare(&inventory_of(path), &inventory_of_without(path, &["c."]));
    assert_eq!(locations(&found.removed), ["c.crt", "c.key"]);
    assert!(found.is_ok());
}

/// An inventory without the files that start with one of these names.
fn inventory_of_without(folder: &Path, names: &[&str]) -> Value {
    let mut cbom = Cbom::new();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|entry| {
        let name = entry.file_name().into_string().unwrap();
        !names.iter().any(|start| name.starts_with(start))
    });
    let paths: Vec<_> = files.map(|entry| entry.path()).collect();
    cbom.add_inventory(&Inventory::scan(&paths));
    document(&cbom)
}

#[test]
fn connections_are_compared_by_key_exchange() {
    let chain = chain(Key::Rsa, 0);
    let probed = |group: &str, is_post_quantum| {
        let mut cbom = Cbom::new();
        cbom.add_report(&tls_report(group, is_post_quantum, &chain));
        document(&cbom)
    };
    let (hybrid, classical) = (probed("X25519MLKEM768", true), probed("x25519", false));
    let found = compare(&hybrid, &classical);
    let [change] = &found.became_classical[..] else { panic!("{found:?}") };
    assert_eq!((&*change.kind, &*change.location), ("protocol", "a.example:443"));
    assert!(compare(&classical, &classical).is_ok());
    assert_eq!(compare(&classical, &hybrid).became_post_quantum.len(), 1);
}

#[test]
fn certificates_that_expire_are_reported() {
    let chain = chain(Key::Engine(Algorithm::MlDsa44), 0);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.crt"), &chain.certificates[0]).unwrap();
    let document = inventory_of(folder.path());
    let not_after = Certificate::parse(&chain.certificates[0]).unwrap().not_after;
    let day = 86_400;
    for (now, days, expected) in [
        (not_after - 31 * day, 30, None),
        (not_after - 29 * day, 30, Some(false)),
        (not_after - 29 * day, 28, None),
        (not_after, 0, None),
        (not_after + 1, 0, Some(true)),
    ] {
        let found = diff(&document, &document, now, days).unwrap();
        assert_eq!(found.expiring.first().map(|one| one.has_expired), expected, "{now}, {days}");
        assert_eq!(found.is_ok(), expected.is_none());
    }
}

/// Another program's document of version 1.6, with references that form a cycle.
#[test]
fn foreign_documents_are_read() {
    let foreign = |level: u64| {
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "components": [
                { "type": "library", "name": "x" },
                {
                    "type": "cryptographic-asset",
                    "bom-ref": "alg",
                    "name": "signature",
                    "cryptoProperties": {
                        "assetType": "algorithm",
                        "algorithmProperties": { "nistQuantumSecurityLevel": level },
                    },
                },
                {
                    "type": "cryptographic-asset",
                    "bom-ref": "cert",
                    "name": "a.example",
                    "cryptoProperties": {
                        "assetType": "certificate",
                        "certificateProperties": {
                            "signatureAlgorithmRef": "alg",
                            "subjectPublicKeyRef": "cert",
                            "notValidAfter": "2030-01-01T00:00:00+02:00",
                        },
                    },
                    "evidence": { "occurrences": [{ "location": "a.pem" }] },
                },
            ],
        })
    };
    assert_eq!(compare(&foreign(3), &foreign(0)).became_classical.len(), 1);
    assert!(compare(&foreign(3), &foreign(3)).is_ok());
    assert_eq!(diff(&foreign(3), &foreign(3), 1_893_448_801, 0).unwrap().expiring.len(), 1);
    let not_a_cbom = json!({ "components": [] });
    assert_eq!(diff(&not_a_cbom, &foreign(3), NOW, DAYS), Err(CbomError::Format));
    let empty = json!({ "bomFormat": "CycloneDX" });
    assert_eq!(diff(&empty, &foreign(3), NOW, DAYS), Err(CbomError::Components));
}
