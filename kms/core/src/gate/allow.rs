//! The gate: authenticates callers and authorizes requests.

use std::iter;

use super::action::Action;
use super::administrators::{Administrator, Administrators};
use super::caller::{Caller, Method, Peer};
use super::caveat::Caveat;
use super::decide::{
    AccessTarget, AdministrationPermit, Explanation, Policies, Question, TokenMaker, Verdict,
};
use super::principal::Principal;
use super::roots::{RootId, Roots};
use super::sets::{PolicySetInfo, PolicySets};
use super::token::{TagDigest, Token, TokenId};
use crate::clock::rfc3339;
use crate::error::{AuthenticationError, DenialReason, Error};
use crate::model::Label;
use crate::operations::{Kms, NewKey};
use crate::text::{hex, of_hex};

/// A request to authorize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The requested action.
    pub action: Action,
    /// The tenant of the key; `None` for requests that concern no tenant.
    pub tenant: Option<&'a Label>,
    /// The key's name, or the name prefix of a list; `None` for requests that concern no key.
    pub key: Option<&'a str>,
    /// The number of items.
    pub items: u32,
    /// The key to be created.
    pub makes: Option<&'a NewKey>,
}

/// The configuration of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether administration requires a token that is bound to a client certificate.
    pub needs_certificate_for_administration: bool,
    /// The default lifetime of a token in milliseconds.
    pub lifetime_ms: u64,
    /// The maximum lifetime of a token in milliseconds.
    pub lifetime_ms_max: u64,
    /// Whether client certificates are verified, so that policies can permit certificates.
    pub has_certificates: bool,
    /// How long before the expiry of the last administrator's token the warning begins, in
    /// milliseconds.
    pub warning_ms: u64,
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The default lifetime of an administrator's token, which `init` and `recover-admin` make.
const ADMINISTRATOR_MS: u64 = 90 * DAY_MS;

impl Default for Options {
    fn default() -> Self {
        Options {
            needs_certificate_for_administration: true,
            lifetime_ms: DAY_MS,
            lifetime_ms_max: 365 * DAY_MS,
            has_certificates: true,
            warning_ms: 7 * DAY_MS,
        }
    }
}

impl Options {
    /// Returns the default lifetime of an administrator's token in milliseconds.
    pub fn administrator_ms(&self) -> u64 {
        ADMINISTRATOR_MS.min(self.lifetime_ms_max)
    }

    /// Checks a token's lifetime against the maximum.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check_lifetime(&self, lifetime_ms: u64) -> Result<(), Error> {
        if lifetime_ms == 0 {
            return Err(Error::Parameter(
                "the lifetime of a token has to be at least one second".to_owned(),
            ));
        }
        if lifetime_ms > self.lifetime_ms_max {
            let most = self.lifetime_ms_max / 1000;
            return Err(Error::Parameter(format!(
                "the lifetime of a token is limited to {most} seconds"
            )));
        }
        Ok(())
    }
}

/// Authenticates callers and authorizes their requests.
///
/// # Examples
/// ```
/// use gabion_kms::gate::{Action, Gate, Options, Peer, Principal, Request};
/// use gabion_kms::model::Label;
/// use gabion_kms::operations::Kms;
///
/// let (kms, now_ms) = (Kms::in_memory()?, 1_790_000_000_000);
/// let gate = Gate::open(&kms, Options::default(), now_ms)?;
/// let principal = Principal::new("ci@example.com")?;
/// let token = gate.mint(&principal, &["actions=sign".parse()?], None, now_ms)?;
/// // The holder of a token can restrict it further before passing it on.
/// let token = token.attenuate("key_prefix=web-".parse()?)?.to_string();
///
/// let who = gate.authenticate(&token, &Peer::default(), now_ms)?;
/// let tenant = Label::new("tenant", "default")?;
/// let sign = |key| Request { action: Action::Sign, tenant: Some(&tenant), key: Some(key), items: 1, makes: None };
/// assert!(gate.allow(&kms, &who, &sign("web-1"), now_ms).is_ok());
/// assert!(gate.allow(&kms, &who, &sign("firmware"), now_ms).is_err());
/// # Ok::<(), gabion_kms::Error>(())
/// ```
pub struct Gate {
    options: Options,
    roots: Roots,
    sets: PolicySets,
    administrators: Administrators,
}

