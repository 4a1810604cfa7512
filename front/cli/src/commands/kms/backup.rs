//! `gabion kms backup` and `restore`.

use std::path::PathBuf;

use gabion_kms_server::ServiceHost;
use gabion_kms_server::config::Config;

use super::{client, say_json};
use crate::failure::Failure;

/// Have the server make a copy of its store, while it serves
///
/// Example:
///   gabion kms backup
///
/// The copy goes to the folder that the server's configuration names. It has what the store had when it was begun; the server goes
/// on meanwhile. It is sealed by the key of its period, which is in another
/// folder, and opens with what opens the seal now. Prints the path of the copy on the server.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct BackupArgs {
    /// Print the service's answer as one JSON object: file, path, revision, period
    #[arg(long)]
    json: bool,
}

/// Make a store of a copy; nobody may be serving it
///
/// Example:
///   gabion kms restore --config kms.toml 20261126T062205123Z.backup
///
/// The store that the configuration names must not be there. It is the same store's next incarnation, and sealed. The key of the
/// copy's period is looked for in the folder that the configuration names (backup.keys). When its seal is opened, what the audit
/// log says was taken away since is taken away again, and `gabion kms unseal` says a line each.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RestoreArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The key of the copy's period, where it is not in the folder for those
    #[arg(long, value_name = "FILE")]
    backup_key: Option<PathBuf>,
    /// The copy: a path, or the name of a file in backup.folder
    backup: PathBuf,
}

/// Makes a copy.
pub fn backup(args: BackupArgs) -> Result<u8, Failure> {
    let made = client()?.backup()?;
    if args.json {
        say_json(&made)?;
    } else {
        say!("{}", made.path.unwrap_or(made.file));
    }
    Ok(0)
}

/// Makes a store of one.
pub fn restore(args: RestoreArgs) -> Result<u8, Failure> {
    let config = Config::read(&args.config)?;
    ServiceHost::restore(&config, &args.backup, args.backup_key.as_deref())?;
    Ok(0)
}
