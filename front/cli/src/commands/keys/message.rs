//! The message options of `sign` and `verify`.

use std::path::{Path, PathBuf};

use gabion_engine::{Message, Prehash};

use crate::failure::Failure;
use crate::files;

/// The message to sign or verify, and the signing mode; shared by `sign` and `verify`.
#[derive(clap::Args)]
pub struct MessageArgs {
    /// Context string in hexadecimal, at most 255 bytes; signing and verifying need the same one
    #[arg(long, value_name = "HEX", value_parser = context, default_value = "")]
    context: Context,
    /// Sign the digest of the message (HashML-DSA, HashSLH-DSA, ECDSA): SHA2-256, SHA2-512,
    /// SHA3-256, SHAKE-128 ..
    #[arg(long, value_name = "HASH")]
    prehash: Option<Prehash>,
    /// File with the message; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// `--mu`: the ML-DSA message representative in place of the message.
#[derive(clap::Args)]
pub struct MuArgs {
    /// FILE holds mu of an ML-DSA message (`gabion mu`): 64 bytes, or 128 hexadecimal digits
    #[arg(long, conflicts_with_all = ["prehash", "context"])]
    mu: bool,
}

impl MuArgs {
    /// Reads mu if `--mu` is given.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the file cannot be read or does not hold mu.
    pub fn read(&self, mode: &MessageArgs) -> Result<Option<[u8; 64]>, Failure> {
        if !self.mu {
            return Ok(None);
        }
        let bytes = files::read(&mode.file, files::SMALL_MAX)?;
        let text = bytes.trim_ascii();
        let decoded = if bytes.len() == 64 { None } else { base16ct::mixed::decode_vec(text).ok() };
        let mu = decoded.as_deref().unwrap_or(&bytes).try_into();
        mu.map(Some).map_err(|_| {
            let name = files::shown(&mode.file, "standard input");
            let length = bytes.len();
            Failure::Usage(format!(
                "{name} has {length} bytes and is not mu; expected 64 bytes or 128 hexadecimal digits"
            ))
        })
    }

    /// Reads the message, or mu if `--mu` is given, and passes it to `then` in the form to be
    /// signed.
    ///
    /// # Errors
    /// Those of [`Self::read`], [`MessageArgs::with_message`] and `then`.
    pub fn with_message<T>(
        &self,
        mode: &MessageArgs,
        then: impl FnOnce(Message<'_>) -> Result<T, gabion_engine::Error>,
    ) -> Result<T, Failure> {
        match self.read(mode)? {
            Some(mu) => then(Message::Mu(&mu)).map_err(Failure::from),
            None => mode.with_message(then),
        }
    }
}

/// A context string.
#[derive(Clone)]
struct Context(Vec<u8>);

fn context(text: &str) -> Result<Context, String> {
    match base16ct::mixed::decode_vec(text) {
        Ok(bytes) if bytes.len() <= 255 => Ok(Context(bytes)),
        Ok(bytes) => Err(format!("{} bytes; at most 255 are allowed", bytes.len())),
        Err(_) => Err("not hexadecimal; expected pairs of digits, such as 0aff".to_owned()),
    }
}

impl MessageArgs {
    /// Returns the path of the message.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the context string.
    pub fn context(&self) -> &[u8] {
        &self.context.0
    }

    /// Returns the hash of `--prehash`.
    pub fn prehash(&self) -> Option<Prehash> {
        self.prehash
    }

    /// Reads the message and passes it to `then` in the form to be signed.
    ///
    /// # Errors
    /// Those of reading the file, and of `then`.
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
