//! The gate: who somebody is, and whether they may do what they ask for.

use std::net::IpAddr;

use super::action::{Action, Actions};
use super::caveat::Caveat;
use super::principal::Principal;
use super::roots::{RootId, Roots};
use super::token::{Token, TokenId};
use crate::error::{Denied, Error, Unauthenticated};
use crate::model::Label;
use crate::operations::Kms;

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// From where. None of a socket that has no address.
    pub address: Option<IpAddr>,
    /// The SHA-256 of the certificate with which the client authenticated itself.
    pub certificate: Option<[u8; 32]>,
}

/// How somebody was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By a token.
    Token {
        /// Which.
        id: TokenId,
    },
    /// By a certificate.
    Certificate,
    /// It is the process itself.
    Local,
}

/// Somebody who was authenticated.
#[derive(Clone, Debug)]
pub struct Authenticated {
    principal: Principal,
    method: Method,
    caveats: Vec<Caveat>,
    root: Option<RootId>,
}

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
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

impl Default for Options {
    fn default() -> Self {
        Options {
            needs_certificate_for_administration: true,
            lifetime_ms: DAY_MS,
            lifetime_ms_max: 365 * DAY_MS,
        }
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
/// let sign = |key| Request { action: Action::Sign, tenant: Some(&tenant), key: Some(key), items: 1 };
/// assert!(gate.allow(&who, &sign("web-1"), now_ms).is_ok());
/// assert!(gate.allow(&who, &sign("firmware"), now_ms).is_err());
/// # Ok::<(), gabion_kms::Error>(())
/// ```
pub struct Gate {
    options: Options,
    roots: Roots,
}

impl Gate {
    /// Opens the gate of a service. The first time it makes a root key.
    ///
    /// # Errors
    /// No randomness; the store's.
    pub fn open(kms: &Kms, options: Options, now_ms: u64) -> Result<Self, Error> {
        Ok(Gate { options, roots: Roots::open(kms.kept(), now_ms)? })
    }

    /// Takes whoever has a token for whom it says.
    ///
    /// # Errors
    /// [`Unauthenticated`].
    pub fn authenticate(
        &self,
        token: &str,
        peer: &Peer,
        now_ms: u64,
    ) -> Result<Authenticated, Unauthenticated> {
        let token: Token = token.parse().map_err(|_| Unauthenticated::Invalid)?;
        if !self.roots.made(&token) {
            return Err(Unauthenticated::Invalid);
        }
        if self.roots.is_revoked(token.id()) {
            return Err(Unauthenticated::Revoked);
        }
        if token.expires_ms().is_none_or(|expires| expires <= now_ms) {
            return Err(Unauthenticated::Expired);
        }
        for caveat in token.caveats() {
            match caveat {
                Caveat::Cidr(cidr) => match peer.address {
                    Some(address) if cidr.contains(address) => {}
                    Some(_) | None => return Err(Unauthenticated::Address),
                },
                Caveat::Cnf(digest) if peer.certificate != Some(*digest) => {
                    return Err(Unauthenticated::Certificate);
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
        Ok(Authenticated {
            principal: token.principal().clone(),
            method: Method::Token { id: token.id() },
            caveats: token.caveats().to_vec(),
            root: Some(RootId::of(&token)),
        })
    }

    /// Takes somebody for whom a certificate names, which was verified already. They may do what a policy says, and
    /// nothing where there is none.
    pub fn of_certificate(&self, principal: Principal) -> Authenticated {
        Authenticated { principal, method: Method::Certificate, caveats: Vec::new(), root: None }
    }

    /// The process itself, which may do everything.
    pub fn local(&self, principal: Principal) -> Authenticated {
        Authenticated { principal, method: Method::Local, caveats: Vec::new(), root: None }
    }

    /// Whether administration needs a token that is bound to a client's certificate.
    pub fn needs_certificate(&self) -> bool {
        self.options.needs_certificate_for_administration
    }

    /// Whether somebody may do something, now.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn allow(
        &self,
        who: &Authenticated,
        request: &Request<'_>,
        now_ms: u64,
    ) -> Result<(), Denied> {
        match who.method {
            Method::Local => Ok(()),
            Method::Certificate => Err(Denied::NoPolicy),
            Method::Token { id } => {
                if self.roots.is_revoked(id) || !who.root.is_some_and(|id| self.roots.lives(id)) {
                    return Err(Denied::Revoked);
                }
                who.caveats.iter().try_for_each(|caveat| check(caveat, request, now_ms))?;
                let is_bound = who.caveats.iter().any(|caveat| matches!(caveat, Caveat::Cnf(_)));
                let needs = self.options.needs_certificate_for_administration;
                match request.action.is_administration() && needs && !is_bound {
                    true => Err(Denied::NeedsCertificate),
                    false => Ok(()),
                }
            }
        }
    }

    /// Makes a token, with an end as far away as it is told, or as the options say.
    ///
    /// # Errors
    /// Too many caveats; a longer life than there may be; no randomness.
    pub fn mint(
        &self,
        principal: &Principal,
        caveats: &[Caveat],
        lifetime_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Token, Error> {
        let lifetime_ms = lifetime_ms.unwrap_or(self.options.lifetime_ms);
        if lifetime_ms > self.options.lifetime_ms_max {
            let most = self.options.lifetime_ms_max / 1000;
            return Err(Error::Parameter(format!("a token lives {most} seconds at most")));
        }
        let mut all = vec![Caveat::Expires(now_ms.saturating_add(lifetime_ms))];
        all.extend_from_slice(caveats);
        self.roots.mint(principal, &all)
    }

    /// Makes a root key. Tokens of the older ones are still verified.
    ///
    /// # Errors
    /// No randomness; the store's.
    pub fn rotate(&self, kms: &Kms, now_ms: u64) -> Result<RootId, Error> {
        self.roots.rotate(kms.kept(), now_ms)
    }

    /// Retires an older root key, for good: none of its tokens is one any more.
    ///
    /// # Errors
    /// The newest one, or none; the store's.
    pub fn retire(&self, kms: &Kms, id: RootId) -> Result<(), Error> {
        self.roots.retire(kms.kept(), id)
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
        self.roots.revoke(kms.kept(), id, now_ms)
    }
}

impl Authenticated {
    /// Who.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// How.
    pub fn method(&self) -> Method {
        self.method
    }

    /// What limits them.
    pub fn caveats(&self) -> &[Caveat] {
        &self.caveats
    }

    /// What a token that they make is limited to: it may no more than they may, and not for longer.
    pub fn inherited(&self) -> Vec<Caveat> {
        let passes_on = |caveat: &&Caveat| match caveat {
            Caveat::Expires(_)
            | Caveat::Tenant(_)
            | Caveat::KeyPrefix(_)
            | Caveat::Actions(_)
            | Caveat::BatchMax(_) => true,
            // Those are about who holds a token, which is somebody else now.
            Caveat::Cidr(_) | Caveat::Cnf(_) => false,
        };
        self.caveats.iter().filter(passes_on).cloned().collect()
    }

    /// What the caveats allow, as far as they are about actions.
    pub fn actions(&self) -> Actions {
        Actions::all()
            .iter()
            .filter(|&action| {
                self.caveats.iter().all(|caveat| match caveat {
                    Caveat::Actions(actions) => actions.contains(action),
                    Caveat::Expires(_)
                    | Caveat::Tenant(_)
                    | Caveat::KeyPrefix(_)
                    | Caveat::Cidr(_)
                    | Caveat::Cnf(_)
                    | Caveat::BatchMax(_) => true,
                })
            })
            .collect()
    }
}

/// Whether a caveat lets a request pass.
fn check(caveat: &Caveat, request: &Request<'_>, now_ms: u64) -> Result<(), Denied> {
    let (passes, denied) = match caveat {
        Caveat::Expires(ms) => (now_ms < *ms, Denied::Expired),
        Caveat::Tenant(tenant) => (request.tenant == Some(tenant), Denied::Tenant),
        Caveat::KeyPrefix(prefix) => {
            (request.key.is_some_and(|key| key.starts_with(&**prefix)), Denied::Key)
        }
        Caveat::Actions(actions) => {
            (actions.contains(request.action), Denied::Action(request.action.as_str()))
        }
        Caveat::BatchMax(most) => (request.items <= *most, Denied::Batch(*most)),
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
        assert_eq!(refused, Some(Unauthenticated::Expired));
        let ending = endless.parse::<Token>().unwrap().attenuate(Caveat::Expires(2)).unwrap();
        assert!(gate.authenticate(&ending.to_string(), &Peer::default(), 1).is_ok());
    }
}
