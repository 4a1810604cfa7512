//! Key exchange: the TLS groups, implemented with the engine's KEMs and curves.
//!
//! ```text
//!   client   start --------------> key pair --pub_key--> ClientHello
//!            complete(ServerHello's share) ------------> secret            decapsulates, or derives
//!   server   start_and_complete(ClientHello's share) --> share and secret  encapsulates, or derives
//! ```
//!
//! A client whose first group is a hybrid also sends a share of its curve, if that group is listed
//! too. A peer without ML-KEM then needs no second round trip.

use std::ops::Range;

use gabion_engine::{
    ALGORITHMS, Algorithm, Codepoint, ExchangePrivateKey, KemPrivateKey, Kind, OsEntropy,
};
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, ProtocolVersion};

use crate::error::{engine, own_error, share_error};

/// X25519 and ML-KEM-768 (RFC 10024), the first choice of clients.
pub static X25519MLKEM768: &dyn SupportedKxGroup = &Kem::of(Algorithm::X25519MlKem768);
/// ECDH on P-256 and ML-KEM-768 (RFC 10024).
pub static SECP256R1MLKEM768: &dyn SupportedKxGroup = &Kem::of(Algorithm::SecP256r1MlKem768);
/// ECDH on P-384 and ML-KEM-1024 (RFC 10024).
pub static SECP384R1MLKEM1024: &dyn SupportedKxGroup = &Kem::of(Algorithm::SecP384r1MlKem1024);
/// ML-KEM-512 alone.
pub static MLKEM512: &dyn SupportedKxGroup = &Kem::of(Algorithm::MlKem512);
/// ML-KEM-768 alone.
pub static MLKEM768: &dyn SupportedKxGroup = &Kem::of(Algorithm::MlKem768);
/// ML-KEM-1024 alone, as CNSA 2.0 requires.
pub static MLKEM1024: &dyn SupportedKxGroup = &Kem::of(Algorithm::MlKem1024);
/// X25519, which a quantum computer breaks.
pub static X25519: &dyn SupportedKxGroup = &Curve(Algorithm::X25519);
/// ECDH on P-256, which a quantum computer breaks.
pub static SECP256R1: &dyn SupportedKxGroup = &Curve(Algorithm::EcdhP256);
/// ECDH on P-384, which a quantum computer breaks.
pub static SECP384R1: &dyn SupportedKxGroup = &Curve(Algorithm::EcdhP384);

/// The groups of [`provider`](crate::provider) in order of preference: hybrids, ML-KEM alone, and
/// curves for peers that support nothing else.
pub static DEFAULT: &[&dyn SupportedKxGroup] = &[
    X25519MLKEM768,
    SECP256R1MLKEM768,
    SECP384R1MLKEM1024,
    MLKEM768,
    MLKEM1024,
    MLKEM512,
    X25519,
    SECP256R1,
    SECP384R1,
];

/// The groups in [`DEFAULT`] that resist quantum computers, for programs that accept no others.
/// Peers that support only curves are rejected, and so is TLS 1.2.
///
/// # Examples
/// ```
/// let mut provider = gabion_rustls::provider();
/// provider.kx_groups = gabion_rustls::groups::POST_QUANTUM.to_vec();
/// ```
pub static POST_QUANTUM: &[&dyn SupportedKxGroup] =
    &[X25519MLKEM768, SECP256R1MLKEM768, SECP384R1MLKEM1024, MLKEM768, MLKEM1024, MLKEM512];

/// Groups that must be selected by name: those of drafts and private agreements, and P-521.
static OTHERS: &[&dyn SupportedKxGroup] = &[
    &Kem::of(Algorithm::SecP256r1MlKem512),
    &Kem { algorithm: Algorithm::SecP256r1MlKem512, is_before: true },
    &Kem::of(Algorithm::MlKem512X25519),
    &Kem::of(Algorithm::SecP384r1MlKem768),
    &Kem::of(Algorithm::SecP521r1MlKem1024),
    &Curve(Algorithm::EcdhP521),
];

/// Returns the group with a TLS name, ignoring case: one of [`DEFAULT`], P-521, or one of a draft
/// or private agreement. Returns `None` if the name is unknown.
///
/// # Examples
/// ```
/// use gabion_rustls::groups;
///
/// let mut provider = gabion_rustls::provider();
/// provider.kx_groups.insert(0, groups::by_name("SecP521r1MLKEM1024").ok_or("no such group")?);
/// assert!(groups::by_name("kyber768").is_none());
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    let codepoints = ALGORITHMS.iter().flat_map(|row| [row.tls, row.tls_before]).flatten();
    let numbers = codepoints.filter(|point| point.name.eq_ignore_ascii_case(name));
    let groups = || DEFAULT.iter().chain(OTHERS);
    numbers
        .filter_map(|point| groups().find(|group| u16::from(group.name()) == point.number))
        .next()
        .copied()
}

/// A KEM as a group, alone or combined with a curve.
#[derive(Debug)]
struct Kem {
    algorithm: Algorithm,
    /// Whether the group uses its codepoint from before the registration.
    is_before: bool,
}

/// A curve as a group.
#[derive(Debug)]
struct Curve(Algorithm);

impl Kem {
    const fn of(algorithm: Algorithm) -> Self {
        Kem { algorithm, is_before: false }
    }
}

/// Returns the group of a codepoint. Tests ensure that each group has one.
fn named(codepoint: Option<Codepoint>) -> NamedGroup {
    NamedGroup::from(codepoint.map_or(0, |point| point.number))
}

