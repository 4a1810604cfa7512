//! LMS and HSS on the device against the portable backend: nodes of trees, and signatures of every set with every part of
//! them changed.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::time::Instant;

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Hss, Operation};
use gabion_cuda_emulator::{SelectedBackend, selected_backend};
use gabion_scheme::Status;
use gabion_scheme::lms::{
    Generation, LM_OTS, LMS, Levels, LmOts, Lms, Scratch, VerifyKey, generate,
    testing_only_signatures,
};

type Sets = (&'static Lms, &'static LmOts);

fn device(slot_bytes: usize) -> SelectedBackend {
    selected_backend(slot_bytes).unwrap()
}

fn run(backend: &dyn Backend, hss: Hss<'_>, lanes: usize) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation: Operation::Hss(hss), status: &mut status };
    batch.check().unwrap();
    (backend.run(&mut batch), status)
}

/// Bytes that differ from call to call.
fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

fn id() -> [u8; 16] {
    let bytes = random(16);
    std::array::from_fn(|at| bytes[at])
}

/// Trees of so many levels with all one-time signatures of their hash function.
fn sets_with(heights: &[u32]) -> Vec<Sets> {
    let fits = |lms: &Lms, ots: &LmOts| (lms.family, lms.n) == (ots.family, ots.n);
    let trees = LMS.iter().filter(|lms| heights.contains(&lms.h));
    trees
        .flat_map(|lms| LM_OTS.iter().filter(|ots| fits(lms, ots)).map(move |ots| (lms, ots)))
        .collect()
}

/// So many nodes from one on, by a backend.
fn nodes(
    backend: &dyn Backend,
    levels: &Levels,
    seed: &[u8],
    (first, count): (usize, usize),
) -> Vec<u8> {
    let mut making = Generation::new(levels.clone(), &[0x3d; 16], seed).unwrap();
    let mut piece = making.span(usize::MAX).unwrap().split_at(first).1.split_at(count).0;
    let (ran, status) = run(backend, Hss::Nodes { piece: piece.reborrow() }, count);
    assert_eq!((ran, status), (BatchOutcome::Done, vec![Status::Ok; count]));
    piece.job().output.to_vec()
}

#[test]
fn nodes_are_those_of_the_portable_backend() {
    let (cuda, portable) = (device(16 << 20), Cpu::new(Portable));
    for (lms, ots) in sets_with(&[5, 10, 20]) {
        // Of the highest trees the portable backend is to work out as few leaves as it can: 32 of one node.
        if lms.h == 20 && ots.w == 8 {
            continue;
        }
        let levels = Levels::new(&[(lms, ots)]).unwrap();
        let seed = random(lms.n);
        let row = 1 << lms.h.min(15);
        let range = (row - 3, if lms.h == 20 { 1 } else { 3 });
        let expected = nodes(&portable, &levels, &seed, range);
        assert_eq!(nodes(&cuda, &levels, &seed, range), expected, "{} {}", lms.name, ots.name);
    }
}

/// Keys of a million leaves, some of which the portable backend makes too. Prints how long they take.
#[test]
#[ignore = "a second of a GPU, an hour of a processor"]
fn keys_of_a_high_tree() {
    let cuda = device(256 << 20);
    for (lms, ots) in sets_with(&[20]).into_iter().filter(|(lms, ots)| lms.n == 32 && ots.w > 2) {
        let levels = Levels::new(&[(lms, ots)]).unwrap();
        let seed = random(lms.n);
        nodes(&cuda, &levels, &seed, (0, 6 << 5));
        let row = 1 << 15;
        let started = Instant::now();
        let made = nodes(&cuda, &levels, &seed, (0, row));
        println!("{} {}: {:?}", lms.name, ots.name, started.elapsed());
        for at in [0, row / 3, row - 1] {
            let expected = nodes(&Cpu::new(Portable), &levels, &seed, (at, 1));
            assert_eq!(made[at * lms.n..][..lms.n], expected, "{}: node {at}", ots.name);
        }
    }
}

#[test]
fn nodes_of_a_sector_and_of_a_tree_of_which_less_is_kept() {
    let (cuda, portable) = (device(16 << 20), Cpu::new(Portable));
    let one = || Levels::new(&[(&LMS[1], &LM_OTS[2])]).unwrap();
    let seed = random(32);
    for levels in [one().sector(8, 5, &[]).unwrap(), one().with_whole_levels(8)] {
        let range = (61, 3);
        let expected = nodes(&portable, &levels, &seed, range);
        assert_eq!(nodes(&cuda, &levels, &seed, range), expected, "{levels:?}");
    }
}

#[test]
fn a_key_of_nodes_is_that_of_the_portable_backend() {
    let levels = Levels::new(&[(&LMS[1], &LM_OTS[5])]);
    assert!(levels.is_err(), "sets of two hash functions");
    let levels = Levels::new(&[(&LMS[6], &LM_OTS[5])]).unwrap();
    let (id, seed) = (id(), random(24));
    let expected = generate(&Portable, levels.clone(), &id, &seed, &mut Scratch::new()).unwrap();
    // Some forty leaves fit into a slot, so that there are several chunks.
    let cuda = device(100 << 10);
    let mut making = Generation::new(levels, &id, &seed).unwrap();
    let pieces = usize::MAX;
    let mut piece = making.span(pieces).unwrap();
    let lanes = piece.nodes();
    assert_eq!(run(&cuda, Hss::Nodes { piece: piece.reborrow() }, lanes).0, BatchOutcome::Done);
    making.close(&Portable, pieces);
    let key = making.finish().unwrap();
    assert_eq!(key.verify_key().bytes(), expected.verify_key().bytes());
}

