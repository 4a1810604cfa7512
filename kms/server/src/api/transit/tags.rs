//! Tags, by Vault's paths.

use gabion_kms::Prehash as Hash;
use gabion_kms::gate::Action;
use gabion_kms::model::{KeyAlgorithm, Symmetric};
use gabion_kms_client::Versioned;
use gabion_kms_client::transit::{TransitHmac, TransitHmacItem, TransitVerify, TransitVerifyItem};
use serde_json::{Value, json};

use super::super::bytes::{bytes, secret};
use super::super::{Call, Reply, Wanted};
use super::{Unsupported, answered, missing, of_operation, opened, said_hash, version, wanted};
use crate::json;
use crate::problem::Problem;

pub fn hmac(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitHmac = json::read(&call.body)?;
    let wanted = wanted(call, asked.name.as_deref())?;
    check_hash(call, (Action::Hmac, &wanted), &[&asked.algorithm, &asked.urlalgorithm])?;
    Unsupported("reference").text(asked.reference.as_deref())?;
    let of_all = version(asked.key_version)?;
    let one = |item: &TransitHmacItem| -> Result<Value, Problem> {
        let message = item.input.as_ref().ok_or_else(|| missing("input"))?;
        let message = secret("input", message)?;
        let made = service.hmac(&caller, &wanted.key(), of_all, &message)?;
        let tag = Versioned { version: made.by.version, bytes: made.tag };
        Ok(json!({"hmac": tag.to_string()}))
    };
    let item = TransitHmacItem { input: asked.input, ..TransitHmacItem::default() };
    let named = |item: &TransitHmacItem| item.reference.clone();
    answered(call, (Action::Hmac, &wanted), asked.batch_input, item, named, one)
}

/// Whether it is tags that are to be verified.
pub fn are_meant(asked: &TransitVerify) -> bool {
    let is_one = |item: &TransitVerifyItem| item.hmac.is_some();
    asked.hmac.is_some() || asked.batch_input.iter().flatten().any(is_one)
}

/// Verifies tags instead of signatures.
pub fn verify(call: &Call, wanted: &Wanted, asked: TransitVerify) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let hashes = [&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm];
    check_hash(call, (Action::Verify, wanted), &hashes)?;
    Unsupported("prehashed").flag(asked.prehashed)?;
    Unsupported("context").text(asked.context.as_deref())?;
    Unsupported("signature_context").text(asked.signature_context.as_deref())?;
    Unsupported("reference").text(asked.reference.as_deref())?;
    Unsupported("mac_length").number(asked.mac_length)?;
    let one = |item: &TransitVerifyItem| -> Result<Value, Problem> {
        Unsupported("context").text(item.context.as_deref())?;
        Unsupported("cmac").text(item.cmac.as_deref())?;
        Unsupported("mac_length").number(item.mac_length)?;
        if item.signature.is_some() {
            return Err(Problem::bad(
                "expected one of `signature` and `hmac`, and one of them in all items",
            ));
        }
        let message = bytes("input", item.input.as_deref().ok_or_else(|| missing("input"))?)?;
        let (by, tag) = opened("hmac", item.hmac.as_deref())?;
        let valid = service.verify_hmac(&caller, &wanted.key(), by, &message, &tag)?;
        Ok(json!({"valid": valid}))
    };
    let TransitVerify { input, signature, hmac, cmac, batch_input, .. } = asked;
    let item = TransitVerifyItem { input, signature, hmac, cmac, ..TransitVerifyItem::default() };
    let named = |item: &TransitVerifyItem| item.reference.clone();
    answered(call, (Action::Verify, wanted), batch_input, item, named, one)
}

/// A key makes tags by one hash. SHA-256 is meant where nothing is said, as with Vault.
fn check_hash(
    call: &Call,
    (action, wanted): (Action, &Wanted),
    hashes: &[&Option<String>],
) -> Result<(), Problem> {
    let (service, caller) = call.caller()?;
    let algorithm = service.algorithm(&caller, action, &wanted.key(), 1);
    let algorithm = algorithm.map_err(|error| of_operation(error.into()))?;
    let own = own_hash(algorithm)?;
    match said_hash(call, hashes)?.unwrap_or(Some(Hash::Sha2_256)) == Some(own) {
        true => Ok(()),
        false => Err(Problem::unsupported(format!(
            "{algorithm} makes tags by {}, and `algorithm` is sha2-256 where nothing is said; say {}",
            own.name(),
            own.name().to_ascii_lowercase()
        ))),
    }
}

fn own_hash(algorithm: KeyAlgorithm) -> Result<Hash, Problem> {
    match algorithm.symmetric() {
        Some(Symmetric::HmacSha256) => Ok(Hash::Sha2_256),
        Some(Symmetric::HmacSha384) => Ok(Hash::Sha2_384),
        Some(Symmetric::HmacSha512) => Ok(Hash::Sha2_512),
        Some(Symmetric::Xaes256Gcm | Symmetric::Aes256Gcm96 | Symmetric::ChaCha20Poly1305)
        | None => Err(Problem::unsupported(format!(
            "keys of {algorithm} make no tags here; make a key of the type hmac"
        ))),
    }
}
