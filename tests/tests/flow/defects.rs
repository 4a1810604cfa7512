//! Public defects of other software for LMS and HSS, by their number in the list of those of stateful hash-based
//! signatures: what was accepted, crashed or reused there.
//!
//! | number | what | where else |
//! |---|---|---|
//! | 1 | a raw key of another family (RustCrypto/signatures issue 1442) | |
//! | 2 | a signature of another set than the key's (liboqs issue 2568) | |
//! | 4 | a private key with the number of another set (liboqs PR 2511) | |
//! | 5 | bytes behind a good signature (bc-java issue 2408) | `vectors/lms.rs`: every length |
//! | 6 | a stored key that was altered (bc-java issue 2414) | `lms.rs`: `keys_opened_again`; the engine's `keys_open_again` |
//! | 7 | q = 2^h (ACVP-Server issue 481, caliptra-sw issue 838) | |
//! | 8 | another type in the signature, the key's last bit (ACVP-Server issue 247) | `vectors/lms.rs`: every byte |
//! | 9, 11 | more than is left, and again (hash-sigs issue 26, botan PR 5382) | `lms.rs`: `exhaustion` |
//! | 10 | a signature across the end of a lower tree (liboqs issue 1966) | `lms.rs`: `borders_between_trees` |
//!
//! 3 is XMSS's alone.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use gabion_engine::keys::stateful::hss::HssSecret;
use gabion_scheme::error::{Error, Status};
use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels, LmOts, Lms, Scratch, SigningKey, VerifyKey};

type Sets = (&'static Lms, &'static LmOts);

/// The best kernels of this machine; verdicts of the others are those of the vectors' tests.
fn best() -> Box<dyn Kernels> {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = gabion_backend::avx512::Avx512::detect() {
        return Box::new(kernels);
    }
    Box::new(gabion_backend::portable::Portable)
}

/// All pairs of trees 5 high and one-time signatures of their hash function.
fn pairs() -> Vec<Sets> {
    let trees = LMS.iter().filter(|lms| lms.h == 5);
    let pair = |lms: &'static Lms| {
        let fits = move |ots: &&LmOts| (ots.family, ots.n) == (lms.family, lms.n);
        LM_OTS.iter().filter(fits).map(move |ots| (lms, ots))
    };
    trees.flat_map(pair).collect()
}

fn key(k: &dyn Kernels, sets: &[Sets]) -> SigningKey {
    let levels = Levels::new(sets).expect("sets that fit each other");
    let seed = vec![9; levels.n()];
    lms::generate(k, levels, &[7; 16], &seed, &mut Scratch::new()).expect("a key")
}

fn sign(k: &dyn Kernels, key: &mut SigningKey, index: u64, message: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; key.levels().signature_len()];
    key.sign(k, index, &[message], &mut signature, &mut Scratch::new()).expect("a signature");
    signature
}

/// The verdicts on signatures of one message, in one batch.
fn verdicts(k: &dyn Kernels, cases: &[(&VerifyKey, &[u8])]) -> Vec<Status> {
    let keys: Vec<_> = cases.iter().map(|(key, _)| *key).collect();
    let signatures: Vec<_> = cases.iter().map(|(_, signature)| *signature).collect();
    let (messages, mut status) = (vec![MESSAGE; cases.len()], vec![Status::NotRun; cases.len()]);
    lms::verify(k, &keys, &messages, &signatures, &mut status, &mut Scratch::new());
    status
}

fn all_refused(k: &dyn Kernels, cases: &[(&VerifyKey, Vec<u8>)]) {
    let cases: Vec<_> = cases.iter().map(|(key, signature)| (*key, &signature[..])).collect();
    for (at, status) in verdicts(k, &cases).into_iter().enumerate() {
        assert_eq!(status, Status::InvalidSignature, "case {at} of {}", cases.len());
    }
    // Alone as in the batch.
    for case in cases.iter().step_by(7) {
        assert_eq!(verdicts(k, &[*case]), [Status::InvalidSignature]);
    }
}

const MESSAGE: &[u8] = b"what is signed";

