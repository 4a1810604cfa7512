//! Canonical text encodings of bytes: decoding accepts only what encoding produces.

use base64ct::{Base64, Base64UrlUnpadded, Encoding};

/// Encodes bytes as hexadecimal digits 0-9 a-f.
pub fn hex(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

/// Decodes `N` bytes from lower-case hexadecimal digits.
pub fn of_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    base16ct::lower::decode_vec(text).ok()?.try_into().ok()
}

/// A serde format for byte fields, as written by [`hex`].
pub mod hex_field {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serializes as lower-case digits.
    pub fn serialize<S: Serializer>(bytes: impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::hex(bytes.as_ref()))
    }

    /// Deserializes digits of either case.
    pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<Vec<u8>>>(
        from: D,
    ) -> Result<T, D::Error> {
        let bytes = base16ct::mixed::decode_vec(String::deserialize(from)?);
        let bytes = bytes.map_err(D::Error::custom)?;
        T::try_from(bytes).map_err(|_| D::Error::custom("wrong number of bytes"))
    }
}

/// Encodes bytes as base64 (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Decodes the output of [`base64`].
pub fn of_base64(text: &str) -> Option<Vec<u8>> {
    Base64::decode_vec(text).ok().filter(|bytes| base64(bytes) == text)
}

/// Encodes bytes as base64url without padding (RFC 4648, section 5).
pub fn base64url(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// Decodes the output of [`base64url`].
pub fn of_base64url(text: &str) -> Option<Vec<u8>> {
    Base64UrlUnpadded::decode_vec(text).ok().filter(|bytes| base64url(bytes) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_one_text() {
        assert_eq!(
            (base64(&[0xfb, 0xff]), base64url(&[0xfb, 0xff])),
            ("+/8=".into(), "-_8".into())
        );
        for bad in ["Zg", "Zg=", "Zh==", "Zg===", "Z", "Zm9v=", "Zm 9v", "-_8="] {
            assert_eq!(of_base64(bad), None, "{bad}");
        }
        for bad in ["Zg==", "Zh", "Z", "+/8"] {
            assert_eq!(of_base64url(bad), None, "{bad}");
        }
        assert_eq!(of_hex("0a0b"), Some([10, 11]));
        for bad in ["0A0b", "0a", "0a0b0c", "0a0", "0a0g"] {
            assert_eq!(of_hex::<2>(bad), None, "{bad}");
        }
    }
}
