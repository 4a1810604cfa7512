//! The file-based ledger.
//!
//! The *head* is the first block of `KEY.state`: the parts of the state that never change. The
//! *block* is the range of indexes that the state on disk counts as used, but that were not handed
//! out yet. *Boot* is the boot ID of the running system.
//!
//! - **Open**: take the lock, read head and state, compare the machine ID, compare each anchor with
//!   the state, then compare the log with the state. A refusal changes nothing.
//! - **Reserve**: if the block in memory has enough indexes, take them from it without accessing
//!   the files. Otherwise write the state with the next generation and a higher `next`, then sync
//!   it, then raise each anchor, then extend the block.
//! - **Record**: append the entries to the log. If one of them has a request ID, sync the log
//!   before the call returns.
//! - **Close**: sync the log. Then write a state with the next generation, the end of the log, and
//!   `next` at the first unused index of the block; sync it; raise each anchor. The state is not
//!   written if the block is empty and the log has not grown.
//!
//! A crash between writing the state and raising the anchors leaves the state one generation ahead.
//! After a reservation this is safe, because no index of the block was handed out. After a close it
//! is safe, because `next` falls back only to indexes that were never handed out, and the block in
//! memory was emptied before.
//!
//! After a failed write or sync the content of the disk is unknown, so the ledger stops working;
//! close the key and open it again to continue. Before its first write, a newly opened ledger
//! rewrites and syncs the state it has read, because after a failed sync that data may be only in
//! the system's cache and never reach the disk.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gabion_disk::{Access, Identity};
use gabion_engine::keys::stateful::{
    Entry, Holder, Ledger, LedgerError, LedgerRecord, Remaining, Reservation, check_request_ids,
};

use crate::anchor::{Anchor, FileAnchor, Verdict, verdict};
use crate::files::{
    Environment, Paths, anchor_paths, check_key, check_network, check_places, failed, machine_id,
    new_stamp, read_state, unsafe_state,
};
use crate::lock::{Lock, LockAttempt};
use crate::log::{End, Line, Log, PLAIN_MAX, note};
use crate::machine::Process;
use crate::record::{Head, Lifecycle, State};
use crate::registry::{Chain, Registry};
use crate::slots::Slots;

/// Options for opening a ledger.
pub struct Options {
    /// The minimum number of indexes to reserve at once; 1 by default. Larger blocks are faster,
    /// but a crash burns more. If fewer indexes are left, all of them are reserved.
    pub ahead: u64,
    /// The number of messages to sign. If it is given, opening the key fails with
    /// [`LedgerError::Reserve`] if `ahead` exceeds both this number and [`reserve_max`], and later
    /// reservations apply the limit that [`reserve_max`] has then. `None` (the default) does not
    /// limit `ahead`.
    pub messages: Option<u64>,
    /// How long to wait while another process holds the lock; 30 seconds by default.
    pub wait: Duration,
    /// Anchors in addition to those named in the state. [`recover`](crate::recover) does not raise
    /// them, so a recovered key is rejected while they hold the previous generation.
    pub anchors: Vec<Box<dyn Anchor>>,
    /// The open keys of a simulated process; `None` in a real process, which has a global list.
    pub open_keys: Option<Arc<OpenKeys>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ahead: 1,
            messages: None,
            wait: Duration::from_secs(30),
            anchors: Vec::new(),
            open_keys: None,
        }
    }
}

impl Options {
    /// Rejects a reservation size that the key cannot spare.
    fn check_ahead(&self, head: &Head, left: u64) -> Result<(), LedgerError> {
        let Some(messages) = self.messages else { return Ok(()) };
        let most = reserve_max(head.end - head.first, left).max(messages);
        match self.ahead > most {
            true => Err(LedgerError::Reserve { wanted: self.ahead, left, most }),
            false => Ok(()),
        }
    }
}

/// The minimum number of indexes to reserve at once.
#[derive(Clone, Copy)]
struct ReservationSize {
    /// Applied as long as the key can spare them.
    bounded: u64,
    /// Applied regardless of the remaining indexes.
    anyway: u64,
}

impl ReservationSize {
    fn of(options: &Options) -> Self {
        match options.messages {
            Some(_) => ReservationSize { bounded: options.ahead, anyway: 1 },
            None => ReservationSize { bounded: 1, anyway: options.ahead },
        }
    }

