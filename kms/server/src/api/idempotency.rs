//! Idempotent changes: a change that is repeated under its `op_id` is applied once.

use gabion_kms::gate::Action;
use gabion_kms::model::{KeyAlgorithm, Label};
use gabion_kms::operations::NewKey;
use gabion_kms::service::{IdempotentRequest, OpResult, OpStart};
use gabion_kms_wire::native;
use serde_json::Value;
use sha2::{Digest, Sha256};
use zeroize::Zeroize;

use super::{Call, JSON, KeySelector, Reply, TENANT, keys};
use crate::parse::json;
use crate::problem::Problem;

/// The route of a change that may have an `op_id`.
pub struct IdempotentRoute {
    pub method: &'static str,
    pub path: &'static str,
    /// The action, if the change may have an `op_id`.
    pub action: Option<Action>,
    /// Whether its answer is secret.
    pub is_secret: bool,
    pub handler: fn(&Call) -> Result<Reply, Problem>,
}

/// The query parameter, and its description.
pub const OP_ID: (&str, &str) = (
    "op_id",
    "An idempotency key: if the change is repeated with the same credential within 24 hours, it is not made again and has the same answer. A secret answer is returned only once.",
);

/// Runs a handler, or replays the answer of the same `op_id`.
pub fn answer_once(route: &IdempotentRoute, call: &mut Call) -> Result<Reply, Problem> {
    let (Some(action), Some(op_id)) = (route.action, call.query.text(OP_ID.0)) else {
        return (route.handler)(call);
    };
    let (service, caller) = call.caller()?;
    let json::Unique(body) = json::read(&call.body)?;
    let (selector, request) = (select_key(call, action, &body), digest(route, call, &body));
    let key_to_make =
        selector.as_ref().ok().and_then(|selector| key_to_make(action, call, &body, selector));
    wipe(body);
    let (tenant, key) = selector?;
    let is_secret = route.is_secret;
    let asked =
        IdempotentRequest { op_id, request, action, tenant: &tenant, key: key.as_ref(), is_secret };
    let op = match service.op_begin_making(&caller, &asked, key_to_make.as_ref())? {
        OpStart::Replayed(body) => {
            return Ok(Reply { status: 200, kind: JSON, body: body.to_vec() });
        }
        OpStart::Completed(made) => return replay_answer(route, call, action, &made),
        OpStart::Untracked => return (route.handler)(call),
        OpStart::New(op) => op,
    };
    call.op = Some(op);
    let answer = (route.handler)(call);
    if let (Some(op), Ok((service, _))) = (call.op.take(), call.caller()) {
        let ended = match &answer {
            Ok(reply) => OpResult::Done(&reply.body),
            Err(_) => OpResult::Failed,
        };
        // The store knows that the change was done, even if its answer cannot be stored.
        let _ = service.op_end(op, ended);
    }
    answer
}

/// Returns the answer of a change whose result is known, but whose answer was not stored before the
/// process ended.
fn replay_answer(
    route: &IdempotentRoute,
    call: &Call,
    action: Action,
    made: &str,
) -> Result<Reply, Problem> {
    let (service, _) = call.caller()?;
    let revision = service.kms().revision();
    match action {
        Action::Create => keys::made(call, &made.parse()?),
        Action::Import if call.key().is_empty() => keys::made(call, &made.parse()?),
        Action::Rotate | Action::Import => keys::rotated(&made.parse()?, revision),
        Action::Config => keys::described(call, &made.parse()?),
        Action::Policy => {
            let version = made.parse();
            let version = version.map_err(|_| Problem::internal("a set without a version"))?;
            let (name, revision) = (call.part(0).to_owned(), service.revision());
            Reply::json(&native::PolicyChanged { name, version, revision })
        }
        _ if route.method == "DELETE" || route.method == "POST" => {
            Reply::json(&native::Changed { revision })
        }
        _ => Err(Problem::internal("a change that answers something else")),
    }
}

