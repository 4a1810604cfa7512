//! The seal's configuration in the store: its slots, and what a store under this seal must have.

use std::sync::Arc;

use gabion_engine::{Entropy, Error as EngineError, OsEntropy};
use serde::{Deserialize, Serialize};

use super::authenticated_store::AuthenticatedStore;
use super::record::Sealer;
use super::share::{self, Share};
use super::slot::{self, Cost, Key};
use crate::error::{Error, SealError};
use crate::store::{RecordPath, SettleOutcome, Store, Transaction, settle};

/// The format of the configuration. Wrapped keys are bound to it, so that it cannot be downgraded.
const FORMAT: u32 = 2;

/// The format of seals whose store may lack a manifest.
const WITHOUT_MANIFEST: u32 = 1;

/// The version of the root key. Only one exists so far.
const ROOT: u32 = 1;

/// The maximum number of slots of a seal.
const SLOTS_MAX: usize = 8;

/// The size of a passphrase's salt in bytes.
const SALT: usize = 16;

/// The parameters of a recovery set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The number of shares.
    pub shares: u8,
    /// The number of shares that open the seal.
    pub threshold: u8,
}

/// The slots of a new seal.
#[derive(Clone, Copy)]
pub struct Slots<'a> {
    /// The recovery set.
    pub recovery: Shares,
    /// An additional passphrase, and the cost of guessing it.
    pub passphrase: Option<(&'a str, Cost)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    format: u32,
    root: u32,
    slots: Vec<Slot>,
}

/// The format field, which configurations of every format have.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// A slot: the root key, wrapped by one key.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slot {
    #[serde(with = "crate::text::hex_field")]
    id: Vec<u8>,
    way: SlotKind,
    #[serde(with = "crate::text::hex_field")]
    wrapped: Vec<u8>,
}

/// The kind of a slot.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SlotKind {
    /// A recovery set. The slot's id is the set's id.
    Recovery { threshold: u8, shares: u8 },
    /// A passphrase, stretched by Argon2id. The slot's id is the salt.
    Passphrase { memory_kib: u32, passes: u32 },
}

/// Returns whether a store has a seal.
///
/// # Errors
/// Errors of the store.
pub fn is_initialised(store: &dyn Store) -> Result<bool, Error> {
    Ok(read(store)?.0.is_some())
}

/// Returns whether a share belongs to the recovery set of a store's seal. Servers that accept
/// shares from unauthenticated clients call this first, so that shares of other sets do not
/// displace the right ones.
///
/// # Errors
/// [`SealError::None`]; errors of the store.
pub fn is_of_its_set(store: &dyn Store, share: &Share) -> Result<bool, Error> {
    let config = read(store)?.0.ok_or(SealError::None)?;
    Ok(config.slots.iter().any(|slot| match slot.way {
        SlotKind::Recovery { threshold, .. } => {
            base16ct::lower::encode_string(&slot.id) == share.set()
                && threshold == share.threshold()
        }
        SlotKind::Passphrase { .. } => false,
    }))
}

/// Returns the size and the threshold of the recovery set; `None` if the store has no seal.
///
/// # Errors
/// Errors of the store; a damaged seal.
pub fn recovery(store: &dyn Store) -> Result<Option<Shares>, Error> {
    let Some(config) = read(store)?.0 else { return Ok(None) };
    Ok(config.slots.iter().find_map(|slot| match slot.way {
        SlotKind::Recovery { threshold, shares } => Some(Shares { shares, threshold }),
        SlotKind::Passphrase { .. } => None,
    }))
}

/// A seal whose shares were dealt, and that is not in the store yet. Hand out the shares first. The
/// seal is adopted when the holders give back enough of them, so a store never gets a seal that
/// cannot be opened.
///
/// # Examples
/// ```
/// use gabion_kms::seal::{UnsealMethod, Shares, Slots, init, unseal};
/// use gabion_kms::store::MemoryStore;
///
/// let store = MemoryStore::new();
/// let slots = Slots { recovery: Shares { shares: 5, threshold: 3 }, passphrase: None };
/// let dealt = init(&store, &slots)?;
/// let written_down = dealt.shares().to_vec();
/// let _sealer = dealt.adopt(&store, &written_down[..3])?;
/// assert!(unseal(&store, UnsealMethod::Shares(&written_down[1..4])).is_ok());
/// assert!(unseal(&store, UnsealMethod::Shares(&written_down[..2])).is_err());
/// # Ok::<(), gabion_kms::Error>(())
/// ```
#[must_use = "nothing is in the store before it is adopted"]
pub struct PendingSeal {
    config: Config,
    /// The generation of the configuration record that this seal replaces.
    before: u64,
    /// Whether the replaced seal requires the store to have a manifest.
    had_manifest: bool,
    shares: Vec<Share>,
}

