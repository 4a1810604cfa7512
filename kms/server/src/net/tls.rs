//! The server's certificate, its private key and the client verifier, which are reloaded while the
//! server runs.
//!
//! The files are checked each second, and read when one of them changed. Valid files are used from
//! the next handshake on. A certificate that does not match its key, is not valid now or cannot be
//! read leaves the previous one in use, and so does a file of authorities without certificates.
//! Such a failure is a warning. It is retried at the next change and every ten seconds. Connections
//! stay open: client certificates are verified again by the new authorities with the next request,
//! also on resumed sessions.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use gabion_kms::clock::now_ms;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::client_certificates::ClientVerifier;
use super::tls_files::{self, Stamp, Validity};
use crate::error::Error;

/// The interval at which the files are checked for changes.
const LOOK: Duration = Duration::from_secs(1);

/// The interval at which rejected files are read again without a change, because a certificate may
/// have become valid.
const AGAIN: Duration = Duration::from_secs(10);

/// The maximum size of a file with certificates, or with a private key.
const FILE_MAX: u64 = 1 << 20;

/// The paths of the TLS files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The server's certificate and its chain, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// The authorities of client certificates, in PEM.
    pub client_authorities: Option<PathBuf>,
    /// The revocation lists of these authorities, in PEM.
    pub client_revocations: Option<PathBuf>,
}

/// The TLS configuration of a server.
pub struct Tls {
    files: Option<Files>,
    provider: Arc<CryptoProvider>,
    current: RwLock<Current>,
    watched: Mutex<[WatchedFiles; 2]>,
    looked: Mutex<Instant>,
    reloads: AtomicU64,
    failures: AtomicU64,
    report: OnceLock<Report>,
}

type Report = Box<dyn Fn(&str) + Send + Sync>;

/// The configuration that the next handshake uses.
#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    identity: Option<Identity>,
    clients: Option<Arc<ClientVerifier>>,
}

/// A certificate with its key.
#[derive(Clone)]
struct Identity {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

/// Files that are reloaded together: the certificate and its key, or authorities and their
/// revocation lists.
#[derive(Default)]
struct WatchedFiles {
    stamps: [Option<Stamp>; 2],
    /// Why the current files were rejected, and when they were tried.
    failed: Option<(String, Instant)>,
}

impl WatchedFiles {
    fn is_due(&self, stamps: &[Option<Stamp>; 2]) -> bool {
        let is_to_try = |(_, at): &(String, Instant)| at.elapsed() >= AGAIN;
        self.stamps != *stamps || self.failed.as_ref().is_some_and(is_to_try)
    }
}

impl Tls {
    /// Reads the files. At the start, an expired certificate is accepted with a warning, because
    /// rejecting it would only keep the server from starting.
    ///
    /// # Errors
    /// [`Error::Settings`], with the file and the problem.
    pub fn new(files: Files) -> Result<Self, Error> {
        let provider = Arc::new(gabion_rustls::provider());
        let stamps = [identity_stamps(&files), clients_stamps(&files)];
        let identity = identity(&files, &provider)?;
        let clients = clients(&files, &provider)?;
        let config = configured(&identity, clients.as_ref(), &provider)?;
        let current = Current { config, identity: Some(identity), clients };
        let watched = stamps.map(|stamps| WatchedFiles { stamps, failed: None });
        Ok(Self::over(Some(files), provider, current, watched))
    }

    /// Creates a configuration that never changes.
    pub fn fixed(config: ServerConfig) -> Self {
        let provider = config.crypto_provider().clone();
        let current = Current { config: Arc::new(config), identity: None, clients: None };
        Self::over(None, provider, current, Default::default())
    }

    fn over(
        files: Option<Files>,
        provider: Arc<CryptoProvider>,
        current: Current,
        watched: [WatchedFiles; 2],
    ) -> Self {
        Tls {
            files,
            provider,
            current: RwLock::new(current),
            watched: Mutex::new(watched),
            looked: Mutex::new(Instant::now()),
            reloads: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            report: OnceLock::new(),
        }
    }

    /// Sets a function that gets one line for each reload and each failure.
    pub fn reporting(&self, report: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.report.set(Box::new(report));
    }

