//! The log: appending, syncing, and what is made of it now and then.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use gabion_disk::{Access, Disk, DiskFile, write_all};
use gabion_engine::{Entropy, OsEntropy};

use super::frame::{self, Frame, Head, START};
use super::memory::MemoryDisk;
use super::note::{Checkpoint, Keys};
use super::record::{RECORD_MAX, Record};
use super::segment::{self, Entry, Segment, unwritable};
use super::sync::Syncs;
use super::tiles::{self, TileKind, Tiles};
use super::tree::{self, Full, Hash, Tree, WIDTH, leaf};
use super::verify::{self, Proof};
use crate::error::AuditError;

/// When a record is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// When the system has it: it survives the process, however that ends.
    Written,
    /// When the disk says that it has it: it survives a power cut.
    Durable,
}

/// How a log is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a segment. Those that there are keep theirs.
    pub segment_bytes: u64,
    /// Bytes at the end of a segment that nothing new takes where the disk has no room for another one.
    pub reserve_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { segment_bytes: 64 << 20, reserve_bytes: 1 << 20 }
    }
}

/// Most bytes of the segments of a log in memory.
const BYTES_MAX: u64 = 16 << 20;

/// A log. One process writes it.
///
/// # Examples
/// ```
/// use gabion_kms::audit::{Class, Keys, Log, Outcome, Record};
/// use gabion_kms::gate::{Action, Principal};
///
/// let (keys, _seed) = Keys::drawn("example.com/audit")?;
/// let log = Log::in_memory(keys)?;
/// let record = Record {
///     time_ms: 1_790_000_000_000,
///     request_id: "r-1".to_owned(),
///     trace: None,
///     principal: Principal::new("ci")?,
///     method: "local".to_owned(),
///     action: Action::Sign,
///     tenant: None,
///     key: None,
///     input: None,
///     output: None,
///     change: None,
///     outcome: Outcome::Done,
///     count: None,
///     revision: None,
/// };
/// let index = log.append(&[record], Class::Durable)?;
/// log.checkpoint()?;
/// assert!(log.prove(index)?.check(&log.vkeys())?);
/// # Ok::<(), gabion_kms::Error>(())
/// ```
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folder: PathBuf,
    pub(super) keys: Keys,
    pub(super) options: Options,
    pub(super) writing: Mutex<Appender>,
    pub(super) syncs: Syncs,
    /// The next segment's file. Taken after `writing`, by whoever has both.
    pub(super) spare: Mutex<Spare>,
    /// The newest checkpoint, and one at a time.
    pub(super) checkpoint: Mutex<Option<Checkpoint>>,
    /// One archives at a time. Taken before that of checkpoints.
    pub(super) archiving: Mutex<()>,
    /// Most bytes of its segments, of a log that forgets older records: one in memory.
    pub(super) bytes_max: Option<u64>,
    pub(super) process: u32,
    /// Has the kernel's lock until the log is closed.
    pub(super) lock: Mutex<Box<dyn DiskFile>>,
}

/// What is known of the next segment's file.
#[derive(Default)]
pub struct Spare {
    is_there: bool,
    /// Why it could not be made, when that was tried last, and when that was.
    refused: Option<(AuditError, Instant)>,
}

/// How long nobody tries again to make a segment after the disk was full: whoever is refused is not to fill it for others.
const RETRY: Duration = Duration::from_secs(1);

/// The state for appending records.
pub struct Appender {
    pub segment: Segment,
    /// The same file once more, for whoever syncs.
    pub syncer: Arc<Mutex<Box<dyn DiskFile>>>,
    /// Where the next frame goes.
    pub at: u64,
    /// Bytes from there on that may be a part of what a full disk did not take.
    pub torn: u64,
    pub tree: Tree,
    /// The entries of the bundle that is not full.
    pub entries: Vec<Hash>,
    /// Tiles and bundles that became full since the last checkpoint.
    pub tiles: Vec<Full>,
    pub bundles: Vec<Full>,
    /// Files of tiles that were not full, to be removed when they are.
    pub partial: BTreeSet<PathBuf>,
    pub broken: Option<AuditError>,
}

