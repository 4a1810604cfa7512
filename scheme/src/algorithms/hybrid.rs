//! Hybrid KEMs: ML-KEM beside a curve, so that a secret is lost only where both are broken.
//!
//! RFC 10024 for three registered TLS groups, draft-rosomakho-tls-ecdhe-mlkem512 for those two with
//! ML-KEM-512; the private ones as wolfSSL and Open Quantum Safe agree on them;
//! draft-connolly-cfrg-xwing-kem for X-Wing. Public keys, ciphertexts (the server's share), private keys
//! and secrets of the TLS groups are those of the parts, one after the other.

use super::{AlgorithmInfo, Codepoint, Family, Kind};

/// Bytes of public key, private key, ciphertext and secret of each part.
const ML_KEM_512: [usize; 4] = [800, 1632, 768, 32];
const ML_KEM_768: [usize; 4] = [1184, 2400, 1088, 32];
const ML_KEM_1024: [usize; 4] = [1568, 3168, 1568, 32];
const X25519: [usize; 4] = [32, 32, 32, 32];
const P256: [usize; 4] = [65, 32, 65, 32];
const P384: [usize; 4] = [97, 48, 97, 48];
const P521: [usize; 4] = [133, 66, 133, 66];

const fn tls(
    name: &'static str,
    number: u16,
    standard: &'static str,
    (category, security_bits): (u8, u16),
    parts: &'static [&'static str],
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
    tls(
        "X25519MLKEM768",
        0x11ec,
        "RFC 10024",
        (3, 192),
        &["ML-KEM-768", "X25519"],
        (ML_KEM_768, X25519),
    ),
    &["X25519MLKEM768"],
);

pub(super) const SECP256R1_ML_KEM_768: AlgorithmInfo = registered(
    tls(
        "SecP256r1MLKEM768",
        0x11eb,
        "RFC 10024",
        (3, 192),
        &["ECDH-P-256", "ML-KEM-768"],
        (P256, ML_KEM_768),
    ),
    &["SecP256r1MLKEM768"],
);

pub(super) const SECP384R1_ML_KEM_1024: AlgorithmInfo = registered(
    tls(
        "SecP384r1MLKEM1024",
        0x11ed,
        "RFC 10024",
        (5, 256),
        &["ECDH-P-384", "ML-KEM-1024"],
        (P384, ML_KEM_1024),
    ),
    &["SecP384r1MLKEM1024"],
);

/// wolfSSL 5.9 has the private number under the registered name, as Open Quantum Safe had under the other.
pub(super) const SECP256R1_ML_KEM_512: AlgorithmInfo = AlgorithmInfo {
    tls_before: Some(Codepoint::new("p256_mlkem512", 0x2f4b)),
    ..private(
        tls(
            "SecP256r1MLKEM512",
            0x11e9,
            ML_KEM_512_DRAFT,
            (1, 128),
            &["ECDH-P-256", "ML-KEM-512"],
            (P256, ML_KEM_512),
        ),
        "p256_mlkem512",
    )
};

/// Its name has the parts in their order, as that of X25519MLKEM768 has not.
pub(super) const ML_KEM_512_X25519: AlgorithmInfo = AlgorithmInfo {
    draft: true,
    ..tls(
        "MLKEM512X25519",
        0x11ea,
        ML_KEM_512_DRAFT,
        (1, 128),
        &["ML-KEM-512", "X25519"],
        (ML_KEM_512, X25519),
    )
};

/// What the registry refers to for both numbers.
const ML_KEM_512_DRAFT: &str = "draft-rosomakho-tls-ecdhe-mlkem512-00";

pub(super) const SECP384R1_ML_KEM_768: AlgorithmInfo = private(
    tls(
        "SecP384r1MLKEM768",
        0x2f4c,
        "private",
        (3, 192),
        &["ECDH-P-384", "ML-KEM-768"],
        (P384, ML_KEM_768),
    ),
    "p384_mlkem768",
);

pub(super) const SECP521R1_ML_KEM_1024: AlgorithmInfo = private(
    tls(
        "SecP521r1MLKEM1024",
        0x2f4d,
        "private",
        (5, 256),
        &["ECDH-P-521", "ML-KEM-1024"],
        (P521, ML_KEM_1024),
    ),
    "p521_mlkem1024",
);

/// The private key is the seed; the secret is a hash of everything.
pub(super) const X_WING: AlgorithmInfo = AlgorithmInfo {
    draft: true,
    oid: Some("1.3.6.1.4.1.62253.25722"),
    oid_name: Some("id-XWing"),
    parts: &["ML-KEM-768", "X25519"],
    seed: Some(32),
    shared_secret: 32,
    ..AlgorithmInfo::new(
        (Kind::Kem, Family::Hybrid),
        "X-Wing",
        "draft-connolly-cfrg-xwing-kem",
        (Some(3), 192),
        [1184 + 32, 32, 1088 + 32],
    )
};
