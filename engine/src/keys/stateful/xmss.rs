//! The types of XMSS and XMSS^MT private keys. [`StatefulKey`] makes their trees and signs with
//! them.

use std::fmt;

use gabion_backend::{Operation, Xmss};
use gabion_scheme::Algorithm;
use gabion_scheme::xmss::{self, Generation, Set, SigningKey};
use zeroize::Zeroizing;

use super::signer::{self, Secret, of_scheme};
use crate::entropy::Entropy;
use crate::error::{Error, check_length, private_key};

pub use super::signer::Progress;
pub use gabion_scheme::xmss::Scheme;

/// A private key of XMSS or XMSS^MT that signs, with the trees it signs with.
pub type StatefulKey<'e> = signer::StatefulKey<'e, XmssSecret>;

/// The private key of XMSS or XMSS^MT: its set, and S_XMSS || SK_PRF || SEED (SP 800-208, section
/// 6.2), of which SEED is public.
pub struct XmssSecret {
    set: &'static Set,
    seeds: Zeroizing<Vec<u8>>,
}

impl XmssSecret {
    /// Draws a new secret for a set of SP 800-208.
    ///
    /// # Errors
    /// [`Error::Entropy`]; [`Error::Input`] for a set that only verifies ([`Set::can_sign`]).
    pub fn draw(set: &'static Set, entropy: &dyn Entropy) -> Result<Self, Error> {
        let mut seeds = Zeroizing::new(vec![0; 3 * set.n]);
        for seed in seeds.chunks_exact_mut(set.n) {
            entropy.fill(seed)?;
        }
        Self::new(set, &seeds)
    }

    /// Returns a secret that was drawn elsewhere: S_XMSS || SK_PRF || SEED, n bytes each.
    ///
    /// # Errors
    /// [`Error::Input`] if they are not as long, or for a set that only verifies.
    pub fn new(set: &'static Set, seeds: &[u8]) -> Result<Self, Error> {
        if !set.can_sign() {
            let reason = "its parameter set is not in SP 800-208 and supports only verification";
            return Err(private_key(set.scheme.into(), reason));
        }
        check_length("the seeds of XMSS", 3 * set.n, seeds)?;
        Ok(XmssSecret { set, seeds: Zeroizing::new(seeds.to_vec()) })
    }

    /// Returns the set.
    pub fn set(&self) -> &'static Set {
        self.set
    }

    /// Encodes the secret as the number of the set || S_XMSS || SK_PRF || SEED. The container must
    /// record the scheme, which the number depends on. The result is secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(4 + self.seeds.len()));
        bytes.extend_from_slice(&self.set.number.to_be_bytes());
        bytes.extend_from_slice(&self.seeds);
        bytes
    }

    /// Parses the encoding that [`XmssSecret::encode`] returns for a key of this scheme.
    ///
    /// # Errors
    /// [`Error::Input`] if the length is wrong, or if the scheme has no signing set of this number.
    pub fn decode(scheme: Scheme, bytes: &[u8]) -> Result<Self, Error> {
        let refused =
            || private_key(scheme.into(), "it is not a set number followed by three seeds");
        let (number, seeds) = bytes.split_first_chunk().ok_or_else(refused)?;
        let set = Set::from_number(scheme, u32::from_be_bytes(*number)).ok_or_else(refused)?;
        if seeds.len() != 3 * set.n {
            return Err(refused());
        }
        XmssSecret::new(set, seeds)
    }
}

impl fmt::Debug for XmssSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "XmssSecret of {}", self.set.name)
    }
}

impl Secret for XmssSecret {
    of_scheme!(xmss);

    fn algorithm(&self) -> Algorithm {
        self.set.scheme.into()
    }

    fn begin(&self) -> Result<Generation, gabion_scheme::Error> {
        Generation::new(self.set, &self.seeds)
    }

    fn batch<'a>(&self, piece: Self::Piece<'a>) -> (Operation<'a>, usize) {
        let nodes = piece.nodes();
        (Operation::Xmss(Xmss::Nodes { scheme: self.set.scheme, piece }), nodes)
    }

    fn signatures(key: &SigningKey) -> u64 {
        key.set().signatures()
    }

    fn signature_len(key: &SigningKey) -> usize {
        key.set().signature_len()
    }
}
