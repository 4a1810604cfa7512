//! Error types of the crate, and the machine-readable error codes that clients see.

use gabion_engine::{Error as EngineError, Status};

use crate::store::StoreError;

/// Defines [`Code`] from one list of variant, text, and whether a retry may succeed.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $text:literal $again:literal;)*) => {
        /// A machine-readable error code. The list is closed and the texts never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Code] = &[$(Code::$code,)*];

            /// Returns the code's text, such as `key_disabled`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$code => $text,)*
                }
            }

            /// Returns whether repeating the same request later may succeed.
            pub fn is_retryable(self) -> bool {
                match self {
                    $(Code::$code => $again,)*
                }
            }
        }
    };
}

codes! {
    /// A malformed name, id or parameter.
    BadRequest "bad_request" false;
    /// The caller could not be authenticated.
    Unauthenticated "unauthenticated" false;
    /// The caller is not allowed to do this.
    Denied "denied" false;
    /// A signature, tag, ciphertext or token that is malformed for this algorithm.
    Malformed "malformed" false;
    /// The key or version does not exist, or the caller may not see it.
    NotFound "not_found" false;
    /// The name is already in use.
    Exists "exists" false;
    /// The key was changed concurrently.
    Conflict "conflict" true;
    /// The `op_id` was already used for a different request.
    OpIdReused "op_id_reused" false;
    /// The change of this `op_id` was already made. Its secret response is returned only once.
    OpIdDone "op_id_done" false;
    /// The key does not support the operation.
    Unsupported "unsupported" false;
    /// The key's minimum version excludes this version.
    VersionNotAllowed "version_not_allowed" false;
    /// The version is disabled.
    VersionDisabled "version_disabled" false;
    /// The version was trimmed or destroyed.
    VersionDestroyed "version_destroyed" false;
    /// The key is deleted. It can be restored.
    KeyDeleted "key_deleted" false;
    /// The key was destroyed.
    KeyDestroyed "key_destroyed" false;
    /// The key has expired: it no longer signs, encrypts, encapsulates or makes tags.
    KeyExpired "key_expired" false;
    /// The version reached the encryption limit of random nonces.
    VersionExhausted "version_exhausted" false;
    /// The private key is not exportable.
    NotExportable "not_exportable" false;
    /// The key signs and verifies only by `mu`, but the request has a message or a digest.
    MuRequired "mu_required" false;
    /// The key signs only JSON Web Tokens, but the request asks for another signature.
    JwtRequired "jwt_required" false;
    /// Decryption failed: the ciphertext, the associated data or the key does not match.
    DecryptFailed "decrypt_failed" false;
    /// The request exceeds a size limit.
    TooLarge "too_large" false;
    /// The store is unavailable or full.
    StoreUnavailable "store_unavailable" true;
    /// The folder of the backups or of their keys cannot be read or written.
    BackupFailed "backup_failed" true;
    /// The store failed while committing a change, which may or may not have been applied.
    OutcomeUnknown "outcome_unknown" false;
    /// The service is sealed.
    Sealed "sealed" true;
    /// The audit log cannot be written. Operations that must be logged are refused.
    AuditUnwritable "audit_unwritable" true;
    /// The passphrase or the shares do not open the seal.
    UnsealFailed "unseal_failed" false;
    /// Stored data was damaged or replaced.
    IntegrityFailed "integrity_failed" false;
    /// Memory, randomness or a backend is unavailable, or the queue is full.
    Busy "busy" true;
    /// The tenant's quota is used up for now.
    QuotaExceeded "quota_exceeded" true;
    /// A bug, or a broken machine.
    Internal "internal" false;
}

