//! What a library under measurement has to offer, and the parameter sets that are measured.
//!
//! ```text
//!   main ─ rows, options        check ─ all peers agree before anything is timed
//!      └────────────┬──────────────┘
//!             Peer ─┼─ Kem (one parameter set, one loaded key)
//!                   ├─ Hybrid (one set, one loaded public key, one pair of its own)
//!                   ├─ Dsa (one parameter set, one loaded key)
//!                   ├─ Signer (any other signature, one pair of its own)
//!                   └─ Exchange (one curve, one pair from a given private key)
//!   aws_lc · libcrux · openssl · wolfssl · liboqs · crates (falcon, curves) · hybrids
//! ```
//!
//! `fresh` starts from the encoded key and does everything the standard asks for, the checks of
//! the input included. `cached` starts from the best form of the key that the library's public
//! interface can keep.

pub use gabion_rows::operations::{Identity, Key, Operation, Randomness};

/// Why a measurement stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A library is not there or not the version that is measured.
    #[error("{0}")]
    Environment(String),
    /// A library refused an operation that has to work.
    #[error("{peer}: {call} failed ({detail})")]
    Call {
        /// Which library.
        peer: &'static str,
        /// The function or operation.
        call: &'static str,
        /// The library's own words or code.
        detail: String,
    },
    /// The filter leaves nothing to measure.
    #[error("no row matches the filter {0:?}; rows are named like ML-KEM-768:encaps:cached")]
    Filter(String),
    /// Two libraries disagree: nothing they do is worth timing.
    #[error("{0}")]
    Disagreement(String),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A parameter set of ML-KEM (FIPS 203, section 8); sizes in bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct KemSet {
    /// Name in the standard.
    pub name: &'static str,
    /// Encapsulation key.
    pub ek: usize,
    /// Decapsulation key, expanded.
    pub dk: usize,
    /// Ciphertext.
    pub ct: usize,
}

/// The three parameter sets of ML-KEM.
pub const KEM_SETS: [KemSet; 3] = [
    KemSet { name: "ML-KEM-512", ek: 800, dk: 1632, ct: 768 },
    KemSet { name: "ML-KEM-768", ek: 1184, dk: 2400, ct: 1088 },
    KemSet { name: "ML-KEM-1024", ek: 1568, dk: 3168, ct: 1568 },
];

/// A hybrid KEM of ML-KEM and a curve; sizes in bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct HybridSet {
    /// The name that `gabion bench engine` uses; OpenSSL has the same.
    pub name: &'static str,
    /// Its ML-KEM.
    pub kem: &'static KemSet,
    /// Its curve, by the name of [`EXCHANGES`].
    pub exchange: &'static str,
    /// A public key on the curve, and a private one.
    pub point: usize,
    /// See above.
    pub scalar: usize,
    /// How the parts are put together.
    pub form: Form,
}

/// How a hybrid is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Keys, ciphertext and secret are ML-KEM's part and the curve's.
    KemFirst,
    /// The same the other way round.
    CurveFirst,
    /// Public key and ciphertext as in `KemFirst`; the private key is a seed, and the secret a hash.
    XWing,
}

/// The hybrids that a library has: those of TLS that OpenSSL knows, and X-Wing.
pub const HYBRID_SETS: [HybridSet; 4] = [
    HybridSet {
        name: "X25519MLKEM768",
        kem: &KEM_SETS[1],
        exchange: "X25519",
        point: 32,
        scalar: 32,
        form: Form::KemFirst,
    },
    HybridSet {
        name: "SecP256r1MLKEM768",
        kem: &KEM_SETS[1],
        exchange: "ECDH-P-256",
        point: 65,
        scalar: 32,
        form: Form::CurveFirst,
    },
    HybridSet {
        name: "SecP384r1MLKEM1024",
        kem: &KEM_SETS[2],
        exchange: "ECDH-P-384",
        point: 97,
        scalar: 48,
        form: Form::CurveFirst,
    },
    HybridSet {
        name: "X-Wing",
        kem: &KEM_SETS[1],
        exchange: "X25519",
        point: 32,
        scalar: 32,
        form: Form::XWing,
    },
];

