//! The ML-DSA flow itself: batches against single operations, refilled and speculative lanes
//! against the sequential loop, bad lanes among good ones, the paths that no known seed reaches,
//! and what the sponges cost.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use gabion_backend::portable::Portable;
use gabion_scheme::Algorithm;
use gabion_scheme::error::{Error, Status};
use gabion_scheme::kernels::{Kernels, Sponge, Xof};
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{self, Params, Scratch, SigningKey, VerifyKey};
use gabion_scheme::prehash::Prehash;
use gabion_tests::probe::{Probe, Sponges};

mod masks;

gabion_tests::on_every_backend!(
    batches_equal_single_operations,
    any_number_of_lanes_signs_like_one,
    a_bad_lane_fails_alone_when_signing,
    a_bad_lane_fails_alone_when_verifying,
    every_changed_byte_of_a_signature_is_seen,
    message_forms_meet_in_mu,
    starved_sampling_squeezes_on,
    hopeless_signing_ends_with_zeros,
    inconsistent_private_keys_are_refused,
    a_bad_private_key_fails_alone,
    buffers_serve_any_parameter_set,
    a_shared_key_signs_alike_in_every_thread,
    keys_of_one_backend_serve_another,
    misuse_panics_before_anything_is_written,
);

fn sets() -> [&'static Params; 3] {
    [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87]
        .map(|algorithm| ml_dsa::params(algorithm).expect("an ML-DSA"))
}

/// Bytes that differ from lane to lane, with a period that no lane count divides.
fn painted(lane: usize, salt: u8) -> [u8; 32] {
    std::array::from_fn(|i| ((lane * 37 + i * 7) % 251) as u8 ^ salt)
}

fn keys_of<K: Kernels>(kernels: &K, p: &'static Params, n: usize) -> Vec<SigningKey> {
    let seeds: Vec<[u8; 32]> = (0..n).map(|lane| painted(lane, 0x5a)).collect();
    let mut keys: Vec<SigningKey> = (0..n).map(|_| SigningKey::blank(p)).collect();
    ml_dsa::keygen(kernels, p, &seeds, &mut keys, &mut Scratch::new());
    keys
}

/// Messages of lengths round the block of SHAKE256, so that lanes of a call differ.
fn bodies(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|lane| vec![lane as u8; (lane * 71) % 400]).collect()
}

fn pure<'a>(bodies: &'a [Vec<u8>]) -> Vec<Message<'a>> {
    bodies.iter().map(|message| Message::Pure { context: b"flow", message }).collect()
}

