//! Parses periods, lifetimes and times on the command line.

use gabion_kms_wire::parse_seconds;

/// Parses the lifetime of a token into seconds.
///
/// # Errors
/// A malformed time, or zero.
pub fn lifetime(text: &str) -> Result<u64, String> {
    let expected = "expected a time in s, m, h or d, such as 12h or 30d, or a number of seconds";
    parse_seconds(text).filter(|seconds| *seconds > 0).ok_or_else(|| expected.to_owned())
}

/// Parses a period into seconds.
///
/// # Errors
/// A malformed period, with the expected form.
pub fn period(text: &str) -> Result<u64, String> {
    let expected = "expected a time in s, m, h or d, such as 12h or 30d; 0: never";
    parse_seconds(text).ok_or_else(|| expected.to_owned())
}

/// Parses a time into milliseconds since 1970.
///
/// # Errors
/// A malformed time.
pub fn time(text: &str) -> Result<u64, String> {
    let expected =
        "expected a time such as 2027-01-01T00:00:00Z (RFC 3339), or milliseconds since 1970";
    gabion_kms_server::parse_ms(text).ok_or_else(|| expected.to_owned())
}
