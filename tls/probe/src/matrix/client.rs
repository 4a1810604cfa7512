//! A client that makes and sends the hello of one form.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use gabion_rustls::groups;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, NamedGroup, ProtocolVersion,
    SignatureScheme,
};

use super::Form;
use crate::handshake::is_ml_dsa;

/// The size of split records, with their headers: near the smallest that OpenSSL can send.
const RECORD: usize = 512;
/// The size of split records of a hello with a small share, which fits one [`RECORD`].
const SMALL_RECORD: usize = 128;
/// The size of the first of the split segments. It ends in the random, before every extension.
const FIRST_SEGMENT: usize = 32;
/// The pause between segments, which lets the kernel send each by itself.
const PAUSE: Duration = Duration::from_millis(20);

/// X25519MLKEM768, and curves for servers without it.
static HYBRID: &[&dyn SupportedKxGroup] =
    &[&SingleShare(groups::X25519MLKEM768), groups::X25519, groups::SECP256R1, groups::SECP384R1];
static CLASSICAL: &[&dyn SupportedKxGroup] =
    &[groups::X25519, groups::SECP256R1, groups::SECP384R1];

/// The size of a hello, and the answer to it.
pub(super) struct HelloOutcome {
    /// The size of the hello, with its record headers.
    pub(super) bytes: usize,
    /// The group of the ServerHello, if it has one, or why there was no ServerHello.
    pub(super) group: Result<Option<u16>, String>,
}

/// Makes a handshake with the hello of `form`.
pub(super) fn handshake(
    stream: &mut (impl Read + Write),
    form: &Form,
    server_name: &ServerName<'static>,
) -> HelloOutcome {
    let mut bytes = 0;
    let connection = config(form)
        .and_then(|config| ClientConnection::new(Arc::new(config), server_name.clone()));
    let group = match connection {
        Ok(mut connection) => {
            let done = drive(stream, &mut connection, form, &mut bytes);
            let group = connection.negotiated_key_exchange_group();
            match done {
                // A server that wants a client's certificate fails later: the hello got through.
                Err(cause) if group.is_none() => Err(cause),
                _ => Ok(group.map(|group| u16::from(group.name()))),
            }
        }
        Err(cause) => Err(cause.to_string()),
    };
    HelloOutcome { bytes, group }
}

fn config(form: &Form) -> Result<ClientConfig, Error> {
    let mut provider = gabion_rustls::provider();
    provider.kx_groups = if form.has_hybrid { HYBRID } else { CLASSICAL }.to_vec();
    let mut schemes = provider.signature_verification_algorithms.supported_schemes();
    schemes.retain(|scheme| form.has_ml_dsa || !is_ml_dsa(*scheme));
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptsAll { schemes }))
        .with_no_client_auth();
    let record = if form.is_share_small { SMALL_RECORD } else { RECORD };
    config.max_fragment_size = form.has_split_records.then_some(record);
    let first_share = form.is_share_small.then_some(NamedGroup::X25519);
    config.resumption = Resumption::store(Arc::new(FirstShare(first_share)));
    Ok(config)
}

/// Exchanges messages to the end of the handshake.
fn drive(
    stream: &mut (impl Read + Write),
    connection: &mut ClientConnection,
    form: &Form,
    bytes: &mut usize,
) -> Result<(), String> {
    let text = |cause: io::Error| cause.to_string();
    loop {
        let mut out = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut out).map_err(text)?;
        }
        if *bytes == 0 {
            *bytes = out.len();
        }
        send(stream, &out, form.has_split_segments).map_err(text)?;
        if !connection.is_handshaking() {
            return Ok(());
        }
        if connection.read_tls(stream).map_err(text)? == 0 {
            return Err("the connection was closed without an answer".to_owned());
        }
        if let Err(cause) = connection.process_new_packets() {
            let mut alert = Vec::new();
            let written = connection.write_tls(&mut alert);
            let _ = written.and_then(|_| stream.write_all(&alert)); // the error is reported already
            return Err(cause.to_string());
        }
    }
}

/// Sends bytes in one segment or in three.
fn send(stream: &mut impl Write, bytes: &[u8], has_split_segments: bool) -> io::Result<()> {
    let split = bytes.split_at_checked(FIRST_SEGMENT).filter(|_| has_split_segments);
    let Some((first, rest)) = split else {
        stream.write_all(bytes)?;
        return stream.flush();
    };
    let (second, third) = rest.split_at(rest.len() / 2);
    for segment in [first, second, third] {
        stream.write_all(segment)?;
        stream.flush()?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// A hybrid without the separate share of its curve, which rustls would add to the hello. With it,
/// the hello would not fit one segment.
#[derive(Debug)]
struct SingleShare(&'static dyn SupportedKxGroup);

impl SupportedKxGroup for SingleShare {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        Ok(Box::new(SingleShareExchange(self.0.start()?)))
    }

    fn name(&self) -> NamedGroup {
        self.0.name()
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        self.0.usable_for_version(version)
    }
}

/// The key exchange of [`SingleShare`].
struct SingleShareExchange(Box<dyn ActiveKeyExchange>);

impl ActiveKeyExchange for SingleShareExchange {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        self.0.complete(share)
    }

    fn pub_key(&self) -> &[u8] {
        self.0.pub_key()
    }

    fn group(&self) -> NamedGroup {
        self.0.group()
    }
}

/// Selects the group of the first key share, and stores no sessions.
#[derive(Debug)]
struct FirstShare(Option<NamedGroup>);

impl ClientSessionStore for FirstShare {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, _: Tls13ClientSessionValue) {}

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}

/// Accepts every certificate and signature: whether the hello survives does not depend on them.
#[derive(Debug)]
struct AcceptsAll {
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for AcceptsAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
