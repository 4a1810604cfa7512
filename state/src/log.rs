//! KEY.log: the append-only log of signatures and their indexes.
//!
//! ```text
//!   [ len | kind | body | chain ][ len | kind | body | chain ] ... 0 0 0 0     zeros up to the end of a segment
//!                            chain = SHA-256(chain before | len | kind | body), 16 bytes of it
//! ```
//!
//! Segments are pre-allocated with zeros, so that appending a record does not change the file
//! length. The log ends at the first record with a wrong chain value. The state records the durable
//! length and chain value, so an older or damaged log is detected. The last complete record is
//! followed by zeros or by an interrupted write; anything else is damage. An interrupted write is
//! removed before anything else is written.

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use gabion_disk::{DiskFile, Identity, read_full, write_all};
use gabion_engine::keys::stateful::{Entry, LedgerRecord, digest_of};

use crate::machine::Machine;
use crate::record::{KeyId, Reader, Stamp, State};

/// Number of bytes added when a log is full.
const SEGMENT: u64 = 64 << 10;
/// Maximum record size in bytes: 30 times the longest signature of XMSS^MT.
const RECORD_MAX: usize = 1 << 20;
/// Length of the frame: length, kind and chain value.
const FRAME: usize = 4 + 1 + 16;
/// Maximum size in bytes of a record without a signature.
pub const PLAIN_MAX: u64 = FRAME as u64 + 8 + 8 + 32 + 2 * 256;

const SIGNED: u8 = 1;
const FORGOTTEN: u8 = 2;
const NOTE: u8 = 3;

/// Number of bytes that a disk writes atomically: after a power failure, any of these units may be
/// missing.
const SECTOR: u64 = 512;

/// The beginning of the note that `recover` wrote up to version 18f74786. The next index follows.
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
        /// The request id, if any.
        request: Option<String>,
        /// The signature; empty without a request id.
        signature: Vec<u8>,
        /// The time in seconds since 1970, by the machine's clock.
        time: u64,
        /// The machine.
        host: String,
    },
    /// A request id was released for reuse.
    Forgotten {
        /// The id.
        request: String,
    },
    /// A note about a change of the state.
    Note {
        /// The text of the note.
        text: String,
        /// Seconds since 1970, by the machine's clock.
        time: u64,
        /// The machine.
        host: String,
    },
}

/// A position in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Length in bytes.
    pub len: u64,
    /// The chain value at this position.
    pub chain: Stamp,
}

/// An open log.
pub struct Log {
    file: Box<dyn DiskFile>,
    end: End,
    durable: End,
    /// Whether the log reaches the position recorded in the state, with the same chain value.
    is_whole: bool,
    /// Size of the file in bytes.
    size: u64,
    /// The end of the last non-zero byte, or of the last complete record.
    written: u64,
    /// Whether the data after the last complete record can be an interrupted write.
    may_be_torn: bool,
    requests: HashMap<String, SignatureOffset>,
    signed: u64,
    lowest: Option<u64>,
    highest: Option<u64>,
    /// Whether an old `recover` continued the log, which left the damaged data after its end.
    is_recovered: bool,
    /// The next index in the note of an old `recover`, if that note is the last durable line.
    old_recovery: Option<u64>,
}

impl End {
    /// Returns the position that a state records.
    pub fn from_state(state: &State) -> Self {
        End { len: state.log_len, chain: state.log_chain }
    }
}

impl Log {
    /// Initializes a new file with its first segment and a note. The caller syncs the folder.
    pub fn create(file: Box<dyn DiskFile>, key: &KeyId, note: &Line) -> io::Result<End> {
        let mut log = Log::new(file, key, 0);
        log.append(std::slice::from_ref(note))?;
        log.sync()?;
        Ok(log.end)
    }

    /// Opens a log that was durable up to `durable`. If it ends before, or its chain value differs
    /// there, the log counts as damaged and none of it as durable.
    pub fn open(file: Box<dyn DiskFile>, key: &KeyId, durable: End) -> io::Result<Self> {
        Self::read(file, key, durable, |_, _| {})
    }

    /// Opens a log and passes each line, with the position after it, to `each`.
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

