//! The seal: records that only an unsealed process can read, and the ways to unseal it.
//!
//! ```text
//!   share, share, share --Shamir--+                       HKDF-SHA-256(root, store's id, path)
//!   passphrase --Argon2id---------+--> key of a slot --> root key --> key of a record --> AES-256-GCM-SIV
//!                                                        associated data: store, path, root's version, generation
//! ```
//!
//! - The root key is drawn once. Each slot of `seal/config` contains it, wrapped by another key.
//!   Changing passphrases and shares wraps it again and touches no record.
//! - A record that is replaced by another record, by one of another store or by an older version of
//!   itself does not open, as long as the store's generation of it is unchanged.
//! - The manifest has a keyed hash of each family of records. Each transaction updates it, and
//!   opening the store compares it with the records. So removed, added and rolled-back records are
//!   detected. The manifest does not detect the rollback of a whole store; the audit log does, by
//!   its newer revision.
//! - Every seal has a recovery set of shares, and only this set authorizes a change of the slots.
//!   New slots are dealt first, and adopted when enough of the new shares were given back.
//! - A share may be wrapped for its holder. Then only the holder and the dealing process can read
//!   it.

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
