//! `gabion kms encrypt`, `decrypt`, `rewrap`, `wrap`, `unwrap`: what keys of the service encrypt.

use std::path::PathBuf;

use gabion_kms_client::{Client, Error};
use gabion_kms_wire::native::{Decrypt, Decrypted, Encrypt, Encrypted, Rewrap, Wrap};
use zeroize::Zeroizing;

use super::client;
use super::outcome::{
    AssociatedDataArgs, OutputArgs, OutputForm, decoded, line, read_line, secret,
};
use crate::failure::Failure;

/// Encrypt a file or standard input by a key of the service
///
/// Example:
///   gabion kms key create data --algorithm XAES-256-GCM
///   echo hi > hi.txt && gabion kms encrypt --key data --out hi.enc hi.txt
///
/// The result is a line vault:vN:BASE64, which names the version; Vault's paths take it, too. What is longer than a
/// request may be is encrypted by a key that `gabion kms datakey` makes.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct EncryptArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The version that encrypts [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// What to encrypt; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Decrypt what a key of the service encrypted
///
/// Example:
///   gabion kms key create data --algorithm XAES-256-GCM
///   echo hi > hi.txt && gabion kms encrypt --key data --out hi.enc hi.txt
///   gabion kms decrypt --key data --out back.txt hi.enc
///
/// Exits 1 where it does not decrypt, whatever of it is another. The result is written with mode 0600.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct DecryptArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// The line that `encrypt`, `rewrap` or `datakey` wrote; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Encrypt anew, by the newest version, what an older one encrypted
///
/// Example:
///   gabion kms key create data --algorithm XAES-256-GCM
///   echo hi > hi.txt && gabion kms encrypt --key data --out hi.enc hi.txt
///   gabion kms key rotate data && gabion kms rewrap --key data --out new.enc hi.enc
///
/// The service decrypts and encrypts: nobody sees what it is.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RewrapArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The version that is to encrypt [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// FILE is a key that `wrap` wrapped, and stays one
    #[arg(long)]
    wrapped: bool,
    /// The line that `encrypt`, `rewrap`, `datakey` or `wrap` wrote; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Wrap a key that is in a file: only `unwrap` gets it back
///
/// Example:
///   gabion kms key create keys --algorithm XAES-256-GCM
///   gabion keygen ML-KEM-768 --out key.pem && gabion kms wrap --key keys --out key.wrapped key.pem
///
/// Encrypts a file's bytes as `encrypt` does, but for `unwrap` alone: a token may allow one and not the other. The result
/// is a line vault:vN:BASE64.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct WrapArgs {
    /// The key that wraps, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The version that wraps [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// The key to wrap; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Get back a key that was wrapped
///
/// Example:
///   gabion kms key create keys --algorithm XAES-256-GCM
///   gabion keygen ML-KEM-768 --out key.pem && gabion kms wrap --key keys --out key.wrapped key.pem
///   gabion kms unwrap --key keys --out back.pem key.wrapped
///
/// Exits 1 where it does not unwrap, whatever of it is another. The result is written with mode 0600.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct UnwrapArgs {
    /// The key that wrapped it, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// The line that `wrap` wrote; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Runs `encrypt`.
pub fn encrypt(args: EncryptArgs) -> Result<u8, Failure> {
    let ask = || {
        let (plaintext, associated_data) = (secret(&args.file)?, args.beside.sent());
        let (key, version, tenant) = (args.key.clone(), args.number, None);
        Ok(client()?.encrypt(&Encrypt { key, tenant, version, plaintext, associated_data })?)
    };
    args.out.put(&args.file, OutputForm::Line, ask, line_of)
}

/// Runs `decrypt`.
pub fn decrypt(args: DecryptArgs) -> Result<u8, Failure> {
    opened(args, Client::decrypt)
}

/// Runs `rewrap`.
pub fn rewrap(args: RewrapArgs) -> Result<u8, Failure> {
    let ask = || {
        let (version, ciphertext) = read_line(&args.file)?;
        let (key, tenant, to) = (args.key.clone(), None, args.number);
        let associated_data = args.beside.sent();
        let wrapped = Some(true).filter(|_| args.wrapped);
        let what = Rewrap { key, tenant, version, ciphertext, associated_data, to, wrapped };
        Ok(client()?.rewrap(&what)?)
    };
    args.out.put(&args.file, OutputForm::Line, ask, line_of)
}

/// Runs `wrap`.
pub fn wrap(args: WrapArgs) -> Result<u8, Failure> {
    let ask = || {
        let (plaintext, associated_data) = (secret(&args.file)?, args.beside.sent());
        let (key, version, tenant) = (args.key.clone(), args.number, None);
        Ok(client()?.wrap(&Wrap { key, tenant, version, plaintext, associated_data })?)
    };
    args.out.put(&args.file, OutputForm::Line, ask, line_of)
}

/// Runs `unwrap`.
pub fn unwrap(args: UnwrapArgs) -> Result<u8, Failure> {
    let UnwrapArgs { key, beside, file, out } = args;
    opened(DecryptArgs { key, beside, file, out }, Client::unwrap)
}

fn opened(
    args: DecryptArgs,
    call: impl FnOnce(&Client, &Decrypt) -> Result<Decrypted, Error>,
) -> Result<u8, Failure> {
    let ask = || {
        let (version, ciphertext) = read_line(&args.file)?;
        let (key, tenant, associated_data) = (args.key.clone(), None, args.beside.sent());
        let version = Some(version);
        let what = Decrypt { key, tenant, version, ciphertext, associated_data };
        Ok(call(&client()?, &what)?)
    };
    let result = |opened: &Decrypted| decoded(&opened.plaintext);
    args.out.put(&args.file, OutputForm::Secret, ask, result)
}

fn line_of(made: &Encrypted) -> Result<Zeroizing<Vec<u8>>, Failure> {
    line(made.version, &made.ciphertext)
}
