//! The log: appending, syncing and checkpoints.

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

/// The durability that a record needs before its operation is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The operating system has the record: it survives the end of the process, but not a power
    /// failure.
    Written,
    /// The record is synced to the disk: it survives a power failure.
    Durable,
}

/// The configuration of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The size of new segments in bytes. Existing segments keep theirs.
    pub segment_bytes: u64,
    /// The number of bytes at the end of a segment that are reserved for [`Log::append_at_last`] if
    /// the disk has no room for another segment.
    pub reserve_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { segment_bytes: 64 << 20, reserve_bytes: 1 << 20 }
    }
}

/// The maximum size of all segments of a log in memory.
const BYTES_MAX: u64 = 16 << 20;

/// An audit log. Only one process can have it open.
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
    /// The file of the next segment. Lock order: after `writing`.
    pub(super) spare: Mutex<Spare>,
    /// The newest checkpoint. Held while a checkpoint is made.
    pub(super) checkpoint: Mutex<Option<Checkpoint>>,
    /// Serializes archiving. Lock order: before `checkpoint`.
    pub(super) archiving: Mutex<()>,
    /// The maximum size of all segments, for a log in memory, which drops older records.
    pub(super) bytes_max: Option<u64>,
    pub(super) process: u32,
    /// Holds the kernel's lock until the log is closed.
    pub(super) lock: Mutex<Box<dyn DiskFile>>,
}

/// The state of the next segment's file.
#[derive(Default)]
pub struct Spare {
    is_there: bool,
    /// The error of the last attempt to create the file, and when that was.
    refused: Option<(AuditError, Instant)>,
}

/// The pause between attempts to create a segment on a full disk, so that refused requests do not
/// keep filling the disk.
const RETRY: Duration = Duration::from_secs(1);

/// The state for appending records.
pub struct Appender {
    pub segment: Segment,
    /// A second handle of the same file, for syncing.
    pub syncer: Arc<Mutex<Box<dyn DiskFile>>>,
    /// The offset of the next frame.
    pub at: u64,
    /// The number of bytes from there on that may contain a part of a frame which a full disk did
    /// not accept.
    pub torn: u64,
    pub tree: Tree,
    /// The entries of the incomplete bundle.
    pub entries: Vec<Hash>,
    /// The tiles and bundles that became full since the last checkpoint.
    pub tiles: Vec<Full>,
    pub bundles: Vec<Full>,
    /// The files of incomplete tiles, to be removed when the tiles are full.
    pub partial: BTreeSet<PathBuf>,
    pub broken: Option<AuditError>,
}

impl Log {
    /// Creates a log in memory, which ends with the process and writes nothing to disk. It keeps
    /// the newest 16 MiB of records; [`Self::checkpoint`] removes older ones.
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

    /// Appends records, which get consecutive indexes. Returns the index of the first one. When
    /// this returns, the records are as durable as `class` requires.
    ///
    /// # Errors
    /// The log cannot be written, and then stays so until it is opened again; only the reserve is
    /// left.
    pub fn append(&self, records: &[Record], class: Class) -> Result<u64, AuditError> {
        self.push(records, class, self.options.reserve_bytes)
    }

    /// Appends records like [`Self::append`] and may use the reserve. For records of operations
    /// that have happened already.
    ///
    /// # Errors
    /// The log cannot be written (see [`Self::append`]), or the reserve is used up as well.
    pub fn append_at_last(&self, records: &[Record], class: Class) -> Result<u64, AuditError> {
        self.push(records, class, 0)
    }

    /// Signs the log's current size and root, and writes the tiles up to there. Call it about once
    /// a second and before the log is closed.
    ///
    /// # Errors
    /// The log cannot be written. The next checkpoint writes what this one could not.
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

