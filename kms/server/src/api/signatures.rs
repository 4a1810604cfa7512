//! Signing, verifying, describing.

use gabion_kms::gate::Action;
use gabion_kms::operations::OwnKey;
use gabion_kms::rsa::Scheme;
use gabion_kms_wire::native::{Attest, Attested, Sign, Signed, Verified, Verify};

use super::input::{Input, fields};
use super::marshaling::Marshaling;
use super::single::{Done, Form, Single, What};
use super::{Call, Reply, Wanted};
use crate::parse::json;
use crate::problem::Problem;

pub fn sign(call: &Call) -> Result<Reply, Problem> {
    match to_sign(call)? {
        (single, None) => single.run(call),
        (single, Some((scheme, digest))) => {
            let (service, caller) = call.caller()?;
            let What::Sign { version } = single.what else { return Err(lost()) };
            let key = single.wanted.key();
            let signed = service.sign_rsa(&caller, &key, version, scheme, &digest);
            single.answer(call, signed.map(Done::Signed))
        }
    }
}

pub fn verify(call: &Call) -> Result<Reply, Problem> {
    match to_verify(call)? {
        (single, None) => single.run(call),
        (single, Some((scheme, digest))) => {
            let (service, caller) = call.caller()?;
            let What::Verify { version, ref signature } = single.what else { return Err(lost()) };
            let (key, of) = (single.wanted.key(), (&digest[..], &signature[..]));
            let valid = service.verify_rsa(&caller, &key, version, scheme, of);
            single.answer(call, valid.map(Done::Verified))
        }
    }
}

/// A request for one signature, if nothing is said of RSA.
pub fn single_sign(call: &Call) -> Result<Option<Single>, Problem> {
    to_sign(call).map(|(single, rsa)| Some(single).filter(|_| rsa.is_none()))
}

/// A request for one verdict, if nothing is said of RSA.
pub fn single_verify(call: &Call) -> Result<Option<Single>, Problem> {
    to_verify(call).map(|(single, rsa)| Some(single).filter(|_| rsa.is_none()))
}

/// How RSA signs, and the digest that it signs.
type OfRsa = (Scheme, Vec<u8>);

fn to_sign(call: &Call) -> Result<(Single, Option<OfRsa>), Problem> {
    let (service, _) = call.caller()?;
    let asked: Sign = json::read(&call.body)?;
    let input = Input::read(&fields!(asked))?;
    let wanted = Wanted::new(call, asked.tenant.as_deref(), &asked.key)?;
    let revision = service.kms().revision();
    let rsa = input.of_rsa(asked.padding.as_deref(), asked.salt_length)?;
    let what = What::Sign { version: asked.version };
    let marshaling = Marshaling::named(MARSHALING, asked.marshaling.as_deref())?;
    Ok((Single { wanted, input, what, marshaling, revision, form: FORM }, rsa))
}

fn to_verify(call: &Call) -> Result<(Single, Option<OfRsa>), Problem> {
    let (service, _) = call.caller()?;
    let asked: Verify = json::read(&call.body)?;
    let input = Input::read(&fields!(asked))?;
    let marshaling = Marshaling::named(MARSHALING, asked.marshaling.as_deref())?;
    let signature = marshaling.decoded(&asked.signature)?;
    let wanted = Wanted::new(call, asked.tenant.as_deref(), &asked.key)?;
    let signature = inward(call, marshaling, &wanted, signature)?;
    let revision = service.kms().revision();
    let version = wanted.version(service, asked.version);
    let rsa = input.of_rsa(asked.padding.as_deref(), asked.salt_length)?;
    let what = What::Verify { version, signature };
    Ok((Single { wanted, input, what, marshaling, revision, form: FORM }, rsa))
}

/// The field that says how signatures are written.
pub const MARSHALING: &str = "marshaling";

/// Converts a signature to the bytes that its key verifies. A caller who may not verify by the key does not learn what it is.
///
/// # Errors
/// As [`Marshaling::inward`]; no such key; not allowed.
pub fn inward(
    call: &Call,
    marshaling: Marshaling,
    wanted: &Wanted,
    signature: Vec<u8>,
) -> Result<Vec<u8>, Problem> {
    if marshaling == Marshaling::Asn1 {
        return Ok(signature);
    }
    let (service, caller) = call.caller()?;
    let algorithm = service.algorithm(&caller, Action::Verify, &wanted.key(), 1);
    marshaling.inward(algorithm.map_err(|error| wanted.refusal(error))?, signature)
}

const FORM: Form = Form { done: told, failed: |problem| problem };

fn told(call: &Call, single: &Single, done: Done) -> Result<Reply, Problem> {
    let revision = single.revision;
    match done {
        Done::Signed(signed) => Reply::json(&Signed {
            version: signed.by.version,
            by: signed.by.to_string(),
            signature: single.marshaling.text(signed.by.key.algorithm, &signed.signature)?,
            revision,
        }),
        Done::Verified(valid) => {
            Reply::json(&Verified { valid, by: single.by(call)?.to_string(), revision })
        }
    }
}

/// A request that became one of another kind: none does.
fn lost() -> Problem {
    Problem::internal("a request is of another kind than its path")
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
    let (service, caller) = call.caller()?;
    service.own_for(&caller, OwnKey::Attestation)?;
    Ok(Reply::text(200, "application/jwk+json", service.kms().attestation_jwk()?))
}
