//! Names of versions, cipher suites, groups, signature schemes and alerts. Unknown codepoints are
//! written in hexadecimal.

use gabion_engine::{ALGORITHMS, Kind};

pub(super) const X25519: u16 = 0x001d;

/// Groups that the engine does not implement, by their names in the TLS registry.
const OTHER_GROUPS: &[(u16, &str)] = &[
    (0x0013, "secp192r1"),
    (0x0015, "secp224r1"),
    (0x0016, "secp256k1"),
    (0x001a, "brainpoolP256r1"),
    (0x001b, "brainpoolP384r1"),
    (0x001c, "brainpoolP512r1"),
    (0x001e, "x448"),
    (0x001f, "brainpoolP256r1tls13"),
    (0x0020, "brainpoolP384r1tls13"),
    (0x0021, "brainpoolP512r1tls13"),
    (0x0029, "curveSM2"),
    (0x0100, "ffdhe2048"),
    (0x0101, "ffdhe3072"),
    (0x0102, "ffdhe4096"),
    (0x0103, "ffdhe6144"),
    (0x0104, "ffdhe8192"),
    (CURVE_SM2_ML_KEM_768, "curveSM2MLKEM768"),
    (KYBER_DRAFT, "X25519Kyber768Draft00"),
];

const CURVE_SM2_ML_KEM_768: u16 = 0x11ee;
const KYBER_DRAFT: u16 = 0x6399;

