//! `gabion kms encrypt`, `decrypt`, `rewrap`, `wrap` and `unwrap`: encryption with keys of the
//! service.

use std::path::PathBuf;

use gabion_kms_client::{Client, Error};
use gabion_kms_wire::native::{Decrypt, Decrypted, Encrypt, Encrypted, Rewrap, Wrap};
use zeroize::Zeroizing;

use super::client;
use super::outcome::{
    AssociatedDataArgs, OutputArgs, OutputForm, decoded, line, read_line, secret,
};
use crate::failure::Failure;

/// Encrypt a file or standard input with a key of the service
///
/// Example:
///   gabion kms key create data --algorithm XAES-256-GCM
///   echo hi > hi.txt && gabion kms encrypt --key data --out hi.enc hi.txt
///
/// The ciphertext is a line vault:vN:BASE64, where N is the key version; it is compatible with
/// Vault. For data that exceeds the maximum request size, use `gabion kms datakey`.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct EncryptArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version to encrypt with [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// File to encrypt; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Decrypt a ciphertext of `encrypt`, `rewrap` or `datakey`
///
/// Example:
///   gabion kms key create data --algorithm XAES-256-GCM
///   echo hi > hi.txt && gabion kms encrypt --key data --out hi.enc hi.txt
///   gabion kms decrypt --key data --out back.txt hi.enc
///
/// Exits 1 if decryption fails, without saying which part differs. The plaintext is written with
/// mode 0600.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct DecryptArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// Ciphertext line written by `encrypt`, `rewrap` or `datakey`; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Re-encrypt a ciphertext with the newest version of the key
///
/// Example:
///   gabion kms key create data --algorithm XAES-256-GCM
///   echo hi > hi.txt && gabion kms encrypt --key data --out hi.enc hi.txt
///   gabion kms key rotate data && gabion kms rewrap --key data --out new.enc hi.enc
///
/// Decryption and encryption happen in the service; the plaintext does not leave it.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RewrapArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version to encrypt with [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// FILE is a key wrapped by `wrap`; the result is too
    #[arg(long)]
    wrapped: bool,
    /// Ciphertext line written by `encrypt`, `rewrap`, `datakey` or `wrap`; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Encrypt key material that only `unwrap` decrypts
///
/// Example:
///   gabion kms key create keys --algorithm XAES-256-GCM
///   gabion keygen ML-KEM-768 --out key.pem && gabion kms wrap --key keys --out key.wrapped key.pem
///
/// Encrypts the bytes of a file like `encrypt`, but only `unwrap` accepts the result: a token can
/// allow one and not the other. The result is a line vault:vN:BASE64.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct WrapArgs {
    /// The wrapping key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Version of the wrapping key [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// File with the key to wrap; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Decrypt key material that `wrap` encrypted
///
/// Example:
///   gabion kms key create keys --algorithm XAES-256-GCM
///   gabion keygen ML-KEM-768 --out key.pem && gabion kms wrap --key keys --out key.wrapped key.pem
///   gabion kms unwrap --key keys --out back.pem key.wrapped
///
/// Exits 1 if unwrapping fails, without saying which part differs. The result is written with mode
/// 0600.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct UnwrapArgs {
    /// The wrapping key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// Line written by `wrap`; `-` is standard input
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
