//! Handlers for sealing, tokens, backups and the audit log.

use gabion_kms::audit::{ArchiveReport, Keep};
use gabion_kms::clock::now_ms;
use gabion_kms::gate::{Action, Caveat, Principal, TokenId};
use gabion_kms::service::{self, NewToken};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{
    ArchiveAudit, AuditArchived, AuditEntries, AuditKeys, AuditRecord, AuditRecords, AuditState,
    Changed, CreateToken, Nothing, RecoverAdmin, RevokeToken, TokenMade, Unseal,
};

use super::{Call, Reply};
use crate::parse::json;
use crate::problem::Problem;

/// The maximum numbers of records and of entries in one answer.
const RECORDS_MAX: u32 = 1000;
const ENTRIES_MAX: u32 = 10_000;

/// Accepts a share from any caller: possession of a share is the authentication.
pub fn unseal(call: &Call) -> Result<Reply, Problem> {
    let by: Unseal = json::read(&call.body)?;
    Reply::json(&call.state.host.unsealing.unseal(&by, &call.peer)?)
}

/// Accepts shares from any caller: possession of the shares is the authentication.
pub fn recover_admin(call: &Call) -> Result<Reply, Problem> {
    let by: RecoverAdmin = json::read(&call.body)?;
    let (recovering, generation) = call.state.host.unsealing.recover_admin(&by, &call.peer)?;
    if let Some(generation) = generation {
        let _ = call.under.set(generation);
    }
    Reply::json(&recovering)
}

pub fn seal(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    Reply::json(
        &service.administer(&caller, Action::Seal, || Ok(call.state.host.unsealing.close()))?,
    )
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
        expires_ms: token.expires_ms().unwrap_or_default(),
        caveats: token.caveats().iter().map(ToString::to_string).collect(),
        token: token.to_string().into(),
        revision: service.revision(),
    })
}

pub fn revoke_token(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let RevokeToken { id } = json::read(&call.body)?;
    service.token_revoke(&caller, id.parse::<TokenId>()?)?;
    Reply::json(&Changed { revision: service.revision() })
}

pub fn backup(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    let host = &call.state.host;
    Reply::json(&service.administer(&caller, Action::Backup, || host.maintenance.backup())?)
}

pub fn audit(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let from = call.query.number("from", u64::MAX)?.unwrap_or(0);
    let limit = call.query.number("limit", RECORDS_MAX)?.unwrap_or(100);
    let entries = service.audit_tail(&caller, from, limit as usize)?;
    let record = |entry: &gabion_kms::audit::Entry| -> Result<AuditRecord, Problem> {
        let record = serde_json::to_value(&entry.record);
        let record = record.map_err(|error| Problem::internal(error.to_string()))?;
        Ok(AuditRecord { index: entry.index, record, salt: encode(&entry.salt) })
    };
    let records = entries.iter().map(record).collect::<Result<_, _>>()?;
    let (size, revision) = (service.log().size(), service.revision());
    Reply::json(&AuditRecords { records, size, revision })
}

pub fn audit_proof(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let index = call.query.number("index", u64::MAX)?;
    let index = index.ok_or_else(|| Problem::bad("missing parameter `index`"))?;
    Reply::json(&service.audit_prove(&caller, index)?)
}

pub fn audit_state(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let service::AuditState { checkpoint, size, first } = service.audit_state(&caller)?;
    let revision = service.revision();
    Reply::json(&AuditState { checkpoint: checkpoint.note, size, first, revision })
}

pub fn audit_entries(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let from = call.query.number("from", u64::MAX)?.unwrap_or(0);
    let limit = call.query.number("limit", ENTRIES_MAX)?.unwrap_or(1000);
    let entries = service.audit_entries(&caller, from, limit as usize)?;
    let entries = entries.iter().map(|entry| encode(entry)).collect();
    Reply::json(&AuditEntries { entries, revision: service.revision() })
}

pub fn archive_audit(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let ArchiveAudit { keep_s, keep_mib } = json::read(&call.body)?;
    let keep = Keep {
        since_ms: keep_s.map(|seconds| now_ms().saturating_sub(seconds.saturating_mul(1000))),
        bytes: keep_mib.map(|mib| mib.saturating_mul(1 << 20)),
    };
    let ArchiveReport { files, records, first } =
        call.state.host.maintenance.archive(service, &caller, &keep)?;
    Reply::json(&AuditArchived { files, records, first, revision: service.revision() })
}

pub fn audit_keys(call: &Call) -> Result<Reply, Problem> {
    let (service, _) = call.caller()?;
    let (vkeys, revision) = (service.log().vkeys().to_vec(), service.revision());
    Reply::json(&AuditKeys { vkeys, revision })
}
