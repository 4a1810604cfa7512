//! The provider that configurations of the process take.

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

#[test]
fn install_default_sets_the_process_default() {
    assert!(CryptoProvider::get_default().is_none(), "the other tests name theirs");
    gabion_rustls::install_default().unwrap();
    let installed = CryptoProvider::get_default().unwrap();
    let roots = RootCertStore::empty();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let names = |provider: &CryptoProvider| {
        provider.kx_groups.iter().map(|group| group.name()).collect::<Vec<_>>()
    };
    // As many as aws-lc-rs does not have, from which it could come otherwise.
    let engine_provider: Vec<_> =
        gabion_rustls::groups::DEFAULT.iter().map(|group| group.name()).collect();
    assert_eq!(names(installed), engine_provider);
    assert_eq!(names(config.crypto_provider()), engine_provider);
    let debug = format!("{:?} {:?}", installed.secure_random, installed.key_provider);
    assert_eq!(debug, "Random Keys");
    // A second one is handed back, and changes nothing.
    let refused = rustls::crypto::aws_lc_rs::default_provider().install_default();
    assert!(refused.is_err());
    assert_eq!(names(CryptoProvider::get_default().unwrap()), engine_provider);
}

/// Suites of TLS 1.3 protect QUIC as well, where they are those of rustls.
#[test]
fn suites_of_tls_1_3_are_those_of_quic() {
    let provider = gabion_rustls::provider();
    let suites = provider.cipher_suites.iter().filter_map(|suite| suite.tls13());
    assert_eq!(suites.filter(|suite| suite.quic_suite().is_some()).count(), 3);
}
