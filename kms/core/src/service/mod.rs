//! The service: one call for each operation of a server, with authentication, authorization, quotas
//! and audit.
//!
//! ```text
//!   token --authenticate--> Caller
//!
//!   a use      allow --> quota, a slot --> operate --> append a record --> allow, still? --> answer
//!                                                                           '--> no: append `withheld` --> error
//!   a change   allow --> quota, a slot --> append `begun`, durable --> allow, still? --> operate --> append the outcome,
//!                                                                           '--> no: append `failed` --> error    durable --> answer
//! ```
//!
//! - After the service is sealed ([`Generation`]), no operation begins, and computed results are
//!   withheld.
//! - Every answered operation is in the audit log, except queries of the log's state and of the
//!   caller's own permissions. If the log cannot be written, everything is refused.
//! - Denied and failed operations are recorded, too, with the exceptions in `refusals.rs`; equal
//!   denials of one credential in a row share one record with a count. Failed authentications are
//!   only counted.
//! - Refused requests are charged to the credential ([`Service::charge_refusal`]).
//! - An automatic rotation is a change like others, by a principal of the service itself:
//!   [`Service::rotate_due`].
//! - So is the creation of the service's own keys: [`Service::make_own`].
//! - If the store is older than its log, the restrictions in the log are reapplied before requests
//!   are served: [`Service::reconcile_report`].
//! - A key that the caller's token hides gets the answer of a missing one. The time of the answer
//!   is not equalized.

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
