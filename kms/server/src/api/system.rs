//! Handlers for health, metrics and the API description.

use serde_json::json;

use super::{Call, JSON, Reply};
use crate::lifecycle::metrics;
use crate::problem::Problem;

/// Reports that the process is running.
pub fn healthz(_: &Call) -> Result<Reply, Problem> {
    Reply::json(&json!({"ok": true}))
}

/// Reports whether requests are served, and the reasons if not.
pub fn readyz(call: &Call) -> Result<Reply, Problem> {
    let (reasons, warnings) = (call.state.reasons(), call.state.warnings());
    let status = if reasons.is_empty() { 200 } else { 503 };
    let said = json!({"ready": reasons.is_empty(), "reasons": reasons, "warnings": warnings});
    Ok(Reply { status, ..Reply::json(&said)? })
}

/// Returns the metrics.
pub fn metrics(call: &Call) -> Result<Reply, Problem> {
    let counted = call.state.host.seal.service().map(|service| {
        let strangers = service.unauthenticated_count();
        let type_of = "# TYPE kms_unauthenticated_total counter\n";
        service.kms().metrics().text()
            + type_of
            + &format!("kms_unauthenticated_total {strangers}\n")
            + &service.load_text()
    });
    let host = &call.state.host;
    let process = metrics::process(&host.status(), &host.disks());
    let text = counted.unwrap_or_default() + &call.state.metrics() + &process;
    Ok(Reply::text(200, "text/plain; version=0.0.4", metrics::with_help(&text)))
}

/// Returns the OpenAPI description.
pub fn openapi(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::text(200, JSON, call.state.description))
}

pub fn status(call: &Call) -> Result<Reply, Problem> {
    let mut status = call.state.host.status();
    status.warnings = Some(call.state.warnings().into_iter().map(str::to_owned).collect());
    Reply::json(&status)
}
