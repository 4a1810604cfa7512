//! Handshakes with rustls over a connection of ours, every certificate accepted and recorded.
//!
//! ```text
//!   Form --> Client --> ClientConnection --drive--> Handshake   version, group, scheme, chain
//!                            |
//!                            +--- write_tls gives the ClientHello, which the matrix splits
//! ```
//!
//! Forms go from the complete ClientHello to the smallest. A middlebox that drops unknown features,
//! or that expects a ClientHello to fit its first packet, does not report an error. The form that
//! gets through shows which feature it drops.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_rustls::groups;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{
    CryptoProvider, SupportedKxGroup, WebPkiSupportedAlgorithms, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error, HandshakeKind, InvalidMessage, IoState, PeerMisbehaved, ProtocolVersion, RootCertStore,
    SignatureScheme,
};

use crate::certificate::Certificate;
use crate::raw;

/// The most bytes that a server may send up to its Finished message.
pub const HANDSHAKE_BYTES_MAX: usize = 256 << 10;
/// The most certificates of a chain.
pub const CHAIN_LEN_MAX: usize = 32;

/// The groups that a form offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Hybrids and ML-KEM first, with a key share of X25519MLKEM768 and one of X25519.
    PostQuantumFirst,
    /// All groups, with a key share of X25519 only.
    SmallShare,
    /// Curves only.
    Classical,
}

/// A form of the ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Its name in reports.
    pub name: &'static str,
    /// The groups that it offers.
    pub groups: Groups,
    /// Whether it offers the signature schemes of ML-DSA.
    pub has_ml_dsa: bool,
    /// Whether it offers TLS 1.3.
    pub has_tls13: bool,
    /// The feature that the path drops if this form is answered and no larger one is.
    pub missing: &'static str,
}

/// The complete ClientHello.
pub const COMPLETE: Form = Form {
    name: "complete",
    groups: Groups::PostQuantumFirst,
    has_ml_dsa: true,
    has_tls13: true,
    missing: "",
};

impl Default for Form {
    fn default() -> Form {
        COMPLETE
    }
}

/// The forms that are sent if the complete one gets no answer; each later one leaves out more.
pub const FALLBACKS: [Form; 5] = [
    Form {
        name: "without ML-DSA",
        has_ml_dsa: false,
        missing: "the signature schemes of ML-DSA (extension signature_algorithms)",
        ..COMPLETE
    },
    Form {
        name: "with a small key share",
        groups: Groups::SmallShare,
        missing: "the size of the hello, most of which is the key share of ML-KEM (extension \
                  key_share)",
        ..COMPLETE
    },
    Form {
        name: "without ML-KEM",
        groups: Groups::Classical,
        missing: "the groups of ML-KEM (extension supported_groups)",
        ..COMPLETE
    },
    Form {
        name: "without either",
        groups: Groups::Classical,
        has_ml_dsa: false,
        missing: "both the groups of ML-KEM and the signature schemes of ML-DSA",
        ..COMPLETE
    },
    Form {
        name: "TLS 1.2",
        groups: Groups::Classical,
        has_ml_dsa: false,
        has_tls13: false,
        missing: "TLS 1.3 (extension supported_versions)",
    },
];

/// The authorities that certificates are verified with.
#[derive(Debug)]
pub struct Authorities {
    verifier: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

/// A file of authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthoritiesError {
    /// The file is not PEM.
    #[error("it is not PEM: {0}")]
    Pem(rustls::pki_types::pem::Error),
    /// The file has no certificate that can be parsed.
    #[error("it has no certificate of an authority")]
    Empty,
    /// rustls rejects the authorities.
    #[error("{0}")]
    Verifier(rustls::client::VerifierBuilderError),
}

