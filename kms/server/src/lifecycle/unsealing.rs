//! Opening the seal: by shares, by the passphrase, or to recover an administrator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_kms::gate::{self, AdministrationPermit, Peer, Principal, Token};
use gabion_kms::seal::{self, Share, Shares, UnsealMethod};
use gabion_kms::service::Generation;
use gabion_kms_wire::{Secret, native};

use super::seal_state::SealState;
use super::unseal_limits::{ClientAddress, PassphraseThrottle};
use crate::problem::Problem;

/// Most shares that wait for others.
const GIVEN_MAX: usize = 255;

/// The maximum number of permits that the answer to a recovery lists.
const PERMITS_MAX: usize = 100;

/// The maximum number of characters of a principal in that list.
const PERMIT_PRINCIPAL_MAX: usize = 256;

/// Collects the shares that were given and limits passphrase attempts.
pub struct Unsealing {
    seal: Arc<SealState>,
    /// Shares that were given, and are too few so far. Held while the seal is opened: once at a time.
    given: Mutex<Vec<Share>>,
    /// Shares that were given for a new administrator. Taken before `given`.
    recovering: Mutex<Recovery>,
    throttle: PassphraseThrottle,
}

/// Shares that were given for a new administrator.
#[derive(Default)]
struct Recovery {
    shares: Vec<Share>,
    principal: Option<String>,
    /// What the token is to be bound to.
    certificate: Option<[u8; 32]>,
    lifetime_s: Option<u64>,
}

impl Unsealing {
    pub fn new(seal: Arc<SealState>) -> Self {
        Unsealing {
            seal,
            given: Mutex::default(),
            recovering: Mutex::default(),
            throttle: PassphraseThrottle::default(),
        }
    }

    /// Takes a share, or the passphrase. Enough of them open the seal.
    pub fn unseal(&self, by: &native::Unseal, peer: &Peer) -> Result<native::Sealing, Problem> {
        let (client, forgets) = (ClientAddress::of(peer), by.reset == Some(true));
        let was_open = self.seal.service().is_ok();
        match (&by.share, &by.passphrase) {
            _ if self.seal.service().is_ok() => {}
            (Some(_), Some(_)) => {
                return Err(Problem::bad("expected one of `share` and `passphrase`"));
            }
            (None, None) if forgets => {
                may_forget(client)?;
                self.given().clear();
            }
            // An opening that failed is tried again by the shares that were given for it.
            (None, None) if is_enough(&self.given()) && !client.is_stranger() => {
                let mut given = self.given();
                if is_enough(&given) && self.seal.service().is_err() {
                    self.open_by(&mut given)?;
                }
            }
            (None, None) => return Err(Problem::bad("missing field `share` or `passphrase`")),
            (None, Some(passphrase)) => {
                if forgets {
                    may_forget(client)?;
                    self.given().clear();
                }
                self.try_passphrase(client, passphrase)?;
            }
            (Some(share), None) => {
                // Who has one of the set may have it count anew.
                let share = self.parse_share(share)?;
                let mut given = self.given();
                if forgets {
                    given.clear();
                }
                if self.seal.service().is_err() {
                    self.take(&mut given, share)?;
                }
            }
        }
        let sealing = self.sealing(&self.given());
        // Whoever opened it hears what came of that, and nobody who asks later.
        let service = self.seal.service().ok().filter(|_| !was_open);
        let lines = service.map(|service| service.reconcile_report().lines().collect::<Vec<_>>());
        Ok(native::Sealing { restored: lines.filter(|lines| !lines.is_empty()), ..sealing })
    }

    /// Opens the seal by a passphrase. Shares are taken meanwhile: a wrong one keeps nobody waiting.
    fn try_passphrase(&self, client: ClientAddress, passphrase: &Secret) -> Result<(), Problem> {
        self.seal.wait_for_end()?;
        let _attempt = self.throttle.begin(client)?;
        if self.seal.service().is_ok() {
            return Ok(());
        }
        let sealer =
            seal::unseal(&*self.seal.store, UnsealMethod::Passphrase(passphrase.expose()))?;
        let mut given = self.given();
        if self.seal.service().is_err() {
            self.seal.open(sealer)?;
            given.clear();
        }
        Ok(())
    }

