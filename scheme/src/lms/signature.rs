//! The encoding of signatures (RFC 8554, sections 5.4 and 6.2), taken apart.

use super::keys::{Public, VerifyKey};
use crate::hbs::Reader;

/// One tree's part of a signature: what it signs, and the key that is to verify it.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) public: Public<'a>,
    /// The leaf.
    pub(super) q: u32,
    /// The randomizer C.
    pub(super) randomizer: &'a [u8],
    /// A value of each chain.
    pub(super) values: &'a [u8],
    /// The authentication path, the leaf's sibling first.
    pub(super) path: &'a [u8],
    /// What is signed: the message, or the public key of the next tree.
    pub(super) message: &'a [u8],
}

impl Part<'_> {
    /// Whether both say the same of the same: to verify one is to verify the other.
    pub(super) fn is_same(&self, other: &Part<'_>) -> bool {
        // What differs between most comes first.
        let of = |part: &Part<'_>| (part.q, part.public.lms.typecode, part.public.ots.typecode);
        of(self) == of(other)
            && (self.public.root, self.public.id) == (other.public.root, other.public.id)
            && self.randomizer == other.randomizer
            && (self.message, self.path, self.values) == (other.message, other.path, other.values)
    }
}

/// The parts of a signature, that of the top tree first:
/// `u32str(Nspk) || sig[0] || pub[1] || sig[1] || ... || pub[Nspk] || sig[Nspk]`.
///
/// All that the standard compares before it hashes is compared here (Algorithm 6, steps 1 to 3;
/// Algorithm 6a, steps 1 and 2; Algorithm 4b, step 2): levels, sets, the leaf's number, and the length to the byte.
pub(super) fn parts<'a>(
    key: &'a VerifyKey,
    message: &'a [u8],
    signature: &'a [u8],
) -> Option<Vec<Part<'a>>> {
    let mut reader = Reader::new(signature);
    let mut public = key.top()?;
    if reader.u32()? as usize != key.levels() - 1 {
        return None;
    }
    let mut parts = Vec::with_capacity(key.levels());
    for level in 1..=key.levels() {
        let mut part = read_part(&mut reader, public)?;
        part.message = message;
        if level < key.levels() {
            let signed = reader.rest();
            let next = Public::read(&mut reader)?;
            // Mixed hash functions are refused.
            if (next.lms.family, next.lms.n) != (public.lms.family, public.lms.n) {
                return None;
            }
            part.message = &signed[..next.lms.public_key_len()];
            public = next;
        }
        parts.push(part);
    }
    reader.rest().is_empty().then_some(parts)
}

/// `u32str(q) || u32str(otstype) || C || y[0..p] || u32str(type) || path[0..h]`, under a key.
pub(super) fn read_part<'a>(reader: &mut Reader<'a>, public: Public<'a>) -> Option<Part<'a>> {
    let Public { lms, ots, .. } = public;
    let q = reader.u32().filter(|q| q >> lms.h == 0)?;
    reader.u32().filter(|typecode| *typecode == ots.typecode)?;
    let randomizer = reader.bytes(ots.n)?;
    let values = reader.bytes(ots.chains() * ots.n)?;
    reader.u32().filter(|typecode| *typecode == lms.typecode)?;
    let path = reader.bytes(lms.h as usize * lms.n)?;
    Some(Part { public, q, randomizer, values, path, message: &[] })
}