impl std::str::FromStr for Code {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(())
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The reason why a caller was not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationError {
    /// The token is malformed, or no live root key of this service made it. The error does not say
    /// which.
    #[error("invalid token: it is malformed or no root key of this service made it")]
    Invalid,
    /// The token is revoked.
    #[error("the token is revoked")]
    Revoked,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// A `cidr` caveat excludes the client's address.
    #[error("the token may not be used from this address")]
    Address,
    /// A `cnf` caveat binds the token to another client certificate.
    #[error("the token belongs to another client certificate")]
    Certificate,
}

/// The reason why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DenialReason {
    /// The token was revoked after authentication.
    #[error("the token is revoked")]
    Revoked,
    /// The token expired after authentication.
    #[error("the token has expired")]
    Expired,
    /// The token is limited to a tenant, and the request is for another tenant or for none.
    #[error("the token is for another tenant")]
    Tenant,
    /// The token is limited to a key prefix, and the request is for another key or for none.
    #[error("the token is for other keys")]
    Key,
    /// The token does not allow the action.
    #[error("the token does not allow `{0}`")]
    Action(
        /// The action's name.
        &'static str,
    ),
    /// The request has more items than the token allows.
    #[error("the token limits batches to {0} items")]
    Batch(
        /// The limit.
        u32,
    ),
    /// The request is for administration, and the token is not bound to a client certificate.
    #[error("administration needs a token that is bound to a client certificate (cnf)")]
    NeedsCertificate,
    /// No policy exists. Without one, a client certificate allows nothing.
    #[error("no policy exists, and without one a client certificate allows nothing")]
    NoPolicy,
    /// The policies do not allow the request.
    #[error("the policies do not allow this request")]
    Policy,
    /// The policies do not allow the request, and they do not allow the caller to see the key.
    #[error("the policies allow neither this request nor reading the key")]
    Unseen,
    /// The policies could not be evaluated. The request is denied.
    #[error("the policies cannot be evaluated, so the request is denied")]
    Undecided,
}

/// An error of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Writing failed. The log refuses all further records until it is opened again.
    #[error("cannot write the audit log: {0}")]
    Unwritable(
        /// The operation that failed, and why.
        String,
    ),
    /// The disk has no room for another segment, and the current one has only its reserve left.
    #[error("the audit log's disk is full: only the log's reserve is left; free up space on it")]
    Full,
    /// The log's file was deleted, or another file has its name.
    #[error("the audit log's file `{0}` was deleted or replaced")]
    Replaced(
        /// The file's path.
        String,
    ),
    /// Another process has the log open.
    #[error("the audit log is in use by another process ({0})")]
    Held(
        /// The path of the lock file.
        String,
    ),
    /// The log was opened before this process was forked.
    #[error("the audit log belongs to the process that forked this one")]
    Forked,
    /// The log's content is invalid.
    #[error("the audit log is damaged at {at}: {reason}")]
    Damaged {
        /// The file and the position in it.
        at: String,
        /// The problem that was found there.
        reason: String,
    },
    /// The records do not fit into a segment.
    #[error("{0} bytes of records do not fit into a segment of the audit log")]
    TooLarge(
        /// Their total size in bytes.
        usize,
    ),
    /// The record does not exist, or no checkpoint includes it yet.
    #[error("the audit log has no record {0}")]
    NoRecord(
        /// The record's index.
        u64,
    ),
    /// Writing the archive failed. The log itself still works.
    #[error("cannot write the archive of the audit log: {0}")]
    Archive(
        /// The operation that failed, and why.
        String,
    ),
    /// The record's segment was moved to the archive.
    #[error(
        "record {0} of the audit log is in its archive; read it with `gabion kms audit verify`"
    )]
    Archived(
        /// The record's index.
        u64,
    ),
    /// A log in memory no longer has the record.
    #[error("the audit log is in memory and keeps only its newest records: record {0} was dropped")]
    Forgotten(
        /// The record's index.
        u64,
    ),
    /// The store is older than the log, and the records that it has to read are in the archive.
    #[error(
        "the store is older than its audit log: it needs the records from {from} on, and those before {before} are in the archive; copy these segments back, the newest first, because they say which keys were destroyed"
    )]
    NeedsArchive {
        /// The index of the first record that the store does not know.
        from: u64,
        /// The index of the first record that is not in the archive.
        before: u64,
    },
    /// The origin or a signer's key is invalid.
    #[error("{0}")]
    Parameter(
        /// The reason.
        &'static str,
    ),
    /// An error of the engine.
    #[error(transparent)]
    Engine(EngineError),
}

