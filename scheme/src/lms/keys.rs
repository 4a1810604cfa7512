//! Public keys of HSS and LMS (RFC 8554, sections 5.3 and 6.1).

use std::borrow::Cow;
use std::fmt;

use super::params::{LEVELS_MAX, LM_OTS, LmOts, Lms, N_MAX};
use crate::error::Error;
use crate::hbs::Reader;
use crate::identity::Identity;

/// The algorithm's name in errors.
const NAME: &str = "HSS";

/// An LMS public key within an HSS key or signature.
#[derive(Clone, Copy)]
pub struct Public<'a> {
    /// The set of the tree.
    pub lms: &'static Lms,
    /// The parameter set of its one-time signatures.
    pub ots: &'static LmOts,
    /// The identifier I.
    pub id: &'a [u8; 16],
    /// T\[1\].
    pub root: &'a [u8],
}

impl<'a> Public<'a> {
    /// Reads a public key: u32str(type) || u32str(otstype) || I || T[1]. Returns `None` if it is
    /// malformed, or if tree and one-time signature use different hashes.
    pub(super) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let lms = Lms::from_typecode(reader.u32()?)?;
        let ots = LmOts::from_typecode(reader.u32()?)?;
        let (id, root) = (reader.array()?, reader.bytes(lms.n)?);
        let one_hash = (lms.family, lms.n) == (ots.family, ots.n);
        one_hash.then_some(Public { lms, ots, id, root })
    }
}

/// A public key of HSS, of one level or more. Nothing in it is secret.
#[derive(Clone)]
pub struct VerifyKey {
    /// The encoding, where it is one: u32str(L) || pub[0].
    bytes: [u8; Self::LEN_MAX],
    len: usize,
    levels: usize,
    sets: Option<(&'static Lms, &'static LmOts)>,
    identity: Identity,
}

impl VerifyKey {
    /// Most bytes of an encoding.
    pub const LEN_MAX: usize = 4 + 4 + 4 + 16 + N_MAX;

    /// A key without a value.
    pub fn blank() -> Self {
        VerifyKey {
            bytes: [0; Self::LEN_MAX],
            len: 0,
            levels: 0,
            sets: None,
            identity: Identity::new(),
        }
    }

    /// Reads an HSS public key (RFC 8554, section 6.1): `u32str(L) || pub[0]`.
    ///
    /// # Errors
    /// [`Error::PublicKey`] if the number of levels or a set is unknown, tree and one-time signature
    /// are not of one hash function, or the length is not that of the sets.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let refused = |reason| Error::PublicKey { algorithm: NAME, reason };
        let mut reader = Reader::new(bytes);
        let levels = reader.u32().ok_or(refused("it ends within the number of levels"))? as usize;
        if !(1..=LEVELS_MAX).contains(&levels) {
            return Err(refused("the number of levels is not 1 to 8"));
        }
        let public = Public::read(&mut reader).ok_or_else(|| refused(why(&bytes[4..])))?;
        if !reader.rest().is_empty() {
            return Err(refused("bytes follow it"));
        }
        let mut key = Self::blank();
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        key.len = bytes.len();
        key.levels = levels;
        key.sets = Some((public.lms, public.ots));
        Ok(key)
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
    }

    /// Returns whether this is a key, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.sets.is_some()
    }

    /// The encoding; empty where it is blank.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Levels of trees; 0 where it is blank.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Returns the parameter sets of the top tree and of its one-time signatures; `None` for a
    /// blank key. Signatures contain those of lower trees, which use the same hash function.
    pub fn sets(&self) -> Option<(&'static Lms, &'static LmOts)> {
        self.sets
    }

    /// Bytes of a signature, where that does not depend on the signature: with one level.
    pub fn signature_len(&self) -> Option<usize> {
        let (lms, ots) = self.sets.filter(|_| self.levels == 1)?;
        Some(4 + lms.signature_len(ots))
    }

    /// Most bytes of a signature: with the greatest sets below the top tree. 0 where it is blank.
    pub fn signature_len_max(&self) -> usize {
        let Some((lms, ots)) = self.sets else { return 0 };
        let greatest = super::params::LMS.iter().filter(|set| set.n == lms.n);
        let greatest = greatest.flat_map(|lms| {
            let ots = LM_OTS.iter().filter(|ots| (ots.family, ots.n) == (lms.family, lms.n));
            ots.map(|ots| lms.public_key_len() + lms.signature_len(ots))
        });
        4 + lms.signature_len(ots) + (self.levels - 1) * greatest.max().unwrap_or(0)
    }

    /// The top tree's key.
    pub(super) fn top(&self) -> Option<Public<'_>> {
        Public::read(&mut Reader::new(self.bytes().get(4..)?))
    }
}

/// Why these bytes are, or begin with, no LMS public key.
fn why(bytes: &[u8]) -> &'static str {
    let mut reader = Reader::new(bytes);
    let (Some(lms), Some(ots)) = (reader.u32(), reader.u32()) else {
        return "it ends within the numbers of its sets";
    };
    match (Lms::from_typecode(lms), LmOts::from_typecode(ots)) {
        (None, _) => "the number of its tree's set is unknown",
        (_, None) => "the number of its one-time signatures' set is unknown",
        (Some(lms), Some(ots)) if (lms.family, lms.n) != (ots.family, ots.n) => {
            "its tree and its one-time signatures are not of one hash function"
        }
        _ => "it is too short for its sets",
    }
}

impl PartialEq for VerifyKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for VerifyKey {}

impl fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sets {
            Some((lms, ots)) => {
                write!(f, "VerifyKey({} levels, {}, {})", self.levels, lms.name, ots.name)
            }
            None => f.write_str("VerifyKey(blank)"),
        }
    }
}

/// A public key in HSS's form: one of LMS (RFC 8554, section 5.3), which its length tells from every key of HSS, gets
/// the number of levels in front that it lacks, and is owned then. All else is as it came.
pub fn with_levels(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut reader = Reader::new(bytes);
    match Public::read(&mut reader) {
        Some(_) if reader.rest().is_empty() => Cow::Owned([&1u32.to_be_bytes(), bytes].concat()),
        _ => Cow::Borrowed(bytes),
    }
}
