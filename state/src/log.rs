//! KEY.log: what was signed, with which index. It only grows.
//!
//! ```text
//!   [ len | kind | body | chain ][ len | kind | body | chain ] ... 0 0 0 0     zeros up to the end of a segment
//!                            chain = SHA-256(chain before | len | kind | body), 16 bytes of it
//! ```
//!
//! Segments are written as zeros ahead of time, so that a record changes no length. The first record whose chain
//! is wrong ends the log. How much of it was durable, and with which chain, stands in the state, so that an older
//! log or a damaged one is noticed. Behind the last whole record are zeros, or what an interrupted write left: anything
//! else is damage. An interrupted write is removed before anything else is written.

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use gabion_disk::{DiskFile, Identity, read_full, write_all};
use gabion_engine::keys::stateful::{Entry, LedgerRecord, digest_of};

use crate::machine::Machine;
use crate::record::{KeyId, Reader, Stamp, State};

/// Bytes that are added when a log is full.
const SEGMENT: u64 = 64 << 10;
/// Bytes of a record, at most: of XMSS^MT's longest signatures 30 fit.
const RECORD_MAX: usize = 1 << 20;
/// Bytes of length, kind and chain.
const FRAME: usize = 4 + 1 + 16;
/// Bytes that a record without a signature has, at most.
pub const PLAIN_MAX: u64 = FRAME as u64 + 8 + 8 + 32 + 2 * 256;

const SIGNED: u8 = 1;
const FORGOTTEN: u8 = 2;
const NOTE: u8 = 3;

/// Bytes of what a disk writes whole: of a write that the power ended, any of these may be missing.
const SECTOR: u64 = 512;

/// The beginning of the note by which `recover` ended up to version 18f74786. The number of the next index follows.
const OLD_RECOVERY: &str = "recovered: every index below ";

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An index was used.
    Signed {
        /// The index.
        index: u64,
        /// SHA-256 of the message.
        digest: [u8; 32],
        /// The request id, where there was one.
        request: Option<String>,
        /// The signature; empty without a request id.
        signature: Vec<u8>,
        /// Seconds since 1970, by the machine's clock.
        time: u64,
        /// The machine.
        host: String,
    },
    /// A request id may be used again.
    Forgotten {
        /// The id.
        request: String,
    },
    /// Something that was done to the state.
    Note {
        /// What.
        text: String,
        /// Seconds since 1970, by the machine's clock.
        time: u64,
        /// The machine.
        host: String,
    },
}

/// How far a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Bytes.
    pub len: u64,
    /// What they chain to.
    pub chain: Stamp,
}

/// A log that is open.
pub struct Log {
    file: Box<dyn DiskFile>,
    end: End,
    durable: End,
    /// Whether it goes as far as the state says, along the same lines.
    is_whole: bool,
    /// Bytes of the file.
    size: u64,
    /// Where the last byte that is not zero ends, or the last whole record.
    written: u64,
    /// Whether what is behind the last whole record can be an interrupted write.
    may_be_torn: bool,
    requests: HashMap<String, SignatureOffset>,
    signed: u64,
    lowest: Option<u64>,
    highest: Option<u64>,
    /// Whether an old `recover` went on with it, which left what was damaged behind its end.
    is_recovered: bool,
    /// The next index by the note of an old `recover`, if that is the last durable line.
    old_recovery: Option<u64>,
}

impl End {
    /// As a state has it.
    pub fn from_state(state: &State) -> Self {
        End { len: state.log_len, chain: state.log_chain }
    }
}

impl Log {
    /// Fills a new file with its first segment, and a note. The caller syncs the folder.
    pub fn create(file: Box<dyn DiskFile>, key: &KeyId, note: &Line) -> io::Result<End> {
        let mut log = Log::new(file, key, 0);
        log.append(std::slice::from_ref(note))?;
        log.sync()?;
        Ok(log.end)
    }

    /// Reads a log that was durable up to `durable`. Where it ends before, or is another one there, it is not whole, and
    /// nothing of it is taken for durable.
    pub fn open(file: Box<dyn DiskFile>, key: &KeyId, durable: End) -> io::Result<Self> {
        Self::read(file, key, durable, |_, _| {})
    }

