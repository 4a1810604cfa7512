//! Unseal shares that are wrapped for their holders.
//!
//! ```text
//!   share --HPKE (RFC 9180), X-Wing--> gbw1-SET-THRESHOLD-INDEX-WRAPPED-CHECKSUM --private key--> share
//! ```
//!
//! Only the holder can read a wrapped share, so it may be sent by mail and may appear in logs. The
//! set, the threshold and the index are in clear and bound to the share. Unwrapping does not
//! authenticate the sender, because holders' public keys are not secret.

use std::fmt;
use std::str::FromStr;

use gabion_engine::{Algorithm, Engine, KemPrivateKey, KemPublicKey, OsEntropy};
use sha2::{Digest, Sha256};

use super::share::{self, Place, Share, WRAPPED};
use crate::error::{Error, SealError, ShareError};
use crate::text;
use crate::transport::{Recipient, open_by_x_wing, wrap_by_x_wing};

/// The number of bytes that HPKE adds after `enc`: the AES-GCM tag.
const TAG: usize = 16;

/// The size of the X25519 part of an X-Wing public key, which comes last
/// (draft-connolly-cfrg-xwing-kem, section 5.2).
const X25519: usize = 32;

/// The holder of a share, identified by an X-Wing public key.
#[derive(Clone)]
pub struct Holder {
    key: KemPublicKey,
    spki: Vec<u8>,
}

impl Holder {
    /// Parses a DER-encoded SubjectPublicKeyInfo with an X-Wing key.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the key is of another algorithm, is private, or has an X25519 part
    /// of small order, which only an attacker would generate.
    pub fn of_spki(engine: &Engine, der: &[u8]) -> Result<Self, Error> {
        let refused = |why: &str| Error::Parameter(format!("the holder's key: {why}"));
        let recipient = Recipient::of_spki(engine, der)?;
        let key = recipient.x_wing().ok_or_else(|| {
            refused("it is one of RSA; expected a SubjectPublicKeyInfo of X-Wing")
        })?;
        let curve = key.bytes().len().checked_sub(X25519).and_then(|at| key.bytes().get(at..));
        let peer = engine.exchange_public(Algorithm::X25519, curve.unwrap_or_default())?;
        let own = engine.exchange_generate(Algorithm::X25519, &OsEntropy)?;
        match engine.derive(&own, &peer) {
            Ok(_) => Ok(Holder { key: key.clone(), spki: recipient.spki().to_vec() }),
            Err(gabion_engine::Error::Input(_)) => {
                Err(refused("its X25519 part has a small order; generate another key"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the SHA-256 of the public key's DER in hexadecimal, to compare with the value that
    /// the holder reports.
    pub fn sha256(&self) -> String {
        text::hex(&Sha256::digest(&self.spki))
    }

    fn wrap(&self, engine: &Engine, share: &Share) -> Result<WrappedShare, Error> {
        let place = share.place();
        let wrapped = wrap_by_x_wing(engine, &self.key, &info(place), share.bytes())?;
        Ok(WrappedShare { place, wrapped })
    }
}

/// Prints the public key's digest.
impl fmt::Debug for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Holder {}", self.sha256())
    }
}

/// Checks that there is one holder for each share, and that no holder occurs twice.
///
/// # Errors
/// [`Error::Parameter`].
pub fn check_holders(holders: &[Holder], shares: usize) -> Result<(), Error> {
    if holders.len() != shares {
        let why = format!(
            "each share has a holder, or none has; expected {shares}, and there are {}",
            holders.len()
        );
        return Err(Error::Parameter(why));
    }
    for (at, holder) in holders.iter().enumerate() {
        if let Some(first) = holders[..at].iter().position(|other| other.spki == holder.spki) {
            let why = format!(
                "holders {} and {} have the same key, so that one person would hold two shares",
                first + 1,
                at + 1
            );
            return Err(Error::Parameter(why));
        }
    }
    Ok(())
}

/// Wraps all shares: the first one for the first holder, and so on.
///
/// # Errors
/// Those of [`check_holders`]; no randomness; no healthy backend. Then no share is wrapped.
pub fn wrap(
    engine: &Engine,
    shares: &[Share],
    holders: &[Holder],
) -> Result<Vec<WrappedShare>, Error> {
    check_holders(holders, shares.len())?;
    shares.iter().zip(holders).map(|(share, holder)| holder.wrap(engine, share)).collect()
}

/// A share that is wrapped for its holder. The set, the threshold and the index are in clear; only
/// the holder can read the rest.
///
/// The text form is `gbw1-SET-THRESHOLD-INDEX-WRAPPED-CHECKSUM`, about 1600 characters.
#[derive(Clone)]
pub struct WrappedShare {
    place: Place,
    wrapped: Vec<u8>,
}

impl WrappedShare {
    /// Returns the id of the share's set.
    pub fn set(&self) -> String {
        text::hex(&self.place.set)
    }

    /// Returns the share's index in its set, from 1.
    pub fn index(&self) -> u8 {
        self.place.index
    }

    /// Returns the number of shares of the set that open the seal.
    pub fn threshold(&self) -> u8 {
        self.place.threshold
    }

    /// Unwraps the share with the holder's private key.
    ///
    /// # Errors
    /// [`ShareError::OtherHolder`]; a key that is not an X-Wing key; no healthy backend.
    pub fn open(&self, engine: &Engine, own: &KemPrivateKey) -> Result<Share, Error> {
        if own.algorithm() != Algorithm::XWing {
            let why =
                format!("a key of {} opens no share; expected one of X-Wing", own.algorithm());
            return Err(Error::Parameter(why));
        }
        let other =
            || SealError::Share(ShareError::OtherHolder { index: self.index(), set: self.set() });
        let bytes = match open_by_x_wing(engine, own, &info(self.place), &self.wrapped) {
            Err(Error::DecryptFailed) => return Err(other().into()),
            opened => opened?,
        };
        // The sender is not authenticated, so the plaintext may be anything.
        Ok(Share::of(self.place, bytes).ok_or_else(other)?)
    }

    /// Returns the text form without the checksum.
    fn text(&self) -> String {
        let wrapped = text::base64url(&self.wrapped);
        format!("{WRAPPED}{}-{}-{}-{wrapped}", self.set(), self.threshold(), self.index())
    }
}

impl fmt::Display for WrappedShare {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        write!(out, "{text}-{}", share::checksum(&text))
    }
}

/// Prints which share it is, without the wrapped bytes.
impl fmt::Debug for WrappedShare {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "WrappedShare {} of set {}", self.index(), self.set())
    }
}

