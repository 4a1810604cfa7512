//! Hybrid KEMs: X-Wing against its published vectors, and every hybrid against its own parts.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{Algorithm, Config, Engine, Error, Family, OsEntropy, Randomness, Status, ct};
use gabion_tests::vectors::{self, hex, list};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Digest, Sha3_256, Shake256};

fn engines() -> Vec<Engine> {
    ["", "portable"]
        .into_iter()
        .map(|name| Config {
            backend: (!name.is_empty()).then(|| name.to_owned()),
            ..Config::default()
        })
        .map(|config| Engine::new(&config).unwrap())
        .collect()
}

fn hybrids() -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(|algorithm| algorithm.info().family == Family::Hybrid)
}

/// Returns whether ML-KEM's part stands before the curve's.
fn kem_first(algorithm: Algorithm) -> bool {
    algorithm.info().part_algorithms().next().unwrap().info().family == Family::MlKem
}

/// The draft's vectors: seed, eseed -> sk, pk, ct, ss.
#[test]
fn x_wing_vectors() {
    let engine = Engine::new(&Config::default()).unwrap();
    let Some(file) = vectors::json("xwing/test-vectors.json") else { return };
    for test in list(&file) {
        let key = engine.kem_from_seed(Algorithm::XWing, &hex(&test["seed"])).unwrap();
        assert_eq!(key.bytes(), hex(&test["sk"]));
        assert_eq!(key.public_bytes(), hex(&test["pk"]));
        let eseed = hex(&test["eseed"]);
        let (ct, shared) = engine.encaps_with_randomness(&key.public(), &eseed).unwrap();
        assert_eq!(ct, hex(&test["ct"]));
        assert_eq!(shared[..], hex(&test["ss"]));
        assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
    }
    assert_eq!(list(&file).len(), 2);
}

/// A TLS hybrid is its parts, one after the other: computed here from ML-KEM and the exchange.
#[test]
fn tls_hybrids_are_their_parts() {
    for engine in engines() {
        for algorithm in hybrids().filter(|algorithm| *algorithm != Algorithm::XWing) {
            let info = algorithm.info();
            let parts: Vec<Algorithm> = info.part_algorithms().collect();
            let kem_first = kem_first(algorithm);
            let (kem, curve) = if kem_first { (parts[0], parts[1]) } else { (parts[1], parts[0]) };
            let split = |bytes: &[u8], len: usize| {
                let (a, b) = bytes.split_at(if kem_first { len } else { bytes.len() - len });
                if kem_first { (a.to_vec(), b.to_vec()) } else { (b.to_vec(), a.to_vec()) }
            };
            let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
            let (dk, scalar) = split(key.bytes(), kem.info().private_key.max());
            let (ek, point) = split(key.public_bytes(), kem.info().public_key.max());
            let kem_key = engine.kem_private(kem, &dk).unwrap();
            let curve_key = engine.exchange_private(curve, &scalar).unwrap();
            assert_eq!((kem_key.public_bytes(), curve_key.public_bytes()), (&ek[..], &point[..]));
            let (ct, shared) = engine.encaps(&key.public(), &OsEntropy).unwrap();
            let (kem_ct, share) = split(&ct, kem.info().output.max());
            let kem_secret = engine.decaps(&kem_key, &kem_ct).unwrap();
            let peer = engine.exchange_public(curve, &share).unwrap();
            let curve_secret = engine.derive(&curve_key, &peer).unwrap();
            let (first, second) =
                if kem_first { (kem_secret, curve_secret) } else { (curve_secret, kem_secret) };
            assert_eq!(shared[..], [&first[..], &second[..]].concat(), "{algorithm}");
            assert_eq!(shared.len(), info.shared_secret);
            assert_eq!(ct.len(), info.output.max());
        }
    }
}

/// The sizes and numbers of the registry, written down a second time on purpose.
#[test]
fn shares_and_secrets_have_the_registered_sizes() {
    for (name, number, client, server, secret) in [
        ("X25519MLKEM768", 4588, 1216, 1120, 64),
        ("SecP256r1MLKEM768", 4587, 1249, 1153, 64),
        ("SecP384r1MLKEM1024", 4589, 1665, 1665, 80),
        ("SecP256r1MLKEM512", 4585, 865, 833, 64),
        ("MLKEM512X25519", 4586, 832, 800, 64),
        ("p384_mlkem768", 12108, 1281, 1185, 80),
        ("p521_mlkem1024", 12109, 1701, 1701, 98),
    ] {
        let info = name.parse::<Algorithm>().unwrap().info();
        let sizes = (info.public_key.max(), info.output.max(), info.shared_secret);
        assert_eq!(sizes, (client, server, secret), "{name}");
        assert_eq!(info.tls.unwrap().number, number, "{name}");
    }
    let before = "p256_mlkem512".parse::<Algorithm>().unwrap().info();
    let private = before.tls_before.map(|before| (before.name, before.number));
    assert_eq!((before.name, private), ("SecP256r1MLKEM512", Some(("p256_mlkem512", 12107))));
    assert_eq!(Algorithm::lookup("P256_KYBER_LEVEL1").unwrap().0, Algorithm::SecP256r1MlKem512);
}

