//! Summaries of X.509 certificates (RFC 5280): names, validity, algorithms.
//!
//! The reader is strict: DER only, no trailing bytes, fields in their order. Memory is bounded by
//! the size of the certificate, because only the returned fields are copied. Signatures are not
//! verified; that is the task of webpki.

use pkcs8::ObjectIdentifier;
use pkcs8::der::asn1::{AnyRef, BitStringRef, OctetStringRef};
use pkcs8::der::{self, Decode, Encode, ErrorKind, Reader, SliceReader, Tag, TagNumber, Tagged};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::algorithm::{KeyKind, SignatureKind};
use crate::report::ChainEntry;
use crate::time::{rfc3339, unix_seconds};

/// Maximum number of subject alternative names that are kept.
const NAMES_MAX: usize = 1000;
/// The object identifier of the extension with subject alternative names.
const SUBJECT_ALT_NAME: &str = "2.5.29.17";

/// The summary of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The subject's distinguished name (RFC 4514).
    pub subject: String,
    /// The issuer's distinguished name (RFC 4514).
    pub issuer: String,
    /// The algorithm of the public key.
    pub key: KeyKind,
    /// The algorithm of the issuer's signature.
    pub signature: SignatureKind,
    /// The first second of the validity, in Unix seconds.
    pub not_before: i64,
    /// The last second of the validity, in Unix seconds.
    pub not_after: i64,
    /// The serial number, in lower-case hex.
    pub serial_hex: String,
    /// The subject alternative names: DNS names, addresses, mail addresses and URIs; at most 1,000.
    pub subject_alt_names: Vec<String>,
    /// The SHA-256 of the DER, in lower-case hex.
    pub sha256: String,
    /// The SHA-256 of the SubjectPublicKeyInfo, in lower-case hex.
    pub key_sha256: String,
}

/// Why bytes are not a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A field is missing, is not DER, or is of another type.
    #[error("the certificate's {field} is malformed: {cause}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// The error of the DER reader.
        cause: der::Error,
    },
    /// The two identifiers of the signature algorithm differ (RFC 5280, section 4.1.1.2).
    #[error("the certificate names two different signature algorithms")]
    SignatureMismatch,
    /// A time is not in the form of RFC 5280, section 4.1.2.5.
    #[error("the certificate's validity is not in the form of RFC 5280")]
    Validity,
}

type Result<T> = std::result::Result<T, CertificateError>;

/// Returns a closure that adds the field's name to an error.
fn in_field(field: &'static str) -> impl Fn(der::Error) -> CertificateError {
    move |cause| CertificateError::Malformed { field, cause }
}

/// Decodes the next field.
fn next<'a, T>(fields: &mut SliceReader<'a>, field: &'static str) -> Result<T>
where
    T: Decode<'a, Error = der::Error>,
{
    T::decode(fields).map_err(in_field(field))
}

/// Returns a reader of the content of a structure with this tag.
fn open<'a>(any: AnyRef<'a>, tag: Tag, field: &'static str) -> Result<SliceReader<'a>> {
    any.tag().assert_eq(tag).map_err(in_field(field))?;
    SliceReader::new(any.value()).map_err(in_field(field))
}

/// Rejects further fields.
fn finish(fields: &SliceReader<'_>, field: &'static str) -> Result<()> {
    if fields.is_finished() {
        return Ok(());
    }
    let kind =
        ErrorKind::TrailingData { decoded: fields.position(), remaining: fields.remaining_len() };
    Err(in_field(field)(kind.into()))
}

/// The tag `[number]` of a structure.
fn context(number: u32) -> Tag {
    Tag::ContextSpecific { constructed: true, number: TagNumber(number) }
}

