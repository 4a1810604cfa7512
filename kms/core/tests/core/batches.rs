//! Batches of signing: mixed keys and forms of messages, each item as if it were alone.

use std::num::NonZero;
use std::sync::Arc;

use gabion_kms::model::{Conformance, KeyId, Label, Minimum, State, VersionId};
use gabion_kms::operations::{Blake3, Kms, NewKey, Options, SignRequest, VerifyRequest};
use gabion_kms::seal::Sealer;
use gabion_kms::store::{MemoryStore, Store};
use gabion_kms::{Code, Message, Prehash};

use crate::verbs::{create, pure};

fn to_sign<'a>(key: &'a KeyId, version: Option<u32>, message: Message<'a>) -> SignRequest<'a> {
    SignRequest { key, version, signable: message.into() }
}

/// An item's result does not depend on the other items: its status is that of signing it alone, and
/// its signature verifies alone.
#[test]
fn a_batch_of_mixed_keys_and_messages_signs_each_as_if_it_were_alone() {
    let kms = Kms::in_memory().unwrap();
    let names = ["ed25519", "ml-dsa-44", "ecdsa-p-256", "ed25519", "ml-dsa-44", "hmac-sha-256"];
    let keys: Vec<VersionId> =
        (0..).zip(names).map(|(n, name)| create(&kms, &format!("k{n}"), name)).collect();
    kms.rotate(&keys[0].key).unwrap();
    kms.set_minimum(&keys[0].key, Minimum::Sign, 1).unwrap();
    kms.set_state(&keys[3].key, 1, State::Disabled).unwrap();
    let digest = Prehash::Sha2_512.digest(b"text");
    let short = &digest[1..];
    let prehash = |digest| Message::Prehash { context: b"c", hash: Prehash::Sha2_512, digest };
    let messages = [
        pure(b"a"),
        pure(b""),
        Message::Pure { context: b"context", message: b"a" },
        Message::Pure { context: &[7; 256], message: b"a" },
        prehash(&digest),
        prehash(short),
        Message::Mu(&[9; 64]),
    ];
    let mut items = Vec::new();
    for message in messages {
        for id in &keys {
            for version in [None, Some(1), Some(2), Some(3)] {
                items.push(to_sign(&id.key, version, message));
            }
        }
    }
    let answers = kms.sign_batch(&items);
    assert_eq!(answers.len(), items.len());
    let (mut good, mut bad) = (0, 0);
    for (item, answer) in items.iter().zip(&answers) {
        let alone = kms.sign(item.key, item.version, item.signable);
        match (answer, alone) {
            (Ok(signed), Ok(alone)) => {
                assert_eq!(signed.by, alone.by);
                assert_eq!(kms.verify(&signed.by, item.signable, &signed.signature), Ok(true));
                good += 1;
            }
            (answer, alone) => {
                assert_eq!(answer.as_ref().err(), alone.as_ref().err());
                bad += 1;
            }
        }
    }
    assert!(good >= 30 && bad > 60, "{good} {bad}");
    // The same verified together.
    let signed: Vec<_> = items
        .iter()
        .zip(&answers)
        .filter_map(|(item, answer)| Some((item.signable, answer.as_ref().ok()?)))
        .collect();
    let items: Vec<VerifyRequest<'_>> = signed
        .iter()
        .map(|(signable, signed)| VerifyRequest {
            by: &signed.by,
            signable: *signable,
            signature: &signed.signature,
        })
        .collect();
    assert!(kms.verify_batch(&items).iter().all(|verdict| *verdict == Ok(true)));
}

/// An item that names a version is signed by that one or refused, never by another.
#[test]
fn a_batch_item_with_another_version_is_signed_by_no_other_one() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "a", "ed25519").key;
    kms.rotate(&id).unwrap();
    let versions = [Some(99), Some(1), Some(0), Some(2), None];
    let items = versions.map(|version| to_sign(&id, version, pure(b"x")));
    let answers = kms
        .sign_batch(&items)
        .into_iter()
        .map(|answer| answer.map(|signed| signed.by.version).map_err(|error| error.code()));
    assert_eq!(
        answers.collect::<Vec<_>>(),
        [Err(Code::NotFound), Err(Code::VersionNotAllowed), Err(Code::NotFound), Ok(2), Ok(2)]
    );
    assert!(kms.sign_batch(&[]).is_empty());
}

