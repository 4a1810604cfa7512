//! Reads a file of counters.

use std::fs::File;
use std::path::Path;

use crate::tls::{COUNTS_AT, ColumnText, PROGRAM_LEN, PROGRAMS};
use crate::{
    ALGORITHM_LEN, Counter, Header, Layout, MAGIC, OPERATION_LEN, Operation, StatsError, VERSION,
    check_path, load,
};

/// The counters of one algorithm and operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The algorithm's name in its standard.
    pub algorithm: String,
    /// The operation: keygen, import, export, encaps, decaps, derive, peer, sign, verify, pooled,
    /// paused, gpu.
    pub operation: String,
    /// Operations that began.
    pub calls: u64,
    /// Operations that ended in an error.
    pub errors: u64,
}

/// A TLS counter of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRow {
    /// The file name of the program's executable.
    pub program: String,
    /// The side that the program was on, `client` or `server`; `None` if the provider cannot tell.
    pub side: Option<String>,
    /// The kind of event: key_exchange, server_sig, client_sig, handshake.
    pub kind: String,
    /// The TLS name of the group or signature scheme, or the protocol version.
    pub name: String,
    /// The number of events.
    pub count: u64,
}

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// How many times the provider was loaded, by all processes.
    pub loads: u64,
    /// All algorithms and operations that the provider serves, including zeros.
    pub rows: Vec<Row>,
    /// The TLS counters that are not zero.
    pub tls: Vec<TlsRow>,
}

impl Snapshot {
    /// Returns calls and errors of one algorithm and operation; zeros if the file has no such row.
    pub fn of(&self, algorithm: &str, operation: Operation) -> (u64, u64) {
        self.rows
            .iter()
            .find(|row| row.algorithm == algorithm && row.operation == operation.name())
            .map_or((0, 0), |row| (row.calls, row.errors))
    }
}

/// Reads a file of counters, while processes use it or afterwards. The file of another build, which
/// may have served other algorithms, can be read too.
///
/// # Errors
/// The file cannot be read, is not a counters file, or has another version.
pub fn read(path: &Path) -> Result<Snapshot, StatsError> {
    check_path(path)?;
    let file = File::open(path).map_err(|cause| StatsError::Io { path: path.to_owned(), cause })?;
    let content = load(&file, path)?;
    let layout = layout_of(&content, path)?;
    let rows = (0..layout.rows).map(|index| layout.row_at(index)).map(|at| Row {
        algorithm: text(&content, at, ALGORITHM_LEN),
        operation: text(&content, at + ALGORITHM_LEN, OPERATION_LEN),
        calls: word(&content, at + 48),
        errors: word(&content, at + 56),
    });
    let rows = rows.collect();
    let loads = word(&content, std::mem::offset_of!(Header, loads));
    Ok(Snapshot { loads, rows, tls: tls_rows(&content, layout) })
}

/// Returns the TLS counters that are not zero, in the order of programs and columns.
fn tls_rows(content: &[u8], layout: Layout) -> Vec<TlsRow> {
    let mut rows = Vec::new();
    for at in (0..PROGRAMS).map(|index| layout.program_at(index)) {
        let program = text(content, at + 8, PROGRAM_LEN);
        for column in 0..layout.columns {
            let count = word(content, at + COUNTS_AT + 8 * column);
            if count == 0 {
                continue;
            }
            let [name, kind, side] = ColumnText::PARTS
                .map(|part| text(content, layout.column_at(column) + part.start, part.len()));
            let side = Some(side).filter(|side| !side.is_empty());
            rows.push(TlsRow { program: program.clone(), side, kind, name, count });
        }
    }
    rows
}

/// Returns the word at an offset that the layout allows.
fn word(content: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|index| content[at + index]))
}

/// Returns a zero-padded text.
fn text(content: &[u8], at: usize, len: usize) -> String {
    let bytes = &content[at..at + len];
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(len);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Checks the header and the length, which do not depend on the algorithms; returns the layout.
pub(crate) fn layout_of(content: &[u8], path: &Path) -> Result<Layout, StatsError> {
    let foreign = |reason| StatsError::Foreign { path: path.to_owned(), reason };
    let head: &[u8; size_of::<Header>()] =
        content.first_chunk().ok_or_else(|| foreign(OTHER_LENGTH))?;
    if head[..8] != MAGIC {
        return Err(foreign("other magic number"));
    }
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| head[at + byte]));
    let sizes = [size_of::<Counter>(), size_of::<Header>()].map(|size| size as u32);
    if [word(8), word(16), word(20)] != [VERSION, sizes[0], sizes[1]] {
        return Err(foreign("other version of the format"));
    }
    let [rows, columns] = [word(12), word(32)].map(|count| count as usize);
    // Bounded before the layout multiplies them.
    if rows.max(columns) > content.len() || word(36) as usize != PROGRAMS {
        return Err(foreign(OTHER_LENGTH));
    }
    let layout = Layout { rows, columns };
    if layout.len() != content.len() {
        return Err(foreign(OTHER_LENGTH));
    }
    Ok(layout)
}

const OTHER_LENGTH: &str = "other length";