impl Gate {
    /// Opens the gate of a service. The first opening makes a root key.
    ///
    /// # Errors
    /// No randomness; errors of the store.
    pub fn open(kms: &Kms, options: Options, now_ms: u64) -> Result<Self, Error> {
        let (roots, sets) = (Roots::open(kms.context(), now_ms)?, PolicySets::open(kms.context())?);
        Ok(Gate { options, roots, sets, administrators: Administrators::open(kms.context())? })
    }

    /// Authenticates the holder of a token.
    ///
    /// # Errors
    /// [`AuthenticationError`].
    pub fn authenticate(
        &self,
        token: &str,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<Caller, AuthenticationError> {
        let token: Token = token.parse().map_err(|_| AuthenticationError::Invalid)?;
        let line = self.roots.made(&token).ok_or(AuthenticationError::Invalid)?;
        if self.roots.is_revoked(token.id()) || self.roots.is_cut(token.id(), &line) {
            return Err(AuthenticationError::Revoked);
        }
        if token.expires_ms().is_none_or(|expires| expires <= now_ms) {
            return Err(AuthenticationError::Expired);
        }
        for caveat in token.caveats() {
            match caveat {
                Caveat::Cidr(cidr) => match peer.address {
                    Some(address) if cidr.contains(address) => {}
                    Some(_) | None => return Err(AuthenticationError::Address),
                },
                Caveat::Cnf(digest) if peer.certificate != Some(*digest) => {
                    return Err(AuthenticationError::Certificate);
                }
                // These caveats limit requests, or were checked above.
                Caveat::Cnf(_)
                | Caveat::Expires(_)
                | Caveat::Tenant(_)
                | Caveat::KeyPrefix(_)
                | Caveat::Actions(_)
                | Caveat::BatchMax(_) => {}
            }
        }
        Ok(Caller {
            principal: token.principal().clone(),
            method: Method::Token { id: token.id() },
            caveats: token.caveats().to_vec(),
            root: Some(RootId::of(&token)),
            line,
            peer: *peer,
        })
    }

    /// Returns the caller that a client certificate names. The certificate has to be verified
    /// already. Only policies give such a caller permissions. DNS names are compared without regard
    /// to case.
    pub fn of_certificate(&self, principal: Principal, peer: &Peer) -> Caller {
        Caller::of(principal.of_certificate(), Method::Certificate, peer)
    }

    /// Returns the process itself as a caller, which may do everything.
    pub fn local(&self, principal: Principal) -> Caller {
        Caller::of(principal, Method::Local, &Peer::default())
    }

    /// Returns whether administration requires a token that is bound to a client certificate.
    pub fn needs_certificate(&self) -> bool {
        self.options.needs_certificate_for_administration
    }

    /// Authorizes a request: checks the token's caveats first, then the policies.
    ///
    /// # Errors
    /// [`DenialReason`].
    pub fn allow(
        &self,
        kms: &Kms,
        who: &Caller,
        request: &Request<'_>,
        now_ms: u64,
    ) -> Result<(), DenialReason> {
        match who.method {
            Method::Local => Ok(()),
            Method::Certificate => self.judged(kms, who, request, now_ms),
            Method::Token { id } => {
                self.lives(who, id)?;
                who.caveats.iter().try_for_each(|caveat| check(caveat, request, now_ms))?;
                self.check_bound(who, request.action)?;
                self.judged(kms, who, request, now_ms)?;
                if let (Action::Token, Some(root)) = (request.action, who.root) {
                    let seen =
                        || Administrator::of(id, root, &who.principal, &who.caveats, &who.line);
                    self.administrators.note_used(id, &who.line, seen);
                }
                Ok(())
            }
        }
    }

    /// Checks whether the caller's token could permit an action with any key. Policies may still
    /// deny the request itself.
    ///
    /// # Errors
    /// [`DenialReason`].
    pub fn may_ever(&self, who: &Caller, action: Action) -> Result<(), DenialReason> {
        let Method::Token { id } = who.method else { return Ok(()) };
        self.lives(who, id)?;
        match who.actions().contains(action) {
            true => self.check_bound(who, action),
            false => Err(DenialReason::Action(action.as_str())),
        }
    }

    /// Returns whether the caller may see a key. A key that `show` hides is hidden in lists and
    /// errors, too. The actions of the caller's token do not count: limiting a token to `list` must
    /// not reveal names.
    pub fn may_see(
        &self,
        kms: &Kms,
        who: &Caller,
        tenant: &Label,
        name: &str,
        now_ms: u64,
    ) -> bool {
        let (action, tenant, key) = (Action::Show, Some(tenant), Some(name));
        let show = Request { action, tenant, key, items: 1, makes: None };
        let is_about_keys =
            |caveat: &&Caveat| matches!(caveat, Caveat::Tenant(_) | Caveat::KeyPrefix(_));
        let passes = |caveat: &Caveat| check(caveat, &show, now_ms).is_ok();
        who.caveats.iter().filter(is_about_keys).all(passes)
            && (who.method == Method::Local || self.judged(kms, who, &show, now_ms).is_ok())
    }

    fn lives(&self, who: &Caller, id: TokenId) -> Result<(), DenialReason> {
        let lives = who.root.is_some_and(|id| self.roots.lives(id));
        match lives && !self.roots.is_revoked(id) && !self.roots.is_cut(id, &who.line) {
            true => Ok(()),
            false => Err(DenialReason::Revoked),
        }
    }

    fn check_bound(&self, who: &Caller, action: Action) -> Result<(), DenialReason> {
        let is_bound = || who.caveats.iter().any(|caveat| matches!(caveat, Caveat::Cnf(_)));
        let needs = self.options.needs_certificate_for_administration;
        match action.is_administration() && needs && !is_bound() {
            true => Err(DenialReason::NeedsCertificate),
            false => Ok(()),
        }
    }

    /// Decides a request by the policies in force.
    fn judged(
        &self,
        kms: &Kms,
        who: &Caller,
        request: &Request<'_>,
        now_ms: u64,
    ) -> Result<(), DenialReason> {
        if self.overrides_policies(who) {
            return Ok(());
        }
        let in_force = self.sets.in_force();
        let mut question = None;
        for policies in in_force.all() {
            if policies.is_empty() {
                // Without policies, the caveats alone limit a token.
                without_policy(who)?;
                continue;
            }
            let question = match &question {
                Some(question) => question,
                None => question.insert(question_of(kms, who, request, now_ms)?),
            };
            match policies.decide(question) {
                Verdict::Allowed => {}
                Verdict::Undecided => return Err(DenialReason::Undecided),
                Verdict::Denied if is_seen(policies, question) => return Err(DenialReason::Policy),
                Verdict::Denied => return Err(DenialReason::Unseen),
            }
        }
        Ok(())
    }

    /// Returns whether policies do not apply to the caller: the last recovery made its token, or
    /// the token from which it was attenuated.
    fn overrides_policies(&self, who: &Caller) -> bool {
        matches!(who.method, Method::Token { id } if self.administrators.is_recovered(id))
    }

    /// Explains the decision of the policies on a request, under the policies in force or with
    /// another text of one set. Caveats are ignored. Returns `None` if there are no policies.
    ///
    /// # Errors
    /// An invalid text; errors of the store.
    pub fn explain(
        &self,
        kms: &Kms,
        who: &Caller,
        request: &Request<'_>,
        instead: Option<(&Label, &str)>,
        now_ms: u64,
    ) -> Result<Option<Explanation>, Error> {
        let in_force = self.sets.in_force();
        let question = question_of(kms, who, request, now_ms)?;
        match instead {
            Some((name, text)) => Ok(Some(in_force.with(name, text)?.explain(&question))),
            None if in_force.all().all(Policies::is_empty) => Ok(None),
            None => Ok(Some(in_force.explain(&question))),
        }
    }

    /// Validates the text of a set of policies, and the size of all sets together with it.
    ///
    /// # Errors
    /// [`Error::Parameter`], with lines and columns; too many policies.
    pub fn check_policies(&self, name: &Label, text: &str) -> Result<(), Error> {
        self.sets.in_force().with(name, text).map(drop)
    }

    /// Writes a set of policies, or deletes it if `text` is `None`. Returns the new version. The
    /// change is in force when this returns. If the outcome is unknown, requests need the
    /// permission of both the old and the new policies.
    ///
    /// # Errors
    /// An invalid text; policies that would not let their author change them again; errors of the
    /// store.
    pub fn change_policies(
        &self,
        kms: &Kms,
        who: &Caller,
        name: &Label,
        text: Option<&str>,
        now_ms: u64,
    ) -> Result<u64, Error> {
        self.sets.change(kms.context(), name, text, now_ms, |policies| {
            let (action, about) = (Action::Policy, AccessTarget::Service);
            let question = Question { who, action, about, items: 1, now_ms };
            let may = match policies.is_empty() {
                true => without_policy(who).is_ok(),
                false => policies.decide(&question) == Verdict::Allowed,
            };
            match may || who.method == Method::Local || self.overrides_policies(who) {
                true => Ok(()),
                false => Err(Error::Parameter(format!(
                    "with these policies you could not change policies again; `permit(principal is Token, action, \
                     resource);` lets tokens do what their caveats let pass, and `permit(principal == {}, action == \
                     Action::\"policy\", resource);` lets you change policies",
                    who.in_policies()
                ))),
            }
        })
    }

    /// Exempts the token of a recovered administrator from policies, for as long as the token
    /// lives.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn override_policies(&self, kms: &Kms, id: TokenId) -> Result<(), Error> {
        self.administrators.record_recovered(kms.context(), id)
    }

