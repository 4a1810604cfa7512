//! The server's first flight: a ServerHello or HelloRetryRequest (RFC 8446, 4.1.3 and 4.1.4), and
//! in TLS 1.2 and older everything to ServerHelloDone (RFC 5246, 7.4; RFC 8422, 5.4).

use std::io::Read;

use super::hello::{KeyShare, Offer, SESSION_ID, TLS1_2, TLS1_3};
use super::names::{self, KeyExchange, cipher_suite_name, group_name, version_name};
use super::records::{Fields, Messages, RawError};

/// Certificates of a chain that are read.
const CERTIFICATES_MAX: usize = 32;
/// Extensions of a ServerHello that are read.
const EXTENSIONS_MAX: usize = 64;
/// Messages between ServerHello and ServerHelloDone.
const MESSAGES_MAX: usize = 8;

/// The random of a HelloRetryRequest: SHA-256 of "HelloRetryRequest".
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

const COMPRESSION: &str = "its compression method is not null";
const REPEATED: &str = "an extension is repeated";
const KEY_SHARE: u16 = 51;
const SUPPORTED_VERSIONS: u16 = 43;

/// The parameters that a server selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The version of TLS.
    pub version: u16,
    /// The cipher suite.
    pub cipher_suite: u16,
    /// The group; `None` for RSA key transport and for finite-field parameters of TLS 1.2, which
    /// have no codepoint.
    pub group: Option<u16>,
    /// The size of the prime of a finite-field key exchange in TLS 1.2 and older, in bits.
    pub dhe_bits: Option<usize>,
    /// The scheme of the ServerKeyExchange's signature in TLS 1.2.
    pub signature_scheme: Option<u16>,
    /// Whether the answer is a HelloRetryRequest.
    pub is_hello_retry_request: bool,
    /// The certificates in DER, the server's first; empty in TLS 1.3.
    pub certificates: Vec<Vec<u8>>,
}

/// Reads a server's answer to the ClientHello of `offer`.
///
/// # Errors
/// Fails if the stream ends, or if the server sends an alert or a malformed answer.
pub fn read_answer(stream: &mut impl Read, offer: &Offer<'_>) -> Result<Answer, RawError> {
    let mut messages = Messages::new(stream);
    let (kind, body) = messages.next()?;
    if kind != 2 {
        return Err(RawError::Unexpected(kind));
    }
    let mut answer = server_hello(&body, offer)?;
    if answer.version == TLS1_3 {
        if messages.has_more() {
            return Err(RawError::Malformed {
                message: "ServerHello",
                why: "another message follows in its record",
            });
        }
        return Ok(answer);
    }
    rest_of_flight(&mut messages, &mut answer, offer)?;
    Ok(answer)
}

fn server_hello(body: &[u8], offer: &Offer<'_>) -> Result<Answer, RawError> {
    let mut fields = Fields::new("ServerHello", body);
    let legacy_version = fields.u16()?;
    let is_retry = fields.bytes(32)? == RETRY;
    let session_id = fields.prefixed(1)?;
    if session_id.len() > 32 {
        return Err(fields.malformed("its session ID has more than 32 bytes"));
    }
    let cipher_suite = fields.u16()?;
    if fields.u8()? != 0 {
        return Err(fields.malformed(COMPRESSION));
    }
    let mut extensions = Vec::new();
    if !fields.is_empty() {
        let mut list = fields.list(2)?;
        fields.end()?;
        while !list.is_empty() {
            let (number, data) = (list.u16()?, list.prefixed(2)?);
            if extensions.len() == EXTENSIONS_MAX {
                return Err(list.malformed("it has more than 64 extensions"));
            }
            if extensions.iter().any(|(other, _)| *other == number) {
                return Err(list.malformed(REPEATED));
            }
            extensions.push((number, data));
        }
    }
    if !offer.cipher_suites.contains(&cipher_suite) {
        return Err(RawError::NotOffered(cipher_suite_name(cipher_suite)));
    }
    let find = |wanted| extensions.iter().find(|(number, _)| *number == wanted);
    let version = match find(SUPPORTED_VERSIONS) {
        Some((_, data)) => selected_version(data, legacy_version, offer)?,
        None if is_retry => {
            return Err(fields.malformed("a HelloRetryRequest needs supported_versions"));
        }
        None => legacy_version,
    };
    if !offer.versions.contains(&version) || (version == TLS1_3 && legacy_version != TLS1_2) {
        return Err(RawError::NotOffered(version_name(version)));
    }
    check_suite(cipher_suite, version)?;
    let mut answer = Answer { version, cipher_suite, ..Answer::default() };
    answer.is_hello_retry_request = is_retry;
    if version == TLS1_3 {
        if session_id != SESSION_ID {
            return Err(fields.malformed("it does not echo the session ID"));
        }
        let share = find(KEY_SHARE).map(|(_, data)| *data);
        answer.group = selected_group(share, is_retry, offer)?;
    }
    check_extensions(&extensions, version, is_retry)?;
    Ok(answer)
}

