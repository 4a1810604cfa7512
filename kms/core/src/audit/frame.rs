//! The format of segments.
//!
//! ```text
//!   head    at 0       "gabaudit"  format (4)  moved (4)  log's id (16)  segment's number (8)  first record (8)  check (8)
//!   frame   from 4096  "GAF1"  length (4)  index (8)  synced (8)  check (8)  salt (32)  record  zeros up to 8
//! ```
//!
//! Numbers are little-endian. `moved` is 1 if the file has only the head: the segment is in the
//! archive. `synced` is the number of records that were synced when this frame was written. It
//! distinguishes damage from a torn end: a broken frame is damage if a later frame says that it was
//! synced.

use sha2::{Digest, Sha256};

use super::tree::Hash;

/// The offset of the first frame.
pub const START: u64 = 4096;

/// The size of a head in bytes.
pub const HEAD: usize = 56;

/// The size of a frame's header in bytes, before the record.
pub const BEFORE: usize = 64;

const MAGIC: &[u8; 8] = b"gabaudit";
const FORMAT: u32 = 1;
const FRAME: &[u8; 4] = b"GAF1";

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The log's id.
    pub log: [u8; 16],
    /// The segment's number.
    pub number: u64,
    /// The index of the first record.
    pub first: u64,
    /// Whether the segment was moved to the archive, and only the head is left.
    pub is_moved: bool,
}

impl Head {
    /// Encodes the head.
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12] = self.is_moved.into();
        bytes[16..32].copy_from_slice(&self.log);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first.to_le_bytes());
        let check = check(b"gabion audit head 1\0", &[&bytes[..48]]);
        bytes[48..].copy_from_slice(&check);
        bytes
    }

    /// Decodes a head; `None` if it is malformed.
    pub fn decode(bytes: &[u8; HEAD]) -> Option<Self> {
        let mut log = [0; 16];
        log.copy_from_slice(&bytes[16..32]);
        let (number, first) = (number(&bytes[32..40]), number(&bytes[40..48]));
        let head = Head { log, number, first, is_moved: bytes[12] == 1 };
        (head.encode() == *bytes).then_some(head)
    }
}

/// A decoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The record's index.
    pub index: u64,
    /// The number of records that were synced when the frame was written.
    pub synced: u64,
    /// The salt of the record's hash.
    pub salt: &'a [u8; 32],
    /// The record.
    pub record: &'a [u8],
    /// The SHA-256 of salt and record.
    pub entry: Hash,
}

/// Returns the size of a frame with a record of `record` bytes.
pub fn len(record: usize) -> usize {
    (BEFORE + record).next_multiple_of(8)
}

/// Returns the SHA-256 of salt and record.
pub fn entry(salt: &[u8; 32], record: &[u8]) -> Hash {
    Sha256::new().chain_update(salt).chain_update(record).finalize().into()
}

/// Appends a frame to `out`.
pub fn encode(out: &mut Vec<u8>, log: &[u8; 16], frame: &Frame<'_>) {
    let start = out.len();
    out.extend_from_slice(FRAME);
    // A record has at most `RECORD_MAX` bytes.
    out.extend_from_slice(&(frame.record.len() as u32).to_le_bytes());
    out.extend_from_slice(&frame.index.to_le_bytes());
    out.extend_from_slice(&frame.synced.to_le_bytes());
    let check = check(LABEL, &[log, &out[start..], &frame.entry]);
    out.extend_from_slice(&check);
    out.extend_from_slice(frame.salt);
    out.extend_from_slice(frame.record);
    out.resize(start + len(frame.record.len()), 0);
}

/// Decodes the frame at the beginning of `bytes`. Returns the frame and its size; `None` if it is
/// not a valid frame of this log.
pub fn decode<'a>(bytes: &'a [u8], log: &[u8; 16]) -> Option<(Frame<'a>, usize)> {
    let (before, _) = bytes.split_first_chunk::<BEFORE>()?;
    if !before.starts_with(FRAME) {
        return None;
    }
    let mut four = [0; 4];
    four.copy_from_slice(&before[4..8]);
    let record = u32::from_le_bytes(four) as usize;
    let whole = bytes.get(..len(record))?;
    let salt = whole[32..].first_chunk::<32>()?;
    let (record, zeros) = whole[BEFORE..].split_at(record);
    let entry = entry(salt, record);
    let is_whole = check(LABEL, &[log, &before[..24], &entry]) == before[24..32]
        && zeros.iter().all(|&byte| byte == 0);
    let (index, synced) = (number(&before[8..16]), number(&before[16..24]));
    is_whole.then_some((Frame { index, synced, salt, record, entry }, whole.len()))
}

const LABEL: &[u8] = b"gabion audit frame 1\0";

/// Returns the first eight bytes of a SHA-256, as a checksum.
fn check(label: &[u8], parts: &[&[u8]]) -> [u8; 8] {
    let mut hash = Sha256::new_with_prefix(label);
    parts.iter().for_each(|part| hash.update(part));
    let mut check = [0; 8];
    check.copy_from_slice(&hash.finalize()[..8]);
    check
}

fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(bytes);
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written_and_no_other_is() {
        let (log, salt, record) = ([1; 16], [2; 32], &b"{\"a\":1}"[..]);
        let frame = Frame { index: 7, synced: 5, salt: &salt, record, entry: entry(&salt, record) };
        let mut bytes = Vec::new();
        encode(&mut bytes, &log, &frame);
        assert_eq!(bytes.len(), len(record.len()));
        assert_eq!(decode(&bytes, &log), Some((frame, bytes.len())));
        assert_eq!(decode(&bytes, &[3; 16]), None);
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&other, &log), None, "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end], &log), None);
        }
        assert_eq!(decode(&[0; 128], &log), None);
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_no_other_is() {
        for is_moved in [false, true] {
            let head = Head { log: [1; 16], number: 3, first: 1000, is_moved };
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes), Some(head));
            for bit in 0..8 * bytes.len() {
                let mut other = bytes;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Head::decode(&other), None, "bit {bit}");
            }
        }
    }
}
