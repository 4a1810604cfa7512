//! Signing with private keys of this process and with remote keys.
//!
//! ```text
//!   PKCS#8, SEC 1 --key_file--> ML-DSA, Ed25519, ECDSA --> OurKey      expanded once, shared by all handshakes
//!   PKCS#8, PKCS#1 ---------> RSA, P-521 ----------------> aws-lc-rs's, as rustls has it
//!   RemoteKey --------------------------------------------> RemoteSigningKey   asked once a handshake
//! ```
//!
//! A key signs with exactly one scheme, an RSA key with six. For servers with several certificates,
//! see [`FirstUsable`].

mod first_usable;
mod remote;

use std::fmt;
use std::sync::Arc;

use gabion_engine::key_file::{self, EncodedKey, FileForm};
use gabion_engine::keys::{Key, PrivateKey};
use gabion_engine::{Algorithm, Kind, Message, OsEntropy};
use rustls::crypto::{KeyProvider, aws_lc_rs};
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use zeroize::Zeroizing;

use crate::error::{engine, own_error};
use crate::schemes::{algorithm_of, scheme_of};

pub use first_usable::FirstUsable;
pub use remote::{RemoteKey, remote_key};

/// Reads a private key: PKCS#8 in every form of Gabion's key files (for ML-DSA: seed, expanded key,
/// both, and the other forms that OpenSSL reads), SEC 1 and PKCS#1. The caller must decrypt an
/// encrypted file first.
///
/// # Errors
/// [`Error::General`] if the file holds no key that can sign handshakes, or its parts do not match.
pub fn signing_key(der: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, Error> {
    let bytes = match der {
        PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der(),
        PrivateKeyDer::Sec1(key) => key.secret_sec1_der(),
        // PKCS#1 is only for RSA.
        _ => return aws_lc_rs::sign::any_supported_type(der),
    };
    let encoded = EncodedKey::from_der(bytes).map_err(|reason| refused(&reason))?;
    let algorithm = key_file::of_identifier(encoded.identifier(), Kind::Signature);
    let algorithm = match algorithm.map_err(|reason| refused(&format!("holds {reason}")))? {
        Some(algorithm) if scheme_of(algorithm).is_some() => algorithm,
        // RSA is not in the engine's table; aws-lc-rs also handles P-521.
        Some(Algorithm::EcdsaP521) | None => return aws_lc_rs::sign::any_supported_type(der),
        Some(other) => {
            let reason = format!("holds a key of {other}, which signs no handshake of TLS");
            return Err(refused(&reason));
        }
    };
    match key_file::decode(engine()?, algorithm, &encoded).map_err(own_error)? {
        Key::Private(PrivateKey::Signature(key)) => of_engine(key),
        Key::Private(PrivateKey::Kem(_) | PrivateKey::Exchange(_)) | Key::Public(_) => {
            Err(refused("holds no private key of a signature"))
        }
    }
}

/// Converts a signing key of the engine to one of rustls. Clones share the key.
///
/// # Examples
/// ```
/// use gabion_engine::{Algorithm, Engine, OsEntropy};
/// use rustls::SignatureScheme;
///
/// let key = Engine::global()?.signature_generate(Algorithm::MlDsa65, &OsEntropy)?;
/// let key = gabion_rustls::signing::of_engine(key)?;
/// let signer = key.choose_scheme(&[SignatureScheme::ML_DSA_65]).ok_or("another scheme")?;
/// assert_eq!(signer.sign(b"transcript")?.len(), 3309);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::General`] if the algorithm cannot sign handshakes, such as SLH-DSA.
pub fn of_engine(key: gabion_engine::SigningKey) -> Result<Arc<dyn SigningKey>, Error> {
    let algorithm = key.algorithm();
    let (Some(scheme), Some(form)) = (scheme_of(algorithm), FileForm::of(algorithm)) else {
        return Err(Error::General(format!("{algorithm} signs no handshake of TLS")));
    };
    let public = key_file::encode_public(form, key.public_bytes(), true)
        .map_err(|reason| Error::General(format!("the public key {reason}")))?;
    Ok(Arc::new(OurKey { key, scheme, public: public.into() }))
}

/// The loader for private keys of configurations.
#[derive(Debug)]
pub(crate) struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(&self, der: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        signing_key(&Zeroizing::new(der))
    }
}

/// An expanded private key of the engine.
struct OurKey {
    key: gabion_engine::SigningKey,
    scheme: SignatureScheme,
    public: SubjectPublicKeyInfoDer<'static>,
}

