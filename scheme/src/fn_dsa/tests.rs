//! Keys, signatures and their forms. Other people's keys and signatures are in the tests crate.

use sha3::{Digest, Sha3_256};

use super::*;
use crate::algorithms::{Algorithm, Family};
use crate::error::Error;
use crate::prehash::Prehash;

fn sets() -> Vec<&'static Params> {
    let family = |algorithm: &Algorithm| algorithm.info().family == Family::FnDsa;
    Algorithm::all().filter(family).map(|algorithm| params(algorithm).unwrap()).collect()
}

fn pure(message: &[u8]) -> Message<'_> {
    Message::Pure { context: b"", message }
}

fn signed(key: &SigningKey, message: &Message<'_>, random: u8) -> Vec<u8> {
    let mut sig = vec![0xaa; key.params().sig_len_max()];
    assert_eq!(sign(key, message, &[random; RANDOM_LEN], &mut sig), Status::Ok);
    sig.truncate(made_len(key.params(), &sig));
    sig
}

/// The answers that the crate publishes with its source: SHA3-256(sk || pk || sig), all made from
/// SHAKE256(log2 of the degree || number as four bytes), odd ones over a digest.
#[test]
fn fn_dsa_gives_the_published_answers() {
    let answers = [
        (
            Algorithm::FnDsa512,
            [
                "71009cd3bc68f5061608ab541e9ae27ba0263c42fad97c112825075176d539d0",
                "70d8e2492da097f5407459eb9e3d58697855984e305032973a49709d208ddf1d",
                "91807eec4fc11be204e0bb48d6cc5968dd4dd4e1e886370ddb0c95458d9b68f0",
                "ded7d5c6392f0e16926a8e535b3bdb8b0fb4dc6dfd108ce8229c8ce6a378e965",
            ],
        ),
        (
            Algorithm::FnDsa1024,
            [
                "51bec3b8ca2565a94b2f1ad7bdc5f3844170495f235b8ea87fdae7e6d3b9dcb6",
                "abed632dec978f230f17e1c9059e36a7f0edfbaac2969ee75100421ea3346446",
                "83868908f2f89ee85a4e869b3d040de1f040e0dfa2e8cdabff00f0a2a2e8c120",
                "66f11c38b7f787bd66cd00ec62f3f2af622b81274a4dbe9462025b8d757710e1",
            ],
        ),
    ];
    for (algorithm, answers) in answers {
        let params = params(algorithm).unwrap();
        for (number, answer) in answers.iter().enumerate() {
            let seed = [params.log_n as u8, number as u8, 0, 0, 0];
            let mut source = Randomness::expand(&[&seed]);
            let (mut key_seed, mut random) = ([0; SEED_LEN], [0; RANDOM_LEN]);
            ::fn_dsa::RngCore::fill_bytes(&mut source, &mut key_seed);
            ::fn_dsa::RngCore::fill_bytes(&mut source, &mut random);
            let key = generate(params, &key_seed).unwrap();
            let digest = Prehash::Sha3_256.digest(b"message");
            let message = if number % 2 == 0 {
                Message::Pure { context: b"domain", message: b"message" }
            } else {
                Message::Prehash { context: b"domain", hash: Prehash::Sha3_256, digest: &digest }
            };
            let mut sig = vec![0; params.padded_len()];
            assert_eq!(sign(&key, &message, &random, &mut sig), Status::Ok);
            assert_eq!(verify(key.verify_key(), &message, &sig), Status::Ok);
            let mut hash = Sha3_256::new();
            for part in [key.bytes(), key.verify_key().bytes(), &sig] {
                hash.update(part);
            }
            let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hash, *answer, "{algorithm}, {number}");
        }
    }
}

#[test]
fn a_signature_verifies_for_its_message_its_key_and_its_length_alone() {
    for params in sets() {
        let key = generate(params, &[7; SEED_LEN]).unwrap();
        let other = generate(params, &[8; SEED_LEN]).unwrap();
        let sig = signed(&key, &pure(b"message"), 1);
        let public = key.verify_key();
        let good = |message: &[u8], sig: &[u8]| verify(public, &pure(message), sig);
        assert_eq!(good(b"message", &sig), Status::Ok);
        assert_eq!(good(b"massage", &sig), Status::InvalidSignature);
        assert_eq!(verify(other.verify_key(), &pure(b"message"), &sig), Status::InvalidSignature);
        for len in 0..sig.len() {
            assert_eq!(good(b"message", &sig[..len]), Status::InvalidSignature, "{len} bytes");
        }
        for extra in [0, 1, 0x80, 0xff] {
            let mut longer = sig.clone();
            while longer.len() <= 1500 {
                longer.push(extra);
                assert_eq!(good(b"message", &longer), Status::InvalidSignature);
            }
        }
    }
}

