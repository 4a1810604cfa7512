//! Copies of a store that nobody reads who has nothing but them.
//!
//! ```text
//!   records of one revision --> 64 KiB each --AES-256-GCM-SIV, STREAM--> FOLDER/TIME.backup
//!                                                  |
//!                 key of the period, in another folder, and the file's salt --HKDF--> key of the file
//! ```
//!
//! - The store is used meanwhile: what is replaced before it was read is kept until it was.
//! - A period is some days. Each has a key of its own, drawn when its first backup is made: whoever destroys that makes all
//!   backups of the period unreadable, wherever copies of them are.
//! - A backup is read to its end before anything is made of it: chunks that are missing, exchanged or of another file are
//!   noticed, and the end, too.
//! - What a backup holds is sealed by the root key besides: its paths alone are not.

mod file;
mod periods;

#[doc(hidden)]
pub use file::testing_only_sealed;
pub use file::{Backup, WrittenBackup, check, restore, write, write_on};
pub use periods::{Period, PeriodKey, Periods, is_within, make_folder};
