//! `gabion hbs keygen`: generates a private key with its state, and the public key.

use std::time::Duration;

use gabion_engine::Algorithm;
use gabion_state::{Environment, Sets};

use super::CNSA;
use super::new_key::{NewKeyArgs, not_made, watched};
use crate::failure::Failure;
use crate::keys;

/// Generate an LMS, HSS, XMSS or XMSS^MT key, with the state that signing needs
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H10:LMOTS_SHA256_N32_W4 --out key --pub pub.pem
///   gabion hbs keygen LMS_SHA256_M24_H10_W4 --profile cnsa2 --out key2 --pub pub2.pem
///
/// SET is one of: a set that `gabion hbs params` lists, such as XMSS-SHA2_10_192; a pair LMS:LMOTS;
/// pairs separated by `,`, one for each level of HSS; or a wolfSSL name, such as
/// WC_LMS_PARM_L2_H10_W4. The private key and its state are files that belong together: KEY,
/// KEY.state, KEY.log, KEY.lock, KEY.trees. The folder cannot be changed later: see
/// docs/operate/state.md.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Parameter set; for LMS and HSS, the set of each level
    #[arg(value_name = "SET", default_value = "LMS_SHA256_M32_H15_W2")]
    sets: Sets,
    #[command(flatten)]
    new: NewKeyArgs,
    /// Generate N keys with one public key, KEY-0, KEY-1 and so on, one per host. Each has its own
    /// share of the indexes and no other key signs with it. N is a power of two up to 1024; SET
    /// must be LMS with one level
    #[arg(long, value_name = "N", default_value = "1")]
    sectors: u32,
    /// Save the progress to KEY.part every so many seconds (sectors: KEY-0.part, KEY-1.part and so
    /// on). The same command resumes after an interruption. KEY.part is as secret as KEY
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    checkpoint: u64,
    /// Reject parameters that the profile does not allow
    #[arg(long, value_enum)]
    profile: Option<Profile>,
}

/// A profile that restricts the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Profile {
    /// CNSA 2.0: one tree
    Cnsa2,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Args { sets, new, sectors, checkpoint, profile } = args;
    match profile {
        None => {}
        Some(Profile::Cnsa2) => check_cnsa2(&sets)?,
    }
    check_sectors(&sets, sectors)?;
    let around = Environment::real();
    let new = new.checked(&around, &[], sectors, true)?;
    new.check_encoding(&sets)?;
    let engine = keys::engine()?;
    let (threads, watch) = (new.threads(), &mut watched());
    let every = Duration::from_secs(checkpoint);
    let made = match sectors {
        1 => {
            let made = new.begun(&around, &sets)?.generate(engine, threads, every, watch)?;
            made.map(|made| vec![made])
        }
        _ => new.begun_sectors(&around, &sets)?.generate(engine, threads, every, watch)?,
    };
    let made = made.ok_or_else(not_made)?;
    let note = match sectors {
        1 => format!("made: {sets}"),
        _ => format!("made: {sets}, in {sectors} sectors"),
    };
    new.write(&around, &made, 0, &note)?;
    Ok(0)
}

/// Checks the number of sectors. Sectors are subtrees of one LMS tree, at least two leaves high,
/// and at most 1024.
fn check_sectors(sets: &Sets, count: u32) -> Result<(), Failure> {
    let most = (sets.signatures() / 2).min(1024);
    let is_lms = sets.algorithm() == Algorithm::Hss && sets.is_one_tree();
    if count == 1 || is_lms && count.is_power_of_two() && u64::from(count) <= most {
        return Ok(());
    }
    let expected = match is_lms {
        true => format!("a power of two up to {most}"),
        false => "a set of LMS with one level".to_owned(),
    };
    Err(Failure::Usage(format!("{sets} has no {count} sectors; expected {expected}")))
}

/// Checks that CNSA 2.0 allows the sets: LMS and XMSS with one tree, neither HSS nor XMSS^MT.
fn check_cnsa2(sets: &Sets) -> Result<(), Failure> {
    if !sets.is_one_tree() {
        return Err(Failure::Usage(format!(
            "{CNSA}; expected one set, such as LMS_SHA256_M24_H15_W4"
        )));
    }
    eprintln!("note: {CNSA}");
    Ok(())
}
