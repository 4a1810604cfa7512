//! HSS keys and signatures by every way in. Any bytes of the right lengths are a signature under the key whose root they
//! lead to, so that no private key is needed: [`signed`] works out that root by RFC 8554's algorithms once more.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::num::NonZero;
use std::sync::Arc;

use gabion_engine::key_file::{self, EncodedKey, FileForm};
use gabion_engine::keys::PublicKey;
use gabion_engine::{
    Algorithm, Config, Engine, Error, InputError, KeyCache, Kind, Limits, Message, OsEntropy,
    Queue, Status, VerifyKey,
};
use sha2::{Digest, Sha256};

/// A message with its key and signature, in HSS's encodings.
struct SignedMessage {
    key: Vec<u8>,
    signature: Vec<u8>,
}

/// Trees of height 5 and chains of 2^4, of SHA-256 with 32 bytes.
const SETS: [u8; 8] = [0, 0, 0, 5, 0, 0, 0, 3];

fn hash(pieces: &[&[u8]]) -> [u8; 32] {
    pieces.iter().fold(Sha256::new(), |hash, piece| hash.chain_update(piece)).finalize().into()
}

/// A bare LMS key and signature (RFC 8554, Algorithms 4b and 6a) whose bytes follow from `seed`.
fn bare(seed: u8, message: &[u8]) -> SignedMessage {
    let bytes = |at: u8| hash(&[&[seed, at]]);
    let (id, q) = (&bytes(0)[..16], u32::from(seed % 32));
    let at = |number: u32, what: u16| [id, &number.to_be_bytes()[..], &what.to_be_bytes()].concat();
    let mut digest = hash(&[&at(q, 0x8181), &bytes(1), message]).to_vec();
    let digits = |digest: &[u8]| -> Vec<u8> {
        digest.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect()
    };
    let sum: u16 = digits(&digest).iter().map(|&digit| 15 - u16::from(digit)).sum();
    digest.extend((sum << 4).to_be_bytes());
    let mut ends = at(q, 0x8080);
    let mut signature = [&q.to_be_bytes()[..], &SETS[4..], &bytes(1)].concat();
    for (i, digit) in (0..67).zip(digits(&digest)) {
        let mut value = bytes(2 + i as u8);
        signature.extend(value);
        (digit..15).for_each(|j| value = hash(&[&at(q, i), &[j], &value]));
        ends.extend(value);
    }
    signature.extend(&SETS[..4]);
    let mut node = 32 + q;
    let mut root = hash(&[&at(node, 0x8282), &hash(&[&ends])]);
    for level in 0..5 {
        let sibling = bytes(100 + level);
        signature.extend(sibling);
        let pair = if node & 1 == 1 { [sibling, root] } else { [root, sibling] };
        node /= 2;
        root = hash(&[&at(node, 0x8383), pair.as_flattened()]);
    }
    SignedMessage { key: [&SETS, id, &root].concat(), signature }
}

/// A message signed under a key of so many levels.
fn signed(levels: u8, seed: u8, message: &[u8]) -> SignedMessage {
    let mut below = bare(seed, message);
    for level in 1..levels {
        let above = bare(seed.wrapping_add(level.wrapping_mul(100)), &below.key);
        let signature = [above.signature, below.key, below.signature].concat();
        below = SignedMessage { key: above.key, signature };
    }
    let (key, signature) = ([&[0, 0, 0, levels], &below.key[..]].concat(), below.signature);
    SignedMessage { key, signature: [&[0, 0, 0, levels - 1], &signature[..]].concat() }
}

fn text(lane: usize) -> Vec<u8> {
    vec![lane as u8; 10 * lane]
}

fn pure(message: &[u8]) -> Message<'_> {
    Message::Pure { context: b"", message }
}

/// Returns the verdict of the single operation as the status of a lane.
fn verdict(engine: &Engine, key: &VerifyKey, message: Message<'_>, signature: &[u8]) -> Status {
    match engine.verify(key, message, signature) {
        Ok(()) => Status::Ok,
        Err(Error::BadSignature) => Status::InvalidSignature,
        Err(Error::Input(_)) => Status::InvalidInput,
        Err(error) => panic!("{error}"),
    }
}

