//! Signing and verifying JSON Web Tokens.

use super::lifecycle::of;
use super::run::{AuditEntry, Call, KeyRef, Service};
use crate::audit::{Digest, Outcome};
use crate::error::Error;
use crate::gate::Action;
use crate::jwt::{ExpectedClaims, Jwt, NewJwt};
use crate::operations::{SignedJwt, VerifiedJwt};

impl Service {
    /// Signs a token. Returns the token, and when it expires in seconds since 1970. The audit
    /// record has the digests of the claims and of the token.
    ///
    /// # Errors
    /// Those of [`NewJwt::claims`] and [`crate::operations::Kms::sign_jwt`]; the caller is not
    /// allowed, or no longer; errors of the audit log.
    pub fn sign_jwt(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        token: &NewJwt,
    ) -> Result<(SignedJwt, u64), Error> {
        let claims = token.claims(self.kms.now_ms() / 1000)?;
        let input = Digest::of(claims.payload().as_bytes());
        let sign = || self.kms.sign_jwt(&self.find(key)?, version, &claims);
        let audit_entry = |signed: &SignedJwt| AuditEntry {
            key: Some(signed.by.to_string()),
            input: Some(input),
            output: Some(Digest::of(signed.token.as_bytes())),
            outcome: Outcome::Done,
        };
        let recheck = |signed: &SignedJwt| {
            self.kms.may_still_give_jwt(&signed.by, version.is_none(), &claims)
        };
        let signed = self.perform_use(
            call,
            &of(Action::SignJwt, key),
            Some(input),
            sign,
            audit_entry,
            recheck,
        )?;
        Ok((signed, claims.exp_s()))
    }

    /// Verifies a token with a key. The audit record has the same digests as that of
    /// [`Self::sign_jwt`].
    ///
    /// # Errors
    /// Those of [`ExpectedClaims::check`] and [`crate::operations::Kms::verify_jwt`]; the caller is
    /// not allowed, or no longer; errors of the audit log.
    pub fn verify_jwt(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        token: &Jwt<'_>,
        expected: &ExpectedClaims,
    ) -> Result<VerifiedJwt, Error> {
        expected.check()?;
        let input = Digest::of(token.payload());
        let verify = || self.kms.verify_jwt(&self.find(key)?, token, expected);
        let audit_entry = |verified: &VerifiedJwt| AuditEntry {
            key: verified.by.as_ref().map(ToString::to_string),
            input: Some(input),
            output: Some(Digest::of(token.text().as_bytes())),
            outcome: if verified.claims.is_ok() { Outcome::Done } else { Outcome::Wrong },
        };
        let recheck = |verified: &VerifiedJwt| match (&verified.by, &verified.claims) {
            (Some(by), Ok(_)) => self.recheck_verify(by),
            _ => Ok(()),
        };
        self.perform_use(call, &of(Action::Verify, key), Some(input), verify, audit_entry, recheck)
    }
}
