//! Symmetric keys, ready to be used.
//!
//! ```text
//!   bytes --> Aead   XAES-256-GCM, AES-256-GCM, ChaCha20-Poly1305:   nonce | ciphertext | tag
//!        \--> Mac    HMAC with SHA-2 or SHA-3:                       tag
//!   a secret of any key --> TagRoot --> Mac
//! ```
//!
//! Nonces are the operating system's randomness. How many messages a key of short nonces may still encrypt is counted by
//! whoever uses it.

mod aead;
mod mac;
mod tag_root;
mod xaes;

pub use aead::Aead;
pub use mac::{MAC_KEY_MAX, MAC_KEY_MIN, Mac, MacPieces};
pub use tag_root::TagRoot;
