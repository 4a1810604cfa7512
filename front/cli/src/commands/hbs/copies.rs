//! `gabion hbs backup`, `gabion hbs restore` and `gabion hbs retire`.

use std::path::PathBuf;

use gabion_state::{Environment, Lifecycle, status};

use super::{KeyPath, key_file, named_file};
use crate::failure::Failure;
use crate::files::{self, OverwritePolicy};

/// Back up a key and its state to one file
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs backup key --out key.backup
///
/// A restored key signs only if nothing was signed after the backup; otherwise `gabion hbs recover`
/// needs the number of indexes to burn. The backup contains the private key, encrypted if the key
/// is.
///
/// With --hand-over the key moves to another host. The anchors here durably record that the key no
/// longer signs here before FILE appears under its name. If the command is interrupted, run it
/// again. After restoring the key on the other host, run `gabion hbs recover KEY --burn 0` there.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct BackupArgs {
    #[command(flatten)]
    key: KeyPath,
    /// Backup file; must not exist
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Hand the key (or sector) over to another host: it no longer signs here
    #[arg(long)]
    hand_over: bool,
}

/// Retire a key or a sector in this home: neither it nor a copy of it signs here again
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs retire key
///
/// The anchors here record this durably; missing anchors are created. It cannot be undone. Other
/// homes and hosts are not affected: remove copies and backups there. The files stay, and `gabion
/// hbs log` and `audit` still read them.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RetireArgs {
    #[command(flatten)]
    key: KeyPath,
}

/// Restore a key and its state from a backup
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs backup key --out key.backup
///   mkdir elsewhere && gabion hbs restore key.backup --out elsewhere/key
///
/// A backup does not contain the key's anchors. If the anchors are present, the restored key signs
/// if nothing was signed after the backup. Otherwise it is refused until `gabion hbs recover` has
/// burned the indexes that may be used. A key that was handed over or retired is refused too.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RestoreArgs {
    /// Backup file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File for the private key; must not exist
    #[arg(long, value_name = "KEY")]
    out: PathBuf,
}

/// Runs `backup`.
pub fn backup(args: BackupArgs) -> Result<u8, Failure> {
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    named_file("--out", &args.out)?;
    // An interrupted hand-over may have completed its backup.
    let goes_on =
        args.hand_over && status(&around, &args.key.key)?.lifecycle == Lifecycle::HandingOver;
    let existing = match goes_on {
        true => OverwritePolicy::Replace,
        false => is_free("--out", &args.out).map(|()| OverwritePolicy::Keep)?,
    };
    let files = gabion_state::files(&around, &args.key.key)?;
    let taken: Vec<_> = files.iter().map(|file| ("a file of the key", file.as_path())).collect();
    files::places_of([("--out", args.out.as_path())], &[], &taken, existing)?;
    if !args.hand_over {
        gabion_state::backup(&around, &args.key.key, &args.out)?;
        return Ok(0);
    }
    if gabion_state::hand_over(&around, &args.key.key, &file.identity(), &args.out)? {
        eprintln!(
            "warning: an earlier hand-over was interrupted; destroy any other backup that it wrote, because only one host may use \
             the key"
        );
    }
    eprintln!(
        "note: the key no longer signs here; restore {} on one host, and run `gabion hbs recover KEY --burn 0` there",
        files::shown(&args.out, "-")
    );
    Ok(0)
}

/// Runs `retire`.
pub fn retire(args: RetireArgs) -> Result<u8, Failure> {
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    gabion_state::retire(&around, &args.key.key, &file.identity())?;
    eprintln!("note: the key no longer signs here; remove its copies and backups elsewhere");
    Ok(0)
}

/// Runs `restore`.
pub fn restore(args: RestoreArgs) -> Result<u8, Failure> {
    named_file("FILE", &args.file)?;
    is_free("--out", &args.out)?;
    gabion_state::restore(&Environment::real(), &args.file, &args.out)?;
    Ok(0)
}

/// Fails if the path exists: neither a key nor a backup is ever replaced.
fn is_free(option: &str, path: &std::path::Path) -> Result<(), Failure> {
    named_file(option, path)?;
    if path.symlink_metadata().is_ok() {
        let shown = files::shown(path, "-");
        return Err(Failure::Usage(format!("{shown} exists; expected a new file for {option}")));
    }
    Ok(())
}
