//! What is signed, as requests have it.

use gabion_kms::operations::rsa_hash;
use gabion_kms::rsa::{Hash, Scheme};
use gabion_kms::{Message, Prehash};

use super::bytes::{bytes, optional};
use crate::problem::Problem;

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
    pub fn of_rsa(
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
