//! Keys that come and go.

use gabion_engine::key_file::FileForm;
use gabion_kms::model::{KeyAlgorithm, Label};
use gabion_kms::operations::{ExportForm, Import, NewKey};
use gabion_kms_client::Secret;
use gabion_kms_client::wire::{ExportKey, Exported, ImportKey, ImportVersion, Rotated};
use zeroize::Zeroizing;

use super::bytes::{bytes, secret};
use super::keys::{made, wanted};
use super::{Call, Reply, TENANT};
use crate::json;
use crate::problem::Problem;

pub fn import(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: ImportKey = json::read(&call.body)?;
    let brought = Brought::read(&asked.raw, &asked.pkcs8, &asked.public)?;
    let new = NewKey {
        tenant: Label::new("tenant", asked.tenant.as_deref().unwrap_or(TENANT))?,
        purpose: Label::new("purpose", asked.purpose.as_deref().unwrap_or("transit"))?,
        name: Label::new("key", &asked.name)?,
        algorithm: asked.algorithm.to_ascii_lowercase().parse()?,
    };
    made(call, &service.import(&caller, &new, brought.import())?)
}

pub fn import_version(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: ImportVersion = json::read(&call.body)?;
    let brought = Brought::read(&asked.raw, &asked.pkcs8, &asked.public)?;
    let made = service.import_version(&caller, &wanted(call)?.key(), brought.import())?;
    let revision = service.kms().revision();
    Reply::json(&Rotated { id: made.to_string(), version: made.version, revision })
}

pub fn export(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: ExportKey = json::read(&call.body)?;
    let wanted = wanted(call)?;
    let (version, revision) = (wanted.version(service, asked.version), service.kms().revision());
    let form = match asked.form.as_deref() {
        Some("raw") => ExportForm::Raw,
        Some("pkcs8") => ExportForm::Pkcs8,
        Some(_) => return Err(Problem::bad("unknown `form`; expected pkcs8 or raw")),
        // Of a key that is not there nothing is told but that.
        None => match service.kms().find(&wanted.tenant, &wanted.name) {
            Ok(id) if has_files(id.algorithm) => ExportForm::Pkcs8,
            Ok(_) | Err(_) => ExportForm::Raw,
        },
    };
    let given = service.export(&caller, &wanted.key(), version, form)?;
    let form = match form {
        ExportForm::Raw => "raw",
        ExportForm::Pkcs8 => "pkcs8",
    };
    let (form, private_key) = (form.to_owned(), Secret::of_bytes(&given));
    Reply::json(&Exported { version, form, private_key, revision })
}

fn has_files(algorithm: KeyAlgorithm) -> bool {
    algorithm.algorithm().is_some_and(|algorithm| FileForm::of(algorithm).is_some())
}

/// What somebody brings.
enum Brought {
    Raw(Zeroizing<Vec<u8>>),
    Pkcs8(Zeroizing<Vec<u8>>),
    Public(Vec<u8>),
}

impl Brought {
    fn read(
        raw: &Option<Secret>,
        pkcs8: &Option<Secret>,
        public: &Option<String>,
    ) -> Result<Self, Problem> {
        match (raw, pkcs8, public) {
            (Some(raw), None, None) => Ok(Brought::Raw(secret("raw", raw)?)),
            (None, Some(pkcs8), None) => Ok(Brought::Pkcs8(secret("pkcs8", pkcs8)?)),
            (None, None, Some(public)) => Ok(Brought::Public(bytes("public", public)?)),
            _ => Err(Problem::bad("expected one of `raw`, `pkcs8` and `public`")),
        }
    }

    fn import(&self) -> Import<'_> {
        match self {
            Brought::Raw(bytes) => Import::Raw(bytes),
            Brought::Pkcs8(der) => Import::Pkcs8(der),
            Brought::Public(bytes) => Import::Public(bytes),
        }
    }
}
