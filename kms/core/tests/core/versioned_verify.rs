//! Old versions verify their signatures, and batches give the same results as single calls.

use gabion_kms::model::Minimum;
use gabion_kms::operations::{Kms, VerifyRequest};
use gabion_kms::{Code, Error};

use crate::verbs::{create, pure};

#[test]
fn old_signatures_verify_after_rotation_and_only_the_newest_signs() {
    let kms = Kms::in_memory().unwrap();
    let first = create(&kms, "firmware", "ed25519");
    let old = kms.sign(&first.key, None, pure(b"x")).unwrap();
    let second = kms.rotate(&first.key).unwrap();
    assert_eq!(kms.verify(&first, pure(b"x"), &old.signature), Ok(true));
    assert_eq!(kms.verify(&second, pure(b"x"), &old.signature), Ok(false));
    let refused = kms.sign(&first.key, Some(1), pure(b"x")).unwrap_err();
    assert_eq!(refused, Error::NotAllowed { version: 1, what: "sign", oldest: 2 });
    // With min_sign an older one may, and with min_verify an older one is verified no more.
    kms.set_minimum(&first.key, Minimum::Sign, 1).unwrap();
    assert_eq!(kms.sign(&first.key, Some(1), pure(b"x")).unwrap().by, first);
    kms.set_minimum(&first.key, Minimum::Verify, 2).unwrap();
    let refused = kms.verify(&first, pure(b"x"), &old.signature).unwrap_err();
    assert_eq!(refused.code(), Code::VersionNotAllowed);
}

/// Points of small order, and their negatives, in the encoding of Ed25519; and encodings that are
/// not a point or not canonical.
pub const POINTS: [&str; 8] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

/// Scalars: 0, 1, L and L - 1, with L the order of the group.
pub const SCALARS: [&str; 4] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
    "ecd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
];

pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The batch verification of other libraries accepts signatures that their single verification
/// rejects. Here both give the same result, regardless of the other items.
#[test]
fn a_batch_gives_the_verdicts_of_single_verification_on_adversarial_signatures() {
    let kms = Kms::in_memory().unwrap();
    let ids: Vec<_> = ["ed25519", "ml-dsa-44", "ecdsa-p-256", "ed25519", "ml-dsa-65"]
        .iter()
        .enumerate()
        .map(|(n, algorithm)| create(&kms, &format!("k{n}"), algorithm))
        .collect();
    let mut cases = Vec::new();
    for id in &ids {
        let good = kms.sign(&id.key, None, pure(b"x")).unwrap().signature;
        cases.push((id, &b"x"[..], good.clone()));
        cases.push((id, b"y", good.clone()));
        for place in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[place] ^= 0x80;
            cases.push((id, b"x", bad));
        }
        cases.push((id, b"x", good[1..].to_vec()));
        cases.push((id, b"x", [&good[..], &[0]].concat()));
        cases.push((id, b"x", Vec::new()));
        cases.push((id, b"x", vec![0; good.len()]));
        cases.push((id, b"x", vec![0xff; good.len()]));
    }
    for (point, scalar) in POINTS.iter().flat_map(|point| SCALARS.map(|scalar| (point, scalar))) {
        cases.push((&ids[0], b"x", [bytes(point), bytes(scalar)].concat()));
    }
    let items: Vec<VerifyRequest<'_>> = cases
        .iter()
        .map(|(by, message, signature)| {
            let signable = pure(message).into();
            VerifyRequest { by, signable, signature }
        })
        .collect();
    let single: Vec<_> =
        items.iter().map(|item| kms.verify(item.by, item.signable, item.signature)).collect();
    assert_eq!(kms.verify_batch(&items), single);
    // In reverse order, and each next to a valid one.
    let turned: Vec<_> = items.iter().rev().copied().collect();
    let answers: Vec<_> = kms.verify_batch(&turned).into_iter().rev().collect();
    assert_eq!(answers, single);
    for (item, wanted) in items.iter().zip(&single) {
        assert_eq!(kms.verify_batch(&[items[0], *item]), [Ok(true), wanted.clone()]);
    }
    let count = |verdict| single.iter().filter(|answer| **answer == verdict).count();
    assert_eq!(count(Ok(true)), ids.len());
    assert!(count(Ok(false)) > 40, "{single:?}");
}

/// A malicious key: with the identity as the public key, `R = identity, s = 0` is a signature of
/// every message under the cofactored equation. Such keys are rejected.
#[test]
fn empty_batches_and_unknown_versions_are_answered() {
    let kms = Kms::in_memory().unwrap();
    assert_eq!(kms.verify_batch(&[]), []);
    let id = create(&kms, "a", "ed25519");
    let good = kms.sign(&id.key, None, pure(b"x")).unwrap().signature;
    let mut stranger = id.clone();
    stranger.version = 9;
    let item = |by| VerifyRequest { by, signable: pure(b"x").into(), signature: &good };
    let answers = kms.verify_batch(&[item(&stranger), item(&id)]);
    assert_eq!(answers[1], Ok(true));
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::NotFound);
}
