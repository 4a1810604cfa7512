//! Clients' certificates: the authorities that they come from, and those that were revoked.
//!
//! A list of revoked certificates (RFC 5280, section 5) is read again when its file changes, and counts for connections that are
//! open, too: they are verified again then, and each minute, since certificates end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use crate::error::Error;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How often a connection is verified again.
const AGAIN: Duration = Duration::from_secs(60);

/// Verifies clients' certificates; whoever has none has a token alone.
#[derive(Debug)]
pub struct Clients {
    roots: Arc<RootCertStore>,
    /// What the authorities are called, for clients that have several certificates.
    names: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
    lists: Option<PathBuf>,
    now: RwLock<Now>,
    looked: Mutex<Instant>,
}

/// What holds.
#[derive(Clone, Debug)]
struct Now {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Which file it was made of.
    of: Option<Stamp>,
    /// How often it was made.
    number: u64,
}

/// What tells a file from the one that it was: number, length, change.
type Stamp = (u64, u64, i64, i64);

/// When a connection was verified last.
#[derive(Debug)]
pub struct Verified {
    number: u64,
    at: Instant,
}

impl Clients {
    /// Of authorities, and of lists of what they revoked, all in PEM.
    ///
    /// # Errors
    /// Files that can't be read, or have none in them.
    pub fn new(
        authorities: &Path,
        lists: Option<&Path>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let wrong = |reason: String| {
            Error::Settings(format!("cannot take {}: {reason}", authorities.display()))
        };
        let found: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(authorities).and_then(Iterator::collect);
        let mut roots = RootCertStore::empty();
        let found = found.map_err(|error| wrong(error.to_string()))?;
        if roots.add_parsable_certificates(found).0 == 0 {
            return Err(wrong("there is no certificate in it".to_owned()));
        }
        let (roots, lists) = (Arc::new(roots), lists.map(Path::to_owned));
        let (verifier, of) = made(&roots, lists.as_deref(), &provider)?;
        let names = verifier.root_hint_subjects().to_vec();
        let now = RwLock::new(Now { verifier, of, number: 0 });
        Ok(Clients { roots, names, provider, lists, now, looked: Mutex::new(Instant::now()) })
    }

    /// Whether a connection's certificates still hold, which were verified in its handshake.
    pub fn still(&self, chain: &[CertificateDer<'_>], last: &Mutex<Option<Verified>>) -> bool {
        let Some((leaf, above)) = chain.split_first() else { return true };
        let (now, at) = (self.now(), Instant::now());
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |last: &Verified| {
            last.number == now.number && at.saturating_duration_since(last.at) < AGAIN
        };
        if last.as_ref().is_some_and(is_recent) {
            return true;
        }
        let holds = now.verifier.verify_client_cert(leaf, above, UnixTime::now()).is_ok();
        *last = holds.then_some(Verified { number: now.number, at });
        holds
    }

    /// What holds. A list that can't be read takes the place of none: the last one goes on, until it ends.
    fn now(&self) -> Now {
        if let Some(lists) = &self.lists
            && self.is_to_look()
        {
            let of = stamp(lists);
            let is_another = {
                let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
                of.is_some() && of != now.of
            };
            if is_another && let Ok((verifier, of)) = made(&self.roots, Some(lists), &self.provider)
            {
                let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
                *now = Now { verifier, of, number: now.number + 1 };
            }
        }
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_to_look(&self) -> bool {
        let (mut looked, at) =
            (self.looked.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        let is_to = at.saturating_duration_since(*looked) >= LOOK;
        if is_to {
            *looked = at;
        }
        is_to
    }
}

/// A verifier, and which file of lists it is of. A list that has ended denies everybody it is about, and so does none of an
/// authority: nobody knows then what was revoked.
fn made(
    roots: &Arc<RootCertStore>,
    lists: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> Result<(Arc<dyn ClientCertVerifier>, Option<Stamp>), Error> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let (builder, of) = match lists {
        None => (builder, None),
        Some(path) => {
            let wrong = |reason: String| {
                Error::Settings(format!("cannot take {}: {reason}", path.display()))
            };
            // Before it is read: one that is replaced meanwhile is read again.
            let of = stamp(path);
            let found: Result<Vec<_>, _> =
                CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect);
            let found = found.map_err(|error| wrong(error.to_string()))?;
            if found.is_empty() {
                return Err(wrong("there is no list of revoked certificates in it".to_owned()));
            }
            (builder.with_crls(found).enforce_revocation_expiration(), of)
        }
    };
    let verifier = builder.allow_unauthenticated().build();
    let verifier = verifier.map_err(|error| {
        Error::Settings(format!("cannot verify clients' certificates: {error}"))
    })?;
    Ok((verifier, of))
}

fn stamp(path: &Path) -> Option<Stamp> {
    let of = fs::metadata(path).ok()?;
    Some((of.ino(), of.len(), of.mtime(), of.mtime_nsec()))
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        at: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.now().verifier.verify_client_cert(leaf, above, at)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.now().verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.now().verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.now().verifier.supported_verify_schemes()
    }
}
