//! A simulated disk shared by processes: it loses unsynced writes, tears them, and fails.
//!
//! ```text
//!   file     disk: what is durable    cache: what every process reads    dirty: writes in between
//!   folder   names that are durable   names that every process sees      changes in between
//!
//!   power cut: of each file's dirty writes, and of the changes of names, remain
//!              none | all | a prefix | a prefix and one write torn at 512 bytes
//!   failed sync: an error, the cache stays, the dirty writes are gone, and the next sync succeeds
//! ```

#![allow(clippy::unwrap_used)] // A test that misuses it fails.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Access, Disk, DiskFile, Identity};

/// A fault at a call. Test results name faults by these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The call fails with a device error.
    Fails,
    /// A transient device error: the syncs of two files fail, each once.
    Hiccup,
    /// The disk is full.
    Full,
    /// A signal interrupts the call, once.
    Interrupted,
    /// Half of the bytes are read or written.
    Short,
    /// The file system became read-only.
    ReadOnly,
    /// The process is killed before the call.
    KilledBefore,
    /// The process is killed after the call.
    KilledAfter,
    /// The power fails before the call; the given unsynced writes survive.
    CutBefore(UnsyncedWrites),
    /// The power fails after the call.
    CutAfter(UnsyncedWrites),
    /// The boot id changes under a running process, as when a machine is restored from a snapshot.
    Booted,
    /// Another process opens the key, if possible, and signs.
    Raced,
}

/// The unsynced writes that survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnsyncedWrites {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// The first writes.
    Prefix,
    /// The first writes, and a part of the next one.
    Torn,
}

const UNSYNCED_WRITES: [UnsyncedWrites; 4] =
    [UnsyncedWrites::None, UnsyncedWrites::All, UnsyncedWrites::Prefix, UnsyncedWrites::Torn];

impl Fault {
    /// Returns every kind of fault.
    pub fn all() -> Vec<Fault> {
        use Fault::*;
        let mut all = vec![
            Fails,
            Hiccup,
            Full,
            Interrupted,
            Short,
            ReadOnly,
            KilledBefore,
            KilledAfter,
            Booted,
            Raced,
        ];
        all.extend(UNSYNCED_WRITES.map(CutBefore));
        all.extend(UNSYNCED_WRITES.map(CutAfter));
        all
    }
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Open(Access),
    MakeFolder,
    SyncFolder,
    Rename,
    Remove,
    Identity,
    Canonical,
    IsNetwork,
    ReadAt,
    WriteAt,
    Sync,
    Size,
    TryLock,
    Unlock,
}

impl Call {
    fn is_write(self) -> bool {
        match self {
            Call::Open(access) => access == Access::New,
            Call::MakeFolder | Call::Rename | Call::Remove | Call::WriteAt => true,
            Call::SyncFolder | Call::Sync => false,
            Call::Identity | Call::Canonical | Call::IsNetwork => false,
            Call::ReadAt | Call::Size | Call::TryLock | Call::Unlock => false,
        }
    }

    /// Returns whether a kind of fault can affect the call.
    fn can_fail_with(self, kind: Fault) -> bool {
        match kind {
            Fault::Full => self.is_write(),
            Fault::ReadOnly => self.is_write() || self == Call::Open(Access::Write),
            Fault::Hiccup => self == Call::Sync,
            Fault::Interrupted | Fault::Short => matches!(self, Call::ReadAt | Call::WriteAt),
            _ => true,
        }
    }
}

/// The planned faults: the number of the call and the kind.
pub type FaultPlan = Vec<(usize, Fault)>;

#[derive(Default)]
struct Node {
    disk: Vec<u8>,
    cache: Vec<u8>,
    dirty: Vec<(u64, Vec<u8>)>,
}

