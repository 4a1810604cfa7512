//! Streamed messages: the body is the message, and the other parameters are in the query, with the
//! names of the JSON fields.

use gabion_kms::Prehash;
use gabion_kms::operations::{StreamForm, StreamLen, StreamUse};
use gabion_kms::service::StreamedMessage;
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{Signed, Tagged, Verified};

use super::bytes::{missing, optional};
use super::input::{rsa_digest_hash, scheme};
use super::marshaling::Marshaling;
use super::{Call, KeySelector, Reply};
use crate::problem::Problem;

/// Parses and validates a request whose body is `length` bytes long.
type Begin = fn(&Call, Option<u64>) -> Result<(StreamRequest, StreamedMessage), Problem>;

/// Handles requests of a path whose body is the message itself.
pub struct StreamHandler {
    /// The query parameters, and their descriptions.
    pub query: &'static [(&'static str, &'static str)],
    /// The query parameter with the number of bytes before the message, such as those of a
    /// signature.
    pub before: Option<&'static str>,
    /// Parses and validates the request.
    pub begin: Begin,
    /// Answers after the whole message has arrived.
    pub end: fn(&Call, &StreamRequest, &StreamedMessage, &[u8]) -> Result<Reply, Problem>,
}

/// A request whose message is still arriving.
pub struct StreamRequest {
    /// The key.
    pub selector: KeySelector,
    /// The number of bytes before the message.
    pub before: usize,
    /// The text form of the signature.
    marshaling: Marshaling,
    /// The store's revision when the request began.
    revision: u64,
}

const KEY: (&str, &str) = ("key", "The key, by name or id. Required.");
const TENANT: (&str, &str) = ("tenant", "The key's tenant, if the key is given by name.");
const VERSION: (&str, &str) = ("version", "The version; the newest one by default.");
const CONTEXT: (&str, &str) = ("context", "The context string, at most 255 bytes, in base64.");
const PREHASH: (&str, &str) = ("prehash", "The hash of a pre-hash signature.");
const PADDING: (&str, &str) = ("padding", "For RSA: pss or pkcs1v15; pss by default.");
const SALT_LENGTH: (&str, &str) =
    ("salt_length", "For RSA with pss: the length of the salt in bytes.");
const MARSHALING: (&str, &str) = (
    super::signatures::MARSHALING,
    "The text form of the signature: asn1, the default, or jws, in which ECDSA signatures are r and s, concatenated.",
);
const SIGNATURE_BYTES: (&str, &str) = (
    "signature_bytes",
    "The size of the signature in bytes, which precedes the message in the body.",
);
const TAG_BYTES: (&str, &str) =
    ("tag_bytes", "The size of the tag in bytes, which precedes the message in the body.");

pub const SIGN: StreamHandler = StreamHandler {
    query: &[KEY, TENANT, VERSION, CONTEXT, PREHASH, PADDING, SALT_LENGTH, MARSHALING],
    before: None,
    begin: |call, length| begin(call, length, None, |_| StreamUse::Sign),
    end: |call, request, streaming, _| {
        let (service, caller) = call.caller()?;
        let signed = service.sign_stream(&caller, &request.selector.key(), streaming)?;
        Reply::json(&Signed {
            version: signed.by.version,
            by: signed.by.to_string(),
            signature: request.marshaling.text(signed.by.key.algorithm, &signed.signature)?,
            revision: request.revision,
        })
    },
};

pub const VERIFY: StreamHandler = StreamHandler {
    query: &[
        KEY,
        SIGNATURE_BYTES,
        TENANT,
        VERSION,
        CONTEXT,
        PREHASH,
        PADDING,
        SALT_LENGTH,
        MARSHALING,
    ],
    before: Some(SIGNATURE_BYTES.0),
    begin: |call, length| begin(call, length, VERIFY.before, StreamUse::Verify),
    end: |call, request, streaming, signature| {
        let (service, caller) = call.caller()?;
        let signature =
            request.marshaling.inward(streaming.by().key.algorithm, signature.to_vec())?;
        let valid =
            service.verify_stream(&caller, &request.selector.key(), streaming, &signature)?;
        Reply::json(&Verified { valid, by: streaming.by().to_string(), revision: request.revision })
    },
};

pub const HMAC: StreamHandler = StreamHandler {
    query: &[KEY, TENANT, VERSION],
    before: None,
    begin: |call, length| begin(call, length, None, |_| StreamUse::Tag),
    end: |call, request, streaming, _| {
        let (service, caller) = call.caller()?;
        let made = service.hmac_stream(&caller, &request.selector.key(), streaming)?;
        let (by, version, tag) = (made.by.to_string(), made.by.version, encode(&made.tag));
        Reply::json(&Tagged { by, version, tag, revision: request.revision })
    },
};

pub const VERIFY_HMAC: StreamHandler = StreamHandler {
    query: &[KEY, TAG_BYTES, TENANT, VERSION],
    before: Some(TAG_BYTES.0),
    begin: |call, length| begin(call, length, VERIFY_HMAC.before, StreamUse::VerifyTag),
    end: |call, request, streaming, tag| {
        let (service, caller) = call.caller()?;
        let valid = service.verify_hmac_stream(&caller, &request.selector.key(), streaming, tag)?;
        Reply::json(&Verified { valid, by: streaming.by().to_string(), revision: request.revision })
    },
};

fn begin(
    call: &Call,
    length: Option<u64>,
    before: Option<&str>,
    what: impl FnOnce(usize) -> StreamUse,
) -> Result<(StreamRequest, StreamedMessage), Problem> {
    let (service, caller) = call.caller()?;
    let key = call.query.text(KEY.0).ok_or_else(|| no_parameter(KEY.0))?;
    let before = match before {
        None => 0,
        Some(name) => {
            let bytes = call.query.number(name, u32::MAX)?;
            bytes.ok_or_else(|| no_parameter(name))? as usize
        }
    };
    let form = form(call)?;
    let marshaling = Marshaling::named(MARSHALING.0, call.query.text(MARSHALING.0))?;
    let version = call.query.number(VERSION.0, u32::MAX)?;
    let selector = KeySelector::new(call, call.query.text(TENANT.0), key)?;
    let revision = service.kms().revision();
    let of_message = match length.map(|length| length.checked_sub(before as u64)) {
        Some(None) => return Err(Problem::ends_before(before)),
        Some(of_message) => of_message,
        None => None,
    };
    let len = StreamLen { of_message, whole_max: call.state.body_max };
    let streaming =
        service.begin_stream(&caller, &selector.key(), version, (what(before), form), len)?;
    Ok((StreamRequest { selector, before, marshaling, revision }, streaming))
}

fn form(call: &Call) -> Result<StreamForm, Problem> {
    let context = optional(CONTEXT.0, call.query.text(CONTEXT.0))?;
    let hash = call.query.text(PREHASH.0).map(str::parse::<Prehash>).transpose();
    let hash = hash.map_err(|error| Problem::bad(error.to_string()))?;
    let padding = call.query.text(PADDING.0);
    let salt = call.query.number(SALT_LENGTH.0, u32::MAX)?;
    let rsa = match padding.is_some() || salt.is_some() {
        true => Some(scheme(rsa_digest_hash(&context, hash)?, padding, salt)?),
        false => None,
    };
    Ok(StreamForm { context, hash, rsa })
}

fn no_parameter(name: &str) -> Problem {
    let problem = missing(name);
    Problem { message: format!("missing parameter `{name}`"), ..problem }
}
