//! What Vault's clients ask of a server before they use it.

use gabion_kms::gate::{Caveat, Method};
use gabion_kms::service;
use serde_json::{Value, json};

use super::{Call, JSON, Reply};
use crate::clock::{now_ms, rfc3339};
use crate::json;
use crate::problem::Problem;

/// Parameters of `sys/health`: statuses that a load balancer wants instead.
pub const HEALTH: &[(&str, &str)] = &[
    ("activecode", "The status of a server that serves: 200."),
    ("sealedcode", "The status of a sealed one: 503."),
    ("uninitcode", "The status of one whose store has no seal: 501."),
    ("standbyok", "Nothing here: there are no standbys."),
    ("perfstandbyok", "Nothing here: there are no standbys."),
    ("standbycode", "Nothing here: there are no standbys."),
    ("drsecondarycode", "Nothing here: there are no standbys."),
    ("performancestandbycode", "Nothing here: there are no standbys."),
    ("removedcode", "Nothing here: there are no standbys."),
    ("haunhealthycode", "Nothing here: there are no standbys."),
];

/// An answer in Vault's form.
///
/// # Errors
/// None that happens.
pub fn data(call: &Call, data: Value, warnings: &[String]) -> Result<Reply, Problem> {
    let warnings = if warnings.is_empty() { Value::Null } else { json!(warnings) };
    Reply::json(&json!({
        "request_id": call.id,
        "lease_id": "",
        "renewable": false,
        "lease_duration": 0,
        "data": data,
        "wrap_info": null,
        "warnings": warnings,
        "auth": null,
    }))
}

/// A refusal in Vault's form.
pub fn refusal(problem: &Problem) -> Reply {
    let said = match problem.hint {
        Some(hint) => format!("{}: {} ({hint})", problem.code, problem.message),
        None => format!("{}: {}", problem.code, problem.message),
    };
    // Vault says 403 to whoever it does not know, too.
    let status = if problem.status == 401 { 403 } else { problem.status };
    let body = json::write(&json!({"errors": [said]})).unwrap_or_default();
    Reply { status, kind: JSON, body }
}

pub fn health(call: &Call) -> Result<Reply, Problem> {
    let how = call.state.keeper.status();
    let code = |name: &str, usual: u32| -> Result<u16, Problem> {
        let code = call.query.number(name, 599)?.unwrap_or(usual);
        let is_one = (200..600).contains(&code);
        is_one.then_some(code as u16).ok_or_else(|| Problem::bad(format!("`{name}` is no status")))
    };
    let status = match (how.initialized, how.sealed) {
        (false, _) => code("uninitcode", 501)?,
        (true, true) => code("sealedcode", 503)?,
        (true, false) => code("activecode", 200)?,
    };
    let body = json!({
        "initialized": how.initialized,
        "sealed": how.sealed,
        "standby": false,
        "performance_standby": false,
        "replication_performance_mode": "disabled",
        "replication_dr_mode": "disabled",
        "server_time_utc": now_ms() / 1000,
        "version": how.version,
        "cluster_name": "gabion",
        "cluster_id": how.store,
    });
    Ok(Reply { status, ..Reply::json(&body)? })
}

pub fn initialized(call: &Call) -> Result<Reply, Problem> {
    Reply::json(&json!({"initialized": call.state.keeper.status().initialized}))
}

pub fn seal_status(call: &Call) -> Result<Reply, Problem> {
    let how = call.state.keeper.status();
    Reply::json(&json!({
        "type": "shamir",
        "initialized": how.initialized,
        "sealed": how.sealed,
        "t": 0,
        "n": 0,
        "progress": 0,
        "nonce": "",
        "version": how.version,
        "build_date": "",
        "migration": false,
        "cluster_name": "gabion",
        "cluster_id": how.store,
        "recovery_seal": false,
        "storage_type": "gabion",
    }))
}

pub fn mounts(call: &Call) -> Result<Reply, Problem> {
    let mount = json!({
        "type": "transit",
        "description": "keys with versions",
        "accessor": "transit",
        "uuid": call.state.keeper.status().store,
        "local": false,
        "seal_wrap": false,
        "external_entropy_access": false,
        "options": null,
        "config": {"default_lease_ttl": 0, "max_lease_ttl": 0, "force_no_cache": false},
    });
    data(call, json!({"transit/": mount}), &[])
}

pub fn lookup_self(call: &Call) -> Result<Reply, Problem> {
    let (_, service::Call { who, .. }) = call.caller()?;
    let id = match who.method() {
        Method::Token { id } => id.to_string(),
        Method::Certificate | Method::Local => String::new(),
    };
    let expires = who.caveats().iter().filter_map(|caveat| match caveat {
        Caveat::Expires(ms) => Some(*ms),
        _ => None,
    });
    let expires = expires.min();
    let about = json!({
        "accessor": id,
        "creation_time": 0,
        "creation_ttl": 0,
        "display_name": who.principal().as_str(),
        "entity_id": "",
        "expire_time": expires.map(rfc3339),
        "explicit_max_ttl": 0,
        // A token is not told to whoever has it already.
        "id": "",
        "meta": null,
        "num_uses": 0,
        "orphan": true,
        "path": "auth/token/create",
        "policies": who.caveats().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "renewable": false,
        "ttl": expires.map_or(0, |ms| ms.saturating_sub(now_ms()) / 1000),
        "type": "service",
    });
    data(call, about, &[])
}
