//! Decides how `gabion kms sign` and `gabion kms verify` send a message.

use std::io::Read;

use gabion_engine::{Message, Pieces, Prehash, VerifyKey};
use gabion_kms_client::{Client, Error};
use gabion_kms_wire::encode;

use super::SHORT_MAX;
use crate::commands::keys::message::{MessageArgs, MuArgs};
use crate::commands::keys::mu;
use crate::failure::Failure;
use crate::files::{self, Input};
use crate::keys;

/// The options that decide in which form a message is sent.
#[derive(clap::Args)]
pub struct SendArgs {
    #[command(flatten)]
    mu: MuArgs,
    /// ML-DSA only: never send the message; compute mu here with the version's public key and send
    /// that
    #[arg(long, conflicts_with_all = ["mu", "prehash"])]
    keep_message: bool,
}

/// A message in the form in which it is sent.
pub enum RequestMessage {
    /// In a JSON request: the message, its digest, or its mu.
    Inline(InlineMessage),
    /// Returns the message as a request body, with its length if it is known.
    Stream { message: Box<dyn Read>, length: Option<u64>, context: Option<String> },
}

impl RequestMessage {
    /// Reads the message and chooses the form. For an ML-DSA key, a long message is not sent: its
    /// mu is, if the caller may read the public key.
    ///
    /// # Errors
    /// Those of reading the file, and those of the service when it is asked for a public key.
    /// The file's, and the service's where it has to be asked for a public key.
    pub fn of(
        client: &Client,
        (key, version): (&str, Option<u32>),
        mode: &MessageArgs,
        send: &SendArgs,
    ) -> Result<Self, Failure> {
        let (context, file) = (mode.context(), mode.file());
        if let Some(mu) = send.mu.read(mode)? {
            let version = version.ok_or_else(|| {
                let why = "--mu needs --version, whose public key mu was computed with";
                Failure::Usage(why.to_owned())
            })?;
            return Ok(RequestMessage::Inline(InlineMessage::of_mu(&mu, version)));
        }
        if send.keep_message {
            return match Signer::fetch(client, key, version)? {
                Signer::MlDsa(public, version) => {
                    let mut message = files::open(file, 0)?.into_reader();
                    let mu = mu::of(&public, context, &mut message, file)?;
                    Ok(RequestMessage::Inline(InlineMessage::of_mu(&mu, version)))
                }
                Signer::OtherAlgorithm(algorithm) => Err(Failure::Usage(format!(
                    "--keep-message needs an ML-DSA key, and `{key}` is {algorithm}"
                ))),
                Signer::NoSuchVersion(version) => {
                    Err(Failure::No(format!("`{key}` has no version {version}")))
                }
            };
        }
        let sent = match (files::open(file, SHORT_MAX)?, mode.prehash()) {
            (Input::Short(message), None) => {
                InlineMessage::of(Message::Pure { context, message: &message })
            }
            (Input::Short(message), Some(hash)) => InlineMessage::of(Message::Prehash {
                context,
                hash,
                digest: &hash.digest(&message),
            }),
            (Input::Long(mut message, _), Some(hash)) => {
                let pieces = Pieces::to_digest(hash).ok_or_else(|| no_pieces(hash))?;
                let digest = mu::finished(pieces, &mut message, file)?;
                InlineMessage::of(Message::Prehash { context, hash, digest: &digest })
            }
            (Input::Long(mut message, length), None) => {
                match Signer::fetch(client, key, version) {
                    Ok(Signer::MlDsa(public, version)) => {
                        let mu = mu::of(&public, context, &mut message, file)?;
                        eprintln!(
                            "note: sending mu of the message, 64 bytes under version {version}'s public key"
                        );
                        InlineMessage::of_mu(&mu, version)
                    }
                    Err(Error::Refused(problem)) if !may_not_look(&problem.code) => {
                        return Err(Error::Refused(problem).into());
                    }
                    // The service reports what is wrong with the version.
                    Ok(Signer::OtherAlgorithm(_) | Signer::NoSuchVersion(_))
                    | Err(Error::Refused(_)) => {
                        let context = Some(context).filter(|bytes| !bytes.is_empty()).map(encode);
                        return Ok(RequestMessage::Stream { message, length, context });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        Ok(RequestMessage::Inline(sent))
    }
}

fn no_pieces(hash: Prehash) -> Failure {
    Failure::Usage(format!("{} takes no message of this size", hash.name()))
}

/// Returns whether a caller who gets this code when reading the key may still be allowed to sign.
fn may_not_look(code: &str) -> bool {
    code == "denied" || code == "not_found"
}

/// The key version that signs or has signed.
enum Signer {
    /// An ML-DSA key and its version number.
    MlDsa(VerifyKey, u32),
    /// A key of this algorithm, which does not sign mu.
    OtherAlgorithm(String),
    /// The version does not exist or has no public key.
    NoSuchVersion(u32),
}

impl Signer {
    /// Requests the public key of a version, or of the newest one.
    fn fetch(client: &Client, key: &str, version: Option<u32>) -> Result<Self, Error> {
        let shown = client.show(key)?;
        if !["ml-dsa-44", "ml-dsa-65", "ml-dsa-87"].contains(&&*shown.algorithm) {
            return Ok(Signer::OtherAlgorithm(shown.algorithm));
        }
        let version = version.unwrap_or(shown.latest);
        let page = client.versions(key, version.saturating_sub(1))?;
        let found = page.versions.into_iter().find(|found| found.version == version);
        let pem = found.and_then(|found| found.public_key);
        Ok(match pem.and_then(|pem| keys::verify_key_of_pem(&pem)) {
            Some(public) => Signer::MlDsa(public, version),
            None => Signer::NoSuchVersion(version),
        })
    }
}

/// A message as the fields of a JSON request.
#[derive(Default)]
pub struct InlineMessage {
    pub message: Option<String>,
    pub digest: Option<String>,
    pub mu: Option<String>,
    pub prehash: Option<String>,
    pub context: Option<String>,
    /// The version whose public key was used to compute mu.
    pub version: Option<u32>,
}

impl InlineMessage {
    /// Builds the fields. For a prehashed message, only the digest is sent.
    fn of(message: Message<'_>) -> Self {
        let non_empty = |bytes: &[u8]| Some(bytes).filter(|bytes| !bytes.is_empty()).map(encode);
        match message {
            Message::Pure { context, message } => InlineMessage {
                message: Some(encode(message)),
                context: non_empty(context),
                ..InlineMessage::default()
            },
            Message::Prehash { context, hash, digest } => InlineMessage {
                digest: Some(encode(digest)),
                prehash: Some(hash.name().to_owned()),
                context: non_empty(context),
                ..InlineMessage::default()
            },
            // The command line creates no other variant.
            Message::Mu(_) | Message::Internal(_) => InlineMessage::default(),
        }
    }

    fn of_mu(mu: &[u8; 64], version: u32) -> Self {
        InlineMessage { mu: Some(encode(mu)), version: Some(version), ..InlineMessage::default() }
    }
}
