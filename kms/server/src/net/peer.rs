//! The peer of a connection.

use std::net::IpAddr;
use std::sync::Mutex;

use gabion_kms::gate::{Peer, Principal};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use webpki::EndEntityCert;

use super::client_certificates::{ClientVerifier, Verification};
use super::release_gate::ReleaseGate;

/// The peer of a connection: address, certificates, and the gate of its answers.
pub struct ConnectionPeer {
    pub peer: Peer,
    /// The principal in the peer's verified certificate, or the reason why the certificate lacks
    /// one. `None` without a certificate.
    pub named: Option<Result<Principal, &'static str>>,
    /// The peer's certificates, its own first, and when they were verified last.
    chain: Vec<CertificateDer<'static>>,
    /// The gate that answers pass before they are written.
    pub gate: ReleaseGate,
    verified: Mutex<Option<Verification>>,
}

impl ConnectionPeer {
    pub fn new(address: Option<IpAddr>, chain: &[CertificateDer<'_>]) -> Self {
        let certificate = chain.first();
        let digest = certificate.map(|der| Sha256::digest(der).into());
        let peer = Peer { address, certificate: digest };
        let chain = chain.iter().map(|der| der.clone().into_owned()).collect();
        let (gate, verified) = (ReleaseGate::default(), Mutex::default());
        ConnectionPeer { peer, named: certificate.map(named), chain, gate, verified }
    }

    /// Returns whether the peer's certificates are still valid.
    pub fn is_still_valid(&self, clients: Option<&ClientVerifier>) -> bool {
        self.chain.is_empty()
            || clients.is_none_or(|clients| clients.is_still_valid(&self.chain, &self.verified))
    }
}

/// Returns the principal in a certificate: its only URI, or without URIs its only DNS name. Common
/// names are ignored, because authorities vouch only for the others (RFC 9525).
fn named(certificate: &CertificateDer<'_>) -> Result<Principal, &'static str> {
    let unreadable = |_| "the certificate cannot be parsed";
    let certificate = EndEntityCert::try_from(certificate).map_err(unreadable)?;
    let uris: Vec<&str> = certificate.valid_uri_names().collect();
    let names: Vec<&str> = match uris.is_empty() {
        true => certificate.valid_dns_names().collect(),
        false => uris,
    };
    match names[..] {
        [name] => Principal::new(name)
            .map_err(|_| "the name in the certificate is not a valid principal: expected 1 to 255 of 0-9 A-Z a-z _ . : / @ + -"),
        [] => Err("the certificate has neither a URI nor a DNS name as a subject alternative name"),
        [_, _, ..] => Err("the certificate has several names; expected one URI, or one DNS name"),
    }
}
