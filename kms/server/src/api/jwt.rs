//! Handlers for JSON Web Tokens.

use gabion_kms::jwt::{self, ExpectedClaims, Jwt, NewJwt};
use gabion_kms::operations::VerifiedJwt;
use gabion_kms_wire::native;

use super::{Call, KeySelector, Reply};
use crate::parse::json;
use crate::problem::Problem;

pub fn sign(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: native::SignJwt = json::read_unique(&call.body)?;
    let selector = KeySelector::new(call, asked.tenant.as_deref(), &asked.key)?;
    let new = NewJwt {
        claims: asked.claims,
        typ: asked.typ,
        lifetime_s: asked.lifetime_s,
        with_nbf: asked.with_nbf == Some(true),
        with_jti: asked.with_jti == Some(true),
    };
    let revision = service.kms().revision();
    let signed = service.sign_jwt(&caller, &selector.key(), asked.version, &new);
    let (signed, exp) = signed.map_err(|error| selector.refusal(error))?;
    Reply::json(&native::SignedJwt {
        kid: signed.by.to_string(),
        version: signed.by.version,
        alg: signed.alg.to_owned(),
        exp,
        warnings: jwt::size_warning(signed.token.len()).map(|warning| vec![warning]),
        token: signed.token,
        revision,
    })
}

pub fn verify(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: native::VerifyJwt = json::read(&call.body)?;
    let selector = KeySelector::new(call, asked.tenant.as_deref(), &asked.key)?;
    let token = Jwt::parse(&asked.token)?;
    let expected = ExpectedClaims {
        issuer: asked.issuer,
        audience: asked.audience,
        typ: asked.typ,
        leeway_s: asked.leeway_s.unwrap_or(0),
    };
    let revision = service.kms().revision();
    let verified = service.verify_jwt(&caller, &selector.key(), &token, &expected);
    let VerifiedJwt { by, claims } = verified.map_err(|error| selector.refusal(error))?;
    let by = by.map(|by| by.to_string());
    Reply::json(&match claims {
        Ok(claims) => {
            native::VerifiedJwt { valid: true, reason: None, by, claims: Some(claims), revision }
        }
        Err(reason) => {
            let reason = Some(reason.as_str().to_owned());
            native::VerifiedJwt { valid: false, reason, by, claims: None, revision }
        }
    })
}