    /// Closes the seal. What runs goes on to its end.
    pub fn close(&self) -> native::Sealing {
        let given = self.given();
        self.seal.replace(None);
        self.sealing(&given)
    }

    /// A share of this store's set. Anybody may give one: another set's is not put beside those that were given.
    fn parse_share(&self, text: &Secret) -> Result<Share, Problem> {
        let share = read(text)?;
        match seal::is_of_its_set(&*self.seal.store, &share)? {
            true => Ok(share),
            false => Err(Problem::other_set(share.index(), &share.set())),
        }
    }

    /// The recovery set, and how many of its shares were given. While the seal is being opened none is counted.
    pub fn progress(&self) -> Result<(Option<Shares>, usize), Problem> {
        let given = self.given.try_lock().map_or(0, |given| given.len());
        Ok((seal::recovery(&*self.seal.store)?, given))
    }

    /// Takes one share more, and opens the seal if there are enough.
    fn take(&self, given: &mut Vec<Share>, share: Share) -> Result<(), Problem> {
        if enough(given, share)? { self.open_by(given) } else { Ok(()) }
    }

    /// Opens the seal by the shares that were given. They are kept where it fails for another reason than a wrong one.
    fn open_by(&self, given: &mut Vec<Share>) -> Result<(), Problem> {
        self.seal.wait_for_end()?;
        let opened = seal::unseal(&*self.seal.store, UnsealMethod::Shares(given));
        let opened = opened.and_then(|sealer| self.seal.open(sealer)).map_err(Problem::from);
        spend(given, &opened);
        opened
    }

    /// Takes a share for a new administrator. Enough of them open the seal if it is closed, and replace every token by one.
    pub fn recover_admin(
        &self,
        by: &native::RecoverAdmin,
        peer: &Peer,
    ) -> Result<(native::Recovering, Option<Generation>), Problem> {
        let told = |given: &[Share], token: Option<Token>| native::Recovering {
            given: given.len() as u32,
            threshold: given.first().map(|share| share.threshold().into()),
            expires_ms: token.as_ref().and_then(Token::expires_ms),
            token: token.map(|token| token.to_string().into()),
            revision: self.seal.revision(),
            ..native::Recovering::default()
        };
        let recovering = || self.recovering.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(share) = &by.share else {
            return match by.reset {
                Some(true) => {
                    may_forget(ClientAddress::of(peer))?;
                    *recovering() = Recovery::default();
                    Ok((told(&[], None), None))
                }
                Some(false) | None => Err(Problem::bad("missing field `share`")),
            };
        };
        let share = self.parse_share(share)?;
        let certificate = by.cnf.as_deref().map(digest).transpose()?;
        let principal = Principal::new(by.principal.as_deref().unwrap_or("first"))?;
        let lifetime_ms = by.lifetime_s.map(|seconds| seconds.saturating_mul(1000));
        // Checked before a share is used.
        lifetime_ms.map_or(Ok(()), |ms| self.seal.options.gate.check_lifetime(ms))?;
        let mut recovery = recovering();
        if by.reset == Some(true) {
            *recovery = Recovery::default();
        }
        if recovery.shares.is_empty() {
            recovery.principal = by.principal.clone();
            (recovery.certificate, recovery.lifetime_s) = (certificate, by.lifetime_s);
        } else if (&recovery.principal, recovery.certificate, recovery.lifetime_s)
            != (&by.principal, certificate, by.lifetime_s)
        {
            // Whoever gives the last share is not to turn the others' into a token of their own.
            let why = "the shares that were given before are for another administrator, certificate or lifetime";
            return Err(Problem::bad(why).hint("`gabion kms recover-admin --reset` forgets those"));
        }
        if !enough(&mut recovery.shares, share)? {
            return Ok((told(&recovery.shares, None), None));
        }
        let recovered =
            self.make_administrator(&recovery.shares, &principal, certificate, lifetime_ms);
        let recovered = recovered.map(|(token, permits, generation)| {
            let listed = permits.iter().take(PERMITS_MAX).map(permit).collect();
            let recovering = native::Recovering {
                overrides_policies: Some(true),
                permits: Some(listed),
                more_permits: Some(permits.len().saturating_sub(PERMITS_MAX) as u64)
                    .filter(|&more| more > 0),
                ..told(&recovery.shares, Some(token))
            };
            (recovering, Some(generation))
        });
        spend(&mut recovery.shares, &recovered);
        recovered
    }