/// Reads supported_versions, which only servers of TLS 1.3 send.
fn selected_version(data: &[u8], legacy_version: u16, offer: &Offer<'_>) -> Result<u16, RawError> {
    let mut fields = Fields::new("ServerHello", data);
    let version = fields.u16()?;
    fields.end()?;
    if version != TLS1_3 || !offer.has_tls13() {
        return Err(RawError::NotOffered(version_name(version)));
    }
    if legacy_version != TLS1_2 {
        return Err(fields.malformed("its legacy version is not TLS 1.2"));
    }
    Ok(version)
}

/// Fails if the suite belongs to another version.
fn check_suite(suite: u16, version: u16) -> Result<(), RawError> {
    let is_of_tls13 = names::key_exchange(suite) == Some(KeyExchange::Extension);
    if is_of_tls13 == (version == TLS1_3) {
        return Ok(());
    }
    Err(RawError::NotOffered(format!("{} in {}", cipher_suite_name(suite), version_name(version))))
}

/// Reads key_share: a group in a HelloRetryRequest, a group and a share in a ServerHello.
fn selected_group(
    share: Option<&[u8]>,
    is_retry: bool,
    offer: &Offer<'_>,
) -> Result<Option<u16>, RawError> {
    let message = if is_retry { "HelloRetryRequest" } else { "ServerHello" };
    let Some(data) = share else {
        // A HelloRetryRequest may ask for a cookie only, but not before it knows a share.
        return Err(RawError::Malformed { message, why: "it has no key share" });
    };
    let mut fields = Fields::new(message, data);
    let group = fields.u16()?;
    let length = if is_retry { None } else { Some(fields.prefixed(2)?.len()) };
    fields.end()?;
    let has_share = offer.key_share == KeyShare::X25519 && group == names::X25519;
    if !offer.groups.contains(&group) || has_share == is_retry {
        return Err(RawError::NotOffered(format!("a key share of {}", group_name(group))));
    }
    if length.is_some_and(|length| length != 32) {
        return Err(fields.malformed("a share of x25519 has 32 bytes"));
    }
    Ok(Some(group))
}

/// Fails on an extension that answers nothing in the ClientHello.
fn check_extensions(
    extensions: &[(u16, &[u8])],
    version: u16,
    is_retry: bool,
) -> Result<(), RawError> {
    let allowed: &[u16] = match (version, is_retry) {
        (TLS1_3, false) => &[SUPPORTED_VERSIONS, KEY_SHARE],
        (TLS1_3, true) => &[SUPPORTED_VERSIONS, KEY_SHARE, 44],
        // Some servers list their groups, as clients do.
        _ => &[0, 10, 11, 13, 16, 23, 0xff01],
    };
    match extensions.iter().find(|(number, _)| !allowed.contains(number)) {
        Some((number, _)) => Err(RawError::NotOffered(format!("the extension {number}"))),
        None => Ok(()),
    }
}