impl Certificate {
    /// Parses a certificate in DER.
    ///
    /// # Errors
    /// Any deviation from DER or from the structure of RFC 5280, section 4.1.
    pub fn parse(der: &[u8]) -> Result<Certificate> {
        let whole = AnyRef::from_der(der).map_err(in_field("structure"))?;
        let mut outer = open(whole, Tag::Sequence, "structure")?;
        let signed: AnyRef<'_> = next(&mut outer, "TBSCertificate")?;
        let algorithm: AlgorithmIdentifierRef<'_> = next(&mut outer, "signature algorithm")?;
        let _signature: BitStringRef<'_> = next(&mut outer, "signature")?;
        finish(&outer, "structure")?;
        let mut fields = open(signed, Tag::Sequence, "TBSCertificate")?;
        if Tag::peek(&fields).ok() == Some(context(0)) {
            let version: AnyRef<'_> = next(&mut fields, "version")?;
            u8::from_der(version.value()).map_err(in_field("version"))?;
        }
        let serial: AnyRef<'_> = next(&mut fields, "serial number")?;
        serial.tag().assert_eq(Tag::Integer).map_err(in_field("serial number"))?;
        let inner: AlgorithmIdentifierRef<'_> = next(&mut fields, "signature algorithm")?;
        if inner != algorithm {
            return Err(CertificateError::SignatureMismatch);
        }
        let issuer = name(next(&mut fields, "issuer")?, "issuer")?;
        let [not_before, not_after] = validity(next(&mut fields, "validity")?)?;
        let subject = name(next(&mut fields, "subject")?, "subject")?;
        let key_der = fields.tlv_bytes().map_err(in_field("public key"))?;
        let key = SubjectPublicKeyInfoRef::from_der(key_der).map_err(in_field("public key"))?;
        Ok(Certificate {
            subject,
            issuer,
            key: KeyKind::of_public(&key),
            signature: SignatureKind::of_identifier(&algorithm),
            not_before,
            not_after,
            serial_hex: hex(serial.value().strip_prefix(&[0]).unwrap_or(serial.value())),
            subject_alt_names: subject_alt_names(&mut fields)?,
            sha256: hex(&Sha256::digest(der)),
            key_sha256: hex(&Sha256::digest(key_der)),
        })
    }

    /// Returns whether subject and issuer are the same. That does not show a signature by its own
    /// key.
    #[must_use]
    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// Returns whether both the key and the issuer's signature resist quantum computers.
    #[must_use]
    pub fn is_post_quantum(&self) -> bool {
        self.key.is_post_quantum && self.signature.is_post_quantum
    }
}

impl From<&Certificate> for ChainEntry {
    fn from(certificate: &Certificate) -> ChainEntry {
        ChainEntry {
            subject: certificate.subject.clone(),
            issuer: certificate.issuer.clone(),
            key: certificate.key.name.clone(),
            signature: certificate.signature.name.clone(),
            not_before: rfc3339(certificate.not_before),
            not_after: rfc3339(certificate.not_after),
            sha256: certificate.sha256.clone(),
            key_sha256: certificate.key_sha256.clone(),
        }
    }
}

/// Formats bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the fields after the public key: unique identifiers, which are ignored, and extensions,
/// of which the subject alternative names are returned.
fn subject_alt_names(fields: &mut SliceReader<'_>) -> Result<Vec<String>> {
    const FIELD: &str = "extensions";
    for number in [1, 2] {
        let unique = Tag::ContextSpecific { constructed: false, number: TagNumber(number) };
        if Tag::peek(fields).ok() == Some(unique) {
            next::<AnyRef<'_>>(fields, "unique identifier")?;
        }
    }
    let mut names = Vec::new();
    if !fields.is_finished() {
        let mut explicit = open(next(fields, FIELD)?, context(3), FIELD)?;
        let mut list = open(next(&mut explicit, FIELD)?, Tag::Sequence, FIELD)?;
        finish(&explicit, FIELD)?;
        while !list.is_finished() {
            let mut extension = open(next(&mut list, FIELD)?, Tag::Sequence, FIELD)?;
            let oid: ObjectIdentifier = next(&mut extension, FIELD)?;
            if Tag::peek(&extension).ok() == Some(Tag::Boolean) {
                next::<bool>(&mut extension, FIELD)?;
            }
            let value: &OctetStringRef = next(&mut extension, FIELD)?;
            finish(&extension, FIELD)?;
            if oid.to_string() == SUBJECT_ALT_NAME {
                general_names(value.as_bytes(), &mut names)?;
            }
        }
    }
    finish(fields, FIELD)?;
    Ok(names)
}

