//! The key management service: a server to try it out with, and what is asked of one.
//!
//! Where it is and as whom it is called stands in the environment, so that no token is in a list of processes.

mod attest;
mod audit;
mod backup;
mod cipher;
mod datakey;
mod dev;
mod hmac;
mod init;
mod kem;
mod key;
mod open;
mod outcome;
mod period;
mod policy;
mod random;
mod recover_admin;
mod reseal;
mod seal;
mod serve;
mod share;
mod shown;
mod sign;
mod status;
mod token;
mod transfer;
mod verify;

use std::io::{ErrorKind, Read};
use std::path::Path;

use clap::Subcommand;
use gabion_engine::{Message, Pieces, Prehash};
use gabion_kms_client::{Client, Error, Settings, encode};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::commands::keys::message::MessageArgs;
use crate::failure::Failure;
use crate::files::{self, Opened};

/// Keys in a service, by name: they sign and encrypt there
///
/// Example:
///   gabion kms dev
///
/// Prints what to paste in another terminal. Every other command finds the service by GABION_KMS_ADDR (https://HOST:PORT
/// or unix:/PATH, several by commas), GABION_KMS_TOKEN and GABION_KMS_CACERT. Exits 1 where the answer is no, or the
/// token may not do that, 2 where the request is none, 3 where the service does not answer or is sealed: docs/kms.md.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Attest(attest::Args),
    Audit(audit::Args),
    Backup(backup::BackupArgs),
    Dev(dev::Args),
    Init(init::Args),
    Key(key::Args),
    Policy(policy::Args),
    RecoverAdmin(recover_admin::Args),
    Reseal(reseal::Args),
    Restore(backup::RestoreArgs),
    Seal(seal::SealArgs),
    Serve(serve::Args),
    Share(share::Args),
    Sign(sign::Args),
    Status(status::Args),
    Token(token::Args),
    Unseal(seal::UnsealArgs),
    Verify(verify::Args),
    // What makes, takes or gives out secrets.
    Datakey(datakey::Args),
    Decaps(kem::DecapsArgs),
    Decrypt(cipher::DecryptArgs),
    Encaps(kem::EncapsArgs),
    Encrypt(cipher::EncryptArgs),
    Hmac(hmac::Args),
    Random(random::Args),
    Rewrap(cipher::RewrapArgs),
    Unwrap(cipher::UnwrapArgs),
    Wrap(cipher::WrapArgs),
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Attest(args) => attest::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Backup(args) => backup::backup(args),
        Command::Dev(args) => dev::run(args),
        Command::Init(args) => init::run(args),
        Command::Key(args) => key::run(args),
        Command::Policy(args) => policy::run(args),
        Command::RecoverAdmin(args) => recover_admin::run(args),
        Command::Reseal(args) => reseal::run(args),
        Command::Restore(args) => backup::restore(args),
        Command::Seal(args) => seal::seal(args),
        Command::Serve(args) => serve::run(args),
        Command::Share(args) => share::run(args),
        Command::Sign(args) => sign::run(args),
        Command::Status(args) => status::run(args),
        Command::Token(args) => token::run(args),
        Command::Unseal(args) => seal::unseal(args),
        Command::Verify(args) => verify::run(args),
        Command::Datakey(args) => datakey::run(args),
        Command::Decaps(args) => kem::decaps(args),
        Command::Decrypt(args) => cipher::decrypt(args),
        Command::Encaps(args) => kem::encaps(args),
        Command::Encrypt(args) => cipher::encrypt(args),
        Command::Hmac(args) => hmac::run(args),
        Command::Random(args) => random::run(args),
        Command::Rewrap(args) => cipher::rewrap(args),
        Command::Unwrap(args) => cipher::unwrap(args),
        Command::Wrap(args) => cipher::wrap(args),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        match &error {
            Error::Settings(_) | Error::Message(_) => Failure::Usage(text),
            Error::Refused(problem) => match problem.code.as_str() {
                "bad_request" | "malformed" | "unsupported" | "too_large" | "no_such_path"
                | "method_not_allowed" => Failure::Usage(text),
                "sealed" | "closing" | "busy" | "quota_exceeded" | "store_unavailable"
                | "audit_unwritable" | "timeout" | "outcome_unknown" | "integrity_failed"
                | "internal" => Failure::NotReady(text),
                // It is not there, it is in another state, or the caller may not.
                _ => Failure::No(text),
            },
            // Unreachable, lost, no answer of a service, and what the future adds.
            _ => Failure::NotReady(text),
        }
    }
}

