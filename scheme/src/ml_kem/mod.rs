//! ML-KEM (FIPS 203) over whole batches.
//!
//! ```text
//!   keygen:  seeds (d, z) --G--> rho, sigma --A, PRF--> s, e --NTT--> t = A s + e --> ek, dk
//!   encaps:  m --G(m || H(ek))--> K, r --PRF--> y, e1, e2 --> u = NTT^-1(A^T y) + e1, v --> c
//!   decaps:  c --> u', v' --> m' --G, J--> K', K-bar, r' --> c' ; c == c' chooses K' or K-bar
//! ```
//!
//! Every function takes `n` operations and gathers their sponges before it runs any, so a batch of
//! one is the single operation and a batch of eight fills eight lanes. Keys are expanded once
//! ([`EncapsKey`], [`DecapsKey`]): matrix, NTT-domain vectors and H(ek) are never computed again.

mod flow;
mod keys;
mod scratch;

pub use flow::{decaps, encaps, keygen, keygen_encoded, publish};
pub use keys::{DecapsKey, EncapsKey, expand_decaps_keys, expand_encaps_keys};
pub use scratch::Scratch;

use crate::algorithms::Algorithm;

/// Bytes of m, of K, and of each half of the seed (FIPS 203, section 2.4).
pub const SECRET_LEN: usize = 32;
/// Bytes of the seed form (d, z) of a private key.
pub const SEED_LEN: usize = 64;
/// eta_2 of every parameter set (FIPS 203, table 2).
pub(crate) const ETA2: usize = 2;
/// Rows and columns of the matrix, at most.
pub(crate) const K_MAX: usize = 4;
/// Operations of which the entries of A alone fill the lanes, and the noise alone, and so on. Of
/// fewer, sponges of all kinds share lanes.
pub(crate) const SIDE_BY_SIDE: usize = 8;

/// One row of FIPS 203, table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The algorithm of this set.
    pub algorithm: Algorithm,
    /// Rank of the module.
    pub k: usize,
    /// Noise of the key and of y.
    pub eta1: usize,
    /// Bits kept of a coefficient of u.
    pub du: usize,
    /// Bits kept of a coefficient of v.
    pub dv: usize,
}

/// ML-KEM-512.
pub static ML_KEM_512: Params =
    Params { algorithm: Algorithm::MlKem512, k: 2, eta1: 3, du: 10, dv: 4 };
/// ML-KEM-768.
pub static ML_KEM_768: Params =
    Params { algorithm: Algorithm::MlKem768, k: 3, eta1: 2, du: 10, dv: 4 };
/// ML-KEM-1024.
pub static ML_KEM_1024: Params =
    Params { algorithm: Algorithm::MlKem1024, k: 4, eta1: 2, du: 11, dv: 5 };

/// The parameters of an algorithm, if it is an ML-KEM.
pub fn params(algorithm: Algorithm) -> Option<&'static Params> {
    match algorithm {
        Algorithm::MlKem512 => Some(&ML_KEM_512),
        Algorithm::MlKem768 => Some(&ML_KEM_768),
        Algorithm::MlKem1024 => Some(&ML_KEM_1024),
        _ => None,
    }
}

impl Params {
    /// Bytes of an encapsulation key.
    pub const fn ek_len(&self) -> usize {
        384 * self.k + 32
    }

    /// Bytes of a decapsulation key.
    pub const fn dk_len(&self) -> usize {
        768 * self.k + 96
    }

    /// Bytes of a ciphertext.
    pub const fn ct_len(&self) -> usize {
        32 * (self.du * self.k + self.dv)
    }

    /// Bytes of the compressed u at the front of a ciphertext.
    pub(crate) const fn u_len(&self) -> usize {
        32 * self.du * self.k
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_agree_with_the_table() {
        for p in [&ML_KEM_512, &ML_KEM_768, &ML_KEM_1024] {
            let row = p.algorithm.info();
            assert_eq!(p.ek_len(), row.public_key.max());
            assert_eq!(p.dk_len(), row.private_key.max());
            assert_eq!(p.ct_len(), row.output.max());
            assert_eq!(params(p.algorithm), Some(p));
        }
        assert_eq!(params(Algorithm::MlDsa44), None);
    }
}
