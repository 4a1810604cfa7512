//! Ed25519 through the engine: signing, rejected inputs, and equal verdicts of batches and single
//! operations.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{
    Algorithm, Config, Engine, Error, Message, OsEntropy, Randomness, SigningKey, Status,
};

const BOTH: [Algorithm; 2] = [Algorithm::Ed25519, Algorithm::Ed25519Zip215];

fn engines() -> Vec<Engine> {
    let names = ["portable", "avx2", "avx512"];
    let engine = |name: &str| {
        Engine::new(&Config { backend: Some(name.to_owned()), ..Config::default() }).ok()
    };
    names.into_iter().filter_map(engine).collect()
}

fn plain(message: &[u8]) -> Message<'_> {
    Message::Pure { context: b"", message }
}

#[test]
fn signatures_are_those_of_rfc_8032_section_7_1() {
    // TEST 3.
    let bytes = |text: &str| -> Vec<u8> {
        let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    let seed = bytes("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
    let public = bytes("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025");
    let expected = bytes(
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac\
         18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    );
    for engine in engines() {
        for algorithm in BOTH {
            let key = engine.signature_from_seed(algorithm, &seed).unwrap();
            assert_eq!((key.public_bytes(), key.bytes()), (&public[..], &seed[..]));
            let signature = engine.sign(&key, plain(&[0xaf, 0x82]), &OsEntropy).unwrap();
            assert_eq!(signature, expected);
            let public = engine.signature_public(algorithm, &public).unwrap();
            // Multiples of a key are made on the way.
            for _ in 0..5 {
                assert_eq!(engine.verify(&public, plain(&[0xaf, 0x82]), &signature), Ok(()));
                let other = engine.verify(&public, plain(&[0xaf, 0x83]), &signature);
                assert_eq!(other, Err(Error::BadSignature));
            }
        }
    }
}

#[test]
fn contexts_and_digests_are_refused() {
    for engine in engines() {
        let key = engine.signature_generate(Algorithm::Ed25519, &OsEntropy).unwrap();
        let message = Message::Pure { context: b"c", message: b"m" };
        let refused = engine.sign(&key, message, &OsEntropy);
        assert!(matches!(refused, Err(Error::Input(_))));
        let signature = engine.sign_deterministic(&key, plain(b"m")).unwrap();
        assert!(engine.verify(&key.public(), message, &signature).is_err());
        assert_eq!(engine.verify(&key.public(), plain(b"m"), &signature), Ok(()));
    }
}

#[test]
fn keys_of_small_order_and_of_no_canonical_form_are_for_zip_215_only() {
    let mut one = [0; 32];
    one[0] = 1;
    let mut above_p = [0xff; 32];
    (above_p[0], above_p[31]) = (0xee, 0x7f);
    for engine in engines() {
        for bytes in [&one, &above_p] {
            assert!(engine.signature_public(Algorithm::Ed25519, bytes).is_err());
            let key = engine.signature_public(Algorithm::Ed25519Zip215, bytes).unwrap();
            assert_eq!(key.bytes(), bytes);
            // R and A neutral, S = 0: valid for every message under these rules.
            let mut signature = [0; 64];
            signature[0] = 1;
            assert_eq!(engine.verify(&key, plain(b"any"), &signature), Ok(()));
        }
    }
}

/// Every lane of a batch, in which most kinds of damage occur, as the single operation has it.
#[test]
fn batches_and_single_operations_give_one_verdict() {
    for engine in engines() {
        for algorithm in BOTH {
            let keys: Vec<SigningKey> = (0..40)
                .map(|_| engine.signature_generate(algorithm, &OsEntropy).unwrap())
                .collect();
            for n in [1, 2, 7, 8, 9, 16, 17, 40] {
                let texts: Vec<[u8; 3]> = (0..n as u8).map(|lane| [lane; 3]).collect();
                let messages: Vec<_> = texts.iter().map(|text| plain(text)).collect();
                let signing: Vec<_> = keys[..n].iter().collect();
                let (mut sig, mut lengths) = (vec![0; 64 * n], vec![0; n]);
                let mut status = vec![Status::NotRun; n];
                let randomness = Randomness::Deterministic;
                engine
                    .sign_many(&signing, &messages, randomness, &mut sig, &mut lengths, &mut status)
                    .unwrap();
                assert!(status.iter().all(|status| status.is_ok()));
                for (lane, sig) in sig.as_chunks_mut::<64>().0.iter_mut().enumerate() {
                    match lane % 9 {
                        2 => sig[5] ^= 4,
                        4 => sig[40] ^= 1,
                        5 => sig[63] |= 0x20,
                        7 => sig[..32].fill(0),
                        _ => {}
                    }
                }
                let public: Vec<_> = signing.iter().map(|key| key.public()).collect();
                let verifying: Vec<_> = public.iter().collect();
                engine.verify_many(&verifying, &messages, &sig, &lengths, &mut status).unwrap();
                for lane in 0..n {
                    let sig = &sig[64 * lane..64 * (lane + 1)];
                    let single = engine.verify(verifying[lane], messages[lane], sig);
                    assert_eq!(single.is_ok(), status[lane].is_ok(), "{algorithm}, {lane} of {n}");
                    assert_eq!(single.is_ok(), ![2, 4, 5, 7].contains(&(lane % 9)));
                }
            }
        }
    }
}
