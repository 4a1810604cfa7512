//! Archiving: moves full segments to another folder, the oldest ones first.
//!
//! ```text
//!   segment, whose entries are in full bundles --copy, sync, compare--> ARCHIVE/segment-00000000
//!           '--bundles synced--> its head alone, in its place: `moved`
//! ```
//!
//! Tiles, bundles of entries and the checkpoint stay, so the tree is unchanged. An interrupted run
//! can be repeated: a segment is removed only after its copy is on the disk.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::PoisonError;

use gabion_disk::{Access, Disk, DiskFile, read_full, write_all};

use super::frame::Head;
use super::log::Log;
use super::segment::{self, Frames, Segment, damaged, entry_of, unwritable};
use super::tiles;
use super::tree::WIDTH;
use crate::error::AuditError;

/// Selects the full segments that stay. Segments that neither limit keeps are moved. Without
/// limits, all full segments are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Keeps segments with a record of this time or later, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Keeps the newest segments, as long as all segments together have at most this many bytes.
    pub bytes: Option<u64>,
}

/// The segments that were moved to the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveReport {
    /// The names of the files that were added to the archive.
    pub files: Vec<String>,
    /// The number of records in them.
    pub records: u64,
    /// The index of the first record that is not in the archive.
    pub first: u64,
}

/// The number of bytes that are copied or compared at once.
const PIECE: usize = 1 << 20;

impl Log {
    /// Moves full segments to a folder, the oldest ones first. The current segment stays, and so do
    /// segments whose records are not yet in full bundles of a checkpoint.
    ///
    /// # Errors
    /// The folder is the log's own folder; it has a different file of the same name; it cannot be
    /// written; the log is damaged. In the last case, no further segment is moved.
    pub fn archive(&self, to: &Path, keep: &Keep) -> Result<ArchiveReport, AuditError> {
        let _one = self.archiving.lock().unwrap_or_else(PoisonError::into_inner);
        // Archiving works on a full disk, too: it frees space.
        self.check_written(&self.writing())?;
        let disk = &*self.disk;
        disk.make_folder(to).map_err(|error| no_archive(to, &error))?;
        let real = |path: &Path| disk.canonical(path).map_err(|error| unwritable(path, &error));
        if real(to)? == real(&self.folder)? {
            return Err(AuditError::Parameter(
                "the archive has to be another folder than the log's",
            ));
        }
        let signed = self.newest().map_or(0, |newest| newest.size) / WIDTH as u64 * WIDTH as u64;
        let last = segment::last(disk, &self.folder)?.unwrap_or(0);
        let mut archived = ArchiveReport { files: Vec::new(), records: 0, first: self.first()? };
        let first = segment::first_head(disk, &self.folder)?.map_or(0, |head| head.number);
        for number in first..last {
            let (this, next) = (self.segment(number)?, self.segment(number + 1)?);
            let end = next.head.first;
            if end.next_multiple_of(WIDTH as u64) > signed {
                break;
            }
            let newest_ms = self.walked(&this, end)?;
            let bytes = (last + 1 - number).saturating_mul(this.size);
            let is_old = keep.since_ms.is_some_and(|since| newest_ms < since);
            let is_much = keep.bytes.is_some_and(|most| bytes > most);
            if !(is_old || is_much || *keep == Keep::default()) {
                break;
            }
            let name = copied(disk, &this, to)?;
            let (from, width) = (this.head.first, WIDTH as u64);
            tiles::sync_bundles(disk, &self.folder, from / width..end.div_ceil(width))?;
            self.leave(&this.head)?;
            archived.files.push(name);
            archived.records += end - from;
            archived.first = end;
        }
        Ok(archived)
    }

    fn segment(&self, number: u64) -> Result<Segment, AuditError> {
        segment::open(&*self.disk, &self.folder, number, Access::Read)?
            .ok_or_else(|| damaged(&segment::path_of(&self.folder, number), "it is missing"))
    }

    /// Reads a whole segment and compares it with its bundles. Returns the latest time of its
    /// records.
    fn walked(&self, segment: &Segment, end: u64) -> Result<u64, AuditError> {
        let (mut frames, mut newest_ms, mut bundle) = (Frames::new(segment), 0, Vec::new());
        while let Some(frame) = frames.read()? {
            let within = (frame.index % WIDTH as u64) as usize;
            if within == 0 || bundle.is_empty() {
                bundle = tiles::bundle(&*self.disk, &self.folder, frame.index / WIDTH as u64)?;
            }
            if bundle[within] != frame.entry {
                let reason = format!("record {} differs from its bundle", frame.index);
                return Err(damaged(&segment.path, &reason));
            }
            newest_ms = newest_ms.max(entry_of(&segment.path, &frame)?.record.time_ms);
        }
        match frames.next_index() == end {
            true => Ok(newest_ms),
            false => {
                let reason = format!("record {} is broken", frames.next_index());
                Err(damaged(&segment.path, &reason))
            }
        }
    }

    /// Replaces a segment with its head.
    fn leave(&self, head: &Head) -> Result<(), AuditError> {
        // Checkpoints use the same temporary file name.
        let _quiet = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        let head = Head { is_moved: true, ..*head };
        let path = segment::path_of(&self.folder, head.number);
        tiles::replace(&*self.disk, &self.folder, &path, &head.encode(), true)?;
        self.disk.sync_folder(&self.folder).map_err(|error| unwritable(&self.folder, &error))
    }
}

fn no_archive(path: &Path, error: &io::Error) -> AuditError {
    AuditError::Archive(format!("{}: {error}", path.display()))
}

/// Copies a segment to a folder durably. Returns the name of the copy. An existing copy with the
/// same content is accepted.
fn copied(disk: &dyn Disk, segment: &Segment, to: &Path) -> Result<String, AuditError> {
    let path = segment::path_of(to, segment.head.number);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed = |error: io::Error| no_archive(&path, &error);
    let there = match disk.open(&path, Access::Write) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let file = match there {
        Some(file) => file,
        None => written(disk, segment, to, &path).map_err(failed)?,
    };
    if !is_same(&*segment.file, &*file, segment.size).map_err(failed)? {
        return Err(damaged(&path, "the file exists, and is not a copy of the log's segment"));
    }
    file.sync().and_then(|()| disk.sync_folder(to)).map_err(failed)?;
    Ok(name)
}

fn written(
    disk: &dyn Disk,
    segment: &Segment,
    to: &Path,
    path: &Path,
) -> io::Result<Box<dyn DiskFile>> {
    let part = to.join("segment-partial");
    match disk.remove(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = disk.open(&part, Access::New)?;
    let (mut bytes, mut at) = (vec![0; PIECE], 0);
    while at < segment.size {
        let len = PIECE.min((segment.size - at) as usize);
        let read = read_full(&*segment.file, &mut bytes[..len], at)?;
        if read != len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        write_all(&*file, &bytes[..len], at)?;
        at += len as u64;
    }
    file.sync()?;
    disk.rename(&part, path)?;
    Ok(file)
}

/// Returns whether two files have the same content.
fn is_same(one: &dyn DiskFile, other: &dyn DiskFile, size: u64) -> io::Result<bool> {
    if other.size()? != size {
        return Ok(false);
    }
    let (mut ones, mut others, mut at) = (vec![0; PIECE], vec![0; PIECE], 0);
    while at < size {
        let (read, same) = (read_full(one, &mut ones, at)?, read_full(other, &mut others, at)?);
        if read == 0 || read != same || ones[..read] != others[..same] {
            return Ok(false);
        }
        at += read as u64;
    }
    Ok(true)
}