impl HybridSet {
    /// Bytes of a public key.
    pub fn public(&self) -> usize {
        self.kem.ek + self.point
    }

    /// Bytes of a private key.
    pub fn private(&self) -> usize {
        if self.form == Form::XWing { 32 } else { self.kem.dk + self.scalar }
    }

    /// Bytes of a ciphertext, whose part on the curve is a public key.
    pub fn ct(&self) -> usize {
        self.kem.ct + self.point
    }

    /// Bytes of a shared secret. That of Diffie-Hellman is as long as a private key.
    pub fn secret(&self) -> usize {
        if self.form == Form::XWing { 32 } else { 32 + self.scalar }
    }

    /// Puts ML-KEM's part and the curve's together.
    pub fn join(&self, kem: &[u8], curve: &[u8]) -> Vec<u8> {
        if self.form == Form::CurveFirst { [curve, kem] } else { [kem, curve] }.concat()
    }

    /// Where ML-KEM's part of `kem` bytes begins beside a part of the curve with `curve` bytes, and
    /// where the latter begins.
    pub fn offsets(&self, kem: usize, curve: usize) -> (usize, usize) {
        if self.form == Form::CurveFirst { (curve, 0) } else { (0, kem) }
    }
}

/// A parameter set of ML-DSA (FIPS 204, section 4); sizes in bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct DsaSet {
    /// Name in the standard.
    pub name: &'static str,
    /// Public key.
    pub pk: usize,
    /// Private key, expanded.
    pub sk: usize,
    /// Signature.
    pub sig: usize,
}

/// The three parameter sets of ML-DSA.
pub const DSA_SETS: [DsaSet; 3] = [
    DsaSet { name: "ML-DSA-44", pk: 1312, sk: 2560, sig: 2420 },
    DsaSet { name: "ML-DSA-65", pk: 1952, sk: 4032, sig: 3309 },
    DsaSet { name: "ML-DSA-87", pk: 2592, sk: 4896, sig: 4627 },
];

/// A shared secret.
pub type Secret = [u8; 32];

/// A library under measurement.
pub trait Peer {
    /// Who it is.
    fn identity(&self) -> &Identity;

    /// A key slot for `set`; `None` when the library lacks it.
    fn kem(&self, _set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        Ok(None)
    }

    /// A slot with a pair of keys for `set`; `None` when the library lacks it.
    fn hybrid(&self, _set: &'static HybridSet) -> Result<Option<Box<dyn Hybrid>>> {
        Ok(None)
    }

    /// A key slot for `set`; `None` when the library lacks it.
    fn dsa(&self, _set: &'static DsaSet) -> Result<Option<Box<dyn Dsa>>> {
        Ok(None)
    }

    /// A slot with a pair of keys for a scheme of [`SIGNERS`]; `None` when the library lacks it.
    fn signer(&self, _name: &str) -> Result<Option<Box<dyn Signer>>> {
        Ok(None)
    }

    /// A slot with this private key for a key exchange of [`EXCHANGES`]; `None` when the library
    /// lacks it.
    fn exchange(&self, _name: &str, _private: &[u8]) -> Result<Option<Box<dyn Exchange>>> {
        Ok(None)
    }
}

