//! Ids: every text round-trips or is refused, and their JSON never changes.

use std::collections::BTreeSet;

use gabion_kms::model::{Key, KeyAlgorithm, KeyId, Label, State, Uuid, Version, VersionId};

const ID: &str = "default/transit/ml-dsa-65/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c#v7";

#[test]
fn every_algorithm_has_one_spelling_and_round_trips() {
    let mut spellings = BTreeSet::new();
    for algorithm in KeyAlgorithm::all() {
        let spelling = algorithm.to_string();
        assert!(
            spelling.bytes().all(|byte| byte.is_ascii_lowercase()
                || byte.is_ascii_digit()
                || b"-_.+".contains(&byte)),
            "{spelling}"
        );
        let text = ID.replace("ml-dsa-65", &spelling);
        let id: VersionId = text.parse().unwrap();
        assert_eq!((id.to_string(), id.key.algorithm), (text, algorithm));
        assert!(spellings.insert(spelling));
    }
    assert!(spellings.len() > 30 && spellings.contains("ed25519"), "{spellings:?}");
}

#[test]
fn malformed_version_ids_are_refused() {
    let uuid = "0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c";
    for (from, to) in [
        ("#v7", ""),
        ("#v7", "#v0"),
        ("#v7", "#v07"),
        ("#v7", "#v+7"),
        ("#v7", "#v"),
        ("#v7", "#V7"),
        ("#v7", "#v4294967296"),
        ("#v7", "#v7#v7"),
        ("#v7", "#v7 "),
        ("#v7", "/x#v7"),
        ("ml-dsa-65", "ML-DSA-65"),
        ("ml-dsa-65", "ml-dsa-66"),
        ("ml-dsa-65", "x25519"),
        ("ml-dsa-65", ""),
        ("default", ""),
        ("default", "a/b"),
        ("default", "-a"),
        ("transit", "tr#v1nsit"),
        ("transit", "a b"),
        (uuid, &uuid.to_uppercase()),
        (uuid, &uuid.replace('-', "")),
        (uuid, &uuid[1..]),
        (uuid, "0192b1c4-5f6e-1d7a-8b9c-0d1e2f3a4b5c"),
        (uuid, "0192b1c4-5f6e-4d7a-cb9c-0d1e2f3a4b5c"),
        (uuid, "g192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c"),
        (uuid, "+192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c"),
    ] {
        let text = ID.replace(from, to);
        assert!(text.parse::<VersionId>().is_err(), "{text}");
    }
}

/// Texts that are near to an id: what is taken is written like that again.
#[test]
fn every_text_round_trips_or_is_refused() {
    let mut seed = 1_u64;
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let alphabet = b"0123456789abcdefABCDEFvV#/-_.+ \xc3\xa4";
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut text = ID.as_bytes().to_vec();
        for _ in 0..1 + draw(3) {
            let place = draw(text.len());
            match draw(3) {
                0 => text[place] = alphabet[draw(alphabet.len())],
                1 => text.insert(place, alphabet[draw(alphabet.len())]),
                _ => drop(text.remove(place)),
            }
        }
        let Ok(text) = String::from_utf8(text) else { continue };
        if let Ok(id) = text.parse::<VersionId>() {
            assert_eq!(id.to_string(), text);
            taken += 1;
        }
    }
    assert!(taken > 1000, "{taken}");
}

#[test]
fn json_is_golden() {
    let id: VersionId = ID.parse().unwrap();
    let key = Key {
        labels: [("team".to_owned(), "release".to_owned())].into(),
        ..Key::new(id.key.clone(), Label::new("key", "firmware").unwrap(), 1_700_000_000_000)
    };
    let version = Version { version: 7, created_ms: 1_700_000_000_001, state: State::Disabled };
    let written = [
        serde_json::to_string(&id).unwrap(),
        serde_json::to_string(&key).unwrap(),
        serde_json::to_string(&version).unwrap(),
    ];
    let golden: Vec<&str> = include_str!("../golden/model.ndjson").lines().collect();
    assert_eq!(written.each_ref().map(String::as_str)[..], golden[..]);
    assert_eq!(serde_json::from_str::<VersionId>(golden[0]).unwrap(), id);
    assert_eq!(serde_json::from_str::<Key>(golden[1]).unwrap(), key);
    assert_eq!(serde_json::from_str::<Version>(golden[2]).unwrap(), version);
    assert!(serde_json::from_str::<KeyId>(golden[0]).is_err());
    let more = golden[1].replacen('{', "{\"lables\":{},", 1);
    let error = serde_json::from_str::<Key>(&more).unwrap_err().to_string();
    assert!(error.contains("lables"), "{error}");
}

#[test]
fn uuids_say_that_they_are_random_ones() {
    for byte in [0, 0xff, 0x5a] {
        let uuid = Uuid::of_random([byte; 16]);
        assert_eq!(uuid.to_string().parse::<Uuid>().unwrap(), uuid);
        assert_eq!(uuid.to_string().as_bytes()[14], b'4');
    }
}
