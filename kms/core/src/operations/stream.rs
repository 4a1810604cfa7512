//! Messages that come in pieces, of any size: what is signed of them is made as they come, and nothing else is kept.
//!
//! ```text
//!   ML-DSA                       mu (FIPS 204, Algorithm 7, line 6), of the version that is meant
//!   a pre-hash form              the digest
//!   ECDSA, RSA, composites       the digest by their own hash, which signs as the message does
//!   HMAC                         the tag
//!   Ed25519, SLH-DSA, FN-DSA     the message itself, up to a limit: it is hashed more than once, or behind what is drawn
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

/// What is done with a message that comes in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamUse {
    /// It is signed.
    Sign,
    /// A signature of so many bytes is verified.
    Verify(usize),
    /// Its tag is made.
    Tag,
    /// A tag of so many bytes is verified.
    VerifyTag(usize),
}

/// In which form a message is signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamForm {
    /// The context string.
    pub context: Vec<u8>,
    /// The hash of a pre-hash form.
    pub hash: Option<Prehash>,
    /// How RSA signs, where that is said.
    pub rsa: Option<Scheme>,
}

/// How long a message is, as far as that is known, and may be that has to be there whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLen {
    /// Its bytes.
    pub of_message: Option<u64>,
    /// Most bytes of one that has to be there whole.
    pub whole_max: usize,
}