    /// Opens a log, and hands each of its lines to `each`, with the end that the log has there.
    pub fn read(
        file: Box<dyn DiskFile>,
        key: &KeyId,
        durable: End,
        mut each: impl FnMut(Line, End),
    ) -> io::Result<Self> {
        let size = file.size()?;
        let mut log = Log::new(file, key, size);
        log.is_whole = log.end == durable;
        let mut window = Window { offset: 0, bytes: Vec::new() };
        while let Some((line, end, record)) = log.line_at(&mut window, log.end)? {
            log.note(&line, end.len - record as u64);
            log.end = end;
            let recovered = old_recovery(&line);
            log.is_recovered |= recovered.is_some();
            if end == durable {
                log.is_whole = true;
                log.old_recovery = recovered;
            }
            each(line, end);
        }
        log.read_rest()?;
        if log.is_whole {
            log.durable = durable;
        }
        Ok(log)
    }

    /// Finds what is behind the last whole record.
    fn read_rest(&mut self) -> io::Result<()> {
        static ZEROS: [u8; SEGMENT as usize] = [0; SEGMENT as usize];
        let (mut bytes, mut offset) = (vec![0; ZEROS.len()], self.end.len);
        self.written = offset;
        loop {
            let read = read_full(&*self.file, &mut bytes, offset)?;
            // Compared as a whole first, which is what is there nearly always.
            if bytes[..read] != ZEROS[..read] {
                let last = bytes[..read].iter().rposition(|byte| *byte != 0).unwrap_or(0);
                self.written = offset + last as u64 + 1;
            }
            offset += read as u64;
            if read < bytes.len() {
                break;
            }
        }
        self.may_be_torn = self.written == self.end.len || self.is_torn()?;
        Ok(())
    }

    /// Whether the record behind the last whole one lacks a part: its beginning, its end or a sector is zeros, as they were
    /// before it was written.
    fn is_torn(&self) -> io::Result<bool> {
        let start = self.end.len;
        let mut len = [0; 4];
        read_full(&*self.file, &mut len, start)?;
        let len = u32::from_be_bytes(len) as usize;
        if len == 0 {
            return Ok(true);
        }
        if !(FRAME..=RECORD_MAX).contains(&len) {
            return Ok(false);
        }
        let mut record = vec![0; len];
        read_full(&*self.file, &mut record, start)?;
        let to_sector = (SECTOR - start % SECTOR) as usize;
        let (begins, rest) = record.split_at(to_sector.min(len));
        let is_missing = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
        Ok(record.ends_with(&[0])
            || is_missing(begins)
            || rest.chunks(SECTOR as usize).any(is_missing))
    }

