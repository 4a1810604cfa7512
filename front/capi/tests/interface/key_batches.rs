//! Batches of keys of every algorithm: each element is an independent key with all operations.

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

use gabion::{
    Message, PrivateKey, PublicKey, gabion_algorithm_count, gabion_algorithm_name,
    gabion_decaps_many, gabion_encaps_many, gabion_private_key_algorithm,
    gabion_private_key_export, gabion_private_key_free, gabion_private_key_generate_many,
    gabion_private_key_import, gabion_private_key_public, gabion_public_key_export,
    gabion_public_key_free, gabion_public_key_import_many, gabion_sign, gabion_sign_many,
    gabion_verify, gabion_verify_many,
};
use gabion_engine::{Algorithm, Kind};

const OK: i32 = 0;
const E_NOT_RUN: i32 = -1;
const E_ALGORITHM: i32 = -3;
const E_LENGTH: i32 = -4;
const E_KEY: i32 = -5;
const E_INPUT: i32 = -6;
/// Enough for a group of eight lanes and one more.
const N: usize = 9;

/// Key pairs that one call made; freed when dropped.
struct Pairs {
    algorithm: Algorithm,
    private: Vec<*mut PrivateKey>,
    public: Vec<*mut PublicKey>,
}

impl Pairs {
    fn new(algorithm: Algorithm, n: usize) -> Self {
        let name = CString::new(algorithm.name()).unwrap();
        let mut pairs = Pairs { algorithm, private: vec![null_mut(); n], public: Vec::new() };
        let (mut status, mut encoded) = (vec![7; n], Vec::new());
        // SAFETY: a text, n places and n codes; then handles, places for handles and room for keys.
        unsafe {
            let (keys, codes) = (pairs.private.as_mut_ptr(), status.as_mut_ptr());
            let code = gabion_private_key_generate_many(name.as_ptr(), n, keys, codes);
            assert_eq!((code, &status), (OK, &vec![OK; n]), "{algorithm}");
            for &key in &pairs.private {
                assert_eq!(CStr::from_ptr(gabion_private_key_algorithm(key)), &*name);
                let (mut public, mut len) = (null_mut(), algorithm.info().public_key.max());
                assert_eq!(gabion_private_key_public(key, &mut public), OK);
                let at = encoded.len();
                encoded.resize(at + len, 0);
                assert_eq!(gabion_public_key_export(public, &mut encoded[at], &mut len), OK);
                encoded.truncate(at + len);
                gabion_public_key_free(public);
            }
            // The public ones come as bytes.
            let len = encoded.len() / n;
            pairs.public = vec![null_mut(); n];
            let (keys, codes) = (pairs.public.as_mut_ptr(), status.as_mut_ptr());
            let (name, bytes) = (name.as_ptr(), encoded.as_ptr());
            let code = gabion_public_key_import_many(name, bytes, len, n, keys, codes);
            assert_eq!((code, &status), (OK, &vec![OK; n]), "{algorithm}");
        }
        pairs
    }

    fn bytes(&self, lane: usize) -> Vec<u8> {
        let mut len = self.algorithm.info().private_key.max();
        let mut bytes = vec![0; len];
        let key = self.private[lane];
        // SAFETY: a handle, and room with its length.
        let code = unsafe { gabion_private_key_export(key, bytes.as_mut_ptr(), &mut len) };
        assert_eq!(code, OK);
        bytes.truncate(len);
        bytes
    }

    fn private(&self) -> Vec<*const PrivateKey> {
        self.private.iter().map(|key| key.cast_const()).collect()
    }

    fn public(&self) -> Vec<*const PublicKey> {
        self.public.iter().map(|key| key.cast_const()).collect()
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        // SAFETY: handles that nothing uses any more, or NULL.
        unsafe {
            self.public.iter().for_each(|&key| gabion_public_key_free(key));
            self.private.iter().for_each(|&key| gabion_private_key_free(key));
        }
    }
}

/// The algorithms of a kind. RSA of 3072 and 4096 bits is left to that of 2048: the code is the same,
/// and a key takes seconds to make.
fn algorithms(kind: Kind) -> impl Iterator<Item = Algorithm> {
    let is_slow = |name: &str| ["RSA3072", "RSA4096"].iter().any(|part| name.contains(part));
    let kind = move |algorithm: &Algorithm| {
        // Stateful algorithms, whose key changes with each signature, have no ordinary private key.
        algorithm.info().kind == kind && !algorithm.info().stateful
    };
    Algorithm::all().filter(kind).filter(move |algorithm| !is_slow(algorithm.name()))
}

fn are_different(pairs: &Pairs) {
    let keys: Vec<_> = (0..pairs.private.len()).map(|lane| pairs.bytes(lane)).collect();
    for (lane, key) in keys.iter().enumerate() {
        assert!(!keys[..lane].contains(key), "{}: a key was made twice", pairs.algorithm);
    }
}

