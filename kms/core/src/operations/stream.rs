//! Messages of any size that arrive in pieces. The input of the signature is computed
//! incrementally, and the message is not kept.
//!
//! ```text
//!   ML-DSA                       mu (FIPS 204, Algorithm 7, line 6), of the given version
//!   a pre-hash form              the digest
//!   ECDSA, RSA, composites       the digest by their own hash, which signs as the message does
//!   HMAC                         the tag
//!   Ed25519, SLH-DSA, FN-DSA     the message itself, up to a limit: it is hashed twice, or after random data
//! ```

use std::time::Instant;

use gabion_engine::{Message, Pieces, Prehash};
use zeroize::Zeroizing;

use super::cache::VersionView;
use super::hmac::HmacOutput;
use super::kms::Kms;
use super::material::Material;
use super::metrics::Verb;
use super::sign::SignOutput;
use super::verify::check_len;
use crate::error::Error;
use crate::model::{Key, KeyId, Use, VersionId};
use crate::rsa::{self, Scheme};
use crate::signable::Signable;
use crate::symmetric::MacPieces;

/// The operation on a message that arrives in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamUse {
    /// Sign it.
    Sign,
    /// Verify a signature of this length in bytes.
    Verify(usize),
    /// Make its tag.
    Tag,
    /// Verify a tag of this length in bytes.
    VerifyTag(usize),
}

/// The form in which a message is signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamForm {
    /// The context string.
    pub context: Vec<u8>,
    /// The hash of a pre-hash form.
    pub hash: Option<Prehash>,
    /// The scheme of RSA. `None` for RSA's default, and for other algorithms.
    pub rsa: Option<Scheme>,
}

/// The length of a message, if known, and the limit for messages that are kept as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLen {
    /// The length of the message in bytes, if it is known.
    pub of_message: Option<u64>,
    /// The largest message in bytes that is kept as a whole, for algorithms that cannot hash it in
    /// pieces.
    pub whole_max: usize,
}

/// A message that arrives in pieces, for one version of a key. It contains no key material except,
/// for a tag, the initial hash state.
pub struct Stream {
    by: VersionId,
    /// Whether the request named no version: this one was the newest when the message began.
    was_newest: bool,
    form: StreamForm,
    input: StreamInput,
}

/// The input so far.
enum StreamInput {
    Mu(Pieces),
    Digest(Prehash, Pieces),
    Rsa(Scheme, Pieces),
    Whole { message: Zeroizing<Vec<u8>>, most: usize, by_digest: bool },
    Tag(MacPieces),
}

impl StreamUse {
    fn key_use(self) -> Use {
        match self {
            StreamUse::Sign | StreamUse::Tag => Use::Sign,
            StreamUse::Verify(_) | StreamUse::VerifyTag(_) => Use::Verify,
        }
    }

    fn verb(self) -> Verb {
        match self {
            StreamUse::Sign => Verb::Sign,
            StreamUse::Verify(_) => Verb::Verify,
            StreamUse::Tag => Verb::Hmac,
            StreamUse::VerifyTag(_) => Verb::VerifyHmac,
        }
    }
}

impl Stream {
    /// Returns the version that signs, verifies or makes the tag.
    pub fn by(&self) -> &VersionId {
        &self.by
    }

    /// Returns whether the request named no version.
    pub fn was_newest(&self) -> bool {
        self.was_newest
    }

    /// Adds the next piece.
    ///
    /// # Errors
    /// [`Error::Whole`].
    pub fn add(&mut self, piece: &[u8]) -> Result<(), Error> {
        match &mut self.input {
            StreamInput::Mu(pieces)
            | StreamInput::Digest(_, pieces)
            | StreamInput::Rsa(_, pieces) => pieces.add(piece),
            StreamInput::Tag(pieces) => pieces.add(piece),
            StreamInput::Whole { message, most, by_digest } => {
                if piece.len() > *most - message.len() {
                    return Err(too_long(&self.by.key, *most, *by_digest));
                }
                message.extend_from_slice(piece);
            }
        }
        Ok(())
    }

    /// Returns the digest that is signed, if the audit log records it in place of the message's
    /// digest, as for a request with the whole message.
    pub(crate) fn digest(&self) -> Option<Vec<u8>> {
        match &self.input {
            StreamInput::Digest(_, pieces) if self.form.hash.is_some() => Some(pieces.so_far()),
            StreamInput::Rsa(_, pieces) if self.form.rsa.is_some() || self.form.hash.is_some() => {
                Some(pieces.so_far())
            }
            StreamInput::Mu(_)
            | StreamInput::Digest(..)
            | StreamInput::Rsa(..)
            | StreamInput::Whole { .. }
            | StreamInput::Tag(_) => None,
        }
    }

