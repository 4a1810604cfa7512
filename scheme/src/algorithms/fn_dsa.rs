//! FN-DSA as drafted and Falcon of the third round: the submission's specification, table 3.3; the
//! identifiers and the private codepoints are those of Open Quantum Safe. FIPS 206 has not assigned
//! any yet.

use super::{AlgorithmInfo, Codepoint, Family, Kind, Size};

const fn row(
    (category, security_bits): (u8, u16),
    standard: &'static str,
    name: &'static str,
    sizes: [usize; 3],
) -> AlgorithmInfo {
    let strength = (Some(category), security_bits);
    let row = AlgorithmInfo::new((Kind::Signature, Family::FnDsa), name, standard, strength, sizes);
    AlgorithmInfo { draft: true, ..row }
}

/// Returns a row. `names` are that of liboqs and this table, that of its TLS scheme, and wolfSSL's
/// if it has one.
const fn falcon(
    strength: (u8, u16),
    (name, tls, wolfssl): (&'static str, &'static str, Option<&'static str>),
    sizes: [usize; 3],
    oid: &'static str,
    codepoint: u16,
) -> AlgorithmInfo {
    AlgorithmInfo {
        oid: Some(oid),
        oid_name: None,
        tls: Some(Codepoint::new(tls, codepoint)),
        wolfssl,
        oqs: Some(name),
        ..row(strength, "Falcon round 3", name, sizes)
    }
}

/// Changes a row to signatures without padding.
const fn unpadded(row: AlgorithmInfo) -> AlgorithmInfo {
    AlgorithmInfo { output: Size::UpTo(row.output.max()), ..row }
}

/// The draft's edition is the crate's, since NIST has published none.
const DRAFT: &str = "FIPS 206 draft";

pub(super) const FN_DSA_512: AlgorithmInfo =
    row((1, 128), DRAFT, "FN-DSA-512-draft", [897, 1345, 666]);
pub(super) const FN_DSA_1024: AlgorithmInfo =
    row((5, 256), DRAFT, "FN-DSA-1024-draft", [1793, 2369, 1280]);

pub(super) const FALCON_512: AlgorithmInfo = unpadded(falcon(
    (1, 128),
    ("Falcon-512", "falcon512", Some("FALCON_512")),
    [897, 1281, 752],
    "1.3.9999.3.11",
    0xfed7,
));
pub(super) const FALCON_1024: AlgorithmInfo = unpadded(falcon(
    (5, 256),
    ("Falcon-1024", "falcon1024", Some("FALCON_1024")),
    [1793, 2305, 1462],
    "1.3.9999.3.14",
    0xfeda,
));
pub(super) const FALCON_PADDED_512: AlgorithmInfo = falcon(
    (1, 128),
    ("Falcon-padded-512", "falconpadded512", None),
    [897, 1281, 666],
    "1.3.9999.3.16",
    0xfedc,
);
pub(super) const FALCON_PADDED_1024: AlgorithmInfo = falcon(
    (5, 256),
    ("Falcon-padded-1024", "falconpadded1024", None),
    [1793, 2305, 1280],
    "1.3.9999.3.19",
    0xfedf,
);
