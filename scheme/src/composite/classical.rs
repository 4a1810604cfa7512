//! RSA and ECDSA behind one interface, one operation at a time. Ed25519 has lanes, and so its own way
//! through the engine.

use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use zeroize::Zeroizing;

use super::{Classical, Curve};
use crate::error::Error;
use crate::rsa;

/// Bytes of randomness that a key or a signature takes.
pub const RANDOM_LEN: usize = rsa::RANDOM_LEN;

/// A private key with its public key.
pub struct PrivateKey {
    classical: Classical,
    key: Private,
    bytes: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

enum Private {
    Rsa(Box<rsa::PrivateKey>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(Box<p521::ecdsa::SigningKey>),
}

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    classical: Classical,
    key: Public,
    bytes: Vec<u8>,
}

#[derive(Clone)]
enum Public {
    Rsa(Box<rsa::PublicKey>),
    P256(p256::ecdsa::VerifyingKey),
    P384(p384::ecdsa::VerifyingKey),
    P521(Box<p521::ecdsa::VerifyingKey>),
}

impl PublicKey {
    /// Decodes a public key: RSAPublicKey or an uncompressed point (section 4).
    ///
    /// # Errors
    /// [`Error::PublicKey`].
    pub fn decode(classical: Classical, bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |reason| Error::PublicKey { algorithm: classical.name(), reason };
        let not_on_curve = |_| refuse("no point of the curve");
        if let Classical::Ecdsa(curve) = classical
            && (bytes.len() != 1 + 2 * curve.scalar_len() || bytes[0] != 4)
        {
            return Err(refuse("not an uncompressed point of the curve's size"));
        }
        let key = match classical {
            Classical::Rsa(params) => Public::Rsa(Box::new(rsa::PublicKey::decode(params, bytes)?)),
            Classical::Ecdsa(Curve::P256) => Public::P256(
                p256::ecdsa::VerifyingKey::from_sec1_bytes(bytes).map_err(not_on_curve)?,
            ),
            Classical::Ecdsa(Curve::P384) => Public::P384(
                p384::ecdsa::VerifyingKey::from_sec1_bytes(bytes).map_err(not_on_curve)?,
            ),
            Classical::Ecdsa(Curve::P521) => Public::P521(Box::new(
                p521::ecdsa::VerifyingKey::from_sec1_bytes(bytes).map_err(not_on_curve)?,
            )),
            Classical::Ed25519 => return Err(refuse("it is decoded elsewhere")),
        };
        Ok(PublicKey { classical, key, bytes: bytes.to_vec() })
    }

    /// The encoding.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a signature verifies.
    pub fn verify(&self, message: &[u8], sig: &[u8]) -> bool {
        macro_rules! ecdsa {
            ($krate:ident, $key:expr) => {{
                use $krate::ecdsa::signature::Verifier;
                let sig = $krate::ecdsa::Signature::from_der(sig);
                sig.is_ok_and(|sig| $key.verify(message, &sig).is_ok())
            }};
        }
        match (&self.key, self.classical) {
            (Public::Rsa(key), Classical::Rsa(params)) => key.verify(params, message, sig),
            (Public::P256(key), _) => ecdsa!(p256, key),
            (Public::P384(key), _) => ecdsa!(p384, key),
            (Public::P521(key), _) => ecdsa!(p521, key),
            (Public::Rsa(_), _) => false,
        }
    }
}

impl PrivateKey {
    /// Makes a key pair from random bytes.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if the crate of RSA finds no primes, which does not happen.
    pub fn generate(classical: Classical, random: &[u8; RANDOM_LEN]) -> Result<Self, Error> {
        match classical {
            Classical::Rsa(params) => {
                let key = rsa::PrivateKey::generate(params, random)?;
                Ok(Self::of_rsa(classical, key))
            }
            Classical::Ed25519 => Self::decode(classical, &[]),
            Classical::Ecdsa(curve) => {
                let mut source = Shake256::default();
                source.update(random);
                let mut source = source.finalize_xof();
                let (before, behind) = curve.private_key_der();
                let mut scalar = Zeroizing::new(vec![0; curve.scalar_len()]);
                loop {
                    source.read(&mut scalar);
                    if curve == Curve::P521 {
                        // 521 bits.
                        scalar[0] &= 1;
                    }
                    let der = Zeroizing::new([before, &scalar, behind].concat());
                    // Zero and what is not below the order are drawn again: one in 2^32 for P-256.
                    if let Ok(key) = Self::decode(classical, &der) {
                        return Ok(key);
                    }
                }
            }
        }
    }

