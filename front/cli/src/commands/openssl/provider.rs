//! `gabion provider`: our module in an OpenSSL that is already installed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use gabion_ship::system_config::{self, ConfigOutcome, ConfigRequest};
use gabion_ship::{bundle, provider as ship};

use crate::failure::Failure;

/// Add Gabion's provider to an OpenSSL 3.5 or newer that is already installed.
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
    /// Print what to add to its configuration file.
    #[command(after_help = "Example:\n  gabion provider config --openssl /usr/bin/openssl")]
    Config(Target),
    /// Copy the module into the folder where it looks for modules.
    #[command(after_help = "Example:\n  sudo gabion provider install --openssl /usr/bin/openssl")]
    Install(Install),
    /// Have every OpenSSL program of this host load the module: adds it to the configuration file.
    ///
    /// The file is replaced only after processes of `openssl` hashed, signed and verified with the new content, prepared a TLS
    /// client and loaded the module. openssl.cnf.gabion-backup beside it has the content before. Settings of the
    /// file itself stay. If a check fails, the file is as it was, and the exit code is 1.
    #[command(after_help = "Example:\n  sudo gabion provider enable")]
    Enable(Enable),
    /// Take out of the configuration file what `enable` added, whether the module is there or not.
    #[command(after_help = "Example:\n  sudo gabion provider disable")]
    Disable(Edit),
    /// Bring the gabion.so of every bundle in ~/.cache/gabion up to date.
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
    /// Gabion's provider module [default: gabion.so in OpenSSL's module folder, or the one that came with this program]
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

    /// Prints what was done; `unchanged` says why nothing was.
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
    /// Gabion's provider module [default: the one that came with this program]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

impl Module {
    fn file(self) -> Result<PathBuf, Failure> {
        self.module.or_else(ship::find_module).ok_or_else(|| {
            Failure::NotReady(
                "no provider module beside this program (libgabion_provider.so or \
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
            eprintln!("`gabion provider config` prints what its configuration needs");
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
