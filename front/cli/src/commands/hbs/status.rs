//! `gabion hbs status`: shows how much of a key is used, and whether it may sign.

use std::path::Path;

use gabion_state::{Environment, Paths, Status, status};
use serde_json::json;

use super::{KeyPath, key_file};
use crate::failure::{Failure, NEXT_KEY, plain};

/// Show how much of a key is used and whether it may sign
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   gabion hbs status key
///   gabion hbs status key --json
///
/// Changes nothing and needs no password. Exits 4 if the state is not safe, if the log is damaged,
/// incomplete or unreadable, or if the key is used up.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// Print one JSON object: index, remaining, burnt, imported, generation, anchors, holder,
    /// refusal, warnings
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    let status = status(&around, &args.key.key)?;
    status.check_key(&args.key.key, file.public())?;
    if args.json {
        say!("{}", as_json(&status));
    } else {
        say!("set         {}", file.sets());
        print(&status)?;
    }
    for warning in &status.warnings {
        eprintln!("warning: {}", plain(warning));
    }
    verdict(&status, &args.key.key)
}

/// Returns the failure that forbids signing with the key, or exit code 0.
pub fn verdict(status: &Status, key: &Path) -> Result<u8, Failure> {
    let anchors = status.anchors.iter();
    let anchor =
        anchors.filter_map(|(name, refusal)| Some(format!("{name}: {}", refusal.as_ref()?)));
    let mut refusals = status.refusal.clone().into_iter().chain(anchor);
    match refusals.next() {
        Some(reason) => {
            let way_on = Paths::new(key).recovery_command(status.lifecycle);
            Err(Failure::Refused(format!("the state is not safe to sign with: {reason}; {way_on}")))
        }
        None if status.remaining.left == 0 => {
            Err(Failure::Refused(format!("the key is used up; {NEXT_KEY}")))
        }
        None => Ok(0),
    }
}

/// Prints the status as text.
pub fn print(status: &Status) -> Result<(), Failure> {
    let Status { index, remaining, generation, .. } = status;
    let low = if remaining.is_low { " (low)" } else { "" };
    say!("next index  {index}");
    say!("remaining   {}{low}", remaining.left);
    say!("burnt       {} at most", remaining.burnt);
    if status.imported > 0 {
        say!("imported    {} used elsewhere or skipped", status.imported);
    }
    say!("generation  {generation}");
    for (name, refusal) in &status.anchors {
        say!("anchor      {name}: {}", refusal.as_deref().unwrap_or("agrees"));
    }
    say!("holder      {}", status.holder.as_deref().unwrap_or("none"));
    Ok(())
}

fn as_json(status: &Status) -> serde_json::Value {
    let anchor =
        |(name, refusal): &(String, Option<String>)| json!({"name": name, "refusal": refusal});
    json!({
        "index": status.index,
        "remaining": status.remaining.left,
        "burnt": status.remaining.burnt,
        "imported": status.imported,
        "generation": status.generation,
        "anchors": status.anchors.iter().map(anchor).collect::<Vec<_>>(),
        "holder": status.holder,
        "refusal": status.refusal,
        "warnings": status.warnings,
    })
}
