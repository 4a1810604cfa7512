//! Key generation and signing of LMS and HSS: every set, every border between trees, batches against single
//! signatures, keys made in pieces, exhaustion, how evenly work is spread, and one wrong hash anywhere.
//!
//! Trees of height 5, and some of height 10: higher ones take minutes to make. The storage of high
//! trees, without the subtrees at their bottom, is tested on low ones with a low limit.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_backend::portable::Portable;
use gabion_scheme::error::{Error, Status};
use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::kem::{KemNoise, KemUniform};
use gabion_scheme::kernels::lms::{LmsChain, LmsHash, LmsLeaves, leaves};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};
use gabion_scheme::lms::{self, Generation, LM_OTS, LMS, Levels, Scratch, SigningKey, StoredTree};

gabion_tests::on_every_backend!(
    every_set_signs,
    borders_between_trees,
    batches_are_single_signatures,
    subtrees_at_the_bottom,
    keys_made_in_pieces,
    keys_opened_again,
);

/// Sets by their places in the tables, the top first.
fn levels(sets: &[(usize, usize)]) -> Levels {
    let sets: Vec<_> = sets.iter().map(|&(lms, ots)| (&LMS[lms], &LM_OTS[ots])).collect();
    Levels::new(&sets).expect("sets that fit each other")
}

/// H5 and W1: the quickest tree; H10 and W1.
const H5_W1: (usize, usize) = (0, 0);
const H10_W1: (usize, usize) = (1, 0);
const H5_W4: (usize, usize) = (0, 2);

fn seed(levels: &Levels) -> Vec<u8> {
    (0..levels.n() as u8).map(|i| i.wrapping_mul(7)).collect()
}

fn key<K: Kernels>(k: &K, levels: &Levels) -> SigningKey {
    let seed = seed(levels);
    lms::generate(k, levels.clone(), &[5; 16], &seed, &mut Scratch::new()).expect("a key")
}

fn sign<K: Kernels>(
    k: &K,
    key: &mut SigningKey,
    index: u64,
    messages: &[&[u8]],
) -> Result<Vec<u8>, Error> {
    let mut signatures = vec![1; messages.len() * key.levels().signature_len()];
    let result = key.sign(k, index, messages, &mut signatures, &mut Scratch::new());
    assert!(result.is_ok() || signatures.iter().all(|byte| *byte == 0), "nothing is left of it");
    result.map(|()| signatures)
}

fn verdict<K: Kernels>(k: &K, key: &SigningKey, message: &[u8], signature: &[u8]) -> Status {
    let mut status = [Status::NotRun];
    let key = key.verify_key();
    lms::verify(k, &[key], &[message], &[signature], &mut status, &mut Scratch::new());
    status[0]
}

/// All 32 pairs of sets that are of one hash function, with trees 5 high; signatures as the portable kernels
/// make them.
fn every_set_signs<K: Kernels>(k: &K) {
    for (lms, tree) in LMS.iter().enumerate().filter(|(_, tree)| tree.h == 5) {
        for (ots, set) in LM_OTS.iter().enumerate() {
            if (tree.family, tree.n) != (set.family, set.n) {
                continue;
            }
            let levels = levels(&[(lms, ots)]);
            let mut key = key(k, &levels);
            let message = [3; 70];
            let signature = sign(k, &mut key, 21, &[&message]).expect("a signature");
            assert_eq!(verdict(k, &key, &message, &signature), Status::Ok, "{}", set.name);
            assert_ne!(verdict(k, &key, &message[1..], &signature), Status::Ok, "{}", set.name);
            if set.w < 8 || set.name.contains("SHA256") {
                let mut other = self::key(&Portable, &levels);
                assert_eq!(other.verify_key(), key.verify_key());
                assert!(sign(&Portable, &mut other, 21, &[&message]).expect("one") == signature);
            }
        }
    }
}

