//! FN-DSA and Falcon through the engine: what is theirs and not every signature's.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{
    Algorithm, Config, Engine, Error, Family, Message, OsEntropy, Prehash, Randomness, Status,
};

fn algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(|algorithm| algorithm.info().family == Family::FnDsa)
}

fn engines() -> Vec<Engine> {
    gabion_backend::cpus()
        .iter()
        .map(|backend| Config { backend: Some(backend.name().to_owned()), ..Config::default() })
        .map(|config| Engine::new(&config).unwrap())
        .collect()
}

#[test]
fn signatures_round_trip_and_vary_in_length_where_the_table_says_so() {
    assert_eq!(algorithms().count(), 6);
    for engine in engines() {
        for algorithm in algorithms() {
            let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
            let again = engine.signature_private(algorithm, key.bytes()).unwrap();
            let public = engine.signature_public(algorithm, key.public_bytes()).unwrap();
            let message = Message::Pure { context: b"", message: b"text" };
            let mut lengths = Vec::new();
            for _ in 0..12 {
                let signature = engine.sign(&again, message, &OsEntropy).unwrap();
                engine.verify(&public, message, &signature).unwrap();
                lengths.push(signature.len());
                let other = Message::Pure { context: b"", message: b"next" };
                let refused = engine.verify(&key.public(), other, &signature);
                assert_eq!(refused, Err(Error::BadSignature));
            }
            let info = algorithm.info();
            assert!(lengths.iter().all(|&length| length <= info.output.max()));
            let varied = lengths.iter().any(|&length| length != lengths[0]);
            assert_eq!(varied, info.output.varies(), "{algorithm}: {lengths:?}");
            assert!(info.output.varies() || lengths[0] == info.output.max());
        }
    }
}

#[test]
fn unsupported_modes_are_refused_by_name() {
    let engine = Engine::new(&Config::default()).unwrap();
    let digest = Prehash::Sha2_256.digest(b"m");
    let hash = Prehash::Sha2_256;
    for algorithm in algorithms() {
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        let plain = Message::Pure { context: b"", message: b"m" };
        let error = engine.sign_deterministic(&key, plain).unwrap_err().to_string();
        assert!(error.contains("randomness"), "{error}");
        let error = engine.signature_from_seed(algorithm, &[0; 32]).err().unwrap().to_string();
        assert!(error.contains("seed"), "{error}");
        for message in [
            Message::Pure { context: b"c", message: b"m" },
            Message::Prehash { context: b"", hash, digest: &digest },
        ] {
            let made = engine.sign(&key, message, &OsEntropy);
            if algorithm.name().starts_with("FN-DSA") {
                engine.verify(&key.public(), message, &made.unwrap()).unwrap();
                continue;
            }
            let error = made.unwrap_err().to_string();
            assert!(error.contains("Falcon") && error.contains("no operation"), "{error}");
            assert!(matches!(engine.verify(&key.public(), message, b"x"), Err(Error::Input(_))));
            // Among many, the lane says so and its neighbour signs.
            let room = algorithm.info().output.max();
            let (mut signatures, mut lengths) = (vec![7; 2 * room], [9; 2]);
            let mut status = [Status::NotRun; 2];
            let fresh = Randomness::Fresh(&OsEntropy);
            let (keys, messages) = ([&key; 2], [message, plain]);
            engine
                .sign_many(&keys, &messages, fresh, &mut signatures, &mut lengths, &mut status)
                .unwrap();
            assert_eq!(status, [Status::InvalidInput, Status::Ok]);
            assert_eq!((lengths[0], &signatures[..room]), (0, &vec![0; room][..]));
        }
    }
}

#[test]
fn bad_keys_say_what_is_wrong() {
    let engine = Engine::new(&Config::default()).unwrap();
    for algorithm in algorithms() {
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        let error = |bytes: &[u8]| {
            let refused = engine.signature_private(algorithm, bytes);
            refused.err().unwrap().to_string()
        };
        let mut bad = key.bytes().to_vec();
        bad[200] ^= 4;
        assert!(error(&bad).contains("short basis"), "{}", error(&bad));
        assert!(error(&bad[1..]).contains("bytes; expected"));
        bad[0] ^= 1;
        assert!(error(&bad).contains("first byte"));
        let mut public = key.public_bytes().to_vec();
        public[5..9].fill(0xff);
        let refused = engine.signature_public(algorithm, &public).err().unwrap().to_string();
        assert!(refused.contains("not below q"), "{refused}");
    }
}

#[test]
fn keys_of_one_design_are_none_of_the_other() {
    let engine = Engine::new(&Config::default()).unwrap();
    let key = engine.signature_generate(Algorithm::FnDsa512, &OsEntropy).unwrap();
    assert!(engine.signature_private(Algorithm::Falcon512, key.bytes()).is_err());
    // A public key is as long in both, but packed from the other end.
    assert!(engine.signature_public(Algorithm::FalconPadded512, key.public_bytes()).is_err());
}
