//! Private keys that signing uses up.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_backend::portable::Portable;
use gabion_engine::keys::stateful;
use gabion_engine::keys::stateful::hss::{HssSecret, Levels, Progress, StatefulKey};
use gabion_engine::keys::stateful::xmss::XmssSecret;
use gabion_engine::lms::{LmOts, Lms};
use gabion_engine::xmss::{self, Set};
use gabion_engine::{Engine, Entropy};
use gabion_scheme::kernels::xmss::{self as chains, XmssAddress, address_type};
use gabion_tests::observer::{KernelObserver, ObservedKernels};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{RecordingEntropy, SecretSource, engines, publish, record, watched, watched_on};

/// Runs a key of two levels over the border of a lower tree, closed with its trees and reopened;
/// the seeds of the lower trees are visible to the signer only.
fn run_hss(engine: &'static Engine, public: &mut Vec<u8>) {
    let set = |lms, ots| {
        (Lms::from_typecode(lms).expect("a set"), LmOts::from_typecode(ots).expect("a set"))
    };
    let levels = Levels::new(&[set(5, 4), set(5, 4)]).expect("sets that fit each other");
    let secret = HssSecret::draw(levels, &RecordingEntropy).expect("randomness");
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

/// Runs four layers of XMSS^MT, whose trees all derive from one seed.
fn run_xmss(engine: &'static Engine, public: &mut Vec<u8>) {
    let set = Set::from_name("XMSSMT-SHA2_20/4_256").expect("a set");
    let secret = XmssSecret::draw(set, &RecordingEntropy).expect("randomness");
    let encoded = secret.encode();
    let (secrets, seed) = encoded[4..].split_at(64);
    record(&secrets[..32]);
    record(&secrets[32..]);
    publish(public, seed);
    // Where the chains of leaf 8 of the second tree begin, which is made and never signs (SP 800-208, section 6.2).
    for chain in 0..67 {
        let address = XmssAddress::new(0, 1, address_type::OTS);
        let address = address.with(XmssAddress::KEY_PAIR, 8).with(XmssAddress::CHAIN, chain);
        let prefix = [&[0; 31][..], &[4]].concat();
        let mut input = [&prefix, &secrets[..32], seed, &address.bytes()].concat();
        record(&Sha256::digest(&input));
        gabion_engine::ct::wipe(&mut input); // The test's own copy.
    }
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

/// Records where chains begin, and panics.
struct PanickingKernels;

impl KernelObserver for PanickingKernels {
    fn xmss_secrets(&self, jobs: &mut [chains::XmssSecret<'_>]) {
        jobs.iter().for_each(|job| record(job.output));
        panic!("on purpose");
    }
}

/// Leaves of XMSS, of which a kernel makes the secrets and then panics.
fn panic_in_xmss(public: &mut Vec<u8>) {
    let set = Set::from_name("XMSS-SHA2_10_256").expect("a set");
    let mut seeds = Zeroizing::new(vec![0; 3 * set.n]);
    RecordingEntropy.fill(&mut seeds).expect("randomness");
    publish(public, &seeds[2 * set.n..]); // SEED
    let kernels = ObservedKernels { inner: Portable, touch: PanickingKernels };
    let mut scratch = xmss::Scratch::new();
    let made = AssertUnwindSafe(|| xmss::generate(&kernels, set, &seeds, &mut scratch));
    assert!(catch_unwind(made).is_err(), "no kernel panicked");
}

#[test]
fn freed_memory_holds_no_secret_of_hss() {
    let hits = watched(SecretSource::Keys, run_hss);
    assert_eq!(hits, [], "(size, place) in freed blocks");
}

#[test]
fn freed_memory_holds_no_secret_of_xmss() {
    let hits = watched(SecretSource::Keys, run_xmss);
    assert_eq!(hits, [], "(size, place) in freed blocks");
}

#[test]
fn freed_memory_holds_no_secret_of_xmss_after_a_panic() {
    let hits = watched_on(&engines()[0], SecretSource::Keys, |_, public| panic_in_xmss(public));
    assert_eq!(hits, [], "(size, place) in freed blocks");
}