/// Keys of one to eight levels in one batch, with lanes that are wrong in every way: alone, together, on two threads and
/// by a queue.
#[test]
fn every_door_gives_one_verdict() {
    let engine = Arc::new(Engine::new(&Config::default()).unwrap());
    let n = 40;
    let texts: Vec<_> = (0..n).map(text).collect();
    let lanes: Vec<_> =
        (0..n).map(|lane| signed(lane as u8 % 8 + 1, lane as u8, &texts[lane])).collect();
    let key = |lane: &SignedMessage| engine.signature_public(Algorithm::Hss, &lane.key).unwrap();
    let keys: Vec<_> = lanes.iter().map(key).collect();
    let keys: Vec<_> = keys.iter().collect();
    let mut messages: Vec<_> = texts.iter().map(|text| pure(text)).collect();
    let room = VerifyKey::room(&keys);
    assert!(room < Algorithm::Hss.info().output.max(), "{room}");
    let (mut places, mut lengths) = (vec![0; n * room], Vec::new());
    for (place, lane) in places.chunks_exact_mut(room).zip(&lanes) {
        place[..lane.signature.len()].copy_from_slice(&lane.signature);
        lengths.push(lane.signature.len());
    }
    let good = vec![Status::Ok; n];
    let mut status = vec![Status::NotRun; n];
    engine.verify_many(&keys, &messages, &places, &lengths, &mut status).unwrap();
    assert_eq!(status, good);
    // Places of any other length do, too, where no signature is longer.
    let longest = lengths.iter().copied().max().unwrap();
    for place in [longest, room + 1, Algorithm::Hss.info().output.max()] {
        let mut others = vec![0; n * place];
        for (other, lane) in others.chunks_exact_mut(place).zip(&lanes) {
            other[..lane.signature.len()].copy_from_slice(&lane.signature);
        }
        engine.verify_many(&keys, &messages, &others, &lengths, &mut status).unwrap();
        assert_eq!(status, good, "{place}");
    }
    for len in [n * room - 1, n * (Algorithm::Hss.info().output.max() + 1)] {
        let outcome = engine.verify_many(&keys, &messages, &vec![0; len], &lengths, &mut status);
        assert_eq!(outcome, Err(Error::Input(InputError::Batch { lanes: n })));
    }
    places[3 * room + 50] ^= 1;
    messages[4] = Message::Pure { context: b"context", message: b"" };
    messages[5] = pure(b"another");
    lengths[6] -= 1;
    lengths[7] = 0;
    lengths[8] += 1;
    lengths[9] = room + 1;
    engine.verify_many(&keys, &messages, &places, &lengths, &mut status).unwrap();
    let mut on_two = vec![Status::NotRun; n];
    let parallel = engine.parallel(NonZero::new(2).unwrap());
    parallel.verify_many(&keys, &messages, &places, &lengths, &mut on_two).unwrap();
    assert_eq!(on_two, status);
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, Limits::default());
    for lane in 0..n {
        let longer = vec![0; room + 1];
        let signature = longer.get(..lengths[lane]).map_or(&longer[..], |_| &places[lane * room..]);
        let signature = &signature[..lengths[lane]];
        assert_eq!(status[lane], verdict(&engine, keys[lane], messages[lane], signature), "{lane}");
        assert_eq!(status[lane].is_ok(), !(3..10).contains(&lane), "{lane}");
        let queued = queue.verify(keys[lane], messages[lane], signature);
        assert_eq!(queued.is_ok(), status[lane].is_ok(), "{lane}: {queued:?}");
    }
}

#[test]
fn ordinary_private_keys_are_refused() {
    let engine = Engine::new(&Config::default()).unwrap();
    let outcomes = [
        engine.signature_generate(Algorithm::Hss, &OsEntropy).map(drop),
        engine.signature_generate_many(Algorithm::Hss, 2, &OsEntropy).map(drop),
        engine.signature_from_seed(Algorithm::Hss, &[7; 32]).map(drop),
        engine.signature_private(Algorithm::Hss, &[7; 64]).map(drop),
    ];
    for outcome in outcomes {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("HSS") && text.contains("only verified"), "{text}");
    }
}

