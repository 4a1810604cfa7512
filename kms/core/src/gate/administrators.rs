//! Administrators' tokens, and when the last one expires.
//!
//! A token is an administrator's if it can make tokens (`token`), and so every other token. The
//! store has no tokens. One sealed record has the ids and expiry times of administrators' tokens,
//! so that a warning can precede the expiry of the last one.
//!
//! A second sealed record has the id of the token that `recover-admin` made last. Policies do not
//! apply to that token, so that a recovery also works under policies that deny everything.

use std::sync::{Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::caveat::Caveat;
use super::principal::Principal;
use super::roots::RootId;
use super::token::{TagDigest, TokenId};
use crate::error::Error;
use crate::operations::{StoreContext, damaged, opened, opened_bytes, sealed, settle_with};
use crate::store::{RecordPath, SettleOutcome, Transaction};

/// The maximum number of known tokens. Those that expire last are kept.
const KNOWN_MAX: usize = 64;

/// The number of attempts to write the record if another process writes it concurrently.
const TRIES: usize = 8;

/// A token whose caveats permit making tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Administrator {
    #[serde(with = "as_text")]
    pub id: TokenId,
    #[serde(with = "as_text")]
    pub root: RootId,
    pub principal: Principal,
    /// Whether the token is bound to a certificate.
    pub is_bound: bool,
    /// The expiry time in milliseconds since 1970.
    pub expires_ms: u64,
    /// The digests of the token's tags, so that the revocation of the token by its holder is
    /// recognized. Empty if unknown.
    #[serde(default, with = "as_hex")]
    pub(super) chain: Vec<TagDigest>,
}

impl Administrator {
    /// Describes a token. Returns `None` if its caveats limit the tokens that it can make.
    pub(super) fn of(
        id: TokenId,
        root: RootId,
        principal: &Principal,
        caveats: &[Caveat],
        chain: &[TagDigest],
    ) -> Option<Self> {
        let (mut expires_ms, mut is_bound) = (u64::MAX, false);
        for caveat in caveats {
            match caveat {
                Caveat::Expires(ms) => expires_ms = expires_ms.min(*ms),
                Caveat::Actions(actions) if actions.contains(Action::Token) => {}
                Caveat::Actions(_) | Caveat::Tenant(_) | Caveat::KeyPrefix(_) => return None,
                Caveat::Cnf(_) => is_bound = true,
                Caveat::Cidr(_) | Caveat::BatchMax(_) => {}
            }
        }
        let (principal, chain) = (principal.clone(), chain.to_vec());
        Some(Administrator { id, root, principal, is_bound, expires_ms, chain })
    }
}

/// The known administrators' tokens.
pub struct Administrators {
    known: RwLock<Vec<Administrator>>,
    /// The token to which policies do not apply.
    recovered: RwLock<Option<TokenId>>,
    writing: Mutex<()>,
}

/// The record of the token that the last recovery made.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecoveryRecord {
    #[serde(with = "as_text")]
    token: TokenId,
}

fn path() -> Result<RecordPath, Error> {
    Ok(RecordPath::new("administrators/tokens")?)
}

fn recovered_path() -> Result<RecordPath, Error> {
    Ok(RecordPath::new("administrators/recovered")?)
}

fn read(context: &StoreContext) -> Result<(Vec<Administrator>, u64), Error> {
    let at = path()?;
    let Some((plain, generation)) = opened_bytes(context, &at)? else { return Ok((Vec::new(), 0)) };
    let known = serde_json::from_slice(&plain).map_err(|error| damaged(&at, &error.to_string()))?;
    Ok((known, generation))
}

impl Administrators {
    /// Reads the records.
    pub fn open(context: &StoreContext) -> Result<Self, Error> {
        let recovered = opened::<RecoveryRecord>(context, &recovered_path()?)?;
        Ok(Administrators {
            known: RwLock::new(read(context)?.0),
            recovered: RwLock::new(recovered.map(|(recovered, _)| recovered.token)),
            writing: Mutex::default(),
        })
    }

