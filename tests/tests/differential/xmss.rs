//! XMSS^MT against the crate xmss, bit for bit: it derives secrets as SP 800-208 says, and its index stands in the key, so
//! three seeds and an index give one signature. Each verifies what the other signs, and verdicts on mutated
//! signatures are compared.
//!
//! That crate makes each tree anew for each signature, so the layers here are 5 high. It reads the number of a set of
//! XMSS^MT as one of XMSS where there is one (RustCrypto/signatures 1442): keys of such a set sign at index 0.

use gabion_backend::portable::Portable;
use gabion_engine::Algorithm;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::xmss::{self as ours, Scheme, Scratch, Set};
use xmss::{
    DetachedSignature, KeyPair, SigningKey, XmssMtSha2_20_4_192, XmssMtSha2_20_4_256,
    XmssMtShake256_20_4_192, XmssMtShake256_20_4_256, XmssParameter,
};

use crate::{count, random, random_below, tally};

fn verdict<K: Kernels>(k: &K, key: &ours::VerifyKey, message: &[u8], signature: &[u8]) -> bool {
    let mut status = [Status::NotRun];
    ours::verify(k, &[key], &[message], &[signature], &mut status, &mut Scratch::new());
    status == [Status::Ok]
}

/// A key of one set, and its signature at some index.
fn compare<P: XmssParameter, K: Kernels>(k: &K, name: &str, round: usize) {
    let set = Set::from_name(name).unwrap();
    let seeds: [u8; 96] = random(name, round);
    let seeds = &seeds[..3 * set.n];
    let theirs = KeyPair::<P>::from_seed(seeds).unwrap();
    let mut scratch = Scratch::new();
    let mut key = ours::generate(k, set, seeds, &mut scratch).unwrap();
    let public = key.verify_key().clone();
    assert_eq!(public.bytes(), theirs.verifying_key().as_ref(), "{name}");
    let has_own_number = Set::from_number(Scheme::Xmss, set.number).is_none();
    let index = match round % 3 {
        _ if !has_own_number => 0,
        0 => 31,
        1 => set.signatures() - 1,
        _ => random_below(name, round, set.signatures() as usize) as u64,
    };
    let mut private = { theirs.clone() }.signing_key().as_ref().to_vec();
    let mut signing = theirs.clone();
    let signing = signing.signing_key();
    if index > 0 {
        private[4..][..set.index_len()]
            .copy_from_slice(&index.to_be_bytes()[8 - set.index_len()..]);
        *signing = SigningKey::try_from(&private).unwrap();
    }
    let message: [u8; 40] = random(name, index as usize);
    let expected = signing.sign_detached(&message).unwrap();
    let mut signature = vec![0; set.signature_len()];
    key.sign(k, index, &[&message], &mut signature, &mut scratch).unwrap();
    assert!(signature == expected.as_ref(), "{name}, index {index}");
    for at in 0..4 {
        let place = random_below(name, at, signature.len());
        signature[place] ^= u8::from(at > 0) << (place % 8);
        let theirs = DetachedSignature::<P>::try_from(&signature)
            .is_ok_and(|bytes| theirs.verifying_key().verify_detached(&bytes, &message).is_ok());
        assert_eq!(verdict(k, &public, &message, &signature), theirs, "{name}: {place}");
        assert_eq!(theirs, at == 0);
    }
}

fn rounds<K: Kernels>(k: &K, least: usize) {
    let rounds = count(10_000, least);
    for round in 0..rounds {
        compare::<XmssMtSha2_20_4_256, K>(k, "XMSSMT-SHA2_20/4_256", round);
        compare::<XmssMtSha2_20_4_192, K>(k, "XMSSMT-SHA2_20/4_192", round);
        compare::<XmssMtShake256_20_4_256, K>(k, "XMSSMT-SHAKE256_20/4_256", round);
        compare::<XmssMtShake256_20_4_192, K>(k, "XMSSMT-SHAKE256_20/4_192", round);
    }
    tally(Algorithm::XmssMt, "xmss", 8 * rounds);
}

/// On the best kernels of this machine; the others make the same (tests of the flow).
#[test]
fn xmss_mt_is_that_of_the_crate_xmss() {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = gabion_backend::avx512::Avx512::detect() {
        return rounds(&kernels, 1);
    }
    rounds(&Portable, 1);
}