impl SigningKey for OurKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = || OurSigner { key: self.key.clone(), scheme: self.scheme };
        offered.contains(&self.scheme).then(|| Box::new(signer()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.public.as_ref()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        algorithm_of(self.scheme)
    }
}

impl fmt::Debug for OurKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OurKey").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// A signer with the key, for one handshake.
struct OurSigner {
    key: gabion_engine::SigningKey,
    scheme: SignatureScheme,
}

impl Signer for OurSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let message = Message::Pure { context: b"", message };
        engine()?.sign(&self.key, message, &OsEntropy).map_err(own_error)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl fmt::Debug for OurSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OurSigner").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

fn refused(reason: &str) -> Error {
    Error::General(format!("the private key's file {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::OURS;
    use gabion_engine::Engine;
    use gabion_engine::key_file::Forms;
    use rustls::pki_types::PrivatePkcs8KeyDer;

    fn read(der: &[u8]) -> Result<Arc<dyn SigningKey>, Error> {
        signing_key(&PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der)))
    }

    /// ML-DSA keys are read as seed, expanded key and both, other keys in their only form; each
    /// signs and knows its public key.
    #[test]
    fn every_form_of_a_key_file_is_read() {
        let engine = Engine::global().unwrap();
        for (algorithm, scheme) in OURS {
            let key = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
            let form = FileForm::of(algorithm).unwrap();
            let all = key.forms();
            let forms = [
                all,
                Forms { seed: None, ..all },
                Forms { expanded: if all.seed.is_some() { None } else { all.expanded }, ..all },
            ];
            for forms in forms {
                let der = key_file::encode_private(form, &forms, true).unwrap();
                let read = read(&der).unwrap();
                let public = key_file::encode_public(form, key.public_bytes(), true).unwrap();
                assert_eq!(read.public_key().unwrap().as_ref(), public);
                assert!(read.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]).is_none());
                let signer = read.choose_scheme(&[SignatureScheme::ED448, scheme]).unwrap();
                assert_eq!(signer.scheme(), scheme);
                let signature = signer.sign(b"transcript").unwrap();
                let public = engine.signature_public(algorithm, key.public_bytes()).unwrap();
                let message = Message::Pure { context: b"", message: b"transcript" };
                engine.verify(&public, message, &signature).unwrap();
            }
        }
    }

    /// The public key in an EC private key may be a compressed or hybrid point; keys on P-521 use
    /// aws-lc-rs.
    #[test]
    fn ec_private_keys_with_points_in_any_form_are_read() {
        let engine = Engine::global().unwrap();
        for algorithm in [Algorithm::EcdsaP256, Algorithm::EcdsaP384, Algorithm::EcdsaP521] {
            let key = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
            let form = FileForm::of(algorithm).unwrap();
            let point = key.public_bytes();
            let parity = point[point.len() - 1] & 1;
            let compressed = [&[2 | parity], &point[1..=point.len() / 2]].concat();
            let hybrid = [&[6 | parity], &point[1..]].concat();
            let expected = key_file::encode_public(form, point, true).unwrap();
            for public in [compressed, hybrid] {
                let forms = Forms { public: Some(&public), ..key.forms() };
                let der = key_file::encode_private(form, &forms, true).unwrap();
                let read = read(&der).unwrap();
                assert_eq!(read.public_key().unwrap().as_ref(), expected, "{algorithm}");
            }
        }
    }

    #[test]
    fn keys_that_sign_no_handshake_are_refused_by_name() {
        let engine = Engine::global().unwrap();
        for algorithm in [Algorithm::MlKem768, Algorithm::X25519] {
            let key = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
            let form = FileForm::of(algorithm).unwrap();
            let der = key_file::encode_private(form, &key.forms(), true).unwrap();
            let said = read(&der).unwrap_err().to_string();
            assert!(said.contains(algorithm.name()), "{said}");
            let public = key_file::encode_public(form, key.public_bytes(), true).unwrap();
            assert!(read(&public).is_err());
        }
        let key = PrivateKey::generate(engine, Algorithm::MlDsa44, &OsEntropy).unwrap();
        let form = FileForm::of(Algorithm::MlDsa44).unwrap();
        let public = key_file::encode_public(form, key.public_bytes(), true).unwrap();
        let said = read(&public).unwrap_err().to_string();
        assert!(said.contains("no private key"), "{said}");
        let der = key_file::encode_private(form, &key.forms(), true).unwrap();
        for len in 0..der.len().min(200) {
            assert!(read(&der[..len]).is_err());
        }
        // A signing algorithm that cannot sign handshakes.
        let key = engine.signature_generate(Algorithm::EcdsaP521, &OsEntropy).unwrap();
        assert!(of_engine(key).is_err());
    }
}
