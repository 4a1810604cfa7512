//! Counts completed TLS handshakes for `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use gabion_rustls::names;
use rustls::server::ClientHello;
use rustls::{
    HandshakeKind, NamedGroup, ProtocolVersion, ServerConfig, ServerConnection, SignatureScheme,
};

/// The counters of completed handshakes. Their labels are values that the server chose, so their
/// number is bounded by its configuration.
#[derive(Default)]
pub struct Handshakes(Mutex<BTreeMap<Labels, u64>>);

/// The codepoints of version, group and signature scheme.
type Labels = (u16, Option<u16>, Option<u16>);

impl Handshakes {
    /// Counts a completed handshake. `scheme` is the result of [`scheme_for`] for its ClientHello.
    pub fn count(&self, connection: &ServerConnection, scheme: Option<SignatureScheme>) {
        let group = connection.negotiated_key_exchange_group();
        // A resumed session is authenticated by its secret.
        let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let labels = (
            connection.protocol_version().map_or(0, u16::from),
            group.map(|group| u16::from(group.name())),
            scheme.filter(|_| !is_resumed).map(u16::from),
        );
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(labels).or_default() += 1;
    }

    /// Returns the counters in the Prometheus text format.
    pub fn text(&self) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = "# TYPE kms_tls_handshakes_total counter\n".to_owned();
        for ((version, group, scheme), count) in counts.iter() {
            let version = match ProtocolVersion::from(*version) {
                ProtocolVersion::TLSv1_3 => "TLSv1.3",
                ProtocolVersion::TLSv1_2 => "TLSv1.2",
                _ => "unknown",
            };
            let name = |found: Option<&'static str>, is_used| match is_used {
                true => found.unwrap_or("unknown"),
                false => "none",
            };
            let of_group = group.and_then(|number| names::group(NamedGroup::from(number)));
            let of_scheme = scheme.and_then(|number| names::scheme(SignatureScheme::from(number)));
            let (group, scheme) =
                (name(of_group, group.is_some()), name(of_scheme, scheme.is_some()));
            let _ = writeln!(
                text,
                "kms_tls_handshakes_total{{version=\"{version}\",group=\"{group}\",\
                 signature=\"{scheme}\"}} {count}"
            );
        }
        text
    }
}

/// Returns the scheme with which the server signs a full handshake of TLS 1.3. rustls does not
/// report it, so this makes the same choice.
pub fn scheme_for(config: &ServerConfig, hello: ClientHello<'_>) -> Option<SignatureScheme> {
    let offered = hello.signature_schemes().to_vec();
    let certified = config.cert_resolver.resolve(hello)?;
    Some(certified.key.choose_scheme(&offered)?.scheme())
}
