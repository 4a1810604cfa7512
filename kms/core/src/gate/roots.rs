//! The root keys of tokens and the revoked ids, as the store has them.
//!
//! ```text
//!   tokens/roots/ID      creation time (8 bytes), the key (32)     a tombstone once the root key is retired
//!   tokens/revoked/ID    the time of the revocation
//!   tokens/cut/ID        the tokens of that id that revoked themselves, with their attenuations
//!   tokens/cut/ID/DIGEST one such token, by its digest alone: written by older programs, and after a restore
//! ```
//!
//! All records are read into memory when the gate opens, so authentication does not read the store.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError, RwLock};

use gabion_engine::{Entropy, OsEntropy};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::caveat::Caveat;
use super::principal::Principal;
use super::revoked_chains::RevokedChains;
use super::token::{TagDigest, Token, TokenId};
use crate::error::Error;
use crate::operations::{StoreContext, damaged, opened_bytes, settle_with};
use crate::seal::Key;
use crate::store::{RecordPath, SettleOutcome, Transaction};
use crate::text::{hex, of_hex};

/// The id of a root key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootId([u8; 8]);

/// A root key. Secret.
struct Root {
    id: RootId,
    made_ms: u64,
    key: Key,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedTokens {
    revoked_ms: u64,
}

/// Root keys and revoked ids.
pub struct Roots {
    /// The root keys, the newest one first.
    roots: RwLock<Vec<Root>>,
    revoked: RwLock<HashSet<TokenId>>,
    cut: RwLock<HashMap<TokenId, RevokedChains>>,
    /// Held while a record of `cut` is written: each write contains the whole set of an id.
    cutting: Mutex<()>,
}

/// The maximum number of tokens per id that are revoked by their digest alone. One more revokes the
/// id.
const UNPLACED_MAX: usize = 256;

/// The number of records that are read at once.
const READ_TOGETHER: usize = 256;

impl Roots {
    /// Reads the records. If there is no root key, one is made.
    pub fn open(context: &StoreContext, now_ms: u64) -> Result<Self, Error> {
        let (mut roots, mut revoked) = (Vec::new(), HashSet::new());
        let mut cut: HashMap<TokenId, RevokedChains> = HashMap::new();
        let mut listed = each(context, &RecordPath::new("tokens/roots")?, |path, name, plain| {
            let parts = || {
                let (made, key) = plain.split_first_chunk::<8>()?;
                let key = Key::of(key).ok()?;
                Some(Root { id: name.parse().ok()?, made_ms: u64::from_le_bytes(*made), key })
            };
            roots.push(parts().ok_or_else(|| damaged(path, "it is not a root key"))?);
            Ok(())
        })?;
        listed += each(context, &RecordPath::new("tokens/revoked")?, |path, name, _| {
            revoked.insert(name.parse().map_err(|_| damaged(path, "its name is not a token id"))?);
            Ok(())
        })?;
        listed += each(context, &RecordPath::new("tokens/cut")?, |path, name, plain| {
            let mut read = || match path.as_str().split('/').nth(3) {
                None => cut.entry(name.parse().ok()?).or_default().decode(plain),
                Some(digest) => {
                    let of = path.as_str().split('/').nth(2)?.parse().ok()?;
                    let digest = TagDigest(of_hex(digest)?);
                    cut.entry(of).or_default().insert_unplaced(digest);
                    Some(())
                }
            };
            read().ok_or_else(|| damaged(path, "it is not a record of revoked tokens"))
        })?;
        // An unlisted revocation would have no effect.
        context.records.check_listed("tokens", listed)?;
        roots.sort_unstable_by_key(|root| std::cmp::Reverse((root.made_ms, root.id)));
        let is_first = roots.is_empty();
        let (revoked, cut) = (RwLock::new(revoked), RwLock::new(cut));
        let roots = Roots { roots: RwLock::new(roots), revoked, cut, cutting: Mutex::default() };
        if is_first {
            roots.rotate(context, now_ms)?;
        }
        Ok(roots)
    }

