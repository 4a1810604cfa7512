//! `gabion bench tls`: full handshakes in memory, provider by provider.

use crate::seed;
use crate::tls::{self, Config, Provider, Stack};
use clap::{Parser, ValueEnum};

use super::setup::{Setup, lines, print};
use gabion_cli::failure::Failure;

/// Measure full TLS 1.3 handshakes of the bundle's libssl or of rustls, per side
///
/// Handshakes run in memory: the server signs, the client verifies the chain and the name, and
/// nothing is resumed. Without --provider, default and gabion alternate in slices of 0.25 s; if
/// OpenSSL lacks the group or the signature, only gabion is measured. Results are medians of CPU
/// time over the slices. For rustls, the providers are gabion and aws-lc-rs, which is its default.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench tls --group X25519MLKEM768 --sig ML-DSA-65 --seconds 10
  gabion bench tls --stack openssl,rustls --cipher TLS_AES_256_GCM_SHA384
  gabion bench tls --table seed --seconds 2 --threads 2\n
Groups:     X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024, MLKEM512, MLKEM768, MLKEM1024,
            x25519, secp256r1, secp384r1; default: libssl's own list, with two key shares of the
            client; only with gabion: SecP256r1MLKEM512, SecP384r1MLKEM768,
            SecP521r1MLKEM1024, MLKEM512X25519
Signatures: ML-DSA-44, ML-DSA-65, ML-DSA-87, ECDSA-P-256, ECDSA-P-384, Ed25519, RSA-2048; only with
            gabion, with a codepoint of a draft or a private one: SLH-DSA-SHA2-128s, SLH-DSA-SHA2-128f,
            SLH-DSA-SHA2-192s, SLH-DSA-SHA2-192f, SLH-DSA-SHA2-256s, SLH-DSA-SHA2-256f,
            SLH-DSA-SHAKE-128s, SLH-DSA-SHAKE-128f, SLH-DSA-SHAKE-192s, SLH-DSA-SHAKE-192f,
            SLH-DSA-SHAKE-256s, SLH-DSA-SHAKE-256f, Falcon-512, Falcon-1024, Falcon-padded-512,
            Falcon-padded-1024\n
Exits 1 if a handshake fails or does not have the requested parameters, 3 if the bundle or a provider
does not load.")]
pub struct Args {
    /// Key exchange group, in upper or lower case
    #[arg(long, value_name = "NAME", default_value = "X25519MLKEM768")]
    group: String,
    /// Algorithm of the server's and the root's keys, in upper or lower case [default: ML-DSA-65;
    /// with --table: RSA-2048]
    #[arg(long, value_name = "NAME")]
    sig: Option<String>,
    /// Cipher suite, such as TLS_AES_128_GCM_SHA256 [default: OpenSSL's choice; with --table:
    /// TLS_AES_256_GCM_SHA384]
    #[arg(long, value_name = "NAME")]
    cipher: Option<String>,
    /// Measure a table instead: for each of its groups, connections, throughput, the time to the
    /// last byte of 50 KiB, and 1 to --threads threads
    #[arg(long, value_enum, conflicts_with = "group")]
    table: Option<TableName>,
    /// TLS library; may be given several times, and their providers alternate [default: openssl]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "table")]
    stack: Vec<StackName>,
    /// Provider to measure; may be given several times, and providers alternate
    #[arg(long, value_enum, value_delimiter = ',')]
    provider: Vec<LaneName>,
    /// Time for each provider and each row of a table, in seconds; may be fractional
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Number of threads; with --table, the maximum
    #[arg(long, value_name = "T", default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    setup: Setup,
    /// Print one JSON object per line, for each provider and row
    #[arg(long)]
    json: bool,
}

/// `--provider`.
#[derive(Clone, Copy, ValueEnum)]
enum LaneName {
    /// OpenSSL's default provider
    Default,
    /// Gabion's provider, preferred to default
    Gabion,
    /// OpenSSL's FIPS provider
    Fips,
    /// OpenSSL's code with the core patch and GABION_OFFLOAD=1; not with --table
    Offload,
    /// aws-lc-rs, for rustls only
    AwsLcRs,
}

/// `--stack`.
#[derive(Clone, Copy, ValueEnum)]
enum StackName {
    /// The bundle's libssl
    Openssl,
    /// rustls
    Rustls,
}

impl From<StackName> for Stack {
    fn from(name: StackName) -> Stack {
        match name {
            StackName::Openssl => Stack::Openssl,
            StackName::Rustls => Stack::Rustls,
        }
    }
}

impl From<LaneName> for Provider {
    fn from(name: LaneName) -> Provider {
        match name {
            LaneName::Default => Provider::Default,
            LaneName::Gabion => Provider::Gabion,
            LaneName::Fips => Provider::Fips,
            LaneName::Offload => Provider::Offload,
            LaneName::AwsLcRs => Provider::AwsLcRs,
        }
    }
}

/// `--table`.
#[derive(Clone, Copy, ValueEnum)]
enum TableName {
    /// Every group of the benchmark that wolfSSL published in 2022, in its order
    Seed,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if args.table.is_some() {
        return run_seed(args);
    }
    let json = args.json;
    let rows = tls::compare(&config(args)?)?;
    print(&if json { lines(&rows)? } else { tls::render(&rows) })
}

/// The published benchmark's rows; as JSON each is printed when it is there.
fn run_seed(args: Args) -> Result<u8, Failure> {
    let (prefix, modules) = args.setup.places()?;
    let mut providers: Vec<Provider> = args.provider.into_iter().map(Provider::from).collect();
    if providers.is_empty() {
        providers = vec![Provider::Default, Provider::Gabion];
    }
    let config = seed::Config {
        prefix,
        modules,
        providers,
        signature: args.sig.unwrap_or_else(|| "RSA-2048".to_owned()),
        cipher: args.cipher,
        seconds: args.seconds,
        threads: args.threads,
    };
    let mut failed = None;
    let rows = seed::measure(&config, |row| {
        if args.json && failed.is_none() {
            failed = lines(std::slice::from_ref(row)).and_then(|line| print(&line)).err();
        }
    })?;
    match failed {
        Some(failure) => Err(failure),
        None if args.json => Ok(0),
        None => print(&seed::render(&rows)),
    }
}

fn config(args: Args) -> Result<Config, Failure> {
    let (prefix, modules) = args.setup.places()?;
    Ok(Config {
        modules,
        group: args.group,
        signature: args.sig.unwrap_or_else(|| "ML-DSA-65".to_owned()),
        cipher: args.cipher,
        stacks: args.stack.into_iter().map(Stack::from).collect(),
        providers: args.provider.into_iter().map(Provider::from).collect(),
        seconds: args.seconds,
        threads: args.threads,
        program: std::env::current_exe().ok(),
        ..Config::new(prefix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help spells the names out; they must be the harness's.
    #[test]
    fn the_help_lists_every_name() {
        let help = <Args as clap::CommandFactory>::command().render_long_help().to_string();
        for name in tls::groups().into_iter().chain(tls::signatures()) {
            assert!(help.contains(name), "{name} is not in the help");
        }
    }

    #[test]
    fn providers_may_be_listed() {
        let args = Args::try_parse_from(["tls", "--provider", "default,fips"]).unwrap();
        assert_eq!(args.provider.len(), 2);
        assert!(Args::try_parse_from(["tls", "--provider", "oqs"]).is_err());
    }
}
