//! Algorithms whose keys are secret bytes that both sides have.

/// What a symmetric key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetric {
    /// XAES-256-GCM (C2SP): 24 random bytes make a key and a nonce for each message, so that none ever runs out.
    Xaes256Gcm,
    /// AES-256-GCM with 12 random bytes as nonce (NIST SP 800-38D, section 8.2.2): counted, 2^32 messages a version at
    /// most.
    Aes256Gcm96,
    /// ChaCha20-Poly1305 (RFC 8439) with 12 random bytes as nonce: counted, too.
    ChaCha20Poly1305,
    /// HMAC (FIPS 198-1) with SHA-256.
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
    /// HMAC with SHA-512.
    HmacSha512,
}

impl Symmetric {
    /// Every one.
    pub const ALL: [Symmetric; 6] = [
        Symmetric::Xaes256Gcm,
        Symmetric::Aes256Gcm96,
        Symmetric::ChaCha20Poly1305,
        Symmetric::HmacSha256,
        Symmetric::HmacSha384,
        Symmetric::HmacSha512,
    ];

    /// How ids spell it.
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

    /// Whether it encrypts. The others authenticate.
    pub fn is_aead(self) -> bool {
        match self {
            Symmetric::Xaes256Gcm | Symmetric::Aes256Gcm96 | Symmetric::ChaCha20Poly1305 => true,
            Symmetric::HmacSha256 | Symmetric::HmacSha384 | Symmetric::HmacSha512 => false,
        }
    }

    /// Whether its nonces are so short that random ones may meet: then messages are counted.
    pub fn is_counted(self) -> bool {
        match self {
            Symmetric::Aes256Gcm96 | Symmetric::ChaCha20Poly1305 => true,
            Symmetric::Xaes256Gcm
            | Symmetric::HmacSha256
            | Symmetric::HmacSha384
            | Symmetric::HmacSha512 => false,
        }
    }

    /// Bytes of a key that is drawn: for HMAC, as many as its tag has.
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
