//! Two slots in a file of constant length, written in place alternately.
//!
//! ```text
//!   0 .. base       whatever else the file holds
//!   base            slot 0, in a separate block     [ magic | generation | payload | SHA-256 ]
//!   base + 4096     slot 1                          the newest valid one counts
//! ```
//!
//! A torn write leaves the other slot intact: no write touches the block of the newest record.
//! Writing in place avoids the additional commit of the file system's journal that growing or
//! renaming a file needs.
//!
//! If the newest record is damaged later, the older one is read. In KEY.state it is refused by
//! every anchor that was raised to the lost generation, and by a log with an index at or above its
//! `next`. Before the first anchor was raised, no index of that generation was released.

use std::io;

use gabion_disk::{DiskFile, read_full, write_all};
use gabion_engine::keys::stateful::digest_of;

/// Block size in bytes: a torn write does not damage the neighbouring block.
pub const BLOCK: u64 = 4096;
/// Payload size in bytes, for all kinds of records.
pub const PAYLOAD: usize = 192;
const RECORD: usize = 8 + 8 + PAYLOAD + 32;

/// The content of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Increases with each record and is never reused.
    pub generation: u64,
    /// The payload.
    pub payload: [u8; PAYLOAD],
}

/// The two slots of an open file.
pub struct Slots {
    file: Box<dyn DiskFile>,
    base: u64,
    magic: [u8; 8],
    /// The slot of the newest record.
    newest: usize,
}

impl Slots {
    /// Returns the slots of a file that has not been read yet.
    pub fn new(file: Box<dyn DiskFile>, base: u64, magic: [u8; 8]) -> Self {
        Slots { file, base, magic, newest: 0 }
    }

    /// Reads both slots. Returns `None` if neither is valid.
    pub fn open(
        file: Box<dyn DiskFile>,
        base: u64,
        magic: [u8; 8],
    ) -> io::Result<(Self, Option<Record>)> {
        let mut slots = Slots::new(file, base, magic);
        let newest = slots.read()?;
        Ok((slots, newest))
    }

    /// Initializes a new file: fills it with zeros and writes the first record. The caller syncs.
    pub fn create(
        file: Box<dyn DiskFile>,
        head: &[u8],
        magic: [u8; 8],
        first: &Record,
    ) -> io::Result<Self> {
        let base = (head.len() as u64).next_multiple_of(BLOCK);
        let mut bytes = head.to_vec();
        bytes.resize((base + 2 * BLOCK) as usize, 0);
        write_all(&*file, &bytes, 0)?;
        let slots = Slots::new(file, base, magic);
        slots.put(0, first)?;
        Ok(slots)
    }

    /// Reads the newest record from the file.
    pub fn read(&mut self) -> io::Result<Option<Record>> {
        let both = [self.get(0)?, self.get(1)?];
        self.newest = usize::from(generation(&both[1]) > generation(&both[0]));
        let [zero, one] = both;
        Ok(if self.newest == 0 { zero } else { one })
    }

    /// Writes a record to the slot that does not hold the newest one. The caller syncs.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let slot = 1 - self.newest;
        self.put(slot, record)?;
        self.newest = slot;
        Ok(())
    }

    /// Writes the newest record again unchanged, because the data that was read may not be on the
    /// disk.
    pub fn write_again(&self, record: &Record) -> io::Result<()> {
        self.put(self.newest, record)
    }

    /// Returns the file.
    pub fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    fn get(&self, slot: usize) -> io::Result<Option<Record>> {
        let mut bytes = [0; RECORD];
        let read = read_full(&*self.file, &mut bytes, self.base + slot as u64 * BLOCK)?;
        let (record, sum) = bytes.split_at(RECORD - 32);
        if read < RECORD || record[..8] != self.magic || digest_of(record) != sum {
            return Ok(None);
        }
        let mut payload = [0; PAYLOAD];
        payload.copy_from_slice(&record[16..]);
        let mut generation = [0; 8];
        generation.copy_from_slice(&record[8..16]);
        Ok(Some(Record { generation: u64::from_be_bytes(generation), payload }))
    }

    fn put(&self, slot: usize, record: &Record) -> io::Result<()> {
        let generation = record.generation.to_be_bytes();
        let mut bytes = [&self.magic[..], &generation, &record.payload].concat();
        bytes.extend_from_slice(&digest_of(&bytes));
        write_all(&*self.file, &bytes, self.base + slot as u64 * BLOCK)
    }
}

fn generation(record: &Option<Record>) -> Option<u64> {
    record.as_ref().map(|record| record.generation)
}
