//! What a store says of its seal: who can open it, and what else has to be true.

use serde::{Deserialize, Serialize};

use super::hex;
use super::record::Sealer;
use super::share::{self, Share};
use super::slot::{self, Cost, Key};
use crate::error::{Error, SealError};
use crate::store::{RecordPath, Settled, Store, Transaction, settle};

/// The format of this record.
const FORMAT: u32 = 1;

/// The only version of the root key that there is so far.
const ROOT: u32 = 1;

/// How a recovery set is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// How many shares there are.
    pub shares: u8,
    /// How many of them open the seal.
    pub threshold: u8,
}

/// What is to open a seal.
#[derive(Clone, Copy)]
pub struct Slots<'a> {
    /// The recovery set.
    pub recovery: Shares,
    /// A passphrase beside it, and what guessing it costs.
    pub passphrase: Option<(&'a str, Cost)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    format: u32,
    root: u32,
    slots: Vec<Slot>,
}

/// The root key, wrapped.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slot {
    #[serde(with = "hex::serde")]
    id: Vec<u8>,
    way: Way,
    #[serde(with = "hex::serde")]
    wrapped: Vec<u8>,
}

/// How a slot's key comes about.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Way {
    /// By shares. The set is the slot's id.
    Recovery { threshold: u8, shares: u8 },
    /// By Argon2id. The salt is the slot's id.
    Passphrase { memory_kib: u32, passes: u32 },
}

/// Whether a store has a seal.
///
/// # Errors
/// The store's.
pub fn is_initialised(store: &dyn Store) -> Result<bool, Error> {
    Ok(read(store)?.0.is_some())
}

/// Gives a store its seal: a root key, and what opens it. The shares are given out here, and never again.
///
/// # Examples
/// ```
/// use gabion_kms::seal::{Shares, Slots, init, unseal};
/// use gabion_kms::store::MemoryStore;
///
/// let store = MemoryStore::new();
/// let slots = Slots { recovery: Shares { shares: 5, threshold: 3 }, passphrase: None };
/// let (_sealer, shares) = init(&store, &slots)?;
/// assert!(unseal(&store, &shares[1..4]).is_ok());
/// assert!(unseal(&store, &shares[..2]).is_err());
/// # Ok::<(), gabion_kms::Error>(())
/// ```
///
/// # Errors
/// [`SealError::Exists`]; numbers that make no sense; the store's.
pub fn init(store: &dyn Store, slots: &Slots<'_>) -> Result<(Sealer, Vec<Share>), Error> {
    let (config, generation) = read(store)?;
    if config.is_some() {
        return Err(SealError::Exists.into());
    }
    let root = Key::drawn()?;
    let shares = write(store, &root, slots, generation)?;
    Ok((Sealer::new(root, ROOT, store.identity().id), shares))
}

/// What opens a seal.
pub trait Opens {
    /// The root key, of the slots that there are.
    #[doc(hidden)]
    fn open(&self, slots: &Found<'_>) -> Result<Key, SealError>;
}

/// Slots of a store.
pub struct Found<'a> {
    config: &'a Config,
    store: [u8; 16],
}

/// Opens the seal, by a passphrase (`&str`) or by shares (`&[Share]`).
///
/// # Errors
/// [`Error::Seal`]; the store's.
pub fn unseal<P: Opens + ?Sized>(store: &dyn Store, by: &P) -> Result<Sealer, Error> {
    let config = read(store)?.0.ok_or(SealError::None)?;
    let id = store.identity().id;
    let root = by.open(&Found { config: &config, store: id })?;
    Ok(Sealer::new(root, ROOT, id))
}

/// Replaces everything that opens the seal. The recovery set alone may do that. What opened it before does no more; a
/// copy of the store of before still opens by it.
///
/// # Errors
/// [`Error::Seal`]; the store's. After [`Error::OutcomeUnknown`] either the old or the new ones open it.
pub fn change_slots(
    store: &dyn Store,
    recovery: &[Share],
    slots: &Slots<'_>,
) -> Result<Vec<Share>, Error> {
    let (config, generation) = read(store)?;
    let config = config.ok_or(SealError::None)?;
    let root = recovery.open(&Found { config: &config, store: store.identity().id })?;
    write(store, &root, slots, generation)
}