    /// Returns whether there are files that can be reloaded.
    pub(crate) fn has_files(&self) -> bool {
        self.files.is_some()
    }

    /// Returns the configuration for the next handshake.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.look();
        self.current().config
    }

    /// Returns the current client verifier; `None` if the server does not ask for client
    /// certificates.
    pub(crate) fn clients(&self) -> Option<Arc<ClientVerifier>> {
        self.look();
        self.current().clients
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads changed files, unless they were checked within the last second.
    pub(crate) fn look(&self) {
        if self.files.is_none() {
            return;
        }
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() < LOOK {
                return;
            }
            *looked = Instant::now();
        }
        self.read(false);
    }

    /// Reads all files now. Rejected files leave the previous ones in use, and are reported.
    pub fn reload(&self) {
        self.read(true);
    }

    fn read(&self, is_forced: bool) {
        let Some(files) = &self.files else { return };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let [of_identity, of_clients] = &mut *watched;
        let (mut next, mut reloaded) = (self.current(), Vec::new());
        // Taken first: files that are replaced meanwhile are read again.
        let stamps = identity_stamps(files);
        if is_forced || of_identity.is_due(&stamps) {
            let found = identity(files, &self.provider).and_then(|found| {
                valid_now(&found, &files.certificate)?;
                Ok(found)
            });
            if let Some(found) = self.taken(of_identity, stamps, found, is_forced) {
                next.identity = Some(found);
                reloaded.push("the certificate and its key");
            }
        }
        let stamps = clients_stamps(files);
        if is_forced || of_clients.is_due(&stamps) {
            let found = clients(files, &self.provider);
            if let Some(found) = self.taken(of_clients, stamps, found, is_forced) {
                reloaded
                    .extend(found.is_some().then_some("the client authorities and revocations"));
                next.clients = found;
            }
        }
        self.put(next, &reloaded);
    }

    /// Returns the loaded files, if they are valid. Notes their stamps, and reports a failure once
    /// for each reason, and for each requested reload.
    fn taken<T>(
        &self,
        watched: &mut WatchedFiles,
        stamps: [Option<Stamp>; 2],
        found: Result<T, Error>,
        is_forced: bool,
    ) -> Option<T> {
        watched.stamps = stamps;
        match found {
            Ok(found) => {
                watched.failed = None;
                Some(found)
            }
            Err(error) => {
                let why = error.to_string();
                self.failures.fetch_add(1, Ordering::Relaxed);
                let is_new = watched.failed.as_ref().is_none_or(|(before, _)| *before != why);
                if is_forced || is_new {
                    self.tell(&format!(
                        "warning: tls_reload_failing: {why}; the previous files stay in use"
                    ));
                }
                watched.failed = Some((why, Instant::now()));
                None
            }
        }
    }

    /// Installs a changed configuration. `reloaded` names what was read.
    fn put(&self, mut next: Current, reloaded: &[&str]) {
        let before = self.current();
        let key = |of: &Current| of.identity.as_ref().map(|one| Arc::as_ptr(&one.key));
        let verifier = |of: &Current| of.clients.as_ref().map(Arc::as_ptr);
        let Some(identity) = &next.identity else { return };
        if (key(&before), verifier(&before)) == (key(&next), verifier(&next)) {
            return;
        }
        match configured(identity, next.clients.as_ref(), &self.provider) {
            Ok(config) => {
                next.config = config;
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
                self.reloads.fetch_add(1, Ordering::Relaxed);
                self.tell(&format!("TLS: reloaded {}", reloaded.join(", ")));
            }
            Err(error) => self.tell(&format!("warning: tls_reload_failing: {error}")),
        }
    }

    fn tell(&self, line: &str) {
        if let Some(report) = self.report.get() {
            report(line);
        }
    }

    /// Returns the warnings: problems that do not stop the server.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let (current, now) = (self.current(), now_seconds());
        let is_failing = {
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.iter().any(|one| one.failed.is_some())
        };
        let own = current.identity.map(|identity| identity.validity);
        let is_ended = own.is_some_and(|own| own.not_after < now || now < own.not_before);
        let is_ending = own.is_some_and(|own| own.is_ending(now));
        let of_clients = |of: fn(&ClientVerifier) -> &Vec<Validity>| {
            let clients = current.clients.as_ref();
            clients.is_some_and(|clients| of(clients).iter().any(|one| one.is_ending(now)))
        };
        let all = [
            (is_failing, "tls_reload_failing"),
            (is_ended, "certificate_not_valid"),
            (is_ending && !is_ended, "certificate_expiring"),
            (of_clients(|clients| &clients.authorities), "client_authority_expiring"),
            (of_clients(|clients| &clients.lists), "client_revocations_expiring"),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
    }