/// Adds the general names (RFC 5280, section 4.2.1.6) that are texts or addresses.
fn general_names(der: &[u8], names: &mut Vec<String>) -> Result<()> {
    const FIELD: &str = "subject alternative name";
    let whole = AnyRef::from_der(der).map_err(in_field(FIELD))?;
    let mut list = open(whole, Tag::Sequence, FIELD)?;
    while !list.is_finished() {
        let name: AnyRef<'_> = next(&mut list, FIELD)?;
        let Tag::ContextSpecific { constructed: false, number } = name.tag() else { continue };
        let text = match (number.0, name.value()) {
            (1 | 2 | 6, bytes) => String::from_utf8_lossy(bytes).into_owned(),
            (7, bytes) => match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
                (Ok(v4), _) => std::net::Ipv4Addr::from(v4).to_string(),
                (_, Ok(v6)) => std::net::Ipv6Addr::from(v6).to_string(),
                _ => hex(bytes),
            },
            _ => continue,
        };
        if names.len() < NAMES_MAX {
            names.push(text);
        }
    }
    Ok(())
}

/// Attribute types with a short name (RFC 4514, section 3, and what openssl prints).
const ATTRIBUTES: [(&str, &str); 14] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.42", "GN"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// Formats a distinguished name as RFC 4514 does: the last part first.
fn name(any: AnyRef<'_>, field: &'static str) -> Result<String> {
    let mut list = open(any, Tag::Sequence, field)?;
    let mut parts = Vec::new();
    while !list.is_finished() {
        let mut set = open(next(&mut list, field)?, Tag::Set, field)?;
        let mut attributes = Vec::new();
        while !set.is_finished() {
            let mut attribute = open(next(&mut set, field)?, Tag::Sequence, field)?;
            let oid = next::<ObjectIdentifier>(&mut attribute, field)?.to_string();
            let value: AnyRef<'_> = next(&mut attribute, field)?;
            finish(&attribute, field)?;
            let short = ATTRIBUTES.iter().find(|row| row.0 == oid).map_or(&*oid, |row| row.1);
            attributes.push(format!("{short}={}", attribute_value(value)));
        }
        parts.push(attributes.join("+"));
    }
    parts.reverse();
    Ok(parts.join(","))
}