/// Reads the messages of TLS 1.2 and older behind the ServerHello.
fn rest_of_flight<R: Read>(
    messages: &mut Messages<'_, R>,
    answer: &mut Answer,
    offer: &Offer<'_>,
) -> Result<(), RawError> {
    let exchange = names::key_exchange(answer.cipher_suite);
    let mut has_parameters = false;
    for _ in 0..MESSAGES_MAX {
        let (kind, body) = messages.next()?;
        let has_certificate = !answer.certificates.is_empty();
        match kind {
            11 if !has_certificate => answer.certificates = certificates(&body)?,
            12 if has_certificate && !has_parameters && exchange != Some(KeyExchange::Rsa) => {
                key_exchange(&body, exchange, answer, offer)?;
                has_parameters = true;
            }
            // CertificateStatus, CertificateRequest.
            22 | 13 if has_certificate => {}
            14 if has_certificate => {
                Fields::new("ServerHelloDone", &body).end()?;
                if !has_parameters && exchange != Some(KeyExchange::Rsa) {
                    return Err(RawError::Unexpected(kind));
                }
                return Ok(());
            }
            other => return Err(RawError::Unexpected(other)),
        }
    }
    Err(RawError::Malformed { message: "first flight", why: "it has too many messages" })
}

fn certificates(body: &[u8]) -> Result<Vec<Vec<u8>>, RawError> {
    let mut fields = Fields::new("Certificate", body);
    let mut list = fields.list(3)?;
    fields.end()?;
    let mut certificates = Vec::new();
    while !list.is_empty() {
        if certificates.len() == CERTIFICATES_MAX {
            return Err(list.malformed("it has more than 32 certificates"));
        }
        let certificate = list.prefixed(3)?;
        if certificate.is_empty() {
            return Err(list.malformed("a certificate is empty"));
        }
        certificates.push(certificate.to_vec());
    }
    if certificates.is_empty() {
        return Err(list.malformed("it has no certificate"));
    }
    Ok(certificates)
}

/// Reads a ServerKeyExchange: a named curve and a point, or a prime, a generator and a share, and
/// then the signature.
fn key_exchange(
    body: &[u8],
    exchange: Option<KeyExchange>,
    answer: &mut Answer,
    offer: &Offer<'_>,
) -> Result<(), RawError> {
    let mut fields = Fields::new("ServerKeyExchange", body);
    match exchange {
        Some(KeyExchange::Ecdhe) => {
            if fields.u8()? != 3 {
                return Err(fields.malformed("its curve has no name"));
            }
            let group = fields.u16()?;
            if !offer.groups.contains(&group) {
                return Err(RawError::NotOffered(group_name(group)));
            }
            if fields.prefixed(1)?.is_empty() {
                return Err(fields.malformed("its point is empty"));
            }
            answer.group = Some(group);
        }
        Some(KeyExchange::Dhe) => {
            let bits = bits(fields.prefixed(2)?);
            if bits == 0 {
                return Err(fields.malformed("its prime is zero"));
            }
            answer.dhe_bits = Some(bits);
            fields.prefixed(2)?;
            fields.prefixed(2)?;
        }
        _ => return Err(RawError::Unexpected(12)),
    }
    if answer.version >= TLS1_2 {
        let scheme = fields.u16()?;
        if !offer.signature_schemes.contains(&scheme) {
            return Err(RawError::NotOffered(names::signature_scheme_name(scheme)));
        }
        answer.signature_scheme = Some(scheme);
    }
    fields.prefixed(2)?;
    fields.end()
}

/// Returns the size of a big-endian number in bits.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let (_, significant) = number.split_at(zeros);
    let first = significant.first().map_or(0, |byte| byte.leading_zeros() as usize);
    significant.len() * 8 - first
}

#[cfg(test)]
mod tests;
