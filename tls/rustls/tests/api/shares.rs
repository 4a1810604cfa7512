//! Malformed key shares: each gets the right alert, and neither side panics.

use std::sync::Arc;

use gabion_engine::{ALGORITHMS, Algorithm, AlgorithmInfo, Kind};
use gabion_rustls::groups::by_name;
use gabion_rustls::testing::{Chain, Key, chain};
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{AlertDescription, Error, NamedGroup, PeerMisbehaved};
#[cfg(feature = "tls12")]
use rustls::{ClientConfig, ServerConfig, sign::SingleCertAndKey, version::TLS12};

#[cfg(feature = "tls12")]
use super::pair::certified_key;
use super::pair::{HandshakeErrors, client, engine_provider, server, shake};

/// A group that sends a forged share, in both roles.
#[derive(Debug)]
struct ForgedGroup {
    group: &'static dyn SupportedKxGroup,
    name: NamedGroup,
    change: Change,
}

/// A modification of a share.
#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Bytes(usize, Vec<u8>),
    /// The last so many bytes come first.
    Rotated(usize),
    Xor(usize, u8),
}

impl Change {
    fn of(&self, share: &[u8]) -> Vec<u8> {
        let mut share = share.to_vec();
        match self {
            Change::Length(len) => share.resize(*len, 0),
            Change::Bytes(at, bytes) => share[*at..at + bytes.len()].copy_from_slice(bytes),
            Change::Rotated(last) => share.rotate_right(*last),
            Change::Xor(at, bits) => share[*at] ^= bits,
        }
        share
    }
}

struct ForgedExchange(Box<dyn ActiveKeyExchange>, Vec<u8>, NamedGroup);

impl ActiveKeyExchange for ForgedExchange {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        self.0.complete(share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.1
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        self.2
    }
}

impl SupportedKxGroup for ForgedGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let started = self.group.start()?;
        let share = self.change.of(started.pub_key());
        Ok(Box::new(ForgedExchange(started, share, self.name)))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let completed = self.group.start_and_complete(share)?;
        Ok(CompletedKeyExchange { pub_key: self.change.of(&completed.pub_key), ..completed })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        self.name
    }
}

fn cheap() -> Chain {
    chain(Key::Engine(Algorithm::EcdsaP256), 0)
}

/// Where the parts of a group's share begin and end.
fn parts(row: &AlgorithmInfo, is_server: bool) -> Vec<(Algorithm, usize, usize)> {
    let alone = [row.algorithm];
    let parts: Vec<Algorithm> = row.part_algorithms().collect();
    let parts = if parts.is_empty() { &alone[..] } else { &parts };
    let mut at = 0;
    let mut of = |part: &Algorithm| {
        let info = part.info();
        let size = if is_server && info.kind == Kind::Kem { info.output } else { info.public_key };
        at += size.max();
        (*part, at - size.max(), at)
    };
    parts.iter().map(&mut of).collect()
}

/// Values of X25519 that lead to an all-zero secret (RFC 7748, section 6.1): of order 1, 2, 4 and 8, and what
/// is the same modulo the prime.
fn of_small_order() -> Vec<Vec<u8>> {
    let of = |text: &str| {
        let bytes = text.as_bytes().as_chunks::<2>().0;
        let hex = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        bytes.iter().map(|pair| hex(pair).unwrap()).collect()
    };
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]
    .map(of)
    .to_vec()
}

/// Every malformed share of a side.
fn changes(row: &AlgorithmInfo, is_server: bool) -> Vec<Change> {
    let parts = parts(row, is_server);
    let right = parts.iter().map(|part| part.2).max().unwrap_or(0);
    let mut all = Vec::new();
    let marks = parts.iter().flat_map(|part| [part.1, part.2]).chain([0, right]);
    for mark in marks {
        all.extend((mark.saturating_sub(2)..mark + 3).map(Change::Length));
    }
    // An empty share is no entry of TLS at all, and rustls itself refuses it.
    all.retain(|change| !matches!(change, Change::Length(len) if *len == right || *len == 0));
    for (part, start, end) in &parts {
        let len = end - start;
        match (part.info().kind, *part) {
            // Three bytes hold two coefficients; q is 3329, and rho is the last 32 bytes. A ciphertext has no
            // wrong bytes: it is rejected implicitly.
            (Kind::Kem, _) if !is_server => {
                let places = [0, (len - 32) / 6 * 3, len - 35];
                all.extend(places.map(|at| Change::Bytes(start + at, vec![0xff; 3])));
            }
            (Kind::KeyExchange, Algorithm::X25519) => {
                all.extend(of_small_order().into_iter().map(|u| Change::Bytes(*start, u)));
            }
            (Kind::KeyExchange, _) => {
                all.push(Change::Bytes(*start, vec![0; len]));
                all.push(Change::Xor(end - 1, 1));
                let forms = [0, 2, 3, 5, 6, 7, 8, 0xff];
                all.extend(forms.map(|form| Change::Bytes(*start, vec![form])));
                // A coordinate that is no field element.
                all.push(Change::Bytes(start + 1, vec![0xff; (len - 1) / 2]));
            }
            (Kind::Kem | Kind::Signature, _) => {}
        }
    }
    // Any bytes are a ciphertext of ML-KEM, and any a share of X25519.
    let takes_all = is_server && parts.iter().any(|part| part.0 == Algorithm::X25519);
    if let [_, (_, start, end)] = parts[..]
        && !takes_all
    {
        all.push(Change::Rotated(end - start));
    }
    all
}

