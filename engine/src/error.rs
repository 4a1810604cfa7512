//! The engine's errors, in three families: invalid input, resource, integrity.

use gabion_backend::Task;
use gabion_scheme::algorithms::{AlgorithmInfo, Family};
use gabion_scheme::{Algorithm, Status};

/// Lanes of a batch at most: with a mebibyte each, more than any of them takes, no array of a batch
/// is longer than an array can be.
const LANES_MAX: usize = isize::MAX as usize >> 20;

/// The source of randomness failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no randomness: {0}")]
pub struct EntropyError(pub String);

/// Maximum length of a request id in bytes.
pub const REQUEST_ID_MAX: usize = 128;

/// The reason why a ledger returns no index, or an index no signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The key is used up, or fewer indexes are left than requested.
    #[error(
        "nothing was signed: {wanted} signatures were requested and {left} are left; a key with none left is used up"
    )]
    Exhausted {
        /// The requested number of indexes.
        wanted: u64,
        /// The remaining number of indexes.
        left: u64,
    },
    /// The reservation exceeds what the key can spare: a crash burns the reserved indexes.
    #[error(
        "nothing was signed: reserving {wanted} of the {left} remaining indexes at once is too many, because a crash burns them; \
         expected at most {most}"
    )]
    Reserve {
        /// The requested size of the reservation.
        wanted: u64,
        /// The remaining number of indexes.
        left: u64,
        /// The maximum size of the reservation.
        most: u64,
    },
    /// The state may not be the newest one, or not this process's: signing could use an index
    /// twice.
    #[error("the state is not safe to sign with, and nothing was signed: {0}")]
    Unsafe(
        /// The reason.
        String,
    ),
    /// Another process signs with the key.
    #[error("the key is in use by {0}")]
    Held(
        /// The holder, as far as known.
        String,
    ),
    /// The files of a key cannot be created at their place.
    #[error("the key can't be made there: {0}")]
    Place(
        /// The reason.
        String,
    ),
    /// The state cannot be read or written. No index or signature was released.
    #[error("the state of the key: {0}")]
    Unavailable(
        /// The failed operation.
        String,
    ),
    /// A request id that was used for another message.
    #[error("the request id `{0}` was used for another message")]
    RequestConflict(
        /// The id.
        String,
    ),
    /// A request id that is already recorded; the signer then retrieves its signature.
    #[error("the request id `{0}` is already recorded")]
    RequestKnown(
        /// The id.
        String,
    ),
    /// A malformed request id.
    #[error("a request id has 1 to {REQUEST_ID_MAX} printable characters of ASCII")]
    RequestId,
}