    /// Returns the policies in force that permit a principal to change policies or make tokens.
    pub fn administration_permits(&self) -> Vec<AdministrationPermit> {
        self.sets.in_force().administration_permits()
    }

    /// Returns the sets of policies in force, in the order of their names.
    pub fn policies(&self) -> Vec<PolicySetInfo> {
        self.sets.in_force().infos()
    }

    /// Makes a token. A given lifetime is exact: it is rejected if a caveat ends the token earlier.
    /// The default lifetime of the options is only an upper bound.
    ///
    /// # Errors
    /// Too many caveats; an `expires` caveat in the past; a lifetime longer than the options or the
    /// caveats allow; no randomness.
    pub fn mint(
        &self,
        principal: &Principal,
        caveats: &[Caveat],
        lifetime_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Token, Error> {
        let lives_ms = lifetime_ms.unwrap_or(self.options.lifetime_ms);
        self.options.check_lifetime(lives_ms)?;
        let end_ms = now_ms.saturating_add(lives_ms);
        let ends = caveats.iter().filter_map(|caveat| match caveat {
            Caveat::Expires(ms) => Some(*ms),
            _ => None,
        });
        match ends.min() {
            Some(earlier) if earlier <= now_ms => {
                let ended = rfc3339(earlier);
                return Err(Error::Parameter(format!(
                    "the token would have expired at {ended} by an `expires` caveat; use one in the future"
                )));
            }
            Some(earlier) if lifetime_ms.is_some() && earlier < end_ms => {
                return Err(Error::Parameter(format!(
                    "the token cannot live {} seconds: its maker's token or an `expires` caveat ends it at {}, in {} seconds; use a \
                     shorter lifetime, or make it with a credential that lives longer",
                    lives_ms / 1000,
                    rfc3339(earlier),
                    earlier.saturating_sub(now_ms) / 1000
                )));
            }
            Some(_) | None => {}
        }
        let mut all = vec![Caveat::Expires(end_ms)];
        all.extend_from_slice(caveats);
        self.roots.mint(principal, &all)
    }

    /// Returns the configuration.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Records a new token that can make tokens itself, so that a warning precedes its expiry.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn record_administrator(
        &self,
        kms: &Kms,
        token: &Token,
        now_ms: u64,
    ) -> Result<(), Error> {
        let (root, chain) = (RootId::of(token), self.roots.made(token).unwrap_or_default());
        match Administrator::of(token.id(), root, token.principal(), token.caveats(), &chain) {
            Some(made) => {
                let lives =
                    |known: &Administrator| known.expires_ms > now_ms && self.is_unrevoked(known);
                self.administrators.record(kms.context(), &made, lives)
            }
            None => Ok(()),
        }
    }