#[test]
fn every_bit_of_a_signature_counts() {
    for params in sets().into_iter().filter(|params| params.log_n == 9) {
        let key = generate(params, &[3; SEED_LEN]).unwrap();
        let sig = signed(&key, &pure(b"bits"), 2);
        for bit in 0..8 * sig.len() {
            let mut bad = sig.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let verdict = verify(key.verify_key(), &pure(b"bits"), &bad);
            assert_eq!(verdict, Status::InvalidSignature, "{}, bit {bit}", params.algorithm);
        }
    }
}

#[test]
fn padding_and_stripping_are_inverse() {
    for params in sets() {
        let key = generate(params, &[9; SEED_LEN]).unwrap();
        for round in 0..20 {
            let mut padded = vec![0; params.sig_len_max()];
            let message = [round; 3];
            sign(&key, &pure(&message), &[round; RANDOM_LEN], &mut padded);
            padded.truncate(params.padded_len());
            let stripped = strip(&padded);
            assert!(stripped.len() < padded.len() && stripped.last() != Some(&0));
            assert_eq!(pad(params, stripped).unwrap(), padded);
            assert_eq!(strip(stripped), stripped);
            assert!(matches!(pad(params, &padded), Err(Error::Signature { .. })));
        }
        assert!(pad(params, &[]).is_err());
        assert!(pad(params, &vec![1; params.padded_len()]).is_ok());
        assert!(pad(params, &vec![1; params.padded_len() + 1]).is_err());
    }
    assert_eq!(strip(&[0, 0]), b"");
}

/// Padded and variable-length Falcon differ in the padding alone.
#[test]
fn falcon_verifies_with_its_own_ending_alone() {
    for (stripped, padded) in [
        (Algorithm::Falcon512, Algorithm::FalconPadded512),
        (Algorithm::Falcon1024, Algorithm::FalconPadded1024),
    ] {
        let (stripped, padded) = (params(stripped).unwrap(), params(padded).unwrap());
        let key = generate(stripped, &[4; SEED_LEN]).unwrap();
        let short = signed(&key, &pure(b"ending"), 3);
        let long = pad(padded, &short).unwrap();
        let as_padded = VerifyKey::decode(padded, key.verify_key().bytes()).unwrap();
        assert_eq!(verify(key.verify_key(), &pure(b"ending"), &short), Status::Ok);
        assert_eq!(verify(&as_padded, &pure(b"ending"), &long), Status::Ok);
        let refused = Status::InvalidSignature;
        assert_eq!(verify(key.verify_key(), &pure(b"ending"), &long), refused);
        assert_eq!(verify(&as_padded, &pure(b"ending"), &short), refused);
    }
}

/// Applies the verification for signatures that are longer than padded ones to shorter ones.
#[test]
fn long_signatures_get_the_verdict_of_the_crate() {
    for algorithm in [Algorithm::Falcon512, Algorithm::Falcon1024] {
        let params = params(algorithm).unwrap();
        let key = generate(params, &[5; SEED_LEN]).unwrap();
        let sig = signed(&key, &pure(b"long"), 4);
        let verify_long =
            |sig: &[u8]| signature::verify_long(params, key.verify_key().bytes(), b"long", sig);
        assert!(verify_long(&sig));
        for byte in (0..sig.len()).step_by(7) {
            let mut bad = sig.clone();
            bad[byte] ^= 0x10;
            assert!(!verify_long(&bad), "byte {byte}");
        }
        for len in [0, 1, 40, 41, 42, sig.len() - 1] {
            assert!(!verify_long(&sig[..len]), "{len} bytes");
        }
        let mut longer = sig;
        while longer.len() < 1500 {
            longer.push(0);
            assert!(!verify_long(&longer));
            assert_eq!(verify(key.verify_key(), &pure(b"long"), &longer), Status::InvalidSignature);
        }
    }
}

#[test]
fn messages_have_the_forms_of_their_design() {
    let digest = Prehash::Shake256.digest(b"m");
    let messages = [
        (Message::Pure { context: b"", message: b"m" }, true, true),
        (Message::Pure { context: b"c", message: b"m" }, true, false),
        (Message::Prehash { context: b"", hash: Prehash::Shake256, digest: &digest }, true, false),
        (Message::Mu(&[1; MU_LEN]), true, false),
        (Message::Internal(b"m"), false, false),
        (Message::Pure { context: &[0; 256], message: b"m" }, false, false),
        (
            Message::Prehash { context: b"", hash: Prehash::Shake256, digest: &digest[1..] },
            false,
            false,
        ),
    ];
    for params in sets() {
        let key = generate(params, &[6; SEED_LEN]).unwrap();
        for (number, (message, fn_dsa, falcon)) in messages.iter().enumerate() {
            let good = if params.design == Design::Falcon { *falcon } else { *fn_dsa };
            assert_eq!(check_message(params, message).is_ok(), good, "{number}");
            let mut sig = vec![0xaa; params.sig_len_max()];
            let status = sign(&key, message, &[1; RANDOM_LEN], &mut sig);
            if good {
                assert_eq!(status, Status::Ok);
                let sig = &sig[..made_len(params, &sig)];
                assert_eq!(verify(key.verify_key(), message, sig), Status::Ok, "{number}");
            } else {
                assert_eq!((status, sig), (Status::InvalidInput, vec![0; params.sig_len_max()]));
                let verdict = verify(key.verify_key(), message, &[1; 41]);
                assert_eq!(verdict, Status::InvalidInput);
            }
        }
    }
}