    fn max(self, other: Self) -> Self {
        let (bounded, anyway) = (self.bounded.max(other.bounded), self.anyway.max(other.anyway));
        ReservationSize { bounded, anyway }
    }
}

/// Keys with fewer indexes than this can spare an eighth of the remaining ones; all other keys can
/// spare 64 or an eighth, whichever is more.
const SMALL_KEY: u64 = 512;

/// Returns how many indexes may be reserved in advance by a key or sector that has `all` indexes,
/// of which `left` remain: an eighth of the remaining ones, and at least 64 for keys with 512 or
/// more indexes. The result is 0 if a key with fewer indexes has less than 8 left, and can exceed
/// `left`.
pub fn reserve_max(all: u64, left: u64) -> u64 {
    let eighth = left / 8;
    if all < SMALL_KEY { eighth } else { eighth.max(64) }
}

/// The open keys of a simulated process; a real process has a global list.
pub type OpenKeys = Registry<SharedLedger>;

static OPENED: Chain<SharedLedger> = Chain::new();

/// Interval between attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// A key's state, open for signing. To get another handle, open the key again in the same process.
pub struct FilesLedger {
    shared: Arc<SharedLedger>,
    /// Whether the handle was already closed.
    is_closed: bool,
}

/// The state shared by all handles of a key.
pub struct SharedLedger {
    environment: Environment,
    process: Process,
    paths: Paths,
    /// The machine's host name for the log, read once.
    host: String,
    /// Incremented when the boot ID has changed and handed-out indexes are burnt: earlier
    /// reservations then yield no index.
    epoch: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    handles: usize,
    /// Released when the last handle is closed.
    lock: Option<Lock>,
    /// Why the ledger has stopped working.
    broken: Option<String>,
    /// Whether the data that was read was rewritten and synced, so that it is known to be on the
    /// disk.
    settled: bool,
    ahead: ReservationSize,
    head: Head,
    slots: Slots,
    state: State,
    state_file: Identity,
    log_file: Identity,
    /// Reserved indexes that were not handed out.
    block: Range<u64>,
    /// The digest of the boot ID of the system in which the block was reserved.
    boot: [u8; 32],
    anchors: Vec<Box<dyn Anchor>>,
    log: Log,
}

impl FilesLedger {
    /// Opens the state of the private key file `key`, whose public key is `public`.
    ///
    /// # Errors
    /// - [`LedgerError::Unsafe`] with the reason if the state may not be the newest one, or belongs
    ///   to another key or machine.
    /// - [`LedgerError::Held`] if another process holds its lock, or a copy of the key holds an
    ///   anchor, longer than the options allow.
    /// - [`LedgerError::Reserve`] if `options.ahead` is larger than the key can spare.
    /// - [`LedgerError::Unavailable`] if a file cannot be read.
    ///
    /// No error changes anything.
    pub fn open(
        environment: &Environment,
        key: &Path,
        public: &[u8],
        options: Options,
    ) -> Result<Self, LedgerError> {
        let process = environment.machine.process().ok_or_else(no_forks)?;
        let paths = Paths::resolve_existing(&*environment.disk, key)?;
        paths.check_present(&*environment.disk, &[&paths.state, &paths.log, &paths.lock])?;
        let own = options.open_keys.clone();
        let opened = own.as_deref().unwrap_or_else(|| OPENED.registry(process.1));
        let mut options = options;
        let mut waited = Duration::ZERO;
        loop {
            let tried = Self::try_open(environment, &paths, public, process, opened, &mut options);
            match tried {
                Err(LedgerError::Held(_)) if waited < options.wait => {
                    environment.machine.pause(PAUSE);
                    waited += PAUSE;
                }
                tried => return tried.map_err(|error| with_outcome(error, UNUSED)),
            }
        }
    }