impl Authorities {
    /// Reads certificates in PEM. Those that webpki cannot parse are skipped.
    ///
    /// # Errors
    /// [`AuthoritiesError`] if no certificate can be used.
    pub fn from_pem(text: &[u8]) -> Result<Authorities, AuthoritiesError> {
        let read: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(text).collect();
        let certificates = read.map_err(AuthoritiesError::Pem)?;
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if added == 0 {
            return Err(AuthoritiesError::Empty);
        }
        let provider = Arc::new(gabion_rustls::provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(AuthoritiesError::Verifier)?;
        Ok(Authorities { verifier, certificates })
    }

    /// Verifies a chain. A server certificate that is itself in the file counts as an authority,
    /// even if it is marked as one (which webpki refuses): `openssl req -x509` issues such.
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let verified = self.verifier.verify_server_cert(leaf, intermediates, name, &[], now);
        let Err(error) = verified else { return Ok(()) };
        if !self.certificates.iter().any(|authority| authority.as_ref() == leaf.as_ref()) {
            return Err(error);
        }
        let end_entity = webpki::EndEntityCert::try_from(leaf).map_err(|_| error.clone())?;
        if end_entity.verify_is_valid_for_subject_name(name).is_err() {
            return Err(Error::InvalidCertificate(CertificateError::NotValidForName));
        }
        let dates = Certificate::parse(leaf).map_err(|_| error)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match (now < dates.not_before, now > dates.not_after) {
            (true, _) => Err(Error::InvalidCertificate(CertificateError::NotValidYet)),
            (_, true) => Err(Error::InvalidCertificate(CertificateError::Expired)),
            _ => Ok(()),
        }
    }
}

/// The credentials that the server showed during a handshake.
#[derive(Clone, Debug, Default)]
struct Observations {
    chain: Vec<Vec<u8>>,
    scheme: Option<SignatureScheme>,
    is_signature_verified: bool,
    trust: Option<Result<(), String>>,
}

/// Accepts every certificate and records it. Signatures of the handshake are verified.
#[derive(Debug)]
struct Observer {
    observed: Mutex<Observations>,
    algorithms: WebPkiSupportedAlgorithms,
    schemes: Vec<SignatureScheme>,
    authorities: Option<Arc<Authorities>>,
}

impl Observer {
    fn observed(&self) -> MutexGuard<'_, Observations> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the scheme, and whether the signature verified. Only a certificate that webpki
    /// cannot parse excuses an unverified signature, because then its key is unknown.
    fn judge(
        &self,
        scheme: SignatureScheme,
        leaf: &CertificateDer<'_>,
        verified: Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        let mut observed = self.observed();
        observed.scheme = Some(scheme);
        if !self.schemes.contains(&scheme) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        observed.is_signature_verified = verified.is_ok();
        match verified {
            Err(_) if webpki::EndEntityCert::try_from(leaf).is_err() => {
                Ok(HandshakeSignatureValid::assertion())
            }
            verified => verified,
        }
    }
}

impl ServerCertVerifier for Observer {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let len = 1 + intermediates.len();
        if len > CHAIN_LEN_MAX {
            let text = format!("the server sent {len} certificates, more than {CHAIN_LEN_MAX}");
            return Err(Error::General(text));
        }
        let trust = self.authorities.as_deref().map(|authorities| {
            authorities.verify(leaf, intermediates, name, now).map_err(|error| error.to_string())
        });
        let mut observed = self.observed();
        observed.chain = [leaf].into_iter().chain(intermediates).map(|der| der.to_vec()).collect();
        observed.trust = trust;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls12_signature(message, leaf, signed, &self.algorithms);
        self.judge(signed.scheme, leaf, verified)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls13_signature(message, leaf, signed, &self.algorithms);
        self.judge(signed.scheme, leaf, verified)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

/// A client that makes the ClientHello of one form. Its sessions can be resumed.
#[derive(Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    observer: Arc<Observer>,
}

/// A completed handshake.
#[derive(Debug)]
pub struct Handshake {
    /// The version.
    pub version: u16,
    /// The cipher suite.
    pub cipher_suite: u16,
    /// The group; `None` if the handshake resumed a session without a key exchange.
    pub group: Option<u16>,
    /// The scheme of the server's signature.
    pub scheme: Option<u16>,
    /// Whether the server sent a HelloRetryRequest.
    pub is_hello_retry_request: bool,
    /// Whether a session was resumed.
    pub is_resumed: bool,
    /// The application protocol.
    pub alpn: Option<String>,
    /// The certificates in DER, the server's first.
    pub chain: Vec<Vec<u8>>,
    /// Whether the server's signature was verified with the key of its certificate.
    pub is_signature_verified: bool,
    /// The result of the verification, if authorities were given.
    pub trust: Option<Result<(), String>>,
}

