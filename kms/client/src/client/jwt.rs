//! Calls for JSON Web Tokens.

use gabion_kms_wire::native::{SignJwt, SignedJwt, VerifiedJwt, VerifyJwt};

use super::Client;
use crate::error::Error;

impl Client {
    /// Signs a token.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn sign_jwt(&self, what: &SignJwt) -> Result<SignedJwt, Error> {
        self.post("/v1/kms/jwt", what)
    }

    /// Verifies a token. An invalid token is an answer; a text that is not a token is an error.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn verify_jwt(&self, what: &VerifyJwt) -> Result<VerifiedJwt, Error> {
        self.post("/v1/kms/jwt/verify", what)
    }
}
