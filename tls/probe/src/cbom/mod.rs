//! Cryptography bills of materials (CBOM) in CycloneDX 1.7.
//!
//! ```text
//!   Inventory ─┐            ┌─ certificate ──────────> public key ─┐
//!              ├─> Cbom ────┼─ private key, public key ────────────┼─> algorithm
//!   Report ────┘            └─ protocol (one per target) ──────────┘
//! ```
//!
//! Every arrow is an entry of `relatedCryptographicAssets`. A `bom-ref` is derived from the
//! fingerprint, the target or the path, and the serial number from the document, so the same input
//! gives the same bytes.

mod algorithm;
mod diff;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::algorithm::{KeyKind, is_post_quantum};
use crate::certificate::{Certificate, hex};
use crate::inventory::{Asset, Entry, Inventory, Kind};
use crate::report::{ChainEntry, Report};
use crate::target::Protocol;
use crate::time::rfc3339;

pub use diff::{CbomError, Change, Diff, Expiry, diff};

/// The property of algorithms that says whether they resist quantum computers.
const POST_QUANTUM: &str = "gabion:post-quantum";

/// A document under construction.
#[derive(Clone, Debug, Default)]
pub struct Cbom {
    /// The components by `bom-ref`.
    components: BTreeMap<String, Component>,
}

/// A component and where it was found.
#[derive(Clone, Debug)]
struct Component {
    value: Value,
    /// Location and context.
    occurrences: BTreeSet<(String, String)>,
}

/// Returns an entry of `relatedCryptographicAssets`.
fn related(kind: &str, reference: &str) -> Value {
    json!({ "type": kind, "ref": reference })
}

/// Returns the value of `fingerprint`.
fn fingerprint(sha256: &str) -> Value {
    json!({ "alg": "SHA-256", "content": sha256 })
}

/// Hashes parts of an identifier. A separator that is not in the parts keeps them apart.
fn hash_of(parts: &[&str]) -> String {
    hex(&Sha256::digest(parts.join("\0")))
}

impl Cbom {
    /// Returns a document without components.
    #[must_use]
    pub fn new() -> Cbom {
        Cbom::default()
    }

    /// Returns the number of components.
    #[must_use]
    pub fn len(&self) -> usize {
        self.components.len()
    }

