//! The ledger in files.
//!
//! ```text
//!   open      lock > head and state > machine > anchors agree > log agrees          a refusal changes nothing
//!   reserve   [ block in memory ] enough: from it, without a call
//!             not: generation + 1 with a higher `next`  > sync state > raise each anchor > the block is larger
//!   close     sync log > its end, and what is left of the block: generation + 1 with `next` at its start > sync > anchors
//! ```
//!
//! Between two writes of state and anchor a crash leaves the state one ahead, which is safe: nothing of the block
//! was handed out. After a failed write or sync nobody knows what is on the disk, so a ledger does nothing more;
//! one that is opened anew writes first what it has read, since what a failed sync left in the system's cache
//! may never get to the disk.

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

/// How a ledger is opened.
pub struct Options {
    /// The number of indexes to reserve at once, at least. More are quicker, and a crash burns more.
    pub ahead: u64,
    /// How many messages are to be signed, if `ahead` is bounded by them and by what is left: see [`reserve_max`]. Later on it
    /// counts as far as [`reserve_max`] says then.
    pub messages: Option<u64>,
    /// How long another process may keep the lock before that is an error.
    pub wait: Duration,
    /// Anchors besides those that are named in the state. [`recover`](crate::recover) does not raise them, so a key
    /// that was recovered is refused while they say the generation before.
    pub anchors: Vec<Box<dyn Anchor>>,
    /// The keys that this process has open, where that is not a process of its own.
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
    /// Refuses to reserve more at once than the key can spare.
    fn check_ahead(&self, head: &Head, left: u64) -> Result<(), LedgerError> {
        let Some(messages) = self.messages else { return Ok(()) };
        let most = reserve_max(head.end - head.first, left).max(messages);
        match self.ahead > most {
            true => Err(LedgerError::Reserve { wanted: self.ahead, left, most }),
            false => Ok(()),
        }
    }
}

/// How many indexes are reserved at once, at least.
#[derive(Clone, Copy)]
struct ReservationSize {
    /// As long as the key can spare them.
    bounded: u64,
    /// Whatever is left.
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

/// Keys with fewer indexes than this spare an eighth of what is left, and no fixed number besides.
const SMALL_KEY: u64 = 512;

/// How many indexes may be reserved beyond those that are needed at once, of a key or sector with `all` indexes of which `left`
/// are left: an eighth of what is left, and of a key that is not small 64 in any case.
pub fn reserve_max(all: u64, left: u64) -> u64 {
    let eighth = left / 8;
    if all < SMALL_KEY { eighth } else { eighth.max(64) }
}

/// The keys that a process has open: a simulated one, since a real one has one list.
pub type OpenKeys = Registry<SharedLedger>;

static OPENED: Chain<SharedLedger> = Chain::new();

/// How long to wait before the lock is tried once more.
const PAUSE: Duration = Duration::from_millis(5);

/// A key's state, open for signing. Clones are not needed: opening it again in this process gives another handle.
pub struct FilesLedger {
    shared: Arc<SharedLedger>,
    /// Whether its end was counted.
    is_closed: bool,
}

/// The state that all handles of a key share.
pub struct SharedLedger {
    environment: Environment,
    process: Process,
    paths: Paths,
    /// What people call the machine, for the log: asked for once, since that is a file to read.
    host: String,
    /// Counts what burns blocks that were handed out: reservations from before give no index.
    epoch: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    handles: usize,
    /// Gone when the last handle is.
    lock: Option<Lock>,
    /// Why nothing more can be done with it.
    broken: Option<String>,
    /// Whether what was read is known to be on the disk.
    settled: bool,
    ahead: ReservationSize,
    head: Head,
    slots: Slots,
    state: State,
    state_file: Identity,
    log_file: Identity,
    /// Reserved, and in nobody's hands.
    block: Range<u64>,
    /// The boot of the machine in which the block was reserved.
    boot: [u8; 32],
    anchors: Vec<Box<dyn Anchor>>,
    log: Log,
}

impl FilesLedger {
    /// Opens the state of the private key in the file `key`, whose public key is `public`.
    ///
    /// # Errors
    /// [`LedgerError::Unsafe`] with the reason if it may not be the newest state, or is another key's or another
    /// machine's; [`LedgerError::Held`] if another process has it for longer than the options say;
    /// [`LedgerError::Unavailable`]. None of them changes anything.
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
                // A child that was forked meanwhile would keep what is only dropped.
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

    /// Ends this handle. The last one of a process gives back what it reserved and did not hand out, durably.
    ///
    /// # Errors
    /// If that failed. Then it is burnt.
    pub fn close(mut self) -> Result<(), LedgerError> {
        self.is_closed = true;
        self.shared.close_handle()
    }

