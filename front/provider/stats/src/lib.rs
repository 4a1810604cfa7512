//! Counters per algorithm and operation, in a file that other processes can read at any time.
//!
//! ```text
//!   GABION_STATS=FILE          FILE, native byte order, mapped shared by every process that names it
//!   offset 0    "GABIONST"     64-byte header: magic, version, rows, bytes of a row, bytes of this
//!          8    u32 x 4        header; loads of the provider
//!         24    u64 loads
//!   offset 64   row 0          64 bytes each: algorithm, operation (texts, zero-padded),
//!         128   row 1 ..       calls, errors
//! ```
//!
//! Counters are added to atomically and never reset; delete the file to start again. What was counted
//! stays there when the process is killed. A row fills a cache line, so that threads of different
//! operations do not slow each other down. Without the variable the same counters live in memory.
//!
//! `pooled` counts the key generations that were served from a pool, `paused` the operations that paused
//! an asynchronous job, `gpu` the operations that a GPU did.
//!
//! `calls` counts operations that were begun, `errors` those that ended in an OpenSSL error. A
//! signature that does not verify is an answer, not an error. An import that fails is the way by which
//! OpenSSL goes on with another provider without a word, so its errors are the ones to watch.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names the file.
pub const STATS_VARIABLE: &str = "GABION_STATS";

/// Bytes for an algorithm's name, a zero at its end among them.
pub const ALGORITHM_LEN: usize = 40;
/// Bytes for an operation's name, a zero at its end among them.
pub const OPERATION_LEN: usize = 8;

const MAGIC: [u8; 8] = *b"GABIONST";
const VERSION: u32 = 2;
/// A file of counters is never longer, whichever build made it: 16,000 rows.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The counted operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A key pair was generated.
    Keygen,
    /// A key came in, from a file, a certificate or a handshake.
    Import,
    /// A key was handed out.
    Export,
    /// Encapsulation.
    Encaps,
    /// Decapsulation.
    Decaps,
    /// A signature was made.
    Sign,
    /// A signature was checked.
    Verify,
    /// A shared secret was derived.
    Derive,
    /// A peer's key was taken for a derivation.
    Peer,
    /// Of the key pairs that were generated, one that had been made ahead.
    Pooled,
    /// Of the operations, one that paused an asynchronous job.
    Paused,
    /// Of the operations, and of the parts of hybrids and composites, one that a GPU did; an error is a batch that it
    /// lost, and that the processor did.
    Gpu,
}

impl Operation {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Keygen => "keygen",
            Operation::Import => "import",
            Operation::Export => "export",
            Operation::Encaps => "encaps",
            Operation::Decaps => "decaps",
            Operation::Sign => "sign",
            Operation::Verify => "verify",
            Operation::Derive => "derive",
            Operation::Peer => "peer",
            Operation::Pooled => "pooled",
            Operation::Paused => "paused",
            Operation::Gpu => "gpu",
        }
    }
}

/// The head of the file.
#[repr(C, align(64))]
struct Header {
    magic: [u8; 8],
    version: u32,
    rows: u32,
    row_len: u32,
    header_len: u32,
    loads: AtomicU64,
    reserved: [u64; 4],
}

/// One row of the file.
#[repr(C, align(64))]
pub struct Counter {
    algorithm: [u8; ALGORITHM_LEN],
    operation: [u8; OPERATION_LEN],
    calls: AtomicU64,
    errors: AtomicU64,
}

impl Counter {
    const fn nameless() -> Self {
        Counter {
            algorithm: [0; ALGORITHM_LEN],
            operation: [0; OPERATION_LEN],
            calls: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }

    /// Counts a call.
    #[inline]
    pub fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts several calls and errors.
    pub fn add(&self, calls: u64, errors: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
        self.errors.fetch_add(errors, Ordering::Relaxed);
    }

    /// Counts an error.
    #[inline]
    pub fn error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls and errors so far.
    pub fn values(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.errors.load(Ordering::Relaxed))
    }
}

/// The whole file.
#[repr(C)]
pub struct Table<const ROWS: usize> {
    header: Header,
    rows: [Counter; ROWS],
}