    /// Returns whether there are no components.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.components.is_empty()
    }

    /// Adds the keys and certificates of files.
    pub fn add_inventory(&mut self, inventory: &Inventory) {
        for Asset { path, entry } in &inventory.assets {
            let context = match entry.position {
                0 => String::new(),
                position if entry.format == "OpenSSH" && entry.kind == Kind::PublicKey => {
                    format!("line {position}")
                }
                position => format!("PEM block {position}"),
            };
            let reference = match (&entry.certificate, &entry.algorithm, &entry.sha256) {
                (Some(certificate), ..) => self.add_certificate(certificate),
                (None, Some(kind), Some(sha256)) if entry.kind == Kind::PublicKey => {
                    self.add_public_key(sha256, kind, Some(entry.format))
                }
                _ => self.add_private_key(path, entry),
            };
            self.locate(&reference, path, &context);
        }
    }

    /// Adds what a probe found. A target without a handshake adds nothing; returns whether there
    /// was one.
    pub fn add_report(&mut self, report: &Report) -> bool {
        let (kind, version) = match (&report.version, report.protocol) {
            (_, Protocol::Ssh) if report.ssh.is_some() => ("ssh", "2.0"),
            (Some(version), Protocol::Tls) => ("tls", version.trim_start_matches("TLSv")),
            _ => return false,
        };
        let target = &report.target;
        let mut assets = Vec::new();
        if let Some(verdict) = &report.key_exchange {
            let name = report.group.as_ref().unwrap_or(&verdict.algorithm);
            assets.push(related("algorithm", &self.add_algorithm(name, verdict.post_quantum)));
        }
        for (at, entry) in report.chain.iter().enumerate() {
            let reference = self.add_chain_entry(entry);
            self.locate(&reference, target, &format!("certificate {} of the chain", at + 1));
            if at == 0 {
                assets.push(related("certificate", &reference));
            }
        }
        if let (Protocol::Ssh, Some(verdict)) = (report.protocol, &report.authentication) {
            let id = format!("ssh/{target}/{}", verdict.algorithm);
            let name = format!("{} host key", verdict.algorithm);
            let algorithm = self.add_algorithm(
                &verdict.algorithm,
                crate::ssh::is_host_key_post_quantum(&verdict.algorithm),
            );
            let properties = json!({
                "type": "public-key",
                "relatedCryptographicAssets": [related("algorithm", &algorithm)],
            });
            let reference = self.add_material(&id, &name, properties);
            self.locate(&reference, target, "host key");
            assets.push(related("publicKey", &reference));
        }
        let mut properties = json!({
            "type": kind,
            "version": version,
            "relatedCryptographicAssets": assets,
        });
        if let Some(cipher) = &report.cipher {
            let mut suite = json!({ "name": cipher });
            let lists = [("tlsGroups", &report.group), ("tlsSignatureSchemes", &report.signature)];
            for (member, value) in lists {
                if let Some(value) = value {
                    suite[member] = json!([value]);
                }
            }
            properties["cipherSuites"] = json!([suite]);
        }
        let reference = format!("crypto/protocol/{kind}/{target}");
        let name = format!("{} {version} of {target}", kind.to_uppercase());
        let crypto = json!({ "assetType": "protocol", "protocolProperties": properties });
        self.insert(&reference, &name, crypto);
        self.locate(&reference, target, "");
        true
    }

    /// Returns the document; `time` is in Unix seconds, `version` that of the program.
    #[must_use]
    pub fn to_json(&self, time: i64, version: &str) -> Value {
        let components: Vec<Value> = self.components.values().map(Component::to_json).collect();
        let mut document = json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.7",
            "version": 1,
            "metadata": {
                "timestamp": rfc3339(time),
                "tools": {
                    "components": [
                        { "type": "application", "name": "gabion", "version": version },
                    ],
                },
            },
            "components": components,
        });
        document["serialNumber"] = json!(serial_number(&document.to_string()));
        document
    }

    fn insert(&mut self, reference: &str, name: &str, crypto: Value) {
        let value = json!({
            "type": "cryptographic-asset",
            "bom-ref": reference,
            "name": name,
            "cryptoProperties": crypto,
        });
        let component = Component { value, occurrences: BTreeSet::new() };
        self.components.entry(reference.to_owned()).or_insert(component);
    }

    fn locate(&mut self, reference: &str, location: &str, context: &str) {
        if let Some(component) = self.components.get_mut(reference) {
            component.occurrences.insert((location.to_owned(), context.to_owned()));
        }
    }

    /// Adds an algorithm and returns its `bom-ref`. Reports share it, so later ones do not change
    /// it.
    fn add_algorithm(&mut self, name: &str, is_post_quantum: bool) -> String {
        let reference = format!("crypto/algorithm/{}", name.replace(' ', "-"));
        self.insert(&reference, name, algorithm::properties(name));
        if let Some(component) = self.components.get_mut(&reference)
            && component.value.get("properties").is_none()
        {
            let value = is_post_quantum.to_string();
            component.value["properties"] = json!([{ "name": POST_QUANTUM, "value": value }]);
        }
        reference
    }

    /// Adds a key and returns its `bom-ref`.
    fn add_material(&mut self, id: &str, name: &str, properties: Value) -> String {
        let reference = format!("crypto/key/{id}");
        let crypto = json!({
            "assetType": "related-crypto-material",
            "relatedCryptoMaterialProperties": properties,
        });
        self.insert(&reference, name, crypto);
        reference
    }

    fn add_public_key(&mut self, sha256: &str, kind: &KeyKind, format: Option<&str>) -> String {
        let algorithm = self.add_algorithm(&kind.name, kind.is_post_quantum);
        let mut properties = json!({
            "type": "public-key",
            "fingerprint": fingerprint(sha256),
            "relatedCryptographicAssets": [related("algorithm", &algorithm)],
        });
        if kind.bits > 0 {
            properties["size"] = json!(kind.bits);
        }
        if let Some(format) = format {
            properties["format"] = json!(format);
        }
        self.add_material(sha256, &format!("{} public key", kind.name), properties)
    }

    /// Adds a private key. Its `bom-ref` is that of its path, since its hash would be a hash of
    /// the secret.
    fn add_private_key(&mut self, path: &str, entry: &Entry) -> String {
        let mut properties = json!({ "type": "private-key", "format": entry.format });
        let mut name = "encrypted private key".to_owned();
        if let Some(kind) = &entry.algorithm {
            let algorithm = self.add_algorithm(&kind.name, kind.is_post_quantum);
            properties["relatedCryptographicAssets"] = json!([related("algorithm", &algorithm)]);
            if kind.bits > 0 {
                properties["size"] = json!(kind.bits);
            }
            name = format!("{} private key", kind.name);
        }
        if entry.is_encrypted {
            properties["securedBy"] = json!({ "mechanism": "Password" });
        }
        let place = hash_of(&[path, &entry.position.to_string()]);
        self.add_material(&format!("private/{place}"), &name, properties)
    }

    fn add_certificate(&mut self, certificate: &Certificate) -> String {
        // First, so that the key has its size.
        self.add_public_key(&certificate.key_sha256, &certificate.key, None);
        let reference = self.add_chain_entry(&ChainEntry::from(certificate));
        if let Some(component) = self.components.get_mut(&reference) {
            let properties = &mut component.value["cryptoProperties"]["certificateProperties"];
            properties["serialNumber"] = json!(certificate.serial_hex);
            if !certificate.subject_alt_names.is_empty() {
                properties["certificateExtensions"] = json!([{
                    "commonExtensionName": "subjectAlternativeName",
                    "commonExtensionValue": certificate.subject_alt_names.join(", "),
                }]);
            }
        }
        reference
    }

    /// Adds a certificate by the fields that a report keeps.
    fn add_chain_entry(&mut self, entry: &ChainEntry) -> String {
        let signature = self.add_algorithm(&entry.signature, is_post_quantum(&entry.signature));
        let mut related_assets = vec![related("algorithm", &signature)];
        // Results of versions that did not report fingerprints.
        if entry.key_sha256.is_empty() {
            let algorithm = self.add_algorithm(&entry.key, is_post_quantum(&entry.key));
            related_assets.push(related("algorithm", &algorithm));
        } else {
            let is_post_quantum = is_post_quantum(&entry.key);
            let kind = KeyKind { name: entry.key.clone(), is_post_quantum, bits: 0 };
            let key = self.add_public_key(&entry.key_sha256, &kind, None);
            related_assets.push(related("publicKey", &key));
        }
        let mut properties = json!({
            "subjectName": entry.subject,
            "issuerName": entry.issuer,
            "notValidBefore": entry.not_before,
            "notValidAfter": entry.not_after,
            "certificateFormat": "X.509",
            "relatedCryptographicAssets": related_assets,
        });
        let mut id = entry.sha256.clone();
        if id.is_empty() {
            id = hash_of(&[&entry.subject, &entry.issuer, &entry.key, &entry.not_after]);
        } else {
            properties["fingerprint"] = fingerprint(&entry.sha256);
        }
        let reference = format!("crypto/certificate/{id}");
        let name = if entry.subject.is_empty() { "certificate" } else { &entry.subject };
        let crypto = json!({ "assetType": "certificate", "certificateProperties": properties });
        self.insert(&reference, name, crypto);
        reference
    }
}

impl Component {
    fn to_json(&self) -> Value {
        let mut value = self.value.clone();
        let occurrences = self.occurrences.iter().map(|(location, context)| {
            let mut occurrence = json!({ "location": location });
            if !context.is_empty() {
                occurrence["additionalContext"] = json!(context);
            }
            occurrence
        });
        let occurrences: Vec<Value> = occurrences.collect();
        if !occurrences.is_empty() {
            value["evidence"] = json!({ "occurrences": occurrences });
        }
        value
    }
}

/// Returns a UUID of version 8 (RFC 9562) from the hash of a text.
fn serial_number(text: &str) -> String {
    let mut id = [0; 16];
    id.copy_from_slice(&Sha256::digest(text.as_bytes())[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    let hex = hex(&id);
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("urn:uuid:{}", parts.join("-"))
}