/// The service that the environment names.
fn client() -> Result<Client, Failure> {
    Ok(Client::new(&Settings::from_environment()?)?)
}

/// Prints an answer as one line of JSON.
fn say_json(answer: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(answer);
    let line = line.map_err(|error| Failure::NotReady(error.to_string()))?;
    say!("{line}");
    Ok(())
}

/// Most bytes of a message that is sent within a request of JSON: in base64 it is within what the service takes. What is
/// longer is a request's body itself, and read as it is sent.
const SHORT_MAX: u64 = 512 << 10;

/// A message, as it is sent.
enum Given {
    /// Within a request of JSON, or only its digest.
    Sent(Sent),
    /// As a body of its own, which says how many bytes there are, where that is known.
    Stream { message: Box<dyn Read>, length: Option<u64>, context: Option<String> },
}

impl Given {
    /// Only the digest is sent of what is signed by its digest.
    fn of(mode: &MessageArgs) -> Result<Self, Failure> {
        let context = mode.context();
        let opened = files::open(mode.file(), SHORT_MAX)?;
        let sent = match (opened, mode.prehash()) {
            (Opened::Short(message), None) => {
                Sent::of(Message::Pure { context, message: &message })
            }
            (Opened::Short(message), Some(hash)) => {
                Sent::of(Message::Prehash { context, hash, digest: &hash.digest(&message) })
            }
            (Opened::Long(mut message, _), Some(hash)) => {
                let digest = digest(hash, &mut message, mode.file())?;
                Sent::of(Message::Prehash { context, hash, digest: &digest })
            }
            (Opened::Long(message, length), None) => {
                let context = Some(context).filter(|bytes| !bytes.is_empty()).map(encode);
                return Ok(Given::Stream { message, length, context });
            }
        };
        Ok(Given::Sent(sent?))
    }
}

/// The digest of a message that is read piece by piece.
fn digest(hash: Prehash, message: &mut dyn Read, file: &Path) -> Result<Vec<u8>, Failure> {
    let no_pieces = || Failure::Usage(format!("{} takes no message of this size", hash.name()));
    let mut pieces = Pieces::to_digest(hash).ok_or_else(no_pieces)?;
    let mut piece = Zeroizing::new(vec![0; 64 << 10]);
    loop {
        match message.read(&mut piece) {
            Ok(0) => return Ok(pieces.so_far()),
            Ok(read) => pieces.add(&piece[..read]),
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => {
                let name = files::shown(file, "standard input");
                let words = files::words(&cause);
                return Err(Failure::Usage(format!("cannot read {name}: {words}")));
            }
        }
    }
}

/// A message as the wire has it.
struct Sent {
    message: Option<String>,
    digest: Option<String>,
    prehash: Option<String>,
    context: Option<String>,
}

impl Sent {
    /// Only the digest is sent of what is signed by its digest.
    fn of(message: Message<'_>) -> Result<Self, gabion_engine::Error> {
        let given = |bytes: &[u8]| Some(bytes).filter(|bytes| !bytes.is_empty()).map(encode);
        let none = Sent { message: None, digest: None, prehash: None, context: None };
        Ok(match message {
            Message::Pure { context, message } => {
                Sent { message: Some(encode(message)), context: given(context), ..none }
            }
            Message::Prehash { context, hash, digest } => Sent {
                digest: Some(encode(digest)),
                prehash: Some(hash.name().to_owned()),
                context: given(context),
                ..none
            },
            // The command line makes no other.
            Message::Mu(_) | Message::Internal(_) => none,
        })
    }
}