    /// Makes room for so many bytes. Where it has to, all that was written before is durable, too.
    pub fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        // Four zeros end the log.
        let needed = self.end.len + bytes + 4;
        if needed <= self.size {
            return Ok(());
        }
        let more = (needed - self.size).next_multiple_of(SEGMENT);
        write_all(&*self.file, &vec![0; more as usize], self.size)?;
        self.file.sync()?;
        self.size += more;
        self.durable = self.end;
        Ok(())
    }

    /// Writes lines. They are not durable yet. After an error nobody knows which are there.
    pub fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let (mut bytes, mut end) = (Vec::new(), self.end);
        let mut ends = Vec::new();
        for line in lines {
            let (kind, body) = line.encode();
            let len = (FRAME + body.len()) as u32;
            if len as usize > RECORD_MAX {
                return Err(io::Error::other("a record is too long"));
            }
            let start = bytes.len();
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.push(kind);
            bytes.extend_from_slice(&body);
            let chain = chain_hash(&end.chain, &bytes[start..]);
            bytes.extend_from_slice(&chain);
            end = End { len: end.len + u64::from(len), chain };
            ends.push((end.len - u64::from(len), line));
        }
        self.make_room(bytes.len() as u64)?;
        write_all(&*self.file, &bytes, self.end.len)?;
        self.end = end;
        for (offset, line) in ends {
            self.note(line, offset);
        }
        Ok(())
    }

    /// Makes everything durable that was written.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.durable != self.end {
            self.file.sync()?;
            self.durable = self.end;
        }
        Ok(())
    }

    /// Writes again what may never have got to the disk, and makes it durable. What is behind the last whole record is
    /// removed. Returns how many bytes that were.
    pub fn settle(&mut self) -> io::Result<u64> {
        let len = self.end.len - self.durable.len;
        let mut bytes = vec![0; len as usize];
        if read_full(&*self.file, &mut bytes, self.durable.len)? < bytes.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        write_all(&*self.file, &bytes, self.durable.len)?;
        let unread = self.unread_len();
        if unread > 0 {
            self.remove_rest()?;
        }
        self.sync()?;
        Ok(unread)
    }

    /// Writes zeros behind the last whole record, durably.
    fn remove_rest(&mut self) -> io::Result<()> {
        let zeros = vec![0; SEGMENT as usize];
        let mut offset = self.end.len;
        while offset < self.written {
            let len = (self.written - offset).min(SEGMENT);
            write_all(&*self.file, &zeros[..len as usize], offset)?;
            offset += len;
        }
        self.file.sync()?;
        self.durable = self.end;
        (self.written, self.may_be_torn) = (self.end.len, true);
        Ok(())
    }

    /// The signature of a request.
    pub fn recall(&self, request: &str) -> io::Result<Option<LedgerRecord>> {
        let Some(place) = self.requests.get(request) else { return Ok(None) };
        let mut signature = vec![0; place.len];
        if read_full(&*self.file, &mut signature, place.offset)? < place.len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(LedgerRecord { index: place.index, digest: place.digest, signature }))
    }

    /// Whether a request id is taken.
    pub fn knows(&self, request: &str) -> bool {
        self.requests.contains_key(request)
    }

    /// Which file it is.
    pub fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }

    /// How far its whole records go.
    pub fn end(&self) -> End {
        self.end
    }

    /// Returns how many bytes follow the last whole record, trailing zeros excluded.
    pub fn unread_len(&self) -> u64 {
        self.written.saturating_sub(self.end.len)
    }

    /// What is wrong with it, if a state has the indexes from `first` on and comes to `next`: then lines may be missing.
    pub fn damage(&self, first: u64, next: u64) -> Option<&'static str> {
        if !self.is_whole {
            return Some("it is damaged, or older than the state");
        }
        if self.lowest.is_some_and(|index| index < first) {
            return Some("it is damaged, or the log of another sector of the key");
        }
        // Signatures are written of indexes that were reserved, so without one that is missing a single other line may
        // be torn.
        let is_complete = next == self.highest.map_or(first, |index| index + 1);
        let may_be_torn = self.may_be_torn && !(is_complete && self.unread_len() > PLAIN_MAX);
        let is_damaged = !may_be_torn && !self.is_recovered;
        is_damaged.then_some("it is damaged behind its last whole line")
    }

    /// Why a state that has the indexes from `first` on and comes to `next` may not be gone on from; the log is a witness,
    /// too.
    pub fn refusal(&self, first: u64, next: u64) -> Option<&'static str> {
        if let Some(damage) = self.damage(first, next) {
            return Some(damage);
        }
        let is_older = self.highest.is_some_and(|index| index >= next);
        is_older.then_some("it is newer than the state, which was restored")
    }

    /// Whether the state whose next index is `next` was written by a `recover` that named the generation before it,
    /// as it did up to version 18f74786: its note is the last line that the state knows, and no index was reserved
    /// since.
    pub fn ends_with_recovery(&self, next: u64) -> bool {
        self.old_recovery == Some(next)
    }

    /// How far it is durable.
    pub fn durable(&self) -> End {
        self.durable
    }

    /// Returns the number of signatures in the log.
    pub fn signature_count(&self) -> u64 {
        self.signed
    }

    /// The highest index that it has.
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// One of which nothing was read.
    fn new(file: Box<dyn DiskFile>, key: &KeyId, size: u64) -> Self {
        let end = start(key);
        Log {
            file,
            end,
            durable: end,
            is_whole: true,
            size,
            written: end.len,
            may_be_torn: true,
            requests: HashMap::new(),
            signed: 0,
            lowest: None,
            highest: None,
            is_recovered: false,
            old_recovery: None,
        }
    }

    /// Keeps in mind what a line says, whose record begins at `offset`.
    fn note(&mut self, line: &Line, offset: u64) {
        match line {
            Line::Signed { index, digest, request, signature, .. } => {
                self.signed += 1;
                self.lowest = Some(self.lowest.map_or(*index, |lowest| lowest.min(*index)));
                self.highest = self.highest.max(Some(*index));
                if let Some(request) = request {
                    let before = FRAME - 16 + line.encode().1.len() - signature.len();
                    let offset = offset + before as u64;
                    let place = SignatureOffset {
                        index: *index,
                        digest: *digest,
                        offset,
                        len: signature.len(),
                    };
                    self.requests.insert(request.clone(), place);
                }
            }
            Line::Forgotten { request } => {
                self.requests.remove(request);
            }
            Line::Note { .. } => {}
        }
    }

    /// The line at `end`, where the log is behind it, and the bytes of its record. None where there is no valid
    /// one.
    fn line_at(&self, window: &mut Window, end: End) -> io::Result<Option<(Line, End, usize)>> {
        let Some(len) = window.get(&*self.file, end.len, 4)? else { return Ok(None) };
        let len = Reader(len).array().map_or(0, u32::from_be_bytes) as usize;
        if !(FRAME..=RECORD_MAX).contains(&len) {
            return Ok(None);
        }
        let Some(record) = window.get(&*self.file, end.len, len)? else { return Ok(None) };
        let (said, chain) = record.split_at(len - 16);
        if chain_hash(&end.chain, said) != chain {
            return Ok(None);
        }
        let Some(line) = Line::decode(said[4], &said[5..]) else { return Ok(None) };
        let mut end = End { len: end.len + len as u64, ..end };
        end.chain.copy_from_slice(chain);
        Ok(Some((line, end, len)))
    }
}

