//! Digests, with Vault's paths. They need no key, and are not recorded in the audit log.

use gabion_kms::Prehash as Hash;
use gabion_kms_wire::transit::TransitHash;
use serde_json::json;

use super::super::bytes::{missing, secret};
use super::super::{Call, Reply, vault};
use super::{formatted, said_in};
use crate::parse::json;
use crate::problem::Problem;

/// Hashes a message for any caller, and charges the caller's credential. As in Vault, the defaults
/// are SHA-256 and hexadecimal.
pub fn hash(call: &Call) -> Result<Reply, Problem> {
    call.caller()?;
    let asked: TransitHash = json::read(&call.body)?;
    let in_path = Some(call.part(0)).filter(|part| !part.is_empty());
    let said = [asked.algorithm.as_deref(), asked.urlalgorithm.as_deref(), in_path];
    let hash = said_in(said.into_iter().flatten())?.unwrap_or(Some(Hash::Sha2_256));
    let hash = hash.ok_or_else(|| Problem::bad("expected a hash such as sha2-256"))?;
    let format = asked.format.as_deref().unwrap_or("hex");
    let input = secret("input", asked.input.as_ref().ok_or_else(|| missing("input"))?)?;
    call.charge_refused(1);
    vault::data(call, json!({"sum": formatted(&hash.digest(&input), format)?}), &[])
}
