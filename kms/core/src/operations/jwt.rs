//! Signing and verifying JSON Web Tokens with keys (RFC 7519).

use gabion_engine::Message;
use gabion_engine::ecdsa::{der_to_raw, is_ecdsa, raw_to_der};
use serde_json::{Map, Value};

use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::jwt::{Claims, ExpectedClaims, Jwt, Reason, compact};
use crate::model::{KeyAlgorithm, KeyId, Use, VersionId};

/// A token, and the version that signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedJwt {
    /// The version. Its id is the token's `kid`.
    pub by: VersionId,
    /// The token's `alg`.
    pub alg: &'static str,
    /// The token.
    pub token: String,
}

/// The result of verifying a token.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedJwt {
    /// The version that the token names. `None` if it names no version of this key.
    pub by: Option<VersionId>,
    /// The claims of a valid token, or the reason why it is invalid.
    pub claims: Result<Map<String, Value>, Reason>,
}

impl Kms {
    /// Signs a token with a version, or with the newest one.
    ///
    /// # Errors
    /// A missing key or version; one that may not sign; an algorithm that cannot sign tokens; a
    /// token whose lifetime exceeds the key's limit.
    pub fn sign_jwt(
        &self,
        id: &KeyId,
        version: Option<u32>,
        claims: &Claims,
    ) -> Result<SignedJwt, Error> {
        self.counted(Verb::Sign, id.algorithm, || {
            let alg = id.algorithm.jwt_alg()?;
            let by = self.resolve_version(id, Use::Jwt, version)?;
            let signing_input = claims.signing_input(alg, &by)?;
            let message = Message::Pure { context: &[], message: signing_input.as_bytes() };
            let key = self.key(id)?.key;
            key.check_message(&message)?;
            key.check_jwt_end(claims.exp_s(), self.now_ms() / 1000)?;
            let signed = self.sign_version(by, version.is_none(), (Use::Jwt, message.into()))?;
            let signature = outward(id.algorithm, signed.signature)?;
            Ok(SignedJwt { by: signed.by, alg, token: compact(&signing_input, &signature) })
        })
    }

    /// Checks that a signed token may still be released.
    pub(crate) fn may_still_give_jwt(
        &self,
        by: &VersionId,
        was_newest: bool,
        claims: &Claims,
    ) -> Result<(), Error> {
        self.still_may(&by.key, by.version, Use::Jwt, was_newest)?;
        self.key(&by.key)?.key.check_jwt_end(claims.exp_s(), self.now_ms() / 1000)
    }

    /// Verifies a token with a key: its algorithm and key id, the signature, and then the claims.
    ///
    /// # Errors
    /// A missing or deleted key; an algorithm that cannot sign tokens.
    pub fn verify_jwt(
        &self,
        id: &KeyId,
        token: &Jwt<'_>,
        expected: &ExpectedClaims,
    ) -> Result<VerifiedJwt, Error> {
        self.counted(Verb::Verify, id.algorithm, || {
            let alg = id.algorithm.jwt_alg()?;
            self.key(id)?.key.check_not_deleted()?;
            let by = match token.check_header(alg) {
                Ok(by) if by.key == *id => by,
                Ok(_) => return Ok(VerifiedJwt { by: None, claims: Err(Reason::Kid) }),
                Err(reason) => return Ok(VerifiedJwt { by: None, claims: Err(reason) }),
            };
            let claims = match self.is_jwt_of(&by, token)? {
                Ok(()) => token.check_claims(expected, self.now_ms() / 1000),
                Err(reason) => Err(reason),
            };
            Ok(VerifiedJwt { by: Some(by), claims })
        })
    }

    /// Verifies that a version signed a token. Returns the reason if not.
    fn is_jwt_of(&self, by: &VersionId, token: &Jwt<'_>) -> Result<Result<(), Reason>, Error> {
        let Some(signature) = inward(by.key.algorithm, token.signature()) else {
            return Ok(Err(Reason::Signature));
        };
        let message = token.signing_input().as_bytes();
        let message = Message::Pure { context: &[], message };
        match self.is_signed(by, message.into(), &signature) {
            Ok(true) => Ok(Ok(())),
            Ok(false) | Err(Error::Malformed(_)) => Ok(Err(Reason::Signature)),
            // The token names the version, not the caller.
            Err(
                Error::NoVersion { .. }
                | Error::VersionDestroyed(_)
                | Error::Disabled(_)
                | Error::NotAllowed { .. },
            ) => Ok(Err(Reason::Version)),
            Err(error) => Err(error),
        }
    }
}

/// Converts a signature to JWS form: `r || s` for ECDSA (RFC 7518, section 3.4).
fn outward(algorithm: KeyAlgorithm, signature: Vec<u8>) -> Result<Vec<u8>, Error> {
    match algorithm.algorithm().filter(|&of| is_ecdsa(of)) {
        None => Ok(signature),
        // Keys make ECDSA signatures in strict DER.
        Some(of) => der_to_raw(of, &signature).ok_or(Error::Malformed(algorithm.name())),
    }
}

/// Converts a signature from JWS form. `None` if its length is wrong for the algorithm.
fn inward(algorithm: KeyAlgorithm, signature: &[u8]) -> Option<Vec<u8>> {
    match algorithm.algorithm().filter(|&of| is_ecdsa(of)) {
        None => Some(signature.to_vec()),
        Some(of) => raw_to_der(of, signature),
    }
}
