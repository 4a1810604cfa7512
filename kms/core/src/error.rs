//! The crate's errors, and the closed list of codes that callers outside of Rust see.

use gabion_engine::{Error as EngineError, Status};

use crate::store::StoreError;

/// Lists the codes once: name, text, whether trying again may help.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $text:literal $again:literal;)*) => {
        /// What went wrong, for callers outside of Rust: a closed list, whose texts never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$code,)*];

            /// The code as it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$code => $text,)*
                }
            }

            /// Whether the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self {
                    $(Code::$code => $again,)*
                }
            }
        }
    };
}

codes! {
    /// A name, an id or a parameter can't be one.
    BadRequest "bad_request" false;
    /// Nobody knows who asks.
    Unauthenticated "unauthenticated" false;
    /// Whoever asks may not do that.
    Denied "denied" false;
    /// A signature, a tag or a ciphertext that can't be one of this algorithm's.
    Malformed "malformed" false;
    /// There is no such key or version, or the caller may not see it.
    NotFound "not_found" false;
    /// The name is taken.
    Exists "exists" false;
    /// Somebody else changed the key meanwhile.
    Conflict "conflict" true;
    /// The op_id was another request's.
    OpIdReused "op_id_reused" false;
    /// The change of the op_id was made; its answer is secret and is given out only once.
    OpIdDone "op_id_done" false;
    /// The key does not do that.
    Unsupported "unsupported" false;
    /// The version may not be used for that.
    VersionNotAllowed "version_not_allowed" false;
    /// The version is disabled.
    VersionDisabled "version_disabled" false;
    /// The version was trimmed or destroyed.
    VersionDestroyed "version_destroyed" false;
    /// The key is deleted, and can be restored.
    KeyDeleted "key_deleted" false;
    /// The key was destroyed.
    KeyDestroyed "key_destroyed" false;
    /// The key has expired: it makes nothing new.
    KeyExpired "key_expired" false;
    /// The version has encrypted as often as it may.
    VersionExhausted "version_exhausted" false;
    /// The key's private half is not given out.
    NotExportable "not_exportable" false;
    /// The key signs and verifies by `mu` alone, and the request has a message or a digest.
    MuRequired "mu_required" false;
    /// The key signs JSON Web Tokens alone, and the request asks for another signature.
    JwtRequired "jwt_required" false;
    /// What was to be decrypted is not what was encrypted.
    DecryptFailed "decrypt_failed" false;
    /// More than there may be.
    TooLarge "too_large" false;
    /// The store does not answer, or has no room.
    StoreUnavailable "store_unavailable" true;
    /// The folder of the backups, or that of their keys, can't be read or written.
    BackupFailed "backup_failed" true;
    /// A change that may have happened.
    OutcomeUnknown "outcome_unknown" false;
    /// The seal is closed.
    Sealed "sealed" true;
    /// The audit log can't be written, and nothing is done that it can't tell of.
    AuditUnwritable "audit_unwritable" true;
    /// What was given does not open the seal.
    UnsealFailed "unseal_failed" false;
    /// What is kept was damaged or exchanged.
    IntegrityFailed "integrity_failed" false;
    /// No memory, no randomness, no free backend; too many wait already.
    Busy "busy" true;
    /// The tenant has used what it may have for now.
    QuotaExceeded "quota_exceeded" true;
    /// A defect.
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
    /// No token, one of an unknown root, or one that nobody made so: which of them is not told.
    #[error("that is no token of this service")]
    Invalid,
    /// It is revoked.
    #[error("the token is revoked")]
    Revoked,
    /// It is over, or would never be.
    #[error("the token has expired")]
    Expired,
    /// It may not be used from there.
    #[error("the token may not be used from this address")]
    Address,
    /// It may be used with another certificate only.
    #[error("the token belongs to another client certificate")]
    Certificate,
}

