//! The gate: who somebody is, and whether they may do what they ask for.

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

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What.
    pub action: Action,
    /// Whose key. None where it is about no tenant.
    pub tenant: Option<&'a Label>,
    /// The key's name; of a list, how the names begin. None where it is about no key.
    pub key: Option<&'a str>,
    /// How many items.
    pub items: u32,
    /// The key that it would make.
    pub makes: Option<&'a NewKey>,
}

/// How a gate is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether administration needs a token that is bound to a client's certificate.
    pub needs_certificate_for_administration: bool,
    /// How long a token lives unless it is told, in milliseconds.
    pub lifetime_ms: u64,
    /// How long a token may live.
    pub lifetime_ms_max: u64,
    /// Whether clients' certificates are verified, so that policies can name them.
    pub has_certificates: bool,
    /// How long before the end of the last administrator's token the warning begins.
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
    /// The default lifetime of an administrator's token.
    pub fn administrator_ms(&self) -> u64 {
        ADMINISTRATOR_MS.min(self.lifetime_ms_max)
    }

    /// Refuses a lifetime that no token may have.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check_lifetime(&self, lifetime_ms: u64) -> Result<(), Error> {
        if lifetime_ms == 0 {
            return Err(Error::Parameter("a token lives a second at least".to_owned()));
        }
        if lifetime_ms > self.lifetime_ms_max {
            let most = self.lifetime_ms_max / 1000;
            return Err(Error::Parameter(format!("a token lives {most} seconds at most")));
        }
        Ok(())
    }
}

