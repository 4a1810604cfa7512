//! Comparison of two CBOMs: which assets became classical, which classical ones are new, and which
//! certificates expire.
//!
//! An asset is identified by its location and, for a certificate, its subject. So a renewed
//! certificate is compared with the one that it replaces, and a copy of a known asset is not new.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::POST_QUANTUM;
use crate::time::parse_rfc3339;

/// Why a document cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CbomError {
    /// It is not a CycloneDX document.
    #[error("not a CycloneDX document in JSON: `bomFormat` is missing or different")]
    Format,
    /// It has no components.
    #[error("the CycloneDX document has no list of components")]
    Components,
}

/// An asset that is new or that changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// `certificate`, `private-key`, `public-key` or `protocol`.
    pub kind: String,
    /// The subject of a certificate; otherwise the name of the component.
    pub name: String,
    /// The path or the target.
    pub location: String,
    /// The algorithms in the old document; empty if the asset is new.
    pub old: Vec<String>,
    /// The algorithms in the new document; empty if the asset is gone.
    pub new: Vec<String>,
}

/// A certificate that expires soon or has expired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Expiry {
    /// The time, in RFC 3339.
    pub not_after: String,
    /// The subject.
    pub name: String,
    /// The path or the target.
    pub location: String,
    /// Whether it has expired.
    pub has_expired: bool,
}

/// The differences between two documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Assets that were post-quantum and are classical now.
    pub became_classical: Vec<Change>,
    /// Classical assets that the old document does not have.
    pub new_classical: Vec<Change>,
    /// Certificates that have expired or expire soon.
    pub expiring: Vec<Expiry>,
    /// Assets that were classical and are post-quantum now.
    pub became_post_quantum: Vec<Change>,
    /// Other new assets and replacements.
    pub changed: Vec<Change>,
    /// Assets that the new document does not have.
    pub removed: Vec<Change>,
}

impl Diff {
    /// Returns whether nothing became worse and nothing expires.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.became_classical.is_empty()
            && self.new_classical.is_empty()
            && self.expiring.is_empty()
    }
}

/// The properties by which a copy of an asset is recognized at another location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    /// The `bom-ref`, or the name of a component without one.
    reference: String,
    algorithms: Vec<String>,
    /// `None` if an algorithm is unknown.
    is_post_quantum: Option<bool>,
}

/// An asset at one location.
#[derive(Clone, Debug)]
struct Asset {
    /// Kind, location, and the subject of a certificate.
    place: [String; 3],
    name: String,
    identity: Identity,
    not_after: Option<String>,
}

/// Compares two documents. `now` is in Unix seconds; certificates of `new` that are valid for less
/// than `days` days are reported.
///
/// # Errors
/// Fails if one of them is not a CycloneDX document with components.
pub fn diff(old: &Value, new: &Value, now: i64, days: u32) -> Result<Diff, CbomError> {
    let (old, new) = (assets(old)?, assets(new)?);
    let mut diff = Diff { expiring: expiring(&new, now, days), ..Diff::default() };
    let known: BTreeSet<_> = old.iter().map(|asset| &asset.identity).collect();
    let current: BTreeSet<_> = new.iter().map(|asset| &asset.identity).collect();
    // Assets that are gone, by place, to be matched with their replacements.
    let mut gone: BTreeMap<&[String; 3], Vec<&Asset>> = BTreeMap::new();
    for asset in old.iter().filter(|asset| !current.contains(&asset.identity)) {
        gone.entry(&asset.place).or_default().push(asset);
    }
    for asset in new.iter().filter(|asset| !known.contains(&asset.identity)) {
        let replaced = gone.get_mut(&asset.place).and_then(|assets| take(assets, asset));
        let change = change(replaced, Some(asset));
        let was = replaced.map(|replaced| replaced.identity.is_post_quantum);
        match (was, asset.identity.is_post_quantum) {
            (Some(Some(true)), Some(false)) => diff.became_classical.push(change),
            (None, Some(false)) => diff.new_classical.push(change),
            (Some(Some(false)), Some(true)) => diff.became_post_quantum.push(change),
            _ => diff.changed.push(change),
        }
    }
    diff.removed = gone.into_values().flatten().map(|asset| change(Some(asset), None)).collect();
    for list in [
        &mut diff.became_classical,
        &mut diff.new_classical,
        &mut diff.became_post_quantum,
        &mut diff.changed,
        &mut diff.removed,
    ] {
        list.sort();
        list.dedup();
    }
    Ok(diff)
}

/// Removes the asset that a new one replaces: one with the same verdict, or any. So a file with a
/// classical and a post-quantum certificate may have both renewed.
fn take<'a>(assets: &mut Vec<&'a Asset>, new: &Asset) -> Option<&'a Asset> {
    let same = |asset: &&Asset| asset.identity.is_post_quantum == new.identity.is_post_quantum;
    let at = assets.iter().position(same).or((!assets.is_empty()).then_some(0))?;
    Some(assets.remove(at))
}