/// The reason for a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DenialReason {
    /// The token was revoked meanwhile.
    #[error("the token is revoked")]
    Revoked,
    /// The token expired meanwhile.
    #[error("the token has expired")]
    Expired,
    /// Keys of another tenant, or of none.
    #[error("the token is for another tenant")]
    Tenant,
    /// Another key, or none.
    #[error("the token is for other keys")]
    Key,
    /// Something else.
    #[error("the token does not allow `{0}`")]
    Action(
        /// What.
        &'static str,
    ),
    /// Too much at once.
    #[error("the token allows {0} items together at most")]
    Batch(
        /// How many are allowed.
        u32,
    ),
    /// Administration, by a token that is bound to no certificate.
    #[error("administration needs a token that is bound to a client certificate (cnf)")]
    NeedsCertificate,
    /// There is no policy, and without one a certificate allows nothing.
    #[error("no policy allows that")]
    NoPolicy,
    /// There are policies, and they do not allow it.
    #[error("the policies do not allow that")]
    Policy,
    /// They do not allow to see the key either.
    #[error("the policies do not allow that, nor to see the key")]
    Unseen,
    /// They can't be evaluated, and what is not decided is not allowed.
    #[error("the policies can't be evaluated here, so that nothing is allowed")]
    Undecided,
}

/// What is wrong with the audit log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// It can't be written. Nothing more is written to it until it is opened again.
    #[error("the audit log can't be written: {0}")]
    Unwritable(
        /// What failed.
        String,
    ),
    /// There is no room for another segment, and the rest of this one is a reserve.
    #[error("the audit log has no room left but its reserve; give its disk more")]
    Full,
    /// The file has gone, or another one has its name.
    #[error("the audit log's file `{0}` was deleted or replaced")]
    Replaced(
        /// Which.
        String,
    ),
    /// Another process writes it.
    #[error("the audit log is in use by another process ({0})")]
    Held(
        /// Its lock.
        String,
    ),
    /// It belongs to the process that forked this one.
    #[error("the audit log belongs to the process that forked this one")]
    Forked,
    /// What is there can't be right.
    #[error("the audit log is damaged at {at}: {reason}")]
    Damaged {
        /// Where.
        at: String,
        /// What was found.
        reason: String,
    },
    /// Records that no segment takes.
    #[error("{0} bytes of records at once are more than the audit log takes")]
    TooLarge(
        /// How many.
        usize,
    ),
    /// No such record, or one that no checkpoint holds yet.
    #[error("the audit log has no record {0}")]
    NoRecord(
        /// Its index.
        u64,
    ),
    /// The archive can't be written. The log can.
    #[error("the archive of the audit log can't be written: {0}")]
    Archive(
        /// What failed.
        String,
    ),
    /// The record's segment was moved.
    #[error("the audit log's record {0} is in its archive; `gabion kms audit verify` looks there")]
    Archived(
        /// Its index.
        u64,
    ),
    /// A log in memory no longer has the record.
    #[error("the audit log is in memory and keeps its newest records only: record {0} is gone")]
    Forgotten(
        /// Its index.
        u64,
    ),
    /// What a restored store has to read was moved.
    #[error(
        "the store knows the audit log up to record {from}, and those before {before} are in its archive: put these segments back, the newest first, since they say which keys were destroyed"
    )]
    NeedsArchive {
        /// How far the store knows it.
        from: u64,
        /// The first record that is in no archive.
        before: u64,
    },
    /// A name or key of a signer that can't be one.
    #[error("{0}")]
    Parameter(
        /// What is wrong.
        &'static str,
    ),
    /// The engine's.
    #[error(transparent)]
    Engine(EngineError),
}

/// What is wrong with shares.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// A text that is none.
    #[error("that is no share; expected gbs1-SET-THRESHOLD-INDEX-SHARE-CHECKSUM")]
    Form,
    /// A share with a mistake in it.
    #[error("the share has a mistake in it: its checksum is another")]
    Checksum,
    /// Shares of several sets.
    #[error("share {index} is of the set {found}; expected {wanted}")]
    OtherSet {
        /// The share's number.
        index: u8,
        /// Its set.
        found: String,
        /// The other set.
        wanted: String,
    },
    /// Too few different ones.
    #[error("{got} different shares; {needed} are needed")]
    TooFew {
        /// How many there are.
        got: usize,
        /// How many are needed.
        needed: u8,
    },
    /// A share that is wrapped, where one is expected that is not.
    #[error(
        "that is a share which is wrapped for its holder, who opens it: gabion kms share open --key PRIVATE"
    )]
    Wrapped,
    /// A share that is not wrapped, where one is expected that is.
    #[error("that is a share which is not wrapped: it is as it is to be given")]
    NotWrapped,
    /// A text that is no wrapped share.
    #[error(
        "that is no wrapped share; expected gbw1-SET-THRESHOLD-INDEX-WRAPPED-CHECKSUM, all of it"
    )]
    WrappedForm,
    /// A wrapped share that a key does not open.
    #[error("share {index} of set {set} does not open by this key: it was wrapped for another one")]
    OtherHolder {
        /// The share's number.
        index: u8,
        /// Its set.
        set: String,
    },
}

