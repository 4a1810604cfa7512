//! Handshakes of rustls over memory, by the engine's provider or by aws-lc-rs.
//!
//! The measured time is that of the calls a program makes: a client's connection makes its key
//! share when it is created, so that belongs to the client's time. Tickets and stores of sessions
//! are off, as they are with libssl.

use std::io;
use std::sync::Arc;

use gabion_engine::ALGORITHMS;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, HandshakeKind, RootCertStore, ServerConfig,
    ServerConnection, SideData,
};

use super::credentials::{Credentials, HOST};
use super::names::DEFAULT;
use super::slice::{Handshake, TURNS_MAX};
use super::{Plan, Probe, Provider, Stack};
use crate::Error;
use crate::cpu_time::thread_cpu_ns;
use crate::ossl::Negotiation;

/// Bytes of a flight at most: a server's, with two certificates of ML-DSA-87.
const FLIGHT_LEN: usize = 32 << 10;

/// The client and server configuration of a provider.
pub(super) struct ConfigPair {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    scheme: &'static str,
}

impl ConfigPair {
    /// Configurations with the plan's group, suite and signature alone, as libssl gets them.
    pub(super) fn open(
        provider: Provider,
        plan: &Plan,
        credentials: &Credentials,
    ) -> Result<(ConfigPair, Probe), Error> {
        let cannot = |why: String| {
            Error::NotReady(format!(
                "rustls with the provider `{}` cannot serve this handshake: {why}; nothing was measured",
                provider.name()
            ))
        };
        let with = with_plan(provider, plan).map_err(cannot)?;
        let with = Arc::new(with);
        let refused = |error: rustls::Error| cannot(error.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(credentials.root.clone())).map_err(refused)?;
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&with))
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        let key = PrivateKeyDer::try_from(credentials.leaf_key.clone())
            .map_err(|why| cannot(why.to_owned()))?;
        let mut server = ServerConfig::builder_with_provider(with)
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(credentials.leaf.clone())], key)
            .map_err(refused)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let (client, server) = (Arc::new(client), Arc::new(server));
        Ok((ConfigPair { client, server, scheme: plan.signature.scheme }, probe(provider, plan)))
    }

    /// Makes one full handshake over memory; with `tell`, also returns its parameters.
    pub(super) fn shake(&self, tell: bool) -> Result<(Handshake, Option<Negotiation>), Error> {
        let failed =
            |error: rustls::Error| Error::Failed(format!("a handshake of rustls: {error}"));
        let host = HOST.to_str().ok().and_then(|host| host.try_into().ok());
        let host = host.ok_or_else(|| Error::Failed("the host name is invalid".into()))?;
        let mut handshake = Handshake::default();
        let start = thread_cpu_ns();
        let client = ClientConnection::new(Arc::clone(&self.client), host);
        let mut client = client.map_err(failed)?;
        handshake.client_ns += thread_cpu_ns() - start;
        let start = thread_cpu_ns();
        let mut server = ServerConnection::new(Arc::clone(&self.server)).map_err(failed)?;
        handshake.server_ns += thread_cpu_ns() - start;
        let mut to_server = Vec::with_capacity(FLIGHT_LEN);
        let mut to_client = Vec::with_capacity(FLIGHT_LEN);
        for _ in 0..TURNS_MAX {
            let start = thread_cpu_ns();
            let sent = advance(&mut *client, &mut to_client, &mut to_server);
            handshake.client_ns += thread_cpu_ns() - start;
            handshake.bytes_c2s += sent?;
            let start = thread_cpu_ns();
            let sent = advance(&mut *server, &mut to_server, &mut to_client);
            handshake.server_ns += thread_cpu_ns() - start;
            handshake.bytes_s2c += sent?;
            if !client.is_handshaking() && !server.is_handshaking() {
                return Ok((handshake, tell.then(|| self.negotiated(&client))));
            }
        }
        Err(Error::Failed(format!(
            "a handshake did not finish within {TURNS_MAX} turns of both sides"
        )))
    }

    fn negotiated(&self, client: &ClientConnection) -> Negotiation {
        let group = client.negotiated_key_exchange_group().map(|group| u16::from(group.name()));
        let suite = client.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
        Negotiation {
            version: match client.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3".into(),
                other => format!("{other:?}"),
            },
            group: group.and_then(name_of).unwrap_or_default().into(),
            // Of this one alone the client takes signatures.
            signature: self.scheme.into(),
            cipher: suite.unwrap_or_default().replace("TLS13_", "TLS_"),
            resumed: client.handshake_kind() == Some(HandshakeKind::Resumed),
            // There is no connection whose chain and name the client did not accept.
            verified: client.peer_certificates().is_some(),
        }
    }
}