    /// Returns whether neither an administrator's token nor its id is revoked.
    fn is_unrevoked(&self, known: &Administrator) -> bool {
        !self.roots.is_revoked(known.id) && !self.roots.is_cut(known.id, &known.chain)
    }

    /// Returns when the last administrator's token expires, in milliseconds since 1970; 0 if each
    /// known one is revoked or denied by policies. Returns `None` if a policy permits certificates
    /// to make tokens, because their authority decides when they expire, or if no such token is
    /// known.
    pub fn administrators_end(&self) -> Option<u64> {
        let in_force = self.sets.in_force();
        let may =
            |who: TokenMaker<'_>| in_force.all().all(|policies| policies.may_make_tokens(who));
        if self.options.has_certificates && may(TokenMaker::Certificate) {
            return None;
        }
        let known = self.administrators.known();
        let needs = self.options.needs_certificate_for_administration;
        let counts = |known: &&Administrator| {
            let lives = self.roots.lives(known.root) && self.is_unrevoked(known);
            let is_permitted = self.administrators.is_recovered(known.id)
                || may(TokenMaker::Token(&known.principal));
            lives && (known.is_bound || !needs) && is_permitted
        };
        let last = known.iter().filter(counts).map(|known| known.expires_ms).max();
        last.or((!known.is_empty()).then_some(0))
    }

