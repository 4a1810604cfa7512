//! `gabion exec`: runs a command in the bundle's environment, behind the FIPS guard.

use std::ffi::OsString;

use clap::Parser;
use gabion_ship::environment::Settings;
use gabion_ship::exec::{self, ExecFailure};

use crate::failure::Failure;

/// Exit code of a shell for a command that was not found.
const NOT_FOUND: u8 = 127;
/// Exit code of a shell for a command that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;

/// Run a command with the bundle's OpenSSL and Gabion's provider.
///
/// Exits with the command's own exit status, with 3 if the FIPS guard refuses to start it, with 127
/// if the command is not found, and with 126 if it cannot be executed.
#[derive(Parser)]
#[command(after_help = "Example:
  GABION_OPENSSL_FIPS_MODE=only gabion exec -- openssl list -providers

Variables:
  GABION_OPENSSL_FIPS_MODE        off (default): nothing is checked; ready: the FIPS provider is
                                  tried, what is missing is a warning; only: the command starts
                                  when the FIPS provider serves ML-KEM, ML-DSA and SLH-DSA
  GABION_OPENSSL_SKIP_FIPS_GUARD  1: start without that check, for debugging
  GABION_OPENSSL_PREFIX           the bundle's folder
  GABION_OPENSSL_MODULES          folder of provider modules, for OPENSSL_MODULES
  GABION_OPENSSL_CONF             configuration file, for OPENSSL_CONF
  GABION_OPENSSL_ANY_OWNER        1: accept a bundle of another user, for containers whose folders
                                  belong to a user outside
  A path that does not exist is an error. Without GABION_OPENSSL_PREFIX, the bundle is the newest
  finished one of the 3.5 line in ~/.cache/gabion/openssl; else the one that was installed with
  this program, in ../lib/gabion/openssl or /usr/lib/gabion/openssl.")]
pub struct Args {
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Runs the command. Returns only if it could not be started.
pub fn run(args: Args) -> Result<u8, Failure> {
    let settings = Settings::from_process()?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::Usage("no command to run; expected `gabion exec -- CMD`".to_string()));
    };
    match exec::exec(&settings, program, arguments) {
        Ok(never) => match never {},
        Err(ExecFailure::Refused(error)) => Err(error.into()),
        Err(ExecFailure::NotFound(text)) => {
            eprintln!("error: {text}");
            Ok(NOT_FOUND)
        }
        Err(ExecFailure::NotExecutable(text)) => {
            eprintln!("error: {text}");
            Ok(NOT_EXECUTABLE)
        }
    }
}
