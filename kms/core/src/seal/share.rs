//! Shamir shares of a key, in a text form for people.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use blahaj::Sharks;
use gabion_engine::{Entropy, OsEntropy};
use rand_core::utils::next_word_via_fill;
use rand_core::{TryCryptoRng, TryRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::slot::Key;
use crate::error::{SealError, ShareError};

/// The size of a set's id in bytes.
pub(super) const SET: usize = 8;

/// The size of a share in bytes.
pub(super) const LEN: usize = 32;

/// The maximum length of a share's text.
const TEXT_MAX: usize = 128;

/// The prefix of a share.
const PREFIX: &str = "gbs1";

/// The prefix of a wrapped share.
pub(super) const WRAPPED: &str = "gbw1-";

/// A share of a key, with the id of its set, its index and the threshold. A checksum detects typing
/// errors in a single share. Secret.
///
/// The text form is `gbs1-SET-THRESHOLD-INDEX-SHARE-CHECKSUM`.
#[derive(Clone)]
pub struct Share {
    place: Place,
    bytes: Zeroizing<Vec<u8>>,
}

/// The set, the threshold and the index of a share. Not secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub set: [u8; SET],
    pub threshold: u8,
    pub index: u8,
}

impl Place {
    /// Parses the parts of a share's text.
    pub fn read(set: &str, threshold: &str, index: &str) -> Option<Self> {
        Some(Place {
            set: of_hex(set)?[..].try_into().ok()?,
            threshold: threshold.parse().ok().filter(|&threshold| threshold > 0)?,
            index: index.parse().ok().filter(|&index| index > 0)?,
        })
    }
}

impl Share {
    /// Returns the id of the share's set.
    pub fn set(&self) -> String {
        base16ct::lower::encode_string(&self.place.set)
    }

    /// Returns the share's index in its set, from 1.
    pub fn index(&self) -> u8 {
        self.place.index
    }

    /// Returns the number of shares of the set that are needed to recover the key.
    pub fn threshold(&self) -> u8 {
        self.place.threshold
    }

    /// Creates a share from its bytes; `None` if their number is wrong.
    pub(super) fn of(place: Place, bytes: Zeroizing<Vec<u8>>) -> Option<Self> {
        (bytes.len() == LEN).then_some(Share { place, bytes })
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Returns the secret bytes of the share.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the text form without the checksum. The buffer is allocated with its final capacity,
    /// so that reallocation leaves no copies in memory.
    fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(TEXT_MAX));
        let head = format!("{PREFIX}-{}-{}-{}-", self.set(), self.threshold(), self.index());
        text.push_str(&head);
        let digit = |value: u8| char::from_digit(u32::from(value), 16);
        text.extend(self.bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(digit));
        text
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.text();
        let sum = checksum(&text);
        text.push('-');
        text.push_str(&sum);
        out.write_str(&text)
    }
}

/// Prints which share it is, without the secret.
impl fmt::Debug for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Share {} of set {}", self.index(), self.set())
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let text = text.trim();
        if text.starts_with(WRAPPED) {
            return Err(ShareError::Wrapped);
        }
        let parts: Vec<&str> = text.split('-').collect();
        let [PREFIX, set, threshold, index, bytes, sum] = parts[..] else {
            return Err(ShareError::Form);
        };
        let share = || Share::of(Place::read(set, threshold, index)?, of_hex(bytes)?);
        let share = share().ok_or(ShareError::Form)?;
        // Reject numbers with leading zeros, too: the checksum is that of the canonical text.
        match *share.text() == text[..text.len() - 1 - sum.len()] && checksum(&share.text()) == sum
        {
            true => Ok(share),
            false => Err(ShareError::Checksum),
        }
    }
}

/// Splits a key into `shares` shares, of which `threshold` recover it. Both are from 1 to 255, and
/// `threshold <= shares`.
pub fn split(
    key: &Key,
    set: [u8; SET],
    threshold: u8,
    shares: u8,
) -> Result<Vec<Share>, SealError> {
    let mut random = OsRandomness { failure: None };
    let dealt = Sharks(threshold).dealer_rng(key.bytes()?, &mut random).take(usize::from(shares));
    let shares = dealt
        .map(|share| {
            let bytes = Zeroizing::new(Vec::from(&share));
            let (index, bytes) = (bytes[0], Zeroizing::new(bytes[1..].to_vec()));
            Share { place: Place { set, threshold, index }, bytes }
        })
        .collect();
    match random.failure {
        None => Ok(shares),
        Some(failure) => Err(SealError::Resource(failure)),
    }
}