/// Where everybody has to pass.
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
/// // Whoever has it takes something away from it, and gives that to somebody else.
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
    /// Opens the gate of a service. The first time it makes a root key.
    ///
    /// # Errors
    /// No randomness; the store's.
    pub fn open(kms: &Kms, options: Options, now_ms: u64) -> Result<Self, Error> {
        let (roots, sets) = (Roots::open(kms.context(), now_ms)?, PolicySets::open(kms.context())?);
        Ok(Gate { options, roots, sets, administrators: Administrators::open(kms.context())? })
    }

    /// Takes whoever has a token for whom it says.
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
                // Those are about what is asked for, or were looked at above.
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

    /// Takes somebody for whom a certificate names, which was verified already. They may do what a policy says, and
    /// nothing where there is none. The case of letters in a DNS name does not count.
    pub fn of_certificate(&self, principal: Principal, peer: &Peer) -> Caller {
        Caller::of(principal.of_certificate(), Method::Certificate, peer)
    }

    /// The process itself, which may do everything.
    pub fn local(&self, principal: Principal) -> Caller {
        Caller::of(principal, Method::Local, &Peer::default())
    }

    /// Whether administration needs a token that is bound to a client's certificate.
    pub fn needs_certificate(&self) -> bool {
        self.options.needs_certificate_for_administration
    }

    /// Whether somebody may do something, now: caveats first, then policies.
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

    /// Whether somebody may do something with some key: what their token says of that. Policies may still deny it.
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

    /// Returns whether the caller may see a key. A key that `show` hides is hidden in lists and errors, too. The actions of the
    /// caller's token do not count: limiting a token to `list` must not reveal names.
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

    /// Whether the policies that are in force allow something.
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
                // Where there is no policy, a token may what its caveats let pass.
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

    /// Whether policies do not apply to the caller: its token, or the token that it was attenuated from, was made by the last
    /// recovery.
    fn overrides_policies(&self, who: &Caller) -> bool {
        matches!(who.method, Method::Token { id } if self.administrators.is_recovered(id))
    }

    /// What the policies say of a request, and why: those that are in force, or those with another text of a set.
    /// Caveats count for nothing here. None where there is no policy.
    ///
    /// # Errors
    /// A text that is refused; the store's.
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

    /// Says what is wrong with the text of a set of policies, and with all sets together if it were one.
    ///
    /// # Errors
    /// [`Error::Parameter`], with lines and columns; too many policies.
    pub fn check_policies(&self, name: &Label, text: &str) -> Result<(), Error> {
        self.sets.in_force().with(name, text).map(drop)
    }

    /// Writes a set of policies, or deletes it where there is no text. The version that comes of it. It is in force when
    /// this returns. Where nobody knows whether it happened, both what was and what would be have to allow.
    ///
    /// # Errors
    /// A text that is refused; policies that would not let their author change them again; the store's.
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

    /// Exempts the token of a recovered administrator from policies, for as long as the token lives.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn override_policies(&self, kms: &Kms, id: TokenId) -> Result<(), Error> {
        self.administrators.record_recovered(kms.context(), id)
    }

    /// The policies in force that permit a principal to change policies or make tokens.
    pub fn administration_permits(&self) -> Vec<AdministrationPermit> {
        self.sets.in_force().administration_permits()
    }

    /// The sets of policies that are in force, in the order of their names.
    pub fn policies(&self) -> Vec<PolicySetInfo> {
        self.sets.in_force().infos()
    }

    /// Makes a token. A lifetime that is given is exact: it is refused if a caveat ends the token earlier. The default lifetime
    /// of the options is only an upper bound.
    ///
    /// # Errors
    /// Too many caveats; an `expires` caveat in the past; a lifetime longer than the options or the caveats allow; no randomness.
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

    /// How the gate is set up.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Records a new token that can make tokens itself, so that a warning precedes its end.
    ///
    /// # Errors
    /// The store's.
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

    /// Whether neither an administrator's token nor its id is revoked.
    fn is_unrevoked(&self, known: &Administrator) -> bool {
        !self.roots.is_revoked(known.id) && !self.roots.is_cut(known.id, &known.chain)
    }

    /// Returns when the last administrator's token ends, in milliseconds since 1970; 0 if each known one is revoked or denied by
    /// policies. Returns `None` if a policy lets certificates make tokens, whose ends are their authority's, or if no such token is known.
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

    /// Makes a root key. Tokens of the older ones are still verified.
    ///
    /// # Errors
    /// No randomness; the store's.
    pub fn rotate(&self, kms: &Kms, now_ms: u64) -> Result<RootId, Error> {
        self.roots.rotate(kms.context(), now_ms)
    }

    /// Retires an older root key, for good: none of its tokens is one any more.
    ///
    /// # Errors
    /// The newest one, or none; the store's.
    pub fn retire(&self, kms: &Kms, id: RootId) -> Result<(), Error> {
        self.roots.retire(kms.context(), id)
    }

    /// The root keys that live, the newest one first.
    pub fn roots(&self) -> Vec<RootId> {
        self.roots.ids()
    }

    /// Revokes a token and all that were made of it. It is revoked also where this says that nobody knows; then a
    /// restart may forget it.
    ///
    /// # Errors
    /// The store's.
    pub fn revoke(&self, kms: &Kms, id: TokenId, now_ms: u64) -> Result<(), Error> {
        self.roots.revoke(kms.context(), id, now_ms)
    }

    /// Revokes the caller's own token and its attenuations, but not the token that it was made of. No limit refuses that: if too many
    /// tokens of one id revoked themselves, the branch with most of them is revoked as a whole. Returns the id, and as text the
    /// chain of the token and the digests of such branches ([`crate::audit::Change::Cut`]). A digest makes no token.
    ///
    /// # Errors
    /// The caller has no token; the store's.
    pub fn revoke_own(&self, kms: &Kms, who: &Caller) -> Result<(TokenId, String), Error> {
        match who.method {
            Method::Token { id } if !who.line.is_empty() => {
                let revoked = self.roots.cut(kms.context(), id, &who.line)?;
                // A store that is restored places the token by its chain among others.
                let chain: Vec<String> = who.line.iter().map(|digest| hex(&digest.0)).collect();
                let branches = revoked.iter().filter(|digest| who.line.last() != Some(*digest));
                let branches = branches.map(|digest| hex(&digest.0));
                let told: Vec<String> = iter::once(chain.join("/")).chain(branches).collect();
                Ok((id, told.join(",")))
            }
            _ => Err(Error::Parameter("there is no token to revoke".to_owned())),
        }
    }

    /// Checks that the caller has a token, which it may revoke.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the caller has no token.
    pub(crate) fn check_has_token(&self, who: &Caller) -> Result<(), Error> {
        match who.method {
            Method::Token { .. } if !who.line.is_empty() => Ok(()),
            _ => Err(Error::Parameter("there is no token to revoke".to_owned())),
        }
    }

    /// Revokes an id again of which the audit log says so; whether it was not.
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

    /// Revokes one token again, with those that were made of it, of which the audit log says so; whether it was not.
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

    /// Retires a root key again of which the audit log says so; whether it was not. The newest one is followed by another.
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

/// What somebody may where there is no policy.
fn without_policy(who: &Caller) -> Result<(), DenialReason> {
    match who.method {
        Method::Certificate => Err(DenialReason::NoPolicy),
        Method::Token { .. } | Method::Local => Ok(()),
    }
}

/// A request as policies see it.
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

/// Whether somebody may see what a request is about: a key that one may not see answers as one that is not there.
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

/// Whether a caveat lets a request pass.
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
        // The connection was looked at when its token was.
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
