//! Signed descriptions of keys: a JWS with an ML-DSA-44 signature (RFC 7515, RFC 9964).

use std::sync::Arc;

use base64ct::{Base64UrlUnpadded, Encoding};
use gabion_engine::{Algorithm, Message, OsEntropy, SigningKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::kms::Kms;
use super::material::New;
use super::metrics::Verb;
use super::records::{
    damaged, opened_bytes, read_expanded, read_state, versions_path, write_version,
};
use super::wrappers::OwnKey;
use crate::error::Error;
use crate::model::{Conformances, Key, KeyAlgorithm, KeyId, State, Version};
use crate::store::{SettleOutcome, Transaction, settle};

/// The description of a key that is signed. It claims no hardware protection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attestation {
    /// The key's id.
    pub key: KeyId,
    /// The algorithm's name.
    pub algorithm: String,
    /// The newest version.
    pub head: u32,
    /// The versions that were not destroyed.
    pub versions: Vec<Version>,
    /// When the key was created, in milliseconds since 1970, by a clock that may be wrong.
    pub created_ms: u64,
    /// The protection of the key: `software`.
    pub label: String,
    /// The standards that the key promises to conform to.
    #[serde(default, skip_serializing_if = "Conformances::is_empty")]
    pub conformance: Conformances,
    /// The engine's backend.
    pub backend: String,
    /// The caller's nonce, which proves that the description is fresh.
    pub nonce: String,
}

/// An attestation, and its JWS in compact form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedAttestation {
    /// The description.
    pub attest: Attestation,
    /// The description, signed by the service's attestation key.
    pub jws: String,
}

/// The maximum size of a nonce in bytes.
const NONCE_MAX: usize = 128;

/// The number of attempts to read a key between two changes.
const TRIES: usize = 3;

/// The number of versions that are read at once.
const READ_TOGETHER: usize = 256;

const ALGORITHM: Algorithm = Algorithm::MlDsa44;

impl Kms {
    /// Describes a key and signs the description. The first call generates the attestation key.
    ///
    /// # Errors
    /// A missing or deleted key; a nonce of more than 128 bytes; errors of the engine and of the
    /// store.
    pub fn attest(&self, id: &KeyId, nonce: &str) -> Result<SignedAttestation, Error> {
        self.counted(Verb::Attest, id.algorithm, || {
            if nonce.len() > NONCE_MAX {
                let got = nonce.len();
                return Err(Error::TooLarge { what: "bytes of a nonce", most: NONCE_MAX, got });
            }
            let (key, versions) = self.of_one_moment(id)?;
            // An older program may have accepted keys that do not conform.
            key.conformance.iter().try_for_each(|label| label.check(id.algorithm))?;
            let backend = match id.algorithm.algorithm() {
                Some(algorithm) => self.context.engine.backend_for(algorithm)?.name(),
                None => "rust-crypto",
            };
            let attest = Attestation {
                key: id.clone(),
                algorithm: id.algorithm.name().to_owned(),
                head: key.latest,
                versions,
                created_ms: key.created_ms,
                label: "software".to_owned(),
                conformance: key.conformance.clone(),
                backend: backend.to_owned(),
                nonce: nonce.to_owned(),
            };
            let payload =
                serde_json::to_vec(&attest).map_err(|error| Error::Parameter(error.to_string()))?;
            let (head, signer) = self.attestation()?;
            let signed = format!(
                "{}.{}",
                Base64UrlUnpadded::encode_string(head.as_bytes()),
                Base64UrlUnpadded::encode_string(&payload)
            );
            let message = Message::Pure { context: &[], message: signed.as_bytes() };
            let signature = self.context.engine.sign(&signer, message, &OsEntropy)?;
            Ok(SignedAttestation {
                attest,
                jws: format!("{signed}.{}", Base64UrlUnpadded::encode_string(&signature)),
            })
        })
    }

    /// Reads a key and its versions consistently. Blocks changes only if they keep interfering.
    fn of_one_moment(&self, id: &KeyId) -> Result<(Arc<Key>, Vec<Version>), Error> {
        let read = || {
            let key = self.key(id)?.key;
            key.check_not_deleted()?;
            Ok((key, self.versions(id)?))
        };
        for _ in 0..TRIES {
            let before = self.context.store.read(&[])?.revision;
            let found = read()?;
            if self.context.store.read(&[])?.revision == before {
                return Ok(found);
            }
        }
        let _changing = self.changing();
        read()
    }

    /// Returns the public key of [`Self::attest`] as a JWK (RFC 9964).
    ///
    /// # Errors
    /// Errors of the engine and of the store.
    pub fn attestation_jwk(&self) -> Result<String, Error> {
        let (_, signer) = self.attestation()?;
        let (kid, public) = (kid(&signer), Base64UrlUnpadded::encode_string(signer.public_bytes()));
        Ok(format!(r#"{{"kty":"AKP","alg":"{ALGORITHM}","kid":"{kid}","pub":"{public}"}}"#))
    }

    /// Returns the versions of a key that were not destroyed.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn versions(&self, id: &KeyId) -> Result<Vec<Version>, Error> {
        let under = versions_path(id)?;
        let (mut versions, mut after) = (Vec::new(), None);
        loop {
            let page = self.context.store.list(&under, after.as_ref(), READ_TOGETHER)?;
            let Some((last, _)) = page.records.last() else { return Ok(versions) };
            after = Some(last.clone());
            for (path, record) in &page.records {
                let Some(value) = &record.value else { continue };
                let bytes = self.context.sealer.open(path, record.generation, value)?;
                versions.push(read_state(path, &bytes)?);
            }
        }
    }

    /// Returns the header of a JWS, and the signing key.
    pub(super) fn attestation(&self) -> Result<(String, SigningKey), Error> {
        if let Some(known) = self.state.attestation.get() {
            return Ok(known.clone());
        }
        let (path, algorithm) = (OwnKey::Attestation.path()?, KeyAlgorithm::new(ALGORITHM)?);
        let _changing = self.changing();
        if opened_bytes(&self.context, &path)?.is_none() {
            let version = Version { version: 1, created_ms: self.now_ms(), state: State::Enabled };
            let pair = New::drawn(&self.context.engine, algorithm)?;
            let sealed =
                self.context.sealer.seal(&path, 1, &write_version(&version, &pair, false)?)?;
            match settle(&*self.context.store, &Transaction::new().put(path.clone(), 0, sealed))? {
                // The record is read below, whether this process or another one wrote it.
                SettleOutcome::Committed | SettleOutcome::Conflict(_) => {}
                SettleOutcome::Unknown => return Err(Error::OutcomeUnknown),
            }
        }
        let Some((bytes, _)) = opened_bytes(&self.context, &path)? else {
            return Err(damaged(&path, "it is missing"));
        };
        let read = read_expanded(&self.context.engine, &path, algorithm, &bytes)?;
        let signer = read.material.signing()?.clone();
        let made = (format!(r#"{{"alg":"{ALGORITHM}","kid":"{}"}}"#, kid(&signer)), signer);
        Ok(self.state.attestation.get_or_init(|| made).clone())
    }
}

/// Returns the first half of the SHA-256 of a public key.
fn kid(signer: &SigningKey) -> String {
    Base64UrlUnpadded::encode_string(&Sha256::digest(signer.public_bytes())[..16])
}
