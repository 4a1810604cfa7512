//! Segments: files of one size, written with zeros before they are used, so that appending to them changes no length and
//! a sync writes no journal of the file system.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use gabion_disk::{Access, Disk, DiskFile, Identity, read_full, write_all};

use super::frame::{self, Frame, HEAD, Head, START};
use super::record::Record;
use super::tree::Hash;
use crate::error::AuditError;

/// A record of the log, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which one, from 0.
    pub index: u64,
    /// What it is hashed with.
    pub salt: [u8; 32],
    /// What it says.
    pub record: Record,
}

/// A segment that is open.
pub struct Segment {
    /// What its head says.
    pub head: Head,
    /// Its file.
    pub file: Box<dyn DiskFile>,
    /// Where it is.
    pub path: PathBuf,
    /// Which file that is.
    pub identity: Identity,
    /// Bytes of the file.
    pub size: u64,
}

/// Bytes that are written or read at once.
const PIECE: usize = 1 << 20;

/// The file of a segment.
pub fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("segment-{number:08}"))
}

/// The file that becomes the next segment.
pub fn spare(folder: &Path) -> PathBuf {
    folder.join("segment-spare")
}

/// Makes the file that becomes the next segment: zeros, synced. One that is there and has the size stays.
pub fn prepare(disk: &dyn Disk, folder: &Path, size: u64) -> io::Result<()> {
    let path = spare(folder);
    match disk.open(&path, Access::Read) {
        Ok(file) if file.size()? == size => return Ok(()),
        Ok(_) => disk.remove(&path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Whoever else writes to the disk keeps what is left of it.
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
        // What it took of a full disk others need. What can't be removed either is made anew next time.
        drop(disk.remove(&path));
    })
}

/// The spare file, opened for whoever writes and once more for whoever syncs.
pub fn open_spare(disk: &dyn Disk, folder: &Path) -> io::Result<[Box<dyn DiskFile>; 2]> {
    let path = spare(folder);
    Ok([disk.open(&path, Access::Write)?, disk.open(&path, Access::Write)?])
}

/// Makes the spare file a segment.
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

/// Opens a segment; none where there is none.
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
        return Err(damaged(&path, "its head is none, or another segment's"));
    };
    let (identity, size) = (file.identity().map_err(failed)?, file.size().map_err(failed)?);
    Ok(Some(Segment { head, file, path, identity, size }))
}

/// The number of the last segment; none where there is none. They are numbered without a gap.
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

/// The index of the first record whose segment is in no archive.
pub fn first_here(disk: &dyn Disk, folder: &Path) -> Result<u64, AuditError> {
    Ok(first_head(disk, folder)?.map_or(0, |head| head.first))
}

/// The head of the first segment that is in no archive: the oldest ones are moved first.
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

/// Frames of a segment, in their order.
pub struct Frames<'s> {
    segment: &'s Segment,
    /// Bytes of the file from `at` on, in pieces.
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
    /// Of a segment, from its first one on.
    pub fn new(segment: &'s Segment) -> Self {
        let next = segment.head.first;
        Frames { segment, bytes: Vec::new(), start: START, at: START, next }
    }

    /// Where the next one begins, or none does.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The index that the next one has.
    pub fn next_index(&self) -> u64 {
        self.next
    }

    /// The next one; none where there is none, or a broken one.
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

    /// Whether a frame stands anywhere behind that says of the record `index` that it was synced.
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
            // Zeros are most of what there is.
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

    /// The frame at `at`, as far as it was read.
    fn held(&self) -> Option<FrameInfo> {
        let rest = self.bytes.get((self.at - self.start) as usize..)?;
        let (frame, len) = frame::decode(rest, &self.segment.head.log)?;
        let Frame { index, synced, entry, record, .. } = frame;
        Some(FrameInfo { index, synced, entry, len, record: record.len() })
    }

    /// Reads on from `at`, so that a whole frame is there where there is one; whether more came.
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

/// An entry of a frame.
pub fn entry_of(path: &Path, frame: &Frame<'_>) -> Result<Entry, AuditError> {
    match Record::of_json(frame.record) {
        Some(record) => Ok(Entry { index: frame.index, salt: *frame.salt, record }),
        None => Err(damaged(path, &format!("record {} is none", frame.index))),
    }
}

/// The entries from an index on that stand before another one, at most so many.
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

/// The number of the segment that has a record, or would have it.
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
