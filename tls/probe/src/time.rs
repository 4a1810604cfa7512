//! Times: Unix seconds, dates of the Gregorian calendar, RFC 3339.

/// Formats Unix seconds as RFC 3339 in UTC.
#[must_use]
pub fn rfc3339(seconds: i64) -> String {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil from days, counted from 0000-03-01 in eras of 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Converts a date and a time of day in UTC to Unix seconds; `None` if there is no such time. Leap
/// seconds are not accepted.
#[must_use]
pub fn unix_seconds(date: [i64; 3], time_of_day: [i64; 3]) -> Option<i64> {
    let ([year, month, day], [hour, minute, second]) = (date, time_of_day);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !is_time || !(1..=days).contains(&day) || !(0..=9999).contains(&year) {
        return None;
    }
    // Years begin in March here, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(86_400 * days + 3_600 * hour + 60 * minute + second)
}

/// Parses RFC 3339 with any offset to Unix seconds. Fractions are dropped.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let (clock, zone) = text.split_at_checked(19)?;
    let number = |at: usize, len: usize| {
        let digits = clock.get(at..at + len)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let separators = [4, 7, 10, 13, 16].map(|at| clock.as_bytes().get(at).copied());
    let [Some(b'-'), Some(b'-'), Some(b'T' | b't' | b' '), Some(b':'), Some(b':')] = separators
    else {
        return None;
    };
    let date = [number(0, 4)?, number(5, 2)?, number(8, 2)?];
    let seconds = unix_seconds(date, [number(11, 2)?, number(14, 2)?, number(17, 2)?])?;
    let zone = match zone.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => zone,
    };
    let sign = match zone.as_bytes() {
        [b'Z' | b'z'] => return Some(seconds),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let [hours, minutes] = [hours, minutes].map(|part| part.parse::<u8>().ok());
    Some(seconds - sign * (3_600 * i64::from(hours?) + 60 * i64::from(minutes?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_063_999, "2026-11-30T18:39:59Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), expected);
            assert_eq!(parse_rfc3339(expected), Some(seconds));
        }
    }

    #[test]
    fn other_zones_and_wrong_times() {
        assert_eq!(parse_rfc3339("1970-01-01T01:00:00.5+01:00"), Some(0));
        assert_eq!(parse_rfc3339("1969-12-31 22:30:00-01:30"), Some(0));
        for wrong in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-13-01T00:00:00Z",
            "1970-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:60Z",
            "1970-01-01T00:00:00+0100",
            "+970-01-01T00:00:00Z",
            "1970-01-01T00:00:00ZZ",
            "\u{e9}970-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(wrong), None, "{wrong}");
        }
    }
}
