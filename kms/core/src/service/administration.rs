//! Administration of tokens and of the audit log.

use std::path::Path;

use super::lifecycle::done;
use super::run::{AuditEntry, Call, Service};
use crate::audit::Outcome;
use crate::audit::{ArchiveReport, Change, Checkpoint, Entry, Hash, Keep, Proof};
use crate::error::{DenialReason, Error};
use crate::gate::{Action, Caveat, Principal, Request, RootId, Token, TokenId};
use crate::operations::{Kms, settle_companion};

/// The properties of a new token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The token's principal.
    pub principal: Principal,
    /// The token's caveats.
    pub caveats: Vec<Caveat>,
    /// The lifetime in milliseconds; `None` for the default.
    pub lifetime_ms: Option<u64>,
}

/// The state of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditState {
    /// The newest checkpoint.
    pub checkpoint: Checkpoint,
    /// The number of records.
    pub size: u64,
    /// The index of the first record that is not archived.
    pub first: u64,
}

/// The expiry of the last token that can make tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdministratorsEnd {
    /// The time in milliseconds since 1970; 0 if every such token is revoked or denied by policies.
    pub end_ms: u64,
    /// Whether the warning time has begun.
    pub is_soon: bool,
    /// Whether the time has passed.
    pub is_over: bool,
}

impl Service {
    /// Makes a token. It inherits its maker's caveats on expiry, tenant, key prefix, actions and
    /// batch size, but not those on address and certificate. Its principal is free, so policies may
    /// permit it more than its maker. A given lifetime that ends after the maker's
    /// token is rejected. It stays valid if the maker's token is revoked.
    ///
    /// # Errors
    /// The caller is not allowed; too many caveats; a lifetime that is too long; errors of the
    /// store and of the audit log.
    pub fn token_create(&self, call: &Call<'_>, new: &NewToken) -> Result<Token, Error> {
        let mut caveats = call.who.inherited();
        caveats.extend_from_slice(&new.caveats);
        let request = token_request(&caveats);
        let make = |kms: &Kms| {
            let now_ms = kms.now_ms();
            let token = self.gate.mint(&new.principal, &caveats, new.lifetime_ms, now_ms)?;
            self.gate.record_administrator(kms, &token, now_ms)?;
            // With an `op_id`, the store has the token's id before the caller gets the token.
            settle_companion(kms.context(), &token.id())?;
            Ok(token)
        };
        self.perform_change(call, &request, make, |token| (token_text(token.id()), Change::Made))
    }

    /// Revokes a token with all its attenuations. Tokens that it made have ids of their own and
    /// stay valid.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the store and of the audit log.
    pub fn token_revoke(&self, call: &Call<'_>, id: TokenId) -> Result<(), Error> {
        let revoke = |kms: &Kms| self.gate.revoke(kms, id, kms.now_ms());
        self.perform_change(call, &of(Action::Token), revoke, |()| {
            (token_text(id), Change::Revoked)
        })
    }

    /// Revokes the caller's own token and its attenuations. Every holder of a token may do that,
    /// and no limit refuses it.
    ///
    /// # Errors
    /// The caller has no token; errors of the store and of the audit log.
    pub fn token_revoke_self(&self, call: &Call<'_>) -> Result<(), Error> {
        if let Err(error) = self.gate.check_has_token(call.who) {
            // This takes no permission, so equal failures share a record, as denials do.
            let audit_entry = AuditEntry { outcome: Outcome::Failed(error.code()), ..done(None) };
            self.audit_denial(call, self.record(call, &of(Action::Token), audit_entry))?;
            return Err(error);
        }
        let revoke = |kms: &Kms| self.gate.revoke_own(kms, call.who);
        let audit_entry =
            |(id, digest): &(TokenId, String)| (token_text(*id), Change::Cut(digest.clone()));
        self.perform_unchecked_change(call, &of(Action::Token), revoke, audit_entry).map(drop)
    }