enum Change {
    Create(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

/// A pseudo-random number generator (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    /// Returns the next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }
}

/// The state of the simulated machine, shared by its processes.
pub struct SimState {
    nodes: HashMap<u64, Node>,
    names: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    changes: Vec<Change>,
    folders: HashSet<PathBuf>,
    /// The process and handle that hold the lock on a node.
    locks: HashMap<u64, (u64, u64)>,
    dead: HashSet<u64>,
    processes: u64,
    handles: u64,
    /// The number of boots.
    pub boot: u64,
    calls: usize,
    plan: FaultPlan,
    /// The faults that took effect.
    pub injected: Vec<Fault>,
    read_only: bool,
    /// The number of syncs that still fail, and the files that failed.
    hiccups: usize,
    hiccuped: HashSet<u64>,
    dice: Dice,
}

/// A process that runs during a call of another one.
pub type RacingProcess = Arc<dyn Fn() + Send + Sync>;

/// The simulated machine and its disk.
#[derive(Clone)]
pub struct Sim {
    state: Arc<Mutex<SimState>>,
    racer: Arc<Mutex<Option<RacingProcess>>>,
}

impl Sim {
    /// Returns a machine that has booted once, with empty folders.
    pub fn new(plan: FaultPlan, seed: u64) -> Self {
        let folders = ["/", "/keys", "/copy", "/home"].map(PathBuf::from);
        let state = SimState {
            nodes: HashMap::new(),
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            changes: Vec::new(),
            folders: folders.into_iter().collect(),
            locks: HashMap::new(),
            dead: HashSet::new(),
            processes: 0,
            handles: 0,
            boot: 1,
            calls: 0,
            plan,
            injected: Vec::new(),
            read_only: false,
            hiccups: 0,
            hiccuped: HashSet::new(),
            dice: Dice(seed),
        };
        Sim { state: Arc::new(Mutex::new(state)), racer: Arc::default() }
    }

    /// Locks and returns the state shared by all processes.
    pub fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().unwrap()
    }

    /// Sets the process for [`Fault::Raced`].
    pub fn set_racer(&self, racer: RacingProcess) {
        let before = self.racer.lock().unwrap().replace(racer);
        // Dropping it closes its files, which another race may interrupt.
        drop(before);
    }

    /// Cuts the power; all unsynced writes are lost.
    pub fn cut_power(&self) {
        self.state().cut_power(UnsyncedWrites::None);
    }

    /// Starts a new process.
    pub fn process(&self) -> SimDisk {
        let mut state = self.state();
        state.processes += 1;
        // The file system was remounted.
        state.read_only = false;
        SimDisk { sim: self.clone(), process: state.processes }
    }

    /// Returns whether a process was killed.
    pub fn is_dead(&self, process: u64) -> bool {
        self.state().dead.contains(&process)
    }

    /// Kills a process.
    pub fn kill(&self, process: u64) {
        self.state().kill(process);
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Copies the files in a folder whose names have a prefix, as `cp` does, and syncs the copies.
    pub fn copy(&self, from: &str, to: &str) {
        let mut state = self.state();
        let old: Vec<(PathBuf, Vec<u8>)> = state
            .names
            .iter()
            .filter(|(name, _)| name.to_str().unwrap().starts_with(from))
            .map(|(name, node)| (name.clone(), state.nodes[node].cache.clone()))
            .collect();
        for (name, bytes) in old {
            let name = PathBuf::from(name.to_str().unwrap().replacen(from, to, 1));
            state.put(&name, bytes);
        }
    }

    /// Removes the files whose names have a prefix, durably.
    pub fn remove(&self, prefix: &str) {
        self.state().forget(|name| name.to_str().unwrap().starts_with(prefix));
    }

    /// Removes one file, durably.
    pub fn remove_file(&self, name: &str) {
        self.state().forget(|other| other == Path::new(name));
    }

    /// Returns all visible files by name.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let bytes = |node: &u64| state.nodes[node].cache.clone();
        state.names.iter().map(|(name, node)| (name.clone(), bytes(node))).collect()
    }

