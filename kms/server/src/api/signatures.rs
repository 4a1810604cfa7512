//! Signing, verifying, describing.

use gabion_kms::model::VersionId;
use gabion_kms::operations::rsa_hash;
use gabion_kms::rsa::{Hash, Scheme};
use gabion_kms::{Message, Prehash};
use gabion_kms_client::encode;
use gabion_kms_client::wire::{Attest, Attested, Sign, Signed, Verified, Verify};

use super::bytes::{bytes, optional};
use super::{Call, Reply, Wanted};
use crate::json;
use crate::problem::Problem;

pub fn sign(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: Sign = json::read(&call.body)?;
    let input = Input::read(&asked.message, &asked.digest, &asked.prehash, &asked.context)?;
    let wanted = Wanted::new(call, asked.tenant.as_deref(), &asked.key)?;
    let revision = service.kms().revision();
    let key = wanted.key();
    let signed = match input.of_rsa(asked.padding.as_deref(), asked.salt_length)? {
        None => service.sign(&caller, &key, asked.version, input.message())?,
        Some((scheme, digest)) => {
            service.sign_rsa(&caller, &key, asked.version, scheme, &digest)?
        }
    };
    Reply::json(&Signed {
        version: signed.by.version,
        by: signed.by.to_string(),
        signature: encode(&signed.signature),
        revision,
    })
}

pub fn verify(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: Verify = json::read(&call.body)?;
    let input = Input::read(&asked.message, &asked.digest, &asked.prehash, &asked.context)?;
    let signature = bytes("signature", &asked.signature)?;
    let wanted = Wanted::new(call, asked.tenant.as_deref(), &asked.key)?;
    let revision = service.kms().revision();
    let id = service.kms().find(&wanted.tenant, &wanted.name);
    let version = wanted.version(service, asked.version);
    let key = wanted.key();
    let valid = match input.of_rsa(asked.padding.as_deref(), asked.salt_length)? {
        None => service.verify(&caller, &key, version, input.message(), &signature)?,
        Some((scheme, digest)) => {
            service.verify_rsa(&caller, &key, version, scheme, (&digest, &signature))?
        }
    };
    let by = VersionId { key: id?, version };
    Reply::json(&Verified { valid, by: by.to_string(), revision })
}

pub fn attest(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: Attest = json::read(&call.body)?;
    let wanted = Wanted::new(call, asked.tenant.as_deref(), &asked.key)?;
    let revision = service.kms().revision();
    let nonce = asked.nonce.as_deref().unwrap_or_default();
    let attested = service.attest(&caller, &wanted.key(), nonce)?;
    let attest = serde_json::to_value(&attested.attest);
    let attest = attest.map_err(|error| Problem::internal(error.to_string()))?;
    Reply::json(&Attested { attest, jws: attested.jws, revision })
}

pub fn attestation_key(call: &Call) -> Result<Reply, Problem> {
    let (service, _) = call.caller()?;
    Ok(Reply::text(200, "application/jwk+json", service.kms().attestation_jwk()?))
}

/// What is signed, with its bytes.
pub enum Input {
    Pure { context: Vec<u8>, message: Vec<u8> },
    Prehash { context: Vec<u8>, hash: Prehash, digest: Vec<u8> },
}

impl Input {
    /// Reads what a request has.
    ///
    /// # Errors
    /// Fields that do not go together; no base64.
    pub fn read(
        message: &Option<String>,
        digest: &Option<String>,
        prehash: &Option<String>,
        context: &Option<String>,
    ) -> Result<Self, Problem> {
        let context = optional("context", context.as_deref())?;
        let hash = prehash.as_deref().map(str::parse::<Prehash>).transpose();
        let hash = hash.map_err(|error| Problem::bad(error.to_string()))?;
        match (message, digest, hash) {
            (Some(message), None, None) => {
                Ok(Input::Pure { context, message: bytes("message", message)? })
            }
            (Some(message), None, Some(hash)) => {
                let digest = hash.digest(&bytes("message", message)?);
                Ok(Input::Prehash { context, hash, digest })
            }
            (None, Some(digest), Some(hash)) => {
                Ok(Input::Prehash { context, hash, digest: bytes("digest", digest)? })
            }
            (None, Some(_), None) => {
                Err(Problem::bad("`digest` needs `prehash`, which says what made it"))
            }
            (Some(_), Some(_), _) => Err(Problem::bad("expected one of `message` and `digest`")),
            (None, None, _) => {
                Err(Problem::bad("missing field `message`, or `digest` and `prehash`"))
            }
        }
    }

    /// How RSA signs it, where that is said, and its digest.
    ///
    /// # Errors
    /// A context; a hash or a padding that there is none of.
    fn of_rsa(
        &self,
        padding: Option<&str>,
        salt: Option<u32>,
    ) -> Result<Option<(Scheme, Vec<u8>)>, Problem> {
        if padding.is_none() && salt.is_none() {
            return Ok(None);
        }
        let (context, hash, digest) = match self {
            Input::Pure { context, message } => {
                (context, Hash::Sha256, Hash::Sha256.digest(message))
            }
            Input::Prehash { context, hash, digest } => (context, rsa_hash(*hash)?, digest.clone()),
        };
        if !context.is_empty() {
            return Err(Problem::unsupported("RSA signs no context string"));
        }
        let scheme = match (padding.unwrap_or("pss"), salt) {
            ("pss", salt) => {
                let salt = salt.map_or(hash.digest_len(), |salt| salt as usize);
                Scheme::Pss { hash, salt: Some(salt) }
            }
            ("pkcs1v15", None) => Scheme::Pkcs1 { hash },
            ("pkcs1v15", Some(_)) => return Err(Problem::bad("`salt_length` is of pss")),
            (_, _) => return Err(Problem::bad("unknown `padding`; expected pss or pkcs1v15")),
        };
        Ok(Some((scheme, digest)))
    }

    /// For the verbs.
    pub fn message(&self) -> Message<'_> {
        match self {
            Input::Pure { context, message } => Message::Pure { context, message },
            Input::Prehash { context, hash, digest } => {
                Message::Prehash { context, hash: *hash, digest }
            }
        }
    }
}
