//! Handlers for signing, verifying and attesting.

use gabion_kms::gate::Action;
use gabion_kms::model::VersionId;
use gabion_kms::operations::OwnKey;
use gabion_kms_wire::native::{Attest, Attested, Sign, Signed, Verified, Verify};

use super::input::{Input, fields};
use super::marshaling::Marshaling;
use super::single::{Operation, Outcome, ResponseShape, SingleRequest};
use super::{Call, KeySelector, Reply};
use crate::parse::json;
use crate::problem::Problem;

pub fn sign(call: &Call) -> Result<Reply, Problem> {
    read_sign(call)?.run(call)
}

pub fn verify(call: &Call) -> Result<Reply, Problem> {
    read_verify(call)?.run(call)
}

/// Parses a request for one signature, as a route's `single`.
pub fn single_sign(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    read_sign(call).map(Some)
}

/// Parses a request for one verification, as a route's `single`.
pub fn single_verify(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    read_verify(call).map(Some)
}

fn read_sign(call: &Call) -> Result<SingleRequest, Problem> {
    let (service, _) = call.caller()?;
    let asked: Sign = json::read(&call.body)?;
    let input = Input::read(&fields!(asked))?;
    let selector = KeySelector::new(call, asked.tenant.as_deref(), &asked.key)?;
    let revision = service.kms().revision();
    let input = input.with_padding(asked.padding.as_deref(), asked.salt_length)?;
    let operation = Operation::Sign { version: asked.version };
    let marshaling = Marshaling::named(MARSHALING, asked.marshaling.as_deref())?;
    Ok(SingleRequest { selector, input, operation, marshaling, revision, shape: RESPONSE })
}

fn read_verify(call: &Call) -> Result<SingleRequest, Problem> {
    let (service, _) = call.caller()?;
    let asked: Verify = json::read(&call.body)?;
    let input = Input::read(&fields!(asked))?;
    let marshaling = Marshaling::named(MARSHALING, asked.marshaling.as_deref())?;
    let signature = marshaling.decode(&asked.signature)?;
    let selector = KeySelector::new(call, asked.tenant.as_deref(), &asked.key)?;
    let signature = inward(call, marshaling, &selector, signature)?;
    let revision = service.kms().revision();
    let version = selector.version(service, asked.version);
    let input = input.with_padding(asked.padding.as_deref(), asked.salt_length)?;
    let operation = Operation::Verify { version, signature };
    Ok(SingleRequest { selector, input, operation, marshaling, revision, shape: RESPONSE })
}

/// The field with the text form of signatures.
pub const MARSHALING: &str = "marshaling";

/// Converts a signature to the bytes that its key verifies. A caller without permission to verify
/// does not learn the key's algorithm.
///
/// # Errors
/// Those of [`Marshaling::inward`]; a missing key; the caller is not allowed.
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

fn respond(call: &Call, single: &SingleRequest, outcome: Outcome) -> Result<Reply, Problem> {
    let revision = single.revision;
    match outcome {
        Outcome::Signed(signed) => Reply::json(&Signed {
            version: signed.by.version,
            by: signed.by.to_string(),
            signature: single.marshaling.text(signed.by.key.algorithm, &signed.signature)?,
            revision,
        }),
        Outcome::Verified { version, valid } => {
            let (service, _) = call.caller()?;
            let key = service.kms().find(&single.selector.tenant, &single.selector.name)?;
            let by = VersionId { key, version }.to_string();
            Reply::json(&Verified { valid, by, revision })
        }
    }
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
