//! Handlers for encryption, wrapping, tags, encapsulation and random bytes.

use gabion_kms::model::VersionId;
use gabion_kms::operations;
use gabion_kms::service::{self, Service};
use gabion_kms_wire::native::{
    Datakey, DatakeyMade, Decaps, Decapsulated, Decrypt, Decrypted, Drawn, Encaps, Encapsulated,
    Encrypt, Encrypted, Hmac, HmacVerify, Random, Rewrap, Tagged, Verified, Wrap,
};
use gabion_kms_wire::{Secret, encode};
use serde::de::DeserializeOwned;

use super::bytes::{bytes, optional, secret};
use super::{Call, KeySelector, Reply};
use crate::parse::json;
use crate::problem::Problem;

/// The default number of random bytes.
pub const RANDOM: u32 = 32;

/// A request that uses one key.
struct KeyRequest<'a, T> {
    service: &'a Service,
    caller: service::Call<'a>,
    body: T,
    selector: KeySelector,
    /// A revision that the answer takes into account.
    revision: u64,
}

/// A request body with a `key` field.
trait HasKeyField: DeserializeOwned {
    /// Returns the tenant, if given, and the key.
    fn key(&self) -> (Option<&str>, &str);
}

macro_rules! has_key_field {
    ($($body:ty)*) => {$(
        impl HasKeyField for $body {
            fn key(&self) -> (Option<&str>, &str) {
                (self.tenant.as_deref(), &self.key)
            }
        }
    )*};
}

has_key_field! { Encrypt Decrypt Rewrap Datakey Wrap Hmac HmacVerify Encaps Decaps }

impl<'a, T: HasKeyField> KeyRequest<'a, T> {
    fn read(call: &'a Call) -> Result<Self, Problem> {
        let (service, caller) = call.caller()?;
        let body: T = json::read(&call.body)?;
        let (tenant, key) = body.key();
        let selector = KeySelector::new(call, tenant, key)?;
        Ok(KeyRequest { service, caller, selector, revision: service.kms().revision(), body })
    }
}

pub fn encrypt(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<Encrypt>::read(call)?;
    let plain = secret("plaintext", &body.plaintext)?;
    // It may be large, and is not needed anymore.
    drop(body.plaintext);
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let made = service.encrypt(&caller, &selector.key(), body.version, &plain, &beside)?;
    drop(plain);
    encrypted(&made, revision)
}

pub fn decrypt(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<Decrypt>::read(call)?;
    let (ciphertext, beside) = sealed(&body)?;
    let version = selector.version(service, body.version);
    let plain = service.decrypt(&caller, &selector.key(), version, &ciphertext, &beside)?;
    Reply::json(&Decrypted { plaintext: Secret::of_bytes(&plain), revision })
}

pub fn rewrap(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<Rewrap>::read(call)?;
    let ciphertext = bytes("ciphertext", &body.ciphertext)?;
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let (key, from) = (selector.key(), body.version);
    let made = match body.wrapped {
        Some(true) => service.rewrap_key(&caller, &key, from, &ciphertext, &beside, body.to)?,
        Some(false) | None => service.rewrap(&caller, &key, from, &ciphertext, &beside, body.to)?,
    };
    encrypted(&made, revision)
}

pub fn datakey(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<Datakey>::read(call)?;
    let len = datakey_len(body.bits.map(i64::from))?;
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let made = service.datakey(&caller, &selector.key(), len, &beside)?;
    let is_shown = !body.wrapped_only.unwrap_or(false);
    Reply::json(&DatakeyMade {
        by: made.encrypted.by.to_string(),
        version: made.encrypted.by.version,
        plaintext: is_shown.then(|| Secret::of_bytes(&made.plain)),
        ciphertext: encode(&made.encrypted.ciphertext),
        revision,
    })
}

/// Returns the size in bytes of a data key of `bits` bits; 256 bits by default.
///
/// # Errors
/// An unsupported size.
pub fn datakey_len(bits: Option<i64>) -> Result<usize, Problem> {
    match bits.unwrap_or(256) {
        128 => Ok(16),
        256 => Ok(32),
        512 => Ok(64),
        other => Err(Problem::bad(format!("`bits` is 128, 256 or 512, not {other}"))),
    }
}

pub fn wrap(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } = KeyRequest::<Wrap>::read(call)?;
    let plain = secret("plaintext", &body.plaintext)?;
    drop(body.plaintext);
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let made = service.wrap(&caller, &selector.key(), body.version, &plain, &beside)?;
    drop(plain);
    encrypted(&made, revision)
}

pub fn unwrap(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<Decrypt>::read(call)?;
    let (wrapped, beside) = sealed(&body)?;
    let version = selector.version(service, body.version);
    let plain = service.unwrap(&caller, &selector.key(), version, &wrapped, &beside)?;
    Reply::json(&Decrypted { plaintext: Secret::of_bytes(&plain), revision })
}

pub fn hmac(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } = KeyRequest::<Hmac>::read(call)?;
    let message = secret("message", &body.message)?;
    let made = service.hmac(&caller, &selector.key(), body.version, &message)?;
    let (by, version, tag) = (made.by.to_string(), made.by.version, encode(&made.tag));
    Reply::json(&Tagged { by, version, tag, revision })
}

pub fn verify_hmac(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<HmacVerify>::read(call)?;
    let (message, tag) = (secret("message", &body.message)?, bytes("tag", &body.tag)?);
    let id = service.kms().find(&selector.tenant, &selector.name);
    let version = selector.version(service, body.version);
    let valid = service.verify_hmac(&caller, &selector.key(), version, &message, &tag)?;
    let by = VersionId { key: id?, version };
    Reply::json(&Verified { valid, by: by.to_string(), revision })
}

pub fn encaps(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<Encaps>::read(call)?;
    let made = service.encaps(&caller, &selector.key(), body.version)?;
    Reply::json(&Encapsulated {
        by: made.by.to_string(),
        version: made.by.version,
        ciphertext: encode(&made.ciphertext),
        secret: Secret::of_bytes(&made.secret[..]),
        revision,
    })
}

pub fn decaps(call: &Call) -> Result<Reply, Problem> {
    let KeyRequest { service, caller, body, selector, revision } =
        KeyRequest::<Decaps>::read(call)?;
    let ciphertext = bytes("ciphertext", &body.ciphertext)?;
    let version = selector.version(service, body.version);
    let secret = service.decaps(&caller, &selector.key(), version, &ciphertext)?;
    Reply::json(&Decapsulated { secret: Secret::of_bytes(&secret[..]), revision })
}

pub fn random(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: Random = json::read(&call.body)?;
    let revision = service.kms().revision();
    let drawn = service.random(&caller, asked.bytes.unwrap_or(RANDOM) as usize)?;
    Reply::json(&Drawn { random_bytes: Secret::of_bytes(&drawn), revision })
}

/// Decodes a ciphertext and its associated data.
fn sealed(asked: &Decrypt) -> Result<(Vec<u8>, Vec<u8>), Problem> {
    let ciphertext = bytes("ciphertext", &asked.ciphertext)?;
    Ok((ciphertext, optional("associated_data", asked.associated_data.as_deref())?))
}

fn encrypted(made: &operations::EncryptOutput, revision: u64) -> Result<Reply, Problem> {
    Reply::json(&Encrypted {
        by: made.by.to_string(),
        version: made.by.version,
        ciphertext: encode(&made.ciphertext),
        revision,
    })
}
