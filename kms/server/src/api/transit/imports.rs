//! Key import with Vault's paths: keys wrapped for the service's RSA key, or public keys.

use gabion_kms::gate::Action;
use gabion_kms::model::{KeyAlgorithm, Label};
use gabion_kms::operations::{Import, NewKey, Terms};
use gabion_kms::transport::{Form, WrapMethod};
use gabion_kms_wire::decode_pem;
use gabion_kms_wire::transit::{Flag, TransitImport, TransitImportVersion};
use serde_json::json;

use super::super::bytes::bytes;
use super::super::keys::period;
use super::super::{Call, JSON, Reply, vault};
use super::{UnsupportedField, names, of_operation, rotate_period, select_key};
use crate::parse::json;
use crate::problem::Problem;

/// Returns the public key for which imported keys are wrapped.
pub fn wrapping_key(call: &Call) -> Result<Reply, Problem> {
    let key = call.rsa_wrapping_key()?;
    vault::data(call, json!({"public_key": key.pem()}), &[])
}

pub fn import(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitImport = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    UnsupportedField("derived").flag(asked.derived)?;
    UnsupportedField("context").text(asked.context.as_deref())?;
    UnsupportedField("exportable").flag(asked.exportable)?;
    UnsupportedField("allow_plaintext_backup").flag(asked.allow_plaintext_backup)?;
    let rotate_period_s = period(rotate_period(asked.auto_rotate_period.as_ref())?);
    let algorithm = names::algorithm(asked.r#type.as_deref(), asked.parameter_set.as_deref())?;
    let material = KeyMaterial::read(
        asked.ciphertext.as_deref(),
        asked.public_key.as_deref(),
        asked.hash_function.as_deref(),
    )?;
    let new = NewKey {
        tenant: selector.tenant.clone(),
        purpose: Label::new("purpose", "transit")?,
        name: selector.name.clone(),
        algorithm,
    };
    // As in Vault, imported keys cannot be rotated here by default.
    let rotates = asked.allow_rotation == Some(Flag(true));
    let terms = Terms { rotate_period_s, ..Terms::default() };
    let made = service.import_on(&caller, &new, material.import(algorithm), rotates, &terms);
    made.map_err(|error| match of_operation(error.into()) {
        problem if problem.code == "exists" => Problem { status: 400, ..problem },
        problem => problem,
    })?;
    Ok(nothing())
}

pub fn import_version(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: TransitImportVersion = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    // Adding the private key of a version that has only a public one is not supported.
    UnsupportedField("version").number(asked.version)?;
    let material = KeyMaterial::read(
        asked.ciphertext.as_deref(),
        asked.public_key.as_deref(),
        asked.hash_function.as_deref(),
    )?;
    let refused = |error: gabion_kms::Error| of_operation(error.into());
    let algorithm =
        service.algorithm(&caller, Action::Import, &selector.key(), 1).map_err(refused)?;
    service
        .import_version(&caller, &selector.key(), material.import(algorithm))
        .map_err(refused)?;
    Ok(nothing())
}

fn nothing() -> Reply {
    Reply { status: 204, kind: JSON, body: Vec::new() }
}

/// A key to import.
enum KeyMaterial {
    Wrapped(WrapMethod, Vec<u8>),
    Spki(Vec<u8>),
}

impl KeyMaterial {
    fn read(
        ciphertext: Option<&str>,
        public_key: Option<&str>,
        hash: Option<&str>,
    ) -> Result<Self, Problem> {
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        match (given(ciphertext), given(public_key)) {
            (Some(text), None) => {
                Ok(KeyMaterial::Wrapped(wrapping(hash)?, bytes("ciphertext", &text)?))
            }
            (None, Some(pem)) => {
                let der = decode_pem(&pem);
                let refused = || Problem::malformed("`public_key` is not a public key in PEM");
                Ok(KeyMaterial::Spki(der.ok_or_else(refused)?))
            }
            (_, _) => Err(Problem::bad("expected one of `ciphertext` and `public_key`")),
        }
    }

    /// Imports the material in Vault's formats: raw bytes for symmetric keys, and PKCS#8 for all
    /// others.
    fn import(&self, algorithm: KeyAlgorithm) -> Import<'_> {
        let form = match algorithm.symmetric() {
            Some(_) => Form::Raw,
            None => Form::Pkcs8,
        };
        match self {
            KeyMaterial::Wrapped(wrapping, wrapped) => {
                Import::Wrapped { wrapping: *wrapping, form, wrapped }
            }
            KeyMaterial::Spki(der) => Import::Spki(der),
        }
    }
}

/// Parses the hash of OAEP by Vault's name.
fn wrapping(hash: Option<&str>) -> Result<WrapMethod, Problem> {
    let name = match hash.unwrap_or_default() {
        "" | "SHA256" | "sha256" => "rsa-oaep-sha256",
        "SHA224" | "sha224" => "rsa-oaep-sha224",
        "SHA384" | "sha384" => "rsa-oaep-sha384",
        "SHA512" | "sha512" => "rsa-oaep-sha512",
        "SHA1" | "sha1" => {
            return Err(Problem::unsupported(
                "`hash_function` SHA1 is not supported; expected SHA224, SHA256, SHA384 or SHA512",
            ));
        }
        _ => {
            return Err(Problem::bad(
                "unknown `hash_function`; expected SHA224, SHA256, SHA384 or SHA512",
            ));
        }
    };
    Ok(name.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_have_vaults_names() {
        for (hash, code) in [("SHA1", "unsupported"), ("MD5", "bad_request")] {
            assert_eq!(wrapping(Some(hash)).unwrap_err().code, code);
        }
        assert_eq!(wrapping(None).unwrap(), wrapping(Some("SHA256")).unwrap());
    }
}
