//! Certificates for tests and examples: a root, any number of intermediates, and a leaf for
//! `localhost`.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::Arc;

use gabion_engine::{Algorithm, Engine, OsEntropy};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;
use rustls::{RootCertStore, SignatureScheme};

use crate::certificate::{Fields, Subject, extension, issue, tlv};
use crate::signing::signing_key;

/// A chain with its private key and the file of that, and the root that it leads to.
#[derive(Clone)]
pub struct Chain {
    /// The leaf, and the intermediates above it.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The leaf's private key.
    pub key: Arc<dyn SigningKey>,
    /// The private key as PKCS#8.
    pub file: Arc<PrivateKeyDer<'static>>,
    /// The root.
    pub root: CertificateDer<'static>,
    /// The root, as rustls takes it.
    pub roots: Arc<RootCertStore>,
}

/// The kind of a test key; RSA comes from aws-lc-rs, the only one that makes a key quickly enough
/// for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A key of the engine.
    Engine(Algorithm),
    /// RSA with 2048 bits.
    Rsa,
}

/// Every key that a certificate of these tests has.
pub const KEYS: [Key; 8] = [
    Key::Engine(Algorithm::MlDsa44),
    Key::Engine(Algorithm::MlDsa65),
    Key::Engine(Algorithm::MlDsa87),
    Key::Engine(Algorithm::Ed25519),
    Key::Engine(Algorithm::EcdsaP256),
    Key::Engine(Algorithm::EcdsaP384),
    Key::Engine(Algorithm::EcdsaP521),
    Key::Rsa,
];

impl Key {
    /// Generates a key and returns it as PKCS#8.
    pub fn file(self) -> PrivateKeyDer<'static> {
        let der = match self {
            Key::Engine(algorithm) => {
                use gabion_engine::key_file::{FileForm, encode_private};
                use gabion_engine::keys::PrivateKey;
                let engine = Engine::global().unwrap();
                let key = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
                let form = FileForm::of(algorithm).unwrap();
                encode_private(form, &key.forms(), true).unwrap().to_vec()
            }
            Key::Rsa => {
                use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
                let key = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048);
                let key = key.unwrap();
                let der: Pkcs8V1Der<'_> = key.as_der().unwrap();
                der.as_ref().to_vec()
            }
        };
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der))
    }

    /// Generates a key.
    pub fn generate(self) -> Arc<dyn SigningKey> {
        signing_key(&self.file()).unwrap()
    }

    /// Returns the scheme with which it signs certificates.
    pub fn scheme(self) -> SignatureScheme {
        match self {
            Key::Engine(Algorithm::MlDsa44) => SignatureScheme::ML_DSA_44,
            Key::Engine(Algorithm::MlDsa65) => SignatureScheme::ML_DSA_65,
            Key::Engine(Algorithm::MlDsa87) => SignatureScheme::ML_DSA_87,
            Key::Engine(Algorithm::Ed25519) => SignatureScheme::ED25519,
            Key::Engine(Algorithm::EcdsaP256) => SignatureScheme::ECDSA_NISTP256_SHA256,
            Key::Engine(Algorithm::EcdsaP384) => SignatureScheme::ECDSA_NISTP384_SHA384,
            Key::Engine(Algorithm::EcdsaP521) => SignatureScheme::ECDSA_NISTP521_SHA512,
            Key::Engine(other) => panic!("{other} signs no certificate here"),
            Key::Rsa => SignatureScheme::RSA_PSS_SHA256,
        }
    }
}

/// Generates a chain with a leaf and `intermediates` below a root, all with new keys of one kind.
pub fn chain(key: Key, intermediates: usize) -> Chain {
    chain_with(key, intermediates, |key| key)
}

/// Generates a [`chain`] whose certificates have the public keys of the keys that `wrap` returns.
pub fn chain_with(
    key: Key,
    intermediates: usize,
    wrap: fn(Arc<dyn SigningKey>) -> Arc<dyn SigningKey>,
) -> Chain {
    let subject = |key, name: &str| Subject { key: wrap(key), name: name.to_owned() };
    let mut issuer = subject(key.generate(), "root");
    let root = certificate(key, &issuer, &issuer, true);
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let mut certificates = Vec::new();
    for number in 0..intermediates {
        let intermediate = subject(key.generate(), &format!("intermediate {number}"));
        certificates.push(certificate(key, &issuer, &intermediate, true));
        issuer = intermediate;
    }
    let file = Arc::new(key.file());
    let leaf = subject(signing_key(&file).unwrap(), "localhost");
    certificates.push(certificate(key, &issuer, &leaf, false));
    certificates.reverse();
    Chain { certificates, key: leaf.key, file, root, roots: Arc::new(roots) }
}

/// Issues a certificate that is valid in this century.
fn certificate(
    of_issuer: Key,
    issuer: &Subject,
    subject: &Subject,
    is_ca: bool,
) -> CertificateDer<'static> {
    let extension = match is_ca {
        true => extension(&[0x55, 0x1d, 0x13], true, &tlv(0x30, &[&tlv(1, &[&[0xff]])])),
        false => {
            let names = tlv(0x30, &[&tlv(0x82, &[subject.name.as_bytes()])]);
            extension(&[0x55, 0x1d, 0x11], false, &names)
        }
    };
    let fields = Fields {
        serial: &[7],
        validity: ["20200101000000Z", "20491231235959Z"],
        extensions: &[extension],
    };
    issue(of_issuer.scheme(), issuer, subject, &fields).unwrap()
}