    /// Returns whether the last recovery made this token.
    pub fn is_recovered(&self, id: TokenId) -> bool {
        *self.recovered.read().unwrap_or_else(PoisonError::into_inner) == Some(id)
    }

    /// Records the token that a recovery made, in place of an earlier one.
    pub fn record_recovered(&self, context: &StoreContext, token: TokenId) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = recovered_path()?;
        let generation = opened_bytes(context, &path)?.map_or(0, |(_, generation)| generation);
        let record = sealed(context, &path, generation + 1, &RecoveryRecord { token })?;
        match settle_with(context, &Transaction::new().put(path, generation, record), &token)? {
            SettleOutcome::Committed => {
                *self.recovered.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
                Ok(())
            }
            SettleOutcome::Conflict(_) => Err(Error::Conflict),
            SettleOutcome::Unknown => Err(Error::OutcomeUnknown),
        }
    }

    /// Returns all known tokens.
    pub fn known(&self) -> Vec<Administrator> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes an unknown token that is used, such as a token of an older program. It is known until
    /// the process ends. A token and its attenuations have one id; of these, the one with the
    /// shortest chain is kept.
    pub(super) fn note_used(
        &self,
        id: TokenId,
        chain: &[TagDigest],
        seen: impl FnOnce() -> Option<Administrator>,
    ) {
        let is_known = |known: &[Administrator]| {
            known.iter().any(|known| known.id == id && known.chain.len() <= chain.len())
        };
        if is_known(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        if let Some(seen) = seen() {
            insert(&mut self.known.write().unwrap_or_else(PoisonError::into_inner), seen, |_| true);
        }
    }

    /// Adds a new token to the record and removes tokens that have expired or are revoked.
    pub fn record(
        &self,
        context: &StoreContext,
        new: &Administrator,
        counts: impl Fn(&Administrator) -> bool,
    ) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..TRIES {
            let (mut known, generation) = read(context)?;
            insert(&mut known, new.clone(), &counts);
            let path = path()?;
            let plain = serde_json::to_vec(&known);
            let plain = plain.map_err(|error| Error::Parameter(error.to_string()))?;
            let sealed = context.sealer.seal(&path, generation + 1, &plain)?;
            let transaction = Transaction::new().put(path, generation, sealed);
            match settle_with(context, &transaction, &new.id)? {
                SettleOutcome::Committed => {
                    let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
                    insert(&mut all, new.clone(), counts);
                    return Ok(());
                }
                SettleOutcome::Conflict(_) => {}
                SettleOutcome::Unknown => return Err(Error::OutcomeUnknown),
            }
        }
        Err(Error::Conflict)
    }
}

/// Adds a token and removes those that no longer count. Beyond the limit, those that expire first
/// are removed.
fn insert(
    known: &mut Vec<Administrator>,
    new: Administrator,
    counts: impl Fn(&Administrator) -> bool,
) {
    known.retain(|known| known.id != new.id && counts(known));
    known.push(new);
    known.sort_by_key(|known| std::cmp::Reverse(known.expires_ms));
    known.truncate(KNOWN_MAX);
}

/// Serializes ids as text.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(id: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, T: FromStr>(from: D) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|_| D::Error::custom("expected an id"))
    }
}

/// Serializes digests as hexadecimal text.
mod as_hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::TagDigest;
    use crate::text::{hex, of_hex};

    pub fn serialize<S: Serializer>(chain: &[TagDigest], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(chain.iter().map(|digest| hex(&digest.0)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<TagDigest>, D::Error> {
        let digest = |text: &String| {
            of_hex(text).map(TagDigest).ok_or_else(|| D::Error::custom("expected a digest"))
        };
        Vec::<String>::deserialize(from)?.iter().map(digest).collect()
    }
}
