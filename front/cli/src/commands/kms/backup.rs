//! `gabion kms backup` and `restore`.

use std::path::PathBuf;

use gabion_kms_server::ServiceHost;
use gabion_kms_server::config::Config;

use super::{client, say_json};
use crate::failure::Failure;

/// Back up the store of a running server
///
/// Example:
///   gabion kms backup
///
/// The backup is written to the backup folder of the server's configuration. It contains the store as
/// of the start of the command; the server continues to serve. It is encrypted under the key of
/// its backup period, which is stored in another folder, and is opened by the same shares or
/// passphrase as the store now. Prints its path on the server.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct BackupArgs {
    /// Print the service's answer as one JSON object: file, path, revision, period
    #[arg(long)]
    json: bool,
}

/// Restore a store from a backup; the store must not be in use
///
/// Example:
///   gabion kms restore --config kms.toml 20261126T062205123Z.backup
///
/// The store that the configuration names must not exist. The restored store is the next
/// incarnation of the same store, and sealed. The key of the copy's period is read from backup.keys
/// in the configuration. When the store is unsealed, revocations and deletions that the audit log
/// recorded after the copy are applied again; `gabion kms unseal` prints each of them.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct RestoreArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Key of the backup's period, if it is not in the folder backup.keys
    #[arg(long, value_name = "FILE")]
    backup_key: Option<PathBuf>,
    /// The backup: a path, or the name of a file in backup.folder
    backup: PathBuf,
}

/// Runs `backup`.
pub fn backup(args: BackupArgs) -> Result<u8, Failure> {
    let made = client()?.backup()?;
    if args.json {
        say_json(&made)?;
    } else {
        say!("{}", made.path.unwrap_or(made.file));
    }
    Ok(0)
}

/// Runs `restore`.
pub fn restore(args: RestoreArgs) -> Result<u8, Failure> {
    let config = Config::read(&args.config)?;
    ServiceHost::restore(&config, &args.backup, args.backup_key.as_deref())?;
    Ok(0)
}
