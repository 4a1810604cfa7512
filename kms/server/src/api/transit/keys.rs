//! Keys, with Vault's paths.

use gabion_engine::Algorithm;
use gabion_kms::Code;
use gabion_kms::clock::rfc3339;
use gabion_kms::gate::Action;
use gabion_kms::model::{Capability, Key, KeyId, Label, Minimum, Origin};
use gabion_kms::operations::{KeyChange, NewKey, Public, Terms};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::Nothing;
use gabion_kms_wire::transit::{
    Flag, Number, TransitConfig, TransitCreate, TransitKeysConfig, TransitRotate, TransitTrim,
};
use serde_json::{Map, Value, json};

use super::super::keys::period;
use super::super::{Call, JSON, KeySelector, Reply, vault};
use super::{UnsupportedField, names, of_operation, rotate_period, select_key, tenant, version};
use crate::parse::json;
use crate::problem::Problem;

/// The query parameters of lists.
pub const LIST: &[(&str, &str)] = &[
    ("list", "true, if the method is GET, in any spelling that Go's ParseBool accepts."),
    ("after", "The name after which to begin."),
    ("limit", "The maximum number of names in the answer; all names by default."),
];

/// The number of names that are read at once.
const PAGE: usize = 1000;

/// The maximum number of versions in an answer: with ML-DSA-87 public keys they take 370 KB.
pub const VERSIONS_MAX: u32 = 100;

