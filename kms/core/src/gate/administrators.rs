//! Which tokens can act as administrators, as far as the service made or saw them, and when the last one ends.
//!
//! An administrator is who may make tokens (`token`): by that they make all others. Tokens are nowhere in the store; a sealed record has
//! the id and the end of those that may, so that the end of the last one is known before it comes.

use std::sync::{Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::caveat::Caveat;
use super::principal::Principal;
use super::roots::RootId;
use super::token::TokenId;
use crate::error::Error;
use crate::operations::{Kept, damaged, opened_bytes, settle_with};
use crate::store::{RecordPath, Settled, Transaction};

/// Most of them that are known: those that end last.
const KNOWN_MAX: usize = 64;

/// How often a write is begun anew that another one came before.
const TRIES: usize = 8;

/// A token that may make tokens, by its caveats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Administrator {
    #[serde(with = "as_text")]
    pub id: TokenId,
    #[serde(with = "as_text")]
    pub root: RootId,
    pub principal: Principal,
    /// Whether it is bound to a certificate.
    pub is_bound: bool,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: u64,
}

impl Administrator {
    /// A token with these caveats; none if they don't let it make tokens of every kind.
    pub fn of(
        id: TokenId,
        root: RootId,
        principal: &Principal,
        caveats: &[Caveat],
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
        Some(Administrator { id, root, principal: principal.clone(), is_bound, expires_ms })
    }
}

/// The administrators' tokens that are known.
pub struct Administrators {
    known: RwLock<Vec<Administrator>>,
    writing: Mutex<()>,
}

fn path() -> Result<RecordPath, Error> {
    Ok(RecordPath::new("tokens/administrators")?)
}

fn read(kept: &Kept) -> Result<(Vec<Administrator>, u64), Error> {
    let at = path()?;
    let Some((plain, generation)) = opened_bytes(kept, &at)? else { return Ok((Vec::new(), 0)) };
    let known = serde_json::from_slice(&plain).map_err(|error| damaged(&at, &error.to_string()))?;
    Ok((known, generation))
}

impl Administrators {
    /// Reads them.
    pub fn open(kept: &Kept) -> Result<Self, Error> {
        Ok(Administrators { known: RwLock::new(read(kept)?.0), writing: Mutex::default() })
    }

    /// All that are known.
    pub fn known(&self) -> Vec<Administrator> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes one that is used, as older programs made: until the process ends.
    pub fn saw(&self, seen: impl FnOnce() -> Option<Administrator>, id: TokenId) {
        let is_known = |known: &[Administrator]| known.iter().any(|known| known.id == id);
        if is_known(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        if let Some(seen) = seen() {
            add(&mut self.known.write().unwrap_or_else(PoisonError::into_inner), seen, |_| true);
        }
    }

    /// Notes one that was made, in the store. Those that no longer count make place.
    pub fn made(
        &self,
        kept: &Kept,
        made: &Administrator,
        counts: impl Fn(&Administrator) -> bool,
    ) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..TRIES {
            let (mut known, generation) = read(kept)?;
            add(&mut known, made.clone(), &counts);
            let path = path()?;
            let plain = serde_json::to_vec(&known);
            let plain = plain.map_err(|error| Error::Parameter(error.to_string()))?;
            let sealed = kept.sealer.seal(&path, generation + 1, &plain)?;
            let transaction = Transaction::new().put(path, generation, sealed);
            match settle_with(kept, &transaction, &made.id)? {
                Settled::Committed => {
                    let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
                    add(&mut all, made.clone(), counts);
                    return Ok(());
                }
                Settled::Conflict(_) => {}
                Settled::Unknown => return Err(Error::OutcomeUnknown),
            }
        }
        Err(Error::Conflict)
    }
}

/// Adds one, in place of those that no longer count or end first.
fn add(
    known: &mut Vec<Administrator>,
    new: Administrator,
    counts: impl Fn(&Administrator) -> bool,
) {
    known.retain(|known| known.id != new.id && counts(known));
    known.push(new);
    known.sort_by_key(|known| std::cmp::Reverse(known.expires_ms));
    known.truncate(KNOWN_MAX);
}

/// Ids as they are written elsewhere.
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
