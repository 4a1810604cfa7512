//! The state of keys that signing uses up (LMS, HSS), in files: which indexes are used, so that none is used twice.
//!
//! ```text
//!   KEY         the private key; never changes          KEY.lock   the kernel's lock; never renamed
//!   KEY.state   what is used: two slots, in place       KEY.log    what was signed; only grows
//!   KEY.trees   trees, which can be made again
//!   elsewhere:  anchors, each of which saw the newest state
//!
//!   FilesLedger::reserve --> state, synced --> each anchor, synced --> indexes
//! ```
//!
//! [`FilesLedger`] is a [`Ledger`](gabion_engine::keys::stateful::Ledger). An index leaves it only after its
//! reservation is durable in the state and in every anchor. A copy of a key's folder lacks the anchors; an older
//! one is older than they are; both are refused, and a refusal changes nothing.
//!
//! What it asks of the world goes through two seams: [`Disk`], each call of which may fail, tear or be the last one
//! before the power is gone, and [`Machine`]. docs/state.md says which faults are survived, and which are not
//! noticed.

#![forbid(unsafe_code)]

mod anchor;
mod backup;
mod disk;
mod files;
mod keys;
mod ledger;
mod lock;
mod log;
mod machine;
mod record;
mod registry;
mod slots;
mod trees;

pub use anchor::{Anchor, FileAnchor};
pub use backup::{backup, restore};
pub use disk::{Access, Disk, DiskFile, Identity, RealDisk, read_full, write_all};
pub use files::{Paths, Surroundings};
pub use keys::{NewKey, Reuse, Status, audit, create, log, recover, status};
pub use ledger::{FilesLedger, Opened, Options};
pub use log::Line;
pub use machine::{Machine, Process, ThisMachine};
pub use record::{KeyId, Mark, Stamp};
pub use trees::Trees;