    /// Creates or replaces a file, durably.
    pub fn put(&self, name: &Path, bytes: Vec<u8>) {
        self.state().put(name, bytes);
    }
}

impl SimState {
    /// Removes names, and everything that would restore them.
    fn forget(&mut self, is_gone: impl Fn(&Path) -> bool) {
        self.names.retain(|name, _| !is_gone(name));
        self.durable.retain(|name, _| !is_gone(name));
        self.changes.retain(|change| match change {
            Change::Create(name, _) | Change::Remove(name) => !is_gone(name),
            Change::Rename(_, to, _) => !is_gone(to),
        });
    }

    fn put(&mut self, name: &Path, bytes: Vec<u8>) {
        self.forget(|other| other == name);
        let node = self.node();
        *self.nodes.get_mut(&node).unwrap() =
            Node { disk: bytes.clone(), cache: bytes, dirty: Vec::new() };
        self.names.insert(name.to_owned(), node);
        self.durable.insert(name.to_owned(), node);
    }

    fn node(&mut self) -> u64 {
        let node = self.nodes.len() as u64 + 1;
        self.nodes.insert(node, Node::default());
        node
    }

    fn kill(&mut self, process: u64) {
        self.dead.insert(process);
        self.locks.retain(|_, (holder, _)| *holder != process);
    }

    fn cut_power(&mut self, remains: UnsyncedWrites) {
        self.dead.extend(1..=self.processes);
        self.locks.clear();
        self.boot += 1;
        let changes = std::mem::take(&mut self.changes);
        let kept = self.survivor_count(changes.len(), remains);
        for change in changes.into_iter().take(kept) {
            apply(&mut self.durable, change);
        }
        self.names = self.durable.clone();
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let dirty = std::mem::take(&mut self.nodes.get_mut(&number).unwrap().dirty);
            let kept = self.survivor_count(dirty.len(), remains);
            let torn = self.dice.roll();
            let node = self.nodes.get_mut(&number).unwrap();
            for (offset, bytes) in &dirty[..kept] {
                write(&mut node.disk, *offset, bytes);
            }
            if let (UnsyncedWrites::Torn, Some((offset, bytes))) = (remains, dirty.get(kept)) {
                let sectors = (offset + bytes.len() as u64).div_ceil(512) - offset / 512;
                let end = (offset / 512 + torn % sectors) * 512;
                let torn = end.saturating_sub(*offset).min(bytes.len() as u64);
                write(&mut node.disk, *offset, &bytes[..torn as usize]);
            }
            node.cache = node.disk.clone();
        }
    }

    fn survivor_count(&mut self, all: usize, remains: UnsyncedWrites) -> usize {
        match remains {
            UnsyncedWrites::None => 0,
            UnsyncedWrites::All => all,
            UnsyncedWrites::Prefix => self.dice.below(all + 1),
            UnsyncedWrites::Torn => self.dice.below(all.max(1)),
        }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: Change) {
    match change {
        Change::Create(name, node) => {
            names.insert(name, node);
        }
        Change::Remove(name) => {
            names.remove(&name);
        }
        Change::Rename(from, to, node) => {
            names.remove(&from);
            names.insert(to, node);
        }
    }
}

