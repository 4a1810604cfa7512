//! A file system behind a trait, so that tests can simulate its failures.
//!
//! ```text
//!   state, kms/core --> Disk, DiskFile --> RealDisk              the operating system
//!                                      '-> testing::HookedDisk   the operating system, with a hook at each call
//!                                      '-> testing::faulty       simulated: power cuts, torn writes, full disks
//! ```
//!
//! The module `testing` needs the Cargo feature of the same name.

#![forbid(unsafe_code)]

mod disk;
#[cfg(feature = "testing")]
pub mod testing;

pub use disk::{Access, Disk, DiskFile, Identity, RealDisk, read_full, write_all};
