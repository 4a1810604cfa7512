//! What `sign` and `verify` take of a message.

use std::path::{Path, PathBuf};

use gabion_engine::{Message, Prehash};

use crate::failure::Failure;
use crate::files;

/// What is signed or verified, and how: the same for `sign` and `verify`.
#[derive(clap::Args)]
pub struct MessageArgs {
    /// Context string in hexadecimal, at most 255 bytes; signer and verifier must agree on it
    #[arg(long, value_name = "HEX", value_parser = context, default_value = "")]
    context: Context,
    /// Sign the digest of the message (HashML-DSA, HashSLH-DSA): SHA2-256, SHA2-512, SHA3-256,
    /// SHAKE-128 ..
    #[arg(long, value_name = "HASH")]
    prehash: Option<Prehash>,
    /// The message; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// A context string.
#[derive(Clone)]
struct Context(Vec<u8>);

fn context(text: &str) -> Result<Context, String> {
    match hex::decode(text) {
        Ok(bytes) if bytes.len() <= 255 => Ok(Context(bytes)),
        Ok(bytes) => Err(format!("{} bytes; at most 255 are allowed", bytes.len())),
        Err(cause) => Err(format!("{cause}; expected pairs of hexadecimal digits, such as 0aff")),
    }
}

impl MessageArgs {
    /// Where the message comes from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The context string.
    pub fn context(&self) -> &[u8] {
        &self.context.0
    }

    /// The hash whose digest is signed.
    pub fn prehash(&self) -> Option<Prehash> {
        self.prehash
    }

    /// Reads the message and hands it over in the form that is to be signed.
    ///
    /// # Errors
    /// The file's, and those of `then`.
    pub fn with_message<T>(
        &self,
        then: impl FnOnce(Message<'_>) -> Result<T, gabion_engine::Error>,
    ) -> Result<T, Failure> {
        let bytes = files::read(&self.file, files::LARGE_MAX)?;
        let context = &self.context.0;
        let done = match self.prehash {
            None => then(Message::Pure { context, message: &bytes }),
            Some(hash) => then(Message::Prehash { context, hash, digest: &hash.digest(&bytes) }),
        };
        done.map_err(Failure::from)
    }
}
