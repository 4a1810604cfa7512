//! A server with several certificates.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Several certificates for the same names: each client gets the first whose key signs by a scheme that it offers.
/// So those that know ML-DSA get a certificate of it, and browsers of today one of ECDSA.
///
/// # Examples
/// ```
/// use std::sync::Arc;
///
/// use gabion_rustls::signing::FirstUsable;
/// use rustls::sign::CertifiedKey;
/// # use gabion_engine::{Algorithm, Engine, OsEntropy};
/// # fn certified(algorithm: Algorithm) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
/// #     let key = Engine::global()?.signature_generate(algorithm, &OsEntropy)?;
/// #     Ok(CertifiedKey::new(Vec::new(), gabion_rustls::signing::of_engine(key)?))
/// # }
///
/// gabion_rustls::install_default().expect("nobody else installed one");
/// // Each of CertifiedKey::from_der, or of CertifiedKey::new.
/// let ml_dsa: CertifiedKey = certified(Algorithm::MlDsa65)?;
/// let ecdsa: CertifiedKey = certified(Algorithm::EcdsaP256)?;
/// let config = rustls::ServerConfig::builder()
///     .with_no_client_auth()
///     .with_cert_resolver(Arc::new(FirstUsable::new([ml_dsa, ecdsa])));
/// # drop(config);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FirstUsable(Vec<Arc<CertifiedKey>>);

impl FirstUsable {
    /// These certificates, the preferred one first.
    pub fn new(certificates: impl IntoIterator<Item = CertifiedKey>) -> Self {
        FirstUsable(certificates.into_iter().map(Arc::new).collect())
    }
}

impl ResolvesServerCert for FirstUsable {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let usable = self.0.iter().find(|one| one.key.choose_scheme(offered).is_some());
        // With one that can't be used rustls says that schemes are what is wrong; with none, that access is denied.
        usable.or(self.0.first()).cloned()
    }
}