/// Signature schemes beside ML-DSA, by the names that `gabion bench engine` uses; those of HSS are the sets of
/// `gabion bench hbs`.
pub const SIGNERS: [&str; 41] = [
    "SLH-DSA-SHAKE-128f",
    "SLH-DSA-SHAKE-128s",
    "SLH-DSA-SHAKE-192f",
    "SLH-DSA-SHAKE-192s",
    "SLH-DSA-SHAKE-256f",
    "SLH-DSA-SHAKE-256s",
    "SLH-DSA-SHA2-128f",
    "SLH-DSA-SHA2-128s",
    "SLH-DSA-SHA2-192f",
    "SLH-DSA-SHA2-192s",
    "SLH-DSA-SHA2-256f",
    "SLH-DSA-SHA2-256s",
    "Falcon-512",
    "Falcon-1024",
    "Falcon-padded-512",
    "Falcon-padded-1024",
    "FN-DSA-512-draft",
    "FN-DSA-1024-draft",
    "Ed25519",
    "ECDSA-P-256",
    "ECDSA-P-384",
    "ECDSA-P-521",
    "HSS-L1_H10_W4",
    "HSS-L1_H15_W2",
    "HSS-L1_H15_W4",
    "HSS-L2_H10_W2",
    "HSS-L2_H10_W4",
    "HSS-L2_H10_W8",
    "HSS-L3_H5_W2",
    "HSS-L3_H5_W4",
    "HSS-L3_H5_W8",
    "HSS-L3_H10_W4",
    "HSS-L4_H5_W8",
    "XMSS-SHA2_10_256",
    "XMSS-SHA2_16_256",
    "XMSSMT-SHA2_20/2_256",
    "XMSSMT-SHA2_20/4_256",
    "XMSSMT-SHA2_40/4_256",
    "XMSSMT-SHA2_40/8_256",
    "XMSSMT-SHA2_60/6_256",
    "XMSSMT-SHA2_60/12_256",
];

/// Key exchanges, by the names that `gabion bench engine` uses, and the bytes of a private key.
pub const EXCHANGES: [(&str, usize); 4] =
    [("X25519", 32), ("ECDH-P-256", 32), ("ECDH-P-384", 48), ("ECDH-P-521", 66)];

/// A signature scheme with one pair of keys, which the slot made itself.
///
/// These are not compared byte by byte: Falcon draws its randomness, and liboqs has the round-3
/// SPHINCS+, of which FIPS 205 changed the hashing of the message only. A slot is checked against
/// itself before it is timed.
pub trait Signer {
    /// Makes a fresh pair in place of the old one.
    fn keygen(&mut self) -> Result<()>;

    /// Signs with the slot's key.
    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>>;

    /// Verifies with the slot's key; `false` is a signature that does not verify.
    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool>;
}

/// A key exchange with one pair of keys.
///
/// Every derivation decodes the peer's public key, with the checks that it needs: it is never seen
/// again.
pub trait Exchange {
    /// Where key generation takes its randomness from.
    fn randomness(&self) -> Randomness;

    /// The slot's public key, encoded.
    fn public(&self) -> &[u8];

    /// Makes another pair, of which the encoded public key comes back.
    fn keygen(&mut self) -> Result<Vec<u8>>;

    /// Derives the secret from the encoded private key.
    fn derive_fresh(&mut self, peer: &[u8]) -> Result<Vec<u8>>;

    /// Derives the secret from the key that the slot keeps.
    fn derive_cached(&mut self, peer: &[u8]) -> Result<Vec<u8>>;
}

/// ML-KEM with one parameter set. Buffers have the sizes of the set.
pub trait Kem {
    /// Where `operation` takes its randomness from.
    fn randomness(&self, operation: Operation) -> Randomness;

    /// Whether `operation` gains anything from a loaded key.
    fn keeps_key(&self, operation: Operation) -> bool;

    /// Whether the library can do `operation` with such a key: not every one takes private keys in.
    fn does(&self, operation: Operation, key: Key) -> bool {
        key == Key::Fresh || self.keeps_key(operation)
    }