/// The groups, each with its row.
fn groups() -> Vec<(&'static AlgorithmInfo, &'static dyn SupportedKxGroup)> {
    let rows = ALGORITHMS.iter().filter(|row| row.kind != Kind::Signature);
    rows.filter_map(|row| Some((row, by_name(row.tls?.name)?))).collect()
}

fn forged(
    group: &'static dyn SupportedKxGroup,
    name: NamedGroup,
    change: Change,
) -> &'static ForgedGroup {
    Box::leak(Box::new(ForgedGroup { group, name, change }))
}

/// Returns the errors for a peer's fault: reported by the side that saw it, and received by the
/// other as an alert.
fn blamed(is_server: bool) -> HandshakeErrors {
    let saw = Some(Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare));
    let heard = Some(Error::AlertReceived(AlertDescription::IllegalParameter));
    if is_server {
        HandshakeErrors { client: saw, server: heard }
    } else {
        HandshakeErrors { client: heard, server: saw }
    }
}

#[test]
fn a_clients_malformed_shares_are_refused() {
    let chain = cheap();
    for (row, group) in groups() {
        let server = Arc::new(server(&engine_provider(&[group]), &chain));
        for change in changes(row, false) {
            let forged = forged(group, group.name(), change);
            let client = Arc::new(client(&engine_provider(&[forged]), &chain));
            let failed = shake(&client, &server).err().map(|failed| format!("{failed:?}"));
            let expected = format!("{:?}", blamed(false));
            assert_eq!(failed, Some(expected), "{}: {:?}", row.name, forged.change);
        }
        let client = Arc::new(client(&engine_provider(&[group]), &chain));
        assert!(shake(&client, &server).is_ok(), "{}: the right share, after all these", row.name);
    }
}

#[test]
fn a_servers_malformed_shares_are_refused() {
    let chain = cheap();
    for (row, group) in groups() {
        let client = Arc::new(client(&engine_provider(&[group]), &chain));
        for change in changes(row, true) {
            let forged = forged(group, group.name(), change);
            let server = Arc::new(server(&engine_provider(&[forged]), &chain));
            let failed = shake(&client, &server).err().unwrap();
            let expected = blamed(true);
            assert_eq!(failed.client, expected.client, "{}: {:?}", row.name, forged.change);
            assert_eq!(failed.server, expected.server, "{}: {:?}", row.name, forged.change);
        }
    }
}

/// A ciphertext of the right length that is another one gives another secret, so that no record can be read.
#[test]
fn modified_ciphertext_changes_the_secret() {
    let chain = cheap();
    let group = by_name("MLKEM768").unwrap();
    let forged = forged(group, group.name(), Change::Xor(7, 1));
    let client = Arc::new(client(&engine_provider(&[group]), &chain));
    let failed =
        shake(&client, &Arc::new(server(&engine_provider(&[forged]), &chain))).err().unwrap();
    assert_eq!(failed.client, Some(Error::DecryptError));
}

/// The share of one group under the number of another.
#[test]
fn mislabelled_shares_are_refused() {
    let chain = cheap();
    for (row, group) in groups() {
        for (labelled, other) in groups() {
            let same =
                parts(row, false).last().map(|p| p.2) == parts(labelled, false).last().map(|p| p.2);
            if same {
                continue;
            }
            let forged = forged(group, other.name(), Change::Xor(0, 0));
            let client = Arc::new(client(&engine_provider(&[forged]), &chain));
            let failed = shake(&client, &Arc::new(server(&engine_provider(&[other]), &chain)))
                .err()
                .unwrap();
            assert_eq!(failed.server, blamed(false).server, "{} as {}", row.name, labelled.name);
        }
    }
}

/// TLS 1.2, whose curves are the same.
#[test]
#[cfg(feature = "tls12")]
fn malformed_shares_of_tls_1_2_are_refused() {
    let chain = cheap();
    let client = |group| {
        let config = ClientConfig::builder_with_provider(engine_provider(&[group]));
        let config = config.with_protocol_versions(&[&TLS12]).unwrap();
        Arc::new(config.with_root_certificates(Arc::clone(&chain.roots)).with_no_client_auth())
    };
    let server = |group| {
        let config = ServerConfig::builder_with_provider(engine_provider(&[group]));
        let config = config.with_protocol_versions(&[&TLS12]).unwrap();
        let resolver = Arc::new(SingleCertAndKey::from(certified_key(&chain)));
        Arc::new(config.with_no_client_auth().with_cert_resolver(resolver))
    };
    for (row, group) in groups().into_iter().filter(|(row, _)| row.kind == Kind::KeyExchange) {
        assert!(shake(&client(group), &server(group)).is_ok(), "{}", row.name);
        for change in changes(row, false) {
            let forged = forged(group, group.name(), change);
            let failed = shake(&client(forged), &server(group)).err().unwrap();
            assert_eq!(failed, blamed(false), "{}: {:?}", row.name, forged.change);
            let failed = shake(&client(group), &server(forged)).err().unwrap();
            assert_eq!(failed, blamed(true), "{}: {:?}", row.name, forged.change);
        }
    }
}
