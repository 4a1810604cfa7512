//! Resumption and early data.

use std::io::{Read, Write};
use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_rustls::testing::{Key, chain};
use rustls::{ClientConfig, HandshakeKind, ServerConfig};

use super::pair::{client, connect, engine_provider, exchange, server, shake};

fn configs(early: u32) -> (ClientConfig, ServerConfig) {
    let provider = engine_provider(gabion_rustls::groups::DEFAULT);
    let chain = chain(Key::Engine(Algorithm::MlDsa44), 0);
    let (mut client, mut server) = (client(&provider, &chain), server(&provider, &chain));
    client.enable_early_data = true;
    server.max_early_data_size = early;
    (client, server)
}

/// By the server's store, and by tickets that it encrypts.
#[test]
fn sessions_are_resumed() {
    for by_tickets in [false, true] {
        let (client, mut server) = configs(0);
        if by_tickets {
            server.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        }
        let (client, server) = (Arc::new(client), Arc::new(server));
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
            let both = shake(&client, &server).unwrap();
            assert_eq!(both.0.handshake_kind(), Some(expected));
            // Resumed or not, a fresh secret is agreed on.
            let group = both.1.negotiated_key_exchange_group().unwrap();
            assert_eq!(group.name(), rustls::NamedGroup::X25519MLKEM768);
        }
    }
}

#[test]
fn early_data_is_taken_or_refused() {
    let (client, taking) = configs(1000);
    // The same store of sessions, and no early data.
    let mut refusing = taking.clone();
    refusing.max_early_data_size = 0;
    let client = Arc::new(client);
    let (taking, refusing) = (Arc::new(taking), Arc::new(refusing));
    for (server, is_taken) in [(&taking, true), (&refusing, false)] {
        shake(&client, &taking).unwrap();
        let mut both = connect(&client, server);
        both.0.early_data().unwrap().write_all(b"early").unwrap();
        exchange(&mut both).unwrap();
        assert_eq!(both.0.is_early_data_accepted(), is_taken);
        assert_eq!(both.1.handshake_kind(), Some(HandshakeKind::Resumed));
        let mut read = Vec::new();
        if let Some(mut early) = both.1.early_data() {
            early.read_to_end(&mut read).unwrap();
        }
        assert_eq!(read, if is_taken { &b"early"[..] } else { b"" });
        // The connection goes on, either way.
        both.0.writer().write_all(b"late").unwrap();
        exchange(&mut both).unwrap();
        let mut late = [0; 4];
        both.1.reader().read_exact(&mut late).unwrap();
        assert_eq!(&late, b"late");
    }
}