fn change(old: Option<&Asset>, new: Option<&Asset>) -> Change {
    let algorithms = |asset: Option<&Asset>| asset.map(|one| one.identity.algorithms.clone());
    let one = new.or(old);
    let place = one.map(|one| one.place.clone()).unwrap_or_default();
    let [kind, location, _] = place;
    Change {
        kind,
        name: one.map(|one| one.name.clone()).unwrap_or_default(),
        location,
        old: algorithms(old).unwrap_or_default(),
        new: algorithms(new).unwrap_or_default(),
    }
}

fn expiring(assets: &[Asset], now: i64, days: u32) -> Vec<Expiry> {
    let limit = now.saturating_add(86_400 * i64::from(days));
    let mut found: Vec<Expiry> = assets
        .iter()
        .filter_map(|asset| {
            let not_after = asset.not_after.clone()?;
            let seconds = parse_rfc3339(&not_after)?;
            (seconds < limit).then(|| Expiry {
                not_after,
                name: asset.name.clone(),
                location: asset.place[1].clone(),
                has_expired: seconds < now,
            })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Reads the certificates, keys and protocols of a document.
fn assets(document: &Value) -> Result<Vec<Asset>, CbomError> {
    if text(document, "/bomFormat") != Some("CycloneDX") {
        return Err(CbomError::Format);
    }
    let components = document.get("components").and_then(Value::as_array);
    let components = components.ok_or(CbomError::Components)?;
    let by_reference: BTreeMap<&str, &Value> = components
        .iter()
        .filter_map(|component| Some((text(component, "/bom-ref")?, component)))
        .collect();
    let mut assets = Vec::new();
    for component in components {
        let kind = match text(component, "/cryptoProperties/assetType") {
            Some("related-crypto-material") => {
                text(component, "/cryptoProperties/relatedCryptoMaterialProperties/type")
            }
            Some("algorithm") | None => continue,
            kind => kind,
        };
        let kind = kind.unwrap_or("unknown");
        let name = text(component, "/name").unwrap_or_default();
        let subject = if kind == "certificate" { name } else { "" };
        let algorithms = algorithms_of(component, &by_reference);
        let has = |verdict| algorithms.values().any(|&other| other == verdict);
        let is_post_quantum = match algorithms.is_empty() || has(None) {
            _ if has(Some(false)) => Some(false),
            true => None,
            false => Some(true),
        };
        let reference = text(component, "/bom-ref").unwrap_or(name);
        let not_after = text(component, "/cryptoProperties/certificateProperties/notValidAfter");
        let identity = Identity {
            reference: reference.to_owned(),
            algorithms: algorithms.into_keys().map(str::to_owned).collect(),
            is_post_quantum,
        };
        for occurrence in list(component, "/evidence/occurrences") {
            let location = text(occurrence, "/location").unwrap_or_default();
            assets.push(Asset {
                place: [kind, location, subject].map(str::to_owned),
                name: name.to_owned(),
                identity: identity.clone(),
                not_after: not_after.map(str::to_owned),
            });
        }
    }
    Ok(assets)
}

/// Returns the algorithms that a component refers to, directly or through a key, and whether each
/// is post-quantum. The certificate of a protocol is compared separately and left out.
fn algorithms_of<'a>(
    component: &'a Value,
    by_reference: &BTreeMap<&str, &'a Value>,
) -> BTreeMap<&'a str, Option<bool>> {
    let mut algorithms = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut queue = vec![component];
    while let Some(component) = queue.pop() {
        if text(component, "/cryptoProperties/assetType") == Some("algorithm") {
            let name = text(component, "/name").unwrap_or_default();
            algorithms.insert(name, is_algorithm_post_quantum(component));
            continue;
        }
        let properties = component.get("cryptoProperties").and_then(Value::as_object);
        for properties in properties.into_iter().flat_map(|properties| properties.values()) {
            let related = list(properties, "/relatedCryptographicAssets").iter();
            let related = related
                .filter(|one| matches!(text(one, "/type"), Some("algorithm" | "publicKey")))
                .filter_map(|one| text(one, "/ref"));
            // Documents of version 1.6.
            let members = ["signatureAlgorithmRef", "subjectPublicKeyRef", "algorithmRef"];
            let members = members.iter().filter_map(|&one| properties.get(one)?.as_str());
            for reference in related.chain(members) {
                if let Some(target) = by_reference.get(reference)
                    && seen.insert(reference)
                {
                    queue.push(target);
                }
            }
        }
    }
    algorithms
}

/// Returns whether an algorithm is post-quantum: as Gabion says, or by its security category.
fn is_algorithm_post_quantum(component: &Value) -> Option<bool> {
    let is_named = |property: &&Value| text(property, "/name") == Some(POST_QUANTUM);
    if let Some(property) = list(component, "/properties").iter().find(is_named) {
        return text(property, "/value").map(|value| value == "true");
    }
    let pointer = "/cryptoProperties/algorithmProperties/nistQuantumSecurityLevel";
    component.pointer(pointer).and_then(Value::as_u64).map(|level| level > 0)
}
