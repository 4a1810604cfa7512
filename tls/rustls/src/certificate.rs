//! Writes X.509 certificates with keys of rustls (RFC 5280), for development servers and tests.
//!
//! It has no policy: the caller chooses extensions and validity, and a name is one common name.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, alg_id};
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme};

/// The subject or issuer of a certificate, with its private key.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The private key.
    pub key: Arc<dyn SigningKey>,
    /// The common name.
    pub name: String,
}

/// The fields of a certificate that its issuer chooses.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    /// The serial number: a positive integer, big-endian.
    pub serial: &'a [u8],
    /// The first and the last second of the validity, as `YYYYMMDDhhmmssZ`.
    pub validity: [&'a str; 2],
    /// The extensions, as [`extension`] encodes them.
    pub extensions: &'a [Vec<u8>],
}

/// Issues a certificate of version 3, signed with the issuer's key under `scheme`.
///
/// # Errors
/// Returns an error if a key has no public key or does not sign with `scheme`, or if signing fails.
pub fn issue(
    scheme: SignatureScheme,
    issuer: &Subject,
    subject: &Subject,
    fields: &Fields<'_>,
) -> Result<CertificateDer<'static>, Error> {
    let [from, to] = fields.validity.map(time);
    let extensions = tlv(0x30, &[&fields.extensions.concat()]);
    let to_sign = tlv(
        0x30,
        &[
            &tlv(0xa0, &[&tlv(2, &[&[2]])]),
            &tlv(2, &[fields.serial]),
            &algorithm_identifier(scheme)?,
            &name(&issuer.name),
            &tlv(0x30, &[&from, &to]),
            &name(&subject.name),
            &public_key(&subject.key)?,
            &tlv(0xa3, &[&extensions]),
        ],
    );
    sign(scheme, &issuer.key, &to_sign).map(CertificateDer::from)
}

/// Signs the DER of a certificate or revocation list, and returns it with its algorithm and
/// signature.
///
/// # Errors
/// Returns an error if the key does not sign with `scheme`, or if signing fails.
pub fn sign(
    scheme: SignatureScheme,
    key: &Arc<dyn SigningKey>,
    to_sign: &[u8],
) -> Result<Vec<u8>, Error> {
    let signer = key.choose_scheme(&[scheme]).ok_or_else(|| unsupported(scheme))?;
    let signature = tlv(3, &[&[0], &signer.sign(to_sign)?]);
    Ok(tlv(0x30, &[to_sign, &algorithm_identifier(scheme)?, &signature]))
}

/// Returns the SubjectPublicKeyInfo of a key.
///
/// # Errors
/// Returns an error if the key does not know its public key.
pub fn public_key(key: &Arc<dyn SigningKey>) -> Result<Vec<u8>, Error> {
    let public = key.public_key();
    let public = public.ok_or_else(|| Error::General("the key has no public key".to_owned()))?;
    Ok(public.to_vec())
}

/// Returns the AlgorithmIdentifier of a scheme's signatures.
///
/// # Errors
/// Returns an error if certificates are not signed with the scheme here.
pub fn algorithm_identifier(scheme: SignatureScheme) -> Result<Vec<u8>, Error> {
    let id = match scheme {
        SignatureScheme::ML_DSA_44 => alg_id::ML_DSA_44,
        SignatureScheme::ML_DSA_65 => alg_id::ML_DSA_65,
        SignatureScheme::ML_DSA_87 => alg_id::ML_DSA_87,
        SignatureScheme::ED25519 => alg_id::ED25519,
        SignatureScheme::ECDSA_NISTP256_SHA256 => alg_id::ECDSA_SHA256,
        SignatureScheme::ECDSA_NISTP384_SHA384 => alg_id::ECDSA_SHA384,
        SignatureScheme::ECDSA_NISTP521_SHA512 => alg_id::ECDSA_SHA512,
        SignatureScheme::RSA_PSS_SHA256 => alg_id::RSA_PSS_SHA256,
        _ => return Err(unsupported(scheme)),
    };
    Ok(tlv(0x30, &[id.as_ref()]))
}

fn unsupported(scheme: SignatureScheme) -> Error {
    Error::General(format!("the key does not sign certificates with {scheme:?}"))
}

/// Encodes a name that consists of a common name.
pub fn name(common: &str) -> Vec<u8> {
    let attribute = tlv(0x30, &[&[6, 3, 0x55, 4, 3], &tlv(0x0c, &[common.as_bytes()])]);
    tlv(0x30, &[&tlv(0x31, &[&attribute])])
}

/// Encodes a time, given as `YYYYMMDDhhmmssZ`: UTCTime before 2050, GeneralizedTime from then on
/// (section 4.1.2.5).
pub fn time(digits: &str) -> Vec<u8> {
    match digits < "2050" {
        true => tlv(0x17, &[&digits.as_bytes()[2..]]),
        false => tlv(0x18, &[digits.as_bytes()]),
    }
}

/// Encodes an extension. `oid` is the content of its object identifier.
pub fn extension(oid: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if is_critical { tlv(1, &[&[0xff]]) } else { Vec::new() };
    tlv(0x30, &[&tlv(6, &[oid]), &critical, &tlv(4, &[value])])
}

/// Encodes a DER value whose content, `parts` in a row, is shorter than 64 KiB.
pub fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let head = match content.len() {
        len @ 0..0x80 => vec![tag, len as u8],
        len @ 0x80..0x100 => vec![tag, 0x81, len as u8],
        len => [&[tag, 0x82][..], &(len as u16).to_be_bytes()].concat(),
    };
    [head, content].concat()
}