const _: () = assert!(size_of::<Header>() == 64 && size_of::<Counter>() == 64);
const _: () = assert!(size_of::<Table<3>>() == 4 * 64);

impl<const ROWS: usize> Table<ROWS> {
    /// Returns the table for counting without a file, where the names are not read.
    pub const fn nameless() -> Self {
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            rows: ROWS as u32,
            row_len: size_of::<Counter>() as u32,
            header_len: size_of::<Header>() as u32,
            loads: AtomicU64::new(0),
            reserved: [0; 4],
        };
        Table { header, rows: [const { Counter::nameless() }; ROWS] }
    }
}

/// Returns the names of a row's algorithm and operation.
pub type RowNames = fn(usize) -> (&'static str, &'static str);

/// The counters of this process: in the file, or in memory.
pub struct Counters<const ROWS: usize> {
    table: &'static Table<ROWS>,
    is_mapped: bool,
}

impl<const ROWS: usize> Counters<ROWS> {
    /// Counts in memory only.
    pub fn in_memory(table: &'static Table<ROWS>) -> Self {
        Counters { table, is_mapped: false }
    }

    /// Opens or makes the file and maps it.
    ///
    /// # Errors
    /// The file cannot be had, is something else, or is that of a build with other rows.
    pub fn open(path: &Path, named: RowNames) -> Result<Self, StatsError> {
        let io = |cause| StatsError::Io { path: path.to_owned(), cause };
        let refused = |reason| StatsError::Refused { path: path.to_owned(), reason };
        check_place(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        // Should it be another kind of file by now, nothing waits for it.
        let file =
            options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(refused("it is no regular file"));
        }
        // SAFETY: no argument; the answer is a number.
        let user = unsafe { libc::geteuid() };
        // Who may write to a mapped file can cut it short, and the process ends by SIGBUS.
        if ![user, 0].contains(&metadata.uid()) || metadata.mode() & 0o002 != 0 {
            return Err(refused("another user may change it"));
        }
        let fresh = fresh_file::<ROWS>(named);
        check_content(&file, path, &fresh)?;
        make_room(&file, metadata.len(), fresh.len()).map_err(io)?;
        map(&file, &fresh).map_err(io)
    }

    /// The rows.
    #[inline]
    pub fn rows(&self) -> &[Counter; ROWS] {
        &self.table.rows
    }

    /// Counts that the provider was loaded.
    pub fn count_load(&self) {
        self.table.header.loads.fetch_add(1, Ordering::Relaxed);
    }
}

impl<const ROWS: usize> Drop for Counters<ROWS> {
    fn drop(&mut self) {
        if self.is_mapped {
            let start = std::ptr::from_ref(self.table).cast_mut().cast();
            // SAFETY: what `map` mapped; a reference to a row borrows from this.
            unsafe { libc::munmap(start, size_of::<Table<ROWS>>()) };
        }
    }
}

/// Why the counters' file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// The file cannot be opened, read or mapped.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The file is in no state to be counted in.
    #[error("{path}: {reason}; expected a file of one's own")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason why it is refused.
        reason: &'static str,
    },
    /// The file is something else, or of another version.
    #[error(
        "{path} is no counters file of this version of Gabion ({reason}); name another file, or delete this one"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The difference that was found.
        reason: &'static str,
    },
}

/// The counters of one algorithm and operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The algorithm's name, as the standard has it.
    pub algorithm: String,
    /// The operation: keygen, import, export, encaps, decaps, derive, peer, sign, verify, pooled, paused, gpu.
    pub operation: String,
    /// Operations that were begun.
    pub calls: u64,
    /// Operations that ended in an error.
    pub errors: u64,
}

/// The contents of the file at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of times that the provider was loaded, by all processes.
    pub loads: u64,
    /// Every algorithm and operation that the provider serves, zeros included.
    pub rows: Vec<Row>,
}

