//! Files of TLS: how they are read, how a change is noticed, and how long what is in them is valid.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::error::Error;

/// A file that cannot be used, and why.
pub fn wrong(path: &Path, reason: &str) -> Error {
    Error::Settings(format!("cannot take {}: {reason}", path.display()))
}

/// Reads a regular file of at most `most` bytes. It waits for nobody: a FIFO is refused.
///
/// # Errors
/// [`Error::Settings`], which names the file.
pub fn read(path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, Error> {
    let io = |error: std::io::Error| wrong(path, &error.to_string());
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io)?;
    let about = file.metadata().map_err(io)?;
    if !about.is_file() {
        return Err(wrong(path, "it is not a regular file"));
    }
    let too_long = || wrong(path, &format!("it has more than {most} bytes"));
    if about.len() > most {
        return Err(too_long());
    }
    // Room for all of it, so that no copy is left behind by growing.
    let room = usize::try_from(about.len() + 1).map_err(|_| too_long())?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(most + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > most {
        return Err(too_long());
    }
    Ok(bytes)
}

/// Tells a file from the one that it was, and from what it held: device, number, length, change of the content, change of anything (its mode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(u64, u64, u64, [i64; 4]);

/// The stamp of the file that a path names now, through symbolic links. Returns `None` if there is no such file.
pub fn stamp(path: &Path) -> Option<Stamp> {
    let of = fs::metadata(path).ok()?;
    let times = [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()];
    Some(Stamp(of.dev(), of.ino(), of.len(), times))
}

/// From when to when something is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

/// The longest time for which a coming end is a warning.
const WARN_MAX: i64 = 30 * 86_400;

impl Validity {
    /// Whether its end is near: a sixth of its life, or 30 days if that is less.
    pub fn is_ending(&self, now: i64) -> bool {
        let life = self.not_after.saturating_sub(self.not_before);
        self.not_after.saturating_sub(now) <= (life / 6).min(WARN_MAX)
    }

    /// What two things have in common.
    pub fn and(self, other: Self) -> Self {
        Validity {
            not_before: self.not_before.max(other.not_before),
            not_after: self.not_after.min(other.not_after),
        }
    }
}

/// The validity of a certificate (RFC 5280, section 4.1). Returns `None` if its encoding is wrong.
pub fn of_certificate(der: &[u8]) -> Option<Validity> {
    let mut fields = to_be_signed(der)?;
    if fields.first() == Some(&0xa0) {
        take(&mut fields)?; // The version.
    }
    for _serial_algorithm_issuer in 0..3 {
        take(&mut fields)?;
    }
    let (_, mut validity) = take(&mut fields)?;
    let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
    Some(Validity { not_before, not_after })
}

/// The validity of a list of revoked certificates (RFC 5280, section 5.1). Returns `None` if it names no next one.
pub fn of_list(der: &[u8]) -> Option<Validity> {
    let mut fields = to_be_signed(der)?;
    if fields.first() == Some(&2) {
        take(&mut fields)?; // The version.
    }
    for _algorithm_issuer in 0..2 {
        take(&mut fields)?;
    }
    let (not_before, not_after) = (time(&mut fields)?, time(&mut fields)?);
    Some(Validity { not_before, not_after })
}

/// What is signed of a certificate or a list.
fn to_be_signed(mut der: &[u8]) -> Option<&[u8]> {
    let (0x30, mut whole) = take(&mut der)? else { return None };
    let (0x30, fields) = take(&mut whole)? else { return None };
    Some(fields)
}

/// Takes an element of DER from the front: its tag and its content.
fn take<'a>(from: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = from.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut len = usize::from(first);
    if first >= 0x80 {
        let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.is_empty() || bytes.len() > 4 {
            return None;
        }
        len = bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(len)?;
    *from = after;
    Some((tag, content))
}

/// A UTCTime or a GeneralizedTime, in seconds since 1970.
fn time(from: &mut &[u8]) -> Option<i64> {
    let (tag, text) = take(from)?;
    let digits = text.strip_suffix(b"Z")?;
    let (years, digits) = match tag {
        0x17 => digits.split_at_checked(2)?,
        0x18 => digits.split_at_checked(4)?,
        _ => return None,
    };
    let number = |digits: &[u8]| -> Option<i64> {
        std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
    };
    let mut year = number(years)?;
    if tag == 0x17 {
        year += if year < 50 { 2000 } else { 1900 };
    }
    let parts: Vec<i64> = digits.chunks(2).map(number).collect::<Option<_>>()?;
    let &[month, day, hour, minute, second] = &parts[..] else { return None };
    if !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March, so that the day that some have more is their last; see clock.rs.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers are GNU date's.
    #[test]
    fn times_are_seconds_since_1970() {
        let of = |tag: u8, text: &str| {
            let der = [&[tag, text.len() as u8], text.as_bytes()].concat();
            time(&mut &der[..])
        };
        assert_eq!(of(0x17, "700101000000Z"), Some(0));
        assert_eq!(of(0x17, "260228235959Z"), Some(1_772_323_199));
        assert_eq!(of(0x17, "490301000000Z"), Some(2_498_169_600));
        assert_eq!(of(0x18, "20240229120000Z"), Some(1_709_208_000));
        assert_eq!(of(0x18, "99991231235959Z"), Some(253_402_300_799));
        for wrong in ["", "Z", "260228235959", "2602282359Z", "261328235959Z", "26022823595xZ"] {
            assert_eq!(of(0x17, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_end_is_near_for_a_sixth_of_a_life_and_30_days_at_most() {
        let hours = Validity { not_before: 0, not_after: 86_400 };
        assert!(!hours.is_ending(71_999) && hours.is_ending(72_000) && hours.is_ending(90_000));
        let years = Validity { not_before: 0, not_after: 10 * 365 * 86_400 };
        assert!(!years.is_ending(years.not_after - WARN_MAX - 1));
        assert!(years.is_ending(years.not_after - WARN_MAX));
    }

    #[test]
    fn irregular_or_oversized_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(**read(&path, 5).unwrap(), *b"12345");
        assert!(read(&path, 4).is_err() && read(folder.path(), 4).is_err());
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        assert!(read(&fifo, 4).is_err() && read(&folder.path().join("none"), 4).is_err());
        assert!(read(Path::new("/dev/zero"), 4).is_err());
    }
}