/// The operating system's randomness. A generator in memory would repeat its output in a forked
/// process.
struct OsRandomness {
    /// The error of a failed read. If set, no share of this run may be used.
    failure: Option<String>,
}

impl TryRng for OsRandomness {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        if let Err(error) = OsEntropy.fill(out) {
            self.failure = Some(error.to_string());
        }
        Ok(())
    }
}

impl TryCryptoRng for OsRandomness {}

/// Recovers a key from shares of one set.
pub fn combine(shares: &[Share], set: [u8; SET], threshold: u8) -> Result<Key, SealError> {
    if let Some(other) =
        shares.iter().find(|share| share.place.set != set || share.threshold() != threshold)
    {
        let (index, found, wanted) =
            (other.index(), other.set(), base16ct::lower::encode_string(&set));
        return Err(ShareError::OtherSet { index, found, wanted }.into());
    }
    let mut different: Vec<&Share> = shares.iter().collect();
    different.sort_by_key(|share| share.index());
    different.dedup_by_key(|share| share.index());
    let too_few = ShareError::TooFew { got: different.len(), needed: threshold };
    if different.len() < usize::from(threshold) {
        return Err(too_few.into());
    }
    let shares: Result<Vec<blahaj::Share>, _> = different
        .iter()
        .map(|share| {
            let bytes = Zeroizing::new([&[share.index()], &share.bytes[..]].concat());
            blahaj::Share::try_from(&bytes[..])
        })
        .collect();
    let shares = shares.map_err(|_| ShareError::Form)?;
    let bytes = Zeroizing::new(Sharks(threshold).recover(&shares).map_err(|_| too_few)?);
    Key::of(&bytes)
}

/// Decodes hexadecimal digits. Only lower-case digits are accepted, so that a share has one text
/// form.
fn of_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    base16ct::lower::decode_vec(text).ok().map(Zeroizing::new)
}

/// Returns the first four bytes of the text's SHA-256 in hexadecimal.
pub(super) fn checksum(text: &str) -> String {
    base16ct::lower::encode_string(&Sha256::digest(text)[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_threshold_of_shares_recovers_the_key() {
        let key = Key::of(&[0xa5; 32]).unwrap();
        let shares = split(&key, [1; SET], 3, 5).unwrap();
        for (a, b, c) in [(0, 1, 2), (4, 2, 0), (1, 3, 4)] {
            let some = [a, b, c].map(|n: usize| shares[n].clone());
            assert_eq!(combine(&some, [1; SET], 3).unwrap().bytes(), key.bytes());
        }
        let all = [&shares[..], &shares[..2]].concat();
        assert_eq!(combine(&all, [1; SET], 3).unwrap().bytes(), key.bytes());
        let twice = [shares[0].clone(), shares[1].clone(), shares[1].clone()];
        let too_few = SealError::Share(ShareError::TooFew { got: 2, needed: 3 });
        assert_eq!(combine(&twice, [1; SET], 3).err(), Some(too_few));
        let mut mixed = shares;
        mixed[1] = split(&key, [2; SET], 3, 5).unwrap().remove(1);
        let other = combine(&mixed, [1; SET], 3).err().unwrap();
        assert!(matches!(other, SealError::Share(ShareError::OtherSet { index: 2, .. })));
    }

    #[test]
    fn a_share_round_trips_and_typos_are_reported() {
        let share = split(&Key::of(&[9; 32]).unwrap(), [0x1f; SET], 2, 2).unwrap().remove(1);
        let text = share.to_string();
        assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        assert_eq!(format!(" {text}\n").parse::<Share>().unwrap().to_string(), text);
        assert!(text.starts_with("gbs1-1f1f1f1f1f1f1f1f-2-2-"), "{text}");
        for place in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[place] = if other[place] == b'0' { b'1' } else { b'0' };
            let other = String::from_utf8(other).unwrap();
            assert!(other.parse::<Share>().is_err(), "{other}");
            assert!(text[..place].parse::<Share>().is_err());
        }
        assert!(!format!("{share:?}").contains(&base16ct::lower::encode_string(&share.bytes)));
    }
}
