//! Which store it is, what it can do, and why it did nothing.

/// The format of stores that this program writes. Format 1 has no [manifest](crate::seal::AuthenticatedStore).
pub const FORMAT: u64 = 2;

/// How many transactions were committed: it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// What is left of a committed transaction when things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing outlives the process.
    Volatile,
    /// It is on one disk, synced.
    SyncedSingle,
    /// Most of several machines have it, synced.
    Quorum,
}

/// What a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// What is left of a committed transaction.
    pub durability: Durability,
    /// Most bytes of a value.
    pub value_max: usize,
    /// Most guards and writes of a transaction, together.
    pub steps_max: usize,
}

/// Which store it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Drawn when it was created; its backups have it too.
    pub id: [u8; 16],
    /// How often it was restored of a backup.
    pub incarnation: u64,
}

/// Why a store did nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A path that can't be one.
    #[error(
        "`{0}` is no path; expected segments of 0-9 A-Z a-z _ . + - with / between them, 512 bytes at most"
    )]
    Path(
        /// What was given.
        String,
    ),
    /// A transaction that makes no sense.
    #[error("the transaction can't be run: {0}")]
    Malformed(
        /// Why not.
        &'static str,
    ),
    /// More than the store takes.
    #[error("{got} {what}; at most {most} are possible")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        most: usize,
        /// How much came.
        got: usize,
    },
    /// A write to a record that is buried.
    #[error("the record `{0}` is buried, for good")]
    Buried(
        /// The record.
        String,
    ),
    /// There is no room. Nothing was written; reading goes on.
    #[error("the store is full")]
    Full,
    /// It does not answer, or broke before. Try again later, or open it again.
    #[error("the store does not answer: {0}")]
    Unavailable(
        /// What failed.
        String,
    ),
    /// Its file, or one beside it, cannot be opened or made.
    #[error("cannot access the store: {0}")]
    Inaccessible(
        /// Which file, and why.
        String,
    ),
    /// A file or folder of the backups cannot be read or written. The store goes on.
    #[error("cannot read or write backups: {0}")]
    Backups(
        /// Which file, and why.
        String,
    ),
    /// Another process has it open.
    #[error("the store is in use by another process ({0})")]
    Held(
        /// Its lock.
        String,
    ),
    /// There is none, or something else.
    #[error("no store: {0}")]
    NotAStore(
        /// What was found.
        String,
    ),
    /// There is one already.
    #[error("`{0}` exists")]
    Exists(
        /// What does.
        String,
    ),
    /// A newer program wrote it.
    #[error(
        "the store wants a program of format {wanted} to {what} it; this one is of format {has}"
    )]
    TooOld {
        /// What this program can't do.
        what: &'static str,
        /// The format that it takes.
        wanted: u64,
        /// This program's.
        has: u64,
    },
    /// What is kept was damaged.
    #[error("the store is damaged: {0}; restore a backup")]
    Corrupt(
        /// What was found.
        String,
    ),
    /// The file has what this program did not write.
    #[error("the store was changed by another program: {0}; restore a backup")]
    Foreign(
        /// What was found.
        String,
    ),
    /// One record was damaged. The others are as they were.
    #[error("the record `{0}` is damaged; restore a backup")]
    Damaged(
        /// Which.
        String,
    ),
    /// More of the store was replaced than is kept for a backup that is being made. The store goes on.
    #[error(
        "the backup was given up: {} MiB of the store changed before they were written; the disk of backups is slower than the store changes",
        most >> 20
    )]
    Outrun {
        /// Bytes that are kept.
        most: usize,
    },
    /// A backup, or the key of a period, that is not what was written.
    #[error("{at} can't be read: {reason}")]
    Backup {
        /// Which file.
        at: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key of a backup's period is not there.
    #[error(
        "the backup is sealed by the key of the period {period}, which is not in {folder}: it was destroyed, or is kept elsewhere (--backup-key)"
    )]
    NoPeriod {
        /// The period.
        period: String,
        /// Where its key was looked for.
        folder: String,
    },
    /// It belongs to the process that forked this one.
    #[error("the store belongs to the process that forked this one; open it here again")]
    Forked,
}