    fn try_open(
        environment: &Environment,
        paths: &Paths,
        public: &[u8],
        process: Process,
        opened: &OpenKeys,
        options: &mut Options,
    ) -> Result<Self, LedgerError> {
        let disk = &*environment.disk;
        let id = disk.identity(&paths.lock).map_err(|error| failed(&paths.lock, &error))?;
        let mut list = opened.list();
        if let Some(shared) = list.get(&id).and_then(|shared| shared.upgrade()) {
            let mut inner = shared.inner();
            if inner.lock.is_some() {
                check_key(paths, &inner.head, public)?;
                inner.check_usable()?;
                options.check_ahead(&inner.head, inner.left())?;
                inner.handles += 1;
                inner.ahead = inner.ahead.max(ReservationSize::of(options));
                drop(inner);
                return Ok(FilesLedger { shared, is_closed: false });
            }
        }
        let lock = match Lock::try_take(disk, &paths.lock) {
            Err(error) => return Err(failed(&paths.lock, &error)),
            Ok(LockAttempt::Busy(holder)) => return Err(LedgerError::Held(holder)),
            Ok(LockAttempt::Acquired(lock)) => lock,
        };
        let inner = match Inner::open(environment, paths, public, options) {
            Ok(inner) => Inner { lock: Some(lock), ..inner },
            Err(error) => {
                // Released explicitly, because a child forked meanwhile would keep a dropped
                // handle.
                options.anchors.iter_mut().for_each(|anchor| anchor.release());
                lock.release();
                return Err(error);
            }
        };
        let shared = Arc::new(SharedLedger {
            environment: environment.clone(),
            process,
            paths: paths.clone(),
            host: environment.machine.host(),
            epoch: AtomicU64::new(0),
            inner: Mutex::new(inner),
        });
        list.insert(id, Arc::downgrade(&shared));
        Ok(FilesLedger { shared, is_closed: false })
    }

    /// Closes this handle. The last handle of a process durably returns the reserved indexes that
    /// were not handed out.
    ///
    /// # Errors
    /// If that failed; the indexes are then burnt.
    pub fn close(mut self) -> Result<(), LedgerError> {
        self.is_closed = true;
        self.shared.close_handle()
    }

    /// Returns whether a request id has a signature.
    ///
    /// # Errors
    /// If the state is unknown.
    pub fn knows(&self, request: &str) -> Result<bool, LedgerError> {
        self.shared.check_process()?;
        let inner = self.shared.inner();
        inner.check_usable()?;
        Ok(inner.log.knows(request))
    }

    /// Allows a request id to be used again. The log keeps what was signed under it.
    ///
    /// # Errors
    /// If the id is unknown, or the log cannot be written.
    pub fn forget(&self, request: &str) -> Result<(), LedgerError> {
        let shared = &*self.shared;
        shared.check_process()?;
        let mut inner = shared.inner();
        inner.check_usable()?;
        if !inner.log.knows(request) {
            let reason = format!("no signature was made under the request id `{request}`");
            return Err(LedgerError::Unavailable(reason));
        }
        shared.settle(&mut inner)?;
        let line = Line::Forgotten { request: request.to_owned() };
        shared.write_log(&mut inner, &[line], true)
    }

    /// Fails in a process that was forked from the one that opened the key. Takes no lock: callers
    /// with their own locks call this first.
    ///
    /// # Errors
    /// [`LedgerError::Unsafe`].
    pub fn check_process(&self) -> Result<(), LedgerError> {
        self.shared.check_process()
    }

    /// Returns all indexes of this state, used or not.
    pub fn indexes(&self) -> Range<u64> {
        let inner = self.shared.inner();
        inner.head.first..inner.head.end
    }

    /// Returns the next index, unless another caller takes it first; one past the last index if
    /// none is left.
    pub fn next_index(&self) -> u64 {
        self.shared.inner().block.start
    }
}

impl Drop for FilesLedger {
    fn drop(&mut self) {
        if !self.is_closed {
            // Indexes that could not be returned are burnt, which is safe; `close` reports it.
            let _ = self.shared.close_handle();
        }
    }
}

