//! Key exchange and ECDSA as the engine's callers see them.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{
    Algorithm, Config, Engine, Entropy, EntropyError, Error, Kind, Message, OsEntropy, Prehash,
};

fn algorithms(kind: Kind) -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(move |algorithm| algorithm.info().kind == kind)
}

const ECDSA: [Algorithm; 3] = [Algorithm::EcdsaP256, Algorithm::EcdsaP384, Algorithm::EcdsaP521];

#[test]
fn key_exchange_peers_derive_the_same_secret() {
    let engine = Engine::new(&Config::default()).unwrap();
    for algorithm in algorithms(Kind::KeyExchange) {
        let info = algorithm.info();
        let [a, b] = [(); 2].map(|()| engine.exchange_generate(algorithm, &OsEntropy).unwrap());
        assert_eq!(
            (a.bytes().len(), a.public_bytes().len()),
            (info.private_key.max(), info.public_key.max())
        );
        let shared = engine.derive(&a, &b.public()).unwrap();
        assert_eq!(shared.len(), info.shared_secret);
        assert_eq!(engine.derive(&b, &a.public()).unwrap(), shared);
        let again = engine.exchange_private(algorithm, a.bytes()).unwrap();
        let peer = engine.exchange_public(algorithm, b.public_bytes()).unwrap();
        assert_eq!(again.public_bytes(), a.public_bytes());
        assert_eq!(engine.derive(&again, &peer).unwrap(), shared);
        assert!(engine.exchange_public(algorithm, &b.public_bytes()[1..]).is_err());
        assert!(engine.exchange_private(algorithm, &a.bytes()[1..]).is_err());
        let other = engine.exchange_generate(Algorithm::EcdhP384, &OsEntropy).unwrap();
        let crossed = engine.derive(&a, &other.public());
        assert_eq!(crossed.is_err(), algorithm != Algorithm::EcdhP384);
    }
}

#[test]
fn keys_that_are_none_are_refused_and_named() {
    let engine = Engine::new(&Config::default()).unwrap();
    let zero = engine.exchange_public(Algorithm::X25519, &[0; 32]).unwrap();
    let key = engine.exchange_generate(Algorithm::X25519, &OsEntropy).unwrap();
    let error = engine.derive(&key, &zero).unwrap_err().to_string();
    assert!(error.contains("X25519") && error.contains("all zero"), "{error}");
    for (curve, ecdsa) in [
        (Algorithm::EcdhP256, ECDSA[0]),
        (Algorithm::EcdhP384, ECDSA[1]),
        (Algorithm::EcdhP521, ECDSA[2]),
    ] {
        let info = curve.info();
        for private in [vec![0; info.private_key.max()], vec![0xff; info.private_key.max()]] {
            assert!(engine.exchange_private(curve, &private).is_err(), "{curve}");
            assert!(engine.signature_private(ecdsa, &private).is_err(), "{ecdsa}");
        }
        let mut off = engine.signature_generate(ecdsa, &OsEntropy).unwrap().public_bytes().to_vec();
        off[9] ^= 1;
        let error = engine.signature_public(ecdsa, &off).err().unwrap().to_string();
        assert!(error.contains("point"), "{error}");
        assert!(engine.exchange_public(curve, &off).is_err());
        assert!(engine.exchange_generate(ecdsa, &OsEntropy).is_err());
        assert!(engine.signature_from_seed(ecdsa, &[1; 32]).is_err());
    }
}

