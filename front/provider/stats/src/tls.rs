//! TLS events by program.
//!
//! Each program has a block of counters, one for each [`Column`]. A program is identified by the
//! file name of its executable, which is determined once, when the file is opened. Blocks are
//! reserved without a lock: the first word of a free block is zero, and is exchanged atomically for
//! a hash of the program's name. All processes search the blocks in the same order, so a program
//! never has two. The last block is for programs that found no free block ([`OTHER`]).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::padded;

/// The number of blocks, including the one of [`OTHER`].
pub const PROGRAMS: usize = 32;

/// The name of the block that programs without one of their own share.
pub const OTHER: &str = "(other)";

/// The maximum length of a program's name in bytes. Longer names are cut.
pub const PROGRAM_LEN: usize = 32;

const NAME_LEN: usize = 40;
const KIND_LEN: usize = 16;
const SIDE_LEN: usize = 8;

/// The kind of a TLS event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The shared secret of a group was computed.
    KeyExchange,
    /// The server's CertificateVerify was signed, or verified by the client.
    ServerSignature,
    /// The client's CertificateVerify was signed, or verified by the server.
    ClientSignature,
    /// A handshake was completed.
    Handshake,
}

impl Kind {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Kind::KeyExchange => "key_exchange",
            Kind::ServerSignature => "server_sig",
            Kind::ClientSignature => "client_sig",
            Kind::Handshake => "handshake",
        }
    }
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Side {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }
}

/// The description of a TLS counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The kind of event.
    pub kind: Kind,
    /// The side that the program was on; `None` if the provider cannot tell.
    pub side: Option<Side>,
    /// The TLS name of the group or signature scheme, or the protocol version.
    pub name: &'static str,
}

impl Column {
    /// Returns the description as it is in the file.
    pub(crate) fn to_bytes(self) -> [u8; size_of::<ColumnText>()] {
        let side = self.side.map_or("", Side::name);
        let parts = [
            &padded::<NAME_LEN>(self.name)[..],
            &padded::<KIND_LEN>(self.kind.name()),
            &padded::<SIDE_LEN>(side),
        ];
        let mut bytes = parts.into_iter().flatten().copied();
        std::array::from_fn(|_| bytes.next().unwrap_or(0))
    }
}

/// The place of a column's description in the file.
#[repr(C, align(64))]
pub(crate) struct ColumnText {
    name: [u8; NAME_LEN],
    kind: [u8; KIND_LEN],
    side: [u8; SIDE_LEN],
}

impl ColumnText {
    pub(crate) const EMPTY: ColumnText =
        ColumnText { name: [0; NAME_LEN], kind: [0; KIND_LEN], side: [0; SIDE_LEN] };
    /// Where name, kind and side are.
    pub(crate) const PARTS: [std::ops::Range<usize>; 3] = [
        0..NAME_LEN,
        NAME_LEN..NAME_LEN + KIND_LEN,
        NAME_LEN + KIND_LEN..NAME_LEN + KIND_LEN + SIDE_LEN,
    ];
}

/// The name of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramName([u8; PROGRAM_LEN]);

impl ProgramName {
    /// Returns the name of this process's program: the file name of its executable. If that cannot
    /// be determined, for example in a chroot without `/proc`, this is the name of the calling
    /// thread.
    pub fn current() -> Self {
        let path = std::env::current_exe().ok();
        let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        match name {
            // Linux adds this if the file was replaced, as upgrades do.
            Some(name) => ProgramName::new(name.strip_suffix(" (deleted)").unwrap_or(&name)),
            None => ProgramName::new(&thread_name()),
        }
    }

    /// Returns a name, cut to [`PROGRAM_LEN`] bytes.
    pub fn new(name: &str) -> Self {
        let ends = name.char_indices().map(|(at, character)| at + character.len_utf8());
        let cut = ends.take_while(|&end| end <= PROGRAM_LEN).last().unwrap_or(0);
        ProgramName(padded(&name[..cut]))
    }

    /// Returns the FNV-1a hash of the name, which is never zero.
    fn key(&self) -> u64 {
        let hash = self.0.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash.max(1)
    }

    fn words(&self) -> [u64; PROGRAM_LEN / 8] {
        std::array::from_fn(|word| {
            u64::from_ne_bytes(std::array::from_fn(|byte| self.0[word * 8 + byte]))
        })
    }
}

/// Returns the name of the calling thread as the system knows it.
fn thread_name() -> String {
    let mut name = [0_u8; 16];
    #[cfg(target_os = "linux")]
    // SAFETY: the call writes at most 16 bytes, including a zero at the end.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr())
    };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    match len {
        0 => "unknown".to_owned(),
        len => String::from_utf8_lossy(&name[..len]).into_owned(),
    }
}

/// The block of a program.
#[repr(C, align(64))]
pub(crate) struct Program<const COLUMNS: usize> {
    /// The hash of the name; zero if the block is free.
    key: AtomicU64,
    name: [AtomicU64; PROGRAM_LEN / 8],
    counts: [AtomicU64; COLUMNS],
}

/// Bytes before a block's counters: key and name.
pub(crate) const COUNTS_AT: usize = 8 + PROGRAM_LEN;

/// Returns the size of a block with a number of columns.
pub(crate) const fn program_len(columns: usize) -> usize {
    (COUNTS_AT + 8 * columns).next_multiple_of(64)
}

impl<const COLUMNS: usize> Program<COLUMNS> {
    pub(crate) const fn free() -> Self {
        Program {
            key: AtomicU64::new(0),
            name: [const { AtomicU64::new(0) }; PROGRAM_LEN / 8],
            counts: [const { AtomicU64::new(0) }; COLUMNS],
        }
    }

    #[inline]
    pub(crate) fn count(&self, column: usize) {
        if let Some(count) = self.counts.get(column) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the name. All processes of a program write the same words, so the name is completed
    /// even if the first process was killed before it wrote it.
    fn write_name(&self, name: &ProgramName) {
        for (place, word) in self.name.iter().zip(name.words()) {
            place.store(word, Ordering::Relaxed);
        }
    }
}

/// Finds the block of a program or reserves a free one; returns its index.
pub(crate) fn claim<const COLUMNS: usize>(
    programs: &[Program<COLUMNS>; PROGRAMS],
    name: &ProgramName,
) -> usize {
    let key = name.key();
    let own = programs[..PROGRAMS - 1].iter().position(|program| {
        match program.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(found) => found == key,
        }
    });
    let (index, name) = match own {
        Some(index) => (index, *name),
        None => (PROGRAMS - 1, ProgramName::new(OTHER)),
    };
    programs[index].write_name(&name);
    index
}
