//! Handlers for importing and exporting keys.

use gabion_kms::gate::Action;
use gabion_kms::model::{KeyAlgorithm, Label};
use gabion_kms::operations::{Import, NewKey, OwnKey, Terms};
use gabion_kms::transport::{Form, Recipient, WrapMethod, Wrapper};
use gabion_kms_wire::native::{
    ExportKey, Exported, ImportKey, ImportVersion, Rotated, WrappingKey,
};
use gabion_kms_wire::{Secret, encode};
use zeroize::Zeroizing;

use super::bytes::{bytes, secret};
use super::keys::{conformances, made, period, select_key};
use super::{Call, Reply, TENANT};
use crate::parse::json;
use crate::problem::Problem;

pub fn import(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: ImportKey = json::read(&call.body)?;
    let new = NewKey {
        tenant: Label::new("tenant", asked.tenant.as_deref().unwrap_or(TENANT))?,
        purpose: Label::new("purpose", asked.purpose.as_deref().unwrap_or("transit"))?,
        name: Label::new("key", &asked.name)?,
        algorithm: KeyAlgorithm::named(&asked.algorithm)?,
    };
    let fields = KeyMaterialFields {
        raw: &asked.raw,
        pkcs8: &asked.pkcs8,
        public: &asked.public,
        wrapped: &asked.wrapped,
        wrapping: asked.wrapping.as_deref(),
        form: asked.form.as_deref(),
    };
    let material = KeyMaterial::read(&fields, || Ok(new.algorithm))?;
    let conformance = conformances(asked.conformance.as_deref())?;
    let terms =
        Terms { conformance, rotate_period_s: period(asked.rotate_period_s), ..Terms::default() };
    made(call, &service.import_on(&caller, &new, material.import(), true, &terms)?)
}

pub fn import_version(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: ImportVersion = json::read(&call.body)?;
    let selector = select_key(call)?;
    let fields = KeyMaterialFields {
        raw: &asked.raw,
        pkcs8: &asked.pkcs8,
        public: &asked.public,
        wrapped: &asked.wrapped,
        wrapping: asked.wrapping.as_deref(),
        form: asked.form.as_deref(),
    };
    let algorithm = || Ok(service.algorithm(&caller, Action::Import, &selector.key(), 1)?);
    let material = KeyMaterial::read(&fields, algorithm)?;
    let made = service.import_version(&caller, &selector.key(), material.import())?;
    let revision = service.kms().revision();
    Reply::json(&Rotated { id: made.to_string(), version: made.version, revision })
}

/// Returns the public key for which clients wrap imported keys. Every caller may have it once it
/// exists.
pub fn wrapping_key(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let (kind, key) = match call.query.text("kind") {
        None | Some("x-wing") => {
            service.own_for(&caller, OwnKey::WrappingXWing)?;
            ("x-wing", service.kms().wrapping_key(Wrapper::XWing)?)
        }
        Some("rsa") => ("rsa", call.rsa_wrapping_key()?),
        Some(_) => return Err(Problem::bad("unknown `kind`; expected x-wing or rsa")),
    };
    Reply::json(&WrappingKey {
        kind: kind.to_owned(),
        public_key: key.pem(),
        sha256: key.sha256(),
        revision: service.revision(),
    })
}

pub fn export(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: ExportKey = json::read(&call.body)?;
    let selector = select_key(call)?;
    let (version, revision) = (selector.version(service, asked.version), service.kms().revision());
    let form = match asked.form.as_deref() {
        Some(form) => form.parse()?,
        // For a missing key only that is reported.
        None => match service.kms().find(&selector.tenant, &selector.name) {
            Ok(id) => Form::usual(id.algorithm),
            Err(_) => Form::Raw,
        },
    };
    let told =
        Exported { version, form: form.as_str().to_owned(), revision, ..Exported::default() };
    let Some(wrap_for) = &asked.wrap_for else {
        let given = service.export(&caller, &selector.key(), version, form)?;
        return Reply::json(&Exported { private_key: Some(Secret::of_bytes(&given)), ..told });
    };
    let to = Recipient::of_spki(service.kms().engine(), &bytes("wrap_for", wrap_for)?)?;
    let wrapped = service.export_wrapped(&caller, &selector.key(), version, form, &to)?;
    Reply::json(&Exported {
        wrapped: Some(encode(&wrapped)),
        wrapping: Some(to.wrapping().to_string()),
        recipient: Some(to.sha256()),
        ..told
    })
}

/// The fields of an import that contain a key.
struct KeyMaterialFields<'a> {
    raw: &'a Option<Secret>,
    pkcs8: &'a Option<Secret>,
    public: &'a Option<String>,
    wrapped: &'a Option<String>,
    wrapping: Option<&'a str>,
    form: Option<&'a str>,
}

/// A key to import.
enum KeyMaterial {
    Raw(Zeroizing<Vec<u8>>),
    Pkcs8(Zeroizing<Vec<u8>>),
    Public(Vec<u8>),
    Wrapped(WrapMethod, Form, Vec<u8>),
}

impl KeyMaterial {
    fn read(
        fields: &KeyMaterialFields<'_>,
        algorithm: impl FnOnce() -> Result<KeyAlgorithm, Problem>,
    ) -> Result<Self, Problem> {
        if fields.wrapped.is_none() && (fields.wrapping.is_some() || fields.form.is_some()) {
            return Err(Problem::bad("`wrapping` and `form` are only allowed with `wrapped`"));
        }
        match (fields.raw, fields.pkcs8, fields.public, fields.wrapped) {
            (Some(raw), None, None, None) => Ok(KeyMaterial::Raw(secret("raw", raw)?)),
            (None, Some(pkcs8), None, None) => Ok(KeyMaterial::Pkcs8(secret("pkcs8", pkcs8)?)),
            (None, None, Some(public), None) => Ok(KeyMaterial::Public(bytes("public", public)?)),
            (None, None, None, Some(wrapped)) => {
                let wrapping = fields.wrapping.unwrap_or("x-wing").parse()?;
                let form = match fields.form {
                    Some(form) => form.parse()?,
                    None => Form::usual(algorithm()?),
                };
                Ok(KeyMaterial::Wrapped(wrapping, form, bytes("wrapped", wrapped)?))
            }
            _ => Err(Problem::bad("expected one of `raw`, `pkcs8`, `public` and `wrapped`")),
        }
    }

    fn import(&self) -> Import<'_> {
        match self {
            KeyMaterial::Raw(bytes) => Import::Raw(bytes),
            KeyMaterial::Pkcs8(der) => Import::Pkcs8(der),
            KeyMaterial::Public(bytes) => Import::Public(bytes),
            KeyMaterial::Wrapped(wrapping, form, wrapped) => {
                Import::Wrapped { wrapping: *wrapping, form: *form, wrapped }
            }
        }
    }
}
