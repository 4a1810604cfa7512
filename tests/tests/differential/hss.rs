//! LMS and HSS against the crate hbs-lms, bit for bit: it derives lower trees as hash-sigs does, so one seed gives
//! one key and, of an index, one signature. The randomizer C of a tree's key it takes from that tree instead of the
//! one above, so what signs trees is compared but for C and the values of chains. It numbers the sets of every
//! hash function as those of SHA-256 with n = 32: of these each verifies what the other signs, and verdicts on mutated
//! signatures are compared; of the others keys are, but for those numbers.

use gabion_backend::portable::Portable;
use gabion_engine::Algorithm;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::LmsFamily;
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels, LmOts, Lms, Scratch, SigningKey};
use hbs_lms::{
    HashChain, HssParameter, LmotsAlgorithm, LmsAlgorithm, Seed, Sha256_192, Sha256_256,
    Shake256_192, Shake256_256,
};

use crate::{count, random, random_below, tally};

/// Heights and w of each level of the keys that are compared: borders are near, and no tree takes long.
const SHAPES: [&[(u32, u32)]; 6] = [
    &[(5, 1)],
    &[(5, 8)],
    &[(5, 4), (5, 2)],
    &[(5, 2), (5, 1), (5, 4)],
    &[(5, 1), (10, 1)],
    // That crate has no room for the eighth.
    &[(5, 1), (5, 1), (5, 1), (5, 1), (5, 1), (5, 1), (5, 1)],
];

fn sets(family: LmsFamily, n: usize, (h, w): (u32, u32)) -> (&'static Lms, &'static LmOts) {
    let lms = LMS.iter().find(|set| (set.family, set.n, set.h) == (family, n, h));
    let ots = LM_OTS.iter().find(|set| (set.family, set.n, set.w) == (family, n, w));
    (lms.unwrap(), ots.unwrap())
}

fn parameter<H: HashChain>((h, w): (u32, u32)) -> HssParameter<H> {
    let w = match w {
        1 => LmotsAlgorithm::LmotsW1,
        2 => LmotsAlgorithm::LmotsW2,
        4 => LmotsAlgorithm::LmotsW4,
        _ => LmotsAlgorithm::LmotsW8,
    };
    let h = if h == 5 { LmsAlgorithm::LmsH5 } else { LmsAlgorithm::LmsH10 };
    HssParameter::new(w, h)
}

/// SEED and I of the top tree, which that crate derives from its seed.
fn of_seed<H: HashChain>(seed: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let hash = |which: u8, seed: &[u8]| {
        let mut input = [0; 55];
        input[20..23].copy_from_slice(&[0xfe, 0xfe, which]);
        input[23..][..seed.len()].copy_from_slice(seed);
        H::default().chain(input).finalize().as_slice().to_vec()
    };
    let first = hash(0, seed);
    (hash(1, &first), hash(2, &first)[..16].try_into().unwrap())
}

fn verdict<K: Kernels>(k: &K, key: &SigningKey, message: &[u8], signature: &[u8]) -> bool {
    let mut status = [Status::NotRun];
    let public = key.verify_key();
    lms::verify(k, &[public], &[message], &[signature], &mut status, &mut Scratch::new());
    status == [Status::Ok]
}

/// A signature in which C and the values of chains are zero, but for those of the message, and the numbers of sets.
fn comparable(key: &SigningKey, signature: &[u8]) -> Vec<u8> {
    let (mut signature, mut at) = (signature.to_vec(), 4);
    let levels = key.levels().sets();
    for (level, (lms, ots)) in levels.iter().enumerate() {
        let values = (1 + ots.chains()) * ots.n;
        signature[at + 4..][..4].fill(0);
        signature[at + 8 + values..][..4].fill(0);
        if level + 1 == levels.len() {
            break;
        }
        signature[at + 8..][..values].fill(0);
        at += lms.signature_len(ots);
        // The key of the tree below: type, otstype, I, root.
        signature[at..][..8].fill(0);
        at += 4 + 4 + 16 + lms.n;
    }
    signature
}

