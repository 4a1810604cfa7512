//! `gabion hbs backup` and `gabion hbs restore`: a key's files in one file, and back. `gabion hbs retire`.

use std::path::PathBuf;

use gabion_state::{Environment, Lifecycle, status};

use super::{KeyPath, key_file, named_file};
use crate::failure::Failure;
use crate::files::{self, OverwritePolicy};

/// Write a key and its state into one file, for the day that the disk is lost
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs backup key --out key.backup
///
/// Restored, it signs only where nothing was signed since; else `gabion hbs recover` has to be told how much to burn. It
/// holds the private key, encrypted if that is.
///
/// With --hand-over the key moves to another host: its anchors here say durably that it no longer signs here, before FILE has
/// its name. Run it again if it was interrupted. Restored there, the key needs `gabion hbs recover --burn 0`.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct BackupArgs {
    #[command(flatten)]
    key: KeyPath,
    /// File for the backup, which must not be there
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Hand the key, or the sector of one, over to another host: it no longer signs here
    #[arg(long)]
    hand_over: bool,
}

/// End a key, or a sector of one, in this home: neither it nor a copy of it signs here any more
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs retire key
///
/// Its anchors here say so durably, and those that are missing are made. Nothing undoes it. It changes no other home and no
/// other host, so remove copies and backups there. The files stay; `gabion hbs log` and `audit` read them.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RetireArgs {
    #[command(flatten)]
    key: KeyPath,
}

/// Write a key and its state from a backup
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs backup key --out key.backup
///   mkdir elsewhere && gabion hbs restore key.backup --out elsewhere/key
///
/// The key's anchors are not in a backup. Where they are, the restored key signs if nothing was signed since; else it is
/// refused, and `gabion hbs recover` burns what is said to be used. Where the key was handed over or retired, it is refused, too.
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
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    named_file("--out", &args.out)?;
    // The backup of a hand-over that was interrupted may be whole.
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
            "warning: an earlier hand-over was interrupted; destroy any other backup that it wrote, since only one host may go on with \
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

/// Refuses what is there: neither a key nor a backup of one is replaced.
fn is_free(option: &str, path: &std::path::Path) -> Result<(), Failure> {
    named_file(option, path)?;
    if path.symlink_metadata().is_ok() {
        let shown = files::shown(path, "-");
        return Err(Failure::Usage(format!("{shown} exists; expected a new file for {option}")));
    }
    Ok(())
}
