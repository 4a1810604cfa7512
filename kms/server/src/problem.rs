//! Errors as clients see them.

use gabion_kms::clock::{now_ms, rfc3339};
use gabion_kms::model::Label;
use gabion_kms::{Code, Error};
use gabion_kms_wire::native;

/// An error response.
#[derive(Debug)]
pub struct Problem {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
    pub is_retryable: bool,
    pub hint: Option<&'static str>,
    /// The number of seconds after which a retry may succeed, if known.
    pub retry_after_s: Option<u64>,
    /// The name of the missing key.
    pub missing: Option<String>,
}

/// The codes of the server, in addition to those of [`Code`]: code, status, whether a retry may
/// succeed.
const OWN: &[(&str, u16, bool)] = &[
    ("no_such_path", 404, false),
    ("method_not_allowed", 405, false),
    ("timeout", 408, true),
    ("closing", 503, true),
];

const TOKEN: &str = "send a token as `Authorization: Bearer TOKEN`; the command line takes it from GABION_KMS_TOKEN";

const UNSEAL: &str = "unseal it with `gabion kms unseal` and shares or the passphrase";

const BY_DIGEST: &str = "name a hash: `prehash=SHA2-512` signs the digest, of a message of any size, in the pre-hash form";

const BY_OTHERS: &str = "the algorithm has no pre-hash form: sign a digest as the message, or by a key of ML-DSA, which takes messages of any size";

/// Returns all codes that a response may have.
pub fn codes() -> Vec<&'static str> {
    let mut codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    codes.extend(OWN.iter().map(|own| own.0));
    codes.sort_unstable();
    codes.dedup();
    codes
}

impl Problem {
    /// Creates a problem with a code of the server.
    fn own(code: &str, message: impl Into<String>) -> Self {
        let found = OWN.iter().find(|own| own.0 == code);
        let &(code, status, is_retryable) = found.unwrap_or(&("internal", 500, false));
        Problem {
            status,
            code,
            message: message.into(),
            is_retryable,
            hint: None,
            retry_after_s: None,
            missing: None,
        }
    }

    /// The caller could not be authenticated.
    pub fn unauthenticated(message: &str) -> Self {
        Self::of_code(Code::Unauthenticated, message.to_owned()).hint(TOKEN)
    }

    /// The client certificate is revoked or no longer valid.
    pub fn revoked() -> Self {
        Self::unauthenticated("the client certificate has expired or was revoked")
    }

    /// The path does not exist.
    pub fn no_path(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::own("no_such_path", format!("there is no such path: `{path}`"))
            .hint("GET /openapi.json lists all paths")
    }

    /// The path has other methods.
    pub fn no_method(method: &str, allowed: &str) -> Self {
        Self::own(
            "method_not_allowed",
            format!("{method} is not possible here; expected {allowed}"),
        )
    }

    /// The request arrived too slowly.
    pub fn too_slow() -> Self {
        Self::own("timeout", "the request did not arrive within 30 seconds")
    }

    /// The body is truncated.
    pub fn ends_early() -> Self {
        Self::bad("the body is truncated")
    }

    /// The body is shorter than the parameters before its message.
    pub fn ends_before(bytes: usize) -> Self {
        Self::bad(format!("the body is shorter than the {bytes} bytes that precede its message"))
    }

    /// The message arrived too slowly.
    pub fn too_slow_stream() -> Self {
        Self::own("timeout", "the body arrived too slowly: less than 1 MiB in 30 seconds")
    }

    /// The message is too long, even for streaming.
    pub fn too_long(most: u64) -> Self {
        Self::of_code(Code::TooLarge, format!("the body has more than {most} bytes"))
            .hint("sign a digest of it; the server's `limits.stream_max_mib` limits the length of messages")
    }

    /// The service is sealed.
    pub fn sealed() -> Self {
        Self::of_code(Code::Sealed, "the service is sealed".to_owned()).hint(UNSEAL)
    }

    /// The service was sealed between the admission of a request and its answer, which is withheld.
    pub fn withheld() -> Self {
        let why = "the service was sealed while the request ran: the answer is withheld, and a change that it asked for may \
                   have been made";
        let problem = Self::of_code(Code::Sealed, why.to_owned());
        Problem { is_retryable: false, ..problem }
            .hint("after `gabion kms unseal`, read the key before you repeat the request")
    }

    /// The service cannot be unsealed yet: operations of the previous generation are still running.
    pub fn closing() -> Self {
        let why = "operations of the sealed service are still running; the given shares are kept";
        let problem = Self::own("closing", why).hint("repeat one of the shares in a second");
        Problem { retry_after_s: Some(1), ..problem }
    }

    /// The share belongs to another set. The expected set is not revealed, because the caller is
    /// not authenticated.
    pub fn other_set(index: u8, set: &str) -> Self {
        let why = format!("share {index} is of set {set}, which does not open this seal");
        Self::of_code(Code::UnsealFailed, why)
    }