/// Why a seal does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// It was never made.
    #[error("the store has no seal yet: `gabion kms init` makes one")]
    None,
    /// It was made already.
    #[error("the store has a seal already")]
    Exists,
    /// A share, or shares that do not belong together.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The passphrase is another.
    #[error("the passphrase does not open the seal")]
    Passphrase,
    /// There is no passphrase.
    #[error("the seal has no passphrase; use shares")]
    NoPassphrase,
    /// Shares that make another key.
    #[error("these shares do not open the seal, although they belong together")]
    Shares,
    /// Numbers of shares that make no sense, or costs.
    #[error("{0}")]
    Parameter(
        /// What is wrong.
        &'static str,
    ),
    /// What the store says of the seal can't be right.
    #[error("what the store says of its seal can't be right: {0}")]
    Damaged(
        /// What was found.
        String,
    ),
    /// A newer program wrote it.
    #[error("the seal wants a program of format {wanted}; this one is of format {has}")]
    TooOld {
        /// The format that it takes.
        wanted: u32,
        /// This program's.
        has: u32,
    },
    /// It belongs to the process that forked this one.
    #[error("the seal belongs to the process that forked this one; open it here again")]
    Forked,
    /// No randomness, no memory.
    #[error("{0}")]
    Resource(
        /// What there is none of.
        String,
    ),
}

