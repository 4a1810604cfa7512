//! Symmetric algorithms.

/// A symmetric algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetric {
    /// XAES-256-GCM (C2SP). Its random nonces of 24 bytes do not limit the number of messages.
    Xaes256Gcm,
    /// AES-256-GCM with random nonces of 12 bytes (NIST SP 800-38D, section 8.2.2). Limited to 2^32
    /// messages per version.
    Aes256Gcm96,
    /// ChaCha20-Poly1305 (RFC 8439) with random nonces of 12 bytes. Limited in the same way.
    ChaCha20Poly1305,
    /// HMAC (FIPS 198-1) with SHA-256.
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
    /// HMAC with SHA-512.
    HmacSha512,
}

impl Symmetric {
    /// All algorithms.
    pub const ALL: [Symmetric; 6] = [
        Symmetric::Xaes256Gcm,
        Symmetric::Aes256Gcm96,
        Symmetric::ChaCha20Poly1305,
        Symmetric::HmacSha256,
        Symmetric::HmacSha384,
        Symmetric::HmacSha512,
    ];

    /// Returns the name in ids.
    pub fn name(self) -> &'static str {
        match self {
            Symmetric::Xaes256Gcm => "xaes-256-gcm",
            Symmetric::Aes256Gcm96 => "aes256-gcm96",
            Symmetric::ChaCha20Poly1305 => "chacha20-poly1305",
            Symmetric::HmacSha256 => "hmac-sha-256",
            Symmetric::HmacSha384 => "hmac-sha-384",
            Symmetric::HmacSha512 => "hmac-sha-512",
        }
    }

    /// Returns whether it encrypts. The others make tags.
    pub fn is_aead(self) -> bool {
        match self {
            Symmetric::Xaes256Gcm | Symmetric::Aes256Gcm96 | Symmetric::ChaCha20Poly1305 => true,
            Symmetric::HmacSha256 | Symmetric::HmacSha384 | Symmetric::HmacSha512 => false,
        }
    }

    /// Returns whether its random nonces are so short that they may collide. Then messages are
    /// counted.
    pub fn is_counted(self) -> bool {
        match self {
            Symmetric::Aes256Gcm96 | Symmetric::ChaCha20Poly1305 => true,
            Symmetric::Xaes256Gcm
            | Symmetric::HmacSha256
            | Symmetric::HmacSha384
            | Symmetric::HmacSha512 => false,
        }
    }

    /// Returns the size of a generated key in bytes: for HMAC, that of its tag.
    pub fn key_len(self) -> usize {
        match self {
            Symmetric::Xaes256Gcm
            | Symmetric::Aes256Gcm96
            | Symmetric::ChaCha20Poly1305
            | Symmetric::HmacSha256 => 32,
            Symmetric::HmacSha384 => 48,
            Symmetric::HmacSha512 => 64,
        }
    }
}
