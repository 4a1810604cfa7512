//! Common parts of the measuring commands: the location of OpenSSL, the providers, the output of
//! rows.

use std::path::PathBuf;

use crate::tls::Provider;
use crate::wire::Table;
use clap::ValueEnum;
use gabion_ship::environment::Settings;
use serde::Serialize;

use gabion_cli::failure::Failure;
use gabion_cli::stamp::StampedRow;

/// Options that say which OpenSSL is measured.
#[derive(clap::Args)]
pub struct Setup {
    /// Folder of another OpenSSL 3.5 or later [default: the bundle]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

impl Setup {
    /// OpenSSL's folder, and that of the modules where it is another one.
    pub fn places(self) -> Result<(PathBuf, Option<PathBuf>), Failure> {
        let settings = Settings::from_process()?;
        let usual = settings.layout.prefix().to_path_buf();
        if self.prefix.is_none() && usual.is_dir() {
            settings.layout.check_trust()?;
        }
        Ok((self.prefix.unwrap_or(usual), settings.modules_override))
    }
}

/// `--provider`.
#[derive(Clone, Copy, ValueEnum)]
pub enum ProviderName {
    /// OpenSSL's default provider
    Default,
    /// Gabion's provider, preferred to default
    Gabion,
    /// OpenSSL's FIPS provider
    Fips,
}

impl From<ProviderName> for Provider {
    fn from(name: ProviderName) -> Provider {
        match name {
            ProviderName::Default => Provider::Default,
            ProviderName::Gabion => Provider::Gabion,
            ProviderName::Fips => Provider::Fips,
        }
    }
}

/// `--table`.
#[derive(Clone, Copy, ValueEnum)]
pub enum TableName {
    /// The rows of 2022
    Seed,
    /// Today's groups and signatures
    Today,
    /// Both
    All,
}

impl From<TableName> for Table {
    fn from(name: TableName) -> Table {
        match name {
            TableName::Seed => Table::Seed,
            TableName::Today => Table::Today,
            TableName::All => Table::All,
        }
    }
}

/// One JSON object a line.
pub fn lines<T: Serialize>(rows: &[T]) -> Result<String, Failure> {
    let mut text = String::new();
    for row in rows {
        let line = serde_json::to_string(&StampedRow::now(row))
            .map_err(|cause| Failure::NotReady(format!("a row as JSON: {cause}")))?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// Prints a command's result.
pub fn print(text: &str) -> Result<u8, Failure> {
    gabion_cli::stdout::print(format_args!("{text}")).map(|()| 0)
}
