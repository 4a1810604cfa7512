//! RSA keys, which every user of Transit has some of.

/// The size of an RSA key. It signs and verifies, and it encrypts and decrypts by OAEP (RFC 8017).
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
    /// Every one.
    pub const ALL: [Rsa; 3] = [Rsa::Rsa2048, Rsa::Rsa3072, Rsa::Rsa4096];

    /// How ids spell it.
    pub fn name(self) -> &'static str {
        match self {
            Rsa::Rsa2048 => "rsa-2048",
            Rsa::Rsa3072 => "rsa-3072",
            Rsa::Rsa4096 => "rsa-4096",
        }
    }

    /// Bits of the modulus.
    pub const fn bits(self) -> usize {
        match self {
            Rsa::Rsa2048 => 2048,
            Rsa::Rsa3072 => 3072,
            Rsa::Rsa4096 => 4096,
        }
    }
}
