//! The seal, tokens, copies, the audit log.

use gabion_kms::gate::{Action, Caveat, Principal, TokenId};
use gabion_kms::service::NewToken;
use gabion_kms_client::wire::{
    AuditKeys, AuditRecord, AuditRecords, Changed, CreateToken, Nothing, RevokeToken, TokenMade,
    Unseal,
};

use super::{Call, Reply};
use crate::json;
use crate::problem::Problem;

/// Most records of one answer.
const RECORDS_MAX: u32 = 1000;

/// Anybody may give a share: having one is what counts.
pub fn unseal(call: &Call) -> Result<Reply, Problem> {
    let by: Unseal = json::read(&call.body)?;
    Reply::json(&call.state.keeper.unseal(&by)?)
}

pub fn seal(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    Reply::json(&service.administer(&caller, Action::Seal, || Ok(call.state.keeper.seal()))?)
}

pub fn create_token(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: CreateToken = json::read(&call.body)?;
    let caveats: Result<Vec<Caveat>, _> =
        asked.caveats.unwrap_or_default().iter().map(|caveat| caveat.parse()).collect();
    let new = NewToken {
        principal: Principal::new(&asked.principal)?,
        caveats: caveats?,
        lifetime_ms: asked.lifetime_s.map(|seconds| seconds.saturating_mul(1000)),
    };
    let token = service.token_create(&caller, &new)?;
    Reply::json(&TokenMade {
        id: token.id().to_string(),
        caveats: token.caveats().iter().map(ToString::to_string).collect(),
        token: token.to_string().into(),
    })
}

pub fn revoke_token(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let RevokeToken { id } = json::read(&call.body)?;
    service.token_revoke(&caller, id.parse::<TokenId>()?)?;
    Reply::json(&Changed { revision: service.kms().revision() })
}

pub fn backup(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    let keeper = &call.state.keeper;
    Reply::json(&service.administer(&caller, Action::Backup, || keeper.backup(service))?)
}

pub fn audit(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let number = |name: &str, most, usual| -> Result<u32, Problem> {
        Ok(call.query.number(name, most)?.unwrap_or(usual))
    };
    let (from, limit) = (number("from", u32::MAX, 0)?, number("limit", RECORDS_MAX, 100)?);
    let entries = service.audit_tail(&caller, from.into(), limit as usize)?;
    let record = |entry: &gabion_kms::audit::Entry| -> Result<AuditRecord, Problem> {
        let record = serde_json::to_value(&entry.record);
        let record = record.map_err(|error| Problem::internal(error.to_string()))?;
        Ok(AuditRecord { index: entry.index, record })
    };
    let records = entries.iter().map(record).collect::<Result<_, _>>()?;
    Reply::json(&AuditRecords { records, size: service.log().size() })
}

pub fn audit_proof(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let index = call.query.number("index", u32::MAX)?;
    let index = index.ok_or_else(|| Problem::bad("missing parameter `index`"))?;
    Reply::json(&service.audit_prove(&caller, index.into())?)
}

pub fn audit_keys(call: &Call) -> Result<Reply, Problem> {
    let (service, _) = call.caller()?;
    Reply::json(&AuditKeys { vkeys: service.log().vkeys().to_vec() })
}