impl Opens for str {
    fn open(&self, slots: &Found<'_>) -> Result<Key, SealError> {
        let mut is_any = false;
        for found in &slots.config.slots {
            if let Way::Passphrase { memory_kib, passes } = found.way {
                is_any = true;
                let with = slot::of_passphrase(self, &found.id, Cost { memory_kib, passes })?;
                if let Some(root) =
                    slot::unwrap(&with, &found.wrapped, &beside(found, slots.store)?)?
                {
                    return Ok(root);
                }
            }
        }
        Err(if is_any { SealError::Passphrase } else { SealError::NoPassphrase })
    }
}

impl Opens for [Share] {
    fn open(&self, slots: &Found<'_>) -> Result<Key, SealError> {
        for found in &slots.config.slots {
            if let Way::Recovery { threshold, .. } = found.way {
                let set = found.id[..].try_into();
                let set = set.map_err(|_| SealError::Damaged("the id of a set".to_owned()))?;
                let with = share::combine(self, set, threshold)?;
                let root = slot::unwrap(&with, &found.wrapped, &beside(found, slots.store)?)?;
                return root.ok_or(SealError::Shares);
            }
        }
        Err(SealError::Damaged("it has no recovery set".to_owned()))
    }
}

impl Opens for Vec<Share> {
    fn open(&self, slots: &Found<'_>) -> Result<Key, SealError> {
        self[..].open(slots)
    }
}

fn place() -> Result<RecordPath, Error> {
    Ok(RecordPath::new("seal/config")?)
}

fn read(store: &dyn Store) -> Result<(Option<Config>, u64), Error> {
    let read = store.read(&[place()?])?;
    let Some(record) = read.records.into_iter().next().flatten() else { return Ok((None, 0)) };
    let damaged = |why: String| Error::from(SealError::Damaged(why));
    let value = record.value.ok_or_else(|| damaged("it was buried".to_owned()))?;
    let config: Config =
        serde_json::from_slice(&value).map_err(|error| damaged(error.to_string()))?;
    match config.format == FORMAT && config.root == ROOT {
        true => Ok((Some(config), record.generation)),
        false => Err(damaged("it is of another format".to_owned())),
    }
}

fn write(
    store: &dyn Store,
    root: &Key,
    slots: &Slots<'_>,
    generation: u64,
) -> Result<Vec<Share>, Error> {
    let Shares { shares, threshold } = slots.recovery;
    if threshold == 0 || threshold > shares || (threshold == 1 && shares > 1) {
        let why = "a recovery set has 2 to 255 shares, of which 2 or more open it; or one";
        return Err(SealError::Parameter(why).into());
    }
    let id = store.identity().id;
    let with = Key::drawn()?;
    let set = Key::drawn()?;
    let mut name = [0; 8];
    name.copy_from_slice(&set.bytes()[..8]);
    let mut made = vec![wrapped(&with, root, &name, Way::Recovery { threshold, shares }, id)?];
    if let Some((passphrase, cost)) = slots.passphrase {
        let salt = Key::drawn()?;
        let with = slot::of_passphrase(passphrase, &salt.bytes()[..16], cost)?;
        let way = Way::Passphrase { memory_kib: cost.memory_kib, passes: cost.passes };
        made.push(wrapped(&with, root, &salt.bytes()[..16], way, id)?);
    }
    let shares = share::split(&with, name, threshold, shares)?;
    let config = Config { format: FORMAT, root: ROOT, slots: made };
    let value = serde_json::to_vec(&config)
        .map_err(|error| Error::from(SealError::Damaged(error.to_string())))?;
    match settle(store, &Transaction::new().put(place()?, generation, value))? {
        Settled::Committed => Ok(shares),
        Settled::Conflict(_) => Err(Error::Conflict),
        Settled::Unknown => Err(Error::OutcomeUnknown),
    }
}

fn wrapped(
    with: &Key,
    root: &Key,
    id: &[u8],
    way: Way,
    store: [u8; 16],
) -> Result<Slot, SealError> {
    let mut slot = Slot { id: id.to_vec(), way, wrapped: Vec::new() };
    slot.wrapped = slot::wrap(with, root, &beside(&slot, store)?)?;
    Ok(slot)
}

/// What a wrapped key is bound to: the store, the slot, and how its key comes about.
fn beside(slot: &Slot, store: [u8; 16]) -> Result<Vec<u8>, SealError> {
    let mut beside = b"gabion kms root ".to_vec();
    beside.extend_from_slice(&store);
    beside.extend_from_slice(&ROOT.to_le_bytes());
    beside.push(slot.id.len() as u8);
    beside.extend_from_slice(&slot.id);
    let way = serde_json::to_vec(&slot.way);
    beside.extend_from_slice(&way.map_err(|error| SealError::Damaged(error.to_string()))?);
    Ok(beside)
}