    /// Makes a root key, which makes tokens from now on.
    pub fn rotate(&self, context: &StoreContext, now_ms: u64) -> Result<RootId, Error> {
        let (mut id, key) = ([0; 8], Key::drawn()?);
        draw(&mut id)?;
        let id = RootId(id);
        // If the clock went back, the creation time is raised: the newest root key is the one that
        // was made last.
        let newest = self.read(|roots| roots.first().map_or(0, |root| root.made_ms + 1));
        let made_ms = now_ms.max(newest);
        let mut plain = Zeroizing::new([0; 40]);
        plain[..8].copy_from_slice(&made_ms.to_le_bytes());
        plain[8..].copy_from_slice(key.bytes()?);
        let path = id.path()?;
        let sealed = context.sealer.seal(&path, 1, &*plain)?;
        commit(context, &Transaction::new().put(path, 0, sealed), &id)?;
        self.roots
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(0, Root { id, made_ms, key });
        Ok(id)
    }

    /// Retires a root key permanently: its tokens become invalid. The newest one cannot be retired.
    pub fn retire(&self, context: &StoreContext, id: RootId) -> Result<(), Error> {
        let is_there = self.read(|roots| roots.iter().skip(1).any(|root| root.id == id));
        if !is_there {
            return Err(Error::Parameter(format!(
                "{id} is not an older root key; the newest one cannot be retired before another is made"
            )));
        }
        // Forget the root key even if the store fails: it must not be used from here on.
        let forget = |root: &Root| root.id != id;
        self.roots.write().unwrap_or_else(PoisonError::into_inner).retain(forget);
        commit(context, &Transaction::new().bury(id.path()?, 1), &id)
    }

    /// Returns the live root keys, the newest one first.
    pub fn ids(&self) -> Vec<RootId> {
        self.read(|roots| roots.iter().map(|root| root.id).collect())
    }

    /// Makes a token.
    pub fn mint(&self, principal: &Principal, caveats: &[Caveat]) -> Result<Token, Error> {
        let mut id = [0; 16];
        draw(&mut id)?;
        self.read(|roots| match roots.first() {
            Some(root) => {
                Token::mint(root.id.0, root.key.bytes()?, TokenId(id), principal.clone(), caveats)
            }
            None => Err(Error::Parameter("the service has no root key".to_owned())),
        })
    }

    /// Returns the chain of a token that a live root key made; `None` for other tokens.
    pub fn made(&self, token: &Token) -> Option<Vec<TagDigest>> {
        let id = RootId(token.root());
        self.read(|roots| {
            let root = roots.iter().find(|root| root.id == id)?;
            let key = root.key.bytes().ok()?;
            token.is_of(key).then(|| token.line(key))
        })
    }

    /// Returns whether a root key is live.
    pub fn lives(&self, id: RootId) -> bool {
        self.read(|roots| roots.iter().any(|root| root.id == id))
    }

    /// Revokes an id, and so all tokens that have it. Repeating it changes nothing.
    pub fn revoke(&self, context: &StoreContext, id: TokenId, now_ms: u64) -> Result<(), Error> {
        // Revoke the id in memory even if the store fails: it must not be used from here on.
        let is_new = self.revoked.write().unwrap_or_else(PoisonError::into_inner).insert(id);
        let path = RecordPath::new(format!("tokens/revoked/{id}"))?;
        let said = serde_json::to_vec(&RevokedTokens { revoked_ms: now_ms });
        let said = said.map_err(|error| Error::Parameter(error.to_string()))?;
        let sealed = context.sealer.seal(&path, 1, &said)?;
        match commit(context, &Transaction::new().put(path, 0, sealed), &id) {
            Err(Error::Conflict) if !is_new => Ok(()),
            committed => committed,
        }
    }

    /// Revokes one token with its attenuations. No limit refuses that: if too many tokens of the id
    /// revoked themselves, more is revoked ([`RevokedChains`]). Returns the digests of all revoked
    /// tokens. Repeating it changes nothing.
    pub fn cut(
        &self,
        context: &StoreContext,
        of: TokenId,
        line: &[TagDigest],
    ) -> Result<Vec<TagDigest>, Error> {
        let _cutting = self.cutting.lock().unwrap_or_else(PoisonError::into_inner);
        let (revoked, all) = {
            let mut cut = self.cut.write().unwrap_or_else(PoisonError::into_inner);
            let of = cut.entry(of).or_default();
            // Revoke the token in memory even if the store fails: it must not be used from here on.
            (of.insert(line), of.encode())
        };
        let path = RecordPath::new(format!("tokens/cut/{of}"))?;
        let (before, generation) = match opened_bytes(context, &path)? {
            Some((plain, generation)) => (Some(plain), generation),
            None => (None, 0),
        };
        if before.is_some_and(|before| *before == all) {
            return Ok(revoked);
        }
        let sealed = context.sealer.seal(&path, generation + 1, &all)?;
        commit(context, &Transaction::new().put(path, generation, sealed), &of)?;
        Ok(revoked)
    }