/// Runs one turn of a side: reads the received bytes, and writes its pending ones. Returns how many
/// bytes it wrote.
fn advance<D: SideData>(
    side: &mut ConnectionCommon<D>,
    inbox: &mut Vec<u8>,
    outbox: &mut Vec<u8>,
) -> Result<u64, Error> {
    let failed = |error: io::Error| Error::Failed(format!("a handshake of rustls: {error}"));
    let mut left = &inbox[..];
    while !left.is_empty() {
        side.read_tls(&mut left).map_err(failed)?;
        side.process_new_packets()
            .map_err(|error| Error::Failed(format!("a handshake of rustls: {error}")))?;
    }
    inbox.clear();
    while side.wants_write() {
        side.write_tls(outbox).map_err(failed)?;
    }
    Ok(outbox.len() as u64)
}

/// Returns the providers of the operations; the checked handshake fills in the rest.
fn probe(provider: Provider, plan: &Plan) -> Probe {
    let rsa = plan.signature.algorithm == "RSA";
    let signature = if rsa { Provider::AwsLcRs } else { provider };
    Probe {
        stack: Stack::Rustls,
        provider,
        version: String::new(),
        group: String::new(),
        signature_scheme: String::new(),
        cipher: String::new(),
        kem_provider: provider.name().into(),
        signature_provider: signature.name().into(),
        bytes_c2s: 0,
        bytes_s2c: 0,
    }
}

/// The provider, with what the plan names and nothing else.
fn with_plan(provider: Provider, plan: &Plan) -> Result<CryptoProvider, String> {
    let (mut with, groups): (_, Vec<&'static dyn SupportedKxGroup>) = match provider {
        Provider::Gabion => {
            let named = gabion_rustls::groups::by_name(plan.group.name);
            (gabion_rustls::provider(), named.into_iter().collect())
        }
        Provider::AwsLcRs => {
            let is_it = |group: &&&'static dyn SupportedKxGroup| {
                name_of(u16::from(group.name())) == Some(plan.group.name)
            };
            let named = aws_lc_rs::ALL_KX_GROUPS.iter().find(is_it);
            (aws_lc_rs::default_provider(), named.into_iter().copied().collect())
        }
        Provider::Default | Provider::Fips | Provider::Offload => {
            return Err("it is one of OpenSSL's".into());
        }
    };
    if plan.group.name != DEFAULT {
        if groups.is_empty() {
            return Err(format!("it has no group {}", plan.group.name));
        }
        with.kx_groups = groups;
    }
    if let Some(cipher) = &plan.cipher {
        let name = |suite: &rustls::SupportedCipherSuite| {
            format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
        };
        with.cipher_suites.retain(|suite| name(suite) == *cipher);
        if with.cipher_suites.is_empty() {
            return Err(format!("it has no cipher suite {cipher}"));
        }
    }
    with.signature_verification_algorithms =
        of_scheme(with.signature_verification_algorithms, plan.signature.scheme)?;
    Ok(with)
}

/// The algorithms with one scheme for handshakes, so that a key of RSA signs by the one that libssl takes. rustls has
/// them as `'static` values, so that an entry is given away for each lane.
fn of_scheme(
    all: WebPkiSupportedAlgorithms,
    scheme: &str,
) -> Result<WebPkiSupportedAlgorithms, String> {
    let number = match scheme {
        // The one scheme of ours that the table has no row of.
        "rsa_pss_rsae_sha256" => Some(0x0804),
        _ => codepoints().find(|point| point.1 == scheme).map(|point| point.0),
    };
    let entry = all.mapping.iter().find(|entry| Some(u16::from(entry.0)) == number);
    let entry = *entry.ok_or_else(|| format!("it has no signature scheme {scheme}"))?;
    Ok(WebPkiSupportedAlgorithms { mapping: Box::leak(Box::new([entry])), ..all })
}

/// Numbers and names of TLS, of groups and of schemes.
fn codepoints() -> impl Iterator<Item = (u16, &'static str)> {
    ALGORITHMS.iter().filter_map(|row| row.tls).map(|point| (point.number, point.name))
}

/// The name of a group by its number.
fn name_of(number: u16) -> Option<&'static str> {
    codepoints().find(|point| point.0 == number).map(|point| point.1)
}
