//! Opening a service: its checkpoint keys and its log, and the check that the log is the one that
//! the store knows.

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use gabion_disk::{Disk, RealDisk};
use serde::{Deserialize, Serialize};

use super::denials::Denials;
use super::generation::Generation;
use super::idempotency_records::IdempotencyRecords;
use super::queue::Queues;
use super::quota::{Quota, QuotaOptions};
use super::reconcile_report::ReconcileReport;
use super::refusals;
use super::run::Service;
use crate::audit::{self, Class, Hash, Keys, Log};
use crate::error::{AuditError, Error};
use crate::gate::{self, Gate};
use crate::operations::{Kms, StoreContext, damaged, opened_bytes};
use crate::seal::Key;
use crate::store::{RecordPath, SettleOutcome, Transaction, settle};
use crate::text::{hex, of_hex};

/// The location of the audit log.
#[derive(Clone)]
pub enum AuditAt<'a> {
    /// A folder.
    Folder(&'a Path),
    /// In memory: it ends with the process, and nothing is written to disk.
    Memory,
    /// A folder of a disk that the caller provides.
    Disk(Arc<dyn Disk>, &'a Path),
}

/// The configuration of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The gate.
    pub gate: gate::Options,
    /// The audit log.
    pub log: audit::Options,
    /// The log's name: a URL without its scheme. It cannot be changed.
    pub origin: String,
    /// The durability of the audit records of uses. Those of changes are always durable.
    pub class: Class,
    /// The quotas of tenants.
    pub quota: QuotaOptions,
    /// Whether to open a store of an older format although its audit log says that it was upgraded.
    /// Set when an operator with enough shares restores a backup from before the upgrade.
    pub takes_older: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            gate: gate::Options::default(),
            log: audit::Options::default(),
            origin: "gabion-kms".to_owned(),
            class: Class::Written,
            quota: QuotaOptions::default(),
            takes_older: false,
        }
    }
}

/// The last known size of the log, as the store notes it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    size: u64,
    root: String,
    /// Whether the store is older than that, and restrictions are still being reapplied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_behind: bool,
}

impl Service {
    /// Opens a service on the keys of a store and its audit log.
    ///
    /// # Errors
    /// Errors of the store and of the log; a log that is older than the store knows, or a different
    /// one.
    pub fn open(kms: Kms, audit: &AuditAt<'_>, options: Options) -> Result<Self, Error> {
        check_has_head(kms.context(), options.takes_older)?;
        let keys = keys(kms.context(), &options.origin)?;
        let log = match audit {
            AuditAt::Folder(folder) => Log::open(Arc::new(RealDisk), folder, keys, options.log),
            AuditAt::Disk(disk, folder) => Log::open(disk.clone(), folder, keys, options.log),
            AuditAt::Memory => Log::in_memory(keys),
        }?;
        let gate = Gate::open(&kms, options.gate, kms.now_ms())?;
        let behind = match audit {
            AuditAt::Memory => None,
            AuditAt::Folder(_) | AuditAt::Disk(..) => Some(check(kms.context(), &log)?),
        };
        let known = behind.map_or(0, |(known, _)| known);
        let digests = digests(kms.context())?;
        let upgrade = kms.context().records.upgrade_untold()?;
        let mut service = Service {
            kms,
            gate,
            log,
            class: options.class,
            strangers: AtomicU64::new(0),
            digests,
            known: Mutex::new(known),
            ops: IdempotencyRecords::default(),
            refusals: refusals::quota(&options.quota),
            quota: Quota::new(options.quota),
            denials: Denials::default(),
            queues: Queues::new(),
            reconciled: ReconcileReport::default(),
            making_own: Mutex::default(),
            generation: Generation::default(),
            alive: Arc::default(),
        };
        if let Some((known, was_behind)) = behind {
            service.reconcile(known, was_behind, upgrade.as_ref(), options.takes_older)?;
        }
        if let Some(upgrade) = upgrade {
            service.audit_upgrade(&upgrade)?;
        }
        Ok(service)
    }

    /// Makes a checkpoint of the audit log, and notes it in the store, so that a rollback of the
    /// log is detected. Call it about once a second, and at the end.
    ///
    /// # Errors
    /// Errors of the log and of the store.
    pub fn checkpoint(&self) -> Result<audit::Checkpoint, Error> {
        self.append_denials(self.generation.check().is_err())?;
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let checkpoint = self.log.checkpoint()?;
        if checkpoint.size > *known {
            note(self.kms.context(), checkpoint.size, &checkpoint.root)?;
            *known = checkpoint.size;
        }
        Ok(checkpoint)
    }
}

