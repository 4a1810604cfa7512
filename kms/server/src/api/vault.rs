//! Handlers for the system paths that Vault's clients use.

use gabion_kms::clock::{now_ms, rfc3339};
use gabion_kms::gate::{Caller, Caveat, Method};
use gabion_kms::service;
use gabion_kms_wire::native::Nothing;
use gabion_kms_wire::transit::TokenRenew;
use serde_json::{Value, json};

use super::{Call, JSON, Reply};
use crate::parse::json;
use crate::problem::Problem;

/// The query parameters of `sys/health`: alternative statuses for load balancers.
pub const HEALTH: &[(&str, &str)] = &[
    ("activecode", "The status of an unsealed server; 200 by default."),
    ("sealedcode", "The status of a sealed server; 503 by default."),
    ("uninitcode", "The status of a server whose store has no seal; 501 by default."),
    ("standbyok", "Ignored: there are no standbys."),
    ("perfstandbyok", "Ignored: there are no standbys."),
    ("standbycode", "Ignored: there are no standbys."),
    ("drsecondarycode", "Ignored: there are no standbys."),
    ("performancestandbycode", "Ignored: there are no standbys."),
    ("removedcode", "Ignored: there are no standbys."),
    ("haunhealthycode", "Ignored: there are no standbys."),
];

/// Creates a response in Vault's format.
///
/// # Errors
/// Does not fail for wire types.
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

/// Creates an error response in Vault's format.
pub fn refusal(problem: &Problem) -> Reply {
    let said = match problem.hint {
        Some(hint) => format!("{}: {} ({hint})", problem.code, problem.message),
        None => format!("{}: {}", problem.code, problem.message),
    };
    // Vault returns 403 to unauthenticated callers, too.
    let status = if problem.status == 401 { 403 } else { problem.status };
    let body = json::write(&json!({"errors": [said]})).unwrap_or_default();
    Reply { status, kind: JSON, body }
}

pub fn health(call: &Call) -> Result<Reply, Problem> {
    let how = call.state.host.status();
    // Invalid statuses are ignored, like all other parameters here.
    let code = |name: &str, usual: u16| {
        let code = call.query.text(name).and_then(|text| text.parse().ok());
        code.filter(|code| (200..600).contains(code)).unwrap_or(usual)
    };
    let status = match (how.initialized, how.sealed) {
        (false, _) => code("uninitcode", 501),
        (true, true) => code("sealedcode", 503),
        (true, false) => code("activecode", 200),
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
    Reply::json(&json!({"initialized": call.state.host.status().initialized}))
}

pub fn seal_status(call: &Call) -> Result<Reply, Problem> {
    let how = call.state.host.status();
    let (recovery, given) = call.state.host.unsealing.progress()?;
    let (threshold, shares) = recovery.map_or((0, 0), |set| (set.threshold, set.shares));
    Reply::json(&json!({
        "type": "shamir",
        "initialized": how.initialized,
        "sealed": how.sealed,
        "t": threshold,
        "n": shares,
        "progress": given,
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

/// Answers as Vault does without high availability.
pub fn leader(_: &Call) -> Result<Reply, Problem> {
    Reply::json(&json!({
        "ha_enabled": false,
        "is_self": false,
        "active_time": "0001-01-01T00:00:00Z",
        "leader_address": "",
        "leader_cluster_address": "",
        "performance_standby": false,
        "performance_standby_last_remote_wal": 0,
    }))
}

pub fn mounts(call: &Call) -> Result<Reply, Problem> {
    let mount = json!({
        "type": "transit",
        "description": "keys with versions",
        "accessor": "transit",
        "uuid": call.state.host.status().store,
        "local": false,
        "seal_wrap": false,
        "external_entropy_access": false,
        "options": null,
        "config": {"default_lease_ttl": 0, "max_lease_ttl": 0, "force_no_cache": false},
    });
    data(call, json!({"transit/": mount}), &[])
}

/// Returns the remaining lifetime of the token, which cannot be extended, if the request asks for
/// no more than that.
pub fn renew_self(call: &Call) -> Result<Reply, Problem> {
    let (_, service::Call { who, .. }) = call.caller()?;
    let TokenRenew { increment, token } = json::read(&call.body)?;
    if token.is_some() {
        let why = "`token` is not supported: the one that comes in the head is meant";
        return Err(Problem::unsupported(why));
    }
    let (Method::Token { id }, Some(expires)) = (who.method(), expires_ms(who)) else {
        return Err(Problem::bad("the request has no token"));
    };
    let left = expires.saturating_sub(now_ms()) / 1000;
    let wanted = increment.as_ref().map(|of| seconds(&of.0)).transpose()?.unwrap_or(0);
    if wanted > left {
        let why = format!(
            "`increment` of {wanted} s is not supported: the token ends in {left} s, and its expiry cannot be extended"
        );
        return Err(Problem::unsupported(why).hint("request a new token"));
    }
    Reply::json(&json!({
        "request_id": call.id,
        "lease_id": "",
        "renewable": false,
        "lease_duration": 0,
        "data": null,
        "wrap_info": null,
        "warnings": ["the expiry of a token cannot be extended; lease_duration is its remaining lifetime"],
        "auth": {
            // The holder has the token already, so it is not returned.
            "client_token": "",
            "accessor": id.to_string(),
            "policies": who.caveats().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "token_policies": [],
            "metadata": null,
            "lease_duration": left,
            "renewable": false,
            "entity_id": "",
            "token_type": "service",
            "orphan": true,
            "num_uses": 0,
        },
    }))
}

/// Revokes the token of the request and its attenuations, but not the token from which it was
/// attenuated.
pub fn revoke_self(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    service.token_revoke_self(&caller)?;
    Ok(Reply { status: 204, kind: JSON, body: Vec::new() })
}

/// Returns when a token expires.
fn expires_ms(who: &Caller) -> Option<u64> {
    let expires = who.caveats().iter().filter_map(|caveat| match caveat {
        Caveat::Expires(ms) => Some(*ms),
        _ => None,
    });
    expires.min()
}

/// Parses a duration in seconds in Vault's formats: a number, or a text such as 90, 90s, 5m or 1h.
fn seconds(value: &Value) -> Result<u64, Problem> {
    let of_text = |text: &str| -> Option<u64> {
        let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
        let found = units.iter().find_map(|(unit, many)| Some((text.strip_suffix(*unit)?, *many)));
        let (digits, unit) = found.unwrap_or((text, 1));
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit)
    };
    let seconds = match value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64(),
        Value::String(text) if text.is_empty() => Some(0),
        Value::String(text) => of_text(text),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    seconds.ok_or_else(|| {
        Problem::bad("invalid `increment`; expected a duration such as 3600 or \"1h\"")
    })
}

pub fn lookup_self(call: &Call) -> Result<Reply, Problem> {
    let (_, service::Call { who, .. }) = call.caller()?;
    let id = match who.method() {
        Method::Token { id } => id.to_string(),
        Method::Certificate | Method::Local => String::new(),
    };
    let expires = expires_ms(who);
    let about = json!({
        "accessor": id,
        "creation_time": 0,
        "creation_ttl": 0,
        "display_name": who.principal().as_str(),
        "entity_id": "",
        "expire_time": expires.map(rfc3339),
        "explicit_max_ttl": 0,
        // The holder has the token already, so it is not returned.
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
