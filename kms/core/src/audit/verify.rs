//! Offline verification of a log, and inclusion proofs of its records.

use std::path::Path;

use gabion_disk::{Access, Disk};
use serde::{Deserialize, Serialize};

use super::frame::{self, Head};
use super::note::{self, Checkpoint, NOTE_MAX, Verifier};
use super::record::Record;
use super::segment::{self, Entry, Frames, damaged, entry_of};
use super::tiles::{self, TileKind, Tiles};
use super::tree::{self, Full, Hash, Tree, WIDTH, leaf};
use crate::error::AuditError;
use crate::text::{base64, of_base64};

/// The result of verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedLog {
    /// The signed checkpoint.
    pub checkpoint: Checkpoint,
    /// The number of records, including those after the checkpoint.
    pub records: u64,
    /// The number of segments, including those in an archive.
    pub segments: u64,
    /// The number of records in an archive that was not checked. Their entries are correct.
    pub archived: u64,
    /// The smallest and the largest time of the records.
    pub times_ms: Option<(u64, u64)>,
}

/// A proof that a record is in a log. It can be checked with the keys that verify the log's
/// checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The record's index.
    pub index: u64,
    /// The record as it was written.
    pub record: String,
    /// The salt of the record's hash, in base64.
    pub salt: String,
    /// The inclusion path: the sibling hashes from the record to the root, in base64.
    pub path: Vec<String>,
    /// The checkpoint.
    pub checkpoint: String,
}

impl Proof {
    /// Verifies the proof. Each of the keys has to have signed the checkpoint.
    ///
    /// # Errors
    /// Malformed keys; errors of the engine.
    pub fn check<S: AsRef<str>>(&self, vkeys: &[S]) -> Result<bool, AuditError> {
        let Some(checkpoint) = note::verify(&Verifier::read(vkeys)?, &self.checkpoint)? else {
            return Ok(false);
        };
        let hash = |text: &String| of_base64(text)?.try_into().ok();
        let path: Option<Vec<Hash>> = self.path.iter().map(hash).collect();
        let (Some(salt), Some(path)) = (hash(&self.salt), path) else { return Ok(false) };
        let leaf = leaf(&frame::entry(&salt, self.record.as_bytes()));
        let root = tree::root_of_path(leaf, self.index, checkpoint.size, &path);
        Ok(root == Some(checkpoint.root) && Record::of_json(self.record.as_bytes()).is_some())
    }
}

/// Proves that a checkpoint includes a record.
pub fn prove(
    disk: &dyn Disk,
    folder: &Path,
    checkpoint: Option<Checkpoint>,
    index: u64,
) -> Result<Proof, AuditError> {
    let checkpoint = checkpoint.filter(|checkpoint| index < checkpoint.size);
    let checkpoint = checkpoint.ok_or(AuditError::NoRecord(index))?;
    if index < segment::first_here(disk, folder)? {
        return Err(AuditError::Archived(index));
    }
    let entry = segment::entries(disk, folder, index, index + 1, 1)?.pop();
    let entry = entry.ok_or(AuditError::NoRecord(index))?;
    let path = tree::path(&mut Tiles::new(disk, folder, checkpoint.size), index, checkpoint.size)?;
    Ok(Proof {
        index,
        record: entry.record.to_json(),
        salt: base64(&entry.salt),
        path: path.iter().map(|hash| base64(hash)).collect(),
        checkpoint: checkpoint.note,
    })
}

/// Reads at most `most` entries from an index on, of a log of a size.
pub fn entries(
    disk: &dyn Disk,
    folder: &Path,
    size: u64,
    from: u64,
    most: usize,
) -> Result<Vec<Hash>, AuditError> {
    let mut entries = Vec::new();
    let mut at = from;
    while at < size && entries.len() < most {
        let (index, within) = (at / WIDTH as u64, (at % WIDTH as u64) as usize);
        let width = (size - index * WIDTH as u64).min(WIDTH as u64) as usize;
        let bundle =
            tiles::read(disk, folder, TileKind::Entries, index, width)?.ok_or_else(|| {
                damaged(
                    &tiles::path_of(folder, TileKind::Entries, index, width),
                    "the file is missing",
                )
            })?;
        entries.extend(bundle.into_iter().skip(within));
        at = (index + 1) * WIDTH as u64;
    }
    entries.truncate(most);
    Ok(entries)
}

