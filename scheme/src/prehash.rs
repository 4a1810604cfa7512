//! The pre-hash functions of HashML-DSA (FIPS 204, section 5.4) and HashSLH-DSA (FIPS 205, section
//! 10.2), and their object identifiers.

use std::str::FromStr;

use sha2::Digest;
use sha3::digest::{ExtendableOutput, Update, XofReader};

/// A hash or XOF whose digest may be signed in place of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // The variants are the names of the functions.
pub enum Prehash {
    Sha2_224,
    Sha2_256,
    Sha2_384,
    Sha2_512,
    Sha2_512_224,
    Sha2_512_256,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Shake128,
    Shake256,
}

/// Name, the last arc of the object identifier 2.16.840.1.101.3.4.2.x, digest bytes.
/// The XOFs give 32 and 64 bytes (FIPS 204, Algorithm 4, lines 18 and following).
const TABLE: [(Prehash, &str, u8, usize); 12] = [
    (Prehash::Sha2_224, "SHA2-224", 4, 28),
    (Prehash::Sha2_256, "SHA2-256", 1, 32),
    (Prehash::Sha2_384, "SHA2-384", 2, 48),
    (Prehash::Sha2_512, "SHA2-512", 3, 64),
    (Prehash::Sha2_512_224, "SHA2-512/224", 5, 28),
    (Prehash::Sha2_512_256, "SHA2-512/256", 6, 32),
    (Prehash::Sha3_224, "SHA3-224", 7, 28),
    (Prehash::Sha3_256, "SHA3-256", 8, 32),
    (Prehash::Sha3_384, "SHA3-384", 9, 48),
    (Prehash::Sha3_512, "SHA3-512", 10, 64),
    (Prehash::Shake128, "SHAKE-128", 11, 32),
    (Prehash::Shake256, "SHAKE-256", 12, 64),
];

impl Prehash {
    /// Every pre-hash function.
    pub fn all() -> impl Iterator<Item = Prehash> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (Prehash, &'static str, u8, usize) {
        // The table is in the order of the enum; a test holds it to that.
        &TABLE[self as usize]
    }

    /// The name as ACVP writes it.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of the digest that is signed.
    pub fn digest_len(self) -> usize {
        self.row().3
    }

    /// The DER encoding of the object identifier (FIPS 204, Algorithm 4): 11 bytes.
    pub fn oid_der(self) -> [u8; 11] {
        [0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, self.row().2]
    }

    /// The digest of a message.
    pub fn digest(self, message: &[u8]) -> Vec<u8> {
        fn xof<X: Default + Update + ExtendableOutput>(message: &[u8], len: usize) -> Vec<u8> {
            let mut x = X::default();
            x.update(message);
            let mut out = vec![0; len];
            x.finalize_xof().read(&mut out);
            out
        }
        match self {
            Prehash::Sha2_224 => sha2::Sha224::digest(message).to_vec(),
            Prehash::Sha2_256 => sha2::Sha256::digest(message).to_vec(),
            Prehash::Sha2_384 => sha2::Sha384::digest(message).to_vec(),
            Prehash::Sha2_512 => sha2::Sha512::digest(message).to_vec(),
            Prehash::Sha2_512_224 => sha2::Sha512_224::digest(message).to_vec(),
            Prehash::Sha2_512_256 => sha2::Sha512_256::digest(message).to_vec(),
            Prehash::Sha3_224 => sha3::Sha3_224::digest(message).to_vec(),
            Prehash::Sha3_256 => sha3::Sha3_256::digest(message).to_vec(),
            Prehash::Sha3_384 => sha3::Sha3_384::digest(message).to_vec(),
            Prehash::Sha3_512 => sha3::Sha3_512::digest(message).to_vec(),
            Prehash::Shake128 => xof::<sha3::Shake128>(message, self.digest_len()),
            Prehash::Shake256 => xof::<sha3::Shake256>(message, self.digest_len()),
        }
    }
}

/// A name that is no pre-hash function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown hash `{0}`; expected SHA2-224, -256, -384, -512, -512/224 or -512/256, SHA3-224, -256, -384 or -512, \
     SHAKE-128 or SHAKE-256"
)]
pub struct UnknownPrehash(pub String);

impl FromStr for Prehash {
    type Err = UnknownPrehash;

    /// Accepts the standard's name in any case, with or without separators, and `SHA256` for
    /// `SHA2-256`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |s: &str| -> String {
            s.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase()
        };
        let wanted = plain(text);
        let long = wanted.strip_prefix("SHA").map(|rest| format!("SHA2{rest}"));
        TABLE
            .iter()
            .find(|row| plain(row.1) == wanted)
            .or_else(|| TABLE.iter().find(|row| Some(plain(row.1)) == long))
            .map(|row| row.0)
            .ok_or_else(|| UnknownPrehash(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_enum_and_digests_have_their_length() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
            assert_eq!(row.0.digest(b"abc").len(), row.3, "{}", row.1);
            assert_eq!(row.1.parse::<Prehash>(), Ok(row.0));
        }
        assert_eq!("sha256".parse::<Prehash>(), Ok(Prehash::Sha2_256));
        assert_eq!("SHA512-256".parse::<Prehash>(), Ok(Prehash::Sha2_512_256));
        assert_eq!("shake128".parse::<Prehash>(), Ok(Prehash::Shake128));
        assert!("md5".parse::<Prehash>().is_err());
    }
}
