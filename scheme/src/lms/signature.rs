//! The encoding of signatures (RFC 8554, sections 5.4 and 6.2), taken apart.

use super::keys::{Public, VerifyKey};
use super::params::{LEVELS_MAX, LmOts, Lms};
use crate::hbs::Reader;

/// One tree's part of a signature: the message it signs, and the key that verifies it.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The key.
    pub public: Public<'a>,
    /// The leaf.
    pub q: u32,
    /// The randomizer C.
    pub randomizer: &'a [u8],
    /// A value of each chain.
    pub values: &'a [u8],
    /// The authentication path, the leaf's sibling first.
    pub path: &'a [u8],
    /// The message, or the public key of the next tree.
    pub message: &'a [u8],
}

impl Part<'_> {
    /// Returns whether both say the same of the same: to verify one is to verify the other.
    pub(super) fn is_same(&self, other: &Part<'_>) -> bool {
        // Fields that differ between most parts are compared first.
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
pub fn parts<'a>(
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

/// Returns the index that made a signature, of HSS or of a single tree without the leading word:
/// the signature contains it, with the heights that are needed. Returns `None` for malformed bytes.
/// Nothing is verified.
pub fn index_of(signature: &[u8]) -> Option<u64> {
    let mut reader = Reader::new(signature);
    let levels = reader.u32()? as usize + 1;
    let hss = (levels <= LEVELS_MAX).then(|| index_of_levels(reader, levels)).flatten();
    hss.or_else(|| index_of_levels(Reader::new(signature), 1))
}

fn index_of_levels(mut reader: Reader<'_>, levels: usize) -> Option<u64> {
    let mut index = 0u64;
    for level in 1..=levels {
        let q = reader.u32()?;
        let ots = LmOts::from_typecode(reader.u32()?)?;
        reader.bytes(ots.signature_len() - 4)?;
        let lms = Lms::from_typecode(reader.u32()?)?;
        reader.bytes(lms.h as usize * lms.n)?;
        if q >> lms.h > 0 {
            return None;
        }
        // Indexes never exceed 2^64.
        index = index.checked_mul(1 << lms.h)?.checked_add(q.into())?;
        if level < levels {
            Public::read(&mut reader)?;
        }
    }
    reader.rest().is_empty().then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lms::{LM_OTS, LMS};

    /// Returns bytes with the format of a signature of one level, which are not a valid signature,
    /// and those of a key.
    fn level(q: u32, height: usize) -> Vec<u8> {
        let (lms, ots) = (&LMS[height], &LM_OTS[3]);
        let [q, lms_number, ots_number] = [q, lms.typecode, ots.typecode].map(u32::to_be_bytes);
        let (values, path) = (vec![7; ots.signature_len() - 4], vec![7; lms.h as usize * lms.n]);
        [&q[..], &ots_number, &values, &lms_number, &path].concat()
    }

    #[test]
    fn the_index_stands_in_the_signature() {
        let key = [&LMS[0].typecode.to_be_bytes()[..], &LM_OTS[3].typecode.to_be_bytes(), &[7; 48]];
        let two = [&[0, 0, 0, 1], &level(5, 1)[..], &key.concat(), &level(9, 0)].concat();
        assert_eq!(index_of(&two), Some(5 << 5 | 9));
        for q in [0, 1, 31] {
            assert_eq!(index_of(&level(q, 0)), Some(q.into()));
            assert_eq!(index_of(&[&[0; 4], &level(q, 0)[..]].concat()), Some(q.into()));
        }
        for bad in [&two[..two.len() - 1], &[&two[..], &[0]].concat(), &level(32, 0), &[], &[0; 4]]
        {
            assert_eq!(index_of(bad), None);
        }
    }
}
