//! Public keys of XMSS and XMSS^MT (RFC 8391, sections 4.1.7 and 4.2.2).

use std::fmt;

use super::params::{Scheme, Set};
use crate::error::Error;
use crate::hbs::Reader;
use crate::identity::Identity;
use crate::kernels::xmss::{N_MAX, XmssContext};

/// A public key. Nothing in it is secret.
#[derive(Clone)]
pub struct VerifyKey {
    /// The encoding, where it is one: number of the set || root || SEED.
    bytes: [u8; Self::LEN_MAX],
    set: Option<(&'static Set, XmssContext)>,
    identity: Identity,
}

impl VerifyKey {
    /// Most bytes of an encoding.
    pub const LEN_MAX: usize = 4 + 2 * N_MAX;

    /// A key without a value.
    pub fn blank() -> Self {
        VerifyKey { bytes: [0; Self::LEN_MAX], set: None, identity: Identity::new() }
    }

    /// Reads a public key of a scheme: its number means another set in the other.
    ///
    /// # Errors
    /// [`Error::PublicKey`] if the scheme has no set with this number, or the length is not that of the set.
    pub fn decode(scheme: Scheme, bytes: &[u8]) -> Result<Self, Error> {
        let refused = |reason| Error::PublicKey { algorithm: scheme.name(), reason };
        let mut reader = Reader::new(bytes);
        let number = reader.u32().ok_or(refused("it ends within the number of its set"))?;
        let set = Set::from_number(scheme, number).ok_or(refused("its set is unknown"))?;
        if bytes.len() != set.public_key_len() {
            return Err(refused("its length is not that of its set"));
        }
        let mut key = Self::blank();
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        key.set = Some((set, XmssContext::new(set.family, &bytes[4 + set.n..])));
        Ok(key)
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
    }

    /// Returns whether this is a key, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.set.is_some()
    }

    /// The encoding; empty where it is blank.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.set().map_or(0, Set::public_key_len)]
    }

    /// The set; `None` where it is blank.
    pub fn set(&self) -> Option<&'static Set> {
        self.set.as_ref().map(|(set, _)| *set)
    }

    /// Bytes of a signature; 0 where it is blank.
    pub fn signature_len(&self) -> usize {
        self.set().map_or(0, Set::signature_len)
    }

    /// Returns the set, the root, and the common prefix of all hashes.
    pub(super) fn parts(&self) -> Option<(&'static Set, &[u8], &XmssContext)> {
        let (set, context) = self.set.as_ref()?;
        Some((set, &self.bytes[4..4 + set.n], context))
    }
}

impl PartialEq for VerifyKey {
    fn eq(&self, other: &Self) -> bool {
        self.set() == other.set() && self.bytes() == other.bytes()
    }
}

impl Eq for VerifyKey {}

impl fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyKey({})", self.set().map_or("blank", |set| set.name))
    }
}
