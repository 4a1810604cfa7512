//! Fixtures of all targets: engines, and for each algorithm a key pair with its outputs.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gabion_backend::portable::Portable;
use gabion_engine::xmss::{Scheme, Set, testing_only_signatures};
use gabion_engine::{
    ALGORITHMS, Algorithm, Config, Engine, Entropy, EntropyError, Error, Family, Kind, Message,
    Status, lms,
};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

/// Bytes that are the same in every run: SHAKE256 of a label and a counter.
pub struct FixedEntropy(u64, AtomicU64);

impl FixedEntropy {
    /// Returns a separate stream for each label.
    pub fn new(label: u64) -> Self {
        FixedEntropy(label, AtomicU64::new(0))
    }
}

impl Entropy for FixedEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        let mut hash = Shake256::default();
        hash.update(&self.0.to_le_bytes());
        hash.update(&self.1.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        hash.finalize_xof().read(out);
        Ok(())
    }
}

/// The message of [`KeyFixture::output`].
pub const MESSAGE: &[u8] = b"what the known signature signs";

/// A key pair with a signature or ciphertext, as bytes.
pub struct KeyFixture {
    /// The algorithm of the key pair.
    pub algorithm: Algorithm,
    /// The encoded public key.
    pub public: Vec<u8>,
    /// The encoded private key.
    pub private: Vec<u8>,
    /// The seed; empty for algorithms without seeds.
    pub seed: Vec<u8>,
    /// A ciphertext, or the signature of [`MESSAGE`]; empty for a key exchange.
    pub output: Vec<u8>,
    /// The secret of the ciphertext; empty for others.
    pub shared: Vec<u8>,
}

/// The engine that picks the best backend, and one that has only the portable one.
pub fn engines() -> &'static [Engine; 2] {
    static ENGINES: OnceLock<[Engine; 2]> = OnceLock::new();
    ENGINES.get_or_init(|| {
        ["auto", "portable"].map(|name| {
            let backend = (name != "auto").then(|| name.to_owned());
            Engine::new(&Config { backend, ..Config::default() }).expect("every machine has it")
        })
    })
}

/// The best engine.
pub fn engine() -> &'static Engine {
    &engines()[0]
}

/// Returns the result of both engines, which must be equal.
pub fn agreed<T: PartialEq + Debug>(ask: impl Fn(&Engine) -> Result<T, Error>) -> Result<T, Error> {
    let [best, portable] = engines().each_ref().map(&ask);
    assert_eq!(best, portable, "the best backend and the portable one differ");
    best
}

/// The algorithms that `wanted` picks. RSA of 3072 and 4096 bits is left to that of 2048: the code is
/// the same, and a key takes seconds to make.
pub fn algorithms(wanted: impl Fn(Kind, Family) -> bool) -> Vec<Algorithm> {
    let is_long = |name: &str| name.contains("RSA3072") || name.contains("RSA4096");
    let rows = ALGORITHMS.iter().filter(|row| wanted(row.kind, row.family) && !is_long(row.name));
    // Stateful algorithms, whose key changes with each signature, have no ordinary private key.
    let rows = rows.filter(|row| !row.stateful);
    rows.map(|row| row.algorithm).collect()
}

/// Returns the [`algorithms`], and the stateful ones, which are only verified.
pub fn verified(wanted: impl Fn(Kind, Family) -> bool) -> Vec<Algorithm> {
    let rows = ALGORITHMS.iter().filter(|row| row.stateful && wanted(row.kind, row.family));
    let stateful: Vec<_> = rows.map(|row| row.algorithm).collect();
    [algorithms(wanted), stateful].concat()
}

/// Returns whether signatures of an algorithm have an ECDSA signature in them: `(r, -s)` then
/// verifies as well as `(r, s)`.
pub fn has_ecdsa(algorithm: Algorithm) -> bool {
    algorithm.name().to_uppercase().contains("ECDSA")
}

/// The verdict on a lane that stands for a single operation's result.
///
/// # Panics
/// On a failure that no input can cause.
pub fn verdict<T>(result: &Result<T, Error>) -> Status {
    match result {
        Ok(_) => Status::Ok,
        Err(Error::BadSignature) => Status::InvalidSignature,
        Err(Error::Input(_) | Error::WrongAlgorithm { .. }) => Status::InvalidInput,
        Err(Error::Lane { status, .. }) => *status,
        Err(error) => panic!("no input causes this: {error}"),
    }
}

