//! The commands for the key management service: a development server, the server, and its clients.
//!
//! The client commands read the service's address and token from the environment, so that the token
//! does not appear in process lists.

mod attest;
mod audit;
mod backup;
mod cipher;
mod datakey;
mod dev;
mod hmac;
mod init;
mod jwt;
mod kem;
mod key;
mod open;
mod outcome;
mod period;
mod policy;
mod print;
mod random;
mod recover_admin;
mod request_message;
mod reseal;
mod seal;
mod serve;
mod share;
mod sign;
mod status;
mod token;
mod token_family;
mod transfer;
mod verify;

use clap::Subcommand;
use gabion_kms_client::{Client, Error, Settings};
use serde::Serialize;

use crate::failure::Failure;

/// Run the key management service, and use its keys
///
/// Example:
///   gabion kms dev
///
/// `gabion kms dev` prints commands to paste into another terminal. All client commands find the
/// service through GABION_KMS_ADDR (https://HOST:PORT or unix:/PATH, several separated by commas),
/// GABION_KMS_TOKEN and GABION_KMS_CACERT. Exits 1 if the answer is no or the token does not allow
/// the action, 2 if the request is invalid, and 3 if the service is sealed or does not answer:
/// docs/guide/kms.md.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// The topics of `gabion kms --help`, with the first command of each.
pub const TOPICS: [(&str, &str); 5] = [
    ("dev", "Server and store"),
    ("token", "Tokens and policies"),
    ("key", "Keys"),
    ("sign", "Signing and encrypting"),
    ("audit", "Audit log"),
];

/// The commands, in the order of the help.
#[derive(Subcommand)]
enum Command {
    Dev(dev::Args),
    Init(init::Args),
    Serve(serve::Args),
    Unseal(seal::UnsealArgs),
    Seal(seal::SealArgs),
    Reseal(reseal::Args),
    Share(share::Args),
    RecoverAdmin(recover_admin::Args),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Status(status::Args),
    Token(token::Args),
    Policy(policy::Args),
    Key(key::Args),
    Attest(attest::Args),
    Sign(sign::Args),
    Verify(verify::Args),
    Jwt(jwt::Args),
    Encrypt(cipher::EncryptArgs),
    Decrypt(cipher::DecryptArgs),
    Rewrap(cipher::RewrapArgs),
    Datakey(datakey::Args),
    Wrap(cipher::WrapArgs),
    Unwrap(cipher::UnwrapArgs),
    Hmac(hmac::Args),
    Encaps(kem::EncapsArgs),
    Decaps(kem::DecapsArgs),
    Random(random::Args),
    Audit(audit::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Attest(args) => attest::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Backup(args) => backup::backup(args),
        Command::Dev(args) => dev::run(args),
        Command::Init(args) => init::run(args),
        Command::Jwt(args) => jwt::run(args),
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
                // Not found, wrong state, or not permitted.
                _ => Failure::No(text),
            },
            // Unreachable, lost or invalid answers, and future variants.
            _ => Failure::NotReady(text),
        }
    }
}

/// Returns a client for the service that the environment names.
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

/// Maximum size of a message inside a JSON request: its base64 stays within the service's limit. A
/// longer message is the request body itself and is streamed.
const SHORT_MAX: u64 = 512 << 10;
