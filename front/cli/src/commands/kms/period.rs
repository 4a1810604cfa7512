//! How often something comes again, as people write it.

use gabion_kms_client::seconds_of;

/// Seconds of a period.
///
/// # Errors
/// A text that is none, and what was expected.
pub fn period(text: &str) -> Result<u64, String> {
    let expected = "expected a time in s, m, h or d, such as 12h or 30d; 0: never";
    seconds_of(text).ok_or_else(|| expected.to_owned())
}
