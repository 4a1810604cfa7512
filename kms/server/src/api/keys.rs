//! Handlers for creating, describing and changing keys.

use gabion_kms::model::{
    self, Capability, Conformances, KeyAlgorithm, KeyId, Label, Minimum, VersionId,
};
use gabion_kms::operations::{KeyChange, NewKey, Terms};
use gabion_kms::service::{KeyPage, KeySummary};
use gabion_kms_wire::native::{
    Changed, ConfigureKey, CreateKey, DestroyKey, Destroyed, Key, Keys, Named, Nothing, OfVersion,
    Rotated, Trim, Version, Versions,
};

use super::{Call, KeySelector, Reply, TENANT};
use crate::parse::json;
use crate::problem::Problem;

/// The maximum number of keys or versions in one answer.
pub const PAGE_MAX: u32 = 1000;

/// The maximum number of versions in one answer with public keys, each of up to 2592 bytes.
const VERSIONS: usize = 100;

pub fn create(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: CreateKey = json::read(&call.body)?;
    let new = NewKey {
        tenant: Label::new("tenant", asked.tenant.as_deref().unwrap_or(TENANT))?,
        purpose: Label::new("purpose", asked.purpose.as_deref().unwrap_or("transit"))?,
        name: Label::new("key", &asked.name)?,
        algorithm: KeyAlgorithm::named(&asked.algorithm)?,
    };
    let conformance = conformances(asked.conformance.as_deref())?;
    let rotate_period_s = period(asked.rotate_period_s);
    let requires_mu = asked.mu_required == Some(true);
    let jwt_max_lifetime_s = asked.jwt_max_lifetime_s;
    let terms = Terms { conformance, rotate_period_s, requires_mu, jwt_max_lifetime_s };
    made(call, &service.create_on(&caller, &new, &terms)?)
}

/// Returns the rotation period; `None` if it is 0 or missing.
pub fn period(seconds: Option<u64>) -> Option<u64> {
    seconds.filter(|&seconds| seconds != 0)
}

/// Parses the conformance labels of a request.
///
/// # Errors
/// An unknown label.
pub fn conformances(labels: Option<&[String]>) -> Result<Conformances, Problem> {
    let labels = labels.unwrap_or_default().iter().map(|label| label.parse());
    Ok(labels.collect::<Result<_, gabion_kms::Error>>()?)
}

pub fn list(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let tenant = Label::new("tenant", call.query.text("tenant").unwrap_or(TENANT))?;
    let after = call.query.text("after").map(|after| Label::new("key", after)).transpose()?;
    let prefix = call.query.text("prefix").unwrap_or_default();
    let most = call.query.number("limit", PAGE_MAX)?.unwrap_or(100) as usize;
    let revision = service.kms().revision();
    let KeyPage { keys, next } =
        service.list_labelled(&caller, &tenant, prefix, after.as_ref(), most)?;
    let named = |KeySummary { name, id, labels }| Named {
        name: name.to_string(),
        id: id.to_string(),
        labels: Some(labels).filter(|labels| !labels.is_empty()),
    };
    let keys = keys.into_iter().map(named).collect();
    Reply::json(&Keys { keys, next: next.map(|name| name.to_string()), revision })
}

pub fn show(call: &Call) -> Result<Reply, Problem> {
    shown(call, &select_key(call)?)
}

pub fn versions(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let after = call.query.number("after", u32::MAX)?.unwrap_or(0);
    let revision = service.kms().revision();
    let (id, found) = service.publics(&caller, &select_key(call)?.key(), after, VERSIONS)?;
    let next = found.last().filter(|_| found.len() == VERSIONS).map(|last| last.version.version);
    let versions = found
        .iter()
        .map(|public| Version {
            version: public.version.version,
            created_ms: public.version.created_ms,
            state: match public.version.state {
                model::State::Enabled => "enabled".to_owned(),
                model::State::Disabled => "disabled".to_owned(),
            },
            public_key: public.pem(&id),
        })
        .collect();
    Reply::json(&Versions { id: id.to_string(), versions, next, revision })
}

pub fn rotate(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    let made = service.rotate(&caller, &select_key(call)?.key())?;
    rotated(&made, service.kms().revision())
}

/// Returns the answer about a new version.
pub fn rotated(made: &VersionId, revision: u64) -> Result<Reply, Problem> {
    Reply::json(&Rotated { id: made.to_string(), version: made.version, revision })
}

/// Applies all changes, or none.
pub fn config(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: ConfigureKey = json::read(&call.body)?;
    let selector = select_key(call)?;
    let minima = [
        (Minimum::Verify, asked.min_verify),
        (Minimum::Decrypt, asked.min_decrypt),
        (Minimum::Sign, asked.min_sign),
    ];
    let class = match asked.class.as_deref() {
        None => None,
        Some("durable") => Some(Some(true)),
        Some("written") => Some(Some(false)),
        Some("default") => Some(None),
        Some(_) => {
            return Err(Problem::bad("unknown `class`; expected durable, written or default"));
        }
    };
    if asked.exportable == Some(false) {
        return Err(Problem::bad("`exportable` can only be true: it cannot be undone"));
    }
    if asked.mu_required == Some(false) {
        return Err(Problem::bad("`mu_required` can only be true: it cannot be undone"));
    }
    let mut changes: Vec<KeyChange> = minima
        .into_iter()
        .filter_map(|(of, version)| Some(KeyChange::Minimum(of, version?)))
        .collect();
    changes.extend(asked.labels.map(KeyChange::Labels));
    let expiry = asked.expires_ms.map(|ms| KeyChange::Expiry(Some(ms).filter(|&ms| ms != 0)));
    changes.extend(expiry);
    changes.extend(class.map(KeyChange::Durable));
    changes.extend(asked.exportable.map(|_| KeyChange::Exportable));
    changes.extend(asked.mu_required.map(|_| KeyChange::RequireMu));
    changes.extend(asked.jwt_max_lifetime_s.map(KeyChange::LimitJwt));
    changes.extend(asked.rotate_period_s.map(|seconds| KeyChange::Rotation(period(Some(seconds)))));
    if changes.is_empty() {
        return shown(call, &selector);
    }
    described(call, &service.configure(&caller, &selector.key(), &changes)?)
}