    /// Makes the token of a new administrator, and opens the seal for that if it is closed. Returns it with the policies that
    /// permit administration to others.
    fn make_administrator(
        &self,
        shares: &[Share],
        principal: &Principal,
        certificate: Option<[u8; 32]>,
        lifetime_ms: Option<u64>,
    ) -> Result<(Token, Vec<AdministrationPermit>, Generation), Problem> {
        let given = self.given();
        let sealer = seal::unseal(&*self.seal.store, UnsealMethod::Shares(shares))?;
        if self.seal.service().is_err() {
            self.seal.wait_for_end()?;
            self.seal.open(sealer)?;
        }
        drop(given);
        let service = self.seal.service()?;
        let token = service.recover(principal, certificate, lifetime_ms)?;
        Ok((token, service.gate().administration_permits(), service.generation().clone()))
    }

    fn sealing(&self, given: &[Share]) -> native::Sealing {
        native::Sealing {
            sealed: self.seal.service().is_err(),
            given: given.len() as u32,
            threshold: given.first().map(|share| share.threshold().into()),
            revision: self.seal.revision(),
            restored: None,
        }
    }

    fn given(&self) -> MutexGuard<'_, Vec<Share>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a stranger who would have the shares of others forgotten: again and again, so that there are never enough.
fn may_forget(client: ClientAddress) -> Result<(), Problem> {
    if !client.is_stranger() {
        return Ok(());
    }
    let why = "who gives no share has none of others' forgotten";
    Err(Problem::denied(why)
        .hint("give a share of yours with it, or ask at the server's own socket or by a client's certificate"))
}

fn read(share: &Secret) -> Result<Share, Problem> {
    share.expose().parse().map_err(|error| {
        Problem::from(gabion_kms::Error::Seal(gabion_kms::SealError::Share(error)))
    })
}

/// Takes one share more; whether there are enough.
fn enough(given: &mut Vec<Share>, share: Share) -> Result<bool, Problem> {
    // Shares of two sets make no key: the first one says which set is meant.
    if given.first().is_some_and(|first| first.set() != share.set()) {
        return Err(Problem::bad("the share is of another set than those that were given before")
            .hint("the same command with `--reset` forgets those"));
    }
    if given.iter().all(|known| known.index() != share.index()) && given.len() < GIVEN_MAX {
        given.push(share);
    }
    Ok(is_enough(given))
}

fn is_enough(given: &[Share]) -> bool {
    given.first().is_some_and(|first| given.len() >= usize::from(first.threshold()))
}

/// Forgets shares by which something was done, those of a request that can't succeed, and wrong ones: nobody knows which of
/// them it was. After a failure of the server the next try needs no new ones.
fn spend<T>(given: &mut Vec<Share>, done: &Result<T, Problem>) {
    if done.as_ref().err().is_none_or(|problem| problem.status < 500) {
        given.clear();
    }
}

fn permit(of: &AdministrationPermit) -> native::AdministrationPermit {
    native::AdministrationPermit {
        policy: of.policy.clone(),
        principal: of.principal.chars().take(PERMIT_PRINCIPAL_MAX).collect(),
        actions: of.actions.iter().map(ToString::to_string).collect(),
        conditional: of.has_conditions,
    }
}

/// A SHA-256 in hexadecimal, as a token's caveat has it.
fn digest(text: &str) -> Result<[u8; 32], Problem> {
    match format!("cnf={text}").parse()? {
        gate::Caveat::Cnf(digest) => Ok(digest),
        _ => Err(Problem::bad("`cnf` is no SHA-256 in hexadecimal")),
    }
}