/// The error of an operation. Messages contain no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid input: a key, a length, a context.
    #[error(transparent)]
    Input(gabion_scheme::Error),
    /// Invalid input: the algorithm does not support the operation.
    #[error("{algorithm} can't {operation}; expected {expected}")]
    WrongAlgorithm {
        /// The algorithm.
        algorithm: Algorithm,
        /// The requested operation.
        operation: &'static str,
        /// The algorithms that support it.
        expected: &'static str,
    },
    /// Invalid input: this build omits the algorithm.
    #[error("{0} is not in this build; build with the feature `{feature}`", feature = .0.info().family.feature())]
    NotBuilt(Algorithm),
    /// Invalid input: the lane was rejected.
    #[error("{algorithm} {task} was refused: {status:?}")]
    Lane {
        /// The algorithm.
        algorithm: Algorithm,
        /// The requested task.
        task: Task,
        /// The status of the lane.
        status: Status,
    },
    /// Invalid input: the structure of a key file does not match the algorithm, or its parts do not
    /// match each other.
    #[error("{0}")]
    KeyFile(String),
    /// Invalid input: the bytes exceed the maximum length of the standard.
    #[error("{what} has {got} bytes; at most {most} are possible")]
    TooLong {
        /// The kind of data.
        what: &'static str,
        /// The maximum length.
        most: usize,
        /// The actual length.
        got: usize,
    },
    /// Invalid input: the batch is larger than any memory.
    #[error("a batch of {lanes} lanes; at most {LANES_MAX} are possible")]
    TooMany {
        /// The number of lanes.
        lanes: usize,
    },
    /// The signature does not verify.
    #[error("the signature does not verify")]
    BadSignature,
    /// Resource: the system provided no memory, or no stack. This is not remembered: the same
    /// operation succeeds when memory is available.
    #[error("the system gave no memory for {0}; try again later")]
    NoMemory(
        /// The purpose of the memory.
        &'static str,
    ),
    /// Resource: no randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// Invalid input: `GABION_BACKEND` names a backend that this machine does not have.
    #[error("no backend `{wanted}` on this machine; there are: {available}")]
    NoSuchBackend {
        /// The requested name.
        wanted: String,
        /// The available names.
        available: String,
    },
    /// Resource: `GABION_BACKEND` names a device, but no device is usable.
    #[error("backend `{wanted}`: {why}; unset GABION_BACKEND to continue without it")]
    NoDevice {
        /// The requested name.
        wanted: String,
        /// The reason.
        why: String,
    },
    /// Resource: the queue has reached its limit. Try again later, or run the operation without the
    /// queue.
    #[error("the queue is full; try again later, or call the engine directly")]
    Busy,
    /// Resource: the queue was shut down, or belongs to the process that forked this one.
    #[error("the queue is closed, or its workers belong to another process; make a new one")]
    Closed,
    /// Resource: no backend is available. Each candidate declined or lost the batch, or is
    /// quarantined after losing another one. No output was produced.
    #[error("no backend takes {algorithm} {task} for now; try again later")]
    BackendUnavailable {
        /// The algorithm.
        algorithm: Algorithm,
        /// The requested task.
        task: Task,
    },
    /// A stateful key returns no index or no signature.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Integrity: the job was not completed. This is a defect; please report it.
    #[error("the job was lost, or its result was already fetched")]
    Lost,
    /// Integrity: the halves of a key pair do not match.
    #[error("the {0} key pair failed its pairwise test")]
    Pairwise(Algorithm),
    /// Integrity: every backend returned a wrong answer for this algorithm.
    #[error("every backend failed its self-test for {0}; nothing can be trusted to run it")]
    NoBackend(Algorithm),
    /// Integrity: a backend panicked and no other could take over. This is a defect; please report
    /// it.
    #[error("a backend panicked in {algorithm} {task} and no other could take over; report it")]
    Panicked {
        /// The algorithm.
        algorithm: Algorithm,
        /// The requested task.
        task: Task,
    },
}

impl From<gabion_scheme::Error> for Error {
    fn from(error: gabion_scheme::Error) -> Self {
        match error {
            gabion_scheme::Error::NoMemory(what) => Error::NoMemory(what),
            error => Error::Input(error),
        }
    }
}

/// Returns the error for an algorithm that its family does not implement.
pub(crate) fn unknown(algorithm: Algorithm) -> Error {
    Error::WrongAlgorithm {
        algorithm,
        operation: "be run by this engine",
        expected: "an algorithm of the family that the table says",
    }
}

/// Returns the error for an algorithm whose private keys have no seed form.
pub(crate) fn missing_seed(algorithm: Algorithm) -> Error {
    Error::WrongAlgorithm {
        algorithm,
        operation: "make a key of a seed",
        expected: "an algorithm whose private keys have a seed form",
    }
}

/// Returns the error for an algorithm of the wrong kind, or one that this build omits.
pub(crate) fn wrong_kind(
    algorithm: Algorithm,
    operation: &'static str,
    expected: &'static str,
) -> Error {
    check_built(algorithm).err().unwrap_or(Error::WrongAlgorithm { algorithm, operation, expected })
}

/// Refuses an algorithm whose code was left out of this build.
pub(crate) fn check_built(algorithm: Algorithm) -> Result<(), Error> {
    if algorithm.info().family.is_built() { Ok(()) } else { Err(Error::NotBuilt(algorithm)) }
}

/// Returns the error for a public key that fails a check.
pub(crate) fn public_key(algorithm: Algorithm, reason: &'static str) -> Error {
    Error::Input(gabion_scheme::Error::PublicKey { algorithm: algorithm.name(), reason })
}

/// Returns the error for a private key that fails a check.
pub(crate) fn private_key(algorithm: Algorithm, reason: &'static str) -> Error {
    Error::Input(gabion_scheme::Error::PrivateKey { algorithm: algorithm.name(), reason })
}

/// Returns the table row of the algorithm of all keys in a batch; `None` if there are no keys.
pub(crate) fn check_batch(
    lanes: usize,
    mut algorithms: impl Iterator<Item = Algorithm>,
) -> Result<Option<&'static AlgorithmInfo>, Error> {
    let Some(first) = algorithms.next() else { return Ok(None) };
    if algorithms.any(|other| other != first) {
        return Err(Error::Input(gabion_scheme::Error::Batch { lanes }));
    }
    Ok(Some(first.info()))
}

