//! `cryptoProperties` of algorithms, with the schema's names of primitives, families and curves.

use gabion_engine::{Algorithm, AlgorithmInfo, Family, Kind};
use serde_json::{Value, json};

use crate::algorithm::category;

/// Returns `cryptoProperties` of an algorithm by its name, and leaves out what is unknown of it.
pub(super) fn properties(name: &str) -> Value {
    let plain = name.strip_prefix("Hash").unwrap_or(name);
    let info = Algorithm::lookup(plain).map(|(algorithm, _)| algorithm.info());
    let mut properties = json!({ "primitive": primitive(name, info) });
    if let Some(family) = family(name, info) {
        properties["algorithmFamily"] = json!(family);
    }
    if let Some(set) = parameter_set(plain) {
        properties["parameterSetIdentifier"] = json!(set);
    }
    if let Some(curve) = curve(name, info) {
        properties["ellipticCurve"] = json!(curve);
    }
    // Whether an unknown algorithm meets a category is unknown too.
    if !name.starts_with("unknown") {
        properties["nistQuantumSecurityLevel"] = json!(category(name).unwrap_or(0));
    }
    let mut crypto = json!({ "assetType": "algorithm", "algorithmProperties": properties });
    // An old name is found under its successor, whose identifier is another one.
    if let Some(oid) = info.filter(|info| info.name == name).and_then(|info| info.oid) {
        crypto["oid"] = json!(oid);
    }
    crypto
}

fn primitive(name: &str, info: Option<&AlgorithmInfo>) -> &'static str {
    match info {
        Some(info) if !info.parts.is_empty() => "combiner",
        Some(info) => match info.kind {
            Kind::Kem => "kem",
            Kind::Signature => "signature",
            Kind::KeyExchange => "key-agree",
        },
        None if ["DH", "ffdhe", "X448", "diffie", "ecdh", "curve25519"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            "key-agree"
        }
        None if ["mlkem", "sntrup"].iter().any(|start| name.starts_with(start)) => "combiner",
        None if [
            "RSA", "ECDSA", "DSA", "Ed448", "SM2", "GOST", "MLDSA", "ssh-", "rsa-", "ecdsa-",
        ]
        .iter()
        .any(|start| name.starts_with(start)) =>
        {
            "signature"
        }
        None => "unknown",
    }
}

fn family(name: &str, info: Option<&AlgorithmInfo>) -> Option<&'static str> {
    let known = info.map(|info| info.family);
    Some(match known {
        Some(Family::MlKem) => "ML-KEM",
        Some(Family::MlDsa) => "ML-DSA",
        Some(Family::SlhDsa) => "SLH-DSA",
        Some(Family::Hss) => "LMS",
        Some(Family::Xmss) => "XMSS",
        Some(Family::Ed25519) => "EdDSA",
        Some(Family::Ecdh) => "ECDH",
        Some(Family::Ecdsa) => "ECDSA",
        Some(Family::FnDsa | Family::Hybrid | Family::Composite) => return None,
        None if name.starts_with("RSA with") => "RSASSA-PKCS1",
        None if name.starts_with("RSA-PSS") => "RSASSA-PSS",
        None if name.starts_with("ECDSA") => "ECDSA",
        None if name.starts_with("DSA") => "DSA",
        None if name.starts_with("Ed448") => "EdDSA",
        None if name.starts_with("X448") => "ECDH",
        None if name.starts_with("DH") || name.starts_with("ffdhe") => "FFDH",
        None if name.starts_with("SM2") => "SM2",
        None if name.starts_with("GOST") => "GOST",
        None => return None,
    })
}

fn parameter_set(name: &str) -> Option<&str> {
    let starts = ["ML-KEM-", "ML-DSA-", "SLH-DSA-", "FN-DSA-", "RSA-", "DSA-", "DH-", "ffdhe"];
    let set = starts.iter().find_map(|start| name.strip_prefix(start))?;
    // Of a signature, the hash follows the name.
    (!set.contains(' ')).then_some(set)
}

fn curve(name: &str, info: Option<&AlgorithmInfo>) -> Option<String> {
    match info.map(|info| info.algorithm) {
        Some(Algorithm::Ed25519) => return Some("other/Ed25519".to_owned()),
        Some(Algorithm::X25519) => return Some("other/Curve25519".to_owned()),
        Some(Algorithm::EcdhP256 | Algorithm::EcdsaP256) => return Some("nist/P-256".to_owned()),
        Some(Algorithm::EcdhP384 | Algorithm::EcdsaP384) => return Some("nist/P-384".to_owned()),
        Some(Algorithm::EcdhP521 | Algorithm::EcdsaP521) => return Some("nist/P-521".to_owned()),
        _ => {}
    }
    let curve = name.strip_prefix("ECDSA ").unwrap_or(name);
    match curve {
        "P-192" | "P-224" | "P-256" | "P-384" | "P-521" => Some(format!("nist/{curve}")),
        "secp256k1" => Some("secg/secp256k1".to_owned()),
        "Ed448" => Some("other/Ed448".to_owned()),
        "X448" => Some("other/Curve448".to_owned()),
        _ if curve.starts_with("brainpoolP") => Some(format!("brainpool/{curve}")),
        _ => None,
    }
}