    /// Decodes a private key: RSAPrivateKey, or ECPrivateKey with the curve and without the public
    /// key (section 4).
    ///
    /// # Errors
    /// [`Error::PrivateKey`].
    pub fn decode(classical: Classical, bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |reason| Error::PrivateKey { algorithm: classical.name(), reason };
        let (key, public) = match classical {
            Classical::Rsa(params) => {
                return Ok(Self::of_rsa(classical, rsa::PrivateKey::decode(params, bytes)?));
            }
            Classical::Ecdsa(curve) => {
                let (before, behind) = curve.private_key_der();
                let scalar = bytes
                    .strip_prefix(before)
                    .and_then(|rest| rest.strip_suffix(behind))
                    .filter(|scalar| scalar.len() == curve.scalar_len())
                    .ok_or_else(|| refuse("not an ECPrivateKey with its curve alone"))?;
                ecdsa_key(curve, scalar)
                    .ok_or_else(|| refuse("the scalar is zero or not below the order"))?
            }
            Classical::Ed25519 => return Err(refuse("it is decoded elsewhere")),
        };
        let public = PublicKey { classical, key: public.0, bytes: public.1 };
        Ok(PrivateKey { classical, key, bytes: Zeroizing::new(bytes.to_vec()), public })
    }

    fn of_rsa(classical: Classical, key: rsa::PrivateKey) -> Self {
        let bytes = Zeroizing::new(key.bytes().to_vec());
        let encoded = key.public().bytes().to_vec();
        let public = Public::Rsa(Box::new(key.public().clone()));
        let public = PublicKey { classical, key: public, bytes: encoded };
        PrivateKey { classical, key: Private::Rsa(Box::new(key)), bytes, public }
    }