/// mu is SHAKE256(SHAKE256(pk) || 0 || |ctx| || ctx || message), in the draft.
#[test]
fn the_representative_mu_is_that_of_the_message() {
    let params = params(Algorithm::FnDsa512).unwrap();
    let key = generate(params, &[2; SEED_LEN]).unwrap();
    let mut hash = [0; MU_LEN];
    let mut public = Randomness::expand(&[key.verify_key().bytes()]);
    ::fn_dsa::RngCore::fill_bytes(&mut public, &mut hash);
    let mut mu = [0; MU_LEN];
    let mut source = Randomness::expand(&[&hash, &[0, 2], b"cc", b"message"]);
    ::fn_dsa::RngCore::fill_bytes(&mut source, &mut mu);
    let message = Message::Pure { context: b"cc", message: b"message" };
    assert_eq!(signed(&key, &message, 1), signed(&key, &Message::Mu(&mu), 1));
}

#[test]
fn repeated_randomness_does_not_repeat_a_nonce_for_another_message() {
    for params in sets() {
        let key = generate(params, &[1; SEED_LEN]).unwrap();
        let (a, b) = (signed(&key, &pure(b"a"), 9), signed(&key, &pure(b"b"), 9));
        assert_eq!(a, signed(&key, &pure(b"a"), 9));
        assert_ne!(a[1..1 + NONCE_LEN], b[1..1 + NONCE_LEN]);
        assert_ne!(a[1..1 + NONCE_LEN], signed(&key, &pure(b"a"), 8)[1..1 + NONCE_LEN]);
    }
}

#[test]
fn public_keys_are_checked() {
    for params in sets() {
        let key = generate(params, &[1; SEED_LEN]).unwrap();
        let good = key.verify_key().bytes();
        assert_eq!(VerifyKey::decode(params, good).unwrap().bytes(), good);
        for header in (0..=255).filter(|&header| header != good[0]) {
            let mut bad = good.to_vec();
            bad[0] = header;
            assert!(VerifyKey::decode(params, &bad).is_err(), "{header}");
        }
        // Each coefficient in turn is q: 11000000000001 in binary, in the order of the design.
        for coefficient in 0..params.n() {
            let mut bad = good.to_vec();
            for bit in 0..14 {
                let value = (12289u32 >> bit & 1) as u8;
                let (byte, shift) = match params.design {
                    Design::FnDsaDraft => {
                        ((14 * coefficient + bit) / 8, (14 * coefficient + bit) % 8)
                    }
                    Design::Falcon => {
                        let place = 14 * coefficient + 13 - bit;
                        (place / 8, 7 - place % 8)
                    }
                };
                bad[1 + byte] = bad[1 + byte] & !(1 << shift) | value << shift;
            }
            let refused = VerifyKey::decode(params, &bad);
            assert!(matches!(refused, Err(Error::PublicKey { .. })), "{coefficient}");
        }
        for len in [0, 1, good.len() - 1] {
            assert!(matches!(VerifyKey::decode(params, &good[..len]), Err(Error::Length { .. })));
        }
    }
}

#[test]
fn private_keys_are_checked() {
    for params in sets() {
        let key = generate(params, &[1; SEED_LEN]).unwrap();
        let good = key.bytes();
        let again = SigningKey::decode(params, good).unwrap();
        assert_eq!(again.verify_key().bytes(), key.verify_key().bytes());
        for len in [0, 1, good.len() - 1] {
            let refused = SigningKey::decode(params, &good[..len]);
            assert!(matches!(refused, Err(Error::Length { .. })));
        }
        // A key without F, or of zeros, has no basis; one bit decides in the header, f, g, F and,
        // in FN-DSA, the hash of the public key.
        let mut zero = good.to_vec();
        zero[1..].fill(0);
        assert!(SigningKey::decode(params, &zero).is_err());
        let mut without = good.to_vec();
        let fg_len = 2 * params.n() * params.bits_fg() as usize / 8;
        without[1 + fg_len..1 + fg_len + params.n()].fill(0);
        assert!(SigningKey::decode(params, &without).is_err());
        for byte in (0..good.len()).step_by(5) {
            for mask in [0x01, 0x80] {
                let mut bad = good.to_vec();
                bad[byte] ^= mask;
                let refused = SigningKey::decode(params, &bad);
                assert!(matches!(refused, Err(Error::PrivateKey { .. })), "byte {byte}");
            }
        }
    }
}

#[test]
fn threads_share_a_key() {
    let key = generate(params(Algorithm::Falcon512).unwrap(), &[1; SEED_LEN]).unwrap();
    let expected = signed(&key, &pure(b"shared"), 5);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(signed(&key, &pure(b"shared"), 5), expected);
                }
            });
        }
    });
}