    /// Creates the next segment's file ahead of time, so that appending does not wait for that.
    /// Call it regularly.
    ///
    /// # Errors
    /// The disk has no room for it. The log can still be written until its last segment is full
    /// except for the reserve.
    pub fn prepare(&self) -> Result<(), AuditError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare_now(&mut spare)
    }

    /// Returns whether the log can be written, as far as that can be determined. It fails if little
    /// more than the reserve is left and there is no next segment. After that, [`Self::prepare`]
    /// detects when there is room again.
    ///
    /// # Errors
    /// The reason.
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
            // Another thread is creating it.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        match &spare.refused {
            Some((why, _)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Checks that the current segment can be written, regardless of free space.
    pub(super) fn check_written(&self, writing: &Appender) -> Result<(), AuditError> {
        self.check(writing)?;
        self.check_file(&writing.segment)
    }

    /// Returns the newest checkpoint.
    pub fn newest(&self) -> Option<Checkpoint> {
        self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of records.
    pub fn size(&self) -> u64 {
        self.writing().tree.size()
    }

    /// Reads at most `most` records from index `from` on.
    ///
    /// # Errors
    /// The log cannot be read, or is damaged.
    pub fn tail(&self, from: u64, most: usize) -> Result<Vec<Entry>, AuditError> {
        segment::entries(&*self.disk, &self.folder, from, self.size(), most)
    }

    /// Returns the index of the first record that is not in the archive.
    ///
    /// # Errors
    /// The log cannot be read, or is damaged.
    pub fn first(&self) -> Result<u64, AuditError> {
        segment::first_here(&*self.disk, &self.folder)
    }

    /// Reads at most `most` entries from index `from` on, up to the newest checkpoint. Entries of
    /// archived records are included.
    ///
    /// # Errors
    /// The log cannot be read, or is damaged.
    pub fn entries(&self, from: u64, most: usize) -> Result<Vec<Hash>, AuditError> {
        self.check_kept(from)?;
        // Hold the lock, because making a checkpoint replaces tiles.
        let newest = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        let size = newest.as_ref().map_or(0, |newest| newest.size);
        verify::entries(&*self.disk, &self.folder, size, from, most)
    }

    /// Proves that the newest checkpoint includes a record.
    ///
    /// # Errors
    /// No checkpoint includes the record yet; the record is in the archive; the log cannot be read,
    /// or is damaged.
    pub fn prove(&self, index: u64) -> Result<Proof, AuditError> {
        self.check_kept(index)?;
        verify::prove(&*self.disk, &self.folder, self.newest(), index)
    }

    /// Returns the root of the tree when it had `size` records, up to the size of the newest
    /// checkpoint.
    ///
    /// # Errors
    /// The newest checkpoint is smaller; the log cannot be read, or is damaged.
    pub fn root_at(&self, size: u64) -> Result<Hash, AuditError> {
        let newest = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        let now = newest.as_ref().map_or(0, |newest| newest.size);
        match size {
            0 => Ok(Tree::default().root()),
            size if size > now => Err(AuditError::NoRecord(size - 1)),
            size => tree::root(&mut Tiles::new(&*self.disk, &self.folder, now), 0, size),
        }
    }

    /// Returns the keys that verify checkpoints in the format of C2SP's signed-note: Ed25519,
    /// ML-DSA-44.
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
            // A copy-on-write file system has no room for overwritten blocks. None of these bytes
            // count, and they are zeroed first.
            writing.torn = writing.torn.max(len as u64);
            return Err(AuditError::Full);
        }
        let written = written
            .map_err(|error| unwritable(&writing.segment.path, &error))
            // Records that were written to an unlinked file would be lost.
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

    /// Overwrites a partial frame with zeros after a full disk. Otherwise, after a kill, the next
    /// process would read it as records.
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

    /// Makes room for `len` bytes in this segment or in the next one.
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
        // With too many open files nothing was changed, and the next append tries again.
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
        // Records in older segments are always synced.
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

    /// Waits until `size` records are synced.
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

    /// Syncs the log and writes its tiles. Returns the tree that they belong to.
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
                // Leftover files are harmless.
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

    /// Checks that a segment's file still has its name.
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
            // Unlock explicitly: a forked child with the same handle would otherwise keep the lock
            // until it ends.
            let _ = self.lock.get_mut().unwrap_or_else(PoisonError::into_inner).unlock();
        }
    }
}

impl CheckpointFiles {
    /// Writes the checkpoint. Returns the files of incomplete tiles, and the files that full tiles
    /// replace.
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
    /// Adds a written entry to the tree.
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

/// A second handle of a segment's file, for syncing.
pub type Syncer = Arc<Mutex<Box<dyn DiskFile>>>;

/// Starts a segment in the spare file.
pub fn begin(disk: &dyn Disk, folder: &Path, head: Head) -> Result<(Segment, Syncer), AuditError> {
    let files = segment::open_spare(disk, folder)
        .map_err(|error| unwritable(&segment::spare(folder), &error))?;
    begun(disk, folder, head, files)
}

/// Starts a segment in the spare file, which is open already.
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

/// Opens a second handle of a segment's file.
pub fn syncer(disk: &dyn Disk, segment: &Segment) -> Result<Syncer, AuditError> {
    let file = disk
        .open(&segment.path, Access::Write)
        .map_err(|error| unwritable(&segment.path, &error))?;
    Ok(Arc::new(Mutex::new(file)))
}

/// Returns whether the error means that the disk is full.
fn is_full(error: &io::Error) -> bool {
    let kinds =
        [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
    kinds.contains(&error.kind())
}

fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
