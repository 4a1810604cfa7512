//! The state of stateful signature keys (LMS, HSS, XMSS, XMSS^MT) in files: which indexes are used,
//! so that no index is used twice.
//!
//! ```text
//!   KEY         the private key; never changes          KEY.lock   the kernel's lock; never renamed
//!   KEY.state   what is used: two slots, in place       KEY.log    what was signed; only grows
//!   KEY.trees   trees, which can be made again          KEY.part   a key that is being made
//!   elsewhere:  anchors, each of which records the newest state
//!
//!   Signer ----> FilesLedger::reserve --> state, synced --> each anchor, synced --> indexes
//!     '--> StatefulKey of the engine: signatures, checked --> released
//! ```
//!
//! [`Signer`] is the entry point for signing from the command line, OpenSSL's provider, C and Rust.
//! [`GeneratedKey`] creates keys.
//!
//! [`FilesLedger`] is a [`Ledger`](gabion_engine::keys::stateful::Ledger). It releases an index
//! only after its reservation is durable in the state and in every anchor. A copy of a key's folder
//! lacks the anchors, and an old copy is older than they are: both are rejected, and a rejection
//! changes nothing.
//!
//! The crate accesses the system through two traits: [`Disk`](gabion_disk::Disk), whose calls may
//! fail, tear or be the last before a power failure, and [`Machine`].
//!
//! Not detected: the state and all its anchors are rolled back together, or copied together with
//! the machine id; a virtual machine with reserved indexes is cloned or resumed from memory. If all
//! anchors are on the key's file system, there is a warning. docs/operate/state.md lists the faults
//! that are survived and all that are not detected.
//!
//! # Examples
//! ```no_run
//! use std::num::NonZero;
//! use std::ops::ControlFlow;
//! use std::path::Path;
//!
//! use gabion_engine::Engine;
//! use gabion_engine::keys::stateful::Request;
//! use gabion_state::{Encoding, Environment, GeneratedKey, KeyFileOptions, Signer, SignerOptions};
//!
//! let (environment, engine, key) = (Environment::real(), Engine::global()?, Path::new("key"));
//! let sets = "LMS_SHA256_M32_H10_W4".parse()?;
//! let mut go_on = |_: gabion_engine::keys::stateful::Progress<'_>| ControlFlow::Continue(());
//! let made = GeneratedKey::generate(&environment, engine, sets, NonZero::<usize>::MIN, &mut go_on)?;
//! let made = made.ok_or("it was stopped")?;
//! let (encoding, anchors) = (Encoding::Hss, &[][..]);
//! let options = KeyFileOptions {
//!     key, passphrase: None, encoding, next: 0, warn_at: None, anchors, allow_network: false, note: "made",
//! };
//! made.write(&environment, &options)?;
//!
//! let signer = Signer::open(&environment, engine, key, None, &SignerOptions::default())?;
//! let signed = signer.sign(&[Request { message: b"an image", id: Some("build 7") }])?;
//! println!("index {}, {} left", signed[0].index, signed[0].remaining);
//! signer.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod anchor;
mod backup;
mod files;
mod foreign;
mod hand_over;
mod history;
mod key_file;
mod keys;
mod ledger;
mod lock;
mod log;
mod machine;
mod part;
mod record;
mod registry;
mod resumable;
mod sets;
mod signer;
mod slots;
#[cfg(feature = "testing")]
pub mod testing;
mod trees;
mod witnesses;

pub use anchor::{Anchor, FileAnchor};
pub use backup::{backup, restore};
pub use files::{Environment, KeyIdentity, Paths};
pub use foreign::Foreign;
pub use hand_over::{hand_over, retire};
pub use history::{History, Reuse, audit, log, read_log};
pub use key_file::{KeyFile, LABEL, Secret};
pub use keys::{NewKey, Status, check_place, create, discard, files, recover, status, take_back};
pub use ledger::{FilesLedger, OpenKeys, Options, reserve_max};
pub use log::Line;
pub use machine::{Machine, Process, ThisMachine};
pub use record::{KeyId, Lifecycle, Mark, Stamp};
pub use resumable::{ResumableKey, ResumableSectors};
pub use sets::{Encoding, Sets};
pub use signer::{GeneratedKey, KeyFileOptions, Signature, Signer, SignerOptions};
pub use trees::Trees;
