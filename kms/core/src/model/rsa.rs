//! RSA keys, for compatibility with Vault's Transit.

/// The size of an RSA key. RSA keys sign and verify, and encrypt and decrypt by OAEP (RFC 8017).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rsa {
    /// 2048 bits.
    Rsa2048,
    /// 3072 bits.
    Rsa3072,
    /// 4096 bits.
    Rsa4096,
}

impl Rsa {
    /// All sizes.
    pub const ALL: [Rsa; 3] = [Rsa::Rsa2048, Rsa::Rsa3072, Rsa::Rsa4096];

    /// Returns the name in ids.
    pub fn name(self) -> &'static str {
        match self {
            Rsa::Rsa2048 => "rsa-2048",
            Rsa::Rsa3072 => "rsa-3072",
            Rsa::Rsa4096 => "rsa-4096",
        }
    }

    /// Returns the size of the modulus in bits.
    pub const fn bits(self) -> usize {
        match self {
            Rsa::Rsa2048 => 2048,
            Rsa::Rsa3072 => 3072,
            Rsa::Rsa4096 => 4096,
        }
    }
}