impl Ledger for FilesLedger {
    fn reserve(&self, count: u64) -> Result<Reservation, LedgerError> {
        let shared = &self.shared;
        shared.check_process()?;
        let mut inner = shared.inner();
        inner.check_usable()?;
        shared.check_boot(&mut inner);
        if count > inner.left() {
            return Err(LedgerError::Exhausted { wanted: count, left: inner.left() });
        }
        let has = inner.block.end - inner.block.start;
        if count > has {
            let more = (count.max(inner.ahead()) - has).min(inner.head.end - inner.state.next);
            shared.settle(&mut inner).map_err(|error| with_outcome(error, UNUSED))?;
            // Detects a full disk before an index is lost to it.
            let made = shared.make_room(&mut inner, count.saturating_mul(PLAIN_MAX).min(1 << 20));
            made.map_err(|error| with_outcome(error, UNUSED))?;
            let next = inner.state.next + more;
            let burnt = format!(
                "nothing was signed, and {more} indexes may be burnt; open the key again once the file can be written"
            );
            shared.commit(&mut inner, next).map_err(|error| with_outcome(error, &burnt))?;
            inner.block.end = next;
        }
        let first = inner.block.start;
        inner.block.start += count;
        let (epoch, boot) = (shared.epoch.load(Ordering::Acquire), inner.boot);
        let holder = ReservationGuard { shared: Arc::clone(shared), epoch, boot };
        Ok(Reservation::new(first..first + count, Box::new(holder)))
    }

    fn recall(&self, request: &str) -> Result<Option<LedgerRecord>, LedgerError> {
        let shared = &*self.shared;
        shared.check_process()?;
        let mut inner = shared.inner();
        inner.check_usable()?;
        if inner.log.knows(request) {
            // The log that was read may not be on the disk; another message could get this id then.
            shared.settle(&mut inner)?;
        }
        inner.log.recall(request).map_err(|error| failed(&shared.paths.log, &error))
    }

    fn record(&self, entries: &[Entry<'_>]) -> Result<(), LedgerError> {
        let shared = &*self.shared;
        shared.check_process()?;
        let mut inner = shared.inner();
        inner.check_usable()?;
        let mut requests = entries.iter().filter_map(|entry| entry.request);
        check_request_ids(requests.clone())?;
        if let Some(known) = requests.clone().find(|request| inner.log.knows(request)) {
            return Err(LedgerError::RequestKnown(known.to_owned()));
        }
        let is_durable = requests.next().is_some();
        let now = shared.environment.machine.now();
        let lines: Vec<Line> =
            entries.iter().map(|entry| Line::from_entry(entry, now, &shared.host)).collect();
        let used = format!(
            "no signature was released, and its {} indexes are burnt; open the key again once the file can be written",
            lines.len()
        );
        let written = shared
            .settle(&mut inner)
            .and_then(|()| shared.write_log(&mut inner, &lines, is_durable));
        written.map_err(|error| with_outcome(error, &used))
    }

    fn remaining(&self) -> Result<Remaining, LedgerError> {
        self.shared.check_process()?;
        let inner = self.shared.inner();
        inner.check_usable()?;
        Ok(inner.remaining())
    }
}

/// The outcome for an error before an index was reserved.
const UNUSED: &str = "nothing was signed and no index was used; fix the access to the file and run the command again";

/// Adds the outcome for the indexes to the error of a file.
pub(crate) fn with_outcome(error: LedgerError, outcome: &str) -> LedgerError {
    match error {
        LedgerError::Unavailable(reason) => {
            LedgerError::Unavailable(format!("{reason}; {outcome}"))
        }
        error => error,
    }
}

/// Returns the error for an anchor that is held by a copy of the key.
pub fn held_anchor(name: &Path) -> LedgerError {
    LedgerError::Held(format!("a process that holds its anchor {}", name.display()))
}

/// The ledger's side of a reservation.
struct ReservationGuard {
    shared: Arc<SharedLedger>,
    epoch: u64,
    /// The digest of the boot ID of the system in which the indexes were reserved.
    boot: [u8; 32],
}

impl Holder for ReservationGuard {
    fn check(&self) -> Result<(), LedgerError> {
        self.shared.check_process()?;
        let is_current = self.shared.epoch.load(Ordering::Acquire) == self.epoch;
        // A later reservation would have detected the boot as well.
        if is_current && self.shared.environment.machine.boot() == self.boot {
            return Ok(());
        }
        let reason = "the machine was started again since the indexes were reserved; sign again";
        Err(unsafe_state(&self.shared.paths.state, reason))
    }

