//! What is kept: records with generations, changed by guarded transactions.
//!
//! ```text
//!   Transaction { guards, writes } --Store::commit--> Committed(revision)   all of it is there, as durable as Caps says
//!                                                     Conflict(path)        a generation was another; nothing is there
//!                                                     Unknown               nobody knows; settle() finds out
//!                                                     Err                   nothing is there, and never will be
//! ```
//!
//! - Each record has a generation, which counts its writes from 1. A write names the generation that it replaces, so
//!   there is no blind write, and a transaction that is sent again can't happen twice.
//! - Nothing is deleted. A record may be buried: its value goes, its generation stays, and nothing is written there again.
//! - A store blocks. What is asynchronous below one (a client of a database) has its own runtime.
//!
//! [`conformance`] holds every store to this, and to what it may say under faults.

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
