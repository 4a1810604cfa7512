//! Authentication and authorization: tokens, caveats, client certificates and policies.
//!
//! ```text
//!   root key --HMAC--> key id, token's id, principal --HMAC--> caveat --HMAC--> caveat --> tag     = gbk1.BASE64URL
//!
//!   token --authenticate--> known root key? valid tag? not revoked, not expired? right address and certificate?
//!   request --allow-------> does each caveat permit it? does a policy permit it, and none forbid it?
//!                                                               anything else --> denied
//! ```
//!
//! - Caveats only remove permissions. The holder of a token can append caveats without the service.
//!   Caveats cannot be removed.
//! - The set of caveats is closed: a token with an unknown caveat is rejected.
//! - A root key is a sealed record. Several root keys may be live: the newest one makes tokens, and
//!   all of them verify tokens.
//! - A revoked id is a record of the store. It revokes the token and all its attenuations.
//! - Policies (Cedar) are evaluated after the caveats, for tokens and for client certificates. If
//!   no policy exists, a token may do what its caveats permit, and a certificate may do nothing.

mod action;
mod administrators;
mod allow;
mod caller;
mod caveat;
mod decide;
mod offline;
mod policy;
mod principal;
mod revoked_chains;
mod roots;
mod sets;
mod token;

pub use action::{Action, Actions};
pub use allow::{Gate, Options, Request};
pub use caller::{Caller, Method, Peer};
pub use caveat::{Caveat, Cidr};
pub use decide::{AdministrationPermit, Explanation, Verdict};
pub use offline::{attenuate_token, expires_ms, token_id};
pub use policy::POLICY_TEXT_MAX;
pub use principal::Principal;
pub use roots::RootId;
pub use sets::PolicySetInfo;
pub use token::{CAVEATS_MAX, TEXT_MAX, Token, TokenId};

pub use crate::error::{AuthenticationError, DenialReason};
