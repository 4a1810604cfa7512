//! Messages that arrive in pieces. Permissions are checked before the first piece and after the
//! last one. The audit record is the same as for a message that arrives as a whole.
//!
//! ```text
//!   allow --> quota --> may the key? --> pieces, each charged on arrival --> allow --> a slot --> operate --> append a record
//!                                        (no slot, no thread, no lock)           --> allow, still? --> answer
//! ```

use std::time::Instant;

use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};

use super::cost::bytes_us;
use super::lifecycle::of;
use super::run::{AuditEntry, Call, KeyRef, Service};
use super::sign_verify::{sign_entry, verify_entry};
use crate::audit::{Digest, Outcome};
use crate::error::Error;
use crate::gate::{Action, Method};
use crate::model::{Use, VersionId};
use crate::operations::{HmacOutput, SignOutput, Stream, StreamForm, StreamLen, StreamUse};

/// A message that is received in pieces, and its digest for the audit log.
pub struct StreamedMessage {
    stream: Stream,
    input: Input,
}

/// The digest that the audit log records.
enum Input {
    /// The digest of the message.
    Message(Sha256),
    /// The digest of the digest that is signed.
    Digest,
    /// The keyed digest of a message that may be secret.
    Keyed(Box<Hmac<Sha256>>),
}

impl StreamedMessage {
    /// The version that signs, verifies or makes the tag.
    pub fn by(&self) -> &VersionId {
        self.stream.by()
    }

    /// Adds the next piece.
    ///
    /// # Errors
    /// Those of [`Stream::add`].
    pub fn add(&mut self, piece: &[u8]) -> Result<(), Error> {
        match &mut self.input {
            Input::Message(state) => state.update(piece),
            Input::Digest => {}
            Input::Keyed(state) => state.update(piece),
        }
        self.stream.add(piece)
    }

    fn input(&self) -> Digest {
        match &self.input {
            Input::Message(state) => Digest::Sha256(state.clone().finalize().into()),
            Input::Digest => Digest::of(&self.stream.digest().unwrap_or_default()),
            Input::Keyed(state) => Digest::Keyed(state.clone().finalize().into_bytes().into()),
        }
    }
}

impl Service {
    /// Begins a message that arrives in pieces. The permissions of the caller and of the key are
    /// checked before any piece arrives.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::stream`]; the caller is not allowed; errors of the audit
    /// log.
    pub fn begin_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        (what, form): (StreamUse, StreamForm),
        len: StreamLen,
    ) -> Result<StreamedMessage, Error> {
        let request = of(action(what), key);
        self.authorize(call, &request, None)?;
        self.charge_request(call, &request)?;
        let begin = || self.kms.stream(&self.find(key)?, version, what, form, len);
        let stream = begin().or_else(|error| self.failed(call, &request, None, error))?;
        let input = match what {
            StreamUse::Tag | StreamUse::VerifyTag(_) => Input::Keyed(Box::new(self.keyed_state())),
            StreamUse::Sign | StreamUse::Verify(_) if stream.digest().is_some() => Input::Digest,
            StreamUse::Sign | StreamUse::Verify(_) => Input::Message(Sha256::new()),
        };
        Ok(StreamedMessage { stream, input })
    }

    /// Charges a tenant for received bytes.
    pub fn charge_bytes(&self, call: &Call<'_>, key: &KeyRef<'_>, bytes: usize) {
        if call.who.method() != Method::Local {
            self.quota.owe(Some(key.tenant), bytes_us(bytes), Instant::now);
        }
    }

    /// Signs the message.
    ///
    /// # Errors
    /// Those of [`Self::sign`].
    pub fn sign_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        message: &StreamedMessage,
    ) -> Result<SignOutput, Error> {
        let input = message.input();
        let sign = || self.kms.sign_stream(&message.stream);
        let audit_entry = |signed: &SignOutput| sign_entry(input, signed);
        let recheck = |_: &SignOutput| self.recheck_stream(message, Use::Sign);
        let call = Call { is_charged: true, ..*call };
        self.perform_use(&call, &of(Action::Sign, key), Some(input), sign, audit_entry, recheck)
    }

    /// Verifies a signature of the message.
    ///
    /// # Errors
    /// Those of [`Self::verify`].
    pub fn verify_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        message: &StreamedMessage,
        signature: &[u8],
    ) -> Result<bool, Error> {
        let input = message.input();
        let verify = || self.kms.verify_stream(&message.stream, signature);
        let audit_entry = |is_its: &bool| verify_entry(input, signature, *is_its, message.by());
        let recheck = |_: &bool| self.recheck_stream(message, Use::Verify);
        let call = Call { is_charged: true, ..*call };
        self.perform_use(&call, &of(Action::Verify, key), Some(input), verify, audit_entry, recheck)
    }

    /// Computes the tag of the message.
    ///
    /// # Errors
    /// Those of [`Self::hmac`].
    pub fn hmac_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        message: &StreamedMessage,
    ) -> Result<HmacOutput, Error> {
        let input = Some(message.input());
        let make = || self.kms.hmac_stream(&message.stream);
        let audit_entry = |made: &HmacOutput| AuditEntry {
            key: Some(made.by.to_string()),
            input,
            output: Some(self.keyed(&made.tag)),
            outcome: Outcome::Done,
        };
        let recheck = |_: &HmacOutput| self.recheck_stream(message, Use::Sign);
        let call = Call { is_charged: true, ..*call };
        self.perform_use(&call, &of(Action::Hmac, key), input, make, audit_entry, recheck)
    }

    /// Verifies a tag of the message.
    ///
    /// # Errors
    /// Those of [`Self::verify_hmac`].
    pub fn verify_hmac_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        message: &StreamedMessage,
        tag: &[u8],
    ) -> Result<bool, Error> {
        let input = Some(message.input());
        let verify = || self.kms.verify_hmac_stream(&message.stream, tag);
        let audit_entry = |is_its: &bool| AuditEntry {
            key: Some(message.by().to_string()),
            input,
            output: Some(self.keyed(tag)),
            outcome: if *is_its { Outcome::Done } else { Outcome::Wrong },
        };
        let recheck = |_: &bool| self.recheck_stream(message, Use::Verify);
        let call = Call { is_charged: true, ..*call };
        self.perform_use(&call, &of(Action::Verify, key), input, verify, audit_entry, recheck)
    }

    fn recheck_stream(&self, message: &StreamedMessage, what: Use) -> Result<(), Error> {
        let VersionId { key, version } = message.by();
        self.kms.still_may(key, *version, what, message.stream.was_newest())
    }
}

fn action(what: StreamUse) -> Action {
    match what {
        StreamUse::Sign => Action::Sign,
        StreamUse::Tag => Action::Hmac,
        StreamUse::Verify(_) | StreamUse::VerifyTag(_) => Action::Verify,
    }
}