/// Formats the value of an attribute: a string with escapes, or `#` and the DER in hex.
fn attribute_value(value: AnyRef<'_>) -> String {
    let bytes = value.value();
    let text = match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        Tag::NumericString | Tag::VisibleString => String::from_utf8_lossy(bytes).into_owned(),
        // T.61 is read as Latin-1, as browsers do.
        Tag::TeletexString => bytes.iter().map(|&byte| char::from(byte)).collect(),
        Tag::BmpString => {
            let units = bytes.chunks(2).map(|pair| match *pair {
                [high, low] => u16::from_be_bytes([high, low]),
                _ => 0xfffd,
            });
            let characters = char::decode_utf16(units);
            characters.map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        _ => return format!("#{}", hex(&value.to_der().unwrap_or_default())),
    };
    let last = text.chars().count().saturating_sub(1);
    let mut escaped = String::with_capacity(text.len());
    for (at, character) in text.chars().enumerate() {
        let is_at_end = character == ' ' && (at == 0 || at == last) || character == '#' && at == 0;
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => escaped.extend(['\\', character]),
            _ if is_at_end => escaped.extend(['\\', character]),
            _ if character.is_control() => {
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    escaped.push_str(&format!("\\{byte:02X}"));
                }
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Reads the validity as Unix seconds.
fn validity(any: AnyRef<'_>) -> Result<[i64; 2]> {
    let mut fields = open(any, Tag::Sequence, "validity")?;
    let times: [AnyRef<'_>; 2] = [next(&mut fields, "validity")?, next(&mut fields, "validity")?];
    finish(&fields, "validity")?;
    match times.map(time) {
        [Some(not_before), Some(not_after)] => Ok([not_before, not_after]),
        _ => Err(CertificateError::Validity),
    }
}

/// Reads a UTCTime, whose years are 1950 to 2049, or a GeneralizedTime, both with seconds and `Z`.
fn time(any: AnyRef<'_>) -> Option<i64> {
    let digits = any.value().strip_suffix(b"Z")?;
    let digits = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
    let pair = |at: usize| {
        let [tens, ones] = *digits.get(at..at + 2)? else { return None };
        Some(i64::from(10 * (tens - b'0') + ones - b'0'))
    };
    let (year, rest) = match (any.tag(), digits.len()) {
        (Tag::UtcTime, 12) => (pair(0)? + if pair(0)? < 50 { 2000 } else { 1900 }, 2),
        (Tag::GeneralizedTime, 14) => (100 * pair(0)? + pair(2)?, 4),
        _ => return None,
    };
    let [month, day] = [pair(rest)?, pair(rest + 2)?];
    let time_of_day = [pair(rest + 4)?, pair(rest + 6)?, pair(rest + 8)?];
    unix_seconds([year, month, day], time_of_day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_rustls::certificate::{Fields, Subject, extension, issue, tlv};
    use gabion_rustls::testing::{KEYS, Key, chain};
    use rustls::SignatureScheme;

    /// A self-signed certificate with these names, validity and extensions.
    fn certificate(name: &str, validity: [&str; 2], extensions: &[Vec<u8>]) -> Vec<u8> {
        let key = Key::Engine(gabion_engine::Algorithm::Ed25519).generate();
        let subject = Subject { key, name: name.to_owned() };
        let fields = Fields { serial: &[0, 0xa1, 2], validity, extensions };
        issue(SignatureScheme::ED25519, &subject, &subject, &fields).unwrap().to_vec()
    }

    const VALIDITY: [&str; 2] = ["19991231235959Z", "20500101000000Z"];

    #[test]
    fn certificates_of_every_key_are_summarized() {
        for key in KEYS {
            let chain = chain(key, 1);
            let leaf = Certificate::parse(&chain.certificates[0]).unwrap();
            let (name, signature) = match key {
                Key::Rsa => ("RSA-2048", "RSA-PSS with SHA-256"),
                Key::Engine(algorithm) => match algorithm.name() {
                    "ECDSA-P-256" => ("ECDSA P-256", "ECDSA with SHA-256"),
                    "ECDSA-P-384" => ("ECDSA P-384", "ECDSA with SHA-384"),
                    "ECDSA-P-521" => ("ECDSA P-521", "ECDSA with SHA-512"),
                    name => (name, name),
                },
            };
            assert_eq!((&*leaf.key.name, &*leaf.signature.name), (name, signature));
            let is_post_quantum = name.starts_with("ML-DSA");
            assert_eq!(leaf.key.is_post_quantum, is_post_quantum, "{name}");
            assert_eq!(leaf.is_post_quantum(), is_post_quantum, "{name}");
            assert_eq!((&*leaf.subject, &*leaf.issuer), ("CN=localhost", "CN=intermediate 0"));
            assert_eq!(leaf.subject_alt_names, ["localhost"]);
            let entry = ChainEntry::from(&leaf);
            assert_eq!(entry.not_before, "2020-01-01T00:00:00Z");
            assert_eq!(entry.not_after, "2049-12-31T23:59:59Z");
            assert!(!leaf.is_self_issued());
            assert!(Certificate::parse(&chain.root).unwrap().is_self_issued());
        }
    }

    #[test]
    fn names_and_times_are_formatted() {
        let names = [
            &tlv(0x82, &[b"a.example"])[..],
            &tlv(0x87, &[&[192, 0, 2, 1]]),
            &tlv(0x87, &[&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]),
            &tlv(0xa4, &[&tlv(0x30, &[])]),
            &tlv(0x86, &[b"https://a.example"]),
        ];
        let names = extension(&[0x55, 0x1d, 0x11], true, &tlv(0x30, &names));
        let der = certificate(" a,\"b\u{e9}\n#", VALIDITY, &[names]);
        let read = Certificate::parse(&der).unwrap();
        assert_eq!(read.subject, "CN=\\ a\\,\\\"b\u{e9}\\0A#");
        assert_eq!(read.serial_hex, "a102");
        let expected = ["a.example", "192.0.2.1", "2001:db8::1", "https://a.example"];
        assert_eq!(read.subject_alt_names, expected);
        let times = [read.not_before, read.not_after].map(rfc3339);
        assert_eq!(times, ["1999-12-31T23:59:59Z", "2050-01-01T00:00:00Z"]);
    }

    #[test]
    fn distinguished_names_have_several_parts() {
        let part = |oid: &[u8], value: &[u8]| tlv(0x30, &[&tlv(6, &[oid]), value]);
        let country = tlv(0x31, &[&part(&[0x55, 4, 6], &tlv(0x13, &[b"AT"]))]);
        let unit = part(&[0x55, 4, 11], &tlv(0x1e, &[&[0x20, 0xac]]));
        let other = part(&[0x2a, 3], &tlv(2, &[&[5]]));
        let both = tlv(0x31, &[&unit, &other]);
        let whole = tlv(0x30, &[&country, &both]);
        let any = AnyRef::from_der(&whole).unwrap();
        assert_eq!(name(any, "subject").unwrap(), "OU=\u{20ac}+1.2.3=#020105,C=AT");
    }

    #[test]
    fn malformed_certificates_are_errors() {
        let der = certificate("a", VALIDITY, &[]);
        assert!(Certificate::parse(&der).is_ok());
        for len in 0..der.len() {
            assert!(Certificate::parse(&der[..len]).is_err(), "{len} bytes");
        }
        let longer = [&der[..], &[0]].concat();
        let error = Certificate::parse(&longer).unwrap_err().to_string();
        assert!(error.contains("structure is malformed"), "{error}");
        // One more field in the certificate, and one more in the TBSCertificate.
        let content = AnyRef::from_der(&der).unwrap().value();
        let mut fields = SliceReader::new(content).unwrap();
        let signed = fields.tlv_bytes().unwrap();
        let rest = &content[signed.len()..];
        let signed = AnyRef::from_der(signed).unwrap().value();
        let signed = tlv(0x30, &[signed, &[5, 0]]);
        for wrong in [tlv(0x30, &[content, &[5, 0]]), tlv(0x30, &[&signed, rest])] {
            assert!(Certificate::parse(&wrong).is_err());
        }
        for at in 0..der.len() {
            for bit in 0..8 {
                let mut garbled = der.clone();
                garbled[at] ^= 1 << bit;
                let _ = Certificate::parse(&garbled);
            }
        }
        // The identifier of Ed25519 stands three times: in the TBSCertificate, the key, and last.
        let ed25519 = [6, 3, 0x2b, 0x65, 0x70];
        let last = der.windows(5).rposition(|window| window == ed25519).unwrap();
        let mut mismatch = der.clone();
        mismatch[last + 4] = 0x71;
        assert_eq!(Certificate::parse(&mismatch), Err(CertificateError::SignatureMismatch));
        for wrong in ["20231301000000Z", "20230229000000Z", "20230101240000Z", "2023010100000 Z"] {
            let der = certificate("a", [wrong, VALIDITY[1]], &[]);
            assert_eq!(Certificate::parse(&der), Err(CertificateError::Validity), "{wrong}");
        }
    }

    #[test]
    fn alternative_names_are_limited() {
        let name = tlv(0x82, &[b"a"]);
        let names = tlv(0x30, &vec![&name[..]; NAMES_MAX + 1]);
        let names = extension(&[0x55, 0x1d, 0x11], false, &names);
        let read = Certificate::parse(&certificate("a", VALIDITY, &[names])).unwrap();
        assert_eq!(read.subject_alt_names.len(), NAMES_MAX);
    }
}
