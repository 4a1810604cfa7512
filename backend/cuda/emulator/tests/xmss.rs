//! XMSS and XMSS^MT on the device against the portable backend: nodes of trees, and signatures of every set with every
//! part of them changed.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::time::Instant;

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Operation, Xmss};
use gabion_cuda_emulator::{SelectedBackend, selected_backend};
use gabion_scheme::Status;
use gabion_scheme::xmss::{Generation, Piece, Scheme, Set, VerifyKey, generate};
use gabion_scheme::xmss::{Scratch, testing_only_signatures};

const SCHEMES: [Scheme; 2] = [Scheme::Xmss, Scheme::XmssMt];

fn device(slot_bytes: usize) -> SelectedBackend {
    selected_backend(slot_bytes).unwrap()
}

fn run(backend: &dyn Backend, xmss: Xmss<'_>, lanes: usize) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation: Operation::Xmss(xmss), status: &mut status };
    batch.check().unwrap();
    (backend.run(&mut batch), status)
}

/// Bytes that differ from call to call.
fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

fn sets() -> impl Iterator<Item = &'static Set> {
    SCHEMES.into_iter().flat_map(Scheme::sets)
}

/// So many nodes from one on, by a backend.
fn nodes(
    backend: &dyn Backend,
    set: &'static Set,
    seeds: &[u8],
    first: usize,
    count: usize,
) -> Vec<u8> {
    let mut making = Generation::new(set, seeds).unwrap();
    let all: Piece<'_> = making.span(usize::MAX).unwrap();
    let mut piece = all.split_at(first).1.split_at(count).0;
    let xmss = Xmss::Nodes { scheme: set.scheme, piece: piece.reborrow() };
    let (ran, status) = run(backend, xmss, count);
    assert_eq!((ran, status), (BatchOutcome::Done, vec![Status::Ok; count]), "{}", set.name);
    piece.job().output.to_vec()
}

#[test]
fn nodes_are_those_of_the_portable_backend() {
    let (cuda, portable) = (device(16 << 20), Cpu::new(Portable));
    // Trees that are kept whole, and those of which subtrees are; of XMSS^MT the top one, which is of another layer.
    let heights = |set: &&Set| match set.scheme {
        Scheme::Xmss => true,
        Scheme::XmssMt => set.h == 60 && set.d != 6,
    };
    for set in sets().filter(|set| set.can_sign()).filter(heights) {
        let seeds = random(3 * set.n);
        let row = 1 << set.tree_height().min(15);
        let (first, count) = (row - 3, if set.tree_height() > 16 { 2 } else { 3 });
        let expected = nodes(&portable, set, &seeds, first, count);
        assert_eq!(nodes(&cuda, set, &seeds, first, count), expected, "{}", set.name);
    }
}

#[test]
fn a_key_of_nodes_is_that_of_the_portable_backend() {
    let set = Set::from_name("XMSS-SHA2_10_192").unwrap();
    let seeds = random(3 * set.n);
    let expected = generate(&Portable, set, &seeds, &mut Scratch::new()).unwrap();
    // Some 160 leaves fit into a slot, so that there are several chunks.
    let cuda = device(200 << 10);
    let mut making = Generation::new(set, &seeds).unwrap();
    let pieces = usize::MAX;
    let mut piece = making.span(pieces).unwrap();
    let lanes = piece.nodes();
    let xmss = Xmss::Nodes { scheme: set.scheme, piece: piece.reborrow() };
    assert_eq!(run(&cuda, xmss, lanes).0, BatchOutcome::Done);
    making.close(&Portable, pieces);
    let key = making.finish().unwrap();
    assert_eq!(key.verify_key().bytes(), expected.verify_key().bytes());
}

/// A key of a million leaves, some of which the portable backend makes too. Prints how long it takes.
#[test]
#[ignore = "a second of a GPU, an hour of a processor"]
fn a_key_of_the_highest_tree() {
    for name in ["XMSS-SHA2_20_256", "XMSS-SHA2_20_192", "XMSS-SHAKE256_20_256"] {
        let set = Set::from_name(name).unwrap();
        let (seeds, cuda) = (random(3 * set.n), device(256 << 20));
        nodes(&cuda, set, &seeds, 0, 6 << 5);
        let row = 1 << 15;
        let started = Instant::now();
        let made = nodes(&cuda, set, &seeds, 0, row);
        println!("{name}: {row} nodes above {} leaves in {:?}", row << 5, started.elapsed());
        for at in [0, row / 3, row - 1] {
            let expected = nodes(&Cpu::new(Portable), set, &seeds, at, 1);
            assert_eq!(made[at * set.n..][..set.n], expected, "{name}: node {at}");
        }
    }
}

#[test]
fn nodes_of_a_set_that_does_not_fit_are_declined_and_untouched() {
    let set = Set::from_name("XMSS-SHA2_20_256").unwrap();
    let mut making = Generation::new(set, &random(3 * set.n)).unwrap();
    let mut piece = making.span(1).unwrap();
    let lanes = piece.nodes();
    let xmss = Xmss::Nodes { scheme: set.scheme, piece: piece.reborrow() };
    let (ran, status) = run(&device(40 << 10), xmss, lanes);
    assert_eq!((ran, status), (BatchOutcome::Declined, vec![Status::NotRun; lanes]));
    assert!(piece.job().output.iter().all(|&byte| byte == 0));
}

