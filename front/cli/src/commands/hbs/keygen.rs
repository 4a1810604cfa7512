//! `gabion hbs keygen`: a private key with its state, and the public key.

use gabion_state::{Generated, Sets, Surroundings};

use super::new_key::{NewKeyArgs, watched};
use crate::failure::Failure;
use crate::keys;

/// Make a key of LMS, HSS, XMSS or XMSS^MT, with the state that signing needs
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H10:LMOTS_SHA256_N32_W4 --out key --pub pub.pem
///   gabion hbs keygen LMS_SHA256_M24_H10_W4 --profile cnsa2 --out key2 --pub pub2.pem
///
/// SET is a set that `gabion hbs params` lists, such as XMSS-SHA2_10_192, a pair LMS:LMOTS, pairs with `,` between the levels
/// of HSS, or a name of wolfSSL's, such as WC_LMS_PARM_L2_H10_W4. The private key and its state are files that belong together: KEY,
/// KEY.state, KEY.log, KEY.lock, KEY.trees. Where the state is, in which folder, is for ever: docs/state.md.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Parameter set, of LMS that of each level
    #[arg(value_name = "SET", default_value = "LMS_SHA256_M32_H15_W2")]
    sets: Sets,
    #[command(flatten)]
    new: NewKeyArgs,
    /// Refuse what a profile does not allow
    #[arg(long, value_enum)]
    profile: Option<Profile>,
}

/// Rules of somebody's for parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Profile {
    /// CNSA 2.0: one tree.
    Cnsa2,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Args { sets, new, profile } = args;
    match profile {
        None => {}
        Some(Profile::Cnsa2) => check_cnsa2(&sets)?,
    }
    let around = Surroundings::real();
    let new = new.checked(&around, &[])?;
    new.check_encoding(&sets)?;
    let engine = keys::engine()?;
    let made = Generated::generate(&around, engine, sets.clone(), new.threads(), &mut watched())?;
    let made = made.ok_or_else(|| Failure::NotReady("the key was not made".to_owned()))?;
    new.write(&around, &made, 0, &format!("made: {sets}"))?;
    Ok(0)
}

/// CNSA 2.0 allows LMS and XMSS of one tree, and neither HSS nor XMSS^MT.
fn check_cnsa2(sets: &Sets) -> Result<(), Failure> {
    if !sets.is_one_tree() {
        return Err(Failure::Usage(
            "CNSA 2.0 allows one tree and no levels (HSS, XMSS^MT); expected one set, such as LMS_SHA256_M24_H15_W4"
                .to_owned(),
        ));
    }
    eprintln!(
        "note: CNSA 2.0 wants keys made and used in a validated module (SP 800-208); this is software, and is not"
    );
    Ok(())
}
