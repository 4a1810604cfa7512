//! The audit log: an append-only, signed log of operations, in which changed or missing records are
//! detected.
//!
//! ```text
//!   Record --JSON--> record                      entry = SHA-256(salt || record)       32 bytes of salt a record
//!                                                leaf  = SHA-256(0x00 || entry)        RFC 6962, 2.1
//!   append --> segment, preallocated --> (durable: synced) --> answer
//!
//!   FOLDER/segment-00000000   salts and records, in frames     everything else can be rebuilt from these
//!         /tile/0/x001/067    hashes of the tree, 256 a file   C2SP tlog-tiles
//!         /tile/entries/000   the entries, 256 a file
//!         /checkpoint         size and root, signed            C2SP tlog-checkpoint: Ed25519, and ML-DSA-44 (0x06)
//! ```
//!
//! - An operation is answered only after its record is written. A kill loses no record of an
//!   answered operation, and a power failure loses none that was appended as [`Class::Durable`].
//! - The log starts no threads. The appending thread writes; of the threads that wait for the disk,
//!   one syncs for all.
//! - A failed write is an error, and so is every later write until the log is opened again.
//! - Full segments may be moved to an archive; the entries and tiles of their records stay.
//! - Each entry has a salt, so that records cannot be guessed from the tiles.

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