/// Recomputes the tree of a log that is received record by record, to compare it with a checkpoint.
///
/// # Examples
/// ```
/// use gabion_kms::audit::{Checkpoint, Keys, Log, Recount};
///
/// let (keys, _seed) = Keys::drawn("example.com/audit")?;
/// let log = Log::in_memory(keys)?;
/// let note = log.checkpoint()?.note;
/// let signed = Checkpoint::read(&log.vkeys(), &note)?.expect("both keys signed it");
/// let mut recount = Recount::default();
/// for entry in log.tail(0, 1000)? {
///     recount.record(&entry);
/// }
/// assert!(recount.is(&signed));
/// # Ok::<(), gabion_kms::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recount(Tree);

impl Recount {
    /// Returns the number of records so far.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Adds the next record.
    pub fn record(&mut self, entry: &Entry) {
        self.entry(&frame::entry(&entry.salt, entry.record.to_json().as_bytes()));
    }

    /// Adds the next entry, whose record is not available.
    pub fn entry(&mut self, entry: &Hash) {
        self.0.push(leaf(entry));
    }

    /// Returns whether the records are exactly those of a checkpoint.
    pub fn is(&self, checkpoint: &Checkpoint) -> bool {
        self.0.size() == checkpoint.size && self.0.root() == checkpoint.root
    }
}

/// Verifies a whole log that no process writes to, or a copy of one: each record, each tile, and
/// the checkpoint. Archived records are checked if the archive's folder is given.
///
/// # Errors
/// [`AuditError::Damaged`], with the problem and its position; malformed keys; the log cannot be
/// read.
pub fn verify<S: AsRef<str>>(
    disk: &dyn Disk,
    folder: &Path,
    archive: Option<&Path>,
    vkeys: &[S],
) -> Result<VerifiedLog, AuditError> {
    let path = folder.join("checkpoint");
    let note = tiles::read_file(disk, &path, NOTE_MAX)?;
    let note = note.and_then(|note| String::from_utf8(note).ok());
    let note = note.ok_or_else(|| damaged(&path, "the checkpoint is missing"))?;
    let checkpoint = note::verify(&Verifier::read(vkeys)?, &note)?
        .ok_or_else(|| damaged(&path, "the keys did not sign it"))?;
    let last = segment::last(disk, folder)?;
    let segments = last.map_or(0, |last| last + 1);
    let mut walk = Walk { archive, size: checkpoint.size, ..Walk::new(disk, folder) };
    if checkpoint.size == 0 {
        walk.root = Some(Tree::default().root());
    }
    for number in 0..segments {
        walk.segment(number)?;
    }
    walk.edge()?;
    match walk.root {
        Some(root) if root == checkpoint.root => Ok(VerifiedLog {
            checkpoint,
            records: walk.tree.size(),
            segments,
            archived: walk.archived,
            times_ms: walk.times_ms,
        }),
        Some(_) => Err(damaged(folder, "the records differ from those of the checkpoint")),
        None => {
            let (is, told) = (walk.tree.size(), checkpoint.size);
            Err(damaged(
                folder,
                &format!("the checkpoint has {told} records, and the log has {is}"),
            ))
        }
    }
}

/// A walk over all records.
struct Walk<'d> {
    disk: &'d dyn Disk,
    folder: &'d Path,
    archive: Option<&'d Path>,
    /// The number of records in the checkpoint.
    size: u64,
    tree: Tree,
    /// The root at that size, and the tree, once it is reached.
    root: Option<Hash>,
    at_size: Option<(Tree, Vec<Hash>)>,
    entries: Vec<Hash>,
    log: Option<[u8; 16]>,
    times_ms: Option<(u64, u64)>,
    archived: u64,
}

impl<'d> Walk<'d> {
    fn new(disk: &'d dyn Disk, folder: &'d Path) -> Self {
        Walk {
            disk,
            folder,
            archive: None,
            size: 0,
            tree: Tree::default(),
            root: None,
            at_size: None,
            entries: Vec::new(),
            log: None,
            times_ms: None,
            archived: 0,
        }
    }