const CIPHER_SUITES: &[(u16, &str)] = &[
    (0x0004, "TLS_RSA_WITH_RC4_128_MD5"),
    (0x0005, "TLS_RSA_WITH_RC4_128_SHA"),
    (0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x0016, "TLS_DHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    (0x0033, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA"),
    (0x0039, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    (0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0041, "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA"),
    (0x0045, "TLS_DHE_RSA_WITH_CAMELLIA_128_CBC_SHA"),
    (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0x006b, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0084, "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA"),
    (0x0088, "TLS_DHE_RSA_WITH_CAMELLIA_256_CBC_SHA"),
    (0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    (0x009e, "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009f, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0xc008, "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    (0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    (0xc011, "TLS_ECDHE_RSA_WITH_RC4_128_SHA"),
    (0xc012, "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    (0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    (0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    (0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xccaa, "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// Signature schemes of keys that the engine does not sign with under this codepoint.
const OTHER_SCHEMES: &[(u16, &str)] = &[
    (0x0201, "rsa_pkcs1_sha1"),
    (0x0203, "ecdsa_sha1"),
    (0x0401, "rsa_pkcs1_sha256"),
    (0x0403, "ecdsa_secp256r1_sha256"),
    (0x0501, "rsa_pkcs1_sha384"),
    (0x0503, "ecdsa_secp384r1_sha384"),
    (0x0601, "rsa_pkcs1_sha512"),
    (0x0603, "ecdsa_secp521r1_sha512"),
    (0x0804, "rsa_pss_rsae_sha256"),
    (0x0805, "rsa_pss_rsae_sha384"),
    (0x0806, "rsa_pss_rsae_sha512"),
    (0x0808, "ed448"),
    (0x0809, "rsa_pss_pss_sha256"),
    (0x080a, "rsa_pss_pss_sha384"),
    (0x080b, "rsa_pss_pss_sha512"),
];

const ALERTS: &[(u8, &str)] = &[
    (0, "close_notify"),
    (10, "unexpected_message"),
    (20, "bad_record_mac"),
    (22, "record_overflow"),
    (40, "handshake_failure"),
    (42, "bad_certificate"),
    (47, "illegal_parameter"),
    (50, "decode_error"),
    (51, "decrypt_error"),
    (70, "protocol_version"),
    (71, "insufficient_security"),
    (80, "internal_error"),
    (86, "inappropriate_fallback"),
    (90, "user_canceled"),
    (109, "missing_extension"),
    (110, "unsupported_extension"),
    (112, "unrecognized_name"),
    (116, "certificate_required"),
    (120, "no_application_protocol"),
];

/// Returns the name of a version of TLS, such as `TLSv1.3`.
#[must_use]
pub fn version_name(version: u16) -> String {
    match version {
        0x0300 => "SSLv3".to_owned(),
        0x0301 => "TLSv1".to_owned(),
        0x0302 => "TLSv1.1".to_owned(),
        0x0303 => "TLSv1.2".to_owned(),
        0x0304 => "TLSv1.3".to_owned(),
        other => format!("0x{other:04x}"),
    }
}

/// Returns the name of a cipher suite in the TLS registry.
#[must_use]
pub fn cipher_suite_name(suite: u16) -> String {
    named(known_cipher_suite(suite), suite)
}

/// Returns the name of a group in the TLS registry.
#[must_use]
pub fn group_name(group: u16) -> String {
    let is_group = |kind| matches!(kind, Kind::Kem | Kind::KeyExchange);
    named(of_engine(group, is_group).or_else(|| find(OTHER_GROUPS, group)), group)
}

/// Returns the name of a signature scheme in the TLS registry.
#[must_use]
pub fn signature_scheme_name(scheme: u16) -> String {
    let known = find(OTHER_SCHEMES, scheme);
    named(known.or_else(|| of_engine(scheme, |kind| kind == Kind::Signature)), scheme)
}

/// Returns the name of an alert.
#[must_use]
pub fn alert_name(alert: u8) -> String {
    let known = ALERTS.iter().find(|(number, _)| *number == alert);
    known.map_or_else(|| alert.to_string(), |(_, name)| (*name).to_owned())
}

/// Returns whether the group resists quantum computers: ML-KEM, alone or in a hybrid.
#[must_use]
pub fn is_group_post_quantum(group: u16) -> bool {
    of_engine(group, |kind| kind == Kind::Kem).is_some()
        || matches!(group, CURVE_SM2_ML_KEM_768 | KYBER_DRAFT)
}

/// The key exchange of a cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyExchange {
    /// Chosen by extensions (TLS 1.3).
    Extension,
    Ecdhe,
    Dhe,
    /// RSA key transport.
    Rsa,
}

/// Returns the key exchange of a cipher suite, or `None` if the suite is unknown.
pub(super) fn key_exchange(suite: u16) -> Option<KeyExchange> {
    let name = known_cipher_suite(suite)?;
    Some(match name {
        _ if name.starts_with("TLS_ECDHE_") => KeyExchange::Ecdhe,
        _ if name.starts_with("TLS_DHE_") => KeyExchange::Dhe,
        _ if name.starts_with("TLS_RSA_") => KeyExchange::Rsa,
        _ => KeyExchange::Extension,
    })
}

fn known_cipher_suite(suite: u16) -> Option<&'static str> {
    find(CIPHER_SUITES, suite)
}

fn find(table: &[(u16, &'static str)], number: u16) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Returns the name of a codepoint of the engine's algorithms.
fn of_engine(number: u16, is_wanted: impl Fn(Kind) -> bool) -> Option<&'static str> {
    let rows = ALGORITHMS.iter().filter(|row| is_wanted(row.kind));
    let points = rows.flat_map(|row| [row.tls, row.tls_before]).flatten();
    points.filter(|point| point.number == number).map(|point| point.name).next()
}

fn named(name: Option<&'static str>, number: u16) -> String {
    name.map_or_else(|| format!("0x{number:04x}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registry() {
        assert_eq!(group_name(0x11ec), "X25519MLKEM768");
        assert_eq!(group_name(0x001d), "x25519");
        assert_eq!(group_name(0x0100), "ffdhe2048");
        assert_eq!(group_name(0x0904), "0x0904"); // a signature scheme
        assert_eq!(signature_scheme_name(0x0905), "mldsa65");
        assert_eq!(signature_scheme_name(0x0403), "ecdsa_secp256r1_sha256");
        assert_eq!(cipher_suite_name(0xc02f), "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        assert_eq!(cipher_suite_name(0xfefe), "0xfefe");
        assert_eq!(version_name(0x0301), "TLSv1");
        assert_eq!(version_name(0x7f1c), "0x7f1c");
        assert_eq!(alert_name(40), "handshake_failure");
        assert_eq!(alert_name(255), "255");
    }

    #[test]
    fn post_quantum_groups_have_ml_kem() {
        for group in [0x11ec, 0x11eb, 0x11ed, 0x11ee, 0x0200, 0x0201, 0x0202, 0x6399] {
            let name = group_name(group);
            assert!(is_group_post_quantum(group), "{name}");
            assert!(name.contains("MLKEM") || name.contains("Kyber"), "{name}");
        }
        for group in [0x001d, 0x0017, 0x001e, 0x0100, 0x0905, 0] {
            assert!(!is_group_post_quantum(group), "{}", group_name(group));
        }
    }

    #[test]
    fn tables_are_sorted_and_suites_have_a_key_exchange() {
        assert!(CIPHER_SUITES.is_sorted() && OTHER_GROUPS.is_sorted());
        assert!(OTHER_SCHEMES.is_sorted() && ALERTS.is_sorted());
        assert_eq!(key_exchange(0x1301), Some(KeyExchange::Extension));
        assert_eq!(key_exchange(0xc02f), Some(KeyExchange::Ecdhe));
        assert_eq!(key_exchange(0x009e), Some(KeyExchange::Dhe));
        assert_eq!(key_exchange(0x002f), Some(KeyExchange::Rsa));
        assert_eq!(key_exchange(0xfefe), None);
    }
}
