//! A simulated disk: it loses writes that were not synced, tears them, fails, and is shared by processes.
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

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The device fails.
    Fails,
    /// The device hiccups: the syncs of two files fail, each once.
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
    /// The power goes before the call, and of what was not synced this remains.
    CutBefore(Remains),
    /// The power goes after the call.
    CutAfter(Remains),
    /// The machine's boot becomes another one under a process that lives on, as when a machine is restored.
    Booted,
    /// Another process opens the key, if it can, and signs.
    Raced,
}

/// What remains of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Remains {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// The first writes.
    Prefix,
    /// The first writes, and a part of the next one.
    Torn,
}

const REMAINS: [Remains; 4] = [Remains::None, Remains::All, Remains::Prefix, Remains::Torn];

impl Kind {
    /// Every kind.
    pub fn all() -> Vec<Kind> {
        use Kind::*;
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
        all.extend(REMAINS.map(CutBefore));
        all.extend(REMAINS.map(CutAfter));
        all
    }
}

/// A call.
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

    /// Whether a kind of fault can strike it.
    fn suffers(self, kind: Kind) -> bool {
        match kind {
            Kind::Full => self.is_write(),
            Kind::ReadOnly => self.is_write() || self == Call::Open(Access::Write),
            Kind::Hiccup => self == Call::Sync,
            Kind::Interrupted | Kind::Short => matches!(self, Call::ReadAt | Call::WriteAt),
            _ => true,
        }
    }
}

/// Faults to come: at which call, of which kind.
pub type Plan = Vec<(usize, Kind)>;

#[derive(Default)]
struct Node {
    disk: Vec<u8>,
    cache: Vec<u8>,
    dirty: Vec<(u64, Vec<u8>)>,
}

enum Change {
    Named(PathBuf, u64),
    Unnamed(PathBuf),
    Renamed(PathBuf, PathBuf, u64),
}

/// Numbers that look random, from a seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }
}

/// What all processes share.
pub struct Ground {
    nodes: HashMap<u64, Node>,
    names: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    changes: Vec<Change>,
    folders: HashSet<PathBuf>,
    /// Which process has the lock on a node, by which handle.
    locks: HashMap<u64, (u64, u64)>,
    dead: HashSet<u64>,
    processes: u64,
    handles: u64,
    /// Counts boots.
    pub boot: u64,
    calls: usize,
    plan: Plan,
    /// Faults that took effect.
    pub struck: Vec<Kind>,
    read_only: bool,
    /// How many syncs are still to fail, and whose did.
    hiccups: usize,
    hiccuped: HashSet<u64>,
    dice: Dice,
}

/// What happens where another process races.
pub type Racer = Arc<dyn Fn() + Send + Sync>;

/// The machine with its disk.
#[derive(Clone)]
pub struct Sim {
    ground: Arc<Mutex<Ground>>,
    racer: Arc<Mutex<Option<Racer>>>,
}

