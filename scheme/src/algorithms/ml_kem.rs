//! ML-KEM: FIPS 203, tables 2 and 3; RFC 9935; draft-ietf-tls-mlkem.

use super::{AlgorithmInfo, Codepoint, Family, Kind};

/// `names`: the standard's, that of the object identifier, wolfSSL's, liboqs's.
const fn row(
    (category, security_bits): (u8, u16),
    sizes: [usize; 3],
    oid: &'static str,
    tls: Codepoint,
    names: [&'static str; 4],
    openssl: &'static [&'static str],
) -> AlgorithmInfo {
    let strength = (Some(category), security_bits);
    AlgorithmInfo {
        oid: Some(oid),
        oid_name: Some(names[1]),
        tls: Some(tls),
        openssl,
        wolfssl: Some(names[2]),
        oqs: Some(names[3]),
        seed: Some(64),
        shared_secret: 32,
        ..AlgorithmInfo::new((Kind::Kem, Family::MlKem), names[0], "FIPS 203", strength, sizes)
    }
}

pub(super) const ML_KEM_512: AlgorithmInfo = row(
    (1, 128),
    [800, 1632, 768],
    "2.16.840.1.101.3.4.4.1",
    Codepoint::new("MLKEM512", 0x0200),
    ["ML-KEM-512", "id-alg-ml-kem-512", "ML_KEM_512", "ML-KEM-512"],
    &["ML-KEM-512", "MLKEM512", "id-alg-ml-kem-512"],
);

pub(super) const ML_KEM_768: AlgorithmInfo = row(
    (3, 192),
    [1184, 2400, 1088],
    "2.16.840.1.101.3.4.4.2",
    Codepoint::new("MLKEM768", 0x0201),
    ["ML-KEM-768", "id-alg-ml-kem-768", "ML_KEM_768", "ML-KEM-768"],
    &["ML-KEM-768", "MLKEM768", "id-alg-ml-kem-768"],
);

pub(super) const ML_KEM_1024: AlgorithmInfo = row(
    (5, 256),
    [1568, 3168, 1568],
    "2.16.840.1.101.3.4.4.3",
    Codepoint::new("MLKEM1024", 0x0202),
    ["ML-KEM-1024", "id-alg-ml-kem-1024", "ML_KEM_1024", "ML-KEM-1024"],
    &["ML-KEM-1024", "MLKEM1024", "id-alg-ml-kem-1024"],
);
