//! Post-quantum TLS for rustls: the engine as its `CryptoProvider`.
//!
//! ```text
//!   rustls --SupportedKxGroup-----------------> groups      --+
//!          --KeyProvider, SigningKey----------> signing     --+--> gabion-engine
//!          --SignatureVerificationAlgorithm---> verification--+    (keys expanded once, OsEntropy)
//!          --SecureRandom---------------------> this file   --+
//!          --cipher suites, HKDF, RSA, P-521--> aws-lc-rs, as in rustls
//! ```
//!
//! - Handshakes use X25519MLKEM768 if both sides support it; [`groups`] has all TLS groups of the
//!   engine.
//! - Certificates may have ML-DSA, Ed25519, ECDSA or RSA keys. A private key is read in every form
//!   of Gabion's key files and expanded once. A key that is stored elsewhere is a
//!   [`RemoteKey`](signing::RemoteKey).
//! - webpki verifies names and chains.
//! - Programs can count key exchanges and signatures: see [`observer`].
//! - No threads are started. The only global state is rustls's default provider, once
//!   [`install_default`] was called, and the bounded cache of peers' public keys (see
//!   [`verification`]).
//!
//! # Examples
//! ```
//! gabion_rustls::install_default().expect("nobody else installed one");
//!
//! // From here on every configuration of this process is post-quantum.
//! let roots = rustls::RootCertStore::empty();
//! let config =
//!     rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
//! let groups = &config.crypto_provider().kx_groups;
//! assert_eq!(groups[0].name(), rustls::NamedGroup::X25519MLKEM768);
//! assert_eq!(groups.len(), gabion_rustls::groups::DEFAULT.len());
//! ```

#![forbid(unsafe_code)]

/// Compiles the example in the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "fips")]
compile_error!(
    "gabion-rustls has no feature `fips`: no module that holds the engine's code is validated by FIPS 140-3, \
     so that a handshake through this provider can't be; use rustls with its own feature `fips` alone \
     (docs/guide/rustls.md)"
);

#[cfg(feature = "certificates")]
pub mod certificate;
mod error;
pub mod groups;
pub mod names;
pub mod observer;
mod schemes;
pub mod signing;
#[cfg(feature = "testing")]
pub mod testing;
pub mod verification;

use std::sync::Arc;

use gabion_engine::{Entropy, OsEntropy};
pub use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::crypto::{CryptoProvider, GetRandomFailed, SecureRandom, aws_lc_rs};

/// Returns the provider: the engine's groups and signatures, and the cipher suites of aws-lc-rs.
///
/// # Examples
/// ```
/// use std::sync::Arc;
///
/// let provider = Arc::new(gabion_rustls::provider());
/// let roots = rustls::RootCertStore::empty();
/// let config = rustls::ClientConfig::builder_with_provider(provider)
///     .with_safe_default_protocol_versions()?
///     .with_root_certificates(roots)
///     .with_no_client_auth();
/// assert!(!config.fips());
/// # Ok::<(), rustls::Error>(())
/// ```
#[must_use]
pub fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: aws_lc_rs::DEFAULT_CIPHER_SUITES.to_vec(),
        kx_groups: groups::DEFAULT.to_vec(),
        signature_verification_algorithms: verification::ALGORITHMS,
        secure_random: &Random,
        key_provider: &signing::Keys,
    }
}

/// Returns the provider, which reports key exchanges and signatures to an observer.
///
/// rustls keeps parts of a provider as `'static` values, so each call leaks about 2 KiB. Call it
/// once for each observer and clone the result.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use gabion_rustls::observer::{KeyExchange, Observer};
///
/// #[derive(Debug, Default)]
/// struct Metrics {
///     hybrid: AtomicU64,
///     other: AtomicU64,
/// }
///
/// impl Observer for Metrics {
///     fn key_exchange(&self, exchange: KeyExchange) {
///         let is_hybrid = exchange.group == rustls::NamedGroup::X25519MLKEM768;
///         let counter = if is_hybrid { &self.hybrid } else { &self.other };
///         counter.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// static METRICS: Metrics = Metrics { hybrid: AtomicU64::new(0), other: AtomicU64::new(0) };
/// let provider = gabion_rustls::provider_with_observer(&METRICS);
/// assert_eq!(provider.kx_groups.len(), gabion_rustls::groups::DEFAULT.len());
/// ```
#[must_use]
pub fn provider_with_observer(observer: &'static dyn observer::Observer) -> CryptoProvider {
    observer::observed(provider(), observer)
}

/// Makes this provider the default of all configurations of this process that do not name one.
///
/// # Errors
/// The provider that was installed before, which remains the default.
pub fn install_default() -> Result<(), Arc<CryptoProvider>> {
    provider().install_default()
}

/// The random generator that rustls uses for hello randoms and session identifiers.
#[derive(Debug)]
struct Random;

impl SecureRandom for Random {
    fn fill(&self, out: &mut [u8]) -> Result<(), GetRandomFailed> {
        OsEntropy.fill(out).map_err(|_| GetRandomFailed)
    }
}
