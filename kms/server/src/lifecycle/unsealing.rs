//! Unsealing: by shares, by the passphrase, or to recover an administrator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_kms::gate::{self, AdministrationPermit, Peer, Principal, Token};
use gabion_kms::seal::{self, Share, Shares, UnsealMethod};
use gabion_kms::service::Generation;
use gabion_kms_wire::{Secret, native};

use super::seal_state::SealState;
use super::unseal_limits::{ClientAddress, PassphraseThrottle};
use crate::problem::Problem;

/// The maximum number of shares that are collected.
const GIVEN_MAX: usize = 255;

/// The maximum number of permits that the answer to a recovery lists.
const PERMITS_MAX: usize = 100;

/// The maximum number of characters of a principal in that list.
const PERMIT_PRINCIPAL_MAX: usize = 256;

/// Collects shares and limits passphrase attempts.
pub struct Unsealing {
    seal: Arc<SealState>,
    /// The shares collected so far. Held while the service is unsealed, so that this happens once
    /// at a time.
    given: Mutex<Vec<Share>>,
    /// The shares collected for a new administrator. Lock order: before `given`.
    recovering: Mutex<Recovery>,
    throttle: PassphraseThrottle,
}

/// The shares collected for a new administrator.
#[derive(Default)]
struct Recovery {
    shares: Vec<Share>,
    principal: Option<String>,
    /// The certificate that the token will be bound to.
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

    /// Accepts a share, or the passphrase. Enough shares unseal the service.
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
            // Retry a failed unsealing with the shares that were collected for it.
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
                // Only a client with a share of the set may reset the collected shares.
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
        // Only the client that unsealed the service gets the report, not later ones.
        let service = self.seal.service().ok().filter(|_| !was_open);
        let lines = service.map(|service| service.reconcile_report().lines().collect::<Vec<_>>());
        Ok(native::Sealing { restored: lines.filter(|lines| !lines.is_empty()), ..sealing })
    }

    /// Unseals by a passphrase. Shares are accepted meanwhile: a wrong passphrase does not delay
    /// them.
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

    /// Seals the service. Running operations complete.
    pub fn close(&self) -> native::Sealing {
        let given = self.given();
        self.seal.replace(None);
        self.sealing(&given)
    }

    /// Parses a share of this store's set. Clients are not authenticated, so shares of other sets
    /// are not collected.
    fn parse_share(&self, text: &Secret) -> Result<Share, Problem> {
        let share = read(text)?;
        match seal::is_of_its_set(&*self.seal.store, &share)? {
            true => Ok(share),
            false => Err(Problem::other_set(share.index(), &share.set())),
        }
    }

    /// Returns the recovery set, and the number of its collected shares; 0 while the service is
    /// being unsealed.
    pub fn progress(&self) -> Result<(Option<Shares>, usize), Problem> {
        let given = self.given.try_lock().map_or(0, |given| given.len());
        Ok((seal::recovery(&*self.seal.store)?, given))
    }

    /// Adds a share, and unseals if there are enough.
    fn take(&self, given: &mut Vec<Share>, share: Share) -> Result<(), Problem> {
        if enough(given, share)? { self.open_by(given) } else { Ok(()) }
    }

    /// Unseals with the collected shares. They are kept if that fails for another reason than wrong
    /// shares.
    fn open_by(&self, given: &mut Vec<Share>) -> Result<(), Problem> {
        self.seal.wait_for_end()?;
        let opened = seal::unseal(&*self.seal.store, UnsealMethod::Shares(given));
        let opened = opened.and_then(|sealer| self.seal.open(sealer)).map_err(Problem::from);
        spend(given, &opened);
        opened
    }

    /// Accepts a share for a new administrator. Enough shares unseal the service if it is sealed,
    /// and replace all tokens by a new one.
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
            // The giver of the last share must not redirect the other shares to a token of their
            // own.
            let why = "the shares that were given before are for another administrator, certificate or lifetime";
            return Err(Problem::bad(why).hint("`gabion kms recover-admin --reset` drops them"));
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

    /// Makes the token of a new administrator, and unseals for that if necessary. Returns it with
    /// the policies that permit administration to others.
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

/// Rejects an unauthenticated client that would reset the collected shares, because repeated resets
/// could prevent unsealing.
fn may_forget(client: ClientAddress) -> Result<(), Problem> {
    if !client.is_stranger() {
        return Ok(());
    }
    let why = "only a holder of a share may reset the shares of others";
    Err(Problem::denied(why).hint(
        "give your share with the request, or use the server's own socket or a client certificate",
    ))
}

fn read(share: &Secret) -> Result<Share, Problem> {
    share.expose().parse().map_err(|error| {
        Problem::from(gabion_kms::Error::Seal(gabion_kms::SealError::Share(error)))
    })
}

/// Adds a share. Returns whether there are enough.
fn enough(given: &mut Vec<Share>, share: Share) -> Result<bool, Problem> {
    // Shares of two sets cannot be combined: the first one determines the set.
    if given.first().is_some_and(|first| first.set() != share.set()) {
        return Err(Problem::bad(
            "the share belongs to another set than those that were given before",
        )
        .hint("repeat the command with `--reset` to drop them"));
    }
    if given.iter().all(|known| known.index() != share.index()) && given.len() < GIVEN_MAX {
        given.push(share);
    }
    Ok(is_enough(given))
}

fn is_enough(given: &[Share]) -> bool {
    given.first().is_some_and(|first| given.len() >= usize::from(first.threshold()))
}

/// Drops shares that were used, those of a request that cannot succeed, and all shares if one is
/// wrong, because it is unknown which one. After a failure of the server they are kept for the next
/// attempt.
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

/// Parses a SHA-256 in hexadecimal, as in a token's caveat.
fn digest(text: &str) -> Result<[u8; 32], Problem> {
    match format!("cnf={text}").parse()? {
        gate::Caveat::Cnf(digest) => Ok(digest),
        _ => Err(Problem::bad("`cnf` is not a SHA-256 in hexadecimal")),
    }
}