/// More than lanes that are run together, of more keys than one.
#[test]
fn a_large_batch_is_in_the_order_of_its_items() {
    let kms = Kms::in_memory().unwrap();
    let keys: Vec<_> = (0..3).map(|n| create(&kms, &format!("k{n}"), "ed25519").key).collect();
    let texts: Vec<Vec<u8>> = (0..600_u32).map(|n| n.to_le_bytes().to_vec()).collect();
    let item = |(n, text): (usize, &'_ Vec<u8>)| (n % 3, text.clone());
    let chosen: Vec<_> = texts.iter().enumerate().map(item).collect();
    let items: Vec<_> =
        chosen.iter().map(|(key, text)| to_sign(&keys[*key], None, pure(text))).collect();
    for (item, answer) in items.iter().zip(kms.sign_batch(&items)) {
        let signed = answer.unwrap();
        assert_eq!(signed.by.key, *item.key);
        // Ed25519 has one signature of a message.
        assert_eq!(kms.sign(item.key, None, item.signable).unwrap().signature, signed.signature);
    }
}

/// On several threads each answer stands where its item does, wrong signatures among right ones,
/// too.
#[test]
fn a_large_batch_on_several_threads_has_its_answers_in_order() {
    let store = Arc::new(MemoryStore::new());
    let sealer = Sealer::volatile(store.identity().id).unwrap();
    let threads = NonZero::new(4).unwrap();
    let kms = Kms::new(store, sealer, Options { threads, ..Options::default() }).unwrap();
    let keys = ["ed25519", "ml-dsa-44"].map(|name| create(&kms, name, name));
    let texts: Vec<[u8; 4]> = (0..1200_u32).map(u32::to_le_bytes).collect();
    let key = |place: usize| &keys[place % 2];
    let items: Vec<SignRequest<'_>> =
        (0..).zip(&texts).map(|(place, text)| to_sign(&key(place).key, None, pure(text))).collect();
    let signed: Vec<_> = kms.sign_batch(&items).into_iter().map(Result::unwrap).collect();
    for place in [0, 1, 255, 256, 600, 1199] {
        let (by, signature) = (&signed[place].by, &signed[place].signature);
        assert_eq!(by, key(place));
        assert_eq!(kms.verify(by, pure(&texts[place]), signature), Ok(true));
    }
    let is_wrong = |place: usize| place.is_multiple_of(7);
    let items: Vec<VerifyRequest<'_>> = (0..)
        .zip(&signed)
        .map(|(place, signed)| {
            let text = &texts[if is_wrong(place) { (place + 2) % texts.len() } else { place }];
            VerifyRequest {
                by: &signed.by,
                signable: pure(text).into(),
                signature: &signed.signature,
            }
        })
        .collect();
    for (place, verdict) in kms.verify_batch(&items).into_iter().enumerate() {
        assert_eq!(verdict, Ok(!is_wrong(place)), "{place}");
    }
}

/// A BLAKE3 digest is signed with a prefix, so that its signature is not valid for the bare digest,
/// and keys that require standard forms reject it.
#[test]
fn a_digest_by_blake3_is_signed_in_a_form_of_its_own() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "k", "ml-dsa-87");
    let digest = Blake3::new([7; 32]);
    let signed = kms.sign_blake3(&id.key, None, &digest).unwrap();
    assert_eq!(kms.verify_blake3(&signed.by, &digest, &signed.signature), Ok(true));
    assert_eq!(kms.verify_blake3(&signed.by, &Blake3::new([8; 32]), &signed.signature), Ok(false));
    assert_eq!(kms.verify(&signed.by, pure(&[7; 32]), &signed.signature), Ok(false));
    let text = [&b"gabion-kms blake3 v1\0\0\0\0"[..], &[7; 32]].concat();
    assert_eq!(kms.verify(&signed.by, pure(&text), &signed.signature), Ok(true));
    let by = |label: Conformance| {
        let new = NewKey {
            tenant: id.key.tenant.clone(),
            purpose: id.key.purpose.clone(),
            name: Label::new("key", &label.to_string()).unwrap(),
            algorithm: id.key.algorithm,
        };
        let id = kms.create_conforming(&new, &[label].into()).unwrap();
        kms.sign_blake3(&id.key, None, &digest).map(drop).map_err(|error| error.code())
    };
    assert_eq!(by(Conformance::Software), Ok(()));
    assert_eq!(by(Conformance::FipsAlg), Err(Code::Unsupported));
    assert_eq!(by(Conformance::Cnsa2), Err(Code::Unsupported));
}
