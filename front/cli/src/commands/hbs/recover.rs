//! `gabion hbs recover`: goes on with a key whose state is not safe.

use gabion_engine::keys::stateful::LedgerError;
use gabion_state::Environment;

use super::status::{print, verdict};
use super::{KeyPath, key_file};
use crate::failure::{Failure, NEXT_KEY, plain};

/// Go on with a key whose state is not safe, by burning indexes
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs recover key --burn 8
///
/// Burns every index that state, log or an anchor saw, and N more, and makes the anchors that are missing. N has to
/// cover what was signed where none of these witnesses was: with a lost disk, or by a copy. It asks nothing. A log that is
/// damaged is copied to KEY.log.1, and goes on behind what is whole of it. A key that was handed over from here is refused without
/// --i-have-destroyed-every-other-copy, and one that was retired here always.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// How many indexes to burn, more than the highest that any witness saw
    #[arg(long, value_name = "N")]
    burn: u64,
    /// Take back a key that was handed over from here: the hand-over was given up, or the key was handed back. States that no
    /// other copy or backup of it is left, and that --burn covers what was signed elsewhere. The log keeps that
    #[arg(long)]
    i_have_destroyed_every_other_copy: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    let recover = match args.i_have_destroyed_every_other_copy {
        true => gabion_state::take_back,
        false => gabion_state::recover,
    };
    let recovered = recover(&around, &args.key.key, &file.identity(), args.burn);
    let status = recovered.map_err(|error| match error {
        LedgerError::Exhausted { wanted, left } => Failure::Refused(format!(
            "nothing was burnt: --burn is {wanted}, and {left} are left; burn fewer if that covers what was signed, or \
             {NEXT_KEY}"
        )),
        error => error.into(),
    })?;
    print(&status)?;
    for warning in &status.warnings {
        eprintln!("warning: {}", plain(warning));
    }
    verdict(&status, &args.key.key)
}
