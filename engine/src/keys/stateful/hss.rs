//! Private keys of HSS and LMS: what they are. [`StatefulKey`] makes their trees and signs with them.

use std::fmt;

use gabion_scheme::Algorithm;
use gabion_scheme::lms::{self, Generation, LmOts, Lms, SigningKey};
use zeroize::Zeroizing;

use super::signer::{self, Secret, of_scheme};
use crate::entropy::Entropy;
use crate::error::{Error, check_length, private_key};

pub use super::signer::Progress;
pub use gabion_scheme::lms::Levels;

/// A private key of HSS that signs, with the trees it signs with.
pub type StatefulKey<'e> = signer::StatefulKey<'e, HssSecret>;

/// What a private key of HSS is: its sets, the identifier I, and the seed that all secrets derive from.
pub struct HssSecret {
    levels: Levels,
    id: [u8; 16],
    seed: Zeroizing<Vec<u8>>,
}

impl HssSecret {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Entropy`].
    pub fn draw(levels: Levels, entropy: &dyn Entropy) -> Result<Self, Error> {
        let (mut id, mut seed) = ([0; 16], Zeroizing::new(vec![0; levels.n()]));
        entropy.fill(&mut id)?;
        entropy.fill(&mut seed)?;
        Ok(HssSecret { levels, id, seed })
    }

    /// One that was drawn elsewhere.
    ///
    /// # Errors
    /// [`Error::Input`] if the seed is not as long as a hash value.
    pub fn new(levels: Levels, id: [u8; 16], seed: &[u8]) -> Result<Self, Error> {
        check_length("a seed of HSS", levels.n(), seed)?;
        Ok(HssSecret { levels, id, seed: Zeroizing::new(seed.to_vec()) })
    }

    /// The sets.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// `u32str(L) || (type || otstype) of each level || SEED || I`, as hash-sigs and others write keys, but for the
    /// index, which is none of a key file's. Secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let sets = self.levels.sets();
        let mut bytes =
            Zeroizing::new(Vec::with_capacity(4 + 8 * sets.len() + self.seed.len() + 16));
        bytes.extend_from_slice(&(sets.len() as u32).to_be_bytes());
        for (lms, ots) in sets {
            bytes.extend_from_slice(&lms.typecode.to_be_bytes());
            bytes.extend_from_slice(&ots.typecode.to_be_bytes());
        }
        bytes.extend_from_slice(&self.seed);
        bytes.extend_from_slice(&self.id);
        bytes
    }

    /// Reads what [`HssSecret::encode`] gave.
    ///
    /// # Errors
    /// [`Error::Input`] if it is of another length, or names no sets or those of several hash functions.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let refused = || private_key(Algorithm::Hss, "it is no list of sets, a seed and I");
        let (count, rest) = bytes.split_first_chunk().ok_or_else(refused)?;
        let count = u32::from_be_bytes(*count) as usize;
        let len = count.checked_mul(8).filter(|_| count <= lms::LEVELS_MAX).ok_or_else(refused)?;
        let (codes, rest) = rest.split_at_checked(len).ok_or_else(refused)?;
        let sets = codes.as_chunks::<8>().0.iter().map(|[a, b, c, d, e, f, g, h]| {
            let lms = Lms::of_typecode(u32::from_be_bytes([*a, *b, *c, *d]));
            lms.zip(LmOts::of_typecode(u32::from_be_bytes([*e, *f, *g, *h])))
        });
        let sets: Vec<_> = sets.collect::<Option<_>>().ok_or_else(refused)?;
        let levels = Levels::new(&sets)?;
        let (seed, id) = rest.split_at_checked(levels.n()).ok_or_else(refused)?;
        let id = id.try_into().map_err(|_| refused())?;
        HssSecret::new(levels, id, seed)
    }
}

impl fmt::Debug for HssSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HssSecret of {:?}", self.levels.sets())
    }
}

impl Secret for HssSecret {
    of_scheme!(lms);

    fn algorithm(&self) -> Algorithm {
        Algorithm::Hss
    }

    fn begin(&self) -> Result<Generation, gabion_scheme::Error> {
        Generation::new(self.levels.clone(), &self.id, &self.seed)
    }

    fn signatures(key: &SigningKey) -> u64 {
        key.levels().signatures()
    }

    fn signature_len(key: &SigningKey) -> usize {
        key.levels().signature_len()
    }
}