/// A message that comes in pieces, for one version of a key. It has nothing of the key but, for a tag, what the key begins
/// the hash with.
pub struct Stream {
    by: VersionId,
    /// Whether nobody named the version: it was the newest one when the message began.
    was_newest: bool,
    form: StreamForm,
    came: StreamInput,
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
    fn of(self) -> Use {
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
    /// The version that is meant.
    pub fn by(&self) -> &VersionId {
        &self.by
    }

    /// Whether nobody named it.
    pub fn was_newest(&self) -> bool {
        self.was_newest
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// [`Error::Whole`].
    pub fn add(&mut self, piece: &[u8]) -> Result<(), Error> {
        match &mut self.came {
            StreamInput::Mu(pieces)
            | StreamInput::Digest(_, pieces)
            | StreamInput::Rsa(_, pieces) => pieces.add(piece),
            StreamInput::Tag(pieces) => pieces.add(piece),
            StreamInput::Whole { message, most, by_digest } => {
                if piece.len() > *most - message.len() {
                    return Err(whole(&self.by.key, *most, *by_digest));
                }
                message.extend_from_slice(piece);
            }
        }
        Ok(())
    }

    /// The digest that is signed, where a request that has the message whole is told of by it.
    pub(crate) fn digest(&self) -> Option<Vec<u8>> {
        match &self.came {
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

    /// What is signed of all that came.
    fn with<T>(&self, then: impl FnOnce(Signable<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let context = &self.form.context[..];
        match &self.came {
            StreamInput::Mu(pieces) => {
                let mu = pieces.so_far().try_into().map_err(|_| no_stream("signatures"))?;
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
            StreamInput::Tag(_) => Err(no_stream("signatures")),
        }
    }

    fn tag(&self) -> Result<Vec<u8>, Error> {
        match &self.came {
            StreamInput::Tag(pieces) => Ok(pieces.tag()),
            StreamInput::Mu(_)
            | StreamInput::Digest(..)
            | StreamInput::Rsa(..)
            | StreamInput::Whole { .. } => Err(no_stream("tags")),
        }
    }
}

impl Kms {
    /// Begins a message that comes in pieces, for a version, or for the newest one. What can be refused without the message
    /// is refused here: who sends it need not begin.
    ///
    /// # Errors
    /// As [`Self::sign`], [`Self::verify`], [`Self::hmac`] and [`Self::verify_hmac`], and [`Error::Whole`].
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
        let by = self.resolve_version(id, what.of(), version)?;
        let was_newest = version.is_none() && what.of() == Use::Sign;
        let (key, view) = self.check_use(id, by.version, what.of(), was_newest)?;
        let came = match what {
            StreamUse::Tag => StreamInput::Tag(view.material.mac()?.pieces()),
            StreamUse::VerifyTag(len) => {
                let mac = view.material.mac()?;
                if len != mac.tag_len() {
                    return Err(Error::Malformed(id.algorithm.name()));
                }
                StreamInput::Tag(mac.pieces())
            }
            StreamUse::Sign | StreamUse::Verify(_) => match view.material.rsa_public() {
                Some(public) => of_rsa(&key.key, &view.material, public, what, &form)?,
                None => self.of_signature(&key.key, &view, what, &form, len)?,
            },
        };
        Ok(Stream { by, was_newest, form, came })
    }

    /// Of a key of the engine's.
    fn of_signature(
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
            // Labels of conformance restrict what is signed, not what is verified.
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
            Some(len) if len > most as u64 => Err(whole(&key.id, most, by_digest)),
            said => {
                // All of its memory at once: what grows leaves copies behind that nobody wipes.
                let room = said.map_or(most, |len| len as usize);
                let message = Zeroizing::new(Vec::with_capacity(room));
                Ok(StreamInput::Whole { message, most, by_digest })
            }
        }
    }

    /// Signs what came.
    ///
    /// # Errors
    /// As [`Self::sign`].
    pub fn sign_stream(&self, stream: &Stream) -> Result<SignOutput, Error> {
        let sign = || {
            stream.with(|signable| {
                self.sign_version(stream.by.clone(), stream.was_newest, (Use::Sign, signable))
            })
        };
        self.counted(Verb::Sign, stream.by.key.algorithm, sign)
    }

    /// Whether a signature is the version's, of what came.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_stream(&self, stream: &Stream, signature: &[u8]) -> Result<bool, Error> {
        let verify = || stream.with(|signable| self.is_signed(&stream.by, signable, signature));
        self.counted(Verb::Verify, stream.by.key.algorithm, verify)
    }

    /// The tag of what came.
    ///
    /// # Errors
    /// As [`Self::hmac`].
    pub fn hmac_stream(&self, stream: &Stream) -> Result<HmacOutput, Error> {
        let Stream { by, was_newest, .. } = stream;
        self.counted(Verb::Hmac, by.key.algorithm, || {
            let tag = self.used(by, Use::Sign, *was_newest, |_| stream.tag())?;
            Ok(HmacOutput { by: by.clone(), tag })
        })
    }

    /// Whether a tag is the version's, of what came.
    ///
    /// # Errors
    /// As [`Self::verify_hmac`].
    pub fn verify_hmac_stream(&self, stream: &Stream, tag: &[u8]) -> Result<bool, Error> {
        let verify = || self.is_tag(&stream.by, tag, |_| stream.tag());
        self.counted(Verb::VerifyHmac, stream.by.key.algorithm, verify)
    }
}

/// Of a key of RSA.
fn of_rsa(
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
    // What was signed otherwise goes on to be verified.
    let scheme = if what == StreamUse::Sign { key.conforming_scheme(scheme)? } else { scheme };
    let hash = scheme.hash();
    scheme.check(public.bits(), &vec![0; hash.digest_len()])?;
    match what {
        StreamUse::Verify(len) if len != public.bits() / 8 => Err(Error::Malformed("RSA")),
        _ => {
            let pieces = Pieces::to_digest(hash.prehash());
            Ok(StreamInput::Rsa(scheme, pieces.ok_or_else(|| no_stream("signatures"))?))
        }
    }
}

/// A message that is too long to be there whole.
fn whole(key: &KeyId, most: usize, by_digest: bool) -> Error {
    Error::Whole { algorithm: key.algorithm.name(), most, by_digest }
}

/// A stream that was begun for something else.
fn no_stream(what: &str) -> Error {
    Error::Unsupported(format!("the message was begun for something else than {what}"))
}