    fn give_back(&mut self, unused: Range<u64>) {
        let mut inner = self.shared.inner();
        let is_open = inner.lock.is_some() && inner.broken.is_none();
        // Another thread may have burnt them since the check.
        let is_current = self.shared.epoch.load(Ordering::Acquire) == self.epoch;
        if is_open && is_current && unused.end == inner.block.start {
            inner.block.start = unused.start;
        }
    }
}

impl SharedLedger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic either marked the ledger as broken or changed nothing.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails in a process that was forked from the one that opened the key. Takes no lock, which a
    /// thread of the parent may have held.
    fn check_process(&self) -> Result<(), LedgerError> {
        if self.environment.machine.process() == Some(self.process) {
            return Ok(());
        }
        let reason =
            "the process was forked since the key was opened; open it in the process that signs";
        Err(unsafe_state(&self.paths.state, reason))
    }

    /// Burns the indexes in memory if the kernel's boot ID differs from the one of the reservation:
    /// the process was resumed after a reboot (CRIU). A virtual machine that is resumed or cloned
    /// from a memory snapshot keeps its boot ID and is not detected.
    fn check_boot(&self, inner: &mut Inner) {
        let boot = self.environment.machine.boot();
        if inner.boot != boot {
            inner.block.start = inner.block.end;
            inner.boot = boot;
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Rewrites the data read when the key was opened, and raises anchors that are behind.
    fn settle(&self, inner: &mut Inner) -> Result<(), LedgerError> {
        if inner.settled {
            return Ok(());
        }
        self.check_in_place(inner)?;
        inner.broken = Some("it could not be written".to_owned());
        let settled = self.try_settle(inner);
        self.ended(inner, settled)?;
        inner.settled = true;
        Ok(())
    }

    fn try_settle(&self, inner: &mut Inner) -> Result<(), LedgerError> {
        if let Some(lock) = &inner.lock {
            lock.sign(&*self.environment.machine);
        }
        let record = inner.state.record(&inner.head.key);
        let written = inner.slots.write_again(&record).and_then(|()| inner.slots.file().sync());
        written.map_err(|error| failed(&self.paths.state, &error))?;
        raise(inner)?;
        let at = |error: io::Error| failed(&self.paths.log, &error);
        let removed = inner.log.settle().map_err(at)?;
        if removed == 0 {
            return Ok(());
        }
        let text = format!(
            "{removed} bytes behind the last line were removed: an interrupted write, or the rest of a damaged log"
        );
        inner.log.append(&[note(&*self.environment.machine, &text)]).map_err(at)
    }

    /// Makes a new generation with the next index `next` durable, in the state and in every anchor.
    fn commit(&self, inner: &mut Inner, next: u64) -> Result<(), LedgerError> {
        let stamp = new_stamp(&self.environment)?;
        self.check_in_place(inner)?;
        let state = State {
            generation: inner.state.generation + 1,
            stamp,
            previous_stamp: inner.state.stamp,
            next,
            boot: inner.boot,
            machine: inner.state.machine,
            log_len: inner.log.durable().len,
            log_chain: inner.log.durable().chain,
            imported: inner.state.imported,
            lifecycle: Lifecycle::Active,
        };
        inner.broken = Some("it could not be written".to_owned());
        let committed = self.try_commit(inner, state);
        self.ended(inner, committed)
    }

    fn try_commit(&self, inner: &mut Inner, state: State) -> Result<(), LedgerError> {
        let record = state.record(&inner.head.key);
        let written = inner.slots.write(&record).and_then(|()| inner.slots.file().sync());
        written.map_err(|error| failed(&self.paths.state, &error))?;
        inner.state = state;
        raise(inner)
    }

    /// Marks the ledger as broken unless everything was written.
    fn ended(
        &self,
        inner: &mut Inner,
        outcome: Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        inner.broken = match &outcome {
            Ok(()) => None,
            Err(error) => Some(format!("an earlier write failed ({error})")),
        };
        outcome
    }

    /// Fails if a file was replaced, or another process wrote the state.
    fn check_in_place(&self, inner: &mut Inner) -> Result<(), LedgerError> {
        let disk = &*self.environment.disk;
        let at = |error| failed(&self.paths.state, &error);
        let lock = match &inner.lock {
            None => false,
            Some(lock) => lock
                .is_in_place(disk, &self.paths.lock)
                .map_err(|error| failed(&self.paths.lock, &error))?,
        };
        let state = disk.identity(&self.paths.state).map_err(at)?;
        let log = disk.identity(&self.paths.log);
        let log = log.map_err(|error| failed(&self.paths.log, &error))?;
        let newest = inner.slots.read().map_err(at)?;
        let is_ours = newest == Some(inner.state.record(&inner.head.key));
        if lock && (state, log) == (inner.state_file, inner.log_file) && is_ours {
            return Ok(());
        }
        let reason = "the files were replaced or changed while the key was open; close the key and open it again";
        inner.broken = Some(reason.to_owned());
        Err(unsafe_state(&self.paths.state, reason))
    }

    fn make_room(&self, inner: &mut Inner, bytes: u64) -> Result<(), LedgerError> {
        inner.broken = Some("its log could not be written".to_owned());
        let made = inner.log.make_room(bytes).map_err(|error| failed(&self.paths.log, &error));
        self.ended(inner, made)
    }

    fn write_log(
        &self,
        inner: &mut Inner,
        lines: &[Line],
        is_durable: bool,
    ) -> Result<(), LedgerError> {
        inner.broken = Some("its log could not be written".to_owned());
        let mut written = inner.log.append(lines);
        if is_durable {
            written = written.and_then(|()| inner.log.sync());
        }
        let written = written.map_err(|error| failed(&self.paths.log, &error));
        self.ended(inner, written)
    }

    fn close_handle(&self) -> Result<(), LedgerError> {
        // The handle of a forked child belongs to its parent, and a thread missing in the child may
        // hold the lock.
        self.check_process()?;
        let mut inner = self.inner();
        inner.handles -= 1;
        if inner.handles > 0 {
            return Ok(());
        }
        let closed = self.give_tail_back(&mut inner);
        inner.anchors.iter_mut().for_each(|anchor| anchor.release());
        if let Some(lock) = inner.lock.take() {
            lock.release();
        }
        closed
    }

    fn give_tail_back(&self, inner: &mut Inner) -> Result<(), LedgerError> {
        if inner.broken.is_some() {
            return Ok(());
        }
        self.check_boot(inner);
        // Taken before anything is written, so that no other thread takes these indexes meanwhile.
        let next = inner.block.start;
        let has_tail = !inner.block.is_empty();
        inner.block.end = next;
        self.write_log(inner, &[], true)?;
        // The state then records the end of the log, so that an older log is detected.
        let has_grown = inner.settled && inner.log.durable() != End::from_state(&inner.state);
        if has_tail || has_grown { self.commit(inner, next) } else { Ok(()) }
    }
}

fn raise(inner: &mut Inner) -> Result<(), LedgerError> {
    let mark = inner.state.mark(&inner.head.key);
    for anchor in &mut inner.anchors {
        let raised = anchor.raise(&mark, Some(&inner.state.previous_stamp));
        raised.map_err(|error| failed(Path::new(&anchor.name()), &error))?;
    }
    Ok(())
}

impl Inner {
    fn open(
        environment: &Environment,
        paths: &Paths,
        public: &[u8],
        options: &mut Options,
    ) -> Result<Self, LedgerError> {
        let disk = &*environment.disk;
        let (head, slots, state) = read_state(disk, paths, Access::Write)?;
        check_places(environment, paths, head.allow_network)?;
        check_key(paths, &head, public)?;
        paths.check_active(state.lifecycle)?;
        if state.machine != machine_id(&*environment.machine)? {
            return Err(paths.unsafe_until_recovered(&paths.state, OTHER_MACHINE));
        }
        options.check_ahead(&head, head.end - state.next)?;
        let files = anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)?;
        for anchor in &files {
            check_network(environment, anchor, head.allow_network)?;
        }
        let files =
            files.into_iter().map(|path| FileAnchor::new(Arc::clone(&environment.disk), path));
        let mut anchors: Vec<Box<dyn Anchor>> = Vec::new();
        anchors.extend(files.map(|file| Box::new(file) as Box<dyn Anchor>));
        let all = anchors.iter_mut().chain(&mut options.anchors);
        let witnessed = check_anchors(paths, all, &state, &head)
            .and_then(|behind| Inner::files(environment, paths, &head, (&slots, &state), behind));
        let (log, state_file, log_file) = match witnessed {
            Ok(files) => files,
            Err(error) => {
                anchors.iter_mut().for_each(|anchor| anchor.release());
                return Err(error);
            }
        };
        // Only now, because a caller that waits for the lock retries with the same anchors.
        anchors.append(&mut options.anchors);
        Ok(Inner {
            handles: 1,
            lock: None,
            broken: None,
            settled: false,
            ahead: ReservationSize::of(options),
            block: state.next..state.next,
            boot: environment.machine.boot(),
            head,
            slots,
            state,
            state_file,
            log_file,
            anchors,
            log,
        })
    }

    /// Opens the log, and records the identities of state and log. An anchor that is one generation
    /// behind is rejected if the log shows that the state was recovered.
    fn files(
        environment: &Environment,
        paths: &Paths,
        head: &Head,
        (slots, state): (&Slots, &State),
        behind: Option<PathBuf>,
    ) -> Result<(Log, Identity, Identity), LedgerError> {
        let log = open_log(environment, paths, head, state)?;
        let is_recovered = log.ends_with_recovery(state.next);
        let verdict = Verdict::OneBehind.after_recovery(is_recovered);
        if let Some(refused) = behind.and_then(|name| paths.refusal_of(&name, verdict)) {
            return Err(refused);
        }
        let log_file = log.identity().map_err(|error| failed(&paths.log, &error))?;
        let state_file = slots.file().identity().map_err(|error| failed(&paths.state, &error))?;
        Ok((log, state_file, log_file))
    }

    fn check_usable(&self) -> Result<(), LedgerError> {
        match (&self.broken, &self.lock) {
            (None, Some(_)) => Ok(()),
            (Some(why), _) => {
                let reopen = "; close the key and open it again";
                let why = why.strip_suffix(reopen).unwrap_or(why);
                Err(LedgerError::Unsafe(format!("{why}{reopen}")))
            }
            (None, None) => Err(LedgerError::Unsafe("the key was closed".to_owned())),
        }
    }

    /// Returns how many indexes to reserve at once, limited by what the key can spare now.
    fn ahead(&self) -> u64 {
        let spared = reserve_max(self.head.end - self.head.first, self.left());
        self.ahead.bounded.min(spared.max(1)).max(self.ahead.anyway)
    }

    fn left(&self) -> u64 {
        self.head.end - self.state.next + (self.block.end - self.block.start)
    }

    fn remaining(&self) -> Remaining {
        let left = self.left();
        let burnt = self.state.burned_count(
            self.head.first,
            self.head.end - left,
            self.log.signature_count(),
        );
        Remaining { left, burnt, is_low: left <= self.head.warn_at }
    }
}

pub(crate) const OTHER_MACHINE: &str = "it was written on another machine";

/// Compares all anchors with the state; each must match it or be one generation behind. Returns the
/// name of one that is behind.
fn check_anchors<'a>(
    paths: &Paths,
    anchors: impl Iterator<Item = &'a mut Box<dyn Anchor>>,
    state: &State,
    head: &Head,
) -> Result<Option<PathBuf>, LedgerError> {
    let mut behind = None;
    for anchor in anchors {
        let name = PathBuf::from(anchor.name());
        if !anchor.hold().map_err(|error| failed(&name, &error))? {
            return Err(held_anchor(&name));
        }
        let mark = anchor.read().map_err(|error| failed(&name, &error))?;
        let mark = mark.ok_or_else(|| paths.unsafe_until_recovered(&name, NO_ANCHOR))?;
        let verdict = verdict(&mark, state, &head.key);
        if let Some(refused) = paths.refusal_of(&name, verdict) {
            return Err(refused);
        }
        if verdict == Verdict::OneBehind {
            behind = Some(name);
        }
    }
    Ok(behind)
}

pub(crate) const NO_ANCHOR: &str = "there is no anchor of the key: it was copied from another home or machine, \
    or the anchor is lost";

pub(crate) fn open_log(
    environment: &Environment,
    paths: &Paths,
    head: &Head,
    state: &State,
) -> Result<Log, LedgerError> {
    let at = |error| failed(&paths.log, &error);
    let file = environment.disk.open(&paths.log, Access::Write).map_err(at)?;
    let log = Log::open(file, &head.key, End::from_state(state)).map_err(at)?;
    match log.refusal(head.first, state.next) {
        Some(reason) => Err(paths.unsafe_until_recovered(&paths.log, reason)),
        None => Ok(log),
    }
}

fn no_forks() -> LedgerError {
    let reason = "this system does not tell a process that it was forked (Linux 4.14 and later do)";
    LedgerError::Unsafe(reason.to_owned())
}
