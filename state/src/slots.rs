//! Two slots in a file that is as long as it will ever be, written in place by turns.
//!
//! ```text
//!   0 .. base       whatever else the file holds
//!   base            slot 0, in a block of its own   [ magic | generation | payload | SHA-256 ]
//!   base + 4096     slot 1                          the newest valid one counts
//! ```
//!
//! A write that is torn leaves the other slot as it was: no write touches the block of the newest record. In
//! place, since a file that grows, or a new one that is renamed, takes a commit of the file system's journal
//! besides.

use std::io;

use gabion_disk::{DiskFile, read_full, write_all};
use gabion_engine::keys::stateful::digest_of;

/// Bytes of a block: what no disk tears a neighbour of.
pub const BLOCK: u64 = 4096;
/// Bytes of a payload, of all kinds.
pub const PAYLOAD: usize = 192;
const RECORD: usize = 8 + 8 + PAYLOAD + 32;

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts up, and never comes again.
    pub generation: u64,
    /// What it says.
    pub payload: [u8; PAYLOAD],
}

/// The two slots of an open file.
pub struct Slots {
    file: Box<dyn DiskFile>,
    base: u64,
    magic: [u8; 8],
    /// Where the newest record is.
    newest: usize,
}

impl Slots {
    /// Of a file that has them, or should.
    pub fn new(file: Box<dyn DiskFile>, base: u64, magic: [u8; 8]) -> Self {
        Slots { file, base, magic, newest: 0 }
    }

    /// Reads both. None where neither is valid.
    pub fn open(
        file: Box<dyn DiskFile>,
        base: u64,
        magic: [u8; 8],
    ) -> io::Result<(Self, Option<Record>)> {
        let mut slots = Slots::new(file, base, magic);
        let newest = slots.read()?;
        Ok((slots, newest))
    }

    /// Fills a new file with zeros up to its end, and writes the first record. The caller syncs.
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

    /// The newest record, as the file has it now.
    pub fn read(&mut self) -> io::Result<Option<Record>> {
        let both = [self.get(0)?, self.get(1)?];
        self.newest = usize::from(generation(&both[1]) > generation(&both[0]));
        let [zero, one] = both;
        Ok(if self.newest == 0 { zero } else { one })
    }

    /// Writes a record into the slot that is not the newest. The caller syncs.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let slot = 1 - self.newest;
        self.put(slot, record)?;
        self.newest = slot;
        Ok(())
    }

    /// Writes the newest record once more, as it is: what was read may never have got to the disk.
    pub fn write_again(&self, record: &Record) -> io::Result<()> {
        self.put(self.newest, record)
    }

    /// The file.
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