/// Refuses a number of lanes too large for any array. A smaller number may still need more memory
/// than is available.
pub(crate) fn check_count(lanes: usize) -> Result<(), Error> {
    if lanes > LANES_MAX { Err(Error::TooMany { lanes }) } else { Ok(()) }
}

/// Returns the keys if there are as many as requested, else an error.
pub(crate) fn all_keys<K>(algorithm: Algorithm, n: usize, keys: Vec<K>) -> Result<Vec<K>, Error> {
    match keys.len() == n {
        true => Ok(keys),
        false => Err(Error::Lane { algorithm, task: Task::Keygen, status: Status::Fault }),
    }
}

/// Converts the status of a single lane to a result.
pub(crate) fn lane_result(algorithm: Algorithm, task: Task, status: Status) -> Result<(), Error> {
    if status.is_ok() { Ok(()) } else { Err(lane_error(algorithm, task, status)) }
}

/// Refuses a byte string whose length is not the standard's.
pub(crate) fn check_length(what: &'static str, expected: usize, bytes: &[u8]) -> Result<(), Error> {
    Ok(gabion_scheme::Error::check_length(what, expected, bytes)?)
}

/// Converts a byte string to an array of the length that the standard prescribes.
pub(crate) fn exact<'a, const N: usize>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [u8; N], Error> {
    bytes.try_into().map_err(|_| {
        Error::Input(gabion_scheme::Error::Length { what, expected: N, got: bytes.len() })
    })
}

/// Refuses a private key whose seed and expanded form do not belong together.
pub(crate) fn same_key(algorithm: Algorithm, made: &[u8], given: &[u8]) -> Result<(), Error> {
    check_length("the expanded private key", made.len(), given)?;
    if gabion_scheme::ct::eq_mask(made, given) == u64::MAX {
        return Ok(());
    }
    Err(Error::Input(gabion_scheme::Error::PrivateKey {
        algorithm: algorithm.name(),
        reason: "the seed and the expanded key do not belong together",
    }))
}

/// Returns the error for a failed lane.
pub(crate) fn lane_error(algorithm: Algorithm, task: Task, status: Status) -> Error {
    let name = algorithm.name();
    match status {
        Status::InvalidSignature => Error::BadSignature,
        Status::NoMemory => Error::NoMemory("the operation"),
        Status::InvalidKey => match task {
            Task::DecodePublic | Task::Encaps | Task::Verify => {
                let reason = public_reason(algorithm.info().family);
                Error::Input(gabion_scheme::Error::PublicKey { algorithm: name, reason })
            }
            Task::Keygen | Task::DecodePrivate | Task::Decaps | Task::Derive | Task::Sign => {
                let reason = private_reason(algorithm.info().family);
                Error::Input(gabion_scheme::Error::PrivateKey { algorithm: name, reason })
            }
        },
        _ => Error::Lane { algorithm, task, status },
    }
}

/// Returns why a public key of a family is rejected, as far as the status of the lane tells.
fn public_reason(family: Family) -> &'static str {
    match family {
        Family::MlKem => "a coefficient is out of range (FIPS 203, section 7.2)",
        Family::MlDsa
        | Family::SlhDsa
        | Family::Ed25519
        | Family::FnDsa
        | Family::Hss
        | Family::Xmss
        | Family::Ecdh
        | Family::Ecdsa
        | Family::Hybrid
        | Family::Composite => "a component is invalid for this algorithm",
    }
}

/// Returns why a private key of a family is rejected, as far as the status of the lane tells.
fn private_reason(family: Family) -> &'static str {
    match family {
        Family::MlKem => {
            "a coefficient is out of range or its hash is wrong (FIPS 203, section 7.3)"
        }
        Family::MlDsa => {
            "its parts are out of range or do not belong together (FIPS 204, Algorithm 25)"
        }
        Family::SlhDsa => "its root is not that of its seeds (FIPS 205, Algorithm 18)",
        Family::Ed25519
        | Family::FnDsa
        | Family::Hss
        | Family::Xmss
        | Family::Ecdh
        | Family::Ecdsa
        | Family::Hybrid
        | Family::Composite => "its parts are out of range or do not belong together",
    }
}