impl FromStr for WrappedShare {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let text = text.trim();
        if text.parse::<Share>().is_ok() {
            return Err(ShareError::NotWrapped);
        }
        let rest = text.strip_prefix(WRAPPED).ok_or(ShareError::WrappedForm)?;
        // Base64url uses `-` too, so split off the parts before and after it.
        let mut parts = rest.splitn(4, '-');
        let mut read = || {
            let place = Place::read(parts.next()?, parts.next()?, parts.next()?)?;
            let (wrapped, sum) = parts.next()?.rsplit_once('-')?;
            let wrapped = text::of_base64url(wrapped)?;
            let len = Algorithm::XWing.info().output.max() + share::LEN + TAG;
            (wrapped.len() == len).then_some((WrappedShare { place, wrapped }, sum))
        };
        let (share, sum) = read().ok_or(ShareError::WrappedForm)?;
        let written = share.text();
        match share::checksum(&written) == sum && text == format!("{written}-{sum}") {
            true => Ok(share),
            false => Err(ShareError::Checksum),
        }
    }
}

/// Returns the `info` input of HPKE, which binds the share's set, threshold and index.
fn info(place: Place) -> Vec<u8> {
    let Place { set, threshold, index } = place;
    format!("gabion-kms share 1\0{}\0{threshold}\0{index}", text::hex(&set)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::slot::Key;

    fn dealt() -> Vec<Share> {
        share::split(&Key::of(&[0x5a; 32]).unwrap(), [0xc3; share::SET], 2, 3).unwrap()
    }

    fn own(engine: &Engine, seed: u8) -> KemPrivateKey {
        engine.kem_from_seed(Algorithm::XWing, &[seed; 32]).unwrap()
    }

    fn holder(engine: &Engine, own: &KemPrivateKey) -> Holder {
        let spki = Recipient::of_x_wing(own.public()).unwrap().spki().to_vec();
        Holder::of_spki(engine, &spki).unwrap()
    }

    #[test]
    fn a_wrapped_share_opens_for_its_holder_alone_and_at_its_place() {
        let engine = Engine::global().unwrap();
        let own = [1, 2, 3].map(|seed| own(engine, seed));
        let holders = own.each_ref().map(|own| holder(engine, own));
        let shares = dealt();
        let wrapped = wrap(engine, &shares, &holders).unwrap();
        for (at, wrapped) in wrapped.iter().enumerate() {
            let text = wrapped.to_string();
            assert!(text.starts_with(&format!("gbw1-c3c3c3c3c3c3c3c3-2-{}-", at + 1)), "{text}");
            let read: WrappedShare = format!(" {text}\n").parse().unwrap();
            assert_eq!(read.to_string(), text);
            let shown = format!("{read:?} {:?}", holders[at]);
            assert!(
                !shown.contains(&base16ct::lower::encode_string(shares[at].bytes())),
                "{shown}"
            );
            for (by, own) in own.iter().enumerate() {
                match (read.open(engine, own), by == at) {
                    (Ok(share), true) => assert_eq!(share.to_string(), shares[at].to_string()),
                    (
                        Err(Error::Seal(SealError::Share(ShareError::OtherHolder { index, set }))),
                        false,
                    ) => {
                        assert_eq!((usize::from(index), &*set), (at + 1, "c3c3c3c3c3c3c3c3"));
                    }
                    (other, _) => panic!("{other:?}"),
                }
            }
            // A changed index, threshold or set is rejected.
            let Place { set, threshold, index } = read.place;
            for place in [
                Place { index: index + 1, ..read.place },
                Place { threshold: threshold + 1, ..read.place },
                Place { set: [set[0] ^ 1; share::SET], ..read.place },
            ] {
                let moved = WrappedShare { place, wrapped: read.wrapped.clone() };
                assert!(moved.open(engine, &own[at]).is_err());
            }
        }
        // Wrapping is randomized.
        let again = wrap(engine, &shares, &holders).unwrap();
        assert_ne!(again[0].to_string(), wrapped[0].to_string());
    }

    #[test]
    fn damaged_shares_and_shares_of_the_other_kind_are_reported() {
        let engine = Engine::global().unwrap();
        let own = own(engine, 1);
        let share = dealt().remove(0);
        let text = holder(engine, &own).wrap(engine, &share).unwrap().to_string();
        assert_eq!(text.parse::<Share>().err(), Some(ShareError::Wrapped));
        assert_eq!(share.to_string().parse::<WrappedShare>().err(), Some(ShareError::NotWrapped));
        for place in (0..text.len()).step_by(7).chain(0..40).chain(text.len() - 12..text.len()) {
            let mut other = text.clone().into_bytes();
            other[place] = if other[place] == b'1' { b'2' } else { b'1' };
            let other = String::from_utf8(other).unwrap();
            assert!(other.parse::<WrappedShare>().is_err(), "byte {place}");
            assert!(text[..place].parse::<WrappedShare>().is_err(), "{place} bytes");
        }
        for other in ["", "gbw1-", "gbw1-c3c3c3c3c3c3c3c3-2-1--", "gbw1-a-b-c-d-e", "x"] {
            assert_eq!(other.parse::<WrappedShare>().err(), Some(ShareError::WrappedForm));
        }
        assert!(text.replacen("-2-1-", "-02-1-", 1).parse::<WrappedShare>().is_err());
    }

    #[test]
    fn holders_that_can_not_be_are_refused() {
        let engine = Engine::global().unwrap();
        let own = own(engine, 1);
        let one = holder(engine, &own);
        let two = holder(engine, &self::own(engine, 2));
        let says = |result: Result<(), Error>, what: &str| {
            let error = result.err().unwrap().to_string();
            assert!(error.contains(what), "{error}");
        };
        says(check_holders(&[one.clone(), two.clone(), one.clone()], 3), "holders 1 and 3");
        says(check_holders(&[one.clone(), two.clone()], 3), "expected 3, and there are 2");
        says(check_holders(&[], 1), "expected 1");
        check_holders(&[one.clone(), two], 2).unwrap();
        // A point of small order, coefficients above the modulus, a truncated key, and a key of
        // another algorithm.
        let key = one.key.bytes();
        let at = one.spki.len() - key.len();
        let of = |change: &dyn Fn(&mut [u8])| {
            let mut spki = one.spki.clone();
            change(&mut spki[at..]);
            Holder::of_spki(engine, &spki).map(drop)
        };
        of(&|_| ()).unwrap();
        let last = key.len() - X25519;
        says(of(&|key| key[last..].fill(0)), "small order");
        let one_and_zeros = |key: &mut [u8]| {
            key[last..].fill(0);
            key[last] = 1;
        };
        says(of(&one_and_zeros), "small order");
        assert!(of(&|key| key[..384].fill(0xff)).is_err());
        assert!(Holder::of_spki(engine, &one.spki[..one.spki.len() - 1]).is_err());
        assert!(Holder::of_spki(engine, b"nonsense").is_err());
    }
}
