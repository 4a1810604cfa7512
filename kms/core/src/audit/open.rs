//! Opening a log: finds its end, and cuts a torn end that was never acknowledged.
//!
//! ```text
//!   checkpoint, tiles --> tree of that size ----+
//!   segments --> frames from there on ----------+--> tree, size
//!                  '--> a broken one: no later frame says that it was synced --> torn, cut
//!                                     a later frame does                     --> damaged, refused
//! ```
//! Entries of archived segments are read from their bundles.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use gabion_disk::{Access, Disk, DiskFile, read_full, write_all};
use gabion_engine::{Entropy, OsEntropy};

use super::frame::{Head, START};
use super::log::{self, Appender, Log, Options};
use super::note::{self, Checkpoint, Keys, NOTE_MAX, Verifier};
use super::segment::{self, Frames, Segment, damaged, unwritable};
use super::sync::Syncs;
use super::tiles;
use super::tree::{Hash, Tree, WIDTH};
use crate::error::AuditError;

/// The minimum size of a segment.
const SEGMENT_MIN: u64 = 32 << 10;

/// The number of tiles that are buffered while a log is read, before they are written.
const TILES_KEPT: usize = 256;

/// The number of bytes that are read or written at once.
const PIECE: usize = 1 << 20;

impl Log {
    /// Opens the log of a folder, or creates one. An unacknowledged, partially written end is cut.
    ///
    /// # Errors
    /// Another process has the log open; the log is damaged; the disk has no room for the first
    /// segment.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        keys: Keys,
        options: Options,
    ) -> Result<Self, AuditError> {
        let Options { segment_bytes, reserve_bytes } = options;
        if segment_bytes < SEGMENT_MIN || reserve_bytes > segment_bytes / 2 {
            return Err(AuditError::Parameter(
                "a segment needs at least 32 KiB, and its reserve may be at most half of it",
            ));
        }
        disk.make_folder(folder).map_err(|error| unwritable(folder, &error))?;
        let lock = lock(&*disk, folder)?;
        let checkpoint = newest(&*disk, folder, &keys)?;
        let (tree, entries) = match &checkpoint {
            Some(checkpoint) => match tiles::edge(&*disk, folder, checkpoint.size)? {
                Some((tree, entries))
                    if tree.root() == checkpoint.root
                        && tiles::are_there(&*disk, folder, checkpoint.size)? =>
                {
                    (tree, entries)
                }
                // The tiles are rebuilt from the segments.
                Some(_) | None => Default::default(),
            },
            None => Default::default(),
        };
        let is_made_again = tree.size() == 0;
        let writing = match segment::last(&*disk, folder)? {
            Some(last) => Replay { disk: &*disk, folder, last }.run(tree, entries)?,
            None if checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.size > 0) => {
                return Err(damaged(folder, "it has a checkpoint but no segment"));
            }
            None => first(&*disk, folder, segment_bytes)?,
        };
        let size = writing.tree.size();
        if let Some(checkpoint) = checkpoint.as_ref().filter(|checkpoint| checkpoint.size > size) {
            let reason = format!(
                "its checkpoint has {} records, and the log has only {size}",
                checkpoint.size
            );
            return Err(damaged(folder, &reason));
        }
        let syncs = Syncs::default();
        syncs.raise(size);
        let log = Log {
            bytes_max: None,
            disk,
            folder: folder.to_owned(),
            keys,
            options,
            writing: Mutex::new(writing),
            syncs,
            spare: Mutex::default(),
            // If the tiles were rebuilt, the next checkpoint writes them even without new records.
            checkpoint: Mutex::new(checkpoint.filter(|_| !is_made_again)),
            archiving: Mutex::new(()),
            process: std::process::id(),
            lock: Mutex::new(lock),
        };
        Ok(log)
    }
}

/// Takes the log's lock for this process.
fn lock(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn DiskFile>, AuditError> {
    let path = folder.join("lock");
    let failed = |error| unwritable(&path, &error);
    let file = match disk.open(&path, Access::Write) {
        Err(error) if error.kind() == ErrorKind::NotFound => disk.open(&path, Access::New),
        opened => opened,
    };
    let file = file.map_err(failed)?;
    match file.try_lock().map_err(failed)? {
        true => Ok(file),
        false => Err(AuditError::Held(path.display().to_string())),
    }
}

/// Reads the newest checkpoint. `None` if it is missing, or torn by a power failure: then it is
/// made again.
fn newest(disk: &dyn Disk, folder: &Path, keys: &Keys) -> Result<Option<Checkpoint>, AuditError> {
    let path = folder.join("checkpoint");
    let Some(bytes) = tiles::read_file(disk, &path, NOTE_MAX)? else { return Ok(None) };
    let Some(note) = std::str::from_utf8(&bytes).ok().filter(|note| note::is_checkpoint(note))
    else {
        return Ok(None);
    };
    match note::verify(&Verifier::read(&keys.vkeys())?, note)? {
        Some(checkpoint) => Ok(Some(checkpoint)),
        None => Err(damaged(&path, "it is signed by other keys, or for another log")),
    }
}

/// Creates the first segment.
fn first(disk: &dyn Disk, folder: &Path, segment_bytes: u64) -> Result<Appender, AuditError> {
    let mut log = [0; 16];
    OsEntropy.fill(&mut log).map_err(|error| AuditError::Engine(error.into()))?;
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        disk.sync_folder(parent).map_err(|error| unwritable(parent, &error))?;
    }
    segment::prepare(disk, folder, segment_bytes)
        .map_err(|error| unwritable(&segment::spare(folder), &error))?;
    let (segment, syncer) =
        log::begin(disk, folder, Head { log, number: 0, first: 0, is_moved: false })?;
    Ok(writing(segment, syncer, START, Tree::default(), Vec::new()))
}