/// Every index of two levels, and of three those around the end of a tree of each level: each verifies, and
/// is what a key that has just been made gives (liboqs issue 1966).
fn borders_between_trees<K: Kernels>(k: &K) {
    let two = levels(&[H5_W1; 2]);
    let mut in_order = key(k, &two);
    for index in 0..1024 {
        let message = [index as u8, (index >> 8) as u8];
        let signature = sign(k, &mut in_order, index, &[&message]).expect("a signature");
        assert_eq!(verdict(k, &in_order, &message, &signature), Status::Ok, "{index}");
        if index % 32 < 2 || index % 97 == 0 {
            let again = sign(k, &mut key(k, &two), index, &[&message]).expect("a signature");
            assert!(again == signature, "{index}");
        }
    }
    assert_eq!(sign(k, &mut in_order, 1024, &[b""]), Err(Error::Exhausted { most: 1024 }));
    let three = levels(&[H5_W1; 3]);
    let mut key = key(k, &three);
    // Forwards over borders of one level and of two, over unused indexes, to the end, and back.
    for range in [0..34, 1022..1026, 5000..5001, 32760..32768, 31..33] {
        for index in range {
            let signature = sign(k, &mut key, index, &[b"border"]).expect("a signature");
            assert_eq!(verdict(k, &key, b"border", &signature), Status::Ok, "{index}");
        }
    }
}

/// Many messages in one call, from the middle of a tree over two borders.
fn batches_are_single_signatures<K: Kernels>(k: &K) {
    let levels = levels(&[H5_W1; 3]);
    let texts: Vec<_> = (0..75u8).map(|i| vec![i; usize::from(i) * 3]).collect();
    let messages: Vec<_> = texts.iter().map(Vec::as_slice).collect();
    let many = sign(k, &mut key(k, &levels), 1000, &messages).expect("signatures");
    let mut key = key(k, &levels);
    let single = messages
        .iter()
        .zip(1000..)
        .flat_map(|(message, index)| sign(k, &mut key, index, &[message]).expect("a signature"));
    assert!(many.into_iter().eq(single));
    assert_eq!(sign(k, &mut key, 0, &[]), Ok(Vec::new()));
}

/// A tree of which little is kept makes the signatures of one that is kept whole: in order and out of it.
fn subtrees_at_the_bottom<K: Kernels>(k: &K) {
    for sets in [vec![H10_W1], vec![H5_W1; 3]] {
        let whole = levels(&sets);
        let mut keys = [3, 16].map(|kept| key(k, &whole.clone().with_whole_levels(kept)));
        for index in (0..70).chain([1000, 1023, 4, 513, 514, 600]) {
            let [little, all] = keys.each_mut().map(|key| sign(k, key, index, &[b"subtrees"]));
            assert!(little.is_ok() && little == all, "{index} of {} levels", sets.len());
        }
    }
}

/// A key made in waves of any number of pieces, in any order, and one that is gone on with.
fn keys_made_in_pieces<K: Kernels>(k: &K) {
    let (id, mut scratch) = ([5; 16], Scratch::new());
    for levels in [levels(&[H5_W1]), levels(&[H10_W1]), levels(&[H10_W1]).with_whole_levels(4)] {
        let whole = key(k, &levels);
        for count in [1, 3, 100] {
            let mut made = Generation::new(levels.clone(), &id, &seed(&levels)).expect("a key");
            loop {
                let mut pieces = made.wave(count);
                if pieces.is_empty() {
                    break;
                }
                assert!(pieces.len() <= count);
                for piece in pieces.iter_mut().rev() {
                    piece.run(k, &mut scratch).expect("memory");
                }
                drop(pieces);
                made.close(k, count);
                let row = made.row().to_vec();
                let rest = Generation::new(levels.clone(), &id, &seed(&levels)).expect("a key");
                assert_eq!(rest.progress().0, 0);
                let progress = made.progress();
                made = rest.resume(k, &row).expect("a row of its own");
                assert_eq!(made.progress(), progress);
            }
            let row = made.row().to_vec();
            let made = made.finish().expect("a key that is whole");
            assert_eq!(made.verify_key(), whole.verify_key());
            refused_rows(k, &levels, &row);
        }
    }
}

