//! TLS without rustls: a ClientHello of our own, and the server's first answer to it.
//!
//! ```text
//!   hello     Offer -----------> ClientHello, TLS 1.0 to 1.3, without a private key
//!   records   stream ----------> handshake messages and alerts, bounded
//!   answer    messages --------> version, cipher suite, group, certificates
//!   names     codepoints ------> names
//! ```
//!
//! For servers that rustls cannot talk to: TLS 1.0 and 1.1, RSA key transport, finite-field groups.
//! The connection ends behind the first flight, before the client would need a key. In TLS 1.3 the
//! certificates are encrypted, so an [`Answer`] has those of TLS 1.2 and older only.

mod answer;
mod hello;
mod names;
mod records;

use std::io::{Read, Write};

pub use answer::{Answer, read_answer};
pub use hello::{KeyShare, Offer, TLS1_0, TLS1_1, TLS1_2, TLS1_3, client_hello};
pub use names::{
    alert_name, cipher_suite_name, group_name, is_group_post_quantum, signature_scheme_name,
    version_name,
};
pub use records::RawError;

/// Sends a ClientHello and reads the server's first flight. The stream's deadlines limit the time.
///
/// # Errors
/// Fails if the stream does, or if the server sends an alert or a malformed answer.
pub fn ask(stream: &mut (impl Read + Write), offer: &Offer<'_>) -> Result<Answer, RawError> {
    let mut random = [0; 32];
    let provider = gabion_rustls::provider();
    provider.secure_random.fill(&mut random).map_err(|_| RawError::Random)?;
    stream.write_all(&client_hello(offer, random))?;
    stream.flush()?;
    read_answer(stream, offer)
}
