//! Raw public keys instead of certificates (RFC 7250), of each algorithm.

use std::sync::Arc;

use gabion_rustls::testing::{KEYS, Key};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, PeerIncompatible, ServerConfig,
    SignatureScheme,
};

use super::pair::{aws_lc_provider, engine_provider, shake};

/// A verifier that accepts one pinned key.
#[derive(Debug)]
struct PinnedKeyVerifier {
    key: SubjectPublicKeyInfoDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedKeyVerifier {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match key.as_ref() == self.key.as_ref() {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn client(provider: &Arc<CryptoProvider>, known: &SubjectPublicKeyInfoDer<'_>) -> ClientConfig {
    let verifier =
        PinnedKeyVerifier { key: known.clone().into_owned(), provider: Arc::clone(provider) };
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth()
}

fn server(provider: &Arc<CryptoProvider>, key: Key) -> (ServerConfig, Vec<u8>) {
    let key = key.generate();
    let public = key.public_key().unwrap().to_vec();
    let certified = CertifiedKey::new(vec![public.clone().into()], key);
    let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified));
    let config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    (config, public)
}

#[test]
fn raw_keys_are_taken_both_ways() {
    let (engine_provider, aws_lc_provider) =
        (engine_provider(gabion_rustls::groups::DEFAULT), aws_lc_provider());
    for key in KEYS {
        for (a, b) in [
            (&engine_provider, &engine_provider),
            (&engine_provider, &aws_lc_provider),
            (&aws_lc_provider, &engine_provider),
        ] {
            let (server, public) = server(b, key);
            let server = Arc::new(server);
            let known = SubjectPublicKeyInfoDer::from(&public[..]);
            let both = shake(&Arc::new(client(a, &known)), &server);
            assert!(both.is_ok(), "{key:?}: {:?}", both.err());
            let other = key.generate();
            let other = client(a, &other.public_key().unwrap());
            let failed = shake(&Arc::new(other), &server).err().unwrap();
            let expected = Error::InvalidCertificate(CertificateError::UnknownIssuer);
            assert_eq!(failed.client, Some(expected), "{key:?}");
        }
    }
}