    /// Makes a root key. Tokens of older root keys stay valid.
    ///
    /// # Errors
    /// No randomness; errors of the store.
    pub fn rotate(&self, kms: &Kms, now_ms: u64) -> Result<RootId, Error> {
        self.roots.rotate(kms.context(), now_ms)
    }

    /// Retires an older root key permanently. All tokens that it made become invalid.
    ///
    /// # Errors
    /// The newest root key, or an unknown one; errors of the store.
    pub fn retire(&self, kms: &Kms, id: RootId) -> Result<(), Error> {
        self.roots.retire(kms.context(), id)
    }

    /// Returns the live root keys, the newest one first.
    pub fn roots(&self) -> Vec<RootId> {
        self.roots.ids()
    }

    /// Revokes a token and all its attenuations. The revocation applies even if this returns
    /// [`Error::OutcomeUnknown`], but then it may not survive a restart.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn revoke(&self, kms: &Kms, id: TokenId, now_ms: u64) -> Result<(), Error> {
        self.roots.revoke(kms.context(), id, now_ms)
    }

    /// Revokes the caller's own token and its attenuations, but not the token from which it was
    /// made. No limit refuses that: if too many tokens of one id revoked themselves, the branch
    /// with most of them is revoked as a whole. Returns the id, and as text the chain of the token
    /// and the digests of such branches ([`crate::audit::Change::Cut`]). A token cannot be computed
    /// from a digest.
    ///
    /// # Errors
    /// The caller has no token; errors of the store.
    pub fn revoke_own(&self, kms: &Kms, who: &Caller) -> Result<(TokenId, String), Error> {
        match who.method {
            Method::Token { id } if !who.line.is_empty() => {
                let revoked = self.roots.cut(kms.context(), id, &who.line)?;
                // The chain tells a restored store where the token is among the others of its id.
                let chain: Vec<String> = who.line.iter().map(|digest| hex(&digest.0)).collect();
                let branches = revoked.iter().filter(|digest| who.line.last() != Some(*digest));
                let branches = branches.map(|digest| hex(&digest.0));
                let told: Vec<String> = iter::once(chain.join("/")).chain(branches).collect();
                Ok((id, told.join(",")))
            }
            _ => Err(Error::Parameter("the caller has no token to revoke".to_owned())),
        }
    }

    /// Checks that the caller has a token, which it may revoke.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the caller has no token.
    pub(crate) fn check_has_token(&self, who: &Caller) -> Result<(), Error> {
        match who.method {
            Method::Token { .. } if !who.line.is_empty() => Ok(()),
            _ => Err(Error::Parameter("the caller has no token to revoke".to_owned())),
        }
    }

    /// Reapplies the revocation of an id from the audit log. Returns whether the store lacked it.
    pub(crate) fn reapply_revocation(
        &self,
        kms: &Kms,
        id: TokenId,
        now_ms: u64,
    ) -> Result<bool, Error> {
        if self.roots.is_revoked(id) {
            return Ok(false);
        }
        self.roots.revoke(kms.context(), id, now_ms).map(|()| true)
    }

    /// Reapplies the revocation of one token and its attenuations from the audit log. Returns
    /// whether the store lacked it.
    pub(crate) fn reapply_cut(
        &self,
        kms: &Kms,
        id: TokenId,
        told: &str,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let wrong =
            || Error::Parameter(format!("`{told}` is neither the chain nor the digest of a token"));
        let digests = told.split('/').map(|digest| of_hex(digest).map(TagDigest));
        let chain: Vec<TagDigest> = digests.collect::<Option<_>>().ok_or_else(wrong)?;
        if self.roots.is_cut(id, &chain) {
            return Ok(false);
        }
        match chain[..] {
            // A branch, or a token in a record of an older program.
            [digest] => self.roots.cut_by_digest(kms.context(), id, digest, now_ms)?,
            _ => drop(self.roots.cut(kms.context(), id, &chain)?),
        }
        Ok(true)
    }

    /// Reapplies the retirement of a root key from the audit log. Returns whether the store lacked
    /// it. If it is the newest one, a new root key is made first.
    pub(crate) fn reapply_retirement(
        &self,
        kms: &Kms,
        id: RootId,
        now_ms: u64,
    ) -> Result<bool, Error> {
        match self.roots.ids() {
            ids if !ids.contains(&id) => return Ok(false),
            ids if ids.first() == Some(&id) => drop(self.rotate(kms, now_ms)?),
            _ => {}
        }
        self.retire(kms, id).map(|()| true)
    }
}

