//! Everything that a front needs, one call a verb: who is it, may they, do it, tell of it, may they still, answer.
//!
//! ```text
//!   token --authenticate--> Authenticated
//!
//!   a use      allow --> quota, a place --> operate --> append a record --> allow, may it still? --> answer
//!                                                                            '--> no: append `withheld` --> error
//!   a change   allow --> quota, a place --> append `begun`, durable --> operate --> append what came of it, durable --> answer
//! ```
//!
//! - Once the seal is closed ([`Generation`]) nothing begins any more, and what was computed is withheld.
//! - Nothing is answered that the audit log does not tell of. Where it can't be written, everything is refused.
//! - What was not allowed, and what failed, is told of too, equal denials of one credential in a row as one record with a count; who
//!   could not be authenticated is only counted.
//! - What is refused costs the quota of its credential ([`Service::charge_refusal`]).
//! - What the clock has rotated is a change like others, by a principal of the service's own: [`Service::rotate_due`].
//! - So are the service's own keys, when they are made: [`Service::make_own`].
//! - A store that is older than its log is made as narrow again as the log says, before anything is served: [`Service::reconcile_report`].
//! - A key that a caller's token hides answers as one that does not exist.

mod administration;
mod admission;
mod ciphers;
mod coalesced;
mod cost;
mod denials;
mod expire;
mod generation;
mod idempotency;
mod idempotency_records;
mod jwks;
mod jwt;
mod lifecycle;
mod open;
mod own_keys;
mod policies;
mod public;
mod queue;
mod quota;
mod reconcile;
mod reconcile_report;
mod refusals;
mod rotations;
mod run;
mod secrets;
mod sign_verify;
mod streams;

pub use administration::{AdministratorsEnd, AuditState, NewToken};
pub use ciphers::{DecryptItem, EncryptItem};
pub use generation::Generation;
pub use idempotency::{
    IdempotentRequest, OP_ID_MAX, OPS_MAX, OPS_OF_CALLER_MAX, OPS_RESERVED, OpResult, OpStart,
};
pub use idempotency_records::{KEPT_MS, Op};
pub use jwks::{VERIFYING_KEYS_MAX, VerifyingKey, VerifyingKeys};
pub use lifecycle::{KeyDetails, KeyPage, KeySummary};
pub use open::{AuditAt, Options};
pub use own_keys::OWN_KEYS;
pub use policies::PolicyQuery;
pub use quota::QuotaOptions;
pub use reconcile::AFTER_RESTORE;
pub use reconcile_report::ReconcileReport;
pub use rotations::{AUTO_ROTATE, RotationReport};
pub use run::{Call, KeyRef, Service};
pub use sign_verify::{SignItem, VerifyItem};
pub use streams::StreamedMessage;
