//! The contents of the files: the head and the records of KEY.state, and the mark of an anchor.
//!
//! ```text
//!   state    generation | stamp | stamp before | next | boot | machine | log: bytes that are durable, their chain | imported | lifecycle
//!   mark     generation | stamp |              | next | lifecycle
//! ```
//!
//! Each generation has a stamp of 16 random bytes and contains the previous generation's stamp. A
//! copied state that was used separately is therefore distinguishable from the original, even if
//! both have the same generation number.

use gabion_engine::keys::stateful::{LedgerError, digest_of};

use crate::slots::{BLOCK, PAYLOAD, Record};

/// The id of a key: SHA-256 of its public key.
pub type KeyId = [u8; 32];
/// A random value that distinguishes generations with the same number.
pub type Stamp = [u8; 16];

/// The stamp that no generation has. A new or recovered generation has it as its previous stamp, so
/// that no anchor is one generation behind it.
pub const NO_STAMP: Stamp = [0; 16];

/// The magic number of KEY.state.
pub const STATE_MAGIC: [u8; 8] = *b"gabstat1";
/// The magic number of an anchor.
pub const ANCHOR_MAGIC: [u8; 8] = *b"gabanch1";
const HEAD_MAGIC: [u8; 8] = *b"gabhead1";

/// The immutable part of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The key.
    pub key: KeyId,
    /// The first index of this state.
    pub first: u64,
    /// The index after the last one.
    pub end: u64,
    /// Warn when this many signatures remain.
    pub warn_at: u64,
    /// Whether the state may be on a network file system.
    pub allow_network: bool,
    /// The absolute paths of the anchors; empty for the default place of the user who opens the
    /// key.
    pub anchors: Vec<String>,
}

/// A generation of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The number of the generation.
    pub generation: u64,
    /// The stamp of this generation.
    pub stamp: Stamp,
    /// The stamp of the previous generation; [`NO_STAMP`] for a new or recovered key.
    pub previous_stamp: Stamp,
    /// The first index that was never reserved.
    pub next: u64,
    /// The boot of the machine that wrote this generation.
    pub boot: [u8; 32],
    /// The machine that wrote this generation.
    pub machine: [u8; 32],
    /// The durable length of the log in bytes.
    pub log_len: u64,
    /// The chain value of the log at that length.
    pub log_chain: Stamp,
    /// The number of indexes below `next` that were used elsewhere before the key was imported.
    pub imported: u64,
    /// Whether the key may still sign with this state.
    pub lifecycle: Lifecycle,
}

/// The content of an anchor, derived from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The key.
    pub key: KeyId,
    /// The state's generation; higher than it if the key no longer signs with this anchor.
    pub generation: u64,
    /// The stamp of the state.
    pub stamp: Stamp,
    /// The next index of the state.
    pub next: u64,
    /// Whether the key may still sign with this anchor.
    pub lifecycle: Lifecycle,
}

/// Whether a key may sign or has left this home. Later variants are harder to undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifecycle {
    /// It may sign.
    #[default]
    Active,
    /// The key no longer signs here; the backup of the hand-over may not have its name yet.
    HandingOver,
    /// The key no longer signs here; it was handed over to another host with a backup.
    HandedOver,
    /// The key never signs here again.
    Retired,
}

impl Lifecycle {
    fn code(self) -> u8 {
        match self {
            Lifecycle::Active => 0,
            Lifecycle::HandingOver => 1,
            Lifecycle::HandedOver => 2,
            Lifecycle::Retired => 3,
        }
    }

    /// Decodes a lifecycle. An unknown code forbids signing, too.
    fn of_code(code: u8) -> Self {
        match code {
            0 => Lifecycle::Active,
            1 => Lifecycle::HandingOver,
            2 => Lifecycle::HandedOver,
            _ => Lifecycle::Retired,
        }
    }
}

impl Head {
    /// Encodes the head into exactly one block.
    pub fn encode(&self) -> Result<Vec<u8>, LedgerError> {
        let mut bytes = HEAD_MAGIC.to_vec();
        bytes.extend_from_slice(&self.key);
        for number in [self.first, self.end, self.warn_at, u64::from(self.allow_network)] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let anchors = self.anchors.join("\n");
        bytes.extend_from_slice(&(anchors.len() as u64).to_be_bytes());
        bytes.extend_from_slice(anchors.as_bytes());
        bytes.extend_from_slice(&digest_of(&bytes));
        if bytes.len() as u64 > BLOCK {
            let reason = "the names of the anchors are too long together".to_owned();
            return Err(LedgerError::Unavailable(reason));
        }
        bytes.resize(BLOCK as usize, 0);
        Ok(bytes)
    }

    /// Decodes the head. Returns `None` if it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let magic: [u8; 8] = reader.array()?;
        let key = reader.array()?;
        let numbers = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
        let [first, end, warn_at, allow_network] = numbers;
        let len = usize::try_from(reader.u64()?).ok()?;
        let anchors = std::str::from_utf8(reader.bytes(len)?).ok()?;
        let said = bytes.len() - reader.0.len();
        let is_whole = magic == HEAD_MAGIC && reader.array() == Some(digest_of(&bytes[..said]));
        let anchors = anchors.split('\n').map(str::to_owned).collect();
        is_whole.then_some(Head {
            key,
            first,
            end,
            warn_at,
            allow_network: allow_network != 0,
            anchors,
        })
    }
}