impl Log {
    /// A log that ends with the process and writes nothing to any disk. It keeps the newest 16 MiB of records; [`Self::checkpoint`]
    /// removes older ones.
    ///
    /// # Errors
    /// No randomness.
    pub fn in_memory(keys: Keys) -> Result<Self, AuditError> {
        let options = Options { segment_bytes: 1 << 20, reserve_bytes: 64 << 10 };
        let disk = Arc::new(MemoryDisk::default());
        let mut log = Self::open(disk, Path::new("/audit"), keys, options)?;
        log.bytes_max = Some(BYTES_MAX);
        Ok(log)
    }

    /// Appends records, which become neighbours; the index of the first one. They are there when this returns, as
    /// their class says.
    ///
    /// # Errors
    /// It can't be written, now and until it is opened again; there is no room left but the reserve.
    pub fn append(&self, records: &[Record], class: Class) -> Result<u64, AuditError> {
        self.push(records, class, self.options.reserve_bytes)
    }

    /// The same, also where there is the reserve only: for what has happened already.
    ///
    /// # Errors
    /// As [`Self::append`], but for the reserve.
    pub fn append_at_last(&self, records: &[Record], class: Class) -> Result<u64, AuditError> {
        self.push(records, class, 0)
    }

    /// Signs how far the log has come, and writes the tiles up to there. To be called about once a second, and before
    /// the log is closed.
    ///
    /// # Errors
    /// It can't be written. What a checkpoint could not write the next one writes.
    pub fn checkpoint(&self) -> Result<Checkpoint, AuditError> {
        let checkpoint = self.signed()?;
        self.forget()?;
        Ok(checkpoint)
    }

    fn signed(&self) -> Result<Checkpoint, AuditError> {
        let mut newest = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        let size = {
            let writing = self.writing();
            self.check(&writing)?;
            writing.tree.size()
        };
        if let Some(checkpoint) = newest.as_ref().filter(|newest| newest.size == size) {
            return Ok(checkpoint.clone());
        }
        let tree = self.write_tiles()?;
        let (size, root) = (tree.size(), tree.root());
        let checkpoint = self.keys.sign(size, root, seconds())?;
        let path = self.folder.join("checkpoint");
        tiles::replace(&*self.disk, &self.folder, &path, checkpoint.note.as_bytes(), true)?;
        *newest = Some(checkpoint.clone());
        Ok(checkpoint)
    }