fn path(name: &str) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("system/{name}"))?)
}

/// Returns the keys that sign checkpoints. The first call generates them.
fn keys(context: &StoreContext, origin: &str) -> Result<Keys, Error> {
    let path = path("audit")?;
    match opened_bytes(context, &path)? {
        Some((seed, _)) => match seed.first_chunk::<64>().filter(|_| seed.len() == 64) {
            Some(seed) => Ok(Keys::of_seed(origin, seed)?),
            None => Err(damaged(&path, "it is no seed")),
        },
        None => {
            let (keys, seed) = Keys::drawn(origin)?;
            let sealed = context.sealer.seal(&path, 1, &*seed)?;
            commit(context, &Transaction::new().put(path, 0, sealed))?;
            Ok(keys)
        }
    }
}

/// Returns the key of the digests of secrets. The first call generates it.
fn digests(context: &StoreContext) -> Result<Key, Error> {
    let path = path("audit-digests")?;
    match opened_bytes(context, &path)? {
        Some((bytes, _)) => Key::of(&bytes).map_err(|_| damaged(&path, "it is no key")),
        None => {
            let key = Key::drawn()?;
            let sealed = context.sealer.seal(&path, 1, key.bytes()?)?;
            commit(context, &Transaction::new().put(path, 0, sealed))?;
            Ok(key)
        }
    }
}

/// Rejects a store that is being upgraded, had a log, and does not note the log's size. The first
/// program with a log noted the size before it served requests, so a missing note was removed, and
/// nothing else reveals what was removed before the upgrade.
fn check_has_head(context: &StoreContext, takes_older: bool) -> Result<(), Error> {
    let (seed, head) = (path("audit")?, path("audit-head")?);
    let has_log = opened_bytes(context, &seed)?.is_some();
    if takes_older || !has_log || context.records.upgrade_untold()?.is_none() {
        return Ok(());
    }
    match opened_bytes(context, &head)? {
        Some(_) => Ok(()),
        None => Err(damaged(&head, "it was removed; restore a backup")),
    }
}

/// Checks that the log continues from where the store knows it. Returns that size, and whether the
/// store was still reapplying restrictions.
fn check(context: &StoreContext, log: &Log) -> Result<(u64, bool), Error> {
    let path = path("audit-head")?;
    let Some((head, _)) = opened_bytes(context, &path)? else { return Ok((0, false)) };
    let head: Head =
        serde_json::from_slice(&head).map_err(|error| damaged(&path, &error.to_string()))?;
    let root: Hash = of_hex(&head.root).ok_or_else(|| damaged(&path, "it has no root"))?;
    let refused = |reason: String| AuditError::Damaged { at: "its end".to_owned(), reason };
    if log.size() < head.size {
        let (is, was) = (log.size(), head.size);
        return Err(refused(format!("it has {is} records, and had {was}: an older copy?")).into());
    }
    log.checkpoint()?;
    match log.root_at(head.size)? == root {
        true => Ok((head.size, head.is_behind)),
        false => Err(refused("it does not go on from the one that the store knows".into()).into()),
    }
}

/// Notes the log's size and root.
pub(super) fn note(context: &StoreContext, size: u64, root: &Hash) -> Result<(), Error> {
    note_head(context, &Head { size, root: hex(root), is_behind: false })
}

/// Notes that the store is older than the log, until the log's size is noted again.
pub(super) fn note_behind(context: &StoreContext, size: u64, log: &Log) -> Result<(), Error> {
    note_head(context, &Head { size, root: hex(&log.root_at(size)?), is_behind: true })
}

fn note_head(context: &StoreContext, head: &Head) -> Result<(), Error> {
    let path = path("audit-head")?;
    let before = opened_bytes(context, &path)?.map_or(0, |(_, generation)| generation);
    let head = serde_json::to_vec(head);
    let head = head.map_err(|error| damaged(&path, &error.to_string()))?;
    let sealed = context.sealer.seal(&path, before + 1, &head)?;
    commit(context, &Transaction::new().put(path, before, sealed))
}

/// Commits a transaction that does not change keys.
pub(super) fn commit(context: &StoreContext, transaction: &Transaction) -> Result<(), Error> {
    match settle(&*context.store, transaction)? {
        SettleOutcome::Committed => Ok(()),
        SettleOutcome::Conflict(_) => Err(Error::Conflict),
        SettleOutcome::Unknown => Err(Error::OutcomeUnknown),
    }
}