impl State {
    /// Encodes the state as a slot record.
    pub fn record(&self, key: &KeyId) -> Record {
        let fields = [
            &key[..],
            &self.stamp,
            &self.previous_stamp,
            &self.next.to_be_bytes(),
            &self.boot,
            &self.machine,
            &self.log_len.to_be_bytes(),
            &self.log_chain,
            &self.imported.to_be_bytes(),
            &[self.lifecycle.code()],
        ];
        Record { generation: self.generation, payload: payload(&fields) }
    }

    /// Decodes a slot record. Returns `None` if it belongs to another key.
    pub fn from_record(record: &Record, key: &KeyId) -> Option<Self> {
        let mut reader = Reader(&record.payload);
        if reader.array::<32>()? != *key {
            return None;
        }
        Some(State {
            generation: record.generation,
            stamp: reader.array()?,
            previous_stamp: reader.array()?,
            next: reader.u64()?,
            boot: reader.array()?,
            machine: reader.array()?,
            log_len: reader.u64()?,
            log_chain: reader.array()?,
            // Zero in states written by versions up to 18f74786.
            imported: reader.u64()?,
            lifecycle: Lifecycle::of_code(reader.array::<1>()?[0]),
        })
    }

    /// Returns the maximum number of indexes from `first` on that were reserved but signed nothing,
    /// given the number of signatures in the log.
    pub fn burned_count(&self, first: u64, reserved_until: u64, signed: u64) -> u64 {
        (reserved_until - first).saturating_sub(self.imported).saturating_sub(signed)
    }

    /// Returns the mark for the anchors.
    pub fn mark(&self, key: &KeyId) -> Mark {
        let State { generation, stamp, next, .. } = *self;
        Mark { key: *key, generation, stamp, next, lifecycle: Lifecycle::Active }
    }
}

impl Mark {
    /// Encodes the mark as a slot record.
    pub fn record(&self) -> Record {
        let lifecycle = [self.lifecycle.code()];
        let fields = [&self.key[..], &self.stamp, &self.next.to_be_bytes(), &lifecycle];
        Record { generation: self.generation, payload: payload(&fields) }
    }

    /// Decodes a slot record of any key.
    pub fn from_record(record: &Record) -> Option<Self> {
        let mut reader = Reader(&record.payload);
        let generation = record.generation;
        let (key, stamp, next) = (reader.array()?, reader.array()?, reader.u64()?);
        let [code] = reader.array()?;
        Some(Mark { key, generation, stamp, next, lifecycle: Lifecycle::of_code(code) })
    }
}

fn payload(fields: &[&[u8]]) -> [u8; PAYLOAD] {
    let mut payload = [0; PAYLOAD];
    let mut rest = &mut payload[..];
    for field in fields {
        let (here, behind) = rest.split_at_mut(field.len());
        here.copy_from_slice(field);
        rest = behind;
    }
    payload
}

/// A reader that consumes bytes from the front.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Returns the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// Returns the next number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_and_a_damaged_one_does_not() {
        let head = Head {
            key: [7; 32],
            first: 3,
            end: 99,
            warn_at: 5,
            allow_network: true,
            anchors: vec![String::new(), "/a/b".to_owned()],
        };
        let mut bytes = head.encode().unwrap();
        assert_eq!(Head::decode(&bytes), Some(head.clone()));
        let said = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for at in 0..said {
            bytes[at] ^= 4;
            assert_eq!(Head::decode(&bytes), None, "byte {at}");
            bytes[at] ^= 4;
        }
        let long = Head { anchors: vec!["x".repeat(4096)], ..head };
        assert!(long.encode().is_err());
    }

    #[test]
    fn a_state_comes_back_for_its_key_alone() {
        let state = State {
            generation: 9,
            stamp: [1; 16],
            previous_stamp: [2; 16],
            next: 77,
            boot: [3; 32],
            machine: [4; 32],
            log_len: 5,
            log_chain: [6; 16],
            imported: 7,
            lifecycle: Lifecycle::HandedOver,
        };
        let record = state.record(&[8; 32]);
        assert_eq!(State::from_record(&record, &[8; 32]), Some(state.clone()));
        assert_eq!(State::from_record(&record, &[9; 32]), None);
        let mark = state.mark(&[8; 32]);
        assert_eq!(Mark::from_record(&mark.record()), Some(mark));
    }

    #[test]
    fn a_lifecycle_comes_back_and_an_unknown_one_admits_no_signature() {
        use Lifecycle::*;
        for lifecycle in [Active, HandingOver, HandedOver, Retired] {
            let mark = Mark { key: [1; 32], generation: 2, stamp: [3; 16], next: 4, lifecycle };
            assert_eq!(Mark::from_record(&mark.record()), Some(mark));
        }
        let mark = Mark { key: [1; 32], generation: 2, stamp: [3; 16], next: 4, lifecycle: Active };
        let mut record = mark.record();
        record.payload[56] = 200;
        assert_eq!(Mark::from_record(&record).unwrap().lifecycle, Retired);
    }
}