fn sign<K: Kernels>(
    kernels: &K,
    keys: &[&SigningKey],
    messages: &[Message<'_>],
    rnd: &[[u8; 32]],
) -> (Vec<Status>, Vec<u8>) {
    let p = keys[0].params();
    let mut status = vec![Status::NotRun; keys.len()];
    let mut sigs = vec![0xee; keys.len() * p.sig_len()];
    ml_dsa::sign(kernels, keys, messages, rnd, &mut sigs, &mut status, &mut Scratch::new());
    (status, sigs)
}

fn verify<K: Kernels>(
    kernels: &K,
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    sigs: &[u8],
) -> Vec<Status> {
    let mut status = vec![Status::NotRun; keys.len()];
    ml_dsa::verify(kernels, keys, messages, sigs, &mut status, &mut Scratch::new());
    status
}

fn batches_equal_single_operations<K: Kernels>(kernels: &K) {
    for p in sets() {
        let all = keys_of(kernels, p, 17);
        for (lane, key) in all.iter().enumerate() {
            let alone = SigningKey::from_seed(kernels, p, &painted(lane, 0x5a));
            assert_eq!(alone.bytes(), key.bytes(), "{} lane {lane}", p.name());
            assert_eq!(alone.verify_key().bytes(), key.verify_key().bytes());
            assert_eq!(alone.verify_key().tr(), key.verify_key().tr());
            assert_eq!(alone.seed(), Some(&painted(lane, 0x5a)));
        }
        let bodies = bodies(17);
        let messages = pure(&bodies);
        let rnd: Vec<[u8; 32]> = (0..17).map(|lane| painted(lane, 0)).collect();
        let singles: Vec<Vec<u8>> =
            (0..17).map(|i| sign(kernels, &[&all[i]], &messages[i..=i], &rnd[i..=i]).1).collect();
        for n in 1..=17 {
            let keys: Vec<&SigningKey> = all[..n].iter().collect();
            let (status, sigs) = sign(kernels, &keys, &messages[..n], &rnd[..n]);
            assert_eq!(status, vec![Status::Ok; n]);
            assert!(sigs == singles[..n].concat(), "{} n = {n}", p.name());
            let publics: Vec<u8> =
                keys.iter().flat_map(|key| key.verify_key().bytes().to_vec()).collect();
            let mut fresh: Vec<VerifyKey> = (0..n).map(|_| VerifyKey::blank(p)).collect();
            let mut status = vec![Status::NotRun; n];
            ml_dsa::expand_verify_keys(
                kernels,
                p,
                &publics,
                &mut fresh,
                &mut status,
                &mut Scratch::new(),
            );
            assert_eq!(status, vec![Status::Ok; n]);
            let fresh: Vec<&VerifyKey> = fresh.iter().collect();
            let known: Vec<&VerifyKey> = keys.iter().map(|key| key.verify_key()).collect();
            for keys in [fresh, known] {
                assert_eq!(verify(kernels, &keys, &messages[..n], &sigs), vec![Status::Ok; n]);
            }
        }
    }
}

fn any_number_of_lanes_signs_like_one<K: Kernels>(kernels: &K) {
    let n = 40;
    for p in sets() {
        let keys = keys_of(kernels, p, 3);
        let keys: Vec<&SigningKey> = (0..n).map(|op| &keys[op % 3]).collect();
        let bodies = bodies(n);
        let messages = pure(&bodies);
        let rnd = vec![[0; 32]; n];
        let expected = sign(&Portable, &keys, &messages, &rnd);
        assert_eq!(expected.0, vec![Status::Ok; n]);
        for lanes in [0, 1, 2, 3, 8, 16, 64] {
            let probe = Probe::new(kernels).with_lanes(lanes);
            for n in [1, 2, 5, n] {
                let (status, sigs) = sign(&probe, &keys[..n], &messages[..n], &rnd[..n]);
                assert_eq!(status, expected.0[..n]);
                assert!(sigs == expected.1[..n * p.sig_len()], "{} {lanes} {n}", p.name());
            }
        }
    }
}

fn a_bad_lane_fails_alone_when_signing<K: Kernels>(kernels: &K) {
    let (n, long) = (11, [7u8; 256]);
    for p in sets() {
        let keys = keys_of(kernels, p, n);
        let keys: Vec<&SigningKey> = keys.iter().collect();
        let bodies = bodies(n);
        let good = pure(&bodies);
        let rnd = vec![[9; 32]; n];
        let (_, expected) = sign(kernels, &keys, &good, &rnd);
        for bad in [0, 4, 10] {
            let mut messages = good.clone();
            messages[bad] = Message::Pure { context: &long, message: b"" };
            let other = (bad + 3) % n;
            messages[other] =
                Message::Prehash { context: b"", hash: Prehash::Sha2_256, digest: &long[..31] };
            let (status, sigs) = sign(kernels, &keys, &messages, &rnd);
            for lane in 0..n {
                let sig = &sigs[lane * p.sig_len()..][..p.sig_len()];
                if lane == bad || lane == other {
                    assert_eq!(status[lane], Status::InvalidInput);
                    assert!(sig.iter().all(|&byte| byte == 0));
                } else {
                    assert_eq!(status[lane], Status::Ok);
                    assert!(sig == &expected[lane * p.sig_len()..][..p.sig_len()]);
                }
            }
        }
        let all_bad = vec![Message::Pure { context: &long, message: b"" }; n];
        let (status, sigs) = sign(kernels, &keys, &all_bad, &rnd);
        assert_eq!(status, vec![Status::InvalidInput; n]);
        assert!(sigs.iter().all(|&byte| byte == 0));
    }
}

fn a_bad_lane_fails_alone_when_verifying<K: Kernels>(kernels: &K) {
    let (n, long) = (11, [7u8; 256]);
    for p in sets() {
        let keys = keys_of(kernels, p, n);
        let signing: Vec<&SigningKey> = keys.iter().collect();
        let keys: Vec<&VerifyKey> = keys.iter().map(|key| key.verify_key()).collect();
        let bodies = bodies(n);
        let mut messages = pure(&bodies);
        let (_, mut sigs) = sign(kernels, &signing, &messages, &vec![[9; 32]; n]);
        // One lane each: c~, z in its place, z out of range, hint padding, context, message.
        let lane = |lane: usize| lane * p.sig_len();
        let hint = p.sig_len() - p.omega - p.k;
        sigs[lane(1)] ^= 1;
        sigs[lane(2) + p.c_tilde_len] ^= 1;
        sigs[lane(3) + p.c_tilde_len..][..4].fill(0);
        sigs[lane(4) + hint + p.omega - 1] ^= 0x80;
        messages[5] = Message::Pure { context: &long, message: b"" };
        messages[7] = Message::Pure { context: b"flow", message: b"another" };
        let bad = [1, 2, 3, 4, 7];
        let status = verify(kernels, &keys, &messages, &sigs);
        for (lane, status) in status.into_iter().enumerate() {
            let expected = match lane {
                5 => Status::InvalidInput,
                lane if bad.contains(&lane) => Status::InvalidSignature,
                _ => Status::Ok,
            };
            assert_eq!(status, expected, "{} lane {lane}", p.name());
        }
        sigs.fill(0);
        let status = verify(kernels, &keys, &pure(&bodies), &sigs);
        assert_eq!(status, vec![Status::InvalidSignature; n]);
    }
}

fn every_changed_byte_of_a_signature_is_seen<K: Kernels>(kernels: &K) {
    let p = sets()[0];
    let key = &keys_of(kernels, p, 1)[0];
    let message = [Message::Pure { context: b"", message: b"every byte" }];
    let (_, sig) = sign(kernels, &[key], &message, &[[0; 32]]);
    let mut sigs = sig.repeat(p.sig_len());
    for (i, lane) in sigs.chunks_mut(p.sig_len()).enumerate() {
        lane[i] ^= 1 << (i % 8);
    }
    let keys = vec![key.verify_key(); p.sig_len()];
    let status = verify(kernels, &keys, &message.repeat(p.sig_len()), &sigs);
    assert_eq!(status, vec![Status::InvalidSignature; p.sig_len()]);
}

fn message_forms_meet_in_mu<K: Kernels>(kernels: &K) {
    for p in sets() {
        let key = &keys_of(kernels, p, 1)[0];
        let (context, message) = (&b"ctx"[..], &b"body"[..]);
        let formatted = [&[0, 3][..], context, message].concat();
        let digest = Prehash::Sha3_512.digest(message);
        let oid = Prehash::Sha3_512.oid_der();
        let prehashed = [&[1, 3][..], context, &oid, &digest].concat();
        let mu = |formatted: &[u8]| {
            let mut mu = [0; 64];
            let tr = key.verify_key().tr();
            kernels.sponge_many(&mut [Sponge::new(Xof::Shake256, [tr, formatted], &mut mu)]);
            mu
        };
        let groups = [
            [
                Message::Pure { context, message },
                Message::Internal(&formatted),
                Message::Mu(&mu(&formatted)),
            ],
            [
                Message::Prehash { context, hash: Prehash::Sha3_512, digest: &digest },
                Message::Internal(&prehashed),
                Message::Mu(&mu(&prehashed)),
            ],
        ];
        let mut distinct = Vec::new();
        for group in groups {
            let (status, sigs) = sign(kernels, &[key; 3], &group, &[[3; 32]; 3]);
            assert_eq!(status, vec![Status::Ok; 3]);
            let first = &sigs[..p.sig_len()];
            assert!(sigs.chunks(p.sig_len()).all(|sig| sig == first), "{}", p.name());
            let known = [key.verify_key(); 3];
            assert_eq!(verify(kernels, &known, &group, &sigs), vec![Status::Ok; 3]);
            distinct.push(first.to_vec());
        }
        assert_ne!(distinct[0], distinct[1]);
        let crossed = verify(kernels, &[key.verify_key()], &groups[1][..1], &distinct[0]);
        assert_eq!(crossed, [Status::InvalidSignature]);
    }
}

fn starved_sampling_squeezes_on<K: Kernels>(kernels: &K) {
    // Five blocks of SHAKE128 are the first length of A, two of SHAKE256 that of s1 and s2.
    for bytes in [2 * 136, 5 * 168, 7 * 168] {
        let probe = Probe::new(kernels).starving(bytes);
        for p in sets() {
            let (expected, starved) = (keys_of(kernels, p, 2), keys_of(&probe, p, 2));
            for (expected, starved) in expected.iter().zip(&starved) {
                assert_eq!(expected.bytes(), starved.bytes(), "{}", p.name());
            }
            let message = [Message::Pure { context: b"", message: b"starved" }];
            let (_, sig) = sign(kernels, &[&expected[1]], &message, &[[1; 32]]);
            let key = VerifyKey::decode(&probe, p, expected[1].verify_key().bytes());
            let key = key.expect("the right length");
            assert_eq!(verify(&probe, &[&key], &message, &sig), [Status::Ok]);
        }
    }
}

fn hopeless_signing_ends_with_zeros<K: Kernels>(kernels: &K) {
    let p = sets()[0];
    let key = &keys_of(kernels, p, 1)[0];
    for (bound, lanes) in [(p.gamma2 - p.beta, 1), (p.gamma1 - p.beta, 8), (p.gamma2, 3)] {
        let probe = Probe::new(kernels).with_lanes(lanes).refusing(bound);
        let message = Message::Pure { context: b"", message: b"hopeless" };
        let (status, sigs) = sign(&probe, &[key; 2], &[message; 2], &[[0; 32]; 2]);
        assert_eq!(status, [Status::Fault; 2]);
        assert!(sigs.iter().all(|&byte| byte == 0));
        // Each attempt takes l masks of five blocks (18 bits: 576 bytes), c~ and one challenge.
        let per_attempt = p.l * 5 + (64 + 768) / 136 + 1 + 1;
        let rounds = probe.sponges();
        assert_eq!(rounds.permutations, 2 * (ml_dsa::ATTEMPTS_MAX * per_attempt + 2));
    }
}

fn inconsistent_private_keys_are_refused<K: Kernels>(kernels: &K) {
    for p in sets() {
        let [seed, other] = [painted(0, 0x5a), painted(1, 0x5a)];
        let key = SigningKey::from_seed(kernels, p, &seed);
        let good = key.bytes().to_vec();
        let decoded = SigningKey::decode(kernels, p, &good).expect("a good key");
        assert_eq!(decoded.verify_key().bytes(), key.verify_key().bytes());
        assert_eq!((decoded.bytes(), decoded.seed()), (&good[..], None));
        assert!(SigningKey::decode_both(kernels, p, &seed, &good).is_ok());

        let reason = |result: Result<SigningKey, Error>| match result {
            Err(Error::PrivateKey { reason, .. }) => reason,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("the key was accepted"),
        };
        let changed = |at: usize, xor: u8| {
            let mut bytes = good.clone();
            bytes[at] ^= xor;
            reason(SigningKey::decode(kernels, p, &bytes))
        };
        let (tr, s1) = (64, 128);
        let t0 = p.sk_len() - p.k * 416;
        assert!(changed(0, 1).contains("t0"), "rho");
        assert!(changed(tr, 1).contains("tr"));
        assert!(changed(tr + 63, 0x80).contains("tr"));
        assert!(changed(t0, 1).contains("t0"));
        assert!(changed(p.sk_len() - 1, 0x80).contains("t0"));
        // All ones in a coefficient of s1 and of s2, which is above 2 eta.
        for at in [s1, t0 - 1] {
            let mut bytes = good.clone();
            bytes[at] = 0xff;
            assert!(reason(SigningKey::decode(kernels, p, &bytes)).contains("range"));
        }
        assert!(reason(SigningKey::decode_both(kernels, p, &other, &good)).contains("disagree"));
        for len in [0, p.sk_len() - 1, p.sk_len() + 1] {
            let bytes = vec![0; len];
            for result in [
                SigningKey::decode(kernels, p, &bytes),
                SigningKey::decode_both(kernels, p, &seed, &bytes),
            ] {
                let expected = p.sk_len();
                let length = Error::Length { what: "private key", expected, got: len };
                assert_eq!(result.err(), Some(length));
            }
        }
        assert!(!format!("{key:?}").contains("bytes"), "nothing but the name");
    }
}

fn a_bad_private_key_fails_alone<K: Kernels>(kernels: &K) {
    let n = 11;
    for p in sets() {
        let good = keys_of(kernels, p, n);
        let mut bytes: Vec<u8> = good.iter().flat_map(|key| key.bytes().to_vec()).collect();
        // In lane 2 s1 is out of range, in 5 t0 differs, in 9 tr.
        bytes[2 * p.sk_len() + 128] = 0xff;
        bytes[6 * p.sk_len() - 1] ^= 1;
        bytes[9 * p.sk_len() + 64] ^= 1;
        let mut keys: Vec<SigningKey> = (0..n).map(|_| SigningKey::blank(p)).collect();
        let mut scratch = Scratch::new();
        for _ in 0..2 {
            let mut status = vec![Status::NotRun; n];
            ml_dsa::expand_signing_keys(kernels, p, &bytes, &mut keys, &mut status, &mut scratch);
            for (lane, (key, good)) in keys.iter().zip(&good).enumerate() {
                if [2, 5, 9].contains(&lane) {
                    assert_eq!(status[lane], Status::InvalidKey, "{} {lane}", p.name());
                    assert!(key.bytes().iter().all(|&byte| byte == 0), "wiped");
                    continue;
                }
                assert_eq!(status[lane], Status::Ok, "{} {lane}", p.name());
                assert_eq!(key.bytes(), good.bytes());
                assert_eq!(key.verify_key().bytes(), good.verify_key().bytes());
                let message = [Message::Pure { context: b"", message: b"decoded" }];
                let (status, sig) = sign(kernels, &[key], &message, &[[0; 32]]);
                assert_eq!(status, [Status::Ok]);
                assert_eq!(sig, sign(kernels, &[good], &message, &[[0; 32]]).1);
            }
        }
    }
}

fn buffers_serve_any_parameter_set<K: Kernels>(kernels: &K) {
    let mut scratch = Scratch::new();
    let mut keys = [SigningKey::blank(sets()[2]), SigningKey::blank(sets()[0])];
    let mut fresh = [VerifyKey::blank(sets()[1])];
    let message = [Message::Pure { context: b"", message: b"again" }];
    for p in [sets()[1], sets()[2], sets()[0], sets()[2]] {
        for salt in [0, 1] {
            let seeds = [painted(0, salt), painted(1, salt)];
            ml_dsa::keygen(kernels, p, &seeds, &mut keys, &mut scratch);
            let expected = SigningKey::from_seed(kernels, p, &seeds[1]);
            assert_eq!(keys[1].bytes(), expected.bytes());
            let (mut sig, mut status) = (vec![0; p.sig_len()], [Status::NotRun]);
            let rnd = [[0; 32]];
            ml_dsa::sign(kernels, &[&keys[1]], &message, &rnd, &mut sig, &mut status, &mut scratch);
            assert_eq!(sig, sign(kernels, &[&expected], &message, &rnd).1);
            let pk = keys[1].verify_key().bytes();
            ml_dsa::expand_verify_keys(kernels, p, pk, &mut fresh, &mut status, &mut scratch);
            for key in [&fresh[0], keys[1].verify_key()] {
                ml_dsa::verify(kernels, &[key], &message, &sig, &mut status, &mut scratch);
                assert_eq!(status, [Status::Ok]);
            }
        }
    }
    ml_dsa::sign(kernels, &[], &[], &[], &mut [], &mut [], &mut scratch);
    ml_dsa::verify(kernels, &[], &[], &[], &mut [], &mut scratch);
    ml_dsa::keygen(kernels, sets()[0], &[], &mut [], &mut scratch);
    ml_dsa::expand_verify_keys(kernels, sets()[0], &[], &mut [], &mut [], &mut scratch);
}

fn a_shared_key_signs_alike_in_every_thread<K: Kernels>(kernels: &K) {
    let p = sets()[1];
    let key = &keys_of(kernels, p, 1)[0];
    let message = [Message::Pure { context: b"", message: b"shared" }];
    let sigs: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| sign(kernels, &[key], &message, &[[0; 32]]).1)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(sigs.iter().all(|sig| *sig == sigs[0]));
    assert_eq!(verify(kernels, &[key.verify_key()], &message, &sigs[0]), [Status::Ok]);
}

