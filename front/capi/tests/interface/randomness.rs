//! The doors that take the caller's randomness, and mu in place of a message, against the engine
//! and against mu as SHAKE256 makes it.

use std::ptr::null;

use gabion::{
    Message, PrivateKey, PublicKey, gabion_decaps, gabion_encaps_with_randomness,
    gabion_private_key_free, gabion_private_key_from_seed, gabion_private_key_public,
    gabion_public_key_export, gabion_public_key_free, gabion_sign, gabion_sign_with_randomness,
    gabion_verify,
};
use gabion_engine::{Algorithm, Engine};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

const OK: i32 = 0;
const E_LENGTH: i32 = -4;
const E_INPUT: i32 = -6;

/// A key pair of a seed; freed when dropped.
struct Pair(*mut PrivateKey, *mut PublicKey);

impl Pair {
    fn new(algorithm: &std::ffi::CStr, seed: &[u8]) -> Self {
        let mut pair = Pair(std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a text, a seed with its length, and places for the handles.
        unsafe {
            let made = gabion_private_key_from_seed(
                algorithm.as_ptr(),
                seed.as_ptr(),
                seed.len(),
                &mut pair.0,
            );
            assert_eq!(made, OK);
            assert_eq!(gabion_private_key_public(pair.0, &mut pair.1), OK);
        }
        pair
    }

    fn public_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let mut len = bytes.len();
        // SAFETY: a handle, and room with its length.
        assert_eq!(unsafe { gabion_public_key_export(self.1, bytes.as_mut_ptr(), &mut len) }, OK);
        bytes.truncate(len);
        bytes
    }

    /// Signs with given randomness, or as the library does it.
    fn sign(&self, message: &Message, randomness: Option<&[u8]>) -> Result<Vec<u8>, i32> {
        let mut signature = vec![0xaa; 4627];
        let mut len = signature.len();
        let (place, room) = (signature.as_mut_ptr(), &mut len);
        // SAFETY: a handle, a message, bytes and room with their lengths.
        let code = unsafe {
            match randomness {
                Some(bytes) => {
                    let (from, n) = (bytes.as_ptr(), bytes.len());
                    gabion_sign_with_randomness(self.0, message, from, n, place, room)
                }
                None => gabion_sign(self.0, message, place, room),
            }
        };
        if code != OK {
            assert!(signature.iter().all(|&byte| byte == 0), "something is left of a signature");
            return Err(code);
        }
        signature.truncate(len);
        Ok(signature)
    }

    fn verify(&self, message: &Message, signature: &[u8]) -> i32 {
        // SAFETY: a handle, a message, a signature with its length.
        unsafe { gabion_verify(self.1, message, signature.as_ptr(), signature.len()) }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: handles that nothing uses any more, or NULL.
        unsafe {
            gabion_public_key_free(self.1);
            gabion_private_key_free(self.0);
        }
    }
}

fn message(bytes: &[u8], context: &[u8], prehash: Option<&std::ffi::CStr>) -> Message {
    Message {
        message: bytes.as_ptr(),
        message_len: bytes.len(),
        context: context.as_ptr(),
        context_len: context.len(),
        prehash: prehash.map_or(null(), |name| name.as_ptr()),
    }
}

fn shake256(parts: &[&[u8]]) -> [u8; 64] {
    let mut hash = Shake256::default();
    parts.iter().for_each(|part| hash.update(part));
    let mut out = [0; 64];
    hash.finalize_xof().read(&mut out);
    out
}

