//! Classical curves: X25519 (RFC 7748, RFC 8410), ECDH and ECDSA on P-256, P-384 and P-521 (SP
//! 800-56A, FIPS 186-5, RFC 5480). No category: a quantum computer breaks them.

use super::{AlgorithmInfo, Codepoint, Family, Kind, Size};

const EC_PUBLIC_KEY: &str = "1.2.840.10045.2.1";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
const P521: &str = "1.3.132.0.35";

/// A key exchange on a curve whose coordinates have `len` bytes.
const fn ecdh(
    name: &'static str,
    bits: u16,
    len: usize,
    curve: &'static str,
    tls: Codepoint,
) -> AlgorithmInfo {
    AlgorithmInfo {
        oid: Some(EC_PUBLIC_KEY),
        parameters_oid: Some(curve),
        tls: Some(tls),
        shared_secret: len,
        ..AlgorithmInfo::new(
            (Kind::KeyExchange, Family::Ecdh),
            name,
            "SP 800-56A",
            (None, bits),
            [1 + 2 * len, len, 0],
        )
    }
}

/// Returns the row of a signature on such a curve; `longest` is the maximum length of its DER
/// encoding.
const fn ecdsa(
    name: &'static str,
    bits: u16,
    (len, longest): (usize, usize),
    curve: &'static str,
    tls: Codepoint,
) -> AlgorithmInfo {
    AlgorithmInfo {
        oid: Some(EC_PUBLIC_KEY),
        parameters_oid: Some(curve),
        tls: Some(tls),
        output: Size::UpTo(longest),
        ..AlgorithmInfo::new(
            (Kind::Signature, Family::Ecdsa),
            name,
            "FIPS 186-5",
            (None, bits),
            [1 + 2 * len, len, longest],
        )
    }
}

pub(super) const X25519: AlgorithmInfo = AlgorithmInfo {
    oid: Some("1.3.101.110"),
    oid_name: Some("id-X25519"),
    tls: Some(Codepoint::new("x25519", 0x001d)),
    openssl: &["X25519"],
    seed: Some(32),
    shared_secret: 32,
    ..AlgorithmInfo::new(
        (Kind::KeyExchange, Family::Ecdh),
        "X25519",
        "RFC 7748",
        (None, 128),
        [32, 32, 0],
    )
};

pub(super) const ECDH_P256: AlgorithmInfo =
    ecdh("ECDH-P-256", 128, 32, P256, Codepoint::new("secp256r1", 0x0017));
pub(super) const ECDH_P384: AlgorithmInfo =
    ecdh("ECDH-P-384", 192, 48, P384, Codepoint::new("secp384r1", 0x0018));
pub(super) const ECDH_P521: AlgorithmInfo =
    ecdh("ECDH-P-521", 256, 66, P521, Codepoint::new("secp521r1", 0x0019));

pub(super) const ECDSA_P256: AlgorithmInfo =
    ecdsa("ECDSA-P-256", 128, (32, 72), P256, Codepoint::new("ecdsa_secp256r1_sha256", 0x0403));
pub(super) const ECDSA_P384: AlgorithmInfo =
    ecdsa("ECDSA-P-384", 192, (48, 104), P384, Codepoint::new("ecdsa_secp384r1_sha384", 0x0503));
pub(super) const ECDSA_P521: AlgorithmInfo =
    ecdsa("ECDSA-P-521", 256, (66, 139), P521, Codepoint::new("ecdsa_secp521r1_sha512", 0x0603));