    /// Makes a key pair from `seed` (d, then z) where randomness is given, and encodes both parts.
    fn keygen(&mut self, seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()>;

    /// Loads a key pair for the two `_cached` operations. `seed` made `ek` and `dk`.
    fn load(&mut self, seed: &[u8; 64], ek: &[u8], dk: &[u8]) -> Result<()>;

    /// Encapsulates to the encoded key, with randomness `m` where it is given.
    fn encaps_fresh(&mut self, ek: &[u8], m: &Secret, ct: &mut [u8]) -> Result<Secret>;

    /// Encapsulates to the loaded key.
    fn encaps_cached(&mut self, m: &Secret, ct: &mut [u8]) -> Result<Secret>;

    /// Decapsulates with the encoded key.
    fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret>;

    /// Decapsulates with the loaded key.
    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret>;
}

/// A pair of a hybrid, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridPair {
    /// The public key.
    pub public: Vec<u8>,
    /// The private key; `None` where the library does not give it out.
    pub private: Option<Vec<u8>>,
}

/// A ciphertext and its shared secret.
pub type Encapsulation = (Vec<u8>, Vec<u8>);

/// A hybrid KEM, with the pair that it made last. Not every library gives private keys out, so that the
/// slot decapsulates with its own.
pub trait Hybrid {
    /// Where keys and encapsulations take their randomness from.
    fn source(&self) -> Randomness;

    /// Where `operation` takes its randomness from.
    fn randomness(&self, operation: Operation) -> Randomness {
        if operation == Operation::Decaps { Randomness::None } else { self.source() }
    }

    /// Whether the library can do `operation` with such a key. No pair is made of a known key.
    fn does(&self, operation: Operation, key: Key) -> bool {
        (operation, key) != (Operation::Keygen, Key::Cached)
    }

    /// Whether a pair decapsulates once and is gone.
    fn is_used_up(&self) -> bool {
        false
    }

    /// Makes another pair, from `seed` (d, z, then the scalar; of X-Wing its first 32 bytes) where
    /// randomness is given, and encodes what it gives out.
    fn keygen(&mut self, seed: &[u8; 96]) -> Result<HybridPair>;

    /// Loads the public key for `encaps_cached`.
    fn load(&mut self, public: &[u8]) -> Result<()>;

    /// Encapsulates to the encoded key, with randomness `m` (ML-KEM's, then the scalar) where it is
    /// given.
    fn encaps_fresh(&mut self, public: &[u8], m: &[u8; 64]) -> Result<Encapsulation>;

    /// Encapsulates to the loaded key.
    fn encaps_cached(&mut self, m: &[u8; 64]) -> Result<Encapsulation>;

    /// Decapsulates with the encoded key.
    fn decaps_fresh(&mut self, private: &[u8], ct: &[u8]) -> Result<Vec<u8>>;

    /// Decapsulates with the pair that was made last, in the form that the library keeps.
    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Vec<u8>>;
}

/// ML-DSA with one parameter set. Buffers have the sizes of the set.
pub trait Dsa {
    /// Where `operation` takes its randomness from; `Given` for signing means deterministic.
    fn randomness(&self, operation: Operation) -> Randomness;

    /// Whether `operation` gains anything from a loaded key.
    fn keeps_key(&self, operation: Operation) -> bool;

    /// Makes a key pair from `xi` and encodes both parts.
    fn keygen(&mut self, xi: &[u8; 32], pk: &mut [u8], sk: &mut [u8]) -> Result<()>;

    /// Loads a key pair for the two `_cached` operations.
    fn load(&mut self, pk: &[u8], sk: &[u8]) -> Result<()>;

    /// Signs with the encoded key.
    fn sign_fresh(&mut self, sk: &[u8], message: &[u8], sig: &mut [u8]) -> Result<()>;

    /// Signs with the loaded key.
    fn sign_cached(&mut self, message: &[u8], sig: &mut [u8]) -> Result<()>;

    /// Verifies with the encoded key; `false` is a signature that does not verify.
    fn verify_fresh(&mut self, pk: &[u8], message: &[u8], sig: &[u8]) -> Result<bool>;

    /// Verifies with the loaded key.
    fn verify_cached(&mut self, message: &[u8], sig: &[u8]) -> Result<bool>;
}
