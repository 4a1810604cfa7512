//! XMSS and XMSS^MT keys and signatures by every way in, under keys of which one leaf of each tree is known.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::num::NonZero;
use std::sync::Arc;

use gabion_backend::portable::Portable;
use gabion_engine::key_file::{self, EncodedKey, FileForm, Identifier, Parameters};
use gabion_engine::keys::PublicKey;
use gabion_engine::xmss::{Scheme, Set, testing_only_signatures};
use gabion_engine::{
    Algorithm, Config, Engine, Error, InputError, KeyCache, Kind, Limits, Message, OsEntropy,
    Queue, Status, VerifyKey,
};

const SCHEMES: [(Scheme, Algorithm); 2] =
    [(Scheme::Xmss, Algorithm::Xmss), (Scheme::XmssMt, Algorithm::XmssMt)];

/// A key and a signature of a message, both of bytes that follow from `seed`.
fn signed(scheme: Scheme, number: u32, seed: u8, message: &[u8]) -> [Vec<u8>; 2] {
    signed_at((scheme, number), u64::from(seed), seed, message)
}

fn signed_at(set: (Scheme, u32), index: u64, seed: u8, message: &[u8]) -> [Vec<u8>; 2] {
    let (scheme, number) = set;
    let set = Set::from_number(scheme, number).expect("a set");
    let mut next = seed;
    let mut take = |len| {
        next = next.wrapping_add(101);
        (0..len).map(|at| next.wrapping_mul(at as u8 | 1) ^ (at >> 8) as u8).collect()
    };
    let (key, signatures) = testing_only_signatures(&Portable, set, index, &[message], &mut take);
    [key, signatures.concat()]
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

/// A tree that does not exist has leaves that could be computed, so that such a signature is right but for its index.
#[test]
fn an_index_beyond_the_last_is_refused() {
    let engine = Engine::new(&Config::default()).unwrap();
    // 10 high, and 20: the bytes of an index have room for more.
    for (set, signatures) in [((Scheme::Xmss, 13), 1 << 10), ((Scheme::XmssMt, 0x22), 1 << 20)] {
        let algorithm = set.0.into();
        for (index, expected) in
            [(signatures - 1, true), (signatures, false), (signatures + 7, false)]
        {
            let [key, signature] = signed_at(set, index, 3, b"text");
            let key = engine.signature_public(algorithm, &key).unwrap();
            let verified = engine.verify(&key, pure(b"text"), &signature).is_ok();
            assert_eq!(verified, expected, "{algorithm}, index {index}");
        }
    }
}

/// Keys of sets of several hash functions in one batch, with lanes that are wrong in every way: alone, together, on two
/// threads and by a queue.
#[test]
fn every_door_gives_one_verdict() {
    for (scheme, algorithm) in SCHEMES {
        let numbers = match scheme {
            Scheme::Xmss => [1, 13, 16, 19],
            Scheme::XmssMt => [0x02, 0x22, 0x2a, 0x32],
        };
        let engine = Arc::new(Engine::new(&Config::default()).unwrap());
        let n = 12;
        let texts: Vec<_> = (0..n).map(text).collect();
        let lanes: Vec<_> = (0..n)
            .map(|lane| signed(scheme, numbers[lane % 4], lane as u8, &texts[lane]))
            .collect();
        let key = |[key, _]: &[Vec<u8>; 2]| engine.signature_public(algorithm, key).unwrap();
        let keys: Vec<_> = lanes.iter().map(key).collect();
        let keys: Vec<_> = keys.iter().collect();
        let mut messages: Vec<_> = texts.iter().map(|text| pure(text)).collect();
        let room = VerifyKey::room(&keys);
        assert!(room < algorithm.info().output.max(), "{room}");
        let (mut places, mut lengths) = (vec![0; n * room], Vec::new());
        for ((place, [_, signature]), key) in places.chunks_exact_mut(room).zip(&lanes).zip(&keys) {
            assert_eq!(key.signature_len_max(), signature.len());
            place[..signature.len()].copy_from_slice(signature);
            lengths.push(signature.len());
        }
        let mut status = vec![Status::NotRun; n];
        engine.verify_many(&keys, &messages, &places, &lengths, &mut status).unwrap();
        assert_eq!(status, vec![Status::Ok; n]);
        for len in [n * room - 1, n * (algorithm.info().output.max() + 1)] {
            let outcome =
                engine.verify_many(&keys, &messages, &vec![0; len], &lengths, &mut status);
            assert_eq!(outcome, Err(Error::Input(InputError::Batch { lanes: n })));
        }
        places[3 * room + 50] ^= 1;
        messages[4] = Message::Pure { context: b"context", message: b"" };
        messages[5] = pure(b"another");
        lengths[6] -= 1;
        lengths[7] = 0;
        lengths[8] = room + 1;
        engine.verify_many(&keys, &messages, &places, &lengths, &mut status).unwrap();
        let mut on_two = vec![Status::NotRun; n];
        let parallel = engine.parallel(NonZero::new(2).unwrap());
        parallel.verify_many(&keys, &messages, &places, &lengths, &mut on_two).unwrap();
        assert_eq!(on_two, status);
        let queue = Queue::new(Arc::clone(&engine), OsEntropy, Limits::default());
        for lane in 0..n {
            let longer = vec![0; room + 1];
            let place = &places[lane * room..][..room];
            let signature = if lengths[lane] > room { &longer } else { &place[..lengths[lane]] };
            let alone = verdict(&engine, keys[lane], messages[lane], signature);
            assert_eq!(status[lane], alone, "{lane}");
            assert_eq!(status[lane].is_ok(), !(3..9).contains(&lane), "{lane}");
            let queued = queue.verify(keys[lane], messages[lane], signature);
            assert_eq!(queued.is_ok(), status[lane].is_ok(), "{lane}: {queued:?}");
        }
    }
}

#[test]
fn ordinary_private_keys_are_refused() {
    let engine = Engine::new(&Config::default()).unwrap();
    for (_, algorithm) in SCHEMES {
        let outcomes = [
            engine.signature_generate(algorithm, &OsEntropy).map(drop),
            engine.signature_generate_many(algorithm, 2, &OsEntropy).map(drop),
            engine.signature_private(algorithm, &[7; 132]).map(drop),
        ];
        for outcome in outcomes {
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains("XMSS") && text.contains("only verified"), "{text}");
        }
    }
}