impl Sim {
    /// A machine that has booted once, with empty folders.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let folders = ["/", "/keys", "/copy", "/home"].map(PathBuf::from);
        let ground = Ground {
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
            struck: Vec::new(),
            read_only: false,
            hiccups: 0,
            hiccuped: HashSet::new(),
            dice: Dice(seed),
        };
        Sim { ground: Arc::new(Mutex::new(ground)), racer: Arc::default() }
    }

    /// What all processes share, locked.
    pub fn ground(&self) -> MutexGuard<'_, Ground> {
        self.ground.lock().unwrap()
    }

    /// Sets what happens where another process races.
    pub fn set_racer(&self, racer: Racer) {
        let before = self.racer.lock().unwrap().replace(racer);
        // What it has open it closes, and another race may strike that.
        drop(before);
    }

    /// The power goes, and of what was not synced nothing remains.
    pub fn cut_power(&self) {
        self.ground().cut_power(Remains::None);
    }

    /// A new process.
    pub fn process(&self) -> SimDisk {
        let mut ground = self.ground();
        ground.processes += 1;
        // Somebody remounted it.
        ground.read_only = false;
        SimDisk { sim: self.clone(), process: ground.processes }
    }

    /// Whether a process was killed.
    pub fn is_dead(&self, process: u64) -> bool {
        self.ground().dead.contains(&process)
    }

    /// Kills a process.
    pub fn kill(&self, process: u64) {
        self.ground().kill(process);
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.ground().calls
    }

    /// Copies the files of a folder that begin with a name, as `cp` and a good while after it do.
    pub fn copy(&self, from: &str, to: &str) {
        let mut ground = self.ground();
        let old: Vec<(PathBuf, Vec<u8>)> = ground
            .names
            .iter()
            .filter(|(name, _)| name.to_str().unwrap().starts_with(from))
            .map(|(name, node)| (name.clone(), ground.nodes[node].cache.clone()))
            .collect();
        for (name, bytes) in old {
            let name = PathBuf::from(name.to_str().unwrap().replacen(from, to, 1));
            ground.put(&name, bytes);
        }
    }

    /// Removes the files that begin with a name, for good.
    pub fn remove(&self, prefix: &str) {
        self.ground().forget(|name| name.to_str().unwrap().starts_with(prefix));
    }

    /// Removes one file, for good.
    pub fn remove_file(&self, name: &str) {
        self.ground().forget(|other| other == Path::new(name));
    }

    /// All files by name, as they are to be seen.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let ground = self.ground();
        let bytes = |node: &u64| ground.nodes[node].cache.clone();
        ground.names.iter().map(|(name, node)| (name.clone(), bytes(node))).collect()
    }

    /// Puts a file in place of what has its name, durably.
    pub fn put(&self, name: &Path, bytes: Vec<u8>) {
        self.ground().put(name, bytes);
    }
}

