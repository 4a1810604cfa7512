//! Certificates and signatures of handshakes: each algorithm, and what is wrong with them.

use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_rustls::signing::{FirstUsable, remote_key};
use gabion_rustls::testing::{Chain, KEYS, Key, chain};
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, PeerIncompatible, PeerMisbehaved,
    ServerConfig, SignatureAlgorithm, SignatureScheme,
};

use super::pair::{aws_lc_provider, certified_key, client, engine_provider, server, shake};

/// Certificates of each algorithm, with aws-lc-rs on either side.
#[test]
fn chains_of_every_algorithm_are_taken_both_ways() {
    let (engine_provider, aws_lc_provider) =
        (engine_provider(gabion_rustls::groups::DEFAULT), aws_lc_provider());
    for key in KEYS {
        let chain = chain(key, 1);
        for (a, b) in [
            (&engine_provider, &engine_provider),
            (&engine_provider, &aws_lc_provider),
            (&aws_lc_provider, &engine_provider),
        ] {
            let both = shake(&Arc::new(client(a, &chain)), &Arc::new(server(b, &chain)));
            assert!(both.is_ok(), "{key:?}: {:?}", both.err());
        }
    }
}

/// A lying key: it alters another key's signatures, or claims to have signed by another scheme.
#[derive(Debug)]
struct LyingKey {
    key: Arc<dyn SigningKey>,
    altered: bool,
    says: Option<SignatureScheme>,
}

#[derive(Debug)]
struct LyingSigner(Box<dyn Signer>, bool, SignatureScheme);

impl SigningKey for LyingKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.key.choose_scheme(offered)?;
        let says = self.says.unwrap_or(signer.scheme());
        Some(Box::new(LyingSigner(signer, self.altered, says)))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

impl Signer for LyingSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut signature = self.0.sign(message)?;
        let last = signature.len() - 1;
        signature[last] ^= u8::from(self.1);
        Ok(signature)
    }

    fn scheme(&self) -> SignatureScheme {
        self.2
    }
}

fn with_key(chain: &Chain, altered: bool, says: Option<SignatureScheme>) -> Chain {
    let key = Arc::new(LyingKey { key: Arc::clone(&chain.key), altered, says });
    Chain { key, ..chain.clone() }
}

#[test]
fn an_altered_signature_of_each_scheme_is_refused() {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    for key in KEYS {
        let chain = chain(key, 0);
        let client = Arc::new(client(&provider, &chain));
        let lying = with_key(&chain, true, None);
        let failed = shake(&client, &Arc::new(server(&provider, &lying))).err().unwrap();
        let expected = Error::InvalidCertificate(CertificateError::BadSignature);
        assert_eq!(failed.client, Some(expected), "{key:?}");
        let heard = Error::AlertReceived(AlertDescription::DecryptError);
        assert_eq!(failed.server, Some(heard), "{key:?}");
    }
}

#[test]
fn an_altered_certificate_is_refused() {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    for key in KEYS {
        let mut chain = chain(key, 1);
        let client = Arc::new(client(&provider, &chain));
        let mut der = chain.certificates[0].to_vec();
        let last = der.len() - 1;
        der[last] ^= 1;
        chain.certificates[0] = CertificateDer::from(der);
        let failed = shake(&client, &Arc::new(server(&provider, &chain))).err().unwrap();
        let expected = Error::InvalidCertificate(CertificateError::BadSignature);
        assert_eq!(failed.client, Some(expected), "{key:?}");
    }
}

/// CertificateVerify whose scheme is not the key's: of every pair that TLS 1.3 offers, and one that it does not.
#[test]
fn a_scheme_that_is_not_the_keys_is_refused() {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    for key in KEYS {
        let chain = chain(key, 0);
        let client = Arc::new(client(&provider, &chain));
        for says in KEYS.map(Key::scheme).into_iter().filter(|other| *other != key.scheme()) {
            if key == Key::Rsa {
                continue; // Its key signs by several schemes; see the altered one.
            }
            let lying = with_key(&chain, false, Some(says));
            let failed = shake(&client, &Arc::new(server(&provider, &lying))).err().unwrap();
            let said = format!("{:?}", failed.client);
            assert!(
                said.contains("UnsupportedSignatureAlgorithmForPublicKey"),
                "{key:?} as {says:?}: {said}"
            );
            assert!(matches!(failed.server, Some(Error::AlertReceived(_))), "{failed:?}");
        }
        for says in [SignatureScheme::ED448, SignatureScheme::RSA_PKCS1_SHA1] {
            let lying = with_key(&chain, false, Some(says));
            let failed = shake(&client, &Arc::new(server(&provider, &lying))).err().unwrap();
            let expected = PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme;
            assert_eq!(failed.client, Some(Error::PeerMisbehaved(expected)), "{key:?} as {says:?}");
        }
    }
}