/// A lane of a batch.
#[derive(Clone)]
struct Lane {
    key: VerifyKey,
    message: Vec<u8>,
    signature: Vec<u8>,
}

/// A signature of HSS with a tree a level, the top one first.
fn make_signatures(levels: &[Sets], message: &[u8]) -> Lane {
    let mut signature = Vec::new();
    let mut below = message.to_vec();
    for &(lms, ots) in levels.iter().rev() {
        let leaves = 1u64 << lms.h;
        let q = u64::from(random(1)[0]) * (leaves - 1) / 255;
        let signs_key = !signature.is_empty();
        let (key, own) =
            testing_only_signatures(&Portable, (lms, ots), q as u32, &[&below], &mut random);
        let public = if signs_key { &below[..] } else { &[] };
        signature = [&own[0], public, &signature].concat();
        below = key;
    }
    let above = (levels.len() as u32 - 1).to_be_bytes();
    let key = [&(levels.len() as u32).to_be_bytes(), &below[..]].concat();
    let key = VerifyKey::decode(&key).unwrap();
    Lane { key, message: message.to_vec(), signature: [&above[..], &signature].concat() }
}

/// The verdicts of both backends, which are the same.
fn verify(cuda: &dyn Backend, lanes: &[Lane]) -> Vec<Status> {
    let keys: Vec<_> = lanes.iter().map(|lane| &lane.key).collect();
    let messages: Vec<_> = lanes.iter().map(|lane| &lane.message[..]).collect();
    let signatures: Vec<_> = lanes.iter().map(|lane| &lane.signature[..]).collect();
    let [(ran, status), (_, expected)] = [cuda, &Cpu::new(Portable)].map(|backend| {
        let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
        run(backend, Hss::Verify { keys, messages, signatures }, lanes.len())
    });
    assert_eq!(ran, BatchOutcome::Done);
    assert_eq!(status, expected);
    status
}

#[test]
fn signatures_of_every_set() {
    let cuda = device(16 << 20);
    let sets = sets_with(&[5, 10, 15, 20, 25]);
    let mut lanes: Vec<_> =
        (0..).zip(&sets).map(|(at, &sets)| make_signatures(&[sets], &random(41 * at))).collect();
    let status = verify(&cuda, &lanes);
    assert_eq!(status, vec![Status::Ok; sets.len()]);
    for lane in &mut lanes {
        lane.message.push(0);
    }
    let status = verify(&cuda, &lanes);
    assert_eq!(status, vec![Status::InvalidSignature; sets.len()]);
}

#[test]
fn signatures_of_several_levels() {
    let cuda = device(16 << 20);
    let of = |family: usize| -> Vec<Sets> {
        // Other sets in every level, up to eight.
        (0..8).map(|at| (&LMS[5 * family + at % 3], &LM_OTS[4 * family + (at + 1) % 4])).collect()
    };
    let mut lanes = Vec::new();
    for family in 0..4 {
        let levels = of(family);
        lanes.extend((1..=8).map(|count| make_signatures(&levels[..count], &random(100 * count))));
    }
    let status = verify(&cuda, &lanes);
    assert_eq!(status, vec![Status::Ok; lanes.len()]);
    // A bit somewhere in each, of whatever level.
    for lane in &mut lanes {
        let place = random(4).iter().fold(0, |place, &byte| place << 8 | usize::from(byte));
        let bit = place % (8 * lane.signature.len());
        lane.signature[bit / 8] ^= 1 << (bit % 8);
    }
    let status = verify(&cuda, &lanes);
    assert_eq!(status, vec![Status::InvalidSignature; lanes.len()]);
}

#[test]
fn a_bit_anywhere_makes_a_signature_bad() {
    let cuda = device(4 << 20);
    for sets in sets_with(&[10]) {
        let mut lanes = vec![make_signatures(&[sets], b"message"); 60];
        for (at, lane) in lanes.iter_mut().enumerate().skip(6) {
            let bit = at * 8 * lane.signature.len() / 60 + at % 8;
            lane.signature[bit / 8] ^= 1 << (bit % 8);
        }
        lanes[1].message[3] ^= 0x80;
        lanes[2].signature.pop();
        lanes[3].signature.push(0);
        lanes[4].signature.clear();
        let mut key = lanes[5].key.bytes().to_vec();
        key[20] ^= 1;
        lanes[5].key = VerifyKey::decode(&key).unwrap();
        let status = verify(&cuda, &lanes);
        assert!(status[0].is_ok(), "{}", sets.1.name);
        assert!(status[1..].iter().all(|status| *status == Status::InvalidSignature));
    }
}

#[test]
fn signatures_in_several_chunks_and_one_that_does_not_fit() {
    let mut lanes: Vec<_> =
        (0..40).map(|at| make_signatures(&[(&LMS[0], &LM_OTS[3])], &random(at))).collect();
    lanes[17].signature[500] ^= 4;
    let status = verify(&device(32 << 10), &lanes);
    let bad: Vec<_> = (0..lanes.len()).filter(|&lane| !status[lane].is_ok()).collect();
    assert_eq!(bad, [17]);
    lanes[3].message = vec![7; 32 << 10];
    let keys: Vec<_> = lanes.iter().map(|lane| &lane.key).collect();
    let messages: Vec<_> = lanes.iter().map(|lane| &lane.message[..]).collect();
    let signatures: Vec<_> = lanes.iter().map(|lane| &lane.signature[..]).collect();
    let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
    let (ran, status) =
        run(&device(32 << 10), Hss::Verify { keys, messages, signatures }, lanes.len());
    assert_eq!((ran, status), (BatchOutcome::Declined, vec![Status::NotRun; lanes.len()]));
}
