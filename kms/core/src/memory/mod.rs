//! Where secrets are in memory, and what else a process does so that they stay there.
//!
//! ```text
//!   root key, root keys of tokens,      pages of their own: memfd_secret, which not even the kernel maps
//!   key of the log's digests            '--> none: locked anonymous memory '--> none: anonymous memory
//!                                       never in a core dump, never in a forked child
//!   expanded keys, what is decrypted    the heap: locked as a whole by `lock_process`, never dumped by `no_dumps`
//! ```
//!
//! Why it is so stands in docs/adr/0066-memory-of-the-kms.md.

#[allow(unsafe_code, reason = "mappings; each call says why it is sound")]
mod pages;
mod process;

pub(crate) use pages::Pages;
pub use pages::Place;
pub use process::{Lock, is_swap_on, lock_process, no_dumps};