    fn segment(&mut self, number: u64) -> Result<(), AuditError> {
        let opened = segment::open(self.disk, self.folder, number, Access::Read)?;
        let path = segment::path_of(self.folder, number);
        let segment = opened.ok_or_else(|| damaged(&path, "it is missing"))?;
        let log = *self.log.get_or_insert(segment.head.log);
        if segment.head.first != self.tree.size() || segment.head.log != log {
            return Err(damaged(&path, "it does not follow the segment before"));
        }
        let (path, segment) = match (segment.head.is_moved, self.archive) {
            (false, _) => (path, segment),
            (true, None) => return self.moved(number),
            (true, Some(archive)) => {
                let path = segment::path_of(archive, number);
                let found = segment::open(self.disk, archive, number, Access::Read)?;
                let found = found.ok_or_else(|| damaged(&path, "it is missing"))?;
                if found.head != (Head { is_moved: false, ..segment.head }) {
                    return Err(damaged(&path, "it differs from the segment that was moved"));
                }
                (path, found)
            }
        };
        let mut frames = Frames::new(&segment);
        while let Some(frame) = frames.read()? {
            let entry = frame.entry;
            let time = entry_of(&path, &frame)?.record.time_ms;
            let (first, last) = self.times_ms.unwrap_or((time, time));
            self.times_ms = Some((first.min(time), last.max(time)));
            self.take(entry)?;
        }
        // In every segment except the last one, the frames of the next segment reveal an end that
        // comes too early.
        match frames.is_synced_behind(self.tree.size())? {
            true => Err(damaged(&path, &format!("record {} is broken", self.tree.size()))),
            false => Ok(()),
        }
    }

    /// Adds the entries of an archived segment.
    fn moved(&mut self, number: u64) -> Result<(), AuditError> {
        let next = segment::open(self.disk, self.folder, number + 1, Access::Read)?;
        let path = segment::path_of(self.folder, number + 1);
        let next = next.ok_or_else(|| damaged(&path, "it is missing"))?;
        while self.tree.size() < next.head.first {
            let (at, end) = (self.tree.size(), next.head.first);
            let (index, within) = (at / WIDTH as u64, (at % WIDTH as u64) as usize);
            let bundle = tiles::bundle(self.disk, self.folder, index)?;
            for entry in bundle[within..].iter().take((end - at) as usize) {
                self.take(*entry)?;
                self.archived += 1;
            }
        }
        Ok(())
    }

    fn take(&mut self, entry: Hash) -> Result<(), AuditError> {
        let full = self.tree.push(leaf(&entry));
        self.entries.push(entry);
        // Tiles after the checkpoint may exist or not.
        if self.tree.size() <= self.size {
            for tile in &full {
                self.tile(TileKind::Level(tile.level), tile)?;
            }
        }
        if self.entries.len() == WIDTH {
            let hashes = std::mem::take(&mut self.entries);
            let bundle = Full { level: 0, index: self.tree.size() / WIDTH as u64 - 1, hashes };
            if self.tree.size() <= self.size {
                self.tile(TileKind::Entries, &bundle)?;
            }
        }
        if self.tree.size() == self.size {
            self.root = Some(self.tree.root());
            self.at_size = Some((self.tree.clone(), self.entries.clone()));
        }
        Ok(())
    }

    /// Checks the incomplete tiles at the checkpoint.
    fn edge(&self) -> Result<(), AuditError> {
        let Some((tree, entries)) = &self.at_size else { return Ok(()) };
        let levels = (0..8u8)
            .zip(tree.edge())
            .map(|(level, hashes)| (TileKind::Level(level), level, hashes));
        for (of, level, hashes) in levels.chain([(TileKind::Entries, 0, entries)]) {
            let index = (tree.size() >> (8 * u32::from(level))) / WIDTH as u64;
            if !hashes.is_empty() {
                self.tile(of, &Full { level, index, hashes: hashes.clone() })?;
            }
        }
        Ok(())
    }

    fn tile(&self, of: TileKind, tile: &Full) -> Result<(), AuditError> {
        let found = tiles::read(self.disk, self.folder, of, tile.index, tile.hashes.len())?;
        match found {
            Some(hashes) if hashes == tile.hashes => Ok(()),
            Some(_) | None => {
                let path = tiles::path_of(self.folder, of, tile.index, tile.hashes.len());
                Err(damaged(&path, "it is missing, or does not match the records"))
            }
        }
    }
}