/// A line that says what was done to the state.
pub fn note(machine: &dyn Machine, text: &str) -> Line {
    Line::Note { text: text.to_owned(), time: machine.now(), host: machine.host() }
}

impl Line {
    /// What is written of a signature.
    pub fn from_entry(entry: &Entry<'_>, time: u64, host: &str) -> Self {
        let Entry { index, digest, request, signature } = *entry;
        Line::Signed {
            index,
            digest,
            request: request.map(str::to_owned),
            signature: request.map_or_else(Vec::new, |_| signature.to_vec()),
            time,
            host: host.to_owned(),
        }
    }

    fn encode(&self) -> (u8, Vec<u8>) {
        let mut body = Vec::new();
        let kind = match self {
            Line::Signed { index, digest, request, signature, time, host } => {
                body.extend_from_slice(&index.to_be_bytes());
                body.extend_from_slice(&time.to_be_bytes());
                body.extend_from_slice(digest);
                put_text(&mut body, host);
                put_text(&mut body, request.as_deref().unwrap_or_default());
                body.extend_from_slice(signature);
                SIGNED
            }
            Line::Forgotten { request } => {
                put_text(&mut body, request);
                FORGOTTEN
            }
            Line::Note { text, time, host } => {
                body.extend_from_slice(&time.to_be_bytes());
                put_text(&mut body, host);
                put_text(&mut body, text);
                NOTE
            }
        };
        (kind, body)
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        Some(match kind {
            SIGNED => {
                let (index, time, digest) = (reader.u64()?, reader.u64()?, reader.array()?);
                let (host, request) = (text(&mut reader)?, text(&mut reader)?);
                let request = (!request.is_empty()).then_some(request);
                let signature = reader.0.to_vec();
                Line::Signed { index, digest, request, signature, time, host }
            }
            FORGOTTEN => Line::Forgotten { request: text(&mut reader)? },
            NOTE => {
                let time = reader.u64()?;
                let (host, text) = (text(&mut reader)?, text(&mut reader)?);
                Line::Note { text, time, host }
            }
            _ => return None,
        })
    }
}

/// Where the signature of a request is.
struct SignatureOffset {
    index: u64,
    digest: [u8; 32],
    offset: u64,
    len: usize,
}

/// A part of a file in memory.
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// `len` bytes from `offset` on; none where the file ends before.
    fn get(&mut self, file: &dyn DiskFile, offset: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let has = |window: &Self| {
            let start = offset.checked_sub(window.offset)? as usize;
            window.bytes.get(start..start.checked_add(len)?).map(|_| start)
        };
        let start = match has(self) {
            Some(start) => start,
            None => {
                self.bytes.resize(len.max(SEGMENT as usize), 0);
                self.offset = offset;
                let read = read_full(file, &mut self.bytes, offset)?;
                self.bytes.truncate(read);
                0
            }
        };
        Ok(self.bytes.get(start..start + len))
    }
}

fn old_recovery(line: &Line) -> Option<u64> {
    let Line::Note { text, .. } = line else { return None };
    text.strip_prefix(OLD_RECOVERY)?.split(' ').next()?.parse().ok()
}

/// Where the log of a key begins.
fn start(key: &KeyId) -> End {
    End { len: 0, chain: chain_hash(&[0; 16], key) }
}

fn chain_hash(before: &Stamp, said: &[u8]) -> Stamp {
    let mut chain = [0; 16];
    chain.copy_from_slice(&digest_of(&[before, said].concat())[..16]);
    chain
}

/// A text of 255 bytes at most; what is longer is cut at a character.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let cut = (0..=text.len().min(255)).rev().find(|at| text.is_char_boundary(*at));
    let text = &text[..cut.unwrap_or(0)];
    bytes.push(text.len() as u8);
    bytes.extend_from_slice(text.as_bytes());
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    let [len] = reader.array()?;
    String::from_utf8(reader.bytes(len.into())?.to_vec()).ok()
}
