//! `gabion hbs recover`: makes a key usable again whose state is not safe.

use gabion_engine::keys::stateful::LedgerError;
use gabion_state::Environment;

use super::status::{print, verdict};
use super::{KeyPath, key_file};
use crate::failure::{Failure, NEXT_KEY, plain};

/// Make a key usable again whose state is not safe, by burning indexes
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs recover key --burn 8
///
/// Burns every index that the state, the log or an anchor has seen, and N more, and creates missing
/// anchors. N must cover all signatures that none of these witnesses has seen: made by a copy, or
/// lost with a disk. The command does not ask for confirmation. A damaged log is copied to
/// KEY.log.1 and continued after its last intact line. A key that was handed over from here is
/// refused without --i-have-destroyed-every-other-copy. A key that was retired here is always
/// refused.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// How many indexes to burn beyond the highest that any witness has seen
    #[arg(long, value_name = "N")]
    burn: u64,
    /// Take back a key that was handed over from here, because the hand-over was abandoned or the
    /// key was handed back. Confirms that no other copy or backup of it exists and that --burn
    /// covers all signatures made elsewhere. The log records this
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
