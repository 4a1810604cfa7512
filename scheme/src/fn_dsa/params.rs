//! The parameter sets and the sizes of encoded keys and signatures.

use crate::algorithms::Algorithm;

/// Bytes of the nonce r in a signature.
pub const NONCE_LEN: usize = 40;
/// Bytes that a key pair is generated from.
pub const SEED_LEN: usize = 32;
/// Bytes of randomness that a signature takes.
pub const RANDOM_LEN: usize = 40;
/// Bytes of a message representative mu of FN-DSA.
pub const MU_LEN: usize = 64;

/// The modulus of both degrees.
pub(super) const Q: i32 = 12289;

/// The design of a parameter set. Both share the mathematics but none of the encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// The expected FIPS 206, as the crate fn-dsa 0.4 drafts it.
    FnDsaDraft,
    /// Falcon as it was submitted to the third round.
    Falcon,
}

/// The padding at the end of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignaturePadding {
    /// Padded with zeros up to the fixed length.
    Padded,
    /// Ends with the byte that holds the last coefficient's last bit.
    Stripped,
}

/// A parameter set.
#[derive(Debug, PartialEq, Eq)]
pub struct Params {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The design.
    pub design: Design,
    /// log2 of the degree: 9 or 10.
    pub log_n: u32,
    /// The ending of its signatures.
    pub padding: SignaturePadding,
}

static PARAMS: [Params; 6] = [
    Params {
        algorithm: Algorithm::FnDsa512,
        design: Design::FnDsaDraft,
        log_n: 9,
        padding: SignaturePadding::Padded,
    },
    Params {
        algorithm: Algorithm::FnDsa1024,
        design: Design::FnDsaDraft,
        log_n: 10,
        padding: SignaturePadding::Padded,
    },
    Params {
        algorithm: Algorithm::Falcon512,
        design: Design::Falcon,
        log_n: 9,
        padding: SignaturePadding::Stripped,
    },
    Params {
        algorithm: Algorithm::Falcon1024,
        design: Design::Falcon,
        log_n: 10,
        padding: SignaturePadding::Stripped,
    },
    Params {
        algorithm: Algorithm::FalconPadded512,
        design: Design::Falcon,
        log_n: 9,
        padding: SignaturePadding::Padded,
    },
    Params {
        algorithm: Algorithm::FalconPadded1024,
        design: Design::Falcon,
        log_n: 10,
        padding: SignaturePadding::Padded,
    },
];

/// The parameter set of an algorithm, if it is FN-DSA or Falcon.
pub fn params(algorithm: Algorithm) -> Option<&'static Params> {
    PARAMS.iter().find(|params| params.algorithm == algorithm)
}

impl Params {
    /// The degree n.
    pub fn n(&self) -> usize {
        1 << self.log_n
    }

    /// Bytes of an encoded public key: a header and 14 bits a coefficient.
    pub fn pk_len(&self) -> usize {
        1 + 14 * self.n() / 8
    }

    /// Bits of a coefficient of f and g in an encoded private key.
    pub(super) fn bits_fg(&self) -> u32 {
        if self.log_n == 9 { 6 } else { 5 }
    }

    /// Bytes of an encoded private key: a header, f, g, F with 8 bits a coefficient and, in FN-DSA,
    /// the hash of the public key.
    pub fn sk_len(&self) -> usize {
        let hash = match self.design {
            Design::FnDsaDraft => MU_LEN,
            Design::Falcon => 0,
        };
        1 + 2 * self.n() * self.bits_fg() as usize / 8 + self.n() + hash
    }

    /// Bytes of a padded signature, which is also the longest that is made.
    pub fn padded_len(&self) -> usize {
        if self.log_n == 9 { 666 } else { 1280 }
    }

    /// Bytes of the longest signature that can verify: padded, or with the longest compressed s2
    /// that the bound on the norm allows.
    pub fn sig_len_max(&self) -> usize {
        match (self.padding, self.log_n) {
            (SignaturePadding::Padded, _) => self.padded_len(),
            // 1 + 40 + ceil((11 * 512 + 50) / 8) and 1 + 40 + ceil((11 * 1024 + 101) / 8).
            (SignaturePadding::Stripped, 9) => 752,
            (SignaturePadding::Stripped, _) => 1462,
        }
    }

    /// The first byte of a signature: compressed s2, and the degree.
    pub(super) fn sig_header(&self) -> u8 {
        0x30 + self.log_n as u8
    }

    /// The first byte of an encoded public key: the degree.
    pub(super) fn pk_header(&self) -> u8 {
        self.log_n as u8
    }

    /// The first byte of an encoded private key.
    pub(super) fn sk_header(&self) -> u8 {
        0x50 + self.log_n as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_table() {
        for params in &PARAMS {
            let row = params.algorithm.info();
            assert_eq!(row.public_key.max(), params.pk_len(), "{}", row.name);
            assert_eq!(row.private_key.max(), params.sk_len(), "{}", row.name);
            assert_eq!(row.output.max(), params.sig_len_max(), "{}", row.name);
            assert_eq!(
                row.output.varies(),
                params.padding == SignaturePadding::Stripped,
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn sizes_are_those_of_the_crates() {
        for params in &PARAMS {
            let (sk, pk, sig) = match params.design {
                Design::FnDsaDraft => (
                    fn_dsa::sign_key_size(params.log_n),
                    fn_dsa::vrfy_key_size(params.log_n),
                    fn_dsa::signature_size(params.log_n),
                ),
                Design::Falcon => (
                    falcon::sign_key_size(params.log_n),
                    falcon::vrfy_key_size(params.log_n),
                    falcon::signature_size(params.log_n),
                ),
            };
            assert_eq!((params.sk_len(), params.pk_len()), (sk, pk));
            assert_eq!(params.padded_len(), sig);
        }
    }
}
