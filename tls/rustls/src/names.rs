//! The TLS names of groups and signature schemes, as in the registry of IANA.

use gabion_engine::{ALGORITHMS, Kind};
use rustls::{NamedGroup, SignatureScheme};

/// Schemes of aws-lc-rs, which are not in the engine's table.
const OTHERS: [(SignatureScheme, &str); 7] = [
    (SignatureScheme::ECDSA_NISTP521_SHA512, "ecdsa_secp521r1_sha512"),
    (SignatureScheme::RSA_PSS_SHA256, "rsa_pss_rsae_sha256"),
    (SignatureScheme::RSA_PSS_SHA384, "rsa_pss_rsae_sha384"),
    (SignatureScheme::RSA_PSS_SHA512, "rsa_pss_rsae_sha512"),
    (SignatureScheme::RSA_PKCS1_SHA256, "rsa_pkcs1_sha256"),
    (SignatureScheme::RSA_PKCS1_SHA384, "rsa_pkcs1_sha384"),
    (SignatureScheme::RSA_PKCS1_SHA512, "rsa_pkcs1_sha512"),
];

/// Returns the name of a group, or `None` if this crate has no such group.
///
/// # Examples
/// ```
/// use rustls::NamedGroup;
///
/// assert_eq!(gabion_rustls::names::group(NamedGroup::X25519), Some("x25519"));
/// ```
#[must_use]
pub fn group(group: NamedGroup) -> Option<&'static str> {
    of_table(u16::from(group), |kind| kind != Kind::Signature)
}

/// Returns the name of a signature scheme, or `None` if this crate neither signs nor verifies with
/// it.
///
/// # Examples
/// ```
/// use rustls::SignatureScheme;
///
/// assert_eq!(gabion_rustls::names::scheme(SignatureScheme::ML_DSA_65), Some("mldsa65"));
/// ```
#[must_use]
pub fn scheme(scheme: SignatureScheme) -> Option<&'static str> {
    let other = OTHERS.iter().find(|(other, _)| *other == scheme).map(|(_, name)| *name);
    other.or_else(|| of_table(u16::from(scheme), |kind| kind == Kind::Signature))
}

fn of_table(number: u16, is_kind: fn(Kind) -> bool) -> Option<&'static str> {
    let rows = ALGORITHMS.iter().filter(|row| is_kind(row.kind));
    let mut points = rows.flat_map(|row| [row.tls, row.tls_before]).flatten();
    points.find(|point| point.number == number).map(|point| point.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{groups, verification};

    #[test]
    fn every_group_and_scheme_has_a_name() {
        for each in groups::DEFAULT {
            let name = group(each.name()).unwrap();
            assert_eq!(groups::by_name(name).unwrap().name(), each.name());
        }
        for each in verification::ALGORITHMS.supported_schemes() {
            assert!(scheme(each).is_some(), "{each:?}");
        }
        assert_eq!(group(NamedGroup::FFDHE2048), None);
        assert_eq!(scheme(SignatureScheme::ED448), None);
        // The number of a group is not a scheme.
        assert_eq!(scheme(SignatureScheme::from(u16::from(NamedGroup::X25519))), None);
    }
}