pub fn create(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitCreate = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    UnsupportedField("derived").flag(asked.derived)?;
    UnsupportedField("convergent_encryption").flag(asked.convergent_encryption)?;
    UnsupportedField("exportable").flag(asked.exportable)?;
    UnsupportedField("allow_plaintext_backup").flag(asked.allow_plaintext_backup)?;
    // Vault's keys of the type hmac have 32 bytes by default, like the service's HMAC-SHA-256 keys.
    let is_usual = asked.r#type.as_deref() == Some("hmac") && asked.key_size == Some(Number(32));
    UnsupportedField("key_size").number(asked.key_size.filter(|_| !is_usual))?;
    let rotate_period_s = period(rotate_period(asked.auto_rotate_period.as_ref())?);
    UnsupportedField("managed_key_name").text(asked.managed_key_name.as_deref())?;
    UnsupportedField("managed_key_id").text(asked.managed_key_id.as_deref())?;
    UnsupportedField("hybrid_key_type_pqc").text(asked.hybrid_key_type_pqc.as_deref())?;
    UnsupportedField("hybrid_key_type_ec").text(asked.hybrid_key_type_ec.as_deref())?;
    let algorithm = names::algorithm(asked.r#type.as_deref(), asked.parameter_set.as_deref())?;
    let new = NewKey {
        tenant: selector.tenant.clone(),
        purpose: Label::new("purpose", "transit")?,
        name: selector.name.clone(),
        algorithm,
    };
    let mut warnings = Vec::new();
    let terms = Terms { rotate_period_s, ..Terms::default() };
    match service.create_on(&caller, &new, &terms).map_err(Problem::from) {
        Ok(made) => changed(call, &made.key, &warnings),
        // As in Vault, creating an existing key again succeeds.
        Err(problem) if problem.code == "exists" => {
            let exists = Problem { status: 400, ..problem };
            let (known, versions) = match service.newest(&caller, &selector.key(), VERSIONS_MAX) {
                Ok(newest) => newest,
                // A caller that may create a key but not see it learns only that the name is taken.
                Err(error) if matches!(error.code(), Code::Denied | Code::NotFound) => {
                    return Err(exists);
                }
                Err(error) => return Err(error.into()),
            };
            if known.id.algorithm != algorithm {
                return Err(exists);
            }
            warnings.push(format!("key {} already existed", selector.name));
            if asked.auto_rotate_period.is_some() && known.rotate_period_s != rotate_period_s {
                let seconds = known.rotate_period_s.unwrap_or(0);
                warnings
                    .push(format!("its `auto_rotate_period` stays {seconds}; `config` changes it"));
            }
            shown(call, &known, &versions, warnings)
        }
        Err(problem) => Err(problem),
    }
}

pub fn read(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let (key, versions) = service.newest(&caller, &select_key(call, None)?.key(), VERSIONS_MAX)?;
    shown(call, &key, &versions, Vec::new())
}

pub fn rotate(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitRotate = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    UnsupportedField("managed_key_name").text(asked.managed_key_name.as_deref())?;
    UnsupportedField("managed_key_id").text(asked.managed_key_id.as_deref())?;
    let made = service.rotate(&caller, &selector.key());
    changed(call, &made.map_err(|error| of_operation(error.into()))?.key, &[])
}

pub fn config(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitConfig = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    UnsupportedField("exportable").flag(asked.exportable)?;
    UnsupportedField("allow_plaintext_backup").flag(asked.allow_plaintext_backup)?;
    let rotates = rotate_period(asked.auto_rotate_period.as_ref())?;
    let known = known(call, Action::Config, &selector)?;
    let oldest = |number, known| -> Result<u32, Problem> {
        match number {
            None => Ok(known),
            number => Ok(version(number)?.unwrap_or(0)),
        }
    };
    let decrypts = oldest(asked.min_decryption_version, known.min_verify)?.max(1);
    let encrypts = oldest(asked.min_encryption_version, known.min_sign)?;
    if encrypts != 0 && encrypts < decrypts {
        return Err(Problem::bad(
            "`min_encryption_version` is smaller than `min_decryption_version`; expected 0, or at least as much",
        ));
    }
    let minima = [
        (Minimum::Sign, encrypts, known.min_sign),
        (Minimum::Verify, decrypts, known.min_verify),
        (Minimum::Decrypt, decrypts, known.min_decrypt),
    ];
    // Apply all of them or none.
    let minima = minima.into_iter().filter(|(_, wants, has)| wants != has);
    let mut changes: Vec<KeyChange> =
        minima.map(|(of, wants, _)| KeyChange::Minimum(of, wants)).collect();
    changes.extend(rotates.map(|seconds| KeyChange::Rotation(period(Some(seconds)))));
    let deletable = asked.deletion_allowed.map(|Flag(is_allowed)| is_allowed);
    let deletable = deletable.filter(|&is_allowed| is_allowed != known.is_deletable);
    changes.extend(deletable.map(KeyChange::Deletable));
    if changes.is_empty() {
        return changed(call, &known.id, &[]);
    }
    let id = service.configure(&caller, &selector.key(), &changes);
    changed(call, &id.map_err(|error| of_operation(error.into()))?, &[])
}

/// Destroys older versions permanently, if the minimum versions of all uses exclude them.
pub fn trim(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitTrim = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    let before = version(asked.min_available_version)?.ok_or_else(|| {
        Problem::bad("missing field `min_available_version`; expected a version, from 1")
    })?;
    if known(call, Action::Trim, &selector)?.min_sign == 0 {
        // As in Vault.
        return Err(Problem::bad("`min_encryption_version` is 0; set it by `config` first"));
    }
    let id = service.trim(&caller, &selector.key(), before);
    changed(call, &id.map_err(|error| of_operation(error.into()))?, &[])
}

/// Deletes a key so that it can be restored, as OpenBao does.
pub fn soft_delete(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    let selector = select_key(call, None)?;
    service.delete(&caller, &selector.key()).map_err(|error| of_operation(error.into()))?;
    Ok(Reply { status: 204, kind: JSON, body: Vec::new() })
}

/// Restores a key that was deleted in this way.
pub fn restore(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    let selector = select_key(call, None)?;
    let id = service.restore(&caller, &selector.key());
    changed(call, &id.map_err(|error| of_operation(error.into()))?, &[])
}

/// Returns the configuration of all keys: `encrypt` does not create keys.
pub fn read_config(call: &Call) -> Result<Reply, Problem> {
    vault::data(call, json!({"disable_upsert": true}), &[])
}

pub fn write_config(call: &Call) -> Result<Reply, Problem> {
    let asked: TransitKeysConfig = json::read(&call.body)?;
    match asked.disable_upsert {
        Some(Flag(true)) => read_config(call),
        Some(Flag(false)) => Err(Problem::unsupported(
            "`disable_upsert` is not supported, but for true: `encrypt` makes no key",
        )),
        None => Err(Problem::bad("missing field `disable_upsert`")),
    }
}

/// Destroys a key, as Vault does, if its configuration permits it. A caller without permission to
/// destroy it does not delete it either.
pub fn delete(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    let selector = select_key(call, None)?;
    let key = selector.key();
    for action in [Action::Delete, Action::Destroy] {
        let may = service.algorithm(&caller, action, &key, 1);
        may.map_err(|error| of_operation(error.into()))?;
    }
    let id = service.kms().find(&selector.tenant, &selector.name)?;
    let known = service.kms().describe(&id)?;
    if !known.is_deletable {
        return Err(Problem::bad("deletion is not allowed for this key; set `deletion_allowed`"));
    }
    if known.deleted_ms.is_none() {
        service.delete(&caller, &key)?;
    }
    service.destroy(&caller, &key)?;
    Ok(Reply { status: 204, kind: JSON, body: Vec::new() })
}

pub fn list(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let tenant = tenant(call)?;
    let after = call.query.text("after").filter(|after| !after.is_empty());
    let mut after = after.map(|after| Label::new("key", after)).transpose()?;
    let most = call.query.number("limit", u32::MAX)?.filter(|&most| most != 0);
    let most = most.map_or(usize::MAX, |most| most as usize);
    let mut names = Vec::new();
    while names.len() < most {
        let page =
            service.list(&caller, &tenant, "", after.as_ref(), PAGE.min(most - names.len()))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        names.extend(page.iter().map(|(name, _)| name.to_string()));
    }
    if names.is_empty() {
        let body = json::write(&json!({"errors": []}))?;
        return Ok(Reply { status: 404, kind: JSON, body });
    }
    vault::data(call, json!({"keys": names}), &[])
}

pub fn list_by_get(call: &Call) -> Result<Reply, Problem> {
    match call.query.flag("list")? {
        Some(true) => list(call),
        Some(false) | None => Err(Problem::no_method("GET without `list=true`", "LIST")),
    }
}

/// Describes a key for a caller that may do `action` with it.
fn known(call: &Call, action: Action, selector: &KeySelector) -> Result<Key, Problem> {
    let (service, caller) = call.caller()?;
    let refused = |error: gabion_kms::Error| of_operation(error.into());
    service.algorithm(&caller, action, &selector.key(), 1).map_err(refused)?;
    let id = service.kms().find(&selector.tenant, &selector.name).map_err(refused)?;
    service.kms().describe(&id).map_err(refused)
}

/// Describes a key to the caller that created or changed it. This needs no further permission: an
/// error would suggest that the change was not made.
fn changed(call: &Call, id: &KeyId, warnings: &[String]) -> Result<Reply, Problem> {
    let (service, _) = call.caller()?;
    let (key, versions) = service.kms().newest(id, VERSIONS_MAX)?;
    shown(call, &key, &versions, warnings.to_vec())
}

fn shown(
    call: &Call,
    key: &Key,
    newest: &[Public],
    mut warnings: Vec<String>,
) -> Result<Reply, Problem> {
    let algorithm = key.id.algorithm;
    let does = algorithm.does();
    let (signs, encrypts) = match does {
        Capability::SignAndEncrypt => (true, true),
        does => (does == Capability::Sign, does == Capability::Encrypt),
    };
    let mut versions = Map::new();
    for public in newest {
        let number = public.version.version.to_string();
        if matches!(does, Capability::Encrypt | Capability::Authenticate) {
            // As in Vault, a version without a public key is represented by its creation time.
            versions.insert(number, json!(public.version.created_ms / 1000));
            continue;
        }
        versions.insert(
            number,
            json!({
                "creation_time": rfc3339(public.version.created_ms),
                "name": algorithm.algorithm().and_then(curve).unwrap_or(&algorithm.to_string()),
                "public_key": public_key(public, &key.id),
            }),
        );
    }
    warnings.extend(omitted(key));
    let (of, set) = names::type_of(algorithm);
    let mut about = json!({
        "name": key.name.to_string(),
        "type": of,
        "keys": versions,
        "latest_version": key.latest,
        // Vault returns 0 for keys that were never trimmed.
        "min_available_version": if key.min_available == 1 { 0 } else { key.min_available },
        "min_decryption_version": key.min_verify,
        "min_encryption_version": key.min_sign,
        "deletion_allowed": key.is_deletable,
        "derived": false,
        "exportable": key.is_exportable,
        "allow_plaintext_backup": false,
        "imported_key": key.origin != Origin::Made,
        "auto_rotate_period": key.rotate_period_s.unwrap_or(0),
        "soft_deleted": key.deleted_ms.is_some(),
        "supports_encryption": encrypts,
        "supports_decryption": encrypts,
        "supports_derivation": false,
        "supports_signing": signs,
    });
    if key.origin != Origin::Made {
        about["imported_key_allow_rotation"] = json!(key.origin == Origin::Imported);
    }
    if let Some(set) = set {
        about["parameter_set"] = json!(set);
    }
    vault::data(call, about, &warnings)
}

/// Returns a warning that an answer has only the newest versions; `None` if it has all of them.
pub fn omitted(key: &Key) -> Option<String> {
    let oldest = key.min_verify.max(key.min_available);
    let is_cut = key.latest - oldest >= VERSIONS_MAX;
    let path = format!("GET /v1/kms/keys/{}/versions", key.name);
    is_cut.then(|| {
        format!("`keys` has the newest {VERSIONS_MAX} versions only; {path} lists all of them")
    })
}

/// Returns Vault's name of a curve.
fn curve(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::EcdsaP256 => Some("P-256"),
        Algorithm::EcdsaP384 => Some("P-384"),
        Algorithm::EcdsaP521 => Some("P-521"),
        _ => None,
    }
}

/// Formats a public key: Ed25519 as its bytes, others as PEM, or as bytes if there is no PEM.
pub fn public_key(public: &Public, id: &KeyId) -> Value {
    match id.algorithm.algorithm() {
        Some(Algorithm::Ed25519) => json!(encode(&public.bytes)),
        _ => json!(public.pem(id).unwrap_or_else(|| encode(&public.bytes))),
    }
}
