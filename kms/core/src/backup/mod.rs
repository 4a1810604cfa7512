//! Encrypted backups of a store.
//!
//! ```text
//!   records of one revision --> 64 KiB each --AES-256-GCM-SIV, STREAM--> FOLDER/TIME.backup
//!                                                  |
//!                 key of the period, in another folder, and the file's salt --HKDF--> key of the file
//! ```
//!
//! - The store stays in use during a backup: records that are replaced before they were read are
//!   kept until then.
//! - A period lasts some days and has its own key, generated with its first backup. Destroying the
//!   key makes all backups of the period unreadable, including all copies.
//! - A restore reads the backup to its end before it creates a store: missing and swapped chunks,
//!   chunks of other files and a truncated end are detected.
//! - The records in a backup are sealed by the root key as well; only their paths are not.

mod file;
mod periods;

#[doc(hidden)]
pub use file::testing_only_sealed;
pub use file::{Backup, WrittenBackup, check, restore, write, write_on};
pub use periods::{Period, PeriodKey, Periods, is_within, make_folder};
