//! The inputs of signatures.

use gabion_engine::Message;

use crate::rsa::Scheme;

/// A message, or a digest that RSA signs under a named scheme.
#[derive(Clone, Copy)]
pub enum Signable<'a> {
    /// A message. RSA signs its digest by PSS, with a salt as long as the digest.
    Message(Message<'a>),
    /// A digest. Only RSA keys accept it.
    Digest {
        /// The padding, the hash that made the digest, and the length of the salt.
        scheme: Scheme,
        /// The digest, whose length has to match the scheme's hash.
        digest: &'a [u8],
    },
}

impl<'a> From<Message<'a>> for Signable<'a> {
    fn from(message: Message<'a>) -> Self {
        Signable::Message(message)
    }
}

impl<'a> Signable<'a> {
    /// Returns the bytes whose digest the audit log records: the message, or the digest or message
    /// representative that the caller sent in its place.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match *self {
            Signable::Message(Message::Pure { message, .. } | Message::Internal(message)) => {
                message
            }
            Signable::Message(Message::Prehash { digest, .. })
            | Signable::Digest { digest, .. } => digest,
            Signable::Message(Message::Mu(mu)) => mu,
        }
    }
}
