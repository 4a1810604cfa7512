//! Base64 and PEM encodings.

use base64ct::{Base64, Base64UrlUnpadded, Encoding};

/// Encodes bytes as base64 with padding (RFC 4648, section 4).
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Decodes the output of [`encode`], and nothing else.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    Base64::decode_vec(text).ok()
}

/// Encodes bytes as JOSE does: base64url without padding (RFC 4648, section 5).
#[must_use]
pub fn encode_url(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// Decodes the output of [`encode_url`], and nothing else.
#[must_use]
pub fn decode_url(text: &str) -> Option<Vec<u8>> {
    Base64UrlUnpadded::decode_vec(text).ok()
}

/// Decodes a text that is one public key as PEM (RFC 7468). Returns `None` for every other text.
pub fn decode_pem(text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix("-----BEGIN PUBLIC KEY-----")?;
    let inner = inner.strip_suffix("-----END PUBLIC KEY-----")?;
    decode(&inner.split_ascii_whitespace().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_of_one_public_key_is_read_and_nothing_else() {
        let pem = "-----BEGIN PUBLIC KEY-----\nAAEC\nAwQF\n-----END PUBLIC KEY-----\n";
        assert_eq!(decode_pem(pem).unwrap(), [0, 1, 2, 3, 4, 5]);
        let twice = [pem, pem].concat();
        for text in ["", "AAEC", &pem[..40], &pem.replace("PUBLIC", "PRIVATE"), &twice] {
            assert_eq!(decode_pem(text), None, "{text}");
        }
    }
}
