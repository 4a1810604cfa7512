//! Export of public keys, with Vault's paths.

use gabion_kms::model::Capability;
use gabion_kms::operations::Public;
use serde_json::{Map, Value, json};

use super::super::{Call, Reply, vault};
use super::keys::{VERSIONS_MAX, omitted, public_key};
use super::{UnsupportedField, named, names};
use crate::problem::Problem;

/// The query parameters of `export`.
pub const EXPORT: &[(&str, &str)] =
    &[("format", "Not supported: Ed25519's are their bytes, others PEM.")];

/// Returns the public keys of a key's versions: the newest ones, or one. Private keys can only be
/// exported with `/v1/kms`.
pub fn export(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    match call.part(0) {
        "public-key" => {}
        kind @ ("encryption-key" | "signing-key" | "hmac-key" | "cmac-key"
        | "certificate-chain") => {
            let why = format!("`export/{kind}` is not supported, but export/public-key is");
            return Err(Problem::unsupported(why).hint("POST /v1/kms/keys/KEY/export"));
        }
        kind => return Err(Problem::bad(format!("unknown type `{kind}`; expected public-key"))),
    }
    UnsupportedField("format").text(call.query.text("format"))?;
    let selector = named(call, call.part(1), None)?;
    let (key, newest) = service.newest(&caller, &selector.key(), VERSIONS_MAX)?;
    if matches!(key.id.algorithm.does(), Capability::Encrypt | Capability::Authenticate) {
        let why = format!("a key of {} has no public half", key.id.algorithm);
        return Err(Problem::unsupported(why));
    }
    let only = match call.part(2) {
        "" => None,
        "latest" => Some(key.latest),
        text => Some(text.parse().map_err(|_| {
            Problem::bad(format!("`{text}` is not a version; expected a number, or latest"))
        })?),
    };
    let oldest = key.min_verify.max(key.min_available);
    let (found, warnings) = match only {
        None => (newest, omitted(&key)),
        Some(only) if only < oldest => (Vec::new(), None),
        Some(only) => {
            let (_, mut found) = service.publics(&caller, &selector.key(), only - 1, 1)?;
            found.retain(|public| public.version.version == only);
            (found, None)
        }
    };
    let number = |public: &Public| public.version.version.to_string();
    let keys: Map<String, Value> =
        found.iter().map(|public| (number(public), public_key(public, &key.id))).collect();
    if let (Some(only), true) = (only, keys.is_empty()) {
        return Err(Problem::bad(format!("the key has no version {only}")));
    }
    let (of, _) = names::type_of(key.id.algorithm);
    vault::data(
        call,
        json!({"name": key.name.to_string(), "type": of, "keys": keys}),
        warnings.as_slice(),
    )
}