    /// Returns expiry times and counters in the Prometheus text format.
    pub(crate) fn metrics(&self) -> String {
        if self.files.is_none() {
            return String::new();
        }
        let current = self.current();
        let first = |of: &[Validity]| of.iter().map(|one| one.not_after).min();
        let clients = current.clients.as_ref();
        let ends = [
            ("certificate", current.identity.map(|identity| identity.validity.not_after)),
            ("client_authority", clients.and_then(|clients| first(&clients.authorities))),
            ("client_revocations", clients.and_then(|clients| first(&clients.lists))),
        ];
        let mut text = String::new();
        for (name, end) in ends {
            if let Some(end) = end {
                text.push_str(&format!(
                    "# TYPE kms_tls_{name}_not_after_seconds gauge\nkms_tls_{name}_not_after_seconds {end}\n"
                ));
            }
        }
        for (name, count) in [("reloads", &self.reloads), ("reload_failures", &self.failures)] {
            let count = count.load(Ordering::Relaxed);
            text.push_str(&format!(
                "# TYPE kms_tls_{name}_total counter\nkms_tls_{name}_total {count}\n"
            ));
        }
        text
    }
}

fn now_seconds() -> i64 {
    i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX)
}

fn identity_stamps(files: &Files) -> [Option<Stamp>; 2] {
    [tls_files::stamp(&files.certificate), tls_files::stamp(&files.key)]
}

fn clients_stamps(files: &Files) -> [Option<Stamp>; 2] {
    [&files.client_authorities, &files.client_revocations]
        .map(|path| path.as_deref().and_then(tls_files::stamp))
}

/// Loads a certificate and its key, which have to match.
fn identity(files: &Files, provider: &CryptoProvider) -> Result<Identity, Error> {
    let wrong = |path: &Path, reason: String| {
        Error::Settings(format!("cannot take TLS's {}: {reason}", path.display()))
    };
    let of_certificate = |reason: &str| wrong(&files.certificate, reason.to_owned());
    let bytes = tls_files::read(&files.certificate, FILE_MAX)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| of_certificate(&error.to_string()))?;
    let mut validities = chain.iter().map(|der| tls_files::of_certificate(der));
    // The chain expires with its first certificate to expire.
    let Some(first) = validities.next() else {
        return Err(of_certificate("it contains no certificate"));
    };
    let validity = validities
        .fold(first, |all, one| Some(all?.and(one?)))
        .ok_or_else(|| of_certificate("a certificate in it cannot be read"))?;
    let bytes = tls_files::read(&files.key, FILE_MAX)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|error| wrong(&files.key, error.to_string()))?;
    let key = CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| wrong(&files.key, error.to_string()))?;
    Ok(Identity { key: Arc::new(key), validity })
}

/// Rejects a certificate that clients would reject because it has expired or is not valid yet.
fn valid_now(identity: &Identity, path: &Path) -> Result<(), Error> {
    let (Validity { not_before, not_after }, now) = (identity.validity, now_seconds());
    let why = match (now < not_before, not_after < now) {
        (true, _) => "it is not valid yet",
        (_, true) => "it has expired",
        _ => return Ok(()),
    };
    Err(tls_files::wrong(path, why))
}

fn clients(
    files: &Files,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<ClientVerifier>>, Error> {
    let Some(authorities) = &files.client_authorities else { return Ok(None) };
    let lists = files.client_revocations.as_deref();
    Ok(Some(Arc::new(ClientVerifier::new(authorities, lists, provider.clone())?)))
}

/// Creates a TLS 1.3 configuration with a certificate. Sessions of an earlier configuration are not
/// resumed.
fn configured(
    identity: &Identity,
    clients: Option<&Arc<ClientVerifier>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.clone()),
    };
    let own = SingleCertAndKey::from(identity.key.clone());
    let mut config = builder.with_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
