//! Clocks, and times as text.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock. Its wall clock may jump, and is used only for the expiry of tokens and keys and for
/// automatic rotations.
pub trait Clock: Send + Sync {
    /// Returns the milliseconds since 1970, by a clock that may be wrong.
    fn now_ms(&self) -> u64;

    /// Returns the milliseconds of a monotonic clock since some moment of this process.
    fn steady_ms(&self) -> u64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn steady_ms(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_millis() as u64
    }
}

/// Returns the milliseconds since 1970, by a clock that may be wrong.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Formats a time as RFC 3339, in UTC with milliseconds.
pub fn rfc3339(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let milliseconds = ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Parses a time: RFC 3339 with any offset, or milliseconds since 1970. Returns milliseconds since
/// 1970; `None` for any other text.
pub fn parse_ms(text: &str) -> Option<u64> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => parse_rfc3339(text),
    }
}

/// Parses RFC 3339, section 5.6, without leap seconds.
fn parse_rfc3339(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let (time, offset_min) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let (time, offset) = time.split_at(time.rfind(['+', '-'])?);
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            let [hours, minutes] = numbers(&offset[1..], ':', [2, 2])?;
            (hours < 24 && minutes < 60).then_some((time, sign * (60 * hours + minutes) as i64))?
        }
    };
    let (time, fraction) = time.split_once('.').map_or((time, None), |(time, of)| (time, Some(of)));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let milliseconds = match fraction {
        None => 0,
        Some(digits) if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            return None;
        }
        Some(digits) => format!("{digits:0<3}")[..3].parse::<u64>().ok()?,
    };
    let days = days(year, month, day)?;
    let of_day = 3_600_000 * hour + 60_000 * minute + 1000 * second + milliseconds;
    (86_400_000 * days + of_day).checked_add_signed(-60_000 * offset_min)
}

/// Parses numbers of given lengths with a separator between them.
fn numbers<const N: usize>(text: &str, separator: char, lens: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(separator);
    let mut found = [0; N];
    for (number, len) in found.iter_mut().zip(lens) {
        let part = parts.next().filter(|part| part.len() == len)?;
        *number = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(found)
}

/// Returns the number of days from 1970-01-01 to a date; `None` for earlier or invalid dates.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let years = year.checked_sub(1970)?;
    // A year has at most 366 days; subtract the missing leap days.
    let from = 365 * years;
    (from..=from + years + 366).find(|&days| date(days) == (year, month, day))
}

/// Returns the date of a day after 1970-01-01 in the Gregorian calendar, which repeats every
/// 146,097 days (400 years). Years begin in March here, so that a leap day is the last day of its
/// year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // From the first of March of the year 0.
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // Months since March: 153 days are five of them.
    let of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year + u64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use super::{parse_ms, rfc3339};

    /// The expected texts are GNU date's.
    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_798_761_600, "2027-01-01T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1000), text);
        }
        assert_eq!(rfc3339(1_790_000_000_123), "2026-09-21T14:13:20.123Z");
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for ms in [0, 951_782_399_000, 951_782_400_123, 1_790_000_000_123, 253_402_300_799_999] {
            assert_eq!(parse_ms(&rfc3339(ms)), Some(ms));
            assert_eq!(parse_ms(&ms.to_string()), Some(ms));
        }
        for (text, ms) in [
            ("2026-09-21T14:13:20Z", 1_790_000_000_000),
            ("2026-09-21t14:13:20z", 1_790_000_000_000),
            ("2026-09-21T14:13:20.1239Z", 1_790_000_000_123),
            ("2026-09-21T16:13:20.5+02:00", 1_790_000_000_500),
            ("2026-09-21T08:43:20-05:30", 1_790_000_000_000),
            ("1970-01-01T00:30:00+00:30", 0),
        ] {
            assert_eq!(parse_ms(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "x",
            "-1",
            "+5",
            "18446744073709551616",
            "2026-09-21",
            "2026-09-21T14:13Z",
            "2026-09-21T14:13:20",
            "2026-09-21 14:13:20Z",
            "2026-9-21T14:13:20Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-09-21T24:00:00Z",
            "2026-09-21T14:60:00Z",
            "2026-09-21T14:13:60Z",
            "2026-09-21T14:13:20.Z",
            "2026-09-21T14:13:20+2:00",
            "2026-09-21T14:13:20+24:00",
            "2026-09-21T14:13:20+02:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "+026-09-21T14:13:20Z",
            "2026-09-21T14:13:2\u{e4}Z",
        ] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
