//! Every group, with both sides ours and with aws-lc-rs on either side; retries.

use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_rustls::groups::{self, by_name};
use rustls::crypto::SupportedKxGroup;
use rustls::{HandshakeKind, NamedGroup};

use super::certificates::{Chain, Key, chain};
use super::pair::{Both, client, ours, server, shake, theirs};

const PRIVATE: [&str; 6] = [
    "SecP256r1MLKEM512",
    "p256_mlkem512",
    "MLKEM512X25519",
    "SecP384r1MLKEM768",
    "SecP521r1MLKEM1024",
    "secp521r1",
];

fn all() -> Vec<&'static dyn SupportedKxGroup> {
    let private = PRIVATE.iter().map(|name| by_name(name).unwrap());
    groups::DEFAULT.iter().copied().chain(private).collect()
}

fn agreed((client, server): &Both) -> (NamedGroup, HandshakeKind) {
    let group = |group: Option<&'static dyn SupportedKxGroup>| group.unwrap().name();
    let both =
        [client.negotiated_key_exchange_group(), server.negotiated_key_exchange_group()].map(group);
    assert_eq!(both[0], both[1]);
    assert_eq!(client.handshake_kind(), server.handshake_kind());
    (both[0], client.handshake_kind().unwrap())
}

fn cheap() -> Chain {
    chain(Key::Ours(Algorithm::EcdsaP256), 0)
}

#[test]
fn every_group_agrees_with_itself() {
    let chain = cheap();
    for group in all() {
        let provider = ours(&[group]);
        let (client, server) = (client(&provider, &chain), server(&provider, &chain));
        let both = shake(&Arc::new(client), &Arc::new(server)).unwrap();
        assert_eq!(agreed(&both), (group.name(), HandshakeKind::Full));
    }
}

#[test]
fn groups_that_aws_lc_rs_has_agree_with_it_both_ways() {
    let (chain, other) = (cheap(), theirs());
    let mut tried = 0;
    for group in all() {
        if !other.kx_groups.iter().any(|theirs| theirs.name() == group.name()) {
            continue;
        }
        let provider = ours(&[group]);
        let to_theirs =
            shake(&Arc::new(client(&provider, &chain)), &Arc::new(server(&other, &chain)));
        assert_eq!(agreed(&to_theirs.unwrap()), (group.name(), HandshakeKind::Full));
        // Theirs sends its first group, and ours asks for another.
        let to_ours =
            shake(&Arc::new(client(&other, &chain)), &Arc::new(server(&provider, &chain)));
        let (agreed, kind) = agreed(&to_ours.unwrap());
        assert_eq!(agreed, group.name());
        let is_first = [NamedGroup::X25519MLKEM768, NamedGroup::X25519].contains(&agreed);
        assert_eq!(kind == HandshakeKind::Full, is_first, "{agreed:?}: {kind:?}");
        tried += 1;
    }
    assert_eq!(tried, 7);
}

/// The client's first share is of a group that the server lacks.
#[test]
fn a_retry_leads_to_each_group() {
    let chain = cheap();
    for group in all() {
        let first = match group.name() {
            NamedGroup::MLKEM512 => groups::MLKEM768,
            _ => groups::MLKEM512,
        };
        let client = Arc::new(client(&ours(&[first, group]), &chain));
        let both = shake(&client, &Arc::new(server(&ours(&[group]), &chain))).unwrap();
        assert_eq!(agreed(&both), (group.name(), HandshakeKind::FullWithHelloRetryRequest));
    }
}

/// The hybrid's share comes with that of its curve, so that a server without ML-KEM needs no retry.
#[test]
fn a_server_that_has_only_the_curve_needs_no_retry() {
    let chain = cheap();
    let curves = [groups::X25519, groups::SECP256R1, groups::SECP384R1];
    let hybrids = [groups::X25519MLKEM768, groups::SECP256R1MLKEM768, groups::SECP384R1MLKEM1024];
    for (hybrid, curve) in hybrids.into_iter().zip(curves) {
        let client = Arc::new(client(&ours(&[hybrid, curve]), &chain));
        let both = shake(&client, &Arc::new(server(&ours(&[curve]), &chain))).unwrap();
        assert_eq!(agreed(&both), (curve.name(), HandshakeKind::Full));
    }
}

/// What both have and both prefer is post-quantum, whichever side is ours.
#[test]
fn the_default_is_a_hybrid() {
    let (chain, ours, theirs) = (cheap(), Arc::new(gabion_rustls::provider()), theirs());
    for (a, b) in [(&ours, &ours), (&ours, &theirs), (&theirs, &ours)] {
        let both = shake(&Arc::new(client(a, &chain)), &Arc::new(server(b, &chain))).unwrap();
        assert_eq!(agreed(&both), (NamedGroup::X25519MLKEM768, HandshakeKind::Full));
    }
    assert!(!ours.fips());
}