    /// Makes a root key of tokens.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the store and of the audit log.
    pub fn root_rotate(&self, call: &Call<'_>) -> Result<RootId, Error> {
        let rotate = |kms: &Kms| self.gate.rotate(kms, kms.now_ms());
        self.perform_change(call, &of(Action::Token), rotate, |id| {
            (format!("root:{id}"), Change::Made)
        })
    }

    /// Retires an older root key, and so invalidates all its tokens.
    ///
    /// # Errors
    /// The caller is not allowed; an unknown root key; errors of the store and of the audit log.
    pub fn root_retire(&self, call: &Call<'_>, id: RootId) -> Result<(), Error> {
        let retire = |kms: &Kms| self.gate.retire(kms, id);
        self.perform_change(call, &of(Action::Token), retire, |()| {
            (format!("root:{id}"), Change::Revoked)
        })
    }

    /// Makes the first token of a service, limited only by its expiry. The principal of the audit
    /// record is the process itself.
    ///
    /// # Errors
    /// Those of [`Self::administrator_token`].
    pub fn first_token(&self, principal: &Principal) -> Result<Token, Error> {
        self.administrator_token(principal, None, None)
    }

    /// Makes an administrator's token, bound to a certificate if one is given. The default lifetime
    /// is 90 days, or the maximum lifetime of a token if that is shorter.
    ///
    /// # Errors
    /// A lifetime that is too long; no randomness; errors of the store and of the audit log.
    pub fn administrator_token(
        &self,
        principal: &Principal,
        certificate: Option<[u8; 32]>,
        lifetime_ms: Option<u64>,
    ) -> Result<Token, Error> {
        let who = self.gate.local(principal.clone());
        let new = self.administrator(principal, certificate, lifetime_ms);
        self.token_create(&Call::new(&who, "first-token"), &new)
    }

    fn administrator(
        &self,
        principal: &Principal,
        certificate: Option<[u8; 32]>,
        lifetime_ms: Option<u64>,
    ) -> NewToken {
        NewToken {
            principal: principal.clone(),
            caveats: certificate.map(Caveat::Cnf).into_iter().collect(),
            lifetime_ms: lifetime_ms.or(Some(self.gate.options().administrator_ms())),
        }
    }

    /// Revokes every token and makes one new administrator's token, limited only by its expiry and
    /// the certificate that it is bound to. All tokens are revoked because the previous
    /// administrators may have made any of them. For operators who unsealed with the recovery set.
    /// Policies do not apply to the new token for as long as it lives; they are not changed.
    ///
    /// # Errors
    /// Administration requires a certificate, and none is given; a lifetime that is too long;
    /// errors of the store and of the audit log. Another call completes an interrupted recovery.
    pub fn recover(
        &self,
        principal: &Principal,
        certificate: Option<[u8; 32]>,
        lifetime_ms: Option<u64>,
    ) -> Result<Token, Error> {
        if certificate.is_none() && self.gate.needs_certificate() {
            return Err(DenialReason::NeedsCertificate.into());
        }
        let new = self.administrator(principal, certificate, lifetime_ms);
        self.gate.options().check_lifetime(new.lifetime_ms.unwrap_or_default())?;
        let who = self.gate.local(principal.clone());
        let recover = |kms: &Kms| {
            let now_ms = kms.now_ms();
            let root = self.gate.rotate(kms, now_ms)?;
            for older in self.gate.roots().into_iter().skip(1) {
                self.gate.retire(kms, older)?;
            }
            let token = self.gate.mint(principal, &new.caveats, new.lifetime_ms, now_ms)?;
            self.gate.record_administrator(kms, &token, now_ms)?;
            self.gate.override_policies(kms, token.id())?;
            Ok((token, root))
        };
        let audit_entry = |(token, root): &(Token, RootId)| {
            (token_text(token.id()), Change::Recovered(root.to_string()))
        };
        let call = Call::new(&who, RECOVER_ADMIN);
        Ok(self.perform_change(&call, &of(Action::Token), recover, audit_entry)?.0)
    }

