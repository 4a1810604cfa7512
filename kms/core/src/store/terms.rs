//! The identity and the capabilities of stores, and their errors.

/// The format of stores that this program writes. Format 1 has no
/// [manifest](crate::seal::AuthenticatedStore).
pub const FORMAT: u64 = 2;

/// The number of committed transactions. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// The durability of a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Lost with the process.
    Volatile,
    /// Synced to one disk.
    SyncedSingle,
    /// Synced by a majority of several machines.
    Quorum,
}

/// The capabilities of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The durability of a committed transaction.
    pub durability: Durability,
    /// The maximum size of a value in bytes.
    pub value_max: usize,
    /// The maximum number of guards and writes of a transaction, together.
    pub steps_max: usize,
}

/// The identity of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// A random id, which the store's backups share.
    pub id: [u8; 16],
    /// The number of times that the store was restored from a backup.
    pub incarnation: u64,
}

/// An error of a store. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The path is invalid.
    #[error(
        "invalid record path `{0}`: expected segments of 0-9 A-Z a-z _ . + - separated by /, at most 512 bytes"
    )]
    Path(
        /// The given text.
        String,
    ),
    /// The transaction is malformed.
    #[error("malformed transaction: {0}")]
    Malformed(
        /// The reason.
        &'static str,
    ),
    /// The request exceeds a limit of the store.
    #[error("too large: {got} {what}; the limit is {most}")]
    TooLarge {
        /// The items that are counted.
        what: &'static str,
        /// The limit.
        most: usize,
        /// The number in the request.
        got: usize,
    },
    /// The record is a tombstone and cannot be written.
    #[error("record `{0}` was destroyed and cannot be restored")]
    Buried(
        /// The record's path.
        String,
    ),
    /// The disk or the store is full. Reading still works.
    #[error("the store is full")]
    Full,
    /// The store is unavailable, or failed earlier. Retry later, or open it again.
    #[error("the store is unavailable: {0}")]
    Unavailable(
        /// The operation that failed, and why.
        String,
    ),
    /// The store's file, or one next to it, cannot be opened or created.
    #[error("cannot access the store: {0}")]
    Inaccessible(
        /// The file, and the reason.
        String,
    ),
    /// A file or folder of the backups cannot be read or written. The store itself still works.
    #[error("cannot read or write backups: {0}")]
    Backups(
        /// The file, and the reason.
        String,
    ),
    /// Another process has the store open.
    #[error("the store is in use by another process ({0})")]
    Held(
        /// The path of the lock file.
        String,
    ),
    /// The file is missing or is not a store.
    #[error("not a store: {0}")]
    NotAStore(
        /// The file, and the reason.
        String,
    ),
    /// The file already exists.
    #[error("`{0}` already exists")]
    Exists(
        /// The path.
        String,
    ),
    /// A newer program wrote the store.
    #[error(
        "the store has format {wanted}, and this program can only {what} formats up to {has}; use a newer program"
    )]
    TooOld {
        /// The operation that this program cannot do: `read` or `write`.
        what: &'static str,
        /// The format that the operation requires.
        wanted: u64,
        /// The newest format that this program supports.
        has: u64,
    },
    /// The store is damaged.
    #[error("the store is damaged: {0}; restore a backup")]
    Corrupt(
        /// The problem that was found.
        String,
    ),
    /// The file contains something that this program did not write.
    #[error("the store was changed by another program: {0}; restore a backup")]
    Foreign(
        /// The problem that was found.
        String,
    ),
    /// One record is damaged. Other records are not affected.
    #[error("the record `{0}` is damaged; restore a backup")]
    Damaged(
        /// The record's path.
        String,
    ),
    /// Too many records were replaced while a backup was being made. The store itself still works.
    #[error(
        "the backup failed: {} MiB of the store changed before they were written; the backup disk is slower than the changes",
        most >> 20
    )]
    Outrun {
        /// The number of bytes that are kept for a backup.
        most: usize,
    },
    /// A backup, or the key of a period, is damaged or malformed.
    #[error("cannot read {at}: {reason}")]
    Backup {
        /// The file.
        at: String,
        /// The problem that was found.
        reason: String,
    },
    /// The key of the backup's period is missing.
    #[error(
        "the backup is sealed by the key of period {period}, which is not in {folder}: it was destroyed, or is kept elsewhere (give its folder with --backup-key)"
    )]
    NoPeriod {
        /// The period.
        period: String,
        /// The folder in which the key was searched.
        folder: String,
    },
    /// The store was opened before this process was forked.
    #[error("the store belongs to the process that forked this one; open it again in this process")]
    Forked,
}
