//! The memory of secrets, and the protection of the process that holds them.
//!
//! ```text
//!   root key, root keys of tokens,      separate pages: memfd_secret, which not even the kernel maps
//!   key of the log's digests            '--> else: locked anonymous memory '--> else: anonymous memory
//!                                       never in a core dump, never in a forked child
//!   expanded keys, plaintexts           the heap: locked as a whole by `lock_process`, never dumped due to `no_dumps`
//! ```
//!
//! docs/adr/0066-memory-of-the-kms.md explains the reasons.

#[allow(unsafe_code, reason = "mappings; each call says why it is sound")]
mod pages;
mod process;

pub(crate) use pages::Pages;
pub use pages::Place;
pub use process::{Lock, is_swap_on, lock_process, no_dumps};