pub fn enable(call: &Call) -> Result<Reply, Problem> {
    set_state(call, model::State::Enabled)
}

pub fn disable(call: &Call) -> Result<Reply, Problem> {
    set_state(call, model::State::Disabled)
}

pub fn trim(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Trim { before } = json::read(&call.body)?;
    service.trim(&caller, &select_key(call)?.key(), before)?;
    changed(call)
}

pub fn delete(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    service.delete(&caller, &select_key(call)?.key())?;
    changed(call)
}

pub fn restore(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    service.restore(&caller, &select_key(call)?.key())?;
    changed(call)
}

pub fn destroy(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let DestroyKey { expire_backups } = json::read(&call.body)?;
    if expire_backups != Some(true) {
        service.destroy(&caller, &select_key(call)?.key())?;
        let revision = service.kms().revision();
        return Reply::json(&Destroyed { revision, ..Destroyed::default() });
    }
    if call.query.text("op_id").is_some() {
        return Err(Problem::bad("`op_id` is not for `expire_backups`")
            .hint("repeat the request with the key's id to continue"));
    }
    // Check everything else before the key is destroyed.
    let (backups, file) = call.state.host.maintenance.backups()?;
    service.may_expire(&caller)?;
    backups.check(file)?;
    let id = destroyed(call)?;
    Reply::json(&backups.expire(service, &caller, file, &id)?)
}

/// Destroys a key, or completes an interrupted destruction by the key's id. Returns the key's id.
fn destroyed(call: &Call) -> Result<KeyId, Problem> {
    let (service, caller) = call.caller()?;
    if let Ok(id) = call.key().parse::<KeyId>() {
        let is_tenants =
            call.query.text("tenant").is_none_or(|tenant| tenant == id.tenant.as_str());
        if is_tenants && service.destroy_on(&caller, &id)? {
            return Ok(id);
        }
    }
    Ok(service.destroy(&caller, &select_key(call)?.key())?)
}

fn set_state(call: &Call, state: model::State) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let OfVersion { version } = json::read(&call.body)?;
    service.set_state(&caller, &select_key(call)?.key(), version, state)?;
    changed(call)
}

/// Returns the key that the path names.
pub fn select_key(call: &Call) -> Result<KeySelector, Problem> {
    KeySelector::new(call, call.query.text("tenant"), call.key())
}

fn shown(call: &Call, selector: &KeySelector) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let revision = service.kms().revision();
    key(service.describe(&caller, &selector.key())?, revision)
}

/// Describes a new key to the caller that created it. This needs no further permission.
pub fn made(call: &Call, id: &VersionId) -> Result<Reply, Problem> {
    described(call, &id.key)
}

/// Describes a changed key to the caller that changed it. This needs no further permission: an
/// error would suggest that the change was not made.
pub fn described(call: &Call, id: &KeyId) -> Result<Reply, Problem> {
    let (service, _) = call.caller()?;
    let revision = service.kms().revision();
    key(service.kms().describe(id)?, revision)
}

fn key(key: model::Key, revision: u64) -> Result<Reply, Problem> {
    Reply::json(&Key {
        id: key.id.to_string(),
        name: key.name.to_string(),
        algorithm: key.id.algorithm.to_string(),
        does: does(key.id.algorithm.does()).to_owned(),
        created_ms: key.created_ms,
        labels: key.labels,
        latest: key.latest,
        min_available: key.min_available,
        min_sign: key.min_sign,
        min_verify: key.min_verify,
        min_decrypt: key.min_decrypt,
        deleted_ms: key.deleted_ms,
        expires_ms: key.expires_ms,
        exportable: key.is_exportable,
        class: key
            .is_durable
            .map(|is_durable| if is_durable { "durable".to_owned() } else { "written".to_owned() }),
        conformance: Some(key.conformance.iter().map(ToString::to_string).collect::<Vec<_>>())
            .filter(|labels| !labels.is_empty()),
        rotate_period_s: key.rotate_period_s,
        rotates_ms: key.rotates_ms,
        mu_required: Some(true).filter(|_| key.requires_mu),
        jwt_max_lifetime_s: key.jwt_max_lifetime_s,
        revision,
    })
}

fn changed(call: &Call) -> Result<Reply, Problem> {
    let (service, _) = call.caller()?;
    Reply::json(&Changed { revision: service.kms().revision() })
}

/// Returns the wire name of a capability.
fn does(what: Capability) -> &'static str {
    match what {
        Capability::Sign => "sign",
        Capability::Encrypt => "encrypt",
        Capability::Authenticate => "authenticate",
        Capability::Encapsulate => "encapsulate",
        Capability::SignAndEncrypt => "sign_and_encrypt",
    }
}
