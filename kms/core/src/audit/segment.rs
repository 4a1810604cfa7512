//! Segments: files of a fixed size that are filled with zeros before use, so that appending changes
//! no file length and syncing needs no file system journal.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use gabion_disk::{Access, Disk, DiskFile, Identity, read_full, write_all};

use super::frame::{self, Frame, HEAD, Head, START};
use super::record::Record;
use super::tree::Hash;
use crate::error::AuditError;

/// A record of the log and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The record's index, from 0.
    pub index: u64,
    /// The salt of the record's hash.
    pub salt: [u8; 32],
    /// The record.
    pub record: Record,
}

/// An open segment.
pub struct Segment {
    /// The segment's head.
    pub head: Head,
    /// The file.
    pub file: Box<dyn DiskFile>,
    /// The file's path.
    pub path: PathBuf,
    /// The file's identity.
    pub identity: Identity,
    /// The file's size in bytes.
    pub size: u64,
}

/// The number of bytes that are written or read at once.
const PIECE: usize = 1 << 20;

/// Returns the path of a segment's file.
pub fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("segment-{number:08}"))
}

/// Returns the path of the spare file, which becomes the next segment.
pub fn spare(folder: &Path) -> PathBuf {
    folder.join("segment-spare")
}

/// Creates the spare file, filled with zeros and synced. An existing file of the right size is
/// kept.
pub fn prepare(disk: &dyn Disk, folder: &Path, size: u64) -> io::Result<()> {
    let path = spare(folder);
    match disk.open(&path, Access::Read) {
        Ok(file) if file.size()? == size => return Ok(()),
        Ok(_) => disk.remove(&path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Leave the rest of the disk to others.
    if disk.free(folder)?.is_some_and(|free| free < size) {
        return Err(ErrorKind::StorageFull.into());
    }
    let made = || {
        let file = disk.open(&path, Access::New)?;
        let zeros = vec![0; PIECE];
        let mut at = 0;
        while at < size {
            let len = PIECE.min((size - at) as usize);
            write_all(&*file, &zeros[..len], at)?;
            at += len as u64;
        }
        file.sync()
    };
    made().inspect_err(|_| {
        // Free the space that was used on a full disk. If the file cannot be removed, the next
        // attempt replaces it.
        drop(disk.remove(&path));
    })
}

/// Opens the spare file twice: for writing and for syncing.
pub fn open_spare(disk: &dyn Disk, folder: &Path) -> io::Result<[Box<dyn DiskFile>; 2]> {
    let path = spare(folder);
    Ok([disk.open(&path, Access::Write)?, disk.open(&path, Access::Write)?])
}

/// Turns the spare file into a segment.
pub fn begin(
    disk: &dyn Disk,
    folder: &Path,
    head: Head,
    file: Box<dyn DiskFile>,
) -> io::Result<Segment> {
    let (from, path) = (spare(folder), path_of(folder, head.number));
    write_all(&*file, &head.encode(), 0)?;
    file.sync()?;
    disk.rename(&from, &path)?;
    disk.sync_folder(folder)?;
    let (identity, size) = (file.identity()?, file.size()?);
    Ok(Segment { head, file, path, identity, size })
}

/// Opens a segment; `None` if it does not exist.
pub fn open(
    disk: &dyn Disk,
    folder: &Path,
    number: u64,
    access: Access,
) -> Result<Option<Segment>, AuditError> {
    let path = path_of(folder, number);
    let file = match disk.open(&path, access) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unwritable(&path, &error)),
    };
    let failed = |error| unwritable(&path, &error);
    let mut bytes = [0; HEAD];
    let read = read_full(&*file, &mut bytes, 0).map_err(failed)?;
    let head = Some(bytes).filter(|_| read == HEAD).and_then(|bytes| Head::decode(&bytes));
    let Some(head) = head.filter(|head| head.number == number) else {
        return Err(damaged(&path, "its head is malformed, or belongs to another segment"));
    };
    let (identity, size) = (file.identity().map_err(failed)?, file.size().map_err(failed)?);
    Ok(Some(Segment { head, file, path, identity, size }))
}

/// Returns the number of the last segment; `None` if there are no segments. Segments are numbered
/// without gaps.
pub fn last(disk: &dyn Disk, folder: &Path) -> Result<Option<u64>, AuditError> {
    let is_there = |number| match disk.identity(&path_of(folder, number)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unwritable(folder, &error)),
    };
    if !is_there(0)? {
        return Ok(None);
    }
    let (mut there, mut step) = (0, 1);
    while is_there(there + step)? {
        there += step;
        step *= 2;
    }
    while step > 1 {
        step /= 2;
        if is_there(there + step)? {
            there += step;
        }
    }
    Ok(Some(there))
}

/// Returns the index of the first record whose segment is not archived.
pub fn first_here(disk: &dyn Disk, folder: &Path) -> Result<u64, AuditError> {
    Ok(first_head(disk, folder)?.map_or(0, |head| head.first))
}

/// Returns the head of the first segment that is not archived. The oldest segments are archived
/// first.
pub fn first_head(disk: &dyn Disk, folder: &Path) -> Result<Option<Head>, AuditError> {
    let (mut low, mut high) = (0, last(disk, folder)?.unwrap_or(0));
    let head = |number| Ok(open(disk, folder, number, Access::Read)?.map(|segment| segment.head));
    while low < high {
        let middle = low + (high - low) / 2;
        match head(middle)? {
            Some(head) if head.is_moved => low = middle + 1,
            Some(_) | None => high = middle,
        }
    }
    head(low)
}

