//! Key exchanges and signatures that are reported to an observer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use gabion_engine::Algorithm;
use gabion_rustls::groups::{DEFAULT, X25519, X25519MLKEM768};
use gabion_rustls::names;
use gabion_rustls::observer::{self, KeyExchange, Observer};
use gabion_rustls::testing::{Chain, Key, chain};
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig, SignatureScheme, SupportedProtocolVersion};

use super::pair::{aws_lc_provider, client, server, shake};

/// Counts events by their description.
#[derive(Debug, Default)]
struct Counts(Mutex<BTreeMap<String, u64>>);

impl Counts {
    fn leaked() -> &'static Counts {
        Box::leak(Box::default())
    }

    fn add(&self, event: String) {
        *self.0.lock().unwrap().entry(event).or_default() += 1;
    }

    /// Returns the events since the last call, with their numbers.
    fn take(&self) -> Vec<String> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        events.into_iter().map(|(event, count)| format!("{event} {count}")).collect()
    }
}

impl Observer for Counts {
    fn key_exchange(&self, exchange: KeyExchange) {
        let group = names::group(exchange.group).unwrap();
        self.add(format!("{group} {:?}", exchange.side));
    }

    fn signed(&self, scheme: SignatureScheme) {
        self.add(format!("signed {}", names::scheme(scheme).unwrap()));
    }

    fn verified(&self, scheme: SignatureScheme) {
        self.add(format!("verified {}", names::scheme(scheme).unwrap()));
    }
}

fn observed(counts: &'static Counts) -> Arc<CryptoProvider> {
    Arc::new(gabion_rustls::provider_with_observer(counts))
}

/// Configurations in which both sides have certificates, with the signing keys observed.
fn mutual(
    [client_provider, server_provider]: [&Arc<CryptoProvider>; 2],
    [client_counts, server_counts]: [&'static Counts; 2],
    chain: &Chain,
    version: &'static SupportedProtocolVersion,
) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let resolver = |counts| {
        let key = observer::signing_key(Arc::clone(&chain.key), counts);
        Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain.certificates.clone(), key)))
    };
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::clone(&chain.roots),
        Arc::clone(server_provider),
    );
    let server = ServerConfig::builder_with_provider(Arc::clone(server_provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_cert_resolver(resolver(server_counts));
    let client = ClientConfig::builder_with_provider(Arc::clone(client_provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(Arc::clone(&chain.roots))
        .with_client_cert_resolver(resolver(client_counts));
    (Arc::new(client), Arc::new(server))
}

#[test]
fn observers_count_each_handshake_once() {
    let counts = [Counts::leaked(), Counts::leaked()];
    let providers = counts.map(observed);
    let providers = [&providers[0], &providers[1]];
    let chain = chain(Key::Engine(Algorithm::MlDsa65), 1);
    let (client, server) = mutual(providers, counts, &chain, &TLS13);
    shake(&client, &server).unwrap();
    let signatures = ["signed mldsa65 1", "verified mldsa65 1"];
    let [of_client, of_server] = counts.map(Counts::take);
    assert_eq!(of_client, [&["X25519MLKEM768 Some(Client) 1"][..], &signatures].concat());
    assert_eq!(of_server, [&["X25519MLKEM768 Some(Server) 1"][..], &signatures].concat());
    // A resumed session exchanges keys and signs nothing.
    shake(&client, &server).unwrap();
    let [of_client, of_server] = counts.map(Counts::take);
    assert_eq!(of_client, ["X25519MLKEM768 Some(Client) 1"]);
    assert_eq!(of_server, ["X25519MLKEM768 Some(Server) 1"]);
}

#[test]
fn a_group_after_a_retry_and_the_curve_of_a_hybrid_count_once() {
    let counts = Counts::leaked();
    let provider = observed(counts);
    let chain = chain(Key::Engine(Algorithm::MlDsa44), 0);
    let retried = |groups: &[_]| {
        let other = CryptoProvider { kx_groups: groups.to_vec(), ..(*aws_lc_provider()).clone() };
        let server = Arc::new(server(&Arc::new(other), &chain));
        shake(&Arc::new(client(&provider, &chain)), &server).unwrap();
        counts.take()
    };
    let verified = "verified mldsa44 1";
    assert_eq!(retried(&[DEFAULT[3]]), ["MLKEM768 Some(Client) 1", verified]);
    assert_eq!(retried(&[X25519]), [verified, "x25519 Some(Client) 1"]);
}

#[test]
fn tls_1_2_does_not_tell_the_side() {
    let counts = [Counts::leaked(), Counts::leaked()];
    let providers = counts.map(observed);
    let chain = chain(Key::Engine(Algorithm::EcdsaP256), 0);
    let (client, server) = mutual([&providers[0], &providers[1]], counts, &chain, &TLS12);
    shake(&client, &server).unwrap();
    let scheme = "ecdsa_secp256r1_sha256 1";
    for counted in counts.map(Counts::take) {
        let signatures = [format!("signed {scheme}"), format!("verified {scheme}")];
        assert_eq!(counted, [&signatures[..], &["x25519 None 1".to_owned()]].concat());
    }
}

#[test]
fn failures_are_not_reported() {
    let counts = Counts::leaked();
    let provider = observed(counts);
    let group = provider.kx_groups[0];
    assert_eq!(group.name(), X25519MLKEM768.name());
    assert!(group.start_and_complete(&[0; 5]).is_err());
    assert!(group.start().unwrap().complete(&[0; 5]).is_err());
    let algorithms = provider.signature_verification_algorithms;
    let (_, mapped) = algorithms.mapping[0];
    assert!(mapped[0].verify_signature(&[0; 5], b"message", &[0; 5]).is_err());
    assert_eq!(counts.take(), [""; 0]);
    let [stranger, chain] = [(); 2].map(|()| chain(Key::Engine(Algorithm::MlDsa44), 0));
    // The certificate is rejected before the handshake's signature is verified.
    let server = Arc::new(server(&aws_lc_provider(), &chain));
    assert!(shake(&Arc::new(client(&provider, &stranger)), &server).is_err());
    assert_eq!(counts.take(), ["X25519MLKEM768 Some(Client) 1"]);
}

#[test]
fn keys_that_the_provider_loads_are_observed() {
    let counts = Counts::leaked();
    let chain = chain(Key::Rsa, 0);
    let server = ServerConfig::builder_with_provider(observed(counts))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.certificates.clone(), chain.file.clone_key())
        .unwrap();
    let client = client(&aws_lc_provider(), &chain);
    shake(&Arc::new(client), &Arc::new(server)).unwrap();
    let counted = counts.take();
    assert_eq!(counted[0], "X25519MLKEM768 Some(Server) 1");
    assert!(counted[1].starts_with("signed rsa_pss_rsae_sha"), "{counted:?}");
}