    /// Returns when the last administrator's token expires; `None` if that is not known.
    pub fn administrators_end(&self) -> Option<AdministratorsEnd> {
        let end_ms = self.gate.administrators_end()?;
        let now_ms = self.kms.now_ms();
        let is_soon = end_ms <= now_ms.saturating_add(self.gate.options().warning_ms);
        Some(AdministratorsEnd { end_ms, is_soon, is_over: end_ms <= now_ms })
    }

    /// Formats the expiry of the last administrator's token for Prometheus. Empty if it is not
    /// known.
    pub(super) fn administrators_text(&self) -> String {
        let of = |end: AdministratorsEnd| {
            let name = "kms_administrator_not_after_seconds";
            let help =
                "When the last token ends by which tokens can be made, in seconds since 1970.";
            format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {}\n", end.end_ms / 1000)
        };
        self.administrators_end().map(of).unwrap_or_default()
    }

    /// Returns at most `most` records of the audit log from index `from` on.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the audit log.
    pub fn audit_tail(&self, call: &Call<'_>, from: u64, most: usize) -> Result<Vec<Entry>, Error> {
        let tail = || Ok(self.log.tail(from, most)?);
        self.perform_use(call, &of(Action::Audit), None, tail, |_| done(None), |_| Ok(()))
    }

    /// Returns the state of the audit log. This is not recorded, because clients poll it.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the audit log.
    pub fn audit_state(&self, call: &Call<'_>) -> Result<AuditState, Error> {
        self.authorize(call, &of(Action::Audit), None)?;
        let checkpoint = match self.log.newest() {
            Some(newest) => newest,
            None => self.checkpoint()?,
        };
        let (size, first) = (self.log.size(), self.log.first()?);
        Ok(AuditState { checkpoint, size, first })
    }

    /// Returns entries of the audit log from an index on, up to the newest checkpoint.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the audit log.
    pub fn audit_entries(
        &self,
        call: &Call<'_>,
        from: u64,
        most: usize,
    ) -> Result<Vec<Hash>, Error> {
        let entries = || Ok(self.log.entries(from, most)?);
        self.perform_use(call, &of(Action::Audit), None, entries, |_| done(None), |_| Ok(()))
    }

    /// Moves full segments of the audit log to a folder.
    ///
    /// # Errors
    /// The caller is not allowed; those of [`crate::audit::Log::archive`].
    pub fn audit_archive(
        &self,
        call: &Call<'_>,
        to: &Path,
        keep: &Keep,
    ) -> Result<ArchiveReport, Error> {
        let archive = |_: &Kms| {
            self.checkpoint()?;
            Ok(self.log.archive(to, keep)?)
        };
        self.perform_change(call, &of(Action::Audit), archive, |archived| {
            Some(format!("archived:{}", archived.first))
        })
    }

    /// Proves that the audit log includes a record.
    ///
    /// # Errors
    /// The caller is not allowed; a missing or archived record; errors of the audit log.
    pub fn audit_prove(&self, call: &Call<'_>, index: u64) -> Result<Proof, Error> {
        let prove = || {
            // A new record may not be in any checkpoint yet.
            self.checkpoint()?;
            Ok(self.log.prove(index)?)
        };
        self.perform_use(call, &of(Action::Audit), None, prove, |_| done(None), |_| Ok(()))
    }
}

/// The request id in the audit records of a recovery.
pub(super) const RECOVER_ADMIN: &str = "recover-admin";

/// Returns the audit log's name for a token.
pub(super) fn token_text(id: TokenId) -> String {
    token_name(&id.to_string())
}

/// Returns the audit log's name for the token with this id.
pub(super) fn token_name(id: &str) -> String {
    format!("token:{id}")
}

/// Returns the permission that making a token with these caveats needs: for the keys that the token
/// is limited to, so that a caller who is limited to one tenant can make tokens for that tenant.
pub(super) fn token_request(caveats: &[Caveat]) -> Request<'_> {
    let (mut tenant, mut key) = (None, None);
    for caveat in caveats {
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
    Request { action: Action::Token, tenant, key, items: 1, makes: None }
}

/// Returns a request that concerns no key.
pub(super) fn of(action: Action) -> Request<'static> {
    Request { action, tenant: None, key: None, items: 1, makes: None }
}
