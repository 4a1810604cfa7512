//! The operations on keys, each in its own module.
//!
//! ```text
//!   use --> view of key and version (cache, else store --> seal) --> allowed? --> engine --> still allowed? --> answer
//!   change --> one transaction of sealed records --> views are removed from the cache --> answer
//! ```
//!
//! - A use that begins after a change was acknowledged sees the change. A use that is running
//!   checks again before it answers.
//! - Every signature is verified, or made twice (SLH-DSA), before it is released. The engine does
//!   that, as [`Kms::new`] configures it.
//! - Hiding keys from callers is left to the service, which makes errors about hidden keys look
//!   like `not_found`.

mod attest;
mod batch;
mod blake3;
mod cache;
mod companion;
mod context;
mod count;
mod create;
mod datakey;
mod encaps;
mod encrypt;
mod export;
mod hmac;
mod import;
mod jwt;
mod kms;
mod material;
mod metrics;
mod names;
mod nonce_blocks;
mod public;
mod reapply;
mod records;
mod rotate;
mod rotation_schedule;
mod rotations;
mod rsa;
mod sign;
mod sign_batch;
mod stream;
mod unwind;
mod update;
mod verify;
mod verify_batch;
mod wrap;
mod wrappers;
mod wrapping_keys;

pub use crate::rsa::hash_of as rsa_hash;
pub use attest::{Attestation, SignedAttestation};
pub use blake3::Blake3;
pub(crate) use cache::KeyView;
pub(crate) use companion::{Companion, CompanionOutcome, CompanionRecord};
pub(crate) use context::{StoreContext, settle_companion, settle_with};
pub use create::{NewKey, Terms};
pub use datakey::Datakey;
pub use encaps::EncapsOutput;
pub use encrypt::EncryptOutput;
pub use hmac::HmacOutput;
pub use import::Import;
pub use jwt::{SignedJwt, VerifiedJwt};
pub use kms::{Kms, Options};
pub(crate) use metrics::Histogram;
pub use metrics::{Metrics, Verb};
pub use public::Public;
pub(crate) use reapply::{LoggedKeyState, ReappliedRestrictions};
pub(crate) use records::{damaged, opened, opened_bytes, sealed};
pub use records::{key_record, keys_path};
pub(crate) use rotation_schedule::DueKey;
pub use sign::SignOutput;
pub use sign_batch::SignRequest;
pub use stream::{Stream, StreamForm, StreamLen, StreamUse};
pub(crate) use unwind::OnUnwind;
pub use update::KeyChange;
pub use verify_batch::VerifyRequest;
pub use wrappers::OwnKey;
