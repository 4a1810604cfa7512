//! Certificates and keys of other implementations: what the inventory says of them.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::path::{Path, PathBuf};

use gabion_probe::inventory::{Asset, Inventory, Kind};

/// Scans a folder of published vectors: `GABION_VECTORS`, or next to the repository.
fn scan(name: &str) -> Option<Inventory> {
    let root = match std::env::var_os("GABION_VECTORS").filter(|value| !value.is_empty()) {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"),
    };
    let folder = root.join(name);
    if !folder.is_dir() {
        eprintln!("skipped: no vectors in {}", folder.display());
        return None;
    }
    Some(Inventory::scan(&[folder]))
}

fn file_name(asset: &Asset) -> &str {
    asset.path.rsplit('/').next().unwrap()
}

/// The artifacts of the IETF hackathon have the object identifier in their name.
#[test]
fn certificates_of_other_implementations_are_named() {
    let Some(inventory) = scan("pqc-certificates") else { return };
    assert_eq!(inventory.warnings, [""; 0]);
    let mut certificates = 0;
    for asset in &inventory.assets {
        let file = file_name(asset);
        let algorithm = asset.entry.algorithm.as_ref().unwrap();
        assert!(algorithm.is_post_quantum, "{file}: {algorithm:?}");
        let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
        let (named, found) = (plain(file), plain(&algorithm.name));
        let found = found.strip_prefix("hash").unwrap_or(&found);
        let found = found.strip_suffix("draft19").unwrap_or(found);
        assert!(named.contains(found), "{file}: {}", algorithm.name);
        let is_prehash = file.contains("-with-");
        assert_eq!(algorithm.name.starts_with("Hash"), is_prehash, "{file}: {}", algorithm.name);
        let kind = match file.rsplit('_').next().unwrap() {
            "ta.der" | "ee.der" => Kind::Certificate,
            "public.der" => Kind::PublicKey,
            _ => Kind::PrivateKey,
        };
        assert_eq!(asset.entry.kind, kind, "{file}");
        assert!(algorithm.bits > 0 || kind == Kind::PrivateKey, "{file}");
        certificates += usize::from(kind == Kind::Certificate);
    }
    assert!(certificates > 60, "{certificates} certificates");
}

#[test]
fn certificates_of_the_rfcs_are_post_quantum() {
    let Some(inventory) = scan("lamps") else { return };
    let find = |name: &str| {
        let asset = inventory.assets.iter().find(|asset| file_name(asset) == name);
        asset.unwrap_or_else(|| panic!("{name} is missing")).entry.clone()
    };
    for (file, key) in [
        ("hss_cert.pem", "HSS"),
        ("xmss_cert.pem", "XMSS"),
        ("ML-DSA-44.crt", "ML-DSA-44"),
        ("ML-KEM-768.crt", "ML-KEM-768"),
        ("id-slh-dsa-sha2-128s.pem", "SLH-DSA-SHA2-128s"),
    ] {
        let entry = find(file);
        assert_eq!(entry.certificate.as_ref().unwrap().key.name, key);
        assert_eq!(entry.is_post_quantum(), Some(true), "{file}");
    }
    assert_eq!(find("ML-DSA-65-both.priv").algorithm.unwrap().name, "ML-DSA-65");
    assert_eq!(find("ML-DSA-87.pub").kind, Kind::PublicKey);
}

/// Every certificate of the system's bundle is listed.
#[test]
fn bundle_of_authorities_is_listed_completely() {
    let path = Path::new("/etc/ssl/certs/ca-certificates.crt");
    let Ok(text) = std::fs::read_to_string(path) else {
        return eprintln!("skipped: no {}", path.display());
    };
    let inventory = Inventory::scan(&[path.to_path_buf()]);
    assert_eq!(inventory.warnings, [""; 0]);
    assert_eq!(inventory.assets.len(), text.matches("-----BEGIN CERTIFICATE-----").count());
    for asset in &inventory.assets {
        let name = &asset.entry.algorithm.as_ref().unwrap().name;
        assert!(name.starts_with("RSA-") || name.starts_with("ECDSA P-"), "{name}");
        assert_eq!(asset.entry.is_post_quantum(), Some(false));
    }
}