    /// Whether a request id has a signature.
    ///
    /// # Errors
    /// If the state can't be told.
    pub fn knows(&self, request: &str) -> Result<bool, LedgerError> {
        self.shared.check_process()?;
        let inner = self.shared.inner();
        inner.check_usable()?;
        Ok(inner.log.knows(request))
    }

    /// Lets a request id be used again. What was signed under it stays in the log.
    ///
    /// # Errors
    /// If there is none, or the log can't be written.
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

    /// Refuses a process that was forked from the one that opened the key, and takes no lock for it: whoever keeps
    /// something beside the ledger asks before a lock of their own.
    ///
    /// # Errors
    /// [`LedgerError::Unsafe`].
    pub fn check_process(&self) -> Result<(), LedgerError> {
        self.shared.check_process()
    }

    /// The indexes that are this state's, used or not.
    pub fn indexes(&self) -> Range<u64> {
        let inner = self.shared.inner();
        inner.head.first..inner.head.end
    }

    /// The next index, as far as nobody else takes it meanwhile; the last one's successor where none is left.
    pub fn next_index(&self) -> u64 {
        self.shared.inner().block.start
    }
}

impl Drop for FilesLedger {
    fn drop(&mut self) {
        if !self.is_closed {
            // What could not be given back is burnt, which is safe; `close` tells.
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
            // A full disk is noticed before an index is lost to it.
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
            // What was read of the log may not be on the disk, and another message could have this id then.
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

/// What became of indexes if a file could not be read or written before one was reserved.
const UNUSED: &str = "nothing was signed and no index was used; run the command again once the file can be read and written";

/// Adds to the error of a file what became of indexes.
pub(crate) fn with_outcome(error: LedgerError, outcome: &str) -> LedgerError {
    match error {
        LedgerError::Unavailable(reason) => {
            LedgerError::Unavailable(format!("{reason}; {outcome}"))
        }
        error => error,
    }
}

/// Somebody signs with a copy of the key.
pub fn held_anchor(name: &Path) -> LedgerError {
    LedgerError::Held(format!("somebody who holds its anchor {}", name.display()))
}

/// The part of a ledger that a reservation holds.
struct ReservationGuard {
    shared: Arc<SharedLedger>,
    epoch: u64,
    /// The boot of the machine in which they were reserved.
    boot: [u8; 32],
}

impl Holder for ReservationGuard {
    fn check(&self) -> Result<(), LedgerError> {
        self.shared.check_process()?;
        let is_current = self.shared.epoch.load(Ordering::Acquire) == self.epoch;
        // Nobody may have reserved since, who would have noticed.
        if is_current && self.shared.environment.machine.boot() == self.boot {
            return Ok(());
        }
        let reason = "the machine was started again since the indexes were reserved; sign again";
        Err(unsafe_state(&self.shared.paths.state, reason))
    }

    fn give_back(&mut self, unused: Range<u64>) {
        let mut inner = self.shared.inner();
        let is_open = inner.lock.is_some() && inner.broken.is_none();
        // Another thread may have burnt them since the reservation asked.
        let is_current = self.shared.epoch.load(Ordering::Acquire) == self.epoch;
        if is_open && is_current && unused.end == inner.block.start {
            inner.block.start = unused.start;
        }
    }
}

impl SharedLedger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic in between left it broken, or changed nothing.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a process that was forked from the one that opened the key. It takes no lock, which a thread of the
    /// parent may have held.
    fn check_process(&self) -> Result<(), LedgerError> {
        if self.environment.machine.process() == Some(self.process) {
            return Ok(());
        }
        let reason =
            "the process was forked since the key was opened; open it in the process that signs";
        Err(unsafe_state(&self.paths.state, reason))
    }

    /// Burns what is in memory, if that has come through a start of the machine.
    fn check_boot(&self, inner: &mut Inner) {
        let boot = self.environment.machine.boot();
        if inner.boot != boot {
            inner.block.start = inner.block.end;
            inner.boot = boot;
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Writes again what was read when the key was opened, and raises anchors that are behind.
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

    /// Makes a new generation durable whose next index is `next`, in the state and in every anchor.
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

    /// A ledger that began to write is whole again only if all of it was written.
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

    /// Refuses to go on if a file's name has gone to another one, or somebody else wrote the state.
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
        // A child's handle is its parent's, and its lock may be held by a thread that it lacks.
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
        // Before anything is written, so that nobody takes one of them meanwhile.
        let next = inner.block.start;
        let has_tail = !inner.block.is_empty();
        inner.block.end = next;
        self.write_log(inner, &[], true)?;
        // The state knows the end of the log then, and an older log is told from this one.
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
        // Only now: whoever waits for somebody else tries again with the same.
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

    /// The log, and which files state and log are. An anchor that is one generation behind is refused if the log says
    /// that the state was recovered.
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

    /// How many indexes are reserved at once: what was asked for when more were left is more than the key can spare later.
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

/// Compares all anchors with the state: all have to agree. Returns the name of one that is a generation behind.
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