/// A chain of ML-DSA-87 that takes more than one record, and a key in each form of its file.
#[test]
fn a_chain_of_more_than_16_kib_is_taken() {
    let chain = chain(Key::Engine(Algorithm::MlDsa87), 2);
    assert!(chain.certificates.iter().map(|der| der.len()).sum::<usize>() > 16 << 10);
    let (engine_provider, aws_lc_provider) =
        (engine_provider(gabion_rustls::groups::DEFAULT), aws_lc_provider());
    for (a, b) in [
        (&engine_provider, &engine_provider),
        (&engine_provider, &aws_lc_provider),
        (&aws_lc_provider, &engine_provider),
    ] {
        assert!(shake(&Arc::new(client(a, &chain)), &Arc::new(server(b, &chain))).is_ok());
    }
}

/// A server that asks for a certificate, and a client that proves itself by one of each algorithm; by another
/// root's; by an altered signature; and by none.
#[test]
fn clients_prove_themselves() {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    let of_server = chain(Key::Engine(Algorithm::EcdsaP256), 0);
    for key in KEYS {
        let (chain, other) = (chain(key, 0), chain(key, 0));
        let roots = Arc::clone(&chain.roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified_key(&of_server))));
        let server = Arc::new(server);
        let with = |chain: &Chain| {
            let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&TLS13])
                .unwrap()
                .with_root_certificates(Arc::clone(&of_server.roots))
                .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified_key(chain))));
            shake(&Arc::new(config), &server)
        };
        let both = with(&chain).unwrap();
        assert_eq!(both.1.peer_certificates(), Some(&chain.certificates[..]), "{key:?}");
        let bad = Some(Error::InvalidCertificate(CertificateError::BadSignature));
        assert_eq!(with(&with_key(&chain, true, None)).err().unwrap().server, bad, "{key:?}");
        let says = KEYS.map(Key::scheme).into_iter().find(|other| *other != key.scheme());
        let failed = with(&with_key(&chain, false, says)).err().unwrap();
        let said = format!("{:?}", failed.server);
        let mismatch = "UnsupportedSignatureAlgorithmForPublicKey";
        assert!(said.contains(mismatch), "{key:?} as {says:?}: {said}");
        assert!(with(&other).err().unwrap().server.is_some(), "{key:?}");
        let none = shake(&Arc::new(client(&provider, &of_server)), &server).err().unwrap();
        assert_eq!(none.server, Some(Error::NoCertificatesPresented));
    }
}

/// A closure signs, and one that fails takes the handshake with it, and nothing else.
#[test]
fn a_key_may_be_elsewhere() {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    let chain = chain(Key::Engine(Algorithm::MlDsa65), 0);
    let client = Arc::new(client(&provider, &chain));
    let scheme = SignatureScheme::ML_DSA_65;
    let signer = chain.key.choose_scheme(&[scheme]).unwrap();
    let works = remote_key((scheme, move |message: &[u8]| Ok(signer.sign(message)?)));
    let fails = remote_key((scheme, |_: &[u8]| Err("the service is away".into())));
    for (key, is_served) in [(works, true), (fails, false)] {
        let chain = Chain { key, ..chain.clone() };
        match shake(&client, &Arc::new(server(&provider, &chain))) {
            Ok(_) => assert!(is_served),
            Err(failed) => {
                assert!(!is_served, "{failed:?}");
                assert!(failed.server.unwrap().to_string().contains("the service is away"));
            }
        }
    }
}