fn keys_of_one_backend_serve_another<K: Kernels>(kernels: &K) {
    for p in sets() {
        let (ours, theirs) = (&keys_of(kernels, p, 1)[0], &keys_of(&Portable, p, 1)[0]);
        ours.prepare(kernels);
        theirs.prepare(&Portable);
        let message = [Message::Pure { context: b"", message: b"handed over" }];
        let (_, expected) = sign(&Portable, &[theirs], &message, &[[0; 32]]);
        let known = [theirs.verify_key()];
        assert_eq!(verify(&Portable, &known, &message, &expected), [Status::Ok]);
        assert!(sign(kernels, &[theirs], &message, &[[0; 32]]).1 == expected, "{}", p.name());
        assert!(sign(&Portable, &[ours], &message, &[[0; 32]]).1 == expected, "{}", p.name());
        assert_eq!(verify(kernels, &known, &message, &expected), [Status::Ok]);
    }
}

fn misuse_panics_before_anything_is_written<K: Kernels>(kernels: &K) {
    let [small, large, _] = sets();
    let (key, other) = (&keys_of(kernels, small, 1)[0], &keys_of(kernels, large, 1)[0]);
    let message = [Message::Pure { context: b"", message: b"" }; 2];
    let attempt = |keys: &[&SigningKey], rnd: &[[u8; 32]], len: usize| {
        let (mut sigs, mut status) = (vec![0xee; len], [Status::NotRun; 2]);
        let run = std::panic::AssertUnwindSafe(|| {
            let scratch = &mut Scratch::new();
            ml_dsa::sign(kernels, keys, &message, rnd, &mut sigs, &mut status, scratch);
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert!(sigs.iter().all(|&byte| byte == 0xee) && status == [Status::NotRun; 2]);
    };
    let len = 2 * small.sig_len();
    attempt(&[key], &[[0; 32]; 2], len);
    attempt(&[key; 2], &[[0; 32]; 1], len);
    attempt(&[key; 2], &[[0; 32]; 2], len - 1);
    attempt(&[key, other], &[[0; 32]; 2], len);
}

/// Keccak permutations of one operation, as counted from the standard: blocks of every sponge
/// with a 32-byte message and no context.
#[test]
fn sponges_cost_what_the_standard_says() {
    let probe = Probe::new(&Portable).with_lanes(8);
    // Keygen: H(xi) 1, A 5 each, s 2 each, tr. A starved polynomial would add to it.
    let expected = [(107, 99, 9), (188, 174, 9), (331, 311, 11)];
    for (p, (keygen, fresh, known)) in sets().into_iter().zip(expected) {
        let key = &keys_of(&probe, p, 1)[0];
        let cost = probe.sponges();
        assert!(cost.permutations.abs_diff(keygen) <= 2, "{} {cost:?}", p.name());
        assert_eq!(cost.calls, 3);
        let message = [Message::Pure { context: b"", message: &[1; 32] }];
        let (_, sig) = sign(&probe, &[key], &message, &[[0; 32]]);
        probe.sponges();
        assert_eq!(verify(&probe, &[key.verify_key()], &message, &sig), [Status::Ok]);
        assert_eq!(probe.sponges(), Sponges { calls: 2, permutations: known }, "{}", p.name());
        let decoded = VerifyKey::decode(&probe, p, key.verify_key().bytes());
        assert!(decoded.is_ok());
        assert_eq!(probe.sponges().permutations + known, fresh, "{}", p.name());
    }
}