/// Why something was not done. No message has a secret in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that can't be one.
    #[error("`{text}` is no name of a {what}; expected {expected}")]
    Name {
        /// Of what.
        what: &'static str,
        /// What was given.
        text: String,
        /// What is one.
        expected: &'static str,
    },
    /// An id that can't be one.
    #[error(
        "`{0}` is no id of a key; expected tenant/purpose/algorithm/uuid, and #vN for a version"
    )]
    KeyId(
        /// What was given.
        String,
    ),
    /// A parameter that can't be one.
    #[error("{0}")]
    Parameter(
        /// What is wrong with it.
        String,
    ),
    /// A tenant has used what it may have for now.
    #[error("the tenant has used its quota; it has some again in {retry_after_s} s")]
    Quota {
        /// In how many seconds there is something again.
        retry_after_s: u64,
    },
    /// The seal was closed after the request was admitted.
    #[error("the service was sealed before the request was answered")]
    Sealed,
    /// Too many wait for a place.
    #[error("too many operations wait already")]
    Queue,
    /// No such set of policies.
    #[error("there is no set of policies `{0}`")]
    NoPolicies(
        /// Which name.
        String,
    ),
    /// No such key.
    #[error("there is no key `{0}`")]
    NoKey(
        /// Its name or id.
        String,
    ),
    /// No such version.
    #[error("the key has no version {version}; its newest is {latest}")]
    NoVersion {
        /// What was asked for.
        version: u32,
        /// What there is.
        latest: u32,
    },
    /// The tenant has the same public key or symmetric key already.
    #[error("the tenant already has a key with this key material{}; use that one, or a new key", .0.as_ref().map(|id| format!(": `{id}`")).unwrap_or_default())]
    Duplicate(
        /// The id of the version that has it. `None` if the caller may not see that.
        Option<String>,
    ),
    /// The name is taken.
    #[error("there is a key `{0}` already")]
    Exists(
        /// The name.
        String,
    ),
    /// Somebody else changed it meanwhile.
    #[error("the key was changed meanwhile; look at it again")]
    Conflict,
    /// An op_id under which something else was asked for.
    #[error("this op_id was already used for a different request; use a new one")]
    OpReused,
    /// An op_id that an older program bound to a principal's name and not to a credential.
    #[error(
        "this op_id was used before the service was upgraded, and the store does not say by which credential; check whether the \
         change was made, and use a new op_id"
    )]
    OpOfName,
    /// A change that was done, and whose answer is secret.
    #[error(
        "the change of this op_id was already made: `{made}`; its answer is secret and is given out only once"
    )]
    OpDone {
        /// What it made: a token's id.
        made: String,
    },
    /// A change that is under way already.
    #[error("the change of this op_id is under way")]
    OpRunning,
    /// A version that may not be used for that.
    #[error("version {version} may not {what}; the oldest that may is {oldest}")]
    NotAllowed {
        /// The version.
        version: u32,
        /// What was to be done with it.
        what: &'static str,
        /// The oldest that may.
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
    /// The key is deleted, and can be restored.
    #[error("the key is deleted; restore it to use it")]
    Deleted,
    /// The key was destroyed, for good.
    #[error("the key was destroyed")]
    Destroyed,
    /// The key has expired.
    #[error("the key has expired: it verifies and decrypts, and makes nothing new")]
    Expired,
    /// The version has encrypted as often as it may.
    #[error("version {0} has encrypted as often as random nonces allow; rotate the key")]
    Exhausted(
        /// The version.
        u32,
    ),
    /// The key's private half is not given out.
    #[error("the key is not one that may be exported")]
    NotExportable,
    /// The key signs and verifies by mu alone.
    #[error(
        "the key requires `mu`: compute it with the version's public key and send it in place of the message"
    )]
    MuRequired,
    /// The key signs JSON Web Tokens alone.
    #[error(
        "the key has `jwt_max_lifetime_s` and signs JSON Web Tokens only: a signature of other bytes could be a token that lives longer"
    )]
    JwtRequired,
    /// A text that is not a JSON Web Token.
    #[error("malformed JSON Web Token: {0}")]
    MalformedToken(
        /// What is wrong with it.
        &'static str,
    ),
    /// What was to be decrypted is not what was encrypted, whatever of it is another.
    #[error("it does not decrypt")]
    DecryptFailed,
    /// The key does not do that.
    #[error("{0}")]
    Unsupported(
        /// What can't be done.
        String,
    ),
    /// More than there may be.
    #[error("{got} {what}; at most {most} are possible")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        most: usize,
        /// How much came.
        got: usize,
    },
    /// A message that has to be there whole, and is longer than one may be that is.
    #[error(
        "{algorithm} hashes such a message more than once or behind what it draws, so that it has to be there whole: it may have {most} bytes"
    )]
    Whole {
        /// The algorithm.
        algorithm: &'static str,
        /// Most bytes of it.
        most: usize,
        /// Whether its digest may be signed in its place.
        by_digest: bool,
    },
    /// A signature, a tag or a ciphertext that can't be one.
    #[error("that has no length that {0} gives")]
    Malformed(
        /// The algorithm.
        &'static str,
    ),
    /// A change that may have happened.
    #[error("the store lost track of the change, which may have happened; look at the key")]
    OutcomeUnknown,
    /// What is kept was damaged or exchanged.
    #[error("what the store has under `{path}` can't be right: {reason}")]
    Integrity {
        /// Where.
        path: String,
        /// What was found.
        reason: String,
    },
    /// Nobody knows who asks.
    #[error(transparent)]
    Unauthenticated(#[from] AuthenticationError),
    /// Whoever asks may not do that.
    #[error(transparent)]
    Denied(#[from] DenialReason),
    /// The audit log's.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The seal does not open.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine's.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Error {
    /// The code that callers outside of Rust see.
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
        // A lane that a kernel could not run to its end; what it was given was looked at before.
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
        // BadSignature is a verdict here, never an error; the rest are defects or a broken machine, as a pair of
        // which both halves were made and don't belong together.
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever wrote a program against a code finds it again.
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

    /// A defect or a broken machine is no fault of whoever asked.
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
