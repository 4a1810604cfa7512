//! Reports key exchanges and signatures of handshakes, for metrics.
//!
//! An [`Observer`] is called on the handshake's thread after each successful operation, so it
//! should only count. Its methods see operations, not connections: a handshake can still fail after
//! them. A program that has the connection at hand can instead read
//! `negotiated_key_exchange_group` and `handshake_kind` from rustls.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::{
    ActiveKeyExchange, CompletedKeyExchange, CryptoProvider, KeyProvider, SharedSecret,
    SupportedKxGroup, WebPkiSupportedAlgorithms,
};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm,
    SubjectPublicKeyInfoDer,
};
use rustls::sign::{Signer, SigningKey};
use rustls::{
    Error, NamedGroup, ProtocolVersion, Side, SignatureAlgorithm, SignatureScheme,
    SupportedProtocolVersion,
};

/// Gets the key exchanges and signatures of a provider's handshakes.
///
/// All methods do nothing by default. They must not panic.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Called when a shared secret was computed: once a handshake, but not for
    /// resumed sessions of TLS 1.2.
    fn key_exchange(&self, exchange: KeyExchange) {
        let _ = exchange;
    }

    /// Called when a handshake message was signed: by a server, or by a client with a certificate.
    fn signed(&self, scheme: SignatureScheme) {
        let _ = scheme;
    }

    /// Called when the signature of a peer's handshake message was verified successfully.
    /// Signatures in certificates are not reported.
    fn verified(&self, scheme: SignatureScheme) {
        let _ = scheme;
    }
}

/// A completed key exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyExchange {
    /// The group. If a server took only the curve of a hybrid, this is the curve.
    pub group: NamedGroup,
    /// The side that this process is on; `None` in TLS 1.2, where both sides make the same calls.
    pub side: Option<Side>,
}

/// Wraps the parts of a provider. They live as long as the process, because rustls keeps them as
/// `'static` values.
pub(crate) fn observed(
    provider: CryptoProvider,
    observer: &'static dyn Observer,
) -> CryptoProvider {
    let groups = provider.kx_groups.into_iter().map(|group| -> &'static dyn SupportedKxGroup {
        Box::leak(Box::new(ObservedGroup { group, observer }))
    });
    let algorithms = provider.signature_verification_algorithms;
    CryptoProvider {
        kx_groups: groups.collect(),
        key_provider: Box::leak(Box::new(ObservedKeys { keys: provider.key_provider, observer })),
        signature_verification_algorithms: observed_algorithms(algorithms, observer),
        ..provider
    }
}

/// Wraps the algorithms by which handshakes are verified. Those for certificates stay.
fn observed_algorithms(
    algorithms: WebPkiSupportedAlgorithms,
    observer: &'static dyn Observer,
) -> WebPkiSupportedAlgorithms {
    type Algorithm = &'static dyn SignatureVerificationAlgorithm;
    let mapping = algorithms.mapping.iter().map(|&(scheme, algorithms)| {
        let wrapped = algorithms.iter().map(|&algorithm| -> Algorithm {
            Box::leak(Box::new(ObservedAlgorithm { algorithm, scheme, observer }))
        });
        (scheme, &*wrapped.collect::<Vec<_>>().leak())
    });
    let mapping = mapping.collect::<Vec<(SignatureScheme, &'static [Algorithm])>>().leak();
    WebPkiSupportedAlgorithms { mapping, ..algorithms }
}

/// Wraps a signing key that the provider did not load, such as a
/// [`RemoteKey`](crate::signing::RemoteKey), so that its signatures are reported.
#[must_use]
pub fn signing_key(
    key: Arc<dyn SigningKey>,
    observer: &'static dyn Observer,
) -> Arc<dyn SigningKey> {
    Arc::new(ObservedKey { key, observer })
}

#[derive(Debug)]
struct ObservedGroup {
    group: &'static dyn SupportedKxGroup,
    observer: &'static dyn Observer,
}

impl SupportedKxGroup for ObservedGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let exchange = self.group.start()?;
        Ok(Box::new(ObservedExchange { exchange, observer: self.observer }))
    }

    /// Called by servers of TLS 1.3 only.
    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let completed = self.group.start_and_complete(share)?;
        let (group, side) = (completed.group, Some(Side::Server));
        self.observer.key_exchange(KeyExchange { group, side });
        Ok(completed)
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        self.group.ffdhe_group()
    }

    fn name(&self) -> NamedGroup {
        self.group.name()
    }

    fn fips(&self) -> bool {
        self.group.fips()
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        self.group.usable_for_version(version)
    }
}

struct ObservedExchange {
    exchange: Box<dyn ActiveKeyExchange>,
    observer: &'static dyn Observer,
}

impl ActiveKeyExchange for ObservedExchange {
    /// Called by clients of TLS 1.3 only; in TLS 1.2, both sides name the version.
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (group, observer) = (self.exchange.group(), self.observer);
        let secret = self.exchange.complete(share)?;
        observer.key_exchange(KeyExchange { group, side: Some(Side::Client) });
        Ok(secret)
    }

    fn complete_for_tls_version(
        self: Box<Self>,
        share: &[u8],
        version: &SupportedProtocolVersion,
    ) -> Result<SharedSecret, Error> {
        let (group, observer) = (self.exchange.group(), self.observer);
        let secret = self.exchange.complete_for_tls_version(share, version)?;
        let is_tls_1_2 = version.version == ProtocolVersion::TLSv1_2;
        let side = (!is_tls_1_2).then_some(Side::Client);
        observer.key_exchange(KeyExchange { group, side });
        Ok(secret)
    }

    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        self.exchange.hybrid_component()
    }

    fn complete_hybrid_component(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (group, observer) =
            (self.exchange.hybrid_component().map(|(group, _)| group), self.observer);
        let secret = self.exchange.complete_hybrid_component(share)?;
        if let Some(group) = group {
            observer.key_exchange(KeyExchange { group, side: Some(Side::Client) });
        }
        Ok(secret)
    }

    fn pub_key(&self) -> &[u8] {
        self.exchange.pub_key()
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        self.exchange.ffdhe_group()
    }

    fn group(&self) -> NamedGroup {
        self.exchange.group()
    }
}

#[derive(Debug)]
struct ObservedKeys {
    keys: &'static dyn KeyProvider,
    observer: &'static dyn Observer,
}

impl KeyProvider for ObservedKeys {
    fn load_private_key(&self, der: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Ok(signing_key(self.keys.load_private_key(der)?, self.observer))
    }

    fn fips(&self) -> bool {
        self.keys.fips()
    }
}

#[derive(Debug)]
struct ObservedKey {
    key: Arc<dyn SigningKey>,
    observer: &'static dyn Observer,
}

impl SigningKey for ObservedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.key.choose_scheme(offered)?;
        Some(Box::new(ObservedSigner { signer, observer: self.observer }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

#[derive(Debug)]
struct ObservedSigner {
    signer: Box<dyn Signer>,
    observer: &'static dyn Observer,
}

impl Signer for ObservedSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.signer.sign(message)?;
        self.observer.signed(self.signer.scheme());
        Ok(signature)
    }

    fn scheme(&self) -> SignatureScheme {
        self.signer.scheme()
    }
}

#[derive(Debug)]
struct ObservedAlgorithm {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    scheme: SignatureScheme,
    observer: &'static dyn Observer,
}

impl SignatureVerificationAlgorithm for ObservedAlgorithm {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        self.algorithm.verify_signature(public_key, message, signature)?;
        self.observer.verified(self.scheme);
        Ok(())
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }

    fn fips(&self) -> bool {
        self.algorithm.fips()
    }
}
