//! TLS files: reading them, detecting changes, and the validity of their content.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::error::Error;

/// Creates the error for an unusable file.
pub fn wrong(path: &Path, reason: &str) -> Error {
    Error::Settings(format!("cannot take {}: {reason}", path.display()))
}

/// Reads a regular file of at most `most` bytes. FIFOs are rejected, so that this does not block.
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
    // Allocate enough at once, so that reallocation leaves no copies in memory.
    let room = usize::try_from(about.len() + 1).map_err(|_| too_long())?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(most + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > most {
        return Err(too_long());
    }
    Ok(bytes)
}

/// Identifies a file and its content: device, inode, length, modification time and change time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(u64, u64, u64, [i64; 4]);

/// Returns the stamp of the file that a path names now, through symbolic links; `None` if there is
/// no such file.
pub fn stamp(path: &Path) -> Option<Stamp> {
    let of = fs::metadata(path).ok()?;
    let times = [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()];
    Some(Stamp(of.dev(), of.ino(), of.len(), times))
}

/// A validity period, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

/// The longest warning time before an expiry.
const WARN_MAX: i64 = 30 * 86_400;

impl Validity {
    /// Returns whether the end is near: less than a sixth of the validity period, or less than 30
    /// days, whichever is shorter.
    pub fn is_ending(&self, now: i64) -> bool {
        let life = self.not_after.saturating_sub(self.not_before);
        self.not_after.saturating_sub(now) <= (life / 6).min(WARN_MAX)
    }

    /// Returns the intersection of two periods.
    pub fn and(self, other: Self) -> Self {
        Validity {
            not_before: self.not_before.max(other.not_before),
            not_after: self.not_after.min(other.not_after),
        }
    }
}

/// Returns the validity of a certificate (RFC 5280, section 4.1); `None` if its encoding is wrong.
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

/// Returns the validity of a revocation list (RFC 5280, section 5.1); `None` if it has no next
/// update.
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

/// Returns the signed part of a certificate or a list.
fn to_be_signed(mut der: &[u8]) -> Option<&[u8]> {
    let (0x30, mut whole) = take(&mut der)? else { return None };
    let (0x30, fields) = take(&mut whole)? else { return None };
    Some(fields)
}

/// Takes a DER element from the front: its tag and its content.
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

/// Parses a UTCTime or a GeneralizedTime as seconds since 1970.
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
    // Years begin in March, so that a leap day is the last day of its year; see clock.rs.
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
