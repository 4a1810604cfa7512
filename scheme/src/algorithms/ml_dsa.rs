//! ML-DSA: FIPS 204, tables 1 and 2; RFC 9881; draft-ietf-tls-mldsa.

use super::{AlgorithmInfo, Codepoint, Family, Kind};

/// `oids`: pure and pre-hash; `names`: the standard's, that of the object identifier, wolfSSL's,
/// liboqs's.
const fn row(
    (category, security_bits): (u8, u16),
    sizes: [usize; 3],
    oids: [&'static str; 2],
    tls: Codepoint,
    names: [&'static str; 4],
    openssl: &'static [&'static str],
) -> AlgorithmInfo {
    let strength = (Some(category), security_bits);
    AlgorithmInfo {
        oid: Some(oids[0]),
        oid_name: Some(names[1]),
        tls: Some(tls),
        openssl,
        wolfssl: Some(names[2]),
        oqs: Some(names[3]),
        prehash_oid: Some(oids[1]),
        seed: Some(32),
        ..AlgorithmInfo::new(
            (Kind::Signature, Family::MlDsa),
            names[0],
            "FIPS 204",
            strength,
            sizes,
        )
    }
}

pub(super) const ML_DSA_44: AlgorithmInfo = row(
    (2, 128),
    [1312, 2560, 2420],
    ["2.16.840.1.101.3.4.3.17", "2.16.840.1.101.3.4.3.32"],
    Codepoint::new("mldsa44", 0x0904),
    ["ML-DSA-44", "id-ml-dsa-44", "ML_DSA_44", "ML-DSA-44"],
    &["ML-DSA-44", "MLDSA44", "id-ml-dsa-44"],
);

pub(super) const ML_DSA_65: AlgorithmInfo = row(
    (3, 192),
    [1952, 4032, 3309],
    ["2.16.840.1.101.3.4.3.18", "2.16.840.1.101.3.4.3.33"],
    Codepoint::new("mldsa65", 0x0905),
    ["ML-DSA-65", "id-ml-dsa-65", "ML_DSA_65", "ML-DSA-65"],
    &["ML-DSA-65", "MLDSA65", "id-ml-dsa-65"],
);

pub(super) const ML_DSA_87: AlgorithmInfo = row(
    (5, 256),
    [2592, 4896, 4627],
    ["2.16.840.1.101.3.4.3.19", "2.16.840.1.101.3.4.3.34"],
    Codepoint::new("mldsa87", 0x0906),
    ["ML-DSA-87", "id-ml-dsa-87", "ML_DSA_87", "ML-DSA-87"],
    &["ML-DSA-87", "MLDSA87", "id-ml-dsa-87"],
);
