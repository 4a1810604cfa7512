//! What tells the time, and times as people read them.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What tells the time. Of the two the first may jump: it decides when tokens and keys expire, when keys are
/// rotated that have a period, and nothing else.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, by a clock that may be wrong.
    fn now_ms(&self) -> u64;

    /// Milliseconds since some moment of this process, by one that never jumps.
    fn steady_ms(&self) -> u64;
}

/// The system's.
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

/// Milliseconds since 1970, by a clock that may be wrong.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// RFC 3339, in UTC, to the millisecond.
pub fn rfc3339(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let milliseconds = ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// The date of a day after 1970-01-01, by the calendar that repeats each 146,097 days (400 years). Years begin in March
/// here, so that the day that some of them have more is their last.
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
    use super::rfc3339;

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
}
