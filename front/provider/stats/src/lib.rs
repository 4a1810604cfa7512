//! The provider's counters, in a file that other processes can read at any time.
//!
//! ```text
//!   GABION_STATS=FILE        FILE, native byte order, mapped by every process that names it
//!   header      64 bytes     "GABIONST", version, rows, sizes, loads of the provider, columns, programs
//!   rows        64 bytes each  algorithm, operation (zero-padded texts), calls, errors
//!   columns     64 bytes each  name, kind, side (zero-padded texts) of a TLS counter
//!   programs    one block each  key and name of a program, then one u64 for each column
//! ```
//!
//! - Processes add to the counters atomically and never reset them. To start again, delete the
//!   file. Counts survive a killed process.
//! - Each row fills a cache line, so that threads with different operations do not slow each other
//!   down. Without the variable, the same counters are in memory.
//! - `calls` counts operations that began, `errors` those that ended in an OpenSSL error. An invalid
//!   signature is a result, not an error. If an import fails, OpenSSL silently continues with
//!   another provider, so errors of imports are the ones to watch.
//! - The TLS counters are described in [`tls`].

mod read;
pub mod tls;

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use read::{Row, Snapshot, TlsRow, read};
use tls::{Column, PROGRAMS, Program, ProgramName};

/// The environment variable that names the file.
pub const STATS_VARIABLE: &str = "GABION_STATS";

/// Bytes for an algorithm's name, including a zero at its end.
pub const ALGORITHM_LEN: usize = 40;
/// Bytes for an operation's name, including a zero at its end.
pub const OPERATION_LEN: usize = 8;

const MAGIC: [u8; 8] = *b"GABIONST";
/// Version 3 added the TLS counters.
const VERSION: u32 = 3;
/// The maximum size of a counters file of any build.
const FILE_LEN_MAX: u64 = 1 << 20;

/// A counted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Generation of a key pair.
    Keygen,
    /// Import of a key from a file, a certificate or a handshake.
    Import,
    /// Export of a key.
    Export,
    /// Encapsulation.
    Encaps,
    /// Decapsulation.
    Decaps,
    /// Signing.
    Sign,
    /// Verification of a signature.
    Verify,
    /// Derivation of a shared secret.
    Derive,
    /// Import of a peer's key for a derivation.
    Peer,
    /// A key generation that was served from a pool of precomputed key pairs.
    Pooled,
    /// An operation that paused an asynchronous job.
    Paused,
    /// An operation, or a part of a hybrid or composite, that a GPU performed. An error is a batch
    /// that the GPU lost and the CPU repeated.
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

/// The file's header.
#[repr(C, align(64))]
struct Header {
    magic: [u8; 8],
    version: u32,
    rows: u32,
    row_len: u32,
    header_len: u32,
    loads: AtomicU64,
    columns: u32,
    programs: u32,
    reserved: [u64; 3],
}

/// A row of the file.
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

    /// Returns calls and errors so far.
    pub fn values(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.errors.load(Ordering::Relaxed))
    }
}

/// The whole file.
#[repr(C)]
pub struct Table<const ROWS: usize, const COLUMNS: usize> {
    header: Header,
    rows: [Counter; ROWS],
    columns: [tls::ColumnText; COLUMNS],
    programs: [Program<COLUMNS>; PROGRAMS],
}

const _: () = assert!(size_of::<Header>() == 64 && size_of::<Counter>() == 64);
const _: () = assert!(size_of::<Table<3, 5>>() == Layout { rows: 3, columns: 5 }.len());

impl<const ROWS: usize, const COLUMNS: usize> Table<ROWS, COLUMNS> {
    const LAYOUT: Layout = Layout { rows: ROWS, columns: COLUMNS };

    /// A table for counters in memory. It is all zeros and has no names, which only readers of a
    /// file need.
    pub const fn nameless() -> Self {
        let header = Header {
            magic: [0; 8],
            version: 0,
            rows: 0,
            row_len: 0,
            header_len: 0,
            loads: AtomicU64::new(0),
            columns: 0,
            programs: 0,
            reserved: [0; 3],
        };
        Table {
            header,
            rows: [const { Counter::nameless() }; ROWS],
            columns: [const { tls::ColumnText::EMPTY }; COLUMNS],
            programs: [const { Program::free() }; PROGRAMS],
        }
    }
}

/// Where the parts of a file are.
#[derive(Clone, Copy)]
struct Layout {
    rows: usize,
    columns: usize,
}

impl Layout {
    const fn row_at(self, index: usize) -> usize {
        size_of::<Header>() + index * size_of::<Counter>()
    }

    const fn column_at(self, index: usize) -> usize {
        self.row_at(self.rows) + index * size_of::<tls::ColumnText>()
    }

    const fn program_at(self, index: usize) -> usize {
        self.column_at(self.columns) + index * tls::program_len(self.columns)
    }

    const fn len(self) -> usize {
        self.program_at(PROGRAMS)
    }

