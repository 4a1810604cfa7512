//! `gabion hbs backup` and `gabion hbs restore`: a key's files in one file, and back.

use std::path::PathBuf;

use gabion_state::Surroundings;

use super::{KeyPath, key_file, named_file};
use crate::failure::Failure;
use crate::files::{self, Existing};

/// Write a key and its state into one file, for the day that the disk is lost
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs backup key --out key.backup
///
/// Restored, it signs only where nothing was signed since; else `gabion hbs recover` has to be told how much to burn. It
/// holds the private key, encrypted if that is.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct BackupArgs {
    #[command(flatten)]
    key: KeyPath,
    /// File for the backup, which must not be there
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Write a key and its state from a backup
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs backup key --out key.backup
///   mkdir elsewhere && gabion hbs restore key.backup --out elsewhere/key
///
/// The key's anchors are not in a backup. Where they are, the restored key signs if nothing was signed since; else it is
/// refused, and `gabion hbs recover` burns what is said to be used.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File for the private key, which must not be there
    #[arg(long, value_name = "KEY")]
    out: PathBuf,
}

/// Runs `backup`.
pub fn backup(args: BackupArgs) -> Result<u8, Failure> {
    let around = Surroundings::real();
    key_file(&around, &args.key.key)?;
    is_free("--out", &args.out)?;
    let files = gabion_state::files(&around, &args.key.key)?;
    let taken: Vec<_> = files.iter().map(|file| ("a file of the key", file.as_path())).collect();
    files::places_of([("--out", args.out.as_path())], &[], &taken, Existing::Keep)?;
    gabion_state::backup(&around, &args.key.key, &args.out)?;
    Ok(0)
}

/// Runs `restore`.
pub fn restore(args: RestoreArgs) -> Result<u8, Failure> {
    named_file("FILE", &args.file)?;
    is_free("--out", &args.out)?;
    gabion_state::restore(&Surroundings::real(), &args.file, &args.out)?;
    Ok(0)
}

/// Refuses what is there: neither a key nor a backup of one is replaced.
fn is_free(option: &str, path: &std::path::Path) -> Result<(), Failure> {
    named_file(option, path)?;
    if path.symlink_metadata().is_ok() {
        let shown = files::shown(path, "-");
        return Err(Failure::Usage(format!("{shown} exists; expected a new file for {option}")));
    }
    Ok(())
}
