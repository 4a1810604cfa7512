//! Remote keys: in a device, a service or another process.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, OtherError, SignatureAlgorithm, SignatureScheme};

use crate::schemes::algorithm_of;

/// A private key that this process does not have: a remote signer.
///
/// rustls calls it on the thread of the handshake and waits for the signature. A server with an
/// event loop should run handshakes with slow remote keys on separate threads.
///
/// # Examples
/// ```
/// use gabion_engine::{Algorithm, Engine, Message, OsEntropy, SigningKey};
/// use gabion_rustls::signing::{RemoteKey, remote_key};
/// use rustls::SignatureScheme;
///
/// /// Stands in for a signing service.
/// struct Service(SigningKey);
///
/// impl RemoteKey for Service {
///     fn schemes(&self) -> &[SignatureScheme] {
///         &[SignatureScheme::ML_DSA_65]
///     }
///
///     fn sign(
///         &self,
///         _: SignatureScheme,
///         message: &[u8],
///     ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
///         let message = Message::Pure { context: b"", message };
///         Ok(Engine::global()?.sign(&self.0, message, &OsEntropy)?)
///     }
/// }
///
/// let key = Engine::global()?.signature_generate(Algorithm::MlDsa65, &OsEntropy)?;
/// let key = remote_key(Service(key));
/// // With the chain of its certificate: rustls::sign::CertifiedKey::new(chain, key).
/// assert!(key.choose_scheme(&[SignatureScheme::ED25519]).is_none());
/// assert!(key.choose_scheme(&[SignatureScheme::ML_DSA_65]).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RemoteKey: Send + Sync {
    /// Returns the schemes of the key, in order of preference.
    fn schemes(&self) -> &[SignatureScheme];

    /// Returns the public key, if it is known. rustls can then reject a certificate with another
    /// key.
    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        None
    }

    /// Signs a message, which is not hashed yet, with one of the schemes.
    ///
    /// # Errors
    /// The reason, with which the handshake fails.
    fn sign(
        &self,
        scheme: SignatureScheme,
        message: &[u8],
    ) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>>;
}

/// Implements a remote key for a closure that signs with one scheme: `(scheme, |message: &[u8]|
/// ...)`.
impl<F> RemoteKey for (SignatureScheme, F)
where
    F: Fn(&[u8]) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>> + Send + Sync,
{
    fn schemes(&self) -> &[SignatureScheme] {
        std::slice::from_ref(&self.0)
    }

    fn sign(
        &self,
        _: SignatureScheme,
        message: &[u8],
    ) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>> {
        self.1(message)
    }
}

/// Converts a remote key to a key of rustls, for
/// [`CertifiedKey::new`](rustls::sign::CertifiedKey::new).
pub fn remote_key(key: impl RemoteKey + 'static) -> Arc<dyn SigningKey> {
    Arc::new(RemoteSigningKey(Arc::new(key)))
}

struct RemoteSigningKey(Arc<dyn RemoteKey>);

impl SigningKey for RemoteSigningKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.0.schemes().iter().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(RemoteSigner { key: Arc::clone(&self.0), scheme }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0
            .schemes()
            .first()
            .map_or(SignatureAlgorithm::Unknown(0), |&first| algorithm_of(first))
    }
}

impl fmt::Debug for RemoteSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere").field("schemes", &self.0.schemes()).finish()
    }
}

/// A signer with a remote key, for one handshake.
struct RemoteSigner {
    key: Arc<dyn RemoteKey>,
    scheme: SignatureScheme,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signed = self.key.sign(self.scheme, message);
        signed.map_err(|error| Error::Other(OtherError(error.into())))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl fmt::Debug for RemoteSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
