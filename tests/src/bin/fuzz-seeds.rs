//! Writes the seeds of fuzzing: `fuzz-seeds FOLDER` makes FOLDER/TARGET/seed-N for every target,
//! and copies its regressions into the same folder.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gabion_tests::fuzz::{TARGETS, regressions};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("error: expected a folder; example: fuzz-seeds corpus");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: can't write seeds to {}: {error}", folder.display());
            ExitCode::from(3)
        }
    }
}

fn write(folder: &Path) -> std::io::Result<()> {
    for target in &TARGETS {
        let corpus = folder.join(target.name);
        std::fs::create_dir_all(&corpus)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(corpus.join(format!("seed-{number}")), seed)?;
        }
        for (name, bytes) in regressions(target.name)? {
            std::fs::write(corpus.join(format!("regression-{name}")), bytes)?;
        }
    }
    Ok(())
}
