//! What was done: a log that is only appended to, whose records nobody changes or leaves out unnoticed.
//!
//! ```text
//!   Record --JSON--> record                      entry = SHA-256(salt || record)       32 bytes of salt a record
//!                                                leaf  = SHA-256(0x00 || entry)        RFC 6962, 2.1
//!   append --> segment, preallocated --> (durable: synced) --> answer
//!
//!   FOLDER/segment-00000000   salts and records, in frames     what everything else can be made of again
//!         /tile/0/x001/067    hashes of the tree, 256 a file   C2SP tlog-tiles
//!         /tile/entries/000   the entries, 256 a file
//!         /checkpoint         size and root, signed            C2SP tlog-checkpoint: Ed25519, and ML-DSA-44 (0x06)
//! ```
//!
//! - A record is told of only after it is written: by a kill no record is lost that was, and by a power cut none that
//!   was appended as [`Class::Durable`].
//! - The log has no thread. Whoever appends writes; of those who wait for the disk, one syncs for all.
//! - What can't be written is an error, and so is everything after it until the log is opened again.
//! - Segments that are full may be moved to an archive; the entries and tiles of their records stay.
//! - An entry has a salt, so that one who has the tiles alone can't guess a record.

mod archive;
mod frame;
mod log;
mod memory;
mod memory_limit;
mod note;
mod open;
mod record;
mod segment;
mod sync;
mod tiles;
mod tree;
mod verify;

pub use archive::{ArchiveReport, Keep};
pub use log::{Class, Log, Options};
pub use memory::MemoryDisk;
pub use note::{Checkpoint, Keys, Verifier};
pub use record::{Change, Digest, Outcome, RECORD_MAX, Record, Setting};
pub use segment::Entry;
pub use tree::Hash;
pub use verify::{Proof, Recount, VerifiedLog, verify};

pub use crate::error::AuditError;