/// An error about unseal shares.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The text is not a share.
    #[error("invalid share; expected gbs1-SET-THRESHOLD-INDEX-SHARE-CHECKSUM")]
    Form,
    /// The share's checksum does not match.
    #[error("the share's checksum does not match; check it for typing errors")]
    Checksum,
    /// The shares belong to different sets.
    #[error("share {index} belongs to set {found}; expected a share of set {wanted}")]
    OtherSet {
        /// The share's index.
        index: u8,
        /// The share's set.
        found: String,
        /// The expected set.
        wanted: String,
    },
    /// There are fewer distinct shares than the threshold.
    #[error("{got} different shares given; {needed} are needed")]
    TooFew {
        /// The number of distinct shares.
        got: usize,
        /// The threshold.
        needed: u8,
    },
    /// The share is wrapped for its holder, and an unwrapped share is expected.
    #[error(
        "the share is wrapped for its holder; unwrap it with `gabion kms share open --key PRIVATE`"
    )]
    Wrapped,
    /// The share is not wrapped, and a wrapped share is expected.
    #[error("the share is not wrapped; give it to `gabion kms unseal` as it is")]
    NotWrapped,
    /// The text is not a wrapped share.
    #[error(
        "invalid wrapped share; expected the complete gbw1-SET-THRESHOLD-INDEX-WRAPPED-CHECKSUM"
    )]
    WrappedForm,
    /// The share was wrapped for another key.
    #[error("cannot unwrap share {index} of set {set}: it was wrapped for another key")]
    OtherHolder {
        /// The share's index.
        index: u8,
        /// The share's set.
        set: String,
    },
}

/// The reason why the seal cannot be created or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The store has no seal.
    #[error("the store has no seal; create one with `gabion kms init`")]
    None,
    /// The store already has a seal.
    #[error("the store already has a seal")]
    Exists,
    /// An invalid share, or shares that do not belong together.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The passphrase is wrong.
    #[error("the passphrase does not open the seal")]
    Passphrase,
    /// The seal has no passphrase slot.
    #[error("the seal has no passphrase; unseal with shares")]
    NoPassphrase,
    /// The shares are of one set, but do not open the seal.
    #[error("the shares belong together, but do not open this seal")]
    Shares,
    /// Invalid numbers of shares or costs of the passphrase.
    #[error("{0}")]
    Parameter(
        /// The reason.
        &'static str,
    ),
    /// The store's seal configuration is invalid.
    #[error("the store's seal configuration is invalid: {0}")]
    Damaged(
        /// The problem that was found.
        String,
    ),
    /// A newer program wrote the seal's configuration.
    #[error(
        "the seal has format {wanted}, and this program reads formats up to {has}; use a newer program"
    )]
    TooOld {
        /// The format of the configuration.
        wanted: u32,
        /// The newest format that this program reads.
        has: u32,
    },
    /// The seal was opened before this process was forked.
    #[error("the seal belongs to the process that forked this one; open it again in this process")]
    Forked,
    /// Memory or randomness is unavailable.
    #[error("{0}")]
    Resource(
        /// The resource that is unavailable.
        String,
    ),
}