    /// Passes the signable form of all pieces so far to a function.
    fn with_signable<T>(
        &self,
        then: impl FnOnce(Signable<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let context = &self.form.context[..];
        match &self.input {
            StreamInput::Mu(pieces) => {
                let mu = pieces.so_far().try_into().map_err(|_| wrong_stream("signatures"))?;
                then(Message::Mu(&mu).into())
            }
            StreamInput::Digest(hash, pieces) => {
                let (hash, digest) = (*hash, &pieces.so_far());
                then(Message::Prehash { context, hash, digest }.into())
            }
            StreamInput::Rsa(scheme, pieces) => {
                then(Signable::Digest { scheme: *scheme, digest: &pieces.so_far() })
            }
            StreamInput::Whole { message, .. } => then(Message::Pure { context, message }.into()),
            StreamInput::Tag(_) => Err(wrong_stream("signatures")),
        }
    }

    fn tag(&self) -> Result<Vec<u8>, Error> {
        match &self.input {
            StreamInput::Tag(pieces) => Ok(pieces.tag()),
            StreamInput::Mu(_)
            | StreamInput::Digest(..)
            | StreamInput::Rsa(..)
            | StreamInput::Whole { .. } => Err(wrong_stream("tags")),
        }
    }
}

impl Kms {
    /// Begins a message that arrives in pieces, for a version or for the newest one. Everything
    /// that can be rejected without the message is rejected here, so that clients need not send it.
    ///
    /// # Errors
    /// Those of [`Self::sign`], [`Self::verify`], [`Self::hmac`] and [`Self::verify_hmac`];
    /// [`Error::Whole`].
    pub fn stream(
        &self,
        id: &KeyId,
        version: Option<u32>,
        what: StreamUse,
        form: StreamForm,
        len: StreamLen,
    ) -> Result<Stream, Error> {
        let start = Instant::now();
        let begun = self.begin_stream(id, version, what, form, len);
        if begun.is_err() {
            self.told(what.verb(), id.algorithm, start, &begun);
        }
        begun
    }

    fn begin_stream(
        &self,
        id: &KeyId,
        version: Option<u32>,
        what: StreamUse,
        form: StreamForm,
        len: StreamLen,
    ) -> Result<Stream, Error> {
        let by = self.resolve_version(id, what.key_use(), version)?;
        let was_newest = version.is_none() && what.key_use() == Use::Sign;
        let (key, view) = self.check_use(id, by.version, what.key_use(), was_newest)?;
        let input = match what {
            StreamUse::Tag => StreamInput::Tag(view.material.mac()?.pieces()),
            StreamUse::VerifyTag(len) => {
                let mac = view.material.mac()?;
                if len != mac.tag_len() {
                    return Err(Error::Malformed(id.algorithm.name()));
                }
                StreamInput::Tag(mac.pieces())
            }
            StreamUse::Sign | StreamUse::Verify(_) => match view.material.rsa_public() {
                Some(public) => begin_rsa(&key.key, &view.material, public, what, &form)?,
                None => self.begin_signature(&key.key, &view, what, &form, len)?,
            },
        };
        Ok(Stream { by, was_newest, form, input })
    }