/// Keys of one hash function, and their signatures from some index on, over a border.
fn compare<H: HashChain, K: Kernels>(k: &K, family: LmsFamily, n: usize, round: usize) -> usize {
    let mut compared = 0;
    for shape in SHAPES {
        let label = format!("hss {family:?} {n} {shape:?}");
        let secret: [u8; 32] = random(&label, round);
        let mut seed = Seed::<H>::default();
        seed.as_mut_slice().copy_from_slice(&secret[..n]);
        let parameters: Vec<_> = shape.iter().map(|shape| parameter(*shape)).collect();
        let (theirs, their_public) = hbs_lms::keygen::<H>(&parameters, &seed, None).unwrap();
        let (seed, id) = of_seed::<H>(&secret[..n]);
        let shape: Vec<_> = shape.iter().map(|shape| sets(family, n, *shape)).collect();
        let levels = Levels::new(&shape).unwrap();
        let mut scratch = Scratch::new();
        let mut ours = lms::generate(k, levels, &id, &seed, &mut scratch).unwrap();
        let has_their_numbers = (family, n) == (LmsFamily::Sha256, 32);
        let (public, their_public) = (ours.verify_key().bytes(), their_public.as_slice());
        assert_eq!(public[12..], their_public[12..], "{label}");
        assert_eq!(public == their_public, has_their_numbers, "{label}");
        compared += 1;
        if !has_their_numbers {
            continue;
        }
        // Their index is the first eight bytes of the key.
        let most = ours.levels().signatures();
        let index = match round % 3 {
            0 => 31,
            1 => most - 1,
            _ => random_below(&label, round, most.min(1 << 40) as usize) as u64,
        };
        let mut private = theirs.as_slice().to_vec();
        for index in (index..most).take(2) {
            private[..8].copy_from_slice(&index.to_be_bytes());
            let message: [u8; 40] = random(&label, index as usize);
            let expected = hbs_lms::sign::<H>(&message, &private, &mut |_| Ok(()), None).unwrap();
            let expected: &[u8] = expected.as_ref();
            let mut signature = vec![0; ours.levels().signature_len()];
            ours.sign(k, index, &[&message], &mut signature, &mut scratch).unwrap();
            let [one, two] = [&signature[..], expected].map(|bytes| comparable(&ours, bytes));
            assert!(one == two, "{label}, index {index}");
            compared += 1;
            assert!(verdict(k, &ours, &message, expected), "{label}, index {index}");
            for at in 0..4 {
                let place = random_below(&label, at, signature.len());
                signature[place] ^= u8::from(at > 0) << (place % 8);
                let theirs = hbs_lms::verify::<H>(&message, &signature, their_public).is_ok();
                assert_eq!(verdict(k, &ours, &message, &signature), theirs, "{label}: {place}");
                assert_eq!(theirs, at == 0);
            }
        }
    }
    compared
}

fn rounds<K: Kernels>(k: &K, least: usize) {
    let mut compared = 0;
    for round in 0..count(10_000, least) {
        compared += compare::<Sha256_256, K>(k, LmsFamily::Sha256, 32, round);
        compared += compare::<Sha256_192, K>(k, LmsFamily::Sha256, 24, round);
        compared += compare::<Shake256_256, K>(k, LmsFamily::Shake256, 32, round);
        compared += compare::<Shake256_192, K>(k, LmsFamily::Shake256, 24, round);
    }
    tally(Algorithm::Hss, "hbs-lms", compared);
}

/// On the best kernels of this machine; the others make the same (tests of the flow).
#[test]
fn hss_is_that_of_hbs_lms() {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = gabion_backend::avx512::Avx512::detect() {
        return rounds(&kernels, 2);
    }
    rounds(&Portable, 2);
}
