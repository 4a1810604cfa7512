//! Hybrid KEMs: ML-KEM combined with a curve, so that the shared secret stays secret unless both
//! are broken.
//!
//! RFC 10024 for three registered TLS groups, draft-rosomakho-tls-ecdhe-mlkem512 for those two with
//! ML-KEM-512; the private ones as wolfSSL and Open Quantum Safe agree on them;
//! draft-connolly-cfrg-xwing-kem for X-Wing. Public keys, ciphertexts (the server's share), private keys
//! and secrets of the TLS groups are those of the parts, one after the other.

use super::{Algorithm, AlgorithmInfo, Codepoint, Family, Kind, Part};
use super::{ecc, ml_kem};

/// A component, and the lengths of its public key, private key, ciphertext (for a curve its share)
/// and secret.
type SizedPart = (Part, [usize; 4]);
const ML_KEM_512: SizedPart = part(Algorithm::MlKem512, &ml_kem::ML_KEM_512);
const ML_KEM_768: SizedPart = part(Algorithm::MlKem768, &ml_kem::ML_KEM_768);
const ML_KEM_1024: SizedPart = part(Algorithm::MlKem1024, &ml_kem::ML_KEM_1024);
const X25519: SizedPart = part(Algorithm::X25519, &ecc::X25519);
const P256: SizedPart = part(Algorithm::EcdhP256, &ecc::ECDH_P256);
const P384: SizedPart = part(Algorithm::EcdhP384, &ecc::ECDH_P384);
const P521: SizedPart = part(Algorithm::EcdhP521, &ecc::ECDH_P521);

const fn part(algorithm: Algorithm, row: &AlgorithmInfo) -> SizedPart {
    let share = if row.output.max() > 0 { row.output } else { row.public_key };
    let [public, private, share] = [row.public_key.max(), row.private_key.max(), share.max()];
    (Part::Algorithm(algorithm), [public, private, share, row.shared_secret])
}

/// A group of TLS: its name, number, source and strength, and its parts in their order.
macro_rules! tls {
    ($name:literal, $number:literal, $source:expr, $strength:expr, ($a:ident, $b:ident) $(,)?) => {
        tls($name, $number, $source, $strength, &[$a.0, $b.0], ($a.1, $b.1))
    };
}

const fn tls(
    name: &'static str,
    number: u16,
    standard: &'static str,
    (category, security_bits): (u8, u16),
    parts: &'static [Part],
    (a, b): ([usize; 4], [usize; 4]),
) -> AlgorithmInfo {
    AlgorithmInfo {
        tls: Some(Codepoint::new(name, number)),
        parts,
        shared_secret: a[3] + b[3],
        ..AlgorithmInfo::new(
            (Kind::Kem, Family::Hybrid),
            name,
            standard,
            (Some(category), security_bits),
            [a[0] + b[0], a[1] + b[1], a[2] + b[2]],
        )
    }
}

/// A registered group, which goes by one name everywhere.
const fn registered(row: AlgorithmInfo, openssl: &'static [&'static str]) -> AlgorithmInfo {
    AlgorithmInfo { openssl, wolfssl: Some(row.name), oqs: Some(row.name), ..row }
}

/// A private group: wolfSSL's name and that of Open Quantum Safe.
const fn private(row: AlgorithmInfo, oqs: &'static str) -> AlgorithmInfo {
    AlgorithmInfo { draft: true, wolfssl: Some(row.name), oqs: Some(oqs), ..row }
}

pub(super) const X25519_ML_KEM_768: AlgorithmInfo = registered(
    tls!("X25519MLKEM768", 0x11ec, "RFC 10024", (3, 192), (ML_KEM_768, X25519),),
    &["X25519MLKEM768"],
);

pub(super) const SECP256R1_ML_KEM_768: AlgorithmInfo = registered(
    tls!("SecP256r1MLKEM768", 0x11eb, "RFC 10024", (3, 192), (P256, ML_KEM_768),),
    &["SecP256r1MLKEM768"],
);

pub(super) const SECP384R1_ML_KEM_1024: AlgorithmInfo = registered(
    tls!("SecP384r1MLKEM1024", 0x11ed, "RFC 10024", (5, 256), (P384, ML_KEM_1024),),
    &["SecP384r1MLKEM1024"],
);

/// wolfSSL 5.9 has the private number under the registered name, as Open Quantum Safe had under the other.
pub(super) const SECP256R1_ML_KEM_512: AlgorithmInfo = AlgorithmInfo {
    tls_before: Some(Codepoint::new("p256_mlkem512", 0x2f4b)),
    ..private(
        tls!("SecP256r1MLKEM512", 0x11e9, ML_KEM_512_DRAFT, (1, 128), (P256, ML_KEM_512),),
        "p256_mlkem512",
    )
};

/// Its name has the components in their order, unlike that of X25519MLKEM768.
pub(super) const ML_KEM_512_X25519: AlgorithmInfo = AlgorithmInfo {
    draft: true,
    ..tls!("MLKEM512X25519", 0x11ea, ML_KEM_512_DRAFT, (1, 128), (ML_KEM_512, X25519),)
};

/// The draft that the registry refers to for both code points.
const ML_KEM_512_DRAFT: &str = "draft-rosomakho-tls-ecdhe-mlkem512-00";

pub(super) const SECP384R1_ML_KEM_768: AlgorithmInfo = private(
    tls!("SecP384r1MLKEM768", 0x2f4c, "private", (3, 192), (P384, ML_KEM_768),),
    "p384_mlkem768",
);

pub(super) const SECP521R1_ML_KEM_1024: AlgorithmInfo = private(
    tls!("SecP521r1MLKEM1024", 0x2f4d, "private", (5, 256), (P521, ML_KEM_1024),),
    "p521_mlkem1024",
);

/// The private key is the seed; the secret is a hash of everything.
pub(super) const X_WING: AlgorithmInfo = AlgorithmInfo {
    draft: true,
    oid: Some("1.3.6.1.4.1.62253.25722"),
    oid_name: Some("id-XWing"),
    parts: &[ML_KEM_768.0, X25519.0],
    seed: Some(32),
    shared_secret: 32,
    ..AlgorithmInfo::new(
        (Kind::Kem, Family::Hybrid),
        "X-Wing",
        "draft-connolly-cfrg-xwing-kem",
        (Some(3), 192),
        [ML_KEM_768.1[0] + X25519.1[0], 32, ML_KEM_768.1[2] + X25519.1[2]],
    )
};