/// An iterator over the frames of a segment.
pub struct Frames<'s> {
    segment: &'s Segment,
    /// The bytes of the file from `at` on, read in pieces.
    bytes: Vec<u8>,
    start: u64,
    at: u64,
    next: u64,
}

/// The fields of a frame, and the lengths of the frame and its record.
struct FrameInfo {
    index: u64,
    synced: u64,
    entry: Hash,
    len: usize,
    record: usize,
}

impl<'s> Frames<'s> {
    /// Starts at the first frame of a segment.
    pub fn new(segment: &'s Segment) -> Self {
        let next = segment.head.first;
        Frames { segment, bytes: Vec::new(), start: START, at: START, next }
    }

    /// Returns the offset of the next frame, if there is one.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the index of the next frame.
    pub fn next_index(&self) -> u64 {
        self.next
    }

    /// Reads the next frame; `None` at the end or at a broken frame.
    pub fn read(&mut self) -> Result<Option<Frame<'_>>, AuditError> {
        let mut found = self.held();
        if found.is_none() && self.fill()? {
            found = self.held();
        }
        let Some(FrameInfo { index, synced, entry, len, record }) = found else { return Ok(None) };
        if index != self.next {
            return Ok(None);
        }
        let at = (self.at - self.start) as usize;
        self.at += len as u64;
        self.next += 1;
        let whole = &self.bytes[at..at + len];
        let Some(salt) = whole[32..].first_chunk() else { return Ok(None) };
        let record = &whole[frame::BEFORE..frame::BEFORE + record];
        Ok(Some(Frame { index, synced, salt, record, entry }))
    }

    /// Returns whether any later frame says that the record `index` was synced.
    pub fn is_synced_behind(&mut self, index: u64) -> Result<bool, AuditError> {
        let log = self.segment.head.log;
        let mut at = self.at;
        while at + (frame::BEFORE as u64) <= self.segment.size {
            let end = self.start + self.bytes.len() as u64;
            if at + PIECE as u64 > end && end < self.segment.size {
                self.at = at;
                self.fill()?;
            }
            let rest = &self.bytes[(at - self.start) as usize..];
            // Most of the file is zeros.
            let zeros = rest.chunks_exact(8).take_while(|eight| **eight == [0; 8]).count();
            if zeros > 0 {
                at += 8 * zeros as u64;
                continue;
            }
            if frame::decode(rest, &log).is_some_and(|(frame, _)| frame.synced > index) {
                return Ok(true);
            }
            at += 8;
        }
        Ok(false)
    }

    /// Returns the frame at `at`, as far as it was read.
    fn held(&self) -> Option<FrameInfo> {
        let rest = self.bytes.get((self.at - self.start) as usize..)?;
        let (frame, len) = frame::decode(rest, &self.segment.head.log)?;
        let Frame { index, synced, entry, record, .. } = frame;
        Some(FrameInfo { index, synced, entry, len, record: record.len() })
    }

    /// Reads more bytes, so that the frame at `at` is complete. Returns whether there were more
    /// bytes.
    fn fill(&mut self) -> Result<bool, AuditError> {
        let had = self.start + self.bytes.len() as u64;
        let len = (3 * PIECE).min(self.segment.size.saturating_sub(self.at) as usize);
        self.bytes.resize(len, 0);
        let read = read_full(&*self.segment.file, &mut self.bytes, self.at)
            .map_err(|error| unwritable(&self.segment.path, &error))?;
        self.bytes.truncate(read);
        self.start = self.at;
        Ok(self.start + read as u64 > had)
    }
}

/// Returns the entry of a frame.
pub fn entry_of(path: &Path, frame: &Frame<'_>) -> Result<Entry, AuditError> {
    match Record::of_json(frame.record) {
        Some(record) => Ok(Entry { index: frame.index, salt: *frame.salt, record }),
        None => Err(damaged(path, &format!("record {} is malformed", frame.index))),
    }
}

/// Reads at most `most` entries from one index up to another.
pub fn entries(
    disk: &dyn Disk,
    folder: &Path,
    from: u64,
    before: u64,
    most: usize,
) -> Result<Vec<Entry>, AuditError> {
    let mut entries = Vec::new();
    let Some(last) = last(disk, folder)? else { return Ok(entries) };
    let mut number = holding(disk, folder, last, from)?;
    while number <= last && entries.len() < most {
        let Some(segment) = open(disk, folder, number, Access::Read)? else { break };
        let mut frames = Frames::new(&segment);
        while frames.next_index() < before && entries.len() < most {
            let Some(frame) = frames.read()? else { break };
            if frame.index >= from {
                entries.push(entry_of(&segment.path, &frame)?);
            }
        }
        number += 1;
    }
    Ok(entries)
}

/// Returns the number of the segment that has a record, or would have it.
pub fn holding(disk: &dyn Disk, folder: &Path, last: u64, index: u64) -> Result<u64, AuditError> {
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = high - (high - low) / 2;
        match open(disk, folder, middle, Access::Read)? {
            Some(segment) if segment.head.first <= index => low = middle,
            Some(_) | None => high = middle - 1,
        }
    }
    Ok(low)
}

pub fn unwritable(path: &Path, error: &io::Error) -> AuditError {
    AuditError::Unwritable(format!("{}: {error}", path.display()))
}

pub fn damaged(path: &Path, reason: &str) -> AuditError {
    AuditError::Damaged { at: path.display().to_string(), reason: reason.to_owned() }
}