fn write(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if bytes.is_empty() {
        return;
    }
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

/// The disk as seen by one process.
#[derive(Clone)]
pub struct SimDisk {
    /// The simulated machine.
    pub sim: Sim,
    /// The number of the process.
    pub process: u64,
}

/// The effect of a fault on a call.
struct FaultEffect {
    fails: Option<ErrorKind>,
    short: bool,
    after: Option<Fault>,
}

impl SimDisk {
    fn dead<T>() -> io::Result<T> {
        Err(io::Error::other("this process is dead"))
    }

    /// Runs a call with the fault that affects it.
    fn call<T>(
        &self,
        call: Call,
        act: impl FnOnce(&mut SimState, Option<bool>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut effect = FaultEffect { fails: None, short: false, after: None };
        let raced = self.begin(call, &mut effect)?;
        if raced {
            let racer = self.sim.racer.lock().unwrap().clone();
            if let Some(racer) = racer {
                racer();
            }
        }
        let mut state = self.sim.state();
        if state.dead.contains(&self.process) {
            return Self::dead();
        }
        if state.read_only && call.can_fail_with(Fault::ReadOnly) {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        match effect.fails {
            // A failed sync loses the unsynced data.
            Some(kind) if call == Call::Sync => {
                let _ = act(&mut state, None);
                return Err(kind.into());
            }
            Some(kind) => return Err(kind.into()),
            None => {}
        }
        let done = act(&mut state, Some(effect.short));
        match effect.after {
            Some(Fault::CutAfter(remains)) => state.cut_power(remains),
            Some(_) => state.kill(self.process),
            None => return done,
        }
        Self::dead()
    }

    /// Counts the call and determines its fault. Returns whether another process races.
    fn begin(&self, call: Call, effect: &mut FaultEffect) -> io::Result<bool> {
        let mut state = self.sim.state();
        if state.dead.contains(&self.process) {
            return Self::dead();
        }
        let number = state.calls;
        state.calls += 1;
        let Some(at) = state.plan.iter().position(|(at, _)| *at == number) else {
            return Ok(false);
        };
        let (_, kind) = state.plan.remove(at);
        if !call.can_fail_with(kind) {
            return Ok(false);
        }
        state.injected.push(kind);
        match kind {
            Fault::Fails => effect.fails = Some(ErrorKind::Other),
            Fault::Full => effect.fails = Some(ErrorKind::StorageFull),
            Fault::Interrupted => effect.fails = Some(ErrorKind::Interrupted),
            Fault::Hiccup => {
                state.hiccups = 2;
                state.hiccuped.clear();
            }
            Fault::ReadOnly => state.read_only = true,
            Fault::Short => effect.short = true,
            Fault::KilledBefore => state.kill(self.process),
            Fault::CutBefore(remains) => state.cut_power(remains),
            Fault::KilledAfter | Fault::CutAfter(_) => effect.after = Some(kind),
            Fault::Booted => state.boot += 1,
            Fault::Raced => return Ok(true),
        }
        Ok(false)
    }

    /// Returns the node with a name.
    pub fn node(&self, path: &Path) -> Option<u64> {
        self.sim.state().names.get(path).copied()
    }

    /// Takes the lock on a node for a handle.
    pub fn lock_node(&self, state: &mut SimState, node: u64, handle: u64) -> bool {
        match state.locks.get(&node) {
            Some((_, holder)) => *holder == handle,
            None => {
                state.locks.insert(node, (self.process, handle));
                true
            }
        }
    }

    /// Takes the lock on the node that has this name now, until the process ends.
    pub fn lock_name(&self, path: &Path) -> bool {
        let Some(node) = self.node(path) else { return false };
        let handle = u64::MAX - self.process;
        self.lock_node(&mut self.sim.state(), node, handle)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let (node, handle) = self.call(Call::Open(access), |state, _| {
            state.handles += 1;
            let handle = state.handles;
            match (state.names.get(path).copied(), access) {
                (Some(_), Access::New) => Err(ErrorKind::AlreadyExists.into()),
                (None, Access::Read | Access::Write) => Err(ErrorKind::NotFound.into()),
                (Some(node), _) => Ok((node, handle)),
                (None, Access::New) => {
                    if !state.folders.contains(path.parent().unwrap()) {
                        return Err(ErrorKind::NotFound.into());
                    }
                    let node = state.node();
                    state.names.insert(path.to_owned(), node);
                    state.changes.push(Change::Create(path.to_owned(), node));
                    Ok((node, handle))
                }
            }
        })?;
        Ok(Box::new(SimFile { disk: self.clone(), node, handle }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.call(Call::MakeFolder, |state, _| {
            // Folders are never lost: only the files in them matter.
            state.folders.insert(path.to_owned());
            Ok(())
        })
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.call(Call::SyncFolder, |state, _| {
            for change in std::mem::take(&mut state.changes) {
                let name = match &change {
                    Change::Create(name, _) | Change::Remove(name) => name,
                    Change::Rename(_, to, _) => to,
                };
                if name.parent() == Some(path) {
                    apply(&mut state.durable, change);
                } else {
                    state.changes.push(change);
                }
            }
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Rename, |state, _| {
            let node = state.names.remove(from).ok_or(ErrorKind::NotFound)?;
            state.names.insert(to.to_owned(), node);
            state.changes.push(Change::Rename(from.to_owned(), to.to_owned(), node));
            Ok(())
        })
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Rename, |state, _| {
            if state.names.contains_key(to) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            let node = state.names.remove(from).ok_or(ErrorKind::NotFound)?;
            state.names.insert(to.to_owned(), node);
            state.changes.push(Change::Rename(from.to_owned(), to.to_owned(), node));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Remove, |state, _| {
            state.names.remove(path).ok_or(ErrorKind::NotFound)?;
            state.changes.push(Change::Remove(path.to_owned()));
            Ok(())
        })
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.call(Call::Identity, |state, _| {
            if state.folders.contains(path) {
                let mut number = DefaultHasher::new();
                path.hash(&mut number);
                return Ok((2, number.finish()));
            }
            let node = state.names.get(path).ok_or(ErrorKind::NotFound)?;
            Ok((1, *node))
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.call(Call::Canonical, |state, _| {
            let is_there = state.folders.contains(path) || state.names.contains_key(path);
            if is_there { Ok(path.to_owned()) } else { Err(ErrorKind::NotFound.into()) }
        })
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        self.call(Call::IsNetwork, |_, _| Ok(path.starts_with("/network")))
    }
}

struct SimFile {
    disk: SimDisk,
    node: u64,
    handle: u64,
}

impl DiskFile for SimFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call(Call::ReadAt, |state, short| {
            let file = &state.nodes[&self.node].cache;
            let rest = file.get(offset as usize..).unwrap_or_default();
            let mut len = rest.len().min(bytes.len());
            if short == Some(true) {
                len = len.div_ceil(2);
            }
            bytes[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.call(Call::WriteAt, |state, short| {
            let len = if short == Some(true) { bytes.len().div_ceil(2) } else { bytes.len() };
            let node = state.nodes.get_mut(&self.node).unwrap();
            write(&mut node.cache, offset, &bytes[..len]);
            node.dirty.push((offset, bytes[..len].to_vec()));
            Ok(len)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call(Call::Sync, |state, synced| {
            let hiccups = state.hiccups > 0 && state.hiccuped.insert(self.node);
            state.hiccups -= usize::from(hiccups);
            let node = state.nodes.get_mut(&self.node).unwrap();
            for (offset, bytes) in std::mem::take(&mut node.dirty) {
                if synced.is_some() && !hiccups {
                    write(&mut node.disk, offset, &bytes);
                }
            }
            if hiccups { Err(io::Error::other("the device hiccuped")) } else { Ok(()) }
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.call(Call::Size, |state, _| Ok(state.nodes[&self.node].cache.len() as u64))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.disk
            .call(Call::TryLock, |state, _| Ok(self.disk.lock_node(state, self.node, self.handle)))
    }

    fn unlock(&self) -> io::Result<()> {
        self.disk.call(Call::Unlock, |state, _| {
            state.locks.retain(|_, (_, handle)| *handle != self.handle);
            Ok(())
        })
    }

    fn identity(&self) -> io::Result<Identity> {
        self.disk.call(Call::Identity, |_, _| Ok((1, self.node)))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.sim.state();
        state.locks.retain(|_, (_, handle)| *handle != self.handle);
    }
}