    /// A malformed request.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::of_code(Code::BadRequest, message.into())
    }

    /// A malformed value, such as a signature or a ciphertext.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::of_code(Code::Malformed, message.into())
    }

    /// A valid request that is not supported.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::of_code(Code::Unsupported, message.into())
    }

    /// The body is too large.
    pub fn too_large(most: usize) -> Self {
        Self::of_code(Code::TooLarge, format!("the body has more than {most} bytes"))
            .hint("sign a digest of a long message (`digest` and `prehash`); encrypt long data with a key from `datakey`")
    }

    /// A bug.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::of_code(Code::Internal, message.into())
    }

    /// Too many requests. A retry may succeed after `retry_after_s` seconds.
    pub fn busy(message: &str, retry_after_s: u64) -> Self {
        let problem = Self::of_code(Code::Busy, message.to_owned());
        Problem { retry_after_s: Some(retry_after_s), ..problem }
    }

    /// The caller is not allowed to do this.
    pub fn denied(message: &str) -> Self {
        Self::of_code(Code::Denied, message.to_owned())
    }

    /// Returns whether the caller's credential is charged for the error: it is the request's fault,
    /// and not that of a quota.
    pub fn is_charged(&self) -> bool {
        (400..500).contains(&self.status) && !matches!(self.status, 401 | 408 | 429)
    }

    /// Adds a hint what to do.
    pub fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Replaces a key's name in the message by the id that the caller used, so that the message
    /// does not reveal the name.
    pub fn of_key(mut self, name: &Label, id: &str) -> Self {
        if self.missing.as_deref() == Some(name.as_str()) {
            self.message = Error::NoKey(id.to_owned()).to_string();
            self.missing = None;
        }
        self
    }

    /// Returns the wire format.
    pub fn envelope(&self, request_id: &str) -> native::Problem {
        native::Problem {
            code: self.code.to_owned(),
            message: self.message.clone(),
            retryable: self.is_retryable,
            hint: self.hint.map(str::to_owned),
            ts: rfc3339(now_ms()),
            request_id: request_id.to_owned(),
        }
    }

    fn of_code(code: Code, message: String) -> Self {
        let (code, status, is_retryable) = (code.as_str(), status(code), code.is_retryable());
        Problem {
            status,
            code,
            message,
            is_retryable,
            hint: None,
            retry_after_s: None,
            missing: None,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = error.code();
        let mut problem = Problem::of_code(code, error.to_string());
        match error {
            Error::Quota { retry_after_s } => problem.retry_after_s = Some(retry_after_s),
            Error::NoKey(name) => problem.missing = Some(name),
            Error::Whole { by_digest: true, .. } => problem.hint = Some(BY_DIGEST),
            Error::Whole { by_digest: false, .. } => problem.hint = Some(BY_OTHERS),
            _ => {}
        }
        match code {
            Code::VersionDisabled => problem.hint("enable it with `gabion kms key enable`"),
            Code::MuRequired => problem.hint("`gabion kms sign --keep-message` computes and sends it"),
            Code::JwtRequired => problem.hint("`POST /v1/kms/jwt` and `gabion kms jwt sign` sign tokens"),
            Code::KeyDeleted => problem.hint("restore it with `gabion kms key restore`"),
            Code::Unauthenticated => problem.hint(TOKEN),
            Code::Sealed => problem.hint(UNSEAL),
            Code::OutcomeUnknown => problem.hint("read the key before you try again"),
            Code::OpIdDone => problem.hint(
                "if the response was lost, revoke the token (`gabion kms token revoke ID`) and make another under a new op_id",
            ),
            _ => problem,
        }
    }
}

/// Returns the HTTP status of a code.
fn status(code: Code) -> u16 {
    match code {
        Code::BadRequest
        | Code::Malformed
        | Code::Unsupported
        | Code::MuRequired
        | Code::JwtRequired
        | Code::VersionNotAllowed
        | Code::DecryptFailed
        | Code::UnsealFailed => 400,
        Code::Unauthenticated => 401,
        Code::Denied | Code::NotExportable => 403,
        Code::NotFound => 404,
        Code::Exists
        | Code::Conflict
        | Code::OpIdReused
        | Code::OpIdDone
        | Code::VersionDisabled
        | Code::VersionExhausted
        | Code::KeyExpired
        | Code::KeyDeleted => 409,
        Code::VersionDestroyed | Code::KeyDestroyed => 410,
        Code::TooLarge => 413,
        Code::OutcomeUnknown | Code::IntegrityFailed | Code::Internal | Code::BackupFailed => 500,
        Code::QuotaExceeded => 429,
        Code::StoreUnavailable | Code::Busy | Code::Sealed | Code::AuditUnwritable => 503,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_code_of_the_list() {
        let codes = codes();
        for problem in [
            Problem::unauthenticated(""),
            Problem::no_path(""),
            Problem::no_method("", ""),
            Problem::too_slow(),
            Problem::too_slow_stream(),
            Problem::too_long(0),
            Problem::ends_early(),
            Problem::ends_before(0),
            Problem::sealed(),
            Problem::withheld(),
            Problem::closing(),
            Problem::bad(""),
            Problem::malformed(""),
            Problem::too_large(0),
            Problem::busy("", 1),
            Problem::denied(""),
        ] {
            assert!(codes.contains(&problem.code), "{problem:?}");
            assert_ne!(problem.code, "internal");
        }
    }
}