/// A key that is closed in the middle of trees and opened with what was kept makes the signatures that it would
/// have made, without the work; altered trees and those of another place are refused (bc-java issue 2414).
fn keys_opened_again<K: Kernels>(k: &K) {
    let (levels, mut scratch) = (levels(&[H5_W1; 3]), Scratch::new());
    for last in [0, 5, 31, 32 * 31 + 20, 1023, 32767] {
        let mut open = key(k, &levels);
        sign(k, &mut open, last, &[b"last"]).expect("a signature");
        let mut again = key(k, &levels);
        for kept in open.stored_trees().into_iter().filter(|kept| kept.level > 0) {
            let mut row = kept.row.to_vec();
            let other = StoredTree { number: kept.number ^ 1, ..kept };
            assert!(again.restore(k, other, &mut scratch).is_err(), "another tree's");
            if !kept.signed.is_empty() {
                row[40] ^= 1;
                let other = StoredTree { row: &row, ..kept };
                assert!(again.restore(k, other, &mut scratch).is_err(), "an altered row");
                let mut signed = kept.signed.to_vec();
                signed[100] ^= 1;
                let other = StoredTree { signed: &signed, ..kept };
                assert!(again.restore(k, other, &mut scratch).is_err(), "an altered signature");
            }
            again.restore(k, kept, &mut scratch).expect("what was kept");
        }
        let [one, two] = [&open, &again].map(|key| {
            let kept = key.stored_trees().into_iter();
            kept.map(|kept| (kept.level, kept.number, kept.row.to_vec(), kept.signed.to_vec()))
                .collect::<Vec<_>>()
        });
        assert!(one == two, "after {last}");
        for index in (last + 1..levels.signatures()).take(3) {
            let [one, two] = [&mut open, &mut again].map(|key| sign(k, key, index, &[b"next"]));
            assert!(one.is_ok() && one == two, "{index}");
        }
    }
    let mut other = key(k, &levels);
    for level in [0, 3, 9, usize::MAX] {
        let kept = StoredTree { level, number: 0, row: &[], signed: &[] };
        assert!(other.restore(k, kept, &mut scratch).is_err(), "level {level}");
    }
}

/// Rows that are no row, and keys that are not whole.
fn refused_rows<K: Kernels>(k: &K, levels: &Levels, row: &[u8]) {
    let begun = || Generation::new(levels.clone(), &[5; 16], &seed(levels)).expect("a key");
    assert!(begun().finish().is_err());
    assert!(begun().resume(k, &[row, &[0; 32]].concat()).is_err(), "a node too many");
    assert!(begun().resume(k, &row[..33]).is_err(), "a piece of a node");
    let short = begun().resume(k, &row[32..]).expect("nodes");
    assert!(short.finish().is_err(), "a node too few");
    let mut wrong = row.to_vec();
    wrong[40] ^= 1;
    let wrong = begun().resume(k, &wrong).and_then(Generation::finish).expect("nodes");
    assert_ne!(wrong.verify_key(), key(k, levels).verify_key(), "who compares sees it");
}

#[test]
fn seeds_of_another_length_are_refused() {
    for len in [0, 24, 31, 33, 48] {
        let made = Generation::new(levels(&[H5_W1]), &[5; 16], &vec![1; len]);
        assert!(matches!(made, Err(Error::Length { expected: 32, .. })), "{len} bytes");
    }
}

/// Requests for more indexes than are left fail each time, and nothing else changes
/// (cisco/hash-sigs issue 26, botan PR 5382).
#[test]
fn exhaustion() {
    let mut key = key(&Portable, &levels(&[H5_W1]));
    let last = sign(&Portable, &mut key, 31, &[b"last"]).expect("a signature");
    for (index, count) in [(32, 1), (31, 2), (0, 33), (33, 0), (u64::MAX, 1), (1 << 32, 1)] {
        for _ in 0..2 {
            let result = sign(&Portable, &mut key, index, &vec![&b""[..]; count]);
            assert_eq!(result, Err(Error::Exhausted { most: 32 }), "{count} from {index}");
        }
    }
    let again = sign(&Portable, &mut key, 31, &[b"last"]).expect("a signature");
    assert!(again == last, "an index and a message give one signature");
}