/// The material of an algorithm, made once.
pub fn of(algorithm: Algorithm) -> &'static KeyFixture {
    static KNOWN: [OnceLock<KeyFixture>; ALGORITHMS.len()] =
        [const { OnceLock::new() }; ALGORITHMS.len()];
    KNOWN[algorithm as usize].get_or_init(|| make(algorithm).expect("it can be made"))
}

/// A key of two levels with its first signature. There is no private key that engines take.
fn hss() -> Result<KeyFixture, Error> {
    let (trees, one_times) = (lms::Lms::from_typecode(5), lms::LmOts::from_typecode(3));
    let level = trees.zip(one_times).expect("LMS_SHA256_M32_H5 and LMOTS_SHA256_N32_W4");
    let levels = lms::Levels::new(&[level; 2])?;
    let mut output = vec![0; levels.signature_len()];
    let scratch = &mut lms::Scratch::new();
    let mut key = lms::generate(&Portable, levels, &[7; 16], &[9; 32], scratch)?;
    key.sign(&Portable, 0, &[MESSAGE], &mut output, scratch)?;
    let (public, private) = (key.verify_key().bytes().to_vec(), Vec::new());
    let (seed, shared) = Default::default();
    Ok(KeyFixture { algorithm: Algorithm::Hss, public, private, seed, output, shared })
}

/// A public key of HSS as others put it into files: in an OCTET STRING, without the word in front, and both.
pub fn old_hss(key: &[u8]) -> [Vec<u8>; 3] {
    let octets = |bytes: &[u8]| [&[4, bytes.len() as u8], bytes].concat();
    [octets(key), key[4..].to_vec(), octets(&key[4..])]
}

/// A key of which one leaf of each tree is known, with what that signs.
fn xmss(scheme: Scheme, entropy: &FixedEntropy) -> KeyFixture {
    // 10 high, and four layers of 5, whose hashes have 24 bytes.
    let number = match scheme {
        Scheme::Xmss => 13,
        Scheme::XmssMt => 0x22,
    };
    let set = Set::from_number(scheme, number).expect("XMSS-SHA2_10_192, XMSSMT-SHA2_20/4_192");
    let mut take = |len| {
        let mut bytes = vec![0; len];
        entropy.fill(&mut bytes).expect("fixed bytes");
        bytes
    };
    let (public, signatures) = testing_only_signatures(&Portable, set, 700, &[MESSAGE], &mut take);
    let output = signatures.concat();
    let (private, seed, shared) = Default::default();
    KeyFixture { algorithm: scheme.into(), public, private, seed, output, shared }
}

fn make(algorithm: Algorithm) -> Result<KeyFixture, Error> {
    let (engine, entropy) = (engine(), FixedEntropy::new(algorithm as u64));
    let seed_of = |seed: Option<&[u8]>| seed.unwrap_or_default().to_vec();
    if algorithm == Algorithm::Hss {
        return hss();
    }
    if let Some(scheme) = algorithm.xmss() {
        return Ok(xmss(scheme, &entropy));
    }
    Ok(match algorithm.info().kind {
        Kind::Kem => {
            let key = engine.kem_generate(algorithm, &entropy)?;
            let (output, shared) = engine.encaps(&key.public(), &entropy)?;
            let (public, private) = (key.public_bytes().to_vec(), key.bytes().to_vec());
            let (seed, shared) = (seed_of(key.seed()), shared.to_vec());
            KeyFixture { algorithm, public, private, seed, output, shared }
        }
        Kind::Signature => {
            let key = engine.signature_generate(algorithm, &entropy)?;
            let message = Message::Pure { context: b"", message: MESSAGE };
            let output = engine.sign(&key, message, &entropy)?;
            let (public, private) = (key.public_bytes().to_vec(), key.bytes().to_vec());
            let (seed, shared) = (seed_of(key.seed()), Vec::new());
            KeyFixture { algorithm, public, private, seed, output, shared }
        }
        _ => {
            let key = engine.exchange_generate(algorithm, &entropy)?;
            let (public, private) = (key.public_bytes().to_vec(), key.bytes().to_vec());
            let (seed, output, shared) = Default::default();
            KeyFixture { algorithm, public, private, seed, output, shared }
        }
    })
}
