//! Bytes in fields, as base64: of `/v1/kms` and of Vault's paths alike.

use gabion_kms_wire::{Secret, decode};
use zeroize::Zeroizing;

use crate::problem::Problem;

/// The bytes of a field.
///
/// # Errors
/// What is no base64; the field is named, and not what is in it.
pub fn bytes(field: &str, text: &str) -> Result<Vec<u8>, Problem> {
    decode(text).ok_or_else(|| no_base64(field))
}

/// The bytes of a field that may be left out, and then has none.
///
/// # Errors
/// As [`bytes`].
pub fn optional(field: &str, text: Option<&str>) -> Result<Vec<u8>, Problem> {
    text.map_or(Ok(Vec::new()), |text| bytes(field, text))
}

/// The bytes of a field that is secret.
///
/// # Errors
/// As [`bytes`].
pub fn secret(field: &str, text: &Secret) -> Result<Zeroizing<Vec<u8>>, Problem> {
    text.bytes().ok_or_else(|| no_base64(field))
}

/// A field that is not there.
pub fn missing(field: &str) -> Problem {
    Problem::bad(format!("missing field `{field}`"))
}

fn no_base64(field: &str) -> Problem {
    Problem::malformed(format!("`{field}` is no base64"))
}