    /// Inspects the data after the last complete record.
    fn read_rest(&mut self) -> io::Result<()> {
        static ZEROS: [u8; SEGMENT as usize] = [0; SEGMENT as usize];
        let (mut bytes, mut offset) = (vec![0; ZEROS.len()], self.end.len);
        self.written = offset;
        loop {
            let read = read_full(&*self.file, &mut bytes, offset)?;
            // Compared as a whole first, since it is nearly always zeros.
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

    /// Returns whether the record after the last complete one is torn: its beginning, its end or a
    /// sector consists of zeros, as before it was written.
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

    /// Makes room for `bytes` bytes. If the file must grow, all earlier writes become durable too.
    pub fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        // The log ends with four zeros.
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

    /// Appends lines, which are not durable yet. After an error it is unknown which lines were
    /// written.
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

    /// Makes everything written so far durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.durable != self.end {
            self.file.sync()?;
            self.durable = self.end;
        }
        Ok(())
    }

    /// Rewrites data that may not be on the disk, and syncs it. Removes data after the last
    /// complete record, and returns its length.
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

    /// Overwrites the data after the last complete record with zeros, durably.
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

    /// Returns the record of a request id.
    pub fn recall(&self, request: &str) -> io::Result<Option<LedgerRecord>> {
        let Some(place) = self.requests.get(request) else { return Ok(None) };
        let mut signature = vec![0; place.len];
        if read_full(&*self.file, &mut signature, place.offset)? < place.len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(LedgerRecord { index: place.index, digest: place.digest, signature }))
    }

    /// Returns whether a request id is in use.
    pub fn knows(&self, request: &str) -> bool {
        self.requests.contains_key(request)
    }

    /// Returns the identity of the file.
    pub fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }

    /// Returns the end of the complete records.
    pub fn end(&self) -> End {
        self.end
    }

    /// Returns how many bytes follow the last whole record, trailing zeros excluded.
    pub fn unread_len(&self) -> u64 {
        self.written.saturating_sub(self.end.len)
    }

    /// Returns what is wrong with the log, given the state's indexes from `first` up to `next`. If
    /// it returns a reason, lines may be missing.
    pub fn damage(&self, first: u64, next: u64) -> Option<&'static str> {
        if !self.is_whole {
            return Some("it is damaged, or older than the state");
        }
        if self.lowest.is_some_and(|index| index < first) {
            return Some("it is damaged, or the log of another sector of the key");
        }
        // Signatures are logged only for reserved indexes. If no index is missing, a single other
        // line can be torn.
        let is_complete = next == self.highest.map_or(first, |index| index + 1);
        let may_be_torn = self.may_be_torn && !(is_complete && self.unread_len() > PLAIN_MAX);
        let is_damaged = !may_be_torn && !self.is_recovered;
        is_damaged.then_some("it is damaged behind its last whole line")
    }

    /// Returns why the log, as a witness, forbids using a state with the indexes from `first` up to
    /// `next`.
    pub fn refusal(&self, first: u64, next: u64) -> Option<&'static str> {
        if let Some(damage) = self.damage(first, next) {
            return Some(damage);
        }
        let is_older = self.highest.is_some_and(|index| index >= next);
        is_older.then_some("it is newer than the state, which was restored")
    }

    /// Returns whether the state with the next index `next` was written by a `recover` up to
    /// version 18f74786, which referred to the generation before it: its note is the last line that
    /// the state knows, and no index was reserved since.
    pub fn ends_with_recovery(&self, next: u64) -> bool {
        self.old_recovery == Some(next)
    }

    /// Returns the durable end.
    pub fn durable(&self) -> End {
        self.durable
    }

    /// Returns the number of signatures in the log.
    pub fn signature_count(&self) -> u64 {
        self.signed
    }

    /// Returns the highest index in the log.
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Returns a log that has not been read yet.
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

    /// Remembers the content of a line whose record starts at `offset`.
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

    /// Returns the line at `end`, the position after it, and the length of its record. Returns
    /// `None` if there is no valid record.
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

/// Returns a note about a change of the state.
pub fn note(machine: &dyn Machine, text: &str) -> Line {
    Line::Note { text: text.to_owned(), time: machine.now(), host: machine.host() }
}

impl Line {
    /// Returns the line for a signature.
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

/// The position of a request's signature.
struct SignatureOffset {
    index: u64,
    digest: [u8; 32],
    offset: u64,
    len: usize,
}

/// A cached part of a file.
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns `len` bytes at `offset`; `None` if the file ends before.
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

/// Returns the start position of a key's log.
fn start(key: &KeyId) -> End {
    End { len: 0, chain: chain_hash(&[0; 16], key) }
}

fn chain_hash(before: &Stamp, said: &[u8]) -> Stamp {
    let mut chain = [0; 16];
    chain.copy_from_slice(&digest_of(&[before, said].concat())[..16]);
    chain
}

/// Encodes a text of at most 255 bytes; a longer one is truncated at a character boundary.
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