impl SupportedKxGroup for Kem {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let key = engine()?.kem_generate(self.algorithm, &OsEntropy).map_err(own_error)?;
        Ok(Box::new(KeyPair { key, group: self.name() }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let engine = engine()?;
        let key = engine.kem_public(self.algorithm, share).map_err(share_error)?;
        let (ciphertext, secret) = engine.encaps(&key, &OsEntropy).map_err(share_error)?;
        let secret = SharedSecret::from(&secret[..]);
        Ok(CompletedKeyExchange { group: self.name(), pub_key: ciphertext, secret })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        let row = self.algorithm.info();
        named(if self.is_before { row.tls_before } else { row.tls })
    }

    /// TLS 1.2 has no KEMs.
    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

impl SupportedKxGroup for Curve {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let key = engine()?.exchange_generate(self.0, &OsEntropy).map_err(own_error)?;
        Ok(Box::new(Scalar { key, group: self.name() }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        named(self.0.info().tls)
    }
}

/// A client's key pair of a KEM, wiped when dropped.
struct KeyPair {
    key: KemPrivateKey,
    group: NamedGroup,
}

impl ActiveKeyExchange for KeyPair {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let secret = engine()?.decaps(&self.key, share).map_err(share_error)?;
        Ok(SharedSecret::from(&secret[..]))
    }

    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        let part = Part::of(self.key.algorithm())?;
        Some((named(part.algorithm.info().tls), &self.key.public_bytes()[part.public]))
    }

    /// Called if the server knows only the curve: the ML-KEM half is dropped, and the curve's half
    /// is used alone.
    fn complete_hybrid_component(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let Some(part) = Part::of(self.key.algorithm()) else {
            return Err(Error::General("a group without a curve was asked for its curve".into()));
        };
        let scalar = &self.key.bytes()[part.private];
        let key = engine()?.exchange_private(part.algorithm, scalar).map_err(own_error)?;
        derive(&key, share)
    }

    fn pub_key(&self) -> &[u8] {
        self.key.public_bytes()
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}

/// The curve component of a hybrid, and the position of its keys in those of the hybrid.
struct Part {
    algorithm: Algorithm,
    public: Range<usize>,
    private: Range<usize>,
}

impl Part {
    fn of(hybrid: Algorithm) -> Option<Part> {
        let (mut public, mut private) = (0, 0);
        for algorithm in hybrid.info().part_algorithms() {
            let row = algorithm.info();
            let ends = (public + row.public_key.max(), private + row.private_key.max());
            if row.kind == Kind::KeyExchange {
                return Some(Part { algorithm, public: public..ends.0, private: private..ends.1 });
            }
            (public, private) = ends;
        }
        None
    }
}

/// A key pair on a curve, wiped when dropped.
struct Scalar {
    key: ExchangePrivateKey,
    group: NamedGroup,
}

impl ActiveKeyExchange for Scalar {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        derive(&self.key, share)
    }

    fn pub_key(&self) -> &[u8] {
        self.key.public_bytes()
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}

fn derive(key: &ExchangePrivateKey, share: &[u8]) -> Result<SharedSecret, Error> {
    let engine = engine()?;
    let peer = engine.exchange_public(key.algorithm(), share).map_err(share_error)?;
    let secret = engine.derive(key, &peer).map_err(share_error)?;
    Ok(SharedSecret::from(&secret[..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::KeyExchangeAlgorithm;

    /// Every group of the table is in exactly one of the lists, and can be found by name.
    #[test]
    fn the_lists_are_the_table() {
        let of_table: Vec<Codepoint> = ALGORITHMS
            .iter()
            .filter(|row| row.kind != Kind::Signature)
            .flat_map(|row| [row.tls, row.tls_before])
            .flatten()
            .collect();
        let mut ours: Vec<u16> =
            DEFAULT.iter().chain(OTHERS).map(|group| u16::from(group.name())).collect();
        for point in &of_table {
            let group = by_name(point.name).unwrap_or_else(|| panic!("{} is missing", point.name));
            assert_eq!(u16::from(group.name()), point.number, "{}", point.name);
            assert_eq!(group.name().key_exchange_algorithm(), KeyExchangeAlgorithm::ECDHE);
            assert!(group.ffdhe_group().is_none() && !group.fips());
        }
        let mut expected: Vec<u16> = of_table.iter().map(|point| point.number).collect();
        ours.sort_unstable();
        expected.sort_unstable();
        assert_eq!(ours, expected);
        let kems = DEFAULT.iter().filter(|group| {
            let row = ALGORITHMS.iter().find(|row| named(row.tls) == group.name());
            row.unwrap().kind == Kind::Kem
        });
        let names = |group: &&dyn SupportedKxGroup| group.name();
        assert!(kems.map(names).eq(POST_QUANTUM.iter().map(names)));
        // A signature scheme is not a group, whatever its number.
        assert!(by_name("mldsa65").is_none());
    }

    /// Both sides of every group agree, and the other side accepts the curve of a hybrid alone.
    #[test]
    fn key_exchange_agrees_in_every_group() {
        for group in DEFAULT.iter().chain(OTHERS) {
            let client = group.start().unwrap();
            let server = group.start_and_complete(client.pub_key()).unwrap();
            assert_eq!((server.group, client.group()), (group.name(), group.name()));
            let secret = client.complete(&server.pub_key).unwrap();
            assert_eq!(secret.secret_bytes(), server.secret.secret_bytes(), "{:?}", group.name());

            let client = group.start().unwrap();
            let Some((curve, share)) = client.hybrid_component() else { continue };
            let curve = DEFAULT.iter().chain(OTHERS).find(|group| group.name() == curve).unwrap();
            let server = curve.start_and_complete(share).unwrap();
            let secret = client.complete_hybrid_component(&server.pub_key).unwrap();
            assert_eq!(secret.secret_bytes(), server.secret.secret_bytes(), "{:?}", group.name());
        }
    }
}