/// A server with several certificates gives each client the first that it can check.
#[test]
fn clients_get_the_first_certificate_that_they_can_check() {
    let kinds = [
        Key::Engine(Algorithm::MlDsa65),
        Key::Engine(Algorithm::Ed25519),
        Key::Engine(Algorithm::EcdsaP256),
    ];
    let chains = kinds.map(|kind| chain(kind, 0));
    let all = engine_provider(gabion_rustls::groups::DEFAULT);
    let resolver = FirstUsable::new(chains.iter().map(certified_key));
    let server = ServerConfig::builder_with_provider(Arc::clone(&all))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    let server = Arc::new(server);
    // Clients that know all schemes, all but the first, all but the first two, and none of them.
    for (left_out, chain) in chains.iter().map(Some).chain([None]).enumerate() {
        let mut provider = gabion_rustls::provider();
        let known =
            |scheme: SignatureScheme| !kinds[..left_out].iter().any(|kind| kind.scheme() == scheme);
        let mapping = provider.signature_verification_algorithms.mapping.iter();
        let mapping: Vec<_> = mapping.filter(|entry| known(entry.0)).copied().collect();
        provider.signature_verification_algorithms.mapping = mapping.leak();
        let client = Arc::new(client(&Arc::new(provider), chain.unwrap_or(&chains[0])));
        match (shake(&client, &server), chain) {
            (Ok(both), Some(chain)) => {
                assert_eq!(both.0.peer_certificates(), Some(&chain.certificates[..]));
            }
            (Err(failed), None) => {
                let heard = Error::AlertReceived(AlertDescription::HandshakeFailure);
                assert_eq!(failed.client, Some(heard));
                let saw = PeerIncompatible::NoSignatureSchemesInCommon;
                assert_eq!(failed.server, Some(Error::PeerIncompatible(saw)));
            }
            (other, _) => panic!("{left_out} left out: {:?}", other.err()),
        }
    }
}

/// The usual way into a configuration, by a file's bytes; a certificate of another key is refused.
#[test]
fn a_configuration_reads_keys_and_compares_them_with_certificates() {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    for key in KEYS {
        let file = key.file();
        let made = gabion_rustls::signing::signing_key(&file).unwrap();
        let of_other = chain(key, 0);
        assert!(made.public_key().is_some(), "{key:?}");
        let right = of_other.file.clone_key();
        let taken = CertifiedKey::from_der(of_other.certificates.clone(), right, &provider);
        assert!(taken.is_ok(), "{key:?}: {:?}", taken.err());
        let refused = CertifiedKey::from_der(of_other.certificates, file, &provider);
        assert!(matches!(refused, Err(Error::InconsistentKeys(_))), "{key:?}");
    }
}

/// TLS 1.2, which has no ML-DSA and no KEMs: a scheme says which hash, and the key which curve.
#[test]
#[cfg(feature = "tls12")]
fn peers_of_tls_1_2_are_served() {
    use rustls::version::TLS12;
    let (engine_provider, aws_lc_provider) =
        (engine_provider(gabion_rustls::groups::DEFAULT), aws_lc_provider());
    for key in KEYS {
        let chain = chain(key, 0);
        for (a, b) in [
            (&engine_provider, &engine_provider),
            (&engine_provider, &aws_lc_provider),
            (&aws_lc_provider, &engine_provider),
        ] {
            let client = ClientConfig::builder_with_provider(Arc::clone(a))
                .with_protocol_versions(&[&TLS12])
                .unwrap()
                .with_root_certificates(Arc::clone(&chain.roots))
                .with_no_client_auth();
            let server = ServerConfig::builder_with_provider(Arc::clone(b))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified_key(&chain))));
            let both = shake(&Arc::new(client), &Arc::new(server));
            let is_ml_dsa =
                matches!(key, Key::Engine(algorithm) if algorithm.name().starts_with("ML-DSA"));
            assert_eq!(both.is_err(), is_ml_dsa, "{key:?}: {:?}", both.as_ref().err());
            let Ok((client, _)) = both else { continue };
            let group = client.negotiated_key_exchange_group().unwrap().name();
            assert_eq!(group, rustls::NamedGroup::X25519);
        }
    }
}