/// Numbers of all sets and of none, under both names, and lengths: a key, or a reason (RustCrypto/signatures 1442).
#[test]
fn a_number_is_that_of_the_scheme_that_was_named() {
    let engine = Engine::new(&Config::default()).unwrap();
    for (scheme, algorithm) in SCHEMES {
        for number in (0..=0x40).chain([0x100, 0x0100_0000, u32::MAX]) {
            for n in [24, 32, 64] {
                let key = [&number.to_be_bytes()[..], &vec![7; 2 * n]].concat();
                let set = Set::from_number(scheme, number);
                let made = engine.signature_public(algorithm, &key);
                let many = engine.signature_public_many(algorithm, &[&key]).unwrap().pop().unwrap();
                assert_eq!(made.as_ref().err(), many.as_ref().err());
                match (set, made) {
                    (Some(set), Ok(made)) => {
                        assert_eq!((set.n, made.bytes()), (n, &key[..]));
                        assert_eq!(made.signature_len_max(), set.signature_len());
                    }
                    (Some(set), Err(error)) => {
                        assert!(set.n != n && error.to_string().contains("length"), "{error}");
                    }
                    (None, outcome) => {
                        let text = outcome.err().unwrap().to_string();
                        assert!(text.contains(scheme.name()) && text.contains("unknown"), "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_cache_keeps_keys_by_their_bytes_and_their_scheme() {
    let (engine, cache) = (Engine::global().unwrap(), KeyCache::new(1 << 20));
    // XMSS-SHA2_10_256 and XMSSMT-SHA2_20/2_256 have one number and one length.
    let [key, signature] = signed(Scheme::Xmss, 1, 9, b"text");
    for algorithm in [Algorithm::Xmss, Algorithm::XmssMt, Algorithm::Xmss, Algorithm::XmssMt] {
        let known = cache.signature_public(engine, algorithm, &key).unwrap();
        assert_eq!(known.algorithm(), algorithm);
        let verdict = verdict(engine, &known, pure(b"text"), &signature);
        assert_eq!(verdict.is_ok(), algorithm == Algorithm::Xmss);
    }
    assert_eq!((cache.stats().hits, cache.stats().misses), (2, 2));
}

/// RFC 9802's structure, and what was written before it: another identifier, and an OCTET STRING in the BIT STRING
/// (botan PR 5933, bc-java 2336).
#[test]
fn old_structures_of_public_keys_are_read_and_not_written() {
    let engine = Engine::global().unwrap();
    for ((scheme, algorithm), before) in
        SCHEMES.into_iter().zip(["0.4.0.127.0.15.1.1.13.0", "0.4.0.127.0.15.1.1.14.0"])
    {
        let form = FileForm::of(algorithm).unwrap();
        assert!(form.oid.starts_with("1.3.6.1.5.5.7.6.3"));
        let octets = |bytes: &[u8]| match bytes.len() as u8 {
            len @ 0..0x80 => [&[4, len], bytes].concat(),
            len => [&[4, 0x81, len], bytes].concat(),
        };
        for number in [1, 13] {
            let [key, _] = signed(scheme, number, 3, b"text");
            let file = |oid: &'static str, bytes: &[u8]| {
                key_file::encode_public(FileForm { oid, ..form }, bytes, true).unwrap()
            };
            let read = |der: &[u8]| {
                let encoded = EncodedKey::from_der(der).unwrap();
                let found = key_file::of_identifier(encoded.identifier(), Kind::Signature);
                assert_eq!(found, Ok(Some(algorithm)));
                key_file::decode(engine, algorithm, &encoded).map(|key| key.public())
            };
            for oid in [form.oid, before] {
                for old in [key.clone(), octets(&key)] {
                    let read = read(&file(oid, &old)).unwrap();
                    let PublicKey::Signature(public) = read else { panic!("no signature") };
                    assert_eq!((public.algorithm(), public.bytes()), (algorithm, &key[..]));
                }
                let short = &key[..key.len() - 1];
                for bad in [&key[1..], short, &octets(short), &octets(&octets(&key)), b""] {
                    assert!(read(&file(oid, bad)).is_err(), "{} bytes", bad.len());
                }
            }
        }
        let parameters = Parameters::Named(before.to_owned());
        let named = Identifier { oid: before.to_owned(), parameters };
        assert!(key_file::of_identifier(&named, Kind::Signature).is_err());
    }
}
