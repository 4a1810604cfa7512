//! Who may do what: tokens, what they are limited to, and what somebody without one may do, which is nothing.
//!
//! ```text
//!   root key --HMAC--> key id, token's id, principal --HMAC--> caveat --HMAC--> caveat --> tag     = gbk1.BASE64URL
//!
//!   token --authenticate--> is its root known, is it whole, not revoked, not expired, from where and by whom it says?
//!   request --allow-------> does each caveat let it pass? does a policy allow it, and none forbid it?
//!                                                               anything else --> denied
//! ```
//!
//! - A caveat only takes away. Whoever has a token appends one without asking anybody; nobody takes one away again.
//! - The set of caveats is closed: a token with one that this program does not know is refused.
//! - A root key is a sealed record. Several may live; the newest makes tokens, all of them verify.
//! - A revoked id is a record of the store. It revokes every token that was made of that one.
//! - Policies (Cedar) decide after that, for whoever has a token and for whoever has a certificate alone. Where there is
//!   none, a token may what its caveats let pass, and a certificate nothing.

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
