//! The inputs of signatures in requests.

use gabion_kms::operations::rsa_hash;
use gabion_kms::rsa::{Hash, Scheme};
use gabion_kms::{Message, Prehash, Signable};

use super::bytes::{bytes, optional};
use crate::problem::Problem;

/// The input of a signature, with its bytes: an owned [`Signable`].
pub enum Input {
    Pure {
        context: Vec<u8>,
        message: Vec<u8>,
    },
    Prehash {
        context: Vec<u8>,
        hash: Prehash,
        digest: Vec<u8>,
    },
    /// ML-DSA's message representative (FIPS 204, Algorithm 7, line 6).
    Mu([u8; 64]),
    /// A digest that RSA signs under a named scheme.
    Digest {
        scheme: Scheme,
        digest: Vec<u8>,
    },
}

/// The fields of a request that determine the input.
pub struct Fields<'a> {
    pub message: &'a Option<String>,
    pub digest: &'a Option<String>,
    pub mu: &'a Option<String>,
    pub prehash: &'a Option<String>,
    pub context: &'a Option<String>,
    pub version: Option<u32>,
}

/// Collects the [`Fields`] of a request or of an item, which have the same names in each.
macro_rules! fields {
    ($of:expr) => {
        $crate::api::input::Fields {
            message: &$of.message,
            digest: &$of.digest,
            mu: &$of.mu,
            prehash: &$of.prehash,
            context: &$of.context,
            version: $of.version,
        }
    };
}
pub(super) use fields;

impl Input {
    /// Parses the input.
    ///
    /// # Errors
    /// Fields that exclude each other; malformed base64.
    pub fn read(fields: &Fields<'_>) -> Result<Self, Problem> {
        let Fields { message, digest, mu, prehash, context, .. } = *fields;
        if let Some(mu) = mu {
            return Self::of_mu(mu, fields);
        }
        let context = optional("context", context.as_deref())?;
        // No hash has such a long name, and the error message must not be that long.
        if prehash.as_ref().is_some_and(|name| name.len() > 64) {
            return Err(Problem::bad("unknown `prehash`"));
        }
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
                Err(Problem::bad("`digest` needs `prehash`, the hash that made it"))
            }
            (Some(_), Some(_), _) => Err(Problem::bad("expected one of `message` and `digest`")),
            (None, None, _) => {
                Err(Problem::bad("missing field `message`, or `digest` and `prehash`, or `mu`"))
            }
        }
    }

    /// Parses `mu`, which the caller computed with the public key of one version and a context
    /// string.
    fn of_mu(mu: &str, fields: &Fields<'_>) -> Result<Self, Problem> {
        let Fields { message, digest, prehash, context, version, .. } = fields;
        if message.is_some() || digest.is_some() || prehash.is_some() {
            return Err(Problem::bad("expected one of `message`, `digest` and `mu`"));
        }
        if context.is_some() {
            return Err(Problem::bad("`mu` includes the context string; leave `context` out"));
        }
        if version.is_none() {
            return Err(Problem::bad(
                "`mu` needs `version`, whose public key it was computed with",
            ));
        }
        let mu = bytes("mu", mu)?;
        let got = mu.len();
        let mu = mu.try_into();
        Ok(Input::Mu(mu.map_err(|_| Problem::bad(format!("`mu` has {got} bytes; expected 64")))?))
    }

    /// Applies the fields `padding` and `salt_length`. If either is set, returns the digest that
    /// RSA signs under that scheme; otherwise the unchanged input.
    ///
    /// # Errors
    /// A context string; `mu`; an unknown hash or padding.
    pub fn with_padding(self, padding: Option<&str>, salt: Option<u32>) -> Result<Self, Problem> {
        if padding.is_none() && salt.is_none() {
            return Ok(self);
        }
        match self {
            Input::Pure { context, message } => {
                let hash = rsa_digest_hash(&context, None)?;
                let digest = hash.digest(&message);
                Ok(Input::Digest { scheme: scheme(hash, padding, salt)?, digest })
            }
            Input::Prehash { context, hash, digest } => {
                let hash = rsa_digest_hash(&context, Some(hash))?;
                Ok(Input::Digest { scheme: scheme(hash, padding, salt)?, digest })
            }
            Input::Mu(_) => {
                Err(Problem::bad("`padding` and `salt_length` are of RSA, `mu` of ML-DSA"))
            }
            Input::Digest { .. } => Ok(self),
        }
    }

    /// Borrows the input for the service.
    pub fn signable(&self) -> Signable<'_> {
        match self {
            Input::Pure { context, message } => Message::Pure { context, message }.into(),
            Input::Prehash { context, hash, digest } => {
                Message::Prehash { context, hash: *hash, digest }.into()
            }
            Input::Mu(mu) => Message::Mu(mu).into(),
            Input::Digest { scheme, digest } => Signable::Digest { scheme: *scheme, digest },
        }
    }
}

/// Returns the hash for an RSA signature; the default is SHA-256.
///
/// # Errors
/// A context string; an unsupported hash.
pub fn rsa_digest_hash(context: &[u8], hash: Option<Prehash>) -> Result<Hash, Problem> {
    let hash = hash.map_or(Ok(Hash::Sha256), rsa_hash)?;
    match context.is_empty() {
        true => Ok(hash),
        false => Err(Problem::unsupported("RSA signs no context string")),
    }
}

/// Returns the scheme of an RSA signature.
///
/// # Errors
/// An unknown padding.
pub fn scheme(hash: Hash, padding: Option<&str>, salt: Option<u32>) -> Result<Scheme, Problem> {
    match (padding.unwrap_or("pss"), salt) {
        ("pss", salt) => {
            let salt = salt.map_or(hash.digest_len(), |salt| salt as usize);
            Ok(Scheme::Pss { hash, salt: Some(salt) })
        }
        ("pkcs1v15", None) => Ok(Scheme::Pkcs1 { hash }),
        ("pkcs1v15", Some(_)) => Err(Problem::bad("`salt_length` is of pss")),
        (_, _) => Err(Problem::bad("unknown `padding`; expected pss or pkcs1v15")),
    }
}