/// Returns the tenant and the key of a change: the path's key, or the one that the body creates.
fn select_key(
    call: &Call,
    action: Action,
    body: &Value,
) -> Result<(Label, Option<Label>), Problem> {
    if matches!(action, Action::Token | Action::Policy) {
        return Ok((Label::new("tenant", TENANT)?, None));
    }
    if !call.key().is_empty() {
        let selector = KeySelector::new(call, call.query.text("tenant"), call.key())?;
        return Ok((selector.tenant, Some(selector.name)));
    }
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    let tenant = Label::new("tenant", text("tenant").unwrap_or(TENANT))?;
    Ok((tenant, Some(Label::new("key", text("name").unwrap_or_default())?)))
}

/// Returns the key that a change creates, if its body names an algorithm.
fn key_to_make(
    action: Action,
    call: &Call,
    body: &Value,
    (tenant, name): &(Label, Option<Label>),
) -> Option<NewKey> {
    let is_new = matches!(action, Action::Create | Action::Import) && call.key().is_empty();
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    let algorithm = text("algorithm").filter(|_| is_new)?;
    Some(NewKey {
        tenant: tenant.clone(),
        purpose: Label::new("purpose", text("purpose").unwrap_or("transit")).ok()?,
        name: name.clone()?,
        algorithm: KeyAlgorithm::named(algorithm).ok()?,
    })
}

/// Returns the SHA-256 of a request in canonical form: its route, its path parameters, its tenant,
/// and its body.
fn digest(route: &IdempotentRoute, call: &Call, body: &Value) -> [u8; 32] {
    let mut sha = Sha256::new();
    let tenant = call.query.text("tenant").unwrap_or_default();
    let parts = call.parts.iter().map(String::as_str);
    for text in [route.method, route.path, tenant].into_iter().chain(parts) {
        feed_text(&mut sha, text);
    }
    feed(&mut sha, body);
    sha.finalize().into()
}

/// Hashes a value: fields in the order of their names, without null fields, which count as missing.
fn feed(sha: &mut Sha256, value: &Value) {
    match value {
        Value::Null => sha.update(b"n"),
        Value::Bool(is_true) => sha.update(if *is_true { b"t" } else { b"f" }),
        Value::Number(number) => {
            sha.update(b"#");
            feed_text(sha, &number.to_string());
        }
        Value::String(text) => {
            sha.update(b"s");
            feed_text(sha, text);
        }
        Value::Array(items) => {
            sha.update(b"[");
            sha.update((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| feed(sha, item));
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            sha.update(b"{");
            sha.update((fields.len() as u64).to_be_bytes());
            for (name, value) in fields {
                feed_text(sha, name);
                feed(sha, value);
            }
        }
    }
}

fn feed_text(sha: &mut Sha256, text: &str) {
    sha.update((text.len() as u64).to_be_bytes());
    sha.update(text);
}

/// Wipes a body, which may contain a secret such as an imported key.
fn wipe(value: Value) {
    match value {
        Value::String(mut text) => text.zeroize(),
        Value::Array(items) => items.into_iter().for_each(wipe),
        Value::Object(fields) => fields.into_iter().for_each(|(_, value)| wipe(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fed(value: &Value) -> [u8; 32] {
        let mut sha = Sha256::new();
        feed(&mut sha, value);
        sha.finalize().into()
    }

    #[test]
    fn request_digest_depends_on_values_only() {
        let one = serde_json::from_str(r#"{"a": 1, "b": {"x": "y"}, "c": null}"#).unwrap();
        let same = serde_json::from_str(r#"{ "b":{"x":"\u0079"}, "a":1}"#).unwrap();
        assert_eq!(fed(&one), fed(&same));
        let others = [
            json!({"a": 1, "b": {"x": "z"}}),
            json!({"a": "1", "b": {"x": "y"}}),
            json!({"a": 1, "x": "y"}),
            json!({"a": 1, "b": ["x", "y"]}),
            json!({"a": 1}),
            json!({"a": true, "b": {"x": "y"}}),
        ];
        for (place, other) in others.iter().enumerate() {
            assert_ne!(fed(other), fed(&one), "{other}");
            for before in &others[..place] {
                assert_ne!(fed(other), fed(before));
            }
        }
    }
}
