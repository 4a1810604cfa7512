//! Encrypting, wrapping, tags, encapsulation, random bytes.

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
use super::{Call, Reply, Wanted};
use crate::parse::json;
use crate::problem::Problem;

/// Random bytes where nothing is said.
pub const RANDOM: u32 = 32;

/// A request about one key, by whoever asks.
struct Asked<'a, T> {
    service: &'a Service,
    caller: service::Call<'a>,
    body: T,
    wanted: Wanted,
    /// The revision that the answer takes into account.
    revision: u64,
}

/// A body that names a key.
trait OfKey: DeserializeOwned {
    /// Whose key, where that is said, and which.
    fn key(&self) -> (Option<&str>, &str);
}

macro_rules! of_key {
    ($($body:ty)*) => {$(
        impl OfKey for $body {
            fn key(&self) -> (Option<&str>, &str) {
                (self.tenant.as_deref(), &self.key)
            }
        }
    )*};
}

of_key! { Encrypt Decrypt Rewrap Datakey Wrap Hmac HmacVerify Encaps Decaps }

impl<'a, T: OfKey> Asked<'a, T> {
    fn read(call: &'a Call) -> Result<Self, Problem> {
        let (service, caller) = call.caller()?;
        let body: T = json::read(&call.body)?;
        let (tenant, key) = body.key();
        let wanted = Wanted::new(call, tenant, key)?;
        Ok(Asked { service, caller, wanted, revision: service.kms().revision(), body })
    }
}

pub fn encrypt(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Encrypt>::read(call)?;
    let plain = secret("plaintext", &body.plaintext)?;
    // It may be large, and is not needed twice.
    drop(body.plaintext);
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let made = service.encrypt(&caller, &wanted.key(), body.version, &plain, &beside)?;
    drop(plain);
    encrypted(&made, revision)
}

pub fn decrypt(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Decrypt>::read(call)?;
    let (ciphertext, beside) = sealed(&body)?;
    let version = wanted.version(service, body.version);
    let plain = service.decrypt(&caller, &wanted.key(), version, &ciphertext, &beside)?;
    Reply::json(&Decrypted { plaintext: Secret::of_bytes(&plain), revision })
}

pub fn rewrap(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Rewrap>::read(call)?;
    let ciphertext = bytes("ciphertext", &body.ciphertext)?;
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let (key, from) = (wanted.key(), body.version);
    let made = match body.wrapped {
        Some(true) => service.rewrap_key(&caller, &key, from, &ciphertext, &beside, body.to)?,
        Some(false) | None => service.rewrap(&caller, &key, from, &ciphertext, &beside, body.to)?,
    };
    encrypted(&made, revision)
}

pub fn datakey(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Datakey>::read(call)?;
    let len = datakey_len(body.bits.map(i64::from))?;
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let made = service.datakey(&caller, &wanted.key(), len, &beside)?;
    let is_shown = !body.wrapped_only.unwrap_or(false);
    Reply::json(&DatakeyMade {
        by: made.encrypted.by.to_string(),
        version: made.encrypted.by.version,
        plaintext: is_shown.then(|| Secret::of_bytes(&made.plain)),
        ciphertext: encode(&made.encrypted.ciphertext),
        revision,
    })
}

/// Bytes of a key for data of so many bits; 256 where nothing is said.
///
/// # Errors
/// A number that no such key has.
pub fn datakey_len(bits: Option<i64>) -> Result<usize, Problem> {
    match bits.unwrap_or(256) {
        128 => Ok(16),
        256 => Ok(32),
        512 => Ok(64),
        other => Err(Problem::bad(format!("`bits` is 128, 256 or 512, not {other}"))),
    }
}

pub fn wrap(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Wrap>::read(call)?;
    let plain = secret("plaintext", &body.plaintext)?;
    drop(body.plaintext);
    let beside = optional("associated_data", body.associated_data.as_deref())?;
    let made = service.wrap(&caller, &wanted.key(), body.version, &plain, &beside)?;
    drop(plain);
    encrypted(&made, revision)
}

pub fn unwrap(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Decrypt>::read(call)?;
    let (wrapped, beside) = sealed(&body)?;
    let version = wanted.version(service, body.version);
    let plain = service.unwrap(&caller, &wanted.key(), version, &wrapped, &beside)?;
    Reply::json(&Decrypted { plaintext: Secret::of_bytes(&plain), revision })
}

pub fn hmac(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Hmac>::read(call)?;
    let message = secret("message", &body.message)?;
    let made = service.hmac(&caller, &wanted.key(), body.version, &message)?;
    let (by, version, tag) = (made.by.to_string(), made.by.version, encode(&made.tag));
    Reply::json(&Tagged { by, version, tag, revision })
}

pub fn verify_hmac(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<HmacVerify>::read(call)?;
    let (message, tag) = (secret("message", &body.message)?, bytes("tag", &body.tag)?);
    let id = service.kms().find(&wanted.tenant, &wanted.name);
    let version = wanted.version(service, body.version);
    let valid = service.verify_hmac(&caller, &wanted.key(), version, &message, &tag)?;
    let by = VersionId { key: id?, version };
    Reply::json(&Verified { valid, by: by.to_string(), revision })
}

pub fn encaps(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Encaps>::read(call)?;
    let made = service.encaps(&caller, &wanted.key(), body.version)?;
    Reply::json(&Encapsulated {
        by: made.by.to_string(),
        version: made.by.version,
        ciphertext: encode(&made.ciphertext),
        secret: Secret::of_bytes(&made.secret[..]),
        revision,
    })
}

pub fn decaps(call: &Call) -> Result<Reply, Problem> {
    let Asked { service, caller, body, wanted, revision } = Asked::<Decaps>::read(call)?;
    let ciphertext = bytes("ciphertext", &body.ciphertext)?;
    let version = wanted.version(service, body.version);
    let secret = service.decaps(&caller, &wanted.key(), version, &ciphertext)?;
    Reply::json(&Decapsulated { secret: Secret::of_bytes(&secret[..]), revision })
}

pub fn random(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: Random = json::read(&call.body)?;
    let revision = service.kms().revision();
    let drawn = service.random(&caller, asked.bytes.unwrap_or(RANDOM) as usize)?;
    Reply::json(&Drawn { random_bytes: Secret::of_bytes(&drawn), revision })
}

/// A ciphertext, and what stood beside it.
fn sealed(asked: &Decrypt) -> Result<(Vec<u8>, Vec<u8>), Problem> {
    let ciphertext = bytes("ciphertext", &asked.ciphertext)?;
    Ok((ciphertext, optional("associated_data", asked.associated_data.as_deref())?))
}

fn encrypted(made: &operations::Encrypted, revision: u64) -> Result<Reply, Problem> {
    Reply::json(&Encrypted {
        by: made.by.to_string(),
        version: made.by.version,
        ciphertext: encode(&made.ciphertext),
        revision,
    })
}