    /// Makes the next segment's file, so that nobody who appends waits for that. To be called now and then.
    ///
    /// # Errors
    /// There is no room for it. The log goes on until its last segment is full but for the reserve.
    pub fn prepare(&self) -> Result<(), AuditError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare_now(&mut spare)
    }

    /// Whether it can be written, as far as that can be seen: also where there is little but the reserve left, and no
    /// next segment. Then [`Self::prepare`] finds out whether there is room again.
    ///
    /// # Errors
    /// Why not.
    pub fn health(&self) -> Result<(), AuditError> {
        let writing = self.writing();
        self.check_written(&writing)?;
        let left = writing.segment.size.saturating_sub(writing.at);
        if left >= self.options.reserve_bytes + RECORD_MAX as u64 {
            return Ok(());
        }
        let spare = match self.spare.try_lock() {
            Ok(spare) => spare,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody makes it.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        match &spare.refused {
            Some((why, _)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Whether what there is can be written to, whatever room is left.
    pub(super) fn check_written(&self, writing: &Appender) -> Result<(), AuditError> {
        self.check(writing)?;
        self.check_file(&writing.segment)
    }

    /// The newest checkpoint.
    pub fn newest(&self) -> Option<Checkpoint> {
        self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many records there are.
    pub fn size(&self) -> u64 {
        self.writing().tree.size()
    }

    /// Records from an index on, at most so many.
    ///
    /// # Errors
    /// It can't be read; it is damaged.
    pub fn tail(&self, from: u64, most: usize) -> Result<Vec<Entry>, AuditError> {
        segment::entries(&*self.disk, &self.folder, from, self.size(), most)
    }

    /// The index of the first record that is in no archive.
    ///
    /// # Errors
    /// It can't be read; it is damaged.
    pub fn first(&self) -> Result<u64, AuditError> {
        segment::first_here(&*self.disk, &self.folder)
    }

    /// Entries from an index on, of which the newest checkpoint tells, at most so many: also those whose records are in
    /// an archive.
    ///
    /// # Errors
    /// It can't be read; it is damaged.
    pub fn entries(&self, from: u64, most: usize) -> Result<Vec<Hash>, AuditError> {
        self.check_kept(from)?;
        // Tiles are replaced while a checkpoint is made.
        let newest = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        let size = newest.as_ref().map_or(0, |newest| newest.size);
        verify::entries(&*self.disk, &self.folder, size, from, most)
    }

    /// That a record is in the newest checkpoint.
    ///
    /// # Errors
    /// There is none that has it; it is in an archive; it can't be read; it is damaged.
    pub fn prove(&self, index: u64) -> Result<Proof, AuditError> {
        self.check_kept(index)?;
        verify::prove(&*self.disk, &self.folder, self.newest(), index)
    }

    /// The root of the tree as it was when it had so many records, of which the newest checkpoint tells.
    ///
    /// # Errors
    /// It tells of fewer; it can't be read; it is damaged.
    pub fn root_at(&self, size: u64) -> Result<Hash, AuditError> {
        let newest = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        let now = newest.as_ref().map_or(0, |newest| newest.size);
        match size {
            0 => Ok(Tree::default().root()),
            size if size > now => Err(AuditError::NoRecord(size - 1)),
            size => tree::root(&mut Tiles::new(&*self.disk, &self.folder, now), 0, size),
        }
    }

    /// What verifies checkpoints, as C2SP's signed-note writes it: Ed25519, ML-DSA-44.
    pub fn vkeys(&self) -> [String; 2] {
        self.keys.vkeys()
    }

    fn push(&self, records: &[Record], class: Class, reserve: u64) -> Result<u64, AuditError> {
        let lines: Vec<String> = records.iter().map(Record::to_json).collect();
        let len: usize = lines.iter().map(|line| frame::len(line.len())).sum();
        let longest = lines.iter().map(String::len).max().unwrap_or(0);
        if longest > RECORD_MAX || START + len as u64 + reserve > self.options.segment_bytes {
            return Err(AuditError::TooLarge(len));
        }
        let mut salts = vec![[0; 32]; lines.len()];
        OsEntropy
            .fill(salts.as_flattened_mut())
            .map_err(|error| AuditError::Engine(error.into()))?;
        let entries: Vec<Hash> = salts
            .iter()
            .zip(&lines)
            .map(|(salt, line)| frame::entry(salt, line.as_bytes()))
            .collect();
        let mut writing = self.writing();
        self.check(&writing)?;
        self.take_back(&mut writing)?;
        self.make_room(&mut writing, len as u64, reserve)?;
        let (first, synced) = (writing.tree.size(), self.syncs.synced());
        let (mut bytes, log) = (Vec::with_capacity(len), writing.segment.head.log);
        for (((index, line), salt), &entry) in (first..).zip(&lines).zip(&salts).zip(&entries) {
            let record = line.as_bytes();
            frame::encode(&mut bytes, &log, &Frame { index, synced, salt, record, entry });
        }
        let written = write_all(&*writing.segment.file, &bytes, writing.at);
        if written.as_ref().is_err_and(is_full) {
            // A file system that writes elsewhere what it overwrites. Nothing of it counts, and it goes first of all.
            writing.torn = writing.torn.max(len as u64);
            return Err(AuditError::Full);
        }
        let written = written
            .map_err(|error| unwritable(&writing.segment.path, &error))
            // What was written to a file that has no name any more nobody finds.
            .and_then(|()| self.check_file(&writing.segment));
        written.inspect_err(|error| writing.broken = Some(error.clone()))?;
        writing.at += len as u64;
        entries.iter().for_each(|entry| writing.grow(entry));
        drop(writing);
        if class == Class::Durable {
            self.sync(first + records.len() as u64)?;
        }
        Ok(first)
    }

    /// Writes zeros over what a full disk took a part of: a killed process's next one would take that for records.
    fn take_back(&self, writing: &mut Appender) -> Result<(), AuditError> {
        if writing.torn == 0 {
            return Ok(());
        }
        let zeros = vec![0; usize::try_from(writing.torn).unwrap_or(usize::MAX)];
        match write_all(&*writing.segment.file, &zeros, writing.at) {
            Ok(()) => {
                writing.torn = 0;
                Ok(())
            }
            Err(error) if is_full(&error) => Err(AuditError::Full),
            Err(error) => {
                let error = unwritable(&writing.segment.path, &error);
                writing.broken = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Has a place for so many bytes, in this segment or the next.
    fn make_room(&self, writing: &mut Appender, len: u64, reserve: u64) -> Result<(), AuditError> {
        let left = writing.segment.size.saturating_sub(writing.at);
        if len + reserve <= left {
            return Ok(());
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare_now(&mut spare)?;
        if len <= left {
            return Ok(());
        }
        // Where there are too many files, nothing was begun, and the next one who appends tries again.
        spare.is_there = false;
        let files = segment::open_spare(&*self.disk, &self.folder)
            .map_err(|error| unwritable(&segment::spare(&self.folder), &error))?;
        let next = self.next_segment(writing, files);
        next.inspect_err(|error| writing.broken = Some(error.clone()))
    }

    fn next_segment(
        &self,
        writing: &mut Appender,
        files: [Box<dyn DiskFile>; 2],
    ) -> Result<(), AuditError> {
        let Appender { segment, tree, .. } = writing;
        // What stands in an older segment is always synced.
        segment.file.sync().map_err(|error| unwritable(&segment.path, &error))?;
        self.check_file(segment)?;
        let head = Head { number: segment.head.number + 1, first: tree.size(), ..segment.head };
        let (begun, syncer) = begun(&*self.disk, &self.folder, head, files)?;
        self.syncs.raise(head.first);
        writing.segment = begun;
        writing.syncer = syncer;
        writing.at = START;
        Ok(())
    }

    fn prepare_now(&self, spare: &mut Spare) -> Result<(), AuditError> {
        if spare.is_there {
            return Ok(());
        }
        if let Some((AuditError::Full, when)) = &spare.refused
            && when.elapsed() < RETRY
        {
            return Err(AuditError::Full);
        }
        let made = segment::prepare(&*self.disk, &self.folder, self.options.segment_bytes);
        let made = made.map_err(|error| match is_full(&error) {
            true => AuditError::Full,
            false => unwritable(&segment::spare(&self.folder), &error),
        });
        spare.is_there = made.is_ok();
        spare.refused = made.as_ref().err().map(|why| (why.clone(), Instant::now()));
        made
    }

    /// Waits until so many records are synced.
    fn sync(&self, size: u64) -> Result<(), AuditError> {
        self.syncs.wait(size, || {
            let (written, syncer, path) = {
                let writing = self.writing();
                (writing.tree.size(), writing.syncer.clone(), writing.segment.path.clone())
            };
            let synced = syncer.lock().unwrap_or_else(PoisonError::into_inner).sync();
            synced.map_err(|error| {
                let error = unwritable(&path, &error);
                self.writing().broken = Some(error.clone());
                error
            })?;
            Ok(written)
        })
    }

    /// Syncs what there is and writes its tiles; of which tree they are.
    fn write_tiles(&self) -> Result<Tree, AuditError> {
        let made = {
            let mut writing = self.writing();
            let Appender { tiles, bundles, partial, tree, entries, .. } = &mut *writing;
            CheckpointFiles {
                tiles: std::mem::take(tiles),
                bundles: std::mem::take(bundles),
                partial: std::mem::take(partial),
                tree: tree.clone(),
                entries: entries.clone(),
            }
        };
        let written = self.sync(made.tree.size()).and_then(|()| made.write(self));
        let mut writing = self.writing();
        match written {
            Ok((kept, old)) => {
                writing.partial = kept;
                drop(writing);
                // What can't be removed does no harm.
                old.iter().for_each(|path| drop(self.disk.remove(path)));
                Ok(made.tree)
            }
            Err(error) => {
                writing.tiles.splice(0..0, made.tiles);
                writing.bundles.splice(0..0, made.bundles);
                writing.partial = made.partial;
                Err(error)
            }
        }
    }

    fn check(&self, writing: &Appender) -> Result<(), AuditError> {
        match &writing.broken {
            Some(error) => Err(error.clone()),
            None if std::process::id() != self.process => Err(AuditError::Forked),
            None => Ok(()),
        }
    }

    /// Whether a segment's file still has its name.
    fn check_file(&self, segment: &Segment) -> Result<(), AuditError> {
        match self.disk.identity(&segment.path) {
            Ok(identity) if identity == segment.identity => Ok(()),
            Ok(_) | Err(_) => Err(AuditError::Replaced(segment.path.display().to_string())),
        }
    }

    pub(super) fn writing(&self) -> MutexGuard<'_, Appender> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files that a checkpoint writes.
struct CheckpointFiles {
    tiles: Vec<Full>,
    bundles: Vec<Full>,
    partial: BTreeSet<PathBuf>,
    tree: Tree,
    entries: Vec<Hash>,
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // It goes back here, not when a child that has the same handle ends.
            let _ = self.lock.get_mut().unwrap_or_else(PoisonError::into_inner).unlock();
        }
    }
}

impl CheckpointFiles {
    /// Writes it; the files of tiles that are not full, and those whose tiles are full now.
    fn write(&self, log: &Log) -> Result<(BTreeSet<PathBuf>, Vec<PathBuf>), AuditError> {
        let (disk, folder) = (&*log.disk, &*log.folder);
        tiles::write_full(disk, folder, &self.tiles, &self.bundles)?;
        let (mut kept, mut edge) = (self.partial.clone(), Vec::new());
        let levels = (0..).map(TileKind::Level).zip(self.tree.edge());
        for (of, hashes) in levels.chain([(TileKind::Entries, &self.entries)]) {
            let all = match of {
                TileKind::Level(level) => self.tree.size() >> (8 * u32::from(level)),
                TileKind::Entries => self.tree.size(),
            };
            if !hashes.is_empty() {
                let index = all / WIDTH as u64;
                let path = tiles::path_of(folder, of, index, hashes.len());
                if kept.insert(path.clone()) {
                    tiles::write(disk, folder, of, index, hashes)?;
                }
                edge.push(path);
            }
        }
        let is_old = |path: &PathBuf| !edge.iter().any(|new| new.parent() == path.parent());
        let (old, kept): (Vec<PathBuf>, Vec<PathBuf>) = kept.into_iter().partition(is_old);
        Ok((kept.into_iter().collect(), old))
    }
}

impl Appender {
    /// Takes an entry that was written.
    pub fn grow(&mut self, entry: &Hash) {
        self.tiles.extend(self.tree.push(leaf(entry)));
        self.entries.push(*entry);
        if self.entries.len() == WIDTH {
            let hashes = std::mem::take(&mut self.entries);
            let index = self.tree.size() / WIDTH as u64 - 1;
            self.bundles.push(Full { level: 0, index, hashes });
        }
    }
}

/// A segment's file once more, for whoever syncs.
pub type Syncer = Arc<Mutex<Box<dyn DiskFile>>>;

/// Begins a segment in the spare file.
pub fn begin(disk: &dyn Disk, folder: &Path, head: Head) -> Result<(Segment, Syncer), AuditError> {
    let files = segment::open_spare(disk, folder)
        .map_err(|error| unwritable(&segment::spare(folder), &error))?;
    begun(disk, folder, head, files)
}

/// The same with the spare file open already.
fn begun(
    disk: &dyn Disk,
    folder: &Path,
    head: Head,
    [file, syncer]: [Box<dyn DiskFile>; 2],
) -> Result<(Segment, Syncer), AuditError> {
    let begun = segment::begin(disk, folder, head, file)
        .map_err(|error| unwritable(&segment::path_of(folder, head.number), &error))?;
    Ok((begun, Arc::new(Mutex::new(syncer))))
}

/// Opens a segment's file once more.
pub fn syncer(disk: &dyn Disk, segment: &Segment) -> Result<Syncer, AuditError> {
    let file = disk
        .open(&segment.path, Access::Write)
        .map_err(|error| unwritable(&segment.path, &error))?;
    Ok(Arc::new(Mutex::new(file)))
}

/// Whether there was no room.
fn is_full(error: &io::Error) -> bool {
    let kinds =
        [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
    kinds.contains(&error.kind())
}

fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
