//! Expanded symmetric keys.
//!
//! ```text
//!   bytes --> Aead   XAES-256-GCM, AES-256-GCM, ChaCha20-Poly1305:   nonce | ciphertext | tag
//!        \--> Mac    HMAC with SHA-2 or SHA-3:                       tag
//!   a secret of any key --> TagRoot --> Mac
//! ```
//!
//! Nonces are random, from the operating system. Callers count the messages of keys with short
//! nonces.

mod aead;
mod mac;
mod tag_root;
mod xaes;

pub use aead::Aead;
pub use mac::{MAC_KEY_MAX, MAC_KEY_MIN, Mac, MacPieces};
pub use tag_root::TagRoot;