impl Snapshot {
    /// The counters of one algorithm and operation; zeros where the file has no such row.
    pub fn of(&self, algorithm: &str, operation: Operation) -> (u64, u64) {
        self.rows
            .iter()
            .find(|row| row.algorithm == algorithm && row.operation == operation.name())
            .map_or((0, 0), |row| (row.calls, row.errors))
    }
}

/// Reads a file of counters, while it is in use or afterwards; another build's too, which may have
/// served other algorithms.
///
/// # Errors
/// The file cannot be read, or is no such file.
pub fn read(path: &Path) -> Result<Snapshot, StatsError> {
    check_place(path)?;
    let file = File::open(path).map_err(|cause| StatsError::Io { path: path.to_owned(), cause })?;
    let content = load(&file, path)?;
    let rows = head(&content, path)?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| content[at + index]));
    let text = |at: usize, len: usize| {
        let bytes = &content[at..at + len];
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(len);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let rows = (0..rows)
        .map(|index| size_of::<Header>() + index * size_of::<Counter>())
        .map(|at| Row {
            algorithm: text(at, ALGORITHM_LEN),
            operation: text(at + ALGORITHM_LEN, OPERATION_LEN),
            calls: word(at + 48),
            errors: word(at + 56),
        })
        .collect();
    Ok(Snapshot { loads: word(24), rows })
}

/// Refuses what is no place for a file of counters before it is opened: to open a device may do something.
fn check_place(path: &Path) -> Result<(), StatsError> {
    let refused = |reason| Err(StatsError::Refused { path: path.to_owned(), reason });
    // SAFETY: no argument; the answer is a number.
    let user = unsafe { libc::geteuid() };
    match std::fs::symlink_metadata(path) {
        Ok(link) if link.is_symlink() && ![user, 0].contains(&link.uid()) => {
            refused("it is another user's link")
        }
        Ok(link) if link.is_symlink() => match std::fs::metadata(path) {
            Ok(file) if !file.is_file() => refused("it is no regular file"),
            _ => Ok(()),
        },
        Ok(file) if !file.is_file() => refused("it is no regular file"),
        _ => Ok(()),
    }
}

/// Gives a file its length, on the disk too: a page that finds no room there ends the process by SIGBUS.
fn make_room(file: &File, len: u64, whole: usize) -> Result<(), std::io::Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limits.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    let grows = len < whole as u64;
    if grows && known && limit.rlim_cur < whole as libc::rlim_t {
        // The system would say so by a signal, which ends the process.
        return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: an open file; the answer is a number.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, whole as libc::off_t) };
    if code == 0 {
        return Ok(());
    }
    // An empty file is as good as none. Others may have begun to count in a longer one.
    if grows && file.metadata().is_ok_and(|metadata| metadata.len() < whole as u64) {
        let _ = file.set_len(0);
    }
    Err(std::io::Error::from_raw_os_error(code))
}

/// A new file's content.
fn fresh_file<const ROWS: usize>(named: RowNames) -> Vec<u8> {
    let mut file = Vec::with_capacity(size_of::<Table<ROWS>>());
    file.extend_from_slice(&MAGIC);
    for word in [VERSION, ROWS as u32, size_of::<Counter>() as u32, size_of::<Header>() as u32] {
        file.extend_from_slice(&word.to_ne_bytes());
    }
    file.resize(size_of::<Header>(), 0);
    for (algorithm, operation) in (0..ROWS).map(named) {
        file.extend_from_slice(&padded::<ALGORITHM_LEN>(algorithm));
        file.extend_from_slice(&padded::<OPERATION_LEN>(operation));
        file.resize(file.len().next_multiple_of(size_of::<Counter>()), 0);
    }
    file
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    std::array::from_fn(|index| text.as_bytes().get(index).copied().unwrap_or(0))
}

/// Maps a file that has its whole length.
fn map<const ROWS: usize>(file: &File, fresh: &[u8]) -> Result<Counters<ROWS>, std::io::Error> {
    // SAFETY: a fresh mapping of a file that has these bytes.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Table<ROWS>>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: page-aligned memory of the file's length that stays mapped as long as this is used. Others
    // only add to the atomics, and write the names that are there. Should the file be truncated, an access
    // raises SIGBUS, as for any mapped file.
    unsafe {
        write_names(start.cast(), fresh);
        Ok(Counters { table: &*start.cast::<Table<ROWS>>(), is_mapped: true })
    }
}