    /// Begins a message for a key of the engine.
    fn begin_signature(
        &self,
        key: &Key,
        view: &VersionView,
        what: StreamUse,
        form: &StreamForm,
        len: StreamLen,
    ) -> Result<StreamInput, Error> {
        if form.rsa.is_some() {
            return Err(rsa::no_rsa());
        }
        let public = match what {
            StreamUse::Sign => view.material.signing()?.public(),
            _ => view.material.verify()?.clone(),
        };
        if let StreamUse::Verify(len) = what {
            check_len(&public, len)?;
        }
        let context = &form.context[..];
        let check = |hash: Option<Prehash>| {
            let digest = vec![0; hash.map_or(0, Prehash::digest_len)];
            let message = match hash {
                Some(hash) => Message::Prehash { context, hash, digest: &digest },
                None => Message::Pure { context, message: &[] },
            };
            message.check().map_err(gabion_engine::Error::from)?;
            public.check_message(&message)?;
            // Conformance labels restrict signing, not verifying.
            if what == StreamUse::Sign {
                key.check_message(&message)
            } else {
                key.check_mu(&message)
            }
        };
        check(form.hash)?;
        if form.hash.is_none() && public.ml_dsa().is_some() {
            return Ok(StreamInput::Mu(Pieces::to_mu(public.bytes(), Some(context))?));
        }
        let hash = form.hash.or_else(|| public.own_hash());
        if let Some((hash, pieces)) = hash.and_then(|hash| Some((hash, Pieces::to_digest(hash)?))) {
            return Ok(StreamInput::Digest(hash, pieces));
        }
        let (most, by_digest) = (len.whole_max, check(Some(Prehash::Sha2_512)).is_ok());
        match len.of_message {
            Some(len) if len > most as u64 => Err(too_long(&key.id, most, by_digest)),
            said => {
                // Allocate the final size at once, because reallocation leaves copies that are not
                // wiped.
                let room = said.map_or(most, |len| len as usize);
                let message = Zeroizing::new(Vec::with_capacity(room));
                Ok(StreamInput::Whole { message, most, by_digest })
            }
        }
    }

    /// Signs the message.
    ///
    /// # Errors
    /// Those of [`Self::sign`].
    pub fn sign_stream(&self, stream: &Stream) -> Result<SignOutput, Error> {
        let sign = || {
            stream.with_signable(|signable| {
                self.sign_version(stream.by.clone(), stream.was_newest, (Use::Sign, signable))
            })
        };
        self.counted(Verb::Sign, stream.by.key.algorithm, sign)
    }

    /// Verifies a signature of the message.
    ///
    /// # Errors
    /// Those of [`Self::verify`].
    pub fn verify_stream(&self, stream: &Stream, signature: &[u8]) -> Result<bool, Error> {
        let verify =
            || stream.with_signable(|signable| self.is_signed(&stream.by, signable, signature));
        self.counted(Verb::Verify, stream.by.key.algorithm, verify)
    }

    /// Computes the tag of the message.
    ///
    /// # Errors
    /// Those of [`Self::hmac`].
    pub fn hmac_stream(&self, stream: &Stream) -> Result<HmacOutput, Error> {
        let Stream { by, was_newest, .. } = stream;
        self.counted(Verb::Hmac, by.key.algorithm, || {
            let tag = self.used(by, Use::Sign, *was_newest, |_| stream.tag())?;
            Ok(HmacOutput { by: by.clone(), tag })
        })
    }

    /// Verifies a tag of the message.
    ///
    /// # Errors
    /// Those of [`Self::verify_hmac`].
    pub fn verify_hmac_stream(&self, stream: &Stream, tag: &[u8]) -> Result<bool, Error> {
        let verify = || self.is_tag(&stream.by, tag, |_| stream.tag());
        self.counted(Verb::VerifyHmac, stream.by.key.algorithm, verify)
    }
}

/// Begins a message for an RSA key.
fn begin_rsa(
    key: &Key,
    material: &Material,
    public: &rsa::PublicKey,
    what: StreamUse,
    form: &StreamForm,
) -> Result<StreamInput, Error> {
    if what == StreamUse::Sign {
        material.rsa_private()?;
    }
    let scheme = match form.rsa {
        Some(scheme) => scheme,
        None => rsa::usual_scheme(&form.context, form.hash)?,
    };
    // Existing signatures of other schemes can still be verified.
    let scheme = if what == StreamUse::Sign { key.conforming_scheme(scheme)? } else { scheme };
    let hash = scheme.hash();
    scheme.check(public.bits(), &vec![0; hash.digest_len()])?;
    match what {
        StreamUse::Verify(len) if len != public.bits() / 8 => Err(Error::Malformed("RSA")),
        _ => {
            let pieces = Pieces::to_digest(hash.prehash());
            Ok(StreamInput::Rsa(scheme, pieces.ok_or_else(|| wrong_stream("signatures"))?))
        }
    }
}

/// The error for a message that is too long to be kept as a whole.
fn too_long(key: &KeyId, most: usize, by_digest: bool) -> Error {
    Error::Whole { algorithm: key.algorithm.name(), most, by_digest }
}

/// The error for a stream that was begun for another operation.
fn wrong_stream(what: &str) -> Error {
    Error::Unsupported(format!("the message was begun for something else than {what}"))
}