/// Passes LMS on, counts its hashes, and flips a bit of the result of one job of all.
#[derive(Default)]
struct HashCounter {
    hashes: AtomicUsize,
    /// So many jobs before the one that is hit; none at 0.
    hit: AtomicUsize,
}

impl HashCounter {
    fn result(&self, hashes: usize, bytes: &mut [u8]) {
        self.hashes.fetch_add(hashes, Ordering::Relaxed);
        let left = self.hit.load(Ordering::Relaxed);
        self.hit.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            bytes[7] ^= 0x20;
        }
    }
}

macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            Portable.$name($($argument),*)
        })*
    };
}

impl Kernels for HashCounter {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn lanes(&self) -> usize {
        1
    }

    fn lms_chain_many(&self, jobs: &mut [LmsChain<'_>]) {
        Portable.lms_chain_many(jobs);
        jobs.iter_mut().for_each(|job| {
            self.result(job.steps as usize + usize::from(job.seed.is_some()), job.value)
        });
    }

    fn lms_hash_many(&self, jobs: &mut [LmsHash<'_>]) {
        Portable.lms_hash_many(jobs);
        jobs.iter_mut().for_each(|job| {
            self.result((22 + job.input.len() + 9).div_ceil(64), job.output);
        });
    }

    fn lms_leaves(&self, job: &mut LmsLeaves<'_>) {
        leaves(self, job);
    }

    passed_on! {
        fn sponge_many(jobs: &mut [Sponge<'_>]);
        fn kem_rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize;
        fn kem_sample_ntt_vartime(jobs: &mut [KemUniform<'_>]);
        fn kem_sample_cbd(eta: usize, jobs: &mut [KemNoise<'_>]);
        fn dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_norm_below(polys: &[DsaPoly], bound: i32) -> bool;
        fn slh_chain_many(jobs: &mut [SlhChain<'_>]);
        fn slh_hash_many(jobs: &mut [SlhHash<'_>]);
        fn sha512_many(jobs: &mut [Sha512<'_>]);
    }
    gabion_tests::plain_kernels!(passed_on);
}

/// Over all indexes of three levels up to one behind the second border of the middle one: the most hashes
/// that a signature takes are three times the median at most, and the trees were ready each time.
#[test]
fn work_is_spread_evenly() {
    let watched = HashCounter::default();
    for (sets, most) in [(vec![H5_W1; 3], 2100), (vec![H5_W4; 2], 100)] {
        let mut key = key(&watched, &levels(&sets));
        key.reach(&watched, 0, &mut Scratch::new()).expect("index 0");
        let counts = (0..most).map(|index| {
            watched.hashes.store(0, Ordering::Relaxed);
            sign(&watched, &mut key, index, &[&index.to_be_bytes()]).expect("a signature");
            watched.hashes.load(Ordering::Relaxed)
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_unstable();
        let (median, most) = (counts[counts.len() / 2], counts[counts.len() - 1]);
        assert!(most <= 3 * median, "{most} hashes, and {median} in the middle");
    }
}

/// One bit of one result of a kernel, at any place of a signature's: none comes out.
#[test]
fn hash_fault_never_yields_a_wrong_signature() {
    let (watched, mut key) = (HashCounter::default(), key(&Portable, &levels(&[H5_W4; 2])));
    // Whereupon the next tree is whole.
    sign(&Portable, &mut key, 31, &[b"before"]).expect("a signature");
    let right = sign(&Portable, &mut key, 32, &[b"fault"]).expect("a signature");
    let (mut refused, mut harmless) = (0, 0);
    // C, 67 chains, then 67 again, K, the leaf, and C again.
    for place in (1..139).chain((139..260).step_by(7)) {
        watched.hit.store(place, Ordering::Relaxed);
        let signed = sign(&watched, &mut key, 32, &[b"fault"]);
        watched.hit.store(0, Ordering::Relaxed);
        match signed {
            // The fault was in the next tree's growth after the signature.
            Ok(signature) if signature == right && place > 138 => harmless += 1,
            Err(Error::Fault(_)) => refused += 1,
            other => panic!("place {place}: {other:?}"),
        }
    }
    assert!(refused == 138 && harmless > 0, "{refused} refused, {harmless} harmless");
}