impl PendingSeal {
    /// Returns the shares of the recovery set, to hand out.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Writes the seal to the store, in place of the previous seal. `given` has to contain enough
    /// shares to open the seal, which proves that they were written down.
    ///
    /// # Errors
    /// Shares that do not open the seal; [`SealError::Exists`] or [`Error::Conflict`] if the store
    /// got another seal meanwhile; errors of the store. After [`Error::OutcomeUnknown`] either the
    /// new or the previous shares open the seal: keep both, and call this again.
    pub fn adopt(&self, store: &dyn Store, given: &[Share]) -> Result<Sealer, Error> {
        let id = store.identity().id;
        let root = by_shares(&self.config, id, given)?;
        let sealer = |needs| Ok::<_, Error>(Sealer::new(&root, ROOT, id)?.needing_manifest(needs));
        let value = serde_json::to_vec(&self.config)
            .map_err(|error| Error::from(SealError::Damaged(error.to_string())))?;
        let found = || -> Result<_, Error> {
            Ok(store.read(&[place()?])?.records.into_iter().next().flatten())
        };
        // An earlier call may have written the seal already.
        let is_ours =
            || Ok::<_, Error>(found()?.is_some_and(|of| of.value.as_ref() == Some(&value)));
        let is_there = match found()?.map_or(0, |record| record.generation) == self.before {
            false => is_ours()?,
            true => {
                let put = Transaction::new().put(place()?, self.before, value.clone());
                let records =
                    AuthenticatedStore::resumed(store, Arc::new(sealer(self.had_manifest)?))?;
                match settle(&records, &put)? {
                    SettleOutcome::Committed => true,
                    SettleOutcome::Conflict(_) => is_ours()?,
                    SettleOutcome::Unknown => return Err(Error::OutcomeUnknown),
                }
            }
        };
        match (is_there, self.before) {
            (true, _) => sealer(true),
            (false, 0) => Err(SealError::Exists.into()),
            (false, _) => Err(Error::Conflict),
        }
    }
}

/// Creates the seal of a new store: draws a root key and makes the slots that wrap it.
///
/// # Errors
/// [`SealError::Exists`]; invalid numbers of shares or costs; errors of the store.
pub fn init(store: &dyn Store, slots: &Slots<'_>) -> Result<PendingSeal, Error> {
    let (config, before) = read(store)?;
    if config.is_some() {
        return Err(SealError::Exists.into());
    }
    dealt(store, &Key::drawn()?, slots, (before, false))
}

