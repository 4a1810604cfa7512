//! Stores: records with generations, changed by guarded transactions.
//!
//! ```text
//!   Transaction { guards, writes } --Store::commit--> Committed(revision)   applied, as durable as Caps says
//!                                                     Conflict(path)        another generation; nothing was applied
//!                                                     Unknown               outcome unknown; settle() finds out
//!                                                     Err                   nothing was applied, and never will be
//! ```
//!
//! - Each record has a generation, which counts its writes from 1. A write names the generation
//!   that it replaces, so there are no blind writes, and a repeated transaction cannot be applied
//!   twice.
//! - Records are never deleted. A record can be replaced by a tombstone: its value is removed, its
//!   generation stays, and it cannot be written again.
//! - Stores block. An asynchronous implementation, such as a database client, needs its own
//!   runtime.
//!
//! [`conformance`] tests stores against this contract, also under faults.

pub mod conformance;
mod contract;
mod memory;
mod records;
mod settle;
mod sim;
mod sqlite;
mod terms;
pub mod testing;

pub use contract::{Conflict, Outcome, ScannedRecord, Store, Visit};
pub use memory::MemoryStore;
pub use records::{Guard, PATH_MAX, Page, ReadResult, Record, RecordPath, Transaction, Write};
pub use settle::{SettleOutcome, settle};
pub use sim::{Faults, Sim};
pub(crate) use sqlite::{BackupCopy, Head, NumberedRecord};
pub use sqlite::{Options, SqliteStore};
pub use terms::{Caps, Durability, FORMAT, Identity, Revision, StoreError};