/// Checks what a caller may do without policies: a token everything, a certificate nothing.
fn without_policy(who: &Caller) -> Result<(), DenialReason> {
    match who.method {
        Method::Certificate => Err(DenialReason::NoPolicy),
        Method::Token { .. } | Method::Local => Ok(()),
    }
}

/// Translates a request for the policies.
fn question_of<'a>(
    kms: &Kms,
    who: &'a Caller,
    request: &Request<'a>,
    now_ms: u64,
) -> Result<Question<'a>, DenialReason> {
    let Request { action, tenant, key, items, makes } = *request;
    let about = match (action, tenant, key) {
        (Action::Random | Action::Status, ..) => AccessTarget::Service,
        (action, ..) if action.is_administration() => AccessTarget::Service,
        (Action::List, Some(tenant), prefix) => {
            AccessTarget::Tenant(tenant, prefix.unwrap_or_default())
        }
        (_, Some(tenant), Some(name)) => match makes {
            Some(new) => AccessTarget::New(new),
            None => match kms.about(tenant, name) {
                Ok(Some(view)) => AccessTarget::Key(tenant, name, view),
                Ok(None) => AccessTarget::Missing(tenant, name),
                Err(_) => return Err(DenialReason::Undecided),
            },
        },
        (_, None, _) | (_, _, None) => return Err(DenialReason::Undecided),
    };
    Ok(Question { who, action, about, items, now_ms })
}

/// Returns whether the caller may see the key. A hidden key answers exactly like a missing one, so
/// that its existence does not leak.
fn is_seen(policies: &Policies, question: &Question<'_>) -> bool {
    let about = match &question.about {
        AccessTarget::Tenant(..) | AccessTarget::Service => return true,
        AccessTarget::Key(..) | AccessTarget::New(_) | AccessTarget::Missing(..) => {
            question.about.clone()
        }
    };
    let show = Question { action: Action::Show, about, ..*question };
    policies.decide(&show) == Verdict::Allowed
}

/// Checks a request against a caveat.
fn check(caveat: &Caveat, request: &Request<'_>, now_ms: u64) -> Result<(), DenialReason> {
    let (passes, denied) = match caveat {
        Caveat::Expires(ms) => (now_ms < *ms, DenialReason::Expired),
        Caveat::Tenant(tenant) => (request.tenant == Some(tenant), DenialReason::Tenant),
        Caveat::KeyPrefix(prefix) => {
            (request.key.is_some_and(|key| key.starts_with(&**prefix)), DenialReason::Key)
        }
        Caveat::Actions(actions) => {
            (actions.contains(request.action), DenialReason::Action(request.action.as_str()))
        }
        Caveat::BatchMax(most) => (request.items <= *most, DenialReason::Batch(*most)),
        // Checked when the token was authenticated.
        Caveat::Cidr(_) | Caveat::Cnf(_) => return Ok(()),
    };
    if passes { Ok(()) } else { Err(denied) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_without_an_end_is_none() {
        let kms = Kms::in_memory().unwrap();
        let gate = Gate::open(&kms, Options::default(), 1).unwrap();
        let endless = gate.roots.mint(&Principal::new("a").unwrap(), &[]).unwrap().to_string();
        let refused = gate.authenticate(&endless, &Peer::default(), 1).err();
        assert_eq!(refused, Some(AuthenticationError::Expired));
        let ending = endless.parse::<Token>().unwrap().attenuate(Caveat::Expires(2)).unwrap();
        assert!(gate.authenticate(&ending.to_string(), &Peer::default(), 1).is_ok());
    }
}
