//! Durations as users write them.

/// The nanoseconds of each unit.
const UNITS: [(&str, u128); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
];

const SECOND: u128 = 1_000_000_000;

/// The maximum number of digits before and after the decimal point.
const DIGITS_MAX: usize = 18;

/// Parses a duration into whole seconds, in Go's form (`1h30m`, `1.5h`) and with days (`30d`). A
/// number alone is a count of seconds, as in Vault. Returns `None` if the text is not a duration,
/// is negative, or has a fraction of a second.
///
/// # Examples
/// ```
/// use gabion_kms_wire::parse_seconds;
///
/// assert_eq!(parse_seconds("12h"), Some(43_200));
/// assert_eq!(parse_seconds("30d"), Some(2_592_000));
/// assert_eq!(parse_seconds("soon"), None);
/// ```
#[must_use]
pub fn parse_seconds(text: &str) -> Option<u64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let (mut rest, mut all) = (text, 0u128);
    loop {
        let (whole, behind) = digits(rest);
        let (parts, behind) = match behind.strip_prefix('.') {
            Some(behind) => digits(behind),
            None => ("", behind),
        };
        if whole.len() + parts.len() == 0 || whole.len().max(parts.len()) > DIGITS_MAX {
            return None;
        }
        let end = behind.find(|of: char| of.is_ascii_digit() || of == '.').unwrap_or(behind.len());
        let (unit, next) = behind.split_at(end);
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        // Each has at most 18 digits, and a unit 47 bits: nothing overflows.
        let number = |digits: &str| digits.parse::<u128>().unwrap_or(0);
        let scale = 10u128.pow(parts.len() as u32);
        let parts = number(parts) * nanoseconds;
        if parts % scale != 0 {
            return None;
        }
        all = all.checked_add(number(whole) * nanoseconds + parts / scale)?;
        rest = next;
        if rest.is_empty() {
            break;
        }
    }
    (all % SECOND == 0).then(|| u64::try_from(all / SECOND).ok()).flatten()
}

/// Splits a text into its leading digits and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|of: char| !of.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_gos_with_days() {
        for (text, seconds) in [
            ("0", 0),
            ("3600", 3600),
            ("0s", 0),
            ("0h", 0),
            ("90s", 90),
            ("60m", 3600),
            ("12h", 43_200),
            ("1h30m", 5400),
            ("1.5h", 5400),
            (".5h", 1800),
            ("30d", 2_592_000),
            ("1d12h", 129_600),
            ("1000ms", 1),
            ("3600000000000ns", 3600),
            ("1000000\u{b5}s", 1),
        ] {
            assert_eq!(parse_seconds(text), Some(seconds), "{text}");
        }
        let long = "9".repeat(40);
        for text in [
            "",
            " ",
            "1 h",
            "h",
            "1",
            "-1h",
            "+1h",
            "1hh",
            "1w",
            "1H",
            "1h30",
            "1.2.3h",
            "1e3s",
            ".h",
            "500ms",
            "0.5s",
            "1ns",
            "1h ",
            &long,
            &format!("{long}h"),
            "0x10",
            "\u{661}h",
        ] {
            // A number alone is a number of seconds.
            let wanted = text.parse().ok().filter(|_| text == "1");
            assert_eq!(parse_seconds(text), wanted, "{text}");
        }
        assert_eq!(parse_seconds("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_seconds("999999999999999999d"), None);
    }
}
