//! The manifest of a store: a keyed hash of each family of records.
//!
//! ```text
//!   record --HMAC-SHA-256(path, generation, digest)--> 256 bits, added to its family's sum modulo 2^256
//!   change of a record: the old one's is subtracted, the new one's added
//! ```
//!
//! This is MSet-Add-Hash (Clarke, Devadas, van Dijk, Gassend, Suh: "Incremental Multiset Hash
//! Functions and Their Application to Memory Integrity Checking", ASIACRYPT 2003). Its key is
//! derived from the root key, and its sums are sealed. The family of a record is the first segment
//! of its path.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::slot::Key;
use crate::error::Error;

/// The format of the manifest.
const FORMAT: u32 = 1;

/// The manifest, as its record contains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// The store's revision before the manifest's first generation. Each commit increments both.
    pub began: u64,
    families: BTreeMap<String, SetHash>,
    /// The upgrade of the store that is not yet in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<String>,
}

impl Manifest {
    /// Returns the manifest of an empty store.
    pub fn new(began: u64) -> Self {
        Manifest { format: FORMAT, began, families: BTreeMap::new(), untold: None }
    }

    /// Returns whether this program knows the manifest's format.
    pub fn is_known(&self) -> bool {
        self.format == FORMAT
    }

    /// Returns the number of records in a family, tombstones included.
    pub fn count(&self, family: &str) -> u64 {
        self.families.get(family).map_or(0, |hash| hash.count)
    }

    /// Adds a record.
    pub fn add(&mut self, path: &str, element: &Element) {
        let hash = self.families.entry(family(path).to_owned()).or_default();
        hash.count = hash.count.wrapping_add(1);
        hash.sum = added(hash.sum, element.0);
    }

    /// Removes a record.
    pub fn remove(&mut self, path: &str, element: &Element) {
        let hash = self.families.entry(family(path).to_owned()).or_default();
        hash.count = hash.count.wrapping_sub(1);
        hash.sum = added(hash.sum, negated(element.0));
    }

    /// Compares this manifest with the one computed from the store's records.
    ///
    /// # Errors
    /// [`Error::Integrity`], naming the first family that differs.
    pub fn check(&self, found: &Manifest) -> Result<(), Error> {
        let none = SetHash::default();
        for family in self.families.keys().chain(found.families.keys()) {
            let [wanted, found] = [self, found].map(|of| of.families.get(family).unwrap_or(&none));
            let (has, had) = (found.count, wanted.count);
            if found != wanted {
                let what = match has.cmp(&had) {
                    std::cmp::Ordering::Less => "records were removed",
                    std::cmp::Ordering::Equal => "records were exchanged or put back to older ones",
                    std::cmp::Ordering::Greater => "records were added",
                };
                let reason =
                    format!("{what} ({has} are there, {had} were written); restore a backup");
                return Err(Error::Integrity { path: family.clone(), reason });
            }
        }
        Ok(())
    }
}

/// The count and the sum of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetHash {
    count: u64,
    /// The sum modulo 2^256, little-endian.
    #[serde(with = "crate::text::hex_field")]
    sum: [u8; 32],
}

/// The hash that a record adds to the sum of its family.
pub struct Element([u8; 32]);

/// Computes the elements of records.
pub struct Elements(Hmac<Sha256>);

impl Elements {
    /// Creates the keyed hash.
    ///
    /// # Errors
    /// [`crate::SealError::Forked`] after a fork.
    pub fn new(key: &Key) -> Result<Self, Error> {
        // Pad the key with zeros to HMAC's block length, as HMAC itself does, so that the
        // constructor cannot fail.
        let mut block = zeroize::Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(key.bytes()?);
        Ok(Elements(Hmac::<Sha256>::new((&*block).into())))
    }

    /// Returns the element of a record.
    pub fn of(&self, path: &str, generation: u64, digest: [u8; 16]) -> Element {
        let mac = self.0.clone().chain_update((path.len() as u64).to_le_bytes());
        let mac =
            mac.chain_update(path).chain_update(generation.to_le_bytes()).chain_update(digest);
        Element(mac.finalize().into_bytes().into())
    }
}

/// Returns the family of a path.
pub fn family(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn added(one: [u8; 32], other: [u8; 32]) -> [u8; 32] {
    let (mut sum, mut carry) = ([0; 32], 0);
    for (sum, (one, other)) in sum.iter_mut().zip(one.iter().zip(other)) {
        let digit = u16::from(*one) + u16::from(other) + carry;
        *sum = digit.to_le_bytes()[0];
        carry = digit >> 8;
    }
    sum
}

fn negated(number: [u8; 32]) -> [u8; 32] {
    let mut one = [0; 32];
    one[0] = 1;
    added(number.map(|digit| !digit), one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_sets_and_not_of_orders() {
        let elements = Elements::new(&Key::of(&[7; 32]).unwrap()).unwrap();
        let of = |path: &str, generation| elements.of(path, generation, [generation as u8; 16]);
        let records = [("a/1", 1), ("a/2", 1), ("b/1", 9)];
        let with = |records: &[(&str, u64)]| {
            let mut manifest = Manifest::new(0);
            records.iter().for_each(|(path, at)| manifest.add(path, &of(path, *at)));
            manifest
        };
        let [one, two, three] = records;
        let all = with(&records);
        assert_eq!(all, with(&[three, two, one]));
        let mut more = with(&[three, two, one, ("a/3", 5)]);
        assert_ne!(more, all);
        more.remove("a/3", &of("a/3", 5));
        assert_eq!(more, all);
        assert_eq!((all.count("a"), all.count("b"), all.count("c")), (2, 1, 0));
        let failed = |found: &[(&str, u64)]| all.check(&with(found)).unwrap_err().to_string();
        assert!(failed(&[one, three]).contains("removed (1 are there, 2 were written)"));
        assert!(failed(&[one, ("a/2", 2), three]).contains("exchanged"));
        assert!(failed(&[one, one, two, three]).contains("added"));
        assert!(failed(&[one, two, three, ("c/1", 1)]).contains("`c`"));
        assert!(all.check(&with(&records)).is_ok());
    }

    #[test]
    fn numbers_wrap_around() {
        let ones = [0xff; 32];
        let mut one = [0; 32];
        one[0] = 1;
        assert_eq!(added(ones, one), [0; 32]);
        assert_eq!(negated(one), ones);
        assert_eq!(negated([0; 32]), [0; 32]);
        assert_eq!(added(ones, negated(ones)), [0; 32]);
    }

    #[test]
    fn manifest_elements_depend_on_the_key() {
        let of =
            |key: u8| Elements::new(&Key::of(&[key; 32]).unwrap()).unwrap().of("a/b", 1, [0; 16]).0;
        assert_ne!(of(1), of(2));
    }
}