    /// The encoding. Secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A signature; none if the computation failed a check of its own. ECDSA takes its nonce from
    /// key and message (RFC 6979), RSA its salt and blinding from `random`.
    pub fn sign(&self, message: &[u8], random: &[u8; RANDOM_LEN]) -> Option<Vec<u8>> {
        macro_rules! ecdsa {
            ($krate:ident, $key:expr) => {{
                use $krate::ecdsa::signature::Signer;
                let made: Result<$krate::ecdsa::Signature, _> = $key.try_sign(message);
                made.ok().map(|sig| sig.to_der().as_bytes().to_vec())
            }};
        }
        match (&self.key, self.classical) {
            (Private::Rsa(key), Classical::Rsa(params)) => key.sign(params, message, random),
            (Private::P256(key), _) => ecdsa!(p256, key),
            (Private::P384(key), _) => ecdsa!(p384, key),
            (Private::P521(key), _) => ecdsa!(p521, key),
            (Private::Rsa(_), _) => None,
        }
    }
}

/// The keys of a scalar, and the encoded point.
fn ecdsa_key(curve: Curve, scalar: &[u8]) -> Option<(Private, (Public, Vec<u8>))> {
    Some(match curve {
        Curve::P256 => {
            let key = p256::ecdsa::SigningKey::from_slice(scalar).ok()?;
            let public = *key.verifying_key();
            let point = public.to_sec1_point(false).as_bytes().to_vec();
            (Private::P256(key), (Public::P256(public), point))
        }
        Curve::P384 => {
            let key = p384::ecdsa::SigningKey::from_slice(scalar).ok()?;
            let public = *key.verifying_key();
            let point = public.to_sec1_point(false).as_bytes().to_vec();
            (Private::P384(key), (Public::P384(public), point))
        }
        Curve::P521 => {
            let key = p521::ecdsa::SigningKey::from_slice(scalar).ok()?;
            let public = *key.verifying_key();
            let point = public.to_sec1_point(false).as_bytes().to_vec();
            (Private::P521(Box::new(key)), (Public::P521(Box::new(public)), point))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(digits: &str) -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    /// RFC 6979, A.2.5 to A.2.7: the message "sample" under the curve's hash. Key, r, s.
    #[test]
    fn ecdsa_gives_the_answers_of_rfc_6979() {
        for (curve, scalar, r, s) in [
            (
                Curve::P256,
                "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
                "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
                "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
            ),
            (
                Curve::P384,
                "6b9d3dad2e1b8c1c05b19875b6659f4de23c3b667bf297ba9aa47740787137d896d5724e4c70a825\
                 f872c9ea60d2edf5",
                "94edbb92a5ecb8aad4736e56c691916b3f88140666ce9fa73d64c4ea95ad133c81a648152e44acf9\
                 6e36dd1e80fabe46",
                "99ef4aeb15f178cea1fe40db2603138f130e740a19624526203b6351d0a3a94fa329c145786e679e\
                 7b82c71a38628ac8",
            ),
            (
                Curve::P521,
                "00fad06daa62ba3b25d2fb40133da757205de67f5bb0018fee8c86e1b68c7e75caa896eb32f1f47c\
                 70855836a6d16fcc1466f6d8fbec67db89ec0c08b0e996b83538",
                "00c328fafcbd79dd77850370c46325d987cb525569fb63c5d3bc53950e6d4c5f174e25a1ee9017b5\
                 d450606add152b534931d7d4e8455cc91f9b15bf05ec36e377fa",
                "00617cce7cf5064806c467f678d3b4080d6f1cc50af26ca209417308281b68af282623eaa63e5b5c\
                 0723d8b8c37ff0777b1a20f8ccb1dccc43997f1ee0e44da4a67a",
            ),
        ] {
            let classical = Classical::Ecdsa(curve);
            let (before, behind) = curve.private_key_der();
            let der = [before, &unhex(scalar), behind].concat();
            let key = PrivateKey::decode(classical, &der).unwrap();
            assert_eq!(key.bytes(), der);
            let signature = key.sign(b"sample", &[7; 32]).unwrap();
            let integer = |hex: &str| {
                let bytes = unhex(hex);
                let start = bytes.iter().position(|&byte| byte != 0).unwrap();
                let mut bytes = bytes[start..].to_vec();
                if bytes[0] >= 0x80 {
                    bytes.insert(0, 0);
                }
                [&[2, bytes.len() as u8][..], &bytes].concat()
            };
            let body = [integer(r), integer(s)].concat();
            let head: &[u8] = if body.len() < 128 {
                &[0x30, body.len() as u8]
            } else {
                &[0x30, 0x81, body.len() as u8]
            };
            assert_eq!(signature, [head, &body].concat(), "{}", classical.name());
            let public = PublicKey::decode(classical, key.public().bytes()).unwrap();
            assert!(public.verify(b"sample", &signature));
            assert!(!public.verify(b"simple", &signature));
            assert!(!public.verify(b"sample", &signature[..signature.len() - 1]));
            // A second leading zero is another encoding of the same number.
            let mut loose = [head, &[2, body[1] + 1, 0], &body[2..]].concat();
            let at = head.len() - 1;
            loose[at] += 1;
            assert!(!public.verify(b"sample", &loose), "{}", classical.name());
        }
    }

    #[test]
    fn keys_of_another_form_are_refused() {
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            let classical = Classical::Ecdsa(curve);
            let key = PrivateKey::generate(classical, &[5; 32]).unwrap();
            let (before, behind) = curve.private_key_der();
            let len = curve.scalar_len();
            for scalar in [vec![0; len], vec![0xff; len]] {
                let der = [before, &scalar, behind].concat();
                assert!(PrivateKey::decode(classical, &der).is_err());
            }
            for byte in (0..before.len()).chain(before.len() + len..key.bytes().len()) {
                let mut bad = key.bytes().to_vec();
                bad[byte] ^= 1;
                assert!(PrivateKey::decode(classical, &bad).is_err(), "byte {byte}");
            }
            let good = key.public().bytes();
            for place in [0, 1, len, 2 * len] {
                let mut bad = good.to_vec();
                bad[place] ^= 1;
                assert!(PublicKey::decode(classical, &bad).is_err(), "byte {place}");
            }
            assert!(PublicKey::decode(classical, &good[..1 + len]).is_err());
            assert!(PublicKey::decode(classical, &[&[2], &good[1..1 + len]].concat()).is_err());
        }
    }
}
