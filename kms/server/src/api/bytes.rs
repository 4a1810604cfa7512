//! Base64 fields of `/v1/kms` and of Vault's API.

use gabion_kms_wire::{Secret, decode};
use zeroize::Zeroizing;

use crate::problem::Problem;

/// Decodes a field.
///
/// # Errors
/// Malformed base64. The message contains the field's name, but not its content.
pub fn bytes(field: &str, text: &str) -> Result<Vec<u8>, Problem> {
    decode(text).ok_or_else(|| no_base64(field))
}

/// Decodes an optional field; a missing one is empty.
///
/// # Errors
/// Those of [`bytes`].
pub fn optional(field: &str, text: Option<&str>) -> Result<Vec<u8>, Problem> {
    text.map_or(Ok(Vec::new()), |text| bytes(field, text))
}

/// Decodes a secret field.
///
/// # Errors
/// Those of [`bytes`].
pub fn secret(field: &str, text: &Secret) -> Result<Zeroizing<Vec<u8>>, Problem> {
    text.bytes().ok_or_else(|| no_base64(field))
}

/// The error for a missing field.
pub fn missing(field: &str) -> Problem {
    Problem::bad(format!("missing field `{field}`"))
}

fn no_base64(field: &str) -> Problem {
    Problem::malformed(format!("`{field}` is not base64"))
}