/// Writes the bytes that are equal in every file of this build. There is no lock, which another
/// process might hold for ever: concurrent writers write equal bytes, and counts are left alone.
///
/// # Safety
/// `start` points to as many bytes as `fresh` has, of which this process has no reference.
unsafe fn write_names(start: *mut u8, fresh: &[u8]) {
    for (at, &byte) in fresh.iter().enumerate().filter(|&(at, _)| is_name(at)) {
        // SAFETY: within the bytes that the caller vouches for.
        unsafe {
            let place = start.add(at);
            if place.read_volatile() != byte {
                place.write_volatile(byte);
            }
        }
    }
}

/// Returns whether a byte of the file is the same in every file of this build; the others count.
fn is_name(at: usize) -> bool {
    match at.checked_sub(size_of::<Header>()) {
        None => at < std::mem::offset_of!(Header, loads),
        Some(at) => at % size_of::<Counter>() < ALGORITHM_LEN + OPERATION_LEN,
    }
}

/// Rejects a file of another origin. Bytes that are missing at its end, or zero, were not written:
/// another process is just creating it, or the disk was full.
fn check_content(file: &File, path: &Path, fresh: &[u8]) -> Result<(), StatsError> {
    let content = load(file, path)?;
    let is_blank = content.iter().all(|&byte| byte == 0);
    let is_begun = content.starts_with(&MAGIC[..MAGIC.len().min(content.len())]);
    let mut bytes = content.iter().zip(fresh).enumerate();
    let is_ours = |(at, (&byte, &fresh))| byte == fresh || byte == 0 || !is_name(at);
    if content.len() <= fresh.len() && (is_blank || is_begun && bytes.all(is_ours)) {
        return Ok(());
    }
    head(&content, path)?;
    // Another build of the provider may serve other algorithms.
    Err(StatsError::Foreign { path: path.to_owned(), reason: "other algorithms" })
}

/// Reads a whole file, if it is not longer than any file of counters.
fn load(file: &File, path: &Path) -> Result<Vec<u8>, StatsError> {
    let mut content = Vec::new();
    file.take(FILE_LEN_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|cause| StatsError::Io { path: path.to_owned(), cause })?;
    Ok(content)
}