/// Every number of levels and of sets, every length: a reason, and no key.
#[test]
fn keys_that_are_none_are_refused_with_the_reason() {
    let engine = Engine::new(&Config::default()).unwrap();
    let good = signed(1, 7, b"text").key;
    let refused = |key: &[u8]| {
        let outcome = engine.signature_public(Algorithm::Hss, key);
        let many = engine.signature_public_many(Algorithm::Hss, &[key]).unwrap().pop().unwrap();
        assert_eq!(outcome.as_ref().err(), many.err().as_ref());
        outcome.err().map(|error| error.to_string())
    };
    assert_eq!(refused(&good), None);
    let with = |at: usize, number: u32| {
        let mut key = good.clone();
        key[at..at + 4].copy_from_slice(&number.to_be_bytes());
        refused(&key)
    };
    let far = [25, 0x100, 0x0500_0000, u32::MAX];
    for number in (0..25).chain(far) {
        let levels = with(0, number);
        assert_eq!(levels.is_none(), (1..=8).contains(&number), "{number}: {levels:?}");
        assert!(levels.is_none_or(|text| text.contains("levels is not 1 to 8")));
        // Trees of SHA-256 with 32 bytes are 5 to 9, one-time signatures 1 to 4.
        let (tree, ots) = (with(4, number), with(8, number));
        assert_eq!(tree.is_none(), (5..=9).contains(&number), "{number}: {tree:?}");
        let says = |text: Option<String>, known: bool, what: &str| {
            let expected = if known { "not of one hash function" } else { what };
            assert!(text.is_none_or(|text| text.contains(expected)), "{number}");
        };
        says(tree, (5..=24).contains(&number), "tree's set is unknown");
        assert_eq!(ots.is_none(), (1..=4).contains(&number), "{number}: {ots:?}");
        says(ots, (1..=16).contains(&number), "one-time signatures' set is unknown");
    }
    for len in 0..good.len() {
        assert!(refused(&good[..len]).is_some(), "{len}");
    }
    for more in [1, 1000, 1 << 20] {
        let longer = [&good[..], &vec![0; more]].concat();
        assert!(refused(&longer).unwrap().contains("bytes follow"), "{more}");
    }
}

#[test]
fn a_cache_keeps_keys_by_their_bytes() {
    let (engine, cache) = (Engine::global().unwrap(), KeyCache::new(1 << 20));
    let SignedMessage { key, signature } = signed(2, 9, b"text");
    for _ in 0..2 {
        let known = cache.signature_public(engine, Algorithm::Hss, &key).unwrap();
        engine.verify(&known, pure(b"text"), &signature).unwrap();
    }
    assert_eq!((cache.stats().hits, cache.stats().misses), (1, 1));
    assert!(cache.signature_public(engine, Algorithm::Hss, &key[1..]).is_err());
}

/// RFC 9802's structure, and the two that were written before it: an OCTET STRING in the BIT STRING, and a tree's key
/// without the word that counts levels.
#[test]
fn old_structures_of_public_keys_are_read_and_not_written() {
    let engine = Engine::global().unwrap();
    let key = signed(1, 3, b"text").key;
    let form = FileForm::of(Algorithm::Hss).unwrap();
    let file = |bytes: &[u8]| key_file::encode_public(form, bytes, true).unwrap();
    let octets = |bytes: &[u8]| [&[4, bytes.len() as u8], bytes].concat();
    let read = |bytes: &[u8]| {
        let encoded = EncodedKey::from_der(&file(bytes)).unwrap();
        let found = key_file::of_identifier(encoded.identifier(), Kind::Signature).unwrap();
        assert_eq!(found, Some(Algorithm::Hss));
        key_file::decode(engine, Algorithm::Hss, &encoded).map(|key| key.public())
    };
    assert_eq!((key.len(), file(&key).len()), (60, 80));
    for old in [key.clone(), octets(&key), key[4..].to_vec(), octets(&key[4..])] {
        let PublicKey::Signature(public) = read(&old).unwrap() else { panic!("no signature") };
        assert_eq!(public.bytes(), key);
        assert_eq!(file(public.bytes()), file(&key));
    }
    for bad in
        [&key[1..], &key[..59], &key[4..59], &octets(&key)[..61], &octets(&octets(&key)), b""]
    {
        assert!(read(bad).is_err(), "{} bytes", bad.len());
    }
}
