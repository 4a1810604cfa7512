//! A client and a server that talk over memory.

use std::sync::Arc;

use gabion_rustls::testing::Chain;
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection};

/// The errors of both sides of a failed handshake.
#[derive(Debug, PartialEq)]
pub struct HandshakeErrors {
    pub client: Option<Error>,
    pub server: Option<Error>,
}

pub type ConnectionPair = (ClientConnection, ServerConnection);

/// The engine's provider, with these groups.
pub fn engine_provider(groups: &[&'static dyn SupportedKxGroup]) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: groups.to_vec(), ..gabion_rustls::provider() })
}

/// rustls with aws-lc-rs, and all groups that it has.
pub fn aws_lc_provider() -> Arc<CryptoProvider> {
    let kx_groups = rustls::crypto::aws_lc_rs::ALL_KX_GROUPS.to_vec();
    Arc::new(CryptoProvider { kx_groups, ..rustls::crypto::aws_lc_rs::default_provider() })
}

pub fn certified_key(chain: &Chain) -> CertifiedKey {
    CertifiedKey::new(chain.certificates.clone(), Arc::clone(&chain.key))
}

pub fn server(provider: &Arc<CryptoProvider>, chain: &Chain) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified_key(chain))))
}

pub fn client(provider: &Arc<CryptoProvider>, chain: &Chain) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(Arc::clone(&chain.roots))
        .with_no_client_auth()
}

/// Returns both ends of a connection on which nothing was sent.
pub fn connect(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> ConnectionPair {
    let name = "localhost".try_into().unwrap();
    (
        ClientConnection::new(Arc::clone(client), name).unwrap(),
        ServerConnection::new(Arc::clone(server)).unwrap(),
    )
}

/// Moves bytes until neither side has any: handshake, tickets, alerts.
pub fn exchange((client, server): &mut ConnectionPair) -> Result<(), HandshakeErrors> {
    let mut failed = HandshakeErrors { client: None, server: None };
    let mut bytes = Vec::new();
    loop {
        let mut moved = false;
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        while !bytes.is_empty() && failed.server.is_none() {
            moved = true;
            let mut left = &bytes[..];
            server.read_tls(&mut left).unwrap();
            let read = bytes.len() - left.len();
            bytes.drain(..read);
            failed.server = server.process_new_packets().err();
        }
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        while !bytes.is_empty() && failed.client.is_none() {
            moved = true;
            let mut left = &bytes[..];
            client.read_tls(&mut left).unwrap();
            let read = bytes.len() - left.len();
            bytes.drain(..read);
            failed.client = client.process_new_packets().err();
        }
        bytes.clear();
        if !moved {
            break;
        }
    }
    if failed.client.is_none() && failed.server.is_none() { Ok(()) } else { Err(failed) }
}

/// Makes a handshake, and returns its result.
pub fn shake(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> Result<ConnectionPair, HandshakeErrors> {
    let mut both = connect(client, server);
    exchange(&mut both)?;
    assert!(!both.0.is_handshaking() && !both.1.is_handshaking());
    Ok(both)
}
