//! The record layer before encryption (RFC 8446, 5.1): handshake messages out of records, bounded,
//! and alerts.

use std::io::{ErrorKind, Read};

use super::names::alert_name;

/// The largest handshake message that is read.
pub(super) const MESSAGE_MAX: usize = 256 << 10;
/// All bytes of a flight together.
const FLIGHT_MAX: usize = 2 * MESSAGE_MAX;
/// The largest plaintext of a record.
const FRAGMENT_MAX: usize = 1 << 14;
/// Alerts of level `warning` that are skipped, such as `unrecognized_name`.
const WARNINGS_MAX: usize = 4;

/// A failure of a raw handshake.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The stream failed or its deadline passed.
    #[error("the connection failed: {0}")]
    Io(std::io::Error),
    /// The stream ended before the answer was complete.
    #[error("the server closed the connection after {0} bytes of its answer")]
    Closed(usize),
    /// The server sent a fatal alert.
    #[error("the server sent the alert {}", alert_name(*.0))]
    Alert(u8),
    /// The answer is not a TLS record.
    #[error("the server does not speak TLS: its answer begins with \"{}\"", .0.escape_ascii())]
    NotTls([u8; 5]),
    /// A message of the server is malformed.
    #[error("the server sent a malformed {message}: {why}")]
    Malformed {
        /// The message.
        message: &'static str,
        /// The violated rule.
        why: &'static str,
    },
    /// The answer is larger than the probe reads.
    #[error("the server sent more than {0} bytes in its first answer")]
    TooLong(usize),
    /// A message that has no place here.
    #[error("the server sent an unexpected message of type {0}")]
    Unexpected(u8),
    /// The server selected something that the client did not offer.
    #[error("the server selected {0}, which the client did not offer")]
    NotOffered(String),
    /// The operating system's random generator failed.
    #[error("the operating system's random generator failed")]
    Random,
}

impl From<std::io::Error> for RawError {
    fn from(cause: std::io::Error) -> Self {
        RawError::Io(cause)
    }
}

/// Reads handshake messages from a stream.
pub(super) struct Messages<'s, R> {
    stream: &'s mut R,
    /// Bytes of handshake records that are not yet a whole message.
    buffer: Vec<u8>,
    /// Bytes that were read from the stream.
    read: usize,
    warnings: usize,
}

impl<'s, R: Read> Messages<'s, R> {
    pub(super) fn new(stream: &'s mut R) -> Self {
        Messages { stream, buffer: Vec::new(), read: 0, warnings: 0 }
    }

    /// Returns the type and the body of the next message.
    pub(super) fn next(&mut self) -> Result<(u8, Vec<u8>), RawError> {
        loop {
            if let Some(&[kind, a, b, c]) = self.buffer.first_chunk::<4>() {
                let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                if length > MESSAGE_MAX {
                    return Err(RawError::TooLong(MESSAGE_MAX));
                }
                if self.buffer.len() >= 4 + length {
                    let rest = self.buffer.split_off(4 + length);
                    let mut message = std::mem::replace(&mut self.buffer, rest);
                    return Ok((kind, message.split_off(4)));
                }
            }
            self.read_record()?;
        }
    }

    /// Returns whether bytes follow the last message in its record.
    pub(super) fn has_more(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn read_record(&mut self) -> Result<(), RawError> {
        let malformed = |why| RawError::Malformed { message: "record", why };
        let header = self.read_array::<5>()?;
        let [kind, major, _, high, low] = header;
        if !(20..=24).contains(&kind) || major != 3 {
            return Err(RawError::NotTls(header));
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        match kind {
            21 if length == 2 => {
                let [level, alert] = self.read_array::<2>()?;
                self.warnings += 1;
                // close_notify (0) ends the connection at any level.
                let ends = level != 1 || alert == 0 || self.warnings > WARNINGS_MAX;
                if ends { Err(RawError::Alert(alert)) } else { Ok(()) }
            }
            21 => Err(malformed("an alert has two bytes")),
            22 if length == 0 => Err(malformed("a handshake record is empty")),
            22 if length > FRAGMENT_MAX => Err(malformed("it is longer than 16,384 bytes")),
            22 if self.read + length > FLIGHT_MAX => Err(RawError::TooLong(FLIGHT_MAX)),
            22 => {
                let at = self.buffer.len();
                self.buffer.resize(at + length, 0);
                let into = self.buffer.get_mut(at..).unwrap_or_default();
                self.read += fill(self.stream, into, self.read)?;
                Ok(())
            }
            other => Err(RawError::Unexpected(other)),
        }
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], RawError> {
        let mut bytes = [0; N];
        self.read += fill(self.stream, &mut bytes, self.read)?;
        Ok(bytes)
    }
}

/// Reads exactly `out.len()` bytes and returns that number. `before` were read earlier.
fn fill(stream: &mut impl Read, out: &mut [u8], before: usize) -> Result<usize, RawError> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => return Err(RawError::Closed(before + done)),
            Ok(count) => done += count,
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(RawError::Io(cause)),
        }
    }
    Ok(done)
}

/// Reads the fields of one message.
pub(super) struct Fields<'a> {
    message: &'static str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'static str, bytes: &'a [u8]) -> Self {
        Fields { message, rest: bytes }
    }

    pub(super) fn malformed(&self, why: &'static str) -> RawError {
        RawError::Malformed { message: self.message, why }
    }

    pub(super) fn bytes(&mut self, n: usize) -> Result<&'a [u8], RawError> {
        let (taken, rest) =
            self.rest.split_at_checked(n).ok_or_else(|| self.malformed("it is truncated"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a number of at most four bytes.
    fn number(&mut self, width: usize) -> Result<usize, RawError> {
        Ok(self.bytes(width)?.iter().fold(0, |value, &byte| value << 8 | usize::from(byte)))
    }

    pub(super) fn u8(&mut self) -> Result<u8, RawError> {
        Ok(self.bytes(1)?.first().copied().unwrap_or_default())
    }

    pub(super) fn u16(&mut self) -> Result<u16, RawError> {
        Ok(self.bytes(2)?.iter().fold(0, |value, &byte| value << 8 | u16::from(byte)))
    }

    /// Reads bytes behind their length, which has `width` bytes.
    pub(super) fn prefixed(&mut self, width: usize) -> Result<&'a [u8], RawError> {
        let length = self.number(width)?;
        self.bytes(length)
    }

    /// Reads a list behind its length as fields of the same message.
    pub(super) fn list(&mut self, width: usize) -> Result<Fields<'a>, RawError> {
        Ok(Fields { message: self.message, rest: self.prefixed(width)? })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails if bytes are left.
    pub(super) fn end(&self) -> Result<(), RawError> {
        if self.is_empty() { Ok(()) } else { Err(self.malformed("bytes follow its last field")) }
    }
}
