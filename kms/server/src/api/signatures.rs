//! Signing, verifying, describing.

use gabion_kms::gate::Action;
use gabion_kms::operations::OwnKey;
use gabion_kms::rsa::Scheme;
use gabion_kms_wire::native::{Attest, Attested, Sign, Signed, Verified, Verify};

use super::input::{Input, fields};
use super::marshaling::Marshaling;
use super::single::{Operation, Outcome, ResponseShape, SingleRequest};
use super::{Call, KeySelector, Reply};
use crate::parse::json;
use crate::problem::Problem;

pub fn sign(call: &Call) -> Result<Reply, Problem> {
    match to_sign(call)? {
        (single, None) => single.run(call),
        (single, Some((scheme, digest))) => {
            let (service, caller) = call.caller()?;
            let Operation::Sign { version } = single.operation else { return Err(lost()) };
            let key = single.selector.key();
            let signed = service.sign_rsa(&caller, &key, version, scheme, &digest);
            single.answer(call, signed.map(Outcome::Signed))
        }
    }
}

pub fn verify(call: &Call) -> Result<Reply, Problem> {
    match to_verify(call)? {
        (single, None) => single.run(call),
        (single, Some((scheme, digest))) => {
            let (service, caller) = call.caller()?;
            let Operation::Verify { version, ref signature } = single.operation else {
                return Err(lost());
            };
            let (key, of) = (single.selector.key(), (&digest[..], &signature[..]));
            let valid = service.verify_rsa(&caller, &key, version, scheme, of);
            single.answer(call, valid.map(Outcome::Verified))
        }
    }
}

/// A request for one signature, if nothing is said of RSA.
pub fn single_sign(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    to_sign(call).map(|(single, rsa)| Some(single).filter(|_| rsa.is_none()))
}

/// A request for one verdict, if nothing is said of RSA.
pub fn single_verify(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    to_verify(call).map(|(single, rsa)| Some(single).filter(|_| rsa.is_none()))
}

/// RSA's scheme, and the digest to sign.
type RsaDigest = (Scheme, Vec<u8>);

fn to_sign(call: &Call) -> Result<(SingleRequest, Option<RsaDigest>), Problem> {
    let (service, _) = call.caller()?;
    let asked: Sign = json::read(&call.body)?;
    let input = Input::read(&fields!(asked))?;
    let selector = KeySelector::new(call, asked.tenant.as_deref(), &asked.key)?;
    let revision = service.kms().revision();
    let rsa = input.of_rsa(asked.padding.as_deref(), asked.salt_length)?;
    let operation = Operation::Sign { version: asked.version };
    let marshaling = Marshaling::named(MARSHALING, asked.marshaling.as_deref())?;
    Ok((SingleRequest { selector, input, operation, marshaling, revision, shape: RESPONSE }, rsa))
}

fn to_verify(call: &Call) -> Result<(SingleRequest, Option<RsaDigest>), Problem> {
    let (service, _) = call.caller()?;
    let asked: Verify = json::read(&call.body)?;
    let input = Input::read(&fields!(asked))?;
    let marshaling = Marshaling::named(MARSHALING, asked.marshaling.as_deref())?;
    let signature = marshaling.decode(&asked.signature)?;
    let selector = KeySelector::new(call, asked.tenant.as_deref(), &asked.key)?;
    let signature = inward(call, marshaling, &selector, signature)?;
    let revision = service.kms().revision();
    let version = selector.version(service, asked.version);
    let rsa = input.of_rsa(asked.padding.as_deref(), asked.salt_length)?;
    let operation = Operation::Verify { version, signature };
    Ok((SingleRequest { selector, input, operation, marshaling, revision, shape: RESPONSE }, rsa))
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
    selector: &KeySelector,
    signature: Vec<u8>,
) -> Result<Vec<u8>, Problem> {
    if marshaling == Marshaling::Asn1 {
        return Ok(signature);
    }
    let (service, caller) = call.caller()?;
    let algorithm = service.algorithm(&caller, Action::Verify, &selector.key(), 1);
    marshaling.inward(algorithm.map_err(|error| selector.refusal(error))?, signature)
}

const RESPONSE: ResponseShape = ResponseShape { respond, refuse: |problem| problem };

fn respond(call: &Call, single: &SingleRequest, done: Outcome) -> Result<Reply, Problem> {
    let revision = single.revision;
    match done {
        Outcome::Signed(signed) => Reply::json(&Signed {
            version: signed.by.version,
            by: signed.by.to_string(),
            signature: single.marshaling.text(signed.by.key.algorithm, &signed.signature)?,
            revision,
        }),
        Outcome::Verified(valid) => {
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
    let selector = KeySelector::new(call, asked.tenant.as_deref(), &asked.key)?;
    let revision = service.kms().revision();
    let nonce = asked.nonce.as_deref().unwrap_or_default();
    let attested = service.attest(&caller, &selector.key(), nonce)?;
    let attest = serde_json::to_value(&attested.attest);
    let attest = attest.map_err(|error| Problem::internal(error.to_string()))?;
    Reply::json(&Attested { attest, jws: attested.jws, revision })
}

pub fn attestation_key(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    service.own_for(&caller, OwnKey::Attestation)?;
    Ok(Reply::text(200, "application/jwk+json", service.kms().attestation_jwk()?))
}