#[test]
fn keys_of_a_batch_encapsulate_each_for_itself() {
    for algorithm in algorithms(Kind::Kem) {
        let (pairs, info) = (Pairs::new(algorithm, N), algorithm.info());
        are_different(&pairs);
        let (mut ct, mut status) = (vec![0; N * info.output.max()], vec![7; N]);
        let (mut sent, mut got) =
            (vec![0; N * info.shared_secret], vec![0; N * info.shared_secret]);
        let (private, public) = (pairs.private(), pairs.public());
        // SAFETY: n handles, buffers with their lengths, n codes; twice.
        unsafe {
            let (to, len, codes) = (sent.as_mut_ptr(), sent.len(), status.as_mut_ptr());
            let keys = public.as_ptr();
            let code = gabion_encaps_many(keys, N, ct.as_mut_ptr(), ct.len(), to, len, codes);
            assert_eq!((code, &status), (OK, &vec![OK; N]), "{algorithm}");
            let (to, len, codes) = (got.as_mut_ptr(), got.len(), status.as_mut_ptr());
            let keys = private.as_ptr();
            let code = gabion_decaps_many(keys, N, ct.as_ptr(), ct.len(), to, len, codes);
            assert_eq!((code, &status), (OK, &vec![OK; N]), "{algorithm}");
        }
        assert!(sent == got, "{algorithm}");
        let secrets: Vec<_> = got.chunks_exact(info.shared_secret).collect();
        assert!((1..N).all(|lane| !secrets[..lane].contains(&secrets[lane])), "{algorithm}");
    }
}

#[test]
fn keys_of_a_batch_sign_each_for_itself() {
    const N: usize = 3;
    for algorithm in algorithms(Kind::Signature) {
        let (pairs, room) = (Pairs::new(algorithm, N), algorithm.info().output.max());
        are_different(&pairs);
        let text = |_| Message {
            message: b"text".as_ptr(),
            message_len: 4,
            context: std::ptr::null(),
            context_len: 0,
            prehash: std::ptr::null(),
        };
        let messages: Vec<_> = (0..N).map(text).collect();
        let (mut sigs, mut lens, mut status) = (vec![0; N * room], vec![0; N], vec![7; N]);
        let (private, mut public) = (pairs.private(), pairs.public());
        // SAFETY: n handles, messages, lengths and codes, room with its length.
        let code = unsafe {
            let (keys, to, len) = (private.as_ptr(), sigs.as_mut_ptr(), sigs.len());
            let (lens, codes) = (lens.as_mut_ptr(), status.as_mut_ptr());
            gabion_sign_many(keys, messages.as_ptr(), N, to, len, lens, codes)
        };
        assert_eq!((code, &status), (OK, &vec![OK; N]), "{algorithm}");
        for (shift, expected) in [(0, OK), (1, -7)] {
            public.rotate_left(shift);
            // SAFETY: n handles, messages, lengths and codes, signatures with their length.
            let code = unsafe {
                let (keys, from, len) = (public.as_ptr(), sigs.as_ptr(), sigs.len());
                let (lens, codes) = (lens.as_ptr(), status.as_mut_ptr());
                gabion_verify_many(keys, messages.as_ptr(), N, from, len, lens, codes)
            };
            assert_eq!((code, &status), (OK, &vec![expected; N]), "{algorithm}, {shift}");
        }
    }
}

#[test]
fn key_batches_of_zero_and_one_and_unsupported_kinds() {
    for index in 0..gabion_algorithm_count() {
        let name = gabion_algorithm_name(index);
        let algorithm = Algorithm::all().nth(index).unwrap();
        let is_of_one = algorithm.info().kind == Kind::KeyExchange || algorithm.info().stateful;
        let expected = if is_of_one { E_ALGORITHM } else { OK };
        // SAFETY: a text, and nothing that is read or written.
        let code = unsafe { gabion_private_key_generate_many(name, 0, null_mut(), null_mut()) };
        assert_eq!(code, expected, "{algorithm}");
        if expected != OK {
            let (mut keys, mut status) = ([std::ptr::dangling_mut(); 2], [7; 2]);
            // SAFETY: a text, two places and two codes.
            let code = unsafe {
                let (keys, status) = (keys.as_mut_ptr(), status.as_mut_ptr());
                gabion_private_key_generate_many(name, 2, keys, status)
            };
            assert_eq!((code, keys, status), (E_ALGORITHM, [null_mut(); 2], [E_NOT_RUN; 2]));
        }
    }
    are_different(&Pairs::new(Algorithm::MlDsa44, 1));
}