    /// Returns whether a byte is the same in every file of this build; the others are counters.
    fn is_constant(self, at: usize) -> bool {
        match at.checked_sub(size_of::<Header>()) {
            None => !(24..32).contains(&at),
            Some(in_rows) if at < self.column_at(0) => {
                in_rows % size_of::<Counter>() < ALGORITHM_LEN + OPERATION_LEN
            }
            Some(_) => at < self.program_at(0),
        }
    }
}

const _: () = assert!(std::mem::offset_of!(Header, loads) == 24);

/// The names of rows and columns.
#[derive(Clone, Copy)]
pub struct Names {
    /// Returns the names of a row's algorithm and operation.
    pub row: fn(usize) -> (&'static str, &'static str),
    /// Returns the description of a TLS counter.
    pub column: fn(usize) -> Column,
}

/// The counters of this process, in the file or in memory.
pub struct Counters<const ROWS: usize, const COLUMNS: usize> {
    table: &'static Table<ROWS, COLUMNS>,
    /// The block of this program.
    program: usize,
    is_mapped: bool,
}

impl<const ROWS: usize, const COLUMNS: usize> Counters<ROWS, COLUMNS> {
    /// Returns counters in memory.
    pub fn in_memory(table: &'static Table<ROWS, COLUMNS>) -> Self {
        Counters { table, program: 0, is_mapped: false }
    }

    /// Opens or creates the file, maps it, and finds or reserves the block of a program.
    ///
    /// # Errors
    /// The file cannot be opened or created, is not a counters file, is writable by other users, or
    /// was written by a build with another format or other algorithms.
    pub fn open(path: &Path, names: Names, program: &ProgramName) -> Result<Self, StatsError> {
        let io = |cause| StatsError::Io { path: path.to_owned(), cause };
        let unusable = |reason| StatsError::Unusable { path: path.to_owned(), reason };
        check_path(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        // The path may have been replaced since the check: opening a FIFO or terminal must not block.
        let file =
            options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(unusable(NOT_REGULAR));
        }
        // SAFETY: takes no argument and cannot fail.
        let user = unsafe { libc::geteuid() };
        // Anyone who can write to a mapped file can truncate it, which ends the process by SIGBUS.
        if ![user, 0].contains(&metadata.uid()) || metadata.mode() & 0o002 != 0 {
            return Err(unusable("other users can write to it"));
        }
        let fresh = fresh_file::<ROWS, COLUMNS>(names);
        check_content::<ROWS, COLUMNS>(&file, path, &fresh)?;
        reserve_space(&file, metadata.len(), fresh.len()).map_err(io)?;
        let mut counters = map::<ROWS, COLUMNS>(&file, &fresh).map_err(io)?;
        counters.program = tls::claim(&counters.table.programs, program);
        Ok(counters)
    }

    /// The rows.
    #[inline]
    pub fn rows(&self) -> &[Counter; ROWS] {
        &self.table.rows
    }

    /// Counts a TLS event of this program. Ignores a column that does not exist.
    #[inline]
    pub fn count_tls(&self, column: usize) {
        self.table.programs[self.program].count(column);
    }

    /// Counts that the provider was loaded.
    pub fn count_load(&self) {
        self.table.header.loads.fetch_add(1, Ordering::Relaxed);
    }
}

impl<const ROWS: usize, const COLUMNS: usize> Drop for Counters<ROWS, COLUMNS> {
    fn drop(&mut self) {
        if self.is_mapped {
            let start = std::ptr::from_ref(self.table).cast_mut().cast();
            // SAFETY: the mapping of `map`; references to rows borrow from `self`.
            unsafe { libc::munmap(start, size_of::<Table<ROWS, COLUMNS>>()) };
        }
    }
}

/// Why the counters file cannot be used.
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
    /// The path is not a regular file that only this user can change.
    #[error("{path}: {reason}; expected a regular file that only you or root can change")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: &'static str,
    },
    /// The file has another content or another version's format.
    #[error(
        "{path} is not a counters file of this version of Gabion ({reason}); use another file, or \
         delete this one"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The difference.
        reason: &'static str,
    },
}

const NOT_REGULAR: &str = "it is not a regular file";

/// Rejects other users' links and paths that are not regular files, before they are opened: opening
/// a device can have side effects.
fn check_path(path: &Path) -> Result<(), StatsError> {
    let unusable = |reason| Err(StatsError::Unusable { path: path.to_owned(), reason });
    // SAFETY: takes no argument and cannot fail.
    let user = unsafe { libc::geteuid() };
    match std::fs::symlink_metadata(path) {
        Ok(link) if link.is_symlink() && ![user, 0].contains(&link.uid()) => {
            unusable("it is a symbolic link of another user")
        }
        Ok(link) if link.is_symlink() => match std::fs::metadata(path) {
            Ok(file) if !file.is_file() => unusable(NOT_REGULAR),
            _ => Ok(()),
        },
        Ok(file) if !file.is_file() => unusable(NOT_REGULAR),
        _ => Ok(()),
    }
}

