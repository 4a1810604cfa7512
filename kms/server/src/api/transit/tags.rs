//! HMAC tags, with Vault's paths. As in Vault, every key can make tags.

use gabion_kms::Prehash as Hash;
use gabion_kms::gate::Action;
use gabion_kms_wire::VersionedBytes;
use gabion_kms_wire::transit::{TransitHmac, TransitHmacItem, TransitVerify, TransitVerifyItem};
use serde_json::{Value, json};

use super::super::bytes::{bytes, secret};
use super::super::{Call, KeySelector, Reply};
use super::{
    UnsupportedField, answer_items, beside_batch, missing, parse_hash, parse_versioned, select_key,
    version,
};
use crate::parse::json;
use crate::problem::Problem;

pub fn hmac(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitHmac = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    let hash = hash(call, &[&asked.algorithm, &asked.urlalgorithm])?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    let of_all = version(asked.key_version)?;
    let one = |item: &TransitHmacItem| -> Result<Value, Problem> {
        let message = item.input.as_ref().ok_or_else(|| missing("input"))?;
        let message = secret("input", message)?;
        let made = service.hmac_by(&caller, &selector.key(), of_all, hash, &message)?;
        let tag = VersionedBytes { version: made.by.version, bytes: made.tag };
        Ok(json!({"hmac": tag.to_string()}))
    };
    let input = beside_batch(asked.input, asked.batch_input.is_some());
    let item = TransitHmacItem { input, ..TransitHmacItem::default() };
    let named = |item: &TransitHmacItem| item.reference.clone();
    answer_items(call, (Action::Hmac, &selector), asked.batch_input, item, named, one)
}

/// Returns whether a request verifies tags.
pub fn are_meant(asked: &TransitVerify) -> bool {
    let is_one = |item: &TransitVerifyItem| item.hmac.is_some();
    let hmac = beside_batch(asked.hmac.as_ref(), asked.batch_input.is_some());
    hmac.is_some() || asked.batch_input.iter().flatten().any(is_one)
}

/// Verifies tags instead of signatures.
pub fn verify(call: &Call, selector: &KeySelector, asked: TransitVerify) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let hash = hash(call, &[&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm])?;
    UnsupportedField("prehashed").flag(asked.prehashed)?;
    UnsupportedField("context").text(asked.context.as_deref())?;
    UnsupportedField("signature_context").text(asked.signature_context.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    UnsupportedField("mac_length").number(asked.mac_length)?;
    let one = |item: &TransitVerifyItem| -> Result<Value, Problem> {
        UnsupportedField("context").text(item.context.as_deref())?;
        UnsupportedField("cmac").text(item.cmac.as_deref())?;
        UnsupportedField("mac_length").number(item.mac_length)?;
        if item.signature.is_some() {
            return Err(Problem::bad(
                "expected one of `signature` and `hmac`, and one of them in all items",
            ));
        }
        let message = bytes("input", item.input.as_deref().ok_or_else(|| missing("input"))?)?;
        let (by, tag) = parse_versioned("hmac", item.hmac.as_deref())?;
        let valid = service.verify_hmac_by(&caller, (&selector.key(), by), hash, &message, &tag)?;
        Ok(json!({"valid": valid}))
    };
    let TransitVerify { input, signature, hmac, cmac, batch_input, .. } = asked;
    let [input, signature, hmac, cmac] =
        [input, signature, hmac, cmac].map(|of| beside_batch(of, batch_input.is_some()));
    let item = TransitVerifyItem { input, signature, hmac, cmac, ..TransitVerifyItem::default() };
    let named = |item: &TransitVerifyItem| item.reference.clone();
    answer_items(call, (Action::Verify, selector), batch_input, item, named, one)
}

/// Returns the hash of tags; SHA-256 by default, as in Vault.
fn hash(call: &Call, hashes: &[&Option<String>]) -> Result<Hash, Problem> {
    parse_hash(call, hashes)?
        .unwrap_or(Some(Hash::Sha2_256))
        .ok_or_else(|| Problem::bad("tags need a hash; expected one such as sha2-256"))
}
