//! Batches of signing: mixed keys and forms of messages, each item as if it were alone.

use gabion_kms::model::{KeyId, Minimum, State, VersionId};
use gabion_kms::operations::{Item, Kms, ToSign};
use gabion_kms::{Code, Message, Prehash};

use crate::verbs::{create, pure};

fn to_sign<'a>(key: &'a KeyId, version: Option<u32>, message: Message<'a>) -> ToSign<'a> {
    ToSign { key, version, message }
}

/// Whatever stands beside an item, its status is that of signing it alone, and what it gives verifies alone.
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
        let alone = kms.sign(item.key, item.version, item.message);
        match (answer, alone) {
            (Ok(signed), Ok(alone)) => {
                assert_eq!(signed.by, alone.by);
                assert_eq!(kms.verify(&signed.by, item.message, &signed.signature), Ok(true));
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
        .filter_map(|(item, answer)| Some((item.message, answer.as_ref().ok()?)))
        .collect();
    let items: Vec<Item<'_>> = signed
        .iter()
        .map(|(message, signed)| Item {
            by: &signed.by,
            message: *message,
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
        assert_eq!(kms.sign(item.key, None, item.message).unwrap().signature, signed.signature);
    }
}