/// Extends a file to its full length and allocates its blocks: writing to a mapped page without
/// space on the disk ends the process by SIGBUS.
fn reserve_space(file: &File, len: u64, whole: usize) -> Result<(), std::io::Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    let grows = len < whole as u64;
    if grows && known && limit.rlim_cur < whole as libc::rlim_t {
        // The system would send SIGXFSZ, which ends the process.
        return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: an open file descriptor.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, whole as libc::off_t) };
    if code == 0 {
        return Ok(());
    }
    // Truncates what was allocated, unless another process has already completed the file.
    if grows && file.metadata().is_ok_and(|metadata| metadata.len() < whole as u64) {
        let _ = file.set_len(0);
    }
    Err(std::io::Error::from_raw_os_error(code))
}

/// Returns the content of a new file.
fn fresh_file<const ROWS: usize, const COLUMNS: usize>(names: Names) -> Vec<u8> {
    let layout = Table::<ROWS, COLUMNS>::LAYOUT;
    let mut file = Vec::with_capacity(layout.len());
    file.extend_from_slice(&MAGIC);
    let row_len = size_of::<Counter>() as u32;
    for word in [VERSION, ROWS as u32, row_len, size_of::<Header>() as u32] {
        file.extend_from_slice(&word.to_ne_bytes());
    }
    file.resize(std::mem::offset_of!(Header, columns), 0);
    for word in [COLUMNS as u32, PROGRAMS as u32] {
        file.extend_from_slice(&word.to_ne_bytes());
    }
    for (index, (algorithm, operation)) in (0..ROWS).map(names.row).enumerate() {
        file.resize(layout.row_at(index), 0);
        file.extend_from_slice(&padded::<ALGORITHM_LEN>(algorithm));
        file.extend_from_slice(&padded::<OPERATION_LEN>(operation));
    }
    file.resize(layout.column_at(0), 0);
    for column in (0..COLUMNS).map(names.column) {
        file.extend_from_slice(&column.to_bytes());
    }
    file.resize(layout.len(), 0);
    file
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    std::array::from_fn(|index| text.as_bytes().get(index).copied().unwrap_or(0))
}

/// Maps a file that has its full length.
fn map<const ROWS: usize, const COLUMNS: usize>(
    file: &File,
    fresh: &[u8],
) -> Result<Counters<ROWS, COLUMNS>, std::io::Error> {
    // SAFETY: a new mapping of a file that has these bytes.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Table<ROWS, COLUMNS>>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: page-aligned memory of the file's length, mapped until `Counters` is dropped. Other
    // processes only change the atomics, and write the same constant bytes. If the file is
    // truncated, an access raises SIGBUS, as for any mapped file.
    unsafe {
        write_constants(start.cast(), fresh, Table::<ROWS, COLUMNS>::LAYOUT);
        let table = &*start.cast::<Table<ROWS, COLUMNS>>();
        Ok(Counters { table, program: PROGRAMS - 1, is_mapped: true })
    }
}

/// Writes the bytes that are the same in every file of this build, without a lock, because a killed
/// process could hold it forever. Concurrent processes write the same bytes. Counters are not
/// written.
///
/// # Safety
/// `start` points to as many bytes as `fresh` has, to which this process has no reference.
unsafe fn write_constants(start: *mut u8, fresh: &[u8], layout: Layout) {
    for (at, &byte) in fresh.iter().enumerate().filter(|&(at, _)| layout.is_constant(at)) {
        // SAFETY: within the bytes that the caller vouches for.
        unsafe {
            let place = start.add(at);
            if place.read_volatile() != byte {
                place.write_volatile(byte);
            }
        }
    }
}

/// Rejects a file that this build did not write. Missing bytes at its end, and zeros, have not been
/// written yet: another process is creating the file, or was killed meanwhile.
fn check_content<const ROWS: usize, const COLUMNS: usize>(
    file: &File,
    path: &Path,
    fresh: &[u8],
) -> Result<(), StatsError> {
    let content = load(file, path)?;
    let layout = Table::<ROWS, COLUMNS>::LAYOUT;
    let is_blank = content.iter().all(|&byte| byte == 0);
    let is_begun = content.starts_with(&MAGIC[..MAGIC.len().min(content.len())]);
    let mut bytes = content.iter().zip(fresh).enumerate();
    let is_ours = |(at, (&byte, &fresh))| byte == fresh || byte == 0 || !layout.is_constant(at);
    if content.len() <= fresh.len() && (is_blank || is_begun && bytes.all(is_ours)) {
        return Ok(());
    }
    read::layout_of(&content, path)?;
    // Another build of the provider may serve other algorithms.
    Err(StatsError::Foreign { path: path.to_owned(), reason: "other algorithms" })
}

/// Reads a whole file, but at most one byte more than the maximum size of a counters file.
fn load(file: &File, path: &Path) -> Result<Vec<u8>, StatsError> {
    let mut content = Vec::new();
    file.take(FILE_LEN_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|cause| StatsError::Io { path: path.to_owned(), cause })?;
    Ok(content)
}

#[cfg(test)]
mod tests;