/// RFC 6979, A.2.5, A.2.6 and A.2.7: the message "sample" by the curve's own hash.
#[test]
fn deterministic_signatures_are_those_of_rfc_6979() {
    let engine = Engine::new(&Config::default()).unwrap();
    for (algorithm, private, r, s) in [
        (
            Algorithm::EcdsaP256,
            "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ),
        (
            Algorithm::EcdsaP384,
            "6b9d3dad2e1b8c1c05b19875b6659f4de23c3b667bf297ba9aa47740787137d896d5724e4c70a825f872c9\
             ea60d2edf5",
            "94edbb92a5ecb8aad4736e56c691916b3f88140666ce9fa73d64c4ea95ad133c81a648152e44acf96e36dd\
             1e80fabe46",
            "99ef4aeb15f178cea1fe40db2603138f130e740a19624526203b6351d0a3a94fa329c145786e679e7b82c7\
             1a38628ac8",
        ),
    ] {
        let bytes = |text: &str| base16ct::mixed::decode_vec(text).unwrap();
        let key = engine.signature_private(algorithm, &bytes(private)).unwrap();
        let message = Message::Pure { context: b"", message: b"sample" };
        let der = engine.sign_deterministic(&key, message).unwrap();
        // Both numbers have their top bit set here, so that a zero byte stands before each.
        let number = |text: &str| {
            let raw = bytes(text);
            [&[2, raw.len() as u8 + 1, 0], &raw[..]].concat()
        };
        let content = [number(r), number(s)].concat();
        assert_eq!(der, [&[0x30, content.len() as u8], &content[..]].concat(), "{algorithm}");
    }
}

#[test]
fn digests_of_any_hash_are_signed_without_context() {
    let engine = Engine::new(&Config::default()).unwrap();
    let hashes = [Prehash::Sha2_256, Prehash::Sha2_384, Prehash::Sha2_512];
    for (algorithm, own) in ECDSA.into_iter().zip(hashes) {
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        let whole = Message::Pure { context: b"", message: b"text" };
        let made = engine.sign(&key, whole, &OsEntropy).unwrap();
        for hash in Prehash::all() {
            let digest = hash.digest(b"text");
            let message = Message::Prehash { context: b"", hash, digest: &digest };
            let verified = engine.verify(&key.public(), message, &made);
            assert_eq!(verified.is_ok(), hash == own, "{algorithm}, {hash:?}");
            for signature in [
                engine.sign(&key, message, &OsEntropy).unwrap(),
                engine.sign_deterministic(&key, message).unwrap(),
            ] {
                assert_eq!(engine.verify(&key.public(), message, &signature), Ok(()));
                let of_whole = engine.verify(&key.public(), whole, &signature);
                assert_eq!(of_whole.is_ok(), hash == own, "{algorithm}, {hash:?}");
            }
            let with_context = Message::Prehash { context: b"c", hash, digest: &digest };
            let short = Message::Prehash { context: b"", hash, digest: &digest[1..] };
            for refused in [with_context, short] {
                assert!(engine.sign(&key, refused, &OsEntropy).is_err(), "{algorithm}, {hash:?}");
            }
        }
        let context = Message::Pure { context: b"c", message: b"text" };
        assert!(matches!(engine.sign(&key, context, &OsEntropy), Err(Error::Input(_))));
        let given = engine.sign_with_randomness(&key, whole, &[5; 32]).unwrap();
        assert_eq!(engine.sign_with_randomness(&key, whole, &[5; 32]), Ok(given.clone()));
        assert_ne!(Ok(given), engine.sign_deterministic(&key, whole));
    }
}

/// A source of ones only: no scalar of P-256 or P-384 comes of that.
struct ConstantEntropy;

impl Entropy for ConstantEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        out.fill(0xff);
        Ok(())
    }
}

/// A source that fails.
struct FailingEntropy;

impl Entropy for FailingEntropy {
    fn fill(&self, _: &mut [u8]) -> Result<(), EntropyError> {
        Err(EntropyError("closed".into()))
    }
}

#[test]
fn curve_operations_fail_without_usable_entropy() {
    let engine = Engine::new(&Config::default()).unwrap();
    for algorithm in algorithms(Kind::KeyExchange) {
        assert!(engine.exchange_generate(algorithm, &FailingEntropy).is_err());
        let stuck = engine.exchange_generate(algorithm, &ConstantEntropy);
        assert_eq!(stuck.is_err(), algorithm != Algorithm::X25519, "{algorithm}");
    }
    for algorithm in ECDSA {
        assert!(matches!(
            engine.signature_generate(algorithm, &FailingEntropy),
            Err(Error::Entropy(_))
        ));
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        let message = Message::Pure { context: b"", message: b"m" };
        assert!(matches!(engine.sign(&key, message, &FailingEntropy), Err(Error::Entropy(_))));
    }
}