/// A lane of a batch.
#[derive(Clone)]
struct Lane {
    key: VerifyKey,
    message: Vec<u8>,
    signature: Vec<u8>,
}

/// Signatures of messages of all lengths by one key.
fn make_signatures(set: &'static Set, index: u64, count: usize) -> Vec<Lane> {
    let messages: Vec<_> = (0..count).map(|at| random(97 * at)).collect();
    let all: Vec<_> = messages.iter().map(Vec::as_slice).collect();
    let (key, signatures) = testing_only_signatures(&Portable, set, index, &all, &mut random);
    let key = VerifyKey::decode(set.scheme, &key).unwrap();
    let lanes = messages.into_iter().zip(signatures);
    lanes.map(|(message, signature)| Lane { key: key.clone(), message, signature }).collect()
}

/// The verdicts of both backends, which are the same.
fn verify(cuda: &dyn Backend, scheme: Scheme, lanes: &[Lane]) -> Vec<Status> {
    let keys: Vec<_> = lanes.iter().map(|lane| &lane.key).collect();
    let messages: Vec<_> = lanes.iter().map(|lane| &lane.message[..]).collect();
    let signatures: Vec<_> = lanes.iter().map(|lane| &lane.signature[..]).collect();
    let [(ran, status), (_, expected)] = [cuda, &Cpu::new(Portable)].map(|backend| {
        let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
        run(backend, Xmss::Verify { scheme, keys, messages, signatures }, lanes.len())
    });
    assert_eq!(ran, BatchOutcome::Done);
    assert_eq!(status, expected);
    status
}

/// Signatures of each set, one of which is for the key of another lane.
#[test]
fn signatures_of_every_set() {
    let cuda = device(16 << 20);
    for scheme in SCHEMES {
        let mut lanes = Vec::new();
        for (at, set) in (0..).zip(scheme.sets()) {
            // The first and the last leaf, and others.
            let last = set.signatures() - 1;
            let index = [0, last, last / 3, 5 * last / 7][at % 4];
            lanes.extend(make_signatures(set, index, 1 + at % 2));
        }
        let status = verify(&cuda, scheme, &lanes);
        assert!(status.iter().all(|status| status.is_ok()), "{scheme:?}: {status:?}");
        // Another lane's message, and a byte behind it.
        let mut others: Vec<_> = lanes.iter().step_by(5).cloned().collect();
        for (lane, other) in others.iter_mut().zip(&lanes[1..]) {
            lane.message.clone_from(&other.message);
            lane.message.push(1);
        }
        let status = verify(&cuda, scheme, &others);
        assert_eq!(status, vec![Status::InvalidSignature; others.len()]);
    }
}

#[test]
fn a_bit_anywhere_makes_a_signature_bad() {
    let cuda = device(4 << 20);
    let names = [
        "XMSS-SHA2_10_192",
        "XMSS-SHA2_16_256",
        "XMSS-SHA2_10_512",
        "XMSS-SHAKE_10_256",
        "XMSS-SHAKE256_20_192",
        "XMSS-SHAKE256_10_256",
        "XMSS-SHAKE_10_512",
        "XMSSMT-SHA2_40/4_256",
        "XMSSMT-SHAKE256_60/6_192",
    ];
    for name in names {
        let set = Set::from_name(name).unwrap();
        let mut lanes = vec![make_signatures(set, set.signatures() / 5, 2).remove(1); 60];
        for (at, lane) in lanes.iter_mut().enumerate().skip(6) {
            let bit = at * 8 * lane.signature.len() / 60 + at % 8;
            lane.signature[bit / 8] ^= 1 << (bit % 8);
        }
        lanes[1].message[96] ^= 0x80;
        lanes[2].signature.pop();
        lanes[3].signature.push(0);
        lanes[4].signature.clear();
        let mut key = lanes[5].key.bytes().to_vec();
        *key.last_mut().unwrap() ^= 1;
        lanes[5].key = VerifyKey::decode(set.scheme, &key).unwrap();
        let status = verify(&cuda, set.scheme, &lanes);
        assert!(status[0].is_ok(), "{name}");
        assert!(status[1..].iter().all(|status| *status == Status::InvalidSignature), "{name}");
    }
}

#[test]
fn signatures_in_several_chunks_and_one_that_does_not_fit() {
    let set = Set::from_name("XMSS-SHA2_10_256").unwrap();
    let mut lanes = make_signatures(set, 1023, 40);
    lanes[17].signature[2000] ^= 4;
    // Three signatures, their canary and their values are 40 KiB.
    let status = verify(&device(48 << 10), Scheme::Xmss, &lanes);
    let bad: Vec<_> = (0..lanes.len()).filter(|&lane| !status[lane].is_ok()).collect();
    assert_eq!(bad, [17]);
    lanes[3].message = vec![7; 48 << 10];
    let (keys, messages): (Vec<_>, Vec<_>) =
        lanes.iter().map(|lane| (&lane.key, &lane.message[..])).unzip();
    let signatures: Vec<_> = lanes.iter().map(|lane| &lane.signature[..]).collect();
    let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
    let verify = Xmss::Verify { scheme: Scheme::Xmss, keys, messages, signatures };
    let (ran, status) = run(&device(48 << 10), verify, lanes.len());
    assert_eq!((ran, status), (BatchOutcome::Declined, vec![Status::NotRun; lanes.len()]));
}
