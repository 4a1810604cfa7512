//! Private keys that signing uses up.

use std::num::NonZero;
use std::ops::ControlFlow;

use gabion_engine::Engine;
use gabion_engine::keys::stateful;
use gabion_engine::keys::stateful::hss::{HssSecret, Levels, Progress, StatefulKey};
use gabion_engine::keys::stateful::xmss::XmssSecret;
use gabion_engine::lms::{LmOts, Lms};
use gabion_engine::xmss::Set;
use sha2::{Digest, Sha256};

use super::{Of, Recorded, publish, record, watched};

/// A key of two levels over the border of a lower tree, closed with its trees and opened again; the seeds that the
/// lower trees have, which nobody but the signer sees.
fn run_hss(engine: &'static Engine, public: &mut Vec<u8>) {
    let set =
        |lms, ots| (Lms::of_typecode(lms).expect("a set"), LmOts::of_typecode(ots).expect("a set"));
    let levels = Levels::new(&[set(5, 4), set(5, 4)]).expect("sets that fit each other");
    let secret = HssSecret::draw(levels, &Recorded).expect("randomness");
    let encoded = secret.encode();
    let (id, seed) = (&encoded[encoded.len() - 16..], &encoded[encoded.len() - 48..][..32]);
    record(seed);
    for q in 0u32..3 {
        let mut of_child = [id, &q.to_be_bytes(), &[0xff, 0xfe, 0xff], seed].concat();
        record(&Sha256::digest(&of_child));
        gabion_engine::ct::wipe(&mut of_child); // The test's own copy.
    }
    let threads = NonZero::<usize>::MIN.saturating_add(1);
    let secret = &HssSecret::decode(&encoded).expect("what it wrote");
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let made = StatefulKey::generate(engine, secret, &[], threads, &mut go_on);
    let mut key = made.expect("keygen").expect("nobody stopped it");
    let messages = [&b"zeroise this"[..]; 34];
    key.testing_only_sign_at(0, &messages)
        .expect("sign")
        .iter()
        .for_each(|sig| publish(public, sig));
    let (bytes, trees) = (key.verify_key().bytes().to_vec(), key.trees());
    drop(key);
    let opened = StatefulKey::open(engine, secret, &bytes, &trees, 34, threads);
    let mut key = opened.expect("a key that was closed");
    let sigs = key.testing_only_sign_at(34, &messages[..1]).expect("sign");
    publish(public, &sigs[0]);
}

/// The same of four layers of XMSS^MT, whose trees are all of one seed.
fn run_xmss(engine: &'static Engine, public: &mut Vec<u8>) {
    let set = Set::of_name("XMSSMT-SHA2_20/4_256").expect("a set");
    let secret = XmssSecret::draw(set, &Recorded).expect("randomness");
    let encoded = secret.encode();
    let (secrets, seed) = encoded[4..].split_at(64);
    record(&secrets[..32]);
    record(&secrets[32..]);
    publish(public, seed);
    let threads = NonZero::<usize>::MIN.saturating_add(1);
    let secret = &XmssSecret::decode(set.scheme, &encoded).expect("what it wrote");
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let made = stateful::StatefulKey::generate(engine, secret, &[], threads, &mut go_on);
    let mut key = made.expect("keygen").expect("nobody stopped it");
    let messages = [&b"zeroise this"[..]; 34];
    key.testing_only_sign_at(0, &messages)
        .expect("sign")
        .iter()
        .for_each(|sig| publish(public, sig));
    let (bytes, trees) = (key.verify_key().bytes().to_vec(), key.trees());
    drop(key);
    let opened = stateful::StatefulKey::open(engine, secret, &bytes, &trees, 34, threads);
    let mut key = opened.expect("a key that was closed");
    let sigs = key.testing_only_sign_at(34, &messages[..1]).expect("sign");
    publish(public, &sigs[0]);
}

#[test]
fn freed_memory_holds_no_secret_of_hss() {
    let hits = watched(Of::Keys, run_hss);
    assert_eq!(hits, [], "(size, place) in freed blocks");
}

#[test]
fn freed_memory_holds_no_secret_of_xmss() {
    let hits = watched(Of::Keys, run_xmss);
    assert_eq!(hits, [], "(size, place) in freed blocks");
}