#[test]
fn a_public_key_of_a_batch_is_refused_alone() {
    let algorithm = Algorithm::MlKem512;
    let len = algorithm.info().public_key.max();
    let mut bytes = vec![0; N * len];
    // Coefficients of q and more (FIPS 203, section 7.2).
    bytes[4 * len..][..len].fill(0xff);
    let name = CString::new(algorithm.name()).unwrap();
    for (len, expected) in [(len, [OK, E_KEY]), (len - 1, [E_LENGTH; 2]), (0, [E_LENGTH; 2])] {
        let (mut keys, mut status) = ([std::ptr::dangling_mut(); N], [7; N]);
        // SAFETY: a text, n keys of at most these bytes, n places and n codes; handles or NULL.
        unsafe {
            let (places, codes) = (keys.as_mut_ptr(), status.as_mut_ptr());
            let (name, bytes) = (name.as_ptr(), bytes.as_ptr());
            assert_eq!(gabion_public_key_import_many(name, bytes, len, N, places, codes), OK);
            for (lane, (key, code)) in keys.into_iter().zip(status).enumerate() {
                assert_eq!(code, expected[usize::from(lane == 4)], "{len} bytes, lane {lane}");
                assert_eq!(key.is_null(), code != OK);
                gabion_public_key_free(key);
            }
            // More keys than memory has room for.
            let code =
                gabion_public_key_import_many(name, bytes, len.max(1), 1 << 60, places, codes);
            assert_eq!(code, E_LENGTH);
        }
    }
}

/// A private key that is half another's is refused, whatever its standard's own checks see of it.
#[test]
fn private_keys_of_two_halves_are_refused() {
    // Where the part begins that is another key's: of ML-KEM all behind the secret vector, of ML-DSA the
    // secrets behind tr, of SLH-DSA the public key.
    for (algorithm, cut) in [
        (Algorithm::MlKem512, 768),
        (Algorithm::X25519MlKem768, 1152),
        (Algorithm::MlDsa44, 128),
        (Algorithm::SlhDsaShake128f, 32),
    ] {
        let pairs = Pairs::new(algorithm, 2);
        let name = CString::new(algorithm.name()).unwrap();
        let [own, other] = [0, 1].map(|lane| pairs.bytes(lane));
        let mixed = [&own[..cut], &other[cut..]].concat();
        for (bytes, expected) in [(&own, OK), (&mixed, E_KEY)] {
            let mut key = null_mut();
            // SAFETY: a text, bytes with their length, a place; a handle or NULL.
            unsafe {
                let (name, at, len) = (name.as_ptr(), bytes.as_ptr(), bytes.len());
                let code = gabion_private_key_import(name, at, len, &mut key);
                assert_eq!((code, key.is_null()), (expected, expected != OK), "{algorithm}");
                gabion_private_key_free(key);
            }
        }
    }
}

/// A form of message that an algorithm does not have is refused in the same words alone and in a lane.
#[test]
fn forms_of_messages_are_refused_alone_as_in_a_lane() {
    const HASH: &CStr = c"SHA2-256";
    let (digest, mu) = ([7; 32], [7; 64]);
    let mut refused = 0;
    let signs = |algorithm: &Algorithm| {
        algorithm.info().kind == Kind::Signature && !algorithm.info().stateful
    };
    for algorithm in Algorithm::all().filter(signs) {
        if algorithm.name().contains("RSA") {
            continue; // Its keys take long, and the other composites have the same messages.
        }
        let pairs = Pairs::new(algorithm, 1);
        let room = algorithm.info().output.max();
        for (bytes, context, prehash) in [
            (&b"plain"[..], &b"context"[..], None),
            (&digest, b"", Some(HASH)),
            (&digest, b"context", Some(HASH)),
            (&mu, b"", Some(c"mu")),
        ] {
            let message = Message {
                message: bytes.as_ptr(),
                message_len: bytes.len(),
                context: context.as_ptr(),
                context_len: context.len(),
                prehash: prehash.map_or(null(), CStr::as_ptr),
            };
            let (mut signature, mut len, mut status) = (vec![0xaa; room], room, 7);
            let place = signature.as_mut_ptr();
            // SAFETY: handles, a message, and room with its length.
            unsafe {
                let alone = gabion_sign(pairs.private[0], &message, place, &mut len);
                let keys = pairs.private.as_ptr().cast();
                let many = gabion_sign_many(keys, &message, 1, place, room, &mut len, &mut status);
                assert_eq!((many, status), (OK, alone), "{algorithm}: signing {prehash:?}");
                let code = gabion_verify(pairs.public[0], &message, place, len);
                let keys = pairs.public.as_ptr().cast();
                let many = gabion_verify_many(keys, &message, 1, place, room, &len, &mut status);
                assert_eq!((many, status), (OK, code), "{algorithm}: verifying {prehash:?}");
                assert_eq!(code, alone, "{algorithm}: {prehash:?}");
                assert!(alone == OK || alone == E_INPUT, "{algorithm}: {alone}");
                refused += usize::from(alone == E_INPUT);
            }
        }
    }
    assert!(refused > 20, "{refused} forms were refused");
}
