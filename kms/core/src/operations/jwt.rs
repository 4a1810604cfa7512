//! JSON Web Tokens, signed and verified by keys (RFC 7519).

use gabion_engine::Message;
use gabion_engine::ecdsa::{der_to_raw, is_ecdsa, raw_to_der};
use serde_json::{Map, Value};

use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::jwt::{Claims, ExpectedClaims, Jwt, Reason, compact};
use crate::model::{KeyAlgorithm, KeyId, Use, VersionId};

/// A token, and which version signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedJwt {
    /// The version. Its id is the token's `kid`.
    pub by: VersionId,
    /// The token's `alg`.
    pub alg: &'static str,
    /// The token.
    pub token: String,
}

/// What came of verifying a token.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedJwt {
    /// The version that the token names. `None` if it names none of this key.
    pub by: Option<VersionId>,
    /// The claims, if it is valid.
    pub claims: Result<Map<String, Value>, Reason>,
}

impl Kms {
    /// Signs a token with a version, or with the newest one.
    ///
    /// # Errors
    /// No such key or version; one that may not sign; an algorithm that signs no tokens; a token that ends later than the key
    /// allows.
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

    /// Whether a token that was signed may still be given out.
    pub(crate) fn may_still_give_jwt(
        &self,
        by: &VersionId,
        was_newest: bool,
        claims: &Claims,
    ) -> Result<(), Error> {
        self.still_may(&by.key, by.version, Use::Jwt, was_newest)?;
        self.key(&by.key)?.key.check_jwt_end(claims.exp_s(), self.now_ms() / 1000)
    }

    /// Verifies a token by a key: its algorithm and its id, the signature, and then the claims.
    ///
    /// # Errors
    /// No such key; one that is deleted; an algorithm that signs no tokens.
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

    /// Whether a version signed a token, or why not.
    fn is_jwt_of(&self, by: &VersionId, token: &Jwt<'_>) -> Result<Result<(), Reason>, Error> {
        let Some(signature) = inward(by.key.algorithm, token.signature()) else {
            return Ok(Err(Reason::Signature));
        };
        let message = token.signing_input().as_bytes();
        let message = Message::Pure { context: &[], message };
        match self.is_signed(by, message.into(), &signature) {
            Ok(true) => Ok(Ok(())),
            Ok(false) | Err(Error::Malformed(_)) => Ok(Err(Reason::Signature)),
            // The token names the version, and not the caller.
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

/// A signature as JWS has it: of ECDSA `r || s` (RFC 7518, section 3.4).
fn outward(algorithm: KeyAlgorithm, signature: Vec<u8>) -> Result<Vec<u8>, Error> {
    match algorithm.algorithm().filter(|&of| is_ecdsa(of)) {
        None => Ok(signature),
        // Keys make signatures of strict DER.
        Some(of) => der_to_raw(of, &signature).ok_or(Error::Malformed(algorithm.name())),
    }
}

/// A signature of a JWS as keys verify it. `None` if it has another length than the algorithm's.
fn inward(algorithm: KeyAlgorithm, signature: &[u8]) -> Option<Vec<u8>> {
    match algorithm.algorithm().filter(|&of| is_ecdsa(of)) {
        None => Some(signature.to_vec()),
        Some(of) => raw_to_der(of, signature),
    }
}
