//! Certificates whose public keys are compressed points (RFC 5480, section 2.2), in TLS 1.2 and 1.3.

use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_engine::key_file::{EncodedKey, FileForm, encode_public};
use gabion_rustls::testing::{Chain, Key, chain_with};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, Error, ServerConfig, SignatureAlgorithm, SignatureScheme,
};

use super::pair::{aws_lc_provider, certified_key, engine_provider, shake};

/// A key whose certificates have its public key as a compressed point.
#[derive(Debug)]
struct CompressedPointKey {
    key: Arc<dyn SigningKey>,
    public: Vec<u8>,
}

impl SigningKey for CompressedPointKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.key.choose_scheme(offered)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(&self.public[..]))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

/// The key with its point compressed (SEC 1, section 2.3.3). `flip` takes the other point with the same x.
fn compress(key: Arc<dyn SigningKey>, flip: u8) -> Arc<dyn SigningKey> {
    let encoded = EncodedKey::from_der(key.public_key().unwrap().as_ref()).unwrap();
    let EncodedKey::Public(public) = encoded else { panic!("a public key") };
    let algorithm = match public.bytes.len() {
        65 => Algorithm::EcdsaP256,
        97 => Algorithm::EcdsaP384,
        _ => Algorithm::EcdsaP521,
    };
    let half = public.bytes.len() / 2;
    let parity = (public.bytes[2 * half] & 1) ^ flip;
    let point = [&[2 | parity], &public.bytes[1..=half]].concat();
    let public = encode_public(FileForm::of(algorithm).unwrap(), &point, true).unwrap();
    Arc::new(CompressedPointKey { key, public })
}

type Provider = Arc<CryptoProvider>;

/// A handshake with this chain; the client's error if it fails.
fn outcome(client: &Provider, server: &Provider, chain: &Chain, is_tls12: bool) -> Option<Error> {
    let versions = if is_tls12 { &[&TLS12] } else { &[&TLS13] };
    let server = ServerConfig::builder_with_provider(Arc::clone(server))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified_key(chain))));
    let client = ClientConfig::builder_with_provider(Arc::clone(client))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(Arc::clone(&chain.roots))
        .with_no_client_auth();
    shake(&Arc::new(client), &Arc::new(server))
        .err()
        .map(|failed| failed.client.or(failed.server).unwrap())
}

#[test]
fn compressed_points_in_certificates_are_accepted_as_by_aws_lc_rs() {
    let (engine_provider, aws_lc_provider) =
        (engine_provider(gabion_rustls::groups::DEFAULT), aws_lc_provider());
    for algorithm in [Algorithm::EcdsaP256, Algorithm::EcdsaP384, Algorithm::EcdsaP521] {
        let right = chain_with(Key::Engine(algorithm), 1, |key| compress(key, 0));
        let wrong = chain_with(Key::Engine(algorithm), 1, |key| compress(key, 1));
        for is_tls12 in [true, false] {
            for client in [&engine_provider, &aws_lc_provider] {
                let case = format!("{algorithm}, TLS 1.2 {is_tls12}, {:?}", client.kx_groups[0]);
                assert_eq!(outcome(client, &engine_provider, &right, is_tls12), None, "{case}");
                let refused = Some(Error::InvalidCertificate(CertificateError::BadSignature));
                assert_eq!(outcome(client, &engine_provider, &wrong, is_tls12), refused, "{case}");
            }
        }
    }
}
