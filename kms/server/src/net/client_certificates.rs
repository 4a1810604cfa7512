//! Client certificates: their authorities, and revocation lists.
//!
//! [`Tls`](crate::net::tls::Tls) reloads both when their files change, and then creates a new
//! [`ClientVerifier`]. It applies to open connections, too: their certificates are verified again
//! then, and each minute, because certificates expire.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::tls_files::{self, Validity};
use crate::error::Error;

/// The interval at which a connection's certificates are verified again.
const AGAIN: Duration = Duration::from_secs(60);

/// The maximum size of a file with authorities.
const AUTHORITIES_MAX: u64 = 4 << 20;

/// The maximum size of a file with revocation lists.
const LISTS_MAX: u64 = 64 << 20;

/// A counter for the unique numbers of [`ClientVerifier`]s.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Verifies client certificates. A client without a certificate needs a token.
#[derive(Debug)]
pub struct ClientVerifier {
    verifier: Arc<dyn ClientCertVerifier>,
    number: u64,
    /// The validity of each authority.
    pub(crate) authorities: Vec<Validity>,
    /// The validity of each list: from its issue to the next one's.
    pub(crate) lists: Vec<Validity>,
}

/// The last verification of a connection's certificates.
#[derive(Debug)]
pub struct Verification {
    number: u64,
    at: Instant,
}

impl ClientVerifier {
    /// Creates a verifier from PEM files of authorities and revocation lists.
    ///
    /// # Errors
    /// Files that cannot be read, or that contain no certificates or lists.
    pub fn new(
        authorities: &Path,
        lists: Option<&Path>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let wrong = |reason: String| tls_files::wrong(authorities, &reason);
        let bytes = tls_files::read(authorities, AUTHORITIES_MAX)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let found = found.map_err(|error| wrong(error.to_string()))?;
        let validities = found.iter().filter_map(|der| tls_files::of_certificate(der)).collect();
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(found).0 == 0 {
            return Err(wrong("it contains no certificate".to_owned()));
        }
        let (verifier, lists) = made(Arc::new(roots), lists, provider)?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Ok(ClientVerifier { verifier, number, authorities: validities, lists })
    }

    /// Returns whether a connection's certificates, which its handshake verified, are still valid.
    pub fn is_still_valid(
        &self,
        chain: &[CertificateDer<'_>],
        last: &Mutex<Option<Verification>>,
    ) -> bool {
        let Some((leaf, above)) = chain.split_first() else { return true };
        let at = Instant::now();
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |last: &Verification| {
            last.number == self.number && at.saturating_duration_since(last.at) < AGAIN
        };
        if last.as_ref().is_some_and(is_recent) {
            return true;
        }
        let holds = self.verifier.verify_client_cert(leaf, above, UnixTime::now()).is_ok();
        *last = holds.then_some(Verification { number: self.number, at });
        holds
    }
}

/// Creates a verifier, and returns how long its lists are valid. If an authority has an expired
/// list or no list, all its certificates are rejected, because it is unknown which are revoked.
fn made(
    roots: Arc<RootCertStore>,
    lists: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<(Arc<dyn ClientCertVerifier>, Vec<Validity>), Error> {
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let mut validities = Vec::new();
    if let Some(path) = lists {
        let wrong = |reason: String| tls_files::wrong(path, &reason);
        let bytes = tls_files::read(path, LISTS_MAX)?;
        let found: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
        let found = found.map_err(|error| wrong(error.to_string()))?;
        if found.is_empty() {
            return Err(wrong("it contains no revocation list".to_owned()));
        }
        validities.extend(found.iter().filter_map(|der| tls_files::of_list(der)));
        builder = builder.with_crls(found).enforce_revocation_expiration();
    }
    let verifier = builder.allow_unauthenticated().build().map_err(|error| {
        Error::Settings(format!("cannot verify clients' certificates: {error}"))
    })?;
    Ok((verifier, validities))
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        at: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verifier.verify_client_cert(leaf, above, at)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
