//! How records stand in a segment.
//!
//! ```text
//!   head    at 0       "gabaudit"  format (4)  moved (4)  log's id (16)  segment's number (8)  first record (8)  check (8)
//!   frame   from 4096  "GAF1"  length (4)  index (8)  synced (8)  check (8)  salt (32)  record  zeros up to 8
//! ```
//!
//! Numbers are little-endian. `moved` is 1 where the head is all that is here: the segment is in an archive. `synced` says how many records were synced when this one was written: where a frame is broken
//! and a later one says that it was synced, that is damage and no torn end.

use sha2::{Digest, Sha256};

use super::tree::Hash;

/// Where the first frame stands.
pub const START: u64 = 4096;

/// Bytes of a head.
pub const HEAD: usize = 56;

/// Bytes of a frame before its record.
pub const BEFORE: usize = 64;

const MAGIC: &[u8; 8] = b"gabaudit";
const FORMAT: u32 = 1;
const FRAME: &[u8; 4] = b"GAF1";

/// What a segment's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which log.
    pub log: [u8; 16],
    /// Which segment of it.
    pub number: u64,
    /// The index of its first record.
    pub first: u64,
    /// Whether the segment was moved to an archive, and this is what is left of it.
    pub is_moved: bool,
}

impl Head {
    /// Writes it.
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

    /// Reads one; none of what is no head.
    pub fn decode(bytes: &[u8; HEAD]) -> Option<Self> {
        let mut log = [0; 16];
        log.copy_from_slice(&bytes[16..32]);
        let (number, first) = (number(&bytes[32..40]), number(&bytes[40..48]));
        let head = Head { log, number, first, is_moved: bytes[12] == 1 };
        (head.encode() == *bytes).then_some(head)
    }
}

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which record.
    pub index: u64,
    /// How many records were synced when it was written.
    pub synced: u64,
    /// What the record is hashed with.
    pub salt: &'a [u8; 32],
    /// The record.
    pub record: &'a [u8],
    /// SHA-256 of salt and record.
    pub entry: Hash,
}

/// Bytes of a frame of a record of some bytes.
pub fn len(record: usize) -> usize {
    (BEFORE + record).next_multiple_of(8)
}

/// SHA-256 of salt and record.
pub fn entry(salt: &[u8; 32], record: &[u8]) -> Hash {
    Sha256::new().chain_update(salt).chain_update(record).finalize().into()
}

/// Appends a frame to others.
pub fn encode(out: &mut Vec<u8>, log: &[u8; 16], frame: &Frame<'_>) {
    let start = out.len();
    out.extend_from_slice(FRAME);
    // A record has RECORD_MAX bytes at most.
    out.extend_from_slice(&(frame.record.len() as u32).to_le_bytes());
    out.extend_from_slice(&frame.index.to_le_bytes());
    out.extend_from_slice(&frame.synced.to_le_bytes());
    let check = check(LABEL, &[log, &out[start..], &frame.entry]);
    out.extend_from_slice(&check);
    out.extend_from_slice(frame.salt);
    out.extend_from_slice(frame.record);
    out.resize(start + len(frame.record.len()), 0);
}

/// Reads the frame at the beginning of some bytes, and how many of them it takes; none of what is no frame of this log.
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

/// The first eight bytes of a SHA-256.
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