    /// Revokes one token by its digest, with its attenuations. Beyond [`UNPLACED_MAX`] tokens of an
    /// id the whole id is revoked. Repeating it changes nothing.
    pub fn cut_by_digest(
        &self,
        context: &StoreContext,
        of: TokenId,
        digest: TagDigest,
        now_ms: u64,
    ) -> Result<(), Error> {
        let is_full = {
            let mut cut = self.cut.write().unwrap_or_else(PoisonError::into_inner);
            let of = cut.entry(of).or_default();
            let is_full = of.unplaced_len() >= UNPLACED_MAX;
            if !is_full {
                of.insert_unplaced(digest);
            }
            is_full
        };
        if is_full {
            return self.revoke(context, of, now_ms);
        }
        let path = RecordPath::new(format!("tokens/cut/{of}/{}", hex(&digest.0)))?;
        let said = serde_json::to_vec(&RevokedTokens { revoked_ms: now_ms });
        let said = said.map_err(|error| Error::Parameter(error.to_string()))?;
        let sealed = context.sealer.seal(&path, 1, &said)?;
        match commit(context, &Transaction::new().put(path, 0, sealed), &of) {
            // The record exists already.
            Err(Error::Conflict) => Ok(()),
            committed => committed,
        }
    }

    /// Returns whether a token of a chain is revoked individually.
    pub fn is_cut(&self, of: TokenId, line: &[TagDigest]) -> bool {
        let cut = self.cut.read().unwrap_or_else(PoisonError::into_inner);
        cut.get(&of).is_some_and(|cut| cut.has(line))
    }

    /// Returns whether an id is revoked.
    pub fn is_revoked(&self, id: TokenId) -> bool {
        self.revoked.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    fn read<T>(&self, read: impl FnOnce(&[Root]) -> T) -> T {
        read(&self.roots.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RootId {
    pub(super) fn of(token: &Token) -> Self {
        RootId(token.root())
    }

    fn path(self) -> Result<RecordPath, Error> {
        Ok(RecordPath::new(format!("tokens/roots/{self}"))?)
    }
}

impl fmt::Display for RootId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for RootId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for RootId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        of_hex(text).map(RootId).ok_or_else(|| {
            Error::Parameter("invalid root key id; expected 16 digits 0-9 a-f".to_owned())
        })
    }
}

/// Opens every record under a path, except tombstones. Returns the number of records, tombstones
/// included.
fn each(
    context: &StoreContext,
    under: &RecordPath,
    mut take: impl FnMut(&RecordPath, &str, &[u8]) -> Result<(), Error>,
) -> Result<u64, Error> {
    let (mut after, mut count) = (None, 0);
    loop {
        let page = context.store.list(under, after.as_ref(), READ_TOGETHER)?;
        let Some((last, _)) = page.records.last() else { return Ok(count) };
        after = Some(last.clone());
        count += page.records.len() as u64;
        for (path, record) in &page.records {
            let Some(value) = &record.value else { continue };
            let plain = context.sealer.open(path, record.generation, value)?;
            take(path, path.as_str().rsplit('/').next().unwrap_or_default(), &plain)?;
        }
    }
}

fn commit(
    context: &StoreContext,
    transaction: &Transaction,
    made: &dyn fmt::Display,
) -> Result<(), Error> {
    match settle_with(context, transaction, made)? {
        SettleOutcome::Committed => Ok(()),
        SettleOutcome::Conflict(_) => Err(Error::Conflict),
        SettleOutcome::Unknown => Err(Error::OutcomeUnknown),
    }
}

fn draw(out: &mut [u8]) -> Result<(), Error> {
    OsEntropy.fill(out).map_err(|error| Error::Engine(error.into()))
}