/// X-Wing out of its parts (sections 5.2 to 5.5), whatever vectors are here.
#[test]
fn x_wing_is_its_parts() {
    for engine in engines() {
        let seed = [0x5e; 32];
        let key = engine.kem_from_seed(Algorithm::XWing, &seed).unwrap();
        let mut expanded = [0; 96];
        Shake256::default().chain(seed).finalize_xof().read(&mut expanded);
        let kem = engine.kem_from_seed(Algorithm::MlKem768, &expanded[..64]).unwrap();
        let curve = engine.exchange_private(Algorithm::X25519, &expanded[64..]).unwrap();
        assert_eq!(key.public_bytes(), [kem.public_bytes(), curve.public_bytes()].concat());
        let (ct, shared) = engine.encaps(&key.public(), &OsEntropy).unwrap();
        let (kem_ct, share) = ct.split_at(1088);
        let peer = engine.exchange_public(Algorithm::X25519, share).unwrap();
        let secrets = [
            &engine.decaps(&kem, kem_ct).unwrap()[..],
            &engine.derive(&curve, &peer).unwrap(),
            share,
            curve.public_bytes(),
            br"\.//^\",
        ];
        assert_eq!(shared[..], Sha3_256::digest(secrets.concat())[..]);
        assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
    }
}

/// No two ciphertexts of a batch have a part in common.
#[test]
fn every_lane_has_randomness_of_its_own() {
    for engine in engines() {
        for algorithm in hybrids() {
            let info = algorithm.info();
            let public = engine.kem_generate(algorithm, &OsEntropy).unwrap().public();
            let (mut ct, mut shared) =
                (vec![0; 4 * info.output.max()], vec![0; 4 * info.shared_secret]);
            let mut status = [Status::NotRun; 4];
            let fresh = Randomness::Fresh(&OsEntropy);
            engine.encaps_many(&[&public; 4], fresh, &mut ct, &mut shared, &mut status).unwrap();
            assert_eq!(status, [Status::Ok; 4]);
            // The first bytes are of one part, the last ones of the other.
            let lanes: Vec<_> = ct.chunks_exact(info.output.max()).collect();
            for part in [0..32, info.output.max() - 32..info.output.max()] {
                let mut parts: Vec<_> = lanes.iter().map(|ct| &ct[part.clone()]).collect();
                parts.sort_unstable();
                parts.dedup();
                assert_eq!(parts.len(), 4, "{algorithm}, bytes {part:?}");
            }
        }
    }
}

#[test]
fn a_bad_share_fails_alone() {
    for engine in engines() {
        for algorithm in hybrids() {
            let info = algorithm.info();
            let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
            let public = key.public();
            let n = 3;
            let (mut ct, mut shared) =
                (vec![0; n * info.output.max()], vec![7; n * info.shared_secret]);
            let mut status = vec![Status::NotRun; n];
            let fresh = Randomness::Fresh(&OsEntropy);
            engine.encaps_many(&[&public; 3], fresh, &mut ct, &mut shared, &mut status).unwrap();
            // The curve's share of the middle lane becomes the neutral element, or nothing at all.
            let kem = info.parts[usize::from(!kem_first(algorithm))].algorithm().unwrap();
            let at =
                info.output.max() + if kem_first(algorithm) { kem.info().output.max() } else { 0 };
            ct[at..at + info.output.max() - kem.info().output.max()].fill(0);
            let mut opened = vec![7; shared.len()];
            engine.decaps_many(&[&key; 3], &ct, &mut opened, &mut status).unwrap();
            let len = info.shared_secret;
            assert_eq!(opened[..len], shared[..len], "{algorithm}");
            assert_eq!(opened[2 * len..], shared[2 * len..], "{algorithm}");
            let middle = &opened[len..2 * len];
            let refused = status == [Status::Ok, Status::InvalidInput, Status::Ok];
            // X-Wing's draft does not refuse the all-zero secret of X25519: it is hashed with ML-KEM's.
            assert_eq!(refused, algorithm != Algorithm::XWing, "{algorithm}: {status:?}");
            assert_eq!(middle.iter().all(|&byte| byte == 0), refused, "{algorithm}");
            assert_ne!(middle, &shared[len..2 * len]);
            let single = engine.decaps(&key, &ct[info.output.max()..2 * info.output.max()]);
            assert_eq!(single.is_err(), refused, "{algorithm}");
        }
    }
}

#[test]
fn keys_with_bad_parts_are_refused() {
    let engine = Engine::new(&Config::default()).unwrap();
    for algorithm in hybrids().filter(|algorithm| !kem_first(*algorithm)) {
        let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
        let mut public = key.public_bytes().to_vec();
        public[7] ^= 1;
        assert!(matches!(engine.kem_public(algorithm, &public), Err(Error::Input(_))));
        let mut public = key.public_bytes().to_vec();
        let last = public.len() - 40;
        public[last - 3..last].fill(0xff);
        assert!(engine.kem_public(algorithm, &public).is_err(), "{algorithm}: above q");
        let mut private = key.bytes().to_vec();
        private[..32].fill(0xff);
        private[32..66].fill(0xff);
        assert!(engine.kem_private(algorithm, &private).is_err(), "{algorithm}");
        let again = engine.kem_private(algorithm, key.bytes()).unwrap();
        assert_eq!(again.public_bytes(), key.public_bytes());
        assert!(ct::eq_mask(again.bytes(), key.bytes()) == u64::MAX && again.seed().is_none());
        assert!(engine.kem_from_seed(algorithm, &[1; 32]).is_err());
    }
    let seed = [3; 32];
    let key = engine.kem_private(Algorithm::XWing, &seed).unwrap();
    assert_eq!(key.seed(), Some(&seed[..]));
    let again = engine.kem_from_seed(Algorithm::XWing, &seed).unwrap();
    assert_eq!(again.public_bytes(), key.public_bytes());
}