impl Ground {
    /// Removes names, and what would bring them back.
    fn forget(&mut self, is_gone: impl Fn(&Path) -> bool) {
        self.names.retain(|name, _| !is_gone(name));
        self.durable.retain(|name, _| !is_gone(name));
        self.changes.retain(|change| match change {
            Change::Named(name, _) | Change::Unnamed(name) => !is_gone(name),
            Change::Renamed(_, to, _) => !is_gone(to),
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

    fn cut_power(&mut self, remains: Remains) {
        self.dead.extend(1..=self.processes);
        self.locks.clear();
        self.boot += 1;
        let changes = std::mem::take(&mut self.changes);
        let kept = self.kept(changes.len(), remains);
        for change in changes.into_iter().take(kept) {
            apply(&mut self.durable, change);
        }
        self.names = self.durable.clone();
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let dirty = std::mem::take(&mut self.nodes.get_mut(&number).unwrap().dirty);
            let kept = self.kept(dirty.len(), remains);
            let torn = self.dice.roll();
            let node = self.nodes.get_mut(&number).unwrap();
            for (offset, bytes) in &dirty[..kept] {
                write(&mut node.disk, *offset, bytes);
            }
            if let (Remains::Torn, Some((offset, bytes))) = (remains, dirty.get(kept)) {
                let sectors = (offset + bytes.len() as u64).div_ceil(512) - offset / 512;
                let end = (offset / 512 + torn % sectors) * 512;
                let torn = end.saturating_sub(*offset).min(bytes.len() as u64);
                write(&mut node.disk, *offset, &bytes[..torn as usize]);
            }
            node.cache = node.disk.clone();
        }
    }

    fn kept(&mut self, all: usize, remains: Remains) -> usize {
        match remains {
            Remains::None => 0,
            Remains::All => all,
            Remains::Prefix => self.dice.below(all + 1),
            Remains::Torn => self.dice.below(all.max(1)),
        }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: Change) {
    match change {
        Change::Named(name, node) => {
            names.insert(name, node);
        }
        Change::Unnamed(name) => {
            names.remove(&name);
        }
        Change::Renamed(from, to, node) => {
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

/// The disk as one process sees it.
#[derive(Clone)]
pub struct SimDisk {
    /// The machine.
    pub sim: Sim,
    /// The number of the process.
    pub process: u64,
}

/// How a call goes on after what struck it.
struct Struck {
    fails: Option<ErrorKind>,
    short: bool,
    after: Option<Kind>,
}

impl SimDisk {
    fn dead<T>() -> io::Result<T> {
        Err(io::Error::other("this process is dead"))
    }

    /// Runs a call, with what strikes it.
    fn call<T>(
        &self,
        call: Call,
        act: impl FnOnce(&mut Ground, Option<bool>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut struck = Struck { fails: None, short: false, after: None };
        let raced = self.begin(call, &mut struck)?;
        if raced {
            let racer = self.sim.racer.lock().unwrap().clone();
            if let Some(racer) = racer {
                racer();
            }
        }
        let mut ground = self.sim.ground();
        if ground.dead.contains(&self.process) {
            return Self::dead();
        }
        if ground.read_only && call.suffers(Kind::ReadOnly) {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        match struck.fails {
            // A failed sync loses what was to be synced.
            Some(kind) if call == Call::Sync => {
                let _ = act(&mut ground, None);
                return Err(kind.into());
            }
            Some(kind) => return Err(kind.into()),
            None => {}
        }
        let done = act(&mut ground, Some(struck.short));
        match struck.after {
            Some(Kind::CutAfter(remains)) => ground.cut_power(remains),
            Some(_) => ground.kill(self.process),
            None => return done,
        }
        Self::dead()
    }

    /// Counts the call and finds what strikes it; whether somebody races.
    fn begin(&self, call: Call, struck: &mut Struck) -> io::Result<bool> {
        let mut ground = self.sim.ground();
        if ground.dead.contains(&self.process) {
            return Self::dead();
        }
        let number = ground.calls;
        ground.calls += 1;
        let Some(at) = ground.plan.iter().position(|(at, _)| *at == number) else {
            return Ok(false);
        };
        let (_, kind) = ground.plan.remove(at);
        if !call.suffers(kind) {
            return Ok(false);
        }
        ground.struck.push(kind);
        match kind {
            Kind::Fails => struck.fails = Some(ErrorKind::Other),
            Kind::Full => struck.fails = Some(ErrorKind::StorageFull),
            Kind::Interrupted => struck.fails = Some(ErrorKind::Interrupted),
            Kind::Hiccup => {
                ground.hiccups = 2;
                ground.hiccuped.clear();
            }
            Kind::ReadOnly => ground.read_only = true,
            Kind::Short => struck.short = true,
            Kind::KilledBefore => ground.kill(self.process),
            Kind::CutBefore(remains) => ground.cut_power(remains),
            Kind::KilledAfter | Kind::CutAfter(_) => struck.after = Some(kind),
            Kind::Booted => ground.boot += 1,
            Kind::Raced => return Ok(true),
        }
        Ok(false)
    }

    /// Which node has a name.
    pub fn node(&self, path: &Path) -> Option<u64> {
        self.sim.ground().names.get(path).copied()
    }

    /// Takes the lock on a node by a handle.
    pub fn lock_node(&self, ground: &mut Ground, node: u64, handle: u64) -> bool {
        match ground.locks.get(&node) {
            Some((_, holder)) => *holder == handle,
            None => {
                ground.locks.insert(node, (self.process, handle));
                true
            }
        }
    }

    /// The same of whatever has this name now, until the process ends.
    pub fn lock_name(&self, path: &Path) -> bool {
        let Some(node) = self.node(path) else { return false };
        let handle = u64::MAX - self.process;
        self.lock_node(&mut self.sim.ground(), node, handle)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let (node, handle) = self.call(Call::Open(access), |ground, _| {
            ground.handles += 1;
            let handle = ground.handles;
            match (ground.names.get(path).copied(), access) {
                (Some(_), Access::New) => Err(ErrorKind::AlreadyExists.into()),
                (None, Access::Read | Access::Write) => Err(ErrorKind::NotFound.into()),
                (Some(node), _) => Ok((node, handle)),
                (None, Access::New) => {
                    if !ground.folders.contains(path.parent().unwrap()) {
                        return Err(ErrorKind::NotFound.into());
                    }
                    let node = ground.node();
                    ground.names.insert(path.to_owned(), node);
                    ground.changes.push(Change::Named(path.to_owned(), node));
                    Ok((node, handle))
                }
            }
        })?;
        Ok(Box::new(SimFile { disk: self.clone(), node, handle }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.call(Call::MakeFolder, |ground, _| {
            // Of folders nothing is lost: the files in them are what counts.
            ground.folders.insert(path.to_owned());
            Ok(())
        })
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.call(Call::SyncFolder, |ground, _| {
            for change in std::mem::take(&mut ground.changes) {
                let name = match &change {
                    Change::Named(name, _) | Change::Unnamed(name) => name,
                    Change::Renamed(_, to, _) => to,
                };
                if name.parent() == Some(path) {
                    apply(&mut ground.durable, change);
                } else {
                    ground.changes.push(change);
                }
            }
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Rename, |ground, _| {
            let node = ground.names.remove(from).ok_or(ErrorKind::NotFound)?;
            ground.names.insert(to.to_owned(), node);
            ground.changes.push(Change::Renamed(from.to_owned(), to.to_owned(), node));
            Ok(())
        })
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Rename, |ground, _| {
            if ground.names.contains_key(to) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            let node = ground.names.remove(from).ok_or(ErrorKind::NotFound)?;
            ground.names.insert(to.to_owned(), node);
            ground.changes.push(Change::Renamed(from.to_owned(), to.to_owned(), node));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Remove, |ground, _| {
            ground.names.remove(path).ok_or(ErrorKind::NotFound)?;
            ground.changes.push(Change::Unnamed(path.to_owned()));
            Ok(())
        })
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.call(Call::Identity, |ground, _| {
            if ground.folders.contains(path) {
                let mut number = DefaultHasher::new();
                path.hash(&mut number);
                return Ok((2, number.finish()));
            }
            let node = ground.names.get(path).ok_or(ErrorKind::NotFound)?;
            Ok((1, *node))
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.call(Call::Canonical, |ground, _| {
            let is_there = ground.folders.contains(path) || ground.names.contains_key(path);
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
        self.disk.call(Call::ReadAt, |ground, short| {
            let file = &ground.nodes[&self.node].cache;
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
        self.disk.call(Call::WriteAt, |ground, short| {
            let len = if short == Some(true) { bytes.len().div_ceil(2) } else { bytes.len() };
            let node = ground.nodes.get_mut(&self.node).unwrap();
            write(&mut node.cache, offset, &bytes[..len]);
            node.dirty.push((offset, bytes[..len].to_vec()));
            Ok(len)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call(Call::Sync, |ground, synced| {
            let hiccups = ground.hiccups > 0 && ground.hiccuped.insert(self.node);
            ground.hiccups -= usize::from(hiccups);
            let node = ground.nodes.get_mut(&self.node).unwrap();
            for (offset, bytes) in std::mem::take(&mut node.dirty) {
                if synced.is_some() && !hiccups {
                    write(&mut node.disk, offset, &bytes);
                }
            }
            if hiccups { Err(io::Error::other("the device hiccuped")) } else { Ok(()) }
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.call(Call::Size, |ground, _| Ok(ground.nodes[&self.node].cache.len() as u64))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.disk.call(Call::TryLock, |ground, _| {
            Ok(self.disk.lock_node(ground, self.node, self.handle))
        })
    }

    fn unlock(&self) -> io::Result<()> {
        self.disk.call(Call::Unlock, |ground, _| {
            ground.locks.retain(|_, (_, handle)| *handle != self.handle);
            Ok(())
        })
    }

    fn identity(&self) -> io::Result<Identity> {
        self.disk.call(Call::Identity, |_, _| Ok((1, self.node)))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut ground = self.disk.sim.ground();
        ground.locks.retain(|_, (_, handle)| *handle != self.handle);
    }
}
