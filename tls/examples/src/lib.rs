//! Support for the example programs of `gabion-rustls` in `src/bin`, each the whole of a program: certificates for
//! localhost under roots of their own, which go into a file for clients, and the lines a server prints when it listens.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

use gabion_engine::Algorithm;
use gabion_rustls::testing::{self, Chain, Key};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;

/// The result of a program.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A certificate for localhost with a key of ML-DSA-65, and one with a key of ECDSA for clients that have no ML-DSA.
pub struct Localhost {
    ml_dsa: Chain,
    ecdsa: Chain,
}

impl Localhost {
    /// Makes both certificates.
    pub fn make() -> Self {
        let chain = |algorithm| testing::chain(Key::Engine(algorithm), 0);
        Localhost { ml_dsa: chain(Algorithm::MlDsa65), ecdsa: chain(Algorithm::EcdsaP256) }
    }

    /// Both, the preferred one first, as rustls takes them.
    pub fn certified(&self) -> [CertifiedKey; 2] {
        let of = |chain: &Chain| CertifiedKey::new(chain.certificates.clone(), chain.key.clone());
        [of(&self.ml_dsa), of(&self.ecdsa)]
    }

    /// Certificate and key of ML-DSA, as PEM.
    pub fn identity(&self) -> (String, String) {
        let certificates = self.ml_dsa.certificates.iter().map(|der| pem("CERTIFICATE", der));
        (certificates.collect(), pem("PRIVATE KEY", self.ml_dsa.file.secret_der()))
    }

    /// Prints the address of a server, and the file with the roots of its certificates.
    pub fn announce(&self, scheme: &str, port: u16) -> Outcome<()> {
        let file = tempfile::Builder::new().prefix("gabion-roots-").suffix(".pem").tempfile()?;
        let (mut file, path) = file.keep()?;
        for chain in [&self.ml_dsa, &self.ecdsa] {
            file.write_all(pem("CERTIFICATE", &chain.root).as_bytes())?;
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{scheme}://localhost:{port}")?;
        writeln!(out, "roots: {}", path.display())?;
        Ok(out.flush()?)
    }
}

/// The port to listen at: the first argument, or any.
pub fn port() -> Outcome<u16> {
    Ok(std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?)
}

/// Returns the arguments of a client: PORT ROOTS. `None` if the program is to be a server.
pub fn server_to_ask() -> Outcome<Option<(u16, String)>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [port, roots] => Ok(Some((port.parse()?, roots.clone()))),
        _ => Ok(None),
    }
}

/// The roots in a file.
pub fn roots(file: &str) -> Outcome<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(file)? {
        roots.add(root?)?;
    }
    Ok(roots)
}

/// DER as PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let number =
                (0..3).fold(0, |n, at| n << 8 | group.get(at).map_or(0, |&b| usize::from(b)));
            for at in 0..4 {
                let digit = char::from(DIGITS[number >> (18 - 6 * at) & 63]);
                text.push(if at <= group.len() { digit } else { '=' });
            }
        }
        text.push('\n');
    }
    let _ = writeln!(text, "-----END {label}-----");
    text
}
