//! Servers with several certificates.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Several certificates for the same names. Each client gets the first one whose key has a scheme
/// that the client offers: clients that support ML-DSA get an ML-DSA certificate, and today's
/// browsers an ECDSA one.
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
/// // In a program: CertifiedKey::from_der or CertifiedKey::new.
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
    /// Returns a resolver for these certificates, in order of preference.
    pub fn new(certificates: impl IntoIterator<Item = CertifiedKey>) -> Self {
        FirstUsable(certificates.into_iter().map(Arc::new).collect())
    }
}

impl ResolvesServerCert for FirstUsable {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let usable = self.0.iter().find(|one| one.key.choose_scheme(offered).is_some());
        // With an unusable certificate, rustls reports incompatible schemes; without one, it would
        // report that access is denied.
        usable.or(self.0.first()).cloned()
    }
}
