//! Public keys of every algorithm.

use gabion_engine::{Algorithm, Error, KeyCache, Kind, Message};

use super::fixtures::{self, FixedEntropy, agreed, engine, engines};
use super::input::{Input, with_every_algorithm};

fn choices() -> Vec<Algorithm> {
    fixtures::verified(|_, _| true)
}

/// Every algorithm: its own key, one bit changed, too short, too long, the edges of a number.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = with_every_algorithm(
        &choices(),
        &[&[0], &[1, 0, 5, 0, 1], &[1, 3, 9, 0, 0], &[1, 4, 0, 0, 1], &[1, 2, 0, 0, 255]],
    );
    for edge in 0..6 {
        seeds.extend(with_every_algorithm(&choices(), &[&[1, 5, 0, 0, edge]]));
    }
    seeds
}

/// A key that is accepted has the bytes it was made of and does its work; the cache refuses and
/// accepts as the engine does; no neighbour of a batch minds.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let known = input.known(&choices());
    let bytes = input.edited(&known.public);
    let algorithm = known.algorithm;
    let is_right = match algorithm.info().kind {
        Kind::Kem => kem(algorithm, &bytes),
        Kind::Signature => signature(algorithm, &bytes),
        _ => exchange(known, &bytes),
    };
    assert!(is_right || bytes != known.public, "{algorithm}: its own key is refused");
}

fn kem(algorithm: Algorithm, bytes: &[u8]) -> bool {
    let decoded = engines().each_ref().map(|engine| engine.kem_public(algorithm, bytes));
    let cache = KeyCache::new(1 << 20);
    for _ in 0..2 {
        let cached = cache.kem_public(engine(), algorithm, bytes);
        assert_eq!(cached.as_ref().err(), decoded[0].as_ref().err(), "{algorithm}: the cache");
        assert!(cached.is_err() || cached.is_ok_and(|key| key.bytes() == bytes));
    }
    let [best, portable] = match decoded {
        [Ok(best), Ok(portable)] => [best, portable],
        [best, portable] => {
            assert_eq!(best.err(), portable.err(), "{algorithm}: backends differ");
            return false;
        }
    };
    assert_eq!(best.bytes(), bytes, "{algorithm}: another key came out");
    let made = [best, portable].map(|key| engine().encaps(&key, &FixedEntropy::new(1)));
    assert_eq!(made[0], made[1], "{algorithm}: keys of two backends differ");
    // A curve may reject some keys only at this point: a point of small order.
    assert!(made[0].is_ok() || matches!(made[0], Err(Error::Input(_) | Error::Lane { .. })));
    true
}

fn signature(algorithm: Algorithm, bytes: &[u8]) -> bool {
    let decoded = engines().each_ref().map(|engine| engine.signature_public(algorithm, bytes));
    let cached = KeyCache::new(1 << 20).signature_public(engine(), algorithm, bytes);
    assert_eq!(cached.as_ref().err(), decoded[0].as_ref().err(), "{algorithm}: the cache");
    let [best, portable] = match decoded {
        [Ok(best), Ok(portable)] => [best, portable],
        [best, portable] => {
            assert_eq!(best.err(), portable.err(), "{algorithm}: backends differ");
            return false;
        }
    };
    assert_eq!(best.bytes(), bytes, "{algorithm}: another key came out");
    let known = fixtures::of(algorithm);
    let message = Message::Pure { context: b"", message: fixtures::MESSAGE };
    let verdicts =
        [best, portable].map(|key| agreed(|engine| engine.verify(&key, message, &known.output)));
    assert_eq!(verdicts[0], verdicts[1], "{algorithm}: keys of two backends differ");
    let is_own = bytes == known.public;
    assert_eq!(verdicts[0].is_ok(), is_own, "{algorithm}: a signature of another key");
    true
}

fn exchange(known: &fixtures::KeyFixture, bytes: &[u8]) -> bool {
    let algorithm = known.algorithm;
    let Ok(peer) = engine().exchange_public(algorithm, bytes) else { return false };
    assert_eq!(peer.bytes(), bytes, "{algorithm}: another key came out");
    let own = engine().exchange_private(algorithm, &known.private).expect("a known key");
    match agreed(|engine| engine.derive(&own, &peer)) {
        Ok(shared) => assert!(shared.iter().any(|&byte| byte != 0), "{algorithm}: zero"),
        Err(error) => assert!(matches!(error, Error::Input(_)), "{algorithm}: {error}"),
    }
    true
}