#[test]
fn encapsulation_with_given_randomness_is_the_engines() {
    let seed: [u8; 64] = std::array::from_fn(|i| i as u8);
    for (name, algorithm) in [
        (c"ML-KEM-512", Algorithm::MlKem512),
        (c"ML-KEM-768", Algorithm::MlKem768),
        (c"ML-KEM-1024", Algorithm::MlKem1024),
    ] {
        let pair = Pair::new(name, &seed);
        let mut ciphertext = vec![0; algorithm.info().output.max()];
        let (mut sent, mut got) = ([0u8; 32], [0u8; 32]);
        let mut encaps = |m: &[u8]| {
            let (ct, n) = (ciphertext.as_mut_ptr(), ciphertext.len());
            let (from, len) = (m.as_ptr(), m.len());
            // SAFETY: a handle, and bytes with their lengths.
            let code = unsafe {
                gabion_encaps_with_randomness(pair.1, from, len, ct, n, sent.as_mut_ptr(), 32)
            };
            (code, ciphertext.clone(), sent)
        };
        let (code, ct, secret) = encaps(&[7; 32]);
        assert_eq!(code, OK);
        let engine = Engine::global().unwrap();
        let key = engine.kem_from_seed(algorithm, &seed).unwrap();
        let (expected, shared) = engine.encaps_with_randomness(&key.public(), &[7; 32]).unwrap();
        assert!(ct == expected && secret == shared[..]);
        for wrong in [&[7; 31][..], &[7; 33], &[]] {
            let (code, ct, secret) = encaps(wrong);
            assert_eq!(code, E_LENGTH);
            assert!(ct.iter().chain(&secret).all(|&byte| byte == 0));
        }
        // SAFETY: a handle, and bytes with their lengths.
        let code = unsafe { gabion_decaps(pair.0, ct.as_ptr(), ct.len(), got.as_mut_ptr(), 32) };
        assert_eq!((code, got), (OK, secret));
    }
}

#[test]
fn signatures_with_given_randomness_are_the_engines() {
    for (name, algorithm) in [
        (c"ML-DSA-44", Algorithm::MlDsa44),
        (c"ML-DSA-65", Algorithm::MlDsa65),
        (c"ML-DSA-87", Algorithm::MlDsa87),
    ] {
        let pair = Pair::new(name, &[9; 32]);
        let pure = message(b"what is signed", b"where", None);
        let engine = Engine::global().unwrap();
        let key = engine.signature_from_seed(algorithm, &[9; 32]).unwrap();
        let form = gabion_engine::Message::Pure { context: b"where", message: b"what is signed" };
        let zero = pair.sign(&pure, Some(&[0; 32])).unwrap();
        assert_eq!(zero, engine.sign_deterministic(&key, form).unwrap());
        let given = pair.sign(&pure, Some(&[1; 32])).unwrap();
        assert_eq!(given, engine.sign_with_randomness(&key, form, &[1; 32]).unwrap());
        assert_ne!(given, zero);
        assert_eq!(pair.verify(&pure, &given), OK);
        assert_eq!(pair.sign(&pure, Some(&[0; 31])), Err(E_LENGTH));
        assert_eq!(pair.sign(&pure, Some(&[])), Err(E_LENGTH));
    }
}

#[test]
fn mu_stands_for_its_message() {
    let pair = Pair::new(c"ML-DSA-65", &[3; 32]);
    let (text, context) = (b"a long message, hashed elsewhere", b"there");
    let tr = shake256(&[&pair.public_bytes()]);
    let mu = shake256(&[&tr, &[0, context.len() as u8], context, text]);
    let (pure, by_mu) = (message(text, context, None), message(&mu, b"", Some(c"mu")));
    let signature = pair.sign(&by_mu, Some(&[4; 32])).unwrap();
    assert_eq!(signature, pair.sign(&pure, Some(&[4; 32])).unwrap());
    assert_eq!((pair.verify(&pure, &signature), pair.verify(&by_mu, &signature)), (OK, OK));
    let hedged = pair.sign(&by_mu, None).unwrap();
    assert_eq!(pair.verify(&pure, &hedged), OK);
    assert_eq!(pair.sign(&message(&mu[..63], b"", Some(c"mu")), None), Err(E_LENGTH));
    assert_eq!(pair.sign(&message(&mu, b"there", Some(c"MU")), None), Err(E_INPUT));
    let slh = Pair::new(c"SLH-DSA-SHA2-128f", &[3; 48]);
    assert_ne!(slh.verify(&by_mu, &[0; 17088]), OK);
}
