//! `gabion provider`: manages Gabion's module in an installed OpenSSL.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use gabion_ship::system_config::{self, ConfigOutcome, ConfigRequest};
use gabion_ship::{bundle, provider as ship};

use crate::failure::Failure;

/// Add Gabion's provider to an installed OpenSSL 3.5 or newer.
#[derive(Parser)]
#[command(after_help = "Example:
  sudo gabion provider install && gabion provider config > gabion.cnf
  OPENSSL_CONF=$PWD/gabion.cnf openssl list -providers")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the lines to add to OpenSSL's configuration file.
    #[command(after_help = "Example:\n  gabion provider config --openssl /usr/bin/openssl")]
    Config(Target),
    /// Copy the module to OpenSSL's module folder.
    #[command(after_help = "Example:\n  sudo gabion provider install --openssl /usr/bin/openssl")]
    Install(Install),
    /// Load the module in every OpenSSL program of this host, by adding it to the configuration
    /// file.
    ///
    /// Before the file is replaced, `openssl` processes test the new content: they hash, sign,
    /// verify, prepare a TLS client and load the module. The previous content is saved as
    /// openssl.cnf.gabion-backup next to it. Other settings in the file are kept. If a check fails,
    /// the file is not changed and the exit code is 1.
    #[command(after_help = "Example:\n  sudo gabion provider enable")]
    Enable(Enable),
    /// Remove the additions of `enable` from the configuration file, whether the module is present
    /// or not.
    #[command(after_help = "Example:\n  sudo gabion provider disable")]
    Disable(Edit),
    /// Update the gabion.so of every bundle in ~/.cache/gabion.
    #[command(after_help = "Example:\n  gabion provider refresh")]
    Refresh(Module),
}

#[derive(Parser)]
struct Target {
    /// The openssl command of that installation
    #[arg(long, value_name = "BIN", default_value = "openssl")]
    openssl: PathBuf,
}

#[derive(Parser)]
struct Install {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    module: Module,
}

#[derive(Parser)]
struct Enable {
    #[command(flatten)]
    edit: Edit,
    /// Gabion's provider module [default: gabion.so in OpenSSL's module folder, or the one
    /// installed with this program]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

#[derive(Parser)]
struct Edit {
    #[command(flatten)]
    target: Target,
    /// The configuration file [default: openssl.cnf of that installation]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Edit {
    fn request(&self) -> ConfigRequest {
        ConfigRequest { openssl: self.target.openssl.clone(), config: self.config.clone() }
    }

    /// Prints what was done; `unchanged` is the message if nothing changed.
    fn print(&self, outcome: &ConfigOutcome, unchanged: &str) -> Result<(), Failure> {
        if self.json {
            let text = serde_json::to_string(outcome);
            say!("{}", text.map_err(|cause| Failure::NotReady(cause.to_string()))?);
            return Ok(());
        }
        if !outcome.changed {
            eprintln!("{unchanged}");
        }
        if let Some(backup) = &outcome.backup {
            eprintln!("its content before is in {}", backup.display());
        }
        if let Some(warning) = &outcome.warning {
            eprintln!("warning: {}", crate::failure::plain(warning));
        }
        say!("{}", outcome.config.display());
        Ok(())
    }
}

#[derive(Parser)]
struct Module {
    /// Gabion's provider module [default: the one installed with this program]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

impl Module {
    fn file(self) -> Result<PathBuf, Failure> {
        self.module.or_else(ship::find_module).ok_or_else(|| {
            Failure::NotReady(
                "no provider module next to this program (libgabion_provider.so or \
                 ../lib/gabion/gabion.so); build it with `cargo build --release`, or name it with \
                 --module"
                    .to_string(),
            )
        })
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.action {
        Action::Config(target) => {
            let installed = ship::inspect(&target.openssl)?;
            crate::stdout::print(format_args!("{}", ship::configuration(&installed)))?;
        }
        Action::Install(install) => {
            let installed = ship::inspect(&install.target.openssl)?;
            let module = install.module.file()?;
            let (place, changed) = ship::install(&installed, &module)?;
            if !changed {
                eprintln!("already up to date");
            }
            say!("{}", place.display());
            eprintln!("`gabion provider config` prints the lines for its configuration file");
        }
        Action::Enable(enable) => {
            let outcome = system_config::enable(&enable.edit.request(), enable.module.as_deref())?;
            enable.edit.print(&outcome, "already enabled")?;
        }
        Action::Disable(edit) => {
            let outcome = system_config::disable(&edit.request())?;
            edit.print(&outcome, "not enabled by `gabion provider enable`")?;
        }
        Action::Refresh(module) => {
            let module = module.file()?;
            for bundle in bundle::usual_bundles()? {
                let place = bundle.gabion_module();
                if ship::place_module(&module, &place)? {
                    say!("{}", place.display());
                }
            }
        }
    }
    Ok(0)
}