/// An error of the crate. Messages contain no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid name.
    #[error("invalid {what} `{text}`: expected {expected}")]
    Name {
        /// The kind of name.
        what: &'static str,
        /// The given text.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
    /// An invalid key id.
    #[error(
        "invalid key id `{0}`: expected tenant/purpose/algorithm/uuid, followed by #vN for a version"
    )]
    KeyId(
        /// The given text.
        String,
    ),
    /// An invalid parameter.
    #[error("{0}")]
    Parameter(
        /// The reason.
        String,
    ),
    /// The tenant's quota is used up for now.
    #[error("the tenant's quota is used up; retry in {retry_after_s} s")]
    Quota {
        /// The number of seconds until the quota has room again.
        retry_after_s: u64,
    },
    /// The service was sealed after the request was admitted.
    #[error("the service was sealed while the request was running")]
    Sealed,
    /// The queue of waiting operations is full.
    #[error("too many operations are waiting; retry later")]
    Queue,
    /// The set of policies does not exist.
    #[error("policy set `{0}` not found")]
    NoPolicies(
        /// The set's name.
        String,
    ),
    /// The key does not exist, or the caller may not see it.
    #[error("key `{0}` not found")]
    NoKey(
        /// The key's name or id.
        String,
    ),
    /// The version does not exist.
    #[error("the key has no version {version}; its newest is {latest}")]
    NoVersion {
        /// The requested version.
        version: u32,
        /// The newest version.
        latest: u32,
    },
    /// The tenant already has a key with this public key or symmetric key.
    #[error("the tenant already has a key with this key material{}; use that one, or a new key", .0.as_ref().map(|id| format!(": `{id}`")).unwrap_or_default())]
    Duplicate(
        /// The id of the version that has it; `None` if the caller may not see that version.
        Option<String>,
    ),
    /// The name is already in use.
    #[error("a key named `{0}` already exists")]
    Exists(
        /// The name.
        String,
    ),
    /// The key was changed concurrently.
    #[error("the key was changed concurrently; read it and try again")]
    Conflict,
    /// The `op_id` was already used for a different request.
    #[error("this op_id was already used for a different request; use a new one")]
    OpReused,
    /// An older program used the `op_id` and bound it to a principal's name instead of a
    /// credential.
    #[error(
        "this op_id was used before the service was upgraded, and the store does not say by which credential; check whether the \
         change was made, and use a new op_id"
    )]
    OpOfName,
    /// The change of this `op_id` was already made, and its response is secret.
    #[error(
        "the change of this op_id was already made: `{made}`; its secret response is returned only once"
    )]
    OpDone {
        /// The id of the token that the change made.
        made: String,
    },
    /// The change of this `op_id` is still running.
    #[error("the change of this op_id is still running; retry later")]
    OpRunning,
    /// The key's minimum version excludes this version.
    #[error("version {version} may not {what}; the oldest version that may is {oldest}")]
    NotAllowed {
        /// The version.
        version: u32,
        /// The operation.
        what: &'static str,
        /// The oldest version that allows the operation.
        oldest: u32,
    },
    /// The version is disabled.
    #[error("version {0} is disabled")]
    Disabled(
        /// The version.
        u32,
    ),
    /// The version was trimmed or destroyed.
    #[error("version {0} was destroyed")]
    VersionDestroyed(
        /// The version.
        u32,
    ),
    /// The key is deleted. It can be restored.
    #[error("the key is deleted; restore it to use it")]
    Deleted,
    /// The key was destroyed and cannot be restored.
    #[error("the key was destroyed")]
    Destroyed,
    /// The key has expired.
    #[error("the key has expired: it still verifies and decrypts, but does not sign or encrypt")]
    Expired,
    /// The version reached the encryption limit of random nonces.
    #[error("version {0} has encrypted as often as random nonces allow; rotate the key")]
    Exhausted(
        /// The version.
        u32,
    ),
    /// The private key is not exportable.
    #[error("the key is not exportable")]
    NotExportable,
    /// The key signs and verifies only by `mu`.
    #[error(
        "the key requires `mu`: compute it with the version's public key and send it in place of the message"
    )]
    MuRequired,
    /// The key signs only JSON Web Tokens.
    #[error(
        "the key has `jwt_max_lifetime_s` and signs JSON Web Tokens only: a signature of other bytes could be a token that lives longer"
    )]
    JwtRequired,
    /// The text is not a valid JSON Web Token.
    #[error("malformed JSON Web Token: {0}")]
    MalformedToken(
        /// The reason.
        &'static str,
    ),
    /// Decryption failed. The error does not say whether the ciphertext, the associated data or the
    /// key was wrong.
    #[error("decryption failed")]
    DecryptFailed,
    /// The key does not support the operation.
    #[error("{0}")]
    Unsupported(
        /// The operation, and why the key does not support it.
        String,
    ),
    /// The request exceeds a size limit.
    #[error("too large: {got} {what}; the limit is {most}")]
    TooLarge {
        /// The items that are counted.
        what: &'static str,
        /// The limit.
        most: usize,
        /// The number in the request.
        got: usize,
    },
    /// The algorithm needs the whole message in memory, and the message is longer than the limit.
    #[error("{algorithm} needs the whole message in memory, so it is limited to {most} bytes")]
    Whole {
        /// The algorithm.
        algorithm: &'static str,
        /// The maximum number of bytes.
        most: usize,
        /// Whether a digest of the message can be signed instead.
        by_digest: bool,
    },
    /// A signature, tag or ciphertext whose length is wrong for the algorithm.
    #[error("the length is wrong for {0}")]
    Malformed(
        /// The algorithm.
        &'static str,
    ),
    /// The store failed while committing. The change may or may not have been applied.
    #[error(
        "outcome unknown: the store failed while committing; read the key to see whether the change was applied"
    )]
    OutcomeUnknown,
    /// Stored data was damaged or replaced.
    #[error("the store's record `{path}` is damaged or was replaced: {reason}")]
    Integrity {
        /// The record's path.
        path: String,
        /// The problem that was found.
        reason: String,
    },
    /// The caller could not be authenticated.
    #[error(transparent)]
    Unauthenticated(#[from] AuthenticationError),
    /// The request was denied.
    #[error(transparent)]
    Denied(#[from] DenialReason),
    /// An error of the audit log.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// An error of the seal.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Error {
    /// Returns the machine-readable code.
    pub fn code(&self) -> Code {
        match self {
            Error::Name { .. } | Error::KeyId(_) | Error::Parameter(_) => Code::BadRequest,
            Error::NoKey(_) | Error::NoPolicies(_) | Error::NoVersion { .. } => Code::NotFound,
            Error::Exists(_) | Error::Duplicate(_) => Code::Exists,
            Error::Quota { .. } => Code::QuotaExceeded,
            Error::Queue => Code::Busy,
            Error::Sealed => Code::Sealed,
            Error::Conflict => Code::Conflict,
            Error::OpReused | Error::OpOfName => Code::OpIdReused,
            Error::OpDone { .. } => Code::OpIdDone,
            Error::OpRunning => Code::Busy,
            Error::NotAllowed { .. } => Code::VersionNotAllowed,
            Error::Disabled(_) => Code::VersionDisabled,
            Error::VersionDestroyed(_) => Code::VersionDestroyed,
            Error::Deleted => Code::KeyDeleted,
            Error::Destroyed => Code::KeyDestroyed,
            Error::Expired => Code::KeyExpired,
            Error::Exhausted(_) => Code::VersionExhausted,
            Error::NotExportable => Code::NotExportable,
            Error::MuRequired => Code::MuRequired,
            Error::JwtRequired => Code::JwtRequired,
            Error::DecryptFailed => Code::DecryptFailed,
            Error::Unsupported(_) => Code::Unsupported,
            Error::TooLarge { .. } | Error::Whole { .. } => Code::TooLarge,
            Error::Malformed(_) | Error::MalformedToken(_) => Code::Malformed,
            Error::OutcomeUnknown => Code::OutcomeUnknown,
            Error::Integrity { .. } => Code::IntegrityFailed,
            Error::Unauthenticated(_) => Code::Unauthenticated,
            Error::Denied(_) => Code::Denied,
            Error::Audit(error) => code_of_audit(error),
            Error::Seal(error) => code_of_seal(error),
            Error::Store(error) => code_of_store(error),
            Error::Engine(error) => code_of_engine(error),
        }
    }
}

fn code_of_audit(error: &AuditError) -> Code {
    match error {
        AuditError::Unwritable(_)
        | AuditError::Full
        | AuditError::Replaced(_)
        | AuditError::Held(_)
        | AuditError::Forked => Code::AuditUnwritable,
        AuditError::Damaged { .. } => Code::IntegrityFailed,
        AuditError::TooLarge(_) => Code::TooLarge,
        AuditError::NoRecord(_) | AuditError::Archived(_) | AuditError::Forgotten(_) => {
            Code::NotFound
        }
        AuditError::Archive(_) | AuditError::NeedsArchive { .. } => Code::StoreUnavailable,
        AuditError::Parameter(_) => Code::BadRequest,
        AuditError::Engine(error) => code_of_engine(error),
    }
}

fn code_of_seal(error: &SealError) -> Code {
    match error {
        SealError::Share(_)
        | SealError::Passphrase
        | SealError::NoPassphrase
        | SealError::Shares
        | SealError::None => Code::UnsealFailed,
        SealError::Exists => Code::Exists,
        SealError::Parameter(_) => Code::BadRequest,
        SealError::Damaged(_) => Code::IntegrityFailed,
        SealError::TooOld { .. } | SealError::Forked => Code::StoreUnavailable,
        SealError::Resource(_) => Code::Busy,
    }
}

fn code_of_store(error: &StoreError) -> Code {
    match error {
        StoreError::TooLarge { .. } => Code::TooLarge,
        StoreError::Corrupt(_)
        | StoreError::Foreign(_)
        | StoreError::Damaged(_)
        | StoreError::Backup { .. } => Code::IntegrityFailed,
        StoreError::Path(_) | StoreError::Malformed(_) => Code::Internal,
        StoreError::Buried(_) => Code::KeyDestroyed,
        StoreError::Backups(_) | StoreError::Outrun { .. } => Code::BackupFailed,
        StoreError::Full
        | StoreError::Unavailable(_)
        | StoreError::Inaccessible(_)
        | StoreError::Held(_)
        | StoreError::NotAStore(_)
        | StoreError::Exists(_)
        | StoreError::NoPeriod { .. }
        | StoreError::TooOld { .. }
        | StoreError::Forked => Code::StoreUnavailable,
    }
}

fn code_of_engine(error: &EngineError) -> Code {
    match error {
        // A kernel did not finish this lane. The input was validated before.
        EngineError::Lane { status: Status::Fault | Status::NotRun, .. } => Code::Internal,
        EngineError::Input(_) | EngineError::Lane { .. } | EngineError::KeyFile(_) => {
            Code::BadRequest
        }
        EngineError::WrongAlgorithm { .. } | EngineError::NotBuilt(_) => Code::Unsupported,
        EngineError::TooLong { .. } | EngineError::TooMany { .. } => Code::TooLarge,
        EngineError::NoMemory(_)
        | EngineError::Entropy(_)
        | EngineError::Busy
        | EngineError::BackendUnavailable { .. } => Code::Busy,
        // `BadSignature` is a verdict here, not an error. The remaining errors are bugs or a broken
        // machine, such as a generated key pair that fails its consistency test.
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients depend on the codes.
    #[test]
    fn codes_are_a_golden_list() {
        let lines: Vec<String> = Code::ALL
            .iter()
            .map(|code| {
                format!("{code} {}", if code.is_retryable() { "retryable" } else { "final" })
            })
            .collect();
        assert_eq!(lines.join("\n"), include_str!("../tests/golden/codes.txt").trim_end());
    }

    /// Bugs and broken machines are not the caller's fault.
    #[test]
    fn errors_of_the_engine_have_the_codes_of_their_causes() {
        let algorithm = gabion_engine::Algorithm::MlDsa44;
        let lane =
            |status| EngineError::Lane { algorithm, task: gabion_engine::Task::Sign, status };
        for (error, code) in [
            (lane(Status::Fault), Code::Internal),
            (lane(Status::NotRun), Code::Internal),
            (lane(Status::InvalidInput), Code::BadRequest),
            (EngineError::NotBuilt(algorithm), Code::Unsupported),
            (EngineError::Pairwise(algorithm), Code::Internal),
            (EngineError::NoMemory("a key"), Code::Busy),
            (EngineError::KeyFile(String::new()), Code::BadRequest),
        ] {
            assert_eq!(Error::from(error.clone()).code(), code, "{error}");
        }
    }
}
