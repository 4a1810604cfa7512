//! The parts of DER, PEM and base 64 that test vectors use. Reads trusted input only: panics on
//! malformed bytes.

/// Returns the contents of one DER element with this tag, and the bytes after it.
///
/// # Panics
/// If the tag differs, or if the element is longer than the bytes.
pub fn element(tag: u8, der: &[u8]) -> (&[u8], &[u8]) {
    assert_eq!(der[0], tag, "tag {:02x}", der[0]);
    let (len, header) = match der[1] {
        short @ 0..0x80 => (usize::from(short), 2),
        long => {
            let digits = usize::from(long & 0x7f);
            let len = der[2..2 + digits].iter().fold(0, |n, &d| n << 8 | usize::from(d));
            (len, 2 + digits)
        }
    };
    der[header..].split_at(len)
}

/// Returns the bytes after elements with these tags.
///
/// # Panics
/// See [`element`].
pub fn after<'a>(tags: &[u8], der: &'a [u8]) -> &'a [u8] {
    tags.iter().fold(der, |rest, &tag| element(tag, rest).1)
}

/// The key of a SubjectPublicKeyInfo (RFC 5280, section 4.1).
///
/// # Panics
/// If it is malformed.
pub fn public_key(der: &[u8]) -> &[u8] {
    let (key, _) = element(0x30, der);
    let (bits, _) = element(0x03, after(&[0x30], key));
    &bits[1..]
}

/// Returns the key inside a PKCS #8 private key (RFC 5958, section 2).
///
/// # Panics
/// If it is malformed.
pub fn private_key(der: &[u8]) -> &[u8] {
    let (key, _) = element(0x30, der);
    element(0x04, after(&[0x02, 0x30], key)).0
}

/// A certificate's parts (RFC 5280, section 4.1).
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// The signed bytes.
    pub signed: &'a [u8],
    /// The subject's public key.
    pub public: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

/// Parses a certificate.
///
/// # Panics
/// If it is malformed.
pub fn certificate(der: &[u8]) -> Certificate<'_> {
    let (body, _) = element(0x30, der);
    let (inner, rest) = element(0x30, body);
    let signed = &body[..body.len() - rest.len()];
    let (signature, _) = element(0x03, after(&[0x30], rest));
    // Version, serial number, algorithm, issuer, validity, subject, then the key.
    let public = public_key(after(&[0xa0, 0x02, 0x30, 0x30, 0x30, 0x30], inner));
    Certificate { signed, public, signature: &signature[1..] }
}

/// The bytes of base 64 (RFC 4648, section 4).
///
/// # Panics
/// At a character outside of the alphabet.
pub fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("`{}` is no base 64", c as char),
    };
    let digits: Vec<u8> = text.bytes().filter(|&c| c != b'=').map(value).collect();
    let mut out = Vec::new();
    for chunk in digits.chunks(4) {
        let bits =
            chunk.iter().fold(0u32, |n, &d| n << 6 | u32::from(d)) << (6 * (4 - chunk.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    out
}

/// The first block of a PEM file (RFC 7468).
///
/// # Panics
/// If the file has no PEM block.
pub fn pem(file: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(file);
    let lines = text.lines().skip_while(|line| !line.starts_with("-----BEGIN")).skip(1);
    let body: String = lines.take_while(|line| !line.starts_with("-----END")).collect();
    assert!(!body.is_empty(), "no PEM block");
    base64(&body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_each_form_of_length_are_taken_apart() {
        assert_eq!(element(0x04, &[4, 2, 7, 8, 9]), (&[7, 8][..], &[9][..]));
        let long = [&[4, 0x82, 1, 0][..], &[5; 256], &[1]].concat();
        assert_eq!(element(0x04, &long), (&[5; 256][..], &[1][..]));
        assert!(std::panic::catch_unwind(|| element(0x05, &[4, 0])).is_err());
    }

    #[test]
    fn base_64_of_each_length() {
        // RFC 4648, section 10.
        for (text, bytes) in [("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")]
        {
            assert_eq!(base64(text), bytes.as_bytes());
        }
        let file = b"text\n-----BEGIN X-----\nZm9v\nYg==\n-----END X-----\n";
        assert_eq!(pem(file), b"foob");
    }
}
