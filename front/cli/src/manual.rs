//! Generates shell completions and manual pages from the definition of a command line.

use std::path::PathBuf;

use clap::{Command, Parser, ValueEnum};
use clap_complete::aot::{Generator, Shell as Script};

use crate::failure::Failure;

/// Returns the text after the options in the help of `PROGRAM completions`: an example, and the
/// folders that shells search.
pub fn help_of_completions(program: &str) -> String {
    format!(
        "Example:
  {program} completions bash >{program}.bash

Shells look for scripts in these places:
  bash  /usr/share/bash-completion/completions/{program}
        ~/.local/share/bash-completion/completions/{program}
  fish  /usr/share/fish/vendor_completions.d/{program}.fish
        ~/.config/fish/completions/{program}.fish
  zsh   /usr/share/zsh/vendor-completions/_{program}, or any folder of $fpath"
    )
}

/// Print a completion script for bash, fish or zsh
#[derive(Parser)]
pub struct Completions {
    /// The shell to print the script for
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

impl Completions {
    /// Prints the completion script of `program`.
    pub fn run(self, mut program: Command) -> Result<u8, Failure> {
        let shell = match self.shell {
            Shell::Bash => Script::Bash,
            Shell::Fish => Script::Fish,
            Shell::Zsh => Script::Zsh,
        };
        program.set_bin_name(program.get_name().to_owned());
        program.build();
        let mut script = Vec::new();
        shell.generate(&program, &mut script);
        crate::stdout::print(format_args!("{}", String::from_utf8_lossy(&script)))?;
        Ok(0)
    }
}

/// Write the manual pages, one per command, to a folder.
#[derive(Parser)]
pub struct Man {
    /// The folder, created if it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    /// Writes the manual pages of `program`.
    pub fn run(self, program: Command) -> Result<u8, Failure> {
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(program, &self.folder));
        let place = self.folder.display();
        written
            .map(|()| 0)
            .map_err(|cause| Failure::NotReady(format!("cannot write to {place}: {cause}")))
    }
}