fn replaced(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

/// A raw key of XMSS, `number || root || SEED`, is not accepted as one of HSS, whatever its root
/// is: the numbers overlap.
#[test]
fn defect_1_a_raw_key_of_another_family_is_refused() {
    for number in [1u32, 2, 3, 8] {
        for n in [24, 32, 64] {
            let head = [&number.to_be_bytes()[..], &[0, 0, 0, 5, 0, 0, 0, 3]].concat();
            let mut raw = vec![7; 4 + 2 * n];
            raw[..12].copy_from_slice(&head);
            let refused = VerifyKey::decode(&raw);
            assert!(matches!(refused, Err(Error::PublicKey { .. })), "{number}, n = {n}");
            assert_eq!(lms::with_levels(&raw), &raw[..], "{number}, n = {n}");
        }
    }
}

/// Every set's key against every other set's signature: as it is, and with the numbers and the length of the key's.
#[test]
fn defect_2_a_signature_of_another_set_is_refused() {
    let k = &*best();
    let mut made = Vec::new();
    for sets in pairs() {
        let mut key = key(k, &[sets]);
        let signature = sign(k, &mut key, 3, MESSAGE);
        assert_eq!(verdicts(k, &[(key.verify_key(), &signature)]), [Status::Ok]);
        made.push((sets, key.verify_key().clone(), signature));
    }
    assert_eq!(made.len(), 16);
    let mut cases = Vec::new();
    for (own, key, good) in &made {
        for (other, _, foreign) in made.iter().filter(|(other, ..)| other != own) {
            cases.push((key, foreign.clone()));
            let mut dressed = foreign.clone();
            dressed.resize(good.len(), 0);
            let dressed = replaced(&dressed, 8, &own.1.typecode.to_be_bytes());
            let at = 8 + own.1.signature_len();
            cases.push((key, replaced(&dressed, at, &own.0.typecode.to_be_bytes())));
            // Only the length is its own.
            let mut long = foreign.clone();
            long.resize(good.len(), 0);
            if other.1.signature_len() != own.1.signature_len() {
                cases.push((key, long));
            }
        }
    }
    all_refused(k, &cases);
}

/// A stored secret whose numbers are another set's: refused where its length is not that set's, and where it is, it is
/// another key. Nothing is read beyond it.
#[test]
fn defect_4_a_private_key_with_numbers_of_another_set_is_refused_or_another_key() {
    let level = |sets: Sets| Levels::new(&[sets]).expect("sets that fit each other");
    for own in pairs() {
        let bytes =
            HssSecret::new(level(own), [7; 16], &vec![9; own.0.n]).expect("a secret").encode();
        for typecodes in (0..30u32).flat_map(|lms| (0..20u32).map(move |ots| [lms, ots])) {
            let numbers = typecodes.map(u32::to_be_bytes).concat();
            let decoded = HssSecret::decode(&replaced(&bytes, 4, &numbers));
            let sets = Lms::from_typecode(typecodes[0]).zip(LmOts::from_typecode(typecodes[1]));
            let fits = sets.is_some_and(|(lms, ots)| {
                (lms.family, lms.n) == (ots.family, ots.n) && lms.n == own.0.n
            });
            assert_eq!(decoded.is_ok(), fits, "{typecodes:?} in a secret of {}", own.0.name);
            if let Ok(secret) = decoded {
                assert_eq!(sets.map(|sets| vec![sets]), Some(secret.levels().sets().to_vec()));
            }
        }
        for levels in [0u32, 2, 8, 9, u32::MAX] {
            assert!(HssSecret::decode(&replaced(&bytes, 0, &levels.to_be_bytes())).is_err());
        }
    }
}

#[test]
fn defect_5_bytes_behind_a_signature_are_refused() {
    let k = &*best();
    for levels in 1..=8 {
        let mut key = key(k, &vec![pairs()[0]; levels]);
        let good = sign(k, &mut key, 1, MESSAGE);
        let public = key.verify_key().clone();
        assert_eq!(verdicts(k, &[(&public, &good)]), [Status::Ok]);
        let longer = [1, 4, 32, 1000].map(|more| (&public, [&good[..], &vec![0; more]].concat()));
        all_refused(k, &longer);
        all_refused(k, &[1, 4, 32, 1000].map(|less| (&public, good[..good.len() - less].to_vec())));
    }
}

/// In every level, for trees 5 and 10 high.
#[test]
fn defect_7_a_leaf_beyond_its_tree_is_refused() {
    let k = &*best();
    let [low, high] = [0, 1].map(|lms| (&LMS[lms], &LM_OTS[0]));
    for sets in [vec![low], vec![high], vec![low, high], vec![high, low]] {
        let mut key = key(k, &sets);
        let good = sign(k, &mut key, 0, MESSAGE);
        let public = key.verify_key().clone();
        let (mut at, mut cases) = (4, Vec::new());
        for (lms, ots) in &sets {
            let leaves = 1u32 << lms.h;
            for q in [leaves, leaves + 1, 2 * leaves, 1 << 31, u32::MAX] {
                cases.push((&public, replaced(&good, at, &q.to_be_bytes())));
            }
            at += lms.signature_len(ots) + lms.public_key_len();
        }
        all_refused(k, &cases);
    }
}

/// Types of a tree and of a one-time signature are compared with the key before anything is hashed; and the last bit of a
/// key counts.
#[test]
fn defect_8_other_types_and_the_last_bit_of_a_key_are_refused() {
    let k = &*best();
    for sets in pairs() {
        let mut key = key(k, &[sets]);
        let good = sign(k, &mut key, 31, MESSAGE);
        let public = key.verify_key().clone();
        let places = [8, 8 + sets.1.signature_len()];
        let types = (0..26u32).chain([255, 1 << 24, u32::MAX]);
        let mut cases = Vec::new();
        for (place, typecode) in
            places.into_iter().flat_map(|at| types.clone().map(move |typecode| (at, typecode)))
        {
            let other = replaced(&good, place, &typecode.to_be_bytes());
            if other != good {
                cases.push((&public, other));
            }
        }
        all_refused(k, &cases);
        let mut bytes = public.bytes().to_vec();
        *bytes.last_mut().expect("a key") ^= 1;
        let other = VerifyKey::decode(&bytes).expect("a key of another root");
        all_refused(k, &[(&other, good)]);
    }
}

/// Trees of unlike heights, eight levels, and of several w: from the last leaf of each tree over to the next, by every
/// level; and the last index, behind which is nothing.
#[test]
fn every_shape_crosses_its_borders_and_ends() {
    let [low, high, wide] = [(0, 0), (1, 0), (0, 2)].map(|(lms, ots)| (&LMS[lms], &LM_OTS[ots]));
    let shapes =
        [vec![high, low], vec![low, high], vec![low, wide, low], vec![low; 5], vec![low; 8]];
    let k = &*best();
    for sets in &shapes {
        let mut key = key(k, sets);
        let (public, most) = (key.verify_key().clone(), key.levels().signatures());
        let (mut below, mut indexes) = (0, Vec::new());
        for (lms, _) in sets.iter().rev() {
            below += lms.h;
            let border = 1u64 << below;
            indexes.extend([border - 1, border].into_iter().filter(|index| *index < most));
        }
        indexes.extend([most - 2, most - 1]);
        let signatures: Vec<_> =
            indexes.iter().map(|index| sign(k, &mut key, *index, MESSAGE)).collect();
        let cases: Vec<_> = signatures.iter().map(|signature| (&public, &signature[..])).collect();
        assert_eq!(verdicts(k, &cases), vec![Status::Ok; cases.len()], "{} levels", sets.len());
        let mut out = vec![1; 2 * key.levels().signature_len()];
        for (index, messages) in [(most - 1, &[MESSAGE; 2][..]), (most, &[MESSAGE; 1])] {
            let out = &mut out[..messages.len() * key.levels().signature_len()];
            let ended = key.sign(k, index, messages, out, &mut Scratch::new());
            assert_eq!(ended, Err(Error::Exhausted { most }));
        }
        assert!(sign(k, &mut key, most - 1, MESSAGE) == signatures[signatures.len() - 1]);
    }
}
