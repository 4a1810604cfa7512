//! Records that only an unsealed process reads, and the ways to unseal it.
//!
//! ```text
//!   share, share, share --Shamir--+                       HKDF-SHA-256(root, store's id, path)
//!   passphrase --Argon2id---------+--> key of a slot --> root key --> key of a record --> AES-256-GCM-SIV
//!                                                                     data beside it: store, path, root's version, generation
//! ```
//!
//! - The root key is drawn once. Each slot of `seal/config` has it, wrapped by another key. Other passphrases and shares
//!   wrap it anew; no record is touched.
//! - A record that is exchanged for another one's, for that of another store or for an older one of its own does not open,
//!   as long as its generation is the store's.
//! - The manifest has a keyed hash of each family of records. It changes in the transaction of each change, and is compared
//!   when the store opens: records that were removed, added or put back are noticed. A store that was put back as a whole
//!   is not noticed here; the audit log tells of a newer revision then.
//! - There always is a recovery set of shares. It alone changes the slots. Slots are dealt first, and adopted by the
//!   shares that were handed out.
//! - A share may be wrapped for whoever is to hold it; nobody else reads it then, but the process that dealt it.

mod authenticated_store;
mod config;
mod holder;
mod manifest;
mod offline;
mod record;
mod share;
mod slot;

pub use authenticated_store::{AuthenticatedStore, Upgrade};
pub use config::{
    PendingSeal, Shares, Slots, UnsealMethod, change_slots, init, is_initialised, is_of_its_set,
    recovery, unseal,
};
pub use holder::{Holder, WrappedShare, check_holders, wrap};
pub use offline::{open_share, parse_holder};
pub use record::Sealer;
pub use share::Share;
pub use slot::{Cost, Key};