fn writing(
    segment: Segment,
    syncer: log::Syncer,
    at: u64,
    tree: Tree,
    entries: Vec<Hash>,
) -> Appender {
    Appender {
        segment,
        syncer,
        at,
        torn: 0,
        tree,
        entries,
        tiles: Vec::new(),
        bundles: Vec::new(),
        partial: BTreeSet::new(),
        broken: None,
    }
}

/// Replays the records after the checkpoint.
struct Replay<'d> {
    disk: &'d dyn Disk,
    folder: &'d Path,
    last: u64,
}

impl Replay<'_> {
    fn run(&self, tree: Tree, entries: Vec<Hash>) -> Result<Appender, AuditError> {
        let Replay { disk, folder, last } = *self;
        let start = segment::holding(disk, folder, last, tree.size())?;
        let end = self.segment(last, Access::Write)?;
        let syncer = log::syncer(disk, &end)?;
        let log = end.head.log;
        let mut writing = writing(end, syncer, START, tree, entries);
        for number in start..last {
            let (this, next) = (self.segment(number, Access::Read)?, number + 1);
            let first = self.segment(next, Access::Read)?.head.first;
            let read = match this.head.is_moved {
                true => self.moved(first, &mut writing)?,
                false => self.replay(&this, &mut writing)?.1,
            };
            if read != first || this.head.log != log {
                return Err(damaged(&this.path, "the next segment does not follow it"));
            }
        }
        let end = self.segment(last, Access::Read)?;
        let mut frames = Frames::new(&end);
        let told = writing.tree.size();
        let mut from = START;
        while let Some(frame) = frames.read()? {
            let (index, entry) = (frame.index, frame.entry);
            if index < told {
                from = frames.at();
            } else {
                self.take(&mut writing, index, &entry, &end)?;
            }
        }
        let (at, next) = (frames.at(), frames.next_index());
        if next < told || frames.is_synced_behind(next)? {
            return Err(damaged(&end.path, &format!("record {next} is broken")));
        }
        self.settle(&writing.segment, from, at)?;
        writing.at = at;
        Ok(writing)
    }

    /// Replays the frames of a segment that the tree does not have. Returns the offset after the
    /// last frame, and the next index.
    fn replay(&self, segment: &Segment, writing: &mut Appender) -> Result<(u64, u64), AuditError> {
        let mut frames = Frames::new(segment);
        while let Some(frame) = frames.read()? {
            let (index, entry) = (frame.index, frame.entry);
            if index >= writing.tree.size() {
                self.take(writing, index, &entry, segment)?;
            }
        }
        Ok((frames.at(), frames.next_index()))
    }

    /// Replays the entries before an index, whose records are archived, from their bundles. Returns
    /// the offset after the last frame.
    fn moved(&self, end: u64, writing: &mut Appender) -> Result<u64, AuditError> {
        while writing.tree.size() < end {
            let index = writing.tree.size();
            let bundle = tiles::bundle(self.disk, self.folder, index / WIDTH as u64)?;
            let within = (index % WIDTH as u64) as usize..;
            for entry in bundle[within].iter().take((end - index) as usize) {
                writing.grow(entry);
            }
            self.spill(writing)?;
        }
        Ok(end)
    }

    fn take(
        &self,
        writing: &mut Appender,
        index: u64,
        entry: &Hash,
        segment: &Segment,
    ) -> Result<(), AuditError> {
        if index != writing.tree.size() {
            let reason = format!("record {} is missing", writing.tree.size());
            return Err(damaged(&segment.path, &reason));
        }
        writing.grow(entry);
        self.spill(writing)
    }

    /// Writes tiles, if many are buffered.
    fn spill(&self, writing: &mut Appender) -> Result<(), AuditError> {
        if writing.tiles.len() > TILES_KEPT {
            tiles::write_full(self.disk, self.folder, &writing.tiles, &writing.bundles)?;
            writing.tiles.clear();
            writing.bundles.clear();
        }
        Ok(())
    }

    fn segment(&self, number: u64, access: Access) -> Result<Segment, AuditError> {
        segment::open(self.disk, self.folder, number, access)?
            .ok_or_else(|| damaged(&segment::path_of(self.folder, number), "it is missing"))
    }

    /// Rewrites the end of the log and the zeros after it, and syncs the file and its name. After a
    /// failed sync the content of the disk is unknown, and a page that the kernel believes to be
    /// clean would never be written.
    fn settle(&self, segment: &Segment, from: u64, end: u64) -> Result<(), AuditError> {
        let settled = || {
            let mut bytes = vec![0; PIECE];
            let mut at = from;
            while at < segment.size {
                let stop = if at < end { end } else { segment.size };
                let len = bytes.len().min((stop - at) as usize);
                let piece = &mut bytes[..len];
                let read = read_full(&*segment.file, piece, at)?;
                if at >= end && piece[..read].iter().all(|&byte| byte == 0) && read == len {
                    at += len as u64;
                    continue;
                }
                if at >= end {
                    piece.fill(0);
                }
                write_all(&*segment.file, piece, at)?;
                at += len as u64;
            }
            segment.file.sync()?;
            self.disk.sync_folder(self.folder)
        };
        settled().map_err(|error| unwritable(&segment.path, &error))
    }
}
