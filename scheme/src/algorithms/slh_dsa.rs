//! SLH-DSA: FIPS 205, table 2; RFC 9909; draft-reddy-tls-slhdsa. The object identifiers of the
//! pre-hash variants name one hash function each; the command line takes any of FIPS 205, section
//! 10.2.

use super::{AlgorithmInfo, Codepoint, Family, Kind};

/// `strength`: category and n; `oids`: pure and pre-hash; `names`: the standard's, that of the
/// object identifier, wolfSSL's, liboqs's; `openssl`: the main name first.
const fn row(
    (category, n): (u8, usize),
    signature: usize,
    oids: [&'static str; 2],
    tls: Codepoint,
    names: [&'static str; 4],
    openssl: &'static [&'static str],
) -> AlgorithmInfo {
    let strength = (Some(category), 8 * n as u16);
    let sizes = [2 * n, 4 * n, signature];
    AlgorithmInfo {
        oid: Some(oids[0]),
        oid_name: Some(names[1]),
        tls: Some(tls),
        openssl,
        wolfssl: Some(names[2]),
        oqs: Some(names[3]),
        prehash_oid: Some(oids[1]),
        seed: Some(3 * n),
        ..AlgorithmInfo::new(
            (Kind::Signature, Family::SlhDsa),
            names[0],
            "FIPS 205",
            strength,
            sizes,
        )
    }
}

pub(super) const SLH_DSA_SHA2_128S: AlgorithmInfo = row(
    (1, 16),
    7856,
    ["2.16.840.1.101.3.4.3.20", "2.16.840.1.101.3.4.3.35"],
    Codepoint::new("slhdsa_sha2_128s", 0x0911),
    ["SLH-DSA-SHA2-128s", "id-slh-dsa-sha2-128s", "SLHDSA_SHA2_128S", "SLH_DSA_PURE_SHA2_128S"],
    &["SLH-DSA-SHA2-128s", "id-slh-dsa-sha2-128s"],
);

pub(super) const SLH_DSA_SHA2_128F: AlgorithmInfo = row(
    (1, 16),
    17088,
    ["2.16.840.1.101.3.4.3.21", "2.16.840.1.101.3.4.3.36"],
    Codepoint::new("slhdsa_sha2_128f", 0x0912),
    ["SLH-DSA-SHA2-128f", "id-slh-dsa-sha2-128f", "SLHDSA_SHA2_128F", "SLH_DSA_PURE_SHA2_128F"],
    &["SLH-DSA-SHA2-128f", "id-slh-dsa-sha2-128f"],
);

pub(super) const SLH_DSA_SHA2_192S: AlgorithmInfo = row(
    (3, 24),
    16224,
    ["2.16.840.1.101.3.4.3.22", "2.16.840.1.101.3.4.3.37"],
    Codepoint::new("slhdsa_sha2_192s", 0x0913),
    ["SLH-DSA-SHA2-192s", "id-slh-dsa-sha2-192s", "SLHDSA_SHA2_192S", "SLH_DSA_PURE_SHA2_192S"],
    &["SLH-DSA-SHA2-192s", "id-slh-dsa-sha2-192s"],
);

pub(super) const SLH_DSA_SHA2_192F: AlgorithmInfo = row(
    (3, 24),
    35664,
    ["2.16.840.1.101.3.4.3.23", "2.16.840.1.101.3.4.3.38"],
    Codepoint::new("slhdsa_sha2_192f", 0x0914),
    ["SLH-DSA-SHA2-192f", "id-slh-dsa-sha2-192f", "SLHDSA_SHA2_192F", "SLH_DSA_PURE_SHA2_192F"],
    &["SLH-DSA-SHA2-192f", "id-slh-dsa-sha2-192f"],
);

pub(super) const SLH_DSA_SHA2_256S: AlgorithmInfo = row(
    (5, 32),
    29792,
    ["2.16.840.1.101.3.4.3.24", "2.16.840.1.101.3.4.3.39"],
    Codepoint::new("slhdsa_sha2_256s", 0x0915),
    ["SLH-DSA-SHA2-256s", "id-slh-dsa-sha2-256s", "SLHDSA_SHA2_256S", "SLH_DSA_PURE_SHA2_256S"],
    &["SLH-DSA-SHA2-256s", "id-slh-dsa-sha2-256s"],
);

pub(super) const SLH_DSA_SHA2_256F: AlgorithmInfo = row(
    (5, 32),
    49856,
    ["2.16.840.1.101.3.4.3.25", "2.16.840.1.101.3.4.3.40"],
    Codepoint::new("slhdsa_sha2_256f", 0x0916),
    ["SLH-DSA-SHA2-256f", "id-slh-dsa-sha2-256f", "SLHDSA_SHA2_256F", "SLH_DSA_PURE_SHA2_256F"],
    &["SLH-DSA-SHA2-256f", "id-slh-dsa-sha2-256f"],
);

pub(super) const SLH_DSA_SHAKE_128S: AlgorithmInfo = row(
    (1, 16),
    7856,
    ["2.16.840.1.101.3.4.3.26", "2.16.840.1.101.3.4.3.41"],
    Codepoint::new("slhdsa_shake_128s", 0x0917),
    ["SLH-DSA-SHAKE-128s", "id-slh-dsa-shake-128s", "SLHDSA_SHAKE128S", "SLH_DSA_PURE_SHAKE_128S"],
    &["SLH-DSA-SHAKE-128s", "id-slh-dsa-shake-128s"],
);

pub(super) const SLH_DSA_SHAKE_128F: AlgorithmInfo = row(
    (1, 16),
    17088,
    ["2.16.840.1.101.3.4.3.27", "2.16.840.1.101.3.4.3.42"],
    Codepoint::new("slhdsa_shake_128f", 0x0918),
    ["SLH-DSA-SHAKE-128f", "id-slh-dsa-shake-128f", "SLHDSA_SHAKE128F", "SLH_DSA_PURE_SHAKE_128F"],
    &["SLH-DSA-SHAKE-128f", "id-slh-dsa-shake-128f"],
);

pub(super) const SLH_DSA_SHAKE_192S: AlgorithmInfo = row(
    (3, 24),
    16224,
    ["2.16.840.1.101.3.4.3.28", "2.16.840.1.101.3.4.3.43"],
    Codepoint::new("slhdsa_shake_192s", 0x0919),
    ["SLH-DSA-SHAKE-192s", "id-slh-dsa-shake-192s", "SLHDSA_SHAKE192S", "SLH_DSA_PURE_SHAKE_192S"],
    &["SLH-DSA-SHAKE-192s", "id-slh-dsa-shake-192s"],
);

pub(super) const SLH_DSA_SHAKE_192F: AlgorithmInfo = row(
    (3, 24),
    35664,
    ["2.16.840.1.101.3.4.3.29", "2.16.840.1.101.3.4.3.44"],
    Codepoint::new("slhdsa_shake_192f", 0x091a),
    ["SLH-DSA-SHAKE-192f", "id-slh-dsa-shake-192f", "SLHDSA_SHAKE192F", "SLH_DSA_PURE_SHAKE_192F"],
    &["SLH-DSA-SHAKE-192f", "id-slh-dsa-shake-192f"],
);

pub(super) const SLH_DSA_SHAKE_256S: AlgorithmInfo = row(
    (5, 32),
    29792,
    ["2.16.840.1.101.3.4.3.30", "2.16.840.1.101.3.4.3.45"],
    Codepoint::new("slhdsa_shake_256s", 0x091b),
    ["SLH-DSA-SHAKE-256s", "id-slh-dsa-shake-256s", "SLHDSA_SHAKE256S", "SLH_DSA_PURE_SHAKE_256S"],
    &["SLH-DSA-SHAKE-256s", "id-slh-dsa-shake-256s"],
);

pub(super) const SLH_DSA_SHAKE_256F: AlgorithmInfo = row(
    (5, 32),
    49856,
    ["2.16.840.1.101.3.4.3.31", "2.16.840.1.101.3.4.3.46"],
    Codepoint::new("slhdsa_shake_256f", 0x091c),
    ["SLH-DSA-SHAKE-256f", "id-slh-dsa-shake-256f", "SLHDSA_SHAKE256F", "SLH_DSA_PURE_SHAKE_256F"],
    &["SLH-DSA-SHAKE-256f", "id-slh-dsa-shake-256f"],
);
