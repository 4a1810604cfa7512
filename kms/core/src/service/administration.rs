//! Tokens, and the audit log.

use super::changes::done;
use super::run::{Call, Service, now_ms};
use crate::audit::{Entry, Proof};
use crate::error::Error;
use crate::gate::{Action, Caveat, Principal, Request, RootId, Token, TokenId};

/// What a new token is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// What whoever has it is called.
    pub principal: Principal,
    /// What it is limited to.
    pub caveats: Vec<Caveat>,
    /// How long it lives, in milliseconds.
    pub lifetime_ms: Option<u64>,
}

impl Service {
    /// Makes a token. It may no more than its maker may, and not for longer.
    ///
    /// # Errors
    /// Not allowed; too many caveats, too long a life; the audit log's.
    pub fn token_create(&self, call: &Call<'_>, new: &NewToken) -> Result<Token, Error> {
        let mut caveats = call.who.inherited();
        caveats.extend_from_slice(&new.caveats);
        // It is about the keys that the new token is about: one who may make tokens for a tenant makes them for that one.
        let (mut tenant, mut key) = (None, None);
        for caveat in &caveats {
            match caveat {
                Caveat::Tenant(of) => tenant = Some(of),
                Caveat::KeyPrefix(of) => key = Some(&**of),
                Caveat::Expires(_)
                | Caveat::Actions(_)
                | Caveat::Cidr(_)
                | Caveat::Cnf(_)
                | Caveat::BatchMax(_) => {}
            }
        }
        let request = Request { action: Action::Token, tenant, key, items: 1 };
        let make = || self.gate.mint(&new.principal, &caveats, new.lifetime_ms, now_ms());
        self.changed(call, &request, make, |token| Some(format!("token:{}", token.id())))
    }

    /// Revokes a token, with all that were made of it.
    ///
    /// # Errors
    /// Not allowed; the store's; the audit log's.
    pub fn token_revoke(&self, call: &Call<'_>, id: TokenId) -> Result<(), Error> {
        let revoke = || self.gate.revoke(&self.kms, id, now_ms());
        self.changed(call, &of(Action::Token), revoke, |()| Some(format!("token:{id}")))
    }

    /// Makes a root key of tokens.
    ///
    /// # Errors
    /// Not allowed; the store's; the audit log's.
    pub fn root_rotate(&self, call: &Call<'_>) -> Result<RootId, Error> {
        let rotate = || self.gate.rotate(&self.kms, now_ms());
        self.changed(call, &of(Action::Token), rotate, |id| Some(format!("root:{id}")))
    }

    /// Retires an older root key, with all its tokens.
    ///
    /// # Errors
    /// Not allowed; none such; the store's; the audit log's.
    pub fn root_retire(&self, call: &Call<'_>, id: RootId) -> Result<(), Error> {
        let retire = || self.gate.retire(&self.kms, id);
        self.changed(call, &of(Action::Token), retire, |()| Some(format!("root:{id}")))
    }

    /// A token without limits but its end, for who sets the service up. The process itself makes it.
    ///
    /// # Errors
    /// No randomness; the audit log's.
    pub fn first_token(&self, principal: &Principal) -> Result<Token, Error> {
        let who = self.gate.local(principal.clone());
        let new = NewToken { principal: principal.clone(), caveats: Vec::new(), lifetime_ms: None };
        self.token_create(&Call { who: &who, request_id: "first-token" }, &new)
    }

    /// Records of the audit log, from an index on.
    ///
    /// # Errors
    /// Not allowed; the audit log's.
    pub fn audit_tail(&self, call: &Call<'_>, from: u64, most: usize) -> Result<Vec<Entry>, Error> {
        let tail = || Ok(self.log.tail(from, most)?);
        self.used(call, &of(Action::Audit), None, tail, |_| done(None), |_| Ok(()))
    }

    /// That a record is in the audit log.
    ///
    /// # Errors
    /// Not allowed; none such in a checkpoint; the audit log's.
    pub fn audit_prove(&self, call: &Call<'_>, index: u64) -> Result<Proof, Error> {
        let prove = || Ok(self.log.prove(index)?);
        self.used(call, &of(Action::Audit), None, prove, |_| done(None), |_| Ok(()))
    }
}

/// A request that is about no key.
fn of(action: Action) -> Request<'static> {
    Request { action, tenant: None, key: None, items: 1 }
}
