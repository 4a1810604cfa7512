//! Every group, with both sides ours and with aws-lc-rs on either side; retries.

use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_rustls::groups::{self, by_name};
use gabion_rustls::testing::{Chain, Key, chain};
use rustls::crypto::SupportedKxGroup;
use rustls::{AlertDescription, Error, HandshakeKind, NamedGroup, PeerIncompatible};

use super::pair::{ConnectionPair, aws_lc_provider, client, engine_provider, server, shake};

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

fn agreed((client, server): &ConnectionPair) -> (NamedGroup, HandshakeKind) {
    let group = |group: Option<&'static dyn SupportedKxGroup>| group.unwrap().name();
    let both =
        [client.negotiated_key_exchange_group(), server.negotiated_key_exchange_group()].map(group);
    assert_eq!(both[0], both[1]);
    assert_eq!(client.handshake_kind(), server.handshake_kind());
    (both[0], client.handshake_kind().unwrap())
}

fn cheap() -> Chain {
    chain(Key::Engine(Algorithm::EcdsaP256), 0)
}

#[test]
fn handshake_succeeds_in_every_group() {
    let chain = cheap();
    for group in all() {
        let provider = engine_provider(&[group]);
        let (client, server) = (client(&provider, &chain), server(&provider, &chain));
        let both = shake(&Arc::new(client), &Arc::new(server)).unwrap();
        assert_eq!(agreed(&both), (group.name(), HandshakeKind::Full));
    }
}

#[test]
fn groups_that_aws_lc_rs_has_agree_with_it_both_ways() {
    let (chain, other) = (cheap(), aws_lc_provider());
    let mut tried = 0;
    for group in all() {
        if !other.kx_groups.iter().any(|aws_lc_provider| aws_lc_provider.name() == group.name()) {
            continue;
        }
        let provider = engine_provider(&[group]);
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
        let client = Arc::new(client(&engine_provider(&[first, group]), &chain));
        let both = shake(&client, &Arc::new(server(&engine_provider(&[group]), &chain))).unwrap();
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
        let client = Arc::new(client(&engine_provider(&[hybrid, curve]), &chain));
        let both = shake(&client, &Arc::new(server(&engine_provider(&[curve]), &chain))).unwrap();
        assert_eq!(agreed(&both), (curve.name(), HandshakeKind::Full));
    }
}

/// The client's order decides, and not whether a share came: a server asks for the client's first group that it has.
#[test]
fn the_clients_order_decides() {
    let chain = cheap();
    let default = Arc::new(server(&engine_provider(groups::DEFAULT), &chain));
    for (offered, group, kind) in [
        (&[groups::X25519, groups::X25519MLKEM768][..], groups::X25519, HandshakeKind::Full),
        (&[groups::MLKEM512, groups::X25519MLKEM768], groups::MLKEM512, HandshakeKind::Full),
    ] {
        let both = shake(&Arc::new(client(&engine_provider(offered), &chain)), &default).unwrap();
        assert_eq!(agreed(&both), (group.name(), kind));
    }
    // A share of the last group, and none of the one before it, which the server has.
    let offered = engine_provider(&[groups::SECP384R1, groups::MLKEM1024, groups::SECP256R1]);
    let without = engine_provider(&[groups::SECP256R1, groups::MLKEM1024]);
    let both = shake(&Arc::new(client(&offered, &chain)), &Arc::new(server(&without, &chain)));
    let expected = (NamedGroup::MLKEM1024, HandshakeKind::FullWithHelloRetryRequest);
    assert_eq!(agreed(&both.unwrap()), expected);
}

/// Without curves no peer gets one.
#[test]
fn peer_without_curves_rejects_curve_only_peers() {
    let chain = cheap();
    let curves = engine_provider(&[groups::X25519, groups::SECP256R1, groups::SECP384R1]);
    let strict = engine_provider(groups::POST_QUANTUM);
    for (a, b) in [(&strict, &curves), (&curves, &strict)] {
        let failed = shake(&Arc::new(client(a, &chain)), &Arc::new(server(b, &chain)));
        let failed = failed.err().unwrap();
        let expected = PeerIncompatible::NoKxGroupsInCommon;
        assert_eq!(failed.server, Some(Error::PeerIncompatible(expected)));
        let heard = Error::AlertReceived(AlertDescription::HandshakeFailure);
        assert_eq!(failed.client, Some(heard));
    }
    let aws_lc_provider = aws_lc_provider();
    for (a, b) in [(&strict, &aws_lc_provider), (&aws_lc_provider, &strict)] {
        let both = shake(&Arc::new(client(a, &chain)), &Arc::new(server(b, &chain)));
        assert_eq!(agreed(&both.unwrap()).0, NamedGroup::X25519MLKEM768);
    }
}

/// The first group that both sides have is post-quantum, whichever side is ours.
#[test]
fn the_default_is_a_hybrid() {
    let (chain, engine_provider, aws_lc_provider) =
        (cheap(), Arc::new(gabion_rustls::provider()), aws_lc_provider());
    for (a, b) in [
        (&engine_provider, &engine_provider),
        (&engine_provider, &aws_lc_provider),
        (&aws_lc_provider, &engine_provider),
    ] {
        let both = shake(&Arc::new(client(a, &chain)), &Arc::new(server(b, &chain))).unwrap();
        assert_eq!(agreed(&both), (NamedGroup::X25519MLKEM768, HandshakeKind::Full));
    }
    assert!(!engine_provider.fips());
}