/// A handshake that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The connection failed, or a bound was reached.
    #[error("{0}")]
    Io(io::Error),
    /// The server's first bytes are not TLS.
    #[error("the server's answer is not TLS")]
    NotTls,
    /// The server sent a fatal alert.
    #[error("the server sent the alert {}", raw::alert_name(u8::from(*.0)))]
    Alert(AlertDescription),
    /// The server's certificates, for example, are larger than rustls takes.
    #[error("a message of the server is larger than 64 KiB")]
    TooLarge,
    /// rustls ended the handshake.
    #[error("{0}")]
    Tls(Error),
}

impl HandshakeError {
    /// Returns whether another form of the ClientHello cannot help.
    #[must_use]
    pub fn is_final(&self) -> bool {
        use rustls::PeerIncompatible::ServerDoesNotSupportTls12Or13;
        match self {
            HandshakeError::NotTls
            | HandshakeError::TooLarge
            | HandshakeError::Alert(AlertDescription::ProtocolVersion) => true,
            HandshakeError::Tls(Error::PeerIncompatible(why)) => {
                *why == ServerDoesNotSupportTls12Or13
            }
            HandshakeError::Tls(_) => true,
            _ => false,
        }
    }

    /// Returns whether the server's signature or chain is not valid. Then no other hello helps.
    #[must_use]
    pub fn is_about_credentials(&self) -> bool {
        matches!(self, HandshakeError::Tls(Error::InvalidCertificate(_)))
    }

    /// Returns whether the server found no application protocol that it speaks.
    #[must_use]
    pub fn is_about_alpn(&self) -> bool {
        matches!(self, HandshakeError::Alert(AlertDescription::NoApplicationProtocol))
    }
}

impl Client {
    /// Creates a client for a form.
    ///
    /// # Errors
    /// rustls's error if it has no configuration for the form.
    pub fn new(form: &Form, authorities: Option<Arc<Authorities>>) -> Result<Client, Error> {
        let provider = provider(form.groups);
        let algorithms = provider.signature_verification_algorithms;
        let is_offered = |scheme: &SignatureScheme| form.has_ml_dsa || !is_ml_dsa(*scheme);
        let schemes = algorithms.supported_schemes().into_iter().filter(is_offered).collect();
        let observer =
            Arc::new(Observer { observed: Mutex::default(), algorithms, schemes, authorities });
        let versions = match form.has_tls13 {
            true => rustls::ALL_VERSIONS,
            false => &[&rustls::version::TLS12],
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(observer.clone())
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(2);
        Ok(Client { config: Arc::new(config), observer })
    }

    /// Returns a connection that has its ClientHello to write.
    ///
    /// # Errors
    /// rustls's error if it cannot make a ClientHello, for example without randomness.
    pub fn connection(
        &self,
        name: ServerName<'static>,
        alpn: &[&str],
    ) -> Result<ClientConnection, Error> {
        *self.observer.observed() = Observations::default();
        let alpn = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        ClientConnection::new_with_alpn(self.config.clone(), name, alpn)
    }

    /// Returns whether the server has shown a certificate on the last connection. Then it has
    /// received the ClientHello, whatever happened later.
    #[must_use]
    pub fn has_seen_certificate(&self) -> bool {
        !self.observer.observed().chain.is_empty()
    }

    /// Returns the result of the last connection's handshake.
    #[must_use]
    pub fn handshake(&self, connection: &ClientConnection) -> Handshake {
        let observed = self.observer.observed().clone();
        let kind = connection.handshake_kind();
        let version = connection.protocol_version().map_or(0, u16::from);
        let suite = connection.negotiated_cipher_suite();
        let alpn = connection.alpn_protocol();
        Handshake {
            version,
            cipher_suite: suite.map_or(0, |suite| u16::from(suite.suite())),
            group: connection.negotiated_key_exchange_group().map(|group| u16::from(group.name())),
            scheme: observed.scheme.map(u16::from),
            is_hello_retry_request: kind == Some(HandshakeKind::FullWithHelloRetryRequest),
            is_resumed: kind == Some(HandshakeKind::Resumed),
            alpn: alpn.map(|protocol| String::from_utf8_lossy(protocol).into_owned()),
            chain: observed.chain,
            is_signature_verified: observed.is_signature_verified,
            trust: observed.trust,
        }
    }
}

/// Returns whether a scheme is one of ML-DSA.
pub(crate) fn is_ml_dsa(scheme: SignatureScheme) -> bool {
    use SignatureScheme::{ML_DSA_44, ML_DSA_65, ML_DSA_87};
    matches!(scheme, ML_DSA_44 | ML_DSA_65 | ML_DSA_87)
}

/// Returns whether the probe can complete a handshake in a group.
#[must_use]
pub fn has_group(group: u16) -> bool {
    let groups = provider(Groups::PostQuantumFirst).kx_groups;
    groups.iter().any(|known| u16::from(known.name()) == group)
}

fn provider(which: Groups) -> CryptoProvider {
    let curves = || {
        let named = [groups::X25519, groups::SECP256R1, groups::SECP384R1];
        named.into_iter().chain(groups::by_name("secp521r1"))
    };
    let post_quantum = || groups::POST_QUANTUM.iter().copied();
    let kx_groups: Vec<&'static dyn SupportedKxGroup> = match which {
        Groups::PostQuantumFirst => post_quantum().chain(curves()).collect(),
        Groups::SmallShare => {
            [groups::X25519].into_iter().chain(post_quantum()).chain(curves().skip(1)).collect()
        }
        Groups::Classical => curves().collect(),
    };
    CryptoProvider { kx_groups, ..gabion_rustls::provider() }
}

