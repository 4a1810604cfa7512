//! Encryption, data keys and random bytes, with Vault's paths.

use gabion_kms::gate::Action;
use gabion_kms::operations::EncryptOutput;
use gabion_kms::service::{DecryptItem, EncryptItem};
use gabion_kms_wire::encode;
use gabion_kms_wire::transit::{
    Number, TransitCipherItem, TransitDatakey, TransitDecrypt, TransitEncrypt, TransitRandom,
    TransitRewrap,
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::super::bytes::{optional, secret};
use super::super::secrets::{RANDOM, datakey_len};
use super::super::{Call, Reply, vault};
use super::{
    UnsupportedField, answer_items, batch, beside_batch, check_batch, formatted, made, missing,
    named, of_operation, parse_versioned, select_key, version,
};
use crate::parse::json;
use crate::problem::Problem;

/// The version, the plaintext, and the associated data.
type ToEncrypt = (Option<u32>, Zeroizing<Vec<u8>>, Vec<u8>);
type ToDecrypt = (u32, Vec<u8>, Vec<u8>);

pub fn encrypt(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitEncrypt = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    UnsupportedField("type").text(asked.r#type.as_deref())?;
    UnsupportedField("convergent_encryption").flag(asked.convergent_encryption)?;
    check_padding("padding_scheme", asked.padding_scheme.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    let if_some = if_some_failed(asked.partial_failure_response_code)?;
    let of_all = version(asked.key_version)?;
    let TransitEncrypt { plaintext, associated_data, context, nonce, batch_input, .. } = asked;
    let read = |item: &TransitCipherItem| -> Result<_, Problem> {
        check(item)?;
        let to = version(item.key_version)?.or(of_all);
        let plain = item.plaintext.as_ref().ok_or_else(|| missing("plaintext"))?;
        Ok((to, secret("plaintext", plain)?, beside(item)?))
    };
    let together = |ready: &[&ToEncrypt]| {
        let items = ready.iter().map(|(version, plain, beside)| {
            let (key, version) = (selector.key(), *version);
            EncryptItem { key, version, plain, beside }
        });
        service.encrypt_batch(&caller, &items.collect::<Vec<_>>())
    };
    let told = |done: EncryptOutput| Ok(made("ciphertext", &done.by, &done.ciphertext));
    let plaintext = beside_batch(plaintext, batch_input.is_some());
    let [associated_data, context, nonce] =
        [associated_data, context, nonce].map(|of| beside_batch(of, batch_input.is_some()));
    let item = TransitCipherItem {
        plaintext,
        associated_data,
        context,
        nonce,
        ..TransitCipherItem::default()
    };
    let Some(items) = batch_input else {
        let one = |(to, plain, beside): ToEncrypt| -> Result<_, Problem> {
            Ok(service.encrypt(&caller, &selector.key(), to, &plain, &beside)?)
        };
        let done = read(&item).and_then(one).map_err(of_operation)?;
        return vault::data(call, told(done)?, &[]);
    };
    check_batch(call, (Action::Encrypt, &selector), &items, &item)?;
    let results = batch(&items, |item| item.reference.as_deref(), read, together, told);
    let status = results.status(if_some);
    Ok(Reply { status, ..results.reply(call)? })
}

pub fn decrypt(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitDecrypt = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    check_padding("padding_scheme", asked.padding_scheme.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    let if_some = if_some_failed(asked.partial_failure_response_code)?;
    let TransitDecrypt { ciphertext, associated_data, context, nonce, batch_input, .. } = asked;
    let read = |item: &TransitCipherItem| -> Result<_, Problem> {
        check(item)?;
        let (by, ciphertext) = parse_versioned("ciphertext", item.ciphertext.as_deref())?;
        Ok((by, ciphertext, beside(item)?))
    };
    let together = |ready: &[&ToDecrypt]| {
        let items = ready.iter().map(|(version, ciphertext, beside)| {
            let (key, version) = (selector.key(), *version);
            DecryptItem { key, version, ciphertext, beside }
        });
        service.decrypt_batch(&caller, &items.collect::<Vec<_>>())
    };
    let told = |plain: Zeroizing<Vec<u8>>| Ok(json!({"plaintext": encode(&plain)}));
    let [ciphertext, associated_data, context, nonce] =
        [ciphertext, associated_data, context, nonce]
            .map(|of| beside_batch(of, batch_input.is_some()));
    let item = TransitCipherItem {
        ciphertext,
        associated_data,
        context,
        nonce,
        ..TransitCipherItem::default()
    };
    let Some(items) = batch_input else {
        let one = |(by, ciphertext, beside): ToDecrypt| -> Result<_, Problem> {
            Ok(service.decrypt(&caller, &selector.key(), by, &ciphertext, &beside)?)
        };
        let done = read(&item).and_then(one).map_err(of_operation)?;
        return vault::data(call, told(done)?, &[]);
    };
    check_batch(call, (Action::Decrypt, &selector), &items, &item)?;
    let results = batch(&items, |item| item.reference.as_deref(), read, together, told);
    let status = results.status(if_some);
    Ok(Reply { status, ..results.reply(call)? })
}

pub fn rewrap(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitRewrap = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    check_padding("decrypt_padding_scheme", asked.decrypt_padding_scheme.as_deref())?;
    check_padding("encrypt_padding_scheme", asked.encrypt_padding_scheme.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    let of_all = version(asked.key_version)?;
    let TransitRewrap { ciphertext, associated_data, context, nonce, batch_input, .. } = asked;
    let one = |item: &TransitCipherItem| -> Result<Value, Problem> {
        check(item)?;
        let to = version(item.key_version)?.or(of_all);
        let (by, ciphertext) = parse_versioned("ciphertext", item.ciphertext.as_deref())?;
        let beside = beside(item)?;
        let done = service.rewrap(&caller, &selector.key(), by, &ciphertext, &beside, to)?;
        Ok(made("ciphertext", &done.by, &done.ciphertext))
    };
    let [ciphertext, associated_data, context, nonce] =
        [ciphertext, associated_data, context, nonce]
            .map(|of| beside_batch(of, batch_input.is_some()));
    let item = TransitCipherItem {
        ciphertext,
        associated_data,
        context,
        nonce,
        ..TransitCipherItem::default()
    };
    answer_items(call, (Action::Rewrap, &selector), batch_input, item, named_item, one)
}

/// Generates a data key: returned in plaintext and encrypted if the path says `plaintext`, or only
/// encrypted if it says `wrapped`.
pub fn datakey(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitDatakey = json::read(&call.body)?;
    let selector = named(call, call.part(1), asked.name.as_deref())?;
    let is_shown = match call.part(0) {
        "plaintext" => true,
        "wrapped" => false,
        other => {
            return Err(Problem::bad(format!(
                "expected plaintext or wrapped in the path, not `{other}`"
            )));
        }
    };
    UnsupportedField("context").text(asked.context.as_deref())?;
    UnsupportedField("nonce").text(asked.nonce.as_deref())?;
    UnsupportedField("key_version").number(asked.key_version)?;
    check_padding("padding_scheme", asked.padding_scheme.as_deref())?;
    let beside = optional("associated_data", asked.associated_data.as_deref())?;
    let len = datakey_len(asked.bits.map(|bits| bits.0))?;
    let done = service.datakey(&caller, &selector.key(), len, &beside);
    let done = done.map_err(|error| of_operation(error.into()))?;
    let mut answer = made("ciphertext", &done.encrypted.by, &done.encrypted.ciphertext);
    if is_shown {
        answer["plaintext"] = json!(encode(&done.plain));
    }
    vault::data(call, answer, &[])
}

pub fn random(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitRandom = json::read(&call.body)?;
    // The path may have a source, a number of bytes, or both.
    let (source, count) = match (call.part(0), call.part(1)) {
        (source @ ("platform" | "seal" | "all"), count) => (source, count),
        (count, "") => ("", count),
        (source, count) => (source, count),
    };
    for source in [source, asked.source.as_deref().unwrap_or_default()] {
        if !matches!(source, "" | "platform") {
            return Err(Problem::unsupported("`source` is not supported, but for platform"));
        }
    }
    let in_path = match count {
        "" => None,
        text => Some(
            text.parse().map_err(|_| Problem::bad(format!("`{text}` is not a number of bytes")))?,
        ),
    };
    let len = in_path.or(asked.bytes.map(|bytes| bytes.0)).unwrap_or(i64::from(RANDOM));
    let len = usize::try_from(len).ok().filter(|&len| len > 0);
    let len = len.ok_or_else(|| Problem::bad("`bytes` is at least 1"))?;
    let drawn = service.random(&caller, len)?;
    let text = formatted(&drawn, asked.format.as_deref().unwrap_or("base64"))?;
    vault::data(call, json!({"random_bytes": text}), &[])
}

fn named_item(item: &TransitCipherItem) -> Option<String> {
    item.reference.clone()
}

fn check(item: &TransitCipherItem) -> Result<(), Problem> {
    UnsupportedField("context").text(item.context.as_deref())?;
    UnsupportedField("nonce").text(item.nonce.as_deref())?;
    let TransitCipherItem {
        padding_scheme, decrypt_padding_scheme, encrypt_padding_scheme, ..
    } = item;
    for (field, scheme) in [
        ("padding_scheme", padding_scheme),
        ("decrypt_padding_scheme", decrypt_padding_scheme),
        ("encrypt_padding_scheme", encrypt_padding_scheme),
    ] {
        check_padding(field, scheme.as_deref())?;
    }
    Ok(())
}

/// Checks the RSA padding. Keys of other algorithms have no padding, and ignore the field.
fn check_padding(field: &str, scheme: Option<&str>) -> Result<(), Problem> {
    match scheme.unwrap_or_default() {
        "" | "oaep" => Ok(()),
        "pkcs1v15" => {
            Err(Problem::unsupported(format!("`{field}` pkcs1v15 is not supported, but oaep is")))
        }
        _ => Err(Problem::bad(format!("unknown `{field}`; expected oaep"))),
    }
}

/// Parses the status for batches of which some items failed.
fn if_some_failed(code: Option<Number>) -> Result<Option<u16>, Problem> {
    let Some(Number(code)) = code.filter(|code| code.0 != 0) else { return Ok(None) };
    match u16::try_from(code) {
        // The excluded statuses have no body.
        Ok(code @ 200..=599) if !matches!(code, 204 | 205 | 304) => Ok(Some(code)),
        Ok(_) | Err(_) => Err(Problem::bad(format!(
            "invalid `partial_failure_response_code` {code}; expected a status with a body, 200 to 599"
        ))),
    }
}

fn beside(item: &TransitCipherItem) -> Result<Vec<u8>, Problem> {
    optional("associated_data", item.associated_data.as_deref())
}
