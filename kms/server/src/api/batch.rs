//! Handlers for batches of signatures and verifications.

use gabion_kms::Error;
use gabion_kms::model::{KeyId, VersionId};
use gabion_kms::operations::SignOutput;
use gabion_kms::service::{SignItem, VerifyItem};
use gabion_kms_wire::native::{Batch, BatchDone, BatchItem, BatchResult, ItemProblem};

use super::bytes::missing;
use super::input::{Input, fields};
use super::marshaling::Marshaling;
use super::signatures::{MARSHALING, inward};
use super::{Call, JSON, KeySelector, Reply};
use crate::parse::json::{self, ITEMS_MAX};
use crate::problem::Problem;

/// A parsed batch item.
struct ParsedItem {
    selector: KeySelector,
    input: Input,
    op: BatchOp,
}

/// The operation of a batch item.
enum BatchOp {
    Sign {
        version: Option<u32>,
        marshaling: Marshaling,
    },
    /// The key is looked up for the answer; the service decides whether the caller may know it.
    Verify {
        key: Result<KeyId, Error>,
        version: u32,
        signature: Vec<u8>,
    },
}

pub fn batch(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Batch { items, status_if_failed } = json::read(&call.body)?;
    let status = match status_if_failed.unwrap_or(200) {
        status @ (200 | 400..=599) => status as u16,
        other => {
            let why = format!("`status_if_failed` is 200 or 400 to 599, not {other}");
            return Err(Problem::bad(why));
        }
    };
    check_items(items.len())?;
    let revision = service.kms().revision();
    let parsed: Vec<Result<ParsedItem, Problem>> =
        items.iter().map(|item| ParsedItem::read(call, item)).collect();
    let (mut sign, mut verify) = (Vec::new(), Vec::new());
    for ParsedItem { selector, input, op } in parsed.iter().flatten() {
        let (key, signable) = (selector.key(), input.signable());
        match op {
            BatchOp::Sign { version, .. } => {
                sign.push(SignItem { key, version: *version, signable })
            }
            BatchOp::Verify { version, signature, .. } => {
                verify.push(VerifyItem { key, version: *version, signable, signature });
            }
        }
    }
    let (signed, verified) = service.batch(&caller, items.len(), &sign, &verify);
    let (mut signed, mut verified) = (signed.into_iter(), verified.into_iter());
    let lost = || Problem::internal("an item has no answer");
    let answer = |item: &Result<ParsedItem, Problem>| -> Result<BatchResult, Problem> {
        match item {
            Err(problem) => Ok(refusal_result(problem)),
            Ok(ParsedItem { op: BatchOp::Sign { marshaling, .. }, selector, .. }) => {
                match signed.next().ok_or_else(lost)? {
                    Ok(signed) => sign_result(&signed, *marshaling),
                    Err(error) => Ok(refusal_result(&selector.refusal(error))),
                }
            }
            Ok(ParsedItem { op: BatchOp::Verify { key, version, .. }, selector, .. }) => {
                let valid = verified.next().ok_or_else(lost)?;
                let of = |valid| {
                    let by = VersionId { key: key.clone()?, version: *version };
                    Ok(verdict_result(&by, valid))
                };
                Ok(verify_result(selector, valid.and_then(of)))
            }
        }
    };
    let results = parsed.iter().map(answer).collect::<Result<Vec<_>, _>>()?;
    let failed = results.iter().filter(|result| result.problem.is_some()).count();
    let is_refused =
        |result: &&BatchResult| (400..500).contains(&result.status) && result.status != 429;
    call.charge_refused(results.iter().filter(is_refused).count());
    let done = BatchDone { results, failed: failed as u32, revision };
    let status = if failed == 0 { 200 } else { status };
    Ok(Reply { status, kind: JSON, body: json::write(&done)? })
}

/// Rejects more items than a request may have.
///
/// # Errors
/// [`Error::TooLarge`].
pub fn check_items(items: usize) -> Result<(), Error> {
    match items > ITEMS_MAX {
        true => Err(Error::TooLarge { what: "items of a batch", most: ITEMS_MAX, got: items }),
        false => Ok(()),
    }
}

impl ParsedItem {
    fn read(call: &Call, item: &BatchItem) -> Result<Self, Problem> {
        let (service, _) = call.caller()?;
        let input = Input::read(&fields!(item))?;
        let selector = KeySelector::new(call, item.tenant.as_deref(), &item.key)?;
        let marshaling = Marshaling::named(MARSHALING, item.marshaling.as_deref())?;
        let op = match (item.op.as_str(), &item.signature) {
            ("sign", None) => BatchOp::Sign { version: item.version, marshaling },
            ("sign", Some(_)) => {
                return Err(Problem::bad("`signature` is of `verify`; leave it out to sign"));
            }
            ("verify", None) => return Err(missing("signature")),
            ("verify", Some(signature)) => {
                let signature = marshaling.decode(signature)?;
                let signature = inward(call, marshaling, &selector, signature)?;
                let key = service.kms().find(&selector.tenant, &selector.name);
                let version = selector.version(service, item.version);
                BatchOp::Verify { key, version, signature }
            }
            (_, _) => return Err(Problem::bad("unknown `op`; expected sign or verify")),
        };
        Ok(ParsedItem { selector, input, op })
    }
}

fn verify_result(selector: &KeySelector, answer: Result<BatchResult, Error>) -> BatchResult {
    answer.unwrap_or_else(|error| refusal_result(&selector.refusal(error)))
}

fn sign_result(signed: &SignOutput, marshaling: Marshaling) -> Result<BatchResult, Problem> {
    Ok(BatchResult {
        status: 200,
        by: Some(signed.by.to_string()),
        version: Some(signed.by.version),
        signature: Some(marshaling.text(signed.by.key.algorithm, &signed.signature)?),
        ..BatchResult::default()
    })
}

fn verdict_result(by: &VersionId, valid: bool) -> BatchResult {
    BatchResult {
        status: 200,
        by: Some(by.to_string()),
        version: Some(by.version),
        valid: Some(valid),
        ..BatchResult::default()
    }
}

fn refusal_result(problem: &Problem) -> BatchResult {
    let reason = ItemProblem {
        code: problem.code.to_owned(),
        message: problem.message.clone(),
        retryable: problem.is_retryable,
        hint: problem.hint.map(str::to_owned),
    };
    let status = u32::from(problem.status);
    BatchResult { status, problem: Some(reason), ..BatchResult::default() }
}