/// The secret that opens a seal.
#[derive(Clone, Copy)]
pub enum UnsealMethod<'a> {
    /// A passphrase.
    Passphrase(&'a str),
    /// Shares of the recovery set, at least as many as its threshold.
    Shares(&'a [Share]),
}

/// Opens the seal.
///
/// # Errors
/// [`Error::Seal`]; errors of the store.
pub fn unseal(store: &dyn Store, by: UnsealMethod<'_>) -> Result<Sealer, Error> {
    let config = read(store)?.0.ok_or(SealError::None)?;
    let id = store.identity().id;
    let root = match by {
        UnsealMethod::Passphrase(passphrase) => by_passphrase(&config, id, passphrase)?,
        UnsealMethod::Shares(shares) => by_shares(&config, id, shares)?,
    };
    let sealer = Sealer::new(&root, ROOT, id)?;
    Ok(sealer.needing_manifest(config.format > WITHOUT_MANIFEST))
}

/// Deals new slots that replace all existing ones. Only shares of the recovery set authorize this.
/// Once the new seal is adopted, the previous passphrase and shares no longer open it, but they
/// still open older copies of the store.
///
/// # Errors
/// [`Error::Seal`]; errors of the store.
pub fn change_slots(
    store: &dyn Store,
    recovery: &[Share],
    slots: &Slots<'_>,
) -> Result<PendingSeal, Error> {
    let (config, before) = read(store)?;
    let config = config.ok_or(SealError::None)?;
    let root = by_shares(&config, store.identity().id, recovery)?;
    dealt(store, &root, slots, (before, config.format > WITHOUT_MANIFEST))
}

fn by_passphrase(config: &Config, store: [u8; 16], passphrase: &str) -> Result<Key, SealError> {
    let mut is_any = false;
    for found in &config.slots {
        if let SlotKind::Passphrase { memory_kib, passes } = found.way {
            is_any = true;
            let with = slot::of_passphrase(passphrase, &found.id, Cost { memory_kib, passes })?;
            if let Some(root) =
                slot::unwrap(&with, &found.wrapped, &beside(config.format, found, store))?
            {
                return Ok(root);
            }
        }
    }
    Err(if is_any { SealError::Passphrase } else { SealError::NoPassphrase })
}

fn by_shares(config: &Config, store: [u8; 16], shares: &[Share]) -> Result<Key, SealError> {
    for found in &config.slots {
        if let SlotKind::Recovery { threshold, .. } = found.way {
            let set = found.id[..].try_into();
            let set = set.map_err(|_| SealError::Damaged("the id of a set".to_owned()))?;
            let with = share::combine(shares, set, threshold)?;
            let root = slot::unwrap(&with, &found.wrapped, &beside(config.format, found, store))?;
            return root.ok_or(SealError::Shares);
        }
    }
    Err(SealError::Damaged("it has no recovery set".to_owned()))
}

fn place() -> Result<RecordPath, Error> {
    Ok(RecordPath::new("seal/config")?)
}

fn read(store: &dyn Store) -> Result<(Option<Config>, u64), Error> {
    let read = store.read(&[place()?])?;
    let Some(record) = read.records.into_iter().next().flatten() else { return Ok((None, 0)) };
    let value = record.value.ok_or_else(|| SealError::Damaged("it was buried".to_owned()))?;
    Ok((Some(understood(&value)?), record.generation))
}

/// Parses the seal's configuration and rejects implausible values: an attacker who can write the
/// store must not make this process derive keys for hours.
fn understood(value: &[u8]) -> Result<Config, SealError> {
    let damaged = |why: String| SealError::Damaged(why);
    // Check the format first: other formats may have other fields.
    let Format { format } =
        serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
    if format > FORMAT {
        return Err(SealError::TooOld { wanted: format, has: FORMAT });
    }
    let config: Config =
        serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
    if config.format < WITHOUT_MANIFEST || config.root != ROOT || config.slots.len() > SLOTS_MAX {
        return Err(damaged("unknown format, root key version or number of slots".to_owned()));
    }
    for slot in &config.slots {
        let can_be = match slot.way {
            SlotKind::Recovery { threshold, shares } => {
                slot.id.len() == share::SET && threshold > 0 && threshold <= shares
            }
            SlotKind::Passphrase { memory_kib, passes } => {
                slot.id.len() == SALT && Cost { memory_kib, passes }.check().is_ok()
            }
        };
        if !can_be {
            return Err(damaged("a slot of another form".to_owned()));
        }
    }
    Ok(config)
}

fn dealt(
    store: &dyn Store,
    root: &Key,
    slots: &Slots<'_>,
    (before, had_manifest): (u64, bool),
) -> Result<PendingSeal, Error> {
    let Shares { shares, threshold } = slots.recovery;
    if threshold == 0 || threshold > shares || (threshold == 1 && shares > 1) {
        let why = "a recovery set has 2 to 255 shares, of which 2 or more open it; or one";
        return Err(SealError::Parameter(why).into());
    }
    let id = store.identity().id;
    let with = Key::drawn()?;
    let mut set = [0; share::SET];
    OsEntropy.fill(&mut set).map_err(EngineError::from)?;
    let mut made = vec![wrapped(&with, root, &set, SlotKind::Recovery { threshold, shares }, id)?];
    if let Some((passphrase, cost)) = slots.passphrase {
        if passphrase.is_empty() {
            return Err(SealError::Parameter("a passphrase has at least one character").into());
        }
        let mut salt = [0; SALT];
        OsEntropy.fill(&mut salt).map_err(EngineError::from)?;
        let with = slot::of_passphrase(passphrase, &salt, cost)?;
        let way = SlotKind::Passphrase { memory_kib: cost.memory_kib, passes: cost.passes };
        made.push(wrapped(&with, root, &salt, way, id)?);
    }
    let shares = share::split(&with, set, threshold, shares)?;
    let config = Config { format: FORMAT, root: ROOT, slots: made };
    Ok(PendingSeal { config, before, had_manifest, shares })
}

fn wrapped(
    with: &Key,
    root: &Key,
    id: &[u8],
    way: SlotKind,
    store: [u8; 16],
) -> Result<Slot, SealError> {
    let mut slot = Slot { id: id.to_vec(), way, wrapped: Vec::new() };
    slot.wrapped = slot::wrap(with, root, &beside(FORMAT, &slot, store))?;
    Ok(slot)
}

/// Returns the associated data of a wrapped key: the store, the slot, the derivation of the
/// wrapping key, and the format unless it is the first one.
fn beside(format: u32, slot: &Slot, store: [u8; 16]) -> Vec<u8> {
    let mut beside = b"gabion kms root ".to_vec();
    beside.extend_from_slice(&store);
    beside.extend_from_slice(&ROOT.to_le_bytes());
    beside.push(slot.id.len() as u8);
    beside.extend_from_slice(&slot.id);
    match slot.way {
        SlotKind::Recovery { threshold, shares } => {
            beside.extend_from_slice(&[1, threshold, shares])
        }
        SlotKind::Passphrase { memory_kib, passes } => {
            beside.push(2);
            beside.extend_from_slice(&memory_kib.to_le_bytes());
            beside.extend_from_slice(&passes.to_le_bytes());
        }
    }
    if format > WITHOUT_MANIFEST {
        beside.extend_from_slice(&format.to_le_bytes());
    }
    beside
}