/// Writes the ClientHello of a new connection to a buffer.
///
/// # Errors
/// An error of rustls, which the buffer cannot cause.
pub fn client_hello(connection: &mut ClientConnection) -> io::Result<Vec<u8>> {
    let mut hello = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut hello)?;
    }
    Ok(hello)
}

/// Exchanges messages until the handshake is complete. The caller bounds the stream in bytes and
/// in time.
///
/// # Errors
/// [`HandshakeError`] if the handshake fails.
pub fn drive<S: Read + Write>(
    connection: &mut ClientConnection,
    stream: &mut S,
) -> Result<(), HandshakeError> {
    loop {
        write_all(connection, stream)?;
        if !connection.is_handshaking() {
            return Ok(());
        }
        if receive(connection, stream)? == 0 {
            return Err(HandshakeError::Closed);
        }
    }
}

/// Writes what rustls wants to send.
///
/// # Errors
/// [`HandshakeError::Io`] if the stream fails.
pub fn write_all<S: Write>(
    connection: &mut ClientConnection,
    stream: &mut S,
) -> Result<(), HandshakeError> {
    while connection.wants_write() {
        connection.write_tls(stream).map_err(failed)?;
    }
    stream.flush().map_err(failed)
}

/// Reads once from the stream and has rustls process it. Returns the number of bytes, which is 0 if
/// the server has closed its side, by TCP or with an alert.
///
/// # Errors
/// [`HandshakeError`] if the stream fails or the bytes are not those of a good server.
pub fn receive<S: Read + Write>(
    connection: &mut ClientConnection,
    stream: &mut S,
) -> Result<usize, HandshakeError> {
    let read = loop {
        match connection.read_tls(stream) {
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            read => break read.map_err(failed)?,
        }
    };
    let processed = connection.process_new_packets();
    let read = |state: IoState| if state.peer_has_closed() { 0 } else { read };
    processed.map(read).map_err(|error| {
        // The alert tells the server why; whether it arrives does not matter.
        let _ = write_all(connection, stream);
        match error {
            Error::AlertReceived(alert) => HandshakeError::Alert(alert),
            Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => {
                HandshakeError::TooLarge
            }
            Error::InvalidMessage(_) if connection.protocol_version().is_none() => {
                HandshakeError::NotTls
            }
            error => HandshakeError::Tls(error),
        }
    })
}

/// Names an error of the stream. A server that does not like the hello may reset the connection.
fn failed(cause: io::Error) -> HandshakeError {
    match cause.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            HandshakeError::Closed
        }
        _ => HandshakeError::Io(cause),
    }
}

/// Returns whether a version is TLS 1.3.
#[must_use]
pub fn is_tls13(version: u16) -> bool {
    version == u16::from(ProtocolVersion::TLSv1_3)
}