/// Checks what every file of this version has, whatever algorithms are in it; gives its rows.
fn head(content: &[u8], path: &Path) -> Result<usize, StatsError> {
    let foreign = |reason| StatsError::Foreign { path: path.to_owned(), reason };
    let head: &[u8; size_of::<Header>()] =
        content.first_chunk().ok_or_else(|| foreign("other length"))?;
    if head[..8] != MAGIC {
        return Err(foreign("other magic"));
    }
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| head[at + byte]));
    if [word(8), word(16), word(20)]
        != [VERSION, size_of::<Counter>() as u32, size_of::<Header>() as u32]
    {
        return Err(foreign("other version"));
    }
    let rows = word(12) as usize;
    let whole = rows.checked_mul(size_of::<Counter>()).and_then(|len| len.checked_add(head.len()));
    if whole != Some(content.len()) {
        return Err(foreign("other length"));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 20 * 5;
    const FILE_LEN: usize = size_of::<Table<ROWS>>();

    /// Rows of algorithms with one letter for a name.
    fn named(row: usize) -> (&'static str, &'static str) {
        let operation = ["keygen", "import", "export", "sign", "verify"][row % 5];
        (&"ABCDEFGHIJKLMNOPQRST"[row / 5..][..1], operation)
    }

    fn open(path: &Path) -> Result<Counters<ROWS>, StatsError> {
        Counters::open(path, named)
    }

    fn fresh_file() -> Vec<u8> {
        super::fresh_file::<ROWS>(named)
    }

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn counters_are_read_by_algorithm_name() {
        let folder = scratch();
        let path = folder.path().join("stats");
        let counters = open(&path).unwrap();
        let row = &counters.rows()[2 * 5 + 3];
        row.call();
        row.call();
        row.error();
        counters.count_load();
        // A second mapping, as another process has it, adds to the same counters.
        open(&path).unwrap().rows()[0].call();
        let snapshot = read(&path).unwrap();
        assert_eq!(snapshot.loads, 1);
        assert_eq!(snapshot.of("C", Operation::Sign), (2, 1));
        assert_eq!(snapshot.of("A", Operation::Keygen), (1, 0));
        assert_eq!(snapshot.rows.iter().map(|row| row.calls).sum::<u64>(), 3);
        assert_eq!(snapshot.of("none", Operation::Sign), (0, 0));
        assert_eq!(snapshot.rows.len(), ROWS);
        assert_eq!(row.values(), (2, 1));
    }

    #[test]
    fn stats_file_of_another_build_is_read_only() {
        let folder = scratch();
        let path = folder.path().join("stats");
        let mut file = fresh_file();
        file.truncate(size_of::<Header>() + 2 * size_of::<Counter>());
        file[12] = 2;
        file[13] = 0;
        file[64..71].copy_from_slice(b"OTHER-1");
        file[64 + 48] = 9;
        std::fs::write(&path, &file).unwrap();
        assert!(matches!(open(&path), Err(StatsError::Foreign { reason: "other algorithms", .. })));
        let snapshot = read(&path).unwrap();
        assert_eq!(snapshot.rows.len(), 2);
        assert_eq!((snapshot.rows[0].algorithm.as_str(), snapshot.rows[0].calls), ("OTHER-1", 9));
        for rows in [1, 3] {
            file[12] = rows;
            std::fs::write(&path, &file).unwrap();
            assert!(matches!(read(&path), Err(StatsError::Foreign { reason: "other length", .. })));
        }
    }

    #[test]
    fn a_foreign_file_is_refused_and_left_as_it_was() {
        let folder = scratch();
        let path = folder.path().join("precious");
        for content in [vec![b'x'; 10], vec![b'x'; FILE_LEN], {
            let mut file = fresh_file();
            file[8] ^= 1;
            file
        }] {
            std::fs::write(&path, &content).unwrap();
            assert!(matches!(open(&path), Err(StatsError::Foreign { .. })));
            assert!(matches!(read(&path), Err(StatsError::Foreign { .. })));
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        assert!(matches!(open(folder.path()), Err(StatsError::Refused { .. })));
        assert!(matches!(open(Path::new("/dev/zero")), Err(StatsError::Refused { .. })));
        assert!(matches!(read(&folder.path().join("none")), Err(StatsError::Io { .. })));
    }

    #[test]
    fn a_file_that_was_begun_is_ended() {
        let folder = scratch();
        let path = folder.path().join("stats");
        let whole = fresh_file();
        let mut half_named = whole.clone();
        half_named[1000..].fill(0);
        let longest = [&whole[..5], &whole[..100], &whole[..5000], &[0; 64], &[0; FILE_LEN]];
        for begun in [&[][..], &half_named].into_iter().chain(longest) {
            std::fs::write(&path, begun).unwrap();
            open(&path).unwrap().rows()[3].call();
            assert_eq!(read(&path).unwrap().rows[3].calls, 1, "{} bytes", begun.len());
        }
    }

    #[test]
    fn opening_stats_never_blocks() {
        let folder = scratch();
        let path = folder.path().join("stats");
        std::fs::write(&path, fresh_file()).unwrap();
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        open(&path).unwrap();
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(matches!(open(&pipe), Err(StatsError::Refused { .. })));
        assert!(matches!(read(&pipe), Err(StatsError::Refused { .. })));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        open(&link).unwrap();
    }

    #[test]
    fn stats_file_writable_by_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = scratch();
        let path = folder.path().join("stats");
        open(&path).unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o646);
        assert!(matches!(open(&path), Err(StatsError::Refused { .. })));
        mode(0o664);
        open(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            assert!(matches!(open(&path), Err(StatsError::Refused { .. })));
            read(&path).unwrap();
        }
    }
}
