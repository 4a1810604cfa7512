//! Messages that come in pieces: who may is asked before the first piece and again after the last one, and the log is told of
//! what comes of it as if the message had been there whole.
//!
//! ```text
//!   allow --> quota --> may the key? --> pieces, each charged as it comes --> allow --> a place --> operate --> append a record
//!                                        (no place, no thread, no lock)          --> allow, may it still? --> answer
//! ```

use std::time::Instant;

use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};

use super::cost::bytes_us;
use super::lifecycle::of;
use super::run::{Call, KeyRef, Service, Told};
use super::sign_verify::{signed_as, verified_as};
use crate::audit::{Digest, Outcome};
use crate::error::Error;
use crate::gate::{Action, Method};
use crate::model::{Use, VersionId};
use crate::operations::{Signed, Stream, StreamForm, StreamLen, StreamUse, Tagged};

/// A message that comes in pieces, and what the log will be told of it.
pub struct Streaming {
    stream: Stream,
    input: Input,
}

/// What the log is told of a message.
enum Input {
    /// The digest of the message.
    Message(Sha256),
    /// That of the digest that is signed.
    Digest,
    /// The keyed digest of a message that may be secret.
    Keyed(Box<Hmac<Sha256>>),
}

impl Streaming {
    /// The version that is meant.
    pub fn by(&self) -> &VersionId {
        self.stream.by()
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// As [`Stream::add`].
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
    /// Begins a message that comes in pieces: whether the caller may, and whether the key may, is told before any comes.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::stream`]; not allowed; the audit log's.
    pub fn begin_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        (what, form): (StreamUse, StreamForm),
        len: StreamLen,
    ) -> Result<Streaming, Error> {
        let request = of(action(what), key);
        self.permit(call, &request, None)?;
        self.charged(call, &request)?;
        let begin = || self.kms.stream(&self.find(key)?, version, what, form, len);
        let stream = begin().or_else(|error| self.failed(call, &request, None, error))?;
        let input = match what {
            StreamUse::Tag | StreamUse::VerifyTag(_) => Input::Keyed(Box::new(self.keyed_state())),
            StreamUse::Sign | StreamUse::Verify(_) if stream.digest().is_some() => Input::Digest,
            StreamUse::Sign | StreamUse::Verify(_) => Input::Message(Sha256::new()),
        };
        Ok(Streaming { stream, input })
    }

    /// Charges a tenant for bytes that came.
    pub fn charge_bytes(&self, call: &Call<'_>, key: &KeyRef<'_>, bytes: usize) {
        if call.who.method() != Method::Local {
            self.quota.owe(Some(key.tenant), bytes_us(bytes), Instant::now);
        }
    }

    /// Signs what came.
    ///
    /// # Errors
    /// As [`Self::sign`].
    pub fn sign_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        came: &Streaming,
    ) -> Result<Signed, Error> {
        let input = came.input();
        let sign = || self.kms.sign_stream(&came.stream);
        let told = |signed: &Signed| signed_as(input, signed);
        let again = |_: &Signed| self.may_still(came, Use::Sign);
        let call = Call { is_charged: true, ..*call };
        self.used(&call, &of(Action::Sign, key), Some(input), sign, told, again)
    }

    /// Whether a signature is the version's, of what came.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        came: &Streaming,
        signature: &[u8],
    ) -> Result<bool, Error> {
        let input = came.input();
        let verify = || self.kms.verify_stream(&came.stream, signature);
        let told = |is_its: &bool| verified_as(input, signature, *is_its, came.by());
        let again = |_: &bool| self.may_still(came, Use::Verify);
        let call = Call { is_charged: true, ..*call };
        self.used(&call, &of(Action::Verify, key), Some(input), verify, told, again)
    }

    /// The tag of what came.
    ///
    /// # Errors
    /// As [`Self::hmac`].
    pub fn hmac_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        came: &Streaming,
    ) -> Result<Tagged, Error> {
        let input = Some(came.input());
        let make = || self.kms.hmac_stream(&came.stream);
        let told = |made: &Tagged| Told {
            key: Some(made.by.to_string()),
            input,
            output: Some(self.keyed(&made.tag)),
            outcome: Outcome::Done,
        };
        let again = |_: &Tagged| self.may_still(came, Use::Sign);
        let call = Call { is_charged: true, ..*call };
        self.used(&call, &of(Action::Hmac, key), input, make, told, again)
    }

    /// Whether a tag is the version's, of what came.
    ///
    /// # Errors
    /// As [`Self::verify_hmac`].
    pub fn verify_hmac_stream(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        came: &Streaming,
        tag: &[u8],
    ) -> Result<bool, Error> {
        let input = Some(came.input());
        let verify = || self.kms.verify_hmac_stream(&came.stream, tag);
        let told = |is_its: &bool| Told {
            key: Some(came.by().to_string()),
            input,
            output: Some(self.keyed(tag)),
            outcome: if *is_its { Outcome::Done } else { Outcome::Wrong },
        };
        let again = |_: &bool| self.may_still(came, Use::Verify);
        let call = Call { is_charged: true, ..*call };
        self.used(&call, &of(Action::Verify, key), input, verify, told, again)
    }

    fn may_still(&self, came: &Streaming, what: Use) -> Result<(), Error> {
        let VersionId { key, version } = came.by();
        self.kms.still_may(key, *version, what, came.stream.was_newest())
    }
}

fn action(what: StreamUse) -> Action {
    match what {
        StreamUse::Sign => Action::Sign,
        StreamUse::Tag => Action::Hmac,
        StreamUse::Verify(_) | StreamUse::VerifyTag(_) => Action::Verify,
    }
}
